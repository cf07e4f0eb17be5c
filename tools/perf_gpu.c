/* SPDX-License-Identifier: Apache-2.0
 * ferry-perf: the tests gpu_…, on the host: memory and rings of the running test, and the CPU that answers gpu_moe_ht.
 * Only the first PE of each pair has kernels, so that two PEs of one GPU do not take turns on it. Main thread of each
 * PE. */
#include "perf.h"
#include "perf_gpu.h"

#include <libgen.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PAGE ((size_t)4096)

/* What a running test has. */
struct gpu_side {
    struct perf_gpu *gpu; /* NULL: this PE runs no kernels */
    ferry_job_t *job;     /* the tool's, or one of its own, over the null transport */
    struct perf_gpu_launch launch;
    size_t box_bytes, words_bytes;
    int rings;
    bool pinned[3];
    cpu_set_t pinned_to;               /* this thread, between tests */
    uint64_t taken[PERF_MAX_CHANNELS]; /* HT: slots, by channel */
};

static enum perf_gpu_kind kind_of(const struct perf_test *test)
{
    return test->batch == perf_gpu_put_lat         ? PERF_GPU_PUT_LAT
           : test->batch == perf_gpu_signal_lat    ? PERF_GPU_SIGNAL_LAT
           : test->batch == perf_gpu_fetch_add_lat ? PERF_GPU_FETCH_ADD_LAT
           : test->batch == perf_gpu_command_rate  ? PERF_GPU_COMMANDS
           : test->batch == perf_gpu_moe_ht        ? PERF_GPU_HT
           : test->batch == perf_gpu_moe_ll        ? PERF_GPU_LL
                                                   : PERF_GPU_PUTS;
}

static bool has_kernels(const struct perf *perf)
{
    return perf->me % 2 == 0 && perf->me + 1 < perf->n_pes;
}

/* A status of this PE with its words, for `complain`. */
static int wrong(struct perf *perf, int status, const char *what, const char *why)
{
    if (status != FERRY_OK && why[0])
        snprintf(perf->wrong, sizeof perf->wrong, "%s: %s", what, why);
    return status;
}

int perf_gpu_unusable(struct perf *perf, char *why, size_t size)
{
    const char *mine = has_kernels(perf) ? perf_gpu_reason() : NULL;
    int32_t lacks = mine != NULL, any = 0;
    const int status = ferry_reduce(ferry_team_world(perf->job), &any, &lacks, 1, FERRY_TYPE_INT32, FERRY_REDUCE_MAX);
    why[0] = '\0';
    if (any)
        snprintf(why, size, "%s", mine ? mine : "another PE has no GPU");
    return status;
}

/* ------------------------------------------------------------------ the null transport */

/* Beside this program where it was built, or installed. */
static bool find_null(char *path, size_t size)
{
    static const char *const places[] = {"../check", "../" PERF_LIBDIR "/ferry/check"};
    char self[2048];
    const ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
    if (length < 0)
        return false;
    self[length] = '\0';
    const char *folder = dirname(self);
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        const int n = PERF_LIBDIR[0] == '/' && i == 1 ? snprintf(path, size, "%s/ferry/check/null.so", PERF_LIBDIR)
                                                      : snprintf(path, size, "%s/%s/null.so", folder, places[i]);
        if (n > 0 && (size_t)n < size && access(path, R_OK) == 0)
            return true;
    }
    return false;
}

/* A job of one PE. */
static int open_null(struct perf *perf, struct gpu_side *side, const char *path)
{
    char transport[4096 + 32];
    const char *const options[] = {transport, "FERRY_HOOKS=", NULL};
    struct ferry_error error = {.size = sizeof error};
    ferry_uniqueid_t id;
    ferry_attr_t attr = {.size = sizeof attr,
                         .bootstrap = FERRY_BOOTSTRAP_UNIQUEID,
                         .n_pes = 1,
                         .id = &id,
                         .options = options,
                         .error = &error};
    snprintf(transport, sizeof transport, "FERRY_TRANSPORT=%s", path);
    side->job = NULL;
    int status = ferry_uniqueid_create(&id);
    if (status == FERRY_OK)
        status = ferry_init(&attr, &side->job);
    return wrong(perf, status, "the null transport", error.message);
}

/* ------------------------------------------------------------------ memory */

static size_t pages(size_t bytes)
{
    return (bytes + PAGE - 1) / PAGE * PAGE;
}

static void *symmetric(struct gpu_side *side, size_t bytes, int kind)
{
    const ferry_alloc_attr_t attr = {.size = sizeof attr, .bytes = bytes, .alignment = PAGE, .kind = kind};
    void *memory = ferry_alloc(side->job, &attr);
    if (memory && kind == FERRY_MEMORY_HOST)
        memset(memory, 0, bytes);
    return memory;
}

