/* SPDX-License-Identifier: Apache-2.0
 * From a name or a path to an accepted bootstrap plugin: where it is looked for, and what is refused.
 * Setup thread, in init only. What was loaded stays loaded. */
#include "launch.h"
#include "../route/module.h"
#include <stdio.h>
#include <string.h>
#include <sys/auxv.h>
#include <unistd.h>

#ifndef FERRY_BOOTSTRAP_DIR
#define FERRY_BOOTSTRAP_DIR ""
#endif

/* What minor 0 published: no plugin is smaller. */
#define PLUGIN_SIZE_FIRST (offsetof(struct ferry_boot_plugin, close) + sizeof(void (*)(void)))

static int refuse(struct ferry_error *error, int status, const char *name, const char *path, const char *why)
{
    const char *hint = status == FERRY_ERR_ABI ? "build it anew with this version's ferry/bootstrap.h" : NULL;
    size_t length = strlen(path);
    fy_error_set(error, status, hint, "bootstrap %s (%s): %.190s", name, length < 90 ? path : path + length - 89, why);
    return status;
}

/* Beside the library, then where it was configured to be. */
static bool find(const char *name, char *path, size_t size)
{
    char folder[400];
    if (!fy_module_folder("ferry/bootstraps-v1", "bootstraps", folder, sizeof(folder)))
        folder[0] = '\0';
    if (folder[0] && snprintf(path, size, "%s/%s.so", folder, name) < (int)size && access(path, F_OK) == 0)
        return true;
    return snprintf(path, size, "%s/%s.so", FERRY_BOOTSTRAP_DIR, name) < (int)size && access(path, F_OK) == 0;
}

static int locate(const struct fy_launch *launch, const char *name, char *path, size_t size, struct ferry_error *error)
{
    static const char hint[] = "FERRY_BOOTSTRAP is auto, env, pmix, or the path of a plugin; is the package ferry-bootstrap-pmix installed?";
    enum fy_origin origin = FY_ORIGIN_DEFAULT;
    if (!strchr(name, '/')) {
        if (fy_module_name(name) && find(name, path, size))
            return FERRY_OK;
        fy_error_set(error, FERRY_ERR_NOT_FOUND, hint, "no bootstrap named %.64s: no folder has a file of that name", name);
        return FERRY_ERR_NOT_FOUND;
    }
    if (snprintf(path, size, "%s", name) >= (int)size)
        return refuse(error, FERRY_ERR_CONFIG, "", name, "its path is too long");
    fy_source_get(launch->source, "FERRY_BOOTSTRAP", &origin);
    if (getauxval(AT_SECURE) != 0 && origin == FY_ORIGIN_ENVIRONMENT)
        return refuse(error, FERRY_ERR_CONFIG, "", path, "a program with raised privileges takes no path from its environment");
    if (access(path, F_OK) != 0)
        return refuse(error, FERRY_ERR_NOT_FOUND, strrchr(path, '/') + 1, path, "there is no such file");
    return FERRY_OK;
}

/* NULL: well formed. */
static const char *malformed(const struct ferry_boot_plugin *plugin, size_t available)
{
    if ((available > 0 && available < plugin->size) || plugin->size < PLUGIN_SIZE_FIRST)
        return "its " FERRY_BOOTSTRAP_SYMBOL " is malformed: its size is wrong";
    if (!plugin->name || !fy_module_name(plugin->name))
        return "its " FERRY_BOOTSTRAP_SYMBOL " is malformed: its name is not 1 to 31 characters of a-z 0-9 _ -";
    if (!plugin->version || !plugin->summary || !plugin->probe || !plugin->open || !plugin->allgather || !plugin->close)
        return "its " FERRY_BOOTSTRAP_SYMBOL " is malformed: a member is missing that is required";
    return NULL;
}

int fy_launch_load(struct fy_launch *launch, const char *name, struct ferry_error *error)
{
    char path[512], why[400];
    uint32_t abi;
    int rc = locate(launch, name, path, sizeof(path), error);
    if (rc != FERRY_OK)
        return rc;
    if (strchr(name, '/'))
        name = strrchr(name, '/') + 1;
    const char *wrong = fy_module_check(path, FERRY_BOOTSTRAP_SYMBOL, &abi, why, sizeof(why));
    if (wrong)
        return refuse(error, FERRY_ERR_ABI, name, path, wrong);
    if (abi >> 16 != FERRY_BOOTSTRAP_ABI_MAJOR) {
        snprintf(why, sizeof(why), "it speaks bootstrap ABI %u.%u, this library speaks %u.%u", abi >> 16, abi & 0xffff,
                 FERRY_BOOTSTRAP_ABI_MAJOR, FERRY_BOOTSTRAP_ABI_MINOR);
        return refuse(error, FERRY_ERR_ABI, name, path, why);
    }
    void *library = fy_module_open(path, why, sizeof(why));
    if (!library)
        return refuse(error, FERRY_ERR_NOT_FOUND, name, path, why);
    const struct ferry_boot_plugin *plugin = fy_module_symbol(library, FERRY_BOOTSTRAP_SYMBOL);
    wrong = plugin ? malformed(plugin, fy_module_symbol_size(plugin)) : "it has no symbol " FERRY_BOOTSTRAP_SYMBOL " of its own";
    if (wrong)
        return refuse(error, FERRY_ERR_ABI, name, path, wrong);
    launch->plugin = plugin;
    return FERRY_OK;
}
