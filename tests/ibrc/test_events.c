/* SPDX-License-Identifier: Apache-2.0
 * Each asynchronous event over the stand-in: what is said of it, and what follows.
 * Main thread: it plays both control threads. */
#include "pair.h"

#include <stdio.h>
#include <string.h>

/* The control thread sees that the device has something to say. */
static void deliver(struct side *s)
{
    s->stub.warnings = s->stub.errors = s->stub.notes = 0;
    s->stub.fn(s->stub.arg);
}

static void test_ports(void **state)
{
    static const struct {
        enum ibv_event_type type;
        int port, warnings, notes;
        const char *warning, *note;
    } rows[] = {
        {IBV_EVENT_PORT_ERR, 1, 1, 0, "port fake0:1 went down: operations through it fail unless it comes back in time",
         NULL},
        {IBV_EVENT_PORT_ACTIVE, 1, 1, 1, "port fake0:1 is up", "port fake0:1 is up: its address is the same"},
        {IBV_EVENT_LID_CHANGE, 1, 0, 1, NULL, "port fake0:1 has another lid: its address is the same"},
        {IBV_EVENT_GID_CHANGE, 1, 0, 1, NULL, "port fake0:1 has another table of gids: its address is the same"},
        {IBV_EVENT_PKEY_CHANGE, 1, 0, 1, NULL, "has another table of partition keys: its address is the same"},
        {IBV_EVENT_SM_CHANGE, 1, 0, 1, NULL, "has another subnet manager: its address is the same"},
        {IBV_EVENT_CLIENT_REREGISTER, 1, 0, 1, NULL, "was asked by the subnet manager to register again: its address"},
        {IBV_EVENT_PORT_ERR, 2, 0, 0, NULL, NULL}, /* a port that nobody uses */
        {IBV_EVENT_GID_CHANGE, 2, 0, 0, NULL, NULL},
    };
    struct pair p;
    struct stub *stub = &p.pe[0].stub;

    (void)state;
    pair_open(&p, NULL);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        fakeverbs_event("fake0", rows[i].type, rows[i].port);
        deliver(&p.pe[0]);
        assert_int_equal(stub->errors, 0);
        assert_int_equal(stub->warnings, rows[i].warnings);
        assert_int_equal(stub->notes, rows[i].notes);
        if (rows[i].warning)
            assert_says(stub->warning, rows[i].warning);
        if (rows[i].note)
            assert_says(stub->note, rows[i].note);
    }
    assert_int_equal(pair_connect(&p, 1, 0, 1), FERRY_OK);
    pair_close(&p);
}

/* A partition that the port has left. */
static void test_no_partition(void **state)
{
    struct pair p;

    (void)state;
    pair_open(&p, NULL);
    fakeverbs_pkey(0);
    fakeverbs_event("fake0", IBV_EVENT_PKEY_CHANGE, 1);
    deliver(&p.pe[0]);
    assert_int_equal(p.pe[0].stub.warnings, 1);
    assert_says(p.pe[0].stub.warning,
                "port fake0:1 has another table of partition keys, and none at index 0 "
                "(FERRY_IBRC_PKEY_INDEX): what goes through it will be lost, ask the subnet manager");
    fakeverbs_pkey(0xffff);
    pair_close(&p);
}

/* Connections made later use the new address; it is looked for at each of these events. */
static void test_new_address(void **state)
{
    static const enum ibv_event_type types[] = {IBV_EVENT_GID_CHANGE, IBV_EVENT_LID_CHANGE, IBV_EVENT_PORT_ACTIVE,
                                                IBV_EVENT_SM_CHANGE, IBV_EVENT_CLIENT_REREGISTER};
    struct ferry_error e = {.size = sizeof e};
    struct pair p;

    (void)state;
    for (uint32_t i = 0; i < sizeof types / sizeof types[0]; i++) {
        pair_open(&p, NULL);
        fakeverbs_address(7);
        assert_int_equal(pair_connect(&p, 1, 0, 1), FERRY_ERR_TRANSPORT);
        ops()->query_error(p.pe[1].t, 1, FERRY_PEER_ALL, &e);
        assert_says(e.message, "cannot go to RTR: No route to host");
        assert_says(e.hint, "is there a route between the two ports' addresses? FERRY_IBRC_GID_INDEX picks another");
        fakeverbs_event("fake0", types[i], 1);
        deliver(&p.pe[0]);
        assert_says(p.pe[0].stub.warning, "from now on connections use lid 8 and gid index 1; those to the old address "
                                          "are lost");
        deliver(&p.pe[1]);
        assert_int_equal(pair_connect(&p, 1, 0, 1), FERRY_OK);
        fakeverbs_address(0);
        pair_close(&p);
    }
}

