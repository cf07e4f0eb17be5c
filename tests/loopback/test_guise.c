/* SPDX-License-Identifier: Apache-2.0
 * Guises of loopback: what each of them declares, and that what it does not declare is refused with a reason.
 * Main thread. */
#include "guises.h"

#define SIGNALS (FERRY_CAP_PUT_SIGNAL | FERRY_CAP_SIGNAL_STRONG)
#define SERVED  (FERRY_CAP_REMOTE_DATA | FERRY_CAP_TARGET_PROGRESS)

/* ---- what is declared */

static struct ferry_caps caps_under(const char *guise)
{
    struct ferry_caps caps;
    struct duo d;

    if (guise && strstr(guise, "must-alloc")) {
        struct pe_options options = {.guise = guise, .no_memory = 1};

        pe_open(&d.a, 0, &options);
        caps = duo_caps(&d);
        pe_close(&d.a);
        return caps;
    }
    duo_open(&d, guise);
    caps = duo_caps(&d);
    duo_close(&d);
    return caps;
}

/* What differs from a plain instance, but for DIRECT, which none of them keeps except hosts. */
struct difference {
    const char *guise;
    uint32_t without, with;          /* flags */
    uint32_t plain, fetching, words; /* atomics that are left: of 8 bytes, and whether 4 bytes have the same */
};

static void test_each_guise_declares_less(void **state)
{
    static const struct difference rows[] = {
        {"no-amo", SIGNALS, 0, 0, 0, 1},
        {"no-fetch", 0, 0, ALL_PLAIN, 0, 1},
        {"no-get", FERRY_CAP_GET, 0, ALL_PLAIN, ALL_FETCHING, 1},
        {"no-signal", SIGNALS, 0, ALL_PLAIN, ALL_FETCHING, 1},
        {"unordered", 0, 0, ALL_PLAIN, ALL_FETCHING, 1},
        {"no-fenced", FERRY_CAP_FENCED, 0, ALL_PLAIN, ALL_FETCHING, 1},
        {"cq-data", SIGNALS | FERRY_CAP_FENCED, SERVED, ALL_PLAIN, ALL_FETCHING, 1},
        {"weak-signal", FERRY_CAP_SIGNAL_STRONG, 0, ALL_PLAIN, ALL_FETCHING, 1},
        {"max-msg=64", 0, 0, ALL_PLAIN, ALL_FETCHING, 1},
        {"inline=0", 0, 0, ALL_PLAIN, ALL_FETCHING, 1},
        {"copy=0", 0, 0, ALL_PLAIN, ALL_FETCHING, 1},
        {"no-unreg", FERRY_CAP_UNREGISTERED_LOCAL, 0, ALL_PLAIN, ALL_FETCHING, 1},
        {"target-progress", 0, FERRY_CAP_TARGET_PROGRESS, ALL_PLAIN, ALL_FETCHING, 1},
        {"channel-scope", FERRY_CAP_QUIET_PEER, 0, ALL_PLAIN, ALL_FETCHING, 1},
        {"depth=3", 0, 0, ALL_PLAIN, ALL_FETCHING, 1},
        {"must-alloc", 0, FERRY_CAP_MUST_ALLOCATE, ALL_PLAIN, ALL_FETCHING, 1},
        {"gpu-like", 0, 0, ALL_PLAIN, ALL_FETCHING, 1},
        {"nic", SIGNALS, 0, FERRY_AMO_BIT(FERRY_AMO_ADD),
         FERRY_AMO_FETCH_BIT(FERRY_AMO_ADD) | FERRY_AMO_FETCH_BIT(FERRY_AMO_CSWAP), 0},
        {"hosts=2", 0, 0, ALL_PLAIN, ALL_FETCHING, 1},
    };
    const struct ferry_caps plain = caps_under(NULL);

    (void)state;
    assert_true((plain.flags & (FERRY_CAP_FENCED | SIGNALS)) == (FERRY_CAP_FENCED | SIGNALS));
    for (size_t i = 0; i < ARRAY(rows); i++) {
        const struct difference *r = &rows[i];
        struct ferry_caps caps = caps_under(r->guise);

        uint32_t direct = strncmp(r->guise, "hosts", 5) ? FERRY_CAP_DIRECT : 0; /* hosts makes nothing weaker */

        if (caps.flags != ((plain.flags & ~(r->without | direct)) | r->with))
            fail_msg("%s: flags %x", r->guise, caps.flags);
        if (caps.amo64 != (r->plain | r->fetching) || caps.amo32 != (r->words ? caps.amo64 : 0))
            fail_msg("%s: atomics %x %x", r->guise, caps.amo64, caps.amo32);
    }
}

