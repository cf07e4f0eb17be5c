/* SPDX-License-Identifier: Apache-2.0
 * Whom the loopback plugin takes for reachable, what it does with damaged and forged blobs, and whether it leaves
 * anything behind. Main thread, and the child processes that it starts (run_...). */
#include "harness.h"

#include <grp.h>
#include <sched.h>
#include <sys/resource.h>
#include <unistd.h>

static const struct pe_options plain;
static struct pe client, server;

static int open_pair(void **state)
{
    (void)state;
    pe_open(&client, 0, &plain);
    pe_open(&server, 1, &plain);
    return 0;
}

static int close_pair(void **state)
{
    (void)state;
    pe_close(&client);
    pe_close(&server);
    return 0;
}

/* ---- blobs */

static void expect_unreachable(const struct blob *endpoint, uint32_t peer, const char *reason)
{
    char why[256] = "";

    assert_int_equal(ops()->reach(client.t, peer, endpoint->bytes, endpoint->size, why, sizeof why),
                     FERRY_ERR_UNREACHABLE);
    if (!strstr(why, reason))
        fail_msg("expected \"%s\" in the reason, which is: %s", reason, why);
}

static struct blob forged(void (*change)(struct fy_lb_endpoint *e))
{
    struct fy_lb_endpoint e;
    struct blob out = {.size = sizeof e};

    assert_int_equal(server.endpoint.size, sizeof e);
    memcpy(&e, server.endpoint.bytes, sizeof e);
    change(&e);
    fy_lb_seal(test_secret, FY_LB_ENDPOINT, e.head.pe, &e, sizeof e);
    memcpy(out.bytes, &e, sizeof e);
    return out;
}

static void change_boot(struct fy_lb_endpoint *e)
{
    memset(e->boot, 'x', sizeof e->boot); /* not even terminated */
}

static void change_network(struct fy_lb_endpoint *e)
{
    e->net_inode++;
}

static void change_user(struct fy_lb_endpoint *e)
{
    e->uid++;
}

static void test_reach_reasons(void **state)
{
    struct blob blob = server.endpoint;
    char why[256] = "";

    (void)state;
    assert_int_equal(ops()->reach(client.t, 1, blob.bytes, blob.size, why, sizeof why), FERRY_OK);
    expect_unreachable(&blob, 2, "is that of PE 1");
    blob = forged(change_boot);
    expect_unreachable(&blob, 1, "another host");
    blob = forged(change_network);
    expect_unreachable(&blob, 1, "another network namespace");
    blob = forged(change_user);
    expect_unreachable(&blob, 1, "another user");
    blob = server.endpoint;
    blob.bytes[4]++; /* format */
    expect_unreachable(&blob, 1, "another version of loopback");
    blob = server.endpoint;
    blob.bytes[0]++;
    expect_unreachable(&blob, 1, "not made by loopback");
    expect_unreachable(&server.key, 1, "another kind");
    blob.size = 0;
    expect_unreachable(&blob, 1, "too short");
}

/* Whatever is done to a blob, it is refused, and nothing else happens. */
static void test_damaged_blobs(void **state)
{
    uint64_t random = 88172645463325252ull;
    unsigned fds = count_fds(), n = 0;
    char why[256];

    (void)state;
    for (; n < SCALE(20000); n++) {
        struct blob key = n % 2 ? server.key : foreign(&server.key), endpoint = server.endpoint;
        struct ferry_rkey *rkey = NULL;

        for (uint64_t changes = 1 + next_random(&random) % 4; changes; changes--) {
            key.bytes[next_random(&random) % key.size] += (uint8_t)(1 + next_random(&random) % 63);
            endpoint.bytes[next_random(&random) % endpoint.size] += (uint8_t)(1 + next_random(&random) % 63);
        }
        if (n % 8 == 0) {
            key.size = next_random(&random) % FERRY_KEY_MAX;
            endpoint.size = next_random(&random) % FERRY_ENDPOINT_MAX;
        }
        assert_int_equal(ops()->import_key(client.t, 1, key.bytes, key.size, &rkey), FERRY_ERR_ARG);
        assert_int_equal(ops()->reach(client.t, 1, endpoint.bytes, endpoint.size, why, sizeof why),
                         FERRY_ERR_UNREACHABLE);
    }
    print_message("%u damaged pairs refused\n", n);
    assert_int_equal(count_fds(), fds);
}

static void test_stale_and_misdirected_keys(void **state)
{
    struct blob key = foreign(&server.key);
    struct ferry_rkey *rkey = NULL;

    (void)state;
    assert_int_equal(pe_import(&client, 2, &key, &rkey), FERRY_ERR_ARG);
    assert_non_null(strstr(pe_error(&client, 2).message, "is of PE 1"));
    assert_int_equal(pe_import(&client, 1, &server.endpoint, &rkey), FERRY_ERR_ARG);
    assert_int_equal(ops()->deregister_memory(server.t, server.region), FERRY_OK);
    server.region = NULL;
    assert_int_equal(pe_import(&client, 1, &key, &rkey), FERRY_ERR_ACCESS);
    assert_non_null(strstr(pe_error(&client, 1).message, "no longer has"));
}

/* ---- nothing is left behind */

