/* SPDX-License-Identifier: Apache-2.0
 * Opens what was chosen, asks each instance what it can do, wraps it in hooks; and closes.
 * Setup thread. */
#include "internal.h"
#include <ferry/ferry.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The plugin's own words, if it reported any. */
static void open_failed(struct fy_transport *t, const char *step, int status)
{
    struct ferry_error reported;

    fy_services_reported(t, &reported);
    if (reported.message[0])
        fy_candidate_refuse(t, FY_OPEN_FAILED, "%s: %s", step, reported.message);
    else
        fy_candidate_refuse(t, FY_OPEN_FAILED, "%s failed with %s and no further reason", step,
                            ferry_status_string(status));
    /* A positive status is no failure that a caller could act on. */
    fy_services_failed(t, status < 0 ? status : FERRY_ERR_TRANSPORT);
}

static bool caps_refused(struct fy_transport *t, const char *what)
{
    fy_candidate_refuse(t, FY_OPEN_FAILED, "its capabilities contradict themselves: %s", what);
    fy_services_failed(t, FERRY_ERR_TRANSPORT);
    return true;
}

/* What it declares must be there: a gap is known now, or met in flight. */
static bool caps_contradict(struct fy_transport *t)
{
    struct ferry_caps *caps = &t->caps;
    struct ferry_host_ops nothing = {0}, defaults;

    fy_ops_overlay(&defaults, &nothing);
    if (caps->message_max == 0)
        return caps_refused(t, "it declares no largest message size");
    if ((caps->flags & FERRY_CAP_PUT_SIGNAL) && t->ops.put_signal == defaults.put_signal)
        return caps_refused(t, "it declares put_signal, but has no such operation");
    if ((caps->flags & FERRY_CAP_FENCE_CALL) && t->ops.fence == defaults.fence)
        return caps_refused(t, "it wants fence to be called, but has no such operation");
    if ((caps->flags & FERRY_CAP_MUST_ALLOCATE) &&
        (t->ops.allocate_memory == defaults.allocate_memory || t->ops.free_memory == defaults.free_memory))
        return caps_refused(t, "it must allocate, but lacks allocate_memory or free_memory");
    if ((caps->flags & FERRY_CAP_MAP) && t->ops.map_key == defaults.map_key)
        return caps_refused(t, "it declares that it maps keys, but has no map_key");
    if ((caps->amo32 | caps->amo64) && t->ops.amo == defaults.amo)
        return caps_refused(t, "it declares atomics, but has no amo");
    return false;
}

static bool query(struct fy_transport *t)
{
    struct ferry_caps *caps = &t->caps;
    int status;

    *caps = (struct ferry_caps){.size = sizeof(*caps)};
    status = t->ops.query(t->handle, FERRY_MEMORY_HOST, caps);
    caps->size = sizeof(*caps);
    if (status != FERRY_OK) {
        open_failed(t, "its query for host memory", status);
        return false;
    }
    if (caps_contradict(t))
        return false;
    /* SIZE_MAX means any: no call is longer than a message. */
    if (caps->copy_max > caps->message_max)
        caps->copy_max = caps->message_max;
    if (caps->inline_max > caps->copy_max)
        caps->inline_max = caps->copy_max;
    return true;
}

/* Closing a hook closes what it wraps, so only the outermost handle is closed here. */
static void close_instance(struct fy_transport *t)
{
    int status;

    if (!t->handle)
        return;
    status = t->ops.close(t->handle);
    if (status != FERRY_OK)
        fy_log(t->route->log, FERRY_LOG_WARN, "transport %s: close failed with %s", t->name,
               ferry_status_string(status));
    for (; t; t = t->wrapped) {
        t->handle = NULL;
        fy_services_phase(t, FY_PHASE_IDLE);
    }
}

/* Open in spite of what it reported: one port of two is down. */
static void log_reported(struct fy_transport *t)
{
    struct ferry_error reported;

    fy_services_reported(t, &reported);
    if (reported.message[0])
        fy_log(t->route->log, FERRY_LOG_WARN, "transport %s: %s", t->name, reported.message);
}

/* false: outcome and reason say why; nothing of this instance is open, what it was to wrap still is. */
static bool open_instance(struct fy_transport *t, const struct ferry_open *how)
{
    struct ferry_transport *handle = NULL;
    struct ferry_open own = *how;
    int status;

    own.size = sizeof(own);
    own.inner = t->wrapped ? t->wrapped->handle : NULL;
    own.inner_ops = t->wrapped ? &t->wrapped->ops : NULL;
    fy_services_forget(t);
    fy_services_phase(t, FY_PHASE_OPEN);
    status = t->plugin->open(&t->core, &own, &handle);
    if (status != FERRY_OK || !handle) {
        fy_services_phase(t, FY_PHASE_IDLE);
        open_failed(t, "its open", status != FERRY_OK ? status : FERRY_ERR_TRANSPORT);
        return false;
    }
    t->handle = handle;
    if (!query(t)) {
        close_instance(t);
        return false;
    }
    fy_services_phase(t, FY_PHASE_OPENED);
    log_reported(t);
    return true;
}

/* Instances of hooks are ours; what they wrap in the end is a candidate. */
static void free_hooks(struct fy_transport *t)
{
    while (t->wrapped) {
        struct fy_transport *inner = t->wrapped;

        fy_candidate_free(t);
        t = inner;
    }
}

void fy_route_keep(struct fy_route *route, size_t n)
{
    while (route->n_chosen > n) {
        struct fy_transport *t = route->chosen[--route->n_chosen];
        fy_log(route->log, FERRY_LOG_INFO, "transport %s: no PE needs it, closed", t->name);
        close_instance(t);
        free_hooks(t);
    }
}

