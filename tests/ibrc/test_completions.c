/* SPDX-License-Identifier: Apache-2.0
 * Each status that a completion can have, over the stand-in: the record of the first bad one, silence of the flushed,
 * an error for its (channel, peer) and for nobody else.
 * Main thread. */
#include "pair.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static const struct row {
    enum ibv_wc_status wc;
    int status;
    const char *name, *hint;
} rows[] = {
    {IBV_WC_LOC_LEN_ERR, FERRY_ERR_TRANSPORT, "local length error", "the message is longer than the port takes"},
    {IBV_WC_LOC_QP_OP_ERR, FERRY_ERR_TRANSPORT, "local QP operation error", "is the port up, the source registered?"},
    {IBV_WC_LOC_EEC_OP_ERR, FERRY_ERR_TRANSPORT, "local EE context operation error", "look at the kernel log"},
    {IBV_WC_LOC_PROT_ERR, FERRY_ERR_TRANSPORT, "local protection error", "the source is not registered, or no longer"},
    {IBV_WC_WR_FLUSH_ERR, FERRY_ERR_TRANSPORT, "Work Request Flushed Error", "was the port or the device lost?"},
    {IBV_WC_MW_BIND_ERR, FERRY_ERR_TRANSPORT, "memory bind operation error", "look at the kernel log"},
    {IBV_WC_BAD_RESP_ERR, FERRY_ERR_PEER, "bad response error", "drivers and firmware of both devices"},
    {IBV_WC_LOC_ACCESS_ERR, FERRY_ERR_TRANSPORT, "local access error", "the local memory is registered read-only"},
    {IBV_WC_REM_INV_REQ_ERR, FERRY_ERR_ACCESS, "remote invalid request error", "does not allow this operation"},
    {IBV_WC_REM_ACCESS_ERR, FERRY_ERR_ACCESS, "remote access error", "the target refused key or bounds"},
    {IBV_WC_REM_OP_ERR, FERRY_ERR_PEER, "remote operation error", "the target's device could not carry it out"},
    {IBV_WC_RETRY_EXC_ERR, FERRY_ERR_PEER, "transport retry counter exceeded",
     "the peer is dead or cannot be reached: check the peer, the GID, the MTU and the route between the two ports"},
    {IBV_WC_RNR_RETRY_EXC_ERR, FERRY_ERR_PEER, "RNR retry counter exceeded", "the peer takes no requests"},
    {IBV_WC_LOC_RDD_VIOL_ERR, FERRY_ERR_TRANSPORT, "local RDD violation error", "look at the kernel log"},
    {IBV_WC_REM_INV_RD_REQ_ERR, FERRY_ERR_TRANSPORT, "remote invalid RD request", "look at the kernel log"},
    {IBV_WC_REM_ABORT_ERR, FERRY_ERR_PEER, "operation aborted", "the target's device gave up"},
    {IBV_WC_INV_EECN_ERR, FERRY_ERR_TRANSPORT, "invalid EE context number", "look at the kernel log"},
    {IBV_WC_INV_EEC_STATE_ERR, FERRY_ERR_TRANSPORT, "invalid EE context state", "look at the kernel log"},
    {IBV_WC_FATAL_ERR, FERRY_ERR_DEVICE, "fatal error", "the device failed"},
    {IBV_WC_RESP_TIMEOUT_ERR, FERRY_ERR_PEER, "response timeout error", "did not answer in time"},
    {IBV_WC_GENERAL_ERR, FERRY_ERR_TRANSPORT, "general error", "the counters of the port"},
    {IBV_WC_TM_ERR, FERRY_ERR_TRANSPORT, "TM error", "look at the kernel log"},
    {IBV_WC_TM_RNDV_INCOMPLETE, FERRY_ERR_TRANSPORT, "TM software rendezvous", "look at the kernel log"},
};

static void check_record(struct pair *p, const struct row *row, uint32_t number)
{
    struct ferry_error e = {.size = sizeof e};
    char text[320];

    assert_int_equal(ops()->query_error(p->pe[0].t, 0, 1, &e), FERRY_OK);
    snprintf(text, sizeof text,
             "fake0:1: put of channel 0 to pe 1, queue pair 0x%x, request 2, ended with %s (status %d, vendor 0x77)",
             number, row->name, (int)row->wc);
    assert_string_equal(e.message, text);
    assert_says(e.hint, row->hint);
    assert_string_equal(e.device, "fake0:1");
    assert_int_equal(e.status, row->status);
    assert_int_equal(e.library_status, row->wc);
    assert_int_equal(e.vendor, 0x77);
    assert_int_equal(e.peer, 1);
    assert_int_equal(e.channel, 0);
    assert_int_equal(e.operation, FERRY_OP_PUT);
}

