/* SPDX-License-Identifier: Apache-2.0
 * Dispatch, experts, combine: what the CPU's example does in dispatch.c, combine.c and exchange.c is done by kernels,
 * and this file gives them their memory and starts them. Each PE's main thread. */
#include "host.h"
#include <cinttypes>
#include <cstdlib>
#include <cstring>
#include <ctime>

uint64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* ------------------------------------------------------------------ rings of slots, in the symmetric heap */

static size_t pages(size_t bytes)
{
    return (bytes + 4095) / 4096 * 4096;
}

static bool on_gpu(const void *memory)
{
    struct cudaPointerAttributes kind;
    return cudaPointerGetAttributes(&kind, memory) == cudaSuccess && kind.type == cudaMemoryTypeDevice;
}

/* Zeroed symmetric memory that kernels reach under the same address. */
static void *symmetric(struct moe *moe, size_t bytes, int kind) /* FERRY_MEMORY_DEFAULT: as FERRY_HEAP_KIND says */
{
    ferry_alloc_attr_t attr = {};
    attr.size = sizeof attr, attr.bytes = bytes, attr.alignment = 4096, attr.kind = kind;
    void *memory = ferry_alloc(moe->job, &attr);
    if (!memory) {
        fail_call(moe, FERRY_OK, "rings of %zu bytes", bytes);
        return nullptr;
    }
    if (ferry_device_ptr(moe->job, memory, (int)moe->me) != memory) {
        fail_call(moe, FERRY_OK, "letting the GPU reach %zu bytes of the heap", bytes);
        return nullptr;
    }
    if (!on_gpu(memory)) {
        memset(memory, 0, bytes);
        return memory;
    }
    cudaError_t zeroed = cudaMemsetAsync(memory, 0, bytes, moe->gpu->stream);
    if (zeroed == cudaSuccess)
        zeroed = cudaStreamSynchronize(moe->gpu->stream);
    if (zeroed == cudaSuccess)
        return memory;
    gpu_failed(moe, zeroed, "zeros for the rings");
    return nullptr;
}

/* Where kernels can load and store a peer's memory (FERRY_P2P) they do; what they cannot reach goes through the ring of
 * commands. */
static int open_windows(struct moe *moe)
{
    struct moe_gpu *gpu = moe->gpu;
    const struct work *w = &gpu->work;
    for (uint32_t c = 0; c < gpu->n_rings; c++) {
        ferry_gpu_windows_close(&gpu->handles[c]); /* those of the last phase */
        int rc = ferry_gpu_window(moe->job, &gpu->handles[c], w->in, gpu->in_bytes, 0);
        if (rc == FERRY_OK || rc == FERRY_ERR_UNSUPPORTED)
            rc = ferry_gpu_window(moe->job, &gpu->handles[c], w->words, gpu->words_bytes, 0);
        if (rc != FERRY_OK && rc != FERRY_ERR_UNSUPPORTED)
            return fail_call(moe, rc, "windows for kernels: cuda: %s", cudaGetErrorString(cudaGetLastError()));
    }
    const cudaError_t copied = cudaMemcpyAsync((void *)w->rings, gpu->handles, gpu->n_rings * sizeof *gpu->handles,
                                               cudaMemcpyHostToDevice, gpu->stream);
    return copied == cudaSuccess ? FERRY_OK : gpu_failed(moe, copied, "the handles of the rings");
}

static int rings_open_gpu(struct moe *moe)
{
    struct moe_gpu *gpu = moe->gpu;
    struct work *w = &gpu->work;
    const size_t lanes = (size_t)w->channels * w->lanes;
    gpu->out_bytes = gpu->in_bytes = pages(lanes * w->ring * w->slot_bytes);
    gpu->words_bytes = pages(lanes * sizeof(struct lane_words));
    w->out = (char *)symmetric(moe, gpu->out_bytes, FERRY_MEMORY_DEFAULT);
    w->in = w->out ? (char *)symmetric(moe, gpu->in_bytes, FERRY_MEMORY_DEFAULT) : nullptr;
    w->words = w->in ? (struct lane_words *)symmetric(moe, gpu->words_bytes, FERRY_MEMORY_HOST)
                     : nullptr; /* the host reads them */
    if (!w->words)
        return FERRY_ERR_NOMEM; /* reported */
    const int rc = open_windows(moe);
    return rc != FERRY_OK
               ? rc
               : gpu_memory(moe, (void **)&w->scratch, (size_t)gpu->blocks * w->chunk * w->slot_bytes, "chunks");
}

