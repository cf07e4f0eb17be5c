/* SPDX-License-Identifier: Apache-2.0
 * Time limits of rules: whole seconds on a machine that has time, less where others are busy, never none. One thread.
 */
#include "pes.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static void shares(void **state)
{
    (void)state;
    assert_true(pes_share(0, 2) == 1); /* not known */
    assert_true(pes_share(8, 2) == 1);
    assert_true(pes_share(16, 2) == 0.5);
    assert_true(pes_share(100000, 2) == 0.1);
    assert_true(pes_share(5, 0) == 1);
}

static void limits(void **state)
{
    double start = pes_now();
    struct pes_limit limit = pes_limit(0.2);

    (void)state;
    assert_true(pes_in_time(&limit));
    while (pes_in_time(&limit))
        continue;
    assert_true(pes_now() - start >= 0.2);
    assert_false(pes_in_time(&limit));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(shares), cmocka_unit_test(limits)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
