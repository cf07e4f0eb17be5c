/* SPDX-License-Identifier: Apache-2.0
 * A transport for tests that does everything the contract allows: it holds operations back, releases the newest first (or the
 * oldest) between borders, completes late, answers AGAIN. PEs are threads of one process, so memory is reached by plain pointers.
 * Data calls come under the channel's lock (INITIATOR_PROGRESS); the lists of a channel need none of their own. */
#include <ferry/transport.h>

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define QUEUE 256u      /* operations held per (channel, peer) */
#define COPY_MAX 256u
/* What was overtaken stays behind for a while, so that an observer has time to notice: long for the first few times of a
 * stream, since on a busy machine the observer may not be running; then now and then, since floods must end. */
#define GAP_LONG_NS 20000000u
#define GAP_NS      200000u
#define GAP_LONGS   20u
#define GAP_EVERY   50u
#define NAP_NS      100000u /* slept by a call that found nothing but long gaps: the cores are for the observer */
#define HOLD_TURNS 40u  /* turns of progress that a stream is left alone after the latest post */

struct ferry_region {
    char *address;
    size_t length;
};

struct ferry_rkey {
    char *address;
    size_t length;
};

/* One held operation; group: number of borders before it. */
struct held {
    struct ferry_op op;
    uint64_t sequence;
    uint32_t group;
    uint8_t copy[COPY_MAX];
};

/* One (channel, peer). */
struct stream {
    struct held *held[QUEUE];
    uint32_t n, group, idle;
    uint64_t posted; /* sequence number of the latest */
    uint64_t overtakings, gap_end;
};

struct ferry_transport {
    const struct ferry_core *core;
    uint32_t n_pes, max_channels;
    uint32_t order_flags; /* how fences are taken: CAP_FENCED, CAP_FENCE_CALL or neither */
    bool oldest;          /* release the oldest first, instead of the newest */
    uint64_t reversals;   /* operations released before an older one */
    struct stream **streams; /* [channel * n_pes + peer] */
};

static int hb_probe(const struct ferry_core *core, struct ferry_probe *probe)
{
    (void)core;
    probe->score = 1;
    probe->devices = 1;
    return FERRY_OK;
}

static int hb_open(const struct ferry_core *core, const struct ferry_open *how, struct ferry_transport **out)
{
    struct ferry_value value;
    struct ferry_transport *t = calloc(1, sizeof(*t));
    if (!t)
        return FERRY_ERR_NOMEM;
    t->core = core;
    t->n_pes = how->n_pes;
    t->max_channels = how->max_channels;
    t->streams = calloc((size_t)t->n_pes * t->max_channels, sizeof(*t->streams));
    if (!t->streams) {
        free(t);
        return FERRY_ERR_NOMEM;
    }
    core->option(core, "fence", &value);
    t->order_flags = value.number == 0 ? FERRY_CAP_FENCED : value.number == 1 ? FERRY_CAP_FENCE_CALL : 0;
    core->option(core, "pick", &value);
    t->oldest = value.number == 1;
    *out = t;
    return FERRY_OK;
}

static int hb_close(struct ferry_transport *t)
{
    for (size_t i = 0; i < (size_t)t->n_pes * t->max_channels; i++) {
        for (uint32_t k = 0; t->streams[i] && k < t->streams[i]->n; k++)
            free(t->streams[i]->held[k]);
        free(t->streams[i]);
    }
    t->core->log(t->core, FERRY_LOG_INFO, "%llu operations overtook an older one", (unsigned long long)t->reversals);
    free(t->streams);
    free(t);
    return FERRY_OK;
}

static int hb_export_endpoint(struct ferry_transport *t, void *blob, size_t *size)
{
    const int64_t process = getpid();
    (void)t;
    memcpy(blob, &process, 8);
    *size = 8;
    return FERRY_OK;
}