static int rings_close_gpu(struct moe *moe)
{
    struct work *w = &moe->gpu->work;
    void *const memory[] = {w->words, w->in, w->out};
    cudaFree(w->scratch);
    w->scratch = nullptr;
    for (void *m : memory) {
        const int rc = ferry_free(moe->job, m);
        if (rc != FERRY_OK)
            return fail_call(moe, rc, "freeing the rings");
    }
    return FERRY_OK;
}

/* ------------------------------------------------------------------ a phase */

struct phase {
    const char *name;
    uint32_t number;
    int direction; /* as struct exchange's */
};

static int states_to_gpu(struct moe *moe)
{
    struct moe_gpu *gpu = moe->gpu;
    const size_t bytes = (size_t)gpu->work.channels * gpu->work.lanes * sizeof *gpu->states;
    cudaFree(gpu->work.states);
    gpu->work.states = nullptr;
    return gpu_copy_in(moe, (const void **)&gpu->work.states, gpu->states, bytes, "the states of the lanes");
}

static void reset_states(struct moe *moe, const struct phase *phase)
{
    struct moe_gpu *gpu = moe->gpu;
    for (uint32_t c = 0; c < gpu->work.channels; c++) {
        for (uint32_t k = 0; k < gpu->work.lanes; k++) {
            struct lane_state *s = &gpu->states[(size_t)c * gpu->work.lanes + k];
            const uint64_t own = moe->channels[c].start[k + 1] - moe->channels[c].start[k], came = s->comes;
            s->sends = phase->number == PHASE_DISPATCH ? own : came;
            s->comes = phase->number == PHASE_DISPATCH ? 0 : own; /* what was sent on a lane comes back on it */
            s->posted = s->taken = s->credited = 0;
            s->reusable = gpu->work.ring;
            s->to = lane_peer(moe, k, phase->direction);
            s->from = lane_peer(moe, k, -phase->direction);
        }
    }
}

/* Dispatch: what the senders have announced, and memory for it. */
static int learn_totals(struct moe *moe)
{
    struct moe_gpu *gpu = moe->gpu;
    uint64_t all = 0;
    for (size_t i = 0; i < (size_t)gpu->work.channels * gpu->work.lanes; i++) {
        struct lane_state *s = &gpu->states[i];
        const struct lane_words *words = &gpu->work.words[i];
        const uint64_t told = __atomic_load_n(&words->announced, __ATOMIC_ACQUIRE), total = words->tokens;
        if (told != 1 || total > moe->n_tokens)
            return fail(moe, FERRY_ERR_TRANSPORT,
                        "dispatch: pe %" PRIu32 " channel %zu from pe %" PRIu32 ": announced %" PRIu64
                        " tokens, there are %" PRIu32 ": data was not visible when its signal was",
                        moe->me, i / gpu->work.lanes, s->from, total, moe->n_tokens);
        s->comes = total;
        s->arrival_at = all;
        all += total;
    }
    gpu->work.n_arrivals = all;
    const int rc = gpu_memory(moe, (void **)&gpu->work.arrivals, all * gpu->work.arrival_bytes, "tokens that arrive");
    return rc == FERRY_OK
               ? gpu_memory(moe, (void **)&gpu->work.results, all * gpu->work.hidden * sizeof(float), "the results")
               : rc;
}

static int barrier(struct moe *moe, const char *phase, const char *when)
{
    const int rc = ferry_barrier(moe->job);
    return rc == FERRY_OK ? rc : fail_call(moe, rc, "%s: barrier %s", phase, when);
}

