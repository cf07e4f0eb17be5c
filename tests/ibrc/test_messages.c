/* SPDX-License-Identifier: Apache-2.0
 * What else a user can be told, over the stand-in: devices that are too small, PEs that do not fit together, memory
 * that was not registered, a peer that left. Main thread. */
#include "pair.h"

#include <stdio.h>
#include <string.h>

static void told(const struct side *s, uint32_t channel, uint32_t peer, int status, const char *message,
                 const char *hint)
{
    struct ferry_error e = {.size = sizeof e};

    assert_int_equal(ops()->query_error(s->t, channel, peer, &e), FERRY_OK);
    assert_int_equal(e.status, status);
    assert_says(e.message, message);
    assert_says(e.hint, hint);
}

/* Completion queues that have no room for a request of each peer, and inline data that shrank. */
static void test_small_devices(void **state)
{
    struct side s;
    struct pair p;

    (void)state;
    fakeverbs_entries(20);
    assert_int_equal(side_open(&s, 0, NULL), FERRY_OK);
    assert_int_equal(ops()->open_channel(s.t, 0), FERRY_ERR_LIMIT);
    told(&s, 0, FERRY_PEER_ALL, FERRY_ERR_LIMIT,
         "RDMA device fake0 has completion queues of 20 entries, too few for 2 PEs", "use fewer PEs per job");
    side_close(&s);
    fakeverbs_entries(0);
    fakeverbs_inline(6);
    assert_int_equal(side_open(&s, 0, NULL), FERRY_ERR_DEVICE);
    assert_says(s.stub.last.message, "RDMA device fake0 inlines 6 bytes; 8 are needed");
    fakeverbs_inline(512);
    pair_open(&p, NULL);
    fakeverbs_inline(60);
    assert_int_equal(pair_connect(&p, 1, 0, 1), FERRY_ERR_TRANSPORT);
    told(&p.pe[0], 1, 1, FERRY_ERR_TRANSPORT, "inlines 55 bytes, others of this PE 220",
         "set FERRY_IBRC_INLINE_SIZE lower");
    fakeverbs_inline(512); /* the next attempt takes that queue pair up again */
    assert_int_equal(pair_connect(&p, 1, 0, 1), FERRY_ERR_TRANSPORT);
    told(&p.pe[0], 1, 1, FERRY_ERR_TRANSPORT, "inlines 55 bytes, others of this PE 220",
         "set FERRY_IBRC_INLINE_SIZE lower");
    pair_close(&p);
}

