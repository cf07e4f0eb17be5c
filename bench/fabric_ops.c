/* SPDX-License-Identifier: Apache-2.0
 * What bench/fabrics asks of Ferry beyond ferry-perf: the loops of fi_bare.c in Ferry's calls, and put, wait, signal one after
 * the other. Two PEs, each on a core of its own; one thread per PE.
 * usage: ferry-run -n 2 fabric_ops put_lat|puts|count|put_wait_signal BYTES ITERATIONS [BATCHES]
 * Prints ns per operation: the median of the batches, and the best. put_lat: half a round trip of a put that the target waits
 * for; puts: complete at the end of the batch; count: 32 puts at a time under callgrind. */
#include <ferry/ferry.h>

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#if __has_include(<valgrind/callgrind.h>)
#include <valgrind/callgrind.h>
#else
#define CALLGRIND_TOGGLE_COLLECT ((void)0)
#endif

#define COUNTED 32u
#define BATCHES 64
#define PAGE    4096u

struct bench {
    ferry_job_t *job;
    ferry_ctx_t *ctx;
    char *memory, *local; /* both symmetric */
    uint64_t *signal;
    uint64_t sequence;
    size_t bytes;
    int peer;
};

/* One way of each exchange: a put of a number, which the peer waits for as a program does. fi_bare.c does the same. */
static int exchange(struct bench *b, uint64_t n)
{
    int first = ferry_my_pe(b->job) == 0, rc = FERRY_OK;

    while (n-- && rc == FERRY_OK) {
        uint64_t number = ++b->sequence;
        if (!first)
            rc = ferry_wait_until(b->job, b->signal, FERRY_CMP_GE, number);
        if (rc == FERRY_OK)
            rc = ferry_put(b->ctx, b->signal, &number, sizeof number, b->peer);
        if (rc == FERRY_OK && first)
            rc = ferry_wait_until(b->job, b->signal, FERRY_CMP_GE, number);
    }
    return rc;
}

static int puts_in_a_row(struct bench *b, uint64_t n)
{
    int rc = FERRY_OK;

    while (n-- && rc == FERRY_OK)
        rc = ferry_put_nbi(b->ctx, b->memory, b->local, b->bytes, b->peer);
    return rc == FERRY_OK ? ferry_quiet(b->ctx) : rc;
}

static int counted(struct bench *b, uint64_t n)
{
    int rc = FERRY_OK;

    for (uint64_t left = n; left >= COUNTED && rc == FERRY_OK; left -= COUNTED) {
        CALLGRIND_TOGGLE_COLLECT;
        for (unsigned i = 0; i < COUNTED && rc == FERRY_OK; i++)
            rc = ferry_put_nbi(b->ctx, b->memory, b->local, b->bytes, b->peer);
        CALLGRIND_TOGGLE_COLLECT;
        if (rc == FERRY_OK)
            rc = ferry_quiet(b->ctx);
    }
    return rc;
}

static int put_wait_signal(struct bench *b, uint64_t n)
{
    int rc = FERRY_OK;

    while (n-- && rc == FERRY_OK) {
        rc = ferry_put_nbi(b->ctx, b->memory, b->local, b->bytes, b->peer);
        if (rc == FERRY_OK)
            rc = ferry_quiet(b->ctx);
        if (rc == FERRY_OK)
            rc = ferry_signal(b->ctx, b->signal, 1, FERRY_SIGNAL_ADD, b->peer);
    }
    return rc == FERRY_OK ? ferry_quiet(b->ctx) : rc;
}

static void pin(int pe)
{
    cpu_set_t all, one;
    int cpu = -1;

    sched_getaffinity(0, sizeof all, &all);
    for (int i = 0; i < CPU_SETSIZE; i++)
        if (CPU_ISSET(i, &all) && (cpu < 0 || pe))
            cpu = i;
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    sched_setaffinity(0, sizeof one, &one);
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double now_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static int initiator(struct bench *b, const char *test, uint64_t n, int batches)
{
    int (*batch)(struct bench *, uint64_t) = strcmp(test, "count") == 0     ? counted
                                             : strcmp(test, "put_lat") == 0 ? exchange
                                             : strcmp(test, "puts") == 0    ? puts_in_a_row
                                                                            : put_wait_signal;
    double ns[BATCHES], ways = batch == exchange ? 2 : 1;
    /* what the first operations do once is not counted */
    int rc = batch == counted ? ferry_put(b->ctx, b->memory, b->local, b->bytes, b->peer) : batch(b, n);

    if (rc == FERRY_OK)
        rc = ferry_quiet(b->ctx);
    for (int i = 0; i < batches && rc == FERRY_OK; i++) {
        double start = now_ns();
        rc = batch(b, n);
        ns[i] = (now_ns() - start) / (double)n / ways;
    }
    if (rc != FERRY_OK)
        return rc;
    qsort(ns, (size_t)batches, sizeof *ns, by_value);
    printf("%s %zu %.2f %.2f\n", test, b->bytes, ns[batches / 2], ns[0]);
    return FERRY_OK;
}

static int run(struct bench *b, char **argv, int batches)
{
    int rc = ferry_ctx_create(b->job, 0, &b->ctx);

    b->bytes = strtoull(argv[2], NULL, 0);
    b->peer = 1 - ferry_my_pe(b->job);
    b->memory = ferry_align(b->job, PAGE, b->bytes); /* as in fi_bare.c: copies are faster by a tenth */
    b->local = ferry_align(b->job, PAGE, b->bytes);
    b->signal = ferry_calloc(b->job, 1, sizeof *b->signal);
    if (rc == FERRY_OK && (!b->memory || !b->local || !b->signal))
        rc = FERRY_ERR_NOMEM;
    if (rc == FERRY_OK) {
        memset(b->memory, 0, b->bytes);
        memset(b->local, 0, b->bytes);
        rc = ferry_barrier(b->job);
    }
    if (rc == FERRY_OK && ferry_my_pe(b->job) == 0)
        rc = initiator(b, argv[1], strtoull(argv[3], NULL, 0), batches);
    else if (rc == FERRY_OK && strcmp(argv[1], "put_lat") == 0)
        rc = exchange(b, strtoull(argv[3], NULL, 0) * (uint64_t)(batches + 1)); /* and the one that warms up */
    return rc == FERRY_OK ? ferry_barrier(b->job) : rc;
}

int main(int argc, char **argv)
{
    struct bench b = {0};
    int batches = argc > 4 ? atoi(argv[4]) : 9, rc;

    if (argc < 4 || batches < 1 || batches > BATCHES)
        return 64;
    if (ferry_init(NULL, &b.job) != FERRY_OK)
        return 1;
    pin(ferry_my_pe(b.job));
    rc = run(&b, argv, batches);
    if (rc != FERRY_OK) {
        struct ferry_error why = {.size = sizeof why};
        ferry_last_error(b.job, &why);
        fprintf(stderr, "fabric_ops: %s\n", why.message);
    }
    return ferry_finalize(b.job) == FERRY_OK && rc == FERRY_OK ? 0 : 1;
}
