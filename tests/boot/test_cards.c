/* SPDX-License-Identifier: Apache-2.0
 * First contact by a bootstrap's allgather, as one PE of two sees it: the other one's cards are forged, late, or those of another
 * network, and the message has to say so. One thread. */
#include "kit.h"
#include "job/host.h"
#include <arpa/inet.h>

/* What the other PE gives, made of what this PE gives. */
struct forger {
    void (*forge)(struct fy_card *card, unsigned round);
    unsigned round;
    int fails; /* status of the bootstrap's allgather */
    bool here; /* and then: the other has arrived */
};

static struct forger *forger_now; /* of the test that runs */

static int forged_allgather(struct ferry_boot *boot, const void *mine, void *all, size_t length, double timeout, uint8_t *arrived,
                            struct ferry_error *error)
{
    struct fy_card *cards = all;
    (void)boot, (void)timeout;
    assert_int_equal(length, sizeof(*cards));
    forger_now->round++;
    if (forger_now->fails == FERRY_ERR_TIMEOUT) {
        arrived[0] = 1;
        arrived[1] = forger_now->here;
        snprintf(error->message, sizeof(error->message), "the launcher sleeps");
    }
    if (forger_now->fails)
        return forger_now->fails;
    memcpy(&cards[0], mine, length);
    memcpy(&cards[1], mine, length);
    cards[1].self.rank = 1;
    forger_now->forge(&cards[1], forger_now->round);
    return 0;
}

static const struct ferry_boot_plugin forging = {.abi = FERRY_BOOTSTRAP_ABI, .size = sizeof(forging), .name = "forged", .allgather = forged_allgather};

/* Starts PE 0 of 2, which must fail so. */
static void expect_failure(struct forger *forger, const char *interface_, int status, const char *words)
{
    struct fy_launch launch = {.plugin = &forging};
    struct fy_boot_config config = {.n_pes = 2, .launch = &launch, .interface_ = interface_, .timeout = 30, .peer_timeout = 10};
    struct ferry_error error = {.size = sizeof(error)};
    struct fy_boot *boot;
    forger_now = forger;
    assert_int_equal(fy_boot_start(&config, &boot, &error), status);
    assert_int_equal(error.status, status);
    if (!strstr(error.message, words))
        fail_msg("'%s' has not '%s'", error.message, words);
}

static void nothing(struct fy_card *card, unsigned round)
{
    (void)card, (void)round;
}

static void other_bytes(struct fy_card *card, unsigned round)
{
    (void)round;
    card->magic[0] ^= 1;
}

static void other_version(struct fy_card *card, unsigned round)
{
    (void)round;
    snprintf(card->self.version, sizeof(card->self.version), "0.0.9");
}

static void other_protocol(struct fy_card *card, unsigned round)
{
    (void)round;
    card->protocol = 77;
}

static void same_rank(struct fy_card *card, unsigned round)
{
    (void)round;
    card->self.rank = 0;
}

static void other_size(struct fy_card *card, unsigned round)
{
    (void)round;
    card->self.size = 3;
}

static void test_wrong(void **state)
{
    (void)state;
    static const struct {
        void (*forge)(struct fy_card *card, unsigned round);
        const char *words;
    } cases[] = {
        {other_bytes, "bootstrap forged gave other bytes for PE 1 than it sent"},
        {other_version, "PE 1 runs ferry 0.0.9 (protocol 2), this PE " FERRY_VERSION_STRING},
        {other_protocol, "(protocol 77), this PE"},
        {same_rank, "bootstrap forged gave PE 0's bytes in the place of PE 1"},
        {other_size, "PE 1 says that the job has 3 PEs, this PE says 2"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        expect_failure(&(struct forger){.forge = cases[i].forge}, "auto", FERRY_ERR_MISMATCH, cases[i].words);
}

static void test_late(void **state)
{
    (void)state;
    expect_failure(&(struct forger){.fails = FERRY_ERR_TIMEOUT}, "auto", FERRY_ERR_TIMEOUT,
                   "bootstrap forged: 'exchange of networks': PE 1 of 2 did not arrive within 30 s");
    expect_failure(&(struct forger){.fails = FERRY_ERR_TIMEOUT, .here = true}, "auto", FERRY_ERR_TIMEOUT,
                   "not done within 30 s, though every PE has been seen: the launcher sleeps");
    expect_failure(&(struct forger){.fails = FERRY_ERR_BOOTSTRAP}, "auto", FERRY_ERR_BOOTSTRAP, "bootstrap forged failed without a reason");
}

static void in_trouble(struct fy_card *card, unsigned round)
{
    (void)round;
    card->status = FERRY_ERR_SYSTEM;
    snprintf(card->why, sizeof(card->why), "no port is free");
}

/* One PE's failure before the exchange is everybody's, in its words. */
static void test_trouble(void **state)
{
    (void)state;
    struct forger forger = {.forge = in_trouble};
    expect_failure(&forger, "auto", FERRY_ERR_SYSTEM, "PE 1 could not start: no port is free");
    forger = (struct forger){.forge = nothing};
    expect_failure(&forger, "nosuch0", FERRY_ERR_CONFIG, "interface nosuch0: there is none of this name");
    assert_int_equal(forger.round, 1); /* the other was told */
    forger = (struct forger){.forge = nothing};
    expect_failure(&forger, "203.0.113.77", FERRY_ERR_CONFIG, "it is no address of this machine");
    assert_int_equal(forger.round, 2);
}

static void nets(struct fy_card *card, uint32_t n, const char *first)
{
    card->n_nets = n;
    card->nets[0] = (struct fy_net){inet_addr(first), inet_addr("255.255.255.0")};
}

static void far_away(struct fy_card *card, unsigned round)
{
    (void)round;
    card->host++;
    nets(card, 1, "198.51.100.7");
}

static void no_network(struct fy_card *card, unsigned round)
{
    (void)round;
    card->host++;
    card->n_nets = 0;
}

static void far_on_loopback(struct fy_card *card, unsigned round)
{
    (void)round;
    card->host++;
}

/* Two hosts have the same address: a bridge that each has made for itself. */
static void same_address(struct fy_card *card, unsigned round)
{
    (void)round;
    card->host++;
}

static void test_networks(void **state)
{
    (void)state;
    expect_failure(&(struct forger){.forge = far_away}, "auto", FERRY_ERR_MISMATCH, "share no network: PE 0 has ");
    expect_failure(&(struct forger){.forge = far_away}, "auto", FERRY_ERR_MISMATCH, "PE 1 has 198.51.100.7/24");
    expect_failure(&(struct forger){.forge = no_network}, "auto", FERRY_ERR_MISMATCH, "PE 1 has none");
    expect_failure(&(struct forger){.forge = same_address}, "auto", FERRY_ERR_MISMATCH, "share no network");
    expect_failure(&(struct forger){.forge = far_on_loopback}, "lo", FERRY_ERR_MISMATCH,
                   "PEs 0 and 1 run on different hosts, and listen on loopback");
}

/* A launcher tells hosts apart that are one to the kernel; not the reverse. */
static void test_hosts(void **state)
{
    (void)state;
    assert_true(fy_host_number_of(FERRY_BOOT_NO_NODE) == fy_host_number());
    assert_true(fy_host_number_of(3) == fy_host_number_of(3));
    assert_true(fy_host_number_of(3) != fy_host_number_of(4));
    assert_true(fy_host_number_of(3) != fy_host_number());
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_wrong),
        cmocka_unit_test(test_late),
        cmocka_unit_test(test_trouble),
        cmocka_unit_test(test_networks),
        cmocka_unit_test(test_hosts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
