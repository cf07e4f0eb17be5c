/* SPDX-License-Identifier: Apache-2.0
 * PEs as threads and the exchange among them; counts of what the process holds.
 * The main thread starts and ends a team, each PE's thread uses its own member. */
#include "team.h"
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define DEADLINE_SECONDS 60

void team_expect(struct team *team, uint32_t rank, bool good, const char *what, const char *file, int line)
{
    if (good)
        return;
    pthread_mutex_lock(&team->lock);
    if (team->failures++ == 0)
        snprintf(team->first_failure, sizeof(team->first_failure), "%s:%d: pe %u: %s", file, line, rank, what);
    pthread_mutex_unlock(&team->lock);
}

void team_expect_message(struct member *me, const char *part, const char *file, int line)
{
    char what[600];

    snprintf(what, sizeof(what), "\"%s\" in \"%s\"", part, me->error.message);
    team_expect(me->team, me->rank, strstr(me->error.message, part) != NULL, what, file, line);
}

/* Waits until *count is as wanted; false when the deadline has passed. */
static bool wait_count(struct team *team, const uint32_t *count, uint32_t wanted, const struct timespec *deadline)
{
    while (*count != wanted)
        if (pthread_cond_timedwait(&team->moved, &team->lock, deadline) == ETIMEDOUT)
            return false;
    return true;
}

static bool arrive(struct member *me, const void *mine, size_t length, const struct timespec *deadline)
{
    struct team *team = me->team;

    if (!wait_count(team, &team->leaving, 0, deadline))
        return false;
    if (team->arrived == 0) {
        team->all = calloc(team->n, length);
        team->length = length;
    }
    if (team->length != length)
        return false;
    memcpy(team->all + me->rank * length, mine, length);
    if (++team->arrived < team->n)
        return wait_count(team, &team->arrived, team->n, deadline);
    pthread_cond_broadcast(&team->moved);
    return true;
}

static void leave(struct team *team)
{
    if (++team->leaving < team->n)
        return;
    free(team->all);
    team->all = NULL;
    team->arrived = 0;
    team->leaving = 0;
    pthread_cond_broadcast(&team->moved);
}

static int team_allgather(void *arg, const void *mine, void *all, size_t length, const char *step, struct ferry_error *error)
{
    struct member *me = arg;
    struct team *team = me->team;
    struct timespec deadline;
    bool complete;

    clock_gettime(CLOCK_REALTIME, &deadline);
    deadline.tv_sec += DEADLINE_SECONDS;
    me->gathers++;
    pthread_mutex_lock(&team->lock);
    complete = arrive(me, mine, length, &deadline);
    if (complete) {
        memcpy(all, team->all, length * team->n);
        leave(team);
    }
    pthread_mutex_unlock(&team->lock);
    if (complete && team->fail_step && strcmp(team->fail_step, step) == 0) {
        fy_error_set(error, FERRY_ERR_PEER, NULL, "pe 3 is dead");
        return FERRY_ERR_PEER;
    }
    if (complete)
        return FERRY_OK;
    fy_error_set(error, FERRY_ERR_TIMEOUT, NULL, "the PEs did not meet in the %s", step);
    return FERRY_ERR_TIMEOUT;
}

/* Combined from the last to the first, so that nothing can count on the order. */
int team_reduce(void *arg, void *data, size_t length, void (*combine)(void *into, const void *other), const char *step,
                struct ferry_error *error)
{
    struct member *me = arg;
    uint32_t n = me->team->n;
    char *all = malloc(n * length);
    int rc = all ? team_allgather(arg, data, all, length, step, error) : FERRY_ERR_NOMEM;

    for (uint32_t pe = n - 1; !rc && pe > 0; pe--)
        combine(all + (pe - 1) * length, all + pe * length);
    if (!rc)
        memcpy(data, all, length);
    free(all);
    return rc;
}

static int transport_of(void *arg, uint32_t pe)
{
    const struct member *me = arg;

    (void)pe;
    return me->carrier;
}

