/* SPDX-License-Identifier: Apache-2.0
 * ferry-perf: how any test is measured: pace, warm-up, samples. Called by the main thread of each PE. */
#include "perf.h"

#include <stdlib.h>
#include <string.h>

#define BYTES_BY_DEFAULT (UINT64_C(16) << 30) /* moved by a channel, at most, whose iterations the user did not set */
#define TIME_BY_DEFAULT  5e8                  /* ns, about, that they take */
#define LEAST            20u                  /* iterations, however long they take */
#define PACE_MOST        64u                  /* iterations that tell how long one takes */
#define PACE_BYTES       (UINT64_C(16) << 20) /* that they move */
#define SAMPLE_NS        4000.0   /* that a sample lasts at least, so that reading the clock does not show in it */
#define CREW_NS          500000.0 /* the same where threads have to meet before each sample */
#define KERNEL_NS        2e6      /* the same where a kernel has to be launched */
#define KERNEL_PACE      65536u   /* PACE_MOST where many threads share them */

static bool in_a_pair(const struct perf *perf)
{
    return (perf->me | 1) < perf->n_pes;
}

static bool takes_part(const struct perf *perf, const struct perf_test *test)
{
    return test->who == PERF_EVERY || (in_a_pair(perf) && (perf->me % 2 == 0 || test->who == PERF_PAIR));
}

static bool takes_samples(const struct perf *perf, const struct perf_test *test)
{
    return test->who == PERF_EVERY || (in_a_pair(perf) && perf->me % 2 == 0);
}

/* Of ns per iteration. */
static double in_unit(const struct perf *perf, const struct perf_test *test, size_t bytes, double ns)
{
    switch (test->unit) {
    case PERF_MOPS:
        return 1e3 / ns;
    case PERF_GBS:
        if (test->batch == perf_moe_ht)
            return (double)bytes * PERF_HT_CHUNKS * perf_channels(perf, test) * (perf->n_pes - 1) / ns;
        return (double)bytes / ns;
    case PERF_US:
        return ns / 1e3;
    default:
        return test->who == PERF_PAIR ? ns / 2 : ns;
    }
}

/* Boxes and words of each channel of the test; its contexts. */
static int lay_out(struct perf *perf, const struct perf_test *test, size_t bytes, int channels)
{
    bool cold = perf->options.cold && (test->flags & PERF_REUSE);
    size_t step = (bytes + 63) / 64 * 64, span = step;
    if (cold) {
        span = PERF_COLD_BYTES / (size_t)channels / 64 * 64;
        span = span > 2 * step ? span : 2 * step;
    }
    uint64_t window = bytes > 0 ? PERF_WINDOW_BYTES / bytes : PERF_WINDOW;
    window = window < 1 ? 1 : window > PERF_WINDOW ? PERF_WINDOW : window;
    for (int i = 0; i < channels; i++) {
        ferry_ctx_t *ctx = perf->channels[i].ctx;
        if (!ctx) {
            int status = ferry_ctx_create(perf->job, 0, &ctx);
            if (status != FERRY_OK)
                return status;
            perf->n_contexts = i + 1;
        }
        perf->channels[i] = (struct perf_channel){.perf = perf,
                                                  .ctx = ctx,
                                                  .inbox = perf->inbox + (size_t)i * span,
                                                  .outbox = perf->outbox + (size_t)i * span,
                                                  .words = perf->words + (size_t)i * PERF_WORDS * PERF_WORD_STRIDE,
                                                  .bytes = bytes,
                                                  .stride = cold ? step : 0,
                                                  .span = span,
                                                  .window = window,
                                                  .number = i,
                                                  .peer = perf->me ^ 1,
                                                  .first = perf->me % 2 == 0};
    }
    if (!test->begin) {
        memset(perf->inbox, 0, (size_t)channels * span);
        memset(perf->outbox, 0, (size_t)channels * span);
    }
    memset(perf->words, 0, (size_t)channels * PERF_WORDS * PERF_WORD_STRIDE * sizeof *perf->words);
    return FERRY_OK;
}

