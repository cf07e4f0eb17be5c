/* SPDX-License-Identifier: Apache-2.0
 * What goes wrong with rings: bad commands, bad calls, rings destroyed at any moment, aborts, killed peers.
 * PEs are threads, or processes where one is killed; producers are threads of the PEs. */
#include "pes.h"

#include <ferry/ring.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void swallow(void *arg, int level, const char *line)
{
    (void)arg;
    (void)level;
    (void)line;
}

static bool ring_make(struct pe *pe, size_t slots, ferry_ring_t **ring, struct ferry_ring_handle *handle)
{
    return EXPECT_OK(pe, ferry_ring_create(pe->job, slots, 0, ring)) &&
           EXPECT_OK(pe, ferry_ring_export(*ring, FERRY_RING_LAYOUT, handle));
}

static uint64_t address(const void *p)
{
    return (uint64_t)(uintptr_t)p;
}

/* ------------------------------------------------------------------ bad commands */

/* The command fails with that status, which the error word and the record tell; then the ring is as good as new. */
static void bad(struct pe *pe, ferry_ring_t *ring, struct ferry_ring_handle *handle, struct ferry_command c, int status)
{
    struct ferry_error record = {.size = sizeof(record)};
    int rc = ferry_ring_post(handle, &c, NULL);
    EXPECT(pe, rc == FERRY_OK || rc == status);
    EXPECT(pe, ferry_ring_quiet(handle) == status);
    struct ferry_ring_failure failure = ferry_ring_failure_of(__atomic_load_n(handle->error, __ATOMIC_ACQUIRE));
    EXPECT(pe, failure.status == status && failure.kind == c.kind && failure.pe == c.pe && failure.channel == handle->channel);
    EXPECT_OK(pe, ferry_ring_error(ring, &record));
    EXPECT(pe, record.status == status && record.peer == (int32_t)c.pe && record.channel == (int32_t)handle->channel);
    EXPECT(pe, record.message[0] != '\0');
    EXPECT(pe, ferry_ring_status(handle) == FERRY_OK && ferry_ring_quiet(handle) == FERRY_OK);
    EXPECT_OK(pe, ferry_ring_error(ring, &record));
    EXPECT(pe, record.status == FERRY_OK);
}

static void bad_places(struct pe *pe, ferry_ring_t *ring, struct ferry_ring_handle *handle, uint64_t *word, uint64_t *outside)
{
    const struct ferry_command put = {.kind = FERRY_COMMAND_PUT, .pe = 1, .remote = address(word), .local = address(word + 1), .length = 8};
    struct ferry_command c = put;
    c.remote = address(outside);
    bad(pe, ring, handle, c, FERRY_ERR_ARG);
    c = put;
    c.length = (uint64_t)1 << 40;
    bad(pe, ring, handle, c, FERRY_ERR_ARG);
    c = put;
    c.local = 0;
    bad(pe, ring, handle, c, FERRY_ERR_ARG);
    c.kind = FERRY_COMMAND_GET;
    bad(pe, ring, handle, c, FERRY_ERR_ARG);
    for (unsigned kind = FERRY_COMMAND_P64; kind <= FERRY_COMMAND_SIGNAL_ADD_WEAK; kind++) {
        c = (struct ferry_command){.kind = (uint8_t)kind, .pe = 1, .remote = address(outside), .value = 1};
        bad(pe, ring, handle, c, FERRY_ERR_ARG);
    }
    c = put;
    c.kind = FERRY_COMMAND_PUT_SIGNAL;
    c.signal = address(outside);
    bad(pe, ring, handle, c, FERRY_ERR_ARG);
    c.signal = address(word) + 4;
    bad(pe, ring, handle, c, FERRY_ERR_ARG);
    c = (struct ferry_command){.kind = FERRY_COMMAND_AMO, .amo = FERRY_COMMAND_AMO_ADD, .width = 8, .pe = 1, .remote = address(word) + 4};
    bad(pe, ring, handle, c, FERRY_ERR_ARG);
    c.remote = address(outside);
    bad(pe, ring, handle, c, FERRY_ERR_ARG);
    c.remote = address(word);
    c.amo = FERRY_COMMAND_AMO_SWAP; /* without a place for what it fetches */
    bad(pe, ring, handle, c, FERRY_ERR_ARG);
    c.flags = FERRY_COMMAND_FETCH;
    bad(pe, ring, handle, c, FERRY_ERR_ARG);
}

