/* SPDX-License-Identifier: Apache-2.0
 * Failures per thread: nobody sees another thread's, ended threads leave nothing behind.
 * Compiled together with what it tests, to look at the size of the table. */
#include "base/errors.c"
#include "cmocka_headers.h"
#include <stdio.h>

#define THREADS 16
#define ROUNDS  60

static struct ferry_error record_of(int status, const char *message)
{
    struct ferry_error record;

    fy_error_set(&record, status, NULL, "%s", message);
    return record;
}

static int setup(void **state)
{
    struct fy_errors *errors;
    int status = fy_errors_create(&errors);

    *state = errors;
    return status;
}

static int teardown(void **state)
{
    fy_errors_destroy(*state);
    return 0;
}

static void test_order_of_sources(void **state)
{
    struct fy_errors *errors = *state;
    struct ferry_error out = {.size = sizeof(out)};
    struct ferry_error own = record_of(FERRY_ERR_ARG, "own"), job = record_of(FERRY_ERR_PEER, "job");

    fy_errors_last(errors, &out);
    assert_int_equal(out.status, FERRY_OK);
    assert_int_equal(out.peer, -1);
    fy_errors_job(errors, &job);
    fy_errors_last(errors, &out);
    assert_string_equal(out.message, "job");
    assert_int_equal(fy_errors_thread(errors, &own), FERRY_ERR_ARG);
    fy_errors_last(errors, &out);
    assert_string_equal(out.message, "own");
    job = record_of(FERRY_ERR_PEER, "second");
    fy_errors_job(errors, &job);
    fy_errors_last(errors, &out);
    assert_string_equal(out.message, "own"); /* still the thread's own */
    own = record_of(FERRY_ERR_LIMIT, "later");
    assert_int_equal(fy_errors_thread(errors, &own), FERRY_ERR_LIMIT);
    fy_errors_last(errors, &out);
    assert_string_equal(out.message, "later");
    assert_int_equal(out.size, sizeof(out));
}

static void test_jobs_are_apart(void **state)
{
    struct fy_errors *errors = *state, *other;
    struct ferry_error own = record_of(FERRY_ERR_ARG, "own"), out = {.size = sizeof(out)};

    assert_int_equal(fy_errors_create(&other), FERRY_OK);
    fy_errors_thread(errors, &own);
    fy_errors_last(other, &out);
    assert_int_equal(out.status, FERRY_OK);
    fy_errors_destroy(other);
    fy_errors_destroy(NULL);
}

/* Callers and plugins that were built with another struct. */
static void test_other_sizes(void **state)
{
    struct fy_errors *errors = *state;
    struct ferry_error own = record_of(FERRY_ERR_ARG, "own"), out;
    size_t until_device = offsetof(struct ferry_error, device);

    own.peer = 4;
    own.size = (uint32_t)until_device; /* an older plugin: no strings */
    assert_int_equal(fy_errors_thread(errors, &own), FERRY_ERR_ARG);
    memset(&out, 0x5a, sizeof(out));
    out.size = sizeof(out);
    fy_errors_last(errors, &out);
    assert_int_equal(out.peer, 4);
    assert_string_equal(out.message, "");
    memset(&out, 0x5a, sizeof(out));
    out.size = (uint32_t)until_device; /* an older caller */
    fy_errors_last(errors, &out);
    assert_int_equal(out.status, FERRY_ERR_ARG);
    assert_int_equal(out.size, until_device);
    assert_int_equal((unsigned char)out.device[0], 0x5a);
    out.size = 0;
    out.status = 99;
    fy_errors_last(errors, &out);
    assert_int_equal(out.status, 99);
    /* A newer caller has a longer struct: no more than ours is written. */
    struct {
        struct ferry_error error;
        uint64_t more;
    } newer = {.error.size = sizeof(newer), .more = 77};
    fy_errors_last(errors, &newer.error);
    assert_int_equal(newer.error.status, FERRY_ERR_ARG);
    assert_int_equal(newer.error.size, sizeof(newer));
    assert_int_equal(newer.more, 77);
    /* A plugin that forgot the size: the status, at least, is not lost. */
    own.status = FERRY_ERR_DEVICE;
    own.size = 0;
    assert_int_equal(fy_errors_thread(errors, &own), FERRY_ERR_DEVICE);
    out.size = sizeof(out);
    fy_errors_last(errors, &out);
    assert_int_equal(out.status, FERRY_ERR_DEVICE);
    /* A plugin that does not end its strings. */
    own = record_of(FERRY_ERR_ARG, "");
    memset(own.message, 'm', sizeof(own.message));
    memset(own.device, 'd', sizeof(own.device));
    memset(own.hint, 'h', sizeof(own.hint));
    fy_errors_thread(errors, &own);
    out.size = sizeof(out);
    fy_errors_last(errors, &out);
    assert_int_equal(strlen(out.message), sizeof(out.message) - 1);
    assert_int_equal(strlen(out.device), sizeof(out.device) - 1);
    assert_int_equal(strlen(out.hint), sizeof(out.hint) - 1);
}

