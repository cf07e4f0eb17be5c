/* SPDX-License-Identifier: Apache-2.0
 * Rings for CUDA kernels, the host's side: makes a ring's memory, and the heap, reachable for the device, by the CUDA runtime of
 * the program (the library itself needs no CUDA). Host functions: any thread, with the device of the kernels current. */
#ifndef FERRY_GPU_CUH
#define FERRY_GPU_CUH

#include <cuda_runtime.h>
#include <ferry/ferry.h>
#include <ferry/ring.h>
#include <ferry/window.h>
#include <stdlib.h>
#include <string.h>

#define FERRY_GPU_FETCH_SLOTS 1024u   /* operations that fetch, at once, of one ring */
#define FERRY_GPU_BARRIER_BYTES 256u  /* a word for each round of a barrier */

/* What lies in GPU memory, for one ring. */
struct ferry_gpu_state {
    unsigned long long head;     /* slots reserved */
    unsigned long long settled;  /* up to here all is complete, as far as some thread has seen; read together with `head` */
    unsigned long long consumed; /* copy of the ring's, as old as the last look of any warp */
    unsigned int poller;         /* 1: some warp looks at the host's */
    unsigned int pad[9];
    unsigned long long barriers; /* so many have there been */
    unsigned int grid_arrived, grid_released; /* blocks that came to this barrier; barriers of grids that are over */
    int grid_status;             /* of the last one */
    unsigned int pad2[11];
    unsigned int busy[FERRY_GPU_FETCH_SLOTS];
    struct ferry_window windows[FERRY_WINDOWS]; /* their tables of peers are behind this struct */
};

/* Where a thread found the last address of its kind. */
struct ferry_gpu_route {
    uint64_t base, bytes, there; /* the window, and where it lies on `pe`; 0 bytes: nothing was found yet */
    uint32_t pe, flags;
};

/* A ring as a kernel uses it: passed by value, each thread has a copy of its own. Its ring belongs to kernels of one device, not
 * to CPU producers. */
struct ferry_gpu {
    struct ferry_ring_handle ring;
    struct ferry_gpu_state *state;
    uint64_t *fetched; /* FERRY_GPU_FETCH_SLOTS words in host memory */
    uint64_t *barrier; /* FERRY_GPU_BARRIER_BYTES, symmetric; NULL: no barriers */
    uint32_t n_windows;
    struct ferry_gpu_route data, word; /* the thread's own */
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
    memset(gpu, 0, sizeof(*gpu));
}

/* Filled when it returns, with zeros if `from` is NULL, whatever stream kernels run in, and without waiting for any of them. */
static inline cudaError_t ferry_gpu_fill(void *memory, const void *from, size_t bytes)
{
    cudaStream_t stream;
    cudaError_t rc = cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
    if (rc != cudaSuccess)
        return rc;
    rc = from ? cudaMemcpyAsync(memory, from, bytes, cudaMemcpyDefault, stream) : cudaMemsetAsync(memory, 0, bytes, stream);
    if (rc == cudaSuccess)
        rc = cudaStreamSynchronize(stream);
    cudaStreamDestroy(stream);
    return rc;
}

