/* SPDX-License-Identifier: Apache-2.0
 * Items 16 to 21: what a signal tells about data, and that none is lost. On every PE. Sums of signals by several PEs
 * are among the atomics. */
#include "order.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int right(const struct pe *pe)
{
    return (pe->rank + 1) % pe->n;
}

static int left(const struct pe *pe)
{
    return (pe->rank + pe->n - 1) % pe->n;
}

/* ------------------------------------------------------------------ 16: its own data */

/* One put_signal at a time, of any length and kind; all PEs send to their right. */
static void own_data(struct pe *pe)
{
    unsigned long rounds = rule_times(pe, "put_signals", 10000);
    uint8_t *data = rule_calloc(pe, ORDER_LONGEST), *source = malloc(ORDER_LONGEST);
    uint64_t *signal = rule_calloc(pe, 8), *back = rule_calloc(pe, 8);
    size_t lengths[ORDER_LENGTHS], n = order_lengths(pe, lengths);

    if (!data || !signal || !back || !EXPECT(pe, source != NULL))
        return;
    for (uint64_t r = 1; r <= rounds; r++) {
        size_t length = lengths[r % n];
        int how = (r & 1 ? FERRY_SIGNAL_ADD : FERRY_SIGNAL_SET) | (r & 2 ? FERRY_SIGNAL_WEAK : 0);
        uint64_t value = r & 1 ? 1 : r;

        rule_fill(source, length, r * 64 + (uint64_t)pe->rank);
        EXPECT_OK(pe, r & 4 ? ferry_put_signal(pe->ctx, data, source, length, signal, value, how, right(pe))
                            : ferry_put_signal_nbi(pe->ctx, data, source, length, signal, value, how, right(pe)));
        EXPECT_OK(pe, ferry_wait_until(pe->job, signal, FERRY_CMP_EQ, r));
        if (!EXPECT(pe, rule_wrong(data, length, r * 64 + (uint64_t)left(pe)) == 0))
            fprintf(stderr, "  %zu bytes, signal 0x%x, %s\n", length, (unsigned)how, r & 4 ? "blocking" : "nbi");
        EXPECT_OK(pe, ferry_atomic_set(pe->ctx, back, r, left(pe)));
        EXPECT_OK(pe, ferry_wait_until(pe->job, back, FERRY_CMP_EQ, r));
        EXPECT_OK(pe, ferry_quiet(pe->ctx)); /* the answer does not free the source */
    }
    EXPECT_OK(pe, ferry_barrier(pe->job));
    free(source);
}

/* Many weak ones on their way at once, with puts between that nothing covers: each vouches for its own data. */
static void many_weak(struct pe *pe)
{
    enum { WEAK = 24, SLOT = 1500 };
    unsigned long rounds = rule_times(pe, "rounds of 24 weak signals", 1000);
    uint8_t *data = rule_calloc(pe, WEAK * SLOT), *beside = rule_calloc(pe, WEAK * SLOT), *source = malloc(WEAK * SLOT);
    uint64_t *signals = rule_calloc(pe, WEAK * 8);

    if (!data || !beside || !signals || !EXPECT(pe, source != NULL))
        return;
    for (uint64_t r = 1; r <= rounds; r++) {
        rule_fill(source, WEAK * SLOT, r * 64 + (uint64_t)pe->rank);
        for (size_t i = 0; i < WEAK; i++) {
            EXPECT_OK(pe, ferry_put_nbi(pe->ctx, beside + i * SLOT, source, SLOT, right(pe)));
            EXPECT_OK(pe, ferry_put_signal_nbi(pe->ctx, data + i * SLOT, source + i * SLOT, i % 3 ? SLOT : 8,
                                               &signals[i], r, FERRY_SIGNAL_SET | FERRY_SIGNAL_WEAK, right(pe)));
        }
        for (size_t i = WEAK; i-- > 0;) {
            static __thread uint8_t want[WEAK * SLOT];

            if (i == WEAK - 1)
                rule_fill(want, sizeof(want), r * 64 + (uint64_t)left(pe));
            EXPECT_OK(pe, ferry_wait_until(pe->job, &signals[i], FERRY_CMP_EQ, r));
            EXPECT(pe, memcmp(data + i * SLOT, want + i * SLOT, i % 3 ? SLOT : 8) == 0);
        }
        EXPECT_OK(pe, ferry_barrier(pe->job));
    }
    free(source);
}

