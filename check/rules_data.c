/* SPDX-License-Identifier: Apache-2.0
 * Items 35 and 49 to 51: teams, targets that make no call, floods, many to one and one to many. On every PE. */
#include "rules.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

static int right(const struct pe *pe)
{
    return (pe->rank + 1) % pe->n;
}

static int left(const struct pe *pe)
{
    return (pe->rank + pe->n - 1) % pe->n;
}

/* ------------------------------------------------------------------ 35: teams */

/* The PEs counted from the end. */
static ferry_team_t *reversed(struct pe *pe)
{
    ferry_team_t *team = NULL;

    EXPECT_OK(pe, ferry_team_split_strided(ferry_team_world(pe->job), pe->n - 1, -1, pe->n, &team));
    EXPECT(pe, team != NULL);
    return team;
}

/* A put, a get, an atomic and a signal to the team's next PE end at the PE that translate names. */
static void translated(struct pe *pe)
{
    unsigned long rounds = rule_times(pe, "rounds of 4 operations", 1000);
    uint64_t *words = rule_calloc(pe, 64), got;
    ferry_team_t *team = reversed(pe), *world = ferry_team_world(pe->job);

    if (!words || !team)
        return;
    int me = ferry_team_my_pe(team), next = ferry_team_translate(team, (me + 1) % pe->n, world);
    EXPECT(pe, me == pe->n - 1 - pe->rank && next == left(pe));
    EXPECT(pe, ferry_team_translate(world, pe->rank, team) == me && ferry_team_translate(team, pe->n, world) == -1);
    words[4] = 1000 + (uint64_t)me;
    EXPECT_OK(pe, ferry_barrier(pe->job));
    for (uint64_t r = 1; r <= rounds; r++) {
        uint64_t mine = r * 64 + (uint64_t)me;

        EXPECT_OK(pe, ferry_put(pe->ctx, &words[0], &mine, 8, next));
        EXPECT_OK(pe, ferry_get(pe->ctx, &got, &words[4], 8, next));
        EXPECT(pe, got == 1000 + (uint64_t)((me + 1) % pe->n));
        EXPECT_OK(pe, ferry_atomic_add(pe->ctx, &words[1], mine, next));
        EXPECT_OK(pe, ferry_signal(pe->ctx, &words[2], r, FERRY_SIGNAL_SET, next));
        EXPECT_OK(pe, ferry_team_barrier(team));
        EXPECT(pe, words[0] == r * 64 + (uint64_t)((me + pe->n - 1) % pe->n));
        EXPECT(pe, ferry_test(pe->job, &words[2], FERRY_CMP_EQ, r) == 1);
        EXPECT_OK(pe, ferry_team_sync(team));
    }
    EXPECT(pe, ferry_test(pe->job, &words[1], FERRY_CMP_EQ,
                          32 * rounds * (rounds + 1) + rounds * (uint64_t)((me + pe->n - 1) % pe->n)) == 1);
    EXPECT_OK(pe, ferry_barrier(pe->job));
    EXPECT_OK(pe, ferry_team_destroy(team));
}

/* Each collective call once, with `n` bytes of each member, against what it must give. */
static void all_collectives(struct pe *pe, ferry_team_t *team, size_t n, uint64_t round)
{
    int me = ferry_team_my_pe(team), size = ferry_team_n_pes(team), root = (int)(round % (uint64_t)size);
    uint8_t *mine = malloc(n * (size_t)size), *all = malloc(n * (size_t)size);
    int64_t in[3] = {me + 1, -me, me * 7}, sum[3], least[3];
    size_t bad = 0;

    if (!EXPECT(pe, mine && all))
        return;
    for (int to = 0; to < size; to++)
        rule_fill(mine + (size_t)to * n, n, round * 4096 + (uint64_t)(me * 64 + to));
    EXPECT_OK(pe, ferry_broadcast(team, all, mine, n, root));
    bad += rule_wrong(all, n, round * 4096 + (uint64_t)(root * 64));
    EXPECT_OK(pe, ferry_allgather(team, all, mine, n));
    for (int from = 0; from < size; from++)
        bad += rule_wrong(all + (size_t)from * n, n, round * 4096 + (uint64_t)(from * 64));
    EXPECT_OK(pe, ferry_alltoall(team, all, mine, n));
    for (int from = 0; from < size; from++)
        bad += rule_wrong(all + (size_t)from * n, n, round * 4096 + (uint64_t)(from * 64 + me));
    EXPECT_OK(pe, ferry_reduce(team, sum, in, 3, FERRY_TYPE_INT64, FERRY_REDUCE_SUM));
    EXPECT_OK(pe, ferry_reduce(team, least, in, 3, FERRY_TYPE_INT64, FERRY_REDUCE_MIN));
    EXPECT(pe, sum[0] == size * (size + 1) / 2 && sum[1] == -size * (size - 1) / 2 && sum[2] == -7 * sum[1]);
    EXPECT(pe, least[0] == 1 && least[1] == 1 - size && least[2] == 0 && bad == 0);
    free(mine);
    free(all);
}

