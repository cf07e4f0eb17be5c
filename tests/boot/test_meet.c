/* SPDX-License-Identifier: Apache-2.0
 * How PEs come together: meetings and the application's functions, who is missing, who is refused, strangers at the
 * door. */
#include "kit.h"
#include <sodium.h>
#include <sys/socket.h>
#include <unistd.h>

static struct fy_id id_of(const ferry_uniqueid_t *bytes)
{
    struct fy_id id;
    struct ferry_error error;
    assert_int_equal(fy_id_read(bytes, &id, &error), FERRY_OK);
    return id;
}

/* Everybody has the same secret and number, and a step works. */
static void body_secret(struct kit_pe *pe)
{
    struct {
        uint8_t secret[FERRY_SECRET_BYTES];
        uint64_t job;
    } mine, all[KIT_PES];
    memset(&mine, 0, sizeof(mine));
    fy_boot_secret(pe->boot, mine.secret, &mine.job);
    int rc = fy_boot_allgather(pe->boot, &mine, all, sizeof(mine), "secrets", 20, &pe->error);
    kit_expect(pe, rc == FERRY_OK, "allgather: %s", pe->error.message);
    for (uint32_t i = 0; rc == FERRY_OK && i < pe->n; i++)
        kit_expect(pe, memcmp(&all[i], &mine, sizeof(mine)) == 0, "PE %u has another secret", i);
    kit_expect(pe, mine.job != 0 && !sodium_is_zero(mine.secret, sizeof(mine.secret)), "the secret is zero");
}

static void meet_sizes(bool functions)
{
    static const uint32_t sizes[] = {1, 2, 3, 5, 16, 64};
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        struct kit_job *job = kit_new(sizes[i], body_secret, functions);
        kit_run(job);
        for (uint32_t pe = 0; pe < job->n; pe++)
            assert_int_equal(job->pes[pe].deaths, 0);
        kit_free(job);
    }
}

static void test_id(void **state)
{
    (void)state;
    meet_sizes(false);
}

static void test_functions(void **state)
{
    (void)state;
    meet_sizes(true);
}

static int failing_allgather(void *arg, const void *mine, void *all, size_t length)
{
    (void)arg, (void)mine, (void)all, (void)length;
    return 7;
}

/* The slots come in another order than the ranks. */
static int swapping_allgather(void *arg, const void *mine, void *all, size_t length)
{
    (void)arg;
    memcpy(all, mine, length);
    memcpy((uint8_t *)all + length, mine, length);
    return 0;
}

static void test_functions_bad(void **state)
{
    (void)state;
    struct ferry_error error = {.size = sizeof(error)};
    struct fy_boot *boot;
    ferry_bootstrap_functions_t functions = {.size = sizeof(functions), .allgather = failing_allgather};
    struct fy_boot_config config = {.rank = 0, .n_pes = 2, .timeout = 2, .peer_timeout = 2};
    struct fy_launch launch;
    ferry_attr_t attr;
    kit_by_functions(&config, &launch, &attr, &functions);
    assert_int_equal(fy_boot_start(&config, &boot, &error), FERRY_ERR_BOOTSTRAP);
    assert_non_null(strstr(error.message, "7"));
    functions.allgather = swapping_allgather;
    assert_int_equal(fy_boot_start(&config, &boot, &error), FERRY_ERR_MISMATCH);
    assert_non_null(strstr(error.message, "PE 0's bytes in the place of PE 1"));
    config.launch = NULL;
    assert_int_equal(fy_boot_start(&config, &boot, &error), FERRY_ERR_ARG);
    config.rank = 2;
    assert_int_equal(fy_boot_start(&config, &boot, &error), FERRY_ERR_ARG);
}

/* Those who came are told who did not; all the same, within the time that was set. */
static void test_missing(void **state)
{
    (void)state;
    struct kit_job *job = kit_new(6, NULL, false);
    job->timeout = 0.7;
    job->pes[1].absent = job->pes[3].absent = job->pes[4].absent = true;
    kit_start(job);
    kit_join(job);
    for (uint32_t i = 0; i < job->n; i++) {
        struct kit_pe *pe = &job->pes[i];
        if (pe->absent)
            continue;
        assert_int_equal(pe->rc, FERRY_ERR_TIMEOUT);
        if (!strstr(pe->error.message, "PEs 1, 3-4 of 6 did not arrive"))
            fail_msg("PE %u: %s", i, pe->error.message);
        assert_true(pe->start_s < 5);
    }
    kit_free(job);
}

