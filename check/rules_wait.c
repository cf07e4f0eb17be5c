/* SPDX-License-Identifier: Apache-2.0
 * Items 29 to 32: what waits and tests promise about words of the own memory, and that a waiting PE serves the others.
 * On every PE. */
#include "amo.h"
#include "crew.h"

#include <stdio.h>
#include <string.h>

#define WORDS 8u

/* ------------------------------------------------------------------ 29: what was seen is there */

enum form { WAIT, TEST, WAIT_ANY, WAIT_ALL, WAIT_SOME, TEST_ANY, TEST_ALL, ANY_VECTOR, SOME_VECTOR, FORMS };

/* Until words[at] is at least r, by one of the forms; the words beside it are far above. */
static void await(struct pe *pe, enum form form, const uint64_t *words, size_t at, uint64_t r)
{
    const int no_mask[1] = {0};
    size_t index = SIZE_MAX, indices[1], count = 0;
    const uint64_t *word = &words[at];
    int seen = 0;

    switch (form) {
    case TEST:
        while ((seen = ferry_test(pe->job, word, FERRY_CMP_GE, r)) == 0)
            continue;
        EXPECT(pe, seen == 1);
        return;
    case WAIT_ANY:
        EXPECT_OK(pe, ferry_wait_until_any(pe->job, word, 1, NULL, FERRY_CMP_GE, r, &index));
        break;
    case WAIT_ALL:
        EXPECT_OK(pe, ferry_wait_until_all(pe->job, words, WORDS, NULL, FERRY_CMP_GE, r));
        return;
    case WAIT_SOME:
        EXPECT_OK(pe, ferry_wait_until_some(pe->job, word, 1, no_mask, FERRY_CMP_GE, r, indices, &count));
        index = count == 1 ? indices[0] : SIZE_MAX;
        break;
    case TEST_ANY:
        while ((seen = ferry_test_any(pe->job, word, 1, NULL, FERRY_CMP_EQ, r, &index)) == 0)
            continue;
        break;
    case TEST_ALL:
        while ((seen = ferry_test_all(pe->job, words, WORDS, NULL, FERRY_CMP_GE, r)) == 0)
            continue;
        EXPECT(pe, seen == 1);
        return;
    case ANY_VECTOR:
        EXPECT_OK(pe, ferry_wait_until_any_vector(pe->job, word, 1, NULL, FERRY_CMP_EQ, &r, &index));
        break;
    case SOME_VECTOR:
        EXPECT_OK(pe, ferry_wait_until_some_vector(pe->job, word, 1, NULL, FERRY_CMP_EQ, &r, indices, &count));
        index = count == 1 ? indices[0] : SIZE_MAX;
        break;
    default:
        EXPECT_OK(pe, ferry_wait_until(pe->job, word, FERRY_CMP_GE, r));
        return;
    }
    EXPECT(pe, index == 0);
}

/* Data and a flag behind it; plain loads of the data once the flag was seen, whatever form saw it. */
static void acquire(struct pe *pe)
{
    enum { BYTES = 1200 };
    unsigned long rounds = rule_times(pe, "messages", 10000);
    uint8_t *data = rule_calloc(pe, BYTES), source[BYTES];
    uint64_t *words = rule_calloc(pe, WORDS * 8), *back = rule_calloc(pe, 8);

    if (!data || !words || !back)
        return;
    for (size_t i = 0; i < WORDS; i++)
        words[i] = i == 3 ? 0 : UINT64_MAX;
    EXPECT_OK(pe, ferry_barrier(pe->job));
    for (uint64_t r = 1; r <= rounds; r++) {
        if (pe->rank == 0) {
            rule_fill(source, BYTES, r);
            EXPECT_OK(pe, ferry_put_nbi(pe->ctx, data, source, BYTES, 1));
            EXPECT_OK(pe, ferry_fence(pe->ctx));
            EXPECT_OK(pe, ferry_atomic_set(pe->ctx, &words[3], r, 1));
            EXPECT_OK(pe, ferry_wait_until(pe->job, back, FERRY_CMP_GE, r));
            EXPECT_OK(pe, ferry_quiet(pe->ctx));
        } else if (pe->rank == 1) {
            await(pe, r % FORMS, words, 3, r);
            if (!EXPECT(pe, rule_wrong(data, BYTES, r) == 0))
                fprintf(stderr, "  seen by form %d\n", (int)(r % FORMS));
            EXPECT_OK(pe, ferry_atomic_set(pe->ctx, back, r, 0));
        }
    }
    EXPECT_OK(pe, ferry_barrier(pe->job));
}

