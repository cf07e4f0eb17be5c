/* SPDX-License-Identifier: Apache-2.0
 * What the hot path leaves out: first contact, bad arguments, signals a transport lacks.
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
    struct fy_segment *segment = fy_heap_find(heap, address);
    if (!segment)
        return outside(ctx, address, pe);
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
    place->target = target;
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
