/* SPDX-License-Identifier: Apache-2.0
 * Life and death of jobs: init and finalize again and again, several jobs at once, bootstrap functions, aborts, killed PEs.
 * PEs are threads, or child processes where one has to die. */
#include "pes.h"

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
#include <sys/wait.h>
#include <unistd.h>

static void touch_body(struct pe *pe)
{
    uint64_t *word = ferry_calloc(pe->job, 8, 8);
    if (!EXPECT(pe, word))
        return;
    for (int i = 0; i < pe->n; i++)
        EXPECT_OK(pe, ferry_atomic_add(pe->ctx, word, 1, i));
    EXPECT_OK(pe, ferry_barrier(pe->job));
    EXPECT(pe, *word == (uint64_t)pe->n);
}

/* The thread that serves a meeting ends by itself, a moment after the job stands. Descriptors are counted after it is gone. */
static struct pes_usage settled(int threads)
{
    double end = pes_now() + 10;
    while (pes_usage().threads > threads && pes_now() < end)
        usleep(1000);
    return pes_usage();
}

static void test_55_init_finalize_again(void **state)
{
    (void)state;
    unsigned long rounds = pes_scaled(100);
    pes_check(2, touch_body, NULL);
    pes_check(2, touch_body, NULL);
    struct pes_usage before = settled(pes_alone());
    for (unsigned long i = 0; i < rounds; i++)
        pes_check(2, touch_body, NULL);
    struct pes_usage after = settled(before.threads);
    assert_int_equal(after.fds, before.fds);
    assert_int_equal(after.threads, before.threads);
    /* the allocator of the C library may keep an arena or two; a leak would be one map per round or more */
    assert_true(after.maps <= before.maps + 16);
}

static void test_sizes_of_jobs(void **state)
{
    (void)state;
    static const int n[] = {1, 2, 3, 5, 8, 16};
    for (int i = 0; i < 6; i++)
        pes_check(n[i], touch_body, NULL);
}

static void test_64_pes_on_two_cores(void **state)
{
    (void)state;
    double start = pes_now();
    pes_check(pes_scaled(100) >= 100 ? 64 : 16, touch_body, NULL);
    printf("           64 pes as threads: init, touch all, finalize in %.2f s\n", pes_now() - start);
}

/* Two jobs in one process, of different sizes, at the same time. */
static void *other_job(void *arg)
{
    (void)arg;
    struct run *run = calloc(1, sizeof(*run));
    run->n = 3;
    run->body = touch_body;
    intptr_t bad = 0;
    for (int i = 0; i < 5; i++)
        bad += pes_run(run);
    free(run);
    return (void *)bad;
}

static void test_several_jobs(void **state)
{
    (void)state;
    pthread_t thread;
    void *bad;
    assert_int_equal(pthread_create(&thread, NULL, other_job, NULL), 0);
    for (int i = 0; i < 5; i++)
        pes_check(2, touch_body, NULL);
    pthread_join(thread, &bad);
    assert_ptr_equal(bad, NULL);
}

/* Bootstrap by functions of the application: an exchange through memory of this process. */
struct exchange {
    pthread_barrier_t barrier;
    uint8_t *all;
    int n;
};

struct member {
    struct exchange *exchange;
    int rank, status;
};

static int my_allgather(void *arg, const void *mine, void *all, size_t length)
{
    struct member *m = arg;
    struct exchange *x = m->exchange;
    if (pthread_barrier_wait(&x->barrier) == PTHREAD_BARRIER_SERIAL_THREAD)
        x->all = calloc((size_t)x->n, length);
    pthread_barrier_wait(&x->barrier);
    memcpy(x->all + (size_t)m->rank * length, mine, length);
    pthread_barrier_wait(&x->barrier);
    memcpy(all, x->all, (size_t)x->n * length);
    if (pthread_barrier_wait(&x->barrier) == PTHREAD_BARRIER_SERIAL_THREAD)
        free(x->all);
    return 0;
}

