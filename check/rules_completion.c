/* SPDX-License-Identifier: Apache-2.0
 * Items 1 to 8: when sources are free, what quiet, barrier and the end of a context complete. On every PE. */
#include "rules.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define BYTES 70001u
#define WORDS 8u

static const size_t sizes[] = {1, 8, 64, 65, 300, 4096, 4097, BYTES};
#define SIZES (sizeof(sizes) / sizeof(*sizes))

static int right(const struct pe *pe)
{
    return (pe->rank + 1) % pe->n;
}

static int left(const struct pe *pe)
{
    return (pe->rank + pe->n - 1) % pe->n;
}

/* ------------------------------------------------------------------ 1, 2: sources */

enum way { WAY_PUT, WAY_PUT_SIGNAL, WAY_IPUT };

/* The source is overwritten the moment the call returns: the target must have the old bytes. */
static void reuse(struct pe *pe, enum way way)
{
    unsigned long rounds = rule_times(pe, "rounds of 8 sizes", 100);
    uint8_t *data = rule_calloc(pe, BYTES), *source = malloc(BYTES);
    uint64_t *signal = rule_calloc(pe, 8);

    if (!data || !signal || !EXPECT(pe, source != NULL))
        return;
    for (unsigned long r = 0; r < rounds; r++)
        for (size_t s = 0; s < SIZES; s++) {
            size_t n = sizes[s];
            uint64_t seed = (r * SIZES + s) * 64;

            rule_fill(source, n, seed + (uint64_t)pe->rank);
            EXPECT_OK(pe, way == WAY_PUT ? ferry_put(pe->ctx, data, source, n, right(pe))
                          : way == WAY_IPUT
                              ? ferry_iput(pe->ctx, data, source, 1, 1, n > 4096 ? n : 1, n > 4096 ? 1 : n, right(pe))
                              : ferry_put_signal(pe->ctx, data, source, n, signal, 1, FERRY_SIGNAL_ADD, right(pe)));
            memset(source, 0xee, n);
            EXPECT_OK(pe, ferry_barrier(pe->job));
            EXPECT(pe, rule_wrong(data, n, seed + (uint64_t)left(pe)) == 0);
            EXPECT_OK(pe, ferry_barrier(pe->job));
        }
    free(source);
}

static void reuse_put(struct pe *pe)
{
    reuse(pe, WAY_PUT);
}

static void reuse_put_signal(struct pe *pe)
{
    reuse(pe, WAY_PUT_SIGNAL);
}

static void reuse_iput(struct pe *pe)
{
    reuse(pe, WAY_IPUT);
}

/* Single values have no source at all: the argument is gone on return. Many before one quiet. */
static void single_values(struct pe *pe)
{
    unsigned long n = rule_times(pe, "pairs of values", 20000), bad = 0;
    uint64_t *wide = rule_calloc(pe, n * 8);
    uint32_t *narrow = rule_calloc(pe, n * 4);

    if (!wide || !narrow)
        return;
    for (unsigned long i = 0; i < n; i++) {
        EXPECT_OK(pe, ferry_p(pe->ctx, &wide[i], i * 0x100000001u + (uint64_t)pe->rank, right(pe)));
        EXPECT_OK(pe, ferry_p32(pe->ctx, &narrow[i], (uint32_t)(i * 17 + (unsigned)pe->rank), right(pe)));
    }
    EXPECT_OK(pe, ferry_barrier(pe->job));
    for (unsigned long i = 0; i < n; i++)
        bad += wide[i] != i * 0x100000001u + (uint64_t)left(pe) || narrow[i] != (uint32_t)(i * 17 + (unsigned)left(pe));
    EXPECT(pe, bad == 0);
    EXPECT_OK(pe, ferry_barrier(pe->job));
}

