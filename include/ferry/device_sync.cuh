/* SPDX-License-Identifier: Apache-2.0
 * Part of ferry/device.cuh: waiting for this PE's own memory, and barriers of kernels.
 * Device functions: a thread, a warp, a block or a grid, as the names say. */
#ifndef FERRY_DEVICE_SYNC_CUH
#define FERRY_DEVICE_SYNC_CUH

#include <ferry/device.cuh>

/* ------------------------------------------------------------------ waiting */

FERRY_GPU_FN bool ferry_gpu_compare(uint64_t a, int cmp, uint64_t b)
{
    switch (cmp) {
    case FERRY_CMP_EQ: return a == b;
    case FERRY_CMP_NE: return a != b;
    case FERRY_CMP_GT: return a > b;
    case FERRY_CMP_GE: return a >= b;
    case FERRY_CMP_LT: return a < b;
    default: return a <= b;
    }
}

/* 1: holds, 0: does not. What the writer had put before is there for later loads. */
FERRY_GPU_FN int ferry_gpu_test(const uint64_t *word, int cmp, uint64_t value)
{
    return ferry_gpu_compare(ferry_gpu_load(word), cmp, value);
}

/* Why a wait has to end; FERRY_OK: it need not. */
FERRY_GPU_FN int ferry_gpu_alarm(const struct ferry_gpu &g)
{
    const int rc = -(int)ferry_gpu_load(g.ring.alarm);
    return rc == FERRY_OK && ferry_gpu_closed(g) ? FERRY_ERR_STATE : rc;
}

/* Until the condition holds; *seen: the value for which it did, or the last one. Ends with FERRY_ERR_ABORTED after an abort,
 * FERRY_ERR_PEER when a PE died that the program has not acknowledged, FERRY_ERR_STATE when the ring was closed, FERRY_ERR_TIMEOUT after
 * `nanoseconds`; 0: no bound. */
FERRY_GPU_FN int ferry_gpu_signal_wait(const struct ferry_gpu &g, const uint64_t *word, int cmp, uint64_t value, uint64_t nanoseconds,
                                       uint64_t *seen)
{
    const uint64_t start = nanoseconds ? ferry_gpu_clock() : 0;
    for (unsigned polls = 1; !ferry_gpu_compare(*seen = ferry_gpu_load(word), cmp, value); polls++) {
        if (polls % FERRY_GPU_POLLS)
            continue;
        int rc = ferry_gpu_alarm(g);
        if (rc == FERRY_OK && nanoseconds && ferry_gpu_clock() - start > nanoseconds)
            rc = FERRY_ERR_TIMEOUT;
        if (rc != FERRY_OK) /* it may have come between the look and the verdict */
            return ferry_gpu_compare(*seen = ferry_gpu_load(word), cmp, value) ? FERRY_OK : rc;
    }
    return FERRY_OK;
}

/* One thread looks, for all; what it saw is known to all. */
template <int scope>
FERRY_GPU_FN int ferry_gpu_wait_by(const struct ferry_gpu &g, const uint64_t *word, int cmp, uint64_t value, uint64_t nanoseconds)
{
    uint64_t seen;
    int rc = FERRY_OK;
    ferry_gpu_together<scope>();
    if (ferry_gpu_leader<scope>())
        rc = ferry_gpu_signal_wait(g, word, cmp, value, nanoseconds, &seen);
    ferry_gpu_together<scope>();
    return ferry_gpu_result<scope>(rc);
}

FERRY_GPU_FN int ferry_gpu_wait_until(const struct ferry_gpu &g, const uint64_t *word, int cmp, uint64_t value, uint64_t nanoseconds)
{
    return ferry_gpu_wait_by<FERRY_GPU_THREAD>(g, word, cmp, value, nanoseconds);
}

FERRY_GPU_FN int ferry_gpu_wait_until_warp(const struct ferry_gpu &g, const uint64_t *word, int cmp, uint64_t value, uint64_t nanoseconds)
{
    return ferry_gpu_wait_by<FERRY_GPU_WARP>(g, word, cmp, value, nanoseconds);
}

FERRY_GPU_FN int ferry_gpu_wait_until_block(const struct ferry_gpu &g, const uint64_t *word, int cmp, uint64_t value, uint64_t nanoseconds)
{
    return ferry_gpu_wait_by<FERRY_GPU_BLOCK>(g, word, cmp, value, nanoseconds);
}

/* ------------------------------------------------------------------ barriers of the kernels of all PEs
 * In rounds: in round r each PE tells the one 2^r further on, and hears from the one 2^r before. The words are those of
 * ferry_gpu_barrier_open, one for each round, which one PE writes: by a store of the barrier's number where it can, else by adding 1
 * through the ring, where two signals may overtake each other. So many take part at a time: one thread, warp, block or grid of
 * each PE, all by the same handle. */

