/* SPDX-License-Identifier: Apache-2.0
 * Atomics that the hot path leaves: by the transport that everybody uses on that memory, by a loop of compare-and-swaps, or by
 * mailbox; and signals that are puts of a word. Called by the channel's thread, or under its lock. */
#include "bounce.h"
#include "mail.h"

#include <string.h>

/* 8 aligned bytes that are seen whole. */
static int put_word(struct ferry_ctx *ctx, const struct fy_amo_call *call, uint32_t pe)
{
    struct fy_flow *flow = &ctx->flows[pe];
    uint64_t value = call->operand;
    struct ferry_op op = {.kind = FERRY_OP_PUT, .flags = FERRY_OP_WORD, .peer = pe, .local = &value, .key = call->place.key,
                          .offset = call->place.offset, .length = 8};
    int rc = fy_flow_begin(ctx, flow, pe, FY_DID_PUT, &op.flags, call->how & FY_AMO_STRONG);
    if (rc != FERRY_OK)
        return rc;
    if (!flow->lane->counted)
        return fy_words_put(ctx, flow, &op);
    rc = fy_cover_put(ctx, pe, &op); /* a strong signal behind it covers it like any other put */
    if (rc == FERRY_OK)
        rc = fy_words_put(ctx, flow, &op);
    if (rc == FERRY_OK)
        fy_cover_posted(ctx, pe);
    return rc;
}

/* On another lane than that of the puts there is no order between the two but completion. */
static int order_far(struct ferry_ctx *ctx, struct fy_flow *flow, uint32_t pe, const struct fy_lane *lane, bool strong)
{
    uint32_t mask = FY_DID_PUT | FY_DID_AMO | FY_DID_MAIL;
    if (!(lane->caps->order & FERRY_ORDER_AMO_AMO))
        mask |= FY_DID_FAR;
    int rc = fy_flow_far(ctx, flow, pe, lane);
    if (rc != FERRY_OK)
        return rc;
    if (flow->did & (strong ? FY_DID_ANY(mask) : mask << FY_DID_BEFORE)) {
        fy_count(&ctx->counters.drains, 1);
        rc = fy_quiet_pe(ctx, pe);
    }
    if (rc != FERRY_OK)
        return rc;
    if (!(flow->did & FY_DID_SET(FY_DID_OUT)))
        fy_flow_list(ctx, flow, pe);
    flow->did |= FY_DID(FY_DID_FAR);
    return FERRY_OK;
}

static int order_amo(struct ferry_ctx *ctx, uint32_t pe, const struct fy_lane *lane, bool strong, uint32_t *flags)
{
    struct fy_flow *flow = &ctx->flows[pe];
    if (lane != flow->lane)
        return order_far(ctx, flow, pe, lane, strong);
    return fy_flow_begin(ctx, flow, pe, FY_DID_AMO, flags, strong);
}

/* One native atomic, complete on return if it fetches. */
static int amo_on_lane(struct ferry_ctx *ctx, const struct fy_lane *lane, const struct fy_amo_call *call, uint32_t pe)
{
    struct ferry_op op = {.kind = FERRY_OP_AMO, .amo = (uint8_t)call->kind, .width = (uint8_t)call->width, .peer = pe,
                          .flags = call->old ? FERRY_OP_FETCH : 0, .local = call->old, .key = call->place.key,
                          .offset = call->place.offset, .length = call->width, .operand = call->operand,
                          .compare = call->compare};
    uint64_t ticket = 0;
    int rc = order_amo(ctx, pe, lane, call->how & FY_AMO_STRONG, &op.flags);
    if (rc == FERRY_OK && call->old && lane->must_register)
        op.local = fy_bounce_take(ctx, lane, call->width, &op.region, &rc);
    if (rc == FERRY_OK && ctx->limited && lane == ctx->flows[pe].lane)
        rc = fy_flow_throttle(ctx, &ctx->flows[pe], pe, call->width);
    if (rc != FERRY_OK)
        return rc;
    rc = fy_posted(ctx, lane, &op, lane->ops->amo(lane->handle, ctx->id, &op));
    if (rc == FERRY_OK && call->old)
        rc = fy_lane_wait(ctx, lane, pe, &ticket, "a fetched value");
    if (rc < 0)
        return rc;
    if (call->old && op.local != call->old)
        memcpy(call->old, op.local, call->width);
    return FERRY_OK;
}

