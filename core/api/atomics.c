/* SPDX-License-Identifier: Apache-2.0
 * Public 64-bit atomics. The open path is inline; whatever the gate stops takes the careful one below it.
 * Any thread, one at a time for a context of its own. */
#include "api.h"

/* A fetched value has to go somewhere. */
static int no_place(struct ferry_ctx *ctx, uint32_t pe)
{
    return fy_fail(ctx->world, FERRY_ERR_ARG, (int)pe, (int)ctx->id, FERRY_OP_AMO, NULL, "the place for the old value is null");
}

static inline int plain(struct ferry_ctx *ctx, uint64_t *dest, unsigned kind, uint64_t value, int pe)
{
    return fy_amo(ctx, dest, kind, value, 0, NULL, (uint32_t)pe, false);
}

static inline int fetching(struct ferry_ctx *ctx, const uint64_t *dest, unsigned kind, uint64_t value, uint64_t compare,
                           uint64_t *old, int pe)
{
    if (fy_unlikely(!old))
        return no_place(ctx, (uint32_t)pe);
    return fy_amo(ctx, dest, kind, value, compare, old, (uint32_t)pe, false);
}

int ferry_atomic_set(ferry_ctx_t *ctx, uint64_t *dest, uint64_t value, int pe)
{
    if (fy_api_open(ctx, pe))
        return plain(ctx, dest, FERRY_AMO_SET, value, pe);
    int rc = fy_api_enter(&ctx, pe < 0 ? INT32_MAX : pe, "ferry_atomic_set");
    if (rc != FERRY_OK)
        return rc;
    rc = plain(ctx, dest, FERRY_AMO_SET, value, pe);
    fy_api_leave(ctx);
    return rc;
}

int ferry_atomic_add(ferry_ctx_t *ctx, uint64_t *dest, uint64_t value, int pe)
{
    if (fy_api_open(ctx, pe))
        return plain(ctx, dest, FERRY_AMO_ADD, value, pe);
    int rc = fy_api_enter(&ctx, pe < 0 ? INT32_MAX : pe, "ferry_atomic_add");
    if (rc != FERRY_OK)
        return rc;
    rc = plain(ctx, dest, FERRY_AMO_ADD, value, pe);
    fy_api_leave(ctx);
    return rc;
}

int ferry_atomic_and(ferry_ctx_t *ctx, uint64_t *dest, uint64_t value, int pe)
{
    if (fy_api_open(ctx, pe))
        return plain(ctx, dest, FERRY_AMO_AND, value, pe);
    int rc = fy_api_enter(&ctx, pe < 0 ? INT32_MAX : pe, "ferry_atomic_and");
    if (rc != FERRY_OK)
        return rc;
    rc = plain(ctx, dest, FERRY_AMO_AND, value, pe);
    fy_api_leave(ctx);
    return rc;
}

int ferry_atomic_or(ferry_ctx_t *ctx, uint64_t *dest, uint64_t value, int pe)
{
    if (fy_api_open(ctx, pe))
        return plain(ctx, dest, FERRY_AMO_OR, value, pe);
    int rc = fy_api_enter(&ctx, pe < 0 ? INT32_MAX : pe, "ferry_atomic_or");
    if (rc != FERRY_OK)
        return rc;
    rc = plain(ctx, dest, FERRY_AMO_OR, value, pe);
    fy_api_leave(ctx);
    return rc;
}

int ferry_atomic_xor(ferry_ctx_t *ctx, uint64_t *dest, uint64_t value, int pe)
{
    if (fy_api_open(ctx, pe))
        return plain(ctx, dest, FERRY_AMO_XOR, value, pe);
    int rc = fy_api_enter(&ctx, pe < 0 ? INT32_MAX : pe, "ferry_atomic_xor");
    if (rc != FERRY_OK)
        return rc;
    rc = plain(ctx, dest, FERRY_AMO_XOR, value, pe);
    fy_api_leave(ctx);
    return rc;
}

int ferry_atomic_inc(ferry_ctx_t *ctx, uint64_t *dest, int pe)
{
    if (fy_api_open(ctx, pe))
        return plain(ctx, dest, FERRY_AMO_ADD, 1, pe);
    int rc = fy_api_enter(&ctx, pe < 0 ? INT32_MAX : pe, "ferry_atomic_inc");
    if (rc != FERRY_OK)
        return rc;
    rc = plain(ctx, dest, FERRY_AMO_ADD, 1, pe);
    fy_api_leave(ctx);
    return rc;
}

