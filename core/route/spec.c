/* SPDX-License-Identifier: Apache-2.0
 * Reads the comma lists of FERRY_TRANSPORT and FERRY_HOOKS.
 * Setup thread; pure functions over caller-owned memory. */
#include "internal.h"
#include <stdlib.h>
#include <string.h>

static char *trim(char *item)
{
    size_t n;

    item += strspn(item, " \t");
    for (n = strlen(item); n > 0 && strchr(" \t", item[n - 1]); n--)
        item[n - 1] = '\0';
    return item;
}

/* Cuts list->text into its items. */
static int split(struct fy_list *list)
{
    char *at = list->text;
    size_t commas = 0;

    for (const char *p = at; (p = strchr(p, ',')); p++)
        commas++;
    list->items = calloc(commas + 1, sizeof(*list->items));
    if (!list->items)
        return FERRY_ERR_NOMEM;
    for (list->n = 0; list->n <= commas; list->n++) {
        char *comma = strchr(at, ',');

        if (comma)
            *comma = '\0';
        list->items[list->n] = trim(at);
        at = comma ? comma + 1 : at;
    }
    return FERRY_OK;
}

static int check(const struct fy_list *list, const char *spec, const char *variable, struct ferry_error *error)
{
    const char *form = "give a name, a path to a plugin, or a comma list of them";

    for (size_t i = 0; i < list->n; i++) {
        const char *item = list->items[i];

        if (!*item) {
            fy_error_set(error, FERRY_ERR_CONFIG, form, "%s is '%.200s': item %zu is empty", variable, spec, i + 1);
            return FERRY_ERR_CONFIG;
        }
        if (strcmp(item, "auto") == 0 && list->n > 1) {
            fy_error_set(error, FERRY_ERR_CONFIG, form, "%s is '%.200s': auto stands alone, not in a list", variable,
                         spec);
            return FERRY_ERR_CONFIG;
        }
        for (size_t j = 0; j < i; j++) {
            if (strcmp(item, list->items[j]) != 0)
                continue;
            fy_error_set(error, FERRY_ERR_CONFIG, form, "%s is '%.200s': %.64s is there twice", variable, spec, item);
            return FERRY_ERR_CONFIG;
        }
    }
    return FERRY_OK;
}

int fy_list_parse(struct fy_list *list, const char *spec, const char *variable, struct ferry_error *error)
{
    int status = FERRY_ERR_NOMEM;

    *list = (struct fy_list){0};
    list->text = strdup(spec);
    if (list->text)
        status = split(list);
    if (status == FERRY_OK)
        status = check(list, spec, variable, error);
    else
        fy_error_set(error, status, NULL, "no memory for the items of %s", variable);
    if (status != FERRY_OK)
        fy_list_free(list);
    return status;
}

void fy_list_free(struct fy_list *list)
{
    free(list->items);
    free(list->text);
    *list = (struct fy_list){0};
}
