/* SPDX-License-Identifier: Apache-2.0
 * Memory of kind GPU that the CPU may not touch (loopback's guise gpu-like): puts, gets, signals and atomics reach it all the
 * same, and an access by the CPU, the library's own included, would end the program. PEs are threads. */
#include "pes.h"
#include "refused.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <cmocka.h>
#include <string.h>

static void *gpu_alloc(struct pe *pe, size_t bytes)
{
    ferry_alloc_attr_t attr = {.size = sizeof(attr), .bytes = bytes, .kind = 1};
    void *address = ferry_alloc(pe->job, &attr);
    EXPECT(pe, address != NULL);
    return address;
}

/* There and back: from host memory, between GPU memories, and to unregistered host memory. */
static void moves_body(struct pe *pe)
{
    enum { N = 100000 };
    int next = (pe->rank + 1) % pe->n;
    char *gpu = gpu_alloc(pe, N), *other = gpu_alloc(pe, N);
    char *host = ferry_malloc(pe->job, N), mine[1000], back[1000];
    if (!gpu || !other || !EXPECT(pe, host))
        return;
    for (int i = 0; i < N; i++)
        host[i] = (char)(i * 7 + pe->rank);
    EXPECT_OK(pe, ferry_put_nbi(pe->ctx, gpu, host, N, next));
    EXPECT_OK(pe, ferry_barrier(pe->job));
    EXPECT_OK(pe, ferry_put_nbi(pe->ctx, other, gpu, N, next)); /* from GPU memory */
    EXPECT_OK(pe, ferry_barrier(pe->job));
    memset(host, 0, N);
    EXPECT_OK(pe, ferry_get(pe->ctx, host, other, N, pe->rank));
    int bad = 0, from = (pe->rank + 2 * pe->n - 2) % pe->n;
    for (int i = 0; i < N; i++)
        bad += host[i] != (char)(i * 7 + from);
    EXPECT(pe, bad == 0);
    memset(mine, pe->rank + 1, sizeof(mine));
    EXPECT_OK(pe, ferry_put(pe->ctx, gpu + 3, mine, sizeof(mine), next));
    EXPECT_OK(pe, ferry_quiet(pe->ctx));
    EXPECT_OK(pe, ferry_get(pe->ctx, back, gpu + 3, sizeof(back), next));
    EXPECT(pe, memcmp(mine, back, sizeof(mine)) == 0);
    EXPECT_OK(pe, ferry_barrier(pe->job));
}

static void test_48_moves(void **state)
{
    (void)state;
    pes_check(3, moves_body, NULL);
}

/* All PEs on one word: only the owner's service applies them, so none is lost, whatever the width. */
static void atomics_body(struct pe *pe)
{
    unsigned long n = pes_scaled(500);
    uint64_t *words = gpu_alloc(pe, 64), zero[8] = {0}, old, last = 0;
    if (!words)
        return;
    EXPECT_OK(pe, ferry_put(pe->ctx, words, zero, sizeof(zero), pe->rank));
    EXPECT_OK(pe, ferry_barrier(pe->job));
    for (unsigned long i = 0; i < n; i++) {
        EXPECT_OK(pe, ferry_atomic_fetch_add(pe->ctx, &words[0], 3, &old, 0));
        EXPECT(pe, i == 0 || old > last);
        last = old;
        EXPECT_OK(pe, ferry_atomic_inc(pe->ctx, &words[1], 0));
        EXPECT_OK(pe, ferry_atomic32_add(pe->ctx, (uint32_t *)&words[2] + 1, 1, 0));
        EXPECT_OK(pe, ferry_signal(pe->ctx, &words[3], 1, FERRY_SIGNAL_ADD, 0));
    }
    EXPECT_OK(pe, ferry_barrier(pe->job));
    uint64_t sum = n * (uint64_t)pe->n;
    EXPECT_OK(pe, ferry_atomic_compare_swap(pe->ctx, &words[4 + pe->rank], 0, 9, &old, 0));
    EXPECT(pe, old == 0);
    EXPECT_OK(pe, ferry_atomic_compare_swap(pe->ctx, &words[4 + pe->rank], 0, 10, &old, 0));
    EXPECT(pe, old == 9);
    EXPECT_OK(pe, ferry_barrier(pe->job)); /* nobody writes while it is read */
    EXPECT_OK(pe, ferry_get(pe->ctx, zero, words, sizeof(zero), 0));
    EXPECT(pe, zero[0] == 3 * sum && zero[1] == sum && zero[2] == sum << 32 && zero[3] == sum);
    EXPECT_OK(pe, ferry_barrier(pe->job));
}

static void test_48_atomics(void **state)
{
    (void)state;
    pes_check(3, atomics_body, NULL);
}

/* Data in GPU memory, its signal in host memory: the usual mixture. */
static void mixed_body(struct pe *pe)
{
    unsigned long n = pes_scaled(300);
    int next = (pe->rank + 1) % pe->n;
    char *gpu = gpu_alloc(pe, 4096), data[4096], seen[4096];
    uint64_t *signal = ferry_calloc(pe->job, 1, 8);
    if (!gpu || !EXPECT(pe, signal))
        return;
    for (unsigned long i = 1; i <= n; i++) {
        memset(data, (int)i, sizeof(data));
        EXPECT_OK(pe, ferry_put_signal(pe->ctx, gpu, data, sizeof(data), signal, i, FERRY_SIGNAL_SET, next));
        EXPECT_OK(pe, ferry_wait_until(pe->job, signal, FERRY_CMP_GE, i));
        EXPECT_OK(pe, ferry_get(pe->ctx, seen, gpu, sizeof(seen), pe->rank));
        memset(data, (int)i, sizeof(data));
        EXPECT(pe, memcmp(data, seen, sizeof(data)) == 0);
        EXPECT_OK(pe, ferry_barrier(pe->job));
    }
}

static void test_48_signal_elsewhere(void **state)
{
    (void)state;
    pes_check(2, mixed_body, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_48_moves),
        cmocka_unit_test(test_48_atomics),
        cmocka_unit_test(test_48_signal_elsewhere),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
