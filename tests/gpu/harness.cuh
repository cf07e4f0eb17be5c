/* SPDX-License-Identifier: Apache-2.0
 * What the checks of test_gpu share: PEs, which are threads of this process, each with handles and kernels of its own; a kernel that
 * spins throughout. Nothing is allocated while it does: that may wait for kernels. Included by test_gpu.cu alone. */
#ifndef TEST_GPU_HARNESS_CUH
#define TEST_GPU_HARNESS_CUH

#include <ferry/stream.cuh>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <thread>
#include <vector>

#define N_PES 2
#define BLOCK_BYTES ((size_t)1 << 20)
#define N_STREAMS 8

/* Three ways to the same operations. */
enum way {
    RING,   /* all through the ring */
    DIRECT, /* GPU memory by loads, stores and atomics of the kernel; host memory through the ring */
    BOTH,   /* host memory by loads and stores, too, but no atomics */
    N_WAYS
};
static const char *const way_name[] = {"ring", "direct", "direct, host memory too"};

struct pe {
    int rank;
    ferry_job_t *job;
    ferry_ring_t *ring[N_WAYS];
    struct ferry_gpu gpu[N_WAYS];
    cudaStream_t stream, more[N_STREAMS];
    char *block;    /* symmetric, pinned host memory */
    char *memory;   /* GPU memory: not of the heap, but a window of DIRECT and BOTH */
    char *scratch;  /* GPU memory of this PE's own */
    uint64_t *bad;  /* what a kernel found wrong: host memory */
    uint64_t *status;
    unsigned long rounds;
};

static std::atomic<int> failures{0}, checks{0};
static std::atomic<int> arrived{0};
static struct pe *all_pes[N_PES];

static void expect(const struct pe *pe, bool good, const char *what)
{
    checks++;
    if (good)
        return;
    failures++;
    printf("pe %d: failed: %s\n", pe->rank, what);
}

static void cuda_ok(const struct pe *pe, cudaError_t rc, const char *what)
{
    if (rc != cudaSuccess)
        printf("pe %d: %s: %s\n", pe->rank, what, cudaGetErrorString(rc));
    expect(pe, rc == cudaSuccess, what);
}

/* All threads of the test; the job's barrier is not used where jobs are broken on purpose. */
static void together(int *phase)
{
    arrived++;
    ++*phase;
    while (arrived < N_PES * *phase)
        std::this_thread::yield();
}

static double now(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (double)ts.tv_sec + (double)ts.tv_nsec * 1e-9;
}

/* A kernel that never ends would keep the test for ever: it is told where it stood. */
static void await(struct pe *pe, cudaStream_t stream, const char *what)
{
    const double end = now() + 15 + 0.001 * (double)pe->rounds;
    cudaError_t rc;
    cuda_ok(pe, cudaGetLastError(), what);
    while ((rc = cudaStreamQuery(stream)) == cudaErrorNotReady && now() < end)
        std::this_thread::yield();
    if (rc == cudaSuccess)
        return;
    printf("pe %d: %s: %s\n", pe->rank, what, cudaGetErrorString(rc));
    for (int way = 0; way < N_WAYS; way++)
        printf("pe %d: %s: consumed %llu, completed %llu, error 0x%llx\n", pe->rank, way_name[way],
               (unsigned long long)*pe->gpu[way].ring.consumed, (unsigned long long)*pe->gpu[way].ring.completed,
               (unsigned long long)*pe->gpu[way].ring.error);
    fflush(stdout);
    _Exit(1);
}

/* Of what the kernel counted as wrong there is none. */
static void finished(struct pe *pe, const char *what, int way)
{
    await(pe, pe->stream, what);
    if (pe->rank == 0)
        printf("%s, %s: done\n", what, way_name[way]);
    expect(pe, *pe->bad == 0, what);
    if (*pe->bad)
        printf("pe %d: %s, %s: %llu wrong\n", pe->rank, what, way_name[way], (unsigned long long)*pe->bad);
    *pe->bad = 0;
}

static void barrier(struct pe *pe)
{
    expect(pe, ferry_barrier(pe->job) == FERRY_OK, "barrier");
}

/* What a way puts into, zeroed on both PEs. */
static char *fresh(struct pe *pe, bool gpu_memory)
{
    char *where = gpu_memory ? pe->memory : pe->block;
    barrier(pe);
    cuda_ok(pe, cudaMemsetAsync(where + 4096, 0, BLOCK_BYTES - 4096, pe->stream), "memset");
    await(pe, pe->stream, "memset");
    barrier(pe);
    return where + 4096;
}