/* A put of PE 0 to itself on channel 0, and one to PE 1 on channel 1. */
static void others_go_on(struct pair *p, const struct ferry_op *op)
{
    struct ferry_op own = *op;
    struct ferry_rkey *key;
    uint8_t blob[FERRY_KEY_MAX];
    size_t size = 0;

    assert_int_equal(ops()->export_key(p->pe[0].t, p->pe[0].region, blob, &size), FERRY_OK);
    assert_int_equal(ops()->import_key(p->pe[0].t, 0, blob, size, &key), FERRY_OK);
    own.peer = 0;
    own.key = key;
    own.offset = 64;
    p->pe[0].memory[0] = 17;
    assert_int_equal(ops()->rma(p->pe[0].t, 0, &own), FERRY_DONE);
    assert_int_equal(side_quiet(&p->pe[0], 0, 0), FERRY_OK);
    assert_int_equal(p->pe[0].memory[64], 17);
    assert_int_equal(ops()->rma(p->pe[0].t, 1, op), FERRY_DONE);
    assert_int_equal(side_quiet(&p->pe[0], 1, FERRY_PEER_ALL), FERRY_OK);
    assert_int_equal(p->pe[1].memory[0], 17);
}

static void test_statuses(void **state)
{
    (void)state;
    assert_int_equal(sizeof rows / sizeof rows[0], IBV_WC_TM_RNDV_INCOMPLETE); /* all but success */
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct pair p;
        pair_open(&p, NULL);
        uint32_t number = initiator_qp();
        assert_int_equal(pair_connect(&p, 1, 0, 1), FERRY_OK);
        assert_int_equal(pair_connect(&p, 0, 0, 0), FERRY_OK);
        struct ferry_op op = put_op(&p, 0, 0, 8);
        fakeverbs_complete(2, rows[i].wc, 0x77);
        for (int k = 0; k < 5; k++) /* the third and later are flushed */
            assert_int_equal(ops()->rma(p.pe[0].t, 0, &op), FERRY_DONE);
        assert_int_equal(side_quiet(&p.pe[0], 0, 1), rows[i].status);
        assert_int_equal(side_quiet(&p.pe[0], 0, FERRY_PEER_ALL), rows[i].status);
        check_record(&p, &rows[i], number);
        assert_int_equal(ops()->rma(p.pe[0].t, 0, &op), rows[i].status); /* at once, from now on */
        assert_int_equal(side_quiet(&p.pe[0], 0, 1), rows[i].status);
        check_record(&p, &rows[i], number); /* the first one stays */
        assert_int_equal(p.pe[0].stub.errors, 0);
        assert_int_equal(p.pe[0].stub.warnings, 0);
        others_go_on(&p, &op);
        pair_close(&p);
    }
}

/* The operation is named, whichever way it took. */
static void test_operations(void **state)
{
    static const struct {
        int kind, amo, flags;
        size_t length;
        int nth; /* of its requests */
        const char *name;
        int operation;
    } cases[] = {
        {FERRY_OP_PUT, 0, 0, 8, 1, "put", FERRY_OP_PUT},
        {FERRY_OP_PUT, 0, 0, 4000, 1, "put", FERRY_OP_PUT},
        {FERRY_OP_PUT, 0, 0, 8, 2, "flush", -1},
        {FERRY_OP_GET, 0, 0, 8, 1, "get", FERRY_OP_GET},
        {FERRY_OP_AMO, FERRY_AMO_ADD, 0, 8, 1, "atomic", FERRY_OP_AMO},
        {FERRY_OP_AMO, FERRY_AMO_CSWAP, 0, 8, 1, "atomic", FERRY_OP_AMO},
        {FERRY_OP_AMO, FERRY_AMO_FETCH, 0, 8, 1, "atomic", FERRY_OP_AMO},
        {FERRY_OP_PUT_SIGNAL, FERRY_AMO_ADD, 0, 8, 1, "put", FERRY_OP_PUT},
        {FERRY_OP_PUT_SIGNAL, FERRY_AMO_ADD, 0, 8, 2, "signal", FERRY_OP_PUT_SIGNAL},
        {FERRY_OP_PUT_SIGNAL, FERRY_AMO_SET, 0, 8, 2, "signal", FERRY_OP_PUT_SIGNAL},
        {FERRY_OP_PUT_SIGNAL, FERRY_AMO_ADD, FERRY_OP_FENCED, 8, 2, "signal", FERRY_OP_PUT_SIGNAL},
        {FERRY_OP_PUT_SIGNAL, FERRY_AMO_SET, FERRY_OP_FENCED, 8, 2, "signal", FERRY_OP_PUT_SIGNAL},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct ferry_error e = {.size = sizeof e};
        char text[64];
        struct pair p;
        pair_open(&p, NULL);
        struct ferry_op op = put_op(&p, 0, 4096, cases[i].length);
        op.kind = (uint8_t)cases[i].kind;
        op.amo = (uint8_t)cases[i].amo;
        op.flags = (uint32_t)cases[i].flags;
        op.width = 8;
        op.signal_key = op.key;
        op.operand = op.compare = op.signal_offset = 0;
        fakeverbs_complete(cases[i].nth, IBV_WC_REM_ACCESS_ERR, 0);
        int rc = op.kind == FERRY_OP_AMO          ? ops()->amo(p.pe[0].t, 0, &op)
                 : op.kind == FERRY_OP_PUT_SIGNAL ? ops()->put_signal(p.pe[0].t, 0, &op)
                                                  : ops()->rma(p.pe[0].t, 0, &op);
        assert_true(rc >= 0);
        assert_int_equal(side_quiet(&p.pe[0], 0, 1), FERRY_ERR_ACCESS);
        assert_int_equal(ops()->query_error(p.pe[0].t, 0, 1, &e), FERRY_OK);
        snprintf(text, sizeof text, "fake0:1: %s of channel 0 to pe 1, queue pair", cases[i].name);
        assert_says(e.message, text);
        assert_int_equal(e.operation, cases[i].operation);
        pair_close(&p);
    }
}

