/* SPDX-License-Identifier: Apache-2.0
 * The symmetric heap through the public interface: sizes that change, classes, GPU-like memory, symmetric buffers,
 * pages. PEs are threads, or with the argument "processes" child processes; over the transport in TEST_TRANSPORT. */
#include "pes.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool processes;

static void check(struct run *run)
{
    run->options = run->options ? run->options : (const char *const[]){NULL};
    assert_int_equal(processes ? pes_fork(run) : pes_run(run), 0);
}

static void quiet_log(void *arg, int level, const char *line)
{
    (void)arg;
    (void)level;
    (void)line;
}

static int last_status(struct pe *pe, char message[320])
{
    struct ferry_error error = {.size = sizeof(error)};
    ferry_last_error(pe->job, &error);
    snprintf(message, 320, "%s", error.message);
    return error.status;
}

static void expect_says(struct pe *pe, int status, const char *part)
{
    char message[320];
    if (!EXPECT(pe, last_status(pe, message) == status) || !EXPECT(pe, strstr(message, part) != NULL))
        fprintf(stderr, "pe %d: \"%s\" is not in \"%s\"\n", pe->rank, part, message);
}

/* ------------------------------------------------------------------ sizes */

static void fill(char *at, size_t from, size_t to, int seed)
{
    for (size_t i = from; i < to; i++)
        at[i] = (char)(seed * 31 + (int)(i % 251));
}

static bool holds_from(const char *at, size_t from, size_t to, int seed)
{
    for (size_t i = from; i < to; i++)
        if (at[i] != (char)(seed * 31 + (int)(i % 251)))
            return false;
    return true;
}

static bool holds(const char *at, size_t n, int seed)
{
    return holds_from(at, 0, n, seed);
}

static void realloc_body(struct pe *pe)
{
    size_t n = 3000;
    char *block = ferry_realloc(pe->job, NULL, n), *wall, *moved;
    uint64_t *signal = ferry_calloc(pe->job, 1, 8);
    int next = (pe->rank + 1) % pe->n;
    if (!EXPECT(pe, block && signal))
        return;
    fill(block, 0, n, pe->rank);
    EXPECT(pe, ferry_realloc(pe->job, block, 100) == block);
    EXPECT(pe, ferry_realloc(pe->job, block, n) == block); /* the place is still free */
    EXPECT(pe, holds(block, 100, pe->rank));
    fill(block, 0, n, pe->rank);
    wall = ferry_malloc(pe->job, 64);
    moved = ferry_realloc(pe->job, block, 1 << 20);
    EXPECT(pe, wall && moved && moved != block);
    /* As soon as one returns, the others' bytes are in place: a put goes over them, and stays. */
    EXPECT_OK(pe, ferry_put_signal(pe->ctx, moved + 8, "ferry", 5, signal, 1, FERRY_SIGNAL_SET, next));
    EXPECT_OK(pe, ferry_wait_until(pe->job, signal, FERRY_CMP_EQ, 1));
    EXPECT(pe, memcmp(moved + 8, "ferry", 5) == 0 && holds(moved, 8, pe->rank) && holds_from(moved, 13, n, pe->rank));
    EXPECT_OK(pe, ferry_barrier(pe->job));
    EXPECT(pe, ferry_realloc(pe->job, moved, 0) == NULL);
    EXPECT_OK(pe, ferry_free(pe->job, wall));
    EXPECT_OK(pe, ferry_free(pe->job, signal));
}

static void test_new_size(void **state)
{
    (void)state;
    struct run run = {.n = 3, .body = realloc_body};
    check(&run);
}

static void realloc_fails_body(struct pe *pe)
{
    char *block = ferry_malloc(pe->job, 5000);
    if (!EXPECT(pe, block != NULL))
        return;
    fill(block, 0, 5000, pe->rank);
    EXPECT(pe, ferry_realloc(pe->job, block, (size_t)1 << 40) == NULL);
    expect_says(pe, FERRY_ERR_NOMEM, "does not fit in the heap");
    EXPECT(pe, ferry_realloc(pe->job, block + 64, 10) == NULL);
    expect_says(pe, FERRY_ERR_ARG, "realloc: address");
    EXPECT(pe, ferry_realloc(pe->job, block, pe->rank == 1 ? 6000 : 7000) == NULL);
    expect_says(pe, FERRY_ERR_MISMATCH, "pe 0 called realloc to 7000 bytes of heap offset");
    EXPECT(pe, holds(block, 5000, pe->rank));
    EXPECT_OK(pe, ferry_free(pe->job, block));
    EXPECT(pe, ferry_realloc(pe->job, block, 10) == NULL);
    expect_says(pe, FERRY_ERR_ARG, "is not the start of an allocation");
}

