/* SPDX-License-Identifier: Apache-2.0
 * A transport that costs nothing and moves nothing: what is left of an operation's time is the library's. For
 * measurements only. PEs are threads of one process. Channel threads; it keeps no state of a channel. */
#include <ferry/transport.h>

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct ferry_region {
    char *address;
    size_t length;
};

struct ferry_rkey {
    char *address;
    size_t length;
};

struct ferry_transport {
    uint32_t n_pes;
};

static int null_probe(const struct ferry_core *core, struct ferry_probe *probe)
{
    (void)core;
    probe->score = 1;
    probe->devices = 1;
    return FERRY_OK;
}

static int null_open(const struct ferry_core *core, const struct ferry_open *how, struct ferry_transport **out)
{
    struct ferry_transport *t = calloc(1, sizeof(*t));
    (void)core;
    if (!t)
        return FERRY_ERR_NOMEM;
    t->n_pes = how->n_pes;
    *out = t;
    return FERRY_OK;
}

static int null_close(struct ferry_transport *t)
{
    free(t);
    return FERRY_OK;
}

static int null_export_endpoint(struct ferry_transport *t, void *blob, size_t *size)
{
    const int64_t process = getpid();
    (void)t;
    memcpy(blob, &process, 8);
    *size = 8;
    return FERRY_OK;
}

static int null_register(struct ferry_transport *t, const struct ferry_memory *memory, struct ferry_region **region)
{
    (void)t;
    *region = malloc(sizeof(**region));
    if (!*region)
        return FERRY_ERR_NOMEM;
    **region = (struct ferry_region){memory->address, memory->length};
    return FERRY_OK;
}

static int null_deregister(struct ferry_transport *t, struct ferry_region *region)
{
    (void)t;
    free(region);
    return FERRY_OK;
}

static int null_export_key(struct ferry_transport *t, struct ferry_region *region, void *blob, size_t *size)
{
    (void)t;
    memcpy(blob, region, sizeof(*region));
    *size = sizeof(*region);
    return FERRY_OK;
}

static int null_import_key(struct ferry_transport *t, uint32_t peer, const void *blob, size_t size,
                           struct ferry_rkey **key)
{
    (void)t;
    (void)peer;
    if (size != sizeof(struct ferry_rkey))
        return FERRY_ERR_ARG;
    *key = malloc(sizeof(**key));
    if (!*key)
        return FERRY_ERR_NOMEM;
    memcpy(*key, blob, sizeof(**key));
    return FERRY_OK;
}

static int null_release_key(struct ferry_transport *t, struct ferry_rkey *key)
{
    (void)t;
    free(key);
    return FERRY_OK;
}

static int null_one(struct ferry_transport *t, uint32_t channel, const struct ferry_op *op)
{
    (void)t;
    (void)channel;
    (void)op;
    return FERRY_OK;
}

static int null_post(struct ferry_transport *t, uint32_t channel, const struct ferry_op *ops, size_t n, size_t *done)
{
    (void)t;
    (void)channel;
    (void)ops;
    *done = n;
    return FERRY_OK;
}

static int null_quiet(struct ferry_transport *t, uint32_t channel, uint32_t peer, uint64_t *ticket)
{
    (void)t;
    (void)channel;
    (void)peer;
    *ticket = 1;
    return FERRY_OK;
}

static int null_progress(struct ferry_transport *t, uint32_t channel)
{
    (void)t;
    (void)channel;
    return FERRY_AGAIN;
}

static int null_query(struct ferry_transport *t, uint32_t memory_kind, struct ferry_caps *caps)
{
    (void)t;
    if (memory_kind != FERRY_MEMORY_HOST)
        return FERRY_ERR_UNSUPPORTED;
    caps->flags = FERRY_CAP_GET | FERRY_CAP_PUT_SIGNAL | FERRY_CAP_SIGNAL_STRONG | FERRY_CAP_FENCED |
                  FERRY_CAP_UNREGISTERED_LOCAL | FERRY_CAP_QUIET_PEER | FERRY_CAP_MORE;
    caps->order = FERRY_ORDER_ALL;
    caps->domain = FERRY_DOMAIN_CPU;
    caps->amo64 = 0x1f | 0xffu << 16;
    caps->amo32 = caps->amo64;
    caps->copy_max = SIZE_MAX;
    caps->message_max = SIZE_MAX;
    return FERRY_OK;
}

static const struct ferry_host_ops ops = {
    .size = sizeof(ops),
    .export_endpoint = null_export_endpoint,
    .register_memory = null_register,
    .deregister_memory = null_deregister,
    .export_key = null_export_key,
    .import_key = null_import_key,
    .release_key = null_release_key,
    .rma = null_one,
    .amo = null_one,
    .put_signal = null_one,
    .post = null_post,
    .quiet = null_quiet,
    .progress = null_progress,
    .query = null_query,
    .close = null_close,
};

const struct ferry_plugin ferry_plugin_v1 = {
    .abi = FERRY_TRANSPORT_ABI,
    .size = sizeof(ferry_plugin_v1),
    .name = "null",
    .summary = "moves nothing, at no cost (measurements)",
    .version = "0.1.0",
    .ops = &ops,
    .probe = null_probe,
    .open = null_open,
};
