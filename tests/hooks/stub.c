/* SPDX-License-Identifier: Apache-2.0
 * The transport below and the core above a hook, for tests. See stub.h.
 * One thread. */
#include "stub.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct stub *stub_of(struct ferry_transport *t)
{
    return (struct stub *)(void *)t;
}

struct stub *stub_new(void)
{
    struct stub *stub = calloc(1, sizeof *stub);

    assert_non_null(stub);
    stub->events = calloc(STUB_EVENTS, sizeof *stub->events);
    assert_non_null(stub->events);
    stub->caps = (struct ferry_caps){.flags = FERRY_CAP_GET | FERRY_CAP_FENCED | FERRY_CAP_QUIET_PEER |
                                              FERRY_CAP_UNREGISTERED_LOCAL,
                                     .domain = FERRY_DOMAIN_CPU,
                                     .amo32 = 0,
                                     .amo64 = 0x1f | 0xffu << 16,
                                     .copy_max = 4096,
                                     .inline_max = 64,
                                     .message_max = STUB_MEMORY,
                                     .max_channels = 0};
    return stub;
}

void stub_free(struct stub *stub)
{
    free(stub->events);
    free(stub);
}

static void perform(struct stub *stub, struct stub_event *e)
{
    const struct ferry_op *op = &e->op;
    uint8_t *there = stub->memory[op->key->peer] + op->offset;
    uint64_t old;

    if (op->kind == FERRY_OP_PUT) {
        memcpy(there, op->flags & FERRY_OP_COPY ? e->copy : op->local, op->length);
    } else if (op->kind == FERRY_OP_GET) {
        memcpy(op->local, there, op->length);
    } else {
        memcpy(&old, there, sizeof old);
        if (op->flags & FERRY_OP_FETCH)
            memcpy(op->local, &old, sizeof old);
        old = op->amo == FERRY_AMO_ADD ? old + op->operand : op->operand;
        memcpy(there, &old, sizeof old);
    }
    e->complete = ++stub->clock;
}

/* The first that is not complete. */
static uint64_t first_open(struct stub *stub)
{
    while (stub->all_before < stub->n && stub->events[stub->all_before].complete)
        stub->all_before++;
    return stub->all_before;
}

static uint32_t in_flight(struct stub *stub)
{
    uint32_t out = 0;

    for (uint64_t i = first_open(stub); i < stub->n; i++)
        out += !stub->events[i].complete;
    return out;
}

static int post(struct ferry_transport *t, uint32_t channel, const struct ferry_op *op)
{
    struct stub *stub = stub_of(t);
    struct stub_event *e = &stub->events[stub->n];

    stub->asked++;
    if (stub->fail_at && stub->asked >= stub->fail_at)
        return stub->fail_with;
    if ((stub->again_every && stub->asked % stub->again_every == 0) ||
        (stub->max_out && in_flight(stub) >= stub->max_out))
        return FERRY_AGAIN;
    assert_true(stub->n < STUB_EVENTS);
    assert_true(op->peer < STUB_PES && op->offset + op->length <= STUB_MEMORY);
    assert_true(op->region || !op->local || (op->flags & FERRY_OP_COPY) ||
                (stub->caps.flags & FERRY_CAP_UNREGISTERED_LOCAL));
    if (op->region) { /* covers what it is given for */
        assert_true((char *)op->local >= (char *)op->region->address);
        assert_true((char *)op->local + op->length <= (char *)op->region->address + op->region->length);
    }
    if (op->flags & FERRY_OP_FENCED)
        stub->borders[op->peer]++;
    e->op = *op;
    e->channel = channel;
    e->peer = op->peer;
    e->border = stub->borders[op->peer];
    e->posted = ++stub->clock;
    e->wait = stub->latency;
    if (op->kind == FERRY_OP_PUT && (op->flags & FERRY_OP_COPY)) {
        assert_true(op->length <= stub->caps.copy_max && op->length <= sizeof e->copy);
        memcpy(e->copy, op->local, op->length);
    }
    stub->n++;
    if (!e->wait)
        perform(stub, e);
    return FERRY_OK;
}

static int fence(struct ferry_transport *t, uint32_t channel, uint32_t peer)
{
    (void)channel;
    stub_of(t)->borders[peer]++;
    return FERRY_OK;
}

static void age(struct stub *stub)
{
    for (uint64_t i = first_open(stub); i < stub->n; i++)
        if (!stub->events[i].complete && stub->events[i].wait-- == 1)
            perform(stub, &stub->events[i]);
}