static void test_realloc_fails(void **state)
{
    (void)state;
    struct run run = {.n = 2, .body = realloc_fails_body, .log = quiet_log};
    check(&run);
}

/* ------------------------------------------------------------------ classes */

static void classes_body(struct pe *pe)
{
    ferry_alloc_attr_t attr = {
        .size = sizeof(attr), .bytes = 640, .alignment = 4096, .flags = FERRY_ALLOC_SINGLE_WRITER};
    uint64_t *single = ferry_alloc(pe->job, &attr), *plain, old = 9;
    int next = (pe->rank + 1) % pe->n;
    attr.flags = 0;
    plain = ferry_alloc(pe->job, &attr);
    if (!EXPECT(pe, single && plain))
        return;
    EXPECT(pe, (uintptr_t)single % 4096 == 0 && (uintptr_t)plain % 4096 == 0);
    EXPECT(pe, (uintptr_t)single >> 21 != (uintptr_t)plain >> 21); /* no chunk for both */
    for (uint64_t i = 0; i < 10; i++)
        EXPECT_OK(pe, ferry_atomic_add(pe->ctx, single + 3, 2, next));
    EXPECT_OK(pe, ferry_atomic_fetch(pe->ctx, single + 3, &old, next));
    EXPECT_OK(pe, ferry_barrier(pe->job));
    EXPECT(pe, single[3] == 20);
    single = ferry_realloc(pe->job, single, (size_t)3 << 20); /* keeps its class */
    EXPECT(pe, single && single[3] == 20 && (uintptr_t)single >> 21 != (uintptr_t)plain >> 21);
    attr.flags = 6;
    EXPECT(pe, ferry_alloc(pe->job, &attr) == NULL);
    expect_says(pe, FERRY_ERR_ARG, "flags has bits");
    attr.flags = 0;
    attr.kind = 7;
    EXPECT(pe, ferry_alloc(pe->job, &attr) == NULL);
    expect_says(pe, FERRY_ERR_ARG, "kind is none of");
    attr.size = 3;
    EXPECT(pe, ferry_alloc(pe->job, &attr) == NULL);
    expect_says(pe, FERRY_ERR_ARG, "their size is not set");
    EXPECT(pe, ferry_alloc(pe->job, NULL) == NULL);
    EXPECT_OK(pe, ferry_free(pe->job, single));
    EXPECT_OK(pe, ferry_free(pe->job, plain));
}

static void test_classes(void **state)
{
    (void)state;
    struct run run = {.n = 2, .body = classes_body, .log = quiet_log};
    check(&run);
}

static void no_gpu_body(struct pe *pe)
{
    ferry_alloc_attr_t attr = {.size = sizeof(attr), .bytes = 64, .kind = FERRY_MEMORY_GPU};
    EXPECT(pe, ferry_alloc(pe->job, &attr) == NULL);
    expect_says(pe, FERRY_ERR_UNSUPPORTED, "no GPU memory can be had: FERRY_GPU_MEMORY is no");
    EXPECT(pe, ferry_malloc(pe->job, 64) != NULL);
}

static void test_no_gpu(void **state)
{
    (void)state;
    struct run run = {.n = 2, .body = no_gpu_body, .log = quiet_log};
    check(&run);
}

