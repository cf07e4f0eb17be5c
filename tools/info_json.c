/* SPDX-License-Identifier: Apache-2.0
 * ferry-info: the form for programs, one JSON object. One thread. */
#include "info.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* JSON is UTF-8; a path need not be. Then what is not ASCII is shown as '?'. */
json_t *info_text_value(const char *text)
{
    json_t *value = json_string(text);
    if (value)
        return value;
    char *plain = strdup(text);
    if (!plain)
        return NULL;
    for (char *c = plain; *c; c++)
        if ((unsigned char)*c >= 0x80)
            *c = '?';
    value = json_string(plain);
    free(plain);
    return value;
}

static json_t *capabilities(const struct info *info, const ferry_info_row_t *plugin)
{
    const ferry_info_row_t *row;
    size_t at = 0;
    json_t *object = json_object();
    if (strcmp(plugin->state, "chosen") != 0 && strcmp(plugin->state, "usable") != 0)
        return object;
    while ((row = info_next(info, "capability", plugin->name, &at)))
        json_object_set_new(object, row->state, info_text_value(row->value));
    return object;
}

static json_t *searches(const struct info *info)
{
    const ferry_info_row_t *row;
    size_t at = 0;
    json_t *array = json_array();
    while ((row = info_next(info, "search", NULL, &at)))
        json_array_append_new(array, info_text_value(row->name));
    return array;
}

static json_t *plugins(const struct info *info)
{
    const ferry_info_row_t *row;
    size_t at = 0;
    json_t *array = json_array();
    while ((row = info_next(info, "plugin", NULL, &at)))
        json_array_append_new(array, json_pack("{so so so so so so}", "name", info_text_value(row->name), "path",
                                               info_text_value(row->value), "version", info_text_value(row->origin),
                                               "state", info_text_value(row->state), "reason",
                                               info_text_value(row->doc), "capabilities", capabilities(info, row)));
    return array;
}

static json_t *options(const struct info *info)
{
    const ferry_info_row_t *row;
    size_t at = 0;
    json_t *array = json_array();
    while ((row = info_next(info, "option", NULL, &at)))
        json_array_append_new(array,
                              json_pack("{so so so so so}", "name", info_text_value(row->name), "owner",
                                        info_text_value(row->state), "value", info_text_value(row->value), "origin",
                                        info_text_value(row->origin), "doc", info_text_value(row->doc)));
    return array;
}

int info_print_json(const struct info *info)
{
    json_t *root = json_pack("{ss so so so}", "version", ferry_version(), "search", searches(info), "plugins",
                             plugins(info), "options", options(info));
    if (!root)
        return -1;
    int rc = json_dumpf(root, stdout, JSON_INDENT(2));
    json_decref(root);
    putchar('\n');
    return rc == 0 && fflush(stdout) == 0 && !ferror(stdout) ? 0 : -1;
}
