/* SPDX-License-Identifier: Apache-2.0
 * The side-by-side bench: what limits.c, shmem_ops.c and ferry_ops.c share, so that all three run the same loops
 * equally often. Each PE runs all of it in one thread; PE 0 measures and prints. */
#ifndef FERRY_BENCH_HARNESS_H
#define FERRY_BENCH_HARNESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Cold copies walk through this much of either buffer, several times the last level cache; both are symmetric. */
#define BENCH_SPAN       ((size_t)128 << 20)
#define BENCH_WORDS      4
#define BENCH_WORD_BYTES 256 /* no two words in one cache line, or in a pair that is fetched together */

enum bench_who {
    BENCH_ONE,  /* PE 0 acts on PE 1, which waits in a barrier */
    BENCH_PAIR, /* PE 0 and 1 take turns: an iteration is a round trip, half of it is reported */
    BENCH_EVERY /* all PEs do the same */
};

enum bench_sizes { BENCH_NONE, BENCH_WORD, BENCH_SMALL, BENCH_LARGE };

/* One PE at work. */
struct bench {
    int me, pes, peer;
    uint8_t *local, *remote; /* BENCH_SPAN bytes; `remote` names the peer's where the library works like that */
    uint64_t sequence;       /* of a ping-pong, equal on both sides */
    size_t at, stride;       /* where the next copy goes; stride 0: always to the same place */
    int failed;              /* first status that was not success */
};

struct bench_measure {
    const char *name;
    enum bench_who who;
    enum bench_sizes sizes;
    bool cold, counted; /* walk through the buffers; is part of the count of instructions */
    /* n iterations, in one go */
    void (*batch)(struct bench *b, size_t size, uint64_t n);
};

typedef void (*bench_barrier_fn)(void);
/* `b` says who takes part and where the buffers are. Parses the command line, runs the measures (the last one has no
 * name) and prints, for each and each size,
 *   name size median best     in ns per operation
 * then "# end". The exit status. */
int bench_main(int argc, char **argv, struct bench *b, bench_barrier_fn barrier, const struct bench_measure *measures);

/* Binds the calling thread to the nth core that it may use, if there is one for each PE. */
void bench_pin(int nth, int pes);

/* Offset of the next copy. */
static inline size_t bench_next(struct bench *b, size_t size)
{
    size_t at = b->at;
    b->at = at + b->stride + size <= BENCH_SPAN ? at + b->stride : 0;
    return at;
}

/* Whether this PE is the one that acts in the first half of a round trip. */
static inline bool bench_first(const struct bench *b)
{
    return b->me == 0;
}

#endif
