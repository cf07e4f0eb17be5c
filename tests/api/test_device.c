/* SPDX-License-Identifier: Apache-2.0
 * GPU memory of the library's making, over a stand-in for the driver's library: what may go wrong, in words, memory
 * between processes, and the addresses that kernels use. PEs are threads, or child processes. */
#include "pes.h"
#include "refused.h"
#include "../fakecuda/driver.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void *gpu_alloc(struct pe *pe, size_t bytes)
{
    ferry_alloc_attr_t attr = {.size = sizeof(attr), .bytes = bytes, .kind = FERRY_MEMORY_GPU};
    return ferry_alloc(pe->job, &attr);
}

static void expect_refused(struct pe *pe, const char *text)
{
    struct ferry_error error = {.size = sizeof(error)};
    EXPECT(pe, gpu_alloc(pe, 4096) == NULL);
    ferry_last_error(pe->job, &error);
    if (!EXPECT(pe, strstr(error.message, text) != NULL))
        fprintf(stderr, "it says: %s\n", error.message);
    EXPECT(pe, ferry_malloc(pe->job, 64) != NULL); /* host memory works */
}

/* ------------------------------------------------------------------ refusals */

static void refused_body(struct pe *pe)
{
    expect_refused(pe, pe->arg);
}

static void refuse(const char *name, const char *value, const char *text)
{
    static const char *const options[] = {"FERRY_GPU_MEMORY=yes", NULL};
    setenv(name, value, 1);
    pes_check_options(1, refused_body, (void *)(uintptr_t)text, options);
    unsetenv(name);
}

static void test_refusals(void **state)
{
    (void)state;
    refuse("FAKECUDA_DEVICES", "0", "the driver finds no GPU");
    refuse("FAKECUDA_VMM", "0", "has no virtual memory management, which the heap needs");
    refuse("FERRY_GPU_DEVICE", "7", "FERRY_GPU_DEVICE is 7, but the driver finds 1 GPUs");
    refuse("FAKECUDA_FAIL", "cuMemAddressReserve:2", "cannot reserve addresses for the heap (FERRY_HEAP_SIZE)");
    refuse("FAKECUDA_MEMORY", "4194304",
           "has no memory for a chunk of 16777216 bytes: 4194304 of its 4194304 bytes are free");
    refuse("FAKECUDA_FAIL", "cuMemExportToShareableHandle:801", "cannot share memory");
    refuse("FAKECUDA_FAIL", "cuMemMap:1", "cannot map memory");
    refuse("FAKECUDA_FAIL", "cuMemSetAccess:1", "cannot reach memory of this GPU or a peer's");
    refuse("FAKECUDA_FAIL", "cuMemsetD8Async:1", "cannot zero memory");
}

/* ------------------------------------------------------------------ between processes */

static void share_body(struct pe *pe)
{
    enum { N = 100000 };
    int next = (pe->rank + 1) % pe->n, before = (pe->rank + pe->n - 1) % pe->n, bad = 0;
    char *gpu = gpu_alloc(pe, N), *big = gpu_alloc(pe, (size_t)17 << 20); /* more than a chunk */
    char *host = ferry_malloc(pe->job, N), *back = malloc(N);
    if (!EXPECT(pe, gpu && big && host && back))
        return;
    memset(back, 1, N);
    EXPECT_OK(pe, ferry_get(pe->ctx, back, gpu, N, next));
    EXPECT(pe, back[0] == 0 && memcmp(back, back + 1, N - 1) == 0); /* zeroed */
    EXPECT_OK(pe, ferry_barrier(pe->job));
    for (int i = 0; i < N; i++)
        host[i] = (char)(i * 7 + pe->rank);
    EXPECT_OK(pe, ferry_put_nbi(pe->ctx, gpu, host, N, next));
    EXPECT_OK(pe, ferry_barrier(pe->job));
    EXPECT_OK(pe, ferry_put_nbi(pe->ctx, big + 5, gpu, N, pe->rank)); /* GPU to GPU */
    EXPECT_OK(pe, ferry_barrier(pe->job));
    EXPECT_OK(pe, ferry_get(pe->ctx, back, big + 5, N, next));
    for (int i = 0; i < N; i++)
        bad += back[i] != (char)(i * 7 + pe->rank);
    EXPECT(pe, bad == 0);
    for (int i = 0; i < 1000; i++) /* more than may be under way */
        EXPECT_OK(pe, ferry_put_nbi(pe->ctx, big + i, host + i, 1, before));
    EXPECT_OK(pe, ferry_barrier(pe->job));
    free(back);
}

static void test_shared(void **state)
{
    (void)state;
    static const char *const options[] = {"FERRY_GPU_MEMORY=yes", NULL};
    setenv("FAKECUDA_EVENT_POLLS", "3", 1);
    pes_check_options(2, share_body, NULL, options);
    unsetenv("FAKECUDA_EVENT_POLLS");
}

