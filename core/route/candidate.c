/* SPDX-License-Identifier: Apache-2.0
 * One candidate on its way from a name or path to a probed plugin, and the record that says why it is not one.
 * Setup thread. */
#include "internal.h"
#include <ferry/ferry.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SCORE_MAX 100

struct fy_transport *fy_candidate_add(struct fy_route *route, const char *name, const char *path)
{
    struct fy_transport **grown, *t;

    grown = realloc(route->candidates, (route->n_candidates + 1) * sizeof(struct fy_transport *));
    if (!grown)
        return NULL;
    route->candidates = grown;
    t = calloc(1, sizeof(*t));
    if (!t)
        return NULL;
    snprintf(t->name, sizeof(t->name), "%s", name);
    snprintf(t->path, sizeof(t->path), "%s", path);
    t->route = route;
    t->outcome = FY_FOUND;
    fy_services_fill(t);
    route->candidates[route->n_candidates++] = t;
    return t;
}

void fy_candidate_free(struct fy_transport *t)
{
    fy_options_free(&t->options);
    free(t); /* t->library stays loaded: what it started or registered does not survive dlclose */
}

void fy_candidate_refuse(struct fy_transport *t, enum fy_outcome outcome, const char *format, ...)
{
    va_list args;

    t->outcome = outcome;
    va_start(args, format);
    vsnprintf(t->reason, sizeof(t->reason), format, args);
    va_end(args);
    for (char *p = t->reason; (p = strchr(p, '\n'));)
        *p = ' ';
}

static struct fy_transport *known(const struct fy_route *route, const char *path)
{
    for (size_t i = 0; i < route->n_candidates; i++)
        if (strcmp(route->candidates[i]->path, path) == 0)
            return route->candidates[i];
    return NULL;
}

static struct fy_transport *find_path(struct fy_route *route, const char *path, const char *variable)
{
    const char *base = strrchr(path, '/') + 1;
    size_t length = strlen(base);
    struct fy_transport *t = known(route, path);
    enum fy_origin origin = FY_ORIGIN_DEFAULT;

    if (t)
        return t;
    t = fy_candidate_add(route, base, path);
    if (!t)
        return NULL;
    t->by_path = 1;
    if (length > 3 && length - 3 < sizeof(t->name) && strcmp(base + length - 3, ".so") == 0)
        t->name[length - 3] = '\0';
    fy_source_get(route->source, variable, &origin);
    if (strlen(path) >= sizeof(t->path))
        fy_candidate_refuse(t, FY_REFUSED_FILE, "its path is longer than %zu characters", sizeof(t->path) - 1);
    else if (route->secure && origin == FY_ORIGIN_ENVIRONMENT)
        fy_candidate_refuse(t, FY_REFUSED_FILE, "a program with raised privileges takes no path from its environment");
    return t;
}

/* Nothing of that name: remember it, with the nearest, as a row of the table. */
static struct fy_transport *missing(struct fy_route *route, const char *name)
{
    struct fy_transport *t = fy_candidate_add(route, name, "");
    char nearest[32];

    if (!t)
        return NULL;
    if (fy_search_nearest(route, name, nearest, sizeof(nearest)))
        fy_candidate_refuse(t, FY_NOT_FOUND, "did you mean %s?", nearest);
    else
        fy_candidate_refuse(t, FY_NOT_FOUND, "no folder has a file of that name");
    return t;
}

struct fy_transport *fy_candidate_find(struct fy_route *route, const char *item, const char *variable)
{
    char path[sizeof(((struct fy_transport *)0)->path)];
    struct fy_transport *t;

    if (strchr(item, '/'))
        return find_path(route, item, variable);
    if (!fy_search_name(route, item, path, sizeof(path)))
        return missing(route, item);
    t = known(route, path);
    return t ? t : fy_candidate_add(route, item, path);
}

/* false: outcome and reason say why not. */
static bool read_options(struct fy_transport *t)
{
    struct ferry_error error = {0};
    int status = fy_options_load(&t->options, t->plugin->options, t->plugin->name, t->route->source, &error);

    if (status == FERRY_OK)
        return true;
    t->open_error = error;
    fy_candidate_refuse(t, FY_REFUSED_OPTION, "%s", error.message);
    return false;
}

