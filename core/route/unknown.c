/* SPDX-License-Identifier: Apache-2.0
 * Variables that no option has, of the library and of the plugins that were loaded.
 * Setup thread; reads a route, changes nothing. */
#include "internal.h"
#include <stdlib.h>
#include <string.h>

static bool any_starts(const struct fy_options *const *known, const char *prefix)
{
    for (; *known; known++)
        for (size_t i = 0; i < (*known)->n; i++)
            if (strncmp((*known)->values[i].variable, prefix, strlen(prefix)) == 0)
                return true;
    return false;
}

void fy_route_warn_unknown(const struct fy_route *route, const struct fy_options *core, const struct fy_log *log)
{
    static const char *const prefixes[] = {"FERRY_IBRC_",     "FERRY_LIBFABRIC_", "FERRY_UCX_",
                                           "FERRY_LOOPBACK_", "FERRY_CHAOS_",     "FERRY_COUNT_",  "FERRY_FAULT_"};
    const char *foreign[sizeof(prefixes) / sizeof(prefixes[0]) + 1] = {NULL};
    const struct fy_options **known = calloc(route->n_candidates + 2, sizeof(*known));
    size_t n = 0;

    if (!known)
        return;
    known[n++] = core;
    for (size_t i = 0; i < route->n_candidates; i++)
        known[n++] = &route->candidates[i]->options;
    n = 0;
    for (size_t i = 0; i < sizeof(prefixes) / sizeof(prefixes[0]); i++)
        if (!any_starts(known, prefixes[i]))
            foreign[n++] = prefixes[i];
    fy_options_warn_unknown(route->source, known, foreign, log);
    free(known);
}
