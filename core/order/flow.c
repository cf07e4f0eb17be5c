/* SPDX-License-Identifier: Apache-2.0
 * The unlikely parts of a flow's life: connecting, borders for fences, retries, limits on what is in flight.
 * Called by the channel's thread, or under its lock. */
#include "channel.h"

#include "mail.h"
#include "post.h"
#include "quick.h"
#include <string.h>

/* Layout of the request that asks a peer's control thread to serve a connect; the blob follows. */
static int connect_ask(struct ferry_ctx *ctx, const struct fy_lane *lane, uint32_t pe, struct ferry_connect *io,
                       void *reply, size_t *reply_size)
{
    struct fy_world *world = ctx->world;
    uint8_t request[8 + FERRY_ENDPOINT_MAX];
    struct ferry_error error;
    memcpy(request, &lane->index, 4);
    memcpy(request + 4, &ctx->id, 4);
    memcpy(request + 8, io->out, io->out_size);
    int rc = world->call(world->arg, pe, request, 8 + io->out_size, reply, FERRY_ENDPOINT_MAX, reply_size, &error);
    return rc < 0 ? fy_errors_thread(world->errors, &error) : rc;
}

/* One phase, repeated while the transport says AGAIN, within FERRY_TIMEOUT. */
static int connect_turns(struct ferry_ctx *ctx, const struct fy_lane *lane, uint32_t pe, struct ferry_connect *io,
                         struct fy_backoff *backoff)
{
    struct fy_world *world = ctx->world;
    uint64_t deadline = fy_deadline(world->timeout);
    for (;;) {
        pthread_mutex_lock(&world->setup);
        int rc = lane->ops->connect(lane->handle, ctx->id, pe, io);
        pthread_mutex_unlock(&world->setup);
        if (rc != FERRY_AGAIN)
            return rc;
        if (!fy_backoff(backoff))
            continue;
        fy_wait_tell(world, backoff, (int)pe, (int)ctx->id, "connecting");
        rc = fy_world_check(world, (int)pe, "connecting");
        if (rc != FERRY_OK)
            return rc;
        if (fy_now_ns() > deadline)
            return FERRY_ERR_TIMEOUT;
    }
}

static int connect_phase(struct ferry_ctx *ctx, const struct fy_lane *lane, uint32_t pe, struct ferry_connect *io)
{
    struct fy_backoff backoff = fy_wait_start(ctx->world);
    int rc = connect_turns(ctx, lane, pe, io, &backoff);
    fy_wait_over(ctx->world, &backoff);
    return rc;
}

static int connect_flow(struct ferry_ctx *ctx, const struct fy_lane *lane, uint32_t pe)
{
    struct fy_world *world = ctx->world;
    const char *name = world->transports[lane->index]->name;
    uint8_t out[FERRY_ENDPOINT_MAX], reply[FERRY_ENDPOINT_MAX];
    struct ferry_connect io = {.size = sizeof(io), .phase = FERRY_CONNECT_START, .out = out};
    io.in = world->endpoint(world->arg, lane->index, pe, &io.in_size);
    int rc = connect_phase(ctx, lane, pe, &io);
    if (rc == FERRY_OK && io.out_size) {
        size_t size = 0;
        rc = connect_ask(ctx, lane, pe, &io, reply, &size);
        if (rc < 0)
            return rc;
        io = (struct ferry_connect){.size = sizeof(io), .phase = FERRY_CONNECT_FINISH, .in = reply, .in_size = size, .out = out};
        rc = connect_phase(ctx, lane, pe, &io);
    }
    if (rc >= 0)
        return FERRY_OK;
    struct ferry_error detail;
    const char *why = fy_lane_reason(lane, ctx->id, pe, rc, &detail);
    return fy_fail(world, rc, (int)pe, (int)ctx->id, -1, detail.hint, "transport %s cannot connect channel %u to pe %u: %s", name,
                   ctx->id, pe, why);
}

