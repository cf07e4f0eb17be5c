/* SPDX-License-Identifier: Apache-2.0
 * Which ports PEs use, over the stand-in and a machine that hwloc reads from machine.xml: of its package 0, node 0 has
 * fake0, below a PCIe switch with GPU 12:00.0, and fake1; node 1 has none; package 1 is node 2 with fake2 and GPU
 * 83:00.0. fake3 is nowhere. Main thread. */
#include "told.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Its devices, without addresses and channels, as "fake0+fake1". */
static void devices_of(const struct told *t, uint32_t pe, char *out, size_t size)
{
    char object[16];
    const char *at;

    snprintf(object, sizeof object, "pe %u", pe);
    at = t->rows[told_find(t, object)].text;
    out[0] = '\0';
    while ((at = strstr(at, "fake")) != NULL) {
        snprintf(out + strlen(out), size - strlen(out), "%s%.5s", out[0] ? "+" : "", at);
        at += 4;
    }
}

static void plan_is(const struct host *host, const char *const *set, const char *const *wanted)
{
    struct told t;
    char is[64];

    told_ask(&t, FERRY_REPORT_PLAN, host, set);
    for (uint32_t pe = 0; host->nodes[pe]; pe++) {
        devices_of(&t, pe, is, sizeof is);
        if (strcmp(is, wanted[pe]) != 0)
            fail_msg("pe %u of %s uses %s, not %s", pe, host->nodes, is, wanted[pe]);
    }
}

#define PLAN(nodes, gpu, set, ...) plan_is(&(struct host){nodes, gpu}, set, (const char *const[]){__VA_ARGS__})
#define SET(...)                   ((const char *const[]){__VA_ARGS__, NULL})

/* Two NICs as near, shared by those for whom they are, whatever their numbers; one farther is left alone. */
static void test_near_and_far(void **state)
{
    (void)state;
    fakeverbs_devices(3);
    PLAN("0000", NULL, NULL, "fake0", "fake1", "fake0", "fake1");
    PLAN("0202", NULL, NULL, "fake0", "fake2", "fake1", "fake2"); /* by rank alone, both of node 0 would have fake0 */
    PLAN("2200", NULL, NULL, "fake2", "fake2", "fake0", "fake1");
    PLAN("11", NULL, NULL, "fake0", "fake1"); /* none on the node: those of the package */
    PLAN("2", NULL, SET("devices", "^fake2"), "fake0");
    PLAN("--", NULL, NULL, "fake0", "fake1"); /* nothing known: all are equal */
}

static void test_why(void **state)
{
    struct told t;

    (void)state;
    fakeverbs_devices(3);
    told_ask(&t, FERRY_REPORT_PLAN, &(struct host){"0012", NULL}, NULL);
    told_is(&t, "pe 0", FERRY_FINDING_OK, "fake0:1, RoCE v2, 10.0.0.1 (gid index 1): all channels",
            "on a NUMA node of its cores, one of 2 as near; 2 of 4 PEs use its first port");
    told_is(&t, "pe 2", FERRY_FINDING_OK, "fake0:1", "in the package of its cores, one of 2");
    told_is(&t, "pe 3", FERRY_FINDING_OK, "fake2:1", "on a NUMA node of its cores; 1 of 4");
    told_ask(&t, FERRY_REPORT_PLAN, &(struct host){"2", NULL}, SET("devices", "fake0,fake1"));
    told_is(&t, "pe 0", FERRY_FINDING_OK, "fake0:1", "in another package than its cores, one of 2 as near; 1 of 1");
    told_ask(&t, FERRY_REPORT_PLAN, &(struct host){"2", NULL}, SET("devices", "fake0"));
    told_is(&t, "pe 0", FERRY_FINDING_OK, "fake0:1", "the only one; 1 of 1");
    told_ask(&t, FERRY_REPORT_PLAN, &(struct host){"0", NULL}, SET("rails", "0"));
    told_is(&t, "pe 0", FERRY_FINDING_OK, "fake1:1, RoCE v2, 10.0.0.2 (gid index 1): channels 1, 4, ...", "");
}

