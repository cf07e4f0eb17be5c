/* SPDX-License-Identifier: Apache-2.0
 * All atomics of ferry.h behind one call, and what they ought to do. Any thread. */
#include "amo.h"

static int issue64(ferry_ctx_t *ctx, const struct amo *amo, uint64_t *word, uint64_t *old, int pe)
{
    switch (amo->kind) {
    case AMO_SET:
        return ferry_atomic_set(ctx, word, amo->value, pe);
    case AMO_ADD:
        return ferry_atomic_add(ctx, word, amo->value, pe);
    case AMO_INC:
        return ferry_atomic_inc(ctx, word, pe);
    case AMO_AND:
        return ferry_atomic_and(ctx, word, amo->value, pe);
    case AMO_OR:
        return ferry_atomic_or(ctx, word, amo->value, pe);
    case AMO_XOR:
        return ferry_atomic_xor(ctx, word, amo->value, pe);
    case AMO_FETCH:
        return ferry_atomic_fetch(ctx, word, old, pe);
    case AMO_SWAP:
        return ferry_atomic_swap(ctx, word, amo->value, old, pe);
    case AMO_CSWAP:
        return ferry_atomic_compare_swap(ctx, word, amo->compare, amo->value, old, pe);
    case AMO_FETCH_ADD:
        return ferry_atomic_fetch_add(ctx, word, amo->value, old, pe);
    case AMO_FETCH_INC:
        return ferry_atomic_fetch_inc(ctx, word, old, pe);
    case AMO_FETCH_AND:
        return ferry_atomic_fetch_and(ctx, word, amo->value, old, pe);
    case AMO_FETCH_OR:
        return ferry_atomic_fetch_or(ctx, word, amo->value, old, pe);
    default:
        return ferry_atomic_fetch_xor(ctx, word, amo->value, old, pe);
    }
}

static int issue32(ferry_ctx_t *ctx, const struct amo *amo, uint32_t *word, uint32_t *old, int pe)
{
    uint32_t value = (uint32_t)amo->value, compare = (uint32_t)amo->compare;

    switch (amo->kind) {
    case AMO_SET:
        return ferry_atomic32_set(ctx, word, value, pe);
    case AMO_ADD:
        return ferry_atomic32_add(ctx, word, value, pe);
    case AMO_INC:
        return ferry_atomic32_inc(ctx, word, pe);
    case AMO_AND:
        return ferry_atomic32_and(ctx, word, value, pe);
    case AMO_OR:
        return ferry_atomic32_or(ctx, word, value, pe);
    case AMO_XOR:
        return ferry_atomic32_xor(ctx, word, value, pe);
    case AMO_FETCH:
        return ferry_atomic32_fetch(ctx, word, old, pe);
    case AMO_SWAP:
        return ferry_atomic32_swap(ctx, word, value, old, pe);
    case AMO_CSWAP:
        return ferry_atomic32_compare_swap(ctx, word, compare, value, old, pe);
    case AMO_FETCH_ADD:
        return ferry_atomic32_fetch_add(ctx, word, value, old, pe);
    case AMO_FETCH_INC:
        return ferry_atomic32_fetch_inc(ctx, word, old, pe);
    case AMO_FETCH_AND:
        return ferry_atomic32_fetch_and(ctx, word, value, old, pe);
    case AMO_FETCH_OR:
        return ferry_atomic32_fetch_or(ctx, word, value, old, pe);
    default:
        return ferry_atomic32_fetch_xor(ctx, word, value, old, pe);
    }
}

int amo_issue(ferry_ctx_t *ctx, const struct amo *amo, void *word, uint64_t *old, int pe)
{
    uint32_t old32 = 0;
    int rc;

    if (amo->width == 8)
        return issue64(ctx, amo, word, old, pe);
    rc = issue32(ctx, amo, word, &old32, pe);
    if (rc == FERRY_OK && amo->kind >= AMO_FETCH)
        *old = old32;
    return rc;
}

static uint64_t model(const struct amo *amo, uint64_t word, uint64_t value, uint64_t compare)
{
    switch (amo->kind) {
    case AMO_SET:
    case AMO_SWAP:
        return value;
    case AMO_ADD:
    case AMO_FETCH_ADD:
        return word + value;
    case AMO_INC:
    case AMO_FETCH_INC:
        return word + 1;
    case AMO_AND:
    case AMO_FETCH_AND:
        return word & value;
    case AMO_OR:
    case AMO_FETCH_OR:
        return word | value;
    case AMO_XOR:
    case AMO_FETCH_XOR:
        return word ^ value;
    case AMO_CSWAP:
        return word == compare ? value : word;
    default:
        return word;
    }
}

uint64_t amo_model(const struct amo *amo, uint64_t word)
{
    if (amo->width == 8)
        return model(amo, word, amo->value, amo->compare);
    return (uint32_t)model(amo, (uint32_t)word, (uint32_t)amo->value, (uint32_t)amo->compare);
}

uint64_t amo_own(struct pe *pe, const void *word, int width)
{
    struct amo fetch = {.kind = AMO_FETCH, .width = width};
    uint64_t value = 0;

    EXPECT_OK(pe, amo_issue(pe->ctx, &fetch, (void *)(uintptr_t)word, &value, pe->rank));
    return value;
}
