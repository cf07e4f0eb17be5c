/* SPDX-License-Identifier: Apache-2.0
 * Items 33, 34, 36 and 37: contexts come and go, threads share the default one or have their own, and none that is
 * blocked holds up another. On every PE. */
#include "crew.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int right(const struct pe *pe)
{
    return (pe->rank + 1) % pe->n;
}

static int left(const struct pe *pe)
{
    return (pe->rank + pe->n - 1) % pe->n;
}

/* ------------------------------------------------------------------ 33: create and destroy */

/* To look takes descriptors: one PE does it while the others stand in a barrier. */
static struct pes_usage usage(const struct pe *pe)
{
    return pe->rank == 0 ? pes_usage() : (struct pes_usage){0};
}

/* A transport hears of a connection that a peer has closed when it looks: it has some time to. */
static struct pes_usage settled(struct pe *pe, const struct pes_usage *before)
{
    struct pes_limit limit = pes_limit(10);
    struct pes_usage now = usage(pe);

    while ((now.fds > before->fds || now.threads > before->threads) && pes_in_time(&limit)) {
        sched_yield();
        now = usage(pe);
    }
    return now;
}

/* Each is used, and what it did is complete; descriptors, mappings and threads stay as they were. */
static void again_and_again(struct pe *pe)
{
    unsigned long n = rule_times(pe, "contexts", 10000);
    uint64_t *count = rule_calloc(pe, 8);
    uint8_t *data = rule_calloc(pe, 600), source[600];
    struct pes_usage before = {0}, after;

    if (!count || !data)
        return;
    for (uint64_t i = 0; i < n + 10; i++) {
        ferry_ctx_t *ctx = NULL;

        if (i == 10) { /* by now everything that is kept has been made */
            EXPECT_OK(pe, ferry_barrier(pe->job));
            before = usage(pe);
            EXPECT_OK(pe, ferry_barrier(pe->job));
        }
        if (!EXPECT_OK(pe, ferry_ctx_create(pe->job, 0, &ctx)))
            return;
        rule_fill(source, sizeof(source), i * 64 + (uint64_t)pe->rank);
        EXPECT_OK(pe, ferry_put_nbi(ctx, data, source, sizeof(source), right(pe)));
        EXPECT_OK(pe, ferry_atomic_inc(ctx, count, right(pe)));
        EXPECT_OK(pe, ferry_ctx_destroy(ctx));
    }
    EXPECT_OK(pe, ferry_barrier(pe->job));
    after = settled(pe, &before);
    EXPECT(pe, after.fds <= before.fds && after.threads <= before.threads); /* less: the meeting has ended since */
    EXPECT(pe, after.maps <= before.maps + 16);                             /* an arena or two of the C library */
    EXPECT(pe, ferry_test(pe->job, count, FERRY_CMP_EQ, n + 10) == 1);
    EXPECT(pe, rule_wrong(data, sizeof(source), (n + 9) * 64 + (uint64_t)left(pe)) == 0);
    EXPECT_OK(pe, ferry_barrier(pe->job));
}

static const char *const few_channels[] = {"FERRY_CHANNELS=12", NULL};

/* Until there are no more: the next one is refused and nothing else suffers. All are used at once. */
static void until_refused(struct pe *pe)
{
    enum { MOST = 64 };
    unsigned long rounds = rule_times(pe, "rounds", 200);
    uint64_t *counts = rule_calloc(pe, MOST * 8);
    int same = 0;

    if (!counts)
        return;
    for (uint64_t r = 1; r <= rounds; r++) {
        ferry_ctx_t *ctx[MOST] = {NULL};
        int n = 0, rc = FERRY_OK;

        while (n < MOST && (rc = ferry_ctx_create(pe->job, 0, &ctx[n])) == FERRY_OK)
            n++;
        EXPECT(pe, rc == FERRY_ERR_LIMIT && n > 1 && n < MOST && !ctx[n]);
        EXPECT(pe, r == 1 || n == same); /* none is lost on the way */
        same = n;
        for (int i = 0; i < n; i++)
            EXPECT_OK(pe, ferry_atomic_inc(ctx[i], &counts[i], right(pe)));
        EXPECT_OK(pe, ferry_atomic_inc(pe->ctx, &counts[n], right(pe)));
        for (int i = n - 1; i >= 0; i--)
            EXPECT_OK(pe, ferry_ctx_destroy(ctx[(i + (int)r) % n]));
        EXPECT_OK(pe, ferry_barrier(pe->job));
        for (int i = 0; i <= n; i++)
            EXPECT(pe, ferry_test(pe->job, &counts[i], FERRY_CMP_EQ, r) == 1);
        EXPECT_OK(pe, ferry_barrier(pe->job));
    }
}

/* ------------------------------------------------------------------ 34: threads */

struct work {
    uint64_t *sum; /* one word that all threads of all PEs add to */
    uint8_t *data; /* a slot for each thread */
    unsigned long rounds;
};
#define SLOT 3000u