/* PEs are threads of one process: the peer's table is read where it stands. */
static int key_of(void *arg, uint32_t pe, uint32_t segment, uint32_t t, void *key, size_t capacity, size_t *size,
                  struct ferry_error *error)
{
    const struct member *me = arg;
    int rc = fy_heap_own_key(me->team->members[pe].heap, segment, t, key, capacity, size);

    if (rc)
        fy_error_set(error, rc, NULL, "pe %u has no key for segment %u", (unsigned)pe, segment);
    return rc;
}

static void member_start(struct team *team, uint32_t rank, size_t n_transports)
{
    static const char *const names[] = {"fake", "mock"};
    struct member *me = &team->members[rank];

    me->team = team;
    me->rank = rank;
    for (size_t t = 0; t < 2; t++) {
        fake_transport(&me->transport[t], &me->fake[t], names[t], rank);
        me->list[t] = &me->transport[t];
    }
    me->config = (struct fy_heap_config){.my_pe = rank,
                                         .n_pes = team->n,
                                         .local_pes = team->n,
                                         .reserve = 64 * MEBIBYTE,
                                         .chunk = 2 * MEBIBYTE,
                                         .transports = me->list,
                                         .n_transports = n_transports,
                                         .up = {me, team_reduce, transport_of, NULL, key_of, NULL},
                                         .timeout = 30};
}

void team_start(struct team *team, uint32_t n, size_t n_transports)
{
    memset(team, 0, sizeof(*team));
    team->n = n;
    pthread_mutex_init(&team->lock, NULL);
    pthread_cond_init(&team->moved, NULL);
    for (uint32_t rank = 0; rank < n; rank++)
        member_start(team, rank, n_transports);
}

struct job {
    void (*fn)(struct member *me);
    struct member *me;
};

static void *run_member(void *arg)
{
    struct job *job = arg;

    job->fn(job->me);
    return NULL;
}

void team_run(struct team *team, void (*fn)(struct member *me))
{
    pthread_t threads[TEAM_MAX];
    struct job jobs[TEAM_MAX];

    for (uint32_t rank = 0; rank < team->n; rank++) {
        jobs[rank] = (struct job){fn, &team->members[rank]};
        assert_int_equal(pthread_create(&threads[rank], NULL, run_member, &jobs[rank]), 0);
    }
    for (uint32_t rank = 0; rank < team->n; rank++)
        pthread_join(threads[rank], NULL);
    if (team->failures)
        fail_msg("%d expectations failed, the first: %s", team->failures, team->first_failure);
}

void team_create(struct team *team)
{
    for (uint32_t rank = 0; rank < team->n; rank++) {
        struct member *me = &team->members[rank];

        if (fy_heap_create(&me->config, &me->heap, &me->error) != FERRY_OK)
            fail_msg("%s", me->error.message);
    }
}

void team_destroy(struct team *team)
{
    for (uint32_t rank = 0; rank < team->n; rank++) {
        struct member *me = &team->members[rank];

        fy_heap_destroy(me->heap);
        me->heap = NULL;
        for (size_t t = 0; t < 2; t++) {
            assert_int_equal(me->fake[t].live_regions, 0);
            assert_int_equal(me->fake[t].live_keys, 0);
        }
    }
}

void team_end(struct team *team)
{
    team_destroy(team);
    pthread_cond_destroy(&team->moved);
    pthread_mutex_destroy(&team->lock);
}

struct holdings holdings_now(void)
{
    struct holdings now = {0, 0, 0};
    char line[512];
    DIR *folder = opendir("/proc/self/fd");
    FILE *maps;

    assert_non_null(folder);
    while (readdir(folder))
        now.files++;
    closedir(folder);
    maps = fopen("/proc/self/maps", "r");
    assert_non_null(maps);
    while (fgets(line, sizeof(line), maps)) {
        now.mappings++;
        now.heaps += strstr(line, "ferry-heap") != NULL;
    }
    fclose(maps);
    return now;
}
