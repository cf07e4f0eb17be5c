/* SPDX-License-Identifier: Apache-2.0
 * Options that are numbers within bounds.
 * Setup thread. */
#include "common.h"

#include <stdio.h>

static void out_of_bounds(const char *prefix, const struct fy_plugin_bound *b, long long number, char *why, size_t why_size)
{
    char name[64];

    snprintf(name, sizeof name, "%s", b->name);
    for (char *s = name; *s; s++)
        *s = (char)(*s >= 'a' && *s <= 'z' ? *s - 'a' + 'A' : *s);
    snprintf(why, why_size, "%s%s=%lld is not between %d and %d", prefix, name, number, b->least, b->most);
}

int fy_plugin_bounds(const struct ferry_core *core, const char *prefix, const struct fy_plugin_bound *b, char *why, size_t why_size)
{
    for (; b->name; b++) {
        struct ferry_value v;
        int rc = core->option(core, b->name, &v);
        if (rc)
            return rc;
        if (v.number < b->least || v.number > b->most) {
            out_of_bounds(prefix, b, (long long)v.number, why, why_size);
            return FERRY_ERR_CONFIG;
        }
        *b->value = (int)v.number;
    }
    return FERRY_OK;
}