static void test_numbers_and_classes(void **state)
{
    const struct ferry_caps plain = caps_under("");

    (void)state;
    assert_int_equal(plain.flags, caps_under(NULL).flags);
    assert_int_equal(caps_under("unordered").order, 0);
    assert_int_equal(caps_under("cq-data").order, 0);
    assert_int_equal(caps_under("no-fenced").order, plain.order);
    assert_int_equal(caps_under("no-amo").domain, FERRY_DOMAIN_NONE);
    assert_int_equal(caps_under("nic").domain, FERRY_DOMAIN_NIC);
    assert_int_equal(caps_under("no-fetch").domain, FERRY_DOMAIN_CPU);
    assert_int_equal(caps_under("max-msg=64").message_max, 64);
    assert_int_equal(caps_under("max-msg=64").copy_max, 64);
    assert_int_equal(caps_under("max-msg=0x20").inline_max, 32);
    assert_int_equal(caps_under("inline=7").inline_max, 7);
    assert_int_equal(caps_under("inline=7").copy_max, plain.message_max); /* no more than a message */
    assert_int_equal(caps_under("copy=5").copy_max, 5);
    assert_int_equal(caps_under("copy=5").inline_max, 5);
    assert_int_equal(caps_under("copy=5").message_max, plain.message_max);
    assert_int_equal(caps_under("depth=3").queue_depth, 3);
    assert_int_equal(caps_under("hosts=2").queue_depth, 0);
    assert_int_equal(caps_under("hosts=2,copy=5").flags, plain.flags & ~FERRY_CAP_DIRECT);
}

static void test_guises_combine(void **state)
{
    struct ferry_caps caps = caps_under("nic,no-fetch,unordered,no-fenced,depth=9,max-msg=4096,no-unreg,channel-scope");

    (void)state;
    assert_int_equal(caps.amo64, FERRY_AMO_BIT(FERRY_AMO_ADD));
    assert_int_equal(caps.amo32, 0);
    assert_int_equal(caps.domain, FERRY_DOMAIN_NIC);
    assert_int_equal(caps.order, 0);
    assert_int_equal(caps.queue_depth, 9);
    assert_int_equal(caps.message_max, 4096);
    assert_int_equal(caps.flags, FERRY_CAP_GET | FERRY_CAP_MAP);
}

static void test_bad_guises(void **state)
{
    static const char *const bad[][2] = {
        {"max-msg=7", "max-msg takes 8"},      {"depth=0", "depth takes 1 to 65536"},  {"depth=65537", "depth takes"},
        {"hosts=0", "hosts takes 1"},          {"inline=-1", "inline takes 0"},        {"copy=-5", "copy takes 0"},
        {"no-amo,hosts=-2", "guise hosts=-2"}, {"no-amo,no-such", "no guise no-such"},
    };
    struct ferry_open how = {.size = sizeof how, .n_pes = 2, .max_channels = 4};

    (void)state;
    for (size_t i = 0; i < ARRAY(bad); i++) {
        struct ferry_transport *t = NULL;
        struct stub stub;

        stub_init(&stub, 0);
        stub.guise = bad[i][0];
        assert_int_equal(plugin()->open(&stub.core, &how, &t), FERRY_ERR_CONFIG);
        assert_int_equal(stub.errors, 1);
        if (!strstr(stub.last.message, bad[i][1]))
            fail_msg("%s: %s", bad[i][0], stub.last.message);
    }
}

static void test_hosts(void **state)
{
    struct pe_options options = {.guise = "hosts=2"};
    struct pe pes[3];
    char why[256] = "";

    (void)state;
    for (uint32_t i = 0; i < 3; i++)
        pe_open(&pes[i], i, &options);
    assert_int_equal(ops()->reach(pes[0].t, 2, pes[2].endpoint.bytes, pes[2].endpoint.size, why, sizeof why), FERRY_OK);
    assert_int_equal(ops()->reach(pes[0].t, 1, pes[1].endpoint.bytes, pes[1].endpoint.size, why, sizeof why),
                     FERRY_ERR_UNREACHABLE);
    assert_string_equal(why, "PE 1 runs on another host (number 1 of the guise hosts=2, 0 here)");
    for (uint32_t i = 0; i < 3; i++)
        pe_close(&pes[i]);
}

