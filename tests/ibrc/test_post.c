/* SPDX-License-Identifier: Apache-2.0
 * Posting over the stand-in: what arrives, doorbells, signalled and fenced requests, full queues, tickets.
 * Main thread. */
#include "pair.h"

#include <string.h>

static void test_bytes_arrive(void **state)
{
    static const size_t sizes[] = {0, 1, 7, 8, 219, 220, 221, 4096, 8191, 8192, 30000};
    struct pair p;

    (void)state;
    pair_open(&p, NULL);
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        struct ferry_op op = put_op(&p, 0, 32768, sizes[i]);
        memset(p.pe[0].memory, (int)i + 1, sizes[i]);
        memset(p.pe[1].memory + 32768, 0xee, sizes[i] + 1);
        int rc = ops()->rma(p.pe[0].t, 0, &op);
        assert_int_equal(rc, sizes[i] <= 220 ? FERRY_DONE : FERRY_OK);
        assert_int_equal(side_quiet(&p.pe[0], 0, 1), FERRY_OK);
        assert_memory_equal(p.pe[1].memory + 32768, p.pe[0].memory, sizes[i]);
        assert_int_equal((uint8_t)p.pe[1].memory[32768 + sizes[i]], 0xee);
        op.kind = FERRY_OP_GET;
        op.local = p.pe[0].memory + 32768;
        assert_true(ops()->rma(p.pe[0].t, 0, &op) >= 0);
        assert_int_equal(side_quiet(&p.pe[0], 0, FERRY_PEER_ALL), FERRY_OK);
        assert_memory_equal(p.pe[0].memory + 32768, p.pe[0].memory, sizes[i]);
    }
    pair_close(&p);
}

static void test_atomics(void **state)
{
    struct pair p;
    uint64_t *word, *old;

    (void)state;
    pair_open(&p, NULL);
    word = (uint64_t *)(void *)(p.pe[1].memory + 64);
    old = (uint64_t *)(void *)(p.pe[0].memory + 128);
    struct ferry_op op = amo_op(&p, 64, FERRY_AMO_ADD, 5);
    assert_int_equal(ops()->amo(p.pe[0].t, 0, &op), FERRY_DONE);
    op.flags = FERRY_OP_FETCH;
    op.local = old;
    op.region = p.pe[0].region;
    assert_int_equal(ops()->amo(p.pe[0].t, 0, &op), FERRY_OK);
    assert_int_equal(side_quiet(&p.pe[0], 0, 1), FERRY_OK);
    assert_int_equal(*word, 10);
    assert_int_equal(*old, 5);
    op.amo = FERRY_AMO_CSWAP;
    op.compare = 10;
    op.operand = 77;
    assert_int_equal(ops()->amo(p.pe[0].t, 0, &op), FERRY_OK);
    op.compare = 11;
    op.operand = 78;
    op.local = old + 1;
    assert_int_equal(ops()->amo(p.pe[0].t, 0, &op), FERRY_OK);
    op.amo = FERRY_AMO_FETCH;
    op.local = old + 2;
    assert_int_equal(ops()->amo(p.pe[0].t, 0, &op), FERRY_OK);
    assert_int_equal(side_quiet(&p.pe[0], 0, 1), FERRY_OK);
    assert_int_equal(*word, 77);
    assert_int_equal(old[0], 10);
    assert_int_equal(old[1], 77);
    assert_int_equal(old[2], 77);
    op.amo = FERRY_AMO_XOR;
    assert_int_equal(ops()->amo(p.pe[0].t, 0, &op), FERRY_ERR_UNSUPPORTED);
    pair_close(&p);
}

static void signal_op(struct pair *p, struct ferry_op *op, int kind, uint64_t value, size_t length)
{
    *op = put_op(p, 0, 4096, length);
    op->kind = FERRY_OP_PUT_SIGNAL;
    op->amo = (uint8_t)kind;
    op->width = 8;
    op->signal_key = p->pe[0].key;
    op->operand = value;
}

static void test_put_signal(void **state)
{
    struct pair p;
    struct ferry_op op;
    struct fakeverbs_counts before, after;

    (void)state;
    pair_open(&p, NULL);
    memset(p.pe[0].memory, 9, 2000);
    before = fakeverbs_counts();
    signal_op(&p, &op, FERRY_AMO_SET, 41, 2000);
    assert_int_equal(ops()->put_signal(p.pe[0].t, 0, &op), FERRY_OK);
    signal_op(&p, &op, FERRY_AMO_ADD, 1, 8);
    assert_int_equal(ops()->put_signal(p.pe[0].t, 0, &op), FERRY_DONE);
    after = fakeverbs_counts();
    assert_int_equal(after.doorbells - before.doorbells, 2);
    assert_int_equal(after.requests - before.requests, 4);
    assert_int_equal(side_quiet(&p.pe[0], 0, 1), FERRY_OK);
    assert_int_equal(*(uint64_t *)(void *)p.pe[1].memory, 42);
    assert_memory_equal(p.pe[1].memory + 4096, p.pe[0].memory, 2000);
    pair_close(&p);
}

