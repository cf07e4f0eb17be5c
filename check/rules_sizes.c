/* SPDX-License-Identifier: Apache-2.0
 * Items 38 and 41 to 43: no length, every alignment, lengths around each limit, lengths beyond 32 bits. On every PE. */
#include "rules.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

static int right(const struct pe *pe)
{
    return (pe->rank + 1) % pe->n;
}

static int left(const struct pe *pe)
{
    return (pe->rank + pe->n - 1) % pe->n;
}

/* ------------------------------------------------------------------ 38: nothing */

static void no_length(struct pe *pe)
{
    enum { BYTES = 64, GUARD = 0xa5 };
    uint8_t *data = rule_calloc(pe, BYTES), local[BYTES];
    int to = right(pe);

    if (!data)
        return;
    memset(data, GUARD, BYTES);
    memset(local, GUARD, BYTES);
    EXPECT_OK(pe, ferry_barrier(pe->job));
    for (int i = 0; i < 2; i++) {
        uint8_t *here = i ? NULL : local, *there = i ? NULL : data;

        EXPECT_OK(pe, ferry_put(pe->ctx, there, here, 0, to));
        EXPECT_OK(pe, ferry_put_nbi(pe->ctx, there, here, 0, to));
        EXPECT_OK(pe, ferry_get(pe->ctx, here, there, 0, to));
        EXPECT_OK(pe, ferry_get_nbi(pe->ctx, here, there, 0, to));
        EXPECT_OK(pe, ferry_iput(pe->ctx, there, here, 1, 1, 8, 0, to));
        EXPECT_OK(pe, ferry_iget(pe->ctx, here, there, 1, 1, 8, 0, to));
        EXPECT_OK(pe, ferry_quiet(pe->ctx));
    }
    EXPECT_OK(pe, ferry_put(pe->ctx, data + BYTES, local + BYTES, 0, to)); /* one past the end */
    EXPECT_OK(pe, ferry_barrier(pe->job));
    EXPECT(pe, rule_all(data, BYTES, GUARD) && rule_all(local, BYTES, GUARD));
    EXPECT_OK(pe, ferry_barrier(pe->job));
}

/* ------------------------------------------------------------------ 41: alignments */

#define LENGTHS 65u
#define ROOM    128u /* for each length: up to 15 bytes before, a guard behind */
#define GUARD   0xa5

/* Lengths 0 to 64 from one alignment to another; everything between them stays. */
static size_t put_lengths(struct pe *pe, uint8_t *data, uint8_t *local, size_t from, size_t to)
{
    uint8_t expected[LENGTHS * ROOM], seen[LENGTHS * ROOM];
    size_t bad = 0;

    memset(expected, GUARD, sizeof(expected));
    EXPECT_OK(pe, ferry_put(pe->ctx, data, expected, sizeof(expected), right(pe)));
    EXPECT_OK(pe, ferry_quiet(pe->ctx));
    for (size_t n = 0; n < LENGTHS; n++) {
        rule_fill(local + n * ROOM + from, n, n + from * 100 + to);
        memcpy(expected + n * ROOM + to, local + n * ROOM + from, n);
        EXPECT_OK(pe, ferry_put_nbi(pe->ctx, data + n * ROOM + to, local + n * ROOM + from, n, right(pe)));
    }
    EXPECT_OK(pe, ferry_quiet(pe->ctx));
    EXPECT_OK(pe, ferry_get(pe->ctx, seen, data, sizeof(seen), right(pe)));
    for (size_t i = 0; i < sizeof(seen); i++)
        bad += seen[i] != expected[i];
    return bad;
}

/* The way back: the target still holds what put_lengths left there. */
static size_t get_lengths(struct pe *pe, const uint8_t *data, uint8_t *local, size_t from, size_t to)
{
    size_t bad = 0;

    memset(local, GUARD, LENGTHS * ROOM);
    for (size_t n = 0; n < LENGTHS; n++)
        EXPECT_OK(pe, ferry_get_nbi(pe->ctx, local + n * ROOM + from, data + n * ROOM + to, n, right(pe)));
    EXPECT_OK(pe, ferry_quiet(pe->ctx));
    for (size_t n = 0; n < LENGTHS; n++) {
        const uint8_t *at = local + n * ROOM;

        bad += rule_wrong(at + from, n, n + from * 100 + to);
        bad += !rule_all(at, from, GUARD) + !rule_all(at + from + n, ROOM - from - n, GUARD);
    }
    return bad;
}