/* An address that is gone for good: said, and the old one is kept. */
static void test_no_address(void **state)
{
    static const struct {
        const char *call, *says;
    } rows[] = {
        {"query_port", "port fake0:1 has another table of gids, but the port cannot be queried: connections are made "
                       "with its old address"},
        {"query_gid", "port fake0:1 has another table of gids, but none of the 4 places of the GID table can be used"},
    };
    struct pair p;

    (void)state;
    pair_open(&p, NULL);
    for (size_t i = 0; i < 2; i++) {
        fakeverbs_fail(rows[i].call, 0, 5);
        fakeverbs_event("fake0", IBV_EVENT_GID_CHANGE, 1);
        deliver(&p.pe[0]);
        fakeverbs_fail("", 0, 0);
        assert_int_equal(p.pe[0].stub.warnings, 1);
        assert_says(p.pe[0].stub.warning, rows[i].says);
    }
    assert_int_equal(pair_connect(&p, 1, 0, 1), FERRY_OK);
    pair_close(&p);
}

/* What fails while the port is down says so. */
static void test_down_is_the_reason(void **state)
{
    struct ferry_error e = {.size = sizeof e};
    struct pair p;

    (void)state;
    for (int up = 0; up < 2; up++) {
        pair_open(&p, NULL);
        fakeverbs_event("fake0", IBV_EVENT_PORT_ERR, 1);
        if (up)
            fakeverbs_event("fake0", IBV_EVENT_PORT_ACTIVE, 1);
        deliver(&p.pe[0]);
        struct ferry_op op = put_op(&p, 0, 0, 8);
        fakeverbs_complete(1, IBV_WC_RETRY_EXC_ERR, 0);
        assert_int_equal(ops()->rma(p.pe[0].t, 0, &op), FERRY_DONE);
        assert_int_equal(side_quiet(&p.pe[0], 0, 1), FERRY_ERR_PEER);
        ops()->query_error(p.pe[0].t, 0, 1, &e);
        assert_says(e.hint, up ? "the peer is dead or cannot be reached"
                               : "the port of this PE is down: check cable and interface");
        pair_close(&p);
    }
}

/* One queue pair fails at the initiator: that (channel, peer) is in error, another channel goes on. */
static void test_initiator(void **state)
{
    static const struct {
        enum ibv_event_type type;
        int status;
        const char *says;
    } rows[] = {
        {IBV_EVENT_QP_FATAL, FERRY_ERR_TRANSPORT, "failed in the device"},
        {IBV_EVENT_QP_REQ_ERR, FERRY_ERR_TRANSPORT, "got a request that it does not allow"},
        {IBV_EVENT_QP_ACCESS_ERR, FERRY_ERR_ACCESS, "was to reach memory that it may not"},
        {IBV_EVENT_CQ_ERR, FERRY_ERR_DEVICE, "its completion queue overflowed or failed"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct ferry_error e = {.size = sizeof e};
        char words[200];
        struct pair p;
        pair_open(&p, NULL);
        uint32_t number = initiator_qp();
        assert_int_equal(pair_connect(&p, 1, 0, 1), FERRY_OK);
        fakeverbs_qp_event(number, rows[i].type);
        deliver(&p.pe[0]);
        assert_int_equal(p.pe[0].stub.errors, 1);
        assert_int_equal(p.pe[0].stub.warnings, 0);
        snprintf(words, sizeof words, "fake0:1: channel 0 to pe 1, queue pair 0x%x: %s", number, rows[i].says);
        assert_says(p.pe[0].stub.last.message, words);
        assert_says(p.pe[0].stub.last.hint, "look at the kernel log");
        assert_int_equal(p.pe[0].stub.last.peer, 1);
        assert_int_equal(p.pe[0].stub.last.channel, 0);
        assert_int_equal(side_quiet(&p.pe[0], 0, FERRY_PEER_ALL), rows[i].status);
        ops()->query_error(p.pe[0].t, 0, 1, &e);
        assert_says(e.message, words);
        struct ferry_op op = put_op(&p, 0, 0, 8);
        assert_int_equal(ops()->rma(p.pe[0].t, 1, &op), FERRY_DONE);
        assert_int_equal(side_quiet(&p.pe[0], 1, 1), FERRY_OK);
        pair_close(&p);
    }
}

/* The half that serves: whom it served is named. The initiator hears by a completion of its own. */
static void test_server(void **state)
{
    static const struct {
        enum ibv_event_type type;
        int status, peer;
        const char *says, *hint;
    } rows[] = {
        {IBV_EVENT_QP_FATAL, FERRY_ERR_TRANSPORT, 0, "failed in the device", "kernel log"},
        {IBV_EVENT_QP_REQ_ERR, FERRY_ERR_TRANSPORT, 0, "got a request that it does not allow", "of the same build?"},
        {IBV_EVENT_QP_ACCESS_ERR, FERRY_ERR_ACCESS, 0, "was to reach memory that it may not",
         "was memory freed while a peer used it?"},
        {IBV_EVENT_CQ_ERR, FERRY_ERR_DEVICE, -1, NULL, "kernel log"},
    };
    struct pair p;

    (void)state;
    pair_open(&p, NULL);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct stub *stub = &p.pe[1].stub;
        char words[200] = "RDMA device fake0: a completion queue that serves peers failed";
        if (rows[i].says)
            snprintf(words, sizeof words, "RDMA device fake0: queue pair 0x%x, which serves pe 0, %s", serving_qp(),
                     rows[i].says);
        fakeverbs_qp_event(serving_qp(), rows[i].type);
        deliver(&p.pe[1]);
        assert_int_equal(stub->errors, 1);
        assert_int_equal(stub->last.status, rows[i].status);
        assert_int_equal(stub->last.peer, rows[i].peer);
        assert_says(stub->last.message, words);
        assert_says(stub->last.hint, rows[i].hint);
    }
    pair_close(&p);
}

