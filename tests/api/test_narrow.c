/* SPDX-License-Identifier: Apache-2.0
 * 32-bit atomics, single values, strided data, waits for several words, error handlers, over the transport in
 * TEST_TRANSPORT. PEs are threads; the numbers in names are the items of the contract in docs/semantics.md. */
#include "pes.h"
#include "refused.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <cmocka.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void edges32(struct pe *pe, uint32_t *w, uint32_t a, uint32_t v, int to)
{
    uint32_t model = a, old;
    EXPECT_OK(pe, ferry_atomic32_set(pe->ctx, w, model, to));
    EXPECT_OK(pe, ferry_fence(pe->ctx));
    EXPECT_OK(pe, ferry_atomic32_fetch_add(pe->ctx, w, v, &old, to));
    EXPECT(pe, old == model);
    model += v;
    EXPECT_OK(pe, ferry_atomic32_fetch_xor(pe->ctx, w, a, &old, to));
    EXPECT(pe, old == model);
    model ^= a;
    EXPECT_OK(pe, ferry_atomic32_fetch_or(pe->ctx, w, v, &old, to));
    EXPECT(pe, old == model);
    model |= v;
    EXPECT_OK(pe, ferry_atomic32_fetch_and(pe->ctx, w, a, &old, to));
    EXPECT(pe, old == model);
    model &= a;
    EXPECT_OK(pe, ferry_atomic32_fetch_inc(pe->ctx, w, &old, to));
    EXPECT(pe, old == model++);
    EXPECT_OK(pe, ferry_atomic32_compare_swap(pe->ctx, w, model + 1, 5, &old, to));
    EXPECT(pe, old == model);
    EXPECT_OK(pe, ferry_atomic32_compare_swap(pe->ctx, w, model, v, &old, to));
    EXPECT(pe, old == model);
    EXPECT_OK(pe, ferry_atomic32_swap(pe->ctx, w, a, &old, to));
    EXPECT(pe, old == v);
    EXPECT_OK(pe, ferry_atomic32_add(pe->ctx, w, v, to));
    EXPECT_OK(pe, ferry_fence(pe->ctx));
    EXPECT_OK(pe, ferry_atomic32_xor(pe->ctx, w, 0xff, to));
    EXPECT_OK(pe, ferry_fence(pe->ctx));
    EXPECT_OK(pe, ferry_atomic32_or(pe->ctx, w, 0x10, to));
    EXPECT_OK(pe, ferry_fence(pe->ctx));
    EXPECT_OK(pe, ferry_atomic32_and(pe->ctx, w, ~3u, to));
    EXPECT_OK(pe, ferry_fence(pe->ctx));
    EXPECT_OK(pe, ferry_atomic32_inc(pe->ctx, w, to));
    EXPECT_OK(pe, ferry_quiet(pe->ctx));
    EXPECT_OK(pe, ferry_atomic32_fetch(pe->ctx, w, &old, to));
    EXPECT(pe, old == ((((a + v) ^ 0xff) | 0x10) & ~3u) + 1);
}

