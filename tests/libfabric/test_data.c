/* SPDX-License-Identifier: Apache-2.0
 * Operations of the plugin over the provider that the environment names: values, tickets, limits, ends. Main thread. */
#include "pair.h"

#include <rdma/fabric.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PLACE ((uint64_t)1 << 20)

/* The provider's options, and those of a test behind them. */
static const char *const *with(const char *name, const char *value)
{
    static const char *set[9];
    const char *virt = getenv("TEST_VIRT");

    set[0] = "provider";
    set[1] = getenv("TEST_PROVIDER") ? getenv("TEST_PROVIDER") : "tcp;ofi_rxm";
    set[2] = "mr_virt_addr";
    set[3] = virt ? virt : "auto";
    set[4] = name;
    set[5] = value;
    set[6] = NULL;
    return set;
}

static void put_done(struct pair *p, uint64_t from, uint64_t to, size_t length, uint32_t flags)
{
    struct ferry_op op = put_op(p, from, to, length);
    int rc;

    op.flags = flags;
    rc = pair_post(p, &op);
    assert_true(rc == FERRY_OK || rc == FERRY_DONE);
    if (flags & FERRY_OP_COPY) {
        assert_int_equal(rc, FERRY_DONE);
        memset(p->pe[0].memory + from, 0xee, length); /* the source is free */
    }
}

static void fill(char *memory, size_t length, unsigned seed)
{
    for (size_t i = 0; i < length; i++)
        memory[i] = (char)(seed + i * 31 + i / 251);
}

static void check_put(struct pair *p, size_t length, uint32_t flags)
{
    char *want = malloc(length + 1);

    fill(want, length, (unsigned)length);
    memcpy(p->pe[0].memory, want, length);
    memset(p->pe[1].memory + PLACE, 0, length + 1);
    put_done(p, 0, PLACE, length, flags);
    assert_int_equal(pair_quiet(p), FERRY_OK);
    assert_memory_equal(p->pe[1].memory + PLACE, want, length);
    assert_int_equal(p->pe[1].memory[PLACE + length], 0);
    free(want);
}

static void put_and_get(const char *const *set)
{
    static const size_t lengths[] = {1, 7, 8, 64, 65, 255, 256, 257, 4096, 4097, 65536, 1 << 20, 2000003};
    struct pair p;
    size_t copy;

    pair_open(&p, set);
    copy = caps_of(&p.pe[0]).copy_max;
    for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
        struct ferry_op get = put_op(&p, 0, PLACE, lengths[i]);
        check_put(&p, lengths[i], 0);
        if (lengths[i] <= copy)
            check_put(&p, lengths[i], FERRY_OP_COPY);
        get.kind = FERRY_OP_GET;
        memset(p.pe[0].memory, 0, lengths[i]);
        assert_int_equal(pair_post(&p, &get), FERRY_OK);
        assert_int_equal(pair_quiet(&p), FERRY_OK);
        assert_memory_equal(p.pe[0].memory, p.pe[1].memory + PLACE, lengths[i]);
    }
    put_done(&p, 0, PLACE, 0, 0);
    assert_int_equal(pair_quiet(&p), FERRY_OK);
    pair_close(&p);
}

static void test_put_and_get(void **state)
{
    (void)state;
    put_and_get(with("quiet", "auto"));
}

static void test_put_and_get_with_delivery(void **state)
{
    (void)state;
    put_and_get(with("quiet", "dc"));
    put_and_get(with("quiet", "fence_dc")); /* without FI_FENCE: as dc */
    put_and_get(with("inject_size", "0"));
}

static uint64_t word_of(const struct pair *p, unsigned width)
{
    uint32_t half;
    uint64_t word;

    memcpy(&half, p->pe[1].memory + PLACE, 4);
    memcpy(&word, p->pe[1].memory + PLACE, 8);
    return width == 4 ? half : word;
}

