/* SPDX-License-Identifier: Apache-2.0
 * The table of defaults, older and sparse tables laid over it, posting one by one, records of other sizes.
 * One thread. */
#include "fixture.h"

static int answer_rma(struct ferry_transport *t, uint32_t channel, const struct ferry_op *op)
{
    int *script = (int *)t;

    (void)channel;
    return op->length < 8 ? script[op->length] : FERRY_ERR_ARG;
}

static int answer_amo(struct ferry_transport *t, uint32_t channel, const struct ferry_op *op)
{
    (void)t, (void)channel, (void)op;
    return FERRY_DONE;
}

static int answer_signal(struct ferry_transport *t, uint32_t channel, const struct ferry_op *op)
{
    (void)t, (void)op;
    return channel == 4 ? FERRY_AGAIN : FERRY_OK;
}

static int own_post(struct ferry_transport *t, uint32_t channel, const struct ferry_op *ops, size_t n, size_t *done)
{
    (void)t, (void)channel, (void)ops;
    *done = n;
    return FERRY_OK;
}

static int own_close(struct ferry_transport *t)
{
    (void)t;
    return 77;
}

static void test_defaults_are_complete(void **state)
{
    const struct ferry_host_ops nothing = {.size = 0};
    struct ferry_host_ops ops;
    void (*slot)(void);

    (void)state;
    fy_ops_overlay(&ops, &nothing);
    assert_int_equal(ops.size, sizeof(ops));
    for (size_t at = offsetof(struct ferry_host_ops, export_endpoint); at < sizeof(ops); at += sizeof(slot)) {
        memcpy(&slot, (const char *)&ops + at, sizeof(slot));
        assert_non_null(slot);
    }
}

static void test_defaults_that_do_nothing(void **state)
{
    const struct ferry_host_ops nothing = {.size = sizeof(nothing)};
    struct ferry_connect io = {.size = sizeof(io), .out_size = 99};
    struct ferry_error record = {.size = sizeof(record)};
    struct ferry_host_ops ops;
    char why[8] = "";

    (void)state;
    fy_ops_overlay(&ops, &nothing);
    strcpy(why, "before");
    assert_int_equal(ops.describe(NULL, 1, 2, why, sizeof(why)), FERRY_OK);
    assert_string_equal(why, "");
    assert_int_equal(ops.reach(NULL, 0, NULL, 0, why, sizeof(why)), FERRY_OK);
    assert_int_equal(ops.open_channel(NULL, 1), FERRY_OK);
    assert_int_equal(ops.close_channel(NULL, 1), FERRY_OK);
    assert_int_equal(ops.connect(NULL, 1, 2, &io), FERRY_OK);
    assert_int_equal(io.out_size, 0);
    assert_int_equal(ops.disconnect(NULL, 2), FERRY_OK);
    assert_int_equal(ops.query_error(NULL, 1, 2, &record), FERRY_OK);
    assert_int_equal(record.status, FERRY_ERR_TRANSPORT);
    assert_int_equal(record.peer, 2);
    assert_int_equal(record.channel, 1);
}