/* Every kind against a model, on words that are aligned to 4 and not to 8; the neighbours stay. */
static void atomics32_body(struct pe *pe)
{
    static const uint32_t edges[] = {0, 1, UINT32_MAX, INT32_MAX, (uint32_t)INT32_MIN, 1u << 16, 0x01234567};
    enum { EDGES = sizeof(edges) / sizeof(*edges) };
    uint32_t *words = ferry_calloc(pe->job, 16, 4), old;
    if (!EXPECT(pe, words))
        return;
    for (int a = 0; a < EDGES; a++)
        for (int b = 0; b < EDGES; b++)
            edges32(pe, &words[1 + 2 * pe->rank], edges[a], edges[b], (pe->rank + 1) % pe->n);
    REFUSED(pe, ferry_atomic32_fetch(pe->ctx, words, NULL, 0), FERRY_ERR_ARG, "place for the old value is null");
    for (int i = 0; i < 1000; i++)
        EXPECT_OK(pe, ferry_atomic32_fetch_inc(pe->ctx, &words[9], &old, 0));
    EXPECT_OK(pe, ferry_barrier(pe->job));
    EXPECT(pe, pe->rank != 0 || words[9] == 1000u * (unsigned)pe->n);
    REFUSED(pe, ferry_atomic32_inc(pe->ctx, (uint32_t *)((uintptr_t)words + 2), 1), FERRY_ERR_ARG,
            "is not aligned to 4 bytes");
    REFUSED(pe, ferry_atomic32_add(pe->ctx, words, 1, 2), FERRY_ERR_ARG, "ferry_atomic32_add: pe 2 is out of range");
    EXPECT_OK(pe, ferry_barrier(pe->job));
    EXPECT(pe, words[0] == 0 && words[2] == 0 && words[4] == 0 && words[8] == 0 && words[10] == 0);
}

static void test_25_26_27_atomics32(void **state)
{
    (void)state;
    pes_check(2, atomics32_body, NULL);
}

static void values_body(struct pe *pe)
{
    uint64_t *wide = ferry_calloc(pe->job, 4, 8), wide_back = 0;
    uint32_t *narrow = ferry_calloc(pe->job, 4, 4), narrow_back = 0;
    int to = (pe->rank + 1) % pe->n;
    if (!EXPECT(pe, wide && narrow))
        return;
    EXPECT_OK(pe, ferry_p(pe->ctx, &wide[1], 0x0102030405060708u + (unsigned)pe->rank, to));
    EXPECT_OK(pe, ferry_p32(pe->ctx, &narrow[1], 0x0a0b0c0du + (unsigned)pe->rank, to));
    EXPECT_OK(pe, ferry_barrier(pe->job));
    unsigned from = (unsigned)(pe->rank + pe->n - 1) % (unsigned)pe->n;
    EXPECT(pe, wide[1] == 0x0102030405060708u + from && narrow[1] == 0x0a0b0c0du + from);
    EXPECT(pe, wide[0] == 0 && wide[2] == 0 && narrow[0] == 0 && narrow[2] == 0);
    EXPECT_OK(pe, ferry_g(pe->ctx, &wide[1], &wide_back, to));
    EXPECT_OK(pe, ferry_g32(pe->ctx, &narrow[1], &narrow_back, to));
    EXPECT(pe,
           wide_back == 0x0102030405060708u + (unsigned)pe->rank && narrow_back == 0x0a0b0c0du + (unsigned)pe->rank);
    REFUSED(pe, ferry_g(pe->ctx, wide, NULL, to), FERRY_ERR_ARG, "local buffer is null");
    REFUSED(pe, ferry_p(pe->ctx, &wide_back, 1, to), FERRY_ERR_ARG, "not in the symmetric heap");
    EXPECT_OK(pe, ferry_barrier(pe->job));
}

static void test_42_single_values(void **state)
{
    (void)state;
    pes_check(3, values_body, NULL);
}

#define STRIDED_ROOM 40000

struct shape {
    size_t element, count;
    ptrdiff_t dest, src;
};

/* What a strided copy does, byte by byte. */
static void model_copy(uint8_t *dest, const uint8_t *src, const struct shape *s)
{
    for (size_t i = 0; i < s->count; i++)
        for (size_t b = 0; b < s->element; b++)
            dest[(ptrdiff_t)i * s->dest * (ptrdiff_t)s->element + (ptrdiff_t)b] =
                src[(ptrdiff_t)i * s->src * (ptrdiff_t)s->element + (ptrdiff_t)b];
}

/* Start of a side, so that all of it lies within the room. */
static size_t start_of(ptrdiff_t stride, const struct shape *s)
{
    return stride < 0 ? (size_t)-stride * s->element * (s->count - 1) : 0;
}