/* Many puts from one buffer, overwritten after quiet and not before. */
static void free_after_quiet(struct pe *pe)
{
    enum { PIECES = 40, PIECE = 1777 };
    unsigned long rounds = rule_times(pe, "rounds of 40 puts", 100);
    uint8_t *data = rule_calloc(pe, PIECES * PIECE), *source = malloc(PIECES * PIECE);

    if (!data || !EXPECT(pe, source != NULL))
        return;
    for (unsigned long r = 0; r < rounds; r++) {
        rule_fill(source, PIECES * PIECE, r * 64 + (uint64_t)pe->rank);
        for (int i = 0; i < PIECES; i++)
            EXPECT_OK(pe, ferry_put_nbi(pe->ctx, data + i * PIECE, source + i * PIECE, PIECE, right(pe)));
        EXPECT_OK(pe, r & 1 ? ferry_quiet_pe(pe->ctx, right(pe)) : ferry_quiet(pe->ctx));
        memset(source, 0xee, PIECES * PIECE);
        EXPECT_OK(pe, ferry_sync(pe->job));
        EXPECT(pe, rule_wrong(data, PIECES * PIECE, r * 64 + (uint64_t)left(pe)) == 0);
        EXPECT_OK(pe, ferry_sync(pe->job));
    }
    free(source);
}

/* ------------------------------------------------------------------ 3, 5: quiet means visible to everybody */

enum what { PUT_NBI, PUT, PUT_SIGNAL_NBI, STRIDED, ATOMICS, SIGNALS, WHATS };

static void write_what(struct pe *pe, enum what what, uint64_t *data, const uint64_t *source, uint64_t *signal)
{
    switch (what) {
    case PUT_NBI:
        EXPECT_OK(pe, ferry_put_nbi(pe->ctx, data, source, WORDS * 8, 1));
        break;
    case PUT:
        EXPECT_OK(pe, ferry_put(pe->ctx, data, source, WORDS * 8, 1));
        break;
    case PUT_SIGNAL_NBI:
        EXPECT_OK(pe, ferry_put_signal_nbi(pe->ctx, data, source, WORDS * 8, signal, 1, FERRY_SIGNAL_ADD, 1));
        break;
    case STRIDED:
        EXPECT_OK(pe, ferry_iput(pe->ctx, data, source, 1, 1, 8, WORDS, 1));
        break;
    default:
        for (unsigned i = 0; i < WORDS; i++)
            EXPECT_OK(pe, what == ATOMICS ? ferry_atomic_set(pe->ctx, &data[i], source[i], 1)
                                          : ferry_signal(pe->ctx, &data[i], source[i], FERRY_SIGNAL_SET, 1));
    }
}

/* PE 0 writes to 1, quiets, tells 2; PE 2 looks at 1. */
static void transitive(struct pe *pe)
{
    unsigned long rounds = rule_times(pe, "rounds of 6 kinds", 1000);
    uint64_t *data = rule_calloc(pe, WORDS * 8), *told = rule_calloc(pe, 16), *back = told + 1, source[WORDS];

    if (!data || !told)
        return;
    EXPECT_OK(pe, ferry_barrier(pe->job));
    for (uint64_t r = 1; r <= rounds * WHATS; r++) {
        if (pe->rank == 0) {
            rule_fill(source, sizeof(source), r);
            write_what(pe, r % WHATS, data, source, back + 0);
            EXPECT_OK(pe, ferry_quiet(pe->ctx));
            EXPECT_OK(pe, ferry_atomic_set(pe->ctx, told, r, 2));
            EXPECT_OK(pe, ferry_wait_until(pe->job, told, FERRY_CMP_GE, r));
        } else if (pe->rank == 2) {
            EXPECT_OK(pe, ferry_wait_until(pe->job, told, FERRY_CMP_GE, r));
            EXPECT_OK(pe, ferry_get(pe->ctx, source, data, sizeof(source), 1));
            EXPECT(pe, rule_wrong(source, sizeof(source), r) == 0);
            EXPECT_OK(pe, ferry_atomic_set(pe->ctx, told, r, 0));
        }
    }
    EXPECT_OK(pe, ferry_barrier(pe->job));
}

