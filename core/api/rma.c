/* SPDX-License-Identifier: Apache-2.0
 * Public put, get and signal. The direct path is inline; what it leaves takes a call through the transport, and what the
 * gate stops goes the careful way in. Any thread, one at a time for a context of its own. */
#include "../order/direct.h"
#include "../order/quick.h"
#include "api.h"

/* Kept out of line, so that the direct path saves no registers for them. */
#define OUT_OF_LINE static __attribute__((noinline))

OUT_OF_LINE int put(struct ferry_ctx *ctx, void *dest, const void *src, size_t length, int pe, bool blocking, const char *call)
{
    if (fy_api_open(ctx, pe))
        return fy_direct_put_long(ctx, dest, src, length, (uint32_t)pe)
                   ? FERRY_OK
                   : fy_put(ctx, dest, src, length, (uint32_t)pe, blocking);
    int rc = fy_api_enter(&ctx, pe, call);
    if (rc != FERRY_OK)
        return rc;
    rc = fy_put(ctx, dest, src, length, (uint32_t)pe, blocking);
    fy_api_leave(ctx);
    return rc;
}

OUT_OF_LINE int get(struct ferry_ctx *ctx, void *dest, const void *src, size_t length, int pe, bool blocking, const char *call)
{
    if (fy_api_open(ctx, pe))
        return fy_direct_get_long(ctx, dest, src, length, (uint32_t)pe)
                   ? FERRY_OK
                   : fy_get(ctx, dest, src, length, (uint32_t)pe, blocking);
    int rc = fy_api_enter(&ctx, pe, call);
    if (rc != FERRY_OK)
        return rc;
    rc = fy_get(ctx, dest, src, length, (uint32_t)pe, blocking);
    fy_api_leave(ctx);
    return rc;
}

OUT_OF_LINE int put_signal(struct ferry_ctx *ctx, void *dest, const void *src, size_t length, uint64_t *signal, uint64_t value, unsigned how, int pe, bool blocking, const char *call)
{
    if (fy_api_open(ctx, pe))
        return fy_put_signal(ctx, dest, src, length, signal, value, how, (uint32_t)pe, blocking);
    int rc = fy_api_enter(&ctx, pe, call);
    if (rc != FERRY_OK)
        return rc;
    rc = fy_put_signal(ctx, dest, src, length, signal, value, how, (uint32_t)pe, blocking);
    fy_api_leave(ctx);
    return rc;
}

OUT_OF_LINE int signal_only(struct ferry_ctx *ctx, uint64_t *signal, uint64_t value, unsigned how, int pe, const char *call)
{
    if (fy_api_open(ctx, pe))
        return fy_signal(ctx, signal, value, how, (uint32_t)pe);
    int rc = fy_api_enter(&ctx, pe, call);
    if (rc != FERRY_OK)
        return rc;
    rc = fy_signal(ctx, signal, value, how, (uint32_t)pe);
    fy_api_leave(ctx);
    return rc;
}

/* Under the latch: a small put of a context that has a lock only for the sake of progress. False: the long way. */
static inline __attribute__((always_inline)) bool latched(ferry_ctx_t *ctx, void *dest, const void *src, size_t length, int pe, int *rc)
{
    struct ferry_op op;
    const struct fy_lane *lane;
    if (!fy_latch(ctx, pe))
        return false;
    bool quick = fy_quick_put(ctx, dest, src, length, (uint32_t)pe, &op, &lane);
    if (fy_likely(quick)) {
        *rc = lane->ops->rma(lane->handle, ctx->id, &op);
        *rc = fy_likely(!(*rc & ~FERRY_DONE)) ? FERRY_OK : fy_quick_retry(ctx, &op, *rc);
    }
    fy_unlatch(ctx);
    return quick;
}