static void one_shape(struct pe *pe, uint8_t *area, const struct shape *s, int to)
{
    static _Thread_local uint8_t model[STRIDED_ROOM], local[STRIDED_ROOM], back[STRIDED_ROOM];
    size_t d = start_of(s->dest, s), o = start_of(s->src, s);
    for (size_t i = 0; i < STRIDED_ROOM; i++)
        local[i] = (uint8_t)(i * 7 + (size_t)pe->rank + (i >> 8));
    EXPECT_OK(pe, ferry_sync(pe->job));
    memset(area, 0xee, STRIDED_ROOM);
    EXPECT_OK(pe, ferry_sync(pe->job));
    EXPECT_OK(pe, ferry_iput(pe->ctx, area + d, local + o, s->dest, s->src, s->element, s->count, to));
    memset(model, 0xee, STRIDED_ROOM);
    model_copy(model + d, local + o, s);
    memset(local, 0, STRIDED_ROOM); /* the source is free */
    EXPECT_OK(pe, ferry_quiet(pe->ctx));
    EXPECT_OK(pe, ferry_get(pe->ctx, back, area, STRIDED_ROOM, to));
    EXPECT(pe, memcmp(back, model, STRIDED_ROOM) == 0);
    memset(back, 0x11, STRIDED_ROOM);
    memset(local, 0x11, STRIDED_ROOM);
    model_copy(local + o, model + d, &(struct shape){s->element, s->count, s->src, s->dest});
    EXPECT_OK(pe, ferry_iget(pe->ctx, back + o, area + d, s->src, s->dest, s->element, s->count, to));
    EXPECT(pe, memcmp(back, local, STRIDED_ROOM) == 0);
    EXPECT_OK(pe, ferry_barrier(pe->job));
}

static void strided_body(struct pe *pe)
{
    static const struct shape shapes[] = {
        {4, 10, 1, 1}, {8, 16, 3, 1}, {1, 100, 2, 5}, {3, 33, 1, 4},   {16, 7, -2, 1},  {8, 9, 2, -3},  {300, 5, 2, 1},
        {8, 1, 5, 9},  {8, 0, 1, 1},  {0, 5, 1, 1},   {2, 50, -1, -1}, {4, 20, 400, 1}, {1000, 4, 3, 2}};
    uint8_t *area = ferry_malloc(pe->job, STRIDED_ROOM), local[64];
    uint64_t span = (uint64_t)1 << 40;
    if (!EXPECT(pe, area))
        return;
    for (size_t i = 0; i < sizeof(shapes) / sizeof(*shapes); i++)
        one_shape(pe, area, &shapes[i], (pe->rank + 1) % pe->n);
    EXPECT_OK(pe, ferry_iput(pe->ctx, NULL, NULL, 1, 1, 8, 0, 0));
    REFUSED(pe, ferry_iput(pe->ctx, area, NULL, 1, 1, 8, 2, 0), FERRY_ERR_ARG, "local buffer is null");
    REFUSED(pe, ferry_iget(pe->ctx, NULL, area, 1, 1, 8, 2, 0), FERRY_ERR_ARG, "local buffer is null");
    REFUSED(pe, ferry_iput(pe->ctx, local, local, 1, 1, 8, 2, 0), FERRY_ERR_ARG, "not in the symmetric heap");
    REFUSED(pe, ferry_iput(pe->ctx, area, local, (ptrdiff_t)span, 1, 8, 2, 0), FERRY_ERR_ARG,
            "past the end of its segment");
    REFUSED(pe, ferry_iput(pe->ctx, area, local, PTRDIFF_MAX, 1, 8, 2, 0), FERRY_ERR_ARG,
            "more than an address can say");
    REFUSED(pe, ferry_iget(pe->ctx, local, area, 1, 1, SIZE_MAX, 2, 0), FERRY_ERR_ARG, "more than an address can say");
    REFUSED(pe, ferry_iput(pe->ctx, area, local, 1, 1, 8, 2, 9), FERRY_ERR_ARG, "ferry_iput: pe 9 is out of range");
    EXPECT_OK(pe, ferry_barrier(pe->job));
}