/* A device that hwloc does not know is neither near nor far. */
static void test_unknown_place(void **state)
{
    (void)state;
    fakeverbs_devices(4);
    PLAN("0", NULL, SET("devices", "fake3,fake1"), "fake1");
    PLAN("2", NULL, SET("devices", "fake0,fake3"), "fake3");
    PLAN("0000", NULL, SET("devices", "fake3"), "fake3", "fake3", "fake3", "fake3");
}

static void test_gpu(void **state)
{
    (void)state;
    fakeverbs_devices(3);
    PLAN("222", "0000:12:00.0", NULL, "fake0", "fake0", "fake0"); /* the switch they share counts more than the cores */
    PLAN("00", "0000:83:00.0", NULL, "fake2", "fake2");
    PLAN("22", "0000:99:00.0", NULL, "fake2", "fake2"); /* there is none of that address: the cores */
}

static void test_rails(void **state)
{
    (void)state;
    fakeverbs_devices(3);
    PLAN("0000", NULL, SET("rails", "2"), "fake0+fake1", "fake0+fake1", "fake0+fake1", "fake0+fake1");
    PLAN("02", NULL, SET("rails", "0"), "fake0+fake1+fake2", "fake0+fake1+fake2"); /* the same order for all */
    PLAN("2", NULL, SET("rails", "2"), "fake0+fake2");
    fakeverbs_devices(4);
    PLAN("----", NULL, SET("rails", "2"), "fake0+fake1", "fake2+fake3", "fake0+fake1", "fake2+fake3");
}

static void test_no_spread(void **state)
{
    (void)state;
    fakeverbs_devices(3);
    PLAN("0002", NULL, SET("spread", "no"), "fake0", "fake0", "fake0", "fake2");
}

static void shape_subnet(int device, uint8_t prefix)
{
    struct fakeverbs_shape s = {.link_layer = IBV_LINK_LAYER_INFINIBAND, .lid = device + 7, .n_gids = 1};

    s.gids[0].raw[0] = 0xfe;
    s.gids[0].raw[1] = 0xc0;
    s.gids[0].raw[7] = prefix;
    s.gids[0].raw[15] = (uint8_t)(device + 1);
    fakeverbs_shape(device, &s);
}

/* Ports of different subnets may not reach each other: auto keeps to the first one's. */
static void test_subnets(void **state)
{
    struct told t;

    (void)state;
    fakeverbs_devices(3);
    shape_subnet(0, 1);
    shape_subnet(1, 2);
    shape_subnet(2, 1);
    PLAN("----", NULL, NULL, "fake0", "fake2", "fake0", "fake2");
    PLAN("0000", NULL, NULL, "fake0", "fake0", "fake0", "fake0");
    PLAN("0000", NULL, SET("spread", "yes"), "fake0", "fake1", "fake0", "fake1");
    told_ask(&t, FERRY_REPORT_PLAN, &(struct host){"0", NULL}, NULL);
    told_is(&t, "pe 0", FERRY_FINDING_OK, "fake0:1, InfiniBand, lid 7: all",
            "and 1 in other subnets (FERRY_IBRC_SPREAD=yes takes these, too)");
    told_ask(&t, FERRY_REPORT_PLAN, &(struct host){"-", NULL}, SET("rails", "0")); /* nothing is left alone */
    told_is(&t, "pe 0", FERRY_FINDING_OK, "fake1:1", "distance not known, one of 2 as near; 1 of 1");
    for (int i = 0; i < 3; i++)
        fakeverbs_shape(i, NULL);
}

