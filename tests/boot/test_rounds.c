/* SPDX-License-Identifier: Apache-2.0
 * What a meeting decides: who is refused alone, what fails the job for all who are there or come, and the jobs that a
 * launcher's meeting serves one after another. */
#include "kit.h"
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

static struct fy_id id_of(const ferry_uniqueid_t *bytes)
{
    struct fy_id id;
    struct ferry_error error;
    assert_int_equal(fy_id_read(bytes, &id, &error), FERRY_OK);
    return id;
}

static void seat(struct kit_client *client, const struct fy_id *id, uint32_t rank, uint32_t n)
{
    kit_client_open(client, &id->addr, FY_NOBODY, id->secret, FY_PURPOSE_JOIN, rank, n);
    assert_true(kit_client_run(client, 10, false));
    assert_true(client->ready);
}

/* One that joins and is not let in. */
static struct ferry_error joins(const struct kit_job *job, uint32_t rank, uint32_t n, const char *version)
{
    struct ferry_error error = {.size = sizeof(error)};
    struct fy_id id = id_of(&job->id);
    struct fy_addr table[KIT_PES];
    uint64_t job_id;
    struct fy_join join = {.id = &id, .timeout = 10, .deadline = fy_deadline(10)};
    join.self = (struct fy_identity){.purpose = FY_PURPOSE_JOIN, .rank = rank, .size = n};
    snprintf(join.self.version, sizeof(join.self.version), "%s", version);
    assert_true(fy_meeting_join(&join, table, &job_id, &error) < 0);
    return error;
}

static void assert_says(const struct ferry_error *error, int status, int peer, const char *part)
{
    if (error->status != status || error->peer != peer || !strstr(error->message, part))
        fail_msg("status %d, peer %d: %s", error->status, error->peer, error->message);
}

/* A rank that is there, or out of range: the newcomer's trouble only. */
static void test_refused(void **state)
{
    (void)state;
    struct kit_job *job = kit_new(3, NULL, false);
    struct fy_id id = id_of(&job->id);
    struct kit_client clients[3];
    struct ferry_error error;
    seat(&clients[0], &id, 0, 3);
    error = joins(job, 0, 3, FERRY_VERSION_STRING);
    assert_says(&error, FERRY_ERR_MISMATCH, -1, "PE 0 has already arrived");
    error = joins(job, 3, 3, FERRY_VERSION_STRING);
    assert_says(&error, FERRY_ERR_MISMATCH, -1, "out of range");
    seat(&clients[1], &id, 1, 3);
    seat(&clients[2], &id, 2, 3);
    for (int i = 0; i < 3; i++) {
        assert_true(kit_client_frame(&clients[i], 10));
        assert_int_equal(clients[i].type, FY_FRAME_TABLE);
        kit_client_close(&clients[i]);
    }
    error = joins(job, 0, 3, FERRY_VERSION_STRING);
    assert_non_null(strstr(error.message, "already used"));
    kit_free(job);
}

/* Only PE `rank` of the job starts; it must end at once, and so. */
static void starts_and_fails(struct kit_job *job, uint32_t rank, int status, int peer, const char *part)
{
    for (uint32_t i = 0; i < job->n; i++)
        job->pes[i].absent = i != rank;
    kit_start(job);
    kit_join(job);
    job->pes[rank].error.status = job->pes[rank].rc;
    assert_says(&job->pes[rank].error, status, peer, part);
    assert_true(job->pes[rank].start_s < 5);
}

/* One that cannot be of the same job ends it for those who wait and for those who come. */
static void disagree(uint32_t n, const char *version, const char *part)
{
    struct kit_job *job = kit_new(4, NULL, false);
    struct fy_id id = id_of(&job->id);
    struct kit_client first;
    struct ferry_error error;
    seat(&first, &id, 0, 4);
    error = joins(job, 2, n, version);
    assert_says(&error, FERRY_ERR_MISMATCH, 2, part);
    assert_true(kit_client_frame(&first, 10));
    assert_int_equal(first.type, FY_FRAME_REFUSE);
    starts_and_fails(job, 1, FERRY_ERR_MISMATCH, 2, part);
    starts_and_fails(job, 3, FERRY_ERR_MISMATCH, 2, part);
    kit_client_close(&first);
    kit_free(job);
}

static void test_disagree(void **state)
{
    (void)state;
    disagree(5, FERRY_VERSION_STRING, "PE 2 says that the job has 5 PEs, PE 0 said 4");
    disagree(4, "9.8.7", "PE 2 runs ferry 9.8.7, the id was made by ferry " FERRY_VERSION_STRING);
}