/* One kind: the value before, and after. */
static void one_kind(struct pair *p, unsigned width, int kind, uint64_t operand, uint64_t before, uint64_t after)
{
    struct ferry_op op = amo_op(p, PLACE, kind, width, operand);
    uint64_t old = 0x7777777777777777u;
    uint32_t kinds = width == 4 ? caps_of(&p->pe[0]).amo32 : caps_of(&p->pe[0]).amo64;

    memset(p->pe[1].memory + PLACE, 0, 16);
    memcpy(p->pe[1].memory + PLACE, &before, width);
    op.compare = before;
    assert_true(kinds & FERRY_AMO_FETCH_BIT(kind));
    op.flags = FERRY_OP_FETCH;
    memcpy(p->pe[0].memory + 64, &old, 8);
    op.local = p->pe[0].memory + 64;
    op.region = p->pe[0].region;
    assert_int_equal(pair_post(p, &op), FERRY_OK);
    assert_int_equal(pair_quiet(p), FERRY_OK);
    assert_memory_equal(p->pe[0].memory + 64, &before, width);
    assert_int_equal(word_of(p, width), after);
    assert_int_equal(*(uint64_t *)(void *)(p->pe[1].memory + PLACE + 8), 0); /* nothing beside it */
    if (!(kinds & FERRY_AMO_BIT(kind)))
        return;
    memcpy(p->pe[1].memory + PLACE, &before, width);
    op.flags = 0;
    op.local = NULL;
    op.region = NULL;
    assert_true(pair_post(p, &op) >= 0);
    assert_int_equal(pair_quiet(p), FERRY_OK);
    assert_int_equal(word_of(p, width), after);
}

static void atomics(const char *const *set)
{
    struct pair p;

    pair_open(&p, set);
    for (unsigned width = 4; width <= 8; width += 4) {
        uint64_t big = width == 4 ? 0xfedcba98u : 0xfedcba9876543210u, ones = width == 4 ? UINT32_MAX : UINT64_MAX;
        one_kind(&p, width, FERRY_AMO_SET, big, 5, big);
        one_kind(&p, width, FERRY_AMO_ADD, 2, ones, 1);
        one_kind(&p, width, FERRY_AMO_AND, 12, 10, 8);
        one_kind(&p, width, FERRY_AMO_OR, 12, 10, 14);
        one_kind(&p, width, FERRY_AMO_XOR, 12, 10, 6);
        one_kind(&p, width, FERRY_AMO_SWAP, big, 3, big);
        one_kind(&p, width, FERRY_AMO_CSWAP, big, 3, big);
        one_kind(&p, width, FERRY_AMO_FETCH, 0, big, big);
    }
    pair_close(&p);
}

static void test_atomics(void **state)
{
    (void)state;
    atomics(with("quiet", "auto"));
    atomics(with("quiet", "dc"));
    atomics(with("inject_size", "0"));
}

/* More than there are slots, with nobody serving for a while: AGAIN, and then all of it. A thread of sockets serves always, and may
 * free a slot each time one is wanted. */
static void test_depth(void **state)
{
    const char *provider = getenv("TEST_PROVIDER");
    struct pair p;
    uint64_t again = 0;

    (void)state;
    pair_open(&p, with("queue_depth", "16"));
    assert_int_equal(caps_of(&p.pe[0]).queue_depth, 16);
    for (uint64_t i = 0; i < 3000; i++) {
        struct ferry_op put = put_op(&p, 0, PLACE, 8), add = amo_op(&p, PLACE + 64, FERRY_AMO_ADD, 8, i);
        int rc = ops()->rma(p.pe[0].t, 0, &put);
        again += rc == FERRY_AGAIN;
        assert_true(rc >= 0);
        if (rc == FERRY_AGAIN)
            assert_true(pair_post(&p, &put) >= 0);
        assert_true(pair_post(&p, &add) >= 0);
    }
    assert_true(again > 0 || (provider && !strcmp(provider, "sockets")));
    assert_int_equal(pair_quiet(&p), FERRY_OK);
    assert_int_equal(*(uint64_t *)(void *)(p.pe[1].memory + PLACE + 64), 3000 * 2999 / 2);
    pair_close(&p);
}

