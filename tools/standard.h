/* SPDX-License-Identifier: Apache-2.0
 * Standard streams of the tools. Main thread. */
#ifndef TOOLS_STANDARD_H
#define TOOLS_STANDARD_H

#include <stdbool.h>

/* A pipe or socket must not get the number of a standard stream that the caller closed, or output goes into it. Output to a
 * stream that was closed is discarded, or else fails. Ends the program if /dev/null cannot be opened. */
void tool_standard_streams(bool discard);

#endif
