/* SPDX-License-Identifier: Apache-2.0
 * The side-by-side bench: command line, repetition, statistics. One thread per PE. */
#include "harness.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <valgrind/callgrind.h>

#define MAX_BATCHES 101
#define MAX_ITERS   (UINT64_C(1) << 22)

struct plan {
    const char *only;  /* comma list of measures; NULL: all */
    const char *sizes; /* comma list that takes the place of the lists below; NULL: those */
    unsigned batches;
    double batch_ns;
    uint64_t count; /* not 0: no times, but this many iterations for callgrind, and three times as many */
    uint64_t every; /* iterations of a batch in which all PEs take part */
    bool quick;
};

static const size_t word_sizes[] = {8, 0};
static const size_t small_sizes[] = {8, 64, 512, 4096, 32768, 262144, 0};
static const size_t large_sizes[] = {4096, 16384, 65536, 262144, 1 << 20, 4 << 20, 16 << 20, 0};
/* --quick: those for which there are targets */
static const size_t small_quick[] = {64, 4096, 0};
static const size_t large_quick[] = {4096, 65536, 1 << 20, 16 << 20, 0};

static double now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

void bench_pin(int nth, int pes)
{
    cpu_set_t allowed, one;
    if (sched_getaffinity(0, sizeof allowed, &allowed) != 0 || CPU_COUNT(&allowed) < pes)
        return;
    int cpu = -1;
    while (nth >= 0)
        nth -= CPU_ISSET((size_t)++cpu, &allowed) ? 1 : 0;
    CPU_ZERO(&one);
    CPU_SET((size_t)cpu, &one);
    sched_setaffinity(0, sizeof one, &one);
}

static bool listed(const char *list, const char *name)
{
    size_t length = strlen(name);
    if (!list)
        return true;
    for (const char *at = list; at; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL)
        if (strncmp(at, name, length) == 0 && (at[length] == ',' || at[length] == '\0'))
            return true;
    return false;
}

/* The list of a measure, or that of the user, in `own`. */
static const size_t *sizes_of(const struct plan *plan, const struct bench_measure *measure, size_t own[16])
{
    size_t n = 0;
    if (measure->sizes <= BENCH_WORD)
        return word_sizes;
    if (!plan->sizes && measure->sizes == BENCH_SMALL)
        return plan->quick ? small_quick : small_sizes;
    if (!plan->sizes)
        return plan->quick ? large_quick : large_sizes;
    for (const char *at = plan->sizes; at && n < 15; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL) {
        own[n] = strtoull(at, NULL, 0);
        n += own[n] > 0 && own[n] <= BENCH_SPAN / 2 ? 1 : 0;
    }
    own[n] = 0;
    return own;
}

/* Both PEs of a pair have to make the same number, so it follows from the size and not from the clock. */
static uint64_t pair_iters(size_t size)
{
    uint64_t iters = size <= 512 ? 8000 : 8000 * 512 / size * 4;
    return iters < 20 ? 20 : iters < 8000 ? iters : 8000;
}

static double timed(struct bench *b, const struct bench_measure *measure, size_t size, uint64_t n)
{
    double begin = now_ns();
    measure->batch(b, size, n);
    return now_ns() - begin;
}

/* How many iterations fill a batch. Warms up on the way; for a cold measure that is one walk through everything, so
 * that page tables are as filled for the first batch as for the last. */
