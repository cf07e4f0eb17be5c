/* SPDX-License-Identifier: Apache-2.0
 * The chaos hook: between the core and a transport, it does everything that the contract allows and a kind transport
 * never does. Here: table, options, capabilities, channels, opening and closing. Setup thread. */
#include "chaos.h"

#include <stdlib.h>
#include <string.h>

static const struct ferry_option options[] = {
    {"seed", FERRY_OPTION_INT, 0, "1", NULL,
     "What all decisions are drawn from; the same seed meets the same operations with the same ones."},
    {"delay", FERRY_OPTION_INT, 0, "50", NULL, "Operations held back, in percent; 0 to 100."},
    {"hold", FERRY_OPTION_INT, 0, "32", NULL,
     "Most turns that an operation, or the news of its completion, is held back; a turn is a call on its channel."},
    {"split", FERRY_OPTION_INT, 0, "50", NULL,
     "Puts and gets cut into pieces that go in any order, in percent; 0 to 100."},
    {"again", FERRY_OPTION_INT, 0, "10", NULL,
     "Operations refused up to three times before they are taken, in percent; 0 to 100."},
    {"late", FERRY_OPTION_INT, 0, "25", NULL,
     "Completions told late, with the values that were fetched, in percent; 0 to 100."},
    {"queue", FERRY_OPTION_INT, 0, "64", NULL,
     "Operations taken per channel and peer before more are refused; 1 to 65536."},
    {"gap", FERRY_OPTION_SECONDS, 0, "0.2ms", NULL,
     "How long a stream pauses after some of the reversals, so that others can notice; 0: never."},
    {"fence", FERRY_OPTION_CHOICE, 0, "keep", "keep|flag|call|none",
     "How the core asks for borders: as of the inner transport, by a flag, by a call, or by waiting."},
    {NULL, 0, 0, NULL, NULL, NULL}};

static int read_number(const struct ferry_core *core, const char *name, int64_t least, int64_t most, uint32_t *out)
{
    struct ferry_value value;
    int rc = core->option(core, name, &value);

    if (rc != FERRY_OK)
        return hook_open_failed(core, rc, "", "chaos cannot read its option %s", name);
    if (value.number < least || value.number > most)
        return hook_open_failed(core, FERRY_ERR_CONFIG, "choose one in that range",
                                "the option %s of chaos is %lld, and not between %lld and %lld", name,
                                (long long)value.number, (long long)least, (long long)most);
    *out = (uint32_t)value.number;
    return FERRY_OK;
}

static int read_knobs(const struct ferry_core *core, struct chaos_knobs *knobs)
{
    const struct {
        const char *name;
        int64_t least, most;
        uint32_t *out;
    } rows[] = {
        {"delay", 0, 100, &knobs->delay}, {"hold", 0, 1000000, &knobs->hold},
        {"split", 0, 100, &knobs->split}, {"again", 0, 100, &knobs->again},
        {"late", 0, 100, &knobs->late},   {"queue", 1, CHAOS_QUEUE_MAX, &knobs->queue},
    };
    struct ferry_value seed, gap, fence;

    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        int rc = read_number(core, rows[i].name, rows[i].least, rows[i].most, rows[i].out);

        if (rc != FERRY_OK)
            return rc;
    }
    if (core->option(core, "seed", &seed) || core->option(core, "gap", &gap) || core->option(core, "fence", &fence))
        return hook_open_failed(core, FERRY_ERR_CONFIG, "", "chaos cannot read its options");
    if (gap.seconds < 0 || gap.seconds > 10)
        return hook_open_failed(core, FERRY_ERR_CONFIG, "choose one in that range",
                                "the option gap of chaos is %g s, and not between 0 and 10", gap.seconds);
    knobs->seed = (uint64_t)seed.number;
    knobs->gap_ns = (uint64_t)(gap.seconds * 1e9);
    knobs->fence = (enum chaos_fence)fence.number;
    return FERRY_OK;
}

