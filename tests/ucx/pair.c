/* SPDX-License-Identifier: Apache-2.0
 * Two instances of the plugin in one process. Main thread. */
#include "pair.h"

#include "../base/cmocka_headers.h"

#include <dlfcn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

const char *const *pair_options;
char pair_said[400];

static void log_line(const struct ferry_core *core, int level, const char *format, ...)
{
    va_list args;

    (void)core;
    if (level > FERRY_LOG_WARN)
        return;
    va_start(args, format);
    vsnprintf(pair_said, sizeof pair_said, format, args);
    va_end(args);
}

static const char *wanted(const char *name)
{
    for (const char *const *at = pair_options; at && at[0]; at += 2)
        if (strcmp(at[0], name) == 0)
            return at[1];
    return NULL;
}

/* All options of the plugin are choices. */
static int option(const struct ferry_core *core, const char *name, struct ferry_value *value)
{
    const struct ferry_option *row = pair_plugin()->options;
    const char *text, *at;

    (void)core;
    while (row->name && strcmp(row->name, name) != 0)
        row++;
    if (!row->name)
        return FERRY_ERR_NOT_FOUND;
    text = wanted(name) ? wanted(name) : row->initial;
    value->string = text;
    value->number = 0;
    for (at = row->choices; strncmp(at, text, strlen(text)) != 0; at = strchr(at, '|') + 1)
        value->number++;
    return FERRY_OK;
}

static void record(const struct ferry_core *core, const struct ferry_error *error)
{
    (void)core;
    snprintf(pair_said, sizeof pair_said, "%s", error->message);
}

static const struct ferry_core the_core = {
    .abi = FERRY_TRANSPORT_ABI, .size = sizeof the_core, .log = log_line, .option = option, .error = record};

const struct ferry_plugin *pair_plugin(void)
{
    static const struct ferry_plugin *plugin;
    void *library;

    if (plugin)
        return plugin;
    library = dlopen(getenv("FERRY_TEST_UCX"), RTLD_NOW | RTLD_LOCAL);
    plugin = library ? dlsym(library, FERRY_PLUGIN_SYMBOL) : NULL;
    if (!plugin)
        fail_msg("FERRY_TEST_UCX: %s", dlerror());
    return plugin;
}

const struct ferry_host_ops *pair_ops(void)
{
    return pair_plugin()->ops;
}

int pair_try_open(uint32_t me, uint32_t n_pes, struct ferry_transport **t)
{
    const struct ferry_open how = {.size = sizeof how, .my_pe = me, .n_pes = n_pes, .max_channels = 4, .job_id = 1};

    return pair_plugin()->open(&the_core, &how, t);
}

