/* SPDX-License-Identifier: Apache-2.0
 * What a user does wrong, and what the library says: arguments, options, disagreement, limits. Nothing is written.
 * PEs are threads. */
#include "pes.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The call failed with this status, and its record has this text. */
static void refused(struct pe *pe, int rc, int wanted, const char *text, int line)
{
    struct ferry_error error = {.size = sizeof(error)};
    EXPECT_OK(pe, ferry_last_error(pe->job, &error));
    if (rc == wanted && error.status == wanted && strstr(error.message, text))
        return;
    fprintf(stderr, "line %d: got %s, '%s'; wanted %s with '%s'\n", line, ferry_status_string(rc), error.message,
            ferry_status_string(wanted), text);
    EXPECT(pe, !"refused as expected");
}
#define REFUSED(pe, call, status, text) refused(pe, call, status, text, __LINE__)

static void arguments_body(struct pe *pe)
{
    uint64_t *words = ferry_calloc(pe->job, 1024, 8), old, local = 0;
    char text[64];
    if (!EXPECT(pe, words))
        return;
    ferry_ctx_t *c = pe->ctx;
    REFUSED(pe, ferry_put(c, words, &local, 8, 2), FERRY_ERR_ARG, "ferry_put: pe 2 is out of range, the job has 0 to 1");
    REFUSED(pe, ferry_put_nbi(c, words, &local, 8, -1), FERRY_ERR_ARG, "ferry_put_nbi: pe -1 is out of range, the job has 0 to 1");
    REFUSED(pe, ferry_get(c, &local, words, 8, 1 << 30), FERRY_ERR_ARG, "ferry_get: pe 1073741824 is out of range");
    REFUSED(pe, ferry_atomic_add(c, words, 1, 2), FERRY_ERR_ARG, "ferry_atomic_add: pe 2");
    REFUSED(pe, ferry_signal(c, words, 1, FERRY_SIGNAL_ADD, 7), FERRY_ERR_ARG, "ferry_signal: pe 7");
    REFUSED(pe, ferry_quiet_pe(c, 2), FERRY_ERR_ARG, "ferry_quiet_pe: pe 2");
    snprintf(text, sizeof(text), "remote address %p is not in the symmetric heap", (void *)&local);
    REFUSED(pe, ferry_put(c, &local, &local, 8, 1), FERRY_ERR_ARG, text);
    REFUSED(pe, ferry_get(c, &local, &local, 8, 1), FERRY_ERR_ARG, text);
    REFUSED(pe, ferry_put(c, NULL, &local, 8, 1), FERRY_ERR_ARG, "remote address (nil) is not in");
    REFUSED(pe, ferry_put(c, words, NULL, 8, 1), FERRY_ERR_ARG, "the local buffer is null, its length 8");
    REFUSED(pe, ferry_get_nbi(c, NULL, words, 8, 1), FERRY_ERR_ARG, "the local buffer is null");
    REFUSED(pe, ferry_put(c, words, &local, SIZE_MAX, 1), FERRY_ERR_ARG, "goes past the end of its segment");
    REFUSED(pe, ferry_put(c, words, &local, (size_t)1 << 33, 1), FERRY_ERR_ARG, "goes past the end of its segment");
    REFUSED(pe, ferry_atomic_inc(c, (uint64_t *)((uintptr_t)words + 4), 1), FERRY_ERR_ARG, "is not aligned to 8 bytes");
    REFUSED(pe, ferry_atomic_fetch_add(c, words, 1, NULL, 1), FERRY_ERR_ARG, "place for the old value is null");
    REFUSED(pe, ferry_atomic_swap(c, &old, 1, &old, 1), FERRY_ERR_ARG, "not in the symmetric heap");
    REFUSED(pe, ferry_signal(c, words, 1, 2, 1), FERRY_ERR_ARG, "signal operation 0x2");
    REFUSED(pe, ferry_put_signal(c, words, &local, 8, words, 1, 0x200, 1), FERRY_ERR_ARG, "signal operation 0x200");
    REFUSED(pe, ferry_put_signal(c, words, &local, 8, (uint64_t *)(void *)text, 1, 0, 1), FERRY_ERR_ARG, "symmetric heap");
    REFUSED(pe, ferry_wait_until(pe->job, words, 6, 0), FERRY_ERR_ARG, "comparison 6");
    REFUSED(pe, ferry_test(pe->job, words, -1, 0), FERRY_ERR_ARG, "comparison -1");
    REFUSED(pe, ferry_test(pe->job, NULL, 0, 0), FERRY_ERR_ARG, "the word is null");
    REFUSED(pe, ferry_test(pe->job, (uint64_t *)((uintptr_t)words + 1), 0, 0), FERRY_ERR_ARG, "not aligned");
    REFUSED(pe, ferry_wait_until(pe->job, &local, FERRY_CMP_EQ, 1), FERRY_ERR_ARG, "is not in the symmetric heap");
    REFUSED(pe, ferry_wait_until_all(pe->job, words, SIZE_MAX / 8 + 2, NULL, 0, 0), FERRY_ERR_ARG, "go past the end");
    REFUSED(pe, ferry_test_any(pe->job, words, (size_t)1 << 40, NULL, 0, 0, NULL), FERRY_ERR_ARG, "go past the end");
    REFUSED(pe, ferry_quiet_pe(c, -1), FERRY_ERR_ARG, "ferry_quiet_pe: pe -1 is out of range");
    REFUSED(pe, ferry_wait_until_any(pe->job, words, 2, NULL, 0, 0, NULL), FERRY_ERR_ARG, "index is null");
    REFUSED(pe, ferry_ctx_create(pe->job, 1, &c), FERRY_ERR_ARG, "flags 0x1");
    REFUSED(pe, ferry_ctx_create(pe->job, 0, NULL), FERRY_ERR_ARG, "ctx is null");
    REFUSED(pe, ferry_ctx_destroy(pe->ctx), FERRY_ERR_ARG, "the default context stays");
    REFUSED(pe, ferry_register(pe->job, NULL, 5, (ferry_buffer_t *[]){NULL}), FERRY_ERR_ARG, "are no memory");
    REFUSED(pe, ferry_register(pe->job, words, 5, NULL), FERRY_ERR_ARG, "buffer is null");
    REFUSED(pe, ferry_path_get(pe->job, 2, &(ferry_path_t){.size = sizeof(ferry_path_t)}), FERRY_ERR_ARG, "pe 2 is not in 0 to 1");
    REFUSED(pe, ferry_path_get(pe->job, 1, NULL), FERRY_ERR_ARG, "path is null");
    REFUSED(pe, ferry_path_get(pe->job, 1, &(ferry_path_t){0}), FERRY_ERR_ARG, "size is not set");
    REFUSED(pe, ferry_pe_alive(pe->job, 9), FERRY_ERR_ARG, "pe 9 is out of range");
    REFUSED(pe, ferry_ptr(pe->job, &local, 1) ? 0 : FERRY_ERR_ARG, FERRY_ERR_ARG, "is not in the symmetric heap");
    REFUSED(pe, ferry_ptr(pe->job, words, 2) ? 0 : FERRY_ERR_ARG, FERRY_ERR_ARG, "ferry_ptr: pe 2");
    REFUSED(pe, ferry_calloc(pe->job, SIZE_MAX, 2) ? 0 : FERRY_ERR_ARG, FERRY_ERR_ARG, "more than a size can say");
    EXPECT(pe, ferry_put(NULL, words, &local, 8, 1) == FERRY_ERR_STATE); /* no default job here */
    EXPECT(pe, ferry_malloc(pe->job, 0) == NULL);
    EXPECT_OK(pe, ferry_put(pe->ctx, NULL, NULL, 0, 1));
    EXPECT_OK(pe, ferry_free(pe->job, NULL));
    EXPECT_OK(pe, ferry_barrier(pe->job));
    for (int i = 0; i < 1024; i++)
        EXPECT(pe, words[i] == 0);
    EXPECT(pe, local == 0);
}

