/* SPDX-License-Identifier: Apache-2.0
 * The side-by-side bench: the measures with Ferry, on a context of its own. The same loops as in shmem_ops.c.
 * One thread per PE. */
#include "harness.h"

#include <ferry/ferry.h>
#include <stdio.h>
#include <string.h>

static ferry_job_t *job;
static ferry_ctx_t *ctx;
static uint8_t *words; /* symmetric */

static uint64_t *word(int nth)
{
    return (uint64_t *)(void *)(words + nth * BENCH_WORD_BYTES);
}

static void note(struct bench *b, int status)
{
    if (status != FERRY_OK)
        b->failed = status;
}

static void signal_pp(struct bench *b, size_t size, uint64_t n)
{
    (void)size;
    uint64_t *flag = word(0);
    while (n--) {
        b->sequence++;
        if (bench_first(b))
            note(b, ferry_signal(ctx, flag, b->sequence, FERRY_SIGNAL_SET, b->peer));
        note(b, ferry_wait_until(job, flag, FERRY_CMP_GE, b->sequence));
        if (!bench_first(b))
            note(b, ferry_signal(ctx, flag, b->sequence, FERRY_SIGNAL_SET, b->peer));
    }
}

static void post_signal(struct bench *b, size_t size)
{
    note(b, ferry_put_signal_nbi(ctx, b->remote, b->local, size, word(0), b->sequence, FERRY_SIGNAL_SET, b->peer));
}

static void put_signal_pp(struct bench *b, size_t size, uint64_t n)
{
    while (n--) {
        b->sequence++;
        if (bench_first(b))
            post_signal(b, size);
        note(b, ferry_wait_until(job, word(0), FERRY_CMP_GE, b->sequence));
        if (!bench_first(b))
            post_signal(b, size);
    }
}

static void put_signal(struct bench *b, size_t size, uint64_t n)
{
    while (n--) {
        b->sequence++;
        post_signal(b, size);
    }
    note(b, ferry_quiet(ctx));
}

static void put_nbi(struct bench *b, size_t size, uint64_t n)
{
    while (n--)
        note(b, ferry_put_nbi(ctx, b->remote, b->local, size, b->peer));
    note(b, ferry_quiet(ctx));
}

static void put_quiet(struct bench *b, size_t size, uint64_t n)
{
    while (n--) {
        note(b, ferry_put_nbi(ctx, b->remote, b->local, size, b->peer));
        note(b, ferry_quiet(ctx));
    }
}

static void get(struct bench *b, size_t size, uint64_t n)
{
    while (n--)
        note(b, ferry_get(ctx, b->local, b->remote, size, b->peer));
}

static void fetch_add(struct bench *b, size_t size, uint64_t n)
{
    (void)size;
    uint64_t old;
    while (n--)
        note(b, ferry_atomic_fetch_add(ctx, word(1), 1, &old, b->peer));
}

static void add(struct bench *b, size_t size, uint64_t n)
{
    (void)size;
    while (n--)
        note(b, ferry_atomic_add(ctx, word(1), 1, b->peer));
    note(b, ferry_quiet(ctx));
}

static void quiet(struct bench *b, size_t size, uint64_t n)
{
    (void)size;
    while (n--)
        note(b, ferry_quiet(ctx));
}

static void put_many(struct bench *b, size_t size, uint64_t n)
{
    while (n--) {
        size_t at = bench_next(b, size);
        note(b, ferry_put_nbi(ctx, b->remote + at, b->local + at, size, b->peer));
    }
    note(b, ferry_quiet(ctx));
}

static void get_many(struct bench *b, size_t size, uint64_t n)
{
    while (n--) {
        size_t at = bench_next(b, size);
        note(b, ferry_get_nbi(ctx, b->local + at, b->remote + at, size, b->peer));
    }
    note(b, ferry_quiet(ctx));
}

static void barrier_all(struct bench *b, size_t size, uint64_t n)
{
    (void)size;
    while (n--)
        note(b, ferry_barrier(job));
}

static const struct bench_measure measures[] = {{"signal_pp", BENCH_PAIR, BENCH_WORD, false, false, signal_pp},
                                                {"put_signal_pp", BENCH_PAIR, BENCH_SMALL, false, false, put_signal_pp},
                                                {"put_nbi", BENCH_ONE, BENCH_WORD, false, true, put_nbi},
                                                {"put_quiet", BENCH_ONE, BENCH_WORD, false, true, put_quiet},
                                                {"get", BENCH_ONE, BENCH_WORD, false, true, get},
                                                {"fetch_add", BENCH_ONE, BENCH_WORD, false, true, fetch_add},
                                                {"add", BENCH_ONE, BENCH_WORD, false, true, add},
                                                {"quiet", BENCH_ONE, BENCH_NONE, false, true, quiet},
                                                {"put_signal", BENCH_ONE, BENCH_WORD, false, true, put_signal},
                                                {"put_cached", BENCH_ONE, BENCH_LARGE, false, false, put_many},
                                                {"get_cached", BENCH_ONE, BENCH_LARGE, false, false, get_many},
                                                {"put_cold", BENCH_ONE, BENCH_LARGE, true, false, put_many},
                                                {"get_cold", BENCH_ONE, BENCH_LARGE, true, false, get_many},
                                                {"barrier", BENCH_EVERY, BENCH_NONE, false, false, barrier_all},
                                                {0}};

static void barrier(void)
{
    ferry_barrier(job); /* a failure shows in the next operation */
}

static int set_up(struct bench *b)
{
    size_t span = ferry_n_pes(job) == 2 ? BENCH_SPAN : 4096; /* jobs of other sizes only meet in barriers */
    b->me = ferry_my_pe(job);
    b->pes = ferry_n_pes(job);
    b->peer = b->me ^ 1;
    bench_pin(b->me, b->pes);
    b->local = ferry_align(job, 4096, span);
    b->remote = ferry_align(job, 4096, span);
    words = ferry_calloc(job, 1, 4096);
    if (!b->local || !b->remote || !words)
        return FERRY_ERR_NOMEM;
    memset(b->me == 0 ? b->local : b->remote, b->me + 1, span);
    return ferry_ctx_create(job, 0, &ctx);
}

int main(int argc, char **argv)
{
    struct bench b = {0};
    if (ferry_init(NULL, &job) != FERRY_OK)
        return 1; /* the library said why */
    int status = set_up(&b);
    if (status != FERRY_OK) {
        fprintf(stderr, "ferry_ops: cannot set up: %s\n", ferry_status_string(status));
        ferry_abort(job, 1);
        return 1;
    }
    status = bench_main(argc, argv, &b, barrier, measures);
    int ended = ferry_finalize(job);
    return status == 0 && ended == FERRY_OK ? 0 : 1;
}
