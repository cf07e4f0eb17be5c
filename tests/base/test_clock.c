/* SPDX-License-Identifier: Apache-2.0
 * The waiting ladder, deadlines, and counters. */
#include "base/clock.h"
#include "base/stats.h"
#include "cmocka_headers.h"

static void test_moments(void **state)
{
    struct fy_backoff backoff = {.rounds = 0};

    (void)state;
    for (uint32_t call = 1; call <= FY_SPIN; call++)
        assert_int_equal(fy_backoff(&backoff), call % 256 == 0);
    for (uint32_t call = 1; call <= FY_YIELD; call++)
        assert_true(fy_backoff(&backoff));
    assert_int_equal(backoff.rounds, FY_SPIN + FY_YIELD);
}

/* A sleep never ends early; that it is not the next longer one shows in the shortest of several. */
static void test_sleeps(void **state)
{
    static const uint64_t micros[] = {50, 100, 200, 400, 800, 1000, 1000, 1000};

    (void)state;
    for (size_t step = 0; step < sizeof(micros) / sizeof(micros[0]); step++) {
        uint64_t shortest = UINT64_MAX, deadline = fy_deadline(20);
        uint64_t limit = 2 * micros[step] * 1000 + 300000; /* timer slack adds 50 µs or more */

        while (shortest >= limit && fy_now_ns() < deadline) {
            struct fy_backoff backoff = {.rounds = FY_SPIN + FY_YIELD};

            for (size_t i = 0; i < step; i++)
                assert_true(fy_backoff(&backoff));
            uint64_t before = fy_now_ns();
            assert_true(fy_backoff(&backoff));
            uint64_t took = fy_now_ns() - before;
            if (took < shortest)
                shortest = took;
        }
        assert_true(shortest >= micros[step] * 1000);
        assert_true(shortest < limit);
    }
}

static void test_does_not_wrap(void **state)
{
    struct fy_backoff backoff = {.rounds = FY_SPIN + FY_YIELD};

    (void)state;
    for (int i = 0; i < 10; i++)
        fy_backoff(&backoff);
    uint32_t rounds = backoff.rounds;
    for (int i = 0; i < 10; i++)
        assert_true(fy_backoff(&backoff));
    assert_int_equal(backoff.rounds, rounds);
}

/* Where many wait: each doze doubles the longest sleep, and that is then the last. */
static void test_doze(void **state)
{
    (void)state;
    for (uint32_t doze = 0; doze <= 3; doze++) {
        struct fy_backoff backoff = {.rounds = FY_SPIN + FY_YIELD, .doze = doze};
        for (uint32_t i = 0; i < 5 + doze; i++)
            assert_true(fy_backoff(&backoff));
        assert_int_equal(backoff.rounds, FY_SPIN + FY_YIELD + 5 + doze);
        uint64_t before = fy_now_ns();
        assert_true(fy_backoff(&backoff));
        assert_true(fy_now_ns() - before >= 1000000u << doze);
        assert_int_equal(backoff.rounds, FY_SPIN + FY_YIELD + 5 + doze);
    }
}

static void test_deadline(void **state)
{
    uint64_t before = fy_now_ns(), deadline = fy_deadline(1.5), after = fy_now_ns();

    (void)state;
    assert_true(deadline >= before + 1500000000u && deadline <= after + 1500000000u);
    assert_true(fy_deadline(0) == UINT64_MAX);
    assert_true(fy_deadline(-1) == UINT64_MAX);
    assert_true(fy_deadline(1e9) > after && fy_deadline(1e9) < UINT64_MAX); /* the longest that an option takes */
    assert_true(fy_now_ns() >= after);
}

static void test_counters(void **state)
{
    struct ferry_counters counters[2] = {{0}};

    (void)state;
    fy_count(&counters[0].puts, 3);
    fy_count(&counters[0].puts, UINT32_MAX);
    fy_count(&counters[1].again, 1);
    assert_true(counters[0].puts == 3ull + UINT32_MAX);
    assert_true(counters[1].again == 1 && counters[0].again == 0);
    assert_int_equal(sizeof(counters[0]) % 64, 0); /* a block is whole lines */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_moments),  cmocka_unit_test(test_sleeps),   cmocka_unit_test(test_does_not_wrap), cmocka_unit_test(test_doze),
        cmocka_unit_test(test_deadline), cmocka_unit_test(test_counters),
    };

    return cmocka_run_group_tests_name("base clock", tests, NULL, NULL);
}