static void pairs(struct pe *pe, unsigned long n)
{
    uint8_t *data = rule_calloc(pe, LENGTHS * ROOM), *local = aligned_alloc(64, LENGTHS * ROOM);
    size_t bad = 0;

    if (!data || !EXPECT(pe, local != NULL))
        return;
    EXPECT_OK(pe, ferry_barrier(pe->job));
    for (unsigned long i = 0; i < n; i++) {
        unsigned long pair = i * 77 % 256; /* meets each once; the first ones are of all sorts */

        bad += put_lengths(pe, data, local, pair % 16, pair / 16);
        bad += get_lengths(pe, data, local, pair % 16, pair / 16);
    }
    EXPECT(pe, bad == 0);
    EXPECT_OK(pe, ferry_barrier(pe->job));
    free(local);
}

static void every_alignment(struct pe *pe)
{
    pairs(pe, 256);
}

static void some_alignments(struct pe *pe)
{
    pairs(pe, rule_times(pe, "pairs of alignments, each with 65 lengths", 250));
}

/* ------------------------------------------------------------------ 42: limits */

#define LARGEST ((size_t)1 << 20)

/* One length, there and back: put, put_signal, get; the byte behind it stays. */
static void one_length(struct pe *pe, uint8_t *data, uint64_t *signal, uint8_t *local, size_t n, uint64_t round)
{
    uint64_t seed = round * 64;

    memset(data, GUARD, n + 1);
    EXPECT_OK(pe, ferry_barrier(pe->job));
    rule_fill(local, n, seed + (uint64_t)pe->rank);
    if (round & 1)
        EXPECT_OK(pe, ferry_put_nbi(pe->ctx, data, local, n, right(pe)));
    else
        EXPECT_OK(pe, ferry_put_signal_nbi(pe->ctx, data, local, n, signal, round, FERRY_SIGNAL_SET, right(pe)));
    if (!(round & 1)) {
        EXPECT_OK(pe, ferry_wait_until(pe->job, signal, FERRY_CMP_EQ, round));
        EXPECT(pe, rule_wrong(data, n, seed + (uint64_t)left(pe)) == 0);
    }
    EXPECT_OK(pe, ferry_barrier(pe->job));
    EXPECT(pe, rule_wrong(data, n, seed + (uint64_t)left(pe)) == 0 && data[n] == GUARD);
    memset(local, GUARD, n + 1);
    EXPECT_OK(pe, ferry_get(pe->ctx, local, data, n, right(pe)));
    EXPECT(pe, rule_wrong(local, n, seed + (uint64_t)pe->rank) == 0 && local[n] == GUARD);
    EXPECT_OK(pe, ferry_barrier(pe->job));
}

static void around(struct pe *pe, const size_t *limits, size_t n_limits, uint64_t scale)
{
    uint8_t *data = rule_calloc(pe, LARGEST + 64), *local = malloc(LARGEST + 64);
    uint64_t *signal = rule_calloc(pe, 8), round = 1;

    if (!data || !signal || !EXPECT(pe, local != NULL))
        return;
    for (uint64_t k = 0; k < scale; k++)
        for (size_t l = 0; l < n_limits; l++)
            for (size_t less = 0; less < 3; less++) {
                size_t n = limits[l] + 1 - less;

                if (limits[l] && n <= LARGEST) {
                    one_length(pe, data, signal, local, n, round++);
                    one_length(pe, data, signal, local, n, round++);
                }
            }
    free(local);
}

