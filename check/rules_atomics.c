/* SPDX-License-Identifier: Apache-2.0
 * Items 19 and 22 to 24: one word that many update, by signals and atomics, their own PE included. On every PE. */
#include "amo.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

static int right(const struct pe *pe)
{
    return (pe->rank + 1) % pe->n;
}

static uint64_t mask(int width)
{
    return width == 8 ? UINT64_MAX : UINT32_MAX;
}

/* ------------------------------------------------------------------ 19: signals */

static void signals_add(struct pe *pe)
{
    const uint64_t step = 0x100000003u;
    unsigned long n = rule_times(pe, "ADDs by each PE to each", 10000);
    uint64_t *word = rule_calloc(pe, 8);

    if (!word)
        return;
    EXPECT_OK(pe, ferry_barrier(pe->job));
    for (unsigned long i = 0; i < n; i++)
        for (int to = 0; to < pe->n; to++)
            EXPECT_OK(pe, ferry_signal(pe->ctx, word, step, FERRY_SIGNAL_ADD | (i & 1 ? FERRY_SIGNAL_WEAK : 0), to));
    EXPECT_OK(pe, ferry_wait_until(pe->job, word, FERRY_CMP_GE, n * step * (uint64_t)pe->n));
    EXPECT_OK(pe, ferry_barrier(pe->job));
    EXPECT(pe, ferry_test(pe->job, word, FERRY_CMP_EQ, n * step * (uint64_t)pe->n) == 1);
}

/* Every value that is SET has two equal halves, so a torn one shows. */
static void signals_set(struct pe *pe)
{
    unsigned long n = rule_times(pe, "SETs by each PE", 10000), torn = 0;
    uint64_t *word = rule_calloc(pe, 8), seen;
    uint64_t last = (uint64_t)pe->n * 1000003u;

    if (!word)
        return;
    EXPECT_OK(pe, ferry_barrier(pe->job));
    for (unsigned long i = 0; i < n; i++) {
        uint64_t half = (i * 4099 + (uint64_t)pe->rank) % last;

        EXPECT_OK(pe, ferry_signal(pe->ctx, word, half << 32 | half, FERRY_SIGNAL_SET, right(pe)));
        EXPECT_OK(pe, ferry_atomic_fetch(pe->ctx, word, &seen, (int)(i % (unsigned long)pe->n)));
        torn += seen >> 32 != (seen & UINT32_MAX);
    }
    EXPECT(pe, torn == 0);
    EXPECT_OK(pe, ferry_barrier(pe->job));
    EXPECT_OK(pe, ferry_signal(pe->ctx, word, last, FERRY_SIGNAL_SET, right(pe)));
    EXPECT_OK(pe, ferry_wait_until(pe->job, word, FERRY_CMP_EQ, last));
    EXPECT_OK(pe, ferry_barrier(pe->job));
}

/* Signals and atomics update one word together; put_signal too. */
static void signals_and_atomics(struct pe *pe)
{
    unsigned long n = rule_times(pe, "rounds of 3", 10000);
    uint64_t *word = rule_calloc(pe, 8), source = 5, *data = rule_calloc(pe, (size_t)pe->n * 8);

    if (!word || !data)
        return;
    EXPECT_OK(pe, ferry_barrier(pe->job));
    for (unsigned long i = 0; i < n; i++) {
        EXPECT_OK(pe, ferry_signal(pe->ctx, word, 1, FERRY_SIGNAL_ADD, 0));
        EXPECT_OK(pe, ferry_atomic_add(pe->ctx, word, UINT64_C(1) << 40, 0));
        EXPECT_OK(pe, ferry_put_signal_nbi(pe->ctx, &data[pe->rank], &source, 8, word, 1 << 20, FERRY_SIGNAL_ADD, 0));
    }
    EXPECT_OK(pe, ferry_barrier(pe->job));
    if (pe->rank == 0)
        EXPECT(pe, amo_own(pe, word, 8) == n * (uint64_t)pe->n * ((UINT64_C(1) << 40) + (1 << 20) + 1));
    EXPECT_OK(pe, ferry_barrier(pe->job));
}

/* ------------------------------------------------------------------ 22, 24: one word, many that update it */

/* What a second thread of a PE does, on a context of its own. */
struct helper {
    struct pe *pe;
    void *word;
    uint32_t *seen; /* how often each value was fetched */
    unsigned long n;
    int width;
};

