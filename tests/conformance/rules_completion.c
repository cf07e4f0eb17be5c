/* SPDX-License-Identifier: Apache-2.0
 * Items 1 to 8: when sources are free, what quiet, barrier and the end of a context complete. On every PE. */
#include "rules.h"

#include <string.h>

#define BYTES 70001u

/* The source is overwritten the moment the put returns: the target must have the old bytes. */
static void blocking_put(struct pe *pe)
{
    static const size_t sizes[] = {1, 8, 64, 65, 300, 4096, 4097, BYTES};
    unsigned long rounds = rule_times(pe, "rounds of 8 sizes", 100);
    uint8_t *data = rule_calloc(pe, BYTES), source[BYTES];
    int to = (pe->rank + 1) % pe->n, from = (pe->rank + pe->n - 1) % pe->n;

    for (unsigned long r = 0; r < rounds; r++)
        for (size_t s = 0; s < sizeof(sizes) / sizeof(*sizes); s++) {
            size_t n = sizes[s];

            rule_fill(source, n, r * 8 + s + (uint64_t)pe->rank);
            if (!EXPECT_OK(pe, ferry_put(pe->ctx, data, source, n, to)))
                return;
            memset(source, 0xee, n);
            if (!EXPECT_OK(pe, ferry_barrier(pe->job)))
                return;
            EXPECT(pe, rule_wrong(data, n, r * 8 + s + (uint64_t)from) == 0);
            if (!EXPECT_OK(pe, ferry_barrier(pe->job)))
                return;
        }
}

const struct rule fy_rules_completion[] = {
    {"R1.1", "the source of a blocking put is free on return", 2, 0, blocking_put, NULL},
    {NULL, NULL, 0, 0, NULL, NULL},
};
