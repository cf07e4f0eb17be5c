/* SPDX-License-Identifier: Apache-2.0
 * Every verb that can fail, fails once, over the stand-in: a clear error, and everything given back.
 * Main thread. */
#include "pair.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

static void test_probe(void **state)
{
    struct stub stub;
    struct ferry_probe out;

    (void)state;
    stub_init(&stub, NULL);
    memset(&out, 0, sizeof out);
    assert_int_equal(plugin()->probe(&stub.core, &out), FERRY_OK);
    assert_int_equal(out.devices, 1);
    assert_non_null(strstr(out.detail, "fake0:1"));
    fakeverbs_ports(IBV_PORT_DOWN);
    assert_int_equal(plugin()->probe(&stub.core, &out), FERRY_ERR_DEVICE);
    assert_non_null(strstr(out.detail, "fake0:1 is down"));
    fakeverbs_ports(IBV_PORT_ACTIVE);
    fakeverbs_devices(0);
    assert_int_equal(plugin()->probe(&stub.core, &out), FERRY_ERR_DEVICE);
    assert_non_null(strstr(out.detail, "no RDMA device"));
    assert_non_null(strstr(out.detail, "/sys/class/infiniband"));
    fakeverbs_devices(1);
    assert_int_equal(fakeverbs_live(), 0);
}

