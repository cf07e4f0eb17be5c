/* SPDX-License-Identifier: Apache-2.0
 * The GPU of a PE, its command rings, and memory. What allocates may wait for kernels that run, so all of it happens while no PE of
 * the process has a kernel that waits for another: before a barrier, after which kernels begin. Each PE's main thread. */
#include "host.h"
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>

int gpu_failed(struct moe *moe, cudaError_t rc, const char *what)
{
    return fail(moe, FERRY_ERR_DEVICE, "%s: cuda: %s", what, cudaGetErrorString(rc));
}

/* Before any PE exists. CUDA reads both variables when it begins. */
int exchange_prepare(const struct moe_args *args)
{
    int devices = 0;
    setenv("CUDA_MODULE_LOADING", "EAGER", 1);        /* loading a kernel late may wait for those that run */
    setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 1);   /* or one PE's kernel waits behind another's */
    const cudaError_t rc = cudaGetDeviceCount(&devices);
    if (rc != cudaSuccess || devices == 0) {
        fprintf(stderr, MOE_NAME ": no GPU: %s; moe_dispatch does the same work without one\n",
                rc == cudaSuccess ? "there is none" : cudaGetErrorString(rc));
        return EXIT_FAILED;
    }
    if (args->pes <= (uint32_t)(PES_OF_A_GPU * devices))
        return 0;
    fprintf(stderr, MOE_NAME ": --pes '%" PRIu32 "': the kernels of at most %d PEs run at once, %d for each GPU\n", args->pes,
            PES_OF_A_GPU * devices, PES_OF_A_GPU);
    return EXIT_USAGE;
}

int gpu_memory(struct moe *moe, void **memory, size_t bytes, const char *what)
{
    const cudaError_t rc = cudaMalloc(memory, bytes ? bytes : 1);
    return rc == cudaSuccess ? FERRY_OK
                             : fail(moe, FERRY_ERR_NOMEM, "%zu bytes of GPU memory for %s: cuda: %s", bytes, what, cudaGetErrorString(rc));
}

int gpu_copy_in(struct moe *moe, const void **to, const void *from, size_t bytes, const char *what)
{
    void *memory = nullptr;
    int rc = gpu_memory(moe, &memory, bytes, what);
    *to = memory;
    if (rc != FERRY_OK || bytes == 0)
        return rc;
    cudaError_t copied = cudaMemcpyAsync(memory, from, bytes, cudaMemcpyHostToDevice, moe->gpu->stream);
    if (copied == cudaSuccess)
        copied = cudaStreamSynchronize(moe->gpu->stream);
    return copied == cudaSuccess ? FERRY_OK : gpu_failed(moe, copied, what);
}

int gpu_await(struct moe *moe, const char *phase)
{
    const struct timespec nap = {0, 50000};
    cudaError_t rc;
    while ((rc = cudaStreamQuery(moe->gpu->stream)) == cudaErrorNotReady)
        nanosleep(&nap, nullptr);
    return rc == cudaSuccess ? trouble_report(moe, phase) : gpu_failed(moe, rc, phase);
}

static int open_device(struct moe_gpu *gpu)
{
    int devices = 0;
    cudaError_t rc = cudaGetDeviceCount(&devices);
    if (rc == cudaSuccess)
        rc = cudaSetDevice((int)gpu->moe->me % devices);
    if (rc == cudaSuccess)
        rc = cudaStreamCreateWithFlags(&gpu->stream, cudaStreamNonBlocking);
    if (rc == cudaSuccess)
        rc = exchange_blocks(&gpu->blocks);
    const uint32_t sharing = gpu->moe->args->pes ? gpu->moe->args->pes : 1;
    gpu->blocks = gpu->blocks / sharing ? gpu->blocks / sharing : 1;
    if (gpu->blocks > gpu->moe->args->channels)
        gpu->blocks = gpu->moe->args->channels;
    return rc == cudaSuccess ? FERRY_OK : gpu_failed(gpu->moe, rc, "the GPU");
}

static int open_rings(struct moe_gpu *gpu)
{
    struct moe *moe = gpu->moe;
    const uint32_t channels = moe->args->channels;
    gpu->rings = (ferry_ring_t **)calloc(channels, sizeof *gpu->rings);
    gpu->handles = (struct ferry_gpu *)calloc(channels, sizeof *gpu->handles);
    gpu->states = (struct lane_state *)calloc((size_t)channels * moe->lanes, sizeof *gpu->states);
    if (!gpu->rings || !gpu->handles || !gpu->states)
        return fail(moe, FERRY_ERR_NOMEM, "no memory for %" PRIu32 " rings of commands", channels);
    for (uint32_t c = 0; c < channels; c++) {
        int rc = ferry_ring_create(moe->job, 0, 0, &gpu->rings[c]);
        if (rc != FERRY_OK)
            return fail_call(moe, rc, "--channels '%" PRIu32 "': ring of commands %" PRIu32, channels, c);
        rc = ferry_gpu_open(gpu->rings[c], &gpu->handles[c]);
        if (rc != FERRY_OK) {
            ferry_ring_destroy(gpu->rings[c]);
            return fail(moe, rc, "--channels '%" PRIu32 "': giving ring %" PRIu32 " to the GPU: %s: cuda: %s", channels, c,
                        ferry_status_string(rc), cudaGetErrorString(cudaGetLastError()));
        }
        gpu->n_rings = c + 1;
    }
    return gpu_copy_in(moe, (const void **)&gpu->work.rings, gpu->handles, channels * sizeof *gpu->handles, "the handles of the rings");
}