/* What lies there now, for the host to look at. */
static std::vector<uint64_t> look(struct pe *pe, const void *where, size_t words)
{
    std::vector<uint64_t> got(words);
    cuda_ok(pe, cudaMemcpyAsync(got.data(), where, words * 8, cudaMemcpyDefault, pe->stream), "look");
    await(pe, pe->stream, "look");
    return got;
}

#define KERNEL_CHECK(good) \
    if (!(good))           \
    atomicAdd((unsigned long long *)bad, 1ull)

__device__ __forceinline__ uint64_t stamp(int pe, uint64_t round, uint64_t i)
{
    return round * 1000003 + (uint64_t)pe * 7919 + i;
}

/* ------------------------------------------------------------------ the public names, by scope */

template <int scope>
__device__ int put(struct ferry_gpu &g, void *dest, const void *src, uint64_t n, int pe, bool nbi)
{
    if (scope == FERRY_GPU_THREAD)
        return nbi ? ferry_gpu_put_nbi(g, dest, src, n, pe) : ferry_gpu_put(g, dest, src, n, pe);
    if (scope == FERRY_GPU_WARP)
        return nbi ? ferry_gpu_put_nbi_warp(g, dest, src, n, pe) : ferry_gpu_put_warp(g, dest, src, n, pe);
    return nbi ? ferry_gpu_put_nbi_block(g, dest, src, n, pe) : ferry_gpu_put_block(g, dest, src, n, pe);
}

template <int scope>
__device__ int get(struct ferry_gpu &g, void *dest, const void *src, uint64_t n, int pe, bool nbi)
{
    if (scope == FERRY_GPU_THREAD)
        return nbi ? ferry_gpu_get_nbi(g, dest, src, n, pe) : ferry_gpu_get(g, dest, src, n, pe);
    if (scope == FERRY_GPU_WARP)
        return nbi ? ferry_gpu_get_nbi_warp(g, dest, src, n, pe) : ferry_gpu_get_warp(g, dest, src, n, pe);
    return nbi ? ferry_gpu_get_nbi_block(g, dest, src, n, pe) : ferry_gpu_get_block(g, dest, src, n, pe);
}

template <int scope>
__device__ int put_signal(struct ferry_gpu &g, void *dest, const void *src, uint64_t n, uint64_t *word, int how, int pe, bool nbi)
{
    if (scope == FERRY_GPU_THREAD)
        return nbi ? ferry_gpu_put_signal_nbi(g, dest, src, n, word, 1, how, pe) : ferry_gpu_put_signal(g, dest, src, n, word, 1, how, pe);
    if (scope == FERRY_GPU_WARP)
        return nbi ? ferry_gpu_put_signal_nbi_warp(g, dest, src, n, word, 1, how, pe)
                   : ferry_gpu_put_signal_warp(g, dest, src, n, word, 1, how, pe);
    return nbi ? ferry_gpu_put_signal_nbi_block(g, dest, src, n, word, 1, how, pe)
               : ferry_gpu_put_signal_block(g, dest, src, n, word, 1, how, pe);
}

template <int scope> __device__ int quiet(struct ferry_gpu &g, int pe)
{
    if (scope == FERRY_GPU_THREAD)
        return pe < 0 ? ferry_gpu_quiet(g) : ferry_gpu_quiet_pe(g, pe);
    if (scope == FERRY_GPU_WARP)
        return pe < 0 ? ferry_gpu_quiet_warp(g) : ferry_gpu_quiet_pe_warp(g, pe);
    return pe < 0 ? ferry_gpu_quiet_block(g) : ferry_gpu_quiet_pe_block(g, pe);
}

template <int scope> __device__ int wait(struct ferry_gpu &g, const uint64_t *word, uint64_t value)
{
    if (scope == FERRY_GPU_THREAD)
        return ferry_gpu_wait_until(g, word, FERRY_CMP_GE, value, 0);
    if (scope == FERRY_GPU_WARP)
        return ferry_gpu_wait_until_warp(g, word, FERRY_CMP_GE, value, 0);
    return ferry_gpu_wait_until_block(g, word, FERRY_CMP_GE, value, 0);
}

template <int scope> __device__ int meet(struct ferry_gpu &g, bool complete)
{
    if (scope == FERRY_GPU_THREAD)
        return complete ? ferry_gpu_barrier(g) : ferry_gpu_sync(g);
    if (scope == FERRY_GPU_WARP)
        return complete ? ferry_gpu_barrier_warp(g) : ferry_gpu_sync_warp(g);
    return complete ? ferry_gpu_barrier_block(g) : ferry_gpu_sync_block(g);
}

#endif