/* The message goes beside Ferry: no order that Ferry might add to it helps. The target and a third PE look. */
static void beside(struct pe *pe)
{
    enum { LARGE = 300000 };
    unsigned long rounds = rule_times(pe, "rounds", 400);
    uint8_t *data = rule_calloc(pe, LARGE), *buffer = malloc(LARGE);

    if (!data || !EXPECT(pe, buffer != NULL))
        return;
    for (uint64_t r = 1; r <= rounds; r++) {
        if (pe->rank == 0) {
            rule_fill(buffer, LARGE, r);
            EXPECT_OK(pe, ferry_put_nbi(pe->ctx, data, buffer, LARGE, 1));
            EXPECT_OK(pe, ferry_quiet(pe->ctx));
            atomic_store(&rule_stage(pe)->words[0], r);
        }
        if (!rule_meet(pe, 0, r))
            return;
        if (pe->rank == 1)
            EXPECT(pe, rule_wrong(data, LARGE, r) == 0);
        if (pe->rank == 2) {
            EXPECT_OK(pe, ferry_get(pe->ctx, buffer, data, LARGE, 1));
            EXPECT(pe, rule_wrong(buffer, LARGE, r) == 0);
        }
        if (!rule_gather(pe, 1, r))
            return;
    }
    free(buffer);
}

/* quiet_pe completes what goes to that PE, while a lot is on its way to another. */
static void one_peer(struct pe *pe)
{
    enum { LARGE = 100000 };
    unsigned long rounds = rule_times(pe, "rounds", 400);
    uint8_t *data = rule_calloc(pe, LARGE), *source = malloc(LARGE);

    if (!data || !EXPECT(pe, source != NULL))
        return;
    for (uint64_t r = 1; r <= rounds; r++) {
        if (pe->rank == 0) {
            rule_fill(source, LARGE, r);
            EXPECT_OK(pe, ferry_put_nbi(pe->ctx, data, source, LARGE, 2));
            EXPECT_OK(pe, ferry_put_nbi(pe->ctx, data, source, 5000, 1));
            EXPECT_OK(pe, ferry_quiet_pe(pe->ctx, 1));
            atomic_store(&rule_stage(pe)->words[0], r);
        }
        if (!rule_meet(pe, 0, r))
            return;
        if (pe->rank == 1)
            EXPECT(pe, rule_wrong(data, 5000, r) == 0);
        if (pe->rank == 0)
            EXPECT_OK(pe, ferry_quiet(pe->ctx));
        if (!rule_gather(pe, 1, r))
            return;
    }
    free(source);
}

/* ------------------------------------------------------------------ 4: gets */

static void gets(struct pe *pe)
{
    enum { SLOTS = 1000, SLOT = 40 };
    unsigned long rounds = rule_times(pe, "rounds of 1000 gets", 100);
    uint8_t *data = rule_calloc(pe, SLOTS * SLOT), *into = malloc(SLOTS * SLOT);
    size_t bad = 0;

    if (!data || !EXPECT(pe, into != NULL))
        return;
    for (size_t i = 0; i < SLOTS; i++)
        rule_fill(data + i * SLOT, SLOT, i * 64 + (uint64_t)pe->rank);
    EXPECT_OK(pe, ferry_barrier(pe->job));
    for (unsigned long r = 0; r < rounds; r++) {
        memset(into, 0xee, SLOTS * SLOT);
        for (size_t i = 0; i < SLOTS; i++)
            EXPECT_OK(pe, ferry_get_nbi(pe->ctx, into + i * SLOT, data + i * SLOT, 1 + i % SLOT, right(pe)));
        EXPECT_OK(pe, ferry_quiet(pe->ctx));
        for (size_t i = 0; i < SLOTS; i++) {
            bad += rule_wrong(into + i * SLOT, 1 + i % SLOT, i * 64 + (uint64_t)right(pe));
            bad += !rule_all(into + i * SLOT + 1 + i % SLOT, SLOT - 1 - i % SLOT, 0xee);
        }
    }
    EXPECT(pe, bad == 0);
    EXPECT_OK(pe, ferry_barrier(pe->job));
    free(into);
}

