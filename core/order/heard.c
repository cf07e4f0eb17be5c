/* SPDX-License-Identifier: Apache-2.0
 * Failures of posted operations that come to light while a thread waits on memory and makes no call on the channel: without
 * this a wait for the answer to a put that was lost would last for ever. Any thread that waits. */
#include "channel.h"

/* Has the transport a failure of (channel, peer) to tell? */
static int ask(struct ferry_ctx *ctx, const struct fy_lane *lane, uint32_t pe)
{
    struct ferry_error detail = {.size = sizeof(detail)};
    int rc = lane->ops->query_error(lane->handle, ctx->id, pe, &detail);
    if (rc != FERRY_OK || detail.status >= 0 || detail.channel != (int32_t)ctx->id || detail.peer != (int32_t)pe)
        return FERRY_OK; /* an older one, of another call */
    return fy_lane_failed(ctx, lane, pe, -1, detail.status);
}

int fy_lane_heard(struct ferry_ctx *ctx, const struct fy_lane *lane, bool again)
{
    for (uint32_t i = 0; i < ctx->n_listed; i++) {
        uint32_t pe = ctx->listed[i];
        const struct fy_flow *flow = &ctx->flows[pe];
        bool concerned = flow->did & FY_DID_SET(FY_DID_OUT) && (flow->lane == lane || flow->far & 1u << lane->index);
        if (!concerned || (flow->known && !again))
            continue;
        if (atomic_load(&ctx->world->peers[pe].dead))
            continue; /* whoever a death concerns hears of it by fy_world_check, once */
        int rc = ask(ctx, lane, pe);
        if (rc != FERRY_OK)
            return rc;
    }
    return FERRY_OK;
}

int fy_channel_heard(struct ferry_ctx *ctx, bool again)
{
    if (!ctx || !fy_channel_try(ctx))
        return FERRY_OK;
    int result = FERRY_OK;
    for (uint32_t i = 0; ctx->n_busy && result == FERRY_OK && i < ctx->world->n_lanes; i++) {
        const struct fy_lane *lane = &ctx->world->lanes[i];
        if (lane->ops->progress(lane->handle, ctx->id) < 0)
            result = fy_lane_heard(ctx, lane, again);
    }
    fy_channel_leave(ctx);
    return result;
}
