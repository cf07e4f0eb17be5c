/* SPDX-License-Identifier: Apache-2.0
 * A look at the transports without a job, for ferry_info, ferry_doctor and ferry_plan.
 * Any thread; makes and unmakes everything it needs. */
#include "look.h"

#include <sodium.h>
#include <unistd.h>

int fy_look_begin(struct fy_look *look, const char *spec)
{
    static const struct fy_route_services none;
    struct ferry_error error;
    if (sodium_init() < 0)
        return FERRY_ERR_SYSTEM;
    *look = (struct fy_look){.source = {NULL, environ}};
    fy_log_init(&look->log);
    int rc = fy_options_load(&look->options, fy_core_options, NULL, &look->source, &error);
    if (rc != FERRY_OK) {
        fy_log_record(&look->log, FERRY_LOG_ERROR, "", &error);
        return rc;
    }
    look->log.level = (int)fy_options_number(&look->options, "log");
    look->spec = spec ? spec : fy_options_string(&look->options, "transport");
    rc = fy_route_create(&look->log, &look->source, &none, &look->route);
    if (rc != FERRY_OK)
        fy_options_free(&look->options);
    return rc;
}

void fy_look_end(struct fy_look *look)
{
    fy_route_close(look->route);
    fy_options_free(&look->options);
}