/* The long way in, with the arguments of the call: whoever goes on to it keeps nothing. */
OUT_OF_LINE int gated_put(ferry_ctx_t *ctx, void *dest, const void *src, size_t length, int pe)
{
    int rc;
    if (latched(ctx, dest, src, length, pe, &rc))
        return rc;
    return put(ctx, dest, src, length, pe, true, "ferry_put");
}

OUT_OF_LINE int gated_put_nbi(ferry_ctx_t *ctx, void *dest, const void *src, size_t length, int pe)
{
    int rc;
    if (latched(ctx, dest, src, length, pe, &rc))
        return rc;
    return put(ctx, dest, src, length, pe, false, "ferry_put_nbi");
}

OUT_OF_LINE int gated_put_signal(ferry_ctx_t *ctx, void *dest, const void *src, size_t length, uint64_t *signal, uint64_t value,
                                 int op, int pe)
{
    return put_signal(ctx, dest, src, length, signal, value, (unsigned)op, pe, true, "ferry_put_signal");
}

OUT_OF_LINE int gated_put_signal_nbi(ferry_ctx_t *ctx, void *dest, const void *src, size_t length, uint64_t *signal, uint64_t value,
                                     int op, int pe)
{
    return put_signal(ctx, dest, src, length, signal, value, (unsigned)op, pe, false, "ferry_put_signal_nbi");
}

/* By the transport, where nothing stands in the way; the source is copied, blocking or not. */
static inline __attribute__((always_inline)) int far(ferry_ctx_t *ctx, void *dest, const void *src, size_t length, int pe,
                                                     bool blocking)
{
    struct ferry_op op;
    const struct fy_lane *lane;
    if (fy_unlikely(!fy_quick_put(ctx, dest, src, length, (uint32_t)pe, &op, &lane)))
        return blocking ? gated_put(ctx, dest, src, length, pe) : gated_put_nbi(ctx, dest, src, length, pe);
    int rc = lane->ops->rma(lane->handle, ctx->id, &op);
    return fy_likely(!(rc & ~FERRY_DONE)) ? FERRY_OK : fy_quick_retry(ctx, &op, rc);
}

OUT_OF_LINE int far_put(ferry_ctx_t *ctx, void *dest, const void *src, size_t length, int pe)
{
    return far(ctx, dest, src, length, pe, true);
}

OUT_OF_LINE int far_put_nbi(ferry_ctx_t *ctx, void *dest, const void *src, size_t length, int pe)
{
    return far(ctx, dest, src, length, pe, false);
}

static inline __attribute__((always_inline)) int far_signal(ferry_ctx_t *ctx, void *dest, const void *src, size_t length,
                                                            uint64_t *signal, uint64_t value, int op, int pe, bool blocking)
{
    struct ferry_op post;
    const struct fy_lane *lane;
    if (fy_unlikely(!fy_quick_put_signal(ctx, dest, src, length, signal, value, (unsigned)op, (uint32_t)pe, &post, &lane)))
        return blocking ? gated_put_signal(ctx, dest, src, length, signal, value, op, pe)
                        : gated_put_signal_nbi(ctx, dest, src, length, signal, value, op, pe);
    int rc = lane->ops->put_signal(lane->handle, ctx->id, &post);
    return fy_likely(!(rc & ~FERRY_DONE)) ? FERRY_OK : fy_quick_retry(ctx, &post, rc);
}

OUT_OF_LINE int far_put_signal(ferry_ctx_t *ctx, void *dest, const void *src, size_t length, uint64_t *signal, uint64_t value,
                               int op, int pe)
{
    return far_signal(ctx, dest, src, length, signal, value, op, pe, true);
}

OUT_OF_LINE int far_put_signal_nbi(ferry_ctx_t *ctx, void *dest, const void *src, size_t length, uint64_t *signal, uint64_t value,
                                   int op, int pe)
{
    return far_signal(ctx, dest, src, length, signal, value, op, pe, false);
}

