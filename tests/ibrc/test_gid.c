/* SPDX-License-Identifier: Apache-2.0
 * Which address of a port is used, over the stand-in: by version, family, scope and interface, if a handle to it can be
 * made; and what two ports with different ones are told. Main thread. */
#include "told.h"

#include <net/if.h>
#include <stdio.h>
#include <string.h>

enum { V4, V6, LINK, NONE };

/* Each gets an address of its own, that ends with its index + 1. */
static void add(struct fakeverbs_shape *s, int kind, int type)
{
    static const uint8_t raw[][16] = {
        {[10] = 0xff, [11] = 0xff, [12] = 192, [13] = 168}, {0x20, 1, 0xd, 0xb8}, {0xfe, 0x80}, {0}};
    int i = s->n_gids++;

    memcpy(s->gids[i].raw, raw[kind], 16);
    if (kind != NONE)
        s->gids[i].raw[15] = (uint8_t)(i + 1);
    s->gids[i].type = type;
}

static void taken_is(const struct fakeverbs_shape *s, const char *const *set, const char *wanted)
{
    struct told t;

    fakeverbs_shape(0, s);
    told_ask(&t, FERRY_REPORT_PLAN, &(struct host){"-", NULL}, set);
    if (!strstr(t.rows[told_find(&t, "pe 0")].text, wanted))
        fail_msg("%s, not %s", t.rows[0].text, wanted);
    fakeverbs_shape(0, NULL);
}

#define SET(...) ((const char *const[]){__VA_ARGS__, NULL})

static void test_score(void **state)
{
    struct fakeverbs_shape s = {0};

    (void)state;
    add(&s, NONE, IBV_GID_TYPE_ROCE_V2);
    add(&s, LINK, IBV_GID_TYPE_ROCE_V2);
    taken_is(&s, NULL, "RoCE v2, fe80::2 (gid index 1)"); /* an empty place is none */
    add(&s, V4, IBV_GID_TYPE_ROCE_V1);
    taken_is(&s, NULL, "gid index 1"); /* the version weighs most */
    add(&s, V6, IBV_GID_TYPE_ROCE_V2);
    taken_is(&s, NULL, "RoCE v2, 2001:db8::4 (gid index 3)"); /* then the scope */
    add(&s, V4, IBV_GID_TYPE_ROCE_V2);
    taken_is(&s, NULL, "RoCE v2, 192.168.0.5 (gid index 4)"); /* and the family */
    taken_is(&s, SET("address_family", "ipv6"), "gid index 3");
    taken_is(&s, SET("gid_index", "2"), "RoCE v1, 192.168.0.3 (gid index 2)");
    s.gids[4].silent = 1;
    taken_is(&s, NULL, "gid index 3"); /* no handle to it */
}

/* None of the family that was asked for: one of the other is better than nothing. */
static void test_other_family(void **state)
{
    struct fakeverbs_shape s = {0};

    (void)state;
    add(&s, V6, IBV_GID_TYPE_ROCE_V2);
    taken_is(&s, SET("address_family", "ipv4"), "gid index 0");
    add(&s, V4, IBV_GID_TYPE_ROCE_V2);
    s.gids[1].silent = 1;
    taken_is(&s, SET("address_family", "ipv4"), "gid index 0");
    s.gids[1].silent = 0;
    taken_is(&s, SET("address_family", "ipv4"), "gid index 1");
}

/* lo is up wherever tests run; an interface that does not exist counts as up, too: nothing is known against it. */
static void test_interface(void **state)
{
    struct fakeverbs_shape s = {0};

    (void)state;
    add(&s, V4, IBV_GID_TYPE_ROCE_V2);
    add(&s, V4, IBV_GID_TYPE_ROCE_V2);
    s.gids[0].interface = if_nametoindex("lo");
    s.gids[1].interface = 99999;
    taken_is(&s, NULL, "gid index 0");
}

static void test_none(void **state)
{
    struct fakeverbs_shape s = {0};
    char log[512];
    struct told t;

    (void)state;
    add(&s, V4, IBV_GID_TYPE_ROCE_V2);
    add(&s, V6, IBV_GID_TYPE_ROCE_V1);
    s.gids[0].silent = s.gids[1].silent = 1;
    fakeverbs_shape(0, &s);
    assert_int_equal(told_open(&t, &(struct host){"-", NULL}, 0, NULL, log, sizeof log), FERRY_ERR_DEVICE);
    assert_non_null(strstr(t.stub.last.message, "port fake0:1: none of the 6 places of the GID table can be used"));
    fakeverbs_shape(0, NULL);
}