/* ------------------------------------------------------------------ 17: strong ones cover all that was put before */

#define CHUNKS 16u
#define CHUNK  4200u

/* One chunk by any way that puts, and the signal that ends it. `at` is its place in this round. */
static void send_chunk(struct pe *pe, ferry_ctx_t *ctx, uint8_t *data, const uint8_t *source, uint64_t *tail,
                       unsigned at, int to)
{
    uint8_t *dest = data + at * CHUNK;
    const uint8_t *from = source + at * CHUNK;
    uint64_t first;

    switch (at % 5) {
    case 0:
        for (size_t i = 0; i < CHUNK; i += 700)
            EXPECT_OK(pe, ferry_put_nbi(ctx, dest + i, from + i, 700, to));
        break;
    case 1:
        EXPECT_OK(pe, ferry_put_signal_nbi(ctx, dest, from, CHUNK, tail, 1, FERRY_SIGNAL_ADD, to));
        return;
    case 2:
        memcpy(&first, from, 8);
        EXPECT_OK(pe, ferry_put(ctx, dest + 8, from + 8, CHUNK - 8, to));
        EXPECT_OK(pe, ferry_p(ctx, (uint64_t *)(void *)dest, first, to));
        break;
    case 3:
        EXPECT_OK(pe, ferry_iput(ctx, dest, from, 1, 1, CHUNK / 6, 6, to));
        break;
    default: /* half of it by itself, half with the signal */
        EXPECT_OK(pe, ferry_put_nbi(ctx, dest, from, CHUNK / 2, to));
        EXPECT_OK(pe, ferry_put_signal(ctx, dest + CHUNK / 2, from + CHUNK / 2, CHUNK - CHUNK / 2, tail, 1,
                                       FERRY_SIGNAL_ADD, to));
        return;
    }
    EXPECT_OK(pe, ferry_signal(ctx, tail, 1, FERRY_SIGNAL_ADD, to));
}

/* The counter says k: the first k chunks of this round are there. Looks whenever it can. */
static void take_chunks(struct pe *pe, const uint8_t *data, const uint8_t *want, const uint64_t *tail, uint64_t before)
{
    for (uint64_t seen = 0; seen < CHUNKS;) {
        if (!EXPECT_OK(pe, ferry_wait_until(pe->job, tail, FERRY_CMP_GT, before + seen)))
            return;
        seen = __atomic_load_n(tail, __ATOMIC_ACQUIRE) - before;
        if (!EXPECT(pe, seen <= CHUNKS))
            return;
        if (!EXPECT(pe, memcmp(data, want, seen * CHUNK) == 0))
            fprintf(stderr, "  the counter said %llu chunks\n", (unsigned long long)seen);
    }
}

static void cumulative(struct pe *pe, bool everybody)
{
    unsigned long rounds = rule_times(pe, everybody ? "rounds to all PEs" : "rounds", everybody ? 500 : 1500);
    uint8_t *data = rule_calloc(pe, (size_t)pe->n * CHUNKS * CHUNK), *source = malloc(CHUNKS * CHUNK),
            *want = malloc(CHUNKS * CHUNK);
    uint64_t *tails = rule_calloc(pe, (size_t)pe->n * 64);

    if (!data || !tails || !EXPECT(pe, source && want))
        return;
    for (uint64_t r = 0; r < rounds; r++) {
        rule_fill(source, CHUNKS * CHUNK, r * 64 + (uint64_t)pe->rank);
        for (unsigned at = 0; at < CHUNKS; at++)
            for (int i = 0; i < (everybody ? pe->n : 1); i++)
                send_chunk(pe, pe->ctx, data + (size_t)pe->rank * CHUNKS * CHUNK, source, &tails[pe->rank * 8], at,
                           everybody ? i : right(pe));
        for (int from = 0; from < pe->n; from++) {
            if (!everybody && from != left(pe))
                continue;
            rule_fill(want, CHUNKS * CHUNK, r * 64 + (uint64_t)from);
            take_chunks(pe, data + (size_t)from * CHUNKS * CHUNK, want, &tails[from * 8], r * CHUNKS);
        }
        EXPECT_OK(pe, ferry_barrier(pe->job));
    }
    free(source);
    free(want);
}