/* RoCE: by the interface that has the address; the whole of 127.0.0.0/8 is lo's, but only one address stands there. */
static void test_roce_subnet(void **state)
{
    struct fakeverbs_shape s = {.n_gids = 1, .gids = {{.type = IBV_GID_TYPE_ROCE_V2}}};

    (void)state;
    memcpy(s.gids[0].raw, (uint8_t[]){0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 127, 0, 0, 1}, 16);
    fakeverbs_devices(2);
    fakeverbs_shape(0, &s);
    fakeverbs_shape(1, &s);
    PLAN("--", NULL, NULL, "fake0", "fake1");
    memcpy(s.gids[0].raw, (uint8_t[]){0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1}, 16);
    fakeverbs_shape(1, &s);
    PLAN("--", NULL, NULL, "fake0", "fake0");
    fakeverbs_shape(0, NULL);
    fakeverbs_shape(1, NULL);
}

static void test_map(void **state)
{
    (void)state;
    fakeverbs_devices(3);
    PLAN("0022", NULL, SET("map", "0=fake2:1+fake0;1-2=fake1;*=fake0:1"), "fake2+fake0", "fake1", "fake1", "fake0");
    PLAN("00", NULL, SET("map", "*=fake0;1=fake2"), "fake0", "fake2");
    PLAN("00", NULL, SET("map", "0=fake0;1=fake2;", "spread", "no", "rails", "3"), "fake0", "fake2");
}

/* Each is refused at open with these words, and so is its plan. */
static void test_map_refused(void **state)
{
    static const struct {
        const char *name, *value, *says;
    } bad[] = {
        {"map", "0=fak0", "FERRY_IBRC_MAP names fak0, which is no device here, did you mean fake0?"},
        {"map", "0=something", "FERRY_IBRC_MAP names something, which is no device here"},
        {"map", "0=fake0:2", "FERRY_IBRC_MAP names fake0:2, but fake0 has no such port"},
        {"map", "1=fake0", "FERRY_IBRC_MAP has no ports for PE 0 of this host"},
        {"map", "0=fake1", "FERRY_IBRC_MAP names fake1:1, which is down"},
        {"map", "zero=fake0", "FERRY_IBRC_MAP: 'zero=fake0' is not PE=PORT"},
        {"map", "0=", "FERRY_IBRC_MAP: '0=' is not PE=PORT"},
        {"map", "0=fake0+", "FERRY_IBRC_MAP: '0=fake0+' is not"},
        {"map", "3-1=fake0", "FERRY_IBRC_MAP: '3-1=fake0' is not"},
        {"map", "4294967296=fake0", "FERRY_IBRC_MAP: '4294967296=fake0' is not"},
        {"map", "0=fake0:0", "FERRY_IBRC_MAP: '0=fake0:0' is not"},
        {"map", "0=fake0:256", "FERRY_IBRC_MAP: '0=fake0:256' is not"},
        {"map", "0=fake0;0=fake0", "FERRY_IBRC_MAP names PE 0 twice"},
        {"map", "0-3=fake0;*=fake0;2-5=fake0", "FERRY_IBRC_MAP names PE 2 twice"},
        {"map", "*=fake0;0=fake0;*=fake0", "FERRY_IBRC_MAP has * twice"},
        {"map", "0=fake0+fake0", "FERRY_IBRC_MAP names fake0:1 twice for PE 0"},
        {"map", "0=fake0:1+fake0", "FERRY_IBRC_MAP names fake0:1 twice for PE 0"},
        {"map", "0=a+a+a+a+a+a+a+a+a", "at most 8 ports"},
        {"devices", "fake0:x", "FERRY_IBRC_DEVICES: 'fake0:x' is not NAME"},
        {"devices", "fake7", "FERRY_IBRC_DEVICES names fake7, which is no device here, did you mean fake0?"},
    };
    const struct fakeverbs_shape down = {.state = IBV_PORT_DOWN};
    char log[512];
    struct told t;

    (void)state;
    fakeverbs_devices(2);
    fakeverbs_shape(1, &down);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_int_not_equal(
            told_open(&t, &(struct host){"0", NULL}, 0, SET(bad[i].name, bad[i].value), log, sizeof log), FERRY_OK);
        if (!strstr(t.stub.last.message, bad[i].says))
            fail_msg("%s: %s", bad[i].value, t.stub.last.message);
    }
    told_ask(&t, FERRY_REPORT_PLAN, &(struct host){"0", NULL}, SET("map", "0=fak0"));
    told_is(&t, "no plan", FERRY_FINDING_PROBLEM, "none", "did you mean fake0?");
    fakeverbs_shape(1, NULL);
}