static void test_defaults_that_are_unsupported(void **state)
{
    const struct ferry_host_ops nothing = {.size = sizeof(nothing)};
    struct ferry_host_ops ops;
    struct ferry_op op = {0};
    struct ferry_caps caps = {0};
    struct ferry_region *region;
    struct ferry_rkey *key;
    uint64_t ticket = 0;
    size_t size = 9, done = 9;
    void *address;

    (void)state;
    fy_ops_overlay(&ops, &nothing);
    assert_int_equal(ops.export_endpoint(NULL, NULL, &size), FERRY_ERR_UNSUPPORTED);
    assert_int_equal(size, 0);
    assert_int_equal(ops.allocate_memory(NULL, NULL, &region), FERRY_ERR_UNSUPPORTED);
    assert_int_equal(ops.free_memory(NULL, NULL), FERRY_ERR_UNSUPPORTED);
    assert_int_equal(ops.register_memory(NULL, NULL, &region), FERRY_ERR_UNSUPPORTED);
    assert_null(region);
    assert_int_equal(ops.deregister_memory(NULL, NULL), FERRY_ERR_UNSUPPORTED);
    assert_int_equal(ops.export_key(NULL, NULL, NULL, &size), FERRY_ERR_UNSUPPORTED);
    assert_int_equal(ops.import_key(NULL, 0, NULL, 0, &key), FERRY_ERR_UNSUPPORTED);
    assert_null(key);
    assert_int_equal(ops.release_key(NULL, NULL), FERRY_ERR_UNSUPPORTED);
    assert_int_equal(ops.map_key(NULL, NULL, &address), FERRY_ERR_UNSUPPORTED);
    assert_null(address);
    assert_int_equal(ops.rma(NULL, 0, &op), FERRY_ERR_UNSUPPORTED);
    assert_int_equal(ops.amo(NULL, 0, &op), FERRY_ERR_UNSUPPORTED);
    assert_int_equal(ops.put_signal(NULL, 0, &op), FERRY_ERR_UNSUPPORTED);
    assert_int_equal(ops.post(NULL, 0, &op, 1, &done), FERRY_ERR_UNSUPPORTED);
    assert_int_equal(done, 0);
    assert_int_equal(ops.fence(NULL, 0, 0), FERRY_ERR_UNSUPPORTED);
    assert_int_equal(ops.quiet(NULL, 0, 0, &ticket), FERRY_ERR_UNSUPPORTED);
    assert_int_equal(ops.progress(NULL, 0), FERRY_ERR_UNSUPPORTED);
    assert_int_equal(ops.query(NULL, 0, &caps), FERRY_ERR_UNSUPPORTED);
    assert_int_equal(ops.close(NULL), FERRY_ERR_UNSUPPORTED);
}

/* An older minor's table ends earlier: what lies behind its end is not read, even when it is not zero. */
static void test_older_table(void **state)
{
    struct ferry_host_ops theirs = {.rma = answer_rma, .close = own_close}, ops;

    (void)state;
    theirs.size = offsetof(struct ferry_host_ops, close);
    fy_ops_overlay(&ops, &theirs);
    assert_ptr_equal(ops.rma, answer_rma);
    assert_int_equal(ops.close(NULL), FERRY_ERR_UNSUPPORTED);
    /* Half a pointer is none. */
    theirs.size = offsetof(struct ferry_host_ops, close) + 4;
    fy_ops_overlay(&ops, &theirs);
    assert_int_equal(ops.close(NULL), FERRY_ERR_UNSUPPORTED);
    theirs.size = sizeof(theirs);
    fy_ops_overlay(&ops, &theirs);
    assert_int_equal(ops.close(NULL), 77);
    assert_int_equal(ops.size, sizeof(ops));
    theirs.size = UINT32_MAX;
    fy_ops_overlay(&ops, &theirs);
    assert_int_equal(ops.close(NULL), 77);
}

static void test_post_one_by_one(void **state)
{
    int script[8] = {FERRY_OK, FERRY_DONE, FERRY_AGAIN, FERRY_ERR_PEER};
    const struct ferry_host_ops theirs = {
        .size = sizeof(theirs), .rma = answer_rma, .amo = answer_amo, .put_signal = answer_signal};
    struct ferry_op ops[4] = {{.kind = FERRY_OP_PUT, .length = 0},
                              {.kind = FERRY_OP_GET, .length = 1},
                              {.kind = FERRY_OP_AMO},
                              {.kind = FERRY_OP_PUT_SIGNAL}};
    struct fy_transport t = {.handle = (struct ferry_transport *)script};
    size_t done = 99;

    (void)state;
    fy_ops_overlay(&t.ops, &theirs);
    assert_int_equal(fy_transport_post(&t, 0, ops, 4, &done), FERRY_OK);
    assert_int_equal(done, 4);
    assert_int_equal(fy_transport_post(&t, 4, ops, 4, &done), FERRY_AGAIN);
    assert_int_equal(done, 3);
    ops[1].length = 3;
    assert_int_equal(fy_transport_post(&t, 0, ops, 4, &done), FERRY_ERR_PEER);
    assert_int_equal(done, 1);
    ops[0].kind = 9;
    assert_int_equal(fy_transport_post(&t, 0, ops, 4, &done), FERRY_ERR_ARG);
    assert_int_equal(done, 0);
    assert_int_equal(fy_transport_post(&t, 0, ops, 0, &done), FERRY_OK);
    assert_int_equal(done, 0);
}

