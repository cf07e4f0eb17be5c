/* SPDX-License-Identifier: Apache-2.0
 * Data, atomics and waits as an application sees them, over the transport in TEST_TRANSPORT.
 * PEs are threads; the numbers in names are the items of the contract in docs/semantics.md. */
#include "pes.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

static uint8_t pattern(size_t i, int salt)
{
    return (uint8_t)(i * 131 + (size_t)salt * 17 + (i >> 8));
}

static bool matches(const uint8_t *data, size_t n, int salt)
{
    for (size_t i = 0; i < n; i++)
        if (data[i] != pattern(i, salt))
            return false;
    return true;
}

/* Every size, with guard bytes, by put and by get, to the next PE and to itself. */
static const size_t sizes[] = {0,   1,   2,   3,   4,   7,    8,    9,    15,   16,    17,    31,    63,     64,     65,
                               127, 255, 256, 257, 999, 1000, 1001, 4095, 4096, 65535, 65536, 65537, 1 << 20, 3000001};

static void put_get_sizes(struct pe *pe, uint8_t *area, size_t room, int to)
{
    uint8_t *local = malloc(room);
    if (!EXPECT(pe, local))
        return;
    for (size_t s = 0; s < sizeof(sizes) / sizeof(*sizes); s++) {
        size_t n = sizes[s];
        for (size_t i = 0; i < n; i++)
            local[i] = pattern(i, pe->rank);
        EXPECT_OK(pe, ferry_sync(pe->job));
        memset(area, 0xa5, n + 64);
        EXPECT_OK(pe, ferry_sync(pe->job));
        EXPECT_OK(pe, ferry_put(pe->ctx, area + 32, local, n, to));
        EXPECT_OK(pe, ferry_barrier(pe->job));
        int from = to == pe->rank ? pe->rank : (pe->rank + pe->n - 1) % pe->n;
        EXPECT(pe, matches(area + 32, n, from));
        for (size_t g = 0; g < 32; g++)
            EXPECT(pe, area[g] == 0xa5 && area[32 + n + g] == 0xa5);
        memset(local, 0, n + 8);
        EXPECT_OK(pe, ferry_get(pe->ctx, local + 3, area + 32, n, to));
        EXPECT(pe, matches(local + 3, n, pe->rank) && local[n + 3] == 0);
        EXPECT_OK(pe, ferry_barrier(pe->job));
    }
    free(local);
}

static void sizes_body(struct pe *pe)
{
    size_t room = 3000001 + 128;
    uint8_t *area = ferry_malloc(pe->job, room);
    if (!EXPECT(pe, area))
        return;
    put_get_sizes(pe, area, room, (pe->rank + 1) % pe->n);
    put_get_sizes(pe, area, room, pe->rank);
    EXPECT_OK(pe, ferry_free(pe->job, area));
}

static void test_38_39_42_sizes(void **state)
{
    (void)state;
    pes_check(2, sizes_body, NULL);
}

static void test_39_job_of_one(void **state)
{
    (void)state;
    pes_check(1, sizes_body, NULL);
}

/* All misalignments mod 16 of both sides, lengths 0..64 (a stride of them when scaled down). */
static void misaligned_body(struct pe *pe)
{
    uint8_t *area = ferry_calloc(pe->job, 1, 256), local[128], back[128];
    size_t step = pes_scaled(100) >= 100 ? 1 : 5;
    int to = (pe->rank + 1) % pe->n;
    if (!EXPECT(pe, area) || pe->rank != 0) {
        EXPECT_OK(pe, ferry_barrier(pe->job));
        return;
    }
    for (size_t i = 0; i < sizeof(local); i++)
        local[i] = (uint8_t)(i + 1);
    for (size_t from = 0; from < 16; from++)
        for (size_t at = 0; at < 16; at++)
            for (size_t n = 0; n <= 64; n += step) {
                memset(back, 0, sizeof(back));
                EXPECT_OK(pe, ferry_put_nbi(pe->ctx, area + 16 + at, local + from, n, to));
                EXPECT_OK(pe, ferry_quiet(pe->ctx));
                EXPECT_OK(pe, ferry_get(pe->ctx, back, area + 16 + at, n, to));
                EXPECT(pe, memcmp(back, local + from, n) == 0 && back[n] == 0);
            }
    EXPECT_OK(pe, ferry_get(pe->ctx, back, area, 16, to));
    for (int i = 0; i < 16; i++)
        EXPECT(pe, back[i] == 0);
    EXPECT_OK(pe, ferry_barrier(pe->job));
}

static void test_41_misaligned(void **state)
{
    (void)state;
    pes_check(2, misaligned_body, NULL);
}

