/* SPDX-License-Identifier: Apache-2.0
 * What count says of a user that closes everything, and of one that leaks; and the two hooks in either order.
 * One thread. */
#include "program.h"

#include <stdlib.h>
#include <string.h>

struct run {
    struct stub *stub;
    struct above above;
    struct program *program;
};

static int setup(void **state)
{
    struct run *run = calloc(1, sizeof *run);

    assert_non_null(run);
    run->stub = stub_new();
    assert_int_equal(above_open(&run->above, COUNT_HOOK, NULL, (void *)run->stub, stub_ops()), FERRY_OK);
    run->program = program_new(&run->above, 5);
    *state = run;
    return 0;
}

static int teardown(void **state)
{
    struct run *run = *state;

    stub_free(run->stub);
    free(run);
    return 0;
}

static void close_it(struct run *run)
{
    program_free(run->program);
    assert_int_equal(run->above.ops.close(run->above.handle), FERRY_OK);
    assert_int_equal(run->stub->closed, 1);
}

/* One warning, and it names what is missing. */
static void expect_imbalance(const struct run *run, const char *what)
{
    const char *first = strstr(run->above.lines, "1: out of balance: ");

    if (!first || !strstr(first, what))
        fail_msg("no '%s' in: %s", what, run->above.lines);
    assert_null(strstr(first + 1, "1: out of balance: "));
    assert_non_null(strstr(run->above.lines, "2: out of balance: "));
}

static void test_in_balance(void **state)
{
    struct run *run = *state;
    struct ferry_memory memory = {.size = sizeof memory, .address = run, .length = 100, .fd = -1};
    struct ferry_region *region, *allocated;

    run->stub->latency = 3;
    assert_int_equal(run->above.ops.register_memory(run->above.handle, &memory, &region), FERRY_OK);
    assert_int_equal(run->above.ops.allocate_memory(run->above.handle, &memory, &allocated), FERRY_OK);
    program_run(run->program, 300);
    program_check_memory(run->program, run->stub);
    assert_int_equal(run->above.ops.free_memory(run->above.handle, allocated), FERRY_OK);
    assert_int_equal(run->above.ops.deregister_memory(run->above.handle, region), FERRY_OK);
    close_it(run);
    assert_non_null(strstr(run->above.lines, "2: in balance: "));
    assert_null(strstr(run->above.lines, "1: "));
    assert_int_equal(above_number(&run->above, "puts") + above_number(&run->above, "gets") +
                         above_number(&run->above, "atomics"),
                     300);
    assert_int_equal(above_number(&run->above, "regions"), 1);
    assert_int_equal(above_number(&run->above, "allocations"), 1);
    assert_int_equal(above_number(&run->above, "keys"), STUB_PES);
    assert_int_equal(above_number(&run->above, "channels"), 1);
    assert_int_equal(run->stub->n, 300);
}

static void test_region_leaks(void **state)
{
    struct run *run = *state;
    struct ferry_memory memory = {.size = sizeof memory, .address = run, .length = 100, .fd = -1};
    struct ferry_region *region, *other;

    assert_int_equal(run->above.ops.register_memory(run->above.handle, &memory, &region), FERRY_OK);
    assert_int_equal(run->above.ops.register_memory(run->above.handle, &memory, &other), FERRY_OK);
    assert_int_equal(run->above.ops.deregister_memory(run->above.handle, other), FERRY_OK);
    close_it(run);
    expect_imbalance(run, "1 regions (100 bytes) were registered and not deregistered");
    free(region);
}

static void test_allocation_leaks(void **state)
{
    struct run *run = *state;
    struct ferry_memory memory = {.size = sizeof memory, .length = 4096, .fd = -1};
    struct ferry_region *region;

    assert_int_equal(run->above.ops.allocate_memory(run->above.handle, &memory, &region), FERRY_OK);
    close_it(run);
    expect_imbalance(run, "1 allocations (4096 bytes) were made and not freed");
    free(region->address);
    free(region);
}

static void test_region_taken_back_twice(void **state)
{
    struct run *run = *state;
    struct ferry_memory memory = {.size = sizeof memory, .address = run, .length = 100, .fd = -1};
    struct ferry_region *region;

    assert_int_equal(run->above.ops.register_memory(run->above.handle, &memory, &region), FERRY_OK);
    assert_int_equal(run->above.ops.deregister_memory(run->above.handle, region), FERRY_OK);
    assert_int_equal(run->above.ops.deregister_memory(run->above.handle, calloc(1, sizeof *region)), FERRY_OK);
    close_it(run);
    expect_imbalance(run, "1 regions were deregistered that were not registered, or not any more");
}

