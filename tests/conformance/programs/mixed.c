/* SPDX-License-Identifier: Apache-2.0
 * Two transports in one job, whose atomics do not see each other or of which one has none: words that are near for one
 * PE and far for another, and order between operations that take different ways. PEs are threads. */
#include "pes.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PES   4
#define ADDS  2000u
#define BURST 16 /* additions without anything in between, for each that fetches */
#define BYTES 3000u

/* LOOPBACK2, the path of loopback's second build, comes from meson. Loopback alone where `second` is NULL. */
struct setting {
    const char *name, *first, *second;
};

static const struct setting settings[] = {
    {"near by the CPU, far by a card", "hosts=2", "nic"},
    {"near by the CPU, far without atomics", "hosts=2", "no-amo"},
    {"near by the CPU, far by a card without order", "hosts=2", "nic,unordered,no-fenced"},
    {"near without atomics, far by a card", "hosts=2,no-amo", "nic"},
    {"puts by one, atomics by the other", "no-amo", "nic"},
    {"a card alone", "nic", NULL},
    {"a card alone that cannot fetch", "nic,no-fetch", NULL},
};

static void over_all(void (*body)(struct pe *pe))
{
    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++) {
        const struct setting *s = &settings[i];
        char first[128], second[128];
        const char *transport = s->second ? "FERRY_TRANSPORT=loopback," LOOPBACK2 : "FERRY_TRANSPORT=loopback";
        const char *options[] = {transport, first, s->second ? second : NULL, NULL};
        struct run run = {.n = PES, .body = body, .options = options};

        snprintf(first, sizeof first, "FERRY_LOOPBACK_GUISE=%s", s->first);
        snprintf(second, sizeof second, "FERRY_LOOPBACK2_GUISE=%s", s->second ? s->second : "");
        if (pes_run(&run) != 0)
            fail_msg("failed: %s (%s; %s)", s->name, s->first, s->second ? s->second : "no second");
    }
}

/* ------------------------------------------------------------------ adders on one word */

struct sums {
    uint64_t fetched, added, taken[PES * ADDS];
    uint32_t fetched32, added32, taken32[PES * ADDS];
};

/* Every number up to PES * count was fetched by somebody, and by nobody else. */
static void expect_permutation(struct pe *pe, struct sums *sums, unsigned long count)
{
    for (unsigned long i = 0; i < PES * count; i++)
        if (!EXPECT(pe, sums->taken[i] == 1 && sums->taken32[i] == 1))
            return;
}

/* All add to the words of `owner` at once, the owner itself included. */
static void add_all(struct pe *pe, struct sums *sums, int owner, unsigned long count)
{
    uint64_t old;
    uint32_t old32;

    for (unsigned long i = 0; i < count; i++) {
        for (int k = 0; k < BURST; k++)
            EXPECT_OK(pe, ferry_atomic_add(pe->ctx, &sums->added, 3, owner));
        for (int k = 0; k < BURST; k++)
            EXPECT_OK(pe, ferry_atomic32_add(pe->ctx, &sums->added32, 3, owner));
        EXPECT_OK(pe, ferry_signal(pe->ctx, &sums->added, 5, FERRY_SIGNAL_ADD, owner));
        old = PES * ADDS, old32 = PES * ADDS;
        EXPECT_OK(pe, ferry_atomic_fetch_add(pe->ctx, &sums->fetched, 1, &old, owner));
        EXPECT_OK(pe, ferry_atomic32_fetch_inc(pe->ctx, &sums->fetched32, &old32, owner));
        if (!EXPECT(pe, old < PES * count && old32 < PES * count))
            return;
        EXPECT_OK(pe, ferry_atomic_add(pe->ctx, &sums->taken[old], 1, owner));
        EXPECT_OK(pe, ferry_atomic32_add(pe->ctx, &sums->taken32[old32], 1, owner));
    }
}

static void adders_body(struct pe *pe)
{
    struct sums *sums = ferry_calloc(pe->job, 1, sizeof *sums);
    unsigned long count = pes_scaled(ADDS);

    if (!EXPECT(pe, sums))
        return;
    for (int owner = 0; owner < 2; owner++) {
        add_all(pe, sums, owner, count);
        EXPECT_OK(pe, ferry_barrier(pe->job));
        if (pe->rank != owner)
            continue;
        EXPECT(pe, sums->added == (3 * BURST + 5) * PES * count && sums->added32 == 3 * BURST * PES * count);
        EXPECT(pe, sums->fetched == PES * count && sums->fetched32 == PES * count);
        expect_permutation(pe, sums, count);
    }
}

