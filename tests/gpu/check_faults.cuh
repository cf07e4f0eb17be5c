/* SPDX-License-Identifier: Apache-2.0
 * Checks of test_gpu: bad arguments from kernels, commands that a kernel leaves behind, windows that are refused, and an abort that
 * meets kernels in every kind of wait. Included by test_gpu.cu alone. */
#ifndef TEST_GPU_CHECK_FAULTS_CUH
#define TEST_GPU_CHECK_FAULTS_CUH

#include "harness.cuh"

enum bad { NOT_IN_HEAP, NO_SUCH_PE, NEGATIVE_PE, NOT_ALIGNED, PAST_THE_END, NO_SUCH_SIGNAL, OTHER_LAYOUT, N_BAD };

__global__ void bad_commands(struct ferry_gpu g, char *place, uint64_t *scratch, int which, uint64_t *status)
{
    uint64_t *words = (uint64_t *)place;
    switch (which) {
    case NOT_IN_HEAP: ferry_gpu_put_nbi(g, scratch, words, 8, 1); break;
    case NO_SUCH_PE: ferry_gpu_p(g, words, 1, N_PES); break;
    case NEGATIVE_PE: ferry_gpu_put_signal_nbi(g, words, words + 8, 8, words + 16, 1, FERRY_SIGNAL_ADD, -1); break;
    case NOT_ALIGNED: ferry_gpu_atomic_add(g, (uint64_t *)(place + 4), 1, 1); break;
    case PAST_THE_END: ferry_gpu_put_nbi(g, place, words, (uint64_t)1 << 46, 1); break;
    case NO_SUCH_SIGNAL: ferry_gpu_signal(g, words, 1, 77, 1); break;
    default: g.ring.layout++; ferry_gpu_p(g, words, 1, 1);
    }
    *status = (uint64_t)(int64_t)ferry_gpu_quiet(g);
}

/* The kernel is told, the host sees PE and channel, and nothing was written, whichever way it would have gone. */
static void check_bad(struct pe *pe, int way)
{
    for (int which = 0; which < N_BAD; which++) {
        const int expected = which == OTHER_LAYOUT ? FERRY_ERR_ABI : which == NEGATIVE_PE ? FERRY_ERR_LIMIT : FERRY_ERR_ARG;
        const int to = which == NO_SUCH_PE ? N_PES : which == NEGATIVE_PE ? -1 : 1;
        struct ferry_error record;
        char *place = fresh(pe, way == DIRECT);
        memset(&record, 0, sizeof(record));
        record.size = sizeof(record);
        bad_commands<<<1, 1, 0, pe->stream>>>(pe->gpu[way], place, (uint64_t *)pe->scratch, which, pe->status);
        await(pe, pe->stream, "bad command");
        const int status = (int)(int64_t)*pe->status;
        ferry_ring_error(pe->ring[way], &record);
        if (status != expected)
            printf("pe %d: bad command %d, %s: status %d, not %d\n", pe->rank, which, way_name[way], status, expected);
        expect(pe, status == expected, "bad command: status in the kernel");
        expect(pe, record.status == (which == OTHER_LAYOUT ? FERRY_OK : expected), "bad command: record");
        expect(pe, which == OTHER_LAYOUT || (record.peer == to && record.channel == (int)pe->gpu[way].ring.channel),
               "bad command: pe, channel");
        barrier(pe);
        bool clean = true;
        for (uint64_t word : look(pe, place, 64))
            clean &= word == 0;
        expect(pe, clean, "bad command: nothing was written");
    }
}

__global__ void leave_behind(const struct ferry_gpu *all, unsigned n, uint64_t *words)
{
    struct ferry_gpu g = all[blockIdx.x % n];
    const unsigned id = blockIdx.x * blockDim.x + threadIdx.x;
    ferry_gpu_p(g, words + id, id + 1, (ferry_gpu_my_pe(g) + 1) % ferry_gpu_n_pes(g));
}

/* A kernel ends without a quiet: closing completes what it posted. Handles in an array in GPU memory. */
static void check_left_over(struct pe *pe)
{
    ferry_ring_t *rings[3];
    struct ferry_gpu gpus[3], *all;
    uint64_t *words = (uint64_t *)(pe->block + 4096);
    const unsigned n = 12 * 32;
    expect(pe, ferry_gpu_open_all(pe->job, 3, 256, rings, gpus) == FERRY_OK, "three rings");
    all = ferry_gpu_array(3, gpus);
    expect(pe, all != nullptr, "handles in GPU memory");
    leave_behind<<<12, 32, 0, pe->stream>>>(all, 3, words);
    await(pe, pe->stream, "a kernel that leaves commands behind");
    expect(pe, ferry_gpu_close_all(3, rings, gpus) == FERRY_OK, "close them");
    barrier(pe);
    bool good = true;
    for (unsigned i = 0; i < n; i++)
        good &= words[i] == i + 1;
    expect(pe, good, "what a kernel left behind is carried out");
    cudaFree(all);
    barrier(pe);
}

