/* SPDX-License-Identifier: Apache-2.0
 * ferry-perf: kernels, and what they need of a GPU: rings, a stream, pinned memory. Only here does the tool use CUDA.
 * Main thread of each PE. */
#include "perf_gpu.h"
#include "perf_shape.h"

#include <ferry/device.cuh>

#include <cstdlib>
#include <new>

#define BLOCK   256u
#define THREADS (64u * BLOCK) /* of PERF_GPU_COMMANDS */

/* In GPU memory. */
struct outcome {
    unsigned long long start, end; /* ns */
    int status;
};

/* What kernels get, by value. */
struct task {
    struct perf_gpu_launch launch;
    const struct ferry_gpu *rings;
    unsigned n_rings;
    struct outcome *outcome;
};

struct perf_gpu {
    cudaStream_t stream;
    unsigned n_rings;
    ferry_ring_t *rings[PERF_RINGS];
    struct ferry_gpu handles[PERF_RINGS];
    struct ferry_gpu *on_device;
    struct outcome *outcome;
};

/* ------------------------------------------------------------------ kernels */

__device__ static void begin(const struct task &t)
{
    if (threadIdx.x == 0)
        atomicMin(&t.outcome->start, (unsigned long long)ferry_gpu_clock());
}

__device__ static void check(const struct task &t, int status)
{
    if (status != FERRY_OK)
        atomicCAS(&t.outcome->status, FERRY_OK, status);
}

/* Everything that the block posted on this ring is complete. */
__device__ static void end(const struct task &t, struct ferry_gpu &g)
{
    check(t, ferry_gpu_quiet_block(g));
    if (threadIdx.x == 0)
        atomicMax(&t.outcome->end, (unsigned long long)ferry_gpu_clock());
}

/* One thread. */
__global__ void latency(struct task t)
{
    const struct perf_gpu_launch &l = t.launch;
    struct ferry_gpu g = t.rings[0];
    const int me = ferry_gpu_my_pe(g);
    int rc = FERRY_OK;
    begin(t);
    for (uint64_t i = 0; i < l.n && rc == FERRY_OK; i++) {
        uint64_t old, value = l.sequence + i + 1;
        if (l.kind == PERF_GPU_PUT_LAT) {
            *(volatile char *)l.outbox = (char)value;
            rc = ferry_gpu_put_nbi(g, l.inbox, l.outbox, l.bytes, l.peer);
            rc = rc == FERRY_OK ? ferry_gpu_quiet(g) : rc;
        } else if (l.kind == PERF_GPU_SIGNAL_LAT) {
            rc = ferry_gpu_signal(g, l.words, value, FERRY_SIGNAL_SET, me);
            rc = rc == FERRY_OK ? ferry_gpu_wait_until(g, l.words, FERRY_CMP_EQ, value, 0) : rc;
        } else {
            rc = ferry_gpu_atomic_fetch_add(g, l.words, 1, &old, l.peer);
        }
    }
    check(t, rc);
    end(t, g);
}

/* A put for each warp at a time; a block's warps share a ring. */
__global__ void __launch_bounds__(BLOCK) puts(struct task t)
{
    const struct perf_gpu_launch &l = t.launch;
    struct ferry_gpu g = t.rings[blockIdx.x % t.n_rings];
    const unsigned warp = (blockIdx.x * blockDim.x + threadIdx.x) / 32;
    const size_t at = warp % l.places * l.stride;
    int rc = FERRY_OK;
    begin(t);
    for (uint64_t i = warp; i < l.n && rc == FERRY_OK; i += l.warps) {
        if (threadIdx.x % 32 == 0)
            *(volatile char *)(l.outbox + at) = (char)i;
        rc = ferry_gpu_put_nbi_warp(g, l.inbox + at, l.outbox + at, l.bytes, l.peer);
    }
    check(t, rc);
    end(t, g);
}

__global__ void __launch_bounds__(BLOCK) commands(struct task t)
{
    const struct perf_gpu_launch &l = t.launch;
    struct ferry_gpu g = t.rings[blockIdx.x % t.n_rings];
    const unsigned thread = blockIdx.x * blockDim.x + threadIdx.x;
    const size_t at = thread % l.places * l.stride;
    int rc = FERRY_OK;
    begin(t);
    for (uint64_t i = thread; i < l.n && rc == FERRY_OK; i += THREADS) {
        *(volatile uint64_t *)(l.outbox + at) = i;
        rc = ferry_gpu_put_nbi(g, l.inbox + at, l.outbox + at, 8, l.peer);
    }
    check(t, rc);
    end(t, g);
}