/* Memory that no CPU may touch: everything goes by puts and gets. */
static void gpu_body(struct pe *pe)
{
    size_t n = 100000;
    char *block = ferry_calloc(pe->job, n, 1), *moved, *copy = malloc(n);
    int next = (pe->rank + 1) % pe->n;
    if (!EXPECT(pe, block && copy))
        return;
    EXPECT(pe, ferry_wait_until(pe->job, (uint64_t *)(void *)block, FERRY_CMP_EQ, 0) == FERRY_ERR_ARG);
    expect_says(pe, FERRY_ERR_ARG, "is in GPU memory, which the CPU may not read");
    EXPECT(pe, ferry_ptr(pe->job, block, pe->rank) == NULL && ferry_ptr(pe->job, block, next) == NULL);
    memset(copy, 7, n);
    EXPECT_OK(pe, ferry_get(pe->ctx, copy, block, n, next));
    EXPECT(pe, copy[0] == 0 && memcmp(copy, copy + 1, n - 1) == 0);
    EXPECT_OK(pe, ferry_barrier(pe->job));
    fill(copy, 0, n, next);
    EXPECT_OK(pe, ferry_put_nbi(pe->ctx, block, copy, n, next));
    EXPECT_OK(pe, ferry_barrier(pe->job));
    moved = ferry_realloc(pe->job, block, (size_t)17 << 20); /* more than the chunk */
    EXPECT(pe, moved && moved != block);
    memset(copy, 7, n);
    EXPECT_OK(pe, ferry_get(pe->ctx, copy, moved, n, pe->rank));
    EXPECT(pe, holds(copy, n, pe->rank));
    free(copy);
    EXPECT_OK(pe, ferry_free(pe->job, moved));
}

static void test_gpu(void **state)
{
    (void)state;
    static const char *const options[] = {"FERRY_HEAP_KIND=gpu", "FERRY_LOOPBACK_GUISE=gpu-like", NULL};
    struct run run = {.n = 2, .body = gpu_body, .log = quiet_log, .options = options};
    check(&run);
}

/* ------------------------------------------------------------------ symmetric buffers */

static void shared_body(struct pe *pe)
{
    static _Alignas(64) uint64_t all[4][1024]; /* PEs are threads */
    uint64_t *mine = all[pe->rank], value = 1000 + (uint64_t)pe->rank, got = 0;
    int next = (pe->rank + 1) % pe->n, previous = (pe->rank + pe->n - 1) % pe->n;
    ferry_buffer_t *buffer = NULL, *second;
    memset(mine, 0, sizeof(all[0]));
    if (!EXPECT_OK(pe, ferry_register_symmetric(pe->job, mine, sizeof(all[0]), &buffer)))
        return;
    EXPECT_OK(pe, ferry_put(pe->ctx, mine + 5, &value, 8, next));
    EXPECT_OK(pe, ferry_atomic_add(pe->ctx, mine + 9, 4, next));
    EXPECT_OK(pe, ferry_barrier(pe->job));
    EXPECT(pe, mine[5] == 1000 + (uint64_t)previous && mine[9] == 4 && mine[4] == 0 && mine[6] == 0);
    EXPECT_OK(pe, ferry_get(pe->ctx, &got, mine + 5, 8, next));
    EXPECT(pe, got == value);
    EXPECT_OK(pe, ferry_put_signal(pe->ctx, mine + 20, &value, 8, mine + 30, 3, FERRY_SIGNAL_ADD, next));
    EXPECT_OK(pe, ferry_wait_until(pe->job, mine + 30, FERRY_CMP_EQ, 3));
    EXPECT(pe, mine[20] == 1000 + (uint64_t)previous);
    EXPECT(pe, ferry_wait_until_all(pe->job, mine + 1020, 5, NULL, FERRY_CMP_EQ, 0) == FERRY_ERR_ARG);
    EXPECT(pe, ferry_ptr(pe->job, mine + 5, next) == all[next] + 5 || !ferry_ptr(pe->job, mine + 5, next));
    EXPECT(pe, ferry_put(pe->ctx, mine + 1024, &value, 8, next) == FERRY_ERR_ARG); /* behind the end */
    EXPECT(pe, ferry_put(pe->ctx, mine + 1020, mine, 40, next) == FERRY_ERR_ARG);
    EXPECT(pe, ferry_register_symmetric(pe->job, mine + 8, 64, &second) == FERRY_ERR_ARG);
    expect_says(pe, FERRY_ERR_ARG, "belong to a symmetric buffer already");
    EXPECT_OK(pe, ferry_deregister(buffer));
    EXPECT(pe, ferry_put(pe->ctx, mine + 5, &value, 8, next) == FERRY_ERR_ARG);
    EXPECT(pe, ferry_register_symmetric(pe->job, (char *)mine + 4, 64, &second) == FERRY_ERR_ARG);
    EXPECT(pe, ferry_register_symmetric(pe->job, mine, pe->rank ? 64 : 128, &second) == FERRY_ERR_MISMATCH);
    expect_says(pe, FERRY_ERR_MISMATCH, "pe 0 called register_symmetric of 128 bytes, pe 1 called");
    EXPECT(pe, ferry_register_symmetric(pe->job, pe->rank == 1 ? NULL : mine, 64, &second) == FERRY_ERR_ARG);
    expect_says(pe, FERRY_ERR_ARG, "pe 1: register_symmetric: (nil) with length 64 is no buffer");
    EXPECT_OK(pe, ferry_register_symmetric(pe->job, mine, 64, &buffer)); /* left for finalize */
    EXPECT_OK(pe, ferry_get(pe->ctx, &got, mine + 5, 8, next));
    EXPECT(pe, got == value);
    EXPECT_OK(pe, ferry_barrier(pe->job));
}

