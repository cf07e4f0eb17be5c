/* SPDX-License-Identifier: Apache-2.0
 * Chooses the bootstrap: the program's own choice, else what FERRY_BOOTSTRAP names, else what the environment shows.
 * Setup thread, in init only. */
#include "launch.h"
#include "../route/module.h"
#include <stdio.h>
#include <string.h>

/* Launchers that a plugin understands, and the variable by which they show. */
static const struct {
    const char *plugin, *variable;
} known[] = {{"pmix", "PMIX_NAMESPACE"}};

static void log_line(const struct ferry_boot_core *core, int level, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    fy_log_v(((const struct fy_launch *)core)->log, level, format, args);
    va_end(args);
}

static bool is_set(const struct fy_launch *launch, const char *variable)
{
    const char *text = fy_source_get(launch->source, variable, NULL);
    return text && *text;
}

/* The program has brought its PEs together itself: its ranks count, and another bootstrap would give others. */
static int by_program(struct fy_launch *launch, const struct ferry_boot_plugin *plugin, const char *named, struct ferry_error *error)
{
    launch->plugin = plugin;
    snprintf(launch->why, sizeof(launch->why), "the program's own choice");
    if (strcmp(named, "auto") == 0 || strcmp(named, plugin->name) == 0)
        return FERRY_OK;
    fy_error_set(error, FERRY_ERR_CONFIG, "unset FERRY_BOOTSTRAP", "FERRY_BOOTSTRAP is %.100s, but the program brings its PEs together itself (%s)", named,
                 plugin->name);
    return FERRY_ERR_CONFIG;
}

/* What was found does not work: a job of one beside the others would be no help. */
static int shown_but_unusable(const char *variable, const char *name, struct ferry_error *error)
{
    struct ferry_error reason = *error;
    fy_error_set(error, reason.status, reason.hint[0] ? reason.hint : NULL, "%s is set, so a launcher started this process: %.240s", variable, reason.message);
    if (!reason.hint[0])
        snprintf(error->hint, sizeof(error->hint), "install the bootstrap %s, or set FERRY_BOOTSTRAP=env for a job of one PE", name);
    error->library_status = reason.library_status;
    return error->status;
}

static int by_environment(struct fy_launch *launch, struct ferry_error *error)
{
    static const char *const own[] = {"FERRY_RANK", "FERRY_SIZE", "FERRY_ID"};
    launch->plugin = &fy_launch_env;
    for (size_t i = 0; i < sizeof(own) / sizeof(own[0]); i++) {
        if (!is_set(launch, own[i]))
            continue;
        snprintf(launch->why, sizeof(launch->why), "%s is set", own[i]);
        return FERRY_OK;
    }
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
        if (!is_set(launch, known[i].variable))
            continue;
        int rc = fy_launch_load(launch, known[i].plugin, error);
        if (rc == FERRY_OK && launch->plugin->probe(&launch->core, launch->why, sizeof(launch->why)) == FERRY_OK)
            return FERRY_OK;
        if (rc != FERRY_OK)
            return shown_but_unusable(known[i].variable, known[i].plugin, error);
        launch->plugin = &fy_launch_env;
    }
    snprintf(launch->why, sizeof(launch->why), "nothing in the environment speaks of other PEs");
    return FERRY_OK;
}

static int by_name(struct fy_launch *launch, const char *named, struct ferry_error *error)
{
    if (strcmp(named, "env") == 0) {
        launch->plugin = &fy_launch_env;
    } else if (strcmp(named, "uid") == 0 || strcmp(named, "functions") == 0) {
        fy_error_set(error, FERRY_ERR_CONFIG, "set FERRY_BOOTSTRAP to auto, env, pmix or the path of a plugin",
                     "FERRY_BOOTSTRAP is %s, which is for programs that bring their PEs together themselves; this one does not", named);
        return FERRY_ERR_CONFIG;
    } else {
        int rc = fy_launch_load(launch, named, error);
        if (rc != FERRY_OK)
            return rc;
    }
    snprintf(launch->why, sizeof(launch->why), "FERRY_BOOTSTRAP names it");
    return FERRY_OK;
}

static int choose(struct fy_launch *launch, struct ferry_error *error)
{
    const char *named = fy_options_string(launch->options, "bootstrap");
    switch (launch->attr->bootstrap) {
    case FERRY_BOOTSTRAP_UNIQUEID:
        return by_program(launch, &fy_launch_uid, named, error);
    case FERRY_BOOTSTRAP_FUNCTIONS:
        return by_program(launch, &fy_launch_functions, named, error);
    case FERRY_BOOTSTRAP_ENV:
        return strcmp(named, "auto") == 0 ? by_environment(launch, error) : by_name(launch, named, error);
    default:
        fy_error_set(error, FERRY_ERR_ARG, NULL, "attribute bootstrap is %d, which is none of enum ferry_bootstrap",
                     launch->attr->bootstrap);
        return FERRY_ERR_ARG;
    }
}

/* What a plugin says is checked like anything from outside. */
static int check_place(const struct fy_launch *launch, struct ferry_error *error)
{
    const struct ferry_boot_place *place = &launch->place;
    if (place->n_pes >= 1 && place->n_pes <= 1u << 24 && place->rank < place->n_pes)
        return FERRY_OK;
    fy_error_set(error, FERRY_ERR_BOOTSTRAP, NULL, "bootstrap %s says that this is PE %u of %u PEs", launch->plugin->name,
                 place->rank, place->n_pes);
    return FERRY_ERR_BOOTSTRAP;
}

int fy_launch_begin(struct fy_launch *launch, struct ferry_error *error)
{
    launch->core = (struct ferry_boot_core){.abi = FERRY_BOOTSTRAP_ABI, .size = sizeof(launch->core), .log = log_line};
    launch->place = (struct ferry_boot_place){.size = sizeof(launch->place), .n_pes = 1, .node = FERRY_BOOT_NO_NODE};
    fy_error_set(error, FERRY_ERR_BOOTSTRAP, NULL, "bootstrap %s failed without a reason", launch->plugin->name);
    int rc = launch->plugin->open(&launch->core, launch->timeout, &launch->place, &launch->boot, error);
    if (rc != FERRY_OK) {
        launch->boot = NULL;
        error->status = rc;
        return rc;
    }
    rc = check_place(launch, error);
    if (rc != FERRY_OK)
        fy_launch_close(launch);
    return rc;
}

int fy_launch_open(struct fy_launch *launch, struct ferry_error *error)
{
    launch->core = (struct ferry_boot_core){.abi = FERRY_BOOTSTRAP_ABI, .size = sizeof(launch->core), .log = log_line};
    int rc = choose(launch, error);
    if (rc == FERRY_OK)
        rc = fy_launch_begin(launch, error);
    if (rc != FERRY_OK)
        return rc;
    fy_log(launch->log, FERRY_LOG_INFO, "bootstrap %s (%s): pe %u of %u", launch->plugin->name, launch->why, launch->place.rank,
           launch->place.n_pes);
    fy_launch_compare(launch);
    return FERRY_OK;
}

void fy_launch_close(struct fy_launch *launch)
{
    if (launch->boot)
        launch->plugin->close(launch->boot);
    launch->boot = NULL;
}
