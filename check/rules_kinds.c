/* SPDX-License-Identifier: Apache-2.0
 * Items 25 to 28: what each kind of atomic does, where it ends, and when it is complete. On every PE. */
#include "amo.h"

#include <sched.h>
#include <string.h>

static int right(const struct pe *pe)
{
    return (pe->rank + 1) % pe->n;
}

static uint64_t mask(int width)
{
    return width == 8 ? UINT64_MAX : UINT32_MAX;
}

/* ------------------------------------------------------------------ 25, 26: what each kind does */

static const uint64_t edges[] = {0,
                                 1,
                                 2,
                                 0x7f,
                                 0xff,
                                 0x7fff,
                                 0x7fffffff,
                                 0x80000000u,
                                 0xfffffffe,
                                 0xffffffffu,
                                 0x100000000u,
                                 INT64_MAX,
                                 (uint64_t)INT64_MIN,
                                 UINT64_MAX - 1,
                                 UINT64_MAX,
                                 0x0123456789abcdefu};
#define EDGES (sizeof(edges) / sizeof(*edges))

static bool try_edge(struct pe *pe, const struct amo *amo, uint64_t *words, uint64_t start, int to)
{
    struct amo set = {.kind = AMO_SET, .width = amo->width, .value = start},
               fetch = {.kind = AMO_FETCH, .width = amo->width};
    uint64_t old = ~start, now = 0;
    bool good;

    good = EXPECT_OK(pe, amo_issue(pe->ctx, &set, words, NULL, to)) && EXPECT_OK(pe, ferry_quiet(pe->ctx)) &&
           EXPECT_OK(pe, amo_issue(pe->ctx, amo, words, &old, to)) && EXPECT_OK(pe, ferry_quiet(pe->ctx)) &&
           EXPECT_OK(pe, amo_issue(pe->ctx, &fetch, words, &now, to));
    if (amo->kind >= AMO_FETCH)
        good = EXPECT(pe, old == (start & mask(amo->width))) && good;
    return EXPECT(pe, now == (amo_model(amo, start) & mask(amo->width))) && good;
}

/* Every kind, every pair of edge values, against the model; the ends of the table first when there is little time. */
static void table(struct pe *pe, int width, int to)
{
    unsigned long n = rule_times(pe, "edge values, each with each", EDGES * 10);
    uint64_t *words = rule_calloc(pe, (size_t)pe->n * 8), state = 7, *own;

    if (!words)
        return;
    own = &words[pe->rank];
    n = n > EDGES ? EDGES : n < 4 ? 4 : n;
    EXPECT_OK(pe, ferry_barrier(pe->job));
    for (int kind = 0; kind < AMO_KINDS; kind++)
        for (unsigned long i = 0; i < n * n; i++) {
            uint64_t draw = n == EDGES ? i : rule_draw(&state) % (EDGES * EDGES), start = edges[draw % EDGES];
            struct amo amo = {.kind = kind,
                              .width = width,
                              .value = edges[draw / EDGES],
                              .compare = i & 1 ? start : edges[(draw + 3) % EDGES]};

            if (!try_edge(pe, &amo, own, start, to))
                kind = AMO_KINDS, i = n * n;
        }
    EXPECT_OK(pe, ferry_barrier(pe->job));
}

static void table64(struct pe *pe)
{
    table(pe, 8, right(pe));
}

static void table32(struct pe *pe)
{
    table(pe, 4, right(pe));
}

static void table64_self(struct pe *pe)
{
    table(pe, 8, pe->rank);
}

static void table32_self(struct pe *pe)
{
    table(pe, 4, pe->rank);
}