static int quiet(struct ferry_transport *t, uint32_t channel, uint32_t peer, uint64_t *ticket)
{
    struct stub *stub = stub_of(t);

    (void)channel;
    if (stub->fail_ticket_at && ++stub->quiets >= stub->fail_ticket_at)
        return stub->fail_with;
    assert_true(peer == FERRY_PEER_ALL || (stub->caps.flags & FERRY_CAP_QUIET_PEER));
    if (*ticket == 0)
        *ticket = stub->n + 1;
    age(stub);
    for (uint64_t i = first_open(stub); i + 1 < *ticket; i++)
        if (!stub->events[i].complete && (peer == FERRY_PEER_ALL || stub->events[i].peer == peer))
            return FERRY_AGAIN;
    return FERRY_OK;
}

static int progress(struct ferry_transport *t, uint32_t channel)
{
    (void)channel;
    stub_of(t)->progresses++;
    age(stub_of(t));
    return FERRY_AGAIN;
}

static int export_endpoint(struct ferry_transport *t, void *blob, size_t *size)
{
    (void)t;
    memcpy(blob, "stub", 4);
    *size = 4;
    return FERRY_OK;
}

static int reach(struct ferry_transport *t, uint32_t peer, const void *blob, size_t size, char *why, size_t why_size)
{
    (void)t, (void)blob, (void)size;
    if (peer < STUB_PES)
        return FERRY_OK;
    snprintf(why, why_size, "there is no pe %u", peer);
    return FERRY_ERR_UNREACHABLE;
}

static int open_channel(struct ferry_transport *t, uint32_t channel)
{
    (void)channel;
    stub_of(t)->channels++;
    return FERRY_OK;
}

static int close_channel(struct ferry_transport *t, uint32_t channel)
{
    (void)channel;
    stub_of(t)->channels--;
    return FERRY_OK;
}

static int connect_peer(struct ferry_transport *t, uint32_t channel, uint32_t peer, struct ferry_connect *io)
{
    (void)t, (void)channel, (void)peer;
    io->out_size = 0;
    return FERRY_OK;
}

static int disconnect(struct ferry_transport *t, uint32_t peer)
{
    (void)t, (void)peer;
    return FERRY_OK;
}

static int register_memory(struct ferry_transport *t, const struct ferry_memory *memory, struct ferry_region **region)
{
    *region = malloc(sizeof **region);
    assert_non_null(*region);
    **region = (struct ferry_region){memory->address, memory->length};
    stub_of(t)->regions++;
    return FERRY_OK;
}

static int deregister_memory(struct ferry_transport *t, struct ferry_region *region)
{
    stub_of(t)->regions--;
    free(region);
    return FERRY_OK;
}

static int allocate_memory(struct ferry_transport *t, struct ferry_memory *memory, struct ferry_region **region)
{
    memory->address = malloc(memory->length);
    return register_memory(t, memory, region);
}

static int free_memory(struct ferry_transport *t, struct ferry_region *region)
{
    free(region->address);
    return deregister_memory(t, region);
}

static int export_key(struct ferry_transport *t, struct ferry_region *region, void *blob, size_t *size)
{
    (void)t, (void)region, (void)blob;
    *size = 0;
    return FERRY_OK;
}

static int import_key(struct ferry_transport *t, uint32_t peer, const void *blob, size_t size, struct ferry_rkey **key)
{
    (void)blob, (void)size;
    *key = malloc(sizeof **key);
    assert_non_null(*key);
    (*key)->peer = peer;
    stub_of(t)->keys++;
    return FERRY_OK;
}

static int release_key(struct ferry_transport *t, struct ferry_rkey *key)
{
    stub_of(t)->keys--;
    free(key);
    return FERRY_OK;
}

static int map_key(struct ferry_transport *t, const struct ferry_rkey *key, void **address)
{
    *address = stub_of(t)->memory[key->peer];
    return FERRY_OK;
}

static int batch(struct ferry_transport *t, uint32_t channel, const struct ferry_op *ops, size_t n, size_t *done)
{
    (void)t, (void)channel, (void)ops, (void)n;
    *done = 0;
    return FERRY_ERR_UNSUPPORTED;
}

static int query(struct ferry_transport *t, uint32_t memory_kind, struct ferry_caps *caps)
{
    uint32_t size = caps->size;

    if (memory_kind != FERRY_MEMORY_HOST && !stub_of(t)->gpu)
        return FERRY_ERR_UNSUPPORTED;
    *caps = stub_of(t)->caps;
    caps->size = size;
    return FERRY_OK;
}

static int query_error(struct ferry_transport *t, uint32_t channel, uint32_t peer, struct ferry_error *record)
{
    (void)channel;
    record->status = stub_of(t)->fail_with;
    record->peer = (int32_t)peer;
    snprintf(record->message, sizeof record->message, "the stub was told to fail");
    return FERRY_OK;
}

