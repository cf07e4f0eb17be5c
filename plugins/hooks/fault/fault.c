/* SPDX-License-Identifier: Apache-2.0
 * The fault hook: one call of the transport fails, the n-th of its kind, or an operation never completes. Here: table,
 * options, and the calls around the data path. Setup thread, unless transport.h says more of a function. */
#include "fault.h"

#include <stdlib.h>

static const struct ferry_option options[] = {
    {"call", FERRY_OPTION_CHOICE, 0, "none",
     "none|open|export_endpoint|reach|open_channel|close_channel|connect|disconnect|allocate_memory|free_memory|"
     "register_memory|deregister_memory|export_key|import_key|release_key|map_key|rma|amo|put_signal|post|fence|quiet|"
     "progress|query|close",
     "Which call of the transport fails."},
    {"nth", FERRY_OPTION_INT, 0, "1", NULL, "Which one of them, counted in each instance from 1."},
    {"pe", FERRY_OPTION_INT, 0, "-1", NULL, "The PE in which it fails; -1: every one."},
    {"channel", FERRY_OPTION_INT, 0, "-1", NULL,
     "Of operations, fence, quiet and progress: only on this channel (0: the default context's); -1: on any."},
    {"how", FERRY_OPTION_CHOICE, 0, "once", "once|always|lost",
     "once: that call fails; always: that one and all later ones; lost: of an operation: it is taken, and never "
     "complete."},
    {NULL, 0, 0, NULL, NULL, NULL}};

static int read_options(struct ferry_transport *t, const struct ferry_core *core, uint32_t my_pe)
{
    struct ferry_value call, nth, pe, channel, how;

    if (core->option(core, "call", &call) || core->option(core, "nth", &nth) || core->option(core, "pe", &pe) ||
        core->option(core, "channel", &channel) || core->option(core, "how", &how))
        return hook_open_failed(core, FERRY_ERR_CONFIG, "", "fault cannot read its options");
    if (nth.number < 1)
        return hook_open_failed(core, FERRY_ERR_CONFIG, "the first call is 1", "the option nth of fault is %lld",
                                (long long)nth.number);
    t->call = (enum fault_call)call.number;
    t->nth = (uint64_t)nth.number;
    t->how = (enum fault_how)how.number;
    t->channel = channel.number;
    t->here = pe.number < 0 || (uint64_t)pe.number == my_pe;
    return FERRY_OK;
}

static int open_hook(const struct ferry_core *core, const struct ferry_open *how, struct ferry_transport **out)
{
    struct ferry_transport *t;
    int rc;

    if (!how->inner || !how->inner_ops)
        return hook_nothing_to_wrap(core, "fault");
    t = calloc(1, sizeof *t);
    if (!t)
        return hook_open_failed(core, FERRY_ERR_NOMEM, "", "no memory for an instance of fault");
    t->base = (struct hook_base){how->inner, how->inner_ops, core};
    t->n_pes = how->n_pes;
    rc = read_options(t, core, how->my_pe);
    if (rc == FERRY_OK && fault_fires(t, FAULT_OPEN))
        rc = hook_open_failed(core, FERRY_ERR_TRANSPORT, "take fault out of FERRY_HOOKS",
                              "call 1 of open failed, as it was asked to");
    if (rc == FERRY_OK) {
        *out = t;
        return FERRY_OK;
    }
    free(t);
    return rc;
}

static int close_hook(struct ferry_transport *t)
{
    bool fires = fault_fires(t, FAULT_CLOSE);
    int rc = t->base.ops->close(t->base.inner);

    free(t);
    return fires ? FERRY_ERR_TRANSPORT : rc;
}

static int export_endpoint(struct ferry_transport *t, void *blob, size_t *size)
{
    if (fault_fires(t, FAULT_EXPORT_ENDPOINT))
        return FERRY_ERR_TRANSPORT;
    return hook_export_endpoint(t, blob, size);
}

static int reach(struct ferry_transport *t, uint32_t peer, const void *blob, size_t size, char *why, size_t why_size)
{
    struct ferry_error record = {.size = sizeof(record)};

    if (!fault_fires(t, FAULT_REACH))
        return hook_reach(t, peer, blob, size, why, why_size);
    fault_describe(t, &record);
    for (size_t i = 0; i < why_size; i++) {
        why[i] = i + 1 < why_size ? record.message[i] : '\0';
        if (!why[i])
            break;
    }
    return FERRY_ERR_UNREACHABLE;
}

static int open_channel(struct ferry_transport *t, uint32_t channel)
{
    if (fault_fires(t, FAULT_OPEN_CHANNEL))
        return FERRY_ERR_TRANSPORT;
    return t->base.ops->open_channel(t->base.inner, channel);
}