/* Same start for every test: nothing outstanding, nothing left from another. */
static int prepare(struct perf *perf, const struct perf_test *test, size_t bytes, int channels)
{
    for (int i = 0; i < perf->n_contexts; i++) {
        int status = ferry_quiet(perf->channels[i].ctx);
        if (status != FERRY_OK)
            return status;
    }
    int status = ferry_barrier(perf->job);
    if (status == FERRY_OK)
        status = lay_out(perf, test, bytes, channels);
    memset(perf->agreed, 0, ((size_t)perf->n_pes + 1) * sizeof *perf->agreed);
    return status == FERRY_OK ? ferry_barrier(perf->job) : status;
}

/* A few iterations, after the one that connects; the same number on both sides of a pair. */
static int find_pace(struct perf *perf, const struct perf_test *test, size_t bytes, double *ns)
{
    const uint64_t most = test->flags & PERF_RINGS_8 && test->unit != PERF_US ? KERNEL_PACE : PACE_MOST;
    uint64_t few = bytes > 0 ? PACE_BYTES / bytes : PACE_MOST;
    if (test->who == PERF_EVERY && bytes > 0)
        few = 0; /* each of its iterations is many messages */
    few = few < 2 ? 2 : few > most ? most : few;
    int status = test->batch(&perf->channels[0], 1);
    double start = perf_now_ns();
    if (status == FERRY_OK)
        status = test->batch(&perf->channels[0], few);
    const double own = perf->channels[0].own_ns, all = own > 0 ? own : perf_now_ns() - start;
    *ns = all / (double)few;
    return status;
}

/* What the user said, or what PE 0 finds fit for the slowest pace; 0: somebody cannot do it. */
static uint64_t decide(const struct perf *perf, const struct perf_test *test, size_t bytes)
{
    uint64_t most = test->iters;
    double slowest = 0;
    for (int pe = 0; pe < perf->n_pes; pe++) {
        if (perf->samples[pe] < 0)
            return 0;
        slowest = perf->samples[pe] > slowest ? perf->samples[pe] : slowest;
    }
    if (perf->options.iters > 0)
        return perf->options.iters;
    if (bytes > 0 && most > BYTES_BY_DEFAULT / bytes)
        most = BYTES_BY_DEFAULT / bytes;
    if (slowest > 0 && (double)most > TIME_BY_DEFAULT / slowest)
        most = (uint64_t)(TIME_BY_DEFAULT / slowest);
    return most < LEAST ? LEAST : most;
}

/* Iterations, as PE 0 decides when it knows the pace of all; a negative one says that the transport lacks the
 * operation. Collective. */
static int agree(struct perf *perf, const struct perf_test *test, size_t bytes, double pace, uint64_t *n)
{
    ferry_ctx_t *ctx = perf->channels[0].ctx;
    uint64_t *decided = &perf->agreed[perf->n_pes];
    int status = ferry_put(ctx, &perf->samples[perf->me], &pace, sizeof pace, 0);
    if (status == FERRY_OK)
        status = ferry_quiet(ctx);
    if (status == FERRY_OK)
        status = ferry_barrier(perf->job);
    if (status == FERRY_OK && perf->me == 0)
        *n = decide(perf, test, bytes);
    for (int pe = 0; perf->me == 0 && pe < perf->n_pes && status == FERRY_OK; pe++)
        status = ferry_put(ctx, decided, n, sizeof *n, pe);
    if (status == FERRY_OK)
        status = ferry_quiet(ctx);
    if (status == FERRY_OK)
        status = ferry_barrier(perf->job);
    *n = *decided;
    return status;
}

