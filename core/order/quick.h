/* SPDX-License-Identifier: Apache-2.0
 * The short way of a small put, and of a put with signal, into the transport: nothing else to do than to name the target and
 * to call. Whatever stands in the way is found before anything was done, and sends the caller the long way. The source is copied.
 * Called by the channel's thread with pe < n_pes. */
#ifndef FY_ORDER_QUICK_H
#define FY_ORDER_QUICK_H

#include "post.h"

/* Where it leads; the length is checked by the caller. Addresses that are not symmetric have a target without length. */
static inline const struct fy_target *fy_quick_target(const struct ferry_ctx *ctx, const void *address, uint32_t pe, uint64_t *at)
{
    const struct fy_heap *heap = ctx->heap;
    *at = (uint64_t)((uintptr_t)address - (uintptr_t)heap->base);
    if (fy_unlikely(*at >= atomic_load_explicit(&heap->backed, memory_order_acquire)))
        return &fy_target_none;
    struct fy_segment *segment = atomic_load_explicit(&heap->granules[*at >> FY_GRANULE_SHIFT], memory_order_acquire);
    const struct fy_target *target = atomic_load_explicit(&segment->targets[pe], memory_order_acquire);
    *at -= target->start;
    return target;
}

/* A length that is copied, no border needed, and the books say already what is to follow. */
static inline bool fy_quick_flow(const struct fy_flow *flow, size_t length, uint32_t mask, uint32_t did)
{
    return length - 1 < flow->quick_max /* nor 0 */ && (flow->did & mask) == did;
}

/* What the transport did not take at once. It finds the lane again, so that the short way keeps nothing over its call. */
int fy_quick_retry(struct ferry_ctx *ctx, const struct ferry_op *op, int rc);

/* Fills op and *to; false: the long way. */
static inline __attribute__((always_inline)) bool fy_quick_put(struct ferry_ctx *ctx, void *dest, const void *src, size_t length,
                                                              uint32_t pe, struct ferry_op *op, const struct fy_lane **to)
{
    uint64_t at;
    const struct fy_target *target = fy_quick_target(ctx, dest, pe, &at);
    struct fy_flow *flow = &ctx->flows[pe];
    const struct fy_lane *lane = flow->lane;
    if (fy_unlikely(flow->epoch != ctx->epoch)) /* not connected, perhaps: there is no lane */
        return false;
    if (fy_unlikely(!fy_quick_flow(flow, length, lane->quick_put, FY_DID(FY_DID_PUT)) || at + length > target->length ||
                    !src))
        return false;
    op->kind = FERRY_OP_PUT;
    op->flags = FERRY_OP_COPY;
    op->peer = pe;
    op->local = (void *)(uintptr_t)src;
    op->length = length;
    op->region = NULL;
    op->key = target->key;
    op->offset = at;
    fy_count(&ctx->counters.puts, 1);
    fy_count(&ctx->counters.bytes_put, length);
    fy_probe_post(ctx->id, pe, FERRY_OP_PUT, length);
    *to = lane;
    return true;
}

/* Strong signals by SET or ADD; the lane has them natively. */
static inline __attribute__((always_inline)) bool fy_quick_put_signal(struct ferry_ctx *ctx, void *dest, const void *src,
                                                                     size_t length, uint64_t *signal, uint64_t value,
                                                                     unsigned how, uint32_t pe, struct ferry_op *op,
                                                                     const struct fy_lane **to)
{
    uint64_t at, mark_at;
    const struct fy_target *target = fy_quick_target(ctx, dest, pe, &at), *mark = fy_quick_target(ctx, signal, pe, &mark_at);
    struct fy_flow *flow = &ctx->flows[pe];
    const struct fy_lane *lane = flow->lane;
    if (fy_unlikely(flow->epoch != ctx->epoch || how > FERRY_SIGNAL_ADD))
        return false;
    if (fy_unlikely(!fy_quick_flow(flow, length, lane->quick_signal, FY_DID(FY_DID_PUT) | FY_DID(FY_DID_AMO)) ||
                    at + length > target->length || !src || mark_at + 8 > mark->length || (uintptr_t)signal & 7 ||
                    !(lane->quick_kinds & mark->amo64 & FERRY_AMO_BIT(FERRY_AMO_ADD))))
        return false;
    op->kind = FERRY_OP_PUT_SIGNAL;
    op->amo = how == FERRY_SIGNAL_SET ? FERRY_AMO_SET : FERRY_AMO_ADD;
    op->width = 8;
    op->flags = FERRY_OP_COPY;
    op->peer = pe;
    op->local = (void *)(uintptr_t)src;
    op->length = length;
    op->region = NULL;
    op->key = target->key;
    op->offset = at;
    op->operand = value;
    op->signal_key = mark->key;
    op->signal_offset = mark_at;
    fy_count(&ctx->counters.puts, 1);
    fy_count(&ctx->counters.signals, 1);
    __asm__("" : "+m"(ctx->counters.signals)); /* two additions, which the compiler would make one of vectors, at twice the cost */
    fy_count(&ctx->counters.bytes_put, length);
    fy_probe_post(ctx->id, pe, FERRY_OP_PUT_SIGNAL, length);
    *to = lane;
    return true;
}

#endif
