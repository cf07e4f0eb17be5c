/* SPDX-License-Identifier: Apache-2.0
 * Public put, get and signal. The direct path is inline; what it leaves takes a call through the transport, and what the
 * gate stops goes the careful way in. Any thread, one at a time for a context of its own. */
#include "../order/direct.h"
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

int ferry_put(ferry_ctx_t *ctx, void *dest, const void *src, size_t length, int pe)
{
    if (fy_api_open(ctx, pe) && fy_likely(fy_direct_put(ctx, dest, src, length, (uint32_t)pe)))
        return FERRY_OK;
    return put(ctx, dest, src, length, pe, true, "ferry_put");
}

int ferry_put_nbi(ferry_ctx_t *ctx, void *dest, const void *src, size_t length, int pe)
{
    if (fy_api_open(ctx, pe) && fy_likely(fy_direct_put(ctx, dest, src, length, (uint32_t)pe)))
        return FERRY_OK;
    return put(ctx, dest, src, length, pe, false, "ferry_put_nbi");
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

int ferry_put_signal(ferry_ctx_t *ctx, void *dest, const void *src, size_t length, uint64_t *signal, uint64_t value, int op, int pe)
{
    if (fy_api_open(ctx, pe) && fy_likely(fy_direct_put_signal(ctx, dest, src, length, signal, value, (unsigned)op, (uint32_t)pe)))
        return FERRY_OK;
    return put_signal(ctx, dest, src, length, signal, value, (unsigned)op, pe, true, "ferry_put_signal");
}

int ferry_put_signal_nbi(ferry_ctx_t *ctx, void *dest, const void *src, size_t length, uint64_t *signal, uint64_t value, int op, int pe)
{
    if (fy_api_open(ctx, pe) && fy_likely(fy_direct_put_signal(ctx, dest, src, length, signal, value, (unsigned)op, (uint32_t)pe)))
        return FERRY_OK;
    return put_signal(ctx, dest, src, length, signal, value, (unsigned)op, pe, false, "ferry_put_signal_nbi");
}

int ferry_signal(ferry_ctx_t *ctx, uint64_t *signal, uint64_t value, int op, int pe)
{
    if (fy_api_open(ctx, pe) && fy_likely(fy_direct_signal(ctx, signal, value, (unsigned)op, (uint32_t)pe)))
        return FERRY_OK;
    return signal_only(ctx, signal, value, (unsigned)op, pe, "ferry_signal");
}
