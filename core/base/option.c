/* SPDX-License-Identifier: Apache-2.0
 * Option tables and where their values come from.
 * The thread in init loads them; a loaded table is read-only, so any thread may read it. */
#include "option.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool names(const char *assignment, const char *variable, size_t n)
{
    return strncmp(assignment, variable, n) == 0 && assignment[n] == '=';
}

const char *fy_source_get(const struct fy_source *source, const char *variable, enum fy_origin *origin)
{
    size_t n = strlen(variable);
    const char *found = NULL;
    enum fy_origin from = FY_ORIGIN_DEFAULT;

    /* The first in the environment, as getenv; the last override, so that a caller can append to a list. */
    for (char **e = source->environ_; e && *e && !found; e++)
        if (names(*e, variable, n))
            found = *e + n + 1, from = FY_ORIGIN_ENVIRONMENT;
    for (const char *const *o = source->overrides; o && *o; o++)
        if (names(*o, variable, n))
            found = *o + n + 1, from = FY_ORIGIN_ATTRIBUTE;
    if (origin)
        *origin = from;
    return found;
}

static void append_upper(char *out, size_t size, const char *text)
{
    size_t n = strlen(out);

    for (; *text && n + 1 < size; text++) {
        char c = *text == '-' ? '_' : *text;

        out[n++] = (char)(c >= 'a' && c <= 'z' ? c - 'a' + 'A' : c);
    }
    out[n] = '\0';
}

void fy_option_variable(const char *plugin, const char *name, char *out, size_t size)
{
    out[0] = '\0';
    append_upper(out, size, "FERRY_");
    if (plugin) {
        append_upper(out, size, plugin);
        append_upper(out, size, "_");
    }
    append_upper(out, size, name);
}

/* Rows of a plugin are input like any other. */
static int check_name(const struct ferry_option *row, const char *plugin, struct ferry_error *error)
{
    size_t n = strlen(row->name);
    size_t room = sizeof(((struct fy_option_value *)0)->variable) - sizeof("FERRY__");

    if (n > 0 && strspn(row->name, "abcdefghijklmnopqrstuvwxyz0123456789_") == n &&
        n + (plugin ? strlen(plugin) : 0) <= room)
        return FERRY_OK;
    fy_error_set(
        error, FERRY_ERR_CONFIG, "report it to the maker of the plugin",
        "%s has an option named '%.40s': a name is made of a-z, 0-9 and _, and with the plugin's at most %zu long",
        plugin ? plugin : "the core", row->name, room);
    return FERRY_ERR_CONFIG;
}

static int load_row(struct fy_option_value *value, const struct ferry_option *row, const char *plugin,
                    const struct fy_source *source, struct ferry_error *error)
{
    int status = check_name(row, plugin, error);

    if (status != FERRY_OK)
        return status;
    value->row = row;
    fy_option_variable(plugin, row->name, value->variable, sizeof(value->variable));
    const char *text = fy_source_get(source, value->variable, &value->origin);
    if (!text)
        text = row->initial ? row->initial : "";
    /* A copy: the environment may change while the job lives. */
    value->text = strdup(text);
    if (!value->text) {
        fy_error_set(error, FERRY_ERR_NOMEM, NULL, "no memory for the value of %s", value->variable);
        return FERRY_ERR_NOMEM;
    }
    return fy_option_parse(row, value->variable, value->text, &value->value, error);
}

int fy_options_load(struct fy_options *options, const struct ferry_option *rows, const char *plugin,
                    const struct fy_source *source, struct ferry_error *error)
{
    size_t n = 0;

    *options = (struct fy_options){0};
    while (rows && rows[n].name)
        n++;
    if (n == 0)
        return FERRY_OK;
    options->values = calloc(n, sizeof(*options->values));
    if (!options->values) {
        fy_error_set(error, FERRY_ERR_NOMEM, NULL, "no memory for %zu options", n);
        return FERRY_ERR_NOMEM;
    }
    for (options->n = 0; options->n < n;) {
        size_t i = options->n++;
        int status = load_row(&options->values[i], &rows[i], plugin, source, error);

        if (status != FERRY_OK) {
            fy_options_free(options);
            return status;
        }
    }
    return FERRY_OK;
}

void fy_options_free(struct fy_options *options)
{
    for (size_t i = 0; i < options->n; i++)
        free(options->values[i].text);
    free(options->values);
    *options = (struct fy_options){0};
}

const struct fy_option_value *fy_options_find(const struct fy_options *options, const char *name)
{
    for (size_t i = 0; i < options->n; i++)
        if (strcmp(options->values[i].row->name, name) == 0)
            return &options->values[i];
    return NULL;
}

int64_t fy_options_number(const struct fy_options *options, const char *name)
{
    const struct fy_option_value *found = fy_options_find(options, name);

    return found ? found->value.number : 0;
}

double fy_options_seconds(const struct fy_options *options, const char *name)
{
    const struct fy_option_value *found = fy_options_find(options, name);

    return found ? found->value.seconds : 0;
}

const char *fy_options_string(const struct fy_options *options, const char *name)
{
    const struct fy_option_value *found = fy_options_find(options, name);

    return found && found->value.string ? found->value.string : "";
}
