/* SPDX-License-Identifier: Apache-2.0
 * What went wrong: failures of calls, and the first bad completion of each queue pair, with what to do about it.
 * Any thread; records lie under the lock of the instance. */
#include "ibrc.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

int fy_ib_fail(struct ferry_transport *t, int64_t peer, int status, int error, const char *hint, const char *format,
               ...)
{
    va_list args;

    va_start(args, format);
    fy_plugin_fail(&t->lock, &t->failure, peer, status, error, hint, format, args);
    va_end(args);
    return status;
}

static struct fy_ib_qp *find(struct ferry_transport *t, uint32_t channel, uint32_t peer)
{
    struct fy_ib_channel *c = NULL;

    if (channel < t->max_channels && peer < t->n_pes)
        c = __atomic_load_n(&t->channels[channel], __ATOMIC_ACQUIRE);
    return c ? __atomic_load_n(&c->qps[peer], __ATOMIC_ACQUIRE) : NULL;
}

int fy_ib_query_error(struct ferry_transport *t, uint32_t channel, uint32_t peer, struct ferry_error *record)
{
    struct ferry_error e;
    struct fy_ib_qp *q;

    pthread_mutex_lock(&t->lock); /* a channel is closed under it */
    q = find(t, channel, peer);
    e = q && q->error.status ? q->error : t->failure;
    pthread_mutex_unlock(&t->lock);
    return fy_plugin_give(record, e, peer);
}

/* Readers of what the channel's thread writes plainly: a moment late is good enough. */
__attribute__((no_sanitize("thread"))) static void counts(const struct fy_ib_qp *q, unsigned long long *posted,
                                                          unsigned long long *retired)
{
    *posted = q->posted;
    *retired = q->retired;
}

static const char *state_of(struct ibv_qp *qp)
{
    static const char *const names[] = {"RESET", "INIT", "RTR", "RTS", "SQD", "SQE", "ERR"};
    struct ibv_qp_init_attr made;
    struct ibv_qp_attr attr;

    if (ibv_query_qp(qp, &attr, IBV_QP_STATE, &made))
        return "of unknown state";
    return (unsigned)attr.qp_state < sizeof names / sizeof names[0] ? names[attr.qp_state] : "of unknown state";
}

/* A query of the device; the lock keeps the queue pair there. */
int fy_ib_describe(struct ferry_transport *t, uint32_t channel, uint32_t peer, char *text, size_t size)
{
    unsigned long long posted, retired;
    struct fy_ib_qp *q;

    if (size)
        text[0] = '\0';
    pthread_mutex_lock(&t->lock); /* a channel is closed under it */
    q = find(t, channel, peer);
    if (q) {
        counts(q, &posted, &retired);
        snprintf(text, size, "%s:%u queue pair 0x%x %s, %llu requests posted, %llu complete%s",
                 t->devices[q->device].name, q->rail->port, q->qp->qp_num, state_of(q->qp), posted, retired,
                 q->error.status ? ", failed" : "");
    }
    pthread_mutex_unlock(&t->lock);
    return FERRY_OK;
}

/* What a completion status means for the caller. */
static const struct meaning {
    int wc, status;
    const char *hint;
} meanings[] = {
    {IBV_WC_RETRY_EXC_ERR, FERRY_ERR_PEER,
     "the peer is dead or cannot be reached: check the peer, the GID, the MTU and the route between the two ports"},
    {IBV_WC_RNR_RETRY_EXC_ERR, FERRY_ERR_PEER, "the peer takes no requests: is it of the same build?"},
    {IBV_WC_REM_ACCESS_ERR, FERRY_ERR_ACCESS,
     "the target refused key or bounds: the memory was freed, or lies outside what it registered"},
    {IBV_WC_REM_INV_REQ_ERR, FERRY_ERR_ACCESS, "the target's queue pair does not allow this operation, or its length"},
    {IBV_WC_REM_OP_ERR, FERRY_ERR_PEER, "the target's device could not carry it out: look at its kernel log"},
    {IBV_WC_REM_ABORT_ERR, FERRY_ERR_PEER, "the target's device gave up: look at its kernel log"},
    {IBV_WC_LOC_PROT_ERR, FERRY_ERR_TRANSPORT, "the source is not registered, or no longer"},
    {IBV_WC_LOC_LEN_ERR, FERRY_ERR_TRANSPORT, "the message is longer than the port takes"},
    {IBV_WC_LOC_QP_OP_ERR, FERRY_ERR_TRANSPORT,
     "the device refused the request: is the port up, the source registered?"},
    {IBV_WC_LOC_ACCESS_ERR, FERRY_ERR_TRANSPORT, "the local memory is registered read-only"},
    {IBV_WC_WR_FLUSH_ERR, FERRY_ERR_TRANSPORT, "the queue pair left its state: was the port or the device lost?"},
    {IBV_WC_FATAL_ERR, FERRY_ERR_DEVICE, "the device failed: look at the kernel log"},
    {IBV_WC_RESP_TIMEOUT_ERR, FERRY_ERR_PEER, "the target's device did not answer in time: look at its kernel log"},
    {IBV_WC_BAD_RESP_ERR, FERRY_ERR_PEER,
     "the answer makes no sense: are drivers and firmware of both devices of one age? look at both kernel logs"},
};