static void bad_limits(struct pe *pe, ferry_ring_t *ring, struct ferry_ring_handle *handle, uint64_t *word)
{
    const struct ferry_command put = {.kind = FERRY_COMMAND_PUT, .pe = 1, .remote = address(word), .local = address(word + 1), .length = 8};
    struct ferry_command c = put;
    c.pe = (uint32_t)pe->n;
    bad(pe, ring, handle, c, FERRY_ERR_ARG);
    c.pe = (1u << 24) - 1;
    bad(pe, ring, handle, c, FERRY_ERR_ARG);
    c.pe = 1u << 24;
    bad(pe, ring, handle, c, FERRY_ERR_LIMIT);
    c.pe = (uint32_t)-1;
    bad(pe, ring, handle, c, FERRY_ERR_LIMIT);
    c = put;
    c.remote = UINT64_MAX;
    bad(pe, ring, handle, c, FERRY_ERR_LIMIT);
    c = put;
    c.length = UINT64_MAX;
    bad(pe, ring, handle, c, FERRY_ERR_LIMIT);
    c.kind = FERRY_COMMAND_QUIET_PE;
    c.length = 0;
    c.pe = 12345;
    bad(pe, ring, handle, c, FERRY_ERR_ARG);
}

static void bad_body(struct pe *pe)
{
    ferry_ring_t *ring;
    struct ferry_ring_handle handle;
    uint64_t *words = ferry_calloc(pe->job, 4, 8), outside[4] = {7, 7, 7, 7}, nonsense[2] = {0};
    if (!EXPECT(pe, words) || !ring_make(pe, 256, &ring, &handle))
        return;
    if (pe->rank == 0) {
        bad_places(pe, ring, &handle, words, outside);
        bad_limits(pe, ring, &handle, words);
        EXPECT(pe, outside[0] == 7 && outside[3] == 7);
        /* words that no encoder writes: told, and passed over */
        struct ferry_error record = {.size = sizeof(record)};
        uint64_t position;
        nonsense[0] = (uint64_t)3 << 1 | (uint64_t)FERRY_COMMAND_PUT << 3;
        EXPECT_OK(pe, ferry_ring_reserve(&handle, 3, &position));
        const uint64_t three[6] = {nonsense[0], 0, 0, 0, 0, 0};
        ferry_ring_store(&handle, position, three, 3);
        EXPECT_OK(pe, ferry_ring_reserve(&handle, 1, &position));
        const uint64_t none[2] = {0, 0};
        ferry_ring_store(&handle, position, none, 1);
        EXPECT(pe, ferry_ring_quiet(&handle) == FERRY_ERR_ABI);
        EXPECT_OK(pe, ferry_ring_error(ring, &record));
        EXPECT(pe, strstr(record.message, "no encoder writes"));
        EXPECT_OK(pe, ferry_ring_signal(&handle, words, 5, FERRY_SIGNAL_SET, 1));
        EXPECT(pe, ferry_ring_signal(&handle, words, 5, 2, 1) == FERRY_ERR_ARG);
        EXPECT(pe, ferry_ring_put_signal_nbi(&handle, words, words, 8, words, 5, 7, 1) == FERRY_ERR_ARG);
        EXPECT(pe, ferry_ring_quiet(&handle) == FERRY_ERR_ARG);
        EXPECT(pe, ferry_ring_destroy(ring) == FERRY_ERR_ARG); /* nobody took it */
    } else {
        EXPECT_OK(pe, ferry_wait_until(pe->job, words, FERRY_CMP_EQ, 5));
        EXPECT(pe, words[1] == 0 && words[2] == 0 && words[3] == 0);
        EXPECT_OK(pe, ferry_ring_destroy(ring));
    }
}

