/* SPDX-License-Identifier: Apache-2.0
 * The bootstraps that need no launcher's library: FERRY_RANK, FERRY_SIZE and FERRY_ID, a unique id, the application's functions.
 * Setup thread, in init only. */
#include "launch.h"
#include <stdio.h>
#include <string.h>

/* The instance of a built-in one is the launch itself. */
static struct fy_launch *launch_of(const struct ferry_boot_core *core)
{
    return (struct fy_launch *)(uintptr_t)core;
}

static void close_nothing(struct ferry_boot *boot)
{
    (void)boot;
}

/* ------------------------------------------------------------------ env */

static int env_probe(const struct ferry_boot_core *core, char *text, size_t size)
{
    bool shown = fy_source_get(launch_of(core)->source, "FERRY_SIZE", NULL) != NULL;
    snprintf(text, size, "FERRY_SIZE is %sset", shown ? "" : "not ");
    return shown ? FERRY_OK : FERRY_ERR_NOT_FOUND;
}

static int env_open(const struct ferry_boot_core *core, double timeout, struct ferry_boot_place *place, struct ferry_boot **boot,
                    struct ferry_error *error)
{
    struct fy_launch *launch = launch_of(core);
    int64_t rank = fy_options_number(launch->options, "rank"), size = fy_options_number(launch->options, "size");
    const char *id = fy_options_string(launch->options, "id");
    (void)timeout;
    *boot = (struct ferry_boot *)launch;
    if (rank == -1 && size == 0 && !id[0])
        return FERRY_OK; /* a job of one */
    if (rank < 0 || size < 1 || rank >= size || size > 1 << 24) {
        fy_error_set(error, FERRY_ERR_CONFIG, "start the program with ferry-run, or unset all three",
                     "FERRY_RANK %lld and FERRY_SIZE %lld do not go together", (long long)rank, (long long)size);
        return FERRY_ERR_CONFIG;
    }
    place->rank = (uint32_t)rank;
    place->n_pes = (uint32_t)size;
    if (size == 1)
        return FERRY_OK;
    if (ferry_uniqueid_from_text(id, &launch->id) != FERRY_OK) {
        fy_error_set(error, FERRY_ERR_CONFIG, "start the program with ferry-run", "FERRY_ID is %s",
                     id[0] ? "not a unique id in hexadecimal" : "not set, and FERRY_SIZE is above 1");
        return FERRY_ERR_CONFIG;
    }
    place->id = launch->id.bytes;
    return FERRY_OK;
}

const struct ferry_boot_plugin fy_launch_env = {
    .abi = FERRY_BOOTSTRAP_ABI,
    .size = sizeof(fy_launch_env),
    .name = "env",
    .version = FERRY_VERSION_STRING,
    .summary = "FERRY_RANK, FERRY_SIZE and FERRY_ID, as ferry-run sets them",
    .probe = env_probe,
    .open = env_open,
    .close = close_nothing,
};

/* ------------------------------------------------------------------ uid and functions: in the attributes */

static int program_probe(const struct ferry_boot_core *core, char *text, size_t size)
{
    (void)core;
    snprintf(text, size, "only the program can choose it");
    return FERRY_ERR_NOT_FOUND;
}

/* missing: what is NULL that may not be, for more than one PE. */
static int place_of(const ferry_attr_t *attr, const char *missing, struct ferry_boot_place *place, struct ferry_error *error)
{
    if (attr->n_pes < 1 || attr->rank < 0 || attr->rank >= attr->n_pes) {
        fy_error_set(error, FERRY_ERR_ARG, NULL, "attribute rank %d is not below n_pes %d, or negative", attr->rank, attr->n_pes);
        return FERRY_ERR_ARG;
    }
    if (missing && attr->n_pes > 1) {
        fy_error_set(error, FERRY_ERR_ARG, NULL, "attribute %s is null", missing);
        return FERRY_ERR_ARG;
    }
    place->rank = (uint32_t)attr->rank;
    place->n_pes = (uint32_t)attr->n_pes;
    return FERRY_OK;
}

static int uid_open(const struct ferry_boot_core *core, double timeout, struct ferry_boot_place *place, struct ferry_boot **boot,
                    struct ferry_error *error)
{
    struct fy_launch *launch = launch_of(core);
    (void)timeout;
    *boot = (struct ferry_boot *)launch;
    if (launch->attr->id) {
        launch->id = *launch->attr->id;
        place->id = launch->id.bytes;
    }
    return place_of(launch->attr, launch->attr->id ? NULL : "id", place, error);
}

const struct ferry_boot_plugin fy_launch_uid = {
    .abi = FERRY_BOOTSTRAP_ABI,
    .size = sizeof(fy_launch_uid),
    .name = "uid",
    .version = FERRY_VERSION_STRING,
    .summary = "a unique id that the program distributed",
    .probe = program_probe,
    .open = uid_open,
    .close = close_nothing,
};

static int functions_open(const struct ferry_boot_core *core, double timeout, struct ferry_boot_place *place, struct ferry_boot **boot,
                          struct ferry_error *error)
{
    struct fy_launch *launch = launch_of(core);
    const ferry_bootstrap_functions_t *functions = launch->attr->functions;
    bool good = functions && functions->allgather && functions->barrier;
    (void)timeout;
    *boot = (struct ferry_boot *)launch;
    return place_of(launch->attr, good ? NULL : "functions", place, error);
}

/* The reason in the application's words, if its functions have any. */
static const char *reason_of(const ferry_bootstrap_functions_t *functions)
{
    size_t needed = offsetof(ferry_bootstrap_functions_t, reason) + sizeof(functions->reason);
    return functions->size >= needed && functions->reason ? functions->reason(functions->arg) : NULL;
}

/* Its deadline is the application's own: nobody can end its call. */
static int functions_allgather(struct ferry_boot *boot, const void *mine, void *all, size_t length, double timeout,
                               uint8_t *arrived, struct ferry_error *error)
{
    const ferry_bootstrap_functions_t *functions = ((struct fy_launch *)boot)->attr->functions;
    (void)timeout;
    (void)arrived;
    int rc = functions->allgather(functions->arg, mine, all, length);
    if (rc == 0)
        return FERRY_OK;
    const char *reason = reason_of(functions);
    if (reason)
        fy_error_set(error, FERRY_ERR_BOOTSTRAP, NULL, "the application's allgather failed: %.250s", reason);
    else
        fy_error_set(error, FERRY_ERR_BOOTSTRAP, NULL, "the application's allgather failed: it returned %d", rc);
    error->library_status = rc;
    return FERRY_ERR_BOOTSTRAP;
}

const struct ferry_boot_plugin fy_launch_functions = {
    .abi = FERRY_BOOTSTRAP_ABI,
    .size = sizeof(fy_launch_functions),
    .name = "functions",
    .version = FERRY_VERSION_STRING,
    .summary = "functions of the program",
    .probe = program_probe,
    .open = functions_open,
    .allgather = functions_allgather,
    .close = close_nothing,
};
