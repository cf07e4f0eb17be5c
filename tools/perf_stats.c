/* SPDX-License-Identifier: Apache-2.0
 * ferry-perf: what is said about a set of samples. Pure computation. */
#include "perf.h"

#include <stdlib.h>

static int compare(const void *left, const void *right)
{
    double a = *(const double *)left, b = *(const double *)right;
    return (a > b) - (a < b);
}

/* Nearest rank: the smallest sample that `percent` of all samples do not exceed. */
static double percentile(const double *sorted, size_t n, unsigned percent)
{
    size_t rank = (n * percent + 99) / 100;
    return sorted[rank > 0 ? rank - 1 : 0];
}

void perf_summarise(double *samples, size_t n, struct perf_result *result)
{
    qsort(samples, n, sizeof *samples, compare);
    result->min = samples[0];
    result->median = percentile(samples, n, 50);
    result->p99 = percentile(samples, n, 99);
}
