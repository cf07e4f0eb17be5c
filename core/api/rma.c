/* SPDX-License-Identifier: Apache-2.0
 * Public put, get and signal. The open path is inline; whatever the gate stops takes the careful one below it.
 * Any thread, one at a time for a context of its own. */
#include "api.h"

int ferry_put(ferry_ctx_t *ctx, void *dest, const void *src, size_t length, int pe)
{
    if (fy_api_open(ctx, pe))
        return fy_put(ctx, dest, src, length, (uint32_t)pe, true);
    int rc = fy_api_enter(&ctx, pe < 0 ? INT32_MAX : pe, "ferry_put");
    if (rc != FERRY_OK)
        return rc;
    rc = fy_put(ctx, dest, src, length, (uint32_t)pe, true);
    fy_api_leave(ctx);
    return rc;
}

int ferry_put_nbi(ferry_ctx_t *ctx, void *dest, const void *src, size_t length, int pe)
{
    if (fy_api_open(ctx, pe))
        return fy_put(ctx, dest, src, length, (uint32_t)pe, false);
    int rc = fy_api_enter(&ctx, pe < 0 ? INT32_MAX : pe, "ferry_put_nbi");
    if (rc != FERRY_OK)
        return rc;
    rc = fy_put(ctx, dest, src, length, (uint32_t)pe, false);
    fy_api_leave(ctx);
    return rc;
}

int ferry_get(ferry_ctx_t *ctx, void *dest, const void *src, size_t length, int pe)
{
    if (fy_api_open(ctx, pe))
        return fy_get(ctx, dest, src, length, (uint32_t)pe, true);
    int rc = fy_api_enter(&ctx, pe < 0 ? INT32_MAX : pe, "ferry_get");
    if (rc != FERRY_OK)
        return rc;
    rc = fy_get(ctx, dest, src, length, (uint32_t)pe, true);
    fy_api_leave(ctx);
    return rc;
}

int ferry_get_nbi(ferry_ctx_t *ctx, void *dest, const void *src, size_t length, int pe)
{
    if (fy_api_open(ctx, pe))
        return fy_get(ctx, dest, src, length, (uint32_t)pe, false);
    int rc = fy_api_enter(&ctx, pe < 0 ? INT32_MAX : pe, "ferry_get_nbi");
    if (rc != FERRY_OK)
        return rc;
    rc = fy_get(ctx, dest, src, length, (uint32_t)pe, false);
    fy_api_leave(ctx);
    return rc;
}

int ferry_put_signal(ferry_ctx_t *ctx, void *dest, const void *src, size_t length, uint64_t *signal, uint64_t value, int op, int pe)
{
    if (fy_api_open(ctx, pe))
        return fy_put_signal(ctx, dest, src, length, signal, value, (unsigned)op, (uint32_t)pe, true);
    int rc = fy_api_enter(&ctx, pe < 0 ? INT32_MAX : pe, "ferry_put_signal");
    if (rc != FERRY_OK)
        return rc;
    rc = fy_put_signal(ctx, dest, src, length, signal, value, (unsigned)op, (uint32_t)pe, true);
    fy_api_leave(ctx);
    return rc;
}

int ferry_put_signal_nbi(ferry_ctx_t *ctx, void *dest, const void *src, size_t length, uint64_t *signal, uint64_t value, int op, int pe)
{
    if (fy_api_open(ctx, pe))
        return fy_put_signal(ctx, dest, src, length, signal, value, (unsigned)op, (uint32_t)pe, false);
    int rc = fy_api_enter(&ctx, pe < 0 ? INT32_MAX : pe, "ferry_put_signal_nbi");
    if (rc != FERRY_OK)
        return rc;
    rc = fy_put_signal(ctx, dest, src, length, signal, value, (unsigned)op, (uint32_t)pe, false);
    fy_api_leave(ctx);
    return rc;
}

int ferry_signal(ferry_ctx_t *ctx, uint64_t *signal, uint64_t value, int op, int pe)
{
    if (fy_api_open(ctx, pe))
        return fy_signal(ctx, signal, value, (unsigned)op, (uint32_t)pe);
    int rc = fy_api_enter(&ctx, pe < 0 ? INT32_MAX : pe, "ferry_signal");
    if (rc != FERRY_OK)
        return rc;
    rc = fy_signal(ctx, signal, value, (unsigned)op, (uint32_t)pe);
    fy_api_leave(ctx);
    return rc;
}