/* One less, exactly, one more: of what the transport reports. */
static void reported_limits(struct pe *pe)
{
    const struct rule_caps *caps = &rule_stage(pe)->caps;
    size_t twice = caps->message_max <= LARGEST / 2 ? 2 * caps->message_max : 0;
    const size_t limits[] = {caps->inline_max, caps->copy_max, caps->message_max, twice};

    around(pe, limits, 4, rule_times(pe, "rounds of each limit that is reported", 20));
}

/* The same of what is usual: words, cache lines, pages, MTUs, bounce buffers. */
static void usual_limits(struct pe *pe)
{
    static const size_t limits[] = {1, 2, 4, 8, 16, 32, 64, 128, 220, 256, 512, 1024, 2048, 4096, 8192, 65536, 262144};

    around(pe, limits, sizeof(limits) / sizeof(*limits), rule_times(pe, "rounds of 17 limits", 20));
}

/* ------------------------------------------------------------------ 43: more than 32 bits */

#define GIB    ((size_t)1 << 30)
#define BEYOND (4 * GIB + 65536)
#define EVERY  (((size_t)1 << 26) + 4104)

static size_t available(void)
{
    FILE *file = fopen("/proc/meminfo", "re");
    unsigned long long kib = 0;
    char line[128];

    while (file && fgets(line, sizeof(line), file))
        if (sscanf(line, "MemAvailable: %llu", &kib) == 1)
            break;
    if (file)
        fclose(file);
    return (size_t)kib << 10;
}

/* PE 0 looks, and tells the others. */
static bool room_for(struct pe *pe, size_t bytes)
{
    _Atomic uint64_t *word = &rule_stage(pe)->words[0];

    if (pe->rank == 0)
        atomic_store(word, available() > bytes ? 2 : 1);
    if (rule_meet(pe, 0, 1) && atomic_load(word) == 2)
        return true;
    rule_not_applicable(pe, "moves gigabytes, and this machine has too few available");
    return false;
}

/* A word of its own here and there, and one at the end. */
static void mark(uint8_t *at, size_t n, uint64_t seed)
{
    for (size_t i = 0; i + 8 <= n; i += EVERY)
        rule_fill(at + i, 8, i + seed);
    rule_fill(at + n - 8, 8, n + seed);
}

static size_t marks_wrong(const uint8_t *at, size_t n, uint64_t seed)
{
    size_t bad = 0;

    for (size_t i = 0; i + 16 <= n - 8; i += EVERY)
        bad += rule_wrong(at + i, 8, i + seed) || !rule_all(at + i + 8, 8, 0);
    return bad + (rule_wrong(at + n - 8, 8, n + seed) != 0);
}

static void clear_marks(uint8_t *at, size_t n)
{
    for (size_t i = 0; i + 8 <= n; i += EVERY)
        memset(at + i, 0, 8);
    memset(at + n - 8, 0, 8);
}