static void team_collectives(struct pe *pe)
{
    static const size_t lengths[] = {1, 8, 100, 4097, 40000};
    unsigned long rounds = rule_times(pe, "rounds of 5 sizes", 100);
    ferry_team_t *team = reversed(pe);

    for (unsigned long r = 0; team && r < rounds; r++)
        for (int s = 0; s < 5; s++)
            all_collectives(pe, team, lengths[s], r * 5 + (unsigned)s);
    if (team)
        EXPECT_OK(pe, ferry_team_destroy(team));
}

/* A PE of every second and of the upper half takes part in both; what one team does, the other does not see. */
static void two_teams(struct pe *pe)
{
    unsigned long rounds = rule_times(pe, "rounds", 200);
    ferry_team_t *even = NULL, *upper = NULL, *world = ferry_team_world(pe->job);
    int half = pe->n / 2;

    EXPECT_OK(pe, ferry_team_split_strided(world, 0, 2, (pe->n + 1) / 2, &even));
    EXPECT_OK(pe, ferry_team_split_strided(world, half, 1, pe->n - half, &upper));
    EXPECT(pe, (even != NULL) == (pe->rank % 2 == 0) && (upper != NULL) == (pe->rank >= half));
    for (unsigned long r = 0; r < rounds; r++) {
        if (even)
            all_collectives(pe, even, 777, r);
        if (upper)
            all_collectives(pe, upper, 333, r);
    }
    if (even)
        EXPECT_OK(pe, ferry_team_destroy(even));
    if (upper)
        EXPECT_OK(pe, ferry_team_destroy(upper));
}

/* ------------------------------------------------------------------ 49: the target makes no call */

#define PASSIVE 100000u

static void disturb(struct pe *pe, uint8_t *data, uint64_t *words, uint8_t *buffer, uint64_t r)
{
    uint64_t old;

    EXPECT_OK(pe, ferry_atomic_compare_swap(pe->ctx, &words[2], r - 1, r, &old, 1));
    EXPECT(pe, old == r - 1);
    rule_fill(buffer, PASSIVE, r);
    EXPECT_OK(pe, ferry_put_nbi(pe->ctx, data, buffer, PASSIVE, 1));
    EXPECT_OK(pe, ferry_atomic_add(pe->ctx, &words[0], 2, 1));
    EXPECT_OK(pe, ferry_atomic32_add(pe->ctx, (uint32_t *)&words[1], 3, 1));
    EXPECT_OK(pe, ferry_signal(pe->ctx, &words[3], r, FERRY_SIGNAL_SET, 1));
    EXPECT_OK(pe, ferry_quiet(pe->ctx));
    memset(buffer, 0, PASSIVE);
    EXPECT_OK(pe, ferry_get(pe->ctx, buffer, data, PASSIVE, 1));
    EXPECT(pe, rule_wrong(buffer, PASSIVE, r) == 0);
}

/* PE 1 computes until PE 0 says, beside Ferry, that all is complete: with a target that had to call, PE 0 would wait
 * for ever. */