static int open_hook(const struct ferry_core *core, const struct ferry_open *how, struct ferry_transport **out)
{
    struct ferry_caps gpu = {.size = sizeof gpu};
    struct ferry_transport *t;
    int rc;

    if (!how->inner || !how->inner_ops)
        return hook_nothing_to_wrap(core, "chaos");
    t = calloc(1, sizeof *t);
    if (!t)
        return hook_open_failed(core, FERRY_ERR_NOMEM, "", "no memory for an instance of chaos");
    t->base = (struct hook_base){how->inner, how->inner_ops, core};
    t->my_pe = how->my_pe;
    t->n_pes = how->n_pes;
    t->max_channels = how->max_channels;
    rc = read_knobs(core, &t->knobs);
    if (rc == FERRY_OK) {
        t->channels = calloc(t->max_channels ? t->max_channels : 1, sizeof(t->channels[0]));
        t->gone = calloc(t->n_pes ? t->n_pes : 1, 1);
        if (!t->channels || !t->gone)
            rc = hook_open_failed(core, FERRY_ERR_NOMEM, "", "no memory for %u channels of chaos", t->max_channels);
    }
    if (rc == FERRY_OK) {
        t->inner.size = sizeof t->inner;
        rc = how->inner_ops->query(how->inner, FERRY_MEMORY_HOST, &t->inner);
        t->gpu = how->inner_ops->query(how->inner, FERRY_MEMORY_GPU, &gpu) == FERRY_OK;
        if (rc != FERRY_OK)
            hook_open_failed(core, rc, "", "what chaos should wrap does not tell its capabilities");
    }
    if (rc != FERRY_OK) {
        free(t->gone);
        free(t->channels);
        free(t);
        return rc;
    }
    *out = t;
    return FERRY_OK;
}

/* Borders as the core is to ask for them; chaos makes them in any case. */
static uint32_t fence_flags(const struct ferry_transport *t, uint32_t inner)
{
    switch (t->knobs.fence) {
    case CHAOS_FENCE_FLAG:
        return FERRY_CAP_FENCED;
    case CHAOS_FENCE_CALL:
        return FERRY_CAP_FENCE_CALL;
    case CHAOS_FENCE_NONE:
        return 0;
    default:
        return inner & (FERRY_CAP_FENCED | FERRY_CAP_FENCE_CALL);
    }
}

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* Kept is what holds for an operation that comes late and in pieces. Not kept: order, what is reached without a call
 * (MAP, DIRECT), and what has to stay together (PUT_SIGNAL). Puts with remote data are kept in one piece instead. */
static int query(struct ferry_transport *t, uint32_t memory_kind, struct ferry_caps *caps)
{
    const uint32_t kept = FERRY_CAP_GET | FERRY_CAP_UNREGISTERED_LOCAL | FERRY_CAP_QUIET_PEER |
                          FERRY_CAP_TARGET_PROGRESS | FERRY_CAP_REMOTE_DATA | FERRY_CAP_MUST_ALLOCATE;
    struct ferry_caps inner = {.size = sizeof inner};
    uint32_t size = caps->size;
    int rc = t->base.ops->query(t->base.inner, memory_kind, &inner);

    if (rc != FERRY_OK)
        return rc;
    inner.flags = (inner.flags & kept) | fence_flags(t, inner.flags) | FERRY_CAP_INITIATOR_PROGRESS;
    inner.order = 0;
    inner.copy_max = memory_kind == FERRY_MEMORY_HOST ? least(inner.copy_max, CHAOS_COPY_MAX) : 0;
    inner.inline_max = least(inner.inline_max, inner.copy_max);
    inner.queue_depth = t->knobs.queue;
    inner.size = size;
    memcpy(caps, &inner, size < sizeof inner ? size : sizeof inner);
    return FERRY_OK;
}

static int make_slots(struct ferry_transport *t, struct chaos_channel *c)
{
    const size_t bytes = (size_t)CHAOS_SLOTS * CHAOS_SLOT_BYTES;
    struct ferry_memory memory = {.size = sizeof memory, .kind = FERRY_MEMORY_HOST, .length = bytes, .fd = -1};

    c->slots = aligned_alloc(4096, bytes);
    if (!c->slots)
        return FERRY_ERR_NOMEM;
    memset(c->slots, 0, bytes);
    memory.address = c->slots;
    if (!(t->inner.flags & FERRY_CAP_UNREGISTERED_LOCAL)) {
        int rc = t->base.ops->register_memory(t->base.inner, &memory, &c->region);

        if (rc < 0)
            return rc;
    }
    for (c->n_free = 0; c->n_free < CHAOS_SLOTS; c->n_free++)
        c->free[c->n_free] = (uint8_t)c->n_free;
    return FERRY_OK;
}

static void channel_free(struct chaos_channel *c)
{
    if (!c)
        return;
    free(c->slots);
    free(c->streams);
    free(c);
}

static int channel_make(struct ferry_transport *t, uint32_t channel)
{
    struct chaos_channel *c = calloc(1, sizeof *c);
    int rc = FERRY_ERR_NOMEM;

    if (!c)
        return rc;
    c->number = 1;
    c->streams = calloc(t->n_pes ? t->n_pes : 1, sizeof(c->streams[0]));
    if (c->streams)
        rc = make_slots(t, c);
    if (rc < 0) {
        channel_free(c);
        return rc;
    }
    t->channels[channel] = c;
    return FERRY_OK;
}