static uint8_t *sparse(size_t n)
{
    uint8_t *at = mmap(NULL, n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    if (at == MAP_FAILED)
        return NULL;
    madvise(at, n, MADV_HUGEPAGE); /* fewer faults; it works without */
    return at;
}

static void large_put(struct pe *pe, uint8_t *data, uint8_t *local, size_t n, uint64_t seed)
{
    if (pe->rank == 0) {
        mark(local, n, seed);
        EXPECT_OK(pe, ferry_put_nbi(pe->ctx, data, local, n, 1));
        EXPECT_OK(pe, ferry_quiet(pe->ctx));
        clear_marks(local, n);
    }
    EXPECT_OK(pe, ferry_barrier(pe->job));
    if (pe->rank == 1)
        EXPECT(pe, marks_wrong(data, n, seed) == 0 && rule_all(data + n, 64, 0));
    EXPECT_OK(pe, ferry_barrier(pe->job));
}

static void beyond_32_bits(struct pe *pe)
{
    static const size_t lengths[] = {4 * GIB + 4097, 2 * GIB + 1, 4 * GIB, 2 * GIB, 2 * GIB - 1};
    unsigned long n = rule_times(pe, "lengths, from 2^31 - 1 to 2^32 + 4097", 5);
    uint8_t *data, *local;

    if (!room_for(pe, (size_t)pe->n * 5 * GIB))
        return;
    data = ferry_malloc(pe->job, BEYOND);
    local = sparse(BEYOND);
    if (!EXPECT(pe, data && local))
        return;
    for (unsigned long i = 0; i < n; i++) {
        large_put(pe, data, local, lengths[i], i + 1);
        if (pe->rank == 1)
            clear_marks(data, lengths[i]);
    }
    if (pe->rank == 1)
        mark(data, 2 * GIB + 1, 99);
    EXPECT_OK(pe, ferry_barrier(pe->job));
    if (pe->rank == 0) {
        EXPECT_OK(pe, ferry_get(pe->ctx, local, data, 2 * GIB + 1, 1));
        EXPECT(pe, marks_wrong(local, 2 * GIB + 1, 99) == 0 && rule_all(local + 2 * GIB + 1, 64, 0));
    }
    EXPECT_OK(pe, ferry_barrier(pe->job));
    munmap(local, BEYOND);
}

/* Every operation at offsets around 2^31 and 2^32 of one block. */
static void far_offsets(struct pe *pe)
{
    static const size_t offsets[] = {2 * GIB - 8, 2 * GIB, 4 * GIB - 8, 4 * GIB, 4 * GIB + 8, BEYOND - 512};
    uint8_t *data, local[300];
    uint64_t old;

    if (!room_for(pe, (size_t)pe->n * 5 * GIB))
        return;
    data = ferry_malloc(pe->job, BEYOND);
    if (!EXPECT(pe, data != NULL))
        return;
    for (uint64_t i = 0; i < sizeof(offsets) / sizeof(*offsets); i++) {
        uint64_t *word = (uint64_t *)(void *)(data + offsets[i]);

        EXPECT_OK(pe, ferry_atomic_add(pe->ctx, word, i + 3, right(pe)));
        EXPECT_OK(pe, ferry_atomic_fetch_add(pe->ctx, word, 1, &old, right(pe)));
        EXPECT_OK(pe, ferry_signal(pe->ctx, word, 7, FERRY_SIGNAL_ADD, right(pe)));
        EXPECT_OK(pe, ferry_barrier(pe->job));
        EXPECT(pe, old == i + 3 && ferry_test(pe->job, word, FERRY_CMP_EQ, i + 11) == 1);
        EXPECT_OK(pe, ferry_barrier(pe->job));
        rule_fill(local, sizeof(local), i * 64 + (uint64_t)pe->rank);
        EXPECT_OK(pe, ferry_put(pe->ctx, word, local, sizeof(local), right(pe)));
        EXPECT_OK(pe, ferry_barrier(pe->job));
        EXPECT(pe, rule_wrong(word, sizeof(local), i * 64 + (uint64_t)left(pe)) == 0);
        EXPECT_OK(pe, ferry_get(pe->ctx, local, word, sizeof(local), right(pe)));
        EXPECT(pe, rule_wrong(local, sizeof(local), i * 64 + (uint64_t)pe->rank) == 0);
        EXPECT_OK(pe, ferry_barrier(pe->job));
        memset(word, 0, sizeof(local));
        EXPECT_OK(pe, ferry_barrier(pe->job));
    }
}

const struct rule fy_rules_sizes[] = {
    {"R38.1", "length 0 does nothing, with null, too", 2, 0, no_length, NULL},
    {"R41.1", "every alignment of source and destination with lengths 0 to 64", 2, RULE_BIG, every_alignment, NULL},
    {"R41.2", "some alignments of source and destination with lengths 0 to 64", 2, 0, some_alignments, NULL},
    {"R42.1", "lengths around what the transport reports as limits", 2, 0, reported_limits, NULL},
    {"R42.2", "lengths around words, cache lines, pages and other usual limits", 2, 0, usual_limits, NULL},
    {"R43.1", "lengths beyond 31 and 32 bits", 2, RULE_BIG | RULE_PAIR, beyond_32_bits, NULL},
    {"R43.2", "offsets beyond 31 and 32 bits", 2, RULE_BIG | RULE_PAIR, far_offsets, NULL},
    {NULL, NULL, 0, 0, NULL, NULL},
};