static void shape(const struct perf *perf, struct gpu_side *side, const struct perf_test *test, size_t bytes)
{
    struct perf_gpu_launch *l = &side->launch;
    *l = (struct perf_gpu_launch){.kind = kind_of(test),
                                  .peer = test->batch == perf_gpu_command_rate ? 0 : perf->me ^ 1,
                                  .warps = perf->options.warps,
                                  .bytes = bytes,
                                  .stride = (bytes + 63) / 64 * 64,
                                  .places = 1};
    if (l->kind == PERF_GPU_PUTS)
        l->places = l->warps;
    else if (l->kind == PERF_GPU_COMMANDS)
        l->places = 1024;
    else if (l->kind == PERF_GPU_LL)
        l->places = PERF_LL_TOKENS * PERF_LL_TOP;
    side->box_bytes = l->stride * l->places;
    if (l->kind == PERF_GPU_HT) {
        l->stride = PERF_HT_RECORD;
        l->places = PERF_HT_RING;
        side->box_bytes = (size_t)side->rings * PERF_HT_RING * PERF_HT_RECORD;
    }
    side->box_bytes = pages(side->box_bytes > 0 ? side->box_bytes : 64);
    side->words_bytes = pages((size_t)(3 * PERF_MAX_CHANNELS) * PERF_GPU_WORD_STRIDE * sizeof(uint64_t));
}

static int allocate(struct perf *perf, struct gpu_side *side)
{
    struct perf_gpu_launch *l = &side->launch;
    l->inbox = symmetric(side, side->box_bytes, perf->options.memory);
    l->outbox = l->inbox ? symmetric(side, side->box_bytes, perf->options.memory) : NULL;
    l->words = l->outbox ? symmetric(side, side->words_bytes, FERRY_MEMORY_HOST) : NULL;
    return l->words ? FERRY_OK : FERRY_ERR_NOMEM; /* the job's last error says why */
}

static int pin(struct perf *perf, struct gpu_side *side)
{
    struct perf_gpu_launch *l = &side->launch;
    void *const blocks[] = {l->words, l->inbox, l->outbox};
    for (size_t i = 0; i < (perf->options.memory == FERRY_MEMORY_HOST ? 3 : 1); i++) {
        const char *why;
        const int status = perf_gpu_pin(blocks[i], i == 0 ? side->words_bytes : side->box_bytes, &why);
        if (status != FERRY_OK)
            return wrong(perf, status, "letting the GPU reach host memory: cuda", why);
        side->pinned[i] = true;
    }
    return FERRY_OK;
}

/* HT: slots hold stamps, which the receiver takes away. */
static uint64_t stamp_of(int channel, uint64_t slot)
{
    return (uint64_t)(channel + 1) << 16 | (slot + 1);
}

static void stamp_all(struct gpu_side *side)
{
    for (int c = 0; c < side->rings; c++)
        for (uint64_t slot = 0; slot < PERF_HT_RING; slot++)
            perf_stamp((uint8_t *)side->launch.outbox + ((size_t)c * PERF_HT_RING + slot) * PERF_HT_RECORD,
                       PERF_HT_RECORD, stamp_of(c, slot));
}

/* ------------------------------------------------------------------ begin, end */

/* Threads that begin now, of the proxy and of CUDA, may run anywhere, and not only where this one waits for the GPU. */
static void unpin_thread(struct perf *perf, struct gpu_side *side)
{
    pthread_getaffinity_np(pthread_self(), sizeof side->pinned_to, &side->pinned_to);
    if (!perf->options.no_pin)
        pthread_setaffinity_np(pthread_self(), sizeof perf->allowed, &perf->allowed);
}

static int open_side(struct perf *perf, struct gpu_side *side)
{
    const char *why;
    int status = perf_gpu_open(side->job, perf->me, side->rings, &side->gpu, &why);
    return status == FERRY_OK ? pin(perf, side) : wrong(perf, status, "the GPU: cuda", why);
}

int perf_gpu_begin(struct perf *perf)
{
    const struct perf_test *test = perf->running;
    const bool null = test->batch == perf_gpu_command_rate;
    struct gpu_side *side = perf->moe = calloc(1, sizeof *side);
    char path[4096];
    int status = FERRY_OK;
    if (!side)
        return FERRY_ERR_NOMEM;
    side->job = perf->job;
    side->rings = perf_channels(perf, test);
    if (null && !find_null(path, sizeof path)) { /* on no PE: programs are installed alike */
        free(side);
        perf->moe = NULL;
        return wrong(perf, FERRY_ERR_UNSUPPORTED, "the null transport",
                     "null.so is not installed; it comes with ferry-check");
    }
    unpin_thread(perf, side);
    shape(perf, side, test, perf->running_bytes);
    if (null && has_kernels(perf))
        status = open_null(perf, side, path);
    if (status == FERRY_OK && (!null || has_kernels(perf)))
        status = allocate(perf, side);
    if (status == FERRY_OK && side->launch.kind == PERF_GPU_HT && perf->options.memory == FERRY_MEMORY_HOST)
        stamp_all(side);
    if (status == FERRY_OK && has_kernels(perf))
        status = open_side(perf, side);
    return status == FERRY_OK ? ferry_barrier(perf->job) : status;
}

