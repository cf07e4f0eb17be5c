/* SPDX-License-Identifier: Apache-2.0
 * ferry-perf: the table of tests, and how any of them is measured. Called by the measuring thread of each PE. */
#include "perf.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#define MAX_SAMPLES      1000
#define BYTES_BY_DEFAULT (UINT64_C(4) << 30) /* moved by a test whose iterations the user did not set */

const struct perf_test perf_tests[] = {
    {"put_lat", "put; the target polls the payload's last byte", PERF_NS, PERF_PAIR, 8, 100000, perf_put_lat},
    {"put_flag_lat", "put, fence, put of a flag that the target waits for", PERF_NS, PERF_PAIR, 8, 100000,
     perf_put_flag_lat},
    {"put_signal_lat", "put with signal that the target waits for", PERF_NS, PERF_PAIR, 8, 100000, perf_put_signal_lat},
    {"signal_lat", "signal that the target waits for", PERF_NS, PERF_PAIR, 0, 100000, perf_signal_lat},
    {"put_quiet_lat", "put and quiet", PERF_NS, PERF_ONE, 8, 100000, perf_put_quiet_lat},
    {"get_lat", "get", PERF_NS, PERF_ONE, 8, 100000, perf_get_lat},
    {"fetch_add_lat", "atomic fetch-and-add", PERF_NS, PERF_ONE, 0, 100000, perf_fetch_add_lat},
    {"cswap_lat", "atomic compare-and-swap", PERF_NS, PERF_ONE, 0, 100000, perf_cswap_lat},
    {"quiet_idle", "quiet with nothing outstanding", PERF_NS, PERF_ONE, 0, 1000000, perf_quiet_idle},
    {"barrier_lat", "barrier of all PEs", PERF_NS, PERF_EVERY, 0, 20000, perf_barrier_lat},
    {"put_rate", "small puts, a quiet every 64 per channel", PERF_MOPS, PERF_ONE, 8, 1000000, perf_put_window},
    {"add_rate", "atomic adds, a quiet every 64 per channel", PERF_MOPS, PERF_ONE, 0, 1000000, perf_add_window},
    {"put_bw", "large puts, a quiet every 64 per channel", PERF_GBS, PERF_ONE, 65536, 1000000, perf_put_window},
    {"get_bw", "large gets, a quiet every 64 per channel", PERF_GBS, PERF_ONE, 65536, 1000000, perf_get_window},
    {0}};

static double now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static uint64_t iterations_of(const struct perf_options *options, const struct perf_test *test, size_t bytes)
{
    if (options->iters > 0)
        return options->iters;
    uint64_t most = bytes > 0 ? BYTES_BY_DEFAULT / bytes : test->iters;
    uint64_t n = test->iters < most ? test->iters : most;
    return n < 100 ? 100 : n;
}

static bool takes_part(const struct perf *perf, const struct perf_test *test)
{
    return test->who == PERF_EVERY || perf->me == 0 || (test->who == PERF_PAIR && perf->me == 1);
}

static double in_unit(const struct perf_test *test, double ns, uint64_t n, size_t bytes)
{
    switch (test->unit) {
    case PERF_MOPS:
        return (double)n * 1e3 / ns;
    case PERF_GBS:
        return (double)n * (double)bytes / ns;
    default:
        return ns / (double)n / (test->who == PERF_PAIR ? 2 : 1);
    }
}

/* Iteration i of `samples` groups; the groups differ by one iteration at most. */
static uint64_t group_size(uint64_t n, uint64_t samples, uint64_t i)
{
    return n / samples + (i < n % samples ? 1 : 0);
}

static int take_samples(struct perf *perf, const struct perf_test *test, uint64_t n, double *values, uint64_t samples)
{
    for (uint64_t i = 0; i < samples; i++) {
        uint64_t these = group_size(n, samples, i);
        double start = now_ns();
        int status = test->batch(perf, these);
        if (status != FERRY_OK)
            return status;
        values[i] = in_unit(test, now_ns() - start, these, perf->bytes);
    }
    return FERRY_OK;
}

/* Same start for every test: nothing outstanding, nothing left from another. */
static int prepare(struct perf *perf, size_t bytes)
{
    perf->bytes = bytes;
    perf->sequence = 0;
    for (int i = 0; i < perf->options.channels; i++) {
        int status = ferry_quiet(perf->ctx[i]);
        if (status != FERRY_OK)
            return status;
    }
    int status = ferry_barrier(perf->job);
    memset(perf->words, 0, PERF_WORDS * PERF_WORD_STRIDE * sizeof *perf->words);
    memset(perf->inbox, 0, bytes);
    memset(perf->outbox, 0, bytes);
    return status == FERRY_OK ? ferry_barrier(perf->job) : status;
}

int perf_measure(struct perf *perf, const struct perf_test *test, size_t bytes, struct perf_result *result)
{
    uint64_t n = iterations_of(&perf->options, test, bytes);
    uint64_t warmup = perf->options.warmup == UINT64_MAX ? n / 10 + 1 : perf->options.warmup;
    /* A group of a window's size at least, where there are windows. */
    uint64_t least = test->unit == PERF_NS ? 1 : (uint64_t)PERF_WINDOW * (uint64_t)perf->options.channels;
    uint64_t samples = n / least < MAX_SAMPLES ? n / least : MAX_SAMPLES;
    double values[MAX_SAMPLES];
    samples = samples > 0 ? samples : 1;

    int status = prepare(perf, bytes);
    if (status == FERRY_OK && takes_part(perf, test)) {
        status = test->batch(perf, warmup);
        if (status == FERRY_OK)
            status = take_samples(perf, test, n, values, samples);
    }
    if (status == FERRY_OK)
        status = ferry_barrier(perf->job);
    if (status != FERRY_OK || perf->me != 0)
        return status;
    *result = (struct perf_result){
        .test = test, .bytes = bytes, .pes = perf->n_pes, .channels = perf->options.channels, .iterations = n};
    perf_summarise(values, samples, result);
    return FERRY_OK;
}
