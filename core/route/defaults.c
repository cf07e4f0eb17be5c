/* SPDX-License-Identifier: Apache-2.0
 * The complete table of operations that a plugin's sparse one is laid over, so that nobody tests a pointer; and posting
 * a batch on a transport that takes none. The defaults are called from the threads that transport.h names. */
#include "internal.h"
#include <string.h>

/* Where nothing has to be done. */
static int default_reach(struct ferry_transport *t, uint32_t peer, const void *blob, size_t size, char *why,
                         size_t why_size)
{
    (void)t, (void)peer, (void)blob, (void)size, (void)why, (void)why_size;
    return FERRY_OK;
}

static int default_channel(struct ferry_transport *t, uint32_t channel)
{
    (void)t, (void)channel;
    return FERRY_OK;
}

static int default_connect(struct ferry_transport *t, uint32_t channel, uint32_t peer, struct ferry_connect *io)
{
    (void)t, (void)channel, (void)peer;
    io->out_size = 0;
    return FERRY_OK;
}

static int default_disconnect(struct ferry_transport *t, uint32_t peer)
{
    (void)t, (void)peer;
    return FERRY_OK;
}

static int default_query_error(struct ferry_transport *t, uint32_t channel, uint32_t peer, struct ferry_error *record)
{
    struct ferry_error full;
    size_t size = record->size < sizeof(full) ? record->size : sizeof(full);

    (void)t;
    fy_error_set(&full, FERRY_ERR_TRANSPORT, NULL, "the transport failed and gives no detail");
    full.size = record->size;
    full.peer = peer == FERRY_PEER_ALL ? -1 : (int32_t)peer;
    full.channel = channel == FERRY_CHANNEL_SERVICE ? -1 : (int32_t)channel;
    memcpy(record, &full, size);
    return FERRY_OK;
}

/* What a transport may lack. */
static int default_endpoint(struct ferry_transport *t, void *blob, size_t *size)
{
    (void)t, (void)blob;
    *size = 0;
    return FERRY_ERR_UNSUPPORTED;
}

static int default_allocate(struct ferry_transport *t, struct ferry_memory *memory, struct ferry_region **region)
{
    (void)t, (void)memory;
    *region = NULL;
    return FERRY_ERR_UNSUPPORTED;
}

static int default_register(struct ferry_transport *t, const struct ferry_memory *memory, struct ferry_region **region)
{
    (void)t, (void)memory;
    *region = NULL;
    return FERRY_ERR_UNSUPPORTED;
}

static int default_region(struct ferry_transport *t, struct ferry_region *region)
{
    (void)t, (void)region;
    return FERRY_ERR_UNSUPPORTED;
}

static int default_export_key(struct ferry_transport *t, struct ferry_region *region, void *blob, size_t *size)
{
    (void)t, (void)region, (void)blob;
    *size = 0;
    return FERRY_ERR_UNSUPPORTED;
}

static int default_import_key(struct ferry_transport *t, uint32_t peer, const void *blob, size_t size,
                              struct ferry_rkey **key)
{
    (void)t, (void)peer, (void)blob, (void)size;
    *key = NULL;
    return FERRY_ERR_UNSUPPORTED;
}

static int default_release_key(struct ferry_transport *t, struct ferry_rkey *key)
{
    (void)t, (void)key;
    return FERRY_ERR_UNSUPPORTED;
}

static int default_map_key(struct ferry_transport *t, const struct ferry_rkey *key, void **address)
{
    (void)t, (void)key;
    *address = NULL;
    return FERRY_ERR_UNSUPPORTED;
}

static int default_operation(struct ferry_transport *t, uint32_t channel, const struct ferry_op *op)
{
    (void)t, (void)channel, (void)op;
    return FERRY_ERR_UNSUPPORTED;
}

static int default_post(struct ferry_transport *t, uint32_t channel, const struct ferry_op *ops, size_t n, size_t *done)
{
    (void)t, (void)channel, (void)ops, (void)n;
    *done = 0;
    return FERRY_ERR_UNSUPPORTED;
}