/* ------------------------------------------------------------------ addresses for kernels */

static void expect_none(struct pe *pe, const void *address, int peer, const char *text)
{
    struct ferry_error error = {.size = sizeof(error)};
    EXPECT(pe, ferry_device_ptr(pe->job, address, peer) == NULL);
    ferry_last_error(pe->job, &error);
    if (!EXPECT(pe, strstr(error.message, text) != NULL))
        fprintf(stderr, "it says: %s\n", error.message);
}

/* The stand-in says where the CPU would find what a kernel writes to that address. */
static void pointers_body(struct pe *pe)
{
    int next = (pe->rank + 1) % pe->n, stack = 0;
    char *gpu = gpu_alloc(pe, 4096), *host = ferry_calloc(pe->job, 4096, 1), *there;
    if (!EXPECT(pe, gpu && host))
        return;
    EXPECT(pe, ferry_device_ptr(pe->job, gpu + 5, pe->rank) == gpu + 5);
    EXPECT(pe, ferry_device_ptr(pe->job, host + 5, pe->rank) == host + 5);
    EXPECT(pe, ferry_device_ptr(pe->job, host + 6, pe->rank) == host + 6);
    there = ferry_device_ptr(pe->job, host, next);
    if (EXPECT(pe, there != NULL))
        there[1] = (char)(10 + pe->rank);
    there = ferry_device_ptr(pe->job, gpu, next);
    char *alias = there ? fakecuda_alias((uintptr_t)there + 100) : NULL;
    if (EXPECT(pe, alias != NULL))
        *alias = (char)(20 + pe->rank);
    EXPECT_OK(pe, ferry_barrier(pe->job));
    char seen = 0;
    EXPECT(pe, host[1] == 10 + (pe->rank + pe->n - 1) % pe->n);
    EXPECT_OK(pe, ferry_get(pe->ctx, &seen, gpu + 100, 1, pe->rank));
    EXPECT(pe, seen == 20 + (pe->rank + pe->n - 1) % pe->n);
    EXPECT(pe, ferry_ptr(pe->job, gpu, pe->rank) == NULL && ferry_ptr(pe->job, gpu, next) == NULL);
    expect_none(pe, &stack, 0, "is not in the symmetric heap");
    expect_none(pe, gpu, pe->n, "is out of range");
}

static void off_body(struct pe *pe)
{
    int next = (pe->rank + 1) % pe->n;
    char *gpu = gpu_alloc(pe, 4096);
    if (!EXPECT(pe, gpu))
        return;
    EXPECT(pe, ferry_device_ptr(pe->job, gpu, pe->rank) == gpu);
    expect_none(pe, gpu, next, "FERRY_P2P is off");
}

static void unpinned_body(struct pe *pe)
{
    char *host = ferry_malloc(pe->job, 64);
    if (EXPECT(pe, host))
        expect_none(pe, host, pe->rank, "cannot pin host memory");
}

static void test_pointers(void **state)
{
    (void)state;
    static const char *const on[] = {"FERRY_GPU_MEMORY=yes", NULL};
    static const char *const off[] = {"FERRY_HEAP_KIND=cuda", "FERRY_P2P=off", NULL};
    pes_check_options(2, pointers_body, NULL, on);
    pes_check_options(2, off_body, NULL, off);
    setenv("FAKECUDA_FAIL", "cuMemHostRegister:1", 1);
    pes_check_options(1, unpinned_body, NULL, NULL);
    unsetenv("FAKECUDA_FAIL");
}

/* Before this process has threads. */
static void test_processes(void **state)
{
    (void)state;
    static const char *const options[] = {"FERRY_GPU_MEMORY=yes", NULL};
    struct run share = {.n = 2, .body = share_body, .options = options};
    struct run pointers = {.n = 2, .body = pointers_body, .options = options};
    setenv("FAKECUDA_EVENT_POLLS", "3", 1);
    assert_int_equal(pes_fork(&share), 0);
    assert_int_equal(pes_fork(&pointers), 0);
    unsetenv("FAKECUDA_EVENT_POLLS");
}

/* Jobs of this process have ended: nothing is left of them. */
static void test_left(void **state)
{
    int reserved, mapped;
    uint64_t bytes;
    (void)state;
    fakecuda_left(&reserved, &mapped, &bytes);
    assert_int_equal(reserved, 0);
    assert_int_equal(mapped, 0);
    assert_int_equal(bytes, 0);
    assert_int_equal(fakecuda_retained(), 0);
    assert_int_equal(fakecuda_pinned(), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_processes), cmocka_unit_test(test_refusals), cmocka_unit_test(test_shared),
        cmocka_unit_test(test_pointers),  cmocka_unit_test(test_left),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
