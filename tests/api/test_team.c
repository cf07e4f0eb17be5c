/* SPDX-License-Identifier: Apache-2.0
 * Teams: who is in them, numbers and their translation, teams of teams, many of them, several threads with a team each.
 * PEs are threads; the numbers in names are the items of the contract in docs/semantics.md. */
#include "pes.h"
#include "refused.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The team works: everybody's number in the job arrives, in the order of the team. */
static void gathers(struct pe *pe, ferry_team_t *team, const int *members, int n)
{
    int got[64], sum = 0, want = 0;
    if (!EXPECT(pe, team && ferry_team_n_pes(team) == n && members[ferry_team_my_pe(team)] == pe->rank))
        return;
    EXPECT_OK(pe, ferry_allgather(team, got, &pe->rank, sizeof(int)));
    EXPECT(pe, memcmp(got, members, (size_t)n * sizeof(int)) == 0);
    for (int i = 0; i < n; i++)
        want += members[i];
    EXPECT_OK(pe, ferry_reduce(team, &sum, &pe->rank, 1, FERRY_TYPE_INT32, FERRY_REDUCE_SUM));
    EXPECT(pe, sum == want);
    EXPECT_OK(pe, ferry_team_barrier(team));
}

static void predefined_body(struct pe *pe)
{
    int all[16];
    for (int i = 0; i < pe->n; i++)
        all[i] = i;
    gathers(pe, ferry_team_world(pe->job), all, pe->n);
    gathers(pe, ferry_team_shared(pe->job), all, pe->n); /* one host */
    REFUSED(pe, ferry_team_destroy(ferry_team_world(pe->job)), FERRY_ERR_ARG,
            "the world team stays until ferry_finalize");
    REFUSED(pe, ferry_team_destroy(ferry_team_shared(pe->job)), FERRY_ERR_ARG,
            "the shared team stays until ferry_finalize");
    EXPECT(pe,
           ferry_team_my_pe(NULL) == -1 && ferry_team_n_pes(NULL) == -1 && ferry_team_destroy(NULL) == FERRY_ERR_ARG);
    EXPECT(pe, ferry_team_world(NULL) == NULL); /* no default job here */
}

static void test_world_and_shared(void **state)
{
    (void)state;
    static const int n[] = {1, 2, 5};
    for (int i = 0; i < 3; i++)
        pes_check(n[i], predefined_body, NULL);
}

/* start, stride, size over the world; NULL for those left out. */
static ferry_team_t *split(struct pe *pe, ferry_team_t *parent, int start, int stride, int size)
{
    ferry_team_t *team = (ferry_team_t *)(void *)pe;
    EXPECT_OK(pe, ferry_team_split_strided(parent, start, stride, size, &team));
    EXPECT(pe, team != (ferry_team_t *)(void *)pe);
    return team;
}

static void strided_body(struct pe *pe)
{
    ferry_team_t *world = ferry_team_world(pe->job);
    static const int reversed[] = {7, 6, 5, 4, 3, 2, 1, 0}, odd_down[] = {7, 5, 3, 1}, ends[] = {0, 7},
                     nested[] = {3, 7}, one[] = {4};
    ferry_team_t *a = split(pe, world, 7, -1, 8), *b = split(pe, world, 7, -2, 4), *c = split(pe, world, 0, 7, 2),
                 *e = split(pe, world, 4, 0, 1), *d = b ? split(pe, b, 2, -2, 2) : NULL;
    gathers(pe, a, reversed, 8);
    EXPECT(pe, (b != NULL) == (pe->rank % 2 == 1));
    if (b)
        gathers(pe, b, odd_down, 4);
    EXPECT(pe, (c != NULL) == (pe->rank % 7 == 0));
    if (c)
        gathers(pe, c, ends, 2);
    EXPECT(pe, (d != NULL) == (pe->rank == 3 || pe->rank == 7));
    if (d)
        gathers(pe, d, nested, 2);
    if (e)
        gathers(pe, e, one, 1);
    for (int i = 0; i < 8; i++) {
        EXPECT(pe, ferry_team_translate(a, i, world) == 7 - i && ferry_team_translate(world, i, a) == 7 - i);
        EXPECT(pe, !b || ferry_team_translate(world, i, b) == (i % 2 ? (7 - i) / 2 : -1));
        EXPECT(pe, !b || i >= 4 || ferry_team_translate(b, i, a) == 2 * i);
    }
    EXPECT(pe, ferry_team_translate(a, 8, world) == -1 && ferry_team_translate(a, -1, world) == -1);
    EXPECT(pe, ferry_team_translate(NULL, 0, world) == -1 && ferry_team_translate(a, 0, NULL) == -1);
    if (d)
        EXPECT_OK(pe, ferry_team_destroy(d));
    EXPECT_OK(pe, ferry_team_destroy(a));
    gathers(pe, world, (const int[]){0, 1, 2, 3, 4, 5, 6, 7}, 8);
    /* b, c and e are left to finalize */
}

