/* SPDX-License-Identifier: Apache-2.0
 * The ucx transport: the plugin's table, opening and closing, capabilities. README.md lists the other files.
 * Setup thread. */
#include "ucx.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int probe(const struct ferry_core *core, struct ferry_probe *out)
{
    struct fy_ux_options o = {0};
    struct fy_ux_context x;
    char why[200];
    int rc = fy_ux_options(core, &o);

    if (rc)
        return rc;
    rc = fy_ux_context_open(&o, 0, &x, why, sizeof why);
    if (rc) {
        snprintf(out->detail, sizeof out->detail, "UCX_TLS=%.40s, UCX %s: %.180s", x.asked, ucp_get_version_string(), why);
        return rc;
    }
    out->devices = 1;
    out->score = x.other ? 40 : x.net ? 6 : 4; /* of shared memory alone, loopback makes more */
    snprintf(out->detail, sizeof out->detail, "UCX %s with %.200s", ucp_get_version_string(), x.lanes);
    fy_ux_context_close(&x);
    return FERRY_OK;
}

static int close_transport(struct ferry_transport *t)
{
    if (t->channels)
        fy_ux_channels_close(t);
    fy_ux_keys_close(t);
    if (t->address)
        ucp_worker_release_address(t->service, t->address);
    if (t->service)
        ucp_worker_destroy(t->service);
    if (t->setup)
        ucp_worker_destroy(t->setup);
    fy_ux_memory_close(t);
    fy_ux_connect_close(t);
    if (!t->abandoned)
        fy_ux_context_close(&t->context);
    pthread_mutex_destroy(&t->lock);
    free(t);
    return FERRY_OK;
}

static int make_tables(struct ferry_transport *t)
{
    t->channels = calloc(t->max_channels, sizeof(struct fy_ux_channel *));
    t->addresses = calloc(t->n_pes, sizeof(char *));
    t->setup_peers = calloc(t->n_pes, sizeof(ucp_ep_h));
    if (t->channels && t->addresses && t->setup_peers)
        return FERRY_OK;
    return fy_ux_fail(t, -1, FERRY_ERR_NOMEM, UCS_OK, "", "no memory for an instance of ucx");
}

static int make_service(struct ferry_transport *t)
{
    ucs_status_t status;
    int rc = fy_ux_worker_make(t, "what peers ask for", &t->service);

    if (rc)
        return rc;
    status = ucp_worker_get_address(t->service, &t->address, &t->address_size);
    if (status == UCS_OK)
        return FERRY_OK;
    t->address = NULL;
    return fy_ux_fail(t, -1, FERRY_ERR_TRANSPORT, status, "", "UCX tells no address: %s", ucs_status_string(status));
}

static int open_context(struct ferry_transport *t)
{
    char why[240];
    int rc = fy_ux_options(t->core, &t->options);

    if (rc)
        return rc;
    rc = fy_ux_context_open(&t->options, t->n_pes, &t->context, why, sizeof why);
    if (rc)
        return fy_ux_fail(t, -1, rc, UCS_OK, "look at UCX_TLS and UCX_NET_DEVICES", "UCX cannot start with UCX_TLS=%s: %s",
                          t->context.asked, why);
    if (why[0])
        t->core->log(t->core, FERRY_LOG_WARN, "UCX: %s", why);
    return FERRY_OK;
}

static int open_parts(struct ferry_transport *t)
{
    const struct fy_ux_context *x = &t->context;
    int rc = open_context(t);

    if (!rc)
        rc = make_tables(t);
    if (!rc && x->shm)
        rc = fy_ux_worker_make(t, "mapping", &t->setup);
    if (!rc)
        rc = fy_ux_try_memory(t);
    if (!rc)
        rc = make_service(t);
    if (t->address_size > fy_ux_address_room())
        t->maps = 0; /* peers' addresses do not come with their endpoints, so nothing can be mapped before it is wired */
    if (x->self && !x->shm && !x->net && !x->other)
        t->maps = 1; /* the one PE that is reached is this one */
    t->at_once = !x->net && !x->other && (t->maps || !x->shm);
    return rc;
}

static int open_transport(const struct ferry_core *core, const struct ferry_open *how, struct ferry_transport **out)
{
    struct ferry_transport *t = calloc(1, sizeof *t);
    int rc;

    if (!t)
        return FERRY_ERR_NOMEM;
    t->core = core;
    t->my_pe = how->my_pe;
    t->n_pes = how->n_pes;
    t->max_channels = how->max_channels;
    pthread_mutex_init(&t->lock, NULL);
    rc = open_parts(t);
    if (rc) {
        core->error(core, &t->failure);
        close_transport(t);
        return rc;
    }
    core->log(core, FERRY_LOG_INFO, "UCX %s with %s; memory is %s; %s", ucp_get_version_string(), t->context.lanes,
              t->allocates ? "allocated by UCX" : "registered", t->at_once ? "nobody has to make progress" : "a thread makes progress");
    *out = t;
    return FERRY_OK;
}