/* The source of an inline put is free at once, though the doorbell waits. */
static void test_batch(void **state)
{
    struct pair p;
    struct fakeverbs_counts before, after;

    (void)state;
    pair_open(&p, NULL);
    before = fakeverbs_counts();
    for (unsigned i = 0; i < 320; i++) {
        struct ferry_op op = put_op(&p, 0, 8ull * i, 8);
        op.flags = FERRY_OP_COPY | (i % 32 != 31 ? FERRY_OP_MORE : 0);
        memset(p.pe[0].memory, (int)(i & 0x7f), 8);
        assert_int_equal(ops()->rma(p.pe[0].t, 0, &op), FERRY_DONE);
        memset(p.pe[0].memory, 0xff, 8);
    }
    after = fakeverbs_counts();
    assert_int_equal(after.doorbells - before.doorbells, 10);
    assert_int_equal(after.signalled - before.signalled, 10);
    assert_int_equal(side_quiet(&p.pe[0], 0, 1), FERRY_OK);
    assert_int_equal(fakeverbs_counts().requests, after.requests); /* the tail reported already */
    for (unsigned i = 0; i < 320; i++)
        assert_int_equal(p.pe[1].memory[8 * i], i & 0x7f);
    pair_close(&p);
}

static void test_late_doorbell_is_rung(void **state)
{
    struct pair p;
    struct ferry_op op;

    (void)state;
    pair_open(&p, NULL);
    op = put_op(&p, 0, 0, 8);
    op.flags = FERRY_OP_MORE;
    memset(p.pe[0].memory, 3, 8);
    assert_int_equal(ops()->rma(p.pe[0].t, 0, &op), FERRY_DONE);
    assert_int_equal(p.pe[1].memory[0], 0);
    assert_int_equal(ops()->progress(p.pe[0].t, 0), FERRY_OK);
    assert_int_equal(p.pe[1].memory[0], 3);
    assert_int_equal(ops()->progress(p.pe[0].t, 0), FERRY_AGAIN);
    pair_close(&p);
}

/* IBV_SEND_FENCE where a put follows a border behind an unfinished atomic, and nowhere else. */
static void test_fences(void **state)
{
    struct pair p;
    long before;

    (void)state;
    pair_open(&p, NULL);
    before = fakeverbs_counts().fenced;
    struct ferry_op put = put_op(&p, 0, 64, 8), add = amo_op(&p, 0, FERRY_AMO_ADD, 1);
    for (int i = 0; i < 100; i++) { /* signals back to back, and puts behind puts */
        add.flags = FERRY_OP_FENCED;
        assert_int_equal(ops()->amo(p.pe[0].t, 0, &add), FERRY_DONE);
    }
    assert_int_equal(side_quiet(&p.pe[0], 0, 1), FERRY_OK);
    put.flags = FERRY_OP_FENCED;
    assert_int_equal(ops()->rma(p.pe[0].t, 0, &put), FERRY_DONE);
    assert_int_equal(ops()->rma(p.pe[0].t, 0, &put), FERRY_DONE);
    assert_int_equal(fakeverbs_counts().fenced, before);
    add.flags = 0;
    assert_int_equal(ops()->amo(p.pe[0].t, 0, &add), FERRY_DONE);
    assert_int_equal(ops()->rma(p.pe[0].t, 0, &put), FERRY_DONE); /* behind an unfinished atomic */
    assert_int_equal(fakeverbs_counts().fenced, before + 1);
    put.flags = 0;
    assert_int_equal(ops()->amo(p.pe[0].t, 0, &add), FERRY_DONE);
    assert_int_equal(ops()->rma(p.pe[0].t, 0, &put), FERRY_DONE); /* no border between */
    assert_int_equal(fakeverbs_counts().fenced, before + 1);
    add.flags = FERRY_OP_FENCED; /* a border that an atomic makes holds for the put behind it */
    assert_int_equal(ops()->amo(p.pe[0].t, 0, &add), FERRY_DONE);
    assert_int_equal(ops()->rma(p.pe[0].t, 0, &put), FERRY_DONE);
    assert_int_equal(ops()->rma(p.pe[0].t, 0, &put), FERRY_DONE);
    assert_int_equal(fakeverbs_counts().fenced, before + 2);
    pair_close(&p);
}

