/* SPDX-License-Identifier: Apache-2.0
 * Ordering and completion as an application sees them: fence, quiet, signals, over the transport in TEST_TRANSPORT.
 * PEs are threads; the numbers in names are the items of the contract in docs/semantics.md. */
#include "pes.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SIZES 7
static const size_t sizes[SIZES] = {1, 8, 64, 300, 1000, 4099, 70001};
#define LARGEST 70016

/* What the message-passing tests share: a payload, a flag, and the way back. */
struct box {
    uint8_t *data;
    uint64_t *flag, *back;
};

static struct box box_make(struct pe *pe)
{
    struct box box = {ferry_calloc(pe->job, 1, LARGEST), ferry_calloc(pe->job, 8, 8), ferry_calloc(pe->job, 8, 8)};
    EXPECT(pe, box.data && box.flag && box.back);
    return box;
}

static size_t stale(const uint8_t *data, size_t n, uint8_t wanted)
{
    size_t bad = 0;
    for (size_t i = 0; i < n; i++)
        bad += data[i] != wanted;
    return bad;
}

/* How the sender makes the flag follow the data. */
enum style { PUT_FENCE_SIGNAL, PUT_FENCE_ATOMIC, PUT_SIGNAL, PUT_SIGNAL_NBI, PUTS_THEN_SIGNAL, BLOCKING_FENCE, STYLES };

static void send_round(struct pe *pe, ferry_ctx_t *ctx, const struct box *box, const uint8_t *src, size_t n, uint64_t round,
                       enum style style)
{
    int to = 1;
    switch (style) {
    case PUT_FENCE_SIGNAL:
        EXPECT_OK(pe, ferry_put_nbi(ctx, box->data, src, n, to));
        EXPECT_OK(pe, ferry_fence(ctx));
        EXPECT_OK(pe, ferry_signal(ctx, box->flag, round, FERRY_SIGNAL_SET | FERRY_SIGNAL_WEAK, to));
        break;
    case PUT_FENCE_ATOMIC:
        EXPECT_OK(pe, ferry_put_nbi(ctx, box->data, src, n, to));
        EXPECT_OK(pe, ferry_fence(ctx));
        EXPECT_OK(pe, ferry_fence(ctx)); /* two in a row are one */
        EXPECT_OK(pe, ferry_atomic_add(ctx, box->flag, 1, to));
        break;
    case PUT_SIGNAL: EXPECT_OK(pe, ferry_put_signal(ctx, box->data, src, n, box->flag, 1, FERRY_SIGNAL_ADD, to)); break;
    case PUT_SIGNAL_NBI:
        EXPECT_OK(pe, ferry_put_signal_nbi(ctx, box->data, src, n, box->flag, round, FERRY_SIGNAL_SET, to));
        break;
    case PUTS_THEN_SIGNAL: /* a strong signal covers all earlier puts */
        for (size_t at = 0; at < n; at += (n + 3) / 4)
            EXPECT_OK(pe, ferry_put_nbi(ctx, box->data + at, src + at, n - at < (n + 3) / 4 ? n - at : (n + 3) / 4, to));
        EXPECT_OK(pe, ferry_signal(ctx, box->flag, 1, FERRY_SIGNAL_ADD, to));
        break;
    default:
        EXPECT_OK(pe, ferry_put(ctx, box->data, src, n, to));
        EXPECT_OK(pe, ferry_fence(ctx));
        EXPECT_OK(pe, ferry_atomic_set(ctx, box->flag, round, to));
    }
}

struct litmus {
    enum style style;
    unsigned long rounds;
};