/* 22, 24 */
static void test_adders_near_and_far(void **state)
{
    (void)state;
    over_all(adders_body);
}

/* Two halves of 8 bytes: one takes atomics, the other puts; neither disturbs the other. */
static void halves_body(struct pe *pe)
{
    uint32_t *words = ferry_calloc(pe->job, PES, 8);
    unsigned long count = pes_scaled(ADDS);
    int next = (pe->rank + 1) % PES;
    uint32_t own = 0;

    if (!EXPECT(pe, words))
        return;
    for (uint32_t i = 1; i <= count; i++) {
        EXPECT_OK(pe, ferry_atomic32_add(pe->ctx, &words[0], 1, 0));
        EXPECT_OK(pe, ferry_fence(pe->ctx)); /* behind the one before */
        EXPECT_OK(pe, ferry_p32(pe->ctx, &words[1], i, next));
        if (i % 16 == 0) { /* the only one who puts there */
            EXPECT_OK(pe, ferry_quiet(pe->ctx));
            EXPECT_OK(pe, ferry_g32(pe->ctx, &words[1], &own, next));
            EXPECT(pe, own == i);
        }
    }
    EXPECT_OK(pe, ferry_barrier(pe->job));
    if (pe->rank == 0)
        EXPECT(pe, words[0] == PES * count && words[1] == count);
}

static void test_halves(void **state)
{
    (void)state;
    over_all(halves_body);
}

/* ------------------------------------------------------------------ order between ways */

struct letter {
    uint64_t flag, count, ack, total;
    uint8_t bytes[BYTES];
};

static bool all_are(const uint8_t *bytes, uint8_t value)
{
    for (size_t i = 0; i < BYTES; i++)
        if (bytes[i] != value)
            return false;
    return true;
}

/* put → fence → atomic: who sees the atomic sees the bytes. */
static void send_before_atomic(struct pe *pe, struct letter *letter, uint8_t *source, uint64_t round, int to)
{
    memset(source, (int)(round & 0xff), BYTES);
    EXPECT_OK(pe, ferry_put_nbi(pe->ctx, letter->bytes, source, BYTES, to));
    EXPECT_OK(pe, ferry_fence(pe->ctx));
    EXPECT_OK(pe, ferry_atomic_add(pe->ctx, &letter->flag, 1, to));
}

/* atomic → fence → put: who sees the put sees the atomic. A weak signal is a put of a word that is seen whole. */
static void send_behind_atomic(struct pe *pe, struct letter *letter, uint64_t round, int to)
{
    EXPECT_OK(pe, ferry_atomic_add(pe->ctx, &letter->count, 1, to));
    EXPECT_OK(pe, ferry_fence(pe->ctx));
    EXPECT_OK(pe, ferry_signal(pe->ctx, &letter->total, round, FERRY_SIGNAL_SET | FERRY_SIGNAL_WEAK, to));
}

/* Everybody writes to the PE `step` further on, and is written to. */
static void order_with(struct pe *pe, struct letter *letter, uint8_t *source, int step)
{
    int to = (pe->rank + step) % PES, from = (pe->rank + PES - step) % PES;
    unsigned long rounds = pes_scaled(600);
    uint64_t old;

    for (uint64_t round = 1; round <= rounds; round++) {
        send_before_atomic(pe, letter, source, round, to);
        send_behind_atomic(pe, letter, round, to);
        EXPECT_OK(pe, ferry_wait_until(pe->job, &letter->flag, FERRY_CMP_GE, round));
        EXPECT(pe, all_are(letter->bytes, (uint8_t)round));
        EXPECT_OK(pe, ferry_wait_until(pe->job, &letter->total, FERRY_CMP_GE, round));
        EXPECT_OK(pe, ferry_atomic_fetch(pe->ctx, &letter->count, &old, pe->rank));
        EXPECT(pe, old == round);
        EXPECT_OK(pe, ferry_signal(pe->ctx, &letter->ack, 1, FERRY_SIGNAL_ADD, from));
        EXPECT_OK(pe, ferry_wait_until(pe->job, &letter->ack, FERRY_CMP_GE, round));
        EXPECT_OK(pe, ferry_quiet(pe->ctx)); /* the source is used again */
    }
    EXPECT_OK(pe, ferry_barrier(pe->job));
}