static void test_arguments(void **state)
{
    (void)state;
    pes_check(2, arguments_body, NULL);
}

static void limit_body(struct pe *pe)
{
    ferry_ctx_t *ctx[8] = {0};
    int n = 0, rc = FERRY_OK;
    while (n < 8 && (rc = ferry_ctx_create(pe->job, 0, &ctx[n])) == FERRY_OK)
        n++;
    EXPECT(pe, n == 3); /* FERRY_CHANNELS=4, one is the default context */
    REFUSED(pe, rc, FERRY_ERR_LIMIT, "all 4 contexts are in use");
    for (int i = 0; i < n; i++)
        EXPECT_OK(pe, ferry_ctx_destroy(ctx[i]));
    EXPECT_OK(pe, ferry_ctx_create(pe->job, 0, &ctx[0]));
}

static void test_33_too_many_contexts(void **state)
{
    (void)state;
    static const char *const options[] = {"FERRY_CHANNELS=4", NULL};
    pes_check_options(2, limit_body, NULL, options);
}

/* More memory than the machine has: an error with numbers on every PE, and the job goes on. */
static void memory_body(struct pe *pe)
{
    void *much = ferry_malloc(pe->job, (size_t)1 << 45);
    REFUSED(pe, much ? 0 : FERRY_ERR_NOMEM, FERRY_ERR_NOMEM, "35184372088832");
    void *some = ferry_malloc(pe->job, 100);
    EXPECT(pe, some != NULL);
    if (pe->rank == 0)
        REFUSED(pe, ferry_malloc(pe->job, 64) ? 0 : FERRY_ERR_MISMATCH, FERRY_ERR_MISMATCH, "pe 1");
    else
        REFUSED(pe, ferry_malloc(pe->job, 128) ? 0 : FERRY_ERR_MISMATCH, FERRY_ERR_MISMATCH, "pe 0");
    REFUSED(pe, ferry_free(pe->job, (char *)some + 8), FERRY_ERR_ARG, "");
    EXPECT_OK(pe, ferry_free(pe->job, some));
}