static void litmus_body(struct pe *pe)
{
    const struct litmus *litmus = pe->arg;
    struct box box = box_make(pe);
    ferry_ctx_t *ctx;
    uint8_t *src = malloc(LARGEST);
    uint64_t round = 0;
    if (!EXPECT_OK(pe, ferry_ctx_create(pe->job, 0, &ctx)) || !EXPECT(pe, src))
        return;
    for (int s = 0; s < SIZES; s++) {
        unsigned long rounds = sizes[s] > 5000 ? litmus->rounds / 20 + 1 : litmus->rounds;
        for (unsigned long i = 0; i < rounds; i++) {
            round++;
            if (pe->rank == 0) {
                memset(src, (int)(round & 0xff), sizes[s]);
                send_round(pe, ctx, &box, src, sizes[s], round, litmus->style);
                EXPECT_OK(pe, ferry_wait_until(pe->job, box.back, FERRY_CMP_GE, round));
            } else {
                EXPECT_OK(pe, ferry_wait_until(pe->job, box.flag, FERRY_CMP_GE, round));
                if (!EXPECT(pe, stale(box.data, sizes[s], (uint8_t)round) == 0))
                    fprintf(stderr, "  style %d, %zu bytes, round %llu: %zu bytes were stale when the flag was seen\n",
                            litmus->style, sizes[s], (unsigned long long)round,
                            stale(box.data, sizes[s], (uint8_t)round));
                EXPECT_OK(pe, ferry_signal(ctx, box.back, round, FERRY_SIGNAL_SET, 0));
            }
        }
    }
    EXPECT_OK(pe, ferry_ctx_destroy(ctx));
    free(src);
}

static void litmus(enum style style)
{
    struct litmus how = {style, pes_scaled(400)};
    pes_check(2, litmus_body, &how);
}

static void test_10_put_fence_signal(void **state)
{
    (void)state;
    litmus(PUT_FENCE_SIGNAL);
}

static void test_14_put_fence_atomic(void **state)
{
    (void)state;
    litmus(PUT_FENCE_ATOMIC);
}

static void test_16_put_signal(void **state)
{
    (void)state;
    litmus(PUT_SIGNAL);
}

static void test_16_put_signal_nbi(void **state)
{
    (void)state;
    litmus(PUT_SIGNAL_NBI);
}

static void test_strong_signal_covers_earlier_puts(void **state)
{
    (void)state;
    litmus(PUTS_THEN_SIGNAL);
}

static void test_10_blocking_put_fence_set(void **state)
{
    (void)state;
    litmus(BLOCKING_FENCE);
}

/* Atomic, fence, put, and put_signal, fence, put: the later one must not be seen without the earlier. */
static void chain_body(struct pe *pe)
{
    uint64_t *words = ferry_calloc(pe->job, 64, 8), *back = ferry_calloc(pe->job, 8, 8);
    ferry_ctx_t *ctx;
    if (!EXPECT(pe, words && back) || !EXPECT_OK(pe, ferry_ctx_create(pe->job, 0, &ctx)))
        return;
    unsigned long rounds = pes_scaled(1000);
    for (uint64_t round = 1; round <= rounds; round++) {
        if (pe->rank == 0) {
            EXPECT_OK(pe, ferry_atomic_add(ctx, &words[0], 1, 1));
            EXPECT_OK(pe, ferry_fence(ctx));
            EXPECT_OK(pe, ferry_put_nbi(ctx, &words[8], &round, 8, 1));
            EXPECT_OK(pe, ferry_put_signal_nbi(ctx, &words[16], &round, 8, &words[24], 1, FERRY_SIGNAL_ADD, 1));
            EXPECT_OK(pe, ferry_fence(ctx));
            EXPECT_OK(pe, ferry_atomic_set(ctx, &words[32], round, 1));
            EXPECT_OK(pe, ferry_quiet(ctx)); /* round is reused as a source */
            EXPECT_OK(pe, ferry_wait_until(pe->job, back, FERRY_CMP_GE, round));
            continue;
        }
        EXPECT_OK(pe, ferry_wait_until(pe->job, &words[24], FERRY_CMP_GE, round));
        EXPECT(pe, __atomic_load_n(&words[16], __ATOMIC_ACQUIRE) == round);
        EXPECT(pe, __atomic_load_n(&words[8], __ATOMIC_ACQUIRE) == round); /* a strong signal covers it */
        EXPECT(pe, __atomic_load_n(&words[0], __ATOMIC_ACQUIRE) >= round);
        EXPECT_OK(pe, ferry_wait_until(pe->job, &words[32], FERRY_CMP_GE, round));
        EXPECT(pe, __atomic_load_n(&words[24], __ATOMIC_ACQUIRE) >= round);
        EXPECT_OK(pe, ferry_signal(ctx, back, round, FERRY_SIGNAL_SET, 0));
    }
    EXPECT_OK(pe, ferry_ctx_destroy(ctx));
}

