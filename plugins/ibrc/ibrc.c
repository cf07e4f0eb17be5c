/* SPDX-License-Identifier: Apache-2.0
 * The ibrc transport: the plugin's table, opening and closing, capabilities.
 * Setup thread. The data path is post.c and poll.c; README.md has the map. */
#include "devices.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static int query(struct ferry_transport *t, uint32_t memory_kind, struct ferry_caps *caps)
{
    uint32_t size = caps->size;
    struct ferry_caps mine = {
        .flags = FERRY_CAP_GET | FERRY_CAP_MORE | FERRY_CAP_QUIET_PEER | (t->options.relaxed ? 0 : FERRY_CAP_FENCED),
        .order = t->options.relaxed ? 0 : FERRY_ORDER_PUT_PUT,
        .copy_max = t->inline_max,
        .inline_max = t->inline_max,
        .message_max = t->message_max,
        .queue_depth = t->depth,
        .max_channels = t->max_channels,
    };

    if (memory_kind != FERRY_MEMORY_HOST && (memory_kind != FERRY_MEMORY_GPU || !t->core->gpu))
        return FERRY_ERR_UNSUPPORTED;
    if (memory_kind == FERRY_MEMORY_GPU)
        mine.copy_max = mine.inline_max = 0; /* the CPU cannot read a source there */
    if (t->atomics) {
        mine.flags |= FERRY_CAP_PUT_SIGNAL | FERRY_CAP_SIGNAL_STRONG;
        mine.order |= FERRY_ORDER_PUT_AMO | FERRY_ORDER_AMO_AMO;
        mine.domain = FERRY_DOMAIN_NIC;
        mine.amo64 = FERRY_AMO_BIT(FERRY_AMO_ADD) | FERRY_AMO_FETCH_BIT(FERRY_AMO_ADD) |
                     FERRY_AMO_FETCH_BIT(FERRY_AMO_CSWAP) | FERRY_AMO_FETCH_BIT(FERRY_AMO_FETCH);
    }
    memcpy(caps, &mine, size < sizeof mine ? size : sizeof mine);
    caps->size = size;
    return FERRY_OK;
}

static int close_transport(struct ferry_transport *t)
{
    fy_ib_events_stop(t);
    fy_ib_channels_close(t);
    fy_ib_passive_close(t);
    fy_ib_keys_close(t);
    fy_ib_memory_close(t);
    fy_ib_devices_close(t);
    free(t->scratch);
    pthread_mutex_destroy(&t->lock);
    free(t);
    return FERRY_OK;
}

static int set_up(struct ferry_transport *t, const struct ferry_open *how)
{
    char why[256] = "";
    int rc = fy_ib_options(t->core, &t->options, why, sizeof why);

    if (rc)
        return fy_ib_fail(t, -1, rc, 0, "docs/configuration.md has the bounds", "%s", why);
    t->channels = calloc(t->max_channels, sizeof(struct fy_ib_channel *));
    t->scratch = aligned_alloc(4096, 4096);
    if (!t->channels || !t->scratch)
        return fy_ib_fail(t, -1, FERRY_ERR_NOMEM, ENOMEM, "", "no memory for an ibrc instance");
    memset(t->scratch, 0, 4096);
    rc = fy_ib_devices_open(t, how);
    return rc ? rc : fy_ib_try(t);
}

static void log_rails(struct ferry_transport *t)
{
    for (uint32_t i = 0; i < t->n_rails; i++) {
        const struct fy_ib_rail *r = &t->rails[i];
        t->core->log(t->core, FERRY_LOG_INFO, "rail %u: %s:%u, %s, gid index %u, mtu %d, %u bytes inline, depth %u", i,
                     t->devices[r->device].name, r->port,
                     r->attr.link_layer == IBV_LINK_LAYER_ETHERNET ? "RoCE" : "InfiniBand", r->gid_index,
                     128 << r->attr.active_mtu, t->inline_max, t->depth);
    }
    t->core->log(t->core, FERRY_LOG_INFO, "%s; channel c uses rail c modulo %u", t->why, t->n_rails);
    if (t->n_devices > 1)
        t->core->log(t->core, FERRY_LOG_INFO, "atomics by the targets' CPUs, since %u devices do not see each other's",
                     t->n_devices);
}

static int open_transport(const struct ferry_core *core, const struct ferry_open *how, struct ferry_transport **out)
{
    struct ferry_transport *t = calloc(1, sizeof *t);
    int rc;

    if (!t) {
        struct ferry_error e = {.size = sizeof e,
                                .status = FERRY_ERR_NOMEM,
                                .peer = -1,
                                .channel = -1,
                                .operation = -1,
                                .library_status = ENOMEM,
                                .message = "no memory for an ibrc instance"};
        core->error(core, &e);
        return FERRY_ERR_NOMEM;
    }
    t->core = core;
    t->my_pe = how->my_pe;
    t->n_pes = how->n_pes;
    t->max_channels = how->max_channels;
    pthread_mutex_init(&t->lock, NULL);
    rc = set_up(t, how);
    if (rc) {
        core->error(core, &t->failure);
        close_transport(t);
        return rc;
    }
    log_rails(t);
    *out = t;
    return FERRY_OK;
}

static const struct ferry_host_ops ops = {
    .size = sizeof ops,
    .export_endpoint = fy_ib_export_endpoint,
    .reach = fy_ib_reach,
    .open_channel = fy_ib_open_channel,
    .close_channel = fy_ib_close_channel,
    .connect = fy_ib_connect,
    .disconnect = fy_ib_disconnect,
    .register_memory = fy_ib_register,
    .deregister_memory = fy_ib_deregister,
    .export_key = fy_ib_export_key,
    .import_key = fy_ib_import_key,
    .release_key = fy_ib_release_key,
    .rma = fy_ib_rma,
    .amo = fy_ib_amo,
    .put_signal = fy_ib_put_signal,
    .quiet = fy_ib_quiet,
    .progress = fy_ib_progress,
    .query = query,
    .query_error = fy_ib_query_error,
    .describe = fy_ib_describe,
    .close = close_transport,
};

const struct ferry_plugin ferry_plugin_v1 = {
    .abi = FERRY_TRANSPORT_ABI,
    .size = sizeof(struct ferry_plugin),
    .name = "ibrc",
    .summary = "InfiniBand and RoCE, by reliable connections (libibverbs)",
    .version = "0.1.0",
    .options = fy_ib_option_rows,
    .ops = &ops,
    .probe = fy_ib_probe,
    .open = open_transport,
    .report = fy_ib_report,
};
