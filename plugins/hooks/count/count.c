/* SPDX-License-Identifier: Apache-2.0
 * The count hook: passes everything on, and checks at the end that what was opened was closed: regions, keys, channels,
 * tickets, bytes. Here: table, memory, channels, opening and closing. Setup thread. */
#include "count.h"

#include <stdlib.h>
#include <string.h>

static void made(struct ferry_transport *t, struct count_set *set, const void *item, size_t length)
{
    pthread_mutex_lock(&t->lock);
    if (!count_made(set, item, length))
        t->lost++;
    pthread_mutex_unlock(&t->lock);
}

static void ended(struct ferry_transport *t, struct count_set *set, const void *item)
{
    pthread_mutex_lock(&t->lock);
    count_ended(set, item);
    pthread_mutex_unlock(&t->lock);
}

static int allocate_memory(struct ferry_transport *t, struct ferry_memory *memory, struct ferry_region **region)
{
    int rc = hook_allocate_memory(t, memory, region);

    if (rc == FERRY_OK)
        made(t, &t->allocations, *region, memory->length);
    return rc;
}

/* Noted before the inner transport frees it: the address may be handed out again at once. */
static int free_memory(struct ferry_transport *t, struct ferry_region *region)
{
    ended(t, &t->allocations, region);
    return hook_free_memory(t, region);
}

static int register_memory(struct ferry_transport *t, const struct ferry_memory *memory, struct ferry_region **region)
{
    int rc = hook_register_memory(t, memory, region);

    if (rc == FERRY_OK)
        made(t, &t->regions, *region, memory->length);
    return rc;
}

static int deregister_memory(struct ferry_transport *t, struct ferry_region *region)
{
    ended(t, &t->regions, region);
    return hook_deregister_memory(t, region);
}

static int import_key(struct ferry_transport *t, uint32_t peer, const void *blob, size_t size, struct ferry_rkey **key)
{
    int rc = hook_import_key(t, peer, blob, size, key);

    if (rc == FERRY_OK || rc == FERRY_DONE)
        made(t, &t->keys, *key, size);
    return rc;
}

static int release_key(struct ferry_transport *t, struct ferry_rkey *key)
{
    ended(t, &t->keys, key);
    return hook_release_key(t, key);
}

static int map_key(struct ferry_transport *t, const struct ferry_rkey *key, void **address)
{
    return t->base.ops->map_key(t->base.inner, key, address);
}

static int disconnect(struct ferry_transport *t, uint32_t peer)
{
    return t->base.ops->disconnect(t->base.inner, peer);
}

static int fence(struct ferry_transport *t, uint32_t channel, uint32_t peer)
{
    return t->base.ops->fence(t->base.inner, channel, peer);
}

static int progress(struct ferry_transport *t, uint32_t channel)
{
    return t->base.ops->progress(t->base.inner, channel);
}

/* Operations that the core does without a call (DIRECT) could not be counted. */
static int query(struct ferry_transport *t, uint32_t memory_kind, struct ferry_caps *caps)
{
    int rc = t->base.ops->query(t->base.inner, memory_kind, caps);

    if (rc == FERRY_OK)
        caps->flags &= ~FERRY_CAP_DIRECT;
    return rc;
}

static int channel_make(struct ferry_transport *t, uint32_t channel)
{
    struct count_channel *c = calloc(1, sizeof *c);

    if (c)
        c->streams = calloc(t->n_pes ? t->n_pes : 1, sizeof(c->streams[0]));
    if (!c || !c->streams) {
        free(c);
        return FERRY_ERR_NOMEM;
    }
    t->channels[channel] = c;
    return FERRY_OK;
}

static int open_channel(struct ferry_transport *t, uint32_t channel)
{
    int rc = t->channels[channel] ? FERRY_OK : channel_make(t, channel);

    if (rc == FERRY_OK)
        rc = t->base.ops->open_channel(t->base.inner, channel);
    if (rc >= 0)
        t->opened++;
    return rc;
}

static int close_channel(struct ferry_transport *t, uint32_t channel)
{
    t->closed++;
    return t->base.ops->close_channel(t->base.inner, channel);
}

static void channel_free(struct count_channel *c)
{
    if (!c)
        return;
    for (size_t i = 0; i < c->n_tickets; i++)
        free(c->tickets[i].covers);
    free(c->tickets);
    free(c->streams);
    free(c);
}

static void hook_free(struct ferry_transport *t)
{
    for (uint32_t i = 0; t->channels && i < t->max_channels; i++)
        channel_free(t->channels[i]);
    free(t->channels);
    free(t->regions.items);
    free(t->allocations.items);
    free(t->keys.items);
    pthread_mutex_destroy(&t->lock);
    free(t);
}

static int close_hook(struct ferry_transport *t)
{
    int rc;

    count_report(t);
    rc = t->base.ops->close(t->base.inner);
    hook_free(t);
    return rc;
}

static int open_hook(const struct ferry_core *core, const struct ferry_open *how, struct ferry_transport **out)
{
    struct ferry_transport *t;

    if (!how->inner || !how->inner_ops)
        return hook_nothing_to_wrap(core, "count");
    t = calloc(1, sizeof *t);
    if (!t)
        return hook_open_failed(core, FERRY_ERR_NOMEM, "", "no memory for an instance of count");
    pthread_mutex_init(&t->lock, NULL);
    t->base = (struct hook_base){how->inner, how->inner_ops, core};
    t->n_pes = how->n_pes;
    t->max_channels = how->max_channels;
    t->channels = calloc(t->max_channels ? t->max_channels : 1, sizeof(t->channels[0]));
    if (!t->channels) {
        hook_free(t);
        return hook_open_failed(core, FERRY_ERR_NOMEM, "", "no memory for %u channels of count", how->max_channels);
    }
    *out = t;
    return FERRY_OK;
}

static const struct ferry_host_ops ops = {
    .size = sizeof ops,
    .export_endpoint = hook_export_endpoint,
    .reach = hook_reach,
    .open_channel = open_channel,
    .close_channel = close_channel,
    .connect = hook_connect,
    .disconnect = disconnect,
    .allocate_memory = allocate_memory,
    .free_memory = free_memory,
    .register_memory = register_memory,
    .deregister_memory = deregister_memory,
    .export_key = hook_export_key,
    .import_key = import_key,
    .release_key = release_key,
    .map_key = map_key,
    .rma = count_rma,
    .amo = count_amo,
    .put_signal = count_put_signal,
    .post = count_post,
    .fence = fence,
    .quiet = count_quiet,
    .progress = progress,
    .query = query,
    .query_error = hook_query_error,
    .describe = hook_describe,
    .close = close_hook,
};

const struct ferry_plugin ferry_plugin_v1 = {
    .abi = FERRY_TRANSPORT_ABI,
    .size = sizeof ferry_plugin_v1,
    .name = "count",
    .summary = "Passes everything on, and checks that regions, keys, channels and tickets balance",
    .version = "0.1.0",
    .ops = &ops,
    .open = open_hook,
    .kind = 1,
};
