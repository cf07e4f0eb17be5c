/* SPDX-License-Identifier: Apache-2.0
 * Public 32-bit atomics: always through the transport.
 * Any thread, one at a time for a context of its own. */
#include "api.h"

/* What an atomic is made of. */
struct atomic32 {
    const void *word;
    unsigned kind;
    bool fetching;
    uint32_t operand, compare;
    uint32_t *old;
};

static int through_transport(struct ferry_ctx *ctx, const struct atomic32 *a, uint32_t pe)
{
    if (a->fetching && !a->old)
        return fy_fail(ctx->world, FERRY_ERR_ARG, (int)pe, (int)ctx->id, FERRY_OP_AMO, NULL,
                       "the place for the old value is null");
    return fy_amo32(ctx, a->word, a->kind, a->operand, a->compare, a->old, pe);
}

static int call(struct ferry_ctx *ctx, const struct atomic32 *a, int pe, const char *name)
{
    if (fy_api_open(ctx, pe))
        return through_transport(ctx, a, (uint32_t)pe);
    int rc = fy_api_enter(&ctx, pe, name);
    if (rc != FERRY_OK)
        return rc;
    rc = through_transport(ctx, a, (uint32_t)pe);
    fy_api_leave(ctx);
    return rc;
}

static int plain(struct ferry_ctx *ctx, uint32_t *word, unsigned kind, uint32_t operand, int pe, const char *name)
{
    return call(ctx, &(struct atomic32){word, kind, false, operand, 0, NULL}, pe, name);
}

static int fetching(struct ferry_ctx *ctx, const uint32_t *word, unsigned kind, uint32_t operand, uint32_t *old, int pe,
                    const char *name)
{
    return call(ctx, &(struct atomic32){word, kind, true, operand, 0, old}, pe, name);
}

int ferry_atomic32_set(ferry_ctx_t *ctx, uint32_t *dest, uint32_t value, int pe)
{
    return plain(ctx, dest, FERRY_AMO_SET, value, pe, "ferry_atomic32_set");
}

int ferry_atomic32_add(ferry_ctx_t *ctx, uint32_t *dest, uint32_t value, int pe)
{
    return plain(ctx, dest, FERRY_AMO_ADD, value, pe, "ferry_atomic32_add");
}

int ferry_atomic32_inc(ferry_ctx_t *ctx, uint32_t *dest, int pe)
{
    return plain(ctx, dest, FERRY_AMO_ADD, 1, pe, "ferry_atomic32_inc");
}

int ferry_atomic32_and(ferry_ctx_t *ctx, uint32_t *dest, uint32_t value, int pe)
{
    return plain(ctx, dest, FERRY_AMO_AND, value, pe, "ferry_atomic32_and");
}

int ferry_atomic32_or(ferry_ctx_t *ctx, uint32_t *dest, uint32_t value, int pe)
{
    return plain(ctx, dest, FERRY_AMO_OR, value, pe, "ferry_atomic32_or");
}

int ferry_atomic32_xor(ferry_ctx_t *ctx, uint32_t *dest, uint32_t value, int pe)
{
    return plain(ctx, dest, FERRY_AMO_XOR, value, pe, "ferry_atomic32_xor");
}

int ferry_atomic32_fetch(ferry_ctx_t *ctx, const uint32_t *src, uint32_t *old, int pe)
{
    return fetching(ctx, src, FERRY_AMO_FETCH, 0, old, pe, "ferry_atomic32_fetch");
}

int ferry_atomic32_swap(ferry_ctx_t *ctx, uint32_t *dest, uint32_t value, uint32_t *old, int pe)
{
    return fetching(ctx, dest, FERRY_AMO_SWAP, value, old, pe, "ferry_atomic32_swap");
}

int ferry_atomic32_compare_swap(ferry_ctx_t *ctx, uint32_t *dest, uint32_t compare, uint32_t value, uint32_t *old,
                                int pe)
{
    return call(ctx, &(struct atomic32){dest, FERRY_AMO_CSWAP, true, value, compare, old}, pe,
                "ferry_atomic32_compare_swap");
}

int ferry_atomic32_fetch_add(ferry_ctx_t *ctx, uint32_t *dest, uint32_t value, uint32_t *old, int pe)
{
    return fetching(ctx, dest, FERRY_AMO_ADD, value, old, pe, "ferry_atomic32_fetch_add");
}

int ferry_atomic32_fetch_inc(ferry_ctx_t *ctx, uint32_t *dest, uint32_t *old, int pe)
{
    return fetching(ctx, dest, FERRY_AMO_ADD, 1, old, pe, "ferry_atomic32_fetch_inc");
}

int ferry_atomic32_fetch_and(ferry_ctx_t *ctx, uint32_t *dest, uint32_t value, uint32_t *old, int pe)
{
    return fetching(ctx, dest, FERRY_AMO_AND, value, old, pe, "ferry_atomic32_fetch_and");
}

int ferry_atomic32_fetch_or(ferry_ctx_t *ctx, uint32_t *dest, uint32_t value, uint32_t *old, int pe)
{
    return fetching(ctx, dest, FERRY_AMO_OR, value, old, pe, "ferry_atomic32_fetch_or");
}

int ferry_atomic32_fetch_xor(ferry_ctx_t *ctx, uint32_t *dest, uint32_t value, uint32_t *old, int pe)
{
    return fetching(ctx, dest, FERRY_AMO_XOR, value, old, pe, "ferry_atomic32_fetch_xor");
}