int ferry_atomic_fetch(ferry_ctx_t *ctx, const uint64_t *src, uint64_t *old, int pe)
{
    if (fy_api_open(ctx, pe))
        return fetching(ctx, src, FERRY_AMO_FETCH, 0, 0, old, pe);
    int rc = fy_api_enter(&ctx, pe < 0 ? INT32_MAX : pe, "ferry_atomic_fetch");
    if (rc != FERRY_OK)
        return rc;
    rc = fetching(ctx, src, FERRY_AMO_FETCH, 0, 0, old, pe);
    fy_api_leave(ctx);
    return rc;
}

int ferry_atomic_swap(ferry_ctx_t *ctx, uint64_t *dest, uint64_t value, uint64_t *old, int pe)
{
    if (fy_api_open(ctx, pe))
        return fetching(ctx, dest, FERRY_AMO_SWAP, value, 0, old, pe);
    int rc = fy_api_enter(&ctx, pe < 0 ? INT32_MAX : pe, "ferry_atomic_swap");
    if (rc != FERRY_OK)
        return rc;
    rc = fetching(ctx, dest, FERRY_AMO_SWAP, value, 0, old, pe);
    fy_api_leave(ctx);
    return rc;
}

int ferry_atomic_compare_swap(ferry_ctx_t *ctx, uint64_t *dest, uint64_t compare, uint64_t value, uint64_t *old, int pe)
{
    if (fy_api_open(ctx, pe))
        return fetching(ctx, dest, FERRY_AMO_CSWAP, value, compare, old, pe);
    int rc = fy_api_enter(&ctx, pe < 0 ? INT32_MAX : pe, "ferry_atomic_compare_swap");
    if (rc != FERRY_OK)
        return rc;
    rc = fetching(ctx, dest, FERRY_AMO_CSWAP, value, compare, old, pe);
    fy_api_leave(ctx);
    return rc;
}

int ferry_atomic_fetch_add(ferry_ctx_t *ctx, uint64_t *dest, uint64_t value, uint64_t *old, int pe)
{
    if (fy_api_open(ctx, pe))
        return fetching(ctx, dest, FERRY_AMO_ADD, value, 0, old, pe);
    int rc = fy_api_enter(&ctx, pe < 0 ? INT32_MAX : pe, "ferry_atomic_fetch_add");
    if (rc != FERRY_OK)
        return rc;
    rc = fetching(ctx, dest, FERRY_AMO_ADD, value, 0, old, pe);
    fy_api_leave(ctx);
    return rc;
}

int ferry_atomic_fetch_and(ferry_ctx_t *ctx, uint64_t *dest, uint64_t value, uint64_t *old, int pe)
{
    if (fy_api_open(ctx, pe))
        return fetching(ctx, dest, FERRY_AMO_AND, value, 0, old, pe);
    int rc = fy_api_enter(&ctx, pe < 0 ? INT32_MAX : pe, "ferry_atomic_fetch_and");
    if (rc != FERRY_OK)
        return rc;
    rc = fetching(ctx, dest, FERRY_AMO_AND, value, 0, old, pe);
    fy_api_leave(ctx);
    return rc;
}

int ferry_atomic_fetch_or(ferry_ctx_t *ctx, uint64_t *dest, uint64_t value, uint64_t *old, int pe)
{
    if (fy_api_open(ctx, pe))
        return fetching(ctx, dest, FERRY_AMO_OR, value, 0, old, pe);
    int rc = fy_api_enter(&ctx, pe < 0 ? INT32_MAX : pe, "ferry_atomic_fetch_or");
    if (rc != FERRY_OK)
        return rc;
    rc = fetching(ctx, dest, FERRY_AMO_OR, value, 0, old, pe);
    fy_api_leave(ctx);
    return rc;
}

int ferry_atomic_fetch_xor(ferry_ctx_t *ctx, uint64_t *dest, uint64_t value, uint64_t *old, int pe)
{
    if (fy_api_open(ctx, pe))
        return fetching(ctx, dest, FERRY_AMO_XOR, value, 0, old, pe);
    int rc = fy_api_enter(&ctx, pe < 0 ? INT32_MAX : pe, "ferry_atomic_fetch_xor");
    if (rc != FERRY_OK)
        return rc;
    rc = fetching(ctx, dest, FERRY_AMO_XOR, value, 0, old, pe);
    fy_api_leave(ctx);
    return rc;
}

int ferry_atomic_fetch_inc(ferry_ctx_t *ctx, uint64_t *dest, uint64_t *old, int pe)
{
    if (fy_api_open(ctx, pe))
        return fetching(ctx, dest, FERRY_AMO_ADD, 1, 0, old, pe);
    int rc = fy_api_enter(&ctx, pe < 0 ? INT32_MAX : pe, "ferry_atomic_fetch_inc");
    if (rc != FERRY_OK)
        return rc;
    rc = fetching(ctx, dest, FERRY_AMO_ADD, 1, 0, old, pe);
    fy_api_leave(ctx);
    return rc;
}
