/* SPDX-License-Identifier: Apache-2.0
 * Ferry's operations in the order of a CUDA stream: each call launches a small kernel, which does what ferry/device.cuh does. They may
 * be captured in a graph, and the graph launched again: all counters lie in memory. CUDA C++17; host functions, any thread, with
 * the device of the handle current. `status`, unless NULL: a word that kernels reach; a failure is left there, success is not. */
#ifndef FERRY_STREAM_CUH
#define FERRY_STREAM_CUH

#include <ferry/device.cuh>

/* Threads of the block that copies, where it is this GPU that does. */
#define FERRY_STREAM_THREADS 1024u

FERRY_GPU_FN void ferry_stream_failed(int rc, int *status)
{
    if (rc != FERRY_OK && status && threadIdx.x == 0)
        *(volatile int *)status = rc;
}

/* Templates, so that a program contains those that it uses, once. */
template <typename T> __global__ void ferry_stream_put_signal_kernel(struct ferry_gpu g, void *dest, const void *src, T length,
                                                                     uint64_t *signal, uint64_t value, int how, int pe, int *status)
{
    ferry_stream_failed(ferry_gpu_put_signal_nbi_block(g, dest, src, length, signal, value, how, pe), status);
}

template <typename T> __global__ void ferry_stream_signal_wait_kernel(struct ferry_gpu g, const T *word, int cmp, T value, int *status)
{
    ferry_stream_failed(ferry_gpu_wait_until(g, word, cmp, value, 0), status);
}

template <typename T> __global__ void ferry_stream_signal_next_kernel(struct ferry_gpu g, const T *word, T n, T *counted, int *status)
{
    const T until = *counted + n;
    const int rc = ferry_gpu_wait_until(g, word, FERRY_CMP_GE, until, 0);
    if (rc == FERRY_OK)
        *counted = until;
    ferry_stream_failed(rc, status);
}

template <bool meet> __global__ void ferry_stream_quiet_kernel(struct ferry_gpu g, int *status)
{
    ferry_stream_failed(meet ? ferry_gpu_barrier(g) : ferry_gpu_quiet(g), status);
}

static inline int ferry_stream_launched(void)
{
    return cudaPeekAtLastError() == cudaSuccess ? FERRY_OK : FERRY_ERR_DEVICE; /* cudaGetLastError has the reason */
}

/* As ferry_put_signal_nbi, when what the stream did before is over. `src` belongs to the library until a quiet. */
static inline int ferry_put_signal_on_stream(const struct ferry_gpu *gpu, void *dest, const void *src, size_t length, uint64_t *signal,
                                             uint64_t value, int how, int pe, int *status, cudaStream_t stream)
{
    const unsigned threads = gpu->n_windows && length > 512 ? FERRY_STREAM_THREADS : 32;
    ferry_stream_put_signal_kernel<uint64_t><<<1, threads, 0, stream>>>(*gpu, dest, src, length, signal, value, how, pe, status);
    return ferry_stream_launched();
}

/* What comes later in the stream waits until the condition holds for this PE's own word. */
static inline int ferry_signal_wait_on_stream(const struct ferry_gpu *gpu, const uint64_t *word, int cmp, uint64_t value, int *status,
                                              cudaStream_t stream)
{
    ferry_stream_signal_wait_kernel<uint64_t><<<1, 1, 0, stream>>>(*gpu, word, cmp, value, status);
    return ferry_stream_launched();
}

/* The same for a word that counts, until it has grown by n over *counted, memory of the GPU that begins as 0; then that is *counted.
 * So each launch of a graph waits for n more. */
static inline int ferry_signal_next_on_stream(const struct ferry_gpu *gpu, const uint64_t *word, uint64_t n, uint64_t *counted, int *status,
                                              cudaStream_t stream)
{
    ferry_stream_signal_next_kernel<uint64_t><<<1, 1, 0, stream>>>(*gpu, word, n, counted, status);
    return ferry_stream_launched();
}

/* What comes later in the stream waits until all that was posted with this handle is complete. */
static inline int ferry_quiet_on_stream(const struct ferry_gpu *gpu, int *status, cudaStream_t stream)
{
    ferry_stream_quiet_kernel<false><<<1, 1, 0, stream>>>(*gpu, status);
    return ferry_stream_launched();
}

/* Quiet, then a barrier of all PEs, each by its stream; ferry_gpu_barrier_open first. */
static inline int ferry_barrier_on_stream(const struct ferry_gpu *gpu, int *status, cudaStream_t stream)
{
    ferry_stream_quiet_kernel<true><<<1, 1, 0, stream>>>(*gpu, status);
    return ferry_stream_launched();
}

#endif
