/* SPDX-License-Identifier: Apache-2.0
 * The arithmetic of reduce: sum, min and max over six types, element by element.
 * Pure functions over memory of the caller; any thread. */
#include "team.h"

/* Sums of signed numbers wrap, like those of unsigned ones, which they are made with (C11 6.2.5p9). A NaN is neither
 * less nor equal: it is kept, so that the result is NaN on every PE. */
#define COMBINE(name, type, expression)                                                                                \
    static void name(void *to, const void *low, const void *high, size_t n)                                            \
    {                                                                                                                  \
        type *t = to;                                                                                                  \
        const type *a = low, *b = high;                                                                                \
        for (size_t i = 0; i < n; i++)                                                                                 \
            t[i] = (expression);                                                                                       \
    }

COMBINE(sum_32, uint32_t, a[i] + b[i])
COMBINE(sum_64, uint64_t, a[i] + b[i])
COMBINE(sum_float, float, a[i] + b[i])
COMBINE(sum_double, double, a[i] + b[i])
COMBINE(min_int32, int32_t, b[i] < a[i] ? b[i] : a[i])
COMBINE(min_int64, int64_t, b[i] < a[i] ? b[i] : a[i])
COMBINE(min_uint32, uint32_t, b[i] < a[i] ? b[i] : a[i])
COMBINE(min_uint64, uint64_t, b[i] < a[i] ? b[i] : a[i])
COMBINE(min_float, float, b[i] < a[i] || b[i] != b[i] ? b[i] : a[i])
COMBINE(min_double, double, b[i] < a[i] || b[i] != b[i] ? b[i] : a[i])
COMBINE(max_int32, int32_t, b[i] > a[i] ? b[i] : a[i])
COMBINE(max_int64, int64_t, b[i] > a[i] ? b[i] : a[i])
COMBINE(max_uint32, uint32_t, b[i] > a[i] ? b[i] : a[i])
COMBINE(max_uint64, uint64_t, b[i] > a[i] ? b[i] : a[i])
COMBINE(max_float, float, b[i] > a[i] || b[i] != b[i] ? b[i] : a[i])
COMBINE(max_double, double, b[i] > a[i] || b[i] != b[i] ? b[i] : a[i])

#define TYPES 6
#define OPS   3

const struct fy_reduction *fy_reduction(int type, int op)
{
    static const struct fy_reduction table[TYPES][OPS] = {
        [FERRY_TYPE_INT32] = {{4, 1, sum_32}, {4, 2, min_int32}, {4, 3, max_int32}},
        [FERRY_TYPE_INT64] = {{8, 4, sum_64}, {8, 5, min_int64}, {8, 6, max_int64}},
        [FERRY_TYPE_UINT32] = {{4, 7, sum_32}, {4, 8, min_uint32}, {4, 9, max_uint32}},
        [FERRY_TYPE_UINT64] = {{8, 10, sum_64}, {8, 11, min_uint64}, {8, 12, max_uint64}},
        [FERRY_TYPE_FLOAT] = {{4, 13, sum_float}, {4, 14, min_float}, {4, 15, max_float}},
        [FERRY_TYPE_DOUBLE] = {{8, 16, sum_double}, {8, 17, min_double}, {8, 18, max_double}},
    };
    if (type < 0 || type >= TYPES || op < 0 || op >= OPS)
        return NULL;
    return &table[type][op];
}