/* Of a PE that takes samples: how many iterations make one. */
static struct perf_plan make_plan(const struct perf *perf, const struct perf_test *test, double pace, uint64_t n,
                                  uint64_t share)
{
    struct perf_plan plan = {.test = test, .channels = perf_channels(perf, test)};
    if (!(test->flags & PERF_WINDOWS))
        plan.channels = 1; /* at most one thread: such a test drives its channels itself */
    plan.n = (n + (uint64_t)plan.channels - 1) / (uint64_t)plan.channels;
    plan.warmup = perf->options.warmup == UINT64_MAX ? n / 10 + 1 : perf->options.warmup;
    plan.warmup = (plan.warmup + (uint64_t)plan.channels - 1) / (uint64_t)plan.channels;
    plan.batch = test->flags & PERF_WINDOWS ? perf->channels[0].window : 1;
    const double least = test->flags & PERF_GPU ? KERNEL_NS : plan.channels > 1 ? CREW_NS : SAMPLE_NS;
    while (plan.batch < plan.n && ((double)plan.batch * pace < least || plan.n / plan.batch > share))
        plan.batch *= 2;
    plan.samples = plan.n / plan.batch;
    plan.samples = plan.samples > 0 ? plan.samples : 1;
    return plan;
}

/* The part of a PE that takes samples. *values is for free. */
static int sample(struct perf *perf, const struct perf_plan *plan, size_t bytes, double **values)
{
    *values = calloc((size_t)plan->samples, sizeof **values);
    if (!*values)
        return FERRY_ERR_NOMEM;
    int status = perf_take(perf, plan, *values);
    for (uint64_t i = 0; i < plan->samples && status == FERRY_OK; i++)
        (*values)[i] = in_unit(perf, plan->test, bytes, (*values)[i]);
    return status;
}

/* *iterations 0: the transport lacks the operation, and all PEs know. */
static int run_part(struct perf *perf, const struct perf_test *test, size_t bytes, struct perf_result *result,
                    uint64_t *iterations)
{
    double pace = 0, *values = NULL;
    size_t total = 0;
    uint64_t n = 0, share = PERF_SAMPLES / (uint64_t)perf->n_pes;
    share = share > 0 ? share : 1;
    int status = takes_part(perf, test) ? find_pace(perf, test, bytes, &pace) : FERRY_OK;
    if (status == FERRY_ERR_UNSUPPORTED) {
        pace = -1;
        status = FERRY_OK;
    }
    if (status == FERRY_OK)
        status = agree(perf, test, bytes, pace, &n);
    *iterations = n;
    if (status != FERRY_OK || n == 0)
        return status;
    struct perf_plan plan = make_plan(perf, test, pace, n, share);
    if (takes_samples(perf, test))
        status = sample(perf, &plan, bytes, &values);
    else if (takes_part(perf, test))
        status = test->batch(&perf->channels[0], plan.warmup + plan.n);
    if (status == FERRY_OK)
        status = perf_gather(perf, values, takes_samples(perf, test) ? plan.samples : 0, share, &total);
    free(values);
    if (status != FERRY_OK || perf->me != 0)
        return status;
    *result = (struct perf_result){.test = test,
                                   .bytes = bytes,
                                   .pes = perf->n_pes,
                                   .channels = perf_channels(perf, test),
                                   .iterations = plan.n * (uint64_t)plan.channels};
    perf_summarise(perf->samples, total, result);
    return FERRY_OK;
}

int perf_measure(struct perf *perf, const struct perf_test *test, size_t bytes, struct perf_result *result)
{
    uint64_t iterations = 1;
    perf->running = test;
    perf->running_bytes = bytes;
    perf->wrong[0] = '\0';
    int status = prepare(perf, test, bytes, test->flags & PERF_GPU ? 1 : perf_channels(perf, test));
    if (status == FERRY_OK && test->begin)
        status = test->begin(perf);
    if (status == FERRY_OK)
        status = run_part(perf, test, bytes, result, &iterations);
    if (status == FERRY_OK && test->end) {
        status = ferry_barrier(perf->job);
        test->end(perf);
    }
    return status == FERRY_OK && iterations == 0 ? FERRY_ERR_UNSUPPORTED : status;
}
