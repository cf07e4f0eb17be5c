/* SPDX-License-Identifier: Apache-2.0
 * Names in comma lists, and the one that was meant.
 * Setup thread. */
#include "ucx.h"

#include <string.h>

int fy_ux_listed(const char *list, const char *name, size_t length)
{
    while (*list) {
        size_t n = strcspn(list, ",");
        if (n == length && !memcmp(list, name, n))
            return 1;
        list += n + (list[n] == ',');
    }
    return 0;
}