static void one_life(unsigned n)
{
    struct pe_options options = {.n_pes = n % 3 ? 8 : 1};
    struct blob key;
    struct pe pe;

    pe_open(&pe, 0, &options);
    if (options.n_pes > 1) {
        key = foreign(&server.key);
        pe_must_import(&pe, 1, &key);
        if (n % 2) /* an import that close ends */
            ops()->import_key(pe.t, 1, key.bytes, key.size, &(struct ferry_rkey *){NULL});
    }
    pe_must_import(&pe, 0, &pe.key);
    if (n % 5 == 0)
        pe.region = NULL; /* close deregisters */
    pe_close(&pe);
}

/* The server notices in its own time that a connection ended. */
static void settle(unsigned fds)
{
    double end = seconds() + PATIENCE;

    while (count_fds() != fds && seconds() < end)
        usleep(10000);
    assert_int_equal(count_fds(), fds);
}

static void test_flat(void **state)
{
    unsigned fds, maps, threads;

    (void)state;
    one_life(1);
    close_pair(state);
    open_pair(state);
    fds = count_fds();
    maps = count_maps();
    threads = count_threads();
    for (unsigned n = 0; n < 100; n++)
        one_life(n);
    settle(fds);
    assert_int_equal(count_maps(), maps);
    assert_int_equal(count_threads(), threads);
}

/* open that cannot have what it needs says so and keeps nothing. */
static void test_open_fails_whole(void **state)
{
    struct ferry_open how = {.size = sizeof how, .n_pes = 2};
    unsigned fds = count_fds(), failed = 0;
    struct ferry_transport *t = NULL;
    struct rlimit before, less;
    struct stub stub;
    int status;

    (void)state;
    plugin();
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    less = before;
    for (less.rlim_cur = 3;; less.rlim_cur++, failed++) { /* one descriptor more each time, until it works */
        stub_init(&stub, 0);
        assert_int_equal(setrlimit(RLIMIT_NOFILE, &less), 0);
        status = plugin()->open(&stub.core, &how, &t);
        assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
        if (status == FERRY_OK)
            break;
        assert_int_equal(status, FERRY_ERR_SYSTEM);
        assert_int_equal(stub.errors, 1);
        assert_int_equal(stub.last.status, FERRY_ERR_SYSTEM);
        assert_non_null(strstr(stub.last.message, "Too many open files"));
        assert_int_equal(count_fds(), fds);
    }
    assert_true(failed >= 3);
    assert_int_equal(ops()->close(t), FERRY_OK);
    assert_int_equal(count_fds(), fds);
}

/* ---- strangers by namespace and user */

static int introduce(int socket)
{
    struct pe pe;
    char c;

    pe_open(&pe, 1, &plain);
    if (!send_hello(socket, &pe) || !receive_bytes(socket, &c, 1))
        return 1;
    pe_close(&pe);
    return 0;
}

static int run_other_network(int socket)
{
    if (unshare(CLONE_NEWNET))
        return send_bytes(socket, "x", 1) ? 0 : 1;
    return introduce(socket);
}

static int run_other_user(int socket)
{
    ops(); /* loads the plugin: the other user may not be allowed to read the build folder */
    if (setgroups(0, NULL) || setresgid(65534, 65534, 65534) || setresuid(65534, 65534, 65534))
        return send_bytes(socket, "x", 1) ? 0 : 1;
    return introduce(socket);
}

/* What reach says about a child that made itself a stranger; importing its key must fail in words, too. */
static void expect_stranger(const char *role, const char *reason, int import_status)
{
    struct child child = child_start(role);
    struct ferry_rkey *key = NULL;
    char why[256] = "";
    struct hello it;
    struct pe pe;

    if (!receive_hello(child.socket, &it)) {
        child_finish(&child);
        print_message("not run: this needs root\n");
        skip();
    }
    pe_open(&pe, 0, &plain);
    assert_int_equal(ops()->reach(pe.t, 1, it.endpoint.bytes, it.endpoint.size, why, sizeof why),
                     FERRY_ERR_UNREACHABLE);
    if (!strstr(why, reason))
        fail_msg("the reason given is: %s", why);
    assert_int_equal(pe_import(&pe, 1, &it.key, &key), import_status);
    assert_true(send_bytes(child.socket, "g", 1));
    child_finish(&child);
    pe_close(&pe);
}

static void test_other_network(void **state)
{
    (void)state;
    expect_stranger("other_network", "another network namespace", FERRY_ERR_PEER);
}

static void test_other_user(void **state)
{
    (void)state;
    expect_stranger("other_user", "another user", FERRY_ERR_ACCESS);
}

int main(int argc, char **argv)
{
    static const struct role roles[] = {{"other_network", run_other_network}, {"other_user", run_other_user}};
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_reach_reasons, open_pair, close_pair),
        cmocka_unit_test_setup_teardown(test_damaged_blobs, open_pair, close_pair),
        cmocka_unit_test_setup_teardown(test_stale_and_misdirected_keys, open_pair, close_pair),
        cmocka_unit_test_setup_teardown(test_flat, open_pair, close_pair),
        cmocka_unit_test(test_open_fails_whole),
        cmocka_unit_test(test_other_network),
        cmocka_unit_test(test_other_user),
    };
    int status = child_main(argc, argv, roles, sizeof roles / sizeof *roles);

    if (status >= 0)
        return status;
    return cmocka_run_group_tests_name("loopback blobs", tests, NULL, NULL);
}