static void test_memory_limits_and_mismatch(void **state)
{
    (void)state;
    static const char *const options[] = {"FERRY_HEAP_SIZE=46T", NULL};
    static const char *const small[] = {"FERRY_HEAP_SIZE=64M", NULL};
    struct run run = {.n = 2, .body = memory_body, .options = options};
    if (pes_run(&run) == 0)
        return;
    /* the address space of some machines is too small to reserve that much: the reservation is then the limit */
    run = (struct run){.n = 2, .body = memory_body, .options = small};
    assert_int_equal(pes_run(&run), 0);
}

static void no_body(struct pe *pe)
{
    (void)pe;
}

struct lines {
    pthread_mutex_t lock;
    char text[65536];
};

static void collect(void *arg, int level, const char *line)
{
    struct lines *lines = arg;
    (void)level;
    pthread_mutex_lock(&lines->lock);
    strncat(lines->text, line, sizeof(lines->text) - strlen(lines->text) - 2);
    strcat(lines->text, "\n");
    pthread_mutex_unlock(&lines->lock);
}

/* Init fails on every PE with `status`; the first record and the log have the texts. */
static void init_fails(const char *option, int status, const char *message, const char *log)
{
    struct lines lines = {.lock = PTHREAD_MUTEX_INITIALIZER};
    const char *const options[] = {option, NULL};
    struct run run = {.n = 2, .body = no_body, .options = options, .log = collect, .arg = &lines};
    double start = pes_now();
    pes_run_tolerant(&run);
    for (int i = 0; i < 2; i++) {
        if (run.init_status[i] != status || !strstr(run.init_error[i].message, message))
            fprintf(stderr, "%s: got %s: %s\n", option, ferry_status_string(run.init_status[i]), run.init_error[i].message);
        assert_int_equal(run.init_status[i], status);
        assert_int_equal(run.init_error[i].status, status);
        assert_non_null(strstr(run.init_error[i].message, message));
    }
    if (log && !strstr(lines.text, log))
        fprintf(stderr, "%s: the log is: %s\n", option, lines.text);
    assert_true(!log || strstr(lines.text, log));
    assert_true(pes_now() - start < 20);
}

