/* SPDX-License-Identifier: Apache-2.0
 * The path from an operation to the transport: locate the target, order, post. Header-inline, since it is the hot path.
 * Called by the channel's thread, or under its lock, with pe < n_pes; everything unlikely is out of line. */
#ifndef FY_ORDER_POST_H
#define FY_ORDER_POST_H

#include "channel.h"

#define FY_SIGNAL_WEAK ((unsigned)FERRY_SIGNAL_WEAK)

/* Where a symmetric address leads on a peer. */
struct fy_place {
    const struct ferry_rkey *key;
    uint64_t offset;
    const struct fy_target *target;
};

/* An atomic that the hot path leaves. */
#define FY_AMO_SIGNAL 1u /* it is a signal: SET may be a put of the word */
#define FY_AMO_STRONG 2u /* ordered behind all that was posted before, not only before the last fence */
struct fy_amo_call {
    struct fy_place place;
    unsigned width, kind, how;
    uint64_t operand, compare;
    void *old; /* NULL: not fetching */
};

/* Resolves the peer's key, or says what is wrong with address or length. */
int fy_locate_careful(struct ferry_ctx *ctx, const void *address, size_t length, uint32_t pe, struct fy_place *place);
/* Puts and gets that need cutting or a registered local side. */
int fy_rma_careful(struct ferry_ctx *ctx, struct fy_flow *flow, struct ferry_op *op);
/* A null local buffer: an error unless the length is 0. */
int fy_null_buffer(struct ferry_ctx *ctx, uint32_t pe, size_t length, int kind);
/* An atomic that the transport of the puts has no native form of, or may not do on that memory. */
int fy_amo_made(struct ferry_ctx *ctx, const struct fy_amo_call *call, uint32_t pe);
/* What an atomic leaves in a word that held `before`. 4 bytes: the low half of it. */
uint64_t fy_amo_result(unsigned kind, uint64_t before, uint64_t operand, uint64_t compare);
/* A put of words from the stack; they are copied. The flow has begun it. */
int fy_words_put(struct ferry_ctx *ctx, struct fy_flow *flow, struct ferry_op *op);
/* A get by mailbox; unless `blocking`, `dest` is filled by quiet. */
int fy_get_made(struct ferry_ctx *ctx, void *dest, const struct fy_place *place, size_t length, uint32_t pe, bool blocking);
int fy_misaligned(struct ferry_ctx *ctx, const void *address, unsigned width, uint32_t pe);
/* Completion of a posted get, fetch, or put that could not be copied. */
int fy_complete_local(struct ferry_ctx *ctx, uint32_t pe);

/* Where own memory is named from: its segment and the offset in it; false if it is not symmetric. */
static inline bool fy_heap_name(struct fy_heap *heap, const void *address, uint32_t *index, uint64_t *offset)
{
    uint64_t at = (uint64_t)((uintptr_t)address - (uintptr_t)heap->base);
    if (at >= atomic_load_explicit(&heap->backed, memory_order_acquire))
        return false;
    const struct fy_segment *segment = atomic_load_explicit(&heap->granules[at >> FY_GRANULE_SHIFT], memory_order_acquire);
    *index = segment->index;
    *offset = at - segment->start;
    return true;
}

static inline int fy_locate(struct ferry_ctx *ctx, const void *address, size_t length, uint32_t pe, struct fy_place *place)
{
    struct fy_heap *heap = ctx->world->heap;
    uint64_t at = (uint64_t)((uintptr_t)address - (uintptr_t)heap->base);
    if (fy_unlikely(at >= atomic_load_explicit(&heap->backed, memory_order_acquire)))
        return fy_locate_careful(ctx, address, length, pe, place);
    struct fy_segment *segment = atomic_load_explicit(&heap->granules[at >> FY_GRANULE_SHIFT], memory_order_acquire);
    const struct fy_target *target = atomic_load_explicit(&segment->targets[pe], memory_order_acquire);
    uint64_t inside = at - segment->start, end;
    if (fy_unlikely(__builtin_add_overflow(inside, length, &end) || end > target->length))
        return fy_locate_careful(ctx, address, length, pe, place);
    place->key = target->key;
    place->offset = inside;
    place->target = target;
    return FERRY_OK;
}

/* Connects and folds fences if need be, then notes that an operation of `kind` (FY_DID_…) follows. `unordered` is the lane's
 * mask for the kind: if the transport does not keep the order itself, *flags gets what makes it. */
