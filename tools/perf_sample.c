/* SPDX-License-Identifier: Apache-2.0
 * ferry-perf: how samples are taken, by one thread or by one for each channel, and brought together at PE 0. */
#include "perf.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>

double perf_now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

/* Iterations of sample i; the last one has the rest. */
static uint64_t size_of(const struct perf_plan *plan, uint64_t i)
{
    return i + 1 < plan->samples ? plan->batch : plan->n - i * plan->batch;
}

/* One channel. The clock is read once for a sample: where one ends the next begins. */
static int take_alone(struct perf_channel *channel, const struct perf_plan *plan, double *values)
{
    int status = plan->test->batch(channel, plan->warmup);
    double start = perf_now_ns();
    for (uint64_t i = 0; i < plan->samples && status == FERRY_OK; i++) {
        uint64_t these = size_of(plan, i);
        status = plan->test->batch(channel, these);
        double end = perf_now_ns();
        values[i] = (channel->own_ns > 0 ? channel->own_ns : end - start) / (double)these;
        start = end;
    }
    return status;
}

struct span {
    double start, end;
};

/* The threads of one measurement. */
struct crew {
    struct perf *perf;
    const struct perf_plan *plan;
    struct span *spans;        /* [channel * plan->samples + i] */
    _Atomic uint64_t arrivals; /* of threads at meetings */
    _Atomic int status;        /* of the first that failed */
};

struct hand {
    struct crew *crew;
    pthread_t thread;
    int channel;
};

static int fail(struct crew *crew, int status)
{
    int fine = FERRY_OK;
    atomic_compare_exchange_strong(&crew->status, &fine, status);
    return status;
}

/* Waits for all threads to come to their meeting of that number, counted from 1. A status: of whoever fails. */
static int meet(struct crew *crew, uint64_t number)
{
    const uint64_t all = number * (uint64_t)crew->plan->channels;
    atomic_fetch_add(&crew->arrivals, 1);
    for (unsigned spins = 1; atomic_load(&crew->arrivals) < all; spins++) {
        if (atomic_load(&crew->status) != FERRY_OK)
            return atomic_load(&crew->status);
        if (spins % 64 == 0)
            sched_yield();
    }
    return FERRY_OK;
}

/* The threads begin each sample together, as otherwise those that share a core would each tell of the time when it had
 * it. */
static int work(struct crew *crew, int channel)
{
    const struct perf_plan *plan = crew->plan;
    struct perf_channel *own = &crew->perf->channels[channel];
    struct span *spans = crew->spans + (size_t)channel * plan->samples;
    int status = plan->test->batch(own, plan->warmup);
    for (uint64_t i = 0; i < plan->samples && status == FERRY_OK; i++) {
        status = meet(crew, i + 1);
        spans[i].start = perf_now_ns();
        if (status == FERRY_OK)
            status = plan->test->batch(own, size_of(plan, i));
        spans[i].end = perf_now_ns();
    }
    return status == FERRY_OK ? status : fail(crew, status);
}

static void *hand_main(void *arg)
{
    struct hand *hand = arg;
    work(hand->crew, hand->channel);
    return NULL;
}

/* On a core of its own, or wherever the process may run: not where the main thread was pinned. */
static int start(struct hand *hand)
{
    struct perf *perf = hand->crew->perf;
    pthread_attr_t attr;
    cpu_set_t set = perf->allowed;
    int core = perf_core(perf, hand->channel), failed;
    if (core >= 0) {
        CPU_ZERO(&set);
        CPU_SET((size_t)core, &set);
    }
    pthread_attr_init(&attr);
    if (CPU_COUNT(&set) > 0)
        pthread_attr_setaffinity_np(&attr, sizeof set, &set);
    failed = pthread_create(&hand->thread, &attr, hand_main, hand);
    pthread_attr_destroy(&attr);
    return failed;
}

/* From the first thread's start to the last one's end. */
static void judge(const struct crew *crew, double *values)
{
    const struct perf_plan *plan = crew->plan;
    for (uint64_t i = 0; i < plan->samples; i++) {
        struct span all = crew->spans[i];
        for (int c = 1; c < plan->channels; c++) {
            const struct span *one = &crew->spans[(uint64_t)c * plan->samples + i];
            all.start = one->start < all.start ? one->start : all.start;
            all.end = one->end > all.end ? one->end : all.end;
        }
        values[i] = (all.end - all.start) / (double)(size_of(plan, i) * (uint64_t)plan->channels);
    }
}

static int take_together(struct perf *perf, const struct perf_plan *plan, double *values)
{
    struct crew crew = {.perf = perf, .plan = plan};
    struct hand hands[PERF_MAX_CHANNELS];
    int started = 1;
    crew.spans = calloc((size_t)plan->channels * (size_t)plan->samples, sizeof *crew.spans);
    if (!crew.spans)
        return FERRY_ERR_NOMEM;
    for (; started < plan->channels; started++) {
        hands[started] = (struct hand){.crew = &crew, .channel = started};
        if (start(&hands[started]) != 0)
            break;
    }
    if (started == plan->channels)
        work(&crew, 0);
    else
        fail(&crew, FERRY_ERR_SYSTEM);
    for (int i = 1; i < started; i++)
        pthread_join(hands[i].thread, NULL);
    int status = atomic_load(&crew.status);
    if (status == FERRY_OK)
        judge(&crew, values);
    free(crew.spans);
    return status;
}

int perf_take(struct perf *perf, const struct perf_plan *plan, double *values)
{
    return plan->channels > 1 ? take_together(perf, plan, values) : take_alone(&perf->channels[0], plan, values);
}

/* Sends `n` samples to place `at` of PE 0's. */
static int tell(struct perf *perf, const double *mine, uint64_t n, size_t at)
{
    ferry_ctx_t *ctx = perf->channels[0].ctx;
    int status = ferry_put(ctx, perf->samples + at, mine, (size_t)n * sizeof *mine, 0);
    if (status == FERRY_OK)
        status = ferry_put(ctx, perf->agreed + perf->me, &n, sizeof n, 0);
    return status == FERRY_OK ? ferry_quiet(ctx) : status;
}

int perf_gather(struct perf *perf, const double *mine, uint64_t n, uint64_t share, size_t *total)
{
    int status = n > 0 ? tell(perf, mine, n, (size_t)perf->me * (size_t)share) : FERRY_OK;
    if (status == FERRY_OK)
        status = ferry_barrier(perf->job);
    *total = 0;
    if (status != FERRY_OK || perf->me != 0)
        return status;
    for (int pe = 0; pe < perf->n_pes; pe++) {
        const double *from = perf->samples + (size_t)pe * (size_t)share;
        for (uint64_t i = 0; i < perf->agreed[pe]; i++)
            perf->samples[(*total)++] = from[i];
    }
    return FERRY_OK;
}