int fy_flow_enter(struct ferry_ctx *ctx, struct fy_flow *flow, uint32_t pe)
{
    struct fy_world *world = ctx->world;
    if (!flow->connected) {
        int8_t lane = world->peers[pe].lane;
        if (lane < 0)
            return fy_fail(world, FERRY_ERR_UNREACHABLE, (int)pe, (int)ctx->id, -1, NULL, "no chosen transport reaches pe %u",
                           pe);
        int rc = connect_flow(ctx, &world->lanes[lane], pe);
        if (rc != FERRY_OK)
            return rc;
        flow->lane = &world->lanes[lane];
        flow->quick_max = ctx->limited ? 0 : flow->lane->quick_max;
        flow->connected = 1;
    }
    flow->did = (flow->did & ~FY_DID_SET(FY_DID_SINCE)) | (flow->did & FY_DID_SET(FY_DID_SINCE)) << FY_DID_BEFORE;
    flow->epoch = ctx->epoch;
    return FERRY_OK;
}

int fy_flow_far(struct ferry_ctx *ctx, struct fy_flow *flow, uint32_t pe, const struct fy_lane *lane)
{
    if (lane == flow->lane || flow->far & 1u << lane->index)
        return FERRY_OK;
    int rc = connect_flow(ctx, lane, pe);
    if (rc == FERRY_OK)
        flow->far |= 1u << lane->index;
    return rc;
}

/* Borders behind what the lane of the puts knows nothing of: a reply, or completion, is waited for. */
static int seal_others(struct ferry_ctx *ctx, struct fy_flow *flow, uint32_t pe, uint32_t mask)
{
    uint32_t others = flow->did & mask & FY_DID_ANY(FY_DID_MAIL | FY_DID_FAR);
    int rc = FERRY_OK;
    if (!others)
        return FERRY_OK;
    fy_count(&ctx->counters.drains, 1);
    if (others & FY_DID_ANY(FY_DID_MAIL))
        rc = fy_mail_wait(ctx, pe);
    if (rc == FERRY_OK && others & FY_DID_ANY(FY_DID_FAR))
        rc = fy_far_wait(ctx, flow, pe);
    if (rc == FERRY_OK)
        flow->did &= ~others;
    return rc;
}

int fy_flow_seal(struct ferry_ctx *ctx, struct fy_flow *flow, uint32_t pe, uint32_t mask, uint32_t *flags)
{
    const struct fy_lane *lane = flow->lane;
    int rc = seal_others(ctx, flow, pe, mask);
    if (rc != FERRY_OK || !(flow->did & mask))
        return rc;
    if (lane->caps->flags & FERRY_CAP_FENCED) {
        *flags |= FERRY_OP_FENCED;
        fy_count(&ctx->counters.fenced_operations, 1);
    } else if (lane->caps->flags & FERRY_CAP_FENCE_CALL) {
        rc = lane->ops->fence(lane->handle, ctx->id, pe);
        if (rc < 0)
            return fy_lane_failed(ctx, lane, pe, -1, rc);
    } else {
        fy_count(&ctx->counters.drains, 1);
        return fy_quiet_pe(ctx, pe);
    }
    /* the transport's border says nothing of requests that are on their way through other hands */
    flow->did &= FY_DID_SET(FY_DID_OUT) | FY_DID_ANY(FY_DID_MAIL | FY_DID_FAR);
    return FERRY_OK;
}

void fy_flow_list(struct ferry_ctx *ctx, struct fy_flow *flow, uint32_t pe)
{
    ctx->n_busy++;
    if (flow->listed)
        return;
    flow->listed = 1;
    ctx->listed[ctx->n_listed++] = pe;
}

int fy_lane_failed(struct ferry_ctx *ctx, const struct fy_lane *lane, uint32_t pe, int operation, int rc)
{
    struct fy_world *world = ctx->world;
    struct ferry_error record;
    ctx->flows[pe].known = 1;
    fy_error_set(&record, rc, NULL, "transport %s: operation on channel %u to pe %u failed: %s",
                 world->transports[lane->index]->name, ctx->id, pe, ferry_status_string(rc));
    record.peer = (int32_t)pe;
    record.channel = (int32_t)ctx->id;
    record.operation = operation;
    struct ferry_error detail = {.size = sizeof(detail)};
    if (lane->ops->query_error(lane->handle, ctx->id, pe, &detail) == FERRY_OK && detail.status == rc && detail.message[0]) {
        detail.size = sizeof(detail);
        record = detail;
    }
    return fy_errors_thread(world->errors, &record);
}

