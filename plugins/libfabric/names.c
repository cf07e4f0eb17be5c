/* SPDX-License-Identifier: Apache-2.0
 * Lists of names as a message shows them, and the name in them that is nearest to what was written.
 * Setup thread. */
#include "select.h"

#include <stdio.h>
#include <string.h>

int fy_lf_names_has(const struct fy_lf_names *names, const char *name, size_t length)
{
    for (const char *at = names->text; (at = strstr(at, name)); at++) {
        int starts = at == names->text || at[-1] == ' ';
        if (starts && (at[length] == ',' || !at[length]))
            return 1;
    }
    return 0;
}

void fy_lf_names_add(struct fy_lf_names *names, const char *name)
{
    size_t used = strlen(names->text), d;

    if (!name || !*name || fy_lf_names_has(names, name, strlen(name)))
        return;
    if (used + strlen(name) + 3 < sizeof names->text)
        snprintf(names->text + used, sizeof names->text - used, "%s%s", used ? ", " : "", name);
    d = fy_plugin_edits(names->wanted, name);
    if (!*names->nearest || d < names->distance) {
        names->distance = d;
        snprintf(names->nearest, sizeof names->nearest, "%.*s", (int)FY_PLUGIN_NAME, name);
    }
}

const char *fy_lf_names_hint(const struct fy_lf_names *names, char *place, size_t size)
{
    *place = 0;
    if (*names->nearest && names->distance && names->distance <= 1 + strlen(names->wanted) / 3)
        snprintf(place, size, " (did you mean %s?)", names->nearest);
    return place;
}
