/* SPDX-License-Identifier: Apache-2.0
 * What chaos does, how it fails and how it opens, seen from a transport below that writes everything down.
 * One thread: so a seed gives the same run again. */
#include "run.h"

#include <stdlib.h>
#include <string.h>

/* ---- what it does */

struct trace {
    uint64_t n;
    struct {
        uint64_t offset;
        size_t length;
        uint32_t peer, flags;
        uint8_t kind;
    } rows[STUB_EVENTS];
};

static void trace_run(struct trace *trace, const char *seed)
{
    const char *const options[] = {"gap=0", seed, NULL};
    struct run run;

    start(&run, options);
    run.stub->latency = 2;
    program_run(run.program, PROGRAM_OPS);
    memset(trace, 0, sizeof *trace);
    trace->n = run.stub->n;
    for (uint64_t i = 0; i < run.stub->n; i++) {
        const struct ferry_op *op = &run.stub->events[i].op;

        trace->rows[i].offset = op->offset;
        trace->rows[i].length = op->length;
        trace->rows[i].peer = op->peer;
        trace->rows[i].flags = op->flags;
        trace->rows[i].kind = op->kind;
    }
    finish(&run);
}

static void test_a_seed_replays(void **state)
{
    struct trace *traces = calloc(3, sizeof *traces);

    (void)state;
    assert_non_null(traces);
    trace_run(&traces[0], "seed=7");
    trace_run(&traces[1], "seed=7");
    trace_run(&traces[2], "seed=8");
    assert_true(traces[0].n > PROGRAM_OPS);
    assert_memory_equal(&traces[0], &traces[1], sizeof traces[0]);
    assert_memory_not_equal(&traces[0], &traces[2], sizeof traces[0]);
    free(traces);
}

static void test_it_reorders_and_says_so(void **state)
{
    struct run run;
    uint64_t reversed = 0, last[STUB_PES] = {0};

    (void)state;
    start(&run, still);
    run.program->with_fences = false;
    program_run(run.program, PROGRAM_OPS);
    for (uint64_t i = 0; i < run.stub->n; i++) {
        const struct ferry_op *op = &run.stub->events[i].op;

        reversed += op->offset < last[op->peer];
        last[op->peer] = op->offset > last[op->peer] ? op->offset : last[op->peer];
    }
    finish(&run);
    assert_true(reversed > 100);
    assert_true(above_number(&run.above, "reversals") > 100);
    assert_int_equal(above_number(&run.above, "operations"), PROGRAM_OPS);
    assert_true(above_number(&run.above, "cut") > 100);
    assert_true(above_number(&run.above, "times refused") > 10);
    assert_non_null(strstr(run.above.lines, "1: seed 1: ")); /* level 1: a warning shows */
}

static void test_it_can_be_told_to_be_kind(void **state)
{
    static const char *const options[] = {"gap=0",   "delay=0", "hold=0",  "split=0",
                                          "again=0", "late=0",  "queue=1", NULL};
    struct run run;

    (void)state;
    start(&run, options);
    program_run(run.program, 300);
    assert_int_equal(run.stub->n, 300);
    for (uint64_t i = 0; i < run.stub->n; i++)
        for (uint64_t j = 0; j < i; j++)
            if (run.stub->events[i].peer == run.stub->events[j].peer)
                assert_true(run.stub->events[i].op.offset > run.stub->events[j].op.offset);
    finish(&run);
    assert_int_equal(above_number(&run.above, "reversals"), 0);
}

static int put_once(struct run *run, uint32_t peer)
{
    static uint8_t source[8];
    struct ferry_op op = {
        .kind = FERRY_OP_PUT, .peer = peer, .local = source, .key = run->program->keys[peer], .length = 8};

    return run->above.ops.rma(run->above.handle, 0, &op);
}