static int announce_all(struct moe *moe)
{
    const cudaError_t started = announce_start(&moe->gpu->work, moe->gpu->stream);
    int rc = started == cudaSuccess ? gpu_await(moe, "dispatch") : gpu_failed(moe, started, "dispatch");
    if (rc == FERRY_OK)
        rc = barrier(moe, "dispatch", "after the announcements");
    if (rc == FERRY_OK)
        rc = learn_totals(moe);
    return rc == FERRY_OK ? states_to_gpu(moe) : rc;
}

static struct tally tally_of(const struct moe *moe, uint64_t ns)
{
    const struct moe_gpu *gpu = moe->gpu;
    struct tally sum = {0, 0, ns};
    for (size_t i = 0; i < (size_t)gpu->work.channels * gpu->work.lanes; i++) {
        const uint64_t bytes = gpu->states[i].sends * gpu->work.slot_bytes;
        sum.bytes += bytes;
        sum.remote_bytes += gpu->states[i].to != moe->me ? bytes : 0;
    }
    return sum;
}

static int phase_run(struct moe *moe, const struct phase *phase)
{
    struct moe_gpu *gpu = moe->gpu;
    gpu->work.phase = phase->number;
    int rc = rings_open_gpu(moe);
    if (rc != FERRY_OK)
        return rc;
    reset_states(moe, phase);
    rc = states_to_gpu(moe);
    if (rc == FERRY_OK && phase->number == PHASE_DISPATCH) {
        rc = barrier(moe, phase->name, "before the announcements");
        rc = rc == FERRY_OK ? announce_all(moe) : rc;
    }
    if (rc == FERRY_OK)
        rc = barrier(moe, phase->name, "before the start");
    if (rc != FERRY_OK)
        return rc;
    const uint64_t start = now_ns();
    const cudaError_t started = exchange_start(&gpu->work, gpu->blocks, gpu->stream);
    rc = started == cudaSuccess ? gpu_await(moe, phase->name) : gpu_failed(moe, started, phase->name);
    if (rc != FERRY_OK)
        return rc;
    *(phase->number == PHASE_DISPATCH ? &moe->dispatch : &moe->combine) = tally_of(moe, now_ns() - start);
    /* All rings are quiet, so after this nobody touches anybody's slots any more. */
    rc = barrier(moe, phase->name, "at the end");
    return rc == FERRY_OK ? rings_close_gpu(moe) : rc;
}

int dispatch_run(struct moe *moe)
{
    const struct phase dispatch = {"dispatch", PHASE_DISPATCH, 1};
    moe->gpu->work.slot_bytes = moe->gpu->work.arrival_bytes;
    return phase_run(moe, &dispatch);
}

int experts_run(struct moe *moe)
{
    struct moe_gpu *gpu = moe->gpu;
    unsigned long long sum = 0;
    cudaError_t done = experts_start(&gpu->work, gpu->stream);
    if (done == cudaSuccess)
        done = cudaMemcpyAsync(&sum, gpu->work.dispatch_sum, sizeof sum, cudaMemcpyDeviceToHost, gpu->stream);
    const int rc = done == cudaSuccess ? gpu_await(moe, "experts") : gpu_failed(moe, done, "experts");
    moe->channels[0].dispatch_sum = sum;
    return rc;
}

int combine_run(struct moe *moe)
{
    const struct phase combine = {"combine", PHASE_COMBINE, -1};
    struct work *w = &moe->gpu->work;
    w->slot_bytes = (uint32_t)(sizeof(struct stamp) + w->hidden * sizeof(float) + 63) / 64 * 64;
    const int rc = phase_run(moe, &combine);
    if (rc != FERRY_OK)
        return rc;
    const size_t bytes = (size_t)moe->own * w->hidden * sizeof *moe->combined;
    const cudaError_t done =
        bytes ? cudaMemcpyAsync(moe->combined, w->combined, bytes, cudaMemcpyDeviceToHost, moe->gpu->stream)
              : cudaSuccess;
    return done == cudaSuccess ? gpu_await(moe, "combine") : gpu_failed(moe, done, "combine");
}
