/* SPDX-License-Identifier: Apache-2.0
 * Chooses: the ones that were named, all of them and in their order, or in auto every usable one, best first.
 * Setup thread. A name that the user gave never falls back to another. */
#include "internal.h"
#include <ferry/ferry.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>

int fy_route_create(const struct fy_log *log, const struct fy_source *source, const struct fy_route_services *services,
                    struct fy_route **route)
{
    struct fy_route *made = calloc(1, sizeof(*made));
    int status;

    *route = NULL;
    if (!made)
        return FERRY_ERR_NOMEM;
    if (pthread_mutex_init(&made->lock, NULL) != 0) {
        free(made);
        return FERRY_ERR_NOMEM;
    }
    made->log = log;
    made->source = source;
    if (services)
        made->services = *services;
    made->secure = getauxval(AT_SECURE) != 0;
    status = fy_search_folders(made);
    if (status != FERRY_OK) {
        fy_route_close(made);
        return status;
    }
    *route = made;
    return FERRY_OK;
}

void fy_route_close(struct fy_route *route)
{
    if (!route)
        return;
    fy_close_chosen(route);
    for (size_t i = 0; i < route->n_candidates; i++)
        fy_candidate_free(route->candidates[i]);
    free(route->candidates);
    fy_search_free(route);
    pthread_mutex_destroy(&route->lock);
    free(route);
}

static int choose(struct fy_route *route, struct fy_transport *t)
{
    struct fy_transport **grown;

    grown = realloc(route->chosen, (route->n_chosen + 1) * sizeof(struct fy_transport *));
    if (!grown)
        return FERRY_ERR_NOMEM;
    route->chosen = grown;
    route->chosen[route->n_chosen++] = t;
    return FERRY_OK;
}

static bool usable_transport(const struct fy_transport *t)
{
    return t->outcome == FY_USABLE && t->plugin->kind == 0;
}

static void mark_chosen(struct fy_route *route)
{
    for (size_t i = 0; i < route->n_chosen; i++)
        route->chosen[i]->outcome = FY_CHOSEN;
}

static int no_memory(struct ferry_error *error)
{
    fy_error_set(error, FERRY_ERR_NOMEM, NULL, "no memory for the list of transports");
    return FERRY_ERR_NOMEM;
}

/* The same plugin by name and by path: two instances would read the same options and fight over the same device. */
static const struct fy_transport *chosen_name(const struct fy_route *route, const char *name)
{
    for (size_t i = 0; i < route->n_chosen; i++)
        if (strcmp(route->chosen[i]->name, name) == 0)
            return route->chosen[i];
    return NULL;
}

/* Looks at one named item; on failure the record is that of this item. */
static int take_item(struct fy_route *route, const char *item, struct ferry_error *error)
{
    struct fy_transport *t = fy_candidate_find(route, item, "FERRY_TRANSPORT");
    const struct fy_transport *twin;

    if (!t)
        return no_memory(error);
    fy_candidate_examine(t);
    if (t->plugin && t->plugin->kind != 0) {
        fy_error_set(error, FERRY_ERR_CONFIG, "name it in FERRY_HOOKS",
                     "transport %s (%.160s): it is a hook, which wraps a transport", t->name, t->path);
        return FERRY_ERR_CONFIG;
    }
    if (t->outcome != FY_USABLE)
        return fy_candidate_error(t, "transport", error);
    twin = chosen_name(route, t->name);
    if (twin) {
        fy_error_set(error, FERRY_ERR_CONFIG, "name one of them",
                     "FERRY_TRANSPORT has %s twice, as %.100s and as %.100s", t->name, twin->path, t->path);
        return FERRY_ERR_CONFIG;
    }
    return choose(route, t) == FERRY_OK ? FERRY_OK : no_memory(error);
}

/* Looks at every item, so that the table is complete; the record is that of the first that fails. */
static int take_named(struct fy_route *route, const struct fy_list *list, struct ferry_error *error)
{
    const struct fy_transport *told = NULL;
    struct ferry_error later;
    int first = FERRY_OK;

    for (size_t i = 0; i < list->n; i++) {
        int status = take_item(route, list->items[i], first == FERRY_OK ? error : &later);

        if (first == FERRY_OK) {
            first = status;
            told = route->told;
        }
    }
    route->told = told;
    return first;
}

static int by_score(const void *a, const void *b)
{
    const struct fy_transport *x = *(struct fy_transport *const *)a, *y = *(struct fy_transport *const *)b;

    if (x->probe.score != y->probe.score)
        return x->probe.score < y->probe.score ? 1 : -1;
    return strcmp(x->name, y->name);
}

