/* SPDX-License-Identifier: Apache-2.0
 * The side-by-side bench: the measures with OpenSHMEM, by version 1.4 of its interface only, so that every
 * implementation can be measured. One thread per PE. */
#include "harness.h"

#include <shmem.h>
#include <stdio.h>
#include <string.h>

static uint8_t *words; /* symmetric */

static long *word(int nth)
{
    return (long *)(void *)(words + nth * BENCH_WORD_BYTES);
}

static void signal_pp(struct bench *b, size_t size, uint64_t n)
{
    (void)size;
    long *flag = word(0);
    while (n--) {
        b->sequence++;
        if (bench_first(b))
            shmem_long_p(flag, (long)b->sequence, b->peer);
        shmem_long_wait_until(flag, SHMEM_CMP_GE, (long)b->sequence);
        if (!bench_first(b))
            shmem_long_p(flag, (long)b->sequence, b->peer);
    }
}

/* What 1.4 has in place of put_signal: data, fence, flag. */
static void put_flag(struct bench *b, size_t size)
{
    shmem_putmem_nbi(b->remote, b->local, size, b->peer);
    shmem_fence();
    shmem_long_p(word(0), (long)b->sequence, b->peer);
}

static void put_signal_pp(struct bench *b, size_t size, uint64_t n)
{
    while (n--) {
        b->sequence++;
        if (bench_first(b))
            put_flag(b, size);
        shmem_long_wait_until(word(0), SHMEM_CMP_GE, (long)b->sequence);
        if (!bench_first(b))
            put_flag(b, size);
    }
}

static void put_signal(struct bench *b, size_t size, uint64_t n)
{
    while (n--) {
        b->sequence++;
        put_flag(b, size);
    }
    shmem_quiet();
}

static void put_nbi(struct bench *b, size_t size, uint64_t n)
{
    while (n--)
        shmem_putmem_nbi(b->remote, b->local, size, b->peer);
    shmem_quiet();
}

static void put_quiet(struct bench *b, size_t size, uint64_t n)
{
    while (n--) {
        shmem_putmem_nbi(b->remote, b->local, size, b->peer);
        shmem_quiet();
    }
}

static void get(struct bench *b, size_t size, uint64_t n)
{
    while (n--)
        shmem_getmem(b->local, b->remote, size, b->peer);
}

static void fetch_add(struct bench *b, size_t size, uint64_t n)
{
    (void)size;
    while (n--)
        shmem_long_atomic_fetch_add(word(1), 1, b->peer);
}

static void add(struct bench *b, size_t size, uint64_t n)
{
    (void)size;
    while (n--)
        shmem_long_atomic_add(word(1), 1, b->peer);
    shmem_quiet();
}

static void quiet(struct bench *b, size_t size, uint64_t n)
{
    (void)b;
    (void)size;
    while (n--)
        shmem_quiet();
}

static void put_many(struct bench *b, size_t size, uint64_t n)
{
    while (n--) {
        size_t at = bench_next(b, size);
        shmem_putmem_nbi(b->remote + at, b->local + at, size, b->peer);
    }
    shmem_quiet();
}

static void get_many(struct bench *b, size_t size, uint64_t n)
{
    while (n--) {
        size_t at = bench_next(b, size);
        shmem_getmem_nbi(b->local + at, b->remote + at, size, b->peer);
    }
    shmem_quiet();
}

static void barrier_all(struct bench *b, size_t size, uint64_t n)
{
    (void)b;
    (void)size;
    while (n--)
        shmem_barrier_all();
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

int main(int argc, char **argv)
{
    struct bench b = {0};
    shmem_init();
    b.me = shmem_my_pe();
    b.pes = shmem_n_pes();
    b.peer = b.me ^ 1;
    bench_pin(b.me, b.pes);
    b.local = b.pes == 2 ? shmem_align(4096, BENCH_SPAN) : shmem_align(4096, 4096);
    b.remote = b.pes == 2 ? shmem_align(4096, BENCH_SPAN) : shmem_align(4096, 4096);
    words = shmem_align(4096, 4096);
    if (!b.local || !b.remote || !words) {
        fprintf(stderr, "shmem_ops: the symmetric heap is too small; set SHMEM_SYMMETRIC_SIZE=320M\n");
        shmem_global_exit(1);
    }
    memset(words, 0, 4096);
    if (b.pes == 2)
        memset(b.me == 0 ? b.local : b.remote, b.me + 1, BENCH_SPAN);
    shmem_barrier_all();
    int status = bench_main(argc, argv, &b, shmem_barrier_all, measures);
    shmem_barrier_all();
    shmem_finalize();
    return status;
}
