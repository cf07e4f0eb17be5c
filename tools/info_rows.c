/* SPDX-License-Identifier: Apache-2.0
 * ferry-info: keeps rows and finds them again. One thread. */
#include "info.h"

#include <stdlib.h>
#include <string.h>

/* Empty and failed copies are the same constant, which is not freed. */
static const char nothing[] = "";

static const char *copy(struct info *info, const char *text)
{
    if (!text || !*text)
        return nothing;
    char *own = strdup(text);
    info->failed = info->failed || !own;
    return own ? own : nothing;
}

static bool grow(struct info *info)
{
    if (info->n < info->capacity)
        return true;
    size_t capacity = info->capacity ? 2 * info->capacity : 64;
    ferry_info_row_t *rows = reallocarray(info->rows, capacity, sizeof *rows);
    if (!rows) {
        info->failed = true;
        return false;
    }
    info->rows = rows;
    info->capacity = capacity;
    return true;
}

void info_row(void *arg, const ferry_info_row_t *row)
{
    struct info *info = arg;
    if (info->failed || !grow(info))
        return;
    info->rows[info->n++] = (ferry_info_row_t){copy(info, row->what),  copy(info, row->name),   copy(info, row->value),
                                               copy(info, row->state), copy(info, row->origin), copy(info, row->doc)};
}

static void release(const char *text)
{
    if (text != nothing)
        free((void *)(uintptr_t)text);
}

void info_free(struct info *info)
{
    for (size_t i = 0; i < info->n; i++) {
        const ferry_info_row_t *row = &info->rows[i];
        const char *const all[] = {row->what, row->name, row->value, row->state, row->origin, row->doc};
        for (size_t k = 0; k < sizeof all / sizeof *all; k++)
            release(all[k]);
    }
    free(info->rows);
    *info = (struct info){0};
}

const ferry_info_row_t *info_next(const struct info *info, const char *what, const char *name, size_t *at)
{
    while (*at < info->n) {
        const ferry_info_row_t *row = &info->rows[(*at)++];
        if (strcmp(row->what, what) == 0 && (!name || strcmp(row->name, name) == 0))
            return row;
    }
    return NULL;
}

bool info_satisfied(const struct info *info, const char *spec)
{
    const ferry_info_row_t *row;
    size_t at = 0, usable = 0, unusable = 0;
    while ((row = info_next(info, "plugin", NULL, &at))) {
        bool good = strcmp(row->state, "chosen") == 0 || strcmp(row->state, "usable") == 0;
        usable += good;
        unusable += !good;
    }
    return strcmp(spec, "auto") == 0 ? usable > 0 : usable > 0 && unusable == 0;
}