static int call_transport(const struct fy_lane *lane, uint32_t channel, const struct ferry_op *op)
{
    if (op->kind == FERRY_OP_AMO)
        return lane->ops->amo(lane->handle, channel, op);
    if (op->kind == FERRY_OP_PUT_SIGNAL)
        return lane->ops->put_signal(lane->handle, channel, op);
    return lane->ops->rma(lane->handle, channel, op);
}

static int no_room(struct ferry_ctx *ctx, const struct ferry_op *op)
{
    return fy_fail(ctx->world, FERRY_ERR_TIMEOUT, (int)op->peer, (int)ctx->id, op->kind, "raise FERRY_TIMEOUT if the peer may be that slow",
                   "no room in the queue of channel %u to pe %u for %g s", ctx->id, op->peer, ctx->world->timeout);
}

/* Until the transport takes it, or says why not. */
static int repeat(struct ferry_ctx *ctx, const struct fy_lane *lane, const struct ferry_op *op, struct fy_backoff *backoff)
{
    static const char doing[] = "an operation waiting for room in the queue";
    uint64_t deadline = 0;
    int rc;
    do {
        fy_count(&ctx->counters.again, 1);
        if (lane->ops->progress(lane->handle, ctx->id) == FERRY_OK)
            fy_wait_moved(ctx->world, backoff);
        if (fy_backoff(backoff)) {
            fy_wait_tell(ctx->world, backoff, (int)op->peer, (int)ctx->id, "room in the queue");
            rc = fy_world_check(ctx->world, (int)op->peer, doing);
            if (rc != FERRY_OK)
                return rc;
            if (deadline == 0)
                deadline = fy_deadline(ctx->world->timeout);
            if (fy_now_ns() > deadline)
                return no_room(ctx, op);
        }
        rc = call_transport(lane, ctx->id, op);
    } while (rc == FERRY_AGAIN);
    return rc >= 0 ? rc : fy_lane_failed(ctx, lane, op->peer, op->kind, rc);
}

int fy_lane_retry(struct ferry_ctx *ctx, const struct fy_lane *lane, const struct ferry_op *op, int rc)
{
    if (rc != FERRY_AGAIN)
        return rc >= 0 ? rc : fy_lane_failed(ctx, lane, op->peer, op->kind, rc);
    struct fy_backoff backoff = fy_wait_start(ctx->world);
    rc = repeat(ctx, lane, op, &backoff);
    fy_wait_over(ctx->world, &backoff);
    return rc;
}

int fy_quick_retry(struct ferry_ctx *ctx, const struct ferry_op *op, int rc)
{
    rc = fy_lane_retry(ctx, ctx->flows[op->peer].lane, op, rc);
    return rc < 0 ? rc : FERRY_OK;
}

/* Two windows: a ticket covers the older one, the newer one fills; each holds half of what is allowed. */
int fy_flow_throttle(struct ferry_ctx *ctx, struct fy_flow *flow, uint32_t pe, size_t bytes)
{
    struct fy_world *world = ctx->world;
    const struct fy_lane *lane = flow->lane;
    bool full = (world->queue_ops && flow->ops + 1 > (world->queue_ops + 1) / 2) ||
                (world->queue_bytes && flow->ops && flow->bytes + bytes > (world->queue_bytes + 1) / 2);
    if (full) {
        if (flow->ticket) {
            int rc = fy_lane_wait(ctx, lane, pe, &flow->ticket, "an operation waiting for earlier ones (FERRY_QUEUE_…)");
            if (rc != FERRY_OK)
                return rc;
        }
        int rc = lane->ops->quiet(lane->handle, ctx->id, fy_lane_ask(lane, pe), &flow->ticket);
        if (rc < 0)
            return fy_lane_failed(ctx, lane, pe, -1, rc);
        if (rc == FERRY_OK)
            flow->ticket = 0;
        flow->ops = 0;
        flow->bytes = 0;
    }
    flow->ops++;
    flow->bytes += bytes;
    return FERRY_OK;
}