/* A put, and a signal with data of its own behind it, which tells the round: both are there. */
static void covers_one(struct pe *pe)
{
    static const size_t lengths[] = {8, 100, 256, 2100, 4096, 20000};
    unsigned long rounds = rule_times(pe, "rounds", 3000);
    uint8_t *data = rule_calloc(pe, 40000), source[40000];
    uint64_t *told = rule_calloc(pe, 8);

    if (!data || !told)
        return;
    EXPECT_OK(pe, ferry_barrier(pe->job));
    for (uint64_t r = 1; r <= rounds; r++) {
        size_t first = lengths[r % 6], second = lengths[r / 6 % 6];

        if (pe->rank == 0) {
            rule_fill(source, first + second, r);
            EXPECT_OK(pe, ferry_put_nbi(pe->ctx, data, source, first, 1));
            EXPECT_OK(
                pe, ferry_put_signal_nbi(pe->ctx, data + first, source + first, second, told, r, FERRY_SIGNAL_SET, 1));
            EXPECT_OK(pe, ferry_quiet(pe->ctx));
        } else if (pe->rank == 1) {
            EXPECT_OK(pe, ferry_wait_until(pe->job, told, FERRY_CMP_EQ, r));
            if (!EXPECT(pe, rule_wrong(data, first + second, r) == 0))
                fprintf(stderr, "  %zu bytes, then %zu with the signal, in round %llu\n", first, second,
                        (unsigned long long)r);
        }
        EXPECT_OK(pe, ferry_sync(pe->job));
    }
    EXPECT_OK(pe, ferry_barrier(pe->job));
}

static void strong_covers(struct pe *pe)
{
    cumulative(pe, false);
}

static void strong_covers_all(struct pe *pe)
{
    cumulative(pe, true);
}

/* Two contexts, one counter each: each vouches for its own chunks. PE 0 sends, PE 1 looks. */
static void strong_contexts(struct pe *pe)
{
    unsigned long rounds = rule_times(pe, "rounds of 2 contexts", 1000);
    uint8_t *data = rule_calloc(pe, 2 * CHUNKS * CHUNK), *source = malloc(CHUNKS * CHUNK);
    uint64_t *tails = rule_calloc(pe, 128), *back = rule_calloc(pe, 8);
    ferry_ctx_t *ctx[2] = {NULL, NULL};

    if (!data || !tails || !back || !EXPECT(pe, source != NULL) ||
        !EXPECT_OK(pe, ferry_ctx_create(pe->job, 0, &ctx[0])) || !EXPECT_OK(pe, ferry_ctx_create(pe->job, 0, &ctx[1])))
        return;
    for (uint64_t r = 0; r < rounds && pe->rank < 2; r++) {
        rule_fill(source, CHUNKS * CHUNK, r);
        for (unsigned at = 0; pe->rank == 0 && at < CHUNKS; at++)
            for (size_t c = 0; c < 2; c++)
                send_chunk(pe, ctx[c], data + c * CHUNKS * CHUNK, source, &tails[c * 8], at, 1);
        for (size_t c = 2; pe->rank == 1 && c-- > 0;)
            take_chunks(pe, data + c * CHUNKS * CHUNK, source, &tails[c * 8], r * CHUNKS);
        if (pe->rank == 1)
            EXPECT_OK(pe, ferry_atomic_set(pe->ctx, back, r + 1, 0));
        if (pe->rank == 0)
            EXPECT_OK(pe, ferry_wait_until(pe->job, back, FERRY_CMP_EQ, r + 1));
        EXPECT_OK(pe, ferry_quiet(ctx[0]));
        EXPECT_OK(pe, ferry_quiet(ctx[1]));
    }
    EXPECT_OK(pe, ferry_ctx_destroy(ctx[0]));
    EXPECT_OK(pe, ferry_ctx_destroy(ctx[1]));
    EXPECT_OK(pe, ferry_barrier(pe->job));
    free(source);
}

