/* SPDX-License-Identifier: Apache-2.0
 * ferry_doctor and ferry_plan: what the library and its transports find on this host, and which devices they would use.
 * Any thread; makes and unmakes everything it needs. */
#include "report.h"

#include "../job/job.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *level_string(uint32_t level)
{
    static const char *const names[] = {"ok", "warning", "problem"};
    return level < 3 ? names[level] : "problem";
}

static void tell(const struct fy_findings *to, const char *what, const char *object, const char *state,
                 const char *origin, const char *doc)
{
    ferry_info_row_t row = {what,          to->owner, object ? object : "", state ? state : "", origin ? origin : "",
                            doc ? doc : ""};
    to->row(to->arg, &row);
}

void fy_finding(const struct fy_findings *to, uint32_t level, const char *object, const char *advice,
                const char *format, ...)
{
    char text[512];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    tell(to, "finding", object, level_string(level), advice, text);
}

/* A plugin's finding, of any minor that has the members looked at. */
static bool whole(const struct ferry_finding *finding)
{
    return finding && finding->size >= offsetof(struct ferry_finding, advice) + sizeof(finding->advice);
}

static void found(void *arg, const struct ferry_finding *finding)
{
    if (whole(finding))
        tell(arg, "finding", finding->object, level_string(finding->level), finding->advice, finding->text);
}

static void planned(void *arg, const struct ferry_finding *finding)
{
    if (whole(finding))
        tell(arg, "plan", finding->object, finding->text, "", finding->advice);
}

/* What a plugin's own report cannot say, or did not. */
static void report_outcome(const struct fy_findings *to, const struct fy_transport *t)
{
    const char *advice = fy_route_advice(t);
    bool good = t->outcome == FY_USABLE || t->outcome == FY_CHOSEN;
    fy_finding(to, good ? FERRY_FINDING_OK : FERRY_FINDING_PROBLEM, "plugin", good || !advice ? "" : advice, "%s: %s",
               fy_outcome_string(t->outcome), t->reason[0] ? t->reason : t->probe.detail);
}

static bool asked_for(const struct fy_transport *t)
{
    return t->outcome != FY_FOUND && !(t->plugin && t->plugin->kind != 0);
}

static void ask_all(struct fy_look *look, struct fy_findings *to, struct ferry_report *ask)
{
    ask->arg = to;
    for (size_t i = 0; i < look->route->n_candidates; i++) {
        struct fy_transport *t = look->route->candidates[i];
        if (!asked_for(t))
            continue;
        to->owner = t->name;
        if (ask->kind == FERRY_REPORT_HEALTH)
            report_outcome(to, t);
        int answer = fy_transport_report(t, ask);
        if (answer != FERRY_OK && answer != FERRY_ERR_UNSUPPORTED && ask->kind == FERRY_REPORT_HEALTH)
            fy_finding(to, FERRY_FINDING_PROBLEM, "report", "", "its report failed: %s", ferry_status_string(answer));
    }
}

/* A line of the log: what stands behind its level. */
static void unknown(void *arg, int level, const char *line)
{
    const char *text = strstr(line, ": ");
    (void)level;
    fy_finding(arg, FERRY_FINDING_WARNING, "options", "correct the name, or unset it", "%s", text ? text + 2 : line);
}

int ferry_doctor(const char *spec, void (*row)(void *arg, const ferry_info_row_t *row), void *arg)
{
    struct fy_findings to = {row, arg, "core"};
    struct ferry_report ask = {.size = sizeof(ask), .kind = FERRY_REPORT_HEALTH, .n_places = 1, .tell = found};
    struct ferry_place here;
    struct fy_look look;
    if (!row)
        return FERRY_ERR_ARG;
    int rc = fy_look_begin(&look, spec);
    if (rc != FERRY_OK)
        return rc;
    fy_job_here(&here, &look.options);
    ask.places = &here;
    ask.n_channels = (uint32_t)fy_options_number(&look.options, "channels");
    rc = fy_route_survey(look.route, look.spec, 0);
    if (rc == FERRY_OK) {
        fy_report_core(&to, &look.options);
        fy_route_warn_unknown(look.route, &look.options, &(struct fy_log){FERRY_LOG_WARN, -1, unknown, &to});
        ask_all(&look, &to, &ask);
    }
    fy_look_end(&look);
    return rc;
}

static struct ferry_place *make_places(int n, const uint64_t *nodes, const struct fy_options *options)
{
    struct ferry_place *places = calloc((size_t)n, sizeof(*places));
    for (int i = 0; places && i < n; i++) {
        fy_job_here(&places[i], options);
        places[i].pe = (uint32_t)i;
        if (nodes)
            places[i].nodes = nodes[i];
    }
    return places;
}

int ferry_plan(const char *spec, int n_local, const uint64_t *nodes,
               void (*row)(void *arg, const ferry_info_row_t *row), void *arg)
{
    struct fy_findings to = {row, arg, ""};
    struct ferry_report ask = {.size = sizeof(ask), .kind = FERRY_REPORT_PLAN, .tell = planned};
    struct fy_look look;
    if (!row || n_local < 1)
        return FERRY_ERR_ARG;
    int rc = fy_look_begin(&look, spec);
    if (rc != FERRY_OK)
        return rc;
    struct ferry_place *places = make_places(n_local, nodes, &look.options);
    ask.places = places;
    ask.n_places = (uint32_t)n_local;
    ask.n_channels = (uint32_t)fy_options_number(&look.options, "channels");
    rc = places ? fy_route_survey(look.route, look.spec, 0) : FERRY_ERR_NOMEM;
    if (rc == FERRY_OK)
        ask_all(&look, &to, &ask);
    free(places);
    fy_look_end(&look);
    return rc;
}
