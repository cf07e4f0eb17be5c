/* SPDX-License-Identifier: Apache-2.0
 * What loopback says to ferry-info --doctor: where all is well, and where no file can be opened.
 * Main thread. */
#include "harness.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

#define FINDINGS 8

struct told {
    size_t n;
    struct {
        uint32_t level;
        char object[32], text[200], advice[200];
    } findings[FINDINGS];
};

static void keep(void *arg, const struct ferry_finding *f)
{
    struct told *told = arg;

    assert_true(told->n < FINDINGS);
    told->findings[told->n].level = f->level;
    snprintf(told->findings[told->n].object, sizeof told->findings[0].object, "%s", f->object);
    snprintf(told->findings[told->n].text, sizeof told->findings[0].text, "%s", f->text);
    snprintf(told->findings[told->n].advice, sizeof told->findings[0].advice, "%s", f->advice);
    told->n++;
}

static void test_good(void **state)
{
    struct told told = {0};
    struct ferry_report ask = {.size = sizeof ask, .kind = FERRY_REPORT_HEALTH, .tell = keep, .arg = &told};

    (void)state;
    assert_int_equal(plugin()->report(NULL, &ask), FERRY_OK);
    assert_int_equal(told.n, 3);
    for (size_t i = 0; i < told.n; i++) {
        assert_int_equal(told.findings[i].level, FERRY_FINDING_OK);
        assert_string_equal(told.findings[i].advice, "");
    }
    ask.kind = FERRY_REPORT_PLAN;
    assert_int_equal(plugin()->report(NULL, &ask), FERRY_ERR_UNSUPPORTED);
    assert_int_equal(told.n, 3);
}

static void test_no_files(void **state)
{
    struct told told = {0};
    struct ferry_report ask = {.size = sizeof ask, .kind = FERRY_REPORT_HEALTH, .tell = keep, .arg = &told};
    const struct ferry_plugin *p = plugin();
    struct rlimit before, none;

    (void)state;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    none = before;
    none.rlim_cur = 0;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
    assert_int_equal(p->report(NULL, &ask), FERRY_OK);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    assert_int_equal(told.n, 3);
    for (size_t i = 0; i < told.n; i++) {
        assert_int_equal(told.findings[i].level, FERRY_FINDING_PROBLEM);
        assert_non_null(strstr(told.findings[i].text, "Too many open files"));
        assert_true(strlen(told.findings[i].advice) > 0);
    }
    assert_string_equal(told.findings[0].object, "memory files");
    assert_string_equal(told.findings[1].object, "sockets");
    assert_string_equal(told.findings[2].object, "reaches");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_good), cmocka_unit_test(test_no_files)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