/* The meeting's own time: it tells those who would wait longer. */
static void test_meeting_time(void **state)
{
    (void)state;
    struct kit_job *job = kit_new(2, NULL, false);
    struct ferry_error error;
    assert_int_equal(fy_meeting_create(NULL, "lo", 0.5, &job->id, &error), FERRY_OK);
    job->pes[1].absent = true;
    kit_start(job);
    kit_join(job);
    assert_int_equal(job->pes[0].rc, FERRY_ERR_TIMEOUT);
    assert_non_null(strstr(job->pes[0].error.message, "PE 1 of 2 did not arrive within 0.5 s"));
    kit_free(job);
}

static void test_id_twice(void **state)
{
    (void)state;
    struct kit_job *job = kit_new(2, body_secret, false), *again = kit_new(2, body_secret, false);
    kit_run(job);
    again->id = job->id;
    kit_start(again);
    kit_join(again);
    for (int i = 0; i < 2; i++) {
        struct kit_pe *pe = &again->pes[i];
        assert_true(pe->rc == FERRY_ERR_MISMATCH ||
                    pe->rc == FERRY_ERR_BOOTSTRAP); /* told, or nobody is there any more */
        assert_non_null(strstr(pe->error.message, "already used"));
    }
    kit_free(job);
    kit_free(again);
}

static void test_id_bad(void **state)
{
    (void)state;
    struct ferry_error error = {.size = sizeof(error)};
    struct fy_boot *boot;
    ferry_uniqueid_t id;
    struct fy_boot_config config = {.n_pes = 2, .id = &id, .timeout = 2, .peer_timeout = 2};
    memset(&id, 0x5a, sizeof(id));
    assert_int_equal(fy_boot_start(&config, &boot, &error), FERRY_ERR_ARG);
    assert_int_equal(fy_meeting_create(NULL, NULL, 5, &id, &error), FERRY_OK);
    id.bytes[offsetof(struct fy_id, protocol)] ^= 0x40;
    assert_int_equal(fy_boot_start(&config, &boot, &error), FERRY_ERR_MISMATCH);
    assert_non_null(strstr(error.message, "protocol 66"));
    id.bytes[offsetof(struct fy_id, protocol)] ^= 0x40;
    id.bytes[offsetof(struct fy_id, secret)] ^= 1; /* another secret: the meeting is a stranger then */
    assert_int_equal(fy_boot_start(&config, &boot, &error), FERRY_ERR_BOOTSTRAP);
    assert_non_null(strstr(error.message, "does not know the id"));
    assert_null(boot);
}

static void test_interface(void **state)
{
    (void)state;
    struct ferry_error error = {.size = sizeof(error)};
    ferry_uniqueid_t id;
    assert_int_equal(fy_meeting_create(NULL, "nosuch0", 1, &id, &error), FERRY_ERR_CONFIG);
    assert_non_null(strstr(error.message, "nosuch0"));
    assert_non_null(strstr(error.message, "lo (127.0.0.1)"));
    assert_int_equal(fy_meeting_create(NULL, "203.0.113.77", 1, &id, &error), FERRY_ERR_CONFIG);
    assert_int_equal(fy_meeting_create(NULL, "0.0.0.0", 1, &id, &error), FERRY_ERR_CONFIG);
    assert_int_equal(fy_meeting_create(NULL, "127.0.0.2", 1, &id, &error), FERRY_OK);
    assert_int_equal(id_of(&id).addr.ip, 0x0200007f);
}