static void probe(struct fy_transport *t)
{
    struct ferry_error reported;
    enum fy_outcome no = FY_NO_DEVICE;
    int status = FERRY_OK;

    t->probe = (struct ferry_probe){.size = sizeof(t->probe), .score = 1};
    if (t->plugin->probe) {
        fy_services_forget(t);
        fy_services_phase(t, FY_PHASE_PROBE);
        status = t->plugin->probe(&t->core, &t->probe);
        fy_services_phase(t, FY_PHASE_IDLE);
    }
    t->probe.size = sizeof(t->probe);
    t->probe.score = t->probe.score < 1 ? 1 : t->probe.score > SCORE_MAX ? SCORE_MAX : t->probe.score;
    t->probe.detail[sizeof(t->probe.detail) - 1] = '\0';
    if (status == FERRY_OK) {
        fy_candidate_refuse(t, FY_USABLE, "%s", t->probe.detail);
        return;
    }
    fy_services_reported(t, &reported);
    if (status == FERRY_ERR_CONFIG)
        no = FY_REFUSED_OPTION;
    if (t->probe.detail[0])
        fy_candidate_refuse(t, no, "%s", t->probe.detail);
    else if (reported.message[0])
        fy_candidate_refuse(t, no, "%s", reported.message);
    else
        fy_candidate_refuse(t, no, "its probe failed without a reason (%s)", ferry_status_string(status));
}

void fy_candidate_examine(struct fy_transport *t)
{
    if (t->examined)
        return;
    t->examined = 1;
    if (t->outcome != FY_FOUND)
        return;
    if (fy_load(t) == FY_FOUND && read_options(t))
        probe(t);
    fy_log(t->route->log, FERRY_LOG_DEBUG, "%s (%s): %s: %s", t->name, t->path, fy_outcome_string(t->outcome),
           t->reason);
}

int fy_transport_report(struct fy_transport *t, const struct ferry_report *ask)
{
    const struct ferry_plugin *plugin = t->plugin;
    int status;

    if (!plugin || plugin->size < offsetof(struct ferry_plugin, report) + sizeof(plugin->report) || !plugin->report)
        return FERRY_ERR_UNSUPPORTED;
    fy_services_phase(t, FY_PHASE_PROBE);
    status = plugin->report(&t->core, ask);
    fy_services_phase(t, FY_PHASE_IDLE);
    return status;
}

/* The record has the cause even when the path is long: its beginning goes. */
static const char *short_path(const char *path, char *out, size_t size)
{
    size_t length = strlen(path);

    if (length < size)
        return path;
    snprintf(out, size, "...%s", path + length - (size - 4));
    return out;
}

static int status_of(const struct fy_transport *t)
{
    switch (t->outcome) {
    case FY_NOT_FOUND:
        return FERRY_ERR_NOT_FOUND;
    case FY_REFUSED_OPTION:
        return t->open_error.status < 0 ? t->open_error.status : FERRY_ERR_CONFIG;
    case FY_NO_DEVICE:
        return FERRY_ERR_DEVICE;
    case FY_OPEN_FAILED:
        return t->open_error.status < 0 ? t->open_error.status : FERRY_ERR_TRANSPORT;
    default:
        return FERRY_ERR_ABI;
    }
}

int fy_candidate_error(const struct fy_transport *t, const char *what, struct ferry_error *error)
{
    char path[120];
    int status = status_of(t);
    const char *hint = fy_route_advice(t);
    size_t length = strlen(t->path);

    if (t->outcome == FY_REFUSED_OPTION)
        fy_error_set(error, status, hint, "%s", t->reason);
    else if (!t->path[0])
        fy_error_set(error, status, hint, "no %s named %s%s%s", what, t->name,
                     strncmp(t->reason, "did you mean", 12) == 0 ? "; " : ": ", t->reason);
    else
        fy_error_set(error, status, hint, "%s %s (%s): %s", what, t->name, short_path(t->path, path, sizeof(path)),
                     t->reason);
    /* The table need not say it again, unless the record had no room for all of it. */
    t->route->told = strstr(error->message, t->reason) ? t : NULL;
    error->library_status = t->open_error.library_status;
    error->vendor = t->open_error.vendor;
    if (t->open_error.device[0])
        snprintf(error->device, sizeof(error->device), "%s", t->open_error.device);
    else
        snprintf(error->device, sizeof(error->device), "%s",
                 length < sizeof(error->device) ? t->path : t->path + length - sizeof(error->device) + 1);
    return status;
}

/* A second file of the name, in a later folder. */
static void hide(struct fy_transport *t, const struct fy_file *first)
{
    t->examined = 1;
    fy_candidate_refuse(t, FY_FOUND, "hidden by %s", first->path);
}

int fy_candidate_add_found(struct fy_route *route, int shadowed)
{
    const struct fy_file *first = NULL;
    struct fy_file *files;
    int status;
    size_t n;

    status = fy_search_list(route, &files, &n);
    for (size_t i = 0; i < n && status == FERRY_OK; i++) {
        struct fy_transport *t;

        if (!files[i].shadowed)
            first = &files[i];
        if (known(route, files[i].path) || (files[i].shadowed && !shadowed))
            continue;
        t = fy_candidate_add(route, files[i].name, files[i].path);
        if (!t)
            status = FERRY_ERR_NOMEM;
        else if (files[i].shadowed)
            hide(t, first);
    }
    free(files);
    return status;
}
