/* SPDX-License-Identifier: Apache-2.0
 * What bodies of rules share: patterns, counts, meeting beside the job. Any PE. */
#include "rules.h"

#include <sched.h>
#include <stdio.h>
#include <string.h>

void rule_not_applicable(struct pe *pe, const char *reason)
{
    struct stage *stage = rule_stage(pe);

    if (pe->rank == 0)
        snprintf(stage->reason, sizeof(stage->reason), "%s", reason);
    atomic_store(&stage->not_applicable, 1);
}

unsigned long rule_times(struct pe *pe, const char *what, unsigned long full)
{
    unsigned long n = pes_scaled(full);

    if (pe->rank == 0)
        printf("    %s: %lu of %lu %s\n", rule_stage(pe)->id, n, full, what);
    return n;
}

void *rule_calloc(struct pe *pe, size_t size)
{
    void *memory = ferry_calloc(pe->job, 1, size);

    EXPECT(pe, memory != NULL);
    return memory;
}

/* One multiplication and a shift tell neighbours and seeds apart. */
static uint8_t pattern(size_t i, uint64_t seed)
{
    return (uint8_t)(((i + 1) * 0x9e3779b97f4a7c15u + seed * 0xbf58476d1ce4e5b9u) >> 56);
}

void rule_fill(void *to, size_t n, uint64_t seed)
{
    uint8_t *bytes = to;

    for (size_t i = 0; i < n; i++)
        bytes[i] = pattern(i, seed);
}

size_t rule_wrong(const void *at, size_t n, uint64_t seed)
{
    const uint8_t *bytes = at;
    size_t bad = 0;

    for (size_t i = 0; i < n; i++)
        bad += bytes[i] != pattern(i, seed);
    return bad;
}

bool rule_all(const void *at, size_t n, uint8_t value)
{
    const uint8_t *bytes = at;

    for (size_t i = 0; i < n; i++)
        if (bytes[i] != value)
            return false;
    return true;
}

bool rule_meet(struct pe *pe, int index, uint64_t value)
{
    _Atomic uint64_t *word = &rule_stage(pe)->words[index];

    struct pes_limit limit = pes_limit(60);

    while (atomic_load(word) < value && pes_in_time(&limit))
        sched_yield();
    return EXPECT(pe, atomic_load(word) >= value);
}

bool rule_gather(struct pe *pe, int index, uint64_t round)
{
    atomic_fetch_add(&rule_stage(pe)->words[index], 1);
    return rule_meet(pe, index, round * (uint64_t)pe->n);
}

uint64_t rule_draw(uint64_t *state)
{
    uint64_t x = *state;

    x ^= x << 13;
    x ^= x >> 7;
    x ^= x << 17;
    *state = x;
    return x * 0x2545f4914f6cdd1du;
}
