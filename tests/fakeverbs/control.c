/* SPDX-License-Identifier: Apache-2.0
 * The stand-in's state, and the functions by which tests steer it.
 * Any thread. */
#include "internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct state fv = {.lock = PTHREAD_MUTEX_INITIALIZER,
                   .devices = 1,
                   .port_state = IBV_PORT_ACTIVE,
                   .pkey = 0xffff,
                   .inline_max = 512,
                   .atomics = IBV_ATOMIC_HCA,
                   .max_mr = UINT64_MAX,
                   .offers = UINT32_MAX};

/* KIND[+KIND...]:N counts polls, KIND:Nus is a time. */
static void read_delay(const char *text)
{
    static const struct {
        const char *name;
        unsigned kind;
    } kinds[] = {{"writes", FAKEVERBS_WRITES}, {"reads", FAKEVERBS_READS}, {"atomics", FAKEVERBS_ATOMICS}};
    const char *colon = strchr(text, ':');
    char *end = NULL;
    long n = colon ? strtol(colon + 1, &end, 10) : 0;

    for (int i = 0; i < 3; i++)
        if (colon && memmem(text, (size_t)(colon - text), kinds[i].name, strlen(kinds[i].name)))
            fv.delay.kinds |= kinds[i].kind;
    if (end && strcmp(end, "us") == 0)
        fv.delay.ns = (uint64_t)n * 1000;
    else
        fv.delay.polls = (int)n;
}

__attribute__((constructor)) static void start(void)
{
    const char *n = getenv("FAKEVERBS_DEVICES"), *max = getenv("FAKEVERBS_MAX_MR"),
               *offers = getenv("FAKEVERBS_OFFERS"), *delay = getenv("FAKEVERBS_DELAY"),
               *fast = getenv("FAKEVERBS_FAST");

    pthread_mutex_lock(&fv.lock); /* so that other threads see what is set here; who loaded this need not tell them */
    if (n && *n >= '0' && *n <= '0' + DEVICES_MAX)
        fv.devices = *n - '0';
    if (max)
        fv.max_mr = strtoull(max, NULL, 0);
    if (offers)
        fv.offers = (unsigned)strtoul(offers, NULL, 0);
    if (delay)
        read_delay(delay);
    fv.fast = fast && *fast == '1';
    pthread_mutex_unlock(&fv.lock);
}

int fv_failing(const char *call)
{
    if (!fv.fail_error || strcmp(call, fv.fail_call) != 0)
        return 0;
    if (!fv.fail_nth)
        return fv.fail_error;
    if (--fv.fail_nth)
        return 0;
    int error = fv.fail_error;
    fv.fail_error = 0;
    return error;
}

void fakeverbs_fail(const char *call, int nth, int error)
{
    pthread_mutex_lock(&fv.lock);
    snprintf(fv.fail_call, sizeof fv.fail_call, "%s", call);
    fv.fail_nth = nth;
    fv.fail_error = error;
    pthread_mutex_unlock(&fv.lock);
}

int fakeverbs_unused(void)
{
    int unused;

    pthread_mutex_lock(&fv.lock);
    unused = fv.fail_error != 0;
    pthread_mutex_unlock(&fv.lock);
    return unused;
}

void fakeverbs_complete(int nth, enum ibv_wc_status status, uint32_t vendor)
{
    pthread_mutex_lock(&fv.lock);
    fv.bad_nth = nth;
    fv.bad = (struct fv_bad){status, vendor};
    pthread_mutex_unlock(&fv.lock);
}

void fakeverbs_delay(uint32_t qp_num, unsigned kinds, int polls, long microseconds)
{
    pthread_mutex_lock(&fv.lock);
    fv.delay = (struct fv_delay){qp_num, kinds, polls, (uint64_t)microseconds * 1000};
    pthread_mutex_unlock(&fv.lock);
}

static void send_event(const struct context *c, struct fv_event message)
{
    if (write(c->write_fd, &message, sizeof message) < 0)
        perror("fakeverbs: event");
}