static void test_14_chains(void **state)
{
    (void)state;
    pes_check(2, chain_body, NULL);
}

/* PE 0 puts to 1, quiets, tells 2 by an atomic; 2 gets from 1 and must see it. */
static void transitive_body(struct pe *pe)
{
    enum { N = 2000 };
    uint8_t *data = ferry_calloc(pe->job, 1, N);
    uint64_t *flag = ferry_calloc(pe->job, 8, 8), *back = ferry_calloc(pe->job, 8, 8);
    uint8_t local[N];
    unsigned long rounds = pes_scaled(300);
    if (!EXPECT(pe, data && flag && back))
        return;
    for (uint64_t round = 1; round <= rounds; round++) {
        if (pe->rank == 0) {
            memset(local, (int)(round & 0xff), N);
            EXPECT_OK(pe, ferry_put_nbi(pe->ctx, data, local, N, 1));
            EXPECT_OK(pe, ferry_quiet(pe->ctx));
            EXPECT_OK(pe, ferry_atomic_add(pe->ctx, flag, 1, 2));
            EXPECT_OK(pe, ferry_wait_until(pe->job, back, FERRY_CMP_GE, round));
        } else if (pe->rank == 2) {
            EXPECT_OK(pe, ferry_wait_until(pe->job, flag, FERRY_CMP_GE, round));
            EXPECT_OK(pe, ferry_get(pe->ctx, local, data, N, 1));
            EXPECT(pe, stale(local, N, (uint8_t)round) == 0);
            EXPECT_OK(pe, ferry_signal(pe->ctx, back, round, FERRY_SIGNAL_SET, 0));
        }
    }
}

static void test_3_quiet_three_pes(void **state)
{
    (void)state;
    pes_check(3, transitive_body, NULL);
}

/* After a blocking put the source may be overwritten; the target still gets the old bytes. */
static void reuse_body(struct pe *pe)
{
    uint8_t *data = ferry_calloc(pe->job, SIZES, LARGEST), *src = malloc(LARGEST);
    if (!EXPECT(pe, data && src))
        return;
    for (int s = 0; s < SIZES; s++) {
        memset(src, 0x5a + s, sizes[s]);
        EXPECT_OK(pe, ferry_put(pe->ctx, data + (size_t)s * LARGEST, src, sizes[s], (pe->rank + 1) % pe->n));
        memset(src, 0xee, sizes[s]);
    }
    EXPECT_OK(pe, ferry_barrier(pe->job));
    for (int s = 0; s < SIZES; s++)
        EXPECT(pe, stale(data + (size_t)s * LARGEST, sizes[s], (uint8_t)(0x5a + s)) == 0);
    free(src);
}

static void test_1_blocking_put_frees_source(void **state)
{
    (void)state;
    pes_check(2, reuse_body, NULL);
}

/* quiet completes nbi puts, nbi gets and non-fetching atomics; the default context's at a barrier. */
static void quiet_body(struct pe *pe)
{
    enum { N = 500 };
    uint64_t *table = ferry_calloc(pe->job, N, 8), *mine = calloc(N, 8), got[N];
    int to = (pe->rank + 1) % pe->n;
    if (!EXPECT(pe, table && mine))
        return;
    for (int i = 0; i < N; i++) {
        mine[i] = (uint64_t)i << 32 | (unsigned)pe->rank;
        EXPECT_OK(pe, ferry_put_nbi(pe->ctx, &table[i], &mine[i], 8, to));
    }
    EXPECT_OK(pe, ferry_quiet(pe->ctx));
    memset(got, 0xff, sizeof(got));
    for (int i = 0; i < N; i++)
        EXPECT_OK(pe, ferry_get_nbi(pe->ctx, &got[i], &table[i], 8, to));
    EXPECT_OK(pe, ferry_quiet(pe->ctx));
    EXPECT(pe, memcmp(got, mine, sizeof(got)) == 0);
    EXPECT_OK(pe, ferry_sync(pe->job));
    for (int i = 0; i < N; i++)
        EXPECT_OK(pe, ferry_atomic_add(pe->ctx, &table[i], 1u << 16, to));
    EXPECT_OK(pe, ferry_barrier(pe->job));
    int from = (pe->rank + pe->n - 1) % pe->n;
    for (int i = 0; i < N; i++)
        EXPECT(pe, table[i] == ((uint64_t)i << 32 | (unsigned)from) + (1u << 16));
    free(mine);
}

