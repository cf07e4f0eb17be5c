/* SPDX-License-Identifier: Apache-2.0
 * Atomics that a device claims are tried before they are declared, over the stand-in.
 * Main thread. */
#include "pair.h"

#include <errno.h>
#include <string.h>

static struct ferry_caps caps_of(struct side *s, uint32_t kind)
{
    struct ferry_caps caps = {.size = sizeof caps};

    assert_int_equal(ops()->query(s->t, kind, &caps), FERRY_OK);
    return caps;
}

static void test_good_device(void **state)
{
    struct side s;

    (void)state;
    assert_int_equal(side_open(&s, 0, NULL), FERRY_OK);
    assert_int_equal(caps_of(&s, FERRY_MEMORY_HOST).domain, FERRY_DOMAIN_NIC);
    assert_int_not_equal(caps_of(&s, FERRY_MEMORY_HOST).amo64, 0);
    assert_int_equal(s.stub.warnings, 0);
    side_close(&s);
    assert_int_equal(fakeverbs_live(), 0);
}

static void lacks_atomics(struct side *s, const char *says)
{
    assert_int_equal(caps_of(s, FERRY_MEMORY_HOST).amo64, 0);
    assert_int_equal(caps_of(s, FERRY_MEMORY_HOST).flags & FERRY_CAP_PUT_SIGNAL, 0);
    assert_int_equal(s->stub.warnings, says != NULL);
    if (says && !strstr(s->stub.warning, says))
        fail_msg("%s", s->stub.warning);
    side_close(s);
    assert_int_equal(fakeverbs_live(), 0);
}

static void test_other_byte_order(void **state)
{
    struct side s;

    (void)state;
    fakeverbs_big_endian(1);
    assert_int_equal(side_open(&s, 0, NULL), FERRY_OK);
    lacks_atomics(&s, "atomics by the targets' CPUs, since the device's replies are of the other byte order");
    fakeverbs_big_endian(0);
}

static void test_claims_none(void **state)
{
    struct side s;

    (void)state;
    fakeverbs_atomics(IBV_ATOMIC_NONE);
    assert_int_equal(side_open(&s, 0, NULL), FERRY_OK);
    lacks_atomics(&s, NULL);
    fakeverbs_atomics(IBV_ATOMIC_HCA);
}

/* Whatever fails on the way, the device stays usable for the rest. */
static void test_trial_fails(void **state)
{
    static const struct {
        const char *call;
        int nth;
        const char *says;
    } steps[] = {
        {"reg_mr", 2, "since one that was tried failed: Input/output error"},
        {"modify_init", 1, "cannot go to INIT"},
        {"modify_rtr", 1, "cannot go to RTR"},
        {"modify_rts", 1, "cannot go to RTS"},
        {"post_send", 1, "since one that was tried failed: Input/output error"},
        {"poll_cq", 1, "the completion queue cannot be polled"},
    };
    struct side s;

    (void)state;
    for (size_t i = 0; i < sizeof steps / sizeof steps[0]; i++) {
        fakeverbs_fail(steps[i].call, steps[i].nth, EIO);
        assert_int_equal(side_open(&s, 0, NULL), FERRY_OK);
        lacks_atomics(&s, steps[i].says);
        fakeverbs_fail("", 0, 0);
    }
    fakeverbs_complete(1, IBV_WC_REM_ACCESS_ERR, 0);
    assert_int_equal(side_open(&s, 0, NULL), FERRY_OK);
    lacks_atomics(&s, "since one that was tried failed: remote access error");
}

/* A device that never answers holds open up for 2 seconds, not for ever. */
static void test_no_answer(void **state)
{
    struct side s;

    (void)state;
    fakeverbs_delay(0, FAKEVERBS_ATOMICS, 0, 3600 * 1000000L);
    assert_int_equal(side_open(&s, 0, NULL), FERRY_OK);
    lacks_atomics(&s, "since one that was tried failed: no completion within 2 s");
    fakeverbs_delay(0, 0, 0, 0);
}

/* One PE's device and another's CPU would not see each other's atomics on one word. */
static void test_unlike_peers(void **state)
{
    struct side with, without;
    char why[200] = "";

    (void)state;
    assert_int_equal(side_open(&with, 0, NULL), FERRY_OK);
    fakeverbs_big_endian(1);
    assert_int_equal(side_open(&without, 1, NULL), FERRY_OK);
    fakeverbs_big_endian(0);
    assert_int_equal(ops()->reach(with.t, 1, without.endpoint, without.endpoint_size, why, sizeof why),
                     FERRY_ERR_UNREACHABLE);
    assert_non_null(strstr(why, "by the CPU of that PE and by the device of this one"));
    assert_int_equal(ops()->reach(without.t, 0, with.endpoint, with.endpoint_size, why, sizeof why),
                     FERRY_ERR_UNREACHABLE);
    assert_non_null(strstr(why, "by the device of that PE and by the CPU of this one"));
    assert_int_equal(ops()->reach(with.t, 0, with.endpoint, with.endpoint_size, why, sizeof why), FERRY_OK);
    side_close(&with);
    side_close(&without);
    assert_int_equal(fakeverbs_live(), 0);
}

static void test_gpu_caps(void **state)
{
    struct ferry_caps caps = {.size = sizeof caps};
    struct side s;

    (void)state;
    assert_int_equal(side_open(&s, 0, NULL), FERRY_OK);
    assert_int_equal(ops()->query(s.t, FERRY_MEMORY_GPU, &caps), FERRY_ERR_UNSUPPORTED); /* the core has none */
    s.stub.core.gpu = (const struct ferry_gpu *)&s;
    assert_int_equal(caps_of(&s, FERRY_MEMORY_GPU).copy_max, 0);
    assert_true(caps_of(&s, FERRY_MEMORY_GPU).flags & FERRY_CAP_FENCED);
    assert_int_not_equal(caps_of(&s, FERRY_MEMORY_HOST).copy_max, 0);
    side_close(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_no_answer),   cmocka_unit_test(test_good_device), cmocka_unit_test(test_other_byte_order),
        cmocka_unit_test(test_claims_none), cmocka_unit_test(test_trial_fails), cmocka_unit_test(test_unlike_peers),
        cmocka_unit_test(test_gpu_caps),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