/* ------------------------------------------------------------------ 30: forms, masks, comparisons */

static bool holds(int cmp, uint64_t word, uint64_t value)
{
    const bool all[] = {word == value, word != value, word > value, word >= value, word < value, word <= value};

    return all[cmp];
}

/* Each comparison at edge values, unsigned: tests say what holds, and waits for what holds return. */
static void comparisons(struct pe *pe)
{
    static const uint64_t edges[] = {0, 1, INT64_MAX, (uint64_t)1 << 63, UINT64_MAX - 1, UINT64_MAX, UINT32_MAX};
    enum { EDGES = sizeof(edges) / sizeof(*edges) };
    uint64_t *word = rule_calloc(pe, 8);

    for (int w = 0; word && w < EDGES; w++) {
        EXPECT_OK(pe, ferry_atomic_set(pe->ctx, word, edges[w], pe->rank));
        EXPECT_OK(pe, ferry_quiet(pe->ctx));
        for (int v = 0; v < EDGES; v++)
            for (int cmp = FERRY_CMP_EQ; cmp <= FERRY_CMP_LE; cmp++) {
                bool want = holds(cmp, edges[w], edges[v]);

                EXPECT(pe, ferry_test(pe->job, word, cmp, edges[v]) == want);
                if (want)
                    EXPECT_OK(pe, ferry_wait_until(pe->job, word, cmp, edges[v]));
            }
        EXPECT(pe, ferry_test(pe->job, word, FERRY_CMP_LE + 1, 0) < 0);
        EXPECT(pe, ferry_test(pe->job, word, -1, 0) < 0);
    }
    EXPECT_OK(pe, ferry_barrier(pe->job));
}

static void check_forms(struct pe *pe, const uint64_t *words, const int *mask, uint64_t value)
{
    size_t first = SIZE_MAX, n = 0, left_in = 0, want[WORDS], index = 77, indices[WORDS], count = 77;
    uint64_t values[WORDS];

    for (size_t i = 0; i < WORDS; i++) {
        bool counts = !mask || !mask[i];

        values[i] = value;
        left_in += counts;
        if (!counts || words[i] < value)
            continue;
        first = first == SIZE_MAX ? i : first;
        want[n++] = i;
    }
    EXPECT(pe, ferry_test_any(pe->job, words, WORDS, mask, FERRY_CMP_GE, value, &index) == (n > 0 || !left_in));
    EXPECT(pe, index == first);
    EXPECT(pe, ferry_test_all(pe->job, words, WORDS, mask, FERRY_CMP_GE, value) == (n == left_in));
    EXPECT(pe,
           ferry_test_some(pe->job, words, WORDS, mask, FERRY_CMP_GE, value, indices, &count) == (n > 0 || !left_in));
    EXPECT(pe, count == n && memcmp(indices, want, n * sizeof(*want)) == 0);
    EXPECT(pe, ferry_test_any_vector(pe->job, words, WORDS, mask, FERRY_CMP_GE, values, &index) == (n > 0 || !left_in));
    EXPECT(pe, index == first);
    EXPECT(pe, ferry_test_all_vector(pe->job, words, WORDS, mask, FERRY_CMP_GE, values) == (n == left_in));
    count = 77;
    EXPECT(pe, ferry_test_some_vector(pe->job, words, WORDS, mask, FERRY_CMP_GE, values, indices, &count) ==
                   (n > 0 || !left_in));
    EXPECT(pe, count == n && memcmp(indices, want, n * sizeof(*want)) == 0);
    if (!n && left_in)
        return; /* a wait would last */
    index = count = 77;
    EXPECT_OK(pe, ferry_wait_until_any(pe->job, words, WORDS, mask, FERRY_CMP_GE, value, &index));
    EXPECT_OK(pe, ferry_wait_until_some(pe->job, words, WORDS, mask, FERRY_CMP_GE, value, indices, &count));
    EXPECT(pe, index == first && count == n);
    if (n == left_in)
        EXPECT_OK(pe, ferry_wait_until_all(pe->job, words, WORDS, mask, FERRY_CMP_GE, value));
}