/* One thread of the PE. The number of the barrier lies in memory, so that a graph may be launched again. */
FERRY_GPU_FN int ferry_gpu_meet(struct ferry_gpu &g)
{
    const uint32_t n = g.ring.n_pes;
    if (!g.barrier)
        return FERRY_ERR_STATE;
    const uint64_t number = *(volatile unsigned long long *)&g.state->barriers + 1;
    int rc = FERRY_OK;
    ferry_gpu_release(); /* what this PE wrote to its own memory, and others get */
    for (uint32_t round = 0, step = 1; step < n && rc == FERRY_OK; round++, step *= 2) {
        const int pe = (int)(((uint64_t)g.ring.my_pe + step) % n);
        const bool stores = ferry_gpu_find_word(g, g.barrier + round, 8, pe, false) != 0;
        rc = ferry_gpu_signal_word(g, g.barrier + round, stores ? number : 1, stores ? FERRY_SIGNAL_SET : FERRY_SIGNAL_ADD, pe, false);
        if (rc == FERRY_OK)
            rc = ferry_gpu_wait_until(g, g.barrier + round, FERRY_CMP_GE, number, 0);
    }
    *(volatile unsigned long long *)&g.state->barriers = number;
    return rc;
}

/* complete: all that was posted is complete before; else nothing but the order of strong signals. It meets in any case: the others
 * wait. */
template <int scope> FERRY_GPU_FN int ferry_gpu_meet_by(struct ferry_gpu &g, bool complete)
{
    const int before = complete ? ferry_gpu_quiet_by<scope>(g, FERRY_COMMAND_QUIET, 0) : FERRY_OK;
    int rc = FERRY_OK;
    ferry_gpu_together<scope>();
    if (ferry_gpu_leader<scope>())
        rc = ferry_gpu_meet(g);
    ferry_gpu_together<scope>();
    rc = ferry_gpu_result<scope>(rc);
    return rc == FERRY_OK ? before : rc;
}

/* Until the last block of the grid has let the others go. */
FERRY_GPU_FN int ferry_gpu_grid_wait(const struct ferry_gpu &g, unsigned before)
{
    for (unsigned polls = 1; *(volatile unsigned *)&g.state->grid_released == before; polls++) {
        const int rc = polls % FERRY_GPU_POLLS ? FERRY_OK : ferry_gpu_alarm(g);
        if (rc != FERRY_OK && *(volatile unsigned *)&g.state->grid_released == before)
            return rc;
    }
    __threadfence(); /* with the load above: an acquire (PTX memory model, 8.8) */
    return *(volatile int *)&g.state->grid_status;
}

/* All blocks of the grid are resident. The last that comes does it for the grid. */
FERRY_GPU_FN int ferry_gpu_meet_grid(struct ferry_gpu &g, bool complete)
{
    int rc = FERRY_OK;
    __syncthreads();
    if (ferry_gpu_leader<FERRY_GPU_BLOCK>()) {
        const unsigned blocks = gridDim.x * gridDim.y * gridDim.z, before = *(volatile unsigned *)&g.state->grid_released;
        ferry_gpu_release();
        if (atomicAdd(&g.state->grid_arrived, 1u) == blocks - 1) {
            ferry_gpu_release(); /* what the other blocks did comes before what follows */
            rc = ferry_gpu_meet_by<FERRY_GPU_THREAD>(g, complete);
            *(volatile int *)&g.state->grid_status = rc;
            *(volatile unsigned *)&g.state->grid_arrived = 0;
            __threadfence();
            *(volatile unsigned *)&g.state->grid_released = before + 1;
        } else {
            rc = ferry_gpu_grid_wait(g, before);
        }
    }
    return ferry_gpu_result<FERRY_GPU_BLOCK>(rc);
}

/* A barrier that completes nothing; FERRY_ERR_STATE without words for it; else as a wait. */
FERRY_GPU_FN int ferry_gpu_sync(struct ferry_gpu &g)
{
    return ferry_gpu_meet_by<FERRY_GPU_THREAD>(g, false);
}

FERRY_GPU_FN int ferry_gpu_sync_warp(struct ferry_gpu &g)
{
    return ferry_gpu_meet_by<FERRY_GPU_WARP>(g, false);
}

FERRY_GPU_FN int ferry_gpu_sync_block(struct ferry_gpu &g)
{
    return ferry_gpu_meet_by<FERRY_GPU_BLOCK>(g, false);
}

FERRY_GPU_FN int ferry_gpu_sync_grid(struct ferry_gpu &g)
{
    return ferry_gpu_meet_grid(g, false);
}

/* Quiet, then a barrier. */
FERRY_GPU_FN int ferry_gpu_barrier(struct ferry_gpu &g)
{
    return ferry_gpu_meet_by<FERRY_GPU_THREAD>(g, true);
}

FERRY_GPU_FN int ferry_gpu_barrier_warp(struct ferry_gpu &g)
{
    return ferry_gpu_meet_by<FERRY_GPU_WARP>(g, true);
}

FERRY_GPU_FN int ferry_gpu_barrier_block(struct ferry_gpu &g)
{
    return ferry_gpu_meet_by<FERRY_GPU_BLOCK>(g, true);
}

FERRY_GPU_FN int ferry_gpu_barrier_grid(struct ferry_gpu &g)
{
    return ferry_gpu_meet_grid(g, true);
}

#endif