static int close_stub(struct ferry_transport *t)
{
    stub_of(t)->closed++;
    return FERRY_OK;
}

const struct ferry_host_ops *stub_ops(void)
{
    static const struct ferry_host_ops ops = {
        .size = sizeof ops,
        .export_endpoint = export_endpoint,
        .reach = reach,
        .open_channel = open_channel,
        .close_channel = close_channel,
        .connect = connect_peer,
        .disconnect = disconnect,
        .allocate_memory = allocate_memory,
        .free_memory = free_memory,
        .register_memory = register_memory,
        .deregister_memory = deregister_memory,
        .export_key = export_key,
        .import_key = import_key,
        .release_key = release_key,
        .map_key = map_key,
        .rma = post,
        .amo = post,
        .put_signal = post,
        .post = batch,
        .fence = fence,
        .quiet = quiet,
        .progress = progress,
        .query = query,
        .query_error = query_error,
        .close = close_stub,
    };

    return &ops;
}

/* ------------------------------------------------------------------ the core above */

static void keep_line(const struct ferry_core *core, int level, const char *format, ...)
{
    struct above *above = (struct above *)(void *)(uintptr_t)core;
    size_t at = strlen(above->lines);
    va_list args;

    at += (size_t)snprintf(above->lines + at, sizeof above->lines - at, "%d: ", level);
    va_start(args, format);
    vsnprintf(above->lines + at, sizeof above->lines - at, format, args);
    va_end(args);
    strncat(above->lines, "\n", sizeof above->lines - strlen(above->lines) - 1);
}

static void keep_error(const struct ferry_core *core, const struct ferry_error *record)
{
    ((struct above *)(void *)(uintptr_t)core)->error = *record;
}

static const char *given(const struct above *above, const char *name)
{
    for (size_t i = 0; above->options && above->options[i]; i++)
        if (strncmp(above->options[i], name, strlen(name)) == 0 && above->options[i][strlen(name)] == '=')
            return above->options[i] + strlen(name) + 1;
    return NULL;
}

/* Numbers, seconds, and choices by name: what the hooks' rows need. */
static int option(const struct ferry_core *core, const char *name, struct ferry_value *value)
{
    const struct above *above = (const struct above *)(const void *)core;
    const struct ferry_option *row = above->plugin->options;

    memset(value, 0, sizeof *value);
    while (row && row->name && strcmp(row->name, name) != 0)
        row++;
    if (!row || !row->name)
        return FERRY_ERR_NOT_FOUND;
    const char *text = given(above, name) ? given(above, name) : row->initial;
    if (row->type == FERRY_OPTION_SECONDS) {
        value->seconds = strtod(text, NULL) * (strstr(text, "ms") ? 1e-3 : 1);
    } else if (row->type == FERRY_OPTION_CHOICE) {
        const char *at = strstr(row->choices, text);

        assert_non_null(at);
        for (const char *p = row->choices; p < at; p++)
            value->number += *p == '|';
    } else {
        value->number = strtoll(text, NULL, 0);
    }
    return FERRY_OK;
}

/* What the hook leaves out is answered by nobody: the tests call only what it has, but for put_signal and post. */
static void complete(struct ferry_host_ops *ops, const struct ferry_host_ops *hook)
{
    *ops = *hook;
    if (!ops->post)
        ops->post = batch;
}

int above_open(struct above *above, const char *path, const char *const *options, struct ferry_transport *inner,
               const struct ferry_host_ops *inner_ops)
{
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    struct ferry_open how = {
        .size = sizeof how, .my_pe = 1, .n_pes = STUB_PES, .max_channels = 4, .inner = inner, .inner_ops = inner_ops};

    memset(above, 0, sizeof *above);
    assert_non_null(library);
    above->plugin = dlsym(library, FERRY_PLUGIN_SYMBOL);
    assert_non_null(above->plugin);
    assert_int_equal(above->plugin->kind, 1);
    above->core = (struct ferry_core){.abi = FERRY_TRANSPORT_ABI,
                                      .size = sizeof above->core,
                                      .log = keep_line,
                                      .option = option,
                                      .error = keep_error};
    above->options = options;
    complete(&above->ops, above->plugin->ops);
    return above->plugin->open(&above->core, &how, &above->handle);
}

unsigned long long above_number(const struct above *above, const char *word)
{
    const char *at = strstr(above->lines, word);

    if (!at)
        fail_msg("no '%s' in: %s", word, above->lines);
    while (at > above->lines && (at[-1] == ' '))
        at--;
    while (at > above->lines && at[-1] >= '0' && at[-1] <= '9')
        at--;
    return strtoull(at, NULL, 10);
}