static inline int fy_flow_begin(struct ferry_ctx *ctx, struct fy_flow *flow, uint32_t pe, uint32_t kind, uint32_t *flags,
                                bool strong)
{
    if (fy_unlikely(flow->epoch != ctx->epoch)) {
        int rc = fy_flow_enter(ctx, flow, pe);
        if (rc != FERRY_OK)
            return rc;
    }
    const struct fy_lane *lane = flow->lane;
    uint32_t mask = 0;
    if (kind == FY_DID_PUT)
        mask = strong ? lane->strong_put : lane->unordered_put;
    else if (kind == FY_DID_AMO)
        mask = strong ? lane->strong_amo : lane->unordered_amo;
    if (fy_unlikely(flow->did & mask)) {
        int rc = fy_flow_seal(ctx, flow, pe, mask, flags);
        if (rc != FERRY_OK)
            return rc;
    }
    if (!(flow->did & FY_DID_SET(FY_DID_OUT)))
        fy_flow_list(ctx, flow, pe);
    flow->did |= FY_DID(kind);
    return FERRY_OK;
}

/* Result of a call into the transport, for the caller of a non-blocking operation. */
static inline int fy_posted(struct ferry_ctx *ctx, const struct fy_lane *lane, const struct ferry_op *op, int rc)
{
    fy_probe_post(ctx->id, op->peer, op->kind, op->length);
    if (fy_likely(rc == FERRY_DONE || rc == FERRY_OK))
        return rc;
    return fy_lane_retry(ctx, lane, op, rc);
}

/* A put. `blocking`: the source is free on return. more: FERRY_OP_MORE or 0. FERRY_OK or an error. */
static inline __attribute__((always_inline)) int fy_put_flagged(struct ferry_ctx *ctx, void *dest, const void *src,
                                                                size_t length, uint32_t pe, bool blocking, uint32_t more)
{
    if (fy_unlikely(!src || !length))
        return fy_null_buffer(ctx, pe, length, FERRY_OP_PUT);
    struct fy_place place;
    int rc = fy_locate(ctx, dest, length, pe, &place);
    if (fy_unlikely(rc != FERRY_OK))
        return rc;
    struct fy_flow *flow = &ctx->flows[pe];
    struct ferry_op op;
    op.flags = more;
    rc = fy_flow_begin(ctx, flow, pe, FY_DID_PUT, &op.flags, false);
    if (fy_unlikely(rc != FERRY_OK))
        return rc;
    const struct fy_lane *lane = flow->lane;
    op.kind = FERRY_OP_PUT;
    op.peer = pe;
    op.local = (void *)(uintptr_t)src;
    op.region = NULL;
    op.key = place.key;
    op.offset = place.offset;
    op.length = length;
    if (length <= (blocking ? lane->copy_max : lane->small_max))
        op.flags |= FERRY_OP_COPY;
    fy_count(&ctx->counters.puts, 1);
    fy_count(&ctx->counters.bytes_put, length);
    if (fy_unlikely(length > lane->simple_max || ctx->limited))
        rc = fy_rma_careful(ctx, flow, &op);
    else
        rc = fy_posted(ctx, lane, &op, lane->ops->rma(lane->handle, ctx->id, &op));
    if (fy_likely(rc == FERRY_DONE || (rc == FERRY_OK && (!blocking || (op.flags & FERRY_OP_COPY)))))
        return FERRY_OK;
    return rc == FERRY_OK ? fy_complete_local(ctx, pe) : rc;
}

static inline int fy_put(struct ferry_ctx *ctx, void *dest, const void *src, size_t length, uint32_t pe, bool blocking)
{
    return fy_put_flagged(ctx, dest, src, length, pe, blocking, 0);
}

static inline __attribute__((always_inline)) int fy_get_flagged(struct ferry_ctx *ctx, void *dest, const void *src,
                                                                size_t length, uint32_t pe, bool blocking, uint32_t more)
{
    if (fy_unlikely(!dest || !length))
        return fy_null_buffer(ctx, pe, length, FERRY_OP_GET);
    struct fy_place place;
    int rc = fy_locate(ctx, src, length, pe, &place);
    if (fy_unlikely(rc != FERRY_OK))
        return rc;
    struct fy_flow *flow = &ctx->flows[pe];
    struct ferry_op op;
    op.flags = more;
    rc = fy_flow_begin(ctx, flow, pe, FY_DID_GET, &op.flags, false);
    if (fy_unlikely(rc != FERRY_OK))
        return rc;
    const struct fy_lane *lane = flow->lane;
    if (fy_unlikely(!(lane->caps->flags & FERRY_CAP_GET)))
        return fy_get_made(ctx, dest, &place, length, pe, blocking);
    op.kind = FERRY_OP_GET;
    op.peer = pe;
    op.local = dest;
    op.region = NULL;
    op.key = place.key;
    op.offset = place.offset;
    op.length = length;
    fy_count(&ctx->counters.gets, 1);
    fy_count(&ctx->counters.bytes_got, length);
    if (fy_unlikely(length > lane->get_max || ctx->limited))
        rc = fy_rma_careful(ctx, flow, &op);
    else
        rc = fy_posted(ctx, lane, &op, lane->ops->rma(lane->handle, ctx->id, &op));
    if (fy_likely(rc == FERRY_DONE || (rc == FERRY_OK && !blocking)))
        return FERRY_OK;
    return rc == FERRY_OK ? fy_complete_local(ctx, pe) : rc;
}