static void test_44_strided(void **state)
{
    (void)state;
    pes_check(2, strided_body, NULL);
}

static void vectors_body(struct pe *pe)
{
    enum { N = 6 };
    uint64_t *words = ferry_calloc(pe->job, N, 8);
    uint64_t values[N] = {1, 2, 3, 4, 5, 6}, big[N] = {9, 9, 9, 9, 9, 9};
    int first_out[N] = {1, 0, 0, 0, 0, 0}, none[N] = {1, 1, 1, 1, 1, 1};
    size_t index = 0, indices[N] = {0}, count = 99;
    ferry_job_t *j = pe->job;
    if (!EXPECT(pe, words))
        return;
    EXPECT(pe, ferry_test_any_vector(j, words, N, NULL, FERRY_CMP_EQ, values, &index) == 0 && index == SIZE_MAX);
    EXPECT(pe, ferry_test_some_vector(j, words, N, NULL, FERRY_CMP_EQ, values, indices, &count) == 0 && count == 0);
    EXPECT(pe, ferry_test_all_vector(j, words, N, NULL, FERRY_CMP_LT, values) == 1);
    EXPECT(pe, ferry_test_some(j, words, N, none, FERRY_CMP_EQ, 1, indices, &count) == 1 && count == 0);
    EXPECT(pe, ferry_test_any_vector(j, words, N, none, FERRY_CMP_EQ, values, &index) == 1 && index == SIZE_MAX);
    EXPECT_OK(pe, ferry_wait_until_all_vector(j, words, 0, NULL, FERRY_CMP_EQ, NULL));
    EXPECT_OK(pe, ferry_sync(j));
    int to = (pe->rank + 1) % pe->n;
    /* 0, 2 and 4 get the value that is waited for, 0 is masked out */
    for (int i = 0; i < N; i += 2)
        EXPECT_OK(pe, ferry_signal(pe->ctx, &words[i], (uint64_t)i + 1, FERRY_SIGNAL_SET, to));
    EXPECT_OK(pe, ferry_wait_until_any_vector(j, words, N, first_out, FERRY_CMP_EQ, values, &index));
    EXPECT(pe, index == 2 || index == 4);
    while (count != 2)
        if (!EXPECT_OK(pe, ferry_wait_until_some_vector(j, words, N, first_out, FERRY_CMP_EQ, values, indices, &count)))
            return;
    EXPECT(pe, indices[0] == 2 && indices[1] == 4);
    EXPECT(pe, ferry_test_all_vector(j, words, N, first_out, FERRY_CMP_EQ, values) == 0);
    EXPECT_OK(pe, ferry_sync(j)); /* nobody gets the others while it still counts these */
    for (int i = 1; i < N; i += 2)
        EXPECT_OK(pe, ferry_signal(pe->ctx, &words[i], (uint64_t)i + 1, FERRY_SIGNAL_SET, to));
    EXPECT_OK(pe, ferry_wait_until_all_vector(j, words, N, NULL, FERRY_CMP_GE, values));
    EXPECT(pe, ferry_test_any_vector(j, words, N, NULL, FERRY_CMP_EQ, big, &index) == 0);
    EXPECT_OK(pe, ferry_wait_until_some(j, words, N, NULL, FERRY_CMP_GT, 4, indices, &count));
    EXPECT(pe, count == 2 && indices[0] == 4 && indices[1] == 5);
    EXPECT(pe, ferry_test_some(j, words, N, NULL, FERRY_CMP_GT, 4, indices, &count) == 1 && count == 2);
    REFUSED(pe, ferry_test_some(j, words, N, NULL, FERRY_CMP_GT, 4, NULL, &count), FERRY_ERR_ARG,
            "ferry_test_some: the place for");
    REFUSED(pe, ferry_wait_until_some(j, words, N, NULL, FERRY_CMP_GT, 4, indices, NULL), FERRY_ERR_ARG,
            "indices or count is null");
    REFUSED(pe, ferry_wait_until_all_vector(j, words, N, NULL, FERRY_CMP_EQ, NULL), FERRY_ERR_ARG,
            "the values are null");
    REFUSED(pe, ferry_test_any_vector(j, words, N, NULL, FERRY_CMP_EQ, values, NULL), FERRY_ERR_ARG, "index is null");
    REFUSED(pe, ferry_test_all_vector(j, words, N, NULL, 6, values), FERRY_ERR_ARG, "comparison 6");
    REFUSED(pe, ferry_test_all_vector(j, NULL, N, NULL, 0, values), FERRY_ERR_ARG, "ferry_test_all_vector: the word");
    REFUSED(pe, ferry_test_all_vector(j, (uint64_t *)((uintptr_t)words + 4), N, NULL, 0, values), FERRY_ERR_ARG,
            "not aligned");
    EXPECT_OK(pe, ferry_barrier(j));
}