int ferry_put(ferry_ctx_t *ctx, void *dest, const void *src, size_t length, int pe)
{
    if (fy_unlikely(!fy_api_open(ctx, pe)))
        return gated_put(ctx, dest, src, length, pe);
    if (fy_likely(ctx->direct) && fy_likely(fy_direct_put(ctx, dest, src, length, (uint32_t)pe)))
        return FERRY_OK;
    return far_put(ctx, dest, src, length, pe);
}

int ferry_put_nbi(ferry_ctx_t *ctx, void *dest, const void *src, size_t length, int pe)
{
    if (fy_unlikely(!fy_api_open(ctx, pe)))
        return gated_put_nbi(ctx, dest, src, length, pe);
    if (fy_likely(ctx->direct) && fy_likely(fy_direct_put(ctx, dest, src, length, (uint32_t)pe)))
        return FERRY_OK;
    return far_put_nbi(ctx, dest, src, length, pe);
}

int ferry_get(ferry_ctx_t *ctx, void *dest, const void *src, size_t length, int pe)
{
    if (fy_api_open(ctx, pe) && fy_likely(fy_direct_get(ctx, dest, src, length, (uint32_t)pe)))
        return FERRY_OK;
    return get(ctx, dest, src, length, pe, true, "ferry_get");
}

int ferry_get_nbi(ferry_ctx_t *ctx, void *dest, const void *src, size_t length, int pe)
{
    if (fy_api_open(ctx, pe) && fy_likely(fy_direct_get(ctx, dest, src, length, (uint32_t)pe)))
        return FERRY_OK;
    return get(ctx, dest, src, length, pe, false, "ferry_get_nbi");
}

OUT_OF_LINE int near_put_signal(ferry_ctx_t *ctx, void *dest, const void *src, size_t length, uint64_t *signal, uint64_t value,
                 int op, int pe)
{
    if (fy_unlikely(!fy_api_open(ctx, pe)))
        return gated_put_signal(ctx, dest, src, length, signal, value, op, pe);
    if (fy_likely(fy_direct_put_signal(ctx, dest, src, length, signal, value, (unsigned)op, (uint32_t)pe)))
        return FERRY_OK;
    return far_put_signal(ctx, dest, src, length, signal, value, op, pe);
}

int ferry_put_signal(ferry_ctx_t *ctx, void *dest, const void *src, size_t length, uint64_t *signal, uint64_t value, int op, int pe)
{
    if (fy_likely(fy_api_open(ctx, pe) && !ctx->direct))
        return far_put_signal(ctx, dest, src, length, signal, value, op, pe);
    return near_put_signal(ctx, dest, src, length, signal, value, op, pe);
}

OUT_OF_LINE int near_put_signal_nbi(ferry_ctx_t *ctx, void *dest, const void *src, size_t length, uint64_t *signal, uint64_t value,
                 int op, int pe)
{
    if (fy_unlikely(!fy_api_open(ctx, pe)))
        return gated_put_signal_nbi(ctx, dest, src, length, signal, value, op, pe);
    if (fy_likely(fy_direct_put_signal(ctx, dest, src, length, signal, value, (unsigned)op, (uint32_t)pe)))
        return FERRY_OK;
    return far_put_signal_nbi(ctx, dest, src, length, signal, value, op, pe);
}

int ferry_put_signal_nbi(ferry_ctx_t *ctx, void *dest, const void *src, size_t length, uint64_t *signal, uint64_t value, int op, int pe)
{
    if (fy_likely(fy_api_open(ctx, pe) && !ctx->direct))
        return far_put_signal_nbi(ctx, dest, src, length, signal, value, op, pe);
    return near_put_signal_nbi(ctx, dest, src, length, signal, value, op, pe);
}

int ferry_signal(ferry_ctx_t *ctx, uint64_t *signal, uint64_t value, int op, int pe)
{
    if (fy_api_open(ctx, pe) && fy_likely(fy_direct_signal(ctx, signal, value, (unsigned)op, (uint32_t)pe)))
        return FERRY_OK;
    return signal_only(ctx, signal, value, (unsigned)op, pe, "ferry_signal");
}
