/* SPDX-License-Identifier: Apache-2.0
 * A look at the transports without a job: options, folders, plugins that were loaded and probed. Any thread. */
#ifndef FY_API_LOOK_H
#define FY_API_LOOK_H

#include "../base/option.h"
#include "../route/route.h"

struct fy_look {
    struct fy_log log;
    struct fy_source source;
    struct fy_options options;
    struct fy_route *route;
    const char *spec; /* what was asked for: `spec`, else FERRY_TRANSPORT */
};

/* Reads the options and makes the route; fy_route_survey is the caller's. On failure nothing is held. */
int fy_look_begin(struct fy_look *look, const char *spec);
void fy_look_end(struct fy_look *look);

#endif