static const struct meaning *meaning_of(int wc)
{
    static const struct meaning other = {0, FERRY_ERR_TRANSPORT, "look at the kernel log and the counters of the port"};

    for (size_t i = 0; i < sizeof meanings / sizeof meanings[0]; i++)
        if (meanings[i].wc == wc)
            return &meanings[i];
    return &other;
}

/* Under the lock. The first one stays. */
static void keep_locked(struct fy_ib_qp *q, const struct ferry_error *e)
{
    int none = 0;

    if (!q->error.status)
        q->error = *e;
    __atomic_compare_exchange_n(&q->owner->status, &none, e->status, 0, __ATOMIC_RELEASE, __ATOMIC_RELAXED);
    none = 0;
    __atomic_compare_exchange_n(&q->status, &none, e->status, 0, __ATOMIC_RELEASE, __ATOMIC_RELAXED);
}

static void keep(struct ferry_transport *t, struct fy_ib_qp *q, const struct ferry_error *e)
{
    pthread_mutex_lock(&t->lock);
    keep_locked(q, e);
    pthread_mutex_unlock(&t->lock);
}

static void fill(struct ferry_transport *t, struct fy_ib_qp *q, struct ferry_error *e)
{
    e->channel = (int32_t)q->channel;
    snprintf(e->device, sizeof e->device, "%.48s:%u", t->devices[q->device].name, q->rail->port);
}

void fy_ib_completion_error(struct ferry_transport *t, struct fy_ib_qp *q, const struct ibv_wc *wc)
{
    static const char *const kinds[8] = {"put", "get", "atomic", "signal", "flush"};
    const struct meaning *m = meaning_of((int)wc->status);
    unsigned kind = (unsigned)(wc->wr_id >> 61);
    const char *hint = m->hint;
    struct ferry_error e;

    if (__atomic_load_n(&q->status, __ATOMIC_ACQUIRE))
        return;
    if (__atomic_load_n(&q->rail->down, __ATOMIC_ACQUIRE))
        hint = "the port of this PE is down: check cable and interface";
    fy_plugin_record(&e, q->peer, m->status, (int64_t)wc->status, hint);
    fill(t, q, &e);
    e.operation = kind == FY_IB_FLUSH ? -1 : (int32_t)kind;
    e.vendor = wc->vendor_err;
    snprintf(e.message, sizeof e.message,
             "%s: %s of channel %u to pe %u, queue pair 0x%x, request %u, ended with %s (status %d, vendor 0x%x)",
             e.device, kinds[kind], q->channel, q->peer, q->qp->qp_num, (unsigned)wc->wr_id,
             ibv_wc_status_str(wc->status), (int)wc->status, wc->vendor_err);
    keep(t, q, &e);
}

static void fill_lost(struct ferry_transport *t, struct fy_ib_qp *q, struct ferry_error *e, int status, int64_t library,
                      const char *what, const char *hint)
{
    fy_plugin_record(e, q->peer, status, library, hint);
    fill(t, q, e);
    snprintf(e->message, sizeof e->message, "%s: channel %u to pe %u, queue pair 0x%x: %s%s%s", e->device, q->channel,
             q->peer, q->qp->qp_num, what, library ? ": " : "", library ? strerror((int)library) : "");
}

void fy_ib_qp_error(struct ferry_transport *t, struct fy_ib_qp *q, int status, int64_t library, const char *what,
                    const char *hint)
{
    struct ferry_error e;

    fill_lost(t, q, &e, status, library, what, hint);
    keep(t, q, &e);
}

uint32_t fy_ib_lost(struct ferry_transport *t, int (*concerns)(const struct fy_ib_qp *q, const void *arg),
                    const void *arg, int status, const char *what, const char *hint, struct ferry_error *first)
{
    uint32_t n = 0;

    pthread_mutex_lock(&t->lock); /* a channel is closed under it */
    for (uint32_t channel = 0; channel < t->max_channels; channel++)
        for (uint32_t peer = 0; peer < t->n_pes; peer++) {
            struct fy_ib_qp *q = find(t, channel, peer);
            struct ferry_error e;
            if (!q && !peer && !__atomic_load_n(&t->channels[channel], __ATOMIC_ACQUIRE))
                break;
            if (!q || !concerns(q, arg))
                continue;
            fill_lost(t, q, &e, status, 0, what, hint);
            keep_locked(q, &e);
            if (!n++)
                *first = e;
        }
    pthread_mutex_unlock(&t->lock);
    return n;
}
