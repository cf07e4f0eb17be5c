/* SPDX-License-Identifier: Apache-2.0
 * Waiting for words in this PE's own memory, and the dissemination barrier built on it.
 * Waits: any thread. Barrier: one thread per PE at a time. */
#ifndef FY_ORDER_WAIT_H
#define FY_ORDER_WAIT_H

#include "channel.h"

/* enum ferry_cmp of ferry.h: EQ NE GT GE LT LE. */
static inline bool fy_compare(uint64_t seen, int cmp, uint64_t value)
{
    switch (cmp) {
    case 0: return seen == value;
    case 1: return seen != value;
    case 2: return seen > value;
    case 3: return seen >= value;
    case 4: return seen < value;
    default: return seen <= value;
    }
}

/* Acquire: what the writer released before the word is visible to loads after this (C11 5.1.2.4). */
static inline uint64_t fy_look(const uint64_t *word)
{
    return __atomic_load_n(word, __ATOMIC_ACQUIRE);
}

/* Who waits: check is the `pe` of fy_world_check; ctx the channel whose failed operations end the wait, each time; NULL: the
 * default context, each failure once. */
struct fy_waiter {
    struct fy_world *world;
    struct ferry_ctx *ctx;
    int check;
    const char *doing;
    uint32_t from; /* for the page: 1 + the PE that is waited for; 0: not known */
};
/* Returns when `*word cmp value`; or with FERRY_ERR_PEER, FERRY_ERR_ABORTED, or what a transport answered. */
int fy_wait_word(const struct fy_waiter *waiter, const uint64_t *word, int cmp, uint64_t value);
/* One turn of a wait of the caller's own making: backs off, makes progress; FERRY_OK: look again. */
int fy_wait_turn(const struct fy_waiter *waiter, struct fy_backoff *backoff);

/* State of the barrier: words[r] is set by the PE that stands 2^r before this one, to the number of the barrier. */
#define FY_BARRIER_ROUNDS 32u
struct fy_barrier {
    uint64_t *words; /* FY_BARRIER_ROUNDS words, a cache line apart, in the symmetric heap */
    uint64_t number;
    struct ferry_ctx *ctx; /* channel of its own: it neither waits for nor orders anybody else's operations */
};
#define FY_BARRIER_STRIDE 8u
#define FY_BARRIER_BYTES (FY_BARRIER_ROUNDS * FY_BARRIER_STRIDE * sizeof(uint64_t))
int fy_barrier_pass(struct fy_barrier *barrier, const char *doing);

#endif
