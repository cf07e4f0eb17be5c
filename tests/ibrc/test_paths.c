/* SPDX-License-Identifier: Apache-2.0
 * What queue pairs are told of the way to their peer, over the stand-in: options, and flow labels by channel.
 * Main thread. */
#include "pair.h"

#include <string.h>

#define CHANNELS 8

/* Of which a RoCE v2 device makes the UDP source port: ibv_flow_label_to_udp_sport. */
static unsigned port_of(uint32_t label)
{
    return 0xc000 | ((label & 0x3fff) ^ ((label & 0xfc000) >> 14));
}

static int connect_all(struct pair *p, const char *const *set, struct ibv_qp_attr *attr)
{
    pair_open(p, set);
    for (uint32_t channel = 1; channel < CHANNELS; channel++)
        assert_int_equal(pair_connect(p, channel, 0, 1), FERRY_OK);
    return fakeverbs_senders(attr, 2 * CHANNELS);
}

static void test_channels_take_other_paths(void **state)
{
    struct ibv_qp_attr attr[2 * CHANNELS];
    struct pair p;

    (void)state;
    assert_int_equal(connect_all(&p, NULL, attr), CHANNELS);
    for (int i = 0; i < CHANNELS; i++) {
        assert_true(attr[i].ah_attr.grh.flow_label <= 0xfffff);
        for (int j = 0; j < i; j++)
            assert_int_not_equal(port_of(attr[i].ah_attr.grh.flow_label), port_of(attr[j].ah_attr.grh.flow_label));
    }
    pair_close(&p);
}

static void test_one_label(void **state)
{
    static const char *const set[] = {"flow_label", "0xabcde", NULL};
    struct ibv_qp_attr attr[2 * CHANNELS];
    struct pair p;

    (void)state;
    assert_int_equal(connect_all(&p, set, attr), CHANNELS);
    for (int i = 0; i < CHANNELS; i++)
        assert_int_equal(attr[i].ah_attr.grh.flow_label, 0xabcde);
    pair_close(&p);
}

static void test_options(void **state)
{
    static const char *const set[] = {"sl",        "3",  "traffic_class", "106", "mtu",       "1024",
                                      "timeout",   "18", "rnr_timer",     "20",  "hop_limit", "9",
                                      "gid_index", "1",  "retry_count",   "5",   NULL};
    struct ibv_qp_attr attr[2];
    struct pair p;

    (void)state;
    pair_open(&p, set);
    assert_int_equal(fakeverbs_senders(attr, 2), 1);
    assert_int_equal(attr->ah_attr.sl, 3);
    assert_int_equal(attr->ah_attr.grh.traffic_class, 106);
    assert_int_equal(attr->ah_attr.grh.hop_limit, 9);
    assert_int_equal(attr->ah_attr.grh.sgid_index, 1);
    assert_int_equal(attr->path_mtu, IBV_MTU_1024);
    assert_int_equal(attr->timeout, 18);
    assert_int_equal(attr->retry_cnt, 5);
    assert_int_equal(attr->min_rnr_timer, 20);
    assert_int_equal(attr->max_rd_atomic, 16);
    assert_true(attr->rnr_retry < 7); /* 7 would be for ever */
    pair_close(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_channels_take_other_paths),
        cmocka_unit_test(test_one_label),
        cmocka_unit_test(test_options),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