static void test_ports(void **state)
{
    static const struct {
        struct fakeverbs_shape shape;
        const char *says;
    } rows[] = {
        {{.link_layer = 9}, "fake0:1 has a link layer that is not known"},
        {{.state = IBV_PORT_INIT}, "fake0:1 is down"},
        {{.other_kind = 1}, "fake0:1 is no InfiniBand or RoCE device"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct side s;
        fakeverbs_shape(0, &rows[i].shape);
        assert_int_equal(side_open(&s, 0, NULL), FERRY_ERR_DEVICE);
        assert_says(s.stub.last.message, rows[i].says);
        assert_says(s.stub.last.message, "no usable RDMA device");
        fakeverbs_shape(0, NULL);
        assert_int_equal(fakeverbs_live(), 0);
    }
}

/* Opens PE 0 as it is now, PE 1 after `change`, and asks each about the other. */
static void do_not_fit(void (*change)(int on), const char *const *set, const char *first, const char *second)
{
    char why[256] = "";
    struct pair p;

    assert_int_equal(side_open(&p.pe[0], 0, NULL), FERRY_OK);
    change(1);
    assert_int_equal(side_open(&p.pe[1], 1, set), FERRY_OK);
    change(0);
    for (int i = 0; i < 2; i++) {
        const struct side *other = &p.pe[!i];
        assert_int_equal(ops()->reach(p.pe[i].t, (uint32_t)!i, other->endpoint, other->endpoint_size, why, sizeof why),
                         FERRY_ERR_UNREACHABLE);
        assert_says(why, i ? second : first);
    }
    pair_close(&p);
}

static void without_atomics(int on)
{
    fakeverbs_atomics(on ? IBV_ATOMIC_NONE : IBV_ATOMIC_HCA);
}

static void infiniband(int on)
{
    static const struct fakeverbs_shape shape = {.link_layer = IBV_LINK_LAYER_INFINIBAND, .lid = 3};

    fakeverbs_shape(0, on ? &shape : NULL);
}

static void test_do_not_fit(void **state)
{
    (void)state;
    do_not_fit(without_atomics, NULL, "atomics are done by the CPU of that PE and by the device of this one",
               "atomics are done by the device of that PE and by the CPU of this one; use devices of one kind");
    do_not_fit(infiniband, NULL, "rail 0: one port is Ethernet (RoCE), the other InfiniBand",
               "rail 0: one port is Ethernet (RoCE), the other InfiniBand");
}

/* Both on InfiniBand, and only one by GID. */
static void test_lid_and_gid(void **state)
{
    static const char *const by_gid[] = {"gid_index", "1", NULL};
    char why[256] = "";
    struct pair p;

    (void)state;
    infiniband(1);
    assert_int_equal(side_open(&p.pe[0], 0, NULL), FERRY_OK);
    assert_int_equal(side_open(&p.pe[1], 1, by_gid), FERRY_OK);
    assert_int_equal(ops()->reach(p.pe[0].t, 1, p.pe[1].endpoint, p.pe[1].endpoint_size, why, sizeof why),
                     FERRY_ERR_UNREACHABLE);
    assert_says(why, "one side addresses by GID, the other by LID; set FERRY_IBRC_GID_INDEX alike");
    pair_close(&p);
    infiniband(0);
}

/* What a peer of another build sends. */
static void test_foreign(void **state)
{
    uint8_t junk[FERRY_ENDPOINT_MAX], out[FERRY_ENDPOINT_MAX];
    char why[200] = "";
    struct ferry_connect io = {.size = sizeof io, .in = junk, .in_size = 40, .out = out};
    struct ferry_rkey *key;
    struct pair p;

    (void)state;
    memset(junk, 0x41, sizeof junk);
    pair_open(&p, NULL);
    io.phase = FERRY_CONNECT_SERVE;
    assert_int_equal(ops()->connect(p.pe[1].t, 0, 0, &io), FERRY_ERR_MISMATCH);
    told(&p.pe[1], 1, 0, FERRY_ERR_MISMATCH, "what pe 0 sent to connect cannot be read",
         "run the same build on all hosts");
    assert_int_equal(ops()->reach(p.pe[1].t, 0, junk, 40, why, sizeof why), FERRY_ERR_UNREACHABLE);
    assert_says(why, "its address is not of this ibrc: run the same build on all hosts");
    assert_int_equal(ops()->import_key(p.pe[1].t, 0, junk, FERRY_KEY_MAX, &key), FERRY_ERR_MISMATCH);
    told(&p.pe[1], 1, 0, FERRY_ERR_MISMATCH, "the key from pe 0 is not of ibrc", "run the same build on all hosts");
    pair_close(&p);
}

/* The answer to START cannot be read, either; the connection can be made again. */
static void test_foreign_answer(void **state)
{
    uint8_t request[FERRY_ENDPOINT_MAX], junk[40] = {1};
    struct pair p;

    (void)state;
    pair_open(&p, NULL);
    struct ferry_connect io = {.size = sizeof io, .phase = FERRY_CONNECT_START, .out = request};
    assert_int_equal(ops()->connect(p.pe[0].t, 1, 1, &io), FERRY_OK);
    io = (struct ferry_connect){
        .size = sizeof io, .phase = FERRY_CONNECT_FINISH, .in = junk, .in_size = sizeof junk, .out = request};
    assert_int_equal(ops()->connect(p.pe[0].t, 1, 1, &io), FERRY_ERR_MISMATCH);
    told(&p.pe[0], 1, 1, FERRY_ERR_MISMATCH, "what pe 1 sent to connect cannot be read", "run the same build");
    assert_int_equal(pair_connect(&p, 1, 0, 1), FERRY_OK);
    pair_close(&p);
}

static void test_memory(void **state)
{
    struct ferry_memory memory = {.size = sizeof memory, .kind = 7, .length = 4096, .fd = -1};
    uint8_t blob[FERRY_KEY_MAX];
    struct ferry_region *region;
    struct pair p;
    size_t size;

    (void)state;
    pair_open(&p, NULL);
    memory.address = p.pe[0].memory;
    assert_int_equal(ops()->register_memory(p.pe[0].t, &memory, &region), FERRY_ERR_UNSUPPORTED);
    told(&p.pe[0], 1, FERRY_PEER_ALL, FERRY_ERR_UNSUPPORTED, "ibrc registers host and GPU memory, not kind 7",
         "put through host memory");
    for (int get = 0; get < 2; get++) {
        struct ferry_op op = put_op(&p, 0, 0, 4000);
        op.kind = get ? FERRY_OP_GET : FERRY_OP_PUT;
        op.region = NULL;
        assert_int_equal(ops()->rma(p.pe[0].t, 0, &op), FERRY_ERR_ARG);
        told(&p.pe[0], 0, 1, FERRY_ERR_ARG, "4000 bytes at ", "register the memory");
        told(&p.pe[0], 0, 1, FERRY_ERR_ARG, " are not registered with ibrc", "register the memory");
    }
    pair_close(&p);
    fakeverbs_memory(4096); /* so that a region has as many pieces as no key has room for */
    assert_int_equal(side_open(&p.pe[0], 0, NULL), FERRY_OK);
    memory = (struct ferry_memory){.size = sizeof memory, .length = MEMORY, .fd = -1, .remote = 1};
    static char large[512 * 4096] __attribute__((aligned(4096)));
    memory.address = large;
    memory.length = sizeof large;
    assert_int_equal(ops()->register_memory(p.pe[0].t, &memory, &region), FERRY_OK);
    assert_int_equal(ops()->export_key(p.pe[0].t, region, blob, &size), FERRY_ERR_LIMIT);
    told(&p.pe[0], 1, FERRY_PEER_ALL, FERRY_ERR_LIMIT, "2097152 bytes are 512 registrations of the RDMA devices in use",
         "make the heap smaller, or use fewer rails");
    side_close(&p.pe[0]);
    fakeverbs_memory(UINT64_MAX);
    assert_int_equal(fakeverbs_live(), 0);
}

/* Its queue pairs say so; what was in flight counts as lost. */
static void test_peer_left(void **state)
{
    struct pair p;

    (void)state;
    pair_open(&p, NULL);
    struct ferry_op op = put_op(&p, 0, 0, 8);
    assert_int_equal(ops()->disconnect(p.pe[0].t, 1), FERRY_OK);
    assert_int_equal(side_quiet(&p.pe[0], 0, FERRY_PEER_ALL), FERRY_ERR_PEER);
    op.flags = FERRY_OP_FENCED;
    assert_int_equal(ops()->rma(p.pe[0].t, 0, &op), FERRY_ERR_PEER);
    told(&p.pe[0], 0, 1, FERRY_ERR_PEER, "fake0:1: channel 0 to pe 1, queue pair 0x", "");
    told(&p.pe[0], 0, 1, FERRY_ERR_PEER, ": the peer is gone", "");
    pair_close(&p);
}

/* Addresses of another family do not suit the peers that know the first; the atomic of open never came back. */
static void test_kinds_and_trial(void **state)
{
    static const struct fakeverbs_shape six = {
        .n_gids = 1, .gids = {{.raw = {0x20, 1, 0xd, 0xb8, [15] = 1}, .type = IBV_GID_TYPE_ROCE_V2}}};
    struct side s;
    struct pair p;

    (void)state;
    pair_open(&p, NULL);
    fakeverbs_shape(0, &six);
    fakeverbs_event("fake0", IBV_EVENT_GID_CHANGE, 1);
    p.pe[0].stub.fn(p.pe[0].stub.arg);
    assert_says(p.pe[0].stub.warning,
                "port fake0:1 has another table of gids, but its addresses are of another kind now: "
                "connections are made with its old address");
    fakeverbs_shape(0, NULL);
    pair_close(&p);
    fakeverbs_delay(0, FAKEVERBS_ATOMICS, 2000000000, 0);
    assert_int_equal(side_open(&s, 0, NULL), FERRY_OK);
    assert_says(s.stub.warning, "fake0:1: atomics by the targets' CPUs, since one that was tried failed: no completion "
                                "within 2 s");
    fakeverbs_delay(0, 0, 0, 0);
    side_close(&s);
    assert_int_equal(fakeverbs_live(), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_small_devices), cmocka_unit_test(test_ports),     cmocka_unit_test(test_do_not_fit),
        cmocka_unit_test(test_lid_and_gid),   cmocka_unit_test(test_foreign),   cmocka_unit_test(test_foreign_answer),
        cmocka_unit_test(test_memory),        cmocka_unit_test(test_peer_left), cmocka_unit_test(test_kinds_and_trial),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