/* ---- what is refused */

static void test_undeclared_operations_are_refused(void **state)
{
    uint64_t word = 0;
    struct ferry_op op;
    struct duo d;

    (void)state;
    duo_open(&d, "no-amo,no-get,no-fenced");
    op = add_op(&d, 0, 1, NULL);
    refused(&d, &op, FERRY_ERR_UNSUPPORTED, "not declared");
    op = get_op(&d, &word, 0, 8);
    refused(&d, &op, FERRY_ERR_UNSUPPORTED, "FERRY_CAP_GET");
    op = put_op(&d, &word, 0, 8, FERRY_OP_FENCED);
    refused(&d, &op, FERRY_ERR_UNSUPPORTED, "FERRY_CAP_FENCED");
    op = signal_op(&d, &word, 8, 64, 1);
    refused(&d, &op, FERRY_ERR_UNSUPPORTED, "FERRY_CAP_PUT_SIGNAL");
    op = put_op(&d, &word, 0, 8, FERRY_OP_DATA);
    refused(&d, &op, FERRY_ERR_UNSUPPORTED, "FERRY_CAP_REMOTE_DATA");
    op = put_op(&d, &word, 0, 8, 0);
    assert_int_equal(post(&d, 0, &op), FERRY_DONE);
    duo_close(&d);
}

static void test_undeclared_atomics_are_refused(void **state)
{
    uint64_t old = 0;
    struct ferry_op op;
    struct duo d;

    (void)state;
    duo_open(&d, "no-fetch");
    op = add_op(&d, 0, 1, &old);
    refused(&d, &op, FERRY_ERR_UNSUPPORTED, "not declared");
    op = add_op(&d, 0, 1, NULL);
    assert_int_equal(post(&d, 0, &op), FERRY_DONE);
    op.amo = FERRY_AMO_SWAP; /* fetching by nature */
    refused(&d, &op, FERRY_ERR_UNSUPPORTED, "not declared");
    op.amo = 9;
    refused(&d, &op, FERRY_ERR_UNSUPPORTED, "no such kind");
    duo_close(&d);
    duo_open(&d, "nic");
    op = amo_op(d.key, 0, FERRY_AMO_ADD, 4, 1);
    op.peer = 1;
    refused(&d, &op, FERRY_ERR_UNSUPPORTED, "not declared");
    op.width = 8;
    op.amo = FERRY_AMO_OR;
    refused(&d, &op, FERRY_ERR_UNSUPPORTED, "not declared");
    op.amo = FERRY_AMO_ADD;
    op.offset = 4;
    refused(&d, &op, FERRY_ERR_UNSUPPORTED, "not aligned");
    duo_close(&d);
}

static void test_sizes_and_places_are_refused(void **state)
{
    static uint64_t words[32];
    struct ferry_op op;
    struct duo d;

    (void)state;
    duo_open(&d, "max-msg=64,copy=16");
    op = put_op(&d, words, 0, 65, 0);
    refused(&d, &op, FERRY_ERR_ARG, "message_max");
    op = get_op(&d, words, 0, 65);
    refused(&d, &op, FERRY_ERR_ARG, "message_max");
    op = put_op(&d, words, 0, 17, FERRY_OP_COPY);
    refused(&d, &op, FERRY_ERR_ARG, "copy_max");
    op = put_op(&d, words, 4, 8, FERRY_OP_WORD);
    refused(&d, &op, FERRY_ERR_ARG, "of words");
    op = put_op(&d, words, d.b.length - 8, 16, 0);
    refused(&d, &op, FERRY_ERR_ARG, "beyond what its key covers");
    op = put_op(&d, words, 0, 8, 0);
    op.peer = 2;
    assert_int_equal(post(&d, 0, &op), FERRY_ERR_ARG);
    assert_non_null(strstr(pe_error(&d.a, 2).message, "another PE's"));
    op.peer = 8;
    assert_int_equal(post(&d, 0, &op), FERRY_ERR_ARG);
    op.peer = 1;
    assert_int_equal(post(&d, 64, &op), FERRY_ERR_ARG); /* as many channels as the harness has */
    op = signal_op(&d, words, 8, 12, 1);
    refused(&d, &op, FERRY_ERR_ARG, "its signal is not a word");
    op = put_op(&d, words, 0, 64, 0);
    assert_int_equal(post(&d, 0, &op), FERRY_DONE);
    op = put_op(&d, words, 0, 16, FERRY_OP_COPY);
    assert_int_equal(post(&d, 0, &op), FERRY_DONE);
    duo_close(&d);
}

