/* SPDX-License-Identifier: Apache-2.0
 * What chaos must keep, seen from a transport below that writes everything down.
 * One thread: so a seed gives the same run again. */
#include "run.h"

#include <string.h>

/* ---- what it keeps */

static void borders_hold(const char *const *options, uint32_t flags, uint32_t order, uint32_t latency)
{
    struct run run;

    start_over(&run, options, BASIC | flags, order);
    run.stub->latency = latency;
    run.stub->again_every = 7;
    program_run(run.program, PROGRAM_OPS);
    program_check_memory(run.program, run.stub);
    assert_true(program_check_borders(run.program, run.stub) > 1000);
    finish(&run);
    assert_true(above_number(&run.above, "reversals") > 0);
}

static void test_borders_by_flag_or_wait(void **state)
{
    (void)state;
    borders_hold(still, FERRY_CAP_FENCED, 0, 0);
    borders_hold(still, FERRY_CAP_FENCED, 0, 5);
}

static void test_borders_by_call_or_wait(void **state)
{
    (void)state;
    borders_hold(still, FERRY_CAP_FENCE_CALL, 0, 3);
}

/* Some order below is not enough; all of it is: then going in order makes the border. */
static void test_borders_by_wait_or_order(void **state)
{
    static const char *const asked[] = {"gap=0", "fence=flag", NULL};

    (void)state;
    borders_hold(asked, 0, 0, 3);
    borders_hold(asked, 0, FERRY_ORDER_PUT_AMO | FERRY_ORDER_AMO_PUT | FERRY_ORDER_AMO_AMO, 3);
    borders_hold(asked, 0, FERRY_ORDER_ALL, 3);
}

static void test_every_setting_keeps_memory(void **state)
{
    static const char *const settings[][4] = {{"gap=0", "delay=100", "split=100", "again=100"},
                                              {"gap=0", "queue=1", "late=100", NULL},
                                              {"gap=0", "hold=0", "delay=0", NULL},
                                              {"gap=0", "hold=500", "delay=100", "late=100"},
                                              {"gap=1ms", NULL, NULL, NULL},
                                              {"gap=0", "fence=flag", "split=0", NULL}};

    (void)state;
    for (size_t i = 0; i < COUNT(settings); i++) {
        const char *options[5] = {settings[i][0], settings[i][1], settings[i][2], settings[i][3], NULL};
        struct run run;

        start(&run, options);
        run.stub->latency = (uint32_t)i;
        program_run(run.program, 300);
        program_check_memory(run.program, run.stub);
        program_check_borders(run.program, run.stub);
        finish(&run);
    }
}

static void test_words_and_atomics_stay_whole(void **state)
{
    static const char *const options[] = {"gap=0", "split=100", NULL};
    struct run run;
    uint64_t whole = 0, cut = 0, backwards = 0;

    (void)state;
    start(&run, options);
    program_run(run.program, PROGRAM_OPS);
    for (uint64_t i = 0; i < run.stub->n; i++) {
        const struct ferry_op *op = &run.stub->events[i].op;
        const struct step *s = &run.program->steps[op->offset / PROGRAM_CELL];

        assert_false(op->flags & FERRY_OP_MORE); /* nothing of the kind: it may be long until the next one */
        if (op->kind == FERRY_OP_AMO || (op->flags & FERRY_OP_WORD)) {
            assert_int_equal(op->length, 8);
            whole++;
        } else {
            cut += op->length < s->length;
            backwards += op->length < s->length && i > 0 && run.stub->events[i - 1].op.offset > op->offset &&
                         run.stub->events[i - 1].op.offset / PROGRAM_CELL == op->offset / PROGRAM_CELL;
        }
    }
    assert_true(whole > 100);
    assert_true(cut > 100);
    assert_true(backwards > 10);
    finish(&run);
}