static int my_barrier(void *arg)
{
    struct member *m = arg;
    pthread_barrier_wait(&m->exchange->barrier);
    return 0;
}

static void *function_pe(void *arg)
{
    struct member *m = arg;
    ferry_bootstrap_functions_t functions = {.size = sizeof(functions), .arg = m, .allgather = my_allgather, .barrier = my_barrier};
    ferry_attr_t attr = {.size = sizeof(attr), .bootstrap = FERRY_BOOTSTRAP_FUNCTIONS, .rank = m->rank, .n_pes = m->exchange->n,
                         .functions = &functions};
    ferry_job_t *job;
    m->status = ferry_init(&attr, &job);
    if (m->status != FERRY_OK)
        return NULL;
    m->status = ferry_barrier(job);
    int rc = ferry_finalize(job);
    m->status = m->status ? m->status : rc;
    return NULL;
}

static void test_bootstrap_functions(void **state)
{
    (void)state;
    struct exchange x = {.n = 4};
    struct member members[4];
    pthread_t threads[4];
    pthread_barrier_init(&x.barrier, NULL, 4);
    for (int i = 0; i < 4; i++) {
        members[i] = (struct member){&x, i, 0};
        assert_int_equal(pthread_create(&threads[i], NULL, function_pe, &members[i]), 0);
    }
    for (int i = 0; i < 4; i++) {
        pthread_join(threads[i], NULL);
        assert_int_equal(members[i].status, FERRY_OK);
    }
    pthread_barrier_destroy(&x.barrier);
}

/* Waits, outside of the job, until every PE has come here. */
static void all_here(struct pe *pe, _Atomic int *count)
{
    double end = pes_now() + 30;
    atomic_fetch_add(count, 1);
    while (atomic_load(count) < pe->n && pes_now() < end)
        sched_yield();
    EXPECT(pe, atomic_load(count) >= pe->n);
}

/* One PE aborts; blocked waits and barriers of the others end with FERRY_ERR_ABORTED, which names it and its code. */
static void abort_body(struct pe *pe)
{
    uint64_t *word = ferry_calloc(pe->job, 8, 8), value = 1;
    struct ferry_error error = {.size = sizeof(error)};
    int rc;
    /* not by a barrier: the abort could reach a PE that has not left it */
    all_here(pe, pe->arg);
    if (pe->rank == 2)
        rc = ferry_abort(pe->job, 42);
    else if (pe->rank == 1)
        rc = ferry_wait_until(pe->job, word, FERRY_CMP_NE, 0);
    else
        rc = ferry_barrier(pe->job);
    EXPECT(pe, rc == (pe->rank == 2 ? FERRY_OK : FERRY_ERR_ABORTED));
    EXPECT(pe, ferry_put(pe->ctx, word, &value, 8, 0) == FERRY_ERR_ABORTED);
    ferry_last_error(pe->job, &error);
    EXPECT(pe, error.status == FERRY_ERR_ABORTED && strstr(error.message, "pe 2 aborted the job with code 42"));
}

static void swallow(void *arg, int level, const char *line)
{
    (void)arg;
    (void)level;
    (void)line;
}

static void test_abort_reaches_all(void **state)
{
    (void)state;
    _Atomic int here = 0;
    struct run run = {.n = 4, .body = abort_body, .log = swallow, .arg = &here};
    assert_int_equal(pes_run_tolerant(&run), 0);
    for (int i = 0; i < 4; i++)
        assert_int_equal(run.final_status[i], FERRY_ERR_ABORTED);
}

/* A PE is killed. What the others were doing ends with a peer error that names it. */
enum doing { IN_BARRIER, IN_WAIT, IN_PUTS, IN_MALLOC, IN_FINALIZE };

struct death {
    enum doing doing;
    int victim;
    _Atomic int here;
    _Atomic int named[8];
};