static void test_list(void **state)
{
    (void)state;
    uint8_t have[400];
    char text[64];
    uint32_t first;
    memset(have, 1, sizeof(have));
    have[7] = 0;
    assert_int_equal(fy_text_missing(text, sizeof(text), have, 400, &first), 1);
    assert_string_equal(text, "PE 7");
    assert_int_equal(first, 7);
    for (int i = 7; i < 400; i += 2)
        have[i] = 0;
    assert_int_equal(fy_text_missing(text, sizeof(text), have, 400, &first), 197);
    assert_non_null(strstr(text, "PEs 7, 9, 11"));
    assert_non_null(strstr(text, "more"));
}

/* More silent connections than the meeting keeps, one with garbage, one with a wrong secret: the PEs meet all the same.
 */
static void test_meeting_strangers(void **state)
{
    (void)state;
    enum { SILENT = 300 };
    struct kit_job *job = kit_new(3, body_secret, false);
    struct fy_id id = id_of(&job->id);
    int fds[SILENT];
    uint8_t garbage[4096], wrong[FERRY_SECRET_BYTES] = {1};
    randombytes_buf(garbage, sizeof(garbage));
    for (int i = 0; i < SILENT; i++)
        fds[i] = kit_socket(&id.addr);
    for (int i = 0; i < 20; i++)
        send(fds[i], garbage, sizeof(garbage) - (size_t)i * 200, MSG_NOSIGNAL);
    struct kit_client client;
    kit_client_open(&client, &id.addr, FY_NOBODY, wrong, FY_PURPOSE_JOIN, 0, 3);
    assert_true(kit_client_run(&client, 10, false));
    assert_false(client.ready);
    kit_client_close(&client);
    double start = kit_now();
    kit_run(job);
    assert_true(kit_now() - start < 4); /* nobody waited for the silent ones to be thrown out */
    assert_int_equal(recv(fds[20], garbage, 1, MSG_DONTWAIT), 0);          /* the oldest made room, */
    assert_int_equal(recv(fds[SILENT - 1], garbage, 1, MSG_DONTWAIT), -1); /* the youngest need not */
    for (int i = 0; i < SILENT; i++)
        close(fds[i]);
    kit_free(job);
}

/* A client that takes the wrong key for its proof, after a server that it believed. */
static void test_wrong_proof(void **state)
{
    (void)state;
    struct kit_job *job = kit_new(2, NULL, false);
    struct fy_id id = id_of(&job->id);
    struct {
        struct fy_frame frame;
        struct fy_hello hello;
    } hello = {{FY_WIRE_MAGIC, FY_FRAME_HELLO, 0, sizeof(struct fy_hello), 0}, {.protocol = FY_WIRE_PROTOCOL}};
    struct {
        struct fy_frame frame;
        struct fy_challenge challenge;
    } challenge;
    struct {
        struct fy_frame frame;
        struct fy_proof proof;
    } proof = {{FY_WIRE_MAGIC, FY_FRAME_PROOF, 0, sizeof(struct fy_proof), 0}, {.identity = {.purpose = 1, .size = 2}}};
    int fd = kit_socket(&id.addr);
    assert_int_equal(send(fd, &hello, sizeof(hello), MSG_NOSIGNAL), sizeof(hello));
    assert_int_equal(recv(fd, &challenge, sizeof(challenge), MSG_WAITALL), sizeof(challenge));
    assert_int_equal(challenge.frame.type, FY_FRAME_CHALLENGE);
    /* the server's own proof, played back */
    memcpy(proof.proof.mac, challenge.challenge.mac, sizeof(proof.proof.mac));
    assert_int_equal(send(fd, &proof, sizeof(proof), MSG_NOSIGNAL), sizeof(proof));
    assert_true(recv(fd, &challenge, sizeof(challenge), MSG_WAITALL) <= 0); /* no word, just the end */
    close(fd);
    /* another protocol is told so */
    struct {
        struct fy_frame frame;
        struct fy_refusal refusal;
    } refusal;
    hello.hello.protocol = 99;
    fd = kit_socket(&id.addr);
    assert_int_equal(send(fd, &hello, sizeof(hello), MSG_NOSIGNAL), sizeof(hello));
    assert_int_equal(recv(fd, &refusal, sizeof(refusal), MSG_WAITALL), sizeof(refusal));
    assert_int_equal(refusal.refusal.status, FERRY_ERR_MISMATCH);
    assert_non_null(strstr(refusal.refusal.text, "99"));
    close(fd);
    kit_free(job);
}

