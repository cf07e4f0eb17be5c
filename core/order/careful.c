/* SPDX-License-Identifier: Apache-2.0
 * What the hot path leaves out: first contact, bad arguments, cutting, registered sources, signals a transport lacks.
 * Called by the channel's thread, or under its lock. */
#include "post.h"

#include <stdio.h>

static int outside(struct ferry_ctx *ctx, const void *address, uint32_t pe)
{
    return fy_fail(ctx->world, FERRY_ERR_ARG, (int)pe, (int)ctx->id, -1, "use memory from ferry_malloc",
                   "remote address %p is not in the symmetric heap (%p, %llu bytes in use)", address,
                   (void *)ctx->world->heap->base, (unsigned long long)atomic_load(&ctx->world->heap->backed));
}

int fy_locate_careful(struct ferry_ctx *ctx, const void *address, size_t length, uint32_t pe, struct fy_place *place)
{
    struct fy_world *world = ctx->world;
    struct fy_heap *heap = world->heap;
    uint64_t at = (uint64_t)((uintptr_t)address - (uintptr_t)heap->base);
    if (at >= atomic_load_explicit(&heap->backed, memory_order_acquire))
        return outside(ctx, address, pe);
    struct fy_segment *segment = atomic_load_explicit(&heap->granules[at >> FY_GRANULE_SHIFT], memory_order_acquire);
    uint64_t inside = at - segment->start;
    if (length > segment->length - inside)
        return fy_fail(world, FERRY_ERR_ARG, (int)pe, (int)ctx->id, -1, NULL,
                       "length %zu at remote address %p goes past the end of its segment, %llu bytes further", length, address,
                       (unsigned long long)(segment->length - inside));
    const struct fy_target *target;
    struct ferry_error error;
    int rc = fy_heap_resolve(heap, segment, pe, &target, &error);
    if (rc < 0)
        return fy_errors_thread(world->errors, &error);
    if (inside + length > target->length)
        return fy_fail(world, FERRY_ERR_ARG, (int)pe, (int)ctx->id, -1, NULL,
                       "length %zu at remote address %p goes past what pe %u shares", length, address, pe);
    place->key = target->key;
    place->offset = inside;
    return FERRY_OK;
}

int fy_null_buffer(struct ferry_ctx *ctx, uint32_t pe, size_t length, int kind)
{
    if (length == 0)
        return FERRY_OK;
    return fy_fail(ctx->world, FERRY_ERR_ARG, (int)pe, (int)ctx->id, kind, NULL, "the local buffer is null, its length %zu",
                   length);
}

int fy_misaligned(struct ferry_ctx *ctx, const void *address, unsigned width, uint32_t pe)
{
    return fy_fail(ctx->world, FERRY_ERR_ARG, (int)pe, (int)ctx->id, FERRY_OP_AMO, NULL,
                   "word %p is not aligned to %u bytes", address, width);
}

int fy_bad_signal(struct ferry_ctx *ctx, unsigned how, uint32_t pe)
{
    return fy_fail(ctx->world, FERRY_ERR_ARG, (int)pe, (int)ctx->id, FERRY_OP_PUT_SIGNAL, NULL,
                   "signal operation 0x%x is neither FERRY_SIGNAL_SET nor FERRY_SIGNAL_ADD", how);
}

static int local_region(struct ferry_ctx *ctx, const struct fy_lane *lane, struct ferry_op *op)
{
    op->region = fy_heap_region(ctx->world->heap, lane->index, op->local, op->length);
    if (op->region || !lane->must_register)
        return FERRY_OK;
    if ((op->flags & FERRY_OP_COPY) && op->kind == FERRY_OP_PUT)
        return FERRY_OK;
    if (op->kind == FERRY_OP_PUT && op->length <= lane->copy_max) {
        op->flags |= FERRY_OP_COPY;
        return FERRY_OK;
    }
    return fy_fail(ctx->world, FERRY_ERR_UNSUPPORTED, (int)op->peer, (int)ctx->id, op->kind,
                   "register it with ferry_register, or use memory from ferry_malloc",
                   "transport %s wants registered local memory, and %p (%zu bytes) is not",
                   ctx->world->transports[lane->index]->name, op->local, op->length);
}

int fy_rma_careful(struct ferry_ctx *ctx, struct fy_flow *flow, struct ferry_op *op)
{
    const struct fy_lane *lane = flow->lane;
    if (op->kind == FERRY_OP_GET && !(lane->caps->flags & FERRY_CAP_GET))
        return fy_fail(ctx->world, FERRY_ERR_UNSUPPORTED, (int)op->peer, (int)ctx->id, FERRY_OP_GET,
                       "choose another FERRY_TRANSPORT", "transport %s has no get",
                       ctx->world->transports[lane->index]->name);
    int rc = lane->must_register ? local_region(ctx, lane, op) : FERRY_OK;
    if (rc != FERRY_OK)
        return rc;
    struct ferry_op part = *op;
    size_t left = op->length;
    int all = FERRY_DONE;
    while (left) {
        part.length = left < lane->caps->message_max ? left : lane->caps->message_max;
        if (ctx->limited) {
            rc = fy_flow_throttle(ctx, flow, op->peer, part.length);
            if (rc != FERRY_OK)
                return rc;
        }
        rc = fy_posted(ctx, flow, &part, lane->ops->rma(lane->handle, ctx->id, &part));
        if (rc < 0)
            return rc;
        if (rc == FERRY_OK)
            all = FERRY_OK;
        part.flags &= ~FERRY_OP_FENCED; /* the border stands; the rest lies behind it */
        part.local = (char *)part.local + part.length;
        part.offset += part.length;
        left -= part.length;
    }
    return all;
}