/* ------------------------------------------------------------------ 18: no data */

static void zero_length(struct pe *pe)
{
    enum { BYTES = 3000 };
    unsigned long rounds = rule_times(pe, "rounds", 5000);
    uint8_t *data = rule_calloc(pe, BYTES), source[BYTES];
    uint64_t *signals = rule_calloc(pe, 5 * 8);

    if (!data || !signals)
        return;
    for (uint64_t r = 1; r <= rounds; r++) {
        const uint64_t want[5] = {r, r, r, 1, r};

        rule_fill(source, BYTES, r * 64 + (uint64_t)pe->rank);
        EXPECT_OK(pe, ferry_put_signal(pe->ctx, data, source, 0, &signals[0], r, FERRY_SIGNAL_SET | FERRY_SIGNAL_WEAK,
                                       right(pe)));
        EXPECT_OK(pe, ferry_put_signal_nbi(pe->ctx, NULL, NULL, 0, &signals[1], 1, FERRY_SIGNAL_ADD | FERRY_SIGNAL_WEAK,
                                           right(pe)));
        EXPECT_OK(pe, ferry_put_nbi(pe->ctx, data, source, BYTES, right(pe)));
        EXPECT_OK(pe,
                  r & 1 ? ferry_put_signal(pe->ctx, NULL, NULL, 0, &signals[4], 1, FERRY_SIGNAL_ADD, right(pe))
                        : ferry_put_signal_nbi(pe->ctx, data, source, 0, &signals[4], r, FERRY_SIGNAL_SET, right(pe)));
        EXPECT_OK(pe, ferry_wait_until(pe->job, &signals[4], FERRY_CMP_EQ, r));
        EXPECT(pe, rule_wrong(data, BYTES, r * 64 + (uint64_t)left(pe)) == 0); /* a strong one covers it */
        EXPECT_OK(pe, ferry_wait_until(pe->job, &signals[0], FERRY_CMP_EQ, want[0]));
        EXPECT_OK(pe, ferry_wait_until(pe->job, &signals[1], FERRY_CMP_EQ, want[1]));
        EXPECT_OK(pe, ferry_barrier(pe->job));
        EXPECT(pe, signals[2] == 0 && signals[3] == 0);
    }
}

/* ------------------------------------------------------------------ 20: places */

static void to_self(struct pe *pe)
{
    unsigned long rounds = rule_times(pe, "rounds of 4 signals", 3000);
    uint8_t *data = rule_calloc(pe, 4 * 5000), source[5000];
    uint64_t *signals = rule_calloc(pe, 4 * 8);
    static const size_t lengths[] = {1, 8, 300, 5000};

    if (!data || !signals)
        return;
    for (uint64_t r = 1; r <= rounds; r++) {
        size_t n = lengths[r % 4];

        rule_fill(source, n, r);
        EXPECT_OK(pe, ferry_put_signal(pe->ctx, data, source, n, &signals[0], r, FERRY_SIGNAL_SET, pe->rank));
        EXPECT_OK(pe, ferry_put_signal_nbi(pe->ctx, data + 5000, source, n, &signals[1], UINT64_MAX, FERRY_SIGNAL_ADD,
                                           pe->rank));
        EXPECT_OK(pe, ferry_put_signal_nbi(pe->ctx, data + 10000, source, n, &signals[2], 1,
                                           FERRY_SIGNAL_ADD | FERRY_SIGNAL_WEAK, pe->rank));
        EXPECT_OK(pe, ferry_put_nbi(pe->ctx, data + 15000, source, n, pe->rank));
        EXPECT_OK(pe, ferry_signal(pe->ctx, &signals[3], 1, FERRY_SIGNAL_ADD, pe->rank));
        EXPECT_OK(pe, ferry_wait_until(pe->job, &signals[3], FERRY_CMP_EQ, r));
        EXPECT(pe, rule_wrong(data + 15000, n, r) == 0);
        EXPECT(pe, rule_wrong(data + 5000, n, r) == 0); /* the strong one covers all three */
        EXPECT(pe, rule_wrong(data, n, r) == 0 && rule_wrong(data + 10000, n, r) == 0);
        EXPECT_OK(pe, ferry_wait_until(pe->job, &signals[0], FERRY_CMP_EQ, r));
        EXPECT_OK(pe, ferry_wait_until(pe->job, &signals[1], FERRY_CMP_EQ, 0 - r));
        EXPECT_OK(pe, ferry_wait_until(pe->job, &signals[2], FERRY_CMP_EQ, r));
        EXPECT_OK(pe, ferry_quiet(pe->ctx));
    }
    EXPECT_OK(pe, ferry_barrier(pe->job));
}