/* A long row of any kinds on one word, with a fence after each: the model knows every value in between. */
static void sequence(struct pe *pe, int width)
{
    unsigned long n = rule_times(pe, "operations", 20000), wrong = 0;
    uint64_t *words = rule_calloc(pe, (size_t)pe->n * 8), state = 99 + (uint64_t)pe->rank, model = 0, old;

    if (!words)
        return;
    EXPECT_OK(pe, ferry_barrier(pe->job));
    for (unsigned long i = 0; i < n; i++) {
        uint64_t draw = rule_draw(&state);
        struct amo amo = {
            .kind = draw % AMO_KINDS, .width = width, .value = rule_draw(&state), .compare = draw & 64 ? model : draw};

        old = ~model;
        EXPECT_OK(pe, amo_issue(pe->ctx, &amo, &words[pe->rank], &old, right(pe)));
        wrong += amo.kind >= AMO_FETCH && old != model;
        model = amo_model(&amo, model) & mask(width);
        EXPECT_OK(pe, ferry_fence(pe->ctx));
    }
    struct amo fetch = {.kind = AMO_FETCH, .width = width};
    EXPECT_OK(pe, amo_issue(pe->ctx, &fetch, &words[pe->rank], &old, right(pe)));
    EXPECT(pe, old == model && wrong == 0);
    EXPECT_OK(pe, ferry_barrier(pe->job));
}

static void sequence64(struct pe *pe)
{
    sequence(pe, 8);
}

static void sequence32(struct pe *pe)
{
    sequence(pe, 4);
}

static void cswap_outcomes(struct pe *pe)
{
    static const int widths[] = {8, 4};
    unsigned long n = rule_times(pe, "pairs of outcomes", 5000), wrong = 0;
    uint64_t *words = rule_calloc(pe, (size_t)pe->n * 8), old;

    if (!words)
        return;
    for (int w = 0; w < 2; w++) {
        uint64_t held = 0;

        memset(words, 0, (size_t)pe->n * 8);
        EXPECT_OK(pe, ferry_barrier(pe->job));
        for (unsigned long i = 0; i < n; i++) {
            struct amo hit = {AMO_CSWAP, widths[w], (i * 0x9e3779b97f4a7c15u) & mask(widths[w]), held};
            struct amo miss = {AMO_CSWAP, widths[w], 0xdead, hit.value ^ 0x80000000u};

            EXPECT_OK(pe, amo_issue(pe->ctx, &hit, &words[pe->rank], &old, right(pe)));
            wrong += old != held;
            held = hit.value;
            EXPECT_OK(pe, amo_issue(pe->ctx, &miss, &words[pe->rank], &old, right(pe)));
            wrong += old != held;
        }
        EXPECT_OK(pe, ferry_barrier(pe->job));
    }
    EXPECT(pe, wrong == 0);
}

/* ------------------------------------------------------------------ 27: neighbours */

static void guards(struct pe *pe, int width)
{
    enum { BYTES = 96, GUARD = 0xa5 };
    unsigned long n = rule_times(pe, "rounds of all kinds at 4 places", 400);
    uint8_t *bytes = rule_calloc(pe, BYTES);
    uint64_t state = 5, old;

    if (!bytes)
        return;
    memset(bytes, GUARD, BYTES);
    EXPECT_OK(pe, ferry_barrier(pe->job));
    for (unsigned long i = 0; i < n * AMO_KINDS * 4; i++) {
        size_t at = 32 + i % 4 * (size_t)width;
        struct amo amo = {
            .kind = (i / 4) % AMO_KINDS, .width = width, .value = rule_draw(&state), .compare = rule_draw(&state)};

        EXPECT_OK(pe, amo_issue(pe->ctx, &amo, bytes + at, &old, right(pe)));
    }
    EXPECT_OK(pe, ferry_barrier(pe->job));
    EXPECT(pe, rule_all(bytes, 32, GUARD) && rule_all(bytes + 32 + 4 * width, BYTES - 32 - 4 * (size_t)width, GUARD));
    EXPECT_OK(pe, ferry_barrier(pe->job));
}

static void guards64(struct pe *pe)
{
    guards(pe, 8);
}

static void guards32(struct pe *pe)
{
    guards(pe, 4);
}