/* Puts, gets, atomics and quiets, each thread on its slot at the right; what comes back is what went out. */
static void mixture(struct crew *crew)
{
    const struct work *work = crew->arg;
    struct pe *pe = crew->pe;
    uint8_t *slot = work->data + (size_t)crew->index * SLOT, source[SLOT], into[SLOT];
    uint64_t old;

    for (uint64_t r = 1; r <= work->rounds; r++) {
        uint64_t seed = (r * 64 + (uint64_t)pe->rank) * CREW_MAX + (uint64_t)crew->index;
        size_t n = 1 + r * 997 % SLOT;

        rule_fill(source, n, seed);
        EXPECT_OK(pe, ferry_put_nbi(crew->ctx, slot, source, n, right(pe)));
        EXPECT_OK(pe, ferry_atomic_add(crew->ctx, work->sum, 1, 0));
        EXPECT_OK(pe, ferry_quiet(crew->ctx));
        memset(into, 0, n);
        if (r & 1) {
            EXPECT_OK(pe, ferry_get(crew->ctx, into, slot, n, right(pe)));
        } else {
            EXPECT_OK(pe, ferry_get_nbi(crew->ctx, into, slot, n, right(pe)));
            EXPECT_OK(pe, ferry_quiet_pe(crew->ctx, right(pe)));
        }
        EXPECT(pe, rule_wrong(into, n, seed) == 0);
        EXPECT_OK(pe, ferry_atomic_fetch_add(crew->ctx, work->sum, 1, &old, 0));
        EXPECT_OK(pe, ferry_fence(crew->ctx));
    }
}

static void eight_threads(struct pe *pe, enum crew_contexts contexts)
{
    struct work work = {.rounds = rule_times(pe, "rounds of 8 threads", 1000)};

    work.sum = rule_calloc(pe, 8);
    work.data = rule_calloc(pe, CREW_MAX * SLOT);
    if (!work.sum || !work.data)
        return;
    crew_run(pe, CREW_MAX, contexts, mixture, &work);
    EXPECT_OK(pe, ferry_barrier(pe->job));
    if (pe->rank == 0)
        EXPECT(pe, ferry_test(pe->job, work.sum, FERRY_CMP_EQ, 2 * CREW_MAX * work.rounds * (uint64_t)pe->n) == 1);
    EXPECT_OK(pe, ferry_barrier(pe->job));
}

static void threads_shared(struct pe *pe)
{
    eight_threads(pe, CREW_SHARED);
}

static void threads_private(struct pe *pe)
{
    eight_threads(pe, CREW_PRIVATE);
}

/* ------------------------------------------------------------------ 36: a quiet covers what other threads posted */

struct relay {
    _Atomic uint64_t posted[CREW_MAX], quieted; /* rounds */
    uint8_t *data;
    unsigned long rounds;
};
#define POSTERS 3

static void reach(struct pe *pe, const _Atomic uint64_t *word, uint64_t value)
{
    struct pes_limit limit = pes_limit(60);

    while (atomic_load(word) < value && pes_in_time(&limit))
        sched_yield();
    EXPECT(pe, atomic_load(word) >= value);
}

/* Threads 1.. post on the default context and say so; thread 0 quiets it, and tells the other PE beside Ferry. */
static void relay_member(struct crew *crew)
{
    struct relay *relay = crew->arg;
    struct pe *pe = crew->pe;
    uint8_t source[SLOT];

    for (uint64_t r = 1; r <= relay->rounds; r++) {
        if (crew->index > 0) {
            rule_fill(source, SLOT, r * CREW_MAX + (uint64_t)crew->index);
            EXPECT_OK(pe, ferry_put_nbi(pe->ctx, relay->data + (size_t)crew->index * SLOT, source, SLOT, 1));
            atomic_store(&relay->posted[crew->index], r);
            reach(pe, &relay->quieted, r);
            continue;
        }
        for (int i = 1; i <= POSTERS; i++)
            reach(pe, &relay->posted[i], r);
        EXPECT_OK(pe, ferry_quiet(pe->ctx));
        atomic_store(&rule_stage(pe)->words[0], r);
        if (!rule_meet(pe, 1, r))
            return;
        atomic_store(&relay->quieted, r);
    }
}

static void quiet_for_others(struct pe *pe)
{
    struct relay relay = {.rounds = rule_times(pe, "rounds of 4 threads", 2000)};

    relay.data = rule_calloc(pe, CREW_MAX * SLOT);
    if (!relay.data)
        return;
    if (pe->rank == 0)
        crew_run(pe, POSTERS + 1, CREW_SHARED, relay_member, &relay);
    for (uint64_t r = 1; pe->rank == 1 && r <= relay.rounds; r++) {
        if (!rule_meet(pe, 0, r))
            return;
        for (uint64_t i = 1; i <= POSTERS; i++)
            EXPECT(pe, rule_wrong(relay.data + i * SLOT, SLOT, r * CREW_MAX + i) == 0);
        atomic_store(&rule_stage(pe)->words[1], r);
    }
    EXPECT_OK(pe, ferry_barrier(pe->job));
}

/* ------------------------------------------------------------------ 37: who is blocked blocks nobody */