/* A PE that met the others and then is not there: killed just after, or it listens and does not answer. */
static void vanish(uint32_t rank, bool listens, int status, const char *text)
{
    struct kit_job *job = kit_new(5, NULL, false);
    struct fy_id id = id_of(&job->id);
    struct fy_identity self = {.purpose = FY_PURPOSE_JOIN, .rank = rank, .size = 5, .version = FERRY_VERSION_STRING};
    struct kit_client client;
    struct ferry_error error;
    int listener;
    assert_int_equal(fy_net_listen(id.addr.ip, &self.addr, &listener, &error), FERRY_OK);
    if (!listens)
        close(listener);
    kit_client_open_at(&client, &id.addr, FY_NOBODY, id.secret, &self);
    assert_true(kit_client_run(&client, 10, false));
    assert_true(client.ready);
    job->pes[rank].absent = true;
    job->timeout = listens ? 1 : 30;
    kit_start(job);
    kit_join(job);
    for (uint32_t i = 0; i < job->n; i++) {
        struct kit_pe *pe = &job->pes[i];
        if (pe->absent)
            continue;
        if (pe->rc != status || !strstr(pe->error.message, text))
            fail_msg("PE %u: status %d, %s", i, pe->rc, pe->error.message);
        assert_true(pe->start_s < 6);
    }
    kit_client_close(&client);
    if (listens)
        close(listener);
    kit_free(job);
}

static void test_vanish(void **state)
{
    (void)state;
    vanish(4, false, FERRY_ERR_PEER, "PE 4 is dead: connection refused");
    vanish(0, false, FERRY_ERR_PEER, "PE 0 is dead: connection refused");
    vanish(3, true, FERRY_ERR_TIMEOUT, "PE 3 did not arrive within 1 s");
    vanish(0, true, FERRY_ERR_TIMEOUT, "PE 0"); /* nobody else can say who is missing */
}

struct flat {
    unsigned fds, threads;
};

static bool is_flat(void *arg)
{
    const struct flat *flat = arg;
    return kit_count("/proc/self/fd") <= flat->fds && kit_count("/proc/self/task") <= flat->threads;
}

static void test_flat(void **state)
{
    (void)state;
    struct flat none = {.fds = 0};
    kit_wait(is_flat, &none, 3); /* meetings of earlier tests end meanwhile */
    struct flat flat = {kit_count("/proc/self/fd"), kit_count("/proc/self/task")};
    for (int i = 0; i < 50; i++) {
        struct kit_job *job = kit_new(3, body_secret, i % 2 == 1);
        kit_run(job);
        kit_free(job);
    }
    if (!kit_wait(is_flat, &flat, 30))
        fail_msg("%u descriptors and %u threads before, %u and %u after", flat.fds, flat.threads,
                 kit_count("/proc/self/fd"), kit_count("/proc/self/task"));
}

/* For the reader: how long it takes here. */
static void test_timing(void **state)
{
    (void)state;
    for (int functions = 0; functions < 2; functions++) {
        struct kit_job *job = kit_new(64, NULL, functions == 1);
        double longest = 0, start = kit_now();
        kit_run(job);
        for (uint32_t i = 0; i < 64; i++)
            longest = job->pes[i].start_s > longest ? job->pes[i].start_s : longest;
        print_message("64 PEs as threads, %s: start %.1f ms, start and close %.1f ms\n", functions ? "functions" : "id",
                      longest * 1e3, (kit_now() - start) * 1e3);
        kit_free(job);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_id),
        cmocka_unit_test(test_functions),
        cmocka_unit_test(test_functions_bad),
        cmocka_unit_test(test_missing),
        cmocka_unit_test(test_meeting_time),
        cmocka_unit_test(test_id_twice),
        cmocka_unit_test(test_id_bad),
        cmocka_unit_test(test_interface),
        cmocka_unit_test(test_list),
        cmocka_unit_test(test_meeting_strangers),
        cmocka_unit_test(test_wrong_proof),
        cmocka_unit_test(test_vanish),
        cmocka_unit_test(test_flat),
        cmocka_unit_test(test_timing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