/* Everything in the folders that is usable, best first. */
static int take_all(struct fy_route *route, int shadowed)
{
    int status = fy_candidate_add_found(route, shadowed);

    for (size_t i = 0; i < route->n_candidates && status == FERRY_OK; i++) {
        fy_candidate_examine(route->candidates[i]);
        if (usable_transport(route->candidates[i]))
            status = choose(route, route->candidates[i]);
    }
    if (route->n_chosen > 0)
        qsort(route->chosen, route->n_chosen, sizeof(struct fy_transport *), by_score);
    return status;
}

static void name_folders(const struct fy_route *route, char *out, size_t size)
{
    size_t at = 0;

    out[0] = '\0';
    for (size_t i = 0; route->folders[i] && at < size; i++)
        at += (size_t)snprintf(out + at, size - at, "%s%s", i ? ", " : "", route->folders[i]);
}

static int nothing_usable(const struct fy_route *route, struct ferry_error *error)
{
    char folders[256];
    int status = route->n_candidates ? FERRY_ERR_DEVICE : FERRY_ERR_NOT_FOUND;

    name_folders(route, folders, sizeof(folders));
    if (status == FERRY_ERR_DEVICE)
        fy_error_set(error, status, "repair one of them; the table in the log has each one's reason",
                     "none of the %zu plugins found in %s is a usable transport", route->n_candidates, folders);
    else
        fy_error_set(error, status, "install a transport, or put the folder of one in FERRY_PLUGIN_PATH",
                     "there is no transport: looked in %s", folders);
    return status;
}

/* A bad value is an error in auto too: who set it wants it to count. */
static int bad_value(const struct fy_route *route, struct ferry_error *error)
{
    for (size_t i = 0; i < route->n_candidates; i++)
        if (route->candidates[i]->outcome == FY_REFUSED_OPTION && route->candidates[i]->plugin->kind == 0)
            return fy_candidate_error(route->candidates[i], "transport", error);
    return FERRY_OK;
}

static void log_winner(const struct fy_route *route)
{
    char others[160] = "";
    size_t at = 0;

    for (size_t i = 1; i < route->n_chosen && at < sizeof(others); i++)
        at += (size_t)snprintf(others + at, sizeof(others) - at, "%s%s (score %d)", i == 1 ? ", then " : ", ",
                               route->chosen[i]->name, route->chosen[i]->probe.score);
    fy_log(route->log, FERRY_LOG_INFO, "transport: %s (score %d%s%s)%s; chosen automatically out of %zu plugins",
           route->chosen[0]->name, route->chosen[0]->probe.score, route->chosen[0]->probe.detail[0] ? ", " : "",
           route->chosen[0]->probe.detail, others, route->n_candidates);
}

static int select_auto(struct fy_route *route, struct ferry_error *error)
{
    int status = take_all(route, 0);

    if (status != FERRY_OK)
        return no_memory(error);
    status = bad_value(route, error);
    if (status == FERRY_OK && route->n_chosen == 0)
        status = nothing_usable(route, error);
    if (status == FERRY_OK)
        log_winner(route);
    return status;
}

static bool is_auto(const struct fy_list *list)
{
    return list->n == 1 && strcmp(list->items[0], "auto") == 0;
}

int fy_route_select(struct fy_route *route, const char *spec, struct ferry_error *error)
{
    struct fy_list list;
    int status = fy_list_parse(&list, spec ? spec : "auto", "FERRY_TRANSPORT", error);

    if (status != FERRY_OK)
        return status;
    route->asked = !is_auto(&list);
    route->n_chosen = 0;
    route->told = NULL;
    status = route->asked ? take_named(route, &list, error) : select_auto(route, error);
    fy_list_free(&list);
    if (status == FERRY_OK) {
        mark_chosen(route);
        return FERRY_OK;
    }
    route->n_chosen = 0;
    fy_candidate_add_found(route, 0); /* what there is beside, for the table */
    fy_route_log_table(route, FERRY_LOG_ERROR);
    return status;
}

int fy_route_survey(struct fy_route *route, const char *spec, int all)
{
    struct ferry_error error;
    struct fy_list list;
    int status = fy_list_parse(&list, spec ? spec : "auto", "FERRY_TRANSPORT", &error);

    if (status != FERRY_OK) {
        fy_log_record(route->log, FERRY_LOG_ERROR, "", &error);
        return status;
    }
    route->asked = 0;
    route->n_chosen = 0;
    if (is_auto(&list)) {
        status = take_all(route, all);
    } else {
        take_named(route, &list, &error);
        if (all)
            status = fy_candidate_add_found(route, 1);
        for (size_t i = 0; i < route->n_candidates; i++)
            fy_candidate_examine(route->candidates[i]);
    }
    fy_list_free(&list);
    mark_chosen(route);
    return status;
}
