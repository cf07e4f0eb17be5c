/* SPDX-License-Identifier: Apache-2.0
 * The loopback transport: the plugin's table, its options, opening and closing, capabilities.
 * Setup thread, but for query_error (any). The data path is data.c, the rest is listed in README.md. */
#include "guise.h"

#include "copy.h"

#include <errno.h>
#include <sodium.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifndef FY_LB_NAME
#define FY_LB_NAME "loopback" /* the tests build a second one, for jobs with two transports */
#endif

/* 8M: on a Zen 4 with 32 MiB of L3, streaming beats memcpy from there on even when source and target are reused,
 * and below that it costs the reader its cache. */
static const struct ferry_option options[] = {
    {.name = "nt_threshold",
     .type = FERRY_OPTION_SIZE,
     .initial = "8M",
     .doc = "Puts of this many bytes and more bypass the caches; 0: none does."},
    {.name = "guise",
     .type = FERRY_OPTION_SET,
     .initial = "",
     .choices = "no-amo|no-fetch|no-get|no-signal|unordered|no-fenced|cq-data|weak-signal|max-msg=|inline=|copy=|"
                "no-unreg|target-progress|channel-scope|depth=|must-alloc|gpu-like|nic|hosts=",
     .doc = "For tests: which weaker fabric to pretend to be; plugins/loopback/README.md says what each one does."},
    {.name = NULL},
};

int fy_lb_fail(struct ferry_transport *t, int64_t peer, int status, int error, const char *hint, const char *format,
               ...)
{
    va_list args;

    va_start(args, format);
    fy_plugin_fail(&t->lock, &t->failure, peer, status, error, hint, format, args);
    va_end(args);
    return status;
}

static int query_error(struct ferry_transport *t, uint32_t channel, uint32_t peer, struct ferry_error *record)
{
    struct ferry_error e;

    (void)channel;
    pthread_mutex_lock(&t->lock);
    e = t->failure;
    pthread_mutex_unlock(&t->lock);
    return fy_plugin_give(record, e, peer);
}

void fy_lb_plain_caps(struct ferry_caps *caps)
{
    const uint32_t plain = FERRY_AMO_BIT(FERRY_AMO_SET) | FERRY_AMO_BIT(FERRY_AMO_ADD) | FERRY_AMO_BIT(FERRY_AMO_AND) |
                           FERRY_AMO_BIT(FERRY_AMO_OR) | FERRY_AMO_BIT(FERRY_AMO_XOR);
    const uint32_t fetching = ((1u << FERRY_AMO_KINDS) - 1u) << 16; /* swap, cswap, fetch: in this form only */
    const struct ferry_caps mine = {
        .flags = FERRY_CAP_GET | FERRY_CAP_PUT_SIGNAL | FERRY_CAP_SIGNAL_STRONG | FERRY_CAP_FENCED |
                 FERRY_CAP_UNREGISTERED_LOCAL | FERRY_CAP_QUIET_PEER | FERRY_CAP_MAP |
                 (FY_LB_TSO ? FERRY_CAP_DIRECT : 0), /* where stores are ordered, the core's are as good as ours */
        .order = FY_LB_TSO ? FERRY_ORDER_ALL : 0,
        .domain = FERRY_DOMAIN_CPU,
        .amo32 = plain | fetching,
        .amo64 = plain | fetching,
        .copy_max = SIZE_MAX,
        .inline_max = FY_LB_SMALL,
        .message_max = SIZE_MAX / 2,
    };

    *caps = mine;
}

static int query(struct ferry_transport *t, uint32_t memory_kind, struct ferry_caps *caps)
{
    struct ferry_caps mine = {0};
    uint32_t size = caps->size;

    if (t->guise && memory_kind <= FERRY_MEMORY_GPU)
        mine = t->guise->caps[memory_kind];
    else if (memory_kind == FERRY_MEMORY_HOST)
        fy_lb_plain_caps(&mine);
    if (!mine.message_max)
        return FERRY_ERR_UNSUPPORTED;
    memcpy(caps, &mine, size < sizeof mine ? size : sizeof mine);
    caps->size = size;
    return FERRY_OK;
}