static void large_gets(struct pe *pe)
{
    enum { LARGE = 300001 };
    unsigned long rounds = rule_times(pe, "rounds", 200);
    uint8_t *data = rule_calloc(pe, LARGE), *into = malloc(LARGE);

    if (!data || !EXPECT(pe, into != NULL))
        return;
    rule_fill(data, LARGE, 100 + (uint64_t)pe->rank);
    EXPECT_OK(pe, ferry_barrier(pe->job));
    for (unsigned long r = 0; r < rounds; r++) {
        int from = (pe->rank + 1 + (int)(r % (unsigned long)pe->n)) % pe->n;

        memset(into, 0xee, LARGE);
        EXPECT_OK(pe, ferry_get_nbi(pe->ctx, into, data, LARGE, from));
        EXPECT_OK(pe, ferry_quiet_pe(pe->ctx, from));
        EXPECT(pe, rule_wrong(into, LARGE, 100 + (uint64_t)from) == 0);
    }
    EXPECT_OK(pe, ferry_barrier(pe->job));
    free(into);
}

/* ------------------------------------------------------------------ 6: nothing to do */

static long resident(void)
{
    FILE *file = fopen("/proc/self/statm", "re");
    long size = 0, pages = -1;

    if (file && fscanf(file, "%ld %ld", &size, &pages) != 2)
        pages = -1;
    if (file)
        fclose(file);
    return pages;
}

/* Seconds that one takes, in the best of ten rounds: a machine that does other work disturbs some of them. */
static double quiet_often(struct pe *pe, unsigned long n)
{
    double best = 1e9;

    for (int round = 0; round < 10; round++) {
        double start = pes_now();

        for (unsigned long i = 0; i < n; i++)
            EXPECT_OK(pe, i & 1 ? ferry_quiet(pe->ctx) : ferry_quiet_pe(pe->ctx, (int)(i / 2) % pe->n));
        if ((pes_now() - start) / (double)n < best)
            best = (pes_now() - start) / (double)n;
    }
    return best;
}

static void idle_quiets(struct pe *pe)
{
    unsigned long n = rule_times(pe, "quiets, ten times", 10000);
    uint64_t *word = rule_calloc(pe, 8);
    long before;

    if (!word)
        return;
    for (int to = 0; to < pe->n; to++)
        EXPECT_OK(pe, ferry_atomic_inc(pe->ctx, word, to));
    EXPECT_OK(pe, ferry_barrier(pe->job));
    before = resident();
    EXPECT(pe, quiet_often(pe, n) < 200e-6); /* it asks nobody: a peer that has no core answers later than that */
    EXPECT(pe, before > 0);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__) /* they keep books of their own, which grow */
    EXPECT(pe, resident() - before < 1000); /* pages, of all PEs */
#endif
    EXPECT_OK(pe, ferry_barrier(pe->job));
    EXPECT(pe, ferry_test(pe->job, word, FERRY_CMP_EQ, (uint64_t)pe->n) == 1);
}

/* ------------------------------------------------------------------ 7, 8: barrier, the end of a context and of a job
 */

static void barrier_completes(struct pe *pe)
{
    enum { SLOT = 3001 };
    unsigned long rounds = rule_times(pe, "rounds", 1000);
    uint8_t *data = rule_calloc(pe, (size_t)pe->n * SLOT), source[SLOT];
    uint64_t *count = rule_calloc(pe, 8);

    if (!data || !count)
        return;
    EXPECT_OK(pe, ferry_barrier(pe->job));
    for (uint64_t r = 1; r <= rounds; r++) {
        rule_fill(source, SLOT, r * 64 + (uint64_t)pe->rank);
        for (int to = 0; to < pe->n; to++) {
            EXPECT_OK(pe, ferry_put_nbi(pe->ctx, data + pe->rank * SLOT, source, SLOT, to));
            EXPECT_OK(pe, ferry_atomic_inc(pe->ctx, count, to));
        }
        EXPECT_OK(pe, ferry_barrier(pe->job));
        for (int from = 0; from < pe->n; from++)
            EXPECT(pe, rule_wrong(data + from * SLOT, SLOT, r * 64 + (uint64_t)from) == 0);
        EXPECT(pe, ferry_test(pe->job, count, FERRY_CMP_EQ, r * (uint64_t)pe->n) == 1);
        EXPECT_OK(pe, ferry_barrier(pe->job));
    }
}