static void take_tickets(struct pe *pe, ferry_ctx_t *ctx, const struct helper *h)
{
    for (unsigned long i = 0; i < h->n; i++) {
        struct amo amo = {.kind = i & 1 ? AMO_FETCH_INC : AMO_FETCH_ADD, .width = h->width, .value = 1};
        uint64_t old = UINT64_MAX;

        EXPECT_OK(pe, amo_issue(ctx, &amo, h->word, &old, 0));
        if (EXPECT(pe, old < h->n * 2 * (uint64_t)pe->n))
            __atomic_fetch_add(&h->seen[old], 1, __ATOMIC_RELAXED);
    }
}

static void *take_beside(void *arg)
{
    struct helper *h = arg;
    ferry_ctx_t *ctx = NULL;

    if (!EXPECT_OK(h->pe, ferry_ctx_create(h->pe->job, 0, &ctx)))
        return NULL;
    take_tickets(h->pe, ctx, h);
    EXPECT_OK(h->pe, ferry_ctx_destroy(ctx));
    return NULL;
}

/* Every PE, the owner included, takes tickets with two threads: each number exactly once. Each PE keeps book for
 * itself; the books are added up at the end. */
static void tickets(struct pe *pe, int width)
{
    unsigned long n = rule_times(pe, "tickets by each of two threads per PE", 10000),
                  all = n * 2 * (unsigned long)pe->n;
    uint64_t *word = rule_calloc(pe, 8);
    uint32_t *mine = calloc(all, 4), *sum = calloc(all, 4);
    struct helper h = {pe, word, mine, n, width};
    unsigned long bad = 0;
    pthread_t thread;

    if (!word || !EXPECT(pe, mine && sum))
        return;
    EXPECT_OK(pe, ferry_barrier(pe->job));
    if (!EXPECT(pe, pthread_create(&thread, NULL, take_beside, &h) == 0))
        return;
    take_tickets(pe, pe->ctx, &h);
    pthread_join(thread, NULL);
    EXPECT_OK(pe, ferry_reduce(ferry_team_world(pe->job), sum, mine, all, FERRY_TYPE_UINT32, FERRY_REDUCE_SUM));
    for (unsigned long i = 0; i < all; i++)
        bad += sum[i] != 1;
    EXPECT(pe, bad == 0);
    if (pe->rank == 0)
        EXPECT(pe, amo_own(pe, word, width) == all);
    EXPECT_OK(pe, ferry_barrier(pe->job));
    free(mine);
    free(sum);
}

static void tickets64(struct pe *pe)
{
    tickets(pe, 8);
}

static void tickets32(struct pe *pe)
{
    tickets(pe, 4);
}

static void add_by_cswap(struct pe *pe, void *word, int width, uint64_t what)
{
    uint64_t seen = 0, old = ~seen;

    for (int tries = 0; tries < 1000000; tries++) {
        struct amo amo = {.kind = AMO_CSWAP, .width = width, .compare = seen, .value = seen + what};

        if (!EXPECT_OK(pe, amo_issue(pe->ctx, &amo, word, &old, 0)) || old == (seen & mask(width)))
            return;
        seen = old;
    }
    EXPECT(pe, !"compare_swap never met the value that it had seen");
}

/* Different kinds on one word: adds, increments, compare_swap loops, fetching and not; the owner does the same to
 * itself. */
static void kinds_together(struct pe *pe, int width)
{
    static const enum amo_kind kinds[] = {AMO_ADD, AMO_FETCH_ADD, AMO_INC, AMO_FETCH_INC};
    unsigned long n = rule_times(pe, "rounds of 5 kinds", 3000);
    uint64_t *word = rule_calloc(pe, 8), old;

    if (!word)
        return;
    EXPECT_OK(pe, ferry_barrier(pe->job));
    for (unsigned long i = 0; i < n; i++) {
        for (int k = 0; k < 4; k++) {
            struct amo amo = {.kind = kinds[k], .width = width, .value = 1};

            EXPECT_OK(pe, amo_issue(pe->ctx, &amo, word, &old, 0));
        }
        add_by_cswap(pe, word, width, 1);
    }
    EXPECT_OK(pe, ferry_barrier(pe->job));
    if (pe->rank == 0)
        EXPECT(pe, amo_own(pe, word, width) == 5 * n * (uint64_t)pe->n);
    EXPECT_OK(pe, ferry_barrier(pe->job));
}

static void kinds_together64(struct pe *pe)
{
    kinds_together(pe, 8);
}

static void kinds_together32(struct pe *pe)
{
    kinds_together(pe, 4);
}