static void test_the_queue_is_capped(void **state)
{
    static const char *const options[] = {"gap=0", "again=0", "queue=4", NULL};
    struct run run;

    (void)state;
    start(&run, options);
    run.stub->latency = 1000;
    for (int i = 0; i < 4; i++)
        assert_int_equal(put_once(&run, 0), FERRY_OK);
    assert_int_equal(put_once(&run, 0), FERRY_AGAIN);
    assert_int_equal(put_once(&run, 1), FERRY_OK); /* of one peer only */
    assert_int_equal(program_quiet(run.program, FERRY_PEER_ALL), FERRY_OK);
    assert_int_equal(put_once(&run, 0), FERRY_OK);
    assert_int_equal(program_quiet(run.program, FERRY_PEER_ALL), FERRY_OK);
    finish(&run);
    assert_int_equal(above_number(&run.above, "times full"), 1);
}

static void test_a_full_transport_below_is_asked_again(void **state)
{
    struct run run;

    (void)state;
    start(&run, still);
    run.stub->max_out = 1;
    run.stub->latency = 3;
    run.stub->again_every = 3;
    program_run(run.program, 300);
    program_check_memory(run.program, run.stub);
    program_check_borders(run.program, run.stub);
    finish(&run);
}

/* ---- failures */

/* What fails below is told by a ticket, or the next post; nothing that was posted after it goes. */
static void test_a_failed_post_surfaces(void **state)
{
    struct run run;
    struct ferry_error record = {.size = sizeof record};
    int rc = FERRY_OK;

    (void)state;
    start(&run, still);
    run.stub->fail_at = 30;
    run.stub->fail_with = FERRY_ERR_ACCESS;
    for (int i = 0; i < 200 && rc == FERRY_OK; i++)
        rc = program_step(run.program);
    assert_int_equal(rc, FERRY_ERR_ACCESS);
    assert_true(run.stub->n < 30);
    assert_int_equal(program_quiet(run.program, FERRY_PEER_ALL), FERRY_ERR_ACCESS);
    assert_int_equal(run.above.ops.query_error(run.above.handle, 0, 0, &record), FERRY_OK);
    assert_string_equal(record.message, "the stub was told to fail");
    /* told once for each stream that it hit, it is over */
    run.stub->fail_at = 0;
    for (int i = 0; i < 4; i++)
        rc = program_quiet(run.program, FERRY_PEER_ALL);
    assert_int_equal(rc, FERRY_OK);
    assert_int_equal(program_step(run.program), FERRY_OK);
    assert_int_equal(program_quiet(run.program, FERRY_PEER_ALL), FERRY_OK);
    finish(&run);
}

static void test_a_failed_ticket_surfaces(void **state)
{
    struct run run;

    (void)state;
    start(&run, still);
    run.stub->latency = 2;
    for (int i = 0; i < 20; i++)
        assert_int_equal(program_step(run.program), FERRY_OK);
    run.stub->fail_ticket_at = 1;
    run.stub->fail_with = FERRY_ERR_TRANSPORT;
    assert_int_equal(program_quiet(run.program, FERRY_PEER_ALL), FERRY_ERR_TRANSPORT);
    finish(&run);
}

/* A ticket that covers the first of what was lost fails, and so does one that covers the last. */
static void test_each_ticket_over_a_loss_fails(void **state)
{
    static const char *const options[] = {"gap=0", "again=0", "delay=100", "hold=100", "split=0", NULL};
    struct run run;
    uint64_t first = 0, second = 0;
    int rc;

    (void)state;
    start(&run, options);
    assert_int_equal(put_once(&run, 0), FERRY_OK);
    assert_int_equal(run.above.ops.quiet(run.above.handle, 0, 0, &first), FERRY_AGAIN);
    assert_int_equal(put_once(&run, 0), FERRY_OK);
    assert_int_equal(run.above.ops.quiet(run.above.handle, 0, 0, &second), FERRY_AGAIN);
    run.stub->fail_at = 1;
    run.stub->fail_with = FERRY_ERR_ACCESS;
    while ((rc = run.above.ops.quiet(run.above.handle, 0, 0, &first)) == FERRY_AGAIN)
        ;
    assert_int_equal(rc, FERRY_ERR_ACCESS);
    assert_int_equal(run.above.ops.quiet(run.above.handle, 0, 0, &second), FERRY_ERR_ACCESS);
    finish(&run);
}