/* Declared where every operation of a (channel, peer) takes one lane, which keeps what it is given in order. */
static uint32_t order(const struct ferry_transport *t)
{
    if (!FY_UX_TSO || t->context.other || (t->context.protos && !t->at_once))
        return 0;
    return FERRY_ORDER_ALL;
}

static void fill_caps(const struct ferry_transport *t, struct ferry_caps *caps)
{
    const uint32_t plain = FERRY_AMO_BIT(FERRY_AMO_SET) | FERRY_AMO_BIT(FERRY_AMO_ADD) | FERRY_AMO_BIT(FERRY_AMO_AND) | FERRY_AMO_BIT(FERRY_AMO_OR) |
                           FERRY_AMO_BIT(FERRY_AMO_XOR);
    const uint32_t fetching = ((1u << FERRY_AMO_KINDS) - 1u) << 16;

    const uint32_t bitwise = FERRY_AMO_FETCH_BIT(FERRY_AMO_AND) | FERRY_AMO_FETCH_BIT(FERRY_AMO_OR) | FERRY_AMO_FETCH_BIT(FERRY_AMO_XOR);

    *caps = (struct ferry_caps){.flags = FERRY_CAP_GET | FERRY_CAP_QUIET_PEER,
                                .order = order(t),
                                .domain = t->options.device && t->context.other ? FERRY_DOMAIN_NIC : FERRY_DOMAIN_CPU,
                                .amo32 = plain | fetching,
                                .amo64 = plain | fetching,
                                .copy_max = t->at_once ? SIZE_MAX : FY_UX_COPY,
                                .inline_max = t->at_once ? 64 : FY_UX_COPY,
                                .message_max = SIZE_MAX / 2};
    if (t->allocates && !t->maps) { /* see update_here in post.c: there is no address to do it at */
        caps->amo32 &= ~bitwise;
        caps->amo64 &= ~bitwise;
    }
    if (!t->context.other)
        caps->flags |= FERRY_CAP_UNREGISTERED_LOCAL;
    if (t->allocates)
        caps->flags |= FERRY_CAP_MUST_ALLOCATE;
    if (!t->at_once)
        caps->flags |= FERRY_CAP_TARGET_PROGRESS | FERRY_CAP_INITIATOR_PROGRESS;
    if (t->maps)
        caps->flags |= FERRY_CAP_MAP;
    if (t->maps && caps->order == FERRY_ORDER_ALL && caps->domain == FERRY_DOMAIN_CPU)
        caps->flags |= FERRY_CAP_DIRECT;
}

static int query(struct ferry_transport *t, uint32_t memory_kind, struct ferry_caps *caps)
{
    struct ferry_caps mine;
    uint32_t size = caps->size;

    if (memory_kind != FERRY_MEMORY_HOST)
        return FERRY_ERR_UNSUPPORTED;
    fill_caps(t, &mine);
    memcpy(caps, &mine, size < sizeof mine ? size : sizeof mine);
    caps->size = size;
    return FERRY_OK;
}

static const struct ferry_host_ops ops = {
    .size = sizeof ops,
    .export_endpoint = fy_ux_export_endpoint,
    .reach = fy_ux_reach,
    .open_channel = fy_ux_open_channel,
    .close_channel = fy_ux_close_channel,
    .connect = fy_ux_connect,
    .disconnect = fy_ux_disconnect,
    .allocate_memory = fy_ux_allocate,
    .free_memory = fy_ux_deregister,
    .register_memory = fy_ux_register,
    .deregister_memory = fy_ux_deregister,
    .export_key = fy_ux_export_key,
    .import_key = fy_ux_import_key,
    .release_key = fy_ux_release_key,
    .map_key = fy_ux_map_key,
    .rma = fy_ux_rma,
    .amo = fy_ux_amo,
    .quiet = fy_ux_quiet,
    .progress = fy_ux_progress,
    .query = query,
    .query_error = fy_ux_query_error,
    .describe = fy_ux_describe,
    .close = close_transport,
};

const struct ferry_plugin ferry_plugin_v1 = {
    .abi = FERRY_TRANSPORT_ABI,
    .size = sizeof(struct ferry_plugin),
    .name = "ucx",
    .summary = "TCP, shared memory and NICs, by UCX (UCP)",
    .version = "0.1.0",
    .options = fy_ux_option_rows,
    .ops = &ops,
    .probe = probe,
    .open = open_transport,
    .report = fy_ux_report,
};