/* A block for each ring of slots: a chunk, and a strong signal that adds to its tail; credit comes to its head. Chunk i is of
 * channel i % n_rings; heads lie behind the tails. */
__global__ void __launch_bounds__(BLOCK) moe_ht(struct task t)
{
    const struct perf_gpu_launch &l = t.launch;
    struct ferry_gpu g = t.rings[blockIdx.x];
    const size_t ring = (size_t)blockIdx.x * l.places * l.stride;
    uint64_t *tail = l.words + (size_t)blockIdx.x * PERF_GPU_WORD_STRIDE, *head = tail + (size_t)t.n_rings * PERF_GPU_WORD_STRIDE;
    uint64_t *sent = head + (size_t)t.n_rings * PERF_GPU_WORD_STRIDE, slots = *sent;
    int rc = FERRY_OK;
    begin(t);
    for (uint64_t i = blockIdx.x; i < l.n && rc == FERRY_OK; i += t.n_rings) {
        const size_t at = ring + slots % l.places * l.stride;
        slots += PERF_HT_CHUNK;
        if (threadIdx.x == 0 && slots > l.places)
            check(t, ferry_gpu_wait_until(g, head, FERRY_CMP_GE, slots - l.places, 0));
        rc = ferry_gpu_put_nbi_block(g, l.inbox + at, l.outbox + at, PERF_HT_CHUNK * l.stride, l.peer);
        if (threadIdx.x == 0)
            check(t, ferry_gpu_signal(g, tail, PERF_HT_CHUNK, FERRY_SIGNAL_ADD, l.peer));
    }
    check(t, rc);
    if (threadIdx.x == 0)
        *sent = slots;
    end(t, g);
}

/* Puts to an expert and the signal that covers them go through one ring: a block has some of the experts, its warps their puts. */
__global__ void __launch_bounds__(BLOCK) moe_ll(struct task t)
{
    const struct perf_gpu_launch &l = t.launch;
    struct ferry_gpu g = t.rings[blockIdx.x % t.n_rings];
    int rc = FERRY_OK;
    begin(t);
    for (uint64_t i = 0; i < l.n; i++) {
        for (unsigned expert = blockIdx.x; expert < PERF_LL_EXPERTS; expert += gridDim.x)
            for (unsigned p = expert + threadIdx.x / 32 * PERF_LL_EXPERTS; p < PERF_LL_TOKENS * PERF_LL_TOP && rc == FERRY_OK;
                 p += BLOCK / 32 * PERF_LL_EXPERTS)
                rc = ferry_gpu_put_nbi_warp(g, l.inbox + p * l.stride, l.outbox + p / PERF_LL_TOP * l.stride, l.bytes, l.peer);
        __syncthreads();
        for (unsigned expert = blockIdx.x + threadIdx.x * gridDim.x; expert < PERF_LL_EXPERTS && rc == FERRY_OK;
             expert += BLOCK * gridDim.x)
            rc = ferry_gpu_signal(g, l.words + expert, 1, FERRY_SIGNAL_ADD, l.peer);
        check(t, rc);
        check(t, ferry_gpu_quiet_block(g));
    }
    end(t, g);
}

static cudaError_t start(const struct task &t, cudaStream_t stream)
{
    const unsigned warps = t.launch.warps;
    switch (t.launch.kind) {
    case PERF_GPU_PUTS:
        puts<<<(warps + 7) / 8, warps < 8 ? warps * 32 : BLOCK, 0, stream>>>(t);
        break;
    case PERF_GPU_COMMANDS:
        commands<<<THREADS / BLOCK, BLOCK, 0, stream>>>(t);
        break;
    case PERF_GPU_HT:
        moe_ht<<<t.n_rings, BLOCK, 0, stream>>>(t);
        break;
    case PERF_GPU_LL:
        moe_ll<<<PERF_LL_CHANNELS, BLOCK, 0, stream>>>(t);
        break;
    default:
        latency<<<1, 1, 0, stream>>>(t);
    }
    return cudaGetLastError();
}

/* ------------------------------------------------------------------ the GPU */