/* Each PE owns a few bits, and knows what they must be; others change theirs in between. */
static void bits_together(struct pe *pe, int width)
{
    unsigned long n = rule_times(pe, "rounds of 6 kinds", 2000);
    uint64_t *word = rule_calloc(pe, ((size_t)pe->n + 15) / 16 * 8), state = 0x1234567u + (uint64_t)pe->rank;
    uint64_t expected = 0, wrong = 0;
    int bits = width * 8 / 16;
    uint64_t own = ((UINT64_C(1) << bits) - 1) << (bits * (pe->rank % 16));
    static const enum amo_kind kinds[] = {AMO_AND, AMO_OR, AMO_XOR, AMO_FETCH_AND, AMO_FETCH_OR, AMO_FETCH_XOR};

    if (!word)
        return;
    word += pe->rank / 16; /* as many as a word has bits for */
    EXPECT_OK(pe, ferry_barrier(pe->job));
    for (unsigned long i = 0; i < n * 6; i++) {
        uint64_t draw = rule_draw(&state), old = 0;
        struct amo amo = {.kind = kinds[draw % 6], .width = width, .value = draw & own};

        if (amo.kind == AMO_AND || amo.kind == AMO_FETCH_AND)
            amo.value |= ~own;
        EXPECT_OK(pe, ferry_fence(pe->ctx)); /* or they might be applied in another order */
        EXPECT_OK(pe, amo_issue(pe->ctx, &amo, word, &old, 0));
        if (amo.kind >= AMO_FETCH)
            wrong += (old & own) != (expected & own);
        expected = amo_model(&amo, expected);
    }
    EXPECT_OK(pe, ferry_barrier(pe->job));
    struct amo fetch = {.kind = AMO_FETCH, .width = width};
    uint64_t last = 0;
    EXPECT_OK(pe, amo_issue(pe->ctx, &fetch, word, &last, 0));
    EXPECT(pe, wrong == 0 && (last & own) == (expected & own & mask(width)));
    EXPECT_OK(pe, ferry_barrier(pe->job));
}

static void bits_together64(struct pe *pe)
{
    bits_together(pe, 8);
}

static void bits_together32(struct pe *pe)
{
    bits_together(pe, 4);
}

/* A token is handed on by swap: it is never doubled and never lost. */
static void swaps_together(struct pe *pe)
{
    unsigned long n = rule_times(pe, "swaps by each PE", 10000);
    uint64_t *word = rule_calloc(pe, 8), mine = 1 + (uint64_t)pe->rank, sum[2] = {0};

    if (!word)
        return;
    EXPECT_OK(pe, ferry_barrier(pe->job));
    for (unsigned long i = 0; i < n; i++)
        EXPECT_OK(pe, ferry_atomic_swap(pe->ctx, word, mine, &mine, 0));
    EXPECT_OK(pe, ferry_barrier(pe->job));
    if (pe->rank == 0)
        mine |= amo_own(pe, word, 8) << 32;
    uint64_t both[2] = {mine & UINT32_MAX, mine >> 32};
    EXPECT_OK(pe, ferry_reduce(ferry_team_world(pe->job), sum, both, 2, FERRY_TYPE_UINT64, FERRY_REDUCE_SUM));
    EXPECT(pe, sum[0] + sum[1] == (uint64_t)pe->n * ((uint64_t)pe->n + 1) / 2);
}

/* The owner updates its word through Ferry while one other does: local atomics do not pass by those of a network card.
 */
static void owner_and_other(struct pe *pe)
{
    static const enum amo_kind kinds[] = {AMO_ADD, AMO_INC, AMO_FETCH_ADD};
    unsigned long n = rule_times(pe, "rounds of 3 kinds", 10000);
    uint64_t *words = rule_calloc(pe, 3 * 8), old;

    if (!words)
        return;
    EXPECT_OK(pe, ferry_barrier(pe->job));
    for (unsigned long i = 0; pe->rank < 2 && i < n; i++)
        for (int k = 0; k < 3; k++) {
            struct amo amo = {.kind = kinds[k], .width = 8, .value = 1};

            EXPECT_OK(pe, amo_issue(pe->ctx, &amo, &words[k], &old, 1));
        }
    EXPECT_OK(pe, ferry_barrier(pe->job));
    for (int k = 0; pe->rank == 1 && k < 3; k++)
        EXPECT(pe, amo_own(pe, &words[k], 8) == 2 * n);
    EXPECT_OK(pe, ferry_barrier(pe->job));
}

/* ------------------------------------------------------------------ 23: waiting beside updates */