static inline int fy_get(struct ferry_ctx *ctx, void *dest, const void *src, size_t length, uint32_t pe, bool blocking)
{
    return fy_get_flagged(ctx, dest, src, length, pe, blocking, 0);
}

/* An atomic of 4 or 8 bytes; `width` is a constant where this is inlined. how: FY_AMO_. */
static inline __attribute__((always_inline)) int fy_amo_width(struct ferry_ctx *ctx, const void *word, unsigned width,
                                                             unsigned kind, uint64_t operand, uint64_t compare, void *old,
                                                             uint32_t pe, unsigned how)
{
    if (fy_unlikely((uintptr_t)word & (width - 1)))
        return fy_misaligned(ctx, word, width, pe);
    struct fy_place place;
    int rc = fy_locate(ctx, word, width, pe, &place);
    if (fy_unlikely(rc != FERRY_OK))
        return rc;
    struct fy_flow *flow = &ctx->flows[pe];
    if (fy_unlikely(flow->epoch != ctx->epoch)) {
        rc = fy_flow_enter(ctx, flow, pe);
        if (rc != FERRY_OK)
            return rc;
    }
    const struct fy_lane *lane = flow->lane;
    fy_count(&ctx->counters.atomics, 1);
    uint32_t native = width == 8 ? place.target->amo64 : place.target->amo32;
    if (fy_unlikely(!(native & (old ? FERRY_AMO_FETCH_BIT(kind) : FERRY_AMO_BIT(kind))) || (old ? lane->made_fetch : lane->counted)))
        return fy_amo_made(ctx, &(struct fy_amo_call){place, width, kind, how, operand, compare, old}, pe);
    struct ferry_op op;
    op.flags = old ? FERRY_OP_FETCH : 0;
    rc = fy_flow_begin(ctx, flow, pe, FY_DID_AMO, &op.flags, how & FY_AMO_STRONG);
    if (fy_unlikely(rc != FERRY_OK))
        return rc;
    op.kind = FERRY_OP_AMO;
    op.amo = (uint8_t)kind;
    op.width = (uint8_t)width;
    op.peer = pe;
    op.local = old;
    op.region = NULL;
    op.key = place.key;
    op.offset = place.offset;
    op.length = width;
    op.operand = operand;
    op.compare = compare;
    if (fy_unlikely(ctx->limited)) {
        rc = fy_flow_throttle(ctx, flow, pe, width);
        if (rc != FERRY_OK)
            return rc;
    }
    rc = fy_posted(ctx, lane, &op, lane->ops->amo(lane->handle, ctx->id, &op));
    if (fy_likely(rc == FERRY_DONE || (rc == FERRY_OK && !old)))
        return FERRY_OK;
    return rc == FERRY_OK ? fy_complete_local(ctx, pe) : rc;
}

/* An 8-byte atomic; `old` NULL: not fetching. */
static inline int fy_amo(struct ferry_ctx *ctx, const void *word, unsigned kind, uint64_t operand, uint64_t compare,
                         uint64_t *old, uint32_t pe, unsigned how)
{
    return fy_amo_width(ctx, word, 8, kind, operand, compare, old, pe, how);
}

/* A 4-byte atomic, not inlined: nothing depends on its speed. */
int fy_amo32(struct ferry_ctx *ctx, const void *word, unsigned kind, uint32_t operand, uint32_t compare, uint32_t *old,
             uint32_t pe);

/* The put and its signal as one operation of the transport. */
static inline int fy_put_signal_native(struct ferry_ctx *ctx, struct fy_flow *flow, uint32_t pe, struct ferry_op *op)
{
    const struct fy_lane *lane = flow->lane;
    fy_count(&ctx->counters.puts, 1);
    fy_count(&ctx->counters.signals, 1);
    fy_count(&ctx->counters.bytes_put, op->length);
    if (fy_unlikely(ctx->limited)) {
        int rc = fy_flow_throttle(ctx, flow, pe, op->length);
        if (rc != FERRY_OK)
            return rc;
    }
    return fy_posted(ctx, lane, op, lane->ops->put_signal(lane->handle, ctx->id, op));
}