/* What ends something is done, and then reported as failed: only the transport could do it later. */
static int close_channel(struct ferry_transport *t, uint32_t channel)
{
    int rc = t->base.ops->close_channel(t->base.inner, channel);

    return fault_fires(t, FAULT_CLOSE_CHANNEL) ? FERRY_ERR_TRANSPORT : rc;
}

static int connect_peer(struct ferry_transport *t, uint32_t channel, uint32_t peer, struct ferry_connect *io)
{
    if (fault_fires(t, FAULT_CONNECT))
        return FERRY_ERR_TRANSPORT;
    return hook_connect(t, channel, peer, io);
}

static int disconnect(struct ferry_transport *t, uint32_t peer)
{
    int rc = t->base.ops->disconnect(t->base.inner, peer);

    return fault_fires(t, FAULT_DISCONNECT) ? FERRY_ERR_TRANSPORT : rc;
}

static int allocate_memory(struct ferry_transport *t, struct ferry_memory *memory, struct ferry_region **region)
{
    if (fault_fires(t, FAULT_ALLOCATE_MEMORY))
        return FERRY_ERR_NOMEM;
    return hook_allocate_memory(t, memory, region);
}

static int free_memory(struct ferry_transport *t, struct ferry_region *region)
{
    int rc = hook_free_memory(t, region);

    return fault_fires(t, FAULT_FREE_MEMORY) ? FERRY_ERR_TRANSPORT : rc;
}

static int register_memory(struct ferry_transport *t, const struct ferry_memory *memory, struct ferry_region **region)
{
    if (fault_fires(t, FAULT_REGISTER_MEMORY))
        return FERRY_ERR_NOMEM;
    return hook_register_memory(t, memory, region);
}

static int deregister_memory(struct ferry_transport *t, struct ferry_region *region)
{
    int rc = hook_deregister_memory(t, region);

    return fault_fires(t, FAULT_DEREGISTER_MEMORY) ? FERRY_ERR_TRANSPORT : rc;
}

static int export_key(struct ferry_transport *t, struct ferry_region *region, void *blob, size_t *size)
{
    if (fault_fires(t, FAULT_EXPORT_KEY))
        return FERRY_ERR_TRANSPORT;
    return hook_export_key(t, region, blob, size);
}

static int import_key(struct ferry_transport *t, uint32_t peer, const void *blob, size_t size, struct ferry_rkey **key)
{
    if (fault_fires(t, FAULT_IMPORT_KEY))
        return FERRY_ERR_ACCESS;
    return hook_import_key(t, peer, blob, size, key);
}

static int release_key(struct ferry_transport *t, struct ferry_rkey *key)
{
    int rc = hook_release_key(t, key);

    return fault_fires(t, FAULT_RELEASE_KEY) ? FERRY_ERR_TRANSPORT : rc;
}

static int map_key(struct ferry_transport *t, const struct ferry_rkey *key, void **address)
{
    if (fault_fires(t, FAULT_MAP_KEY))
        return FERRY_ERR_UNSUPPORTED;
    return t->base.ops->map_key(t->base.inner, key, address);
}

/* Operations that the core does without a call (DIRECT) could not fail. */
static int query(struct ferry_transport *t, uint32_t memory_kind, struct ferry_caps *caps)
{
    int rc;

    if (fault_fires(t, FAULT_QUERY))
        return FERRY_ERR_TRANSPORT;
    rc = t->base.ops->query(t->base.inner, memory_kind, caps);
    if (rc == FERRY_OK)
        caps->flags &= ~FERRY_CAP_DIRECT;
    return rc;
}

static int query_error(struct ferry_transport *t, uint32_t channel, uint32_t peer, struct ferry_error *record)
{
    if (!atomic_load(&t->fired_at) || t->how == FAULT_LOST)
        return hook_query_error(t, channel, peer, record);
    fault_describe(t, record);
    return FERRY_OK;
}

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
    .rma = fault_rma,
    .amo = fault_amo,
    .put_signal = fault_put_signal,
    .post = fault_post,
    .fence = fault_fence,
    .quiet = fault_quiet,
    .progress = fault_progress,
    .query = query,
    .query_error = query_error,
    .describe = hook_describe,
    .close = close_hook,
};

const struct ferry_plugin ferry_plugin_v1 = {
    .abi = FERRY_TRANSPORT_ABI,
    .size = sizeof ferry_plugin_v1,
    .name = "fault",
    .summary = "Has one call of the transport fail, or an operation never complete, and passes everything else on",
    .version = "0.1.0",
    .options = options,
    .ops = &ops,
    .open = open_hook,
    .kind = 1,
};
