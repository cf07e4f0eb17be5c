/* SPDX-License-Identifier: Apache-2.0
 * Public strided put and get: one operation per element, posted as a batch, and one wait at the end.
 * Any thread, one at a time for a context of its own. */
#include "api.h"

/* One side: where element 0 is, and how far it is to the next, in bytes. */
struct side {
    uintptr_t first;
    ptrdiff_t step;
};

static void *element_at(const struct side *side, size_t i)
{
    return (void *)(side->first + (uintptr_t)side->step * i);
}

static int too_far(struct ferry_ctx *ctx, uint32_t pe, ptrdiff_t stride, size_t element, size_t count, const char *call)
{
    return fy_fail(ctx->world, FERRY_ERR_ARG, (int)pe, (int)ctx->id, -1, NULL,
                   "%s: %zu elements of %zu bytes with stride %td are more than an address can say", call, count,
                   element, stride);
}

static int side_fill(struct ferry_ctx *ctx, struct side *side, const void *first, ptrdiff_t stride, size_t element,
                     size_t count, uint32_t pe, const char *call)
{
    ptrdiff_t span;
    side->first = (uintptr_t)first;
    if (element > PTRDIFF_MAX || count > PTRDIFF_MAX ||
        __builtin_mul_overflow(stride, (ptrdiff_t)element, &side->step) ||
        __builtin_mul_overflow(side->step, (ptrdiff_t)count - 1, &span) || span > PTRDIFF_MAX / 2 ||
        span < PTRDIFF_MIN / 2)
        return too_far(ctx, pe, stride, element, count, call);
    return FERRY_OK;
}

/* All of the symmetric side is looked at before anything is posted. */
static int whole_side(struct ferry_ctx *ctx, const struct side *side, size_t element, size_t count, uint32_t pe)
{
    struct fy_place place;
    const char *a = element_at(side, 0), *b = element_at(side, count - 1);
    const char *low = side->step < 0 ? b : a, *high = side->step < 0 ? a : b;
    return fy_locate(ctx, low, (size_t)((uintptr_t)high - (uintptr_t)low) + element, pe, &place);
}

static int transfer(struct ferry_ctx *ctx, bool put, const struct side *dest, const struct side *src, size_t element,
                    size_t count, uint32_t pe)
{
    int rc = whole_side(ctx, put ? dest : src, element, count, pe);
    if (rc == FERRY_OK && dest->step == (ptrdiff_t)element && src->step == (ptrdiff_t)element)
        return put ? fy_put(ctx, element_at(dest, 0), element_at(src, 0), element * count, pe, true)
                   : fy_get(ctx, element_at(dest, 0), element_at(src, 0), element * count, pe, true);
    /* the first put, and all if puts of this size are copied, leave the source free on return */
    bool free_at_once = put;
    uint32_t batch = 0;
    for (size_t i = 0; i < count && rc == FERRY_OK; i++) {
        void *to = element_at(dest, i);
        const void *from = element_at(src, i);
        uint32_t more = i > 0 && i + 1 < count ? batch : 0;
        rc = put ? fy_put_flagged(ctx, to, from, element, pe, free_at_once, more)
                 : fy_get_flagged(ctx, to, from, element, pe, false, more);
        if (i > 0 || rc != FERRY_OK)
            continue;
        free_at_once = put && element <= ctx->flows[pe].lane->copy_max;
        batch = ctx->flows[pe].lane->caps->flags & FERRY_CAP_MORE ? FERRY_OP_MORE : 0; /* connected by now */
    }
    return rc == FERRY_OK && !free_at_once ? fy_complete_local(ctx, pe) : rc;
}

static int strided(ferry_ctx_t *ctx, bool put, void *dest, const void *src, const ptrdiff_t strides[2], size_t element,
                   size_t count, int pe)
{
    const char *call = put ? "ferry_iput" : "ferry_iget";
    struct side to, from;
    int rc = fy_api_enter(&ctx, pe, call);
    if (rc != FERRY_OK)
        return rc;
    if (element && count) {
        rc = side_fill(ctx, &to, dest, strides[0], element, count, (uint32_t)pe, call);
        if (rc == FERRY_OK)
            rc = side_fill(ctx, &from, src, strides[1], element, count, (uint32_t)pe, call);
        if (rc == FERRY_OK && !(put ? src : dest))
            rc = fy_null_buffer(ctx, (uint32_t)pe, element * count, put ? FERRY_OP_PUT : FERRY_OP_GET);
        if (rc == FERRY_OK)
            rc = transfer(ctx, put, &to, &from, element, count, (uint32_t)pe);
    }
    fy_api_leave(ctx);
    return rc;
}

int ferry_iput(ferry_ctx_t *ctx, void *dest, const void *src, ptrdiff_t dest_stride, ptrdiff_t src_stride,
               size_t element, size_t count, int pe)
{
    return strided(ctx, true, dest, src, (const ptrdiff_t[]){dest_stride, src_stride}, element, count, pe);
}

int ferry_iget(ferry_ctx_t *ctx, void *dest, const void *src, ptrdiff_t dest_stride, ptrdiff_t src_stride,
               size_t element, size_t count, int pe)
{
    return strided(ctx, false, dest, src, (const ptrdiff_t[]){dest_stride, src_stride}, element, count, pe);
}
