/* SPDX-License-Identifier: Apache-2.0
 * Seeded random numbers, so that a failing test fails again.
 * State belongs to the caller; any thread. */
#ifndef TESTS_BASE_RANDOM_H
#define TESTS_BASE_RANDOM_H

#include <stdint.h>

static inline uint64_t random_next(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state * 0x9e3779b97f4a7c15u >> 11;
}

/* 0 .. n-1 */
static inline uint32_t random_below(uint64_t *state, uint32_t n)
{
    return (uint32_t)(random_next(state) % n);
}

#endif
