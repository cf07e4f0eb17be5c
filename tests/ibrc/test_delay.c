/* SPDX-License-Identifier: Apache-2.0
 * Order where requests take effect late, over the stand-in: what may pass an atomic passes it, unless the plugin has
 * the device wait. A counter of fenced requests shows where that was. Main thread. */
#include "pair.h"

#include <string.h>
#include <time.h>

static uint64_t word(const struct pair *p, size_t at)
{
    return __atomic_load_n((uint64_t *)(void *)(p->pe[1].memory + at), __ATOMIC_ACQUIRE);
}

static void add(struct pair *p, uint32_t flags)
{
    struct ferry_op op = amo_op(p, 0, FERRY_AMO_ADD, 1);

    op.flags = flags;
    assert_int_equal(ops()->amo(p->pe[0].t, 0, &op), FERRY_DONE);
}

/* A put of 7 to the word at 64. */
static void put(struct pair *p, uint32_t flags, size_t length)
{
    struct ferry_op op = put_op(p, 0, 64, length);

    memset(p->pe[0].memory, 7, 8);
    op.flags = flags;
    assert_true(ops()->rma(p->pe[0].t, 0, &op) >= 0);
}

#define SEVENS UINT64_C(0x0707070707070707)

/* Polls until the put is there; the atomic has to be there, too, if `ordered`. */
static void watch(struct pair *p, int ordered, uint64_t atomics)
{
    for (int i = 0; i < 1000 && word(p, 64) != SEVENS; i++)
        ops()->progress(p->pe[0].t, 0);
    assert_true(word(p, 64) == SEVENS);
    assert_int_equal(word(p, 0), ordered ? atomics : 0);
    assert_int_equal(side_quiet(&p->pe[0], 0, 1), FERRY_OK);
    assert_int_equal(word(p, 0), atomics);
}

/* Rows: what is posted, and what has to follow. The first shows that the stand-in reorders what a device may. */
static void test_put_behind_atomics(void **state)
{
    static const struct {
        uint32_t second, put; /* flags; the second atomic is left out with UINT32_MAX */
        size_t length;
        int ordered, fenced;
    } rows[] = {
        {UINT32_MAX, 0, 8, 0, 0},
        {UINT32_MAX, 0, 4000, 0, 0},
        {UINT32_MAX, FERRY_OP_FENCED, 8, 1, 1},
        {UINT32_MAX, FERRY_OP_FENCED, 4000, 1, 1},
        {0, FERRY_OP_FENCED, 8, 1, 1},
        {FERRY_OP_FENCED, 0, 8, 1, 1}, /* the border was the second atomic, which itself needs no flag */
        {FERRY_OP_FENCED, FERRY_OP_FENCED, 8, 1, 1},
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct pair p;
        pair_open(&p, NULL);
        long before = fakeverbs_counts().fenced;
        fakeverbs_delay(0, FAKEVERBS_ATOMICS, 5, 0);
        add(&p, 0);
        if (rows[i].second != UINT32_MAX)
            add(&p, rows[i].second);
        put(&p, rows[i].put, rows[i].length);
        assert_true((word(&p, 64) == SEVENS) == !rows[i].ordered);
        assert_int_equal(word(&p, 0), 0);
        watch(&p, rows[i].ordered, rows[i].second == UINT32_MAX ? 1 : 2);
        assert_int_equal(fakeverbs_counts().fenced - before, rows[i].fenced);
        fakeverbs_delay(0, 0, 0, 0);
        pair_close(&p);
    }
}

/* Without a flag: puts keep their order among themselves, and atomics come behind puts and behind each other. */
static void test_needs_no_fence(void **state)
{
    static const unsigned kinds[] = {FAKEVERBS_WRITES, FAKEVERBS_ATOMICS, FAKEVERBS_WRITES | FAKEVERBS_ATOMICS};

    (void)state;
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        struct pair p;
        pair_open(&p, NULL);
        long before = fakeverbs_counts().fenced;
        fakeverbs_delay(0, kinds[i], 4, 0);
        put(&p, 0, 8);
        fakeverbs_delay(0, kinds[i] & FAKEVERBS_ATOMICS, 4, 0);
        struct ferry_op flag = put_op(&p, 0, 128, 8);
        flag.flags = FERRY_OP_FENCED;
        assert_int_equal(ops()->rma(p.pe[0].t, 0, &flag), FERRY_DONE);
        add(&p, FERRY_OP_FENCED);
        fakeverbs_delay(0, 0, 0, 0);
        add(&p, FERRY_OP_FENCED);
        for (int k = 0; k < 1000 && word(&p, 0) != 2; k++) {
            assert_true(word(&p, 128) == 0 || word(&p, 64) == SEVENS);
            assert_true(word(&p, 0) == 0 || word(&p, 128) == SEVENS);
            ops()->progress(p.pe[0].t, 0);
        }
        assert_int_equal(word(&p, 0), 2);
        assert_int_equal(side_quiet(&p.pe[0], 0, 1), FERRY_OK);
        assert_int_equal(fakeverbs_counts().fenced, before);
        pair_close(&p);
    }
}