void fakeverbs_event(const char *device, enum ibv_event_type type, int port)
{
    pthread_mutex_lock(&fv.lock);
    for (struct context *c = fv.contexts; c; c = c->next)
        if (strcmp(c->v.context.device->name, device) == 0)
            send_event(c, (struct fv_event){.type = type, .port = port});
    pthread_mutex_unlock(&fv.lock);
}

void fakeverbs_qp_event(uint32_t qp_num, enum ibv_event_type type)
{
    struct qp *qp = fv.qps[fv_place_qp(qp_num)];

    pthread_mutex_lock(&fv.lock);
    for (struct context *c = fv.contexts; c; c = c->next)
        if (qp && qp->v.context == &c->v.context)
            send_event(c, (struct fv_event){.type = type, .qp_num = qp_num});
    pthread_mutex_unlock(&fv.lock);
}

uint32_t fakeverbs_newest_qp(int back)
{
    const struct qp *found = NULL;
    uint64_t below = UINT64_MAX;

    pthread_mutex_lock(&fv.lock);
    for (; back >= 0; back--) {
        found = NULL;
        for (uint32_t i = 0; i < TABLE_QPS; i++)
            if (fv.qps[i] && fv.qps[i]->serial < below && (!found || fv.qps[i]->serial > found->serial))
                found = fv.qps[i];
        below = found ? found->serial : 0;
    }
    pthread_mutex_unlock(&fv.lock);
    return found ? found->v.qp_num : 0;
}

void fakeverbs_address(uint8_t add)
{
    pthread_mutex_lock(&fv.lock);
    fv.address = add;
    pthread_mutex_unlock(&fv.lock);
}

void fakeverbs_pkey(uint16_t key)
{
    pthread_mutex_lock(&fv.lock);
    fv.pkey = key;
    pthread_mutex_unlock(&fv.lock);
}

void fakeverbs_ports(enum ibv_port_state state)
{
    pthread_mutex_lock(&fv.lock);
    fv.port_state = state;
    pthread_mutex_unlock(&fv.lock);
}

void fakeverbs_devices(int n)
{
    pthread_mutex_lock(&fv.lock);
    fv.devices = n;
    pthread_mutex_unlock(&fv.lock);
}

void fakeverbs_inline(uint32_t most)
{
    pthread_mutex_lock(&fv.lock);
    fv.inline_max = most;
    pthread_mutex_unlock(&fv.lock);
}

void fakeverbs_entries(int most)
{
    pthread_mutex_lock(&fv.lock);
    fv.entries = most;
    pthread_mutex_unlock(&fv.lock);
}

void fakeverbs_atomics(enum ibv_atomic_cap cap)
{
    pthread_mutex_lock(&fv.lock);
    fv.atomics = cap;
    pthread_mutex_unlock(&fv.lock);
}

void fakeverbs_big_endian(int replies)
{
    pthread_mutex_lock(&fv.lock);
    fv.big_endian = replies;
    pthread_mutex_unlock(&fv.lock);
}

void fakeverbs_memory(uint64_t max_mr)
{
    pthread_mutex_lock(&fv.lock);
    fv.max_mr = max_mr;
    pthread_mutex_unlock(&fv.lock);
}

void fakeverbs_offers(unsigned mask)
{
    pthread_mutex_lock(&fv.lock);
    fv.offers = mask;
    pthread_mutex_unlock(&fv.lock);
}

struct fakeverbs_counts fakeverbs_counts(void)
{
    struct fakeverbs_counts now;

    pthread_mutex_lock(&fv.lock);
    now = fv.counts;
    pthread_mutex_unlock(&fv.lock);
    return now;
}

int fakeverbs_senders(struct ibv_qp_attr *attr, int most)
{
    int n = 0;

    pthread_mutex_lock(&fv.lock);
    for (uint32_t i = 0; i < TABLE_QPS && n < most; i++)
        if (fv.qps[i] && fv.qps[i]->v.state == IBV_QPS_RTS)
            attr[n++] = fv.qps[i]->attr;
    pthread_mutex_unlock(&fv.lock);
    return n;
}

long fakeverbs_live(void)
{
    struct fakeverbs_counts c = fakeverbs_counts();

    return c.contexts + c.pds + c.tds + c.cqs + c.mrs + c.qps + c.ahs + c.lists + c.events;
}
