/* SPDX-License-Identifier: Apache-2.0
 * Reduce against a model, over the transport in TEST_TRANSPORT: types, operations, numbers of PEs, edge values, several
 * steps, in place, and the same bits everywhere. PEs are threads. */
#include "pes.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

/* The same numbers on every PE. */
static uint64_t draw(uint64_t *seed)
{
    *seed += 0x9e3779b97f4a7c15u;
    uint64_t z = *seed;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

static const int sizes[] = {1, 2, 3, 5, 8, 16};

union value {
    int32_t i32;
    int64_t i64;
    uint32_t u32;
    uint64_t u64;
    float f;
    double d;
};

static const size_t width[] = {4, 8, 4, 8, 4, 8};

static union value value_of(int type, int pe, size_t i, uint64_t salt)
{
    static const int64_t edges[] = {0, -1, 1, INT32_MAX, INT32_MIN, INT64_MAX, INT64_MIN, 1ll << 32};
    uint64_t seed = salt + i * 1000003 + (unsigned)pe * 77;
    int64_t any = i % 3 == 0 ? edges[draw(&seed) % 8] : (int64_t)draw(&seed);
    union value v = {.u64 = 0};
    switch (type) {
    case FERRY_TYPE_INT32:
        v.i32 = (int32_t)any;
        break;
    case FERRY_TYPE_INT64:
        v.i64 = any;
        break;
    case FERRY_TYPE_UINT32:
        v.u32 = (uint32_t)any;
        break;
    case FERRY_TYPE_UINT64:
        v.u64 = (uint64_t)any;
        break;
    /* small integers: their sums are exact in any order */
    case FERRY_TYPE_FLOAT:
        v.f = (float)(any % 1000) * 0.5f;
        break;
    default:
        v.d = (double)(any % 1000000) * 0.25;
        break;
    }
    return v;
}

#define PICK(op, a, b, sum) ((op) == FERRY_REDUCE_SUM ? (sum) : ((op) == FERRY_REDUCE_MIN) == ((b) < (a)) ? (b) : (a))

static union value model(union value a, union value b, int type, int op)
{
    union value v = {.u64 = 0};
    switch (type) {
    case FERRY_TYPE_INT32:
        v.i32 = PICK(op, a.i32, b.i32, (int32_t)((uint32_t)a.i32 + (uint32_t)b.i32));
        break;
    case FERRY_TYPE_INT64:
        v.i64 = PICK(op, a.i64, b.i64, (int64_t)((uint64_t)a.i64 + (uint64_t)b.i64));
        break;
    case FERRY_TYPE_UINT32:
        v.u32 = PICK(op, a.u32, b.u32, a.u32 + b.u32);
        break;
    case FERRY_TYPE_UINT64:
        v.u64 = PICK(op, a.u64, b.u64, a.u64 + b.u64);
        break;
    case FERRY_TYPE_FLOAT:
        v.f = PICK(op, a.f, b.f, a.f + b.f);
        break;
    default:
        v.d = PICK(op, a.d, b.d, a.d + b.d);
        break;
    }
    return v;
}

static void reduce_one(struct pe *pe, int type, int op, size_t count, bool in_place)
{
    size_t w = width[type];
    uint64_t salt = (unsigned)(type * 10 + op) + count;
    char *src = malloc(count * w + 1), *dest = malloc(count * w + 1);
    for (size_t i = 0; src && dest && i < count; i++) {
        union value v = value_of(type, pe->rank, i, salt);
        memcpy((in_place ? dest : src) + i * w, &v, w);
    }
    EXPECT_OK(pe, ferry_reduce(ferry_team_world(pe->job), dest, in_place ? dest : src, count, type, op));
    for (size_t i = 0; src && dest && i < count; i++) {
        union value want = value_of(type, 0, i, salt);
        for (int k = 1; k < pe->n; k++)
            want = model(want, value_of(type, k, i, salt), type, op);
        if (!EXPECT(pe, memcmp(dest + i * w, &want, w) == 0))
            break;
    }
    free(src);
    free(dest);
}

static void reduce_body(struct pe *pe)
{
    for (int type = FERRY_TYPE_INT32; type <= FERRY_TYPE_DOUBLE; type++)
        for (int op = FERRY_REDUCE_SUM; op <= FERRY_REDUCE_MAX; op++) {
            reduce_one(pe, type, op, 1, false);
            reduce_one(pe, type, op, 37, true);
            if (pe->n <= 5 && op == type % 3)
                reduce_one(pe, type, op, 20011, type % 2); /* several steps */
        }
}

static void test_reduce(void **state)
{
    (void)state;
    int to = pes_scaled(100) >= 100 ? 6 : 4;
    for (int i = 0; i < to; i++)
        pes_check(sizes[i], reduce_body, NULL);
}

/* NaN wins everywhere; zeros of either sign and sums that round end with the same bits on every PE. */
static void floats_body(struct pe *pe)
{
    ferry_team_t *world = ferry_team_world(pe->job);
    double in[4] = {pe->rank == 1 ? NAN : pe->rank, pe->rank % 2 ? -0.0 : 0.0, 1.0 / (pe->rank + 3),
                    pe->rank == 2 ? INFINITY : 1},
           out[4], all[8 * 4];
    for (int op = FERRY_REDUCE_SUM; op <= FERRY_REDUCE_MAX; op++) {
        EXPECT_OK(pe, ferry_reduce(world, out, in, 4, FERRY_TYPE_DOUBLE, op));
        EXPECT(pe, isnan(out[0]) && out[1] == 0);
        EXPECT(pe, op == FERRY_REDUCE_MIN ? out[3] == 1 : isinf(out[3]));
        EXPECT_OK(pe, ferry_allgather(world, all, out, sizeof(out)));
        for (int i = 1; i < pe->n; i++)
            EXPECT(pe, memcmp(&all[4 * i], all, sizeof(out)) == 0);
        float narrow = pe->rank == 0 ? NAN : (float)pe->rank, got = 0;
        EXPECT_OK(pe, ferry_reduce(world, &got, &narrow, 1, FERRY_TYPE_FLOAT, op));
        EXPECT(pe, isnan(got));
    }
}

static void test_reduce_floats(void **state)
{
    (void)state;
    pes_check(3, floats_body, NULL);
    pes_check(8, floats_body, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_reduce),
        cmocka_unit_test(test_reduce_floats),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