/* 8 aligned bytes that are seen whole. The source is a local variable, so it is copied, or waited for. */
static int put_word(struct ferry_ctx *ctx, const struct fy_place *place, uint64_t value, uint32_t pe, bool strong)
{
    struct fy_flow *flow = &ctx->flows[pe];
    const struct fy_lane *lane = flow->lane;
    struct ferry_op op = {.kind = FERRY_OP_PUT, .flags = FERRY_OP_WORD, .peer = pe, .local = &value, .key = place->key,
                          .offset = place->offset, .length = 8};
    if (lane->copy_max >= 8)
        op.flags |= FERRY_OP_COPY;
    else if (lane->must_register)
        return fy_fail(ctx->world, FERRY_ERR_UNSUPPORTED, (int)pe, (int)ctx->id, FERRY_OP_PUT, NULL,
                       "transport %s has no atomic set, and takes neither copied nor unregistered sources",
                       ctx->world->transports[lane->index]->name);
    int rc = fy_flow_begin(ctx, flow, pe, FY_DID_PUT, &op.flags, strong);
    if (rc == FERRY_OK && ctx->limited)
        rc = fy_flow_throttle(ctx, flow, pe, 8);
    if (rc != FERRY_OK)
        return rc;
    rc = fy_posted(ctx, flow, &op, lane->ops->rma(lane->handle, ctx->id, &op));
    if (rc < 0 || rc == FERRY_DONE || (op.flags & FERRY_OP_COPY))
        return rc < 0 ? rc : FERRY_OK;
    return fy_complete_local(ctx, flow, pe);
}

static const char *const amo_names[FERRY_AMO_KINDS] = {"set", "add", "and", "or", "xor", "swap", "compare_swap", "fetch"};

int fy_amo_missing(struct ferry_ctx *ctx, const struct fy_place *place, unsigned kind, uint64_t operand, const uint64_t *old,
                   uint32_t pe, bool strong)
{
    const struct fy_lane *lane = ctx->flows[pe].lane;
    if (kind == FERRY_AMO_SET && !old)
        return put_word(ctx, place, operand, pe, strong);
    return fy_fail(ctx->world, FERRY_ERR_UNSUPPORTED, (int)pe, (int)ctx->id, FERRY_OP_AMO, "choose another FERRY_TRANSPORT",
                   "transport %s has no 8-byte atomic %s%s", ctx->world->transports[lane->index]->name, amo_names[kind],
                   old && kind < FERRY_AMO_SWAP ? " that fetches" : "");
}

int fy_amo32_missing(struct ferry_ctx *ctx, unsigned kind, bool fetching, uint32_t pe)
{
    const struct fy_lane *lane = ctx->flows[pe].lane;
    return fy_fail(ctx->world, FERRY_ERR_UNSUPPORTED, (int)pe, (int)ctx->id, FERRY_OP_AMO, "choose another FERRY_TRANSPORT",
                   "transport %s has no 4-byte atomic %s%s", ctx->world->transports[lane->index]->name, amo_names[kind],
                   fetching && kind < FERRY_AMO_SWAP ? " that fetches" : "");
}

int fy_amo32(struct ferry_ctx *ctx, const void *word, unsigned kind, uint32_t operand, uint32_t compare, uint32_t *old,
             uint32_t pe)
{
    return fy_amo_width(ctx, word, 4, kind, operand, compare, old, pe, false);
}

int fy_put_signal_made(struct ferry_ctx *ctx, void *dest, const void *src, size_t length, uint64_t *signal, uint64_t value,
                       unsigned how, uint32_t pe, bool blocking)
{
    if ((how & ~FY_SIGNAL_WEAK) > 1)
        return fy_bad_signal(ctx, how, pe);
    struct fy_place mark;
    int rc = (uintptr_t)signal & 7 ? fy_misaligned(ctx, signal, 8, pe) : fy_locate(ctx, signal, 8, pe, &mark);
    if (rc != FERRY_OK)
        return rc;
    rc = fy_put(ctx, dest, src, length, pe, blocking);
    if (rc != FERRY_OK)
        return rc;
    /* even a weak signal covers its own data */
    return fy_signal(ctx, signal, value, length ? how & ~FY_SIGNAL_WEAK : how, pe);
}
