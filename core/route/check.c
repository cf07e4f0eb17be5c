/* SPDX-License-Identifier: Apache-2.0
 * Refuses a malformed struct ferry_plugin before anything of it is used: sizes, name, required operations, option rows.
 * Setup thread; pure functions. The ABI major was compared before. */
#include "internal.h"
#include <stdio.h>
#include <string.h>

/* What minor 0 published: no plugin is smaller. Fixed for ever, whatever is appended later. */
#define PLUGIN_SIZE_FIRST (offsetof(struct ferry_plugin, reserved) + sizeof(uint32_t))
#define OPTIONS_MAX       256u

#define REQUIRED(member)                                                                                               \
    {                                                                                                                  \
#member, offsetof(struct ferry_host_ops, member)                                                               \
    }
static const struct {
    const char *name;
    size_t offset;
} required[] = {
    REQUIRED(export_endpoint),
    REQUIRED(register_memory),
    REQUIRED(deregister_memory),
    REQUIRED(export_key),
    REQUIRED(import_key),
    REQUIRED(release_key),
    REQUIRED(query),
    REQUIRED(rma),
    REQUIRED(quiet),
    REQUIRED(progress),
    REQUIRED(close),
};

static bool ops_ok(const struct ferry_host_ops *ops, char *reason, size_t size)
{
    void (*member)(void);

    if (!ops) {
        snprintf(reason, size, "it has no table of operations");
        return false;
    }
    for (size_t i = 0; i < FY_COUNT(required); i++) {
        member = NULL;
        if (required[i].offset + sizeof(member) <= ops->size)
            memcpy(&member, (const char *)ops + required[i].offset, sizeof(member));
        if (!member) {
            snprintf(reason, size, "its table of operations (%u bytes) lacks %s, which is required", ops->size,
                     required[i].name);
            return false;
        }
    }
    return true;
}

static bool default_ok(const char *plugin, const struct ferry_option *row, char *reason, size_t size)
{
    struct ferry_value value;
    struct ferry_error error;
    char variable[64];

    fy_option_variable(plugin, row->name, variable, sizeof(variable));
    if (fy_option_parse(row, variable, row->initial, &value, &error) == FERRY_OK)
        return true;
    snprintf(reason, size, "the default of its option %.40s: %.180s", row->name, error.message);
    return false;
}

static bool row_ok(const char *plugin, const struct ferry_option *row, char *reason, size_t size)
{
    size_t length = strlen(row->name);
    bool listed = row->type == FERRY_OPTION_CHOICE || row->type == FERRY_OPTION_SET;

    if (length == 0 || strspn(row->name, "abcdefghijklmnopqrstuvwxyz0123456789_") != length)
        snprintf(reason, size, "its option '%.40s' is not named in a-z 0-9 _", row->name);
    else if (length + strlen(plugin) + sizeof("FERRY__") > sizeof(((struct fy_option_value *)0)->variable))
        snprintf(reason, size, "the name of its option %.40s... is too long", row->name);
    else if (row->type > FERRY_OPTION_SET)
        snprintf(reason, size, "its option %s has the unknown type %u", row->name, row->type);
    else if (listed && !row->choices)
        snprintf(reason, size, "its option %s has a list type, but no choices", row->name);
    else if (!row->initial)
        snprintf(reason, size, "its option %s has no default", row->name);
    else if (!row->doc)
        snprintf(reason, size, "its option %s has no doc", row->name);
    else
        return default_ok(plugin, row, reason, size);
    return false;
}

static bool options_ok(const char *plugin, const struct ferry_option *rows, char *reason, size_t size)
{
    for (size_t i = 0; rows && rows[i].name; i++) {
        if (i >= OPTIONS_MAX) {
            snprintf(reason, size, "its option rows do not end (more than %u)", OPTIONS_MAX);
            return false;
        }
        for (size_t j = 0; j < i; j++) {
            if (strcmp(rows[i].name, rows[j].name) == 0) {
                snprintf(reason, size, "its option %.40s is there twice", rows[i].name);
                return false;
            }
        }
        if (!row_ok(plugin, &rows[i], reason, size))
            return false;
    }
    return true;
}

static bool sizes_ok(const struct ferry_plugin *plugin, size_t available, char *reason, size_t size)
{
    if (plugin->size < PLUGIN_SIZE_FIRST) {
        snprintf(reason, size, "its size is %u, the smallest there is is %zu", plugin->size, PLUGIN_SIZE_FIRST);
        return false;
    }
    if (available > 0 && plugin->size > available) {
        snprintf(reason, size, "its size is %u, but the symbol has %zu bytes", plugin->size, available);
        return false;
    }
    return true;
}

bool fy_plugin_check(const struct ferry_plugin *plugin, size_t available, char *reason, size_t size)
{
    if (!sizes_ok(plugin, available, reason, size))
        return false;
    if (!plugin->name || !fy_name_valid(plugin->name)) {
        snprintf(reason, size, "its name '%.40s' is not 1 to %zu characters of a-z 0-9 _ -",
                 plugin->name ? plugin->name : "", sizeof(((struct fy_transport *)0)->name) - 1);
        return false;
    }
    if (!plugin->version || !plugin->summary) {
        snprintf(reason, size, "it has no %s", plugin->version ? "summary" : "version");
        return false;
    }
    if (plugin->kind > 1) {
        snprintf(reason, size, "its kind %u is neither 0, a transport, nor 1, a hook", plugin->kind);
        return false;
    }
    if (!plugin->open) {
        snprintf(reason, size, "it has no open");
        return false;
    }
    return ops_ok(plugin->ops, reason, size) && options_ok(plugin->name, plugin->options, reason, size);
}