static const char *const small_chunks[] = {"FERRY_HEAP_CHUNK=64K", NULL};

/* Data here, data there, the signal elsewhere: four allocations, none of which shares a segment with another. */
static void other_segments(struct pe *pe)
{
    enum { BLOCKS = 3, BYTES = 100000, USED = 3000 };
    unsigned long rounds = rule_times(pe, "rounds", 3000);
    uint8_t *blocks[BLOCKS], source[USED];
    uint64_t *signal;

    for (int i = 0; i < BLOCKS; i++)
        if (!(blocks[i] = rule_calloc(pe, BYTES)))
            return;
    if (!(signal = rule_calloc(pe, BYTES)))
        return;
    for (uint64_t r = 1; r <= rounds; r++) {
        size_t at = r * 4099 % (BYTES - USED);

        rule_fill(source, USED, r * 64 + (uint64_t)pe->rank);
        for (int i = 0; i + 1 < BLOCKS; i++)
            EXPECT_OK(pe, ferry_put_nbi(pe->ctx, blocks[i] + at, source, USED, right(pe)));
        EXPECT_OK(pe, ferry_put_signal_nbi(pe->ctx, blocks[BLOCKS - 1] + at, source, USED, signal, 1, FERRY_SIGNAL_ADD,
                                           right(pe)));
        EXPECT_OK(pe, ferry_wait_until(pe->job, signal, FERRY_CMP_EQ, r));
        for (int i = BLOCKS - 1; i >= 0; i--)
            EXPECT(pe, rule_wrong(blocks[i] + at, USED, r * 64 + (uint64_t)left(pe)) == 0);
        EXPECT_OK(pe, ferry_barrier(pe->job));
    }
}

/* ------------------------------------------------------------------ 21: none is lost */

static void bursts(struct pe *pe)
{
    unsigned long most = rule_times(pe, "signals in the longest burst", 10000);
    uint64_t *words = rule_calloc(pe, 128), sent = 0, *seen = rule_calloc(pe, 8);

    if (!words || !seen)
        return;
    for (unsigned long burst = 1; burst <= most; burst *= 10) {
        for (unsigned long i = 0; i < burst; i++) {
            EXPECT_OK(pe,
                      ferry_signal(pe->ctx, words, 1, FERRY_SIGNAL_ADD | (i & 1 ? FERRY_SIGNAL_WEAK : 0), right(pe)));
            EXPECT_OK(pe, ferry_put_signal_nbi(pe->ctx, seen, &burst, 8, words + 8, (uint64_t)1 << 33 | 1,
                                               FERRY_SIGNAL_ADD, right(pe)));
        }
        sent += burst;
        EXPECT_OK(pe, ferry_wait_until(pe->job, words, FERRY_CMP_GE, sent));
        EXPECT_OK(pe, ferry_wait_until(pe->job, words + 8, FERRY_CMP_GE, sent << 33 | sent));
        EXPECT_OK(pe, ferry_barrier(pe->job));
        EXPECT(pe, ferry_test(pe->job, words, FERRY_CMP_EQ, sent) == 1);
        EXPECT(pe, ferry_test(pe->job, words + 8, FERRY_CMP_EQ, sent << 33 | sent) == 1);
        EXPECT_OK(pe, ferry_barrier(pe->job));
    }
}

/* A ring of slots, as a consumer has it: it takes slot k once the counter is above k, and gives it back by a credit. */
#define SLOTS 16u