/* Windows that cannot be. */
static void check_windows(struct pe *pe)
{
    struct ferry_gpu *g = &pe->gpu[RING], copy = *g;
    uint64_t here = (uint64_t)(uintptr_t)pe->memory, peers[N_PES];
    for (int i = 0; i < N_PES; i++)
        peers[i] = here;
    expect(pe, ferry_gpu_window_at(g, pe->memory, 0, peers, 0) == FERRY_ERR_ARG, "window: no bytes");
    expect(pe, ferry_gpu_window_at(g, pe->memory, 64, peers, 8) == FERRY_ERR_ARG, "window: unknown flag");
    peers[1] += 8;
    expect(pe, ferry_gpu_window_at(g, pe->memory, 64, peers, 0) == FERRY_ERR_ARG, "window: other alignment at a peer");
    peers[1] = 0;
    expect(pe, ferry_gpu_window_at(g, pe->memory, 64, peers, FERRY_WINDOW_ATOMICS) == FERRY_ERR_ARG, "window: atomics, not all mapped");
    for (unsigned i = 0; i < FERRY_WINDOWS; i++)
        expect(pe, ferry_gpu_window_at(&copy, pe->memory, 64, peers, 0) == FERRY_OK, "window: a peer that is not mapped");
    expect(pe, ferry_gpu_window_at(&copy, pe->memory, 64, peers, 0) == FERRY_ERR_LIMIT, "window: no more");
    expect(pe, ferry_gpu_window(pe->job, g, pe->memory, 64, 0) == FERRY_ERR_UNSUPPORTED, "window: no symmetric memory");
    expect(pe, ferry_gpu_barrier_open(pe->job, &copy, nullptr) == FERRY_ERR_ARG, "barrier: no words");
}

/* ------------------------------------------------------------------ the end of the job */

enum wait { WAIT_THREAD, WAIT_WARP, WAIT_BLOCK, WAIT_NEXT, WAIT_BARRIER, WAIT_GRID, WAIT_STREAM, N_WAITS };

__global__ void wait_for_ever(struct ferry_gpu g, uint64_t *word, int how, uint64_t *status)
{
    uint64_t seen = 0;
    int rc = FERRY_OK;
    switch (how) {
    case WAIT_THREAD: rc = ferry_gpu_wait_until(g, word, FERRY_CMP_EQ, 77, 0); break;
    case WAIT_WARP: rc = ferry_gpu_wait_until_warp(g, word, FERRY_CMP_EQ, 77, 0); break;
    case WAIT_BLOCK: rc = ferry_gpu_wait_until_block(g, word, FERRY_CMP_EQ, 77, 0); break;
    case WAIT_NEXT: rc = ferry_gpu_signal_wait(g, word, FERRY_CMP_EQ, 77, 0, &seen); break;
    case WAIT_BARRIER: rc = ferry_gpu_sync_block(g); break;
    default: rc = ferry_gpu_sync_grid(g); break;
    }
    atomicExch_system((unsigned long long *)status + blockIdx.x, (unsigned long long)(int64_t)rc);
}

/* Waits of kernels end when the job is aborted, of every kind. PE 1 does not come to the barriers. */
static void check_abort(struct pe *pe, int *phase)
{
    uint64_t *word = (uint64_t *)fresh(pe, false), *status = pe->status;
    const int way[N_WAITS] = {RING, DIRECT, RING, BOTH, RING, DIRECT, RING};
    int *of_stream = (int *)(status + 2 * N_WAITS);
    memset(status, 0, (2 * N_WAITS + 1) * 8);
    for (int how = 0; how < N_WAITS; how++) {
        if (pe->rank == 1 && (how == WAIT_BARRIER || how == WAIT_GRID))
            continue;
        if (how == WAIT_STREAM)
            ferry_signal_wait_on_stream(&pe->gpu[RING], word, FERRY_CMP_EQ, 77, of_stream, pe->more[how]);
        else
            wait_for_ever<<<how == WAIT_GRID ? 2 : 1, how == WAIT_THREAD || how == WAIT_NEXT ? 1 : 32, 0, pe->more[how]>>>(
                pe->gpu[way[how]], word, how, status + 2 * how);
    }
    together(phase);
    if (pe->rank == 0)
        ferry_abort(pe->job, 1);
    for (int how = 0; how < N_WAITS; how++) {
        await(pe, pe->more[how], "abort");
        if (pe->rank == 1 && (how == WAIT_BARRIER || how == WAIT_GRID))
            continue;
        const int rc = how == WAIT_STREAM ? *of_stream : (int)(int64_t)status[2 * how];
        if (rc != FERRY_ERR_ABORTED)
            printf("pe %d: abort: wait %d ended with %d\n", pe->rank, how, rc);
        expect(pe, rc == FERRY_ERR_ABORTED, "abort: the kernel's wait ends with it");
    }
    if (pe->rank == 0)
        expect(pe, (int)(int64_t)status[2 * WAIT_GRID + 1] == FERRY_ERR_ABORTED, "abort: the other block's, too");
}

#endif
