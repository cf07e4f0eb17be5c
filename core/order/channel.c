/* SPDX-License-Identifier: Apache-2.0
 * Channels come and go; the world's lanes, gates and alarms; failures of the calling thread.
 * Creation and destruction under the world's lock, from any thread; alarms from the control thread. */
#include "channel.h"

#include "../base/reserve.h"
#include "bounce.h"
#include "post.h"
#include <stdlib.h>
#include <string.h>

static uint32_t unordered_for(uint32_t order, uint32_t after_put, uint32_t after_amo)
{
    uint32_t mask = 0;
    if (!(order & after_put))
        mask |= FY_DID_PUT;
    if (!(order & after_amo))
        mask |= FY_DID_AMO;
    return mask;
}

/* Masks of what a border lies behind: in BEFORE, and for what is strong in SINCE, too. */
static void lane_order(struct fy_lane *lane, uint32_t order)
{
    const uint32_t other = FY_DID_MAIL | FY_DID_FAR; /* the transport knows nothing of these */
    uint32_t put = unordered_for(order, FERRY_ORDER_PUT_PUT, FERRY_ORDER_AMO_PUT);
    uint32_t amo = unordered_for(order, FERRY_ORDER_PUT_AMO, FERRY_ORDER_AMO_AMO);
    lane->unordered_put = (put | other) << FY_DID_BEFORE;
    lane->unordered_amo = (amo | other) << FY_DID_BEFORE;
    lane->unordered_request = (put | FY_DID_FAR) << FY_DID_BEFORE;
    lane->strong_put = FY_DID_ANY(put | other);
    lane->strong_amo = FY_DID_ANY(amo | other);
    lane->strong_request = FY_DID_ANY(put | FY_DID_FAR);
}

/* Where a transport moves GPU memory, too, an operation may have either kind at either end: the lane promises what holds for
 * both. *both is what it had for host memory. */
static bool moves_gpu(const struct fy_transport *transport, struct ferry_caps *both)
{
    struct ferry_caps gpu = {.size = sizeof(gpu)};
    if (transport->ops.query(transport->handle, FERRY_MEMORY_GPU, &gpu) != FERRY_OK)
        return false;
    const uint32_t promises = FERRY_CAP_GET | FERRY_CAP_PUT_SIGNAL | FERRY_CAP_SIGNAL_STRONG | FERRY_CAP_FENCED |
                              FERRY_CAP_FENCE_CALL | FERRY_CAP_UNREGISTERED_LOCAL | FERRY_CAP_QUIET_PEER | FERRY_CAP_REMOTE_DATA;
    both->flags &= gpu.flags | ~promises;
    both->order &= gpu.order;
    both->copy_max = gpu.copy_max < both->copy_max ? gpu.copy_max : both->copy_max;
    both->message_max = gpu.message_max < both->message_max ? gpu.message_max : both->message_max;
    return true;
}

static void lane_fill(struct fy_lane *lane, struct fy_transport *transport, uint32_t index)
{
    const struct ferry_caps *caps = &lane->promised;
    lane->promised = transport->caps;
    lane->finds_local = moves_gpu(transport, &lane->promised);
    lane->handle = transport->handle;
    lane->ops = &transport->ops;
    lane->caps = caps;
    lane->index = index;
    lane_order(lane, caps->order);
    lane->must_register = !(caps->flags & FERRY_CAP_UNREGISTERED_LOCAL);
    lane->counted = (caps->flags & FERRY_CAP_REMOTE_DATA) && !(caps->flags & (FERRY_CAP_FENCED | FERRY_CAP_FENCE_CALL)) &&
                    !(caps->order & FERRY_ORDER_PUT_PUT);
    bool plain = !lane->finds_local && !lane->counted;
    lane->made_fetch = lane->must_register || lane->counted;
    lane->small_max = lane->must_register && plain ? caps->copy_max : 0;
    lane->simple_max = !plain ? 0 : lane->must_register ? caps->copy_max : caps->message_max;
    if (lane->simple_max > caps->message_max)
        lane->simple_max = caps->message_max;
    lane->quick_put = lane->unordered_put | FY_DID(FY_DID_PUT);
    lane->quick_signal = lane->unordered_put | FY_DID(FY_DID_PUT) | FY_DID(FY_DID_AMO);
    lane->quick_max = caps->copy_max < lane->simple_max ? caps->copy_max : lane->simple_max;
    lane->get_max = caps->flags & FERRY_CAP_GET && !lane->must_register && !lane->finds_local ? caps->message_max : 0;
    lane->copy_max = caps->copy_max;
    lane->signal_native = (caps->flags & FERRY_CAP_PUT_SIGNAL) && !lane->counted;
    lane->signal_strong = caps->flags & FERRY_CAP_SIGNAL_STRONG;
    lane->quick_kinds = lane->signal_native && lane->signal_strong ? caps->amo64 : 0;
}