struct release {
    uint64_t *words; /* a word for each waiting thread */
    unsigned long rounds;
};

/* Three threads wait for a word each; the fourth lets them go, through its own PE, the neighbour, or a fetching atomic.
 */
static void release_member(struct crew *crew)
{
    const struct release *release = crew->arg;
    struct pe *pe = crew->pe;
    uint64_t *back = &release->words[CREW_MAX], old;

    for (uint64_t r = 1; r <= release->rounds; r++) {
        if (crew->index > 0) {
            EXPECT_OK(pe, ferry_wait_until(pe->job, &release->words[crew->index], FERRY_CMP_GE, r));
            EXPECT_OK(pe, ferry_atomic_inc(crew->ctx, back, right(pe)));
            EXPECT_OK(pe, ferry_quiet(crew->ctx));
            continue;
        }
        EXPECT_OK(pe, ferry_signal(crew->ctx, &release->words[1], 1, FERRY_SIGNAL_ADD, pe->rank));
        EXPECT_OK(pe, ferry_p(crew->ctx, &release->words[CREW_MAX + 8], r, right(pe)));
        EXPECT_OK(pe, ferry_quiet(crew->ctx));
        EXPECT_OK(pe, ferry_signal(crew->ctx, &release->words[2], 1, FERRY_SIGNAL_ADD, right(pe)));
        EXPECT_OK(pe, ferry_atomic_fetch_add(crew->ctx, &release->words[3], 1, &old, right(pe)));
        EXPECT_OK(pe, ferry_wait_until(pe->job, back, FERRY_CMP_GE, 3 * r));
    }
}

static void releases(struct pe *pe, enum crew_contexts contexts)
{
    struct release release = {.rounds = rule_times(pe, "rounds of 4 threads", 2000)};

    release.words = rule_calloc(pe, (CREW_MAX + 9) * 8);
    if (!release.words)
        return;
    crew_run(pe, 4, contexts, release_member, &release);
    EXPECT_OK(pe, ferry_barrier(pe->job));
}

static void release_shared(struct pe *pe)
{
    releases(pe, CREW_SHARED);
}

static void release_private(struct pe *pe)
{
    releases(pe, CREW_PRIVATE);
}

/* One thread of PE 0 is in a meeting of all PEs, which PE 1 joins only when another thread of PE 0 has told it to. */
static void during_sync_member(struct crew *crew)
{
    const struct release *release = crew->arg;
    struct pe *pe = crew->pe;

    for (uint64_t r = 1; r <= release->rounds; r++) {
        if (crew->index == 0) {
            EXPECT_OK(pe, r & 1 ? ferry_sync(pe->job) : ferry_barrier(pe->job));
            atomic_store(&rule_stage(pe)->words[2], r);
        } else {
            EXPECT_OK(pe, ferry_signal(crew->ctx, release->words, 1, FERRY_SIGNAL_ADD, 1));
            EXPECT_OK(pe, ferry_quiet(crew->ctx));
            EXPECT_OK(pe, ferry_wait_until(pe->job, release->words, FERRY_CMP_GE, r));
            if (!rule_meet(pe, 2, r))
                return;
        }
    }
}

static void during_sync(struct pe *pe)
{
    struct release release = {.rounds = rule_times(pe, "rounds", 2000)};

    release.words = rule_calloc(pe, 8);
    if (!release.words)
        return;
    if (pe->rank == 0)
        crew_run(pe, 2, CREW_PRIVATE, during_sync_member, &release);
    for (uint64_t r = 1; pe->rank > 0 && r <= release.rounds; r++) {
        if (pe->rank == 1) {
            EXPECT_OK(pe, ferry_wait_until(pe->job, release.words, FERRY_CMP_GE, r));
            EXPECT_OK(pe, ferry_signal(pe->ctx, release.words, 1, FERRY_SIGNAL_ADD, 0));
            EXPECT_OK(pe, ferry_quiet(pe->ctx));
        }
        EXPECT_OK(pe, r & 1 ? ferry_sync(pe->job) : ferry_barrier(pe->job));
    }
    EXPECT_OK(pe, ferry_barrier(pe->job));
}

const struct rule fy_rules_contexts[] = {
    {"R33.1", "contexts made, used and destroyed leave nothing behind", 1, 0, again_and_again, NULL},
    {"R33.2", "one context too many is refused, and the others go on", 1, 0, until_refused, few_channels},
    {"R34.1", "8 threads on the default context", 2, 0, threads_shared, NULL},
    {"R34.2", "8 threads on contexts of their own", 2, 0, threads_private, few_channels},
    {"R36.1", "quiet by one thread covers what others have posted before", 2, 0, quiet_for_others, NULL},
    {"R37.1", "threads in a wait do not hold up the one that ends it, on one context", 1, 0, release_shared, NULL},
    {"R37.2", "threads in a wait do not hold up the one that ends it, on several contexts", 1, 0, release_private,
     NULL},
    {"R37.3", "a thread in a barrier does not hold up another of its PE", 2, 0, during_sync, NULL},
    {NULL, NULL, 0, 0, NULL, NULL},
};