const char *perf_gpu_reason(void)
{
    int devices = 0;
    setenv("CUDA_MODULE_LOADING", "EAGER", 1); /* loading a kernel late may wait for those that run */
    const cudaError_t rc = cudaGetDeviceCount(&devices);
    return rc != cudaSuccess ? cudaGetErrorString(rc) : devices == 0 ? "there is no GPU" : nullptr;
}

static int told(cudaError_t rc, const char **why)
{
    *why = rc == cudaSuccess ? "" : cudaGetErrorString(rc);
    return rc == cudaSuccess ? FERRY_OK : FERRY_ERR_DEVICE;
}

static int open_rings(struct perf_gpu *gpu, ferry_job_t *job, unsigned n)
{
    for (; gpu->n_rings < n; gpu->n_rings++) {
        const unsigned i = gpu->n_rings;
        int rc = ferry_ring_create(job, 0, 0, &gpu->rings[i]);
        if (rc != FERRY_OK)
            return rc;
        rc = ferry_gpu_open(gpu->rings[i], &gpu->handles[i]);
        if (rc != FERRY_OK) {
            ferry_ring_destroy(gpu->rings[i]);
            return rc;
        }
    }
    return FERRY_OK;
}

static cudaError_t open_device(struct perf_gpu *gpu, int pe)
{
    int devices = 0;
    cudaError_t rc = cudaGetDeviceCount(&devices);
    if (rc == cudaSuccess)
        rc = cudaSetDevice(pe % devices);
    if (rc == cudaSuccess)
        rc = cudaStreamCreateWithFlags(&gpu->stream, cudaStreamNonBlocking);
    if (rc == cudaSuccess)
        rc = cudaMalloc((void **)&gpu->outcome, sizeof *gpu->outcome);
    return rc == cudaSuccess ? cudaMalloc((void **)&gpu->on_device, sizeof gpu->handles) : rc;
}

int perf_gpu_open(ferry_job_t *job, int pe, int rings, struct perf_gpu **out, const char **why)
{
    struct perf_gpu *gpu = new (std::nothrow) perf_gpu();
    *why = "";
    *out = gpu;
    if (!gpu)
        return FERRY_ERR_NOMEM;
    int rc = told(open_device(gpu, pe), why);
    if (rc == FERRY_OK)
        rc = open_rings(gpu, job, (unsigned)rings);
    if (rc == FERRY_ERR_DEVICE && !**why)
        *why = cudaGetErrorString(cudaGetLastError());
    return rc == FERRY_OK ? told(cudaMemcpy(gpu->on_device, gpu->handles, sizeof gpu->handles, cudaMemcpyHostToDevice), why) : rc;
}

void perf_gpu_close(struct perf_gpu *gpu)
{
    for (unsigned i = 0; gpu && i < gpu->n_rings; i++) {
        ferry_gpu_close(&gpu->handles[i]);
        ferry_ring_destroy(gpu->rings[i]);
    }
    if (!gpu)
        return;
    cudaFree(gpu->on_device);
    cudaFree(gpu->outcome);
    if (gpu->stream)
        cudaStreamDestroy(gpu->stream);
    delete gpu;
}

int perf_gpu_pin(void *address, size_t bytes, const char **why)
{
    const int rc = ferry_gpu_pin(address, bytes);
    *why = rc == FERRY_ERR_DEVICE ? cudaGetErrorString(cudaGetLastError()) : "";
    return rc;
}

void perf_gpu_unpin(void *address)
{
    ferry_gpu_unpin(address);
}

int perf_gpu_run(struct perf_gpu *gpu, const struct perf_gpu_launch *launch, double *ns, const char **why)
{
    struct outcome outcome = {~0ull, 0, FERRY_OK};
    const struct task task = {*launch, gpu->on_device, gpu->n_rings, gpu->outcome};
    cudaError_t rc = cudaMemcpyAsync(gpu->outcome, &outcome, sizeof outcome, cudaMemcpyHostToDevice, gpu->stream);
    if (rc == cudaSuccess)
        rc = start(task, gpu->stream);
    if (rc == cudaSuccess)
        rc = cudaMemcpyAsync(&outcome, gpu->outcome, sizeof outcome, cudaMemcpyDeviceToHost, gpu->stream);
    if (rc == cudaSuccess)
        rc = cudaStreamSynchronize(gpu->stream);
    *ns = (double)(outcome.end - outcome.start);
    return rc == cudaSuccess ? told(rc, why), outcome.status : told(rc, why);
}
