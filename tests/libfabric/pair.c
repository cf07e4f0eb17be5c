/* SPDX-License-Identifier: Apache-2.0
 * See pair.h.
 * Main thread of a test. */
#include "pair.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#define PATIENCE 30.0 /* seconds: a test that waits longer has failed */

double seconds(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

const struct ferry_plugin *plugin(void)
{
    const char *path = getenv("FERRY_TEST_LIBFABRIC");
    void *library = dlopen(path ? path : "plugins/libfabric.so", RTLD_NOW | RTLD_LOCAL);
    const struct ferry_plugin *p = library ? dlsym(library, FERRY_PLUGIN_SYMBOL) : NULL;

    if (!p) {
        fprintf(stderr, "%s\n", dlerror());
        exit(1);
    }
    return p;
}

const struct ferry_host_ops *ops(void)
{
    return plugin()->ops;
}

static void stub_log(const struct ferry_core *core, int level, const char *format, ...)
{
    struct stub *stub = (struct stub *)(uintptr_t)core;
    va_list args;

    if (level != FERRY_LOG_INFO && level != FERRY_LOG_WARN)
        return;
    va_start(args, format);
    vsnprintf(level == FERRY_LOG_WARN ? stub->warning : stub->note, sizeof stub->note, format, args);
    va_end(args);
}

void assert_says(const char *text, const char *words)
{
    if (!strstr(text, words))
        fail_msg("\"%s\" is not in \"%s\"", words, text);
}

static int index_of(const char *choices, const char *value)
{
    int index = 0;

    for (size_t length; *choices; choices += length + (choices[length] == '|'), index++) {
        length = strcspn(choices, "|");
        if (strlen(value) == length && memcmp(choices, value, length) == 0)
            return index;
    }
    return -1;
}

static int stub_option(const struct ferry_core *core, const char *name, struct ferry_value *value)
{
    const struct stub *stub = (const struct stub *)(uintptr_t)core;
    const struct ferry_option *row = plugin()->options;
    const char *text;

    while (row->name && strcmp(row->name, name) != 0)
        row++;
    if (!row->name)
        return FERRY_ERR_NOT_FOUND;
    text = row->initial;
    for (const char *const *s = stub->set; s && *s; s += 2)
        if (strcmp(s[0], name) == 0)
            text = s[1];
    *value = (struct ferry_value){.string = text};
    if (row->type == FERRY_OPTION_CHOICE)
        value->number = index_of(row->choices, text);
    else if (row->type == FERRY_OPTION_BOOL)
        value->number = strcmp(text, "yes") == 0;
    else if (row->type != FERRY_OPTION_STRING)
        value->number = strtoll(text, NULL, 0);
    return FERRY_OK;
}

static void stub_error(const struct ferry_core *core, const struct ferry_error *record)
{
    struct stub *stub = (struct stub *)(uintptr_t)core;

    stub->last = *record;
    stub->errors++;
}

static void stub_deliver(const struct ferry_core *core, uint32_t from, uint64_t data)
{
    struct stub *stub = (struct stub *)(uintptr_t)core;

    stub->delivered++;
    stub->sum += data;
    stub->from = from;
}

void stub_init(struct stub *stub, const char *const *set)
{
    memset(stub, 0, sizeof *stub);
    stub->core = (struct ferry_core){.abi = FERRY_TRANSPORT_ABI,
                                     .size = sizeof stub->core,
                                     .log = stub_log,
                                     .option = stub_option,
                                     .error = stub_error,
                                     .deliver = stub_deliver};
    stub->set = set;
}

int side_open(struct side *s, uint32_t me, const char *const *set)
{
    struct ferry_open how = {.size = sizeof how, .my_pe = me, .n_pes = 2, .max_channels = 16, .job_id = 1};
    struct ferry_memory memory = {
        .size = sizeof memory, .kind = FERRY_MEMORY_HOST, .length = MEMORY, .fd = -1, .remote = 1};
    int rc;

    memset(s, 0, sizeof *s);
    stub_init(&s->stub, set);
    rc = plugin()->open(&s->stub.core, &how, &s->t);
    if (rc) {
        s->t = NULL;
        return rc;
    }
    s->memory = mmap(NULL, MEMORY, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (s->memory == MAP_FAILED)
        exit(1);
    rc = ops()->export_endpoint(s->t, s->endpoint, &s->endpoint_size); /* once, as the core does */
    memory.address = s->memory;
    return rc ? rc : ops()->register_memory(s->t, &memory, &s->region);
}

void side_close(struct side *s)
{
    if (!s->t)
        return;
    ops()->close(s->t);
    munmap(s->memory, MEMORY);
    s->t = NULL;
}

static void exchange(struct side *from, struct side *to, uint32_t peer)
{
    uint8_t blob[FERRY_KEY_MAX];
    char why[256] = "";
    size_t size = 0;

    if (ops()->reach(to->t, peer, from->endpoint, from->endpoint_size, why, sizeof why) != FERRY_OK)
        fail_msg("%s", why);
    assert_int_equal(ops()->export_key(from->t, from->region, blob, &size), FERRY_OK);
    assert_int_equal(ops()->import_key(to->t, peer, blob, size, &to->key), FERRY_OK);
}

int pair_connect(struct pair *p, uint32_t channel, int from, int to)
{
    uint8_t out[FERRY_ENDPOINT_MAX];
    struct ferry_connect io = {.size = sizeof io,
                               .phase = FERRY_CONNECT_START,
                               .in = p->pe[to].endpoint,
                               .in_size = p->pe[to].endpoint_size,
                               .out = out};
    int rc = ops()->open_channel(p->pe[from].t, channel);

    return rc ? rc : ops()->connect(p->pe[from].t, channel, (uint32_t)to, &io);
}

void pair_open(struct pair *p, const char *const *set)
{
    assert_int_equal(side_open(&p->pe[0], 0, set), FERRY_OK);
    assert_int_equal(side_open(&p->pe[1], 1, set), FERRY_OK);
    exchange(&p->pe[1], &p->pe[0], 1);
    exchange(&p->pe[0], &p->pe[1], 0);
    assert_int_equal(pair_connect(p, 0, 0, 1), FERRY_OK);
}

void pair_close(struct pair *p)
{
    side_close(&p->pe[0]);
    side_close(&p->pe[1]);
}

void pair_serve(struct pair *p)
{
    ops()->progress(p->pe[1].t, FERRY_CHANNEL_SERVICE);
    ops()->progress(p->pe[0].t, FERRY_CHANNEL_SERVICE);
}

int pair_post(struct pair *p, const struct ferry_op *op)
{
    double end = seconds() + PATIENCE;
    int rc = FERRY_AGAIN;

    while (rc == FERRY_AGAIN && seconds() < end) {
        rc = op->kind == FERRY_OP_AMO ? ops()->amo(p->pe[0].t, 0, op) : ops()->rma(p->pe[0].t, 0, op);
        if (rc == FERRY_AGAIN) {
            ops()->progress(p->pe[0].t, 0);
            pair_serve(p);
        }
    }
    return rc;
}

int pair_quiet(struct pair *p)
{
    double end = seconds() + PATIENCE;
    uint64_t ticket = 0;
    int rc = FERRY_AGAIN;

    while (rc == FERRY_AGAIN && seconds() < end) {
        rc = ops()->quiet(p->pe[0].t, 0, 1, &ticket);
        pair_serve(p);
    }
    return rc;
}

struct ferry_op put_op(struct pair *p, uint64_t from, uint64_t to, size_t length)
{
    return (struct ferry_op){.kind = FERRY_OP_PUT,
                             .peer = 1,
                             .local = p->pe[0].memory + from,
                             .region = p->pe[0].region,
                             .key = p->pe[0].key,
                             .offset = to,
                             .length = length};
}

struct ferry_op amo_op(struct pair *p, uint64_t at, int kind, unsigned width, uint64_t operand)
{
    return (struct ferry_op){.kind = FERRY_OP_AMO,
                             .amo = (uint8_t)kind,
                             .width = (uint8_t)width,
                             .peer = 1,
                             .key = p->pe[0].key,
                             .offset = at,
                             .length = width,
                             .operand = operand};
}

struct ferry_caps caps_of(struct side *s)
{
    struct ferry_caps caps = {.size = sizeof caps};

    assert_int_equal(ops()->query(s->t, FERRY_MEMORY_HOST, &caps), FERRY_OK);
    return caps;
}