/* A ticket is good when all before it is complete, not sooner, and however much is posted after. */
static void test_tickets_cover_exactly(void **state)
{
    struct run run;

    (void)state;
    start(&run, still);
    run.stub->latency = 20;
    for (int round = 0; round < 15; round++) {
        uint32_t before, peer = round % 2 ? FERRY_PEER_ALL : (uint32_t)round % STUB_PES;
        uint64_t ticket = 0;
        int calls = 0;

        for (int i = 0; i < 20; i++)
            assert_int_equal(program_step(run.program), FERRY_OK);
        before = run.program->n;
        while (run.above.ops.quiet(run.above.handle, 0, peer, &ticket) == FERRY_AGAIN) {
            if (calls++ < 30)
                assert_int_equal(program_step(run.program), FERRY_OK);
            assert_true(calls < 10000);
        }
        assert_true(calls > 0);
        uint64_t seen[PROGRAM_OPS] = {0};
        for (uint64_t i = 0; i < run.stub->n; i++)
            if (run.stub->events[i].complete)
                seen[run.stub->events[i].op.offset / PROGRAM_CELL] += run.stub->events[i].op.length;
        for (uint32_t i = 0; i < before; i++)
            if (peer == FERRY_PEER_ALL || run.program->steps[i].peer == peer)
                assert_int_equal(seen[i], run.program->steps[i].length);
    }
    finish(&run);
}

/* Without QUIET_PEER below, everything of the channel is asked for (the stub asserts it). */
static void test_completion_per_channel(void **state)
{
    struct run run;
    struct ferry_caps caps = {.size = sizeof caps};

    (void)state;
    start_over(&run, still, FERRY_CAP_GET | FERRY_CAP_FENCED | FERRY_CAP_UNREGISTERED_LOCAL, 0);
    run.stub->latency = 4;
    assert_int_equal(run.above.ops.query(run.above.handle, FERRY_MEMORY_HOST, &caps), FERRY_OK);
    assert_int_equal(caps.flags & FERRY_CAP_QUIET_PEER, 0);
    program_run(run.program, 200);
    program_check_memory(run.program, run.stub);
    finish(&run);
}

/* Fetched values come late, from a private place, registered where that is wanted. */
static void test_fetched_values_come_late(void **state)
{
    static const char *const options[] = {"gap=0", "delay=0", "again=0", "late=100", NULL};

    (void)state;
    for (int registered = 0; registered < 2; registered++) {
        struct run run;
        uint64_t old = 0xeeee, ticket = 0;
        int late = 0;

        start_over(&run, options, registered ? FERRY_CAP_FENCED | FERRY_CAP_QUIET_PEER : BASIC, 0);
        struct ferry_region region = {&old, sizeof old};
        struct ferry_op op = {.kind = FERRY_OP_AMO,
                              .amo = FERRY_AMO_ADD,
                              .width = 8,
                              .flags = FERRY_OP_FETCH,
                              .peer = 2,
                              .local = &old,
                              .region = &region,
                              .key = run.program->keys[2],
                              .offset = 8,
                              .length = 8,
                              .operand = 5};
        run.stub->memory[2][8] = 42;
        assert_int_equal(run.above.ops.amo(run.above.handle, 0, &op), FERRY_OK);
        while (run.above.ops.quiet(run.above.handle, 0, 2, &ticket) == FERRY_AGAIN)
            late += run.stub->n == 1 && run.stub->events[0].complete && old == 0xeeee;
        assert_true(late > 0);
        assert_int_equal(old, 42);
        assert_int_equal(run.stub->memory[2][8], 47);
        assert_ptr_not_equal(run.stub->events[0].op.local, &old);
        assert_int_equal(run.stub->regions, registered);
        finish(&run);
    }
}

/* A private place is used again once its value was handed over. */
static void test_places_are_used_again(void **state)
{
    static const char *const options[] = {"gap=0", "again=0", NULL};
    struct run run;

    (void)state;
    start(&run, options);
    for (int i = 0; i < 200; i++) {
        uint64_t old = 0xeeee;
        struct ferry_op op = {.kind = FERRY_OP_AMO,
                              .amo = FERRY_AMO_ADD,
                              .width = 8,
                              .flags = FERRY_OP_FETCH,
                              .local = &old,
                              .key = run.program->keys[0],
                              .length = 8,
                              .operand = 1};

        assert_int_equal(run.above.ops.amo(run.above.handle, 0, &op), FERRY_OK);
        assert_int_equal(program_quiet(run.program, 0), FERRY_OK);
        assert_int_equal(old, i);
    }
    finish(&run);
    assert_int_equal(above_number(&run.above, "fetched aside"), 200);
}