static void test_bad_options(void **state)
{
    (void)state;
    init_fails("FERRY_TRANSPORT=lopback", FERRY_ERR_NOT_FOUND, "no transport named lopback; did you mean loopback", "loopback");
    init_fails("FERRY_TRANSPORT=/nowhere/x.so", FERRY_ERR_NOT_FOUND, "/nowhere/x.so", NULL);
    init_fails("FERRY_HEAP_SIZE=12Q", FERRY_ERR_CONFIG, "FERRY_HEAP_SIZE", NULL);
    init_fails("FERRY_HEAP_SIZE=-5", FERRY_ERR_CONFIG, "FERRY_HEAP_SIZE", NULL);
    init_fails("FERRY_HEAP_SIZE=1E", FERRY_ERR_CONFIG, "1152921504606846976", NULL);
    init_fails("FERRY_CHANNELS=0", FERRY_ERR_CONFIG, "FERRY_CHANNELS", NULL);
    init_fails("FERRY_QUEUE_OPS=-1", FERRY_ERR_CONFIG, "FERRY_QUEUE_OPS is -1", NULL);
    init_fails("FERRY_GPU=card0", FERRY_ERR_CONFIG, "FERRY_GPU is 'card0'", NULL);
    init_fails("FERRY_PROXY_CORES=3-1", FERRY_ERR_CONFIG, "FERRY_PROXY_CORES is '3-1'", NULL);
    init_fails("FERRY_PROXY_CORES=0,", FERRY_ERR_CONFIG, "no list of cores", NULL);
    init_fails("FERRY_LOG=loud", FERRY_ERR_CONFIG, "debug", NULL);
    init_fails("FERRY_TIMEOUT=soon", FERRY_ERR_CONFIG, "FERRY_TIMEOUT", NULL);
    init_fails("FERRY_HOOKS=nosuchhook", FERRY_ERR_NOT_FOUND, "nosuchhook", NULL);
}

/* One PE with other options than the rest: both sides are named, nobody hangs. */
struct odd {
    const ferry_uniqueid_t *id;
    const char *option;
    int rank, status;
    struct ferry_error error;
};

static void swallow(void *arg, int level, const char *line)
{
    (void)arg;
    (void)level;
    (void)line;
}

static void *odd_pe(void *arg)
{
    struct odd *odd = arg;
    ferry_job_t *job;
    char transport[600];
    snprintf(transport, sizeof(transport), "FERRY_TRANSPORT=%s", pes_transport());
    const char *const options[] = {transport, odd->rank == 1 ? odd->option : NULL, NULL};
    odd->error.size = sizeof(odd->error);
    ferry_attr_t attr = {.size = sizeof(attr), .bootstrap = FERRY_BOOTSTRAP_UNIQUEID, .rank = odd->rank, .n_pes = 3,
                         .id = odd->id, .options = options, .log = swallow, .error = &odd->error};
    odd->status = ferry_init(&attr, &job);
    if (odd->status == FERRY_OK)
        ferry_finalize(job);
    return NULL;
}

