/* SPDX-License-Identifier: Apache-2.0
 * How many commands a second the proxy takes, from producers on CPUs: a measurement, not a test (docs/performance.md).
 * usage: ring_rate RINGS PRODUCERS COMMANDS put|signal|put_signal [BYTES]   - with FERRY_TRANSPORT, FERRY_PROXY_THREADS
 * RINGS 0: one ring that is full when the proxy begins to read it, so that the proxy alone is measured; the best of COMMANDS rounds. */
#include <ferry/ferry.h>
#include <ferry/ring.h>

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define ROUNDS 5

struct producer {
    struct ferry_ring_handle handle;
    pthread_t thread;
    char *area;
    unsigned long commands;
    size_t bytes;
    int kind; /* 0 put, 1 signal, 2 put_signal */
    _Atomic int *go;
};

static double now(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (double)ts.tv_sec + (double)ts.tv_nsec * 1e-9;
}

static void *produce(void *arg)
{
    struct producer *p = arg;
    uint64_t *signal = (uint64_t *)(void *)p->area;
    while (!atomic_load(p->go))
        continue;
    for (unsigned long i = 0; i < p->commands; i++)
        if (p->kind == 0)
            ferry_ring_put_nbi(&p->handle, p->area + 4096, p->area + 8192 + p->bytes, p->bytes, 0);
        else if (p->kind == 1)
            ferry_ring_signal(&p->handle, signal, 1, FERRY_SIGNAL_ADD, 0);
        else
            ferry_ring_put_signal_nbi(&p->handle, p->area + 4096, p->area + 8192 + p->bytes, p->bytes, signal, 1, FERRY_SIGNAL_ADD, 0);
    ferry_ring_quiet(&p->handle);
    return NULL;
}

static double round_of(struct producer *producers, int n, _Atomic int *go)
{
    atomic_store(go, 0);
    for (int i = 0; i < n; i++)
        pthread_create(&producers[i].thread, NULL, produce, &producers[i]);
    double start = now();
    atomic_store(go, 1);
    for (int i = 0; i < n; i++)
        pthread_join(producers[i].thread, NULL);
    return (double)producers[0].commands * n / (now() - start);
}

#define FULL 32768u /* slots */

static void fill(struct producer *p, uint64_t at, unsigned kind, uint64_t *words)
{
    int told;
    struct ferry_command c = {.kind = (uint8_t)kind, .remote = (uintptr_t)p->area, .value = 1};
    if (kind == FERRY_COMMAND_PUT) {
        c.remote = (uintptr_t)p->area + 4096;
        c.local = (uintptr_t)p->area + 8192 + p->bytes;
        c.length = p->bytes;
    }
    unsigned slots = ferry_ring_encode(&c, p->handle.base, words, &told);
    if (at && slots == 1)
        ferry_ring_store(&p->handle, at, words, 1);
}

/* The first slot is written last. */
static void drain(struct producer *p, unsigned long rounds)
{
    double best = 1e9;
    unsigned kind = p->kind == 0 ? FERRY_COMMAND_PUT : FERRY_COMMAND_SIGNAL_ADD;
    for (unsigned long r = 0; r < rounds; r++) {
        uint64_t words[FERRY_RING_WORDS], first;
        ferry_ring_quiet(&p->handle);
        first = __atomic_fetch_add(p->handle.head, FULL, __ATOMIC_SEQ_CST);
        for (uint64_t i = 1; i < FULL; i++)
            fill(p, first + i, kind, words);
        fill(p, 0, kind, words);
        double start = now();
        ferry_ring_store(&p->handle, first, words, 1);
        while (__atomic_load_n(p->handle.consumed, __ATOMIC_ACQUIRE) < first + FULL)
            continue;
        double took = now() - start;
        best = took < best ? took : best;
    }
    printf("%s %zu B, one full ring: %.2f M commands/s\n", p->kind == 0 ? "put" : "signal", p->bytes, FULL / best * 1e-6);
}

int main(int argc, char **argv)
{
    ferry_job_t *job;
    ferry_ring_t *rings[64];
    struct producer producers[64];
    _Atomic int go = 0;
    if (argc < 5 || ferry_init(NULL, &job) != FERRY_OK) {
        fprintf(stderr, "usage: ring_rate RINGS PRODUCERS COMMANDS put|signal|put_signal [BYTES]\n");
        return 64;
    }
    int n_rings = atoi(argv[1]), n = atoi(argv[2]);
    size_t bytes = argc > 5 ? strtoul(argv[5], NULL, 10) : 8;
    char *area = ferry_calloc(job, 1, 8192 + 2 * bytes);
    bool full = n_rings == 0;
    n_rings += full;
    if (n_rings < 1 || n_rings > 64 || n < 1 || n > 64 || !area)
        return 64;
    for (int i = 0; i < n_rings; i++)
        if (ferry_ring_create(job, full ? FULL : 0, 0, &rings[i]) != FERRY_OK)
            return 1;
    for (int i = 0; i < n; i++) {
        producers[i] = (struct producer){.area = area, .commands = strtoul(argv[3], NULL, 10) / (unsigned long)n, .bytes = bytes, .go = &go};
        producers[i].kind = !strcmp(argv[4], "put") ? 0 : !strcmp(argv[4], "signal") ? 1 : 2;
        ferry_ring_export(rings[i % n_rings], FERRY_RING_LAYOUT, &producers[i].handle);
    }
    if (full)
        drain(&producers[0], strtoul(argv[3], NULL, 10));
    for (int r = 0; !full && r < ROUNDS; r++)
        printf("%s %zu B, %d rings, %d producers: %.2f M commands/s\n", argv[4], bytes, n_rings, n, round_of(producers, n, &go) * 1e-6);
    return ferry_finalize(job) == FERRY_OK ? 0 : 1;
}