/* While one PE updates a 4-byte word, another puts to the 4 bytes beside it: no put is undone. */
static void neighbour_puts(struct pe *pe)
{
    unsigned long n = rule_times(pe, "rounds", 10000), lost = 0;
    uint32_t *words = rule_calloc(pe, 16), seen;

    if (!words)
        return;
    EXPECT_OK(pe, ferry_barrier(pe->job));
    for (unsigned long i = 1; i <= n; i++) {
        if (pe->rank == 1) {
            EXPECT_OK(pe, ferry_p32(pe->ctx, &words[0], (uint32_t)i, 0));
            EXPECT_OK(pe, ferry_quiet(pe->ctx));
            EXPECT_OK(pe, ferry_g32(pe->ctx, &words[0], &seen, 0));
            lost += seen != i;
        } else {
            EXPECT_OK(pe, i & 1 ? ferry_atomic32_add(pe->ctx, &words[1], 3, 0)
                                : ferry_atomic32_fetch_add(pe->ctx, &words[1], 3, &seen, 0));
        }
    }
    EXPECT(pe, lost == 0);
    EXPECT_OK(pe, ferry_barrier(pe->job));
    if (pe->rank == 0)
        EXPECT(pe, words[0] == n && amo_own(pe, &words[1], 4) == (uint32_t)(3 * n * (uint64_t)(pe->n - 1)));
    EXPECT_OK(pe, ferry_barrier(pe->job));
}

/* ------------------------------------------------------------------ 28: order and completion of those without a result
 */

static void fence_orders(struct pe *pe)
{
    unsigned long n = rule_times(pe, "rounds of 2 widths", 10000);
    uint64_t *sum = rule_calloc(pe, 24), *flag = sum + 1, *back = sum + 2;
    uint32_t *narrow = rule_calloc(pe, 8);

    if (!sum || !narrow)
        return;
    EXPECT_OK(pe, ferry_barrier(pe->job));
    for (uint64_t i = 1; i <= n; i++) {
        if (pe->rank == 0) {
            EXPECT_OK(pe, ferry_atomic_add(pe->ctx, sum, 3, 1));
            EXPECT_OK(pe, ferry_atomic32_inc(pe->ctx, narrow, 1));
            EXPECT_OK(pe, ferry_fence(pe->ctx));
            EXPECT_OK(pe, ferry_signal(pe->ctx, flag, i, FERRY_SIGNAL_SET | FERRY_SIGNAL_WEAK, 1));
            EXPECT_OK(pe, ferry_wait_until(pe->job, back, FERRY_CMP_GE, i));
        } else if (pe->rank == 1) {
            EXPECT_OK(pe, ferry_wait_until(pe->job, flag, FERRY_CMP_GE, i));
            EXPECT(pe, ferry_test(pe->job, sum, FERRY_CMP_EQ, 3 * i) == 1);
            EXPECT(pe, amo_own(pe, narrow, 4) == (uint32_t)i);
            EXPECT_OK(pe, ferry_atomic_set(pe->ctx, back, i, 0));
        }
    }
    EXPECT_OK(pe, ferry_barrier(pe->job));
}

/* The same with a put as what comes later: one byte, which has no parts. */
static void fence_orders_put(struct pe *pe)
{
    unsigned long n = rule_times(pe, "rounds of 2 widths", 10000);
    uint64_t *sum = rule_calloc(pe, 24), *back = sum + 2;
    uint32_t *narrow = rule_calloc(pe, 8);
    uint8_t *flag = (uint8_t *)(sum + 1), byte;

    if (!sum || !narrow)
        return;
    EXPECT_OK(pe, ferry_barrier(pe->job));
    for (uint64_t i = 1; i <= n; i++) {
        if (pe->rank == 0) {
            byte = (uint8_t)i;
            EXPECT_OK(pe, ferry_atomic_add(pe->ctx, sum, 3, 1));
            EXPECT_OK(pe, ferry_atomic32_inc(pe->ctx, narrow, 1));
            EXPECT_OK(pe, ferry_fence(pe->ctx));
            EXPECT_OK(pe, ferry_put(pe->ctx, flag, &byte, 1, 1));
            EXPECT_OK(pe, ferry_wait_until(pe->job, back, FERRY_CMP_GE, i));
        } else if (pe->rank == 1) {
            struct pes_limit limit = pes_limit(60);

            while (__atomic_load_n(flag, __ATOMIC_ACQUIRE) != (uint8_t)i && pes_in_time(&limit))
                sched_yield();
            EXPECT(pe, ferry_test(pe->job, sum, FERRY_CMP_EQ, 3 * i) == 1);
            EXPECT(pe, amo_own(pe, narrow, 4) == (uint32_t)i);
            EXPECT_OK(pe, ferry_atomic_set(pe->ctx, back, i, 0));
        }
    }
    EXPECT_OK(pe, ferry_barrier(pe->job));
}