static void disagree(const char *option, int own_status, const char *own, int others_status, const char *others)
{
    ferry_uniqueid_t id;
    pthread_t threads[3];
    struct odd odds[3];
    assert_int_equal(ferry_uniqueid_create(&id), FERRY_OK);
    for (int i = 0; i < 3; i++) {
        odds[i] = (struct odd){.id = &id, .option = option, .rank = i};
        assert_int_equal(pthread_create(&threads[i], NULL, odd_pe, &odds[i]), 0);
    }
    for (int i = 0; i < 3; i++) {
        pthread_join(threads[i], NULL);
        const char *text = i == 1 ? own : others;
        if (odds[i].status != (i == 1 ? own_status : others_status) || !strstr(odds[i].error.message, text))
            fprintf(stderr, "%s: pe %d got %s: %s\n", option, i, ferry_status_string(odds[i].status), odds[i].error.message);
        assert_int_equal(odds[i].status, i == 1 ? own_status : others_status);
        assert_non_null(strstr(odds[i].error.message, text));
    }
}

static void test_57_disagreement(void **state)
{
    (void)state;
    disagree("FERRY_HEAP_SIZE=1G", FERRY_ERR_MISMATCH, "pe 0 and pe 1 have different FERRY_HEAP_SIZE", FERRY_ERR_MISMATCH,
             "pe 0 and pe 1 have different FERRY_HEAP_SIZE: 68719476736 and 1073741824");
    disagree("FERRY_CHANNELS=9", FERRY_ERR_MISMATCH, "FERRY_CHANNELS: 64 and 9", FERRY_ERR_MISMATCH, "FERRY_CHANNELS");
    disagree("FERRY_TRANSPORT=lopback", FERRY_ERR_NOT_FOUND, "did you mean", FERRY_ERR_NOT_FOUND, "pe 1 could not start: ");
    disagree("FERRY_TRANSPORT=" HOLDBACK, FERRY_ERR_MISMATCH, "pe 0 and pe 1 have different transports", FERRY_ERR_MISMATCH,
             "holdback");
}

static void test_unknown_variable(void **state)
{
    (void)state;
    struct lines lines = {.lock = PTHREAD_MUTEX_INITIALIZER};
    static const char *const options[] = {"FERRY_TRANSPRT=loopback", "FERRY_IBRC_MTU=4096", NULL};
    struct run run = {.n = 1, .body = no_body, .options = options, .log = collect, .arg = &lines};
    assert_int_equal(pes_run(&run), 0);
    assert_non_null(strstr(lines.text, "FERRY_TRANSPRT"));
    assert_non_null(strstr(lines.text, "FERRY_TRANSPORT"));
    assert_null(strstr(lines.text, "FERRY_IBRC_MTU"));
}

static void test_attributes(void **state)
{
    (void)state;
    ferry_job_t *job = (ferry_job_t *)&job;
    struct ferry_error error = {.size = sizeof(error)};
    ferry_uniqueid_t id = {{0}};
    ferry_attr_t attr = {.size = sizeof(attr), .bootstrap = 9, .error = &error, .log = swallow};
    assert_int_equal(ferry_init(&attr, &job), FERRY_ERR_ARG);
    assert_null(job);
    assert_non_null(strstr(error.message, "bootstrap is 9"));
    attr = (ferry_attr_t){.size = sizeof(attr), .bootstrap = FERRY_BOOTSTRAP_UNIQUEID, .rank = 2, .n_pes = 2, .id = &id,
                          .error = &error, .log = swallow};
    assert_int_equal(ferry_init(&attr, &job), FERRY_ERR_ARG);
    assert_non_null(strstr(error.message, "rank 2 is not below n_pes 2"));
    attr.rank = 0;
    attr.id = NULL;
    assert_int_equal(ferry_init(&attr, &job), FERRY_ERR_ARG);
    assert_non_null(strstr(error.message, "id is null"));
    attr.id = &id; /* zeros are no id */
    assert_true(ferry_init(&attr, &job) < 0);
    attr.size = 3;
    assert_int_equal(ferry_init(&attr, &job), FERRY_ERR_ARG);
    assert_int_equal(ferry_finalize(NULL), FERRY_ERR_STATE);
    assert_int_equal(ferry_my_pe(NULL), -1);
    assert_int_equal(ferry_n_pes(NULL), -1);
    assert_int_equal(ferry_barrier(NULL), FERRY_ERR_STATE);
    assert_null(ferry_malloc(NULL, 8));
    assert_int_equal(ferry_last_error(NULL, &error), FERRY_OK);
    assert_int_equal(error.status, FERRY_ERR_STATE);
    assert_int_equal(ferry_uniqueid_from_text("12", &id), FERRY_ERR_ARG);
}

