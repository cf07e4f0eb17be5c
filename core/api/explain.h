/* SPDX-License-Identifier: Apache-2.0
 * The rows "explain" of ferry_info: for a transport, what is native, what is made, what it costs. Any thread. */
#ifndef FY_API_EXPLAIN_H
#define FY_API_EXPLAIN_H

#include "../route/route.h"
#include <ferry/ferry.h>

void fy_explain(const struct fy_transport *transport, void (*row)(void *arg, const ferry_info_row_t *row), void *arg);

#endif