/* All channels' queues, one behind the other; where each lane's tokens begin. */
static int copy_queue(struct moe_gpu *gpu)
{
    struct moe *moe = gpu->moe;
    size_t n = 0, at = 0;
    for (uint32_t c = 0; c < moe->args->channels; c++)
        n += moe->channels[c].start[moe->lanes];
    uint32_t *all = (uint32_t *)malloc((n + 1) * sizeof *all);
    if (!all)
        return fail(moe, FERRY_ERR_NOMEM, "no memory for the queue of %zu tokens", n);
    for (uint32_t c = 0; c < moe->args->channels; c++) {
        const struct channel *channel = &moe->channels[c];
        for (uint32_t lane = 0; lane < moe->lanes; lane++)
            gpu->states[(size_t)c * moe->lanes + lane].queue_at = at + channel->start[lane];
        memcpy(all + at, channel->queue, channel->start[moe->lanes] * sizeof *all);
        at += channel->start[moe->lanes];
    }
    const int rc = gpu_copy_in(moe, (const void **)&gpu->work.queue, all, n * sizeof *all, "the queue");
    free(all);
    return rc;
}

static int copy_model(struct moe_gpu *gpu)
{
    struct moe *moe = gpu->moe;
    struct work *work = &gpu->work;
    const size_t values = (size_t)moe->own * moe->args->hidden;
    int rc = gpu_copy_in(moe, (const void **)&work->vectors, moe->vectors, values * sizeof *moe->vectors, "the tokens");
    if (rc == FERRY_OK)
        rc = gpu_copy_in(moe, (const void **)&work->routes, moe->routes, (size_t)moe->own * moe->args->topk * sizeof *moe->routes,
                         "the routes");
    if (rc == FERRY_OK) /* zeros */
        rc = gpu_copy_in(moe, (const void **)&work->combined, moe->combined, values * sizeof *moe->combined, "the sums");
    return rc == FERRY_OK ? copy_queue(gpu) : rc;
}

/* The words through which kernels tell how they fared. */
static int open_trouble(struct moe_gpu *gpu)
{
    struct work *work = &gpu->work;
    const uint64_t zeros[2] = {0, 0};
    const void *words = nullptr;
    const cudaError_t rc = cudaHostAlloc((void **)&work->trouble, sizeof *work->trouble, cudaHostAllocMapped | cudaHostAllocPortable);
    if (rc != cudaSuccess)
        return gpu_failed(gpu->moe, rc, "host memory for what goes wrong");
    memset(work->trouble, 0, sizeof *work->trouble);
    const int copied = gpu_copy_in(gpu->moe, &words, zeros, sizeof zeros, "the checksum");
    work->dispatch_sum = (unsigned long long *)words;
    work->stop = (unsigned *)(work->dispatch_sum + 1);
    return copied;
}

int exchange_open(struct moe *moe)
{
    const struct moe_args *a = moe->args;
    struct moe_gpu *gpu = (struct moe_gpu *)calloc(1, sizeof *gpu);
    if (!gpu)
        return fail(moe, FERRY_ERR_NOMEM, "no memory for what belongs to the GPU");
    moe->gpu = gpu;
    gpu->moe = moe;
    struct work *w = &gpu->work;
    w->me = moe->me, w->n_pes = moe->n_pes, w->lanes = moe->lanes, w->ring = moe->ring, w->first_token = moe->first_token;
    w->hidden = a->hidden, w->topk = a->topk, w->experts = a->experts, w->channels = a->channels, w->chunk = a->chunk;
    w->inject = (uint32_t)a->inject;
    w->payload_offset = (uint32_t)(sizeof(struct stamp) + sizeof(uint32_t) + a->topk * sizeof(struct choice));
    w->arrival_bytes = (w->payload_offset + a->hidden * 2 + 63) / 64 * 64;
    int rc = open_device(gpu);
    if (rc == FERRY_OK)
        rc = open_rings(gpu);
    if (rc == FERRY_OK)
        rc = copy_model(gpu);
    return rc == FERRY_OK ? open_trouble(gpu) : rc;
}

/* No kernel of this PE runs any more. Freeing may wait for those of others, which end: if this PE failed, they are told. */
void exchange_close(struct moe *moe)
{
    struct moe_gpu *gpu = moe->gpu;
    if (!gpu)
        return;
    const void *memory[] = {gpu->work.rings,    gpu->work.vectors, gpu->work.routes,  gpu->work.combined,    gpu->work.queue,
                            gpu->work.arrivals, gpu->work.results, gpu->work.scratch, gpu->work.dispatch_sum, gpu->work.states};
    for (uint32_t c = 0; c < gpu->n_rings; c++) {
        ferry_gpu_close(&gpu->handles[c]);
        ferry_ring_destroy(gpu->rings[c]);
    }
    for (const void *m : memory)
        cudaFree((void *)m);
    cudaFreeHost(gpu->work.trouble);
    if (gpu->stream)
        cudaStreamDestroy(gpu->stream);
    free(gpu->rings);
    free(gpu->handles);
    free(gpu->states);
    free(gpu);
    moe->gpu = nullptr;
}