static void order_body(struct pe *pe)
{
    uint8_t *source = malloc(BYTES);

    for (int step = 1; step <= 2; step++) { /* to another host, and on this one */
        struct letter *letter = ferry_calloc(pe->job, 1, sizeof *letter);
        if (EXPECT(pe, letter && source))
            order_with(pe, letter, source, step);
    }
    free(source);
}

/* 10, 14, 28 */
static void test_order_between_ways(void **state)
{
    (void)state;
    over_all(order_body);
}

/* A strong signal covers the puts before it, also where it takes another way. */
static void signals_body(struct pe *pe)
{
    struct letter *letter = ferry_calloc(pe->job, 1, sizeof *letter);
    uint8_t *source = malloc(BYTES);
    unsigned long rounds = pes_scaled(600);

    if (!EXPECT(pe, letter && source))
        return;
    for (uint64_t round = 1; round <= rounds; round++) {
        int step = 1 + (int)(round % 3), to = (pe->rank + step) % PES, from = (pe->rank + PES - step) % PES;
        memset(source, (int)(round & 0xff), BYTES);
        EXPECT_OK(pe, ferry_put_nbi(pe->ctx, letter->bytes, source, 1000, to));
        EXPECT_OK(pe, ferry_put_nbi(pe->ctx, letter->bytes + 1000, source, 1500, to));
        EXPECT_OK(pe, ferry_put_signal_nbi(pe->ctx, letter->bytes + 2500, source, BYTES - 2500, &letter->flag, 1,
                                           FERRY_SIGNAL_ADD, to));
        EXPECT_OK(pe, ferry_wait_until(pe->job, &letter->flag, FERRY_CMP_GE, round));
        EXPECT(pe, all_are(letter->bytes, (uint8_t)round));
        EXPECT_OK(pe, ferry_signal(pe->ctx, &letter->ack, 1, FERRY_SIGNAL_ADD, from));
        EXPECT_OK(pe, ferry_wait_until(pe->job, &letter->ack, FERRY_CMP_GE, round));
        EXPECT_OK(pe, ferry_barrier(pe->job)); /* the next comes from somebody else */
    }
    free(source);
}

static void test_signals_across(void **state)
{
    (void)state;
    over_all(signals_body);
}

/* ------------------------------------------------------------------ single writers */

/* A word of every PE for every other, which alone adds to it. */
static void single_body(struct pe *pe)
{
    ferry_alloc_attr_t attr = {
        .size = sizeof attr, .bytes = PES * 8, .kind = FERRY_MEMORY_DEFAULT, .flags = FERRY_ALLOC_SINGLE_WRITER};
    uint64_t *words = ferry_alloc(pe->job, &attr), old;
    unsigned long count = pes_scaled(ADDS);

    if (!EXPECT(pe, words))
        return;
    memset(words, 0, PES * 8);
    EXPECT_OK(pe, ferry_barrier(pe->job));
    for (uint64_t i = 0; i < count; i++)
        for (int to = 0; to < PES; to++) {
            if (to == pe->rank)
                continue;
            EXPECT_OK(pe, ferry_atomic_add(pe->ctx, &words[pe->rank], 1, to));
            EXPECT_OK(pe, ferry_atomic_fetch_add(pe->ctx, &words[pe->rank], 1, &old, to));
            EXPECT(pe, old <= 2 * i + 1);
        }
    for (int by = 0; by < PES; by++)
        if (by != pe->rank)
            EXPECT_OK(pe, ferry_wait_until(pe->job, &words[by], FERRY_CMP_GE, 2 * count));
    EXPECT_OK(pe, ferry_barrier(pe->job));
    for (int by = 0; by < PES; by++)
        EXPECT(pe, words[by] == (by == pe->rank ? 0 : 2 * count));
}

static void test_single_writers(void **state)
{
    (void)state;
    over_all(single_body);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_adders_near_and_far), cmocka_unit_test(test_halves),
        cmocka_unit_test(test_order_between_ways),  cmocka_unit_test(test_signals_across),
        cmocka_unit_test(test_single_writers),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
