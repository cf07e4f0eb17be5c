/* SPDX-License-Identifier: Apache-2.0
 * Random programs: what one is, and what the generator, the runner and the model of allowed states share. The PEs are
 * threads; PE 0 makes and judges a program, all of them run it. */
#ifndef CHECK_RANDOM_H
#define CHECK_RANDOM_H

#include "../amo.h"

#include <stdio.h>

#define RANDOM_OPS      64
#define RANDOM_PES      4
#define RANDOM_CONTEXTS 3
#define RANDOM_AREA     (8192u + 65536u)

/* Symmetric words, by how they are used within a program. */
#define WORDS_SYNC 16 /* 64 bits, signals only; closed once somebody waits for one */
#define WORDS_SUM  4  /* 64 bits, then as many of 32: sums of different powers of two */
#define WORDS_ANY  4  /* 64 bits, then as many of 32: atomics of every kind */
#define WORD_SUM   WORDS_SYNC
#define WORD_ANY   (WORD_SUM + 2 * WORDS_SUM)
#define WORDS      (WORD_ANY + 2 * WORDS_ANY)
#define WORD_OPS   8 /* most operations on a word of every kind: their order is searched for */

struct random_memory {
    uint64_t sync[WORDS_SYNC], sum[WORDS_SUM], any[WORDS_ANY];
    uint32_t sum32[WORDS_SUM], any32[WORDS_ANY];
    uint8_t data[RANDOM_AREA];
};

enum random_kind {
    RANDOM_PUT,
    RANDOM_PUT_NBI,
    RANDOM_PUT_SIGNAL,
    RANDOM_PUT_SIGNAL_NBI,
    RANDOM_SIGNAL,
    RANDOM_GET,
    RANDOM_GET_NBI,
    RANDOM_LOOK, /* own memory, by a copy */
    RANDOM_AMO,
    RANDOM_FENCE,
    RANDOM_QUIET,
    RANDOM_QUIET_PE,
    RANDOM_WAIT,    /* for all signals to a word of one's own */
    RANDOM_BARRIER, /* one of each PE, with the same group */
    RANDOM_SYNC,
    RANDOM_KINDS
};

struct random_op {
    enum random_kind kind;
    int pe, ctx, target, group;
    bool weak, off; /* off: dropped while shrinking */
    size_t offset, length;
    int word;       /* of an atomic, a signal, a wait; else -1 */
    struct amo amo; /* of a signal: AMO_SET or AMO_ADD */
    /* results */
    int status;
    uint64_t fetched;
    uint8_t *buffer; /* source, or where a get goes */
};

/* Operations are in an order in which one after the other could be run: no wait comes before its signals. */
struct random_program {
    uint64_t seed;
    int pes, contexts, n;
    _Atomic unsigned gate; /* PEs that came, to start or to end together */
    struct random_op op[RANDOM_OPS];
    struct random_memory *before[RANDOM_PES], *after[RANDOM_PES]; /* of each PE */
};

/* Kinds of operations. */
static inline bool random_puts(const struct random_op *op)
{
    return op->kind <= RANDOM_PUT_SIGNAL_NBI;
}

static inline bool random_signals(const struct random_op *op)
{
    return op->kind >= RANDOM_PUT_SIGNAL && op->kind <= RANDOM_SIGNAL;
}

static inline bool random_reads(const struct random_op *op)
{
    return op->kind >= RANDOM_GET && op->kind <= RANDOM_LOOK;
}

static inline bool random_updates(const struct random_op *op)
{
    return op->kind == RANDOM_AMO || random_signals(op);
}

static inline bool random_fetches(const struct random_op *op)
{
    return op->kind == RANDOM_AMO && op->amo.kind >= AMO_FETCH;
}

/* random_make.c */
int random_pes_of(uint64_t seed);
void random_make(struct random_program *program, uint64_t seed);
void random_print(const struct random_program *program, FILE *out);
void *random_word(struct random_memory *memory, int word);
int random_width(int word);
uint64_t random_value(const struct random_memory *memory, int word);
/* The byte that operation `index` puts at `offset`; different for each operation of a program. */
uint8_t random_byte(const struct random_program *program, int index, size_t offset);

/* random_run.c: this PE's part, between two memories that stand still. */
struct random_place {
    struct pe *pe;
    struct random_memory *memory;
    ferry_ctx_t *ctx[RANDOM_CONTEXTS];
    unsigned gates;
};
bool random_open(struct random_place *place, struct pe *pe);
void random_close(struct random_place *place);
/* All PEs come, without a call to Ferry. */
void random_gate(struct random_place *place, struct random_program *program);
void random_run(struct random_place *place, struct random_program *program);

/* random_order.c: which events certainly come before which. */
struct random_order;
enum random_event { EVENT_ISSUE, EVENT_START, EVENT_END, EVENT_UPDATE, EVENT_RETURN, EVENTS };
struct random_order *random_order_new(const struct random_program *program);
void random_order_free(struct random_order *order);
void random_order_add(struct random_order *order, int a, enum random_event ea, int b, enum random_event eb);
/* All that follows from what was added. False: some event comes before itself, it is of operation *index. */
bool random_order_close(struct random_order *order, int *index);
bool random_before(const struct random_order *order, int a, enum random_event ea, int b, enum random_event eb);

/* random_data.c, random_words.c: adds what the results tell about the order; false with a reason when they are wrong by
 * themselves. Then, with all that is known, whether every result is one of those allowed. */
bool random_words_order(const struct random_program *program, struct random_order *order, char *why, size_t size);
bool random_words_allowed(const struct random_program *program, const struct random_order *order, char *why,
                          size_t size);
void random_data_order(const struct random_program *program, struct random_order *order);
bool random_data_allowed(const struct random_program *program, const struct random_order *order, char *why,
                         size_t size);

#endif
