/* SPDX-License-Identifier: Apache-2.0
 * Where proxy threads run: on the cores of the process, even if the thread that makes the ring is bound to one; on what the process
 * was started with, if that is less; on those that FERRY_PROXY_CORES names. Single-threaded but for the proxy and one binder. */
#include <ferry/ferry.h>

#include <ctype.h>
#include <dirent.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static int tasks(int *ids, int most)
{
    int n = 0;
    DIR *dir = opendir("/proc/self/task");
    assert_non_null(dir);
    for (const struct dirent *entry; (entry = readdir(dir)) != NULL && n < most;)
        if (isdigit((unsigned char)entry->d_name[0]))
            ids[n++] = atoi(entry->d_name);
    closedir(dir);
    return n;
}

/* The mask of the one thread that was not there before. */
static cpu_set_t mask_of_new(const int *before, int n_before)
{
    int ids[64], n = tasks(ids, 64), found = 0;
    cpu_set_t mask;
    CPU_ZERO(&mask);
    for (int i = 0; i < n; i++) {
        bool old = false;
        for (int j = 0; j < n_before; j++)
            old |= ids[i] == before[j];
        if (old)
            continue;
        found++;
        assert_int_equal(sched_getaffinity(ids[i], sizeof(mask), &mask), 0);
    }
    assert_int_equal(found, 1);
    return mask;
}

static void bind_to(const cpu_set_t *set)
{
    assert_int_equal(sched_setaffinity(0, sizeof(*set), set), 0);
}

static cpu_set_t first_of(const cpu_set_t *set)
{
    cpu_set_t one;
    CPU_ZERO(&one);
    for (int i = 0; i < CPU_SETSIZE; i++)
        if (CPU_ISSET(i, set)) {
            CPU_SET(i, &one);
            break;
        }
    return one;
}

struct made {
    const cpu_set_t *bound; /* makes the ring bound to it; NULL: as it is */
    const char *cores;
    cpu_set_t mask;         /* of its proxy thread */
};

/* A job and a ring, and where the proxy thread may run. */
static void make(struct made *made)
{
    char option[64];
    snprintf(option, sizeof(option), "FERRY_PROXY_CORES=%s", made->cores);
    const char *const options[] = {option, NULL};
    ferry_attr_t attr = {.size = sizeof(attr)};
    ferry_job_t *job;
    ferry_ring_t *ring;
    cpu_set_t all;
    int before[64];
    attr.options = options;
    assert_int_equal(sched_getaffinity(0, sizeof(all), &all), 0);
    assert_int_equal(ferry_init(&attr, &job), FERRY_OK);
    if (made->bound)
        bind_to(made->bound);
    int n = tasks(before, 64);
    assert_int_equal(ferry_ring_create(job, 0, 0, &ring), FERRY_OK);
    made->mask = mask_of_new(before, n);
    assert_int_equal(ferry_finalize(job), FERRY_OK);
    bind_to(&all);
}

static void test_bound_maker(void **state)
{
    cpu_set_t all;
    (void)state;
    assert_int_equal(sched_getaffinity(0, sizeof(all), &all), 0);
    cpu_set_t one = first_of(&all);
    struct made made = {.bound = &one, .cores = ""};
    make(&made);
    assert_true(CPU_EQUAL(&made.mask, &all));
}

/* All is done by a thread that was bound before: the others of the process say where it may run. */
static void *bound_thread(void *arg)
{
    struct made *made = arg;
    bind_to(made->bound);
    make(made);
    return NULL;
}

static void test_bound_from_the_start(void **state)
{
    cpu_set_t all;
    pthread_t thread;
    (void)state;
    assert_int_equal(sched_getaffinity(0, sizeof(all), &all), 0);
    cpu_set_t one = first_of(&all);
    struct made made = {.bound = &one, .cores = ""};
    assert_int_equal(pthread_create(&thread, NULL, bound_thread, &made), 0);
    pthread_join(thread, NULL);
    assert_true(CPU_EQUAL(&made.mask, &all));
}

/* Bound before it begins, as by taskset: the proxy stays there, unless it is told to take all cores. */
static void test_bound_process(void **state)
{
    cpu_set_t all;
    int status;
    (void)state;
    assert_int_equal(sched_getaffinity(0, sizeof(all), &all), 0);
    cpu_set_t one = first_of(&all);
    char count[16];
    snprintf(count, sizeof(count), "%d", CPU_COUNT(&all));
    setenv("TEST_CORES", count, 1);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        sched_setaffinity(0, sizeof(one), &one);
        execl("/proc/self/exe", "test_cores", "within-bounds", (char *)NULL);
        _exit(127);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

/* The body of the process that was started with one core. */
static void within_bounds(void **state)
{
    cpu_set_t all;
    (void)state;
    assert_int_equal(sched_getaffinity(0, sizeof(all), &all), 0);
    assert_int_equal(CPU_COUNT(&all), 1);
    struct made made = {.cores = ""};
    make(&made);
    assert_true(CPU_EQUAL(&made.mask, &all));
    made.cores = "all";
    make(&made);
    if (getenv("TEST_CORES")) /* as many as the parent may use */
        assert_true(CPU_COUNT(&made.mask) >= atoi(getenv("TEST_CORES")));
}

static void test_named(void **state)
{
    cpu_set_t all;
    char list[16];
    (void)state;
    assert_int_equal(sched_getaffinity(0, sizeof(all), &all), 0);
    cpu_set_t one = first_of(&all);
    int core = 0;
    while (!CPU_ISSET(core, &one))
        core++;
    snprintf(list, sizeof(list), "%d", core);
    struct made made = {.cores = list};
    make(&made);
    assert_true(CPU_EQUAL(&made.mask, &one));
}

/* Cores that are not there: the ring is refused, and it says why. */
static void test_named_nowhere(void **state)
{
    const char *const options[] = {"FERRY_PROXY_CORES=1020-1023", NULL};
    ferry_attr_t attr = {.size = sizeof(attr)};
    struct ferry_error record = {.size = sizeof(record)};
    ferry_job_t *job;
    ferry_ring_t *ring;
    (void)state;
    if (sysconf(_SC_NPROCESSORS_CONF) > 1000)
        skip();
    attr.options = options;
    assert_int_equal(ferry_init(&attr, &job), FERRY_OK);
    assert_int_equal(ferry_ring_create(job, 0, 0, &ring), FERRY_ERR_CONFIG);
    ferry_last_error(job, &record);
    assert_non_null(strstr(record.message, "FERRY_PROXY_CORES names no core"));
    assert_int_equal(ferry_finalize(job), FERRY_OK);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bound_maker),   cmocka_unit_test(test_bound_from_the_start), cmocka_unit_test(test_bound_process),
        cmocka_unit_test(test_named),         cmocka_unit_test(test_named_nowhere),
    };
    const struct CMUnitTest within[] = {cmocka_unit_test(within_bounds)};
    if (argc > 1 && strcmp(argv[1], "within-bounds") == 0)
        return cmocka_run_group_tests(within, NULL, NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
