/* SPDX-License-Identifier: Apache-2.0
 * All atomics of ferry.h behind one call, and what they ought to do. Any thread. */
#ifndef CHECK_AMO_H
#define CHECK_AMO_H

#include "rules.h"

enum amo_kind {
    AMO_SET,
    AMO_ADD,
    AMO_INC,
    AMO_AND,
    AMO_OR,
    AMO_XOR,
    AMO_FETCH, /* this and the following fetch */
    AMO_SWAP,
    AMO_CSWAP,
    AMO_FETCH_ADD,
    AMO_FETCH_INC,
    AMO_FETCH_AND,
    AMO_FETCH_OR,
    AMO_FETCH_XOR,
    AMO_KINDS
};

struct amo {
    enum amo_kind kind;
    int width; /* 4 or 8 */
    uint64_t value, compare;
};

/* Issues it; a fetching one stores the old value, widened, in *old. Returns the status. */
int amo_issue(ferry_ctx_t *ctx, const struct amo *amo, void *word, uint64_t *old, int pe);
/* The word after it. */
uint64_t amo_model(const struct amo *amo, uint64_t word);
/* Value of this PE's own word, after everything that is complete. */
uint64_t amo_own(struct pe *pe, const void *word, int width);

#endif
