/* SPDX-License-Identifier: Apache-2.0
 * Monotonic time, deadlines, and the ladder by which a waiting thread spins, yields, then sleeps.
 * Pure functions over caller-owned state; any thread. */
#ifndef FY_BASE_CLOCK_H
#define FY_BASE_CLOCK_H

#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <time.h>

static inline uint64_t fy_now_ns(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

/* Absolute, in fy_now_ns time; UINT64_MAX: never. seconds < 0 or 0 means never. */
static inline uint64_t fy_deadline(double seconds)
{
    return seconds > 0 ? fy_now_ns() + (uint64_t)(seconds * 1e9) : UINT64_MAX;
}

static inline void fy_cpu_relax(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

/* One waiting episode. Zero it (but for `doze`, where so many wait that sleeps of 1 ms would fill the cores), then call fy_backoff
 * each time the condition was found unmet. Spins FY_SPIN rounds, yields FY_YIELD rounds, then sleeps 50 µs doubling to 1 ms.
 * Returns true every so often (every 256th spin, every yield and sleep): the moment to look at alarms and deadlines. */
#define FY_SPIN  2000u
#define FY_LOOK  256u /* rounds of spinning between two looks at what is expensive to look at */
#define FY_YIELD 2000u
struct fy_backoff {
    uint32_t rounds;
    uint32_t looks; /* moments to look so far, as far as fy_wait_tell counts them; */
    uint32_t told;  /* and 1 + where the page tells of this wait, 0: nowhere */
    uint32_t doze;  /* doublings of a sleep beyond 1 ms */
};
bool fy_backoff(struct fy_backoff *backoff);

#endif
