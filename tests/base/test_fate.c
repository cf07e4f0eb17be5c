/* SPDX-License-Identifier: Apache-2.0
 * The failure that stands for all: the lowest PE's, in whatever order they are combined. */
#include "cmocka_headers.h"

#include "base/fate.h"
#include "base/log.h"
#include <string.h>

static struct fy_fate fate_of(uint32_t pe, int status)
{
    struct ferry_error error;
    struct fy_fate fate;
    fy_error_set(&error, status, "do this", "what %u met", pe);
    error.library_status = (int64_t)pe * 10;
    fy_fate_set(&fate, pe, status, status == FERRY_OK ? NULL : &error);
    return fate;
}

static void test_lowest_in_any_order(void **state)
{
    (void)state;
    static const int status[4] = {FERRY_OK, FERRY_ERR_NOMEM, FERRY_OK, FERRY_ERR_LIMIT};
    for (uint32_t order = 0; order < 16; order++) {
        struct fy_fate all = fate_of(order & 3, status[order & 3]);
        for (uint32_t i = 0; i < 4; i++) {
            uint32_t pe = (i + (order >> 2)) & 3;
            struct fy_fate next = fate_of(pe, status[pe]);
            fy_fate_combine(&all, &next);
        }
        assert_int_equal(all.pe, 1);
        assert_int_equal(all.status, FERRY_ERR_NOMEM);
    }
}

static void test_told(void **state)
{
    (void)state;
    struct ferry_error error = {.size = sizeof(error), .status = 1};
    struct fy_fate well = fate_of(2, FERRY_OK), ill = fate_of(3, FERRY_ERR_LIMIT);
    assert_int_equal(fy_fate_tell(&well, " could not", &error), FERRY_OK);
    assert_int_equal(error.status, 1); /* untouched */
    assert_int_equal(fy_fate_tell(&ill, " could not", &error), FERRY_ERR_LIMIT);
    assert_string_equal(error.message, "pe 3 could not: what 3 met");
    assert_string_equal(error.hint, "do this");
    assert_int_equal(error.peer, 3);
    assert_int_equal(error.library_status, 30);
}

/* Bytes of another PE are no string until somebody has ended it. */
static void test_unended_text(void **state)
{
    (void)state;
    struct ferry_error error = {.size = sizeof(error)};
    struct fy_fate fate = fate_of(1, FERRY_ERR_NOMEM);
    memset(fate.message, 'm', sizeof(fate.message));
    memset(fate.hint, 'h', sizeof(fate.hint));
    assert_int_equal(fy_fate_tell(&fate, "", &error), FERRY_ERR_NOMEM);
    assert_true(strlen(error.message) < sizeof(error.message));
    assert_int_equal(strlen(error.hint), sizeof(error.hint) - 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lowest_in_any_order),
        cmocka_unit_test(test_told),
        cmocka_unit_test(test_unended_text),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
