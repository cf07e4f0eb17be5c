/* SPDX-License-Identifier: Apache-2.0
 * Public 64-bit atomics. The direct path is inline; what it leaves takes a call through the transport, and what the
 * gate stops goes the careful way in. Any thread, one at a time for a context of its own. */
#include "../order/direct.h"
#include "api.h"

/* Kept out of line, so that the direct path saves no registers for them. */
#define OUT_OF_LINE static __attribute__((noinline))

/* What an atomic is made of, for the way through the transport. */
struct atomic {
    const void *word;
    unsigned kind;
    bool fetching;
    uint64_t operand, compare;
    uint64_t *old;
};

static int through_transport(struct ferry_ctx *ctx, const struct atomic *a, uint32_t pe)
{
    if (a->fetching && !a->old)
        return fy_fail(ctx->world, FERRY_ERR_ARG, (int)pe, (int)ctx->id, FERRY_OP_AMO, NULL,
                       "the place for the old value is null");
    return fy_amo(ctx, a->word, a->kind, a->operand, a->compare, a->old, pe, 0);
}

OUT_OF_LINE int careful(struct ferry_ctx *ctx, const struct atomic *a, int pe, const char *call)
{
    if (fy_api_open(ctx, pe))
        return through_transport(ctx, a, (uint32_t)pe);
    int rc = fy_api_enter(&ctx, pe, call);
    if (rc != FERRY_OK)
        return rc;
    rc = through_transport(ctx, a, (uint32_t)pe);
    fy_api_leave(ctx);
    return rc;
}

/* The struct is filled on the unlikely path only. */
static inline __attribute__((always_inline)) int plain(struct ferry_ctx *ctx, uint64_t *word, unsigned kind, uint64_t operand,
                                                       int pe, const char *call)
{
    if (fy_api_open(ctx, pe) && fy_likely(fy_direct_amo(ctx, word, kind, operand, 0, NULL, (uint32_t)pe)))
        return FERRY_OK;
    return careful(ctx, &(struct atomic){word, kind, false, operand, 0, NULL}, pe, call);
}

static inline __attribute__((always_inline)) int fetching(struct ferry_ctx *ctx, const uint64_t *word, unsigned kind,
                                                          uint64_t operand, uint64_t compare, uint64_t *old, int pe,
                                                          const char *call)
{
    if (fy_api_open(ctx, pe) && fy_likely(old && fy_direct_amo(ctx, word, kind, operand, compare, old, (uint32_t)pe)))
        return FERRY_OK;
    return careful(ctx, &(struct atomic){word, kind, true, operand, compare, old}, pe, call);
}

int ferry_atomic_set(ferry_ctx_t *ctx, uint64_t *dest, uint64_t value, int pe)
{
    return plain(ctx, dest, FERRY_AMO_SET, value, pe, "ferry_atomic_set");
}

int ferry_atomic_add(ferry_ctx_t *ctx, uint64_t *dest, uint64_t value, int pe)
{
    return plain(ctx, dest, FERRY_AMO_ADD, value, pe, "ferry_atomic_add");
}

int ferry_atomic_and(ferry_ctx_t *ctx, uint64_t *dest, uint64_t value, int pe)
{
    return plain(ctx, dest, FERRY_AMO_AND, value, pe, "ferry_atomic_and");
}

int ferry_atomic_or(ferry_ctx_t *ctx, uint64_t *dest, uint64_t value, int pe)
{
    return plain(ctx, dest, FERRY_AMO_OR, value, pe, "ferry_atomic_or");
}

int ferry_atomic_xor(ferry_ctx_t *ctx, uint64_t *dest, uint64_t value, int pe)
{
    return plain(ctx, dest, FERRY_AMO_XOR, value, pe, "ferry_atomic_xor");
}

int ferry_atomic_inc(ferry_ctx_t *ctx, uint64_t *dest, int pe)
{
    return plain(ctx, dest, FERRY_AMO_ADD, 1, pe, "ferry_atomic_inc");
}

int ferry_atomic_fetch(ferry_ctx_t *ctx, const uint64_t *src, uint64_t *old, int pe)
{
    return fetching(ctx, src, FERRY_AMO_FETCH, 0, 0, old, pe, "ferry_atomic_fetch");
}

int ferry_atomic_swap(ferry_ctx_t *ctx, uint64_t *dest, uint64_t value, uint64_t *old, int pe)
{
    return fetching(ctx, dest, FERRY_AMO_SWAP, value, 0, old, pe, "ferry_atomic_swap");
}

int ferry_atomic_compare_swap(ferry_ctx_t *ctx, uint64_t *dest, uint64_t compare, uint64_t value, uint64_t *old, int pe)
{
    return fetching(ctx, dest, FERRY_AMO_CSWAP, value, compare, old, pe, "ferry_atomic_compare_swap");
}

int ferry_atomic_fetch_add(ferry_ctx_t *ctx, uint64_t *dest, uint64_t value, uint64_t *old, int pe)
{
    return fetching(ctx, dest, FERRY_AMO_ADD, value, 0, old, pe, "ferry_atomic_fetch_add");
}

int ferry_atomic_fetch_and(ferry_ctx_t *ctx, uint64_t *dest, uint64_t value, uint64_t *old, int pe)
{
    return fetching(ctx, dest, FERRY_AMO_AND, value, 0, old, pe, "ferry_atomic_fetch_and");
}

int ferry_atomic_fetch_or(ferry_ctx_t *ctx, uint64_t *dest, uint64_t value, uint64_t *old, int pe)
{
    return fetching(ctx, dest, FERRY_AMO_OR, value, 0, old, pe, "ferry_atomic_fetch_or");
}

int ferry_atomic_fetch_xor(ferry_ctx_t *ctx, uint64_t *dest, uint64_t value, uint64_t *old, int pe)
{
    return fetching(ctx, dest, FERRY_AMO_XOR, value, 0, old, pe, "ferry_atomic_fetch_xor");
}

int ferry_atomic_fetch_inc(ferry_ctx_t *ctx, uint64_t *dest, uint64_t *old, int pe)
{
    return fetching(ctx, dest, FERRY_AMO_ADD, 1, 0, old, pe, "ferry_atomic_fetch_inc");
}