/* What open takes is what the plan says; and both say why. */
static void test_open(void **state)
{
    const struct host host = {"0020", NULL};
    char log[2048];
    struct told t;

    (void)state;
    fakeverbs_devices(3);
    assert_int_equal(told_open(&t, &host, 1, NULL, log, sizeof log), FERRY_OK);
    assert_non_null(strstr(log, "rail 0: fake1:1, RoCE"));
    assert_non_null(strstr(log, "on a NUMA node of its cores, one of 2 as near; channel c uses rail c modulo 1"));
    assert_int_equal(told_open(&t, &host, 2, NULL, log, sizeof log), FERRY_OK);
    assert_non_null(strstr(log, "rail 0: fake2:1, RoCE"));
    assert_int_equal(told_open(&t, &host, 3, NULL, log, sizeof log), FERRY_OK);
    assert_non_null(strstr(log, "rail 0: fake0:1, RoCE"));
    assert_int_equal(told_open(&t, &host, 3, SET("map", "*=fake2+fake1"), log, sizeof log), FERRY_OK);
    assert_non_null(strstr(log, "rail 0: fake2:1, RoCE"));
    assert_non_null(strstr(log, "rail 1: fake1:1, RoCE"));
    assert_non_null(strstr(log, "named by FERRY_IBRC_MAP; channel c uses rail c modulo 2"));
    /* a name that is not here, beside one that is */
    assert_int_equal(told_open(&t, &host, 0, SET("devices", "fake1,fake8"), log, sizeof log), FERRY_OK);
    assert_non_null(strstr(log, "FERRY_IBRC_DEVICES names fake8, which is no device here, did you mean fake0?"));
}

/* Another kind of device is left out with the reason, whatever its name. */
static void test_skipped(void **state)
{
    const struct fakeverbs_shape other = {.other_kind = 1}, odd = {.link_layer = 9};
    struct told t;
    char log[512];

    (void)state;
    fakeverbs_devices(2);
    fakeverbs_shape(0, &other);
    PLAN("00", NULL, NULL, "fake1", "fake1");
    assert_int_equal(told_open(&t, &(struct host){"0", NULL}, 0, NULL, log, sizeof log), FERRY_OK);
    assert_non_null(strstr(log, "skips fake0:1: is no InfiniBand or RoCE device\n"));
    fakeverbs_shape(1, &odd);
    assert_int_equal(told_open(&t, &(struct host){"0", NULL}, 0, NULL, log, sizeof log), FERRY_ERR_DEVICE);
    assert_non_null(strstr(t.stub.last.message, "fake0:1 is no InfiniBand or RoCE device, fake1:1 has a link layer"));
    fakeverbs_shape(0, NULL);
    fakeverbs_shape(1, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_near_and_far), cmocka_unit_test(test_why),         cmocka_unit_test(test_unknown_place),
        cmocka_unit_test(test_gpu),          cmocka_unit_test(test_rails),       cmocka_unit_test(test_no_spread),
        cmocka_unit_test(test_subnets),      cmocka_unit_test(test_roce_subnet), cmocka_unit_test(test_map),
        cmocka_unit_test(test_map_refused),  cmocka_unit_test(test_open),        cmocka_unit_test(test_skipped),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