static void *reserve(void)
{
    void *at = mmap(NULL, PAIR_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    assert_true(at != MAP_FAILED);
    return at;
}

static void make_memory(struct pair *p, struct side *s)
{
    struct ferry_memory memory = {
        .size = sizeof memory, .address = reserve(), .length = PAIR_BYTES, .fd = -1, .remote = 1};

    p->allocated = (s->caps.flags & FERRY_CAP_MUST_ALLOCATE) != 0;
    assert_int_equal(p->allocated ? pair_ops()->allocate_memory(s->t, &memory, &s->region)
                                  : pair_ops()->register_memory(s->t, &memory, &s->region),
                     FERRY_OK);
    s->memory = memory.address;
    memset(s->memory, 0, PAIR_BYTES);
    s->blob_size = sizeof s->blob;
    assert_int_equal(pair_ops()->export_key(s->t, s->region, s->blob, &s->blob_size), FERRY_OK);
}

void pair_open(struct pair *p)
{
    char why[200];

    memset(p, 0, sizeof *p);
    for (uint32_t i = 0; i < 2; i++) {
        struct side *s = &p->pe[i];
        if (pair_try_open(i, 2, &s->t))
            fail_msg("open: %s", pair_said);
        s->caps.size = sizeof s->caps;
        assert_int_equal(pair_ops()->query(s->t, FERRY_MEMORY_HOST, &s->caps), FERRY_OK);
        assert_int_equal(pair_ops()->export_endpoint(s->t, s->endpoint, &s->endpoint_size), FERRY_OK);
        make_memory(p, s);
    }
    for (int i = 0; i < 2; i++)
        for (uint32_t j = 0; j < 2; j++) {
            struct side *s = &p->pe[i], *o = &p->pe[j];
            if (pair_ops()->reach(s->t, j, o->endpoint, o->endpoint_size, why, sizeof why))
                fail_msg("%d does not reach %u: %s", i, j, why);
            assert_int_equal(pair_ops()->import_key(s->t, j, o->blob, o->blob_size, &s->keys[j]), FERRY_OK);
        }
}

void pair_connect(struct pair *p, int from, uint32_t channel, uint32_t to)
{
    uint8_t out[FERRY_ENDPOINT_MAX], reply[FERRY_ENDPOINT_MAX];
    struct ferry_connect io = {.size = sizeof io, .phase = FERRY_CONNECT_START, .in = p->pe[to].endpoint,
                               .in_size = p->pe[to].endpoint_size, .out = out};

    assert_int_equal(pair_ops()->open_channel(p->pe[from].t, channel), FERRY_OK);
    assert_int_equal(pair_ops()->connect(p->pe[from].t, channel, to, &io), FERRY_OK);
    if (!io.out_size)
        return;
    io = (struct ferry_connect){.size = sizeof io, .phase = FERRY_CONNECT_SERVE, .in = out, .in_size = io.out_size, .out = reply};
    assert_int_equal(pair_ops()->connect(p->pe[to].t, channel, (uint32_t)from, &io), FERRY_OK);
    io = (struct ferry_connect){.size = sizeof io, .phase = FERRY_CONNECT_FINISH, .in = reply, .in_size = io.out_size, .out = out};
    assert_int_equal(pair_ops()->connect(p->pe[from].t, channel, to, &io), FERRY_OK);
}

void pair_turn(struct pair *p)
{
    for (int i = 0; i < 2; i++)
        pair_ops()->progress(p->pe[i].t, FERRY_CHANNEL_SERVICE);
}

double pair_now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

int pair_post(struct pair *p, int from, uint32_t channel, const struct ferry_op *op)
{
    struct ferry_transport *t = p->pe[from].t;
    double end = pair_now() + PAIR_SECONDS;
    int rc;

    do {
        rc = op->kind == FERRY_OP_AMO ? pair_ops()->amo(t, channel, op) : pair_ops()->rma(t, channel, op);
        if (rc != FERRY_AGAIN)
            return rc;
        pair_ops()->progress(t, channel);
        pair_turn(p);
    } while (pair_now() < end);
    return FERRY_ERR_TIMEOUT;
}

int pair_quiet(struct pair *p, int from, uint32_t channel, uint32_t peer)
{
    double end = pair_now() + PAIR_SECONDS;
    uint64_t ticket = 0;
    int rc;

    do {
        rc = pair_ops()->quiet(p->pe[from].t, channel, peer, &ticket);
        if (rc != FERRY_AGAIN)
            return rc;
        pair_ops()->progress(p->pe[from].t, channel);
        pair_turn(p);
    } while (pair_now() < end);
    return FERRY_ERR_TIMEOUT;
}

struct ferry_op pair_put(const struct pair *p, int from, uint32_t to, uint64_t offset, const void *source, size_t length)
{
    return (struct ferry_op){.kind = FERRY_OP_PUT, .peer = to, .local = (void *)(uintptr_t)source,
                             .key = p->pe[from].keys[to], .offset = offset, .length = length};
}

void pair_close(struct pair *p)
{
    for (int i = 0; i < 2; i++) {
        assert_int_equal(pair_ops()->close(p->pe[i].t), FERRY_OK);
        if (!p->allocated)
            munmap(p->pe[i].memory, PAIR_BYTES);
    }
}