/* Each atomic against a model, with edge values; neighbours untouched; both outcomes of compare_swap. */
static void atomics_body(struct pe *pe)
{
    static const uint64_t edges[] = {0, 1, UINT64_MAX, INT64_MAX, (uint64_t)INT64_MIN, 1ull << 32, 0xffffffff, 0x0123456789abcdef};
    enum { EDGES = sizeof(edges) / sizeof(*edges) };
    uint64_t *words = ferry_calloc(pe->job, 8, 8), old;
    int to = (pe->rank + 1) % pe->n;
    if (!EXPECT(pe, words))
        return;
    uint64_t *w = &words[2 + 2 * (pe->rank % 2)];
    for (int a = 0; a < EDGES; a++)
        for (int b = 0; b < EDGES; b++) {
            uint64_t model = edges[a], v = edges[b];
            EXPECT_OK(pe, ferry_atomic_set(pe->ctx, w, model, to));
            EXPECT_OK(pe, ferry_fence(pe->ctx));
            EXPECT_OK(pe, ferry_atomic_fetch_add(pe->ctx, w, v, &old, to));
            EXPECT(pe, old == model);
            model += v;
            EXPECT_OK(pe, ferry_atomic_fetch_xor(pe->ctx, w, edges[a], &old, to));
            EXPECT(pe, old == model);
            model ^= edges[a];
            EXPECT_OK(pe, ferry_atomic_fetch_or(pe->ctx, w, v, &old, to));
            EXPECT(pe, old == model);
            model |= v;
            EXPECT_OK(pe, ferry_atomic_fetch_and(pe->ctx, w, edges[a], &old, to));
            EXPECT(pe, old == model);
            model &= edges[a];
            EXPECT_OK(pe, ferry_atomic_fetch_inc(pe->ctx, w, &old, to));
            EXPECT(pe, old == model++);
            EXPECT_OK(pe, ferry_atomic_compare_swap(pe->ctx, w, model + 1, 5, &old, to));
            EXPECT(pe, old == model);
            EXPECT_OK(pe, ferry_atomic_compare_swap(pe->ctx, w, model, v, &old, to));
            EXPECT(pe, old == model);
            EXPECT_OK(pe, ferry_atomic_swap(pe->ctx, w, edges[a], &old, to));
            EXPECT(pe, old == v);
            model = edges[a];
            EXPECT_OK(pe, ferry_atomic_add(pe->ctx, w, v, to));
            EXPECT_OK(pe, ferry_fence(pe->ctx));
            EXPECT_OK(pe, ferry_atomic_xor(pe->ctx, w, 0xff, to));
            EXPECT_OK(pe, ferry_fence(pe->ctx));
            EXPECT_OK(pe, ferry_atomic_or(pe->ctx, w, 0x10, to));
            EXPECT_OK(pe, ferry_fence(pe->ctx));
            EXPECT_OK(pe, ferry_atomic_and(pe->ctx, w, ~(uint64_t)3, to));
            EXPECT_OK(pe, ferry_fence(pe->ctx));
            EXPECT_OK(pe, ferry_atomic_inc(pe->ctx, w, to));
            EXPECT_OK(pe, ferry_quiet(pe->ctx));
            EXPECT_OK(pe, ferry_atomic_fetch(pe->ctx, w, &old, to));
            EXPECT(pe, old == ((((model + v) ^ 0xff) | 0x10) & ~(uint64_t)3) + 1);
        }
    EXPECT_OK(pe, ferry_barrier(pe->job));
    EXPECT(pe, words[0] == 0 && words[1] == 0 && words[3] == 0 && words[5] == 0);
}

static void test_25_26_27_atomics(void **state)
{
    (void)state;
    pes_check(2, atomics_body, NULL);
}

/* All PEs, and a second thread each, add to one word; fetched values are a permutation. */
struct hammer {
    struct pe *pe;
    uint64_t *word, *seen;
    unsigned long rounds;
};

static void *hammer_thread(void *arg)
{
    struct hammer *h = arg;
    ferry_ctx_t *ctx;
    if (!EXPECT_OK(h->pe, ferry_ctx_create(h->pe->job, 0, &ctx)))
        return NULL;
    for (unsigned long i = 0; i < h->rounds; i++) {
        uint64_t old;
        EXPECT_OK(h->pe, ferry_atomic_fetch_add(ctx, h->word, 1, &old, 0));
        EXPECT_OK(h->pe, ferry_atomic_add(ctx, &h->seen[old], 1, 0));
    }
    EXPECT_OK(h->pe, ferry_ctx_destroy(ctx));
    return NULL;
}

