/* SPDX-License-Identifier: Apache-2.0
 * The ladder of a waiting thread: spin, yield, sleep.
 * Works on the caller's state only; any thread. */
#include "clock.h"

#define SLEEP_FIRST_NS 50000u
#define SLEEP_LAST_NS  1000000u
#define SLEEP_STEPS    5u /* doublings after which SLEEP_LAST_NS is reached */

static void sleep_step(uint32_t step)
{
    uint64_t ns = step < SLEEP_STEPS ? (uint64_t)SLEEP_FIRST_NS << step : (uint64_t)SLEEP_LAST_NS << (step - SLEEP_STEPS);
    struct timespec ts = {0, (long)ns};

    /* A signal may cut it short: the caller looks at its condition again anyway. */
    nanosleep(&ts, NULL);
}

bool fy_backoff(struct fy_backoff *backoff)
{
    uint32_t round = backoff->rounds;

    if (round < FY_SPIN) {
        backoff->rounds++;
        fy_cpu_relax();
        return backoff->rounds % FY_LOOK == 0;
    }
    if (round < FY_SPIN + FY_YIELD) {
        backoff->rounds++;
        sched_yield();
        return true;
    }
    sleep_step(round - FY_SPIN - FY_YIELD);
    if (round < FY_SPIN + FY_YIELD + SLEEP_STEPS + backoff->doze)
        backoff->rounds++; /* stays on the last step: never wraps */
    return true;
}