void perf_gpu_end(struct perf *perf)
{
    struct gpu_side *side = perf->moe;
    void *const blocks[] = {side->launch.words, side->launch.inbox, side->launch.outbox};
    perf_gpu_close(side->gpu);
    for (size_t i = 0; i < 3; i++)
        if (side->pinned[i])
            perf_gpu_unpin(blocks[i]);
    for (size_t i = 3; i-- > 0;)
        if (blocks[i])
            ferry_free(side->job, blocks[i]);
    if (side->job && side->job != perf->job)
        ferry_finalize(side->job);
    pthread_setaffinity_np(pthread_self(), sizeof side->pinned_to, &side->pinned_to);
    free(side);
    perf->moe = NULL;
}

/* ------------------------------------------------------------------ batches */

/* The kernel's own time is the sample: launching it is not what is measured. */
static int run(struct perf_channel *channel, uint64_t n)
{
    struct gpu_side *side = channel->perf->moe;
    const char *why;
    side->launch.n = n;
    const int status = perf_gpu_run(side->gpu, &side->launch, &channel->own_ns, &why);
    side->launch.sequence += n;
    return wrong(channel->perf, status, "the kernel: cuda", why);
}

int perf_gpu_put_lat(struct perf_channel *channel, uint64_t n)
{
    return run(channel, n);
}

int perf_gpu_signal_lat(struct perf_channel *channel, uint64_t n)
{
    return run(channel, n);
}

int perf_gpu_fetch_add_lat(struct perf_channel *channel, uint64_t n)
{
    return run(channel, n);
}

int perf_gpu_put_rate(struct perf_channel *channel, uint64_t n)
{
    return run(channel, n);
}

int perf_gpu_put_bw(struct perf_channel *channel, uint64_t n)
{
    return run(channel, n);
}

int perf_gpu_command_rate(struct perf_channel *channel, uint64_t n)
{
    return run(channel, n);
}

int perf_gpu_moe_ll(struct perf_channel *channel, uint64_t n)
{
    return run(channel, n);
}

/* Looks at a chunk's stamps, and takes them away. */
static int take_chunk(struct perf *perf, struct gpu_side *side, int c)
{
    for (uint64_t token = side->taken[c];
         token < side->taken[c] + PERF_HT_CHUNK && perf->options.memory == FERRY_MEMORY_HOST; token++) {
        const uint64_t slot = token % PERF_HT_RING, expected = stamp_of(c, slot);
        uint8_t *record = (uint8_t *)side->launch.inbox + ((size_t)c * PERF_HT_RING + slot) * PERF_HT_RECORD;
        const uint64_t first = *(uint64_t *)(void *)record,
                       last = *(uint64_t *)(void *)(record + PERF_HT_RECORD - sizeof last);
        if (first != expected || last != expected) {
            snprintf(perf->wrong, sizeof perf->wrong,
                     "token %llu of the kernel on channel %d is not there, though its signal is: stamp %llx and %llx, "
                     "not %llx",
                     (unsigned long long)token, c, (unsigned long long)first, (unsigned long long)last,
                     (unsigned long long)expected);
            return PERF_WRONG;
        }
        perf_stamp(record, PERF_HT_RECORD, 0);
    }
    side->taken[c] += PERF_HT_CHUNK;
    return FERRY_OK;
}

/* Takes what came on a channel, and gives credit. 1: did, 0: nothing came, or a status; PERF_WRONG in *status. */
static int receive(struct perf_channel *channel, struct gpu_side *side, int c, int *status)
{
    uint64_t *tail = side->launch.words + (size_t)c * PERF_GPU_WORD_STRIDE,
             *head = tail + (size_t)side->rings * PERF_GPU_WORD_STRIDE;
    const int came = ferry_test(channel->perf->job, tail, FERRY_CMP_GE, side->taken[c] + PERF_HT_CHUNK);
    *status = came < 0 ? came : FERRY_OK;
    if (came != 1)
        return 0;
    *status = take_chunk(channel->perf, side, c);
    if (*status == FERRY_OK)
        *status = ferry_signal(channel->ctx, head, PERF_HT_CHUNK, FERRY_SIGNAL_ADD | FERRY_SIGNAL_WEAK, channel->peer);
    return 1;
}

/* The other PE's part is a CPU's. */
int perf_gpu_moe_ht(struct perf_channel *channel, uint64_t n)
{
    struct gpu_side *side = channel->perf->moe;
    int status = FERRY_OK;
    if (side->gpu)
        return run(channel, n);
    for (uint64_t came = 0; came < n && status == FERRY_OK;)
        for (int c = 0; c < side->rings && came < n && status == FERRY_OK; c++)
            came += (uint64_t)receive(channel, side, c, &status);
    return status == FERRY_OK ? ferry_quiet(channel->ctx) : status;
}
