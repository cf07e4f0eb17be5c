/* SPDX-License-Identifier: Apache-2.0
 * cmocka and what it needs before it. */
#ifndef TESTS_BASE_CMOCKA_HEADERS_H
#define TESTS_BASE_CMOCKA_HEADERS_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#endif
