/* SPDX-License-Identifier: Apache-2.0
 * Collective operations against models, over the transport in TEST_TRANSPORT: all sizes of teams, sizes around and
 * above the scratch memory, back to back, in place, edge values, wrong arguments. PEs are threads; processes where one
 * has to die. */
#include "pes.h"
#include "refused.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <cmocka.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The same numbers on every PE. */
static uint64_t draw(uint64_t *seed)
{
    *seed += 0x9e3779b97f4a7c15u;
    uint64_t z = *seed;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

/* Byte i that `from` has for `to` in round `round`. */
static uint8_t byte_of(int from, int to, int round, size_t i)
{
    return (uint8_t)(i * 31 + (i >> 8) * 7 + (size_t)from * 57 + (size_t)to * 91 + (size_t)round * 13);
}

static void fill(uint8_t *at, size_t length, int from, int to, int round)
{
    for (size_t i = 0; i < length; i++)
        at[i] = byte_of(from, to, round, i);
}

static bool holds(const uint8_t *at, size_t length, int from, int to, int round)
{
    for (size_t i = 0; i < length; i++)
        if (at[i] != byte_of(from, to, round, i))
            return false;
    return true;
}

struct plan {
    int n;
    unsigned long rounds;
    size_t most; /* bytes per PE */
};

/* Rounds of random collectives of random sizes, nothing between them; each is checked. Guards lie behind what is
 * written. */
static void one_round(struct pe *pe, ferry_team_t *team, int round, uint8_t *src, uint8_t *dest, uint64_t *seed,
                      size_t most)
{
    int n = ferry_team_n_pes(team), me = ferry_team_my_pe(team), root = (int)(draw(seed) % (unsigned)n);
    size_t length = draw(seed) % (draw(seed) % 4 ? 64 : most) + 1, all = length * (size_t)n;
    bool in_place = draw(seed) % 2;
    switch (draw(seed) % 4) {
    case 0:
        dest[length] = 0xc3;
        fill(in_place ? dest : src, length, root, 0, round);
        if (me != root)
            memset(dest, 0, length);
        EXPECT_OK(pe, ferry_broadcast(team, dest, me != root ? NULL : in_place ? dest : src, length, root));
        EXPECT(pe, holds(dest, length, root, 0, round) && dest[length] == 0xc3);
        break;
    case 1:
        dest[all] = 0xc3;
        fill(in_place ? dest + (size_t)me * length : src, length, me, 0, round);
        EXPECT_OK(pe, ferry_allgather(team, dest, in_place ? dest + (size_t)me * length : src, length));
        for (int i = 0; i < n; i++)
            EXPECT(pe, holds(dest + (size_t)i * length, length, i, 0, round));
        EXPECT(pe, dest[all] == 0xc3);
        break;
    case 2:
        dest[all] = 0xc3;
        for (int i = 0; i < n; i++)
            fill((in_place ? dest : src) + (size_t)i * length, length, me, i, round);
        EXPECT_OK(pe, ferry_alltoall(team, dest, in_place ? dest : src, length));
        for (int i = 0; i < n; i++)
            EXPECT(pe, holds(dest + (size_t)i * length, length, i, me, round));
        EXPECT(pe, dest[all] == 0xc3);
        break;
    default:
        EXPECT_OK(pe, draw(seed) % 2 ? ferry_team_sync(team) : ferry_team_barrier(team));
    }
}

static void rounds_body(struct pe *pe)
{
    const struct plan *plan = pe->arg;
    size_t room = plan->most * (size_t)pe->n + 8;
    uint8_t *src = malloc(room), *dest = malloc(room);
    uint64_t seed = 1234 + (unsigned)pe->n;
    if (EXPECT(pe, src && dest))
        for (unsigned long i = 0; i < plan->rounds; i++)
            one_round(pe, ferry_team_world(pe->job), (int)i, src, dest, &seed, plan->most);
    free(src);
    free(dest);
}

static const int sizes[] = {1, 2, 3, 5, 8, 16};

static int largest(void)
{
    return pes_scaled(100) >= 100 ? 6 : 5;
}

static void test_random_collectives(void **state)
{
    (void)state;
    for (int i = 0; i < largest(); i++) {
        struct plan plan = {sizes[i], pes_scaled(200), 5000};
        pes_check(sizes[i], rounds_body, &plan);
    }
}

/* Far more than the scratch memory, and sizes around what fits in it. */
static void large_body(struct pe *pe)
{
    static const size_t lengths[] = {65535, 65536, 65537, 21840, 21841, 300001};
    uint8_t *src = malloc(300001u * 3), *dest = malloc(300001u * 3);
    ferry_team_t *world = ferry_team_world(pe->job);
    for (int i = 0; src && dest && i < 6; i++) {
        size_t length = lengths[i];
        fill(src, length, pe->rank, 0, i);
        EXPECT_OK(pe, ferry_broadcast(world, dest, src, length, 1));
        EXPECT(pe, holds(dest, length, 1, 0, i));
        EXPECT_OK(pe, ferry_allgather(world, dest, src, length));
        for (int k = 0; k < 3; k++)
            EXPECT(pe, holds(dest + (size_t)k * length, length, k, 0, i));
        for (int k = 0; k < 3; k++)
            fill(src + (size_t)k * length, length, pe->rank, k, i);
        EXPECT_OK(pe, ferry_alltoall(world, dest, src, length));
        for (int k = 0; k < 3; k++)
            EXPECT(pe, holds(dest + (size_t)k * length, length, k, pe->rank, i));
    }
    free(src);
    free(dest);
}

static void test_larger_than_scratch(void **state)
{
    (void)state;
    pes_check(3, large_body, NULL);
}

/* Small ones back to back, the roots in turn; a PE that comes late now and then, so that others run ahead as far as
 * they can. */
static void back_to_back_body(struct pe *pe)
{
    ferry_team_t *world = ferry_team_world(pe->job);
    unsigned long rounds = pes_scaled(1000);
    for (unsigned long i = 0; i < rounds; i++) {
        uint64_t mine = i * 100 + (unsigned)pe->rank, got = 0, sum = 0;
        int root = (int)(i % (unsigned)pe->n);
        for (int k = 0; i % 97 == 5 && k < 20 && root == pe->rank; k++)
            sched_yield();
        if (i % 3 == 2) {
            EXPECT_OK(pe, ferry_reduce(world, &sum, &mine, 1, FERRY_TYPE_UINT64, FERRY_REDUCE_SUM));
            EXPECT(pe, sum == i * 100 * (unsigned)pe->n + (unsigned)(pe->n * (pe->n - 1) / 2));
            continue;
        }
        EXPECT_OK(pe, ferry_broadcast(world, &got, &mine, 8, root));
        if (!EXPECT(pe, got == i * 100 + (unsigned)root))
            return;
    }
}

static void test_1000_back_to_back(void **state)
{
    (void)state;
    pes_check(2, back_to_back_body, NULL);
    pes_check(5, back_to_back_body, NULL);
}

/* ------------------------------------------------------------------ what goes wrong */

static void arguments_body(struct pe *pe)
{
    ferry_team_t *world = ferry_team_world(pe->job);
    char buffer[64] = {0};
    EXPECT(pe, ferry_team_sync(NULL) == FERRY_ERR_ARG);
    EXPECT(pe, ferry_broadcast(NULL, buffer, buffer, 1, 0) == FERRY_ERR_ARG);
    REFUSED(pe, ferry_broadcast(world, buffer, buffer, 1, 2), FERRY_ERR_ARG,
            "ferry_broadcast: root 2 is out of range, the team has 0 to 1");
    REFUSED(pe, ferry_broadcast(world, buffer, buffer, 1, -1), FERRY_ERR_ARG, "root -1 is out of range");
    REFUSED(pe, ferry_broadcast(world, NULL, buffer, 1, 0), FERRY_ERR_ARG,
            "ferry_broadcast: dest is null, the length 1");
    REFUSED(pe, ferry_broadcast(world, buffer, NULL, 1, pe->rank), FERRY_ERR_ARG, "ferry_broadcast: src is null");
    REFUSED(pe, ferry_allgather(world, buffer, NULL, 1), FERRY_ERR_ARG, "ferry_allgather: src is null");
    REFUSED(pe, ferry_allgather(world, buffer, buffer, SIZE_MAX), FERRY_ERR_ARG, "more than a size can say");
    REFUSED(pe, ferry_alltoall(world, NULL, buffer, 1), FERRY_ERR_ARG, "ferry_alltoall: dest is null");
    REFUSED(pe, ferry_reduce(world, buffer, buffer, 1, 6, 0), FERRY_ERR_ARG, "ferry_reduce: type 6 or operation 0");
    REFUSED(pe, ferry_reduce(world, buffer, buffer, 1, 0, 3), FERRY_ERR_ARG, "ferry_reduce: type 0 or operation 3");
    REFUSED(pe, ferry_reduce(world, buffer, buffer, 1, -1, 0), FERRY_ERR_ARG, "type -1");
    REFUSED(pe, ferry_reduce(world, buffer, buffer, SIZE_MAX / 2, 1, 0), FERRY_ERR_ARG, "more than a size can say");
    EXPECT_OK(pe, ferry_broadcast(world, NULL, NULL, 0, 0));
    EXPECT_OK(pe, ferry_allgather(world, NULL, NULL, 0));
    EXPECT_OK(pe, ferry_alltoall(world, NULL, NULL, 0));
    EXPECT_OK(pe, ferry_reduce(world, NULL, NULL, 0, FERRY_TYPE_FLOAT, FERRY_REDUCE_MAX));
    EXPECT_OK(pe, ferry_team_barrier(world)); /* none of it put the members out of step */
}

static void test_arguments(void **state)
{
    (void)state;
    pes_check(2, arguments_body, NULL);
}

/* Members that call differently are told so, and the team refuses what follows; the job goes on. */
static void mismatch_body(struct pe *pe)
{
    ferry_team_t *team;
    int32_t dest = 0;
    if (!EXPECT_OK(pe, ferry_team_split_strided(ferry_team_world(pe->job), 0, 1, 2, &team)))
        return;
    int rc = ferry_reduce(team, &dest, &pe->rank, 1, FERRY_TYPE_INT32, pe->rank ? FERRY_REDUCE_SUM : FERRY_REDUCE_MAX);
    REFUSED(pe, rc, FERRY_ERR_MISMATCH, "called another collective of this team, or the same with other arguments");
    REFUSED(pe, ferry_team_sync(team), FERRY_ERR_STATE, "an earlier collective call of this team failed");
    EXPECT_OK(pe, ferry_barrier(pe->job));
    EXPECT(pe, ferry_team_destroy(team) == FERRY_ERR_STATE);
    EXPECT_OK(pe, ferry_team_barrier(ferry_team_world(pe->job)));
}

static void test_mismatch(void **state)
{
    (void)state;
    pes_check(2, mismatch_body, NULL);
}

static void swallow(void *arg, int level, const char *line)
{
    (void)arg;
    (void)level;
    (void)line;
}

static void all_here(struct pe *pe, _Atomic int *count)
{
    double end = pes_now() + 30;
    atomic_fetch_add(count, 1);
    while (atomic_load(count) < pe->n && pes_now() < end)
        sched_yield();
    EXPECT(pe, atomic_load(count) >= pe->n);
}

/* An abort ends collectives that are under way. */
static void abort_body(struct pe *pe)
{
    uint64_t value = 1, sum;
    all_here(pe, pe->arg);
    if (pe->rank == 1)
        EXPECT_OK(pe, ferry_abort(pe->job, 3));
    else
        REFUSED(pe, ferry_reduce(ferry_team_world(pe->job), &sum, &value, 1, FERRY_TYPE_UINT64, FERRY_REDUCE_SUM),
                FERRY_ERR_ABORTED, "ferry_reduce: pe 1 aborted the job with code 3");
}

static void test_abort(void **state)
{
    (void)state;
    _Atomic int here = 0;
    struct run run = {.n = 3, .body = abort_body, .arg = &here, .log = swallow};
    assert_int_equal(pes_run_tolerant(&run), 0);
}

/* A PE is killed in the middle of collectives: those of teams it is in end, and name it; those of others go on. */
enum kind { BROADCAST, ALLGATHER, ALLTOALL, REDUCE, SYNC, KINDS };

struct death {
    enum kind kind;
    _Atomic int here;
    _Atomic int named[8];
};

#define DEATH_PES    5
#define DEATH_VICTIM 2
#define DEATH_BYTES  200000u

static int collective(ferry_team_t *team, enum kind kind, char *dest, char *src)
{
    switch (kind) {
    case BROADCAST:
        return ferry_broadcast(team, dest, src, DEATH_BYTES, 1);
    case ALLGATHER:
        return ferry_allgather(team, dest, src, DEATH_BYTES);
    case ALLTOALL:
        return ferry_alltoall(team, dest, src, DEATH_BYTES);
    case REDUCE:
        return ferry_reduce(team, dest, src, DEATH_BYTES / 4, FERRY_TYPE_FLOAT, FERRY_REDUCE_SUM);
    default:
        return ferry_team_sync(team);
    }
}

/* What the error handler of a survivor hears. */
struct heard {
    _Atomic int calls, wrong;
};

static void hear(void *arg, const struct ferry_error *record)
{
    struct heard *heard = arg;
    if (record->status != FERRY_ERR_PEER || record->peer != DEATH_VICTIM || !strstr(record->message, "pe 2 is dead"))
        atomic_store(&heard->wrong, 1);
    atomic_fetch_add(&heard->calls, 1);
}

static void death_body(struct pe *pe)
{
    struct death *death = pe->arg;
    struct heard heard = {0};
    struct ferry_error error = {.size = sizeof(error)};
    ferry_team_t *world = ferry_team_world(pe->job), *even = NULL, *odd = NULL;
    char *src = calloc(DEATH_PES, DEATH_BYTES), *dest = calloc(DEATH_PES, DEATH_BYTES);
    EXPECT_OK(pe, ferry_team_split_strided(world, 0, 2, 3, &even));
    EXPECT_OK(pe, ferry_team_split_strided(world, 1, 2, 2, &odd));
    if (!EXPECT(pe, src && dest))
        return;
    EXPECT_OK(pe, collective(world, death->kind, dest, src));
    EXPECT_OK(pe, ferry_set_error_handler(pe->job, hear, &heard));
    all_here(pe, &death->here);
    if (pe->rank == DEATH_VICTIM)
        raise(SIGKILL);
    double start = pes_now();
    int rc = FERRY_OK;
    while (rc == FERRY_OK && pes_now() - start < 20)
        rc = collective(world, death->kind, dest, src);
    ferry_last_error(pe->job, &error);
    if (EXPECT(pe, rc == FERRY_ERR_PEER && error.peer == DEATH_VICTIM && strstr(error.message, "pe 2 is dead")))
        atomic_store(&death->named[pe->rank], 1);
    else
        fprintf(stderr, "pe %d: %s: %s\n", pe->rank, ferry_status_string(rc), error.message);
    EXPECT(pe, pes_now() - start < 12);
    EXPECT(pe, ferry_team_sync(world) == FERRY_ERR_PEER);
    if (even)
        EXPECT(pe, collective(even, death->kind, dest, src) == FERRY_ERR_PEER);
    for (int i = 0; odd && i < 20; i++)
        EXPECT_OK(pe, collective(odd, death->kind, dest, src));
    if (odd)
        EXPECT_OK(pe, ferry_team_destroy(odd));
    while (atomic_load(&heard.calls) == 0 && pes_now() - start < 20)
        sched_yield();
    EXPECT_OK(pe, ferry_set_error_handler(pe->job, NULL, NULL));
    EXPECT(pe, atomic_load(&heard.calls) == 1 && atomic_load(&heard.wrong) == 0);
    free(src);
    free(dest);
}

static void test_53_killed_in_collective(void **state)
{
    (void)state;
    for (enum kind kind = 0; kind < KINDS; kind++) {
        struct death *death = pes_shared(sizeof(*death));
        assert_non_null(death);
        death->kind = kind;
        struct run run = {.n = DEATH_PES, .body = death_body, .arg = death, .log = swallow};
        pes_fork(&run);
        assert_int_equal(atomic_load(&run.failures), 0);
        for (int i = 0; i < DEATH_PES; i++)
            assert_int_equal(atomic_load(&death->named[i]), i != DEATH_VICTIM);
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random_collectives), cmocka_unit_test(test_larger_than_scratch),
        cmocka_unit_test(test_1000_back_to_back),  cmocka_unit_test(test_arguments),
        cmocka_unit_test(test_mismatch),           cmocka_unit_test(test_abort),
    };
    const struct CMUnitTest processes[] = {cmocka_unit_test(test_53_killed_in_collective)};
    if (argc > 1 && strcmp(argv[1], "processes") == 0)
        return cmocka_run_group_tests(processes, NULL, NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