static void test_a_peer_that_left_gets_nothing_more(void **state)
{
    static const char *const options[] = {"gap=0", "again=0", "delay=100", NULL};
    struct run run;
    uint64_t ticket = 0, before;

    (void)state;
    start(&run, options);
    for (int i = 0; i < 8; i++) {
        assert_int_equal(put_once(&run, 0), FERRY_OK);
        assert_int_equal(put_once(&run, 1), FERRY_OK);
    }
    before = run.stub->n;
    assert_int_equal(run.above.ops.disconnect(run.above.handle, 0), FERRY_OK);
    assert_int_equal(put_once(&run, 0), FERRY_ERR_PEER);
    assert_int_equal(run.above.ops.quiet(run.above.handle, 0, 0, &ticket), FERRY_ERR_PEER);
    assert_int_equal(program_quiet(run.program, 1), FERRY_OK);
    assert_int_equal(program_quiet(run.program, FERRY_PEER_ALL), FERRY_OK);
    for (uint64_t i = before; i < run.stub->n; i++)
        assert_int_equal(run.stub->events[i].peer, 1);
    finish(&run);
}

static void test_it_closes_with_operations_outstanding(void **state)
{
    struct run run;

    (void)state;
    start_over(&run, still, FERRY_CAP_GET | FERRY_CAP_FENCED, 0);
    run.stub->caps.flags |= FERRY_CAP_UNREGISTERED_LOCAL; /* for the program, which registers nothing */
    run.stub->latency = 100;
    for (int i = 0; i < 50; i++)
        assert_int_equal(program_step(run.program), FERRY_OK);
    finish(&run);
}

/* ---- opening */

static void test_capabilities(void **state)
{
    struct run run;
    struct ferry_caps caps = {.size = sizeof caps};

    (void)state;
    start(&run, still);
    run.stub->caps.flags = ~0u;
    run.stub->caps.order = FERRY_ORDER_ALL;
    run.stub->caps.copy_max = run.stub->caps.inline_max = SIZE_MAX;
    assert_int_equal(run.above.ops.query(run.above.handle, FERRY_MEMORY_HOST, &caps), FERRY_OK);
    assert_int_equal(caps.order, 0);
    assert_int_equal(caps.flags, FERRY_CAP_GET | FERRY_CAP_FENCED | FERRY_CAP_FENCE_CALL |
                                     FERRY_CAP_UNREGISTERED_LOCAL | FERRY_CAP_QUIET_PEER | FERRY_CAP_TARGET_PROGRESS |
                                     FERRY_CAP_REMOTE_DATA | FERRY_CAP_MUST_ALLOCATE | FERRY_CAP_INITIATOR_PROGRESS);
    assert_int_equal(caps.copy_max, 4096);
    assert_true(caps.inline_max <= caps.copy_max);
    assert_int_equal(caps.queue_depth, 64);
    assert_int_equal(caps.amo64, run.stub->caps.amo64);
    assert_int_equal(caps.message_max, STUB_MEMORY);
    run.stub->caps.copy_max = 0;
    assert_int_equal(run.above.ops.query(run.above.handle, FERRY_MEMORY_HOST, &caps), FERRY_OK);
    assert_int_equal(caps.copy_max, 0); /* none below, none above */
    assert_int_equal(run.above.ops.query(run.above.handle, FERRY_MEMORY_GPU, &caps), FERRY_ERR_UNSUPPORTED);
    finish(&run);
}