struct worker {
    struct fy_errors *errors;
    pthread_t thread;
    int number, wrong;
};

/* Fails again and again, and must always find its own failure, whatever the others do. */
static void *fail_and_look(void *arg)
{
    struct worker *worker = arg;
    struct ferry_error out = {.size = sizeof(out)};

    fy_errors_last(worker->errors, &out);
    worker->wrong += out.status != FERRY_OK && out.status != FERRY_ERR_PEER; /* not inherited */
    for (int i = 0; i < ROUNDS; i++) {
        char message[64];

        snprintf(message, sizeof(message), "thread %d round %d", worker->number, i);
        struct ferry_error own = record_of(FERRY_ERR_ARG, message);
        own.channel = worker->number;
        worker->wrong += fy_errors_thread(worker->errors, &own) != FERRY_ERR_ARG;
        if (i % 7 == 0) {
            struct ferry_error job = record_of(FERRY_ERR_PEER, "job");
            fy_errors_job(worker->errors, &job);
        }
        fy_errors_last(worker->errors, &out);
        worker->wrong += strcmp(out.message, message) != 0 || out.channel != worker->number;
    }
    return NULL;
}

static void test_many_threads(void **state)
{
    struct worker workers[THREADS];

    for (int generation = 0; generation < 3; generation++) {
        for (int i = 0; i < THREADS; i++) {
            workers[i] = (struct worker){.errors = *state, .number = i};
            assert_int_equal(pthread_create(&workers[i].thread, NULL, fail_and_look, &workers[i]), 0);
        }
        for (int i = 0; i < THREADS; i++)
            pthread_join(workers[i].thread, NULL);
        for (int i = 0; i < THREADS; i++)
            assert_int_equal(workers[i].wrong, 0);
    }
}

static void *fail_once(void *arg)
{
    struct ferry_error own = record_of(FERRY_ERR_LIMIT, "once");

    fy_errors_thread(arg, &own);
    return NULL;
}

static void test_ended_threads_leave_nothing(void **state)
{
    struct fy_errors *errors = *state;

    for (int i = 0; i < 500; i++) {
        pthread_t thread;

        assert_int_equal(pthread_create(&thread, NULL, fail_once, errors), 0);
        pthread_join(thread, NULL);
    }
    assert_true(errors->n >= 1);
    assert_true(errors->capacity <= 16);
}

static void test_reused_thread_number(void **state)
{
    struct fy_errors *errors = *state;
    struct ferry_error own = record_of(FERRY_ERR_ARG, "own"), out = {.size = sizeof(out)};

    fy_errors_thread(errors, &own);
    errors->entries[0].since--; /* as if an earlier thread with this number had failed */
    fy_errors_last(errors, &out);
    assert_int_equal(out.status, FERRY_OK);
    fy_errors_thread(errors, &own);
    fy_errors_last(errors, &out);
    assert_int_equal(out.status, FERRY_ERR_ARG);
    assert_int_equal(errors->n, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_order_of_sources, setup, teardown),
        cmocka_unit_test_setup_teardown(test_jobs_are_apart, setup, teardown),
        cmocka_unit_test_setup_teardown(test_other_sizes, setup, teardown),
        cmocka_unit_test_setup_teardown(test_many_threads, setup, teardown),
        cmocka_unit_test_setup_teardown(test_ended_threads_leave_nothing, setup, teardown),
        cmocka_unit_test_setup_teardown(test_reused_thread_number, setup, teardown),
    };

    return cmocka_run_group_tests_name("base errors", tests, NULL, NULL);
}