/* The first of all may be the odd one. */
static void test_disagree_first(void **state)
{
    (void)state;
    struct kit_job *job = kit_new(3, NULL, false);
    struct ferry_error error = joins(job, 1, 3, "9.8.7");
    assert_says(&error, FERRY_ERR_MISMATCH, 1, "PE 1 runs ferry 9.8.7");
    starts_and_fails(job, 0, FERRY_ERR_MISMATCH, 1, "PE 1 runs ferry 9.8.7");
    starts_and_fails(job, 2, FERRY_ERR_MISMATCH, 1, "PE 1 runs ferry 9.8.7");
    kit_free(job);
}

/* Whoever waits is told when one of those who came is gone. */
static void test_left(void **state)
{
    (void)state;
    struct kit_job *job = kit_new(4, NULL, false);
    struct fy_id id = id_of(&job->id);
    struct kit_client waits, leaves;
    seat(&waits, &id, 0, 4);
    seat(&leaves, &id, 2, 4);
    kit_client_close(&leaves);
    assert_true(kit_client_frame(&waits, 5));
    assert_int_equal(waits.type, FY_FRAME_REFUSE);
    starts_and_fails(job, 1, FERRY_ERR_PEER, 2, "PE 2 left while the job was starting");
    starts_and_fails(job, 3, FERRY_ERR_PEER, 2, "PE 2 left while the job was starting");
    kit_client_close(&waits);
    kit_free(job);
}

static void body_number(struct kit_pe *pe)
{
    uint8_t secret[FERRY_SECRET_BYTES];
    uint64_t all[KIT_PES], mine;
    fy_boot_secret(pe->boot, secret, &mine);
    int rc = fy_boot_allgather(pe->boot, &mine, all, sizeof(mine), "numbers", 20, &pe->error);
    kit_expect(pe, rc == FERRY_OK, "allgather: %s", pe->error.message);
    for (uint32_t i = 0; rc == FERRY_OK && i < pe->n; i++)
        kit_expect(pe, all[i] == mine, "PE %u is of another job", i);
    if (pe->rank == 0)
        *(uint64_t *)pe->job->arg = mine;
}

static uint64_t run_by(const ferry_uniqueid_t *id, uint32_t n)
{
    uint64_t number = 0;
    struct kit_job *job = kit_new(n, body_number, false);
    job->id = *id;
    job->arg = &number;
    kit_run(job);
    kit_free(job);
    return number;
}

/* Jobs of several sizes by one id; each is a job of its own. */
static void test_rounds(void **state)
{
    (void)state;
    enum { ROUNDS = 6 };
    struct ferry_meeting *meeting;
    struct ferry_error error;
    ferry_uniqueid_t id;
    uint64_t numbers[ROUNDS];
    assert_int_equal(fy_meeting_open(NULL, "lo", 30, &id, &meeting, &error), FERRY_OK);
    for (uint32_t i = 0; i < ROUNDS; i++) {
        numbers[i] = run_by(&id, 2 + i % 3);
        for (uint32_t k = 0; k < i; k++)
            assert_true(numbers[i] != numbers[k]);
    }
    fy_meeting_close(meeting);
    struct fy_id gone = id_of(&id);
    assert_int_equal(kit_socket(&gone.addr), -1);
}

/* A round that failed is over when all of its PEs know; the next one works. */
static void test_round_after_failure(void **state)
{
    (void)state;
    struct ferry_meeting *meeting;
    struct ferry_error error;
    struct kit_job *job = kit_new(3, NULL, false);
    assert_int_equal(fy_meeting_open(NULL, "lo", 30, &job->id, &meeting, &error), FERRY_OK);
    error = joins(job, 1, 7, FERRY_VERSION_STRING "x");
    for (uint32_t rank = 0; rank < 7; rank++) {
        if (rank == 1)
            continue;
        error = joins(job, rank, 7, FERRY_VERSION_STRING);
        assert_says(&error, FERRY_ERR_MISMATCH, 1, "PE 1 runs ferry " FERRY_VERSION_STRING "x");
    }
    run_by(&job->id, 3);
    error = joins(job, 1, 3, "8");
    error = joins(job, 1, 3, "9"); /* knows already: it begins another one */
    assert_says(&error, FERRY_ERR_MISMATCH, 1, "PE 1 runs ferry 9");
    fy_meeting_close(meeting);
    kit_free(job);
}

static void test_timeout_of_round(void **state)
{
    (void)state;
    struct ferry_meeting *meeting;
    struct ferry_error error;
    struct kit_job *job = kit_new(2, NULL, false);
    assert_int_equal(fy_meeting_open(NULL, "lo", 0.4, &job->id, &meeting, &error), FERRY_OK);
    for (int i = 0; i < 2; i++)
        starts_and_fails(job, 0, FERRY_ERR_TIMEOUT, -1, "PE 1 of 2 did not arrive within 0.4 s");
    fy_meeting_close(meeting);
    kit_free(job);
}