/* More than shm has room for is cut to that, with a word; nothing fails at first contact. */
static void test_depth_bounded(void **state)
{
    const char *provider = getenv("TEST_PROVIDER");
    struct pair p;

    (void)state;
    pair_open(&p, with("queue_depth", "2048"));
    if (provider && !strcmp(provider, "shm")) {
        assert_int_equal(caps_of(&p.pe[0]).queue_depth, 1022);
        assert_says(p.pe[0].stub.warning, "FERRY_LIBFABRIC_QUEUE_DEPTH=2048 is more than provider shm has room for: 1022 are");
    } else {
        assert_int_equal(caps_of(&p.pe[0]).queue_depth, 2048);
        assert_string_equal(p.pe[0].stub.warning, "");
    }
    for (uint64_t i = 0; i < 3000; i++) {
        struct ferry_op add = amo_op(&p, PLACE + 64, FERRY_AMO_ADD, 8, i);
        assert_true(pair_post(&p, &add) >= 0);
    }
    assert_int_equal(pair_quiet(&p), FERRY_OK);
    assert_int_equal(*(uint64_t *)(void *)(p.pe[1].memory + PLACE + 64), 3000 * 2999 / 2);
    pair_close(&p);
}

/* A ticket covers what was posted before it; what is posted later neither delays it nor is covered. */
static void test_tickets(void **state)
{
    struct pair p;
    uint64_t one = 0, all = 0, none = 0;
    double end = seconds() + 30;
    int good = 0;

    (void)state;
    pair_open(&p, with("quiet", "auto"));
    assert_int_equal(pair_quiet(&p), FERRY_OK);
    assert_int_equal(ops()->quiet(p.pe[0].t, 0, 1, &none), FERRY_OK);
    put_done(&p, 0, PLACE, 8, 0);
    ops()->quiet(p.pe[0].t, 0, 1, &one);
    ops()->quiet(p.pe[0].t, 0, FERRY_PEER_ALL, &all);
    while (good != 3 && seconds() < end) { /* and go on posting */
        struct ferry_op more = put_op(&p, 0, PLACE + 4096, 8);
        assert_true(ops()->rma(p.pe[0].t, 0, &more) >= 0);
        pair_serve(&p);
        if (!(good & 1) && ops()->quiet(p.pe[0].t, 0, 1, &one) == FERRY_OK)
            good |= 1;
        if (!(good & 2) && ops()->quiet(p.pe[0].t, 0, FERRY_PEER_ALL, &all) == FERRY_OK)
            good |= 2;
    }
    assert_int_equal(good, 3);
    pair_close(&p);
}

/* Data arrives with its put, once each, and says from whom. */
static void remote_data(const char *const *set)
{
    struct pair p;
    uint64_t sum = 0;
    double end = seconds() + 30;

    pair_open(&p, set);
    assert_true(caps_of(&p.pe[0]).flags & FERRY_CAP_REMOTE_DATA);
    for (uint32_t i = 0; i < 200; i++) {
        struct ferry_op op = put_op(&p, 0, PLACE + 8 * i, i % 7 ? 8 * (i % 7) : 5000);
        op.flags = FERRY_OP_DATA;
        op.remote_data = 0xa0000000u + i;
        op.length = i == 13 ? 0 : op.length;
        sum += op.remote_data;
        assert_true(pair_post(&p, &op) >= 0);
    }
    assert_int_equal(pair_quiet(&p), FERRY_OK);
    while (p.pe[1].stub.delivered < 200 && seconds() < end)
        pair_serve(&p);
    pair_serve(&p);
    assert_int_equal(p.pe[1].stub.delivered, 200);
    assert_true(p.pe[1].stub.sum == sum);
    assert_int_equal(p.pe[1].stub.from, 0);
    assert_int_equal(p.pe[0].stub.delivered, 0); /* sockets shows its own */
    pair_close(&p);
}