static int survivor(struct pe *pe, struct death *death, uint64_t *word)
{
    static const uint64_t value = 5;
    int rc = FERRY_OK;
    switch (death->doing) {
    case IN_BARRIER: return ferry_barrier(pe->job);
    case IN_WAIT: return ferry_wait_until(pe->job, word, FERRY_CMP_EQ, 77);
    case IN_MALLOC: return ferry_malloc(pe->job, 64) ? FERRY_OK : FERRY_ERR_PEER;
    case IN_PUTS:
        for (double end = pes_now() + 20; rc == FERRY_OK && pes_now() < end;) {
            rc = ferry_put_nbi(pe->ctx, word, &value, 8, death->victim);
            if (rc == FERRY_OK)
                rc = ferry_quiet(pe->ctx);
        }
        return rc;
    default: pe->run->final_status[pe->rank] = ferry_finalize(pe->job); pe->job = NULL; return FERRY_ERR_PEER;
    }
}

static void death_body(struct pe *pe)
{
    struct death *death = pe->arg;
    uint64_t *word = ferry_calloc(pe->job, 8, 8);
    struct ferry_error error = {.size = sizeof(error)};
    char text[32];
    all_here(pe, &death->here);
    if (pe->rank == death->victim)
        raise(SIGKILL);
    double start = pes_now();
    int rc = survivor(pe, death, word);
    EXPECT(pe, rc == FERRY_ERR_PEER);
    EXPECT(pe, pes_now() - start < 12);
    if (death->doing == IN_FINALIZE) {
        atomic_store(&death->named[pe->rank], 1);
        return;
    }
    ferry_last_error(pe->job, &error);
    snprintf(text, sizeof(text), "pe %d ", death->victim);
    if (error.status == FERRY_ERR_PEER && error.peer == death->victim && strcasestr(error.message, text))
        atomic_store(&death->named[pe->rank], 1);
    else
        fprintf(stderr, "pe %d: %s (pe %d): %s\n", pe->rank, ferry_status_string(error.status), error.peer, error.message);
    /* a transport may notice before the job does */
    for (double end = pes_now() + 12; ferry_pe_alive(pe->job, death->victim) && pes_now() < end;)
        sched_yield();
    EXPECT(pe, ferry_pe_alive(pe->job, death->victim) == 0);
    EXPECT(pe, ferry_test(pe->job, word, FERRY_CMP_EQ, 77) == FERRY_ERR_PEER);
    /* who knows goes on with the living */
    EXPECT_OK(pe, ferry_acknowledge_failures(pe->job));
    EXPECT_OK(pe, ferry_atomic_add(pe->ctx, &word[1], 1, pe->rank));
    EXPECT_OK(pe, ferry_quiet(pe->ctx));
    EXPECT_OK(pe, ferry_wait_until(pe->job, &word[1], FERRY_CMP_GE, 1));
    EXPECT(pe, ferry_test(pe->job, word, FERRY_CMP_EQ, 77) == 0);
    EXPECT(pe, ferry_barrier(pe->job) == FERRY_ERR_PEER);
}

static void kill_one(enum doing doing, int n, int victim)
{
    struct death *death = pes_shared(sizeof(*death));
    assert_non_null(death);
    death->doing = doing;
    death->victim = victim;
    struct run run = {.n = n, .body = death_body, .arg = death, .log = swallow};
    pes_fork(&run);
    assert_int_equal(atomic_load(&run.failures), 0);
    for (int i = 0; i < n; i++) {
        if (i == victim)
            continue;
        assert_int_equal(atomic_load(&death->named[i]), 1);
        assert_int_equal(run.final_status[i], FERRY_ERR_PEER);
    }
}

static void test_53_killed_in_barrier(void **state)
{
    (void)state;
    kill_one(IN_BARRIER, 4, 0);
    kill_one(IN_BARRIER, 5, 1);
    kill_one(IN_BARRIER, 2, 1);
}

static void test_53_killed_in_wait(void **state)
{
    (void)state;
    kill_one(IN_WAIT, 4, 3);
}

