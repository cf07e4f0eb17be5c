/* SPDX-License-Identifier: Apache-2.0
 * The side-by-side bench: what two cores of this host reach with plain loads and stores on shared memory. Nothing that
 * two processes do with each other can be faster. Two processes, made by fork, one thread each. */
#include "harness.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

/* Shared by both processes: the words that a PE polls lie in pages of its own. */
static struct shared {
    _Alignas(4096) uint64_t arrived;
    _Alignas(4096) uint64_t word[2][BENCH_WORDS * BENCH_WORD_BYTES / 8];
} * shared;
static uint64_t barriers;
static int n_pes;

/* Asks for the line less often while the other core has it: a sixth faster than a bare loop. */
static void rest(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
}

static void barrier(void)
{
    uint64_t all = ++barriers * (uint64_t)n_pes;
    __atomic_fetch_add(&shared->arrived, 1, __ATOMIC_ACQ_REL);
    while (__atomic_load_n(&shared->arrived, __ATOMIC_ACQUIRE) < all)
        rest();
}

static void await(const struct bench *b)
{
    while (__atomic_load_n(&shared->word[b->me][0], __ATOMIC_ACQUIRE) != b->sequence)
        rest();
}

static void tell(const struct bench *b)
{
    __atomic_store_n(&shared->word[b->peer][0], b->sequence, __ATOMIC_RELEASE);
}

/* One cache line goes back and forth. */
static void signal_pp(struct bench *b, size_t size, uint64_t n)
{
    (void)size;
    while (n--) {
        b->sequence++;
        if (bench_first(b))
            tell(b);
        await(b);
        if (!bench_first(b))
            tell(b);
    }
}

/* Data, then the flag. */
static void put_signal_pp(struct bench *b, size_t size, uint64_t n)
{
    /* each direction has a half of the buffer, as each PE has a buffer of its own in a library */
    uint8_t *to = b->remote + (b->me ? BENCH_SPAN / 2 : 0);
    while (n--) {
        b->sequence++;
        if (bench_first(b)) {
            memcpy(to, b->local, size);
            tell(b);
        }
        await(b);
        if (!bench_first(b)) {
            memcpy(to, b->local, size);
            tell(b);
        }
    }
}

static void copy(struct bench *b, size_t size, uint64_t n)
{
    while (n--) {
        size_t at = bench_next(b, size);
        memcpy(b->remote + at, b->local + at, size);
        __asm__ volatile("" ::: "memory");
    }
}

static void fetch_add(struct bench *b, size_t size, uint64_t n)
{
    (void)size;
    while (n--)
        __atomic_fetch_add(&shared->word[b->peer][BENCH_WORD_BYTES / 8], 1, __ATOMIC_SEQ_CST);
}

static const struct bench_measure measures[] = {{"signal_pp", BENCH_PAIR, BENCH_WORD, false, false, signal_pp},
                                                {"put_signal_pp", BENCH_PAIR, BENCH_SMALL, false, false, put_signal_pp},
                                                {"fetch_add", BENCH_ONE, BENCH_WORD, false, false, fetch_add},
                                                {"copy_cached", BENCH_ONE, BENCH_LARGE, false, false, copy},
                                                {"copy_cold", BENCH_ONE, BENCH_LARGE, true, false, copy},
                                                {0}};

static void *map(size_t bytes)
{
    void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED) {
        perror("limits: mmap");
        exit(1);
    }
    return at;
}

int main(int argc, char **argv)
{
    struct bench b = {0};
    shared = map(sizeof *shared);
    b.local = map(BENCH_SPAN);
    b.remote = map(BENCH_SPAN);
    b.pes = n_pes = 2;
    pid_t child = fork();
    if (child < 0) {
        perror("limits: fork");
        return 1;
    }
    b.me = child == 0;
    b.peer = !b.me;
    bench_pin(b.me, b.pes);
    barrier();
    int status = bench_main(argc, argv, &b, barrier, measures);
    if (child == 0)
        _exit(status);
    int ended = 0;
    waitpid(child, &ended, 0);
    return status == 0 && ended == 0 ? 0 : 1;
}
