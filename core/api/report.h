/* SPDX-License-Identifier: Apache-2.0
 * Findings on their way to a tool: rows of ferry_doctor. Any thread. */
#ifndef FY_API_REPORT_H
#define FY_API_REPORT_H

#include "look.h"
#include <ferry/ferry.h>

struct fy_findings {
    void (*row)(void *arg, const ferry_info_row_t *row);
    void *arg;
    const char *owner;
};

void fy_finding(const struct fy_findings *to, uint32_t level, const char *object, const char *advice,
                const char *format, ...) __attribute__((format(printf, 5, 6)));

/* report_core.c: what the library itself needs of the host. */
void fy_report_core(const struct fy_findings *to, const struct fy_options *options);

#endif