void fy_close_chosen(struct fy_route *route)
{
    for (size_t i = route->n_chosen; i-- > 0;)
        close_instance(route->chosen[i]);
    for (size_t i = 0; i < route->n_chosen; i++)
        free_hooks(route->chosen[i]);
    free(route->chosen);
    route->chosen = NULL;
    route->n_chosen = 0;
}

/* The candidate for a hook that was named, or NULL with the record filled in. */
static struct fy_transport *take_hook(struct fy_route *route, const char *item, struct ferry_error *error)
{
    struct fy_transport *t = fy_candidate_find(route, item, "FERRY_HOOKS");

    if (!t) {
        fy_error_set(error, FERRY_ERR_NOMEM, NULL, "no memory for hook %.64s", item);
        return NULL;
    }
    fy_candidate_examine(t);
    if (t->plugin && t->plugin->kind != 1) {
        fy_error_set(error, FERRY_ERR_CONFIG, "name it in FERRY_TRANSPORT",
                     "hook %s (%.160s): it is a transport, not a hook", t->name, t->path);
        return NULL;
    }
    if (t->outcome != FY_USABLE && t->outcome != FY_CHOSEN) {
        fy_candidate_error(t, "hook", error);
        return NULL;
    }
    t->outcome = FY_CHOSEN;
    return t;
}

/* An instance of `hook` around `inner`. NULL: the record is filled in, inner is as before. */
static struct fy_transport *wrap(struct fy_route *route, const struct fy_transport *hook, struct fy_transport *inner,
                                 const struct ferry_open *how, struct ferry_error *error)
{
    struct fy_transport *t = calloc(1, sizeof(*t));
    int status = FERRY_ERR_NOMEM;

    if (t)
        status = fy_options_load(&t->options, hook->plugin->options, hook->plugin->name, route->source, error);
    else
        fy_error_set(error, status, NULL, "no memory for hook %s", hook->name);
    if (status != FERRY_OK) {
        free(t);
        return NULL;
    }
    memcpy(t->name, hook->name, sizeof(t->name));
    memcpy(t->path, hook->path, sizeof(t->path));
    t->outcome = FY_CHOSEN;
    t->probe = hook->probe;
    t->plugin = hook->plugin;
    t->library = hook->library;
    t->route = route;
    t->wrapped = inner;
    fy_ops_overlay(&t->ops, hook->plugin->ops);
    fy_services_fill(t);
    if (open_instance(t, how))
        return t;
    fy_candidate_error(t, "hook", error);
    fy_candidate_free(t);
    return NULL;
}

/* Last hook first, so that the first is outermost. */
static int wrap_all(struct fy_route *route, const struct fy_list *hooks, const struct ferry_open *how,
                    struct ferry_error *error)
{
    for (size_t h = hooks->n; h-- > 0;) {
        struct fy_transport *hook = take_hook(route, hooks->items[h], error);

        for (size_t i = 0; hook && i < route->n_chosen; i++) {
            struct fy_transport *outer = wrap(route, hook, route->chosen[i], how, error);

            if (!outer) {
                hook->outcome = FY_OPEN_FAILED;
                snprintf(hook->reason, sizeof(hook->reason), "%s", error->message);
                route->told = hook;
                return error->status;
            }
            route->chosen[i] = outer;
        }
        if (!hook)
            return error->status;
    }
    return FERRY_OK;
}

/* In auto on one host, nothing behind a transport through which everybody loads and stores everybody's memory is of use, and
 * opening a library that drives networks takes longer than all else at the start. */
static bool suffices(const struct fy_route *route, const struct fy_transport *t)
{
    return !route->asked && route->one_host && t->caps.flags & FERRY_CAP_DIRECT;
}

/* In auto those that fail are dropped, as if their probe had said no; a named one ends it. */
static int open_transports(struct fy_route *route, const struct ferry_open *how, struct ferry_error *error)
{
    size_t n = 0;

    for (size_t i = 0; i < route->n_chosen; i++) {
        struct fy_transport *t = route->chosen[i];

        if (open_instance(t, how)) {
            route->chosen[n++] = t;
            if (suffices(route, t)) {
                if (i + 1 < route->n_chosen)
                    fy_log(route->log, FERRY_LOG_INFO, "transport %s: all PEs are on this host, so no other is opened", t->name);
                break;
            }
            continue;
        }
        fy_candidate_error(t, "transport", error);
        if (route->asked) {
            route->n_chosen = n;
            return error->status;
        }
        fy_log(route->log, FERRY_LOG_WARN, "%s; left out", error->message);
    }
    route->n_chosen = n;
    if (n > 0)
        return FERRY_OK;
    if (error->status == FERRY_OK)
        fy_error_set(error, FERRY_ERR_STATE, NULL, "no transport was chosen");
    return error->status;
}

int fy_route_open(struct fy_route *route, const struct ferry_open *how, const char *hooks, struct ferry_error *error)
{
    struct fy_list list = {0};
    int status;

    fy_error_set(error, FERRY_OK, NULL, "%s", "");
    route->told = NULL;
    if (hooks && *hooks) {
        status = fy_list_parse(&list, hooks, "FERRY_HOOKS", error);
        if (status != FERRY_OK)
            return status;
    }
    status = open_transports(route, how, error);
    if (status == FERRY_OK)
        status = wrap_all(route, &list, how, error);
    fy_list_free(&list);
    if (status == FERRY_OK)
        return FERRY_OK;
    fy_close_chosen(route);
    fy_route_log_table(route, FERRY_LOG_ERROR);
    return status;
}