/* Words may come one by one and in any order, each of them whole. */
static void test_words_are_cut_between_words(void **state)
{
    static const char *const options[] = {"gap=0", "again=0", "split=100", NULL};
    static const uint64_t source[8] = {1, 2, 3, 4, 5, 6, 7, 8};
    struct run run;
    uint64_t pieces = 0;

    (void)state;
    start(&run, options);
    for (uint64_t i = 0; i < 50; i++) {
        struct ferry_op op = {.kind = FERRY_OP_PUT,
                              .flags = FERRY_OP_WORD,
                              .local = (void *)(uintptr_t)source,
                              .key = run.program->keys[0],
                              .offset = i * sizeof source,
                              .length = i == 0 ? 8 : sizeof source};

        assert_int_equal(run.above.ops.rma(run.above.handle, 0, &op), FERRY_OK);
        assert_int_equal(program_quiet(run.program, 0), FERRY_OK);
        assert_memory_equal(run.stub->memory[0] + op.offset, source, op.length);
    }
    for (uint64_t i = 0; i < run.stub->n; i++) {
        const struct ferry_op *op = &run.stub->events[i].op;

        assert_true(op->flags & FERRY_OP_WORD);
        assert_int_equal((op->offset | op->length) % 8, 0);
        assert_true(op->length >= 8);
        pieces += op->length < sizeof source;
    }
    assert_true(pieces > 100);
    finish(&run);
}

/* What a put tells its target goes with all of its bytes, once; such puts overtake each other like others. */
static void test_remote_data_stays_with_its_put(void **state)
{
    static const char *const options[] = {"gap=0", "split=100", NULL};
    uint8_t source[64] = {7}, seen[200] = {0};
    struct run run;
    uint64_t backwards = 0;

    (void)state;
    start_over(&run, options, BASIC | FERRY_CAP_REMOTE_DATA | FERRY_CAP_TARGET_PROGRESS, 0);
    for (uint32_t i = 0; i < COUNT(seen); i++) {
        struct ferry_op op = {.kind = FERRY_OP_PUT,
                              .flags = FERRY_OP_DATA,
                              .remote_data = i,
                              .local = source,
                              .key = run.program->keys[0],
                              .offset = i * sizeof source,
                              .length = sizeof source};

        while (run.above.ops.rma(run.above.handle, 0, &op) == FERRY_AGAIN)
            run.above.ops.progress(run.above.handle, 0);
    }
    assert_int_equal(program_quiet(run.program, 0), FERRY_OK);
    assert_int_equal(run.stub->n, COUNT(seen));
    for (uint64_t i = 0; i < run.stub->n; i++) {
        const struct ferry_op *op = &run.stub->events[i].op;

        assert_true(op->flags & FERRY_OP_DATA);
        assert_int_equal(op->length, sizeof source);
        assert_int_equal(op->offset, op->remote_data * sizeof source);
        assert_int_equal(seen[op->remote_data]++, 0);
        backwards += i > 0 && run.stub->events[i - 1].op.remote_data > op->remote_data;
    }
    assert_true(backwards > 10);
    finish(&run);
}

/* Fetched into memory that has a region, which may be a GPU's, while the transport below moves such memory. */
static void test_memory_of_gpus_is_left_alone(void **state)
{
    static const char *const options[] = {"gap=0", "delay=0", "again=0", "late=100", "split=0", NULL};

    (void)state;
    for (int registered = 0; registered < 2; registered++) {
        uint64_t got = 0;
        struct ferry_region region = {&got, sizeof got};
        struct run run;

        start_gpu(&run, options);
        struct ferry_op op = {.kind = FERRY_OP_GET,
                              .local = &got,
                              .region = registered ? &region : NULL,
                              .key = run.program->keys[0],
                              .length = sizeof got};
        run.stub->memory[0][0] = 9;
        assert_int_equal(run.above.ops.rma(run.above.handle, 0, &op), FERRY_OK);
        assert_int_equal(program_quiet(run.program, 0), FERRY_OK);
        assert_int_equal(got, 9);
        assert_int_equal(run.stub->events[0].op.local == &got, registered);
        finish(&run);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_borders_by_flag_or_wait),        cmocka_unit_test(test_borders_by_call_or_wait),
        cmocka_unit_test(test_borders_by_wait_or_order),       cmocka_unit_test(test_every_setting_keeps_memory),
        cmocka_unit_test(test_words_and_atomics_stay_whole),   cmocka_unit_test(test_tickets_cover_exactly),
        cmocka_unit_test(test_completion_per_channel),         cmocka_unit_test(test_fetched_values_come_late),
        cmocka_unit_test(test_places_are_used_again),          cmocka_unit_test(test_words_are_cut_between_words),
        cmocka_unit_test(test_remote_data_stays_with_its_put), cmocka_unit_test(test_memory_of_gpus_is_left_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