static void test_53_killed_in_puts(void **state)
{
    (void)state;
    kill_one(IN_PUTS, 4, 1);
}

static void test_53_killed_in_malloc(void **state)
{
    (void)state;
    kill_one(IN_MALLOC, 3, 2);
}

static void test_53_killed_in_finalize(void **state)
{
    (void)state;
    kill_one(IN_FINALIZE, 3, 1);
}

/* Across processes everything works that works between threads. */
static void test_processes(void **state)
{
    (void)state;
    struct run run = {.n = 4, .body = touch_body};
    assert_int_equal(pes_fork(&run), 0);
}

/* A child made by fork after init leaves the job alone. */
static void fork_body(struct pe *pe)
{
    if (pe->rank == 0) {
        pid_t pid = fork();
        if (pid == 0)
            execl("/bin/true", "true", (char *)NULL);
        int status = -1;
        EXPECT(pe, pid > 0 && waitpid(pid, &status, 0) == pid && status == 0);
    }
    touch_body(pe);
}

static void test_56_fork_and_exec(void **state)
{
    (void)state;
    pes_check(2, fork_body, NULL);
}

/* A target that computes does not hold up those who write to it. */
static void passive_body(struct pe *pe)
{
    uint64_t *word = ferry_calloc(pe->job, 8, 8);
    if (pe->rank == 1) {
        double end = pes_now() + 2.0;
        while (pes_now() < end)
            continue; /* computes, calls nothing */
        EXPECT(pe, __atomic_load_n(&word[1], __ATOMIC_ACQUIRE) == 1);
        return;
    }
    double start = pes_now();
    EXPECT_OK(pe, ferry_atomic_add(pe->ctx, word, 1, 1));
    EXPECT_OK(pe, ferry_put(pe->ctx, &word[1], &(uint64_t){1}, 8, 1));
    EXPECT_OK(pe, ferry_quiet(pe->ctx));
    EXPECT(pe, pes_now() - start < 1.9);
}

static void test_49_passive_target(void **state)
{
    (void)state;
    pes_check(2, passive_body, NULL);
}

/* A PE may be late for a collective call, by more than FERRY_TIMEOUT. */
static void late_body(struct pe *pe)
{
    double end = pes_now() + (pe->rank == 1 ? 3 : 0);
    while (pes_now() < end)
        usleep(1000);
    void *memory = ferry_malloc(pe->job, 64);
    EXPECT(pe, memory != NULL);
    EXPECT_OK(pe, ferry_free(pe->job, memory));
}

static void test_late_for_malloc(void **state)
{
    (void)state;
    static const char *const options[] = {"FERRY_TIMEOUT=1", NULL};
    pes_check_options(3, late_body, NULL, options);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest threads_only[] = {
        cmocka_unit_test(test_sizes_of_jobs),       cmocka_unit_test(test_55_init_finalize_again),
        cmocka_unit_test(test_several_jobs),        cmocka_unit_test(test_bootstrap_functions),
        cmocka_unit_test(test_abort_reaches_all),   cmocka_unit_test(test_49_passive_target),
        cmocka_unit_test(test_64_pes_on_two_cores), cmocka_unit_test(test_late_for_malloc),
    };
    const struct CMUnitTest processes[] = {
        cmocka_unit_test(test_processes),           cmocka_unit_test(test_53_killed_in_barrier),
        cmocka_unit_test(test_53_killed_in_wait),   cmocka_unit_test(test_53_killed_in_puts),
        cmocka_unit_test(test_53_killed_in_malloc), cmocka_unit_test(test_53_killed_in_finalize),
        cmocka_unit_test(test_56_fork_and_exec),
    };
    if (argc > 1 && strcmp(argv[1], "processes") == 0)
        return cmocka_run_group_tests(processes, NULL, NULL);
    return cmocka_run_group_tests(threads_only, NULL, NULL);
}