static void test_full_queue(void **state)
{
    static const char *const set[] = {"queue_depth", "8", NULL};
    struct pair p;

    (void)state;
    pair_open(&p, set);
    for (unsigned i = 0; i < 5000; i++) {
        struct ferry_op op = put_op(&p, 0, 8 * (i % 512), 8);
        op.flags = i % 3 ? FERRY_OP_MORE : 0;
        int rc = ops()->rma(p.pe[0].t, 0, &op);
        assert_int_equal(rc, FERRY_DONE); /* the stand-in completes at once, so room is found by polling */
    }
    assert_int_equal(side_quiet(&p.pe[0], 0, FERRY_PEER_ALL), FERRY_OK);
    assert_int_equal(fakeverbs_counts().overflows, 0);
    pair_close(&p);
}

/* What is posted later does not delay a ticket. */
static void test_tickets(void **state)
{
    struct pair p;
    uint64_t one = 0, all = 0;

    (void)state;
    pair_open(&p, NULL);
    struct ferry_op op = put_op(&p, 0, 0, 8);
    assert_int_equal(ops()->quiet(p.pe[0].t, 0, 1, &one), FERRY_OK); /* nothing posted */
    assert_int_equal(ops()->rma(p.pe[0].t, 0, &op), FERRY_DONE);
    one = 0;
    int first = ops()->quiet(p.pe[0].t, 0, 1, &one), second = ops()->quiet(p.pe[0].t, 0, FERRY_PEER_ALL, &all);
    op.flags = FERRY_OP_MORE;
    assert_int_equal(ops()->rma(p.pe[0].t, 0, &op), FERRY_DONE);
    for (int i = 0; i < 3 && (first || second); i++) {
        first = first ? ops()->quiet(p.pe[0].t, 0, 1, &one) : 0;
        second = second ? ops()->quiet(p.pe[0].t, 0, FERRY_PEER_ALL, &all) : 0;
    }
    assert_int_equal(first, FERRY_OK);
    assert_int_equal(second, FERRY_OK);
    pair_close(&p);
}

static void test_two_devices(void **state)
{
    static const char *const set[] = {"rails", "2", NULL};
    struct pair p;
    struct ferry_caps caps = {.size = sizeof caps};

    (void)state;
    fakeverbs_devices(2);
    pair_open(&p, set);
    assert_int_equal(ops()->query(p.pe[0].t, FERRY_MEMORY_HOST, &caps), FERRY_OK);
    assert_int_equal(caps.amo64, 0); /* two devices do not see each other's atomics */
    assert_int_equal(pair_connect(&p, 1, 0, 1), FERRY_OK);
    for (uint32_t channel = 0; channel < 2; channel++) {
        struct ferry_op op = put_op(&p, 0, 8 * channel, 8);
        memset(p.pe[0].memory, (int)channel + 1, 8);
        assert_int_equal(ops()->rma(p.pe[0].t, channel, &op), FERRY_DONE);
        assert_int_equal(side_quiet(&p.pe[0], channel, 1), FERRY_OK);
        assert_int_equal(p.pe[1].memory[8 * channel], channel + 1);
    }
    pair_close(&p);
    fakeverbs_devices(1);
}

static void test_relaxed(void **state)
{
    static const char *const set[] = {"relaxed_ordering", "yes", NULL};
    struct pair p;
    struct ferry_caps caps = {.size = sizeof caps};
    struct ferry_op op;

    (void)state;
    pair_open(&p, set);
    assert_int_equal(ops()->query(p.pe[0].t, FERRY_MEMORY_HOST, &caps), FERRY_OK);
    assert_int_equal(caps.order & FERRY_ORDER_PUT_PUT, 0);
    assert_int_equal(caps.flags & FERRY_CAP_FENCED, 0);
    assert_true(caps.flags & FERRY_CAP_SIGNAL_STRONG);
    memset(p.pe[0].memory, 5, 100);
    signal_op(&p, &op, FERRY_AMO_SET, 1, 100);
    assert_int_equal(ops()->put_signal(p.pe[0].t, 0, &op), FERRY_DONE);
    assert_int_equal(side_quiet(&p.pe[0], 0, 1), FERRY_OK);
    assert_memory_equal(p.pe[1].memory + 4096, p.pe[0].memory, 100);
    pair_close(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bytes_arrive),
        cmocka_unit_test(test_atomics),
        cmocka_unit_test(test_put_signal),
        cmocka_unit_test(test_batch),
        cmocka_unit_test(test_late_doorbell_is_rung),
        cmocka_unit_test(test_fences),
        cmocka_unit_test(test_full_queue),
        cmocka_unit_test(test_tickets),
        cmocka_unit_test(test_two_devices),
        cmocka_unit_test(test_relaxed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