static int hb_reach(struct ferry_transport *t, uint32_t peer, const void *blob, size_t size, char *why, size_t why_size)
{
    int64_t process = 0;
    (void)t;
    (void)peer;
    if (size == 8)
        memcpy(&process, blob, 8);
    if (process == getpid())
        return FERRY_OK;
    snprintf(why, why_size, "it is another process");
    return FERRY_ERR_UNREACHABLE;
}

static int hb_register(struct ferry_transport *t, const struct ferry_memory *memory, struct ferry_region **region)
{
    (void)t;
    if (memory->kind != FERRY_MEMORY_HOST)
        return FERRY_ERR_UNSUPPORTED;
    *region = malloc(sizeof(**region));
    if (!*region)
        return FERRY_ERR_NOMEM;
    **region = (struct ferry_region){memory->address, memory->length};
    return FERRY_OK;
}

static int hb_deregister(struct ferry_transport *t, struct ferry_region *region)
{
    (void)t;
    free(region);
    return FERRY_OK;
}

/* What travels: the mark tells a key from garbage. */
struct blob {
    struct ferry_region region;
    uint64_t mark;
};

static uint64_t mark_of(const struct ferry_region *region)
{
    return ((uintptr_t)region->address ^ region->length) * 0x9e3779b97f4a7c15u + 1;
}

static int hb_export_key(struct ferry_transport *t, struct ferry_region *region, void *blob, size_t *size)
{
    const struct blob out = {*region, mark_of(region)};
    (void)t;
    memcpy(blob, &out, sizeof(out));
    *size = sizeof(out);
    return FERRY_OK;
}

static int hb_import_key(struct ferry_transport *t, uint32_t peer, const void *blob, size_t size, struct ferry_rkey **key)
{
    (void)t;
    (void)peer;
    struct blob in;
    if (size != sizeof(in))
        return FERRY_ERR_ARG;
    memcpy(&in, blob, sizeof(in));
    if (in.mark != mark_of(&in.region))
        return FERRY_ERR_ARG;
    *key = malloc(sizeof(**key));
    if (!*key)
        return FERRY_ERR_NOMEM;
    **key = (struct ferry_rkey){in.region.address, in.region.length};
    return FERRY_OK;
}

static int hb_release_key(struct ferry_transport *t, struct ferry_rkey *key)
{
    (void)t;
    free(key);
    return FERRY_OK;
}

/* Bytes one by one with relaxed atomics: another thread may be looking, and nothing promises whole words. */
static void move(char *to, const char *from, size_t n)
{
    for (size_t i = 0; i < n; i++)
        __atomic_store_n(&to[i], __atomic_load_n(&from[i], __ATOMIC_RELAXED), __ATOMIC_RELAXED);
}

static uint64_t amo64(uint64_t *word, const struct ferry_op *op)
{
    uint64_t expected = op->compare;
    switch (op->amo) {
    case FERRY_AMO_SET:
    case FERRY_AMO_SWAP: return __atomic_exchange_n(word, op->operand, __ATOMIC_ACQ_REL);
    case FERRY_AMO_ADD: return __atomic_fetch_add(word, op->operand, __ATOMIC_ACQ_REL);
    case FERRY_AMO_AND: return __atomic_fetch_and(word, op->operand, __ATOMIC_ACQ_REL);
    case FERRY_AMO_OR: return __atomic_fetch_or(word, op->operand, __ATOMIC_ACQ_REL);
    case FERRY_AMO_XOR: return __atomic_fetch_xor(word, op->operand, __ATOMIC_ACQ_REL);
    case FERRY_AMO_CSWAP:
        __atomic_compare_exchange_n(word, &expected, op->operand, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE);
        return expected;
    default: return __atomic_load_n(word, __ATOMIC_ACQUIRE);
    }
}

