/* SPDX-License-Identifier: Apache-2.0
 * Every verb that can fail, fails once, over the stand-in: a clear error, and everything given back.
 * Main thread. */
#include "pair.h"

#include <errno.h>
#include <stdio.h>
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

/* Each call that open makes, in the order in which it makes them, and what it says when that one fails. */
enum outcome { FAILS, WARNS, GOES_ON };
static const struct step {
    const char *call;
    int nth, error;
    enum outcome outcome;
    int status;
    const char *says, *hint;
} open_steps[] = {
    {"get_device_list", 1, ENOSYS, FAILS, FERRY_ERR_DEVICE,
     "no RDMA device: ibv_get_device_list and /sys/class/infiniband name none; load the NIC's driver",
     "ferry-info --doctor"},
    {"open_device", 1, EACCES, FAILS, FERRY_ERR_DEVICE,
     "no usable RDMA device: fake0:1 may not be opened: check /dev/infiniband and cgroups", "ferry-info --doctor"},
    {"open_device", 1, ENOENT, FAILS, FERRY_ERR_DEVICE,
     "fake0:1 has no node in /dev/infiniband: load ib_uverbs, or pass the folder into the container",
     "ferry-info --doctor"},
    {"open_device", 1, EMFILE, FAILS, FERRY_ERR_DEVICE, "no usable RDMA device: fake0:1 cannot be opened",
     "ferry-info --doctor"},
    {"open_device", 2, EACCES, FAILS, FERRY_ERR_DEVICE, "cannot open RDMA device fake0: Permission denied",
     "check the rights on /dev/infiniband and the device cgroup"},
    {"query_device", 1, EIO, FAILS, FERRY_ERR_DEVICE, "no usable RDMA device: fake0:1 cannot be queried",
     "ferry-info --doctor"},
    {"query_device", 2, EIO, FAILS, FERRY_ERR_DEVICE, "RDMA device fake0: cannot query the device: Input/output error",
     "look at the kernel log"},
    {"query_port", 1, EIO, FAILS, FERRY_ERR_DEVICE, "no usable RDMA device: fake0:1 cannot be queried",
     "ferry-info --doctor"},
    {"query_port", 2, EIO, FAILS, FERRY_ERR_DEVICE, "cannot query port fake0:1: Input/output error",
     "look at the kernel log"},
    {"query_gid", 1, EIO, GOES_ON, 0, NULL, NULL}, /* a place of the table that cannot be read is passed over */
    {"query_gid", 2, EIO, GOES_ON, 0, NULL, NULL},
    {"query_gid", 3, EIO, GOES_ON, 0, NULL, NULL},
    {"query_gid", 4, EIO, GOES_ON, 0, NULL, NULL},
    {"query_gid", 5, EIO, GOES_ON, 0, NULL, NULL},
    {"query_gid", 6, EIO, GOES_ON, 0, NULL, NULL},
    {"create_ah", 1, ETIMEDOUT, GOES_ON, 0, NULL, NULL}, /* so is an address that does not answer */
    {"create_ah", 2, ETIMEDOUT, GOES_ON, 0, NULL, NULL},
    {"query_gid", 0, EIO, FAILS, FERRY_ERR_DEVICE,
     "port fake0:1: none of the 4 places of the GID table can be used: has the interface an address, is it up?",
     "see ibv_devinfo -v for the GID table; FERRY_IBRC_GID_INDEX picks an entry"},
    {"create_ah", 0, ETIMEDOUT, FAILS, FERRY_ERR_DEVICE, "none of the 4 places of the GID table can be used",
     "FERRY_IBRC_GID_INDEX"},
    {"alloc_pd", 1, ENOMEM, FAILS, FERRY_ERR_DEVICE,
     "RDMA device fake0: cannot allocate a protection domain: Cannot allocate memory", "RLIMIT_MEMLOCK is "},
    {"create_cq", 1, EINVAL, FAILS, FERRY_ERR_DEVICE,
     "RDMA device fake0: cannot create a completion queue: Invalid argument", "look at the kernel log"},
    {"reg_mr", 1, ENOMEM, FAILS, FERRY_ERR_DEVICE,
     "RDMA device fake0: cannot register a page of memory: Cannot allocate memory", "RLIMIT_MEMLOCK is "},
    {"create_qp", 1, ENOSPC, FAILS, FERRY_ERR_TRANSPORT,
     "cannot create a queue pair on fake0:1: No space left on device", "lower FERRY_IBRC_QUEUE_DEPTH"},
    /* the trial of an atomic: without it the targets' CPUs do them */
    {"reg_mr", 2, ENOMEM, WARNS, 0, "fake0:1: atomics by the targets' CPUs, since one that was tried failed: Cannot",
     NULL},
    {"modify_init", 1, EINVAL, WARNS, 0, "cannot go to INIT: Invalid argument", NULL},
    {"modify_rtr", 1, ETIMEDOUT, WARNS, 0, "cannot go to RTR: Connection timed out", NULL},
    {"modify_rts", 1, EINVAL, WARNS, 0, "cannot go to RTS: Invalid argument", NULL},
    {"post_send", 1, ENOMEM, WARNS, 0, "atomics by the targets' CPUs, since one that was tried failed: Cannot", NULL},
    {"poll_cq", 1, EIO, WARNS, 0, "since one that was tried failed: the completion queue cannot be polled", NULL},
};