static void test_4_7_quiet_and_barrier(void **state)
{
    (void)state;
    pes_check(3, quiet_body, NULL);
}

/* Destroying a context completes what it had outstanding; 10000 times without leaving anything. */
static void destroy_body(struct pe *pe)
{
    uint64_t *word = ferry_calloc(pe->job, 8, 8), value = 0;
    ferry_ctx_t *ctx;
    unsigned long rounds = pes_scaled(10000);
    int to = (pe->rank + 1) % pe->n;
    if (!EXPECT(pe, word))
        return;
    for (unsigned long i = 0; i < rounds; i++) {
        if (!EXPECT_OK(pe, ferry_ctx_create(pe->job, 0, &ctx)))
            return;
        EXPECT_OK(pe, ferry_atomic_add(ctx, word, 1, to));
        EXPECT_OK(pe, ferry_ctx_destroy(ctx));
        if (i % 1000 == 0 && EXPECT_OK(pe, ferry_atomic_fetch(pe->ctx, word, &value, to)))
            EXPECT(pe, value == i + 1);
    }
    EXPECT_OK(pe, ferry_barrier(pe->job));
    EXPECT(pe, *word == rounds);
}

static void test_8_33_destroy_completes(void **state)
{
    (void)state;
    pes_check(2, destroy_body, NULL);
}

/* A fence with operations outstanding to all PEs; a million operations without quiet. */
static void flood_body(struct pe *pe)
{
    enum { SLOTS = 64 };
    uint64_t *table = ferry_calloc(pe->job, SLOTS, 8), *sum = ferry_calloc(pe->job, 8, 8);
    uint64_t value = 7;
    unsigned long rounds = pes_scaled(100000);
    if (!EXPECT(pe, table && sum))
        return;
    for (unsigned long i = 0; i < rounds; i++) {
        EXPECT_OK(pe, ferry_put_nbi(pe->ctx, &table[i % SLOTS], &value, 8, (int)(i % (unsigned)pe->n)));
        EXPECT_OK(pe, ferry_atomic_add(pe->ctx, sum, 1, (int)(i % (unsigned)pe->n)));
        if (i % 97 == 0)
            EXPECT_OK(pe, ferry_fence(pe->ctx));
    }
    EXPECT_OK(pe, ferry_barrier(pe->job));
    EXPECT(pe, table[pe->rank] == 7);
    unsigned long mine = rounds / (unsigned)pe->n + (rounds % (unsigned)pe->n > (unsigned)pe->rank);
    EXPECT(pe, *sum == mine * (unsigned)pe->n);
}

static void test_11_50_flood(void **state)
{
    (void)state;
    pes_check(4, flood_body, NULL);
}

static void test_50_flood_with_small_queue(void **state)
{
    (void)state;
    static const char *const options[] = {"FERRY_QUEUE_OPS=3", "FERRY_QUEUE_BYTES=64", NULL};
    pes_check_options(3, flood_body, NULL, options);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_10_put_fence_signal),
        cmocka_unit_test(test_14_put_fence_atomic),
        cmocka_unit_test(test_16_put_signal),
        cmocka_unit_test(test_16_put_signal_nbi),
        cmocka_unit_test(test_strong_signal_covers_earlier_puts),
        cmocka_unit_test(test_10_blocking_put_fence_set),
        cmocka_unit_test(test_14_chains),
        cmocka_unit_test(test_3_quiet_three_pes),
        cmocka_unit_test(test_1_blocking_put_frees_source),
        cmocka_unit_test(test_4_7_quiet_and_barrier),
        cmocka_unit_test(test_8_33_destroy_completes),
        cmocka_unit_test(test_11_50_flood),
        cmocka_unit_test(test_50_flood_with_small_queue),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