static void test_how_borders_are_asked_for(void **state)
{
    static const struct {
        const char *option;
        uint32_t flags;
    } rows[] = {{"fence=keep", FERRY_CAP_FENCED},
                {"fence=flag", FERRY_CAP_FENCED},
                {"fence=call", FERRY_CAP_FENCE_CALL},
                {"fence=none", 0}};

    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        const char *const options[] = {rows[i].option, NULL};
        struct ferry_caps caps = {.size = sizeof caps};
        struct run run;

        start(&run, options);
        assert_int_equal(run.above.ops.query(run.above.handle, FERRY_MEMORY_HOST, &caps), FERRY_OK);
        assert_int_equal(caps.flags & (FERRY_CAP_FENCED | FERRY_CAP_FENCE_CALL), rows[i].flags);
        finish(&run);
    }
}

/* A call makes a border as the flag does. */
static void test_fence_call(void **state)
{
    static const char *const options[] = {"gap=0", "fence=call", "delay=100", "again=0", "split=0", NULL};
    struct run run;

    (void)state;
    start(&run, options);
    for (uint64_t i = 0; i < 200; i++) {
        uint8_t source = (uint8_t)i;
        struct ferry_op op = {.kind = FERRY_OP_PUT,
                              .flags = FERRY_OP_COPY,
                              .local = &source,
                              .key = run.program->keys[0],
                              .offset = i,
                              .length = 1};

        while (run.above.ops.rma(run.above.handle, 0, &op) == FERRY_AGAIN)
            run.above.ops.progress(run.above.handle, 0);
        assert_int_equal(run.above.ops.fence(run.above.handle, 0, 0), FERRY_OK);
    }
    assert_int_equal(program_quiet(run.program, 0), FERRY_OK);
    assert_int_equal(run.stub->n, 200);
    for (uint64_t i = 0; i < 200; i++)
        assert_int_equal(run.stub->events[i].op.offset, i);
    finish(&run);
}

static void test_bad_options_and_nothing_to_wrap(void **state)
{
    static const char *const bad[] = {"delay=101", "split=-1",    "again=1000", "late=200",
                                      "queue=0",   "queue=70000", "hold=-2",    "gap=11"};
    struct stub *stub = stub_new();
    struct above above;

    (void)state;
    for (size_t i = 0; i < COUNT(bad); i++) {
        const char *const options[] = {bad[i], NULL};

        assert_int_equal(above_open(&above, CHAOS, options, (void *)stub, stub_ops()), FERRY_ERR_CONFIG);
        assert_non_null(strstr(above.error.message, "and not between"));
        assert_int_equal(above.error.status, FERRY_ERR_CONFIG);
        assert_int_equal(stub->closed, 0); /* a failed open does not close what it was to wrap */
    }
    assert_int_equal(above_open(&above, CHAOS, NULL, NULL, NULL), FERRY_ERR_CONFIG);
    assert_non_null(strstr(above.error.message, "chaos is a hook"));
    stub_free(stub);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_seed_replays),
        cmocka_unit_test(test_it_reorders_and_says_so),
        cmocka_unit_test(test_it_can_be_told_to_be_kind),
        cmocka_unit_test(test_the_queue_is_capped),
        cmocka_unit_test(test_a_full_transport_below_is_asked_again),
        cmocka_unit_test(test_a_failed_post_surfaces),
        cmocka_unit_test(test_a_failed_ticket_surfaces),
        cmocka_unit_test(test_each_ticket_over_a_loss_fails),
        cmocka_unit_test(test_a_peer_that_left_gets_nothing_more),
        cmocka_unit_test(test_it_closes_with_operations_outstanding),
        cmocka_unit_test(test_capabilities),
        cmocka_unit_test(test_how_borders_are_asked_for),
        cmocka_unit_test(test_fence_call),
        cmocka_unit_test(test_bad_options_and_nothing_to_wrap),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