static void test_bad_commands(void **state)
{
    (void)state;
    struct run run = {.n = 2, .body = bad_body, .log = swallow};
    assert_int_equal(pes_run(&run), 0);
}

/* ------------------------------------------------------------------ bad calls */

static void refused(struct pe *pe, int rc, int status, const char *words)
{
    struct ferry_error record = {.size = sizeof(record)};
    ferry_last_error(pe->job, &record);
    if (!EXPECT(pe, rc == status && record.status == status && strstr(record.message, words)))
        fprintf(stderr, "%d: %s\n", rc, record.message);
}

static void calls_body(struct pe *pe)
{
    ferry_ring_t *ring, *rings[4];
    struct ferry_ring_handle handle;
    struct ferry_error record = {.size = sizeof(record)};
    refused(pe, ferry_ring_create(pe->job, 0, 0, NULL), FERRY_ERR_ARG, "ring is null");
    refused(pe, ferry_ring_create(pe->job, 0, 4, &ring), FERRY_ERR_ARG, "flags 0x4");
    refused(pe, ferry_ring_create(pe->job, 128, 0, &ring), FERRY_ERR_ARG, "128 slots");
    refused(pe, ferry_ring_create(pe->job, 257, 0, &ring), FERRY_ERR_ARG, "257 slots");
    refused(pe, ferry_ring_create(pe->job, (size_t)1 << 21, 0, &ring), FERRY_ERR_ARG, "2097152 slots");
    EXPECT(pe, ring == NULL);
    for (int i = 0; i < 3; i++) /* FERRY_CHANNELS is 4, the default context has one */
        EXPECT_OK(pe, ferry_ring_create(pe->job, (size_t)FERRY_RING_SLOTS_MAX >> i, 0, &rings[i]));
    refused(pe, ferry_ring_create(pe->job, 0, 0, &ring), FERRY_ERR_LIMIT, "all 4 contexts are in use");
    refused(pe, ferry_ring_export(rings[0], FERRY_RING_LAYOUT + 1, &handle), FERRY_ERR_ABI, "built for ring layout 0x");
    EXPECT(pe, ferry_ring_export(NULL, FERRY_RING_LAYOUT, &handle) == FERRY_ERR_ARG);
    EXPECT(pe, ferry_ring_export(rings[0], FERRY_RING_LAYOUT, NULL) == FERRY_ERR_ARG);
    EXPECT(pe, ferry_ring_error(NULL, &record) == FERRY_ERR_ARG && ferry_ring_error(rings[0], NULL) == FERRY_ERR_ARG);
    EXPECT(pe, ferry_ring_destroy(NULL) == FERRY_ERR_ARG);
    for (int i = 0; i < 3; i++)
        EXPECT_OK(pe, ferry_ring_destroy(rings[i]));
    EXPECT_OK(pe, ferry_ring_create(pe->job, 0, 0, &ring)); /* its channel is free again */
    EXPECT_OK(pe, ferry_ring_destroy(ring));
}

static void test_bad_calls(void **state)
{
    (void)state;
    const char *const options[] = {"FERRY_CHANNELS=4", NULL};
    pes_check_options(1, calls_body, NULL, options);
    ferry_ring_t *ring;
    assert_int_equal(ferry_ring_create(NULL, 0, 0, &ring), FERRY_ERR_STATE);
}