static void test_35_split_strided(void **state)
{
    (void)state;
    pes_check(8, strided_body, NULL);
}

/* Operations take the job's numbers: a reversed ring of puts and signals through translate. */
static void translate_body(struct pe *pe)
{
    ferry_team_t *world = ferry_team_world(pe->job), *team = split(pe, world, pe->n - 1, -1, pe->n);
    uint64_t *slot = ferry_calloc(pe->job, 2, 8);
    if (!EXPECT(pe, team && slot))
        return;
    int me = ferry_team_my_pe(team), next = (me + 1) % pe->n, before = (me + pe->n - 1) % pe->n;
    uint64_t value = 100 + (unsigned)me;
    EXPECT_OK(pe, ferry_put_signal(pe->ctx, slot, &value, 8, &slot[1], 1, FERRY_SIGNAL_ADD,
                                   ferry_team_translate(team, next, world)));
    EXPECT_OK(pe, ferry_wait_until(pe->job, &slot[1], FERRY_CMP_EQ, 1));
    EXPECT(pe, slot[0] == 100 + (unsigned)before);
    EXPECT_OK(pe, ferry_team_barrier(team));
    EXPECT_OK(pe, ferry_team_destroy(team));
}

static void test_35_translate(void **state)
{
    (void)state;
    pes_check(3, translate_body, NULL);
    pes_check(5, translate_body, NULL);
}

/* A barrier of a team completes what its members had put on the default context. */
static void barrier_body(struct pe *pe)
{
    ferry_team_t *team = split(pe, ferry_team_world(pe->job), 0, 2, 2); /* 0 and 2 */
    uint64_t *word = ferry_calloc(pe->job, 1, 8), mine = 5 + (unsigned)pe->rank;
    if (!EXPECT(pe, word) || !team)
        return;
    for (int i = 0; i < 20; i++, mine += 10) {
        EXPECT_OK(pe, ferry_put_nbi(pe->ctx, word, &mine, 8, 2 - pe->rank));
        EXPECT_OK(pe, ferry_team_barrier(team));
        EXPECT(pe, *word == mine + 2 - 2 * (uint64_t)pe->rank);
        EXPECT_OK(pe, ferry_team_sync(team));
    }
}

static void test_7_team_barrier(void **state)
{
    (void)state;
    pes_check(3, barrier_body, NULL);
}

/* As many teams as there is room for, then one more; and places are used again, also by other members than before. */
static void many_body(struct pe *pe)
{
    ferry_team_t *world = ferry_team_world(pe->job), *teams[64] = {0};
    static const int all[] = {0, 1, 2};
    int n = 0, rc = FERRY_OK;
    while (n < 64 && (rc = ferry_team_split_strided(world, 0, 1, 3, &teams[n])) == FERRY_OK)
        n++;
    EXPECT(pe, n == 22);
    REFUSED(pe, rc, FERRY_ERR_LIMIT, "no place for another team on every pe of the parent (22 at once)");
    for (int i = 0; i < n; i++)
        gathers(pe, teams[i], all, 3);
    for (int i = 0; i < n; i++)
        EXPECT_OK(pe, ferry_team_destroy(teams[i]));
    unsigned long rounds = pes_scaled(100);
    for (unsigned long i = 0; i < rounds; i++) {
        int first = (int)(i % 2), members[2] = {first, first + 1};
        ferry_team_t *two = split(pe, world, first, 1, 2);
        EXPECT(pe, (two != NULL) == (pe->rank == members[0] || pe->rank == members[1]));
        if (!two)
            continue;
        gathers(pe, two, members, 2);
        EXPECT_OK(pe, ferry_team_destroy(two));
    }
}