/* Each ADD changes both halves by 1: they are equal in every value that is whole, and no value goes down. */
static void waiter(struct pe *pe)
{
    const uint64_t step = 0x100000001u;
    unsigned long n = rule_times(pe, "ADDs by each PE", 20000);
    uint64_t *word = rule_calloc(pe, 8), seen = 0, old, end = (uint64_t)(pe->n - 1) * n * step, bad = 0;

    if (!word)
        return;
    EXPECT_OK(pe, ferry_barrier(pe->job));
    for (unsigned long i = 0; pe->rank > 0 && i < n; i++)
        EXPECT_OK(pe, i & 1 ? ferry_atomic_add(pe->ctx, word, step, 0)
                            : ferry_atomic_fetch_add(pe->ctx, word, step, &old, 0));
    while (pe->rank == 0 && seen < end && !bad) {
        EXPECT_OK(pe, ferry_wait_until(pe->job, word, FERRY_CMP_GT, seen));
        old = amo_own(pe, word, 8);
        bad += old <= seen || old >> 32 != (old & UINT32_MAX) || old > end;
        seen = old;
    }
    EXPECT(pe, bad == 0);
    EXPECT_OK(pe, ferry_barrier(pe->job));
}

/* The owner adds for as long as the others do, on a context of its own: then its adds and theirs do meet. */
static void owner_all_the_while(struct pe *pe)
{
    unsigned long n = rule_times(pe, "adds of each other PE", 10000), own = 0;
    _Atomic uint64_t *done = &rule_stage(pe)->words[0];
    uint64_t *word = rule_calloc(pe, 8), seen = 0;
    ferry_ctx_t *ctx = NULL;

    if (!word || !EXPECT_OK(pe, ferry_ctx_create(pe->job, 0, &ctx)))
        return;
    EXPECT_OK(pe, ferry_barrier(pe->job));
    for (unsigned long i = 0; pe->rank != 1 && i < n; i++)
        EXPECT_OK(pe, ferry_atomic_add(ctx, word, 1, 1));
    EXPECT_OK(pe, ferry_quiet(ctx));
    if (pe->rank != 1)
        atomic_fetch_add(done, 1);
    while (pe->rank == 1 && atomic_load(done) + 1 < (uint64_t)pe->n && EXPECT_OK(pe, ferry_atomic_add(ctx, word, 1, 1)))
        own++;
    EXPECT_OK(pe, ferry_quiet(ctx));
    EXPECT_OK(pe, ferry_barrier(pe->job));
    if (pe->rank == 1) {
        EXPECT_OK(pe, ferry_atomic_fetch(ctx, word, &seen, 1));
        EXPECT(pe, seen == own + n * ((uint64_t)pe->n - 1));
    }
    EXPECT_OK(pe, ferry_ctx_destroy(ctx));
    EXPECT_OK(pe, ferry_barrier(pe->job));
}

const struct rule fy_rules_atomics[] = {
    {"R19.1", "signals that ADD, by all PEs, make the exact sum beyond 32 bits", 2, 0, signals_add, NULL},
    {"R19.2", "signals that SET are whole", 2, 0, signals_set, NULL},
    {"R19.3", "signals and atomics on one word make the exact sum", 2, 0, signals_and_atomics, NULL},
    {"R22.1", "8-byte tickets, taken by self, remote PEs and other threads, are a permutation", 2, 0, tickets64, NULL},
    {"R22.2", "4-byte tickets, taken by self, remote PEs and other threads, are a permutation", 2, 0, tickets32, NULL},
    {"R22.3", "8-byte kinds together on one word lose nothing", 2, 0, kinds_together64, NULL},
    {"R22.4", "4-byte kinds together on one word lose nothing", 2, 0, kinds_together32, NULL},
    {"R22.5", "8-byte and, or, xor of different PEs leave each other's bits alone", 2, 0, bits_together64, NULL},
    {"R22.6", "4-byte and, or, xor of different PEs leave each other's bits alone", 2, 0, bits_together32, NULL},
    {"R22.7", "swaps by all PEs neither double nor lose a value", 2, 0, swaps_together, NULL},
    {"R23.1", "a waiter sees whole values that only grow, and the last one", 2, 0, waiter, NULL},
    {"R24.1", "the owner's atomics and those of another PE are of one domain", 2, 0, owner_and_other, NULL},
    {"R24.2", "the owner adds all the while that others do", 2, 0, owner_all_the_while, NULL},
    {NULL, NULL, 0, 0, NULL, NULL},
};