static void test_bad_option(void **state)
{
    (void)state;
    const char *const options[] = {"FERRY_PROXY_THREADS=-1", NULL};
    struct run run = {.n = 1, .body = calls_body, .options = options, .log = swallow};
    pes_run_tolerant(&run);
    assert_int_equal(run.init_status[0], FERRY_ERR_CONFIG);
    assert_non_null(strstr(run.init_error[0].message, "FERRY_PROXY_THREADS is -1"));
}

/* ------------------------------------------------------------------ the end, at any moment */

struct poster {
    struct pe *pe;
    struct ferry_ring_handle handle;
    uint64_t *word;
    unsigned long posted;
    int status; /* that ended it */
    _Atomic int *started;
};

static void *post_until_end(void *arg)
{
    struct poster *me = arg;
    int to = (me->pe->rank + 1) % me->pe->n, rc;
    atomic_fetch_add(me->started, 1);
    while ((rc = ferry_ring_signal(&me->handle, me->word, 1, FERRY_SIGNAL_ADD, to)) == FERRY_OK) {
        me->posted++;
        if (me->posted % 1000 == 0 && (rc = ferry_ring_quiet(&me->handle)) != FERRY_OK)
            break;
    }
    me->status = rc;
    return NULL;
}

#define POSTERS 3

static void posters_start(struct pe *pe, struct poster *posters, pthread_t *threads, _Atomic int *started, uint64_t *word,
                          const struct ferry_ring_handle *handle)
{
    for (int i = 0; i < POSTERS; i++) {
        posters[i] = (struct poster){.pe = pe, .handle = *handle, .word = word, .started = started};
        EXPECT(pe, pthread_create(&threads[i], NULL, post_until_end, &posters[i]) == 0);
    }
    while (atomic_load(started) < POSTERS)
        sched_yield();
}

/* Closed while producers post: exactly what they were told arrives. */
static void close_body(struct pe *pe)
{
    uint64_t *words = ferry_calloc(pe->job, 2, 8);
    if (!EXPECT(pe, words))
        return;
    for (unsigned long round = 0; round < *(unsigned long *)pe->arg; round++) {
        ferry_ring_t *ring;
        struct ferry_ring_handle handle;
        struct poster posters[POSTERS];
        pthread_t threads[POSTERS];
        _Atomic int started = 0;
        uint64_t total = 0;
        words[0] = 0;
        EXPECT_OK(pe, ferry_barrier(pe->job));
        if (!ring_make(pe, 256, &ring, &handle))
            return;
        posters_start(pe, posters, threads, &started, words, &handle);
        for (unsigned long turn = 0; turn < round * 7 % 50; turn++)
            sched_yield();
        EXPECT_OK(pe, ferry_ring_close(ring));
        for (int i = 0; i < POSTERS; i++) {
            pthread_join(threads[i], NULL);
            EXPECT(pe, posters[i].status == FERRY_ERR_STATE);
            total += posters[i].posted;
        }
        EXPECT(pe, ferry_ring_signal(&handle, words, 1, FERRY_SIGNAL_ADD, 0) == FERRY_ERR_STATE);
        EXPECT_OK(pe, ferry_ring_close(ring));
        if (round % 2) /* else finalize does it */
            EXPECT_OK(pe, ferry_ring_destroy(ring));
        EXPECT_OK(pe, ferry_put(pe->ctx, &words[1], &total, 8, (pe->rank + 1) % pe->n));
        EXPECT_OK(pe, ferry_barrier(pe->job));
        EXPECT(pe, words[0] == words[1]);
        EXPECT_OK(pe, ferry_barrier(pe->job));
    }
}

static void test_closed_at_any_moment(void **state)
{
    (void)state;
    unsigned long rounds = pes_scaled(60);
    pes_check(2, close_body, &rounds);
}

/* A producer that was stopped between reserving and writing: closing ends nevertheless, and says so. */
static void told(void *arg, int level, const char *line)
{
    (void)level;
    if (strstr(line, "were reserved by a producer that never wrote them"))
        atomic_fetch_add((_Atomic int *)arg, 1);
}