/* Both sides compare before they connect, each with what the other one has. */
static void reach_says(const struct fakeverbs_shape *mine, const struct fakeverbs_shape *theirs, const char *says)
{
    struct side a, b;
    char why[200] = "";

    fakeverbs_shape(0, theirs);
    assert_int_equal(side_open(&b, 1, NULL), FERRY_OK);
    fakeverbs_shape(0, mine);
    assert_int_equal(side_open(&a, 0, NULL), FERRY_OK);
    assert_int_equal(ops()->reach(a.t, 1, b.endpoint, b.endpoint_size, why, sizeof why),
                     *says ? FERRY_ERR_UNREACHABLE : FERRY_OK);
    if (!strstr(why, says))
        fail_msg("%s, not %s", why, says);
    assert_int_equal(ops()->reach(b.t, 0, a.endpoint, a.endpoint_size, why, sizeof why),
                     *says ? FERRY_ERR_UNREACHABLE : FERRY_OK);
    side_close(&a);
    side_close(&b);
    fakeverbs_shape(0, NULL);
    assert_int_equal(fakeverbs_live(), 0);
}

static void test_compare(void **state)
{
    struct fakeverbs_shape v4 = {0}, v6 = {0}, v1 = {0}, ib = {.link_layer = IBV_LINK_LAYER_INFINIBAND, .lid = 3};

    (void)state;
    add(&v4, V4, IBV_GID_TYPE_ROCE_V2);
    add(&v6, V6, IBV_GID_TYPE_ROCE_V2);
    add(&v1, V4, IBV_GID_TYPE_ROCE_V1);
    reach_says(&v4, &v4, "");
    reach_says(&ib, &ib, "");
    reach_says(&v4, &v6, "rail 0: one GID is IPv4, the other IPv6; set FERRY_IBRC_ADDRESS_FAMILY");
    reach_says(&v4, &v1, "rail 0: the GIDs are of different types (RoCE v1, v2); set FERRY_IBRC_GID_INDEX");
    reach_says(&v4, &ib, "rail 0: one port is Ethernet (RoCE), the other InfiniBand");
}

/* The target compares again with what the initiator says of the very port. */
static void test_serve_compares(void **state)
{
    struct fakeverbs_shape v4 = {0}, v6 = {0};
    struct pair p;

    (void)state;
    add(&v4, V4, IBV_GID_TYPE_ROCE_V2);
    add(&v6, V6, IBV_GID_TYPE_ROCE_V2);
    fakeverbs_shape(0, &v4);
    assert_int_equal(side_open(&p.pe[0], 0, NULL), FERRY_OK);
    fakeverbs_shape(0, &v6);
    assert_int_equal(side_open(&p.pe[1], 1, NULL), FERRY_OK);
    assert_int_equal(pair_connect(&p, 0, 0, 1), FERRY_ERR_UNREACHABLE);
    struct ferry_error e = {.size = sizeof e};
    ops()->query_error(p.pe[1].t, 0, FERRY_PEER_ALL, &e);
    assert_non_null(
        strstr(e.message, "channel 0 of pe 0 cannot be served by fake0:1: one GID is IPv4, the other IPv6"));
    pair_close(&p);
    fakeverbs_shape(0, NULL);
}

/* InfiniBand: by LID alone, from end to end of the stand-in. */
static void test_by_lid(void **state)
{
    const struct fakeverbs_shape ib = {.link_layer = IBV_LINK_LAYER_INFINIBAND, .lid = 3};
    struct ferry_op op;
    struct pair p;

    (void)state;
    fakeverbs_shape(0, &ib);
    pair_open(&p, NULL);
    p.pe[0].memory[0] = 42;
    op = put_op(&p, 0, 64, 8);
    assert_true(ops()->rma(p.pe[0].t, 0, &op) >= FERRY_OK);
    assert_int_equal(side_quiet(&p.pe[0], 0, 1), FERRY_OK);
    assert_int_equal(p.pe[1].memory[64], 42);
    pair_close(&p);
    fakeverbs_shape(0, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_score),         cmocka_unit_test(test_other_family),
                                       cmocka_unit_test(test_interface),     cmocka_unit_test(test_none),
                                       cmocka_unit_test(test_compare),       cmocka_unit_test(test_by_lid),
                                       cmocka_unit_test(test_serve_compares)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