static void permutation_body(struct pe *pe)
{
    unsigned long rounds = pes_scaled(2000), all = rounds * 2 * (unsigned)pe->n;
    uint64_t *word = ferry_calloc(pe->job, 8, 8), *seen = ferry_calloc(pe->job, all, 8);
    if (!EXPECT(pe, word && seen))
        return;
    struct hammer h = {pe, word, seen, rounds};
    pthread_t thread;
    EXPECT(pe, pthread_create(&thread, NULL, hammer_thread, &h) == 0);
    hammer_thread(&h);
    pthread_join(thread, NULL);
    EXPECT_OK(pe, ferry_barrier(pe->job));
    for (unsigned long i = 0; pe->rank == 0 && i < all; i++)
        EXPECT(pe, seen[i] == 1);
    EXPECT(pe, pe->rank != 0 || *word == all);
}

static void test_22_permutation(void **state)
{
    (void)state;
    pes_check(3, permutation_body, NULL);
}

/* Signals: counts exact under bursts, values above 2^32, to self, data and signal in different allocations, length 0. */
static void signals_body(struct pe *pe)
{
    uint64_t *count = ferry_calloc(pe->job, 8, 8);
    uint8_t *data = ferry_calloc(pe->job, 1, 64), src[64];
    unsigned long bursts[] = {1, 10, 100, pes_scaled(10000)}, all = 0;
    if (!EXPECT(pe, count && data))
        return;
    memset(src, 3, sizeof(src));
    for (int b = 0; b < 4; b++)
        for (unsigned long i = 0; i < bursts[b]; i++, all++)
            for (int to = 0; to < pe->n; to++)
                EXPECT_OK(pe, ferry_signal(pe->ctx, count, 1ull << 33, FERRY_SIGNAL_ADD, to));
    EXPECT_OK(pe, ferry_put_signal(pe->ctx, data, NULL, 0, count, 1, FERRY_SIGNAL_ADD, pe->rank));
    EXPECT_OK(pe, ferry_put_signal(pe->ctx, data, src, 0, count, 1, FERRY_SIGNAL_ADD, pe->rank));
    EXPECT_OK(pe, ferry_put_signal_nbi(pe->ctx, data, src, 64, count, 1, FERRY_SIGNAL_ADD | FERRY_SIGNAL_WEAK, pe->rank));
    EXPECT_OK(pe, ferry_quiet(pe->ctx));
    EXPECT_OK(pe, ferry_wait_until(pe->job, count, FERRY_CMP_EQ, (all * (unsigned)pe->n << 33) + 3));
    EXPECT(pe, data[0] == 3 && data[63] == 3);
}

static void test_18_19_20_21_signals(void **state)
{
    (void)state;
    pes_check(3, signals_body, NULL);
}

static void waits_body(struct pe *pe)
{
    uint64_t *words = ferry_calloc(pe->job, 8, 8);
    int mask[8] = {1, 0, 0, 0, 0, 0, 0, 1}, none[8] = {1, 1, 1, 1, 1, 1, 1, 1};
    size_t index = 0;
    if (!EXPECT(pe, words))
        return;
    EXPECT(pe, ferry_test_any(pe->job, words, 8, none, FERRY_CMP_EQ, 1, &index) == 1 && index == SIZE_MAX);
    EXPECT(pe, ferry_test_all(pe->job, words, 8, none, FERRY_CMP_EQ, 1) == 1);
    EXPECT(pe, ferry_test(pe->job, words, FERRY_CMP_EQ, 1) == 0);
    EXPECT(pe, ferry_test(pe->job, words, FERRY_CMP_LE, 0) == 1 && ferry_test(pe->job, words, FERRY_CMP_LT, 0) == 0);
    EXPECT(pe, ferry_test(pe->job, words, FERRY_CMP_LT, UINT64_MAX) == 1); /* unsigned */
    EXPECT_OK(pe, ferry_sync(pe->job));
    if (pe->rank == 0) {
        EXPECT_OK(pe, ferry_signal(pe->ctx, &words[0], 9, FERRY_SIGNAL_SET, 1));
        EXPECT_OK(pe, ferry_signal(pe->ctx, &words[5], 9, FERRY_SIGNAL_SET, 1));
        EXPECT_OK(pe, ferry_wait_until(pe->job, words, FERRY_CMP_NE, 0));
        for (int i = 1; i < 7; i++)
            EXPECT_OK(pe, ferry_signal(pe->ctx, &words[i], 10, FERRY_SIGNAL_SET, 1));
        EXPECT_OK(pe, ferry_quiet(pe->ctx));
        return;
    }
    EXPECT_OK(pe, ferry_wait_until_any(pe->job, words, 8, mask, FERRY_CMP_GT, 8, &index));
    EXPECT(pe, index == 5);
    EXPECT(pe, ferry_test_any(pe->job, words, 8, mask, FERRY_CMP_GT, 8, NULL) == 1);
    EXPECT_OK(pe, ferry_signal(pe->ctx, words, 1, FERRY_SIGNAL_SET, 0));
    EXPECT_OK(pe, ferry_wait_until_all(pe->job, words, 8, mask, FERRY_CMP_GE, 10));
    for (int i = 1; i < 7; i++)
        EXPECT(pe, words[i] == 10);
}