static const struct step *step_of(const char *call, int nth)
{
    for (size_t i = 0; i < sizeof open_steps / sizeof open_steps[0]; i++)
        if (strcmp(open_steps[i].call, call) == 0 && open_steps[i].nth == nth)
            return &open_steps[i];
    fail_msg("open calls %s for the %dth time: there is no row for that", call, nth);
    return NULL;
}

static int open_alone(struct stub *stub, struct ferry_transport **t)
{
    struct ferry_open how = {.size = sizeof how, .n_pes = 2, .max_channels = 16, .job_id = 1};

    stub_init(stub, NULL);
    return plugin()->open(&stub->core, &how, t);
}

static void try_step(const struct step *step)
{
    struct ferry_transport *t = NULL;
    struct stub stub;
    int rc;

    fakeverbs_fail(step->call, step->nth, step->error);
    rc = open_alone(&stub, &t);
    fakeverbs_fail("", 0, 0);
    assert_int_equal(rc, step->status);
    assert_int_equal(stub.errors, step->outcome == FAILS);
    assert_int_equal(stub.warnings, step->outcome == WARNS);
    if (step->outcome == FAILS) {
        assert_int_equal(stub.last.status, rc);
        assert_says(stub.last.message, step->says);
        assert_says(stub.last.hint, step->hint);
    } else {
        if (step->says)
            assert_says(stub.warning, step->says);
        assert_int_equal(ops()->close(t), FERRY_OK);
    }
    assert_int_equal(fakeverbs_live(), 0);
}

static void test_open_steps(void **state)
{
    static const char *const calls[] = {
        "get_device_list",    "open_device", "query_device", "query_port",   "query_gid",   "create_ah",
        "alloc_pd",           "create_cq",   "reg_mr",       "create_qp",    "modify_init", "modify_rtr",
        "modify_rts",         "post_send",   "poll_cq",      "create_cq_ex", "alloc_td",    "reg_dmabuf_mr",
        "alloc_parent_domain"};

    (void)state;
    for (size_t i = 0; i < sizeof open_steps / sizeof open_steps[0]; i++)
        try_step(&open_steps[i]);
    for (size_t i = 0; i < sizeof calls / sizeof calls[0]; i++) /* has each call a row? */
        for (int nth = 1, unused = 0; !unused; nth++) {
            struct ferry_transport *t = NULL;
            struct stub stub;
            fakeverbs_fail(calls[i], nth, EIO);
            int rc = open_alone(&stub, &t);
            unused = fakeverbs_unused();
            fakeverbs_fail("", 0, 0);
            if (!rc)
                ops()->close(t);
            if (!unused)
                step_of(calls[i], nth);
        }
    assert_int_equal(fakeverbs_live(), 0);
}

static void test_bad_options(void **state)
{
    static const char *const sets[][3] = {{"gid_index", "3", NULL},     {"timeout", "40", NULL},
                                          {"queue_depth", "1", NULL},   {"devices", "^fake0", NULL},
                                          {"devices", "nothere", NULL}, {"pkey_index", "1", NULL}};
    static const char *const says[] = {
        "no GID at index 3",         "FERRY_IBRC_TIMEOUT=40 is not between 1 and 31", "FERRY_IBRC_QUEUE_DEPTH=1",
        "not in FERRY_IBRC_DEVICES", "names nothere, which is no device here",        "no partition key at index 1"};

    (void)state;
    for (size_t i = 0; i < 6; i++) {
        struct side s;
        assert_int_not_equal(side_open(&s, 0, sets[i]), FERRY_OK);
        assert_non_null(strstr(s.stub.last.message, says[i]));
        assert_int_equal(fakeverbs_live(), 0);
    }
}

