/* SPDX-License-Identifier: Apache-2.0
 * What a device offers decides how the plugin posts and in which domain a channel lives, over the stand-in: each with
 * the newer verbs, without them, and with those that fail.
 * Main thread. */
#include "pair.h"

#include <errno.h>
#include <string.h>

static void transfer(struct pair *p)
{
    struct ferry_op put = put_op(p, 0, 4096, 3000), add = amo_op(p, 0, FERRY_AMO_ADD, 2);

    memset(p->pe[0].memory, 7, 3000);
    assert_int_equal(ops()->rma(p->pe[0].t, 0, &put), FERRY_OK);
    put.length = 8;
    put.offset = 8192;
    assert_int_equal(ops()->rma(p->pe[0].t, 0, &put), FERRY_DONE);
    assert_int_equal(ops()->amo(p->pe[0].t, 0, &add), FERRY_DONE);
    assert_int_equal(side_quiet(&p->pe[0], 0, 1), FERRY_OK);
    assert_memory_equal(p->pe[1].memory + 4096, p->pe[0].memory, 3000);
    assert_memory_equal(p->pe[1].memory + 8192, p->pe[0].memory, 8);
    assert_int_equal(*(uint64_t *)(void *)p->pe[1].memory, 2);
}

static void test_posting(void **state)
{
    static const struct {
        const char *option;
        unsigned offers;
        int built;
    } cases[] = {
        {"auto", UINT32_MAX, 1}, {"auto", ~(unsigned)FAKEVERBS_WR, 0}, {"list", UINT32_MAX, 0}, {"wr", UINT32_MAX, 1}};

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const char *const set[] = {"posting", cases[i].option, NULL};
        struct fakeverbs_counts before, after;
        struct pair p;
        fakeverbs_offers(cases[i].offers);
        pair_open(&p, set);
        before = fakeverbs_counts();
        transfer(&p);
        after = fakeverbs_counts();
        assert_int_equal(after.requests - before.requests, 3 + 1); /* and a flush */
        assert_int_equal(after.built - before.built, cases[i].built ? 4 : 0);
        pair_close(&p);
    }
    fakeverbs_offers(UINT32_MAX);
}

static void test_posting_is_missing(void **state)
{
    static const char *const set[] = {"posting", "wr", NULL};
    struct side s;

    (void)state;
    fakeverbs_offers(0);
    assert_int_not_equal(side_open(&s, 0, set), FERRY_OK);
    assert_non_null(strstr(s.stub.last.message, "cannot create a queue pair on fake0:1"));
    assert_non_null(strstr(s.stub.last.hint, "FERRY_IBRC_POSTING"));
    assert_int_equal(fakeverbs_live(), 0);
    fakeverbs_offers(UINT32_MAX);
}

/* None of a batch that the device refuses was posted. */
static void test_refused_batch(void **state)
{
    struct pair p;
    struct ferry_error e = {.size = sizeof e};

    (void)state;
    pair_open(&p, NULL);
    memset(p.pe[0].memory, 1, 64);
    for (int i = 0; i < 3; i++) {
        struct ferry_op op = put_op(&p, 0, 8 * (unsigned)i, 8);
        op.flags = FERRY_OP_MORE;
        assert_int_equal(ops()->rma(p.pe[0].t, 0, &op), FERRY_DONE);
    }
    fakeverbs_fail("post_send", 2, ENOMEM);
    ops()->progress(p.pe[0].t, 0);
    assert_int_equal(p.pe[1].memory[0], 0);
    assert_int_equal(side_quiet(&p.pe[0], 0, 1), FERRY_ERR_TRANSPORT);
    ops()->query_error(p.pe[0].t, 0, 1, &e);
    assert_non_null(strstr(e.message, "the device refuses to take a request"));
    assert_int_equal(e.library_status, ENOMEM);
    pair_close(&p);
}

static void test_thread_domains(void **state)
{
    static const struct {
        const char *fails;
        unsigned offers;
        int domains, alone;
    } cases[] = {
        {"", UINT32_MAX, 1, 1},
        {"", ~(unsigned)FAKEVERBS_CQ_PD, 1, 1}, /* the queue without a lock, but in no domain */
        {"", ~(unsigned)FAKEVERBS_CQ_EX, 1, 0},
        {"", ~(unsigned)FAKEVERBS_TD, 0, 0},
        {"alloc_td", UINT32_MAX, 0, 0}, /* a device has only so many */
        {"alloc_parent_domain", UINT32_MAX, 0, 0},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct fakeverbs_counts before = fakeverbs_counts(), after;
        struct pair p;
        fakeverbs_offers(cases[i].offers);
        fakeverbs_fail(cases[i].fails, 1, *cases[i].fails ? ENOMEM : 0);
        pair_open(&p, NULL);
        after = fakeverbs_counts();
        assert_int_equal(after.tds, cases[i].domains);
        assert_int_equal(after.pds, 2 + cases[i].domains);
        assert_int_equal(after.alone - before.alone, cases[i].alone);
        transfer(&p);
        pair_close(&p); /* all is given back, in an order that verbs accept */
    }
    fakeverbs_offers(UINT32_MAX);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_posting),
        cmocka_unit_test(test_posting_is_missing),
        cmocka_unit_test(test_refused_batch),
        cmocka_unit_test(test_thread_domains),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