static int probe(const struct ferry_core *core, struct ferry_probe *out)
{
    struct fy_lb_identity self;
    const char *unread = fy_lb_identify(&self);

    (void)core;
    out->score = 10;
    if (unread) {
        snprintf(out->detail, sizeof out->detail, "cannot read %s (%s): mount /proc", unread, strerror(errno));
        return FERRY_ERR_DEVICE;
    }
    out->devices = 1;
    snprintf(out->detail, sizeof out->detail, "PEs of this host, by memory shared through memfd");
    return FERRY_OK;
}

static int close_transport(struct ferry_transport *t)
{
    fy_lb_server_close(t);
    fy_lb_imports_close(t);
    fy_lb_regions_close(t);
    fy_lb_guise_close(t);
    pthread_mutex_destroy(&t->lock);
    sodium_memzero(t->secret, sizeof t->secret);
    free(t);
    return FERRY_OK;
}

/* Everything but the socket. NULL, or what failed, with errno. */
static const char *set_up(struct ferry_transport *t, const struct ferry_open *how)
{
    struct ferry_value threshold;

    t->my_pe = how->my_pe;
    t->n_pes = how->n_pes;
    memcpy(t->secret, how->secret, sizeof t->secret);
    if (t->core->option(t->core, "nt_threshold", &threshold))
        return "the option nt_threshold";
    t->nt_threshold = SIZE_MAX;
    if (threshold.number > 0) /* a streamed copy aligns its target first, so it must be longer than that takes */
        t->nt_threshold = threshold.number > FY_LB_SMALL ? (size_t)threshold.number : FY_LB_SMALL + 1;
    if (sodium_init() < 0 || fy_lb_random(t->token, sizeof t->token))
        return "random numbers";
    return fy_lb_identify(&t->self);
}

static int open_transport(const struct ferry_core *core, const struct ferry_open *how, struct ferry_transport **out)
{
    struct ferry_transport *t = calloc(1, sizeof *t);
    struct ferry_error record;
    const char *missing;
    int status;

    if (!t) {
        fy_plugin_record(&record, -1, FERRY_ERR_NOMEM, ENOMEM, "");
        snprintf(record.message, sizeof record.message, "no memory for a loopback instance");
        core->error(core, &record);
        return FERRY_ERR_NOMEM;
    }
    t->core = core;
    pthread_mutex_init(&t->lock, NULL);
    fy_lb_server_init(&t->server);
    missing = set_up(t, how);
    if (missing)
        status = fy_lb_fail(t, -1, FERRY_ERR_SYSTEM, errno, "", "loopback cannot get %s: %s", missing, strerror(errno));
    else
        status = fy_lb_server_open(t);
    if (!status)
        status = fy_lb_guise_open(t, how);
    if (status) {
        core->error(core, &t->failure);
        close_transport(t);
        return status;
    }
    *out = t;
    return FERRY_OK;
}

static const struct ferry_host_ops ops = {
    .size = sizeof ops,
    .export_endpoint = fy_lb_export_endpoint,
    .reach = fy_lb_reach,
    .close_channel = fy_lb_close_channel,
    .disconnect = fy_lb_disconnect,
    .allocate_memory = fy_lb_allocate,
    .free_memory = fy_lb_free,
    .register_memory = fy_lb_register,
    .deregister_memory = fy_lb_deregister,
    .export_key = fy_lb_export_key,
    .import_key = fy_lb_import_key,
    .release_key = fy_lb_release_key,
    .map_key = fy_lb_map_key,
    .rma = fy_lb_rma,
    .amo = fy_lb_amo,
    .put_signal = fy_lb_put_signal,
    .quiet = fy_lb_quiet,
    .progress = fy_lb_progress,
    .query = query,
    .query_error = query_error,
    .close = close_transport,
};

const struct ferry_plugin ferry_plugin_v1 = {
    .abi = FERRY_TRANSPORT_ABI,
    .size = sizeof(struct ferry_plugin),
    .name = FY_LB_NAME,
    .summary = "PEs of one host, by shared memory",
    .version = "0.1.0",
    .options = options,
    .ops = &ops,
    .probe = probe,
    .open = open_transport,
    .report = fy_lb_report,
};