static void test_remote_data(void **state)
{
    (void)state;
    remote_data(with("order", "none"));
    remote_data(with("quiet", "dc"));
}

/* The table is checked against what the provider says: an order that it does not confirm is not declared. */
static void test_doubt(void **state)
{
    const char *provider = with("quiet", "auto")[1];
    struct ferry_caps caps;
    struct side s;

    (void)state;
    assert_int_equal(side_open(&s, 0, with("order", "none")), FERRY_OK);
    assert_int_equal(caps_of(&s).order, 0);
    side_close(&s);
    lack = (struct lack){.order = 1};
    assert_int_equal(side_open(&s, 0, with("quiet", "auto")), FERRY_OK);
    caps = caps_of(&s);
    assert_int_equal(caps.order & FERRY_ORDER_AMO_PUT, 0);
    if (!strcmp(provider, "sockets")) {
        assert_int_equal(caps.order, 0);
        assert_true(caps.flags & FERRY_CAP_FENCED);
        assert_says(s.stub.note, "quiet by dc"); /* nor is a read behind writes taken for a proof */
    }
    side_close(&s);
    lack = (struct lack){0};
}

/* No atomics: none are declared, and the rest works. */
static void test_no_atomics(void **state)
{
    struct ferry_caps caps;
    struct pair p;

    (void)state;
    lack = (struct lack){.caps = FI_ATOMIC};
    pair_open(&p, with("quiet", "auto"));
    caps = caps_of(&p.pe[0]);
    assert_int_equal(caps.amo32 | caps.amo64, 0);
    assert_int_equal(caps.domain, FERRY_DOMAIN_NONE);
    check_put(&p, 1000, 0);
    pair_close(&p);
    lack = (struct lack){0};
}

/* The peer leaves with operations under way: they fail, and so does what follows; another channel is not held up. */
static void test_disconnect(void **state)
{
    struct ferry_error record = {.size = sizeof record};
    struct ferry_op put;
    char text[160];
    struct pair p;
    uint64_t ticket = 0, all = 0;
    int rc;

    (void)state;
    pair_open(&p, with("quiet", "auto"));
    check_put(&p, 8, 0);
    put = put_op(&p, 0, PLACE, 8);
    assert_true(ops()->rma(p.pe[0].t, 0, &put) >= 0);
    ops()->quiet(p.pe[0].t, 0, 1, &ticket);
    assert_int_equal(ops()->describe(p.pe[0].t, 0, 1, text, sizeof text), FERRY_OK);
    assert_says(text, " operations posted, ");
    assert_int_equal(ops()->disconnect(p.pe[0].t, 1), FERRY_OK);
    rc = ops()->quiet(p.pe[0].t, 0, 1, &ticket);
    assert_int_equal(rc, FERRY_ERR_PEER);
    assert_int_equal(ops()->quiet(p.pe[0].t, 0, FERRY_PEER_ALL, &all), FERRY_ERR_PEER);
    assert_int_equal(ops()->rma(p.pe[0].t, 0, &put), FERRY_ERR_PEER);
    assert_int_equal(ops()->query_error(p.pe[0].t, 0, 1, &record), FERRY_OK);
    assert_int_equal(record.status, FERRY_ERR_PEER);
    assert_int_equal(record.channel, 0);
    assert_says(record.message, ": channel 0 to pe 1: the peer is dead, or has left");
    assert_int_equal(ops()->describe(p.pe[0].t, 0, 1, text, sizeof text), FERRY_OK);
    assert_says(text, " complete, failed");
    assert_int_equal(ops()->describe(p.pe[0].t, 1, 1, text, sizeof text), FERRY_OK);
    assert_string_equal(text, ""); /* no such channel */
    pair_close(&p);
}

/* What had been copied for a peer that left fails when the provider comes to it, and is nobody else's. While all are there it must
 * have been somebody's. */
