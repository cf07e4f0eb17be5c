/* SPDX-License-Identifier: Apache-2.0
 * Rings for CUDA kernels, the host's side: makes a ring's memory, and the heap, reachable for the device, by the CUDA runtime of
 * the program (the library itself needs no CUDA). Host functions: any thread, with the device of the kernels current. */
#ifndef FERRY_GPU_CUH
#define FERRY_GPU_CUH

#include <cuda_runtime.h>
#include <ferry/ferry.h>
#include <ferry/ring.h>

#define FERRY_GPU_FETCH_SLOTS 1024u /* operations that fetch, at once, of one ring */

/* What lies in GPU memory, for one ring. */
struct ferry_gpu_state {
    unsigned long long head;     /* slots reserved */
    unsigned long long consumed; /* copy of the ring's, as old as the last look of any warp */
    unsigned int poller;         /* 1: some warp looks at the host's */
    unsigned int pad[11];
    unsigned int busy[FERRY_GPU_FETCH_SLOTS];
};

/* A ring as a kernel uses it: passed by value, each thread has a copy of its own. Its ring belongs to kernels of one device, not
 * to CPU producers. */
struct ferry_gpu {
    struct ferry_ring_handle ring;
    struct ferry_gpu_state *state;
    uint64_t *fetched; /* FERRY_GPU_FETCH_SLOTS words in host memory */
};

/* The block that a handle's pointers lead into: from `head` to the end of the slots. */
static inline size_t ferry_gpu_ring_bytes(const struct ferry_ring_handle *ring)
{
    const char *end = (const char *)(ring->slots + ((size_t)2 << ring->slot_bits));
    return (size_t)(end - (const char *)ring->head);
}

/* Lets kernels load and store host memory, as a block of the symmetric heap, under its own address. Whole pages: `address` from
 * ferry_align(job, 4096, …), `bytes` a multiple of 4096. FERRY_ERR_UNSUPPORTED where a device wants other addresses. */
static inline int ferry_gpu_pin(void *address, size_t bytes)
{
    void *device = nullptr;
    if (cudaHostRegister(address, bytes, cudaHostRegisterMapped | cudaHostRegisterPortable) != cudaSuccess)
        return FERRY_ERR_DEVICE;
    if (cudaHostGetDevicePointer(&device, address, 0) == cudaSuccess && device == address)
        return FERRY_OK;
    cudaHostUnregister(address);
    return FERRY_ERR_UNSUPPORTED;
}

/* Before the memory is freed. */
static inline int ferry_gpu_unpin(void *address)
{
    return cudaHostUnregister(address) == cudaSuccess ? FERRY_OK : FERRY_ERR_DEVICE;
}

static inline void ferry_gpu_release_memory(struct ferry_gpu *gpu)
{
    if (gpu->state)
        cudaFree(gpu->state);
    if (gpu->fetched)
        cudaFreeHost(gpu->fetched);
    gpu->state = nullptr;
    gpu->fetched = nullptr;
}

/* Zeroed when it returns, whatever stream kernels run in, and without waiting for any of them. */
static inline cudaError_t ferry_gpu_zero(void *memory, size_t bytes)
{
    cudaStream_t stream;
    cudaError_t rc = cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
    if (rc != cudaSuccess)
        return rc;
    rc = cudaMemsetAsync(memory, 0, bytes, stream);
    if (rc == cudaSuccess)
        rc = cudaStreamSynchronize(stream);
    cudaStreamDestroy(stream);
    return rc;
}

/* Gives a new ring to kernels. cudaGetLastError has the reason of FERRY_ERR_DEVICE. */
static inline int ferry_gpu_open(ferry_ring_t *ring, struct ferry_gpu *gpu)
{
    int rc = ferry_ring_export(ring, FERRY_RING_LAYOUT, &gpu->ring);
    gpu->state = nullptr;
    gpu->fetched = nullptr;
    if (rc != FERRY_OK)
        return rc;
    void *fetched = nullptr;
    if (cudaMalloc((void **)&gpu->state, sizeof(*gpu->state)) != cudaSuccess ||
        ferry_gpu_zero(gpu->state, sizeof(*gpu->state)) != cudaSuccess ||
        cudaHostAlloc(&fetched, FERRY_GPU_FETCH_SLOTS * 8, cudaHostAllocMapped | cudaHostAllocPortable) != cudaSuccess) {
        ferry_gpu_release_memory(gpu);
        return FERRY_ERR_DEVICE;
    }
    gpu->fetched = (uint64_t *)fetched;
    rc = ferry_gpu_pin(gpu->ring.head, (ferry_gpu_ring_bytes(&gpu->ring) + 4095) & ~(size_t)4095);
    if (rc != FERRY_OK)
        ferry_gpu_release_memory(gpu);
    return rc;
}

/* Takes it back: no kernel uses it any more. What they have posted is carried out by ferry_ring_close or _destroy, which must
 * follow. */
static inline int ferry_gpu_close(struct ferry_gpu *gpu)
{
    unsigned long long head = 0;
    int rc = FERRY_OK;
    if (cudaMemcpy(&head, &gpu->state->head, sizeof(head), cudaMemcpyDeviceToHost) != cudaSuccess)
        rc = FERRY_ERR_DEVICE;
    __atomic_store_n(gpu->ring.head, (uint64_t)head, __ATOMIC_SEQ_CST); /* closing looks there for what is to be carried out */
    if (ferry_gpu_unpin(gpu->ring.head) != FERRY_OK)
        rc = FERRY_ERR_DEVICE;
    ferry_gpu_release_memory(gpu);
    return rc;
}

#endif