static void quiet_completes(struct pe *pe)
{
    unsigned long n = rule_times(pe, "rounds of 7 operations", 3000);
    uint64_t *words = rule_calloc(pe, 8 * 8);
    uint32_t *narrow = (uint32_t *)&words[7];

    if (!words)
        return;
    EXPECT_OK(pe, ferry_barrier(pe->job));
    for (uint64_t i = 1; i <= n; i++) {
        if (pe->rank == 0) {
            EXPECT_OK(pe, ferry_atomic_set(pe->ctx, &words[0], i, 1));
            EXPECT_OK(pe, ferry_atomic_add(pe->ctx, &words[1], 2, 1));
            EXPECT_OK(pe, ferry_atomic_inc(pe->ctx, &words[2], 1));
            EXPECT_OK(pe, ferry_atomic_xor(pe->ctx, &words[3], i ^ (i - 1), 1));
            EXPECT_OK(pe, ferry_signal(pe->ctx, &words[4], 1, FERRY_SIGNAL_ADD, 1));
            EXPECT_OK(pe, ferry_signal(pe->ctx, &words[5], i, FERRY_SIGNAL_SET, 1));
            EXPECT_OK(pe, ferry_atomic32_add(pe->ctx, narrow, 5, 1));
            EXPECT_OK(pe, ferry_quiet(pe->ctx));
            atomic_store(&rule_stage(pe)->words[0], i);
        }
        if (!rule_meet(pe, 0, i))
            return;
        if (pe->rank == 1) {
            const uint64_t want[6] = {i, 2 * i, i, i, i, i};

            for (int w = 0; w < 6; w++)
                EXPECT(pe, ferry_test(pe->job, &words[w], FERRY_CMP_EQ, want[w]) == 1);
            EXPECT(pe, amo_own(pe, narrow, 4) == (uint32_t)(5 * i));
        }
        if (!rule_gather(pe, 1, i))
            return;
    }
}

const struct rule fy_rules_kinds[] = {
    {"R25.1", "every 8-byte kind at edge values, as the model says", 2, 0, table64, NULL},
    {"R25.2", "every 4-byte kind at edge values, as the model says", 2, 0, table32, NULL},
    {"R25.3", "every 8-byte kind on the own PE, as the model says", 1, 0, table64_self, NULL},
    {"R25.4", "every 4-byte kind on the own PE, as the model says", 1, 0, table32_self, NULL},
    {"R25.5", "a fenced row of any 8-byte kinds fetches what the model says", 2, 0, sequence64, NULL},
    {"R25.6", "a fenced row of any 4-byte kinds fetches what the model says", 2, 0, sequence32, NULL},
    {"R26.1", "compare_swap returns the old value, stored or not", 2, 0, cswap_outcomes, NULL},
    {"R27.1", "8-byte atomics leave their neighbours alone", 2, 0, guards64, NULL},
    {"R27.2", "4-byte atomics, 4-aligned, leave their neighbours alone", 2, 0, guards32, NULL},
    {"R27.3", "4-byte atomics undo no put to the 4 bytes beside them", 2, 0, neighbour_puts, NULL},
    {"R28.1", "fence orders atomics and the signal behind them", 2, 0, fence_orders, NULL},
    {"R28.2", "quiet completes atomics and signals without a result", 2, 0, quiet_completes, NULL},
    {"R28.3", "fence orders atomics and the put behind them", 2, RULE_RACES, fence_orders_put, NULL},
    {NULL, NULL, 0, 0, NULL, NULL},
};