static void test_post_of_its_own(void **state)
{
    const struct ferry_host_ops theirs = {.size = sizeof(theirs), .post = own_post};
    struct ferry_op ops[2] = {{.kind = 9}, {.kind = 9}};
    struct fy_transport t = {0};
    size_t done = 0;

    (void)state;
    fy_ops_overlay(&t.ops, &theirs);
    assert_int_equal(fy_transport_post(&t, 0, ops, 2, &done), FERRY_OK);
    assert_int_equal(done, 2);
}

/* A plugin's record may be of an older minor, and its strings may lack their end. */
static void test_record_copy(void **state)
{
    struct ferry_error theirs, ours;

    (void)state;
    memset(&theirs, 'x', sizeof(theirs));
    theirs.status = FERRY_ERR_PEER;
    theirs.size = offsetof(struct ferry_error, device) + 4;
    fy_record_copy(&ours, &theirs);
    assert_int_equal(ours.size, sizeof(ours));
    assert_int_equal(ours.status, FERRY_ERR_PEER);
    assert_string_equal(ours.device, "xxxx");
    assert_string_equal(ours.message, "");
    theirs.size = UINT32_MAX;
    fy_record_copy(&ours, &theirs);
    assert_int_equal(ours.size, sizeof(ours));
    assert_int_equal(strlen(ours.message), sizeof(ours.message) - 1);
    theirs.size = 8;
    fy_record_copy(&ours, &theirs);
    assert_int_equal(ours.peer, -1);
    assert_int_equal(ours.channel, -1);
}

static void test_outcomes_have_names(void **state)
{
    (void)state;
    for (int i = FY_FOUND; i <= FY_CHOSEN; i++) {
        const char *name = fy_outcome_string((enum fy_outcome)i);

        assert_string_not_equal(name, "unknown");
        for (int j = FY_FOUND; j < i; j++)
            assert_string_not_equal(name, fy_outcome_string((enum fy_outcome)j));
    }
}

static int own_report(const struct ferry_core *core, const struct ferry_report *ask)
{
    assert_int_equal(ask->kind, FERRY_REPORT_PLAN);
    assert_int_equal(core->watch_fd(core, 0, NULL, NULL), FERRY_ERR_STATE); /* as in probe */
    return 78;
}

/* A table that ends before the member, one without it, and one with it. */
static void test_report(void **state)
{
    struct fy_route route = {0};
    struct ferry_plugin plugin = {.size = sizeof(plugin), .report = own_report};
    struct fy_transport t = {.route = &route};
    const struct ferry_report ask = {.size = sizeof(ask), .kind = FERRY_REPORT_PLAN};

    (void)state;
    fy_services_fill(&t);
    assert_int_equal(fy_transport_report(&t, &ask), FERRY_ERR_UNSUPPORTED);
    t.plugin = &plugin;
    assert_int_equal(fy_transport_report(&t, &ask), 78);
    assert_int_equal(t.phase, FY_PHASE_IDLE);
    plugin.size = offsetof(struct ferry_plugin, report);
    assert_int_equal(fy_transport_report(&t, &ask), FERRY_ERR_UNSUPPORTED);
    plugin.size = sizeof(plugin);
    plugin.report = NULL;
    assert_int_equal(fy_transport_report(&t, &ask), FERRY_ERR_UNSUPPORTED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_defaults_are_complete),
        cmocka_unit_test(test_defaults_that_do_nothing),
        cmocka_unit_test(test_defaults_that_are_unsupported),
        cmocka_unit_test(test_older_table),
        cmocka_unit_test(test_post_one_by_one),
        cmocka_unit_test(test_post_of_its_own),
        cmocka_unit_test(test_record_copy),
        cmocka_unit_test(test_outcomes_have_names),
        cmocka_unit_test(test_report),
    };

    return cmocka_run_group_tests_name("route/parts", tests, NULL, NULL);
}
