/* SPDX-License-Identifier: Apache-2.0
 * What ferry-info asks: the findings of --doctor, the plan of --explain; and which lanes UCX chose.
 * Setup thread; opens a context for a moment and keeps none. */
#include "ucx.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>

#define SHM_LEAST ((unsigned long long)256 << 20)

static void tell(const struct ferry_report *ask, uint32_t level, const char *object, const char *advice, const char *format,
                 ...) __attribute__((format(printf, 5, 6)));
static void tell(const struct ferry_report *ask, uint32_t level, const char *object, const char *advice, const char *format,
                 ...)
{
    struct ferry_finding finding = {.size = sizeof finding, .level = level, .object = object, .advice = advice};
    char text[400];
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    finding.text = text;
    ask->tell(ask->arg, &finding);
}

static void shared_memory(const struct ferry_report *ask)
{
    struct statvfs s;
    unsigned long long left;

    if (statvfs("/dev/shm", &s)) {
        tell(ask, FERRY_FINDING_WARNING, "/dev/shm", "mount a tmpfs there, or use UCX_TLS with sysv in place of posix",
             "it is not there, and posix lanes take their memory from it");
        return;
    }
    left = (unsigned long long)s.f_bavail * s.f_frsize;
    tell(ask, left < SHM_LEAST ? FERRY_FINDING_WARNING : FERRY_FINDING_OK, "/dev/shm",
         left < SHM_LEAST ? "enlarge it (mount -o remount,size=..., --shm-size of a container): heaps lie there" : "",
         "%llu MiB are free", left >> 20);
}

static void variable(const struct ferry_report *ask)
{
    if (getenv("UCX_ATOMIC_MODE"))
        tell(ask, FERRY_FINDING_WARNING, "UCX_ATOMIC_MODE", "set FERRY_UCX_ATOMICS", "Ferry does not heed it");
}

static void health(const struct ferry_report *ask, const struct fy_ux_options *o)
{
    struct fy_ux_context x;
    char why[240];
    int rc = fy_ux_context_open(o, 0, &x, why, sizeof why);

    variable(ask);
    if (rc) {
        tell(ask, FERRY_FINDING_PROBLEM, "UCX", "look at UCX_TLS and UCX_NET_DEVICES", "%s (UCX_TLS=%s): %s",
             ucp_get_version_string(), x.asked, why);
        return;
    }
    tell(ask, why[0] ? FERRY_FINDING_WARNING : FERRY_FINDING_OK, "UCX", why[0] ? "correct the value" : "", "%s with %s%s%s",
         ucp_get_version_string(), x.lanes, why[0] ? "; " : "", why);
    if (!x.net && !x.other)
        tell(ask, FERRY_FINDING_WARNING, "network", "add tcp to UCX_TLS", "there is no lane to other hosts");
    if (strstr(x.tls, "posix"))
        shared_memory(ask);
    fy_ux_context_close(&x);
}

static void plan(const struct ferry_report *ask, const struct fy_ux_options *o)
{
    struct fy_ux_context x;
    char why[240], object[32];

    if (fy_ux_context_open(o, 0, &x, why, sizeof why)) {
        tell(ask, FERRY_FINDING_PROBLEM, "no plan", why, "none");
        return;
    }
    for (uint32_t i = 0; i < ask->n_places; i++) {
        const struct ferry_place *place =
            (const struct ferry_place *)(const void *)((const char *)ask->places + (size_t)i * ask->places->size);
        snprintf(object, sizeof object, "pe %u", place->pe);
        tell(ask, FERRY_FINDING_OK, object, "UCX chooses among them for each peer, out of what UCX_TLS and UCX_NET_DEVICES allow",
             "%s", x.lanes);
    }
    fy_ux_context_close(&x);
}

int fy_ux_report(const struct ferry_core *core, const struct ferry_report *ask)
{
    struct fy_ux_options o = {0};
    int rc = fy_ux_options(core, &o);

    if (rc)
        return rc;
    if (ask->kind == FERRY_REPORT_HEALTH)
        health(ask, &o);
    else if (ask->kind == FERRY_REPORT_PLAN)
        plan(ask, &o);
    else
        return FERRY_ERR_UNSUPPORTED;
    return FERRY_OK;
}

/* ------------------------------------------------------------------ lanes of an endpoint */

/* "#  lane[0]:  1:posix/memory.0 md[1] -> ...": what UCX prints of an endpoint, in every version. */
static void add_lane(const char *line, char *out, size_t size)
{
    const char *at = strstr(line, "lane[");
    size_t used = strlen(out), n;

    at = at ? strchr(at, ' ') : NULL;
    at = at ? strchr(at, ':') : NULL;
    n = at ? strcspn(at + 1, ". \n") : 0;
    if (n)
        snprintf(out + used, size - used, "%s%.*s", used ? ", " : "", (int)n, at + 1);
}

void fy_ux_lanes(ucp_ep_h ep, char *out, size_t size)
{
    char *text = NULL, *rest, *line;
    size_t length = 0;
    FILE *file = open_memstream(&text, &length);

    out[0] = '\0';
    if (!file)
        return;
    ucp_ep_print_info(ep, file);
    fclose(file);
    for (line = text ? strtok_r(text, "\n", &rest) : NULL; line; line = strtok_r(NULL, "\n", &rest))
        add_lane(line, out, size);
    free(text);
}