static void passive_target(struct pe *pe)
{
    unsigned long rounds = rule_times(pe, "rounds of 6 operations", 200);
    uint8_t *data = rule_calloc(pe, PASSIVE), *buffer = malloc(PASSIVE);
    uint64_t *words = rule_calloc(pe, 32);

    if (!data || !words || !EXPECT(pe, buffer != NULL))
        return;
    EXPECT_OK(pe, ferry_barrier(pe->job));
    for (uint64_t r = 1; pe->rank == 0 && r <= rounds; r++)
        disturb(pe, data, words, buffer, r);
    if (pe->rank == 0)
        atomic_store(&rule_stage(pe)->words[0], 1);
    if (!rule_meet(pe, 0, 1))
        return;
    if (pe->rank == 1) {
        EXPECT(pe, rule_wrong(data, PASSIVE, rounds) == 0);
        EXPECT(pe, ferry_test(pe->job, &words[0], FERRY_CMP_EQ, 2 * rounds) == 1);
        EXPECT(pe, ferry_test(pe->job, &words[3], FERRY_CMP_EQ, rounds) == 1);
    }
    EXPECT_OK(pe, ferry_barrier(pe->job));
    free(buffer);
}

#define POSTS 400u /* in all, by 8 before each quiet: that fits in every queue */

/* How often the thread at hand has slept or waited for another one. */
static long slept(void)
{
    struct rusage usage = {.ru_nvcsw = 0};

    getrusage(RUSAGE_THREAD, &usage);
    return usage.ru_nvcsw;
}

/* 400 puts; how often that slept. */
static long sleeps_of_posting(struct pe *pe, uint64_t *words, const uint64_t *value)
{
    long waits = 0, before;

    for (unsigned i = 0; i < POSTS; i += 8) {
        before = slept();
        for (unsigned k = 0; k < 8; k++)
            EXPECT_OK(pe, ferry_put_nbi(pe->ctx, &words[k], value, 8, 1));
        waits += slept() - before;
        EXPECT_OK(pe, ferry_quiet(pe->ctx));
    }
    return waits;
}

/* The core's locks are waited for now and then, more often where a thread that holds one is not given a core; what
 * waits in the data path does so each time, however often it is tried. */
static void posting_waits_for_nobody(struct pe *pe)
{
    uint64_t *words = rule_calloc(pe, 64), value = 1;
    long waits = POSTS;

    if (!words)
        return;
    EXPECT_OK(pe, ferry_put_nbi(pe->ctx, &words[0], &value, 8, right(pe)));
    EXPECT_OK(pe, ferry_quiet(pe->ctx));
    EXPECT_OK(pe, ferry_barrier(pe->job));
    for (int tries = 0; pe->rank == 0 && tries < 5 && waits >= (long)POSTS / 2; tries++)
        waits = sleeps_of_posting(pe, words, &value);
    EXPECT_OK(pe, ferry_barrier(pe->job));
    if (pe->rank == 0 && !EXPECT(pe, waits < (long)POSTS / 2))
        printf("    %ld sleeps in %u puts\n", waits, POSTS);
}

/* ------------------------------------------------------------------ 50, 51: floods */

/* More operations than any queue holds, of all kinds, before one quiet. */
static void flood(struct pe *pe)
{
    unsigned long n = rule_times(pe, "operations without quiet", 1000000) / 4 + 1;
    uint64_t *words = rule_calloc(pe, 64), *slots = rule_calloc(pe, 4096 * 8), *source = malloc(4096 * 8);

    if (!words || !slots || !EXPECT(pe, source != NULL))
        return;
    for (size_t i = 0; i < 4096; i++)
        source[i] = i * 1000003 + (uint64_t)pe->rank;
    EXPECT_OK(pe, ferry_barrier(pe->job));
    for (unsigned long i = 0; i < n; i++) {
        EXPECT_OK(pe, ferry_put_nbi(pe->ctx, &slots[i % 4096], &source[i % 4096], 8, right(pe)));
        EXPECT_OK(pe, ferry_atomic_add(pe->ctx, &words[0], 1, right(pe)));
        EXPECT_OK(pe, ferry_signal(pe->ctx, &words[1], 2, FERRY_SIGNAL_ADD | FERRY_SIGNAL_WEAK, right(pe)));
        EXPECT_OK(pe, ferry_p(pe->ctx, &words[2], i, right(pe)));
    }
    EXPECT_OK(pe, ferry_quiet(pe->ctx));
    EXPECT_OK(pe, ferry_sync(pe->job));
    EXPECT(pe, ferry_test(pe->job, &words[0], FERRY_CMP_EQ, n) == 1);
    EXPECT(pe, ferry_test(pe->job, &words[1], FERRY_CMP_EQ, 2 * n) == 1);
    size_t bad = 0;
    for (size_t i = 0; i < 4096 && i < n; i++)
        bad += slots[i] != i * 1000003 + (uint64_t)left(pe);
    EXPECT(pe, bad == 0);
    EXPECT_OK(pe, ferry_barrier(pe->job));
    free(source);
}