static int default_fence(struct ferry_transport *t, uint32_t channel, uint32_t peer)
{
    (void)t, (void)channel, (void)peer;
    return FERRY_ERR_UNSUPPORTED;
}

static int default_quiet(struct ferry_transport *t, uint32_t channel, uint32_t peer, uint64_t *ticket)
{
    (void)t, (void)channel, (void)peer, (void)ticket;
    return FERRY_ERR_UNSUPPORTED;
}

static int default_progress(struct ferry_transport *t, uint32_t channel)
{
    (void)t, (void)channel;
    return FERRY_ERR_UNSUPPORTED;
}

static int default_query(struct ferry_transport *t, uint32_t memory_kind, struct ferry_caps *caps)
{
    (void)t, (void)memory_kind, (void)caps;
    return FERRY_ERR_UNSUPPORTED;
}

static int default_close(struct ferry_transport *t)
{
    (void)t;
    return FERRY_ERR_UNSUPPORTED;
}

static int default_describe(struct ferry_transport *t, uint32_t channel, uint32_t peer, char *text, size_t size)
{
    (void)t, (void)channel, (void)peer;
    if (size)
        text[0] = '\0';
    return FERRY_OK;
}

static const struct ferry_host_ops defaults = {
    .size = sizeof(struct ferry_host_ops),
    .export_endpoint = default_endpoint,
    .reach = default_reach,
    .open_channel = default_channel,
    .close_channel = default_channel,
    .connect = default_connect,
    .disconnect = default_disconnect,
    .allocate_memory = default_allocate,
    .free_memory = default_region,
    .register_memory = default_register,
    .deregister_memory = default_region,
    .export_key = default_export_key,
    .import_key = default_import_key,
    .release_key = default_release_key,
    .map_key = default_map_key,
    .rma = default_operation,
    .amo = default_operation,
    .put_signal = default_operation,
    .post = default_post,
    .fence = default_fence,
    .quiet = default_quiet,
    .progress = default_progress,
    .query = default_query,
    .query_error = default_query_error,
    .close = default_close,
    .describe = default_describe,
};

/* Behind its two numbers the table is nothing but function pointers; that is how members are gone through here. */
typedef void (*slot_t)(void);
#define SLOTS_AT offsetof(struct ferry_host_ops, export_endpoint)
_Static_assert((sizeof(struct ferry_host_ops) - SLOTS_AT) % sizeof(slot_t) == 0, "only function pointers");

bool fy_transport_connects(const struct fy_transport *transport)
{
    return transport->ops.connect != defaults.connect;
}

void fy_ops_overlay(struct ferry_host_ops *ops, const struct ferry_host_ops *theirs)
{
    slot_t slot;

    *ops = defaults;
    for (size_t at = SLOTS_AT; at + sizeof(slot) <= sizeof(*ops) && at + sizeof(slot) <= theirs->size;
         at += sizeof(slot)) {
        memcpy(&slot, (const char *)theirs + at, sizeof(slot));
        if (slot)
            memcpy((char *)ops + at, &slot, sizeof(slot));
    }
}

static int post_one(const struct fy_transport *t, uint32_t channel, const struct ferry_op *op)
{
    switch (op->kind) {
    case FERRY_OP_PUT:
    case FERRY_OP_GET:
        return t->ops.rma(t->handle, channel, op);
    case FERRY_OP_AMO:
        return t->ops.amo(t->handle, channel, op);
    case FERRY_OP_PUT_SIGNAL:
        return t->ops.put_signal(t->handle, channel, op);
    default:
        return FERRY_ERR_ARG;
    }
}

int fy_transport_post(struct fy_transport *t, uint32_t channel, const struct ferry_op *ops, size_t n, size_t *done)
{
    int status = FERRY_OK;

    if (t->ops.post != default_post)
        return t->ops.post(t->handle, channel, ops, n, done);
    for (*done = 0; *done < n; (*done)++) {
        status = post_one(t, channel, &ops[*done]);
        if (status != FERRY_OK && status != FERRY_DONE)
            return status;
    }
    return FERRY_OK;
}