static void test_key_leaks(void **state)
{
    struct run *run = *state;
    struct ferry_rkey *key;

    assert_int_equal(run->above.ops.import_key(run->above.handle, 2, "", 0, &key), FERRY_OK);
    close_it(run);
    expect_imbalance(run, "1 keys (0 bytes) were imported and not released");
    free(key);
}

static void test_channel_stays_open(void **state)
{
    struct run *run = *state;

    assert_int_equal(run->above.ops.open_channel(run->above.handle, 3), FERRY_OK);
    close_it(run);
    expect_imbalance(run, "channels were opened 2 times and closed 1 times");
}

static int put_once(struct run *run, uint32_t peer)
{
    static uint8_t source[40];
    struct ferry_op op = {
        .kind = FERRY_OP_PUT, .peer = peer, .local = source, .key = run->program->keys[peer], .length = 40};

    return run->above.ops.rma(run->above.handle, 0, &op);
}

static void test_operations_are_not_waited_for(void **state)
{
    struct run *run = *state;

    assert_int_equal(put_once(run, 1), FERRY_OK);
    assert_int_equal(put_once(run, 2), FERRY_OK);
    assert_int_equal(program_quiet(run->program, 1), FERRY_OK);
    assert_int_equal(put_once(run, 2), FERRY_OK);
    close_it(run);
    expect_imbalance(run, "no finished ticket covers the last 2 operations (80 bytes) on channel 0 to pe 2");
}

static void test_a_ticket_is_dropped(void **state)
{
    struct run *run = *state;
    uint64_t dropped = 0, kept = 0;

    run->stub->latency = 1;
    assert_int_equal(put_once(run, 1), FERRY_OK);
    assert_int_equal(put_once(run, 2), FERRY_OK);
    run->stub->latency = 3;
    assert_int_equal(put_once(run, 1), FERRY_OK);
    assert_int_equal(run->above.ops.quiet(run->above.handle, 0, 1, &dropped), FERRY_AGAIN);
    assert_int_equal(run->above.ops.quiet(run->above.handle, 0, 2, &kept), FERRY_OK);
    close_it(run);
    assert_non_null(strstr(run->above.lines, "1: out of balance: 1 tickets of channel 0 were drawn and not finished"));
    assert_non_null(strstr(run->above.lines, "the last 2 operations (80 bytes) on channel 0 to pe 1"));
}

/* Who draws a later ticket over the same streams may forget the earlier one. */
static void test_a_later_ticket_implies_an_earlier_one(void **state)
{
    struct run *run = *state;
    uint64_t first = 0;

    run->stub->latency = 3;
    assert_int_equal(put_once(run, 1), FERRY_OK);
    assert_int_equal(run->above.ops.quiet(run->above.handle, 0, 1, &first), FERRY_AGAIN);
    assert_int_equal(put_once(run, 1), FERRY_OK);
    assert_int_equal(program_quiet(run->program, FERRY_PEER_ALL), FERRY_OK);
    close_it(run);
    assert_non_null(strstr(run->above.lines, "2: in balance: "));
}

/* The stub takes no batches: they go one by one, and stop where one is refused. */
static void test_a_batch(void **state)
{
    struct run *run = *state;
    static uint8_t source[8];
    struct ferry_op ops[5];
    size_t done = 99;

    for (int i = 0; i < 5; i++)
        ops[i] = (struct ferry_op){
            .kind = FERRY_OP_PUT, .peer = 1, .local = source, .key = run->program->keys[1], .length = 8};
    ops[1].kind = FERRY_OP_AMO;
    ops[1].width = 8;
    ops[1].amo = FERRY_AMO_ADD;
    run->stub->again_every = 4;
    assert_int_equal(run->above.ops.post(run->above.handle, 0, ops, 5, &done), FERRY_AGAIN);
    assert_int_equal(done, 3);
    assert_int_equal(run->above.ops.post(run->above.handle, 0, ops + done, 5 - done, &done), FERRY_OK);
    assert_int_equal(done, 2);
    assert_int_equal(program_quiet(run->program, 1), FERRY_OK);
    close_it(run);
    assert_non_null(strstr(run->above.lines, "2: in balance: 4 puts (32 bytes), 0 gets (0 bytes), 1 atomics"));
    assert_int_equal(above_number(&run->above, "times again"), 1);
}