static void destroy_completes(struct pe *pe)
{
    enum { PIECES = 30, PIECE = 2000 };
    unsigned long rounds = rule_times(pe, "contexts", 200);
    uint8_t *data = rule_calloc(pe, PIECES * PIECE), *source = malloc(PIECES * PIECE);

    if (!data || !EXPECT(pe, source != NULL))
        return;
    for (uint64_t r = 1; r <= rounds; r++) {
        ferry_ctx_t *ctx = NULL;

        EXPECT_OK(pe, ferry_ctx_create(pe->job, 0, &ctx));
        rule_fill(source, PIECES * PIECE, r * 64 + (uint64_t)pe->rank);
        for (int i = 0; ctx && i < PIECES; i++)
            EXPECT_OK(pe, ferry_put_nbi(ctx, data + i * PIECE, source + i * PIECE, PIECE, right(pe)));
        EXPECT_OK(pe, ctx ? ferry_ctx_destroy(ctx) : FERRY_ERR_STATE);
        memset(source, 0xee, PIECES * PIECE);
        EXPECT_OK(pe, ferry_sync(pe->job));
        EXPECT(pe, rule_wrong(data, PIECES * PIECE, r * 64 + (uint64_t)left(pe)) == 0);
        EXPECT_OK(pe, ferry_sync(pe->job));
    }
    free(source);
}

/* PE 0 puts and leaves; the others look once the flag is there, and leave then. */
static void finalize_completes(struct pe *pe)
{
    uint8_t *data = rule_calloc(pe, BYTES);
    uint64_t *flag = rule_calloc(pe, 8);
    static uint8_t source[BYTES];

    if (!data || !flag)
        return;
    if (pe->rank == 0) {
        rule_fill(source, BYTES, 77);
        for (int to = 1; to < pe->n; to++) {
            EXPECT_OK(pe, ferry_put_nbi(pe->ctx, data, source, BYTES, to));
            EXPECT_OK(pe, ferry_fence(pe->ctx));
            EXPECT_OK(pe, ferry_atomic_set(pe->ctx, flag, 1, to));
        }
        return;
    }
    EXPECT_OK(pe, ferry_wait_until(pe->job, flag, FERRY_CMP_EQ, 1));
    EXPECT(pe, rule_wrong(data, BYTES, 77) == 0);
}

const struct rule fy_rules_completion[] = {
    {"R1.1", "the source of a blocking put is free on return", 2, 0, reuse_put, NULL},
    {"R1.2", "the source of a blocking put_signal is free on return", 2, 0, reuse_put_signal, NULL},
    {"R1.3", "the source of a strided put is free on return", 2, 0, reuse_iput, NULL},
    {"R1.4", "single values are taken on return, and arrive", 2, 0, single_values, NULL},
    {"R2.1", "the source of put_nbi is free after quiet, and all has arrived", 2, 0, free_after_quiet, NULL},
    {"R3.1", "what is complete is visible to a third PE", 3, 0, transitive, NULL},
    {"R3.2", "quiet towards one PE completes what goes there", 3, 0, one_peer, NULL},
    {"R4.1", "quiet completes gets, each byte of its own and no other", 2, 0, gets, NULL},
    {"R4.2", "quiet completes large gets", 2, 0, large_gets, NULL},
    {"R5.1", "after quiet a message beside Ferry finds all the data", 3, 0, beside, NULL},
    {"R6.1", "quiet with nothing to do returns soon and takes no memory", 2, 0, idle_quiets, NULL},
    {"R7.1", "a barrier completes the default context of all", 2, 0, barrier_completes, NULL},
    {"R8.1", "the end of a context completes it", 2, 0, destroy_completes, NULL},
    {"R8.2", "finalize completes what is outstanding", 2, 0, finalize_completes, NULL},
    {NULL, NULL, 0, 0, NULL, NULL},
};
