/* SPDX-License-Identifier: Apache-2.0
 * What a call that has to fail is held against: its status, and a piece of its message. For the PE threads of a test.
 * Include after pes.h. */
#ifndef TESTS_API_REFUSED_H
#define TESTS_API_REFUSED_H

#include "pes.h"

#include <stdio.h>
#include <string.h>

static inline void refused(struct pe *pe, int rc, int wanted, const char *text, int line)
{
    struct ferry_error error = {.size = sizeof(error)};
    EXPECT_OK(pe, ferry_last_error(pe->job, &error));
    if (rc == wanted && error.status == wanted && strstr(error.message, text))
        return;
    fprintf(stderr, "line %d: got %s, '%s'; wanted %s with '%s'\n", line, ferry_status_string(rc), error.message,
            ferry_status_string(wanted), text);
    EXPECT(pe, !"refused as expected");
}
#define REFUSED(pe, call, status, text) refused(pe, call, status, text, __LINE__)

#endif