void fy_world_lanes(struct fy_world *world, struct fy_transport *const *transports, size_t n)
{
    world->transports = transports;
    world->locked = world->serves = world->target_progress = false;
    world->n_lanes = n < FY_MAX_TRANSPORTS ? (uint32_t)n : FY_MAX_TRANSPORTS;
    for (uint32_t i = 0; i < world->n_lanes; i++) {
        lane_fill(&world->lanes[i], transports[i], i);
        if (transports[i]->caps.flags & FERRY_CAP_INITIATOR_PROGRESS)
            world->locked = true;
        if (transports[i]->caps.flags & FERRY_CAP_TARGET_PROGRESS)
            world->target_progress = world->serves = true;
    }
}

static bool alarmed(struct fy_world *world)
{
    return atomic_load(&world->aborted) || atomic_load(&world->deaths);
}

static void gate_set(struct ferry_ctx *ctx)
{
    uint32_t gate = ctx->shared || alarmed(ctx->world) ? 0 : ctx->world->n_pes;
    atomic_store(&ctx->gate, gate);
    atomic_store(&ctx->latch_gate, ctx->latched && !alarmed(ctx->world) ? ctx->world->n_pes : 0);
}

void fy_world_alarm(struct fy_world *world)
{
    pthread_mutex_lock(&world->lock);
    for (uint32_t i = 0; i < world->max_channels; i++)
        if (world->channels[i])
            gate_set(world->channels[i]);
    pthread_mutex_unlock(&world->lock);
}

static int open_lane(struct fy_world *world, const struct fy_lane *lane, uint32_t channel)
{
    pthread_mutex_lock(&world->setup);
    int rc = lane->ops->open_channel(lane->handle, channel);
    pthread_mutex_unlock(&world->setup);
    return rc;
}

static void close_lanes(struct fy_world *world, uint32_t n, uint32_t channel)
{
    pthread_mutex_lock(&world->setup);
    while (n-- > 0)
        world->lanes[n].ops->close_channel(world->lanes[n].handle, channel);
    pthread_mutex_unlock(&world->setup);
}

const char *fy_lane_reason(const struct fy_lane *lane, uint32_t channel, uint32_t pe, int rc, struct ferry_error *detail)
{
    *detail = (struct ferry_error){.size = sizeof(*detail)};
    if (lane->ops->query_error(lane->handle, channel, pe, detail) == FERRY_OK && detail->status == rc && detail->message[0])
        return detail->message;
    detail->hint[0] = '\0';
    return ferry_status_string(rc);
}

static int open_on_lanes(struct ferry_ctx *ctx, struct ferry_error *error)
{
    struct fy_world *world = ctx->world;
    for (uint32_t i = 0; i < world->n_lanes; i++) {
        int rc = open_lane(world, &world->lanes[i], ctx->id);
        if (rc >= 0)
            continue;
        struct ferry_error detail;
        const char *why = fy_lane_reason(&world->lanes[i], ctx->id, FERRY_PEER_ALL, rc, &detail);
        fy_error_set(error, rc, detail.hint, "transport %s cannot open channel %u: %s", world->transports[i]->name, ctx->id, why);
        close_lanes(world, i, ctx->id);
        return rc;
    }
    return FERRY_OK;
}

/* They are the last member; what follows in their page is not the channel's. */
#define COUNTERS offsetof(struct ferry_ctx, counters)

static size_t flows_bytes(const struct fy_world *world)
{
    const struct ferry_ctx *ctx = NULL;
    return world->n_pes * (sizeof(*ctx->flows) + sizeof(*ctx->listed));
}

static struct ferry_ctx *channel_allocate(struct fy_world *world)
{
    struct ferry_ctx *ctx = fy_page_object(&world->page, COUNTERS);
    if (!ctx)
        return NULL;
    ctx->flows = fy_pages_get(flows_bytes(world)); /* touched where a peer is contacted */
    if (ctx->flows) {
        ctx->listed = (uint32_t *)(void *)(ctx->flows + world->n_pes);
        return ctx;
    }
    fy_page_release(&world->page, ctx, COUNTERS);
    return NULL;
}