/* Nothing of the device works any more, and nothing new is connected by it. */
static void test_device(void **state)
{
    struct ferry_error e = {.size = sizeof e};
    struct pair p;

    (void)state;
    pair_open(&p, NULL);
    assert_int_equal(pair_connect(&p, 1, 0, 1), FERRY_OK);
    fakeverbs_event("fake0", IBV_EVENT_DEVICE_FATAL, 1);
    deliver(&p.pe[0]);
    assert_int_equal(p.pe[0].stub.errors, 1);
    assert_int_equal(p.pe[0].stub.last.status, FERRY_ERR_DEVICE);
    assert_says(p.pe[0].stub.last.message, "RDMA device fake0: fatal error: the device is lost");
    assert_says(p.pe[0].stub.last.hint, "look at the kernel log; the job cannot use the device any more");
    for (uint32_t channel = 0; channel < 2; channel++) {
        assert_int_equal(side_quiet(&p.pe[0], channel, 1), FERRY_ERR_DEVICE);
        ops()->query_error(p.pe[0].t, channel, 1, &e);
        assert_says(e.message, "the device is lost");
        assert_int_equal(e.channel, channel);
    }
    assert_int_equal(pair_connect(&p, 2, 0, 1), FERRY_ERR_DEVICE);
    ops()->query_error(p.pe[0].t, 2, 1, &e);
    assert_says(e.message, "RDMA device fake0 is lost");
    pair_close(&p);
}

static void test_others(void **state)
{
    static const struct {
        enum ibv_event_type type;
        int warnings;
    } rows[] = {{IBV_EVENT_PATH_MIG, 1},   {IBV_EVENT_PATH_MIG_ERR, 1},        {IBV_EVENT_COMM_EST, 0},
                {IBV_EVENT_SQ_DRAINED, 0}, {IBV_EVENT_QP_LAST_WQE_REACHED, 0}, {IBV_EVENT_SRQ_LIMIT_REACHED, 0}};
    struct pair p;

    (void)state;
    pair_open(&p, NULL);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        fakeverbs_qp_event(initiator_qp(), rows[i].type);
        deliver(&p.pe[0]);
        assert_int_equal(p.pe[0].stub.errors, 0);
        assert_int_equal(p.pe[0].stub.warnings, rows[i].warnings);
        if (rows[i].warnings)
            assert_says(p.pe[0].stub.warning, "though ferry gives it one path only");
    }
    struct ferry_op op = put_op(&p, 0, 0, 8);
    assert_int_equal(ops()->rma(p.pe[0].t, 0, &op), FERRY_DONE);
    assert_int_equal(side_quiet(&p.pe[0], 0, 1), FERRY_OK);
    pair_close(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ports),
        cmocka_unit_test(test_new_address),
        cmocka_unit_test(test_no_partition),
        cmocka_unit_test(test_no_address),
        cmocka_unit_test(test_down_is_the_reason),
        cmocka_unit_test(test_initiator),
        cmocka_unit_test(test_server),
        cmocka_unit_test(test_device),
        cmocka_unit_test(test_others),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