static void perform(const struct held *held)
{
    const struct ferry_op *op = &held->op;
    char *remote = op->key->address + op->offset;
    const char *source = op->flags & FERRY_OP_COPY ? (const char *)held->copy : op->local;
    if (op->kind == FERRY_OP_GET) {
        move(op->local, remote, op->length);
    } else if (op->kind == FERRY_OP_AMO) {
        uint64_t old = amo64((uint64_t *)(void *)remote, op);
        if (op->flags & FERRY_OP_FETCH)
            memcpy(op->local, &old, 8);
    } else if (op->flags & FERRY_OP_WORD) {
        for (size_t at = op->length; at > 0; at -= 8) { /* the last word first: their order is free */
            uint64_t value;
            memcpy(&value, source + at - 8, 8);
            __atomic_store_n((uint64_t *)(void *)(remote + at - 8), value, __ATOMIC_RELEASE);
        }
    } else {
        move(remote, source, op->length);
    }
}

static uint64_t now_ns(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

static void overtaken(struct ferry_transport *t, struct stream *s)
{
    __atomic_fetch_add(&t->reversals, 1, __ATOMIC_RELAXED); /* channels run at once */
    s->overtakings++;
    if (s->overtakings <= GAP_LONGS)
        s->gap_end = now_ns() + GAP_LONG_NS;
    else if (s->overtakings % GAP_EVERY == 0)
        s->gap_end = now_ns() + GAP_NS;
}

/* Whether what was overtaken has to stay behind. */
static bool in_gap(struct stream *s)
{
    if (s->gap_end && now_ns() >= s->gap_end)
        s->gap_end = 0;
    return s->gap_end != 0;
}

/* What one call found: napping helps if all there is to do is to wait for the end of long gaps. */
struct turn {
    bool moved, waits;
};

static void nap(const struct turn *turn)
{
    static const struct timespec rest = {0, NAP_NS};

    if (turn->waits && !turn->moved)
        nanosleep(&rest, NULL);
}

/* The newest (or the oldest) of the oldest group, unless a gap is kept. */
static void release_one(struct ferry_transport *t, struct stream *s, struct turn *turn)
{
    uint32_t pick = 0;
    if (in_gap(s)) {
        turn->waits |= s->overtakings <= GAP_LONGS;
        return;
    }
    turn->moved = true;
    for (uint32_t i = 1; i < s->n; i++) {
        const struct held *a = s->held[i], *b = s->held[pick];
        bool sooner = t->oldest ? a->sequence < b->sequence : a->sequence > b->sequence;
        if (a->group < b->group || (a->group == b->group && sooner))
            pick = i;
    }
    struct held *held = s->held[pick];
    for (uint32_t i = 0; i < s->n; i++)
        if (s->held[i]->sequence < held->sequence) {
            overtaken(t, s);
            break;
        }
    s->held[pick] = s->held[--s->n];
    perform(held);
    free(held);
}

static struct stream *stream_of(struct ferry_transport *t, uint32_t channel, uint32_t peer)
{
    struct stream **slot = &t->streams[(size_t)channel * t->n_pes + peer];
    if (!*slot)
        *slot = calloc(1, sizeof(**slot));
    return *slot;
}

static int hold(struct ferry_transport *t, uint32_t channel, const struct ferry_op *op)
{
    struct stream *s = stream_of(t, channel, op->peer);
    if (!s)
        return FERRY_ERR_NOMEM;
    if (s->n == QUEUE)
        return FERRY_AGAIN;
    struct held *held = malloc(sizeof(*held));
    if (!held)
        return FERRY_ERR_NOMEM;
    if (op->flags & FERRY_OP_FENCED)
        s->group++;
    held->op = *op;
    held->group = s->group;
    held->sequence = ++s->posted;
    if (op->flags & FERRY_OP_COPY)
        memcpy(held->copy, op->local, op->length);
    s->held[s->n++] = held;
    s->idle = 0;
    return FERRY_OK;
}

static int hb_fence(struct ferry_transport *t, uint32_t channel, uint32_t peer)
{
    struct stream *s = stream_of(t, channel, peer);
    if (!s)
        return FERRY_ERR_NOMEM;
    s->group++;
    return FERRY_OK;
}

/* Oldest sequence number still held; the number after the latest if there is none. */
static uint64_t oldest(const struct stream *s)
{
    uint64_t least = s->posted + 1;
    for (uint32_t i = 0; i < s->n; i++)
        least = s->held[i]->sequence < least ? s->held[i]->sequence : least;
    return least;
}

/* A ticket is a sequence number of the stream; each call moves one operation along, so it is late by design. */
static int hb_quiet(struct ferry_transport *t, uint32_t channel, uint32_t peer, uint64_t *ticket)
{
    uint32_t first = peer == FERRY_PEER_ALL ? 0 : peer, last = peer == FERRY_PEER_ALL ? t->n_pes - 1 : peer;
    struct turn turn = {0};
    int rc = FERRY_OK;
    for (uint32_t pe = first; pe <= last; pe++) {
        struct stream *s = t->streams[(size_t)channel * t->n_pes + pe];
        if (!s || !s->n)
            continue;
        if (peer != FERRY_PEER_ALL && *ticket == 0)
            *ticket = s->posted;
        if (peer != FERRY_PEER_ALL && oldest(s) > *ticket)
            continue;
        release_one(t, s, &turn);
        rc = FERRY_AGAIN;
    }
    nap(&turn);
    return rc;
}

static int hb_progress(struct ferry_transport *t, uint32_t channel)
{
    struct turn turn = {0};
    int rc = FERRY_AGAIN;
    if (channel == FERRY_CHANNEL_SERVICE)
        return rc;
    for (uint32_t pe = 0; pe < t->n_pes; pe++) {
        struct stream *s = t->streams[(size_t)channel * t->n_pes + pe];
        if (!s || !s->n)
            continue;
        rc = FERRY_OK;
        if (s->idle++ >= HOLD_TURNS || s->n == QUEUE)
            release_one(t, s, &turn);
    }
    nap(&turn);
    return rc;
}

static int hb_query(struct ferry_transport *t, uint32_t memory_kind, struct ferry_caps *caps)
{
    if (memory_kind != FERRY_MEMORY_HOST)
        return FERRY_ERR_UNSUPPORTED;
    caps->flags = FERRY_CAP_GET | FERRY_CAP_UNREGISTERED_LOCAL | FERRY_CAP_QUIET_PEER | FERRY_CAP_INITIATOR_PROGRESS | t->order_flags;
    caps->order = 0;
    caps->domain = FERRY_DOMAIN_CPU;
    caps->amo64 = 0x1f | 0xffu << 16; /* all kinds, fetching ones only as such */
    caps->copy_max = COPY_MAX;
    caps->message_max = 1000;
    caps->queue_depth = QUEUE;
    return FERRY_OK;
}

static const struct ferry_option options[] = {
    {"fence", FERRY_OPTION_CHOICE, 0, "flag", "flag|call|none", "How borders are taken: by the flag, by a call, or not at all."},
    {"pick", FERRY_OPTION_CHOICE, 0, "newest", "newest|oldest", "Which of the operations between two borders comes first."},
    {NULL, 0, 0, NULL, NULL, NULL}};

static const struct ferry_host_ops ops = {
    .size = sizeof(ops),
    .export_endpoint = hb_export_endpoint,
    .reach = hb_reach,
    .register_memory = hb_register,
    .deregister_memory = hb_deregister,
    .export_key = hb_export_key,
    .import_key = hb_import_key,
    .release_key = hb_release_key,
    .rma = hold,
    .amo = hold,
    .fence = hb_fence,
    .quiet = hb_quiet,
    .progress = hb_progress,
    .query = hb_query,
    .close = hb_close,
};

const struct ferry_plugin ferry_plugin_v1 = {
    .abi = FERRY_TRANSPORT_ABI,
    .size = sizeof(ferry_plugin_v1),
    .name = "holdback",
    .summary = "holds back, reverses and completes late (tests)",
    .version = "0.1.0",
    .options = options,
    .ops = &ops,
    .probe = hb_probe,
    .open = hb_open,
};