static void test_what_passes(void **state)
{
    struct run *run = *state;
    struct ferry_caps caps = {.size = sizeof caps};
    struct ferry_error record = {.size = sizeof record};
    char why[64] = "";
    void *address = NULL;

    run->stub->caps.flags = ~0u;
    assert_int_equal(run->above.ops.query(run->above.handle, FERRY_MEMORY_HOST, &caps), FERRY_OK);
    assert_int_equal(caps.flags, ~FERRY_CAP_DIRECT);
    assert_int_equal(run->above.ops.reach(run->above.handle, 77, "", 0, why, sizeof why), FERRY_ERR_UNREACHABLE);
    assert_string_equal(why, "there is no pe 77");
    assert_int_equal(run->above.ops.map_key(run->above.handle, run->program->keys[2], &address), FERRY_OK);
    assert_ptr_equal(address, run->stub->memory[2]);
    run->stub->fail_at = 1;
    run->stub->fail_with = FERRY_ERR_ACCESS;
    assert_int_equal(put_once(run, 1), FERRY_ERR_ACCESS);
    assert_int_equal(run->above.ops.query_error(run->above.handle, 0, 1, &record), FERRY_OK);
    assert_string_equal(record.message, "the stub was told to fail");
    close_it(run);
    assert_int_equal(above_number(&run->above, "errors"), 1);
}

static void test_nothing_to_wrap(void **state)
{
    struct above above;

    (void)state;
    assert_int_equal(above_open(&above, COUNT_HOOK, NULL, NULL, NULL), FERRY_ERR_CONFIG);
    assert_non_null(strstr(above.error.message, "count is a hook"));
}

/* The outer counts what it is asked for; the inner counts what chaos makes of it. Both balance. */
static void stacked(const char *outer_path, const char *inner_path, uint32_t flags)
{
    struct stub *stub = stub_new();
    struct above outer, inner;
    struct program *p;

    stub->latency = 3;
    stub->caps.flags = flags;
    assert_int_equal(above_open(&inner, inner_path, NULL, (void *)stub, stub_ops()), FERRY_OK);
    assert_int_equal(above_open(&outer, outer_path, NULL, inner.handle, &inner.ops), FERRY_OK);
    p = program_new(&outer, 3);
    program_run(p, 400);
    program_check_memory(p, stub);
    program_check_borders(p, stub);
    program_free(p);
    assert_int_equal(outer.ops.close(outer.handle), FERRY_OK);
    assert_int_equal(stub->closed, 1);
    assert_null(strstr(outer.lines, "out of balance"));
    assert_null(strstr(inner.lines, "out of balance"));
    assert_true(above_number(strcmp(outer_path, CHAOS) == 0 ? &outer : &inner, "reversals") > 0);
    struct above *counting = strcmp(outer_path, CHAOS) == 0 ? &inner : &outer;
    unsigned long long counted =
        above_number(counting, "puts") + above_number(counting, "gets") + above_number(counting, "atomics");
    if (counting == &outer)
        assert_int_equal(counted, 400);
    else
        assert_true(counted > 400);
    assert_int_equal(stub->regions, 0);
    stub_free(stub);
}

static void test_stacks_either_way(void **state)
{
    const uint32_t flags = FERRY_CAP_GET | FERRY_CAP_FENCED | FERRY_CAP_QUIET_PEER | FERRY_CAP_UNREGISTERED_LOCAL;

    (void)state;
    stacked(CHAOS, COUNT_HOOK, flags);
    stacked(COUNT_HOOK, CHAOS, flags);
    stacked(CHAOS, COUNT_HOOK, flags & ~FERRY_CAP_QUIET_PEER);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_in_balance, setup, teardown),
        cmocka_unit_test_setup_teardown(test_region_leaks, setup, teardown),
        cmocka_unit_test_setup_teardown(test_allocation_leaks, setup, teardown),
        cmocka_unit_test_setup_teardown(test_region_taken_back_twice, setup, teardown),
        cmocka_unit_test_setup_teardown(test_key_leaks, setup, teardown),
        cmocka_unit_test_setup_teardown(test_channel_stays_open, setup, teardown),
        cmocka_unit_test_setup_teardown(test_operations_are_not_waited_for, setup, teardown),
        cmocka_unit_test_setup_teardown(test_a_ticket_is_dropped, setup, teardown),
        cmocka_unit_test_setup_teardown(test_a_later_ticket_implies_an_earlier_one, setup, teardown),
        cmocka_unit_test_setup_teardown(test_a_batch, setup, teardown),
        cmocka_unit_test_setup_teardown(test_what_passes, setup, teardown),
        cmocka_unit_test(test_nothing_to_wrap),
        cmocka_unit_test(test_stacks_either_way),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