/* What the target itself refuses: a place beyond its memory, memory that it gave back, a word that is not aligned. */
static void test_refused_by_target(void **state)
{
    struct ferry_error e = {.size = sizeof e};
    struct pair p;

    (void)state;
    pair_open(&p, NULL);
    struct ferry_op op = put_op(&p, 0, MEMORY - 4, 8);
    assert_int_equal(ops()->rma(p.pe[0].t, 0, &op), FERRY_DONE);
    assert_int_equal(side_quiet(&p.pe[0], 0, 1), FERRY_ERR_ACCESS);
    pair_close(&p);
    pair_open(&p, NULL);
    assert_int_equal(ops()->deregister_memory(p.pe[1].t, p.pe[1].region), FERRY_OK);
    op = put_op(&p, 0, 0, 8);
    assert_int_equal(ops()->rma(p.pe[0].t, 0, &op), FERRY_DONE);
    assert_int_equal(side_quiet(&p.pe[0], 0, 1), FERRY_ERR_ACCESS);
    pair_close(&p);
    pair_open(&p, NULL);
    op = amo_op(&p, 4, FERRY_AMO_ADD, 1);
    assert_int_equal(ops()->amo(p.pe[0].t, 0, &op), FERRY_DONE);
    assert_int_equal(side_quiet(&p.pe[0], 0, 1), FERRY_ERR_ACCESS);
    ops()->query_error(p.pe[0].t, 0, 1, &e);
    assert_says(e.message, "atomic of channel 0 to pe 1");
    pair_close(&p);
}

/* Requests that the device does not take, and a completion queue that does not answer. */
static void test_post_and_poll(void **state)
{
    struct ferry_error e = {.size = sizeof e};
    struct pair p;

    (void)state;
    pair_open(&p, NULL);
    assert_int_equal(pair_connect(&p, 1, 0, 1), FERRY_OK);
    struct ferry_op op = put_op(&p, 0, 0, 8);
    fakeverbs_fail("post_send", 1, ENOMEM);
    assert_int_equal(ops()->rma(p.pe[0].t, 0, &op), FERRY_ERR_TRANSPORT);
    assert_int_equal(side_quiet(&p.pe[0], 0, 1), FERRY_ERR_TRANSPORT);
    ops()->query_error(p.pe[0].t, 0, 1, &e);
    assert_says(e.message, "the device refuses to take a request: Cannot allocate memory");
    assert_int_equal(e.library_status, ENOMEM);
    assert_int_equal(ops()->rma(p.pe[0].t, 1, &op), FERRY_DONE);
    fakeverbs_fail("poll_cq", 1, EIO);
    assert_int_equal(side_quiet(&p.pe[0], 1, 1), FERRY_ERR_DEVICE);
    ops()->query_error(p.pe[0].t, 1, 1, &e);
    assert_says(e.message, "the completion queue cannot be polled: Input/output error");
    assert_says(e.hint, "kernel log");
    pair_close(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_statuses),
        cmocka_unit_test(test_operations),
        cmocka_unit_test(test_refused_by_target),
        cmocka_unit_test(test_post_and_poll),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