static int open_channel(struct ferry_transport *t, uint32_t channel)
{
    int rc = t->base.ops->open_channel(t->base.inner, channel);

    if (rc < 0 || t->channels[channel])
        return rc;
    rc = channel_make(t, channel);
    if (rc < 0)
        t->base.ops->close_channel(t->base.inner, channel);
    return rc;
}

/* All is complete, unless a peer died: then nothing goes any more. Its private places stay, since the inner transport
 * may still write to them. */
static int close_channel(struct ferry_transport *t, uint32_t channel)
{
    struct chaos_channel *c = t->channels[channel];

    for (struct chaos_stream *s = c->first; s; s = s->next) {
        chaos_give_up(c, s);
        s->failed = FERRY_OK;
    }
    return t->base.ops->close_channel(t->base.inner, channel);
}

/* Threads of channels may be at work: each stream looks at the mark before it does anything. */
static int disconnect(struct ferry_transport *t, uint32_t peer)
{
    __atomic_store_n(&t->gone[peer], 1, __ATOMIC_RELEASE);
    return t->base.ops->disconnect(t->base.inner, peer);
}

static int fence(struct ferry_transport *t, uint32_t channel, uint32_t peer)
{
    struct chaos_stream *s = chaos_stream(t, channel, peer);

    if (!s)
        return FERRY_ERR_NOMEM;
    s->group++;
    return FERRY_OK;
}

static void add_counts(struct chaos_counts *sum, const struct chaos_counts *more)
{
    sum->operations += more->operations;
    sum->reversals += more->reversals;
    sum->cut += more->cut;
    sum->delayed += more->delayed;
    sum->refused += more->refused;
    sum->full += more->full;
    sum->late += more->late;
    sum->waited += more->waited;
    sum->handed += more->handed;
}

/* A warning, so that it shows: a run under chaos is no run to be measured, and one without reversals proves nothing. */
static void report(const struct ferry_transport *t, const struct chaos_counts *n)
{
    t->base.core->log(t->base.core, n->operations ? FERRY_LOG_WARN : FERRY_LOG_DEBUG,
                      "seed %lld: %llu reversals in %llu operations; %llu held back, %llu cut, %llu fetched aside, "
                      "%llu completed late, %llu times refused, %llu times full, %llu borders waited for",
                      (long long)t->knobs.seed, (unsigned long long)n->reversals, (unsigned long long)n->operations,
                      (unsigned long long)n->delayed, (unsigned long long)n->cut, (unsigned long long)n->handed,
                      (unsigned long long)n->late, (unsigned long long)n->refused, (unsigned long long)n->full,
                      (unsigned long long)n->waited);
}

static void channel_end(struct ferry_transport *t, struct chaos_channel *c)
{
    while (c->first) {
        struct chaos_stream *s = c->first;

        chaos_give_up(c, s);
        c->first = s->next;
        free(s);
    }
    if (c->region)
        t->base.ops->deregister_memory(t->base.inner, c->region);
    c->region = NULL;
}

/* The inner transport may write to private places until it is closed. */
static int close_hook(struct ferry_transport *t)
{
    struct chaos_counts sum = {0};
    int rc;

    for (uint32_t i = 0; i < t->max_channels; i++) {
        if (!t->channels[i])
            continue;
        add_counts(&sum, &t->channels[i]->counts);
        channel_end(t, t->channels[i]);
    }
    report(t, &sum);
    rc = t->base.ops->close(t->base.inner);
    for (uint32_t i = 0; i < t->max_channels; i++)
        channel_free(t->channels[i]);
    free(t->gone);
    free(t->channels);
    free(t);
    return rc;
}

static const struct ferry_host_ops ops = {
    .size = sizeof ops,
    .export_endpoint = hook_export_endpoint,
    .reach = hook_reach,
    .open_channel = open_channel,
    .close_channel = close_channel,
    .connect = hook_connect,
    .disconnect = disconnect,
    .allocate_memory = hook_allocate_memory,
    .free_memory = hook_free_memory,
    .register_memory = hook_register_memory,
    .deregister_memory = hook_deregister_memory,
    .export_key = hook_export_key,
    .import_key = hook_import_key,
    .release_key = hook_release_key,
    .rma = chaos_hold,
    .amo = chaos_hold,
    .fence = fence,
    .quiet = chaos_quiet,
    .progress = chaos_progress,
    .query = query,
    .query_error = hook_query_error,
    .describe = hook_describe,
    .close = close_hook,
};

const struct ferry_plugin ferry_plugin_v1 = {
    .abi = FERRY_TRANSPORT_ABI,
    .size = sizeof ferry_plugin_v1,
    .name = "chaos",
    .summary = "Reorders, cuts, delays and refuses whatever the contract lets it",
    .version = "0.1.0",
    .options = options,
    .ops = &ops,
    .open = open_hook,
    .kind = 1,
};