static void channel_release(struct ferry_ctx *ctx)
{
    pthread_mutex_destroy(&ctx->lock);
    fy_pages_put(ctx->flows, flows_bytes(ctx->world));
    fy_page_release(&ctx->world->page, ctx, COUNTERS);
}

/* Takes a free id; the channel is visible to alarms from then on. */
static int channel_enlist(struct fy_world *world, struct ferry_ctx *ctx)
{
    uint32_t id = 0, end = world->max_channels;
    if (!ctx->internal && !world->mail)
        end--; /* the number that the mailbox would have had is nobody's */
    pthread_mutex_lock(&world->lock);
    while (id < end && world->channels[id])
        id++;
    if (id < end) {
        ctx->id = id;
        fy_page_share(&world->page, ctx, COUNTERS, id); /* before the control thread looks at them */
        world->channels[id] = ctx;
        gate_set(ctx);
    }
    pthread_mutex_unlock(&world->lock);
    return id < end ? FERRY_OK : FERRY_ERR_LIMIT;
}

static void channel_delist(struct ferry_ctx *ctx)
{
    pthread_mutex_lock(&ctx->world->lock);
    ctx->world->channels[ctx->id] = NULL;
    pthread_mutex_unlock(&ctx->world->lock);
}

int fy_channel_create(struct fy_world *world, bool shared, bool internal, struct ferry_ctx **out, struct ferry_error *error)
{
    *out = NULL;
    struct ferry_ctx *ctx = channel_allocate(world);
    if (!ctx) {
        fy_error_set(error, FERRY_ERR_NOMEM, NULL, "no memory for a context of %u peers", world->n_pes);
        return FERRY_ERR_NOMEM;
    }
    ctx->world = world;
    ctx->heap = world->heap;
    ctx->epoch = 1;
    ctx->shared = shared || world->locked;
    ctx->latched = world->locked && !shared && !internal;
    ctx->internal = internal;
    for (uint32_t i = 0; i < world->n_lanes; i++)
        ctx->direct |= (world->lanes[i].caps->flags & FERRY_CAP_DIRECT) != 0;
    ctx->limited = world->queue_ops || world->queue_bytes;
    pthread_mutex_init(&ctx->lock, NULL);
    int rc = channel_enlist(world, ctx);
    if (rc != FERRY_OK) {
        fy_error_set(error, rc, "destroy contexts, or raise FERRY_CHANNELS", "all %u contexts are in use",
                     world->user_channels);
        channel_release(ctx);
        return rc;
    }
    rc = open_on_lanes(ctx, error);
    if (rc < 0) {
        channel_delist(ctx);
        channel_release(ctx);
        return rc;
    }
    *out = ctx;
    return FERRY_OK;
}

int fy_channel_destroy(struct ferry_ctx *ctx)
{
    struct fy_world *world = ctx->world;
    fy_channel_lock(ctx);
    int rc = fy_quiet_all(ctx);
    fy_loans_return(ctx, FERRY_PEER_ALL);
    fy_bounce_release(ctx);
    ctx->n_busy = 0; /* what is not complete is given up: the service thread does not move it while the lanes close */
    fy_channel_unlock(ctx);
    close_lanes(world, world->n_lanes, ctx->id);
    channel_delist(ctx);
    channel_release(ctx);
    return rc;
}

void fy_channel_lock(struct ferry_ctx *ctx)
{
    if (ctx->shared)
        pthread_mutex_lock(&ctx->lock);
}

void fy_channel_unlock(struct ferry_ctx *ctx)
{
    if (ctx->shared)
        pthread_mutex_unlock(&ctx->lock);
}

bool fy_channel_try(struct ferry_ctx *ctx)
{
    if (!ctx->shared || pthread_mutex_trylock(&ctx->lock) != 0)
        return false;
    if (!atomic_exchange_explicit(&ctx->latch, 1, memory_order_acquire))
        return true;
    pthread_mutex_unlock(&ctx->lock);
    return false;
}

void fy_channel_leave(struct ferry_ctx *ctx)
{
    fy_unlatch(ctx);
    pthread_mutex_unlock(&ctx->lock);
}