/* Words of any value under any mask, also one that leaves nothing. */
static void masks(struct pe *pe)
{
    unsigned long rounds = rule_times(pe, "masks", 20000);
    uint64_t *words = rule_calloc(pe, WORDS * 8), state = 1;
    size_t index = 77, count = 77, indices[1];

    if (!words)
        return;
    for (unsigned long r = 0; r < rounds; r++) {
        uint64_t draw = rule_draw(&state);
        int mask[WORDS];

        for (unsigned i = 0; i < WORDS; i++) {
            words[i] = rule_draw(&state) % 4;
            mask[i] = r % 16 == 0 || (draw >> i & 1) ? (int)(draw >> 32) | 1 : 0;
        }
        check_forms(pe, words, r % 7 ? mask : NULL, draw >> 8 & 3);
    }
    EXPECT_OK(pe, ferry_wait_until_any(pe->job, words, 0, NULL, FERRY_CMP_EQ, 99, &index));
    EXPECT_OK(pe, ferry_wait_until_some(pe->job, words, 0, NULL, FERRY_CMP_EQ, 99, indices, &count));
    EXPECT_OK(pe, ferry_wait_until_all(pe->job, words, 0, NULL, FERRY_CMP_EQ, 99));
    EXPECT(pe, index == SIZE_MAX && count == 0);
    EXPECT_OK(pe, ferry_barrier(pe->job));
}

/* All others set words of PE 0, in orders of their own. It takes each once, by any and some, and masks it then. */
static void each_once(struct pe *pe)
{
    enum { EACH = 8, MOST = 64 * EACH };
    unsigned long rounds = rule_times(pe, "rounds", 1000);
    size_t n = (size_t)(pe->n - 1) * EACH, indices[MOST], got;
    uint64_t *words = rule_calloc(pe, n * 8);

    if (!words)
        return;
    for (uint64_t r = 1; r <= rounds; r++) {
        int mask[MOST] = {0};

        for (size_t i = 0; pe->rank > 0 && i < EACH; i++) {
            size_t at = (size_t)(pe->rank - 1) * EACH + (i * 5 + r) % EACH;

            EXPECT_OK(pe, i & 1 ? ferry_signal(pe->ctx, &words[at], r, FERRY_SIGNAL_SET | FERRY_SIGNAL_WEAK, 0)
                                : ferry_atomic_add(pe->ctx, &words[at], 1, 0));
        }
        for (size_t taken = 0; pe->rank == 0 && taken < n; taken += got) {
            got = 1;
            if (taken & 1)
                EXPECT_OK(pe, ferry_wait_until_some(pe->job, words, n, mask, FERRY_CMP_EQ, r, indices, &got));
            else
                EXPECT_OK(pe, ferry_wait_until_any(pe->job, words, n, mask, FERRY_CMP_EQ, r, &indices[0]));
            if (!EXPECT(pe, got >= 1 && got <= n - taken))
                return;
            for (size_t i = 0; i < got; i++)
                EXPECT(pe, indices[i] < n && mask[indices[i]]++ == 0);
        }
        EXPECT_OK(pe, ferry_barrier(pe->job));
    }
}

/* ------------------------------------------------------------------ 31: the own threads */

struct exchange {
    uint64_t *words; /* ping, and pong 8 words further */
    unsigned long rounds;
};

/* Two threads of one PE: stores and own atomics of one wake the other. */
static void own_thread(struct crew *crew)
{
    const struct exchange *x = crew->arg;
    uint64_t *mine = x->words + crew->index * 8, *other = x->words + (1 - crew->index) * 8;
    struct pe *pe = crew->pe;

    for (uint64_t r = 1; r <= x->rounds; r++) {
        if (crew->index == 1)
            EXPECT_OK(pe, ferry_wait_until(pe->job, mine, FERRY_CMP_GE, r));
        if (r & 1)
            __atomic_store_n(other, r, __ATOMIC_RELEASE);
        else
            EXPECT_OK(pe, ferry_atomic_set(crew->ctx, other, r, pe->rank));
        if (r % 2 == 0)
            EXPECT_OK(pe, ferry_quiet(crew->ctx)); /* the next store must not be overtaken */
        if (crew->index == 0)
            EXPECT_OK(pe, ferry_wait_until(pe->job, mine, FERRY_CMP_GE, r));
    }
}

static void own_stores(struct pe *pe)
{
    struct exchange x = {rule_calloc(pe, 128), rule_times(pe, "rounds of 2 threads", 3000)};

    if (x.words)
        crew_run(pe, 2, CREW_PRIVATE, own_thread, &x);
    EXPECT_OK(pe, ferry_barrier(pe->job));
}

/* ------------------------------------------------------------------ 32: who waits, serves */

