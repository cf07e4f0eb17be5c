/* SPDX-License-Identifier: Apache-2.0
 * Puts and gets that the hot path leaves: cut into messages, through registered memory, counted, limited, or by mailbox.
 * Called by the channel's thread, or under its lock. */
#include "bounce.h"
#include "mail.h"

#include <string.h>

/* One message. */
static int post_piece(struct ferry_ctx *ctx, struct fy_flow *flow, struct ferry_op *op)
{
    const struct fy_lane *lane = flow->lane;
    int rc = FERRY_OK;
    if (ctx->limited)
        rc = fy_flow_throttle(ctx, flow, op->peer, op->length);
    if (rc == FERRY_OK && lane->counted && op->kind == FERRY_OP_PUT)
        rc = fy_cover_put(ctx, op->peer, op);
    if (rc != FERRY_OK)
        return rc;
    rc = fy_posted(ctx, lane, op, lane->ops->rma(lane->handle, ctx->id, op));
    if (rc >= 0 && lane->counted && op->kind == FERRY_OP_PUT)
        fy_cover_posted(ctx, op->peer);
    return rc;
}

/* All of it, in messages that the transport takes. FERRY_DONE if every one was done at once. */
static int post_all(struct ferry_ctx *ctx, struct fy_flow *flow, const struct ferry_op *op, size_t most)
{
    struct ferry_op part = *op;
    int all = FERRY_DONE;
    for (size_t left = op->length; left; left -= part.length) {
        part.length = left < most ? left : most;
        int rc = post_piece(ctx, flow, &part);
        if (rc < 0)
            return rc;
        if (rc == FERRY_OK)
            all = FERRY_OK;
        part.flags &= ~FERRY_OP_FENCED; /* the border stands; the rest lies behind it */
        part.local = (char *)part.local + part.length;
        part.offset += part.length;
    }
    return all;
}

static size_t piece_of(const struct ferry_ctx *ctx, const struct fy_lane *lane)
{
    size_t piece = fy_bounce_piece(ctx);
    return piece < lane->caps->message_max ? piece : lane->caps->message_max;
}

static int put_bounced(struct ferry_ctx *ctx, struct fy_flow *flow, const struct ferry_op *op)
{
    const struct fy_lane *lane = flow->lane;
    struct ferry_op part = *op;
    size_t most = piece_of(ctx, lane);
    const char *from = op->local;
    for (size_t left = op->length; left; left -= part.length) {
        int rc;
        part.length = left < most ? left : most;
        part.local = fy_bounce_take(ctx, lane, part.length, &part.region, &rc);
        if (!part.local)
            return rc;
        memcpy(part.local, from, part.length);
        rc = post_piece(ctx, flow, &part);
        if (rc < 0)
            return rc;
        part.flags &= ~FERRY_OP_FENCED;
        from += part.length;
        part.offset += part.length;
    }
    return FERRY_DONE;
}

static int get_bounced(struct ferry_ctx *ctx, struct fy_flow *flow, const struct ferry_op *op)
{
    const struct fy_lane *lane = flow->lane;
    struct ferry_op part = *op;
    size_t most = piece_of(ctx, lane);
    char *to = op->local;
    for (size_t left = op->length; left; left -= part.length) {
        uint64_t ticket = 0;
        int rc;
        part.length = left < most ? left : most;
        part.local = fy_bounce_take(ctx, lane, part.length, &part.region, &rc);
        if (!part.local)
            return rc;
        rc = post_piece(ctx, flow, &part);
        if (rc == FERRY_OK)
            rc = fy_lane_wait(ctx, lane, op->peer, &ticket, "get");
        if (rc < 0)
            return rc;
        memcpy(to, part.local, part.length);
        to += part.length;
        part.offset += part.length;
    }
    return FERRY_DONE;
}

/* The transport wants registered memory, or the registration of what has one; the caller's may be any. */
static int post_registered(struct ferry_ctx *ctx, struct fy_flow *flow, struct ferry_op *op)
{
    const struct fy_lane *lane = flow->lane;
    op->region = fy_heap_region(ctx->heap, lane->index, op->local, op->length);
    if (!op->region && lane->must_register && op->kind == FERRY_OP_PUT && op->length <= lane->copy_max)
        op->flags |= FERRY_OP_COPY;
    if (op->region || op->flags & FERRY_OP_COPY || !lane->must_register)
        return post_all(ctx, flow, op, lane->caps->message_max);
    if (op->length <= ctx->world->bounce)
        return op->kind == FERRY_OP_PUT ? put_bounced(ctx, flow, op) : get_bounced(ctx, flow, op);
    int rc = fy_loan(ctx, lane, op->local, op->length, op->peer, &op->region);
    return rc == FERRY_OK ? post_all(ctx, flow, op, lane->caps->message_max) : rc;
}

int fy_rma_careful(struct ferry_ctx *ctx, struct fy_flow *flow, struct ferry_op *op)
{
    const struct fy_lane *lane = flow->lane;
    return lane->must_register || lane->finds_local ? post_registered(ctx, flow, op) : post_all(ctx, flow, op, lane->caps->message_max);
}

int fy_words_put(struct ferry_ctx *ctx, struct fy_flow *flow, struct ferry_op *op)
{
    const struct fy_lane *lane = flow->lane;
    if (op->length <= lane->copy_max) {
        op->flags |= FERRY_OP_COPY;
    } else {
        int rc;
        char *words = fy_bounce_take(ctx, lane, op->length, &op->region, &rc);
        if (!words)
            return rc;
        op->local = memcpy(words, op->local, op->length);
    }
    size_t most = lane->caps->message_max & ~(size_t)7;
    struct ferry_op part = *op;
    for (size_t left = op->length; left; left -= part.length) {
        part.length = left < most ? left : most;
        int rc = FERRY_OK;
        if (ctx->limited)
            rc = fy_flow_throttle(ctx, flow, op->peer, part.length);
        if (rc == FERRY_OK)
            rc = fy_posted(ctx, lane, &part, lane->ops->rma(lane->handle, ctx->id, &part));
        if (rc < 0)
            return rc;
        part.flags &= ~FERRY_OP_FENCED;
        part.local = (char *)part.local + part.length;
        part.offset += part.length;
    }
    return FERRY_OK;
}
