/* SPDX-License-Identifier: Apache-2.0
 * How far one name is from another.
 * Any thread. */
#include "common.h"

#include <string.h>

static unsigned least(unsigned a, unsigned b)
{
    return a < b ? a : b;
}

unsigned fy_plugin_edits(const char *a, const char *b)
{
    unsigned row[FY_PLUGIN_NAME + 1];
    unsigned n = (unsigned)strnlen(a, FY_PLUGIN_NAME), m = (unsigned)strnlen(b, FY_PLUGIN_NAME);

    for (unsigned j = 0; j <= m; j++)
        row[j] = j;
    for (unsigned i = 1; i <= n; i++) {
        unsigned corner = row[0];
        row[0] = i;
        for (unsigned j = 1; j <= m; j++) {
            unsigned swap = corner + (a[i - 1] != b[j - 1]);
            corner = row[j];
            row[j] = least(swap, least(row[j], row[j - 1]) + 1);
        }
    }
    return row[m];
}