/* A place of the table may be empty; what cannot be read is not held against it. */
static void test_partition_key(void **state)
{
    struct side s;

    (void)state;
    fakeverbs_pkey(0x8000);
    assert_int_equal(side_open(&s, 0, NULL), FERRY_ERR_CONFIG);
    assert_says(s.stub.last.message, "port fake0:1: there is no partition key at index 0 (FERRY_IBRC_PKEY_INDEX), the "
                                     "table has 1 places and this one is empty");
    assert_says(s.stub.last.hint, "see /sys/class/infiniband/*/ports/*/pkeys");
    assert_int_equal(fakeverbs_live(), 0);
    fakeverbs_fail("query_pkey", 1, EIO);
    assert_int_equal(side_open(&s, 0, NULL), FERRY_OK);
    side_close(&s);
    fakeverbs_pkey(0x7fff);
    assert_int_equal(side_open(&s, 0, NULL), FERRY_OK);
    side_close(&s);
    fakeverbs_pkey(0xffff);
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

/* Each call that a connection makes: at which end it fails, and what that end says. */
static const struct connect_step {
    const char *call;
    int nth, error, end; /* -1: it goes on */
    const char *says, *hint;
} connect_steps[] = {
    {"alloc_td", 1, ENOMEM, -1, NULL, NULL}, /* the channel's objects have locks then */
    {"alloc_parent_domain", 1, ENOMEM, -1, NULL, NULL},
    {"create_cq", 1, ENOMEM, 0, "cannot create a completion queue of 576 entries on fake0: Cannot allocate memory",
     "RLIMIT_MEMLOCK is "},
    {"create_qp", 1, ENOSPC, 0, "cannot create a queue pair on fake0:1: No space left on device",
     "lower FERRY_IBRC_QUEUE_DEPTH, or see the limits in ibv_devinfo -v"},
    {"create_qp", 2, ENOSPC, 1, "cannot create a queue pair on fake0:1: No space left on device",
     "lower FERRY_IBRC_QUEUE_DEPTH, or see the limits in ibv_devinfo -v"},
    {"modify_init", 1, EINVAL, 0, "on fake0:1 cannot go to INIT: Invalid argument",
     "is there a partition key at FERRY_IBRC_PKEY_INDEX?"},
    {"modify_init", 2, EINVAL, 1, "on fake0:1 cannot go to INIT: Invalid argument",
     "is there a partition key at FERRY_IBRC_PKEY_INDEX?"},
    {"modify_rtr", 1, ETIMEDOUT, 1, "on fake0:1 cannot go to RTR: Connection timed out",
     "is there a route between the two ports' addresses? FERRY_IBRC_GID_INDEX picks another, FERRY_IBRC_MTU"},
    {"modify_rtr", 2, ETIMEDOUT, 0, "on fake0:1 cannot go to RTR: Connection timed out",
     "is there a route between the two ports' addresses?"},
    {"modify_rts", 1, EINVAL, 0, "cannot go to RTS: Invalid argument", "see the limits in ibv_devinfo -v"},
};

/* The end that failed says why; the next attempt succeeds, and leaves no more than a connection has. */
static void fail_and_repeat(struct pair *p, const struct connect_step *step, uint32_t channel)
{
    struct ferry_error e = {.size = sizeof e};
    struct fakeverbs_counts before = fakeverbs_counts(), after;

    fakeverbs_fail(step->call, step->nth, step->error);
    assert_int_equal(pair_connect(p, channel, 0, 1), step->end < 0 ? FERRY_OK : FERRY_ERR_TRANSPORT);
    fakeverbs_fail("", 0, 0);
    if (step->end >= 0) {
        ops()->query_error(p->pe[step->end].t, channel, FERRY_PEER_ALL, &e);
        assert_int_equal(e.status, FERRY_ERR_TRANSPORT);
        assert_int_equal(e.library_status, step->error);
        assert_says(e.message, step->says);
        assert_says(e.hint, step->hint);
        assert_int_equal(pair_connect(p, channel, 0, 1), FERRY_OK);
    }
    struct ferry_op op = put_op(p, 0, 8, 8);
    assert_int_equal(ops()->rma(p->pe[0].t, channel, &op), FERRY_DONE);
    assert_int_equal(side_quiet(&p->pe[0], channel, 1), FERRY_OK);
    after = fakeverbs_counts();
    assert_int_equal(after.cqs, before.cqs + 1);
    /* one that was bound to its peer is of no more use, and goes with its channel */
    int bound = step->end == 0 && (strcmp(step->call, "modify_rtr") == 0 || strcmp(step->call, "modify_rts") == 0);
    assert_in_range(after.qps, before.qps + 2, before.qps + 2 + bound);
    assert_int_equal(after.pds - before.pds, after.tds - before.tds);
}

static void test_connect_steps(void **state)
{
    static const char *const calls[] = {"alloc_td",   "alloc_parent_domain", "create_cq", "create_qp",  "modify_init",
                                        "modify_rtr", "modify_rts",          "reg_mr",    "create_ah",  "query_gid",
                                        "query_port", "query_device",        "alloc_pd",  "open_device"};
    const size_t n = sizeof connect_steps / sizeof connect_steps[0];
    struct pair p;

    (void)state;
    pair_open(&p, NULL);
    for (uint32_t i = 0; i < n; i++)
        fail_and_repeat(&p, &connect_steps[i], i + 1);
    pair_close(&p);
    for (size_t i = 0; i < sizeof calls / sizeof calls[0]; i++) /* has each call a row? */
        for (int nth = 1, unused = 0; !unused; nth++) {
            size_t row = 0;
            pair_open(&p, NULL);
            fakeverbs_fail(calls[i], nth, ENOSPC);
            pair_connect(&p, 1, 0, 1);
            unused = fakeverbs_unused();
            fakeverbs_fail("", 0, 0);
            pair_close(&p);
            while (row < n && (strcmp(connect_steps[row].call, calls[i]) != 0 || connect_steps[row].nth != nth))
                row++;
            if (!unused && row == n)
                fail_msg("a connection calls %s for the %dth time: there is no row for that", calls[i], nth);
        }
}

/* Nobody would hear of events: not silently. */
static void test_no_events(void **state)
{
    struct ferry_error e = {.size = sizeof e};
    uint8_t endpoint[FERRY_ENDPOINT_MAX];
    struct ferry_transport *t = NULL;
    struct stub stub;
    size_t size;

    (void)state;
    assert_int_equal(open_alone(&stub, &t), FERRY_OK);
    stub.deaf = 1;
    assert_int_equal(ops()->export_endpoint(t, endpoint, &size), FERRY_ERR_SYSTEM);
    ops()->query_error(t, 0, FERRY_PEER_ALL, &e);
    assert_says(e.message, "cannot watch the events of RDMA device fake0");
    assert_int_equal(ops()->close(t), FERRY_OK);
    assert_int_equal(fakeverbs_live(), 0);
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

static void says(struct pair *p, uint32_t channel, uint32_t peer, const char *words)
{
    char text[160] = "before";

    assert_int_equal(ops()->describe(p->pe[0].t, channel, peer, text, sizeof text), FERRY_OK);
    if (*words)
        assert_says(text, words);
    else
        assert_string_equal(text, "");
}

/* For the report on a job that hangs: the state that the device says, and how far the requests are. */
static void test_description(void **state)
{
    struct pair p;
    struct ferry_op op;
    char name[64], text[8];

    (void)state;
    pair_open(&p, NULL);
    snprintf(name, sizeof name, "fake0:1 queue pair 0x%x RTS, ", initiator_qp());
    says(&p, 0, 1, name);
    fakeverbs_delay(0, FAKEVERBS_READS, 20, 0);
    op = put_op(&p, 0, 64, 8);
    op.kind = FERRY_OP_GET;
    assert_true(ops()->rma(p.pe[0].t, 0, &op) >= 0);
    says(&p, 0, 1, "RTS, 1 requests posted, 0 complete");
    fakeverbs_delay(0, 0, 0, 0);
    assert_int_equal(side_quiet(&p.pe[0], 0, 1), FERRY_OK);
    fakeverbs_fail("query_qp", 1, EINVAL);
    says(&p, 0, 1, "of unknown state, ");
    fakeverbs_complete(1, IBV_WC_RETRY_EXC_ERR, 0);
    op.kind = FERRY_OP_PUT;
    assert_true(ops()->rma(p.pe[0].t, 0, &op) >= 0);
    assert_int_equal(side_quiet(&p.pe[0], 0, 1), FERRY_ERR_PEER);
    says(&p, 0, 1, "ERR, ");
    says(&p, 0, 1, " complete, failed");
    says(&p, 0, 0, ""); /* not connected; no such channel, peer */
    says(&p, 1, 1, "");
    says(&p, FERRY_CHANNEL_SERVICE, 1, "");
    says(&p, 0, FERRY_PEER_ALL, "");
    assert_int_equal(ops()->describe(p.pe[0].t, 0, 1, text, sizeof text), FERRY_OK);
    assert_string_equal(text, "fake0:1"); /* cut */
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
        cmocka_unit_test(test_probe),        cmocka_unit_test(test_open_steps),
        cmocka_unit_test(test_bad_options),  cmocka_unit_test(test_partition_key),
        cmocka_unit_test(test_memory_limit), cmocka_unit_test(test_connect_steps),
        cmocka_unit_test(test_no_events),    cmocka_unit_test(test_description),

        cmocka_unit_test(test_peer_gone),    cmocka_unit_test(test_lesser_devices),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