/* Everything that may have to be made by the target's CPU. */
static void ask(struct pe *pe, uint64_t *words, const uint8_t *data, uint64_t r, int to)
{
    uint8_t into[500];

    for (int kind = AMO_SET; kind < AMO_KINDS; kind++)
        for (int width = 4; width <= 8; width += 4) {
            struct amo amo = {.kind = kind, .width = width, .value = r, .compare = r - 1};
            uint64_t old;

            EXPECT_OK(pe, amo_issue(pe->ctx, &amo, &words[kind * 2 + width / 8], &old, to));
        }
    EXPECT_OK(pe, ferry_get(pe->ctx, into, data, sizeof(into), to));
    EXPECT(pe, rule_wrong(into, sizeof(into), (uint64_t)to) == 0);
}

/* The PEs take turns: one asks all others, which do nothing but wait for its flag. */
static void waiting_serves(struct pe *pe)
{
    unsigned long rounds = rule_times(pe, "rounds of 28 atomics and a get", 500);
    uint64_t *words = rule_calloc(pe, (2 * AMO_KINDS + 2) * 8), *flags = rule_calloc(pe, (size_t)pe->n * 8);
    uint8_t *data = rule_calloc(pe, 500);

    if (!words || !flags || !data)
        return;
    rule_fill(data, 500, (uint64_t)pe->rank);
    EXPECT_OK(pe, ferry_barrier(pe->job));
    for (uint64_t r = 1; r <= rounds; r++) {
        uint64_t asks = r % (uint64_t)pe->n;

        if ((uint64_t)pe->rank != asks) {
            EXPECT_OK(pe, ferry_wait_until(pe->job, &flags[asks], FERRY_CMP_GE, r));
            continue;
        }
        for (int to = 0; to < pe->n; to++)
            if (to != pe->rank)
                ask(pe, words, data, r, to);
        EXPECT_OK(pe, ferry_quiet(pe->ctx));
        for (int to = 0; to < pe->n; to++)
            EXPECT_OK(pe, ferry_atomic_set(pe->ctx, &flags[asks], r, to));
        EXPECT_OK(pe, ferry_quiet(pe->ctx));
    }
    EXPECT_OK(pe, ferry_barrier(pe->job));
}

/* What a PE posted goes out while it waits for the answer, though it calls nothing else; on every context of it. */
static void waiting_sends(struct pe *pe)
{
    enum { BYTES = 2000 };
    unsigned long rounds = rule_times(pe, "questions", 5000);
    uint8_t *data = rule_calloc(pe, BYTES), source[BYTES];
    uint64_t *question = rule_calloc(pe, 8), *answer = rule_calloc(pe, 8);
    ferry_ctx_t *ctx = NULL;

    if (!data || !question || !answer || !EXPECT_OK(pe, ferry_ctx_create(pe->job, 0, &ctx)))
        return;
    for (uint64_t r = 1; r <= rounds && pe->rank < 2; r++) {
        if (pe->rank == 0) {
            rule_fill(source, BYTES, r);
            EXPECT_OK(
                pe, ferry_put_signal_nbi(r & 1 ? ctx : pe->ctx, data, source, BYTES, question, 1, FERRY_SIGNAL_ADD, 1));
            EXPECT_OK(pe, ferry_wait_until(pe->job, answer, FERRY_CMP_EQ, r));
            EXPECT_OK(pe, ferry_quiet(r & 1 ? ctx : pe->ctx));
        } else {
            EXPECT_OK(pe, ferry_wait_until(pe->job, question, FERRY_CMP_EQ, r));
            EXPECT(pe, rule_wrong(data, BYTES, r) == 0);
            EXPECT_OK(pe, ferry_signal(r & 2 ? ctx : pe->ctx, answer, r, FERRY_SIGNAL_SET, 0));
        }
    }
    EXPECT_OK(pe, ferry_ctx_destroy(ctx));
    EXPECT_OK(pe, ferry_barrier(pe->job));
}

const struct rule fy_rules_wait[] = {
    {"R29.1", "data behind a flag that any wait or test has seen is there for plain loads", 2, 0, acquire, NULL},
    {"R30.1", "each comparison at edge values, unsigned", 1, 0, comparisons, NULL},
    {"R30.2", "masks, and words of which none is left, in each form", 1, 0, masks, NULL},
    {"R30.3", "any and some find each of many words once", 2, 0, each_once, NULL},
    {"R31.1", "stores and atomics of the own threads end a wait", 1, 0, own_stores, NULL},
    {"R32.1", "a PE that only waits serves whatever others ask of it", 2, 0, waiting_serves, NULL},
    {"R32.2", "what a waiting PE has posted goes out", 2, 0, waiting_sends, NULL},
    {NULL, NULL, 0, 0, NULL, NULL},
};