static void test_30_waits(void **state)
{
    (void)state;
    pes_check(2, waits_body, NULL);
}

/* A waiter is woken by a plain store of another thread of its own PE. */
static void *store_thread(void *arg)
{
    __atomic_store_n((uint64_t *)arg, 1, __ATOMIC_RELEASE);
    return NULL;
}

static void local_store_body(struct pe *pe)
{
    uint64_t *word = ferry_calloc(pe->job, 8, 8);
    pthread_t thread;
    if (!EXPECT(pe, word) || !EXPECT(pe, pthread_create(&thread, NULL, store_thread, word) == 0))
        return;
    EXPECT_OK(pe, ferry_wait_until(pe->job, word, FERRY_CMP_EQ, 1));
    pthread_join(thread, NULL);
}

static void test_31_37_local_store_wakes(void **state)
{
    (void)state;
    pes_check(1, local_store_body, NULL);
}

/* Eight threads share the default context; eight have one each. */
struct many {
    struct pe *pe;
    uint64_t *word;
    int own;
};

static void *many_thread(void *arg)
{
    struct many *m = arg;
    ferry_ctx_t *ctx = m->pe->ctx;
    if (m->own && !EXPECT_OK(m->pe, ferry_ctx_create(m->pe->job, 0, &ctx)))
        return NULL;
    unsigned long rounds = pes_scaled(1000);
    for (unsigned long i = 0; i < rounds; i++) {
        EXPECT_OK(m->pe, ferry_atomic_add(ctx, m->word, 1, (int)(i % (unsigned)m->pe->n)));
        if (i % 64 == 0)
            EXPECT_OK(m->pe, ferry_quiet(ctx));
    }
    EXPECT_OK(m->pe, ferry_quiet(ctx));
    if (m->own)
        EXPECT_OK(m->pe, ferry_ctx_destroy(ctx));
    return NULL;
}

static void threads_body(struct pe *pe)
{
    uint64_t *word = ferry_calloc(pe->job, 8, 8), total = 0, part;
    pthread_t threads[16];
    struct many how[2] = {{pe, word, 0}, {pe, word, 1}};
    if (!EXPECT(pe, word))
        return;
    for (int i = 0; i < 16; i++)
        EXPECT(pe, pthread_create(&threads[i], NULL, many_thread, &how[i % 2]) == 0);
    for (int i = 0; i < 16; i++)
        pthread_join(threads[i], NULL);
    EXPECT_OK(pe, ferry_barrier(pe->job));
    for (int i = 0; i < pe->n; i++) {
        EXPECT_OK(pe, ferry_atomic_fetch(pe->ctx, word, &part, i));
        total += part;
    }
    EXPECT(pe, total == pes_scaled(1000) * 16 * (unsigned)pe->n);
}

static void test_34_36_threads(void **state)
{
    (void)state;
    pes_check(2, threads_body, NULL);
}

/* Stores through ferry_ptr are ordered by fence and completed by quiet, where the memory is mapped. */
static void pointer_body(struct pe *pe)
{
    uint64_t *data = ferry_calloc(pe->job, 8, 8), *flag = ferry_calloc(pe->job, 8, 8);
    if (!EXPECT(pe, data && flag))
        return;
    EXPECT(pe, ferry_ptr(pe->job, data, pe->rank) == data);
    uint64_t *there = ferry_ptr(pe->job, data, (pe->rank + 1) % pe->n);
    for (uint64_t i = 1; there && i <= 1000; i++) {
        __atomic_store_n(there, i, __ATOMIC_RELAXED);
        EXPECT_OK(pe, ferry_fence(pe->ctx));
        EXPECT_OK(pe, ferry_signal(pe->ctx, flag, i, FERRY_SIGNAL_SET, (pe->rank + 1) % pe->n));
        EXPECT_OK(pe, ferry_wait_until(pe->job, flag, FERRY_CMP_GE, i));
        EXPECT(pe, __atomic_load_n(data, __ATOMIC_RELAXED) >= i);
        EXPECT_OK(pe, ferry_quiet(pe->ctx));
    }
    EXPECT_OK(pe, ferry_barrier(pe->job));
}

static void test_13_pointers(void **state)
{
    (void)state;
    pes_check(2, pointer_body, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_38_39_42_sizes),     cmocka_unit_test(test_39_job_of_one),
        cmocka_unit_test(test_41_misaligned),      cmocka_unit_test(test_25_26_27_atomics),
        cmocka_unit_test(test_22_permutation),     cmocka_unit_test(test_18_19_20_21_signals),
        cmocka_unit_test(test_30_waits),           cmocka_unit_test(test_31_37_local_store_wakes),
        cmocka_unit_test(test_34_36_threads),      cmocka_unit_test(test_13_pointers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
