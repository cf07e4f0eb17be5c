/* SPDX-License-Identifier: Apache-2.0
 * ferry-perf's moe_ht and moe_ll over a transport that reorders what it may: they pass, and if their signals do not
 * cover the data, they notice. */
#include "command.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>

static const char *const tests_of_order[] = {"moe_ht", "moe_ll"};
static const char *const chaos[] = {"FERRY_HOOKS=chaos", NULL};
static const char *run, *perf, *weak;

static void test_holds(void **state)
{
    (void)state;
    for (size_t i = 0; i < 2; i++) {
        struct command c = {.settings = chaos};
        int status = command_run(&c, ARGS(run, "-n", "3", perf, tests_of_order[i], "-i", "2", "-c", "2", "--csv"));
        if (status != 0)
            fail_msg("%s: status %d:\n%s", tests_of_order[i], status, c.error_text);
        assert_int_equal(count_pieces(c.text, c.length, "\n"), 2);
        command_release(&c);
    }
}

static void test_notices(void **state)
{
    (void)state;
    for (size_t i = 0; i < 2; i++) {
        struct command c = {.settings = chaos};
        int status = command_run(&c, ARGS(run, "-n", "2", weak, tests_of_order[i], "-i", "20", "-c", "2", "--csv"));
        if (status != 1 || count_pieces(c.error_text, c.error_length, "not there, though its signal is") == 0)
            fail_msg("%s: status %d:\n%s", tests_of_order[i], status, c.error_text);
        assert_int_equal(count_pieces(c.text, c.length, "\n"), 1);
        command_release(&c);
    }
}

int main(void)
{
    run = getenv("TOOLS_RUN");
    perf = getenv("TOOLS_PERF");
    weak = getenv("TOOLS_PERF_WEAK");
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_holds), cmocka_unit_test(test_notices)};
    return run && perf && weak ? cmocka_run_group_tests(tests, NULL, NULL) : 1;
}
