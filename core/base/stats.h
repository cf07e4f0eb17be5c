/* SPDX-License-Identifier: Apache-2.0
 * Counters. Each channel has its own cache-aligned block, written only by the thread that uses the channel, in a page that
 * others can read (page.c). They may lag, never tear: every counter is one aligned 64-bit word. */
#ifndef FY_BASE_STATS_H
#define FY_BASE_STATS_H

#include <ferry/page.h>

/* The only writer adds. An aligned word is written whole, and every call of the library ends the compiler's liberty to keep
 * it in a register; so a plain addition does, in one instruction where relaxed atomics take three. The thread sanitizer
 * wants the atomics. */
static inline void fy_count(uint64_t *counter, uint64_t n)
{
#ifdef __SANITIZE_THREAD__
    __atomic_store_n(counter, __atomic_load_n(counter, __ATOMIC_RELAXED) + n, __ATOMIC_RELAXED);
#else
    *counter += n;
#endif
}

/* The channel of barriers counts without its lock what it stores itself, while others read under it. */
static inline uint64_t fy_counted(const uint64_t *counter)
{
    return __atomic_load_n(counter, __ATOMIC_RELAXED);
}

#endif