static void test_open_steps(void **state)
{
    static const struct {
        const char *call;
        int nth, error;
        const char *says;
    } steps[] = {
        {"open_device", 1, EACCES, "may not be opened"},
        {"open_device", 2, EACCES, "cannot open RDMA device fake0"},
        {"query_device", 1, EIO, "cannot be queried"},
        {"query_device", 2, EIO, "cannot query the device"},
        {"query_port", 1, EIO, "cannot be queried"},
        {"query_port", 2, EIO, "cannot query port fake0:1"},
        {"alloc_pd", 1, ENOMEM, "cannot allocate a protection domain"},
        {"create_cq", 1, ENOMEM, "cannot create a completion queue"},
        {"reg_mr", 1, ENOMEM, "cannot register a page"},
        {"create_qp", 1, ENOSPC, "cannot create a queue pair on fake0:1"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof steps / sizeof steps[0]; i++) {
        struct side s;
        fakeverbs_fail(steps[i].call, steps[i].nth, steps[i].error);
        assert_int_not_equal(side_open(&s, 0, NULL), FERRY_OK);
        assert_int_equal(s.stub.errors, 1);
        if (!strstr(s.stub.last.message, steps[i].says))
            fail_msg("%s: %s", steps[i].call, s.stub.last.message);
        assert_int_equal(fakeverbs_live(), 0);
        fakeverbs_fail("", 0, 0);
    }
}

static void test_bad_options(void **state)
{
    static const char *const sets[][3] = {{"gid_index", "3", NULL},     {"timeout", "40", NULL},
                                          {"queue_depth", "1", NULL},   {"devices", "^fake0", NULL},
                                          {"devices", "nothere", NULL}, {"pkey_index", "1", NULL}};
    static const char *const says[] = {"no GID at index 3",         "FERRY_IBRC_TIMEOUT=40 is not between 1 and 31",
                                       "FERRY_IBRC_QUEUE_DEPTH=1",  "not in FERRY_IBRC_DEVICES",
                                       "names nothere, which is no device here", "no partition key at index 1"};

    (void)state;
    for (size_t i = 0; i < 6; i++) {
        struct side s;
        assert_int_not_equal(side_open(&s, 0, sets[i]), FERRY_OK);
        assert_non_null(strstr(s.stub.last.message, says[i]));
        assert_int_equal(fakeverbs_live(), 0);
    }
}

static void test_memory_limit(void **state)
{
    struct side s;
    struct ferry_memory memory = {.size = sizeof memory, .length = 4096, .fd = -1, .remote = 1};
    struct ferry_region *region;
    struct ferry_error e = {.size = sizeof e};

    (void)state;
    assert_int_equal(side_open(&s, 0, NULL), FERRY_OK);
    memory.address = s.memory;
    fakeverbs_fail("reg_mr", 1, ENOMEM);
    assert_int_equal(ops()->register_memory(s.t, &memory, &region), FERRY_ERR_NOMEM);
    assert_int_equal(ops()->query_error(s.t, 0, FERRY_PEER_ALL, &e), FERRY_OK);
    assert_non_null(strstr(e.message, "cannot register 4096 bytes"));
    assert_non_null(strstr(e.hint, "RLIMIT_MEMLOCK"));
    memory.remote = 0; /* a source that may not be written: registered without that right */
    fakeverbs_fail("reg_mr", 1, EFAULT);
    assert_int_equal(ops()->register_memory(s.t, &memory, &region), FERRY_OK);
    assert_int_equal(ops()->deregister_memory(s.t, region), FERRY_OK);
    memory.kind = FERRY_MEMORY_GPU + 1;
    assert_int_equal(ops()->register_memory(s.t, &memory, &region), FERRY_ERR_UNSUPPORTED);
    side_close(&s);
    assert_int_equal(fakeverbs_live(), 0);
}

static void test_connect_steps(void **state)
{
    static const struct {
        const char *call;
        int nth;
        const char *says;
    } steps[] = {
        {"create_cq", 1, "cannot create a completion queue"},
        {"create_qp", 1, "cannot create a queue pair"},
        {"create_qp", 2, "cannot create a queue pair"}, /* the target's */
        {"modify_init", 1, "cannot go to INIT"},
        {"modify_init", 2, "cannot go to INIT"},
        {"modify_rtr", 1, "cannot go to RTR"},
        {"modify_rtr", 2, "cannot go to RTR"},
        {"modify_rts", 1, "cannot go to RTS"},
    };
    struct pair p;

    (void)state;
    pair_open(&p, NULL);
    for (uint32_t i = 0; i < sizeof steps / sizeof steps[0]; i++) {
        struct ferry_error mine = {.size = sizeof mine}, theirs = {.size = sizeof theirs};
        uint32_t channel = i + 1;
        struct fakeverbs_counts before = fakeverbs_counts(), after;
        fakeverbs_fail(steps[i].call, steps[i].nth, ENOSPC);
        assert_int_equal(pair_connect(&p, channel, 0, 1), FERRY_ERR_TRANSPORT);
        ops()->query_error(p.pe[0].t, 1, FERRY_PEER_ALL, &mine);
        ops()->query_error(p.pe[1].t, 1, FERRY_PEER_ALL, &theirs);
        assert_true(strstr(mine.message, steps[i].says) || strstr(theirs.message, steps[i].says));
        fakeverbs_fail("", 0, 0);
        assert_int_equal(pair_connect(&p, channel, 0, 1), FERRY_OK); /* the next attempt succeeds */
        struct ferry_op op = put_op(&p, 0, 8, 8);
        assert_int_equal(ops()->rma(p.pe[0].t, channel, &op), FERRY_DONE);
        assert_int_equal(side_quiet(&p.pe[0], channel, 1), FERRY_OK);
        after = fakeverbs_counts();
        assert_int_equal(after.cqs, before.cqs + 1);
        /* one that was bound to its peer is of no more use, and goes with its channel */
        assert_int_equal(after.qps, before.qps + 2 + (strcmp(steps[i].call, "modify_rts") == 0));
        assert_int_equal(after.pds - before.pds, after.tds - before.tds);
    }
    pair_close(&p);
}

static void test_peer_gone(void **state)
{
    struct pair p;

    (void)state;
    pair_open(&p, NULL);
    struct ferry_op op = put_op(&p, 0, 0, 8);
    op.flags = FERRY_OP_MORE;
    assert_int_equal(ops()->rma(p.pe[0].t, 0, &op), FERRY_DONE);
    assert_int_equal(ops()->disconnect(p.pe[0].t, 1), FERRY_OK);
    assert_int_equal(ops()->disconnect(p.pe[1].t, 0), FERRY_OK);
    assert_int_equal(side_quiet(&p.pe[0], 0, 1), FERRY_ERR_PEER);
    assert_int_equal(ops()->rma(p.pe[0].t, 0, &op), FERRY_ERR_PEER);
    pair_close(&p);
    pair_open(&p, NULL); /* it goes without a word */
    side_close(&p.pe[1]);
    op.region = p.pe[0].region;
    op.key = p.pe[0].key;
    op.flags = 0;
    assert_int_equal(ops()->rma(p.pe[0].t, 0, &op), FERRY_DONE);
    assert_int_equal(side_quiet(&p.pe[0], 0, 1), FERRY_ERR_PEER);
    pair_close(&p);
}

static void test_foreign_blobs(void **state)
{
    uint8_t junk[FERRY_ENDPOINT_MAX], out[FERRY_ENDPOINT_MAX];
    char why[200] = "";
    struct ferry_connect io = {.size = sizeof io, .phase = FERRY_CONNECT_SERVE, .in = junk, .in_size = 40, .out = out};
    struct ferry_rkey *key;
    struct pair p;

    (void)state;
    memset(junk, 0x41, sizeof junk);
    pair_open(&p, NULL);
    assert_int_equal(ops()->connect(p.pe[1].t, 0, 0, &io), FERRY_ERR_MISMATCH);
    assert_int_equal(ops()->reach(p.pe[1].t, 0, junk, 40, why, sizeof why), FERRY_ERR_UNREACHABLE);
    assert_non_null(strstr(why, "same build"));
    assert_int_equal(ops()->import_key(p.pe[1].t, 0, junk, FERRY_KEY_MAX, &key), FERRY_ERR_MISMATCH);
    pair_close(&p);
}

/* A device without atomics declares none, and one that grants little inline data copies little. */
static void test_lesser_devices(void **state)
{
    struct ferry_caps caps = {.size = sizeof caps};
    struct pair p;

    (void)state;
    fakeverbs_atomics(IBV_ATOMIC_NONE);
    fakeverbs_inline(60);
    pair_open(&p, NULL);
    assert_int_equal(ops()->query(p.pe[0].t, FERRY_MEMORY_HOST, &caps), FERRY_OK);
    assert_int_equal(caps.amo64, 0);
    assert_int_equal(caps.domain, FERRY_DOMAIN_NONE);
    assert_int_equal(caps.flags & FERRY_CAP_PUT_SIGNAL, 0);
    assert_in_range(caps.copy_max, 8, 60);
    assert_int_equal(ops()->query(p.pe[0].t, FERRY_MEMORY_GPU, &caps), FERRY_ERR_UNSUPPORTED);
    pair_close(&p);
    fakeverbs_atomics(IBV_ATOMIC_HCA);
    fakeverbs_inline(512);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_probe),          cmocka_unit_test(test_open_steps),
        cmocka_unit_test(test_bad_options),    cmocka_unit_test(test_memory_limit),
        cmocka_unit_test(test_connect_steps),

        cmocka_unit_test(test_peer_gone),      cmocka_unit_test(test_foreign_blobs),
        cmocka_unit_test(test_lesser_devices),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