static void test_unregistered_memory_is_refused(void **state)
{
    static uint64_t words[32];
    struct ferry_memory memory = {.size = sizeof memory, .address = words, .length = 64, .fd = -1};
    uint64_t old = 0;
    struct ferry_region *region;
    struct ferry_op op;
    struct duo d;

    (void)state;
    duo_open(&d, "no-unreg");
    assert_int_equal(ops()->register_memory(d.a.t, &memory, &region), FERRY_OK);
    op = put_op(&d, words, 0, 64, 0);
    refused(&d, &op, FERRY_ERR_ARG, "not registered");
    op.region = region;
    assert_int_equal(post(&d, 0, &op), FERRY_DONE);
    op.local = words + 1;
    refused(&d, &op, FERRY_ERR_ARG, "does not cover");
    op = put_op(&d, words, 0, 64, FERRY_OP_COPY);
    assert_int_equal(post(&d, 0, &op), FERRY_DONE);
    op = put_op(&d, NULL, 0, 0, 0);
    assert_int_equal(post(&d, 0, &op), FERRY_DONE);
    op = get_op(&d, words, 0, 64);
    refused(&d, &op, FERRY_ERR_ARG, "not registered");
    op = add_op(&d, 0, 1, &old);
    refused(&d, &op, FERRY_ERR_ARG, "not registered");
    op = add_op(&d, 0, 1, NULL);
    assert_int_equal(post(&d, 0, &op), FERRY_DONE);
    assert_int_equal(ops()->deregister_memory(d.a.t, region), FERRY_OK);
    duo_close(&d);
}

static void test_quiet_of_one_peer_is_refused(void **state)
{
    uint64_t ticket = 0;
    struct duo d;

    (void)state;
    duo_open(&d, "channel-scope");
    assert_int_equal(try_quiet(&d, 0, 1, &ticket), FERRY_ERR_ARG);
    assert_non_null(strstr(pe_error(&d.a, 1).message, "FERRY_CAP_QUIET_PEER is not declared"));
    assert_int_equal(try_quiet(&d, 0, FERRY_PEER_ALL, &ticket), FERRY_OK);
    ticket = 0;
    assert_int_equal(try_quiet(&d, 64, FERRY_PEER_ALL, &ticket), FERRY_ERR_ARG);
    duo_close(&d);
}

/* A page that only one of two has: they are told, and nothing is imported. */
static void test_peers_in_another_guise(void **state)
{
    struct pe_options served = {.guise = "target-progress"}, plain = {0};
    struct ferry_rkey *key;
    struct pe a, b;

    (void)state;
    pe_open(&a, 0, &served);
    pe_open(&b, 1, &plain);
    assert_int_equal(pe_import(&a, 1, &b.key, &key), FERRY_ERR_MISMATCH);
    assert_non_null(strstr(pe_error(&a, 1).message, "PE 1 wears another guise"));
    key = pe_must_import(&b, 0, &a.key); /* who needs no page takes the key */
    assert_int_equal(ops()->release_key(b.t, key), FERRY_OK);
    pe_close(&a);
    pe_close(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_guise_declares_less),
        cmocka_unit_test(test_numbers_and_classes),
        cmocka_unit_test(test_guises_combine),
        cmocka_unit_test(test_bad_guises),
        cmocka_unit_test(test_hosts),
        cmocka_unit_test(test_undeclared_operations_are_refused),
        cmocka_unit_test(test_undeclared_atomics_are_refused),
        cmocka_unit_test(test_sizes_and_places_are_refused),
        cmocka_unit_test(test_unregistered_memory_is_refused),
        cmocka_unit_test(test_quiet_of_one_peer_is_refused),
        cmocka_unit_test(test_peers_in_another_guise),
    };
    return cmocka_run_group_tests_name("loopback guises", tests, NULL, NULL);
}