static int quiet_of_own(struct pair *p)
{
    double end = seconds() + 60;
    uint64_t ticket = 0;
    int rc = FERRY_AGAIN;

    while (rc == FERRY_AGAIN && seconds() < end) {
        rc = ops()->quiet(p->pe[0].t, 0, 0, &ticket);
        pair_serve(p);
    }
    return rc;
}

static void test_stray_failures(void **state)
{
    struct ferry_connect io = {.size = sizeof io, .phase = FERRY_CONNECT_START};
    uint8_t out[FERRY_ENDPOINT_MAX];
    struct ferry_op put;
    struct pair p;

    (void)state;
    lack.strays = -1;
    pair_open(&p, with("quiet", "auto"));
    io.in = p.pe[0].endpoint;
    io.in_size = p.pe[0].endpoint_size;
    io.out = out;
    assert_int_equal(ops()->connect(p.pe[0].t, 0, 0, &io), FERRY_OK);
    put = put_op(&p, 0, PLACE, 8);
    put.peer = 0;
    put.key = p.pe[1].key; /* of PE 0's memory */
    assert_true(pair_post(&p, &put) >= 0);
    assert_int_equal(quiet_of_own(&p), FERRY_OK);
    assert_int_equal(ops()->disconnect(p.pe[0].t, 1), FERRY_OK);
    assert_true(pair_post(&p, &put) >= 0);
    lack.strays = 1;
    assert_int_equal(quiet_of_own(&p), FERRY_OK);
    assert_int_equal(lack.strays, 0);
    pair_close(&p);

    lack.strays = -1;
    pair_open(&p, with("quiet", "auto"));
    put = put_op(&p, 0, PLACE, 8);
    assert_true(pair_post(&p, &put) >= 0);
    lack.strays = 1;
    assert_int_equal(pair_quiet(&p), FERRY_ERR_PEER);
    pair_close(&p);
    lack = (struct lack){0};
}

/* Closing waits for nobody. */
static void test_close_with_operations(void **state)
{
    (void)state;
    for (int i = 0; i < 3; i++) {
        struct pair p;
        pair_open(&p, with("quiet", "auto"));
        check_put(&p, 8, 0);
        for (int k = 0; k < 40; k++) {
            struct ferry_op put = put_op(&p, 0, PLACE, k % 2 ? 8 : 65536), get = put, add = amo_op(&p, PLACE, FERRY_AMO_ADD, 8, 1);
            get.kind = FERRY_OP_GET;
            get.local = p.pe[0].memory + PLACE;
            add.flags = FERRY_OP_FETCH;
            add.local = p.pe[0].memory + 128;
            add.region = p.pe[0].region;
            assert_true(ops()->rma(p.pe[0].t, 0, &put) >= 0);
            assert_true(ops()->rma(p.pe[0].t, 0, &get) >= 0);
            assert_true(ops()->amo(p.pe[0].t, 0, &add) >= 0);
        }
        if (i == 1)
            side_close(&p.pe[1]); /* the target first */
        pair_close(&p);
    }
}

extern char **environ;

static size_t environment(void)
{
    size_t sum = 0;

    for (char **e = environ; *e; e++)
        for (const char *c = *e; *c; c++)
            sum = sum * 31 + (unsigned char)*c;
    return sum;
}

static void test_environment(void **state)
{
    size_t before = environment();
    struct pair p;

    (void)state;
    pair_open(&p, with("quiet", "auto"));
    pair_close(&p);
    assert_true(environment() == before);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_put_and_get),  cmocka_unit_test(test_put_and_get_with_delivery),
        cmocka_unit_test(test_atomics),      cmocka_unit_test(test_depth),
        cmocka_unit_test(test_depth_bounded),
        cmocka_unit_test(test_tickets),      cmocka_unit_test(test_remote_data),
        cmocka_unit_test(test_doubt),        cmocka_unit_test(test_no_atomics),
        cmocka_unit_test(test_disconnect),   cmocka_unit_test(test_close_with_operations),
        cmocka_unit_test(test_stray_failures), cmocka_unit_test(test_environment),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
