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

int perf_take(struct perf_channel *channel, const struct perf_plan *plan, double *values)
{
    double start = perf_now_ns();
    for (uint64_t i = 0, left = plan->n; i < plan->samples; i++) {
        /* The clock is read once for a sample: where one ends the next begins. */
        uint64_t these = i + 1 < plan->samples ? plan->batch : left;
        int status = plan->test->batch(channel, these);
        double end = perf_now_ns();
        if (status != FERRY_OK)
            return status;
        values[i] = (end - start) / (double)these;
        start = end;
        left -= these;
    }
    return FERRY_OK;
}

/* The threads of one measurement. */
struct crew {
    struct perf *perf;
    const struct perf_plan *plan;
    double *values;
    _Atomic int ready;  /* threads that have warmed up, or failed to */
    _Atomic int status; /* of the first that failed */
};

struct hand {
    struct crew *crew;
    pthread_t thread;
    int channel;
};

static int work(struct crew *crew, int channel)
{
    struct perf_channel *own = &crew->perf->channels[channel];
    int status = crew->plan->test->batch(own, crew->plan->warmup), fine = FERRY_OK;
    if (status != FERRY_OK)
        atomic_compare_exchange_strong(&crew->status, &fine, status);
    atomic_fetch_add(&crew->ready, 1);
    while (atomic_load(&crew->ready) < crew->plan->channels)
        sched_yield();
    if (atomic_load(&crew->status) == FERRY_OK)
        status = perf_take(own, crew->plan, crew->values + (size_t)channel * crew->plan->samples);
    fine = FERRY_OK;
    if (status != FERRY_OK)
        atomic_compare_exchange_strong(&crew->status, &fine, status);
    return atomic_load(&crew->status);
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

int perf_crew(struct perf *perf, const struct perf_plan *plan, double *values)
{
    struct crew crew = {.perf = perf, .plan = plan, .values = values};
    struct hand hands[PERF_MAX_CHANNELS];
    int started = 1;
    for (; started < plan->channels; started++) {
        hands[started] = (struct hand){.crew = &crew, .channel = started};
        if (start(&hands[started]) != 0)
            break;
    }
    if (started == plan->channels) {
        work(&crew, 0);
    } else {
        /* Those that run need not wait for those that do not. */
        atomic_store(&crew.status, FERRY_ERR_SYSTEM);
        atomic_fetch_add(&crew.ready, plan->channels - started + 1);
    }
    for (int i = 1; i < started; i++)
        pthread_join(hands[i].thread, NULL);
    return atomic_load(&crew.status);
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