uint64_t fy_amo_result(unsigned kind, uint64_t before, uint64_t operand, uint64_t compare)
{
    switch (kind) {
    case FERRY_AMO_ADD: return before + operand;
    case FERRY_AMO_AND: return before & operand;
    case FERRY_AMO_OR: return before | operand;
    case FERRY_AMO_XOR: return before ^ operand;
    case FERRY_AMO_FETCH: return before;
    case FERRY_AMO_CSWAP: return before == compare ? operand : before;
    default: return operand;
    }
}

/* 8 bytes only: through an 8-byte swap, a put to the other half of the word would be lost. A guess that is wrong costs one
 * more round; somebody else's update came in between, so the job as a whole moves. */
static int amo_by_swaps(struct ferry_ctx *ctx, const struct fy_lane *lane, const struct fy_amo_call *call, uint32_t pe)
{
    uint64_t guess = 0, seen = 0;
    struct fy_amo_call swap = *call;
    swap.kind = FERRY_AMO_CSWAP;
    swap.old = &seen;
    for (;;) {
        swap.compare = guess;
        swap.operand = fy_amo_result(call->kind, guess, call->operand, 0);
        int rc = amo_on_lane(ctx, lane, &swap, pe);
        if (rc != FERRY_OK)
            return rc;
        if (seen == guess)
            break;
        guess = seen;
        swap.how = 0; /* what the first one was ordered behind, the others are */
    }
    if (call->old)
        *(uint64_t *)call->old = seen;
    return FERRY_OK;
}

static bool lane_has(const struct fy_lane *lane, const struct fy_amo_call *call)
{
    uint32_t kinds = call->width == 8 ? lane->caps->amo64 : lane->caps->amo32;
    return kinds & (call->old ? FERRY_AMO_FETCH_BIT(call->kind) : FERRY_AMO_BIT(call->kind));
}

/* Strong signals where arrivals are counted: the target applies them when all that they cover has been counted. */
static bool goes_counted(const struct ferry_ctx *ctx, const struct fy_amo_call *call, uint32_t pe)
{
    const struct fy_flow *flow = &ctx->flows[pe];
    return flow->lane->counted && call->how & FY_AMO_STRONG && call->place.target->way[1].lane == FY_WAY_MAIL &&
           flow->did & FY_DID_ANY(FY_DID_PUT | FY_DID_MAIL);
}

int fy_amo_made(struct ferry_ctx *ctx, const struct fy_amo_call *call, uint32_t pe)
{
    const struct fy_target *target = call->place.target;
    const struct fy_lane *own = ctx->flows[pe].lane;
    const struct fy_way *way = &target->way[call->width == 8];
    uint32_t native = call->width == 8 ? target->amo64 : target->amo32;
    if (goes_counted(ctx, call, pe))
        return fy_mail_amo(ctx, call, pe);
    if (native && lane_has(own, call))
        return amo_on_lane(ctx, own, call, pe);
    if (call->how & FY_AMO_SIGNAL && call->kind == FERRY_AMO_SET)
        return put_word(ctx, call, pe);
    if (way->lane == FY_WAY_MAIL)
        return fy_mail_amo(ctx, call, pe);
    struct fy_amo_call there = *call;
    there.place.key = way->key;
    const struct fy_lane *lane = &ctx->world->lanes[way->lane];
    return lane_has(lane, call) ? amo_on_lane(ctx, lane, &there, pe) : amo_by_swaps(ctx, lane, &there, pe);
}

int fy_amo32(struct ferry_ctx *ctx, const void *word, unsigned kind, uint32_t operand, uint32_t compare, uint32_t *old,
             uint32_t pe)
{
    return fy_amo_width(ctx, word, 4, kind, operand, compare, old, pe, 0);
}