/* Gets without quiet: each lands in its place. */
static void flood_of_gets(struct pe *pe)
{
    unsigned long n = rule_times(pe, "gets without quiet", 200000), bad = 0;
    uint64_t *slots = rule_calloc(pe, 1024 * 8), *into = calloc(n, 8);

    if (!slots || !EXPECT(pe, into != NULL))
        return;
    for (size_t i = 0; i < 1024; i++)
        slots[i] = i * 4099 + (uint64_t)pe->rank;
    EXPECT_OK(pe, ferry_barrier(pe->job));
    for (unsigned long i = 0; i < n; i++)
        EXPECT_OK(pe, ferry_get_nbi(pe->ctx, &into[i], &slots[i % 1024], 8, right(pe)));
    EXPECT_OK(pe, ferry_quiet(pe->ctx));
    for (unsigned long i = 0; i < n; i++)
        bad += into[i] != i % 1024 * 4099 + (uint64_t)right(pe);
    EXPECT(pe, bad == 0);
    EXPECT_OK(pe, ferry_barrier(pe->job));
    free(into);
}

/* All PEs send to PE 0, more than a queue holds, each put to a place of its own; one counter tells that all is there.
 */
static void fan_in(struct pe *pe)
{
    enum { PUT = 72 };
    unsigned long burst = rule_times(pe, "puts by each PE and round", 2000), rounds = 3;
    uint8_t *slots = rule_calloc(pe, (size_t)pe->n * burst * PUT), *source = malloc(burst * PUT);
    uint64_t *count = rule_calloc(pe, 16), *go = count + 1;

    if (!slots || !count || !EXPECT(pe, source != NULL))
        return;
    EXPECT_OK(pe, ferry_barrier(pe->job));
    for (uint64_t r = 1; r <= rounds; r++) {
        uint8_t *mine = slots + (size_t)pe->rank * burst * PUT;

        rule_fill(source, burst * PUT, r * 64 + (uint64_t)pe->rank);
        for (unsigned long i = 0; i < burst; i++)
            EXPECT_OK(pe, ferry_put_signal_nbi(pe->ctx, mine + i * PUT, source + i * PUT, PUT, count, 1,
                                               FERRY_SIGNAL_ADD, 0));
        if (pe->rank == 0) {
            EXPECT_OK(pe, ferry_wait_until(pe->job, count, FERRY_CMP_GE, r * burst * (uint64_t)pe->n));
            for (int from = 0; from < pe->n; from++)
                EXPECT(pe, rule_wrong(slots + (size_t)from * burst * PUT, burst * PUT, r * 64 + (uint64_t)from) == 0);
            for (int to = 0; to < pe->n; to++)
                EXPECT_OK(pe, ferry_signal(pe->ctx, go, r, FERRY_SIGNAL_SET, to));
        }
        EXPECT_OK(pe, ferry_wait_until(pe->job, go, FERRY_CMP_GE, r));
        EXPECT_OK(pe, ferry_quiet(pe->ctx)); /* the source is refilled */
    }
    EXPECT_OK(pe, ferry_barrier(pe->job));
    EXPECT(pe, pe->rank != 0 || ferry_test(pe->job, count, FERRY_CMP_EQ, rounds * burst * (uint64_t)pe->n) == 1);
    free(source);
}