/* What a put with signal that is longer than lane->simple_max needs to be one operation nevertheless: the registration of a
 * source that has one, and room in one message. NULL: it is none. */
static inline struct ferry_region *fy_signal_region(struct ferry_ctx *ctx, const struct fy_lane *lane, const void *src,
                                                          size_t length)
{
    if (length > lane->caps->message_max || lane->counted || !(lane->must_register || lane->finds_local))
        return NULL;
    return fy_heap_region(ctx->heap, lane->index, src, length);
}

/* put_signal where the transport lacks it, or not as strong as asked: a put, then a signal behind it. */
int fy_put_signal_made(struct ferry_ctx *ctx, void *dest, const void *src, size_t length, uint64_t *signal, uint64_t value,
                       unsigned how, uint32_t pe, bool blocking);
int fy_bad_signal(struct ferry_ctx *ctx, unsigned how, uint32_t pe);

/* The signal alone: 0 SET, 1 ADD, perhaps | FY_SIGNAL_WEAK. */
static inline int fy_signal(struct ferry_ctx *ctx, uint64_t *signal, uint64_t value, unsigned how, uint32_t pe)
{
    unsigned op = how & ~FY_SIGNAL_WEAK;
    if (fy_unlikely(op > 1))
        return fy_bad_signal(ctx, how, pe);
    fy_count(&ctx->counters.signals, 1);
    return fy_amo(ctx, signal, op == 0 ? FERRY_AMO_SET : FERRY_AMO_ADD, value, 0, NULL, pe,
                  how & FY_SIGNAL_WEAK ? FY_AMO_SIGNAL : FY_AMO_SIGNAL | FY_AMO_STRONG);
}

static inline int fy_put_signal(struct ferry_ctx *ctx, void *dest, const void *src, size_t length, uint64_t *signal,
                                uint64_t value, unsigned how, uint32_t pe, bool blocking)
{
    struct fy_flow *flow = &ctx->flows[pe];
    if (fy_unlikely(flow->epoch != ctx->epoch)) {
        int entered = fy_flow_enter(ctx, flow, pe);
        if (entered != FERRY_OK)
            return entered;
    }
    const struct fy_lane *lane = flow->lane;
    bool weak = (how & FY_SIGNAL_WEAK) != 0;
    struct ferry_region *region = NULL;
    if (fy_unlikely(!length || !src || (how & ~FY_SIGNAL_WEAK) > 1 || !lane->signal_native ||
                    !(lane->signal_strong || weak) || (blocking && length > lane->copy_max) ||
                    (length > lane->simple_max && !(region = fy_signal_region(ctx, lane, src, length)))))
        return fy_put_signal_made(ctx, dest, src, length, signal, value, how, pe, blocking);
    struct fy_place place, mark;
    int rc = fy_locate(ctx, dest, length, pe, &place);
    if (fy_likely(rc == FERRY_OK))
        rc = (uintptr_t)signal & 7 ? fy_misaligned(ctx, signal, 8, pe) : fy_locate(ctx, signal, 8, pe, &mark);
    if (fy_unlikely(rc != FERRY_OK))
        return rc;
    if (fy_unlikely(how & FERRY_SIGNAL_ADD && !(mark.target->amo64 & FERRY_AMO_BIT(FERRY_AMO_ADD))))
        return fy_put_signal_made(ctx, dest, src, length, signal, value, how, pe, blocking); /* another domain's word */
    struct ferry_op op;
    op.flags = (blocking || length <= lane->small_max ? FERRY_OP_COPY : 0) | (weak ? FERRY_OP_WEAK : 0);
    rc = fy_flow_begin(ctx, flow, pe, FY_DID_PUT, &op.flags, false);
    if (fy_unlikely(rc != FERRY_OK))
        return rc;
    flow->did |= FY_DID(FY_DID_AMO);
    op.kind = FERRY_OP_PUT_SIGNAL;
    op.amo = (how & ~FY_SIGNAL_WEAK) == 0 ? FERRY_AMO_SET : FERRY_AMO_ADD;
    op.width = 8;
    op.peer = pe;
    op.local = (void *)(uintptr_t)src;
    op.region = region;
    op.key = place.key;
    op.offset = place.offset;
    op.length = length;
    op.operand = value;
    op.signal_key = mark.key;
    op.signal_offset = mark.offset;
    rc = fy_put_signal_native(ctx, flow, pe, &op);
    return rc == FERRY_DONE ? FERRY_OK : rc;
}

#endif