static uint64_t calibrate(struct bench *b, const struct plan *plan, const struct bench_measure *measure, size_t size)
{
    uint64_t n = 1;
    if (measure->cold)
        timed(b, measure, size, BENCH_SPAN / size);
    for (;;) {
        double spent = timed(b, measure, size, n);
        if (spent >= plan->batch_ns / 4 || n >= MAX_ITERS) {
            double fitting = (double)n * plan->batch_ns / (spent > 1 ? spent : 1);
            return fitting < 2 ? 2 : fitting > (double)MAX_ITERS ? MAX_ITERS : (uint64_t)fitting;
        }
        n *= spent < plan->batch_ns / 16 ? 4 : 2;
    }
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static uint64_t iterations(struct bench *b, const struct plan *plan, const struct bench_measure *measure, size_t size)
{
    if (measure->who == BENCH_ONE)
        return calibrate(b, plan, measure, size);
    uint64_t n = measure->who == BENCH_PAIR ? pair_iters(size) : plan->every;
    measure->batch(b, size, n / 4 + 1);
    return n;
}

static void measure_times(struct bench *b, const struct plan *plan, const struct bench_measure *measure, size_t size)
{
    double each[MAX_BATCHES];
    uint64_t n = iterations(b, plan, measure, size);
    for (unsigned i = 0; i < plan->batches; i++)
        each[i] = timed(b, measure, size, n) / (double)n / (measure->who == BENCH_PAIR ? 2 : 1);
    if (b->me != 0)
        return;
    qsort(each, plan->batches, sizeof *each, by_value);
    printf("%s %zu %.3f %.3f\n", measure->name, size, each[plan->batches / 2], each[0]);
    fflush(stdout);
}

/* Two stretches, so that what a stretch costs once drops out of the difference. */
static void count_instructions(struct bench *b, const struct plan *plan, const struct bench_measure *measure,
                               size_t size)
{
    char label[64];
    measure->batch(b, size, plan->count);
    for (uint64_t times = 1; times <= 3; times += 2) {
        snprintf(label, sizeof label, "%s %zu %llu", measure->name, size, (unsigned long long)(times * plan->count));
        CALLGRIND_ZERO_STATS;
        CALLGRIND_TOGGLE_COLLECT;
        measure->batch(b, size, times * plan->count);
        CALLGRIND_TOGGLE_COLLECT;
        CALLGRIND_DUMP_STATS_AT(label);
    }
}

static bool takes_part(const struct bench *b, const struct bench_measure *measure)
{
    return measure->who == BENCH_EVERY || b->me == 0 || (measure->who == BENCH_PAIR && b->me == 1);
}

static void run_measure(struct bench *b, const struct plan *plan, bench_barrier_fn barrier,
                        const struct bench_measure *measure)
{
    size_t own[16];
    if (plan->count && !measure->counted)
        return;
    for (const size_t *size = sizes_of(plan, measure, own); *size; size++) {
        b->at = 0;
        b->stride = measure->cold ? *size : 0;
        barrier();
        if (takes_part(b, measure) && plan->count)
            count_instructions(b, plan, measure, *size);
        else if (takes_part(b, measure))
            measure_times(b, plan, measure, *size);
    }
    barrier();
}

static bool parse(int argc, char **argv, struct plan *plan)
{
    *plan = (struct plan){.batches = 15, .batch_ns = 2e6, .every = 5000};
    for (int option; (option = getopt(argc, argv, "t:s:b:m:e:c:q")) != -1;) {
        if (option == 't')
            plan->only = optarg;
        else if (option == 's')
            plan->sizes = optarg;
        else if (option == 'b')
            plan->batches = (unsigned)strtoul(optarg, NULL, 10);
        else if (option == 'm')
            plan->batch_ns = strtod(optarg, NULL) * 1e6;
        else if (option == 'e')
            plan->every = strtoull(optarg, NULL, 10);
        else if (option == 'c')
            plan->count = strtoull(optarg, NULL, 10);
        else if (option == 'q')
            plan->quick = true;
        else
            return false;
    }
    return plan->batches >= 1 && plan->batches <= MAX_BATCHES && plan->batch_ns > 0 && plan->every > 0;
}

int bench_main(int argc, char **argv, struct bench *b, bench_barrier_fn barrier, const struct bench_measure *measures)
{
    struct plan plan;
    if (!parse(argc, argv, &plan)) {
        fprintf(stderr,
                "usage: %s [-t measure,...] [-s bytes,...] [-b batches] [-m milliseconds of a batch]\n"
                "       [-e iterations in which all take part] [-c iterations for callgrind] [-q]\n",
                argv[0]);
        return 2;
    }
    for (const struct bench_measure *measure = measures; measure->name && b->failed == 0; measure++)
        if (listed(plan.only, measure->name))
            run_measure(b, &plan, barrier, measure);
    if (b->failed != 0)
        fprintf(stderr, "%s: pe %d: an operation failed with status %d\n", argv[0], b->me, b->failed);
    else if (b->me == 0)
        printf("# end\n");
    fflush(stdout);
    return b->failed == 0 ? 0 : 1;
}