static void hole_body(struct pe *pe)
{
    ferry_ring_t *ring;
    struct ferry_ring_handle handle;
    uint64_t position, *words = ferry_calloc(pe->job, 2, 8);
    if (!EXPECT(pe, words) || !ring_make(pe, 256, &ring, &handle))
        return;
    EXPECT_OK(pe, ferry_ring_signal(&handle, words, 1, FERRY_SIGNAL_SET, 0));
    EXPECT_OK(pe, ferry_ring_reserve(&handle, 2, &position));
    EXPECT_OK(pe, ferry_ring_signal(&handle, words, 2, FERRY_SIGNAL_SET, 0));
    EXPECT(pe, ferry_ring_close(ring) == FERRY_ERR_TIMEOUT);
    EXPECT(pe, words[0] == 1); /* nothing behind the hole */
    EXPECT(pe, ferry_ring_destroy(ring) == FERRY_ERR_TIMEOUT);
}

static void test_closed_with_a_hole(void **state)
{
    (void)state;
    _Atomic int lines = 0;
    const char *const options[] = {"FERRY_TIMEOUT=0.3", NULL};
    struct run run = {.n = 1, .body = hole_body, .log = told, .arg = &lines, .options = options};
    assert_int_equal(pes_run(&run), 0);
    assert_int_equal(atomic_load(&lines), 1);
}

/* ------------------------------------------------------------------ aborts and deaths */

static void abort_body(struct pe *pe)
{
    ferry_ring_t *ring;
    struct ferry_ring_handle handle;
    struct poster posters[POSTERS];
    pthread_t threads[POSTERS];
    _Atomic int started = 0;
    uint64_t *words = ferry_calloc(pe->job, 2, 8);
    if (!EXPECT(pe, words) || !ring_make(pe, 256, &ring, &handle))
        return;
    posters_start(pe, posters, threads, &started, words, &handle);
    atomic_fetch_add((_Atomic int *)pe->arg, 1); /* not a barrier: the abort might meet the other PE in it */
    while (pe->rank == 0 && atomic_load((_Atomic int *)pe->arg) < pe->n)
        sched_yield();
    if (pe->rank == 0)
        EXPECT_OK(pe, ferry_abort(pe->job, 3));
    for (int i = 0; i < POSTERS; i++) { /* they post for ever: a quiet of theirs tells */
        pthread_join(threads[i], NULL);
        EXPECT(pe, posters[i].status == FERRY_ERR_ABORTED);
    }
    EXPECT(pe, __atomic_load_n(handle.alarm, __ATOMIC_ACQUIRE) == (uint64_t)-FERRY_ERR_ABORTED);
    EXPECT(pe, ferry_ring_destroy(ring) == FERRY_ERR_ABORTED);
}

static void test_abort(void **state)
{
    (void)state;
    _Atomic int here = 0;
    struct run run = {.n = 2, .body = abort_body, .log = swallow, .arg = &here};
    assert_int_equal(pes_run_tolerant(&run), 0);
    assert_int_equal(run.final_status[0], FERRY_ERR_ABORTED);
}

struct death {
    _Atomic int here;
};