static void test_environment(void **state)
{
    (void)state;
    struct ferry_error error = {.size = sizeof(error)};
    ferry_job_t *job;
    static const char *const half[] = {"FERRY_RANK=1", "FERRY_SIZE=1", NULL};
    static const char *const no_id[] = {"FERRY_RANK=0", "FERRY_SIZE=2", NULL};
    static const char *const bad_id[] = {"FERRY_RANK=0", "FERRY_SIZE=2", "FERRY_ID=zz", NULL};
    ferry_attr_t attr = {.size = sizeof(attr), .options = half, .error = &error, .log = swallow};
    assert_int_equal(ferry_init(&attr, &job), FERRY_ERR_CONFIG);
    assert_non_null(strstr(error.message, "FERRY_RANK 1 and FERRY_SIZE 1"));
    attr.options = no_id;
    assert_int_equal(ferry_init(&attr, &job), FERRY_ERR_CONFIG);
    assert_non_null(strstr(error.message, "FERRY_ID is not set"));
    attr.options = bad_id;
    assert_int_equal(ferry_init(&attr, &job), FERRY_ERR_CONFIG);
    assert_non_null(strstr(error.message, "FERRY_ID is not a unique id"));
    assert_null(strstr(error.message, "zz"));
    attr = (ferry_attr_t){.size = sizeof(attr)};
    assert_int_equal(ferry_init(&attr, NULL), FERRY_OK); /* no environment: a job of one, the default one */
    assert_int_equal(ferry_my_pe(NULL), 0);
    assert_int_equal(ferry_n_pes(NULL), 1);
    assert_int_equal(ferry_barrier(NULL), FERRY_OK);
    assert_int_equal(ferry_finalize(NULL), FERRY_OK);
}

static void no_row(void *arg, const ferry_info_row_t *row)
{
    (void)row;
    ++*(int *)arg;
}

static void test_looking_without_a_job(void **state)
{
    int rows = 0;
    (void)state;
    assert_int_equal(ferry_info("loopback", 0, NULL, NULL), FERRY_ERR_ARG);
    assert_int_equal(ferry_doctor("loopback", NULL, NULL), FERRY_ERR_ARG);
    assert_int_equal(ferry_plan("loopback", 2, NULL, NULL, NULL), FERRY_ERR_ARG);
    assert_int_equal(ferry_plan("loopback", 0, NULL, no_row, &rows), FERRY_ERR_ARG);
    assert_int_equal(ferry_doctor("loopback,loopback", no_row, &rows), FERRY_ERR_CONFIG);
    rows = 0;
    assert_int_equal(ferry_plan("loopback", 2, (const uint64_t[]){1, 1}, no_row, &rows), FERRY_OK);
    assert_int_equal(rows, 0);
    assert_int_equal(ferry_doctor("loopback", no_row, &rows), FERRY_OK);
    assert_true(rows > 8);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_arguments),
        cmocka_unit_test(test_33_too_many_contexts),
        cmocka_unit_test(test_memory_limits_and_mismatch),
        cmocka_unit_test(test_bad_options),
        cmocka_unit_test(test_57_disagreement),
        cmocka_unit_test(test_unknown_variable),
        cmocka_unit_test(test_attributes),
        cmocka_unit_test(test_environment),
        cmocka_unit_test(test_looking_without_a_job),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