struct ring {
    uint64_t *slots, *words; /* words: how many came in, credits for those that went out */
    uint64_t sources[SLOTS], taken, sent, n, bad;
};

static void ring_send(struct pe *pe, struct ring *ring)
{
    while (ring->sent < ring->n &&
           (ring->sent < SLOTS || ferry_test(pe->job, &ring->words[1], FERRY_CMP_GT, ring->sent - SLOTS) == 1)) {
        uint64_t at = ring->sent % SLOTS;

        if (at == 0)
            EXPECT_OK(pe, ferry_quiet(pe->ctx)); /* sources of the lap before */
        ring->sources[at] = ring->sent * 64 + (uint64_t)pe->rank;
        EXPECT_OK(pe, ferry_put_signal_nbi(pe->ctx, &ring->slots[at], &ring->sources[at], 8, &ring->words[0], 1,
                                           FERRY_SIGNAL_ADD, right(pe)));
        ring->sent++;
    }
}

static void ring_take(struct pe *pe, struct ring *ring)
{
    while (ferry_test(pe->job, &ring->words[0], FERRY_CMP_GT, ring->taken) == 1) {
        ring->bad += ring->slots[ring->taken % SLOTS] != ring->taken * 64 + (uint64_t)left(pe);
        ring->taken++;
        EXPECT_OK(pe, ferry_signal(pe->ctx, &ring->words[1], 1, FERRY_SIGNAL_ADD | FERRY_SIGNAL_WEAK, left(pe)));
    }
}

static void ring(struct pe *pe)
{
    struct ring ring = {.n = rule_times(pe, "slots", 100000)};
    size_t index;

    ring.slots = rule_calloc(pe, SLOTS * 8);
    ring.words = rule_calloc(pe, 16);
    if (!ring.slots || !ring.words)
        return;
    while (ring.taken < ring.n || ring.sent < ring.n) {
        uint64_t seen[2] = {ring.taken, 0};
        int mask[2] = {ring.taken == ring.n, 1};

        ring_send(pe, &ring);
        seen[1] = ring.sent - SLOTS;
        mask[1] = ring.sent < SLOTS || ring.sent == ring.n; /* credits are awaited when it is they that are missing */
        if (!EXPECT_OK(pe, ferry_wait_until_any_vector(pe->job, ring.words, 2, mask, FERRY_CMP_GT, seen, &index)))
            return;
        ring_take(pe, &ring);
    }
    EXPECT(pe, ring.bad == 0);
    EXPECT_OK(pe, ferry_barrier(pe->job));
    EXPECT(pe, ferry_test(pe->job, &ring.words[0], FERRY_CMP_EQ, ring.n) == 1);
    EXPECT(pe, ferry_test(pe->job, &ring.words[1], FERRY_CMP_EQ, ring.n) == 1);
    EXPECT_OK(pe, ferry_barrier(pe->job));
}

const struct rule fy_rules_signals[] = {
    {"R16.1", "who sees a put_signal's signal sees its data, at any length", 1, 0, own_data, NULL},
    {"R17.1", "weak signals each vouch for their own data", 1, 0, many_weak, NULL},
    {"R17.2", "strong signals cover every put before them", 1, 0, strong_covers, NULL},
    {"R17.3", "strong signals of all PEs to all cover every put before them", 1, 0, strong_covers_all, NULL},
    {"R17.4", "strong signals cover the puts of their own context", 2, 0, strong_contexts, NULL},
    {"R17.5", "a put_signal covers the put before it", 2, 0, covers_one, NULL},
    {"R18.1", "a put_signal without data delivers its signal", 1, 0, zero_length, NULL},
    {"R20.1", "signals to the own PE", 1, 0, to_self, NULL},
    {"R20.2", "data and signal in different allocations and segments", 1, 0, other_segments, small_chunks},
    {"R21.1", "bursts of signals end at the exact count", 1, 0, bursts, NULL},
    {"R21.2", "a ring of slots with a counter and credits", 1, 0, ring, NULL},
    {NULL, NULL, 0, 0, NULL, NULL},
};