/* PE 1 is killed while all post to all: who posts is told, commands to the living go on. */
static void death_body(struct pe *pe)
{
    struct death *death = pe->arg;
    ferry_ring_t *ring;
    struct ferry_ring_handle handle;
    struct ferry_error record = {.size = sizeof(record)};
    uint64_t *words = ferry_calloc(pe->job, 4, 8);
    if (!EXPECT(pe, words) || !ring_make(pe, 256, &ring, &handle))
        return;
    EXPECT_OK(pe, ferry_ring_signal(&handle, words, 1, FERRY_SIGNAL_ADD, 1));
    EXPECT_OK(pe, ferry_ring_quiet(&handle));
    atomic_fetch_add(&death->here, 1);
    while (atomic_load(&death->here) < pe->n)
        sched_yield();
    if (pe->rank == 1)
        raise(SIGKILL);
    int rc = FERRY_OK;
    double end = pes_now() + 20;
    while (rc == FERRY_OK && pes_now() < end) {
        ferry_ring_signal(&handle, words, 1, FERRY_SIGNAL_ADD, 1);
        ferry_ring_signal(&handle, words + 1, 1, FERRY_SIGNAL_ADD, pe->rank);
        rc = ferry_ring_quiet(&handle);
    }
    EXPECT(pe, rc == FERRY_ERR_PEER);
    EXPECT_OK(pe, ferry_ring_error(ring, &record));
    EXPECT(pe, record.status == FERRY_ERR_PEER && record.peer == 1);
    uint64_t before = words[1];
    EXPECT_OK(pe, ferry_ring_signal(&handle, words + 1, 1, FERRY_SIGNAL_ADD, pe->rank));
    rc = ferry_ring_quiet(&handle);
    EXPECT(pe, rc == FERRY_OK || rc == FERRY_ERR_PEER); /* what was on its way to the dead may come to light now */
    EXPECT(pe, words[1] == before + 1);
    for (end = pes_now() + 20; __atomic_load_n(handle.alarm, __ATOMIC_ACQUIRE) == 0 && pes_now() < end;)
        sched_yield();
    EXPECT(pe, __atomic_load_n(handle.alarm, __ATOMIC_ACQUIRE) == (uint64_t)-FERRY_ERR_PEER);
    EXPECT_OK(pe, ferry_acknowledge_failures(pe->job));
    for (end = pes_now() + 20; __atomic_load_n(handle.alarm, __ATOMIC_ACQUIRE) && pes_now() < end;)
        sched_yield();
    EXPECT(pe, __atomic_load_n(handle.alarm, __ATOMIC_ACQUIRE) == 0);
}

static void test_killed_peer(void **state)
{
    (void)state;
    struct death *death = pes_shared(sizeof(*death));
    assert_non_null(death);
    struct run run = {.n = 3, .body = death_body, .arg = death, .log = swallow};
    pes_fork(&run);
    assert_int_equal(atomic_load(&run.failures), 0);
    assert_int_equal(run.final_status[0], FERRY_ERR_PEER);
    assert_int_equal(run.final_status[2], FERRY_ERR_PEER);
}

/* As many threads as asked for, and none is left. */
static void thread_body(struct pe *pe)
{
    ferry_ring_t *rings[9];
    if (pe->rank != 0)
        return; /* threads are counted in the whole process */
    int before = pes_usage().threads;
    for (int i = 0; i < 9; i++) {
        EXPECT_OK(pe, ferry_ring_create(pe->job, 256, 0, &rings[i]));
        int threads = pes_usage().threads - before;
        EXPECT(pe, threads <= 2);
    }
    for (int i = 0; i < 9; i += 2)
        EXPECT_OK(pe, ferry_ring_destroy(rings[i]));
}

static void test_threads(void **state)
{
    (void)state;
    const char *const options[] = {"FERRY_PROXY_THREADS=2", NULL};
    pes_check_options(2, thread_body, NULL, options);
    for (double end = pes_now() + 20; pes_usage().threads > pes_alone() && pes_now() < end;)
        sched_yield(); /* the meeting's thread */
    assert_int_equal(pes_usage().threads, pes_alone());
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_killed_peer), /* forks: before others leave threads behind */
        cmocka_unit_test(test_threads),
        cmocka_unit_test(test_bad_commands),
        cmocka_unit_test(test_bad_calls),
        cmocka_unit_test(test_closed_at_any_moment),
        cmocka_unit_test(test_closed_with_a_hole),
        cmocka_unit_test(test_abort),
        cmocka_unit_test(test_bad_option),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