/* A signal by ADD covers the put in front of it, and does not wait for the signals before. */
static void test_signals(void **state)
{
    struct pair p;

    (void)state;
    pair_open(&p, NULL);
    long before = fakeverbs_counts().fenced;
    fakeverbs_delay(0, FAKEVERBS_ATOMICS, 3, 0);
    memset(p.pe[0].memory, 7, 8);
    for (uint64_t i = 0; i < 20; i++) {
        struct ferry_op op = put_op(&p, 0, 64 + 8 * i, 8);
        op.kind = FERRY_OP_PUT_SIGNAL;
        op.amo = FERRY_AMO_ADD;
        op.width = 8;
        op.signal_key = op.key;
        op.operand = 1;
        assert_int_equal(ops()->put_signal(p.pe[0].t, 0, &op), FERRY_DONE);
    }
    for (int k = 0; k < 1000 && word(&p, 0) != 20; k++) {
        uint64_t seen = word(&p, 0);
        assert_true(seen == 0 || word(&p, 56 + 8 * seen) == SEVENS);
        ops()->progress(p.pe[0].t, 0);
    }
    assert_int_equal(word(&p, 0), 20);
    assert_int_equal(side_quiet(&p.pe[0], 0, 1), FERRY_OK);
    assert_int_equal(fakeverbs_counts().fenced, before);
    fakeverbs_delay(0, 0, 0, 0);
    pair_close(&p);
}

/* One queue pair is slow; quiet of the other does not wait for it. */
static void test_slow_queue_pair(void **state)
{
    uint64_t ticket = 0;
    struct pair p;

    (void)state;
    pair_open(&p, NULL);
    uint32_t slow = initiator_qp();
    assert_int_equal(pair_connect(&p, 1, 0, 1), FERRY_OK);
    fakeverbs_delay(slow, FAKEVERBS_WRITES, 1000, 0);
    put(&p, 0, 8);
    struct ferry_op op = put_op(&p, 0, 128, 8);
    assert_int_equal(ops()->rma(p.pe[0].t, 1, &op), FERRY_DONE);
    assert_int_equal(side_quiet(&p.pe[0], 1, 1), FERRY_OK);
    assert_true(word(&p, 128) == SEVENS);
    for (int i = 0; i < 900; i++)
        assert_int_equal(ops()->quiet(p.pe[0].t, 0, 1, &ticket), FERRY_AGAIN);
    assert_int_equal(word(&p, 64), 0);
    while (ops()->quiet(p.pe[0].t, 0, 1, &ticket) == FERRY_AGAIN)
        ;
    assert_true(word(&p, 64) == SEVENS);
    fakeverbs_delay(0, 0, 0, 0);
    pair_close(&p);
}

/* Queues are full of slow requests: AGAIN, never an overflow. */
static void test_full_queue(void **state)
{
    static const char *const set[] = {"queue_depth", "8", NULL};
    struct pair p;
    long again = 0;

    (void)state;
    pair_open(&p, set);
    fakeverbs_delay(0, FAKEVERBS_ATOMICS, 7, 0);
    for (int i = 0; i < 200; i++) {
        struct ferry_op op = amo_op(&p, 0, FERRY_AMO_ADD, 1);
        int rc = ops()->amo(p.pe[0].t, 0, &op);
        for (; rc == FERRY_AGAIN; again++, rc = ops()->amo(p.pe[0].t, 0, &op))
            ops()->progress(p.pe[0].t, 0);
        assert_int_equal(rc, FERRY_DONE);
    }
    assert_int_equal(side_quiet(&p.pe[0], 0, 1), FERRY_OK);
    assert_int_equal(word(&p, 0), 200);
    assert_true(again > 20);
    fakeverbs_delay(0, 0, 0, 0);
    pair_close(&p); /* which looks for overflows */
}

/* A put that passed an atomic which then fails: the atomic's is the record, and the put counts as flushed. */
static void test_failure_behind(void **state)
{
    struct ferry_error e = {.size = sizeof e};
    struct pair p;

    (void)state;
    pair_open(&p, NULL);
    fakeverbs_delay(0, FAKEVERBS_ATOMICS, 3, 0);
    fakeverbs_complete(1, IBV_WC_RETRY_EXC_ERR, 5);
    add(&p, 0);
    put(&p, 0, 8);
    assert_true(word(&p, 64) == SEVENS);
    assert_int_equal(side_quiet(&p.pe[0], 0, 1), FERRY_ERR_PEER);
    ops()->query_error(p.pe[0].t, 0, 1, &e);
    assert_says(e.message, "atomic of channel 0 to pe 1");
    assert_says(e.message, "transport retry counter exceeded (status 12, vendor 0x5)");
    fakeverbs_delay(0, 0, 0, 0);
    pair_close(&p);
}

/* With requests that never end, closing gives everything back; and a delay by time needs nobody who polls. */
static void test_time(void **state)
{
    struct timespec from, now;
    struct pair p;

    (void)state;
    pair_open(&p, NULL);
    fakeverbs_delay(0, FAKEVERBS_ATOMICS, 0, 3000);
    clock_gettime(CLOCK_MONOTONIC, &from);
    add(&p, 0);
    put(&p, 0, 8);
    assert_true(word(&p, 64) == SEVENS);
    do
        clock_gettime(CLOCK_MONOTONIC, &now);
    while (word(&p, 0) != 1 && now.tv_sec - from.tv_sec < 30);
    assert_int_equal(word(&p, 0), 1);
    assert_int_equal(side_quiet(&p.pe[0], 0, 1), FERRY_OK);
    fakeverbs_delay(0, FAKEVERBS_ATOMICS, 1, 3600 * 1000000L);
    add(&p, 0);
    pair_close(&p);
    fakeverbs_delay(0, 0, 0, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_put_behind_atomics),
        cmocka_unit_test(test_needs_no_fence),
        cmocka_unit_test(test_signals),
        cmocka_unit_test(test_slow_queue_pair),
        cmocka_unit_test(test_full_queue),
        cmocka_unit_test(test_failure_behind),
        cmocka_unit_test(test_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