static void test_shared(void **state)
{
    (void)state;
    struct run run = {.n = 4, .body = shared_body, .log = quiet_log};
    check(&run);
}

/* Processes do not share what no file backs; all are told at once, and the job goes on. */
static void unshared_body(struct pe *pe)
{
    uint64_t *mine = aligned_alloc(64, 4096), *word = ferry_calloc(pe->job, 1, 8);
    ferry_buffer_t *buffer = NULL;
    struct ferry_error error = {.size = sizeof(error)};
    EXPECT(pe, ferry_register_symmetric(pe->job, mine, 4096, &buffer) < 0 && !buffer);
    ferry_last_error(pe->job, &error);
    EXPECT(pe, strstr(error.message, "no file behind them, so another process cannot map them") != NULL);
    EXPECT(pe, strstr(error.hint, "use memory from ferry_malloc") != NULL);
    EXPECT_OK(pe, ferry_atomic_add(pe->ctx, word, 1, 0));
    EXPECT_OK(pe, ferry_barrier(pe->job));
    EXPECT(pe, pe->rank != 0 || *word == (uint64_t)pe->n);
    free(mine);
}

static void test_unshared(void **state)
{
    (void)state;
    struct run run = {.n = 3, .body = unshared_body, .log = quiet_log};
    check(&run);
}

/* ------------------------------------------------------------------ pages */

struct lines {
    _Atomic int small, other;
};

static void note_pages(void *arg, int level, const char *line)
{
    struct lines *lines = arg;
    (void)level;
    if (strstr(line, "heap chunk of"))
        atomic_fetch_add(strstr(line, "bytes: small pages") ? &lines->small : &lines->other, 1);
}

static void pages_body(struct pe *pe)
{
    char *block = ferry_malloc(pe->job, (size_t)20 << 20);
    EXPECT(pe, block != NULL);
    if (block)
        memset(block, 1, (size_t)20 << 20);
}

static void test_pages_are_told(void **state)
{
    (void)state;
    static const char *const options[] = {"FERRY_HEAP_PAGES=small", "FERRY_LOG=info", NULL};
    struct lines lines = {0};
    struct run run = {.n = 1, .body = pages_body, .arg = &lines, .log = note_pages, .options = options};
    assert_int_equal(pes_run(&run), 0);
    assert_int_equal(atomic_load(&lines.small), 2);
    assert_int_equal(atomic_load(&lines.other), 0);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_new_size),       cmocka_unit_test(test_realloc_fails), cmocka_unit_test(test_classes),
        cmocka_unit_test(test_no_gpu),         cmocka_unit_test(test_gpu),           cmocka_unit_test(test_shared),
        cmocka_unit_test(test_pages_are_told),
    };
    const struct CMUnitTest apart[] = {
        cmocka_unit_test(test_new_size), cmocka_unit_test(test_realloc_fails), cmocka_unit_test(test_classes),
        cmocka_unit_test(test_no_gpu),   cmocka_unit_test(test_gpu),           cmocka_unit_test(test_unshared),
    };
    processes = argc > 1 && strcmp(argv[1], "processes") == 0;
    return processes ? cmocka_run_group_tests(apart, NULL, NULL) : cmocka_run_group_tests(tests, NULL, NULL);
}