/* Gives a new ring to kernels. cudaGetLastError has the reason of FERRY_ERR_DEVICE. */
static inline int ferry_gpu_open(ferry_ring_t *ring, struct ferry_gpu *gpu)
{
    memset(gpu, 0, sizeof(*gpu));
    int rc = ferry_ring_export(ring, FERRY_RING_LAYOUT, &gpu->ring);
    if (rc != FERRY_OK)
        return rc;
    void *fetched = nullptr;
    const size_t bytes = sizeof(*gpu->state) + FERRY_WINDOWS * gpu->ring.n_pes * sizeof(uint64_t);
    if (cudaMalloc((void **)&gpu->state, bytes) != cudaSuccess || ferry_gpu_fill(gpu->state, nullptr, bytes) != cudaSuccess ||
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

/* ------------------------------------------------------------------ windows, barriers
 * Before kernels get the handle: they have copies of it. */

/* Opens a window: kernels load and store what lies in [address, address + bytes) on their peers. peers[pe]: where kernels of this
 * device find PE `pe`'s counterpart of `address`; 0: they do not. flags: 0, or FERRY_WINDOW_ATOMICS, the same on all PEs, none of
 * which may be 0 then. FERRY_ERR_ARG; FERRY_ERR_LIMIT: there are FERRY_WINDOWS already. ferry_gpu_window makes the table itself. */
static inline int ferry_gpu_window_at(struct ferry_gpu *gpu, void *address, size_t bytes, const uint64_t *peers, unsigned flags)
{
    const unsigned at = gpu->n_windows;
    struct ferry_window window = {(uint64_t)(uintptr_t)address, bytes, nullptr, gpu->ring.n_pes, flags};
    for (uint32_t pe = 0; pe < gpu->ring.n_pes; pe++)
        if ((flags & FERRY_WINDOW_ATOMICS && !peers[pe]) || (peers[pe] && (peers[pe] - window.base) % 16))
            return FERRY_ERR_ARG;
    if (!bytes || flags & ~FERRY_WINDOW_ATOMICS)
        return FERRY_ERR_ARG;
    if (at == FERRY_WINDOWS)
        return FERRY_ERR_LIMIT;
    uint64_t *there = (uint64_t *)(gpu->state + 1) + (size_t)at * gpu->ring.n_pes;
    window.peers = there;
    if (ferry_gpu_fill(there, peers, gpu->ring.n_pes * sizeof(*peers)) != cudaSuccess ||
        ferry_gpu_fill(&gpu->state->windows[at], &window, sizeof(window)) != cudaSuccess)
        return FERRY_ERR_DEVICE;
    gpu->n_windows = at + 1;
    return FERRY_OK;
}

/* The same for one block of the symmetric heap, by what ferry_device_ptr says of each PE. Where it says nothing of any peer,
 * FERRY_ERR_UNSUPPORTED, and all goes through the ring as without. FERRY_WINDOW_ATOMICS asks for GPU memory, mapped on
 * every PE: FERRY_ERR_UNSUPPORTED otherwise. ferry_last_error has the reason for the last PE that is not mapped. */
static inline int ferry_gpu_window(ferry_job_t *job, struct ferry_gpu *gpu, void *address, size_t bytes, unsigned flags)
{
    struct cudaPointerAttributes kind;
    uint32_t mapped = 0;
    if (!bytes)
        return FERRY_ERR_ARG;
    uint64_t *peers = (uint64_t *)calloc(gpu->ring.n_pes, sizeof(*peers));
    if (!peers)
        return FERRY_ERR_NOMEM;
    for (uint32_t pe = 0; pe < gpu->ring.n_pes; pe++) {
        const char *first = (const char *)ferry_device_ptr(job, address, (int)pe);
        const char *last = first ? (const char *)ferry_device_ptr(job, (const char *)address + bytes - 1, (int)pe) : nullptr;
        if (first && last == first + bytes - 1)
            peers[pe] = (uint64_t)(uintptr_t)first;
        mapped += peers[pe] != 0;
    }
    int rc = mapped ? FERRY_OK : FERRY_ERR_UNSUPPORTED;
    if (flags & FERRY_WINDOW_ATOMICS &&
        (mapped != gpu->ring.n_pes || cudaPointerGetAttributes(&kind, (void *)(uintptr_t)peers[gpu->ring.my_pe]) != cudaSuccess ||
         kind.type != cudaMemoryTypeDevice))
        rc = FERRY_ERR_UNSUPPORTED;
    if (rc == FERRY_OK)
        rc = ferry_gpu_window_at(gpu, address, bytes, peers, flags);
    free(peers);
    return rc;
}

/* Forgets all windows, for others instead, or before their memory is freed: no kernel has a copy of the handle any more. */
static inline void ferry_gpu_windows_close(struct ferry_gpu *gpu)
{
    gpu->n_windows = 0;
}

/* Collective: gives the kernels of this handle words for their barriers, FERRY_GPU_BARRIER_BYTES of symmetric memory, 8-byte aligned,
 * that kernels reach under its own address. After the windows. The words are the library's until ferry_gpu_close. */
static inline int ferry_gpu_barrier_open(ferry_job_t *job, struct ferry_gpu *gpu, void *words)
{
    int rc = FERRY_OK;
    if (!words || (uintptr_t)words % 8)
        rc = FERRY_ERR_ARG;
    else if (ferry_gpu_fill(words, nullptr, FERRY_GPU_BARRIER_BYTES) != cudaSuccess ||
             ferry_gpu_fill(&gpu->state->barriers, nullptr, sizeof(gpu->state->barriers)) != cudaSuccess)
        rc = FERRY_ERR_DEVICE;
    const int met = ferry_sync(job); /* in any case: the others wait */
    if (rc == FERRY_OK)
        rc = met;
    if (rc == FERRY_OK)
        gpu->barrier = (uint64_t *)words;
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

/* ------------------------------------------------------------------ several rings */

/* Takes back, and destroys, what ferry_gpu_open_all made. The first status that is not FERRY_OK; it goes on behind a failure. */
static inline int ferry_gpu_close_all(unsigned n, ferry_ring_t **rings, struct ferry_gpu *gpus)
{
    int result = FERRY_OK;
    for (unsigned i = 0; i < n; i++) {
        const int closed = gpus[i].state ? ferry_gpu_close(&gpus[i]) : FERRY_OK;
        const int destroyed = rings[i] ? ferry_ring_destroy(rings[i]) : FERRY_OK;
        if (result == FERRY_OK)
            result = closed != FERRY_OK ? closed : destroyed;
        rings[i] = nullptr;
    }
    return result;
}

/* n rings of `slots` (0: 4096), and a handle for each. All or none. */
static inline int ferry_gpu_open_all(ferry_job_t *job, unsigned n, size_t slots, ferry_ring_t **rings, struct ferry_gpu *gpus)
{
    int rc = FERRY_OK;
    for (unsigned i = 0; i < n; i++)
        rings[i] = nullptr;
    memset(gpus, 0, n * sizeof(*gpus));
    for (unsigned i = 0; i < n && rc == FERRY_OK; i++) {
        rc = ferry_ring_create(job, slots, 0, &rings[i]);
        if (rc == FERRY_OK)
            rc = ferry_gpu_open(rings[i], &gpus[i]);
    }
    if (rc != FERRY_OK)
        ferry_gpu_close_all(n, rings, gpus);
    return rc;
}

/* An array of handles in GPU memory, for kernels that take a copy of the one they need: struct ferry_gpu g = all[i]. After windows and
 * barriers were opened; freed by cudaFree. NULL: cudaGetLastError says why. */
static inline struct ferry_gpu *ferry_gpu_array(unsigned n, const struct ferry_gpu *gpus)
{
    struct ferry_gpu *all = nullptr;
    if (cudaMalloc((void **)&all, n * sizeof(*all)) != cudaSuccess)
        return nullptr;
    if (cudaMemcpy(all, gpus, n * sizeof(*all), cudaMemcpyHostToDevice) == cudaSuccess)
        return all;
    cudaFree(all);
    return nullptr;
}

#endif