static void test_many_teams(void **state)
{
    (void)state;
    pes_check(3, many_body, NULL);
}

static void arguments_body(struct pe *pe)
{
    ferry_team_t *world = ferry_team_world(pe->job), *team;
    EXPECT(pe, ferry_team_split_strided(NULL, 0, 1, 1, &team) == FERRY_ERR_ARG);
    REFUSED(pe, ferry_team_split_strided(world, 0, 1, 1, NULL), FERRY_ERR_ARG, "the place for the team is null");
    REFUSED(pe, ferry_team_split_strided(world, 0, 1, 0, &team), FERRY_ERR_ARG,
            "size 0, a team has one member at least");
    REFUSED(pe, ferry_team_split_strided(world, 0, 0, 2, &team), FERRY_ERR_ARG, "stride 0");
    REFUSED(pe, ferry_team_split_strided(world, 1, 1, 2, &team), FERRY_ERR_ARG,
            "members 1 to 2 are not all in the parent, which has 0 to 1");
    REFUSED(pe, ferry_team_split_strided(world, 0, -1, 2, &team), FERRY_ERR_ARG, "members 0 to -1 are not all");
    REFUSED(pe, ferry_team_split_strided(world, 5, -4, 2, &team), FERRY_ERR_ARG, "members 5 to 1 are not all");
    REFUSED(pe, ferry_team_split_strided(world, 0, INT32_MAX, INT32_MAX, &team), FERRY_ERR_ARG,
            "are not all in the parent");
    EXPECT(pe, team == NULL);
    EXPECT_OK(pe, ferry_team_sync(world));
}

static void test_arguments(void **state)
{
    (void)state;
    pes_check(2, arguments_body, NULL);
}

/* Threads of a PE use a team each, at the same time, while its main thread is in barriers. */
struct worker {
    struct pe *pe;
    ferry_team_t *team;
    unsigned long rounds;
};

static void *worker_main(void *arg)
{
    struct worker *w = arg;
    for (unsigned long i = 0; i < w->rounds; i++) {
        uint64_t mine = i + (unsigned)w->pe->rank, sum = 0;
        EXPECT_OK(w->pe, ferry_reduce(w->team, &sum, &mine, 1, FERRY_TYPE_UINT64, FERRY_REDUCE_SUM));
        if (!EXPECT(w->pe, sum == 3 * i + 3))
            break;
    }
    return NULL;
}

static void threads_body(struct pe *pe)
{
    enum { WORKERS = 3 };
    struct worker workers[WORKERS];
    pthread_t threads[WORKERS];
    for (int i = 0; i < WORKERS; i++) {
        workers[i] = (struct worker){pe, split(pe, ferry_team_world(pe->job), i % 2 ? 2 : 0, i % 2 ? -1 : 1, 3),
                                     pes_scaled(200)};
        EXPECT(pe, pthread_create(&threads[i], NULL, worker_main, &workers[i]) == 0);
    }
    for (unsigned long i = 0; i < workers[0].rounds; i++)
        EXPECT_OK(pe, ferry_barrier(pe->job));
    for (int i = 0; i < WORKERS; i++)
        pthread_join(threads[i], NULL);
}

static void test_threads_with_teams(void **state)
{
    (void)state;
    pes_check(3, threads_body, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_world_and_shared),   cmocka_unit_test(test_35_split_strided),
        cmocka_unit_test(test_35_translate),       cmocka_unit_test(test_7_team_barrier),
        cmocka_unit_test(test_many_teams),         cmocka_unit_test(test_arguments),
        cmocka_unit_test(test_threads_with_teams),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