static void test_30_vectors(void **state)
{
    (void)state;
    pes_check(3, vectors_body, NULL);
}

/* A handler hears of an abort by another PE, once, with the record; one that was taken away hears nothing. */
struct heard {
    _Atomic int calls, ready;
    int status, peer;
    char message[320];
};

static void hear(void *arg, const struct ferry_error *record)
{
    struct heard *heard = arg;
    heard->status = record->status;
    heard->peer = record->peer;
    snprintf(heard->message, sizeof(heard->message), "%s", record->message);
    atomic_fetch_add(&heard->calls, 1);
}

static void handler_body(struct pe *pe)
{
    struct heard *heard = &((struct heard *)pe->arg)[pe->rank], gone = {0};
    EXPECT_OK(pe, ferry_set_error_handler(pe->job, hear, pe->rank == 2 ? &gone : heard));
    if (pe->rank == 2)
        EXPECT_OK(pe, ferry_set_error_handler(pe->job, NULL, NULL));
    atomic_store(&heard->ready, 1);
    if (pe->rank == 0) {
        while (!atomic_load(&heard[1].ready) || !atomic_load(&heard[2].ready))
            sched_yield();
        EXPECT_OK(pe, ferry_abort(pe->job, 9));
        EXPECT(pe, atomic_load(&heard->calls) == 0);
        return;
    }
    double end = pes_now() + 30;
    while (ferry_sync(pe->job) != FERRY_ERR_ABORTED && pes_now() < end)
        sched_yield();
    while (pe->rank == 1 && atomic_load(&heard->calls) == 0 && pes_now() < end)
        sched_yield();
    EXPECT_OK(pe, ferry_set_error_handler(pe->job, NULL, NULL));
    EXPECT(pe, atomic_load(&gone.calls) == 0);
    if (pe->rank == 1)
        EXPECT(pe, atomic_load(&heard->calls) == 1 && heard->status == FERRY_ERR_ABORTED && heard->peer == 0 &&
                       strcmp(heard->message, "pe 0 aborted the job with code 9") == 0);
}

static void swallow(void *arg, int level, const char *line)
{
    (void)arg;
    (void)level;
    (void)line;
}

static void test_error_handler(void **state)
{
    (void)state;
    struct heard heard[3] = {0};
    struct run run = {.n = 3, .body = handler_body, .arg = heard, .log = swallow};
    assert_int_equal(pes_run_tolerant(&run), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_25_26_27_atomics32), cmocka_unit_test(test_42_single_values),
        cmocka_unit_test(test_44_strided),         cmocka_unit_test(test_30_vectors),
        cmocka_unit_test(test_error_handler),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
