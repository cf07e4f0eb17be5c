/* SPDX-License-Identifier: Apache-2.0
 * PEs as threads of a test with cmocka, which fails if one of them found something wrong. Main thread. */
#include "pes.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <cmocka.h>

void pes_check_options(int n, void (*body)(struct pe *pe), void *arg, const char *const *options)
{
    struct run run = {.n = n, .body = body, .arg = arg, .options = options};
    assert_int_equal(pes_run(&run), 0);
}

void pes_check(int n, void (*body)(struct pe *pe), void *arg)
{
    pes_check_options(n, body, arg, NULL);
}