/* PE 0 sends to all in turn; each sees its own data whole. */
static void fan_out(struct pe *pe)
{
    enum { SLOT = 2000 };
    unsigned long rounds = rule_times(pe, "rounds", 2000);
    uint8_t *slot = rule_calloc(pe, SLOT), *source = malloc((size_t)pe->n * SLOT);
    uint64_t *flag = rule_calloc(pe, 16), *count = flag + 1;

    if (!slot || !flag || !EXPECT(pe, source != NULL))
        return;
    EXPECT_OK(pe, ferry_barrier(pe->job));
    for (uint64_t r = 1; r <= rounds; r++) {
        for (int to = 0; pe->rank == 0 && to < pe->n; to++) {
            rule_fill(source + to * SLOT, SLOT, r * 64 + (uint64_t)to);
            EXPECT_OK(pe, ferry_put_signal_nbi(pe->ctx, slot, source + to * SLOT, SLOT, flag, r, FERRY_SIGNAL_SET, to));
        }
        EXPECT_OK(pe, ferry_wait_until(pe->job, flag, FERRY_CMP_GE, r));
        EXPECT(pe, rule_wrong(slot, SLOT, r * 64 + (uint64_t)pe->rank) == 0);
        EXPECT_OK(pe, ferry_atomic_inc(pe->ctx, count, 0));
        if (pe->rank == 0) {
            EXPECT_OK(pe, ferry_wait_until(pe->job, count, FERRY_CMP_GE, r * (uint64_t)pe->n));
            EXPECT_OK(pe, ferry_quiet(pe->ctx));
        }
    }
    EXPECT_OK(pe, ferry_barrier(pe->job));
    free(source);
}

/* Everybody puts to and gets from everybody at once. */
static void all_to_all(struct pe *pe)
{
    enum { SLOT = 3000 };
    unsigned long rounds = rule_times(pe, "rounds", 400);
    uint8_t *slots = rule_calloc(pe, (size_t)pe->n * SLOT), *own = rule_calloc(pe, SLOT), source[SLOT];
    uint8_t *into = malloc((size_t)pe->n * SLOT);

    if (!slots || !own || !EXPECT(pe, into != NULL))
        return;
    rule_fill(own, SLOT, 9000 + (uint64_t)pe->rank);
    EXPECT_OK(pe, ferry_barrier(pe->job));
    for (uint64_t r = 1; r <= rounds; r++) {
        rule_fill(source, SLOT, r * 64 + (uint64_t)pe->rank);
        for (int i = 0; i < pe->n; i++) {
            int peer = (pe->rank + i) % pe->n;

            EXPECT_OK(pe, ferry_put_nbi(pe->ctx, slots + pe->rank * SLOT, source, SLOT, peer));
            EXPECT_OK(pe, ferry_get_nbi(pe->ctx, into + peer * SLOT, own, SLOT, peer));
        }
        EXPECT_OK(pe, ferry_barrier(pe->job));
        for (int from = 0; from < pe->n; from++)
            EXPECT(pe, rule_wrong(slots + from * SLOT, SLOT, r * 64 + (uint64_t)from) == 0 &&
                           rule_wrong(into + from * SLOT, SLOT, 9000 + (uint64_t)from) == 0);
        EXPECT_OK(pe, ferry_barrier(pe->job));
    }
    free(into);
}

const struct rule fy_rules_data[] = {
    {"R35.1", "operations go to the PE that a reversed team translates to", 2, 0, translated, NULL},
    {"R35.2", "collective calls of a reversed team number its members", 2, 0, team_collectives, NULL},
    {"R35.3", "two teams with a PE in common do not disturb each other", 2, 0, two_teams, NULL},
    {"R49.1", "operations complete at a target that makes no call", 2, 0, passive_target, NULL},
    {"R49.2", "posting neither sleeps nor waits for another thread", 2, 0, posting_waits_for_nobody, NULL},
    {"R50.1", "a flood of puts, atomics and signals before one quiet loses nothing", 2, 0, flood, NULL},
    {"R50.2", "a flood of gets before one quiet loses nothing", 2, 0, flood_of_gets, NULL},
    {"R51.1", "all PEs send to one", 2, 0, fan_in, NULL},
    {"R51.2", "one PE sends to all", 2, 0, fan_out, NULL},
    {"R51.3", "all PEs put to and get from all", 2, 0, all_to_all, NULL},
    {NULL, NULL, 0, 0, NULL, NULL},
};