/* Said before, and while somebody waits. */
static void test_lost(void **state)
{
    (void)state;
    struct ferry_meeting *meeting;
    struct ferry_error error;
    struct kit_client waits;
    struct kit_job *job = kit_new(3, NULL, false);
    assert_int_equal(fy_meeting_open(NULL, "lo", 30, &job->id, &meeting, &error), FERRY_OK);
    struct fy_id id = id_of(&job->id);
    run_by(&job->id, 3);
    seat(&waits, &id, 0, 3);
    assert_int_equal(fy_meeting_lost(meeting, 1), FERRY_OK);
    assert_true(kit_client_frame(&waits, 5));
    assert_int_equal(waits.type, FY_FRAME_REFUSE);
    starts_and_fails(job, 2, FERRY_ERR_PEER, 1, "PE 1 of 3 is needed, and its process has ended");
    starts_and_fails(job, 2, FERRY_ERR_PEER, 1, "PE 1 of 3 is needed, and its process has ended");
    assert_int_equal(fy_meeting_lost(meeting, -1), FERRY_ERR_ARG);
    assert_int_equal(fy_meeting_lost(meeting, FY_PES_MAX), FERRY_ERR_ARG);
    kit_client_close(&waits);
    fy_meeting_close(meeting);
    kit_free(job);
}

static void keep_line(void *arg, int level, const char *line)
{
    if (level == FERRY_LOG_DEBUG && strstr(line, "dropped a connection"))
        atomic_fetch_add((atomic_uint *)arg, 1);
}

static void test_strangers_are_logged(void **state)
{
    (void)state;
    struct ferry_meeting *meeting;
    struct ferry_error error;
    ferry_uniqueid_t bytes;
    atomic_uint lines = 0;
    struct fy_log log;
    fy_log_init(&log);
    log.level = FERRY_LOG_DEBUG;
    log.sink = keep_line;
    log.sink_arg = &lines;
    assert_int_equal(fy_meeting_open(&log, "lo", 30, &bytes, &meeting, &error), FERRY_OK);
    struct fy_id id = id_of(&bytes);
    int fd = kit_socket(&id.addr);
    assert_int_equal(send(fd, "GET / HTTP/1.0\r\n\r\n", 18, MSG_NOSIGNAL), 18);
    assert_true(kit_wait_count(&lines, 1, 10));
    close(fd);
    fy_meeting_close(meeting);
}

static void keep_limit(void *arg, int level, const char *line)
{
    unsigned long long limit;
    const char *at = strstr(line, "Too many open files (ulimit -n is ");
    if (level == FERRY_LOG_ERROR && at && sscanf(at, "Too many open files (ulimit -n is %llu)", &limit) == 1)
        atomic_store((atomic_uint *)arg, (unsigned)limit);
}

/* The meeting's process cannot take the second PE: the first need not wait. */
static void test_no_descriptors(void **state)
{
    (void)state;
    struct ferry_meeting *meeting;
    struct ferry_error error;
    ferry_uniqueid_t bytes;
    atomic_uint said = 0;
    struct fy_log log;
    struct kit_client waits;
    struct rlimit old, none;
    fy_log_init(&log);
    log.sink = keep_limit;
    log.sink_arg = &said;
    assert_int_equal(fy_meeting_open(&log, "lo", 30, &bytes, &meeting, &error), FERRY_OK);
    struct fy_id id = id_of(&bytes);
    seat(&waits, &id, 0, 2);
    int second = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), free_fd = dup(second);
    close(free_fd);
    getrlimit(RLIMIT_NOFILE, &old);
    none = (struct rlimit){(rlim_t)free_fd, old.rlim_max};
    setrlimit(RLIMIT_NOFILE, &none);
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = id.addr.port, .sin_addr.s_addr = id.addr.ip};
    int rc = connect(second, (struct sockaddr *)&to, sizeof(to));
    bool told = kit_client_frame(&waits, 5);
    setrlimit(RLIMIT_NOFILE, &old);
    assert_int_equal(rc, 0);
    assert_true(told);
    assert_int_equal(waits.type, FY_FRAME_REFUSE);
    assert_int_equal(atomic_load(&said), free_fd);
    close(second);
    kit_client_close(&waits);
    fy_meeting_close(meeting);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_no_descriptors), /* the first: no other meeting gives descriptors back */
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_disagree),
        cmocka_unit_test(test_disagree_first),
        cmocka_unit_test(test_left),
        cmocka_unit_test(test_rounds),
        cmocka_unit_test(test_round_after_failure),
        cmocka_unit_test(test_timeout_of_round),
        cmocka_unit_test(test_lost),
        cmocka_unit_test(test_strangers_are_logged),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
