/* SPDX-License-Identifier: Apache-2.0
 * ferry-info --explain: per transport what is native, what the library makes, what that costs; the same for each way that a
 * transport has (info_ways.c). One thread. */
#include "info.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

/* What says which device, provider or lanes it is. */
static const char *detail(const struct info *info, const char *name)
{
    const ferry_info_row_t *row;
    size_t at = 0;
    while ((row = info_next(info, "plugin", name, &at)))
        if (row->doc[0])
            return row->doc;
    return "";
}

void info_print_explained(const struct info *info, const char *guise)
{
    const ferry_info_row_t *row;
    const char *last = "";
    size_t at = 0;
    while ((row = info_next(info, "explain", NULL, &at))) {
        if (strcmp(row->name, last) != 0)
            printf("\n%s%s%s, %s memory\n  (%s)\n", row->name, guise ? " as " : "", guise ? guise : "", row->origin,
                   detail(info, row->name));
        last = row->name;
        printf("  %-30s %-14s%s%s\n", row->value, row->state, *row->doc ? " " : "", row->doc);
    }
}

static json_t *as_json(const struct info *info, const char *guise)
{
    const ferry_info_row_t *row;
    json_t *rows = json_array();
    size_t at = 0;
    while ((row = info_next(info, "explain", NULL, &at)))
        json_array_append_new(rows, json_pack("{ss ss ss ss ss ss}", "transport", row->name, "guise",
                                              guise ? guise : "", "feature", row->value, "how", row->state, "memory",
                                              row->origin, "cost", row->doc));
    return rows;
}

/* One question, answered on stdout or into `all`. */
static int ask(const char *spec, const char *guise, json_t *all, struct info *info)
{
    int status = ferry_info(spec, 0, info_row, info);
    if (status != FERRY_OK || info->failed) {
        fprintf(stderr, "ferry-info: %s\n", status != FERRY_OK ? ferry_status_string(status) : "out of memory");
        return EX_CONFIG;
    }
    if (all) {
        json_t *rows = as_json(info, guise);
        json_array_extend(all, rows);
        json_decref(rows);
    } else {
        info_print_explained(info, guise);
    }
    return 0;
}

/* Whatever was named and cannot be used has no rows. */
static bool explained(const struct info *info)
{
    size_t at = 0;
    return info_next(info, "explain", NULL, &at) != NULL;
}

static int explain_way(void *arg, const char *transport, const char *way)
{
    json_t *all = arg;
    struct info info = {0};
    int rc = ask(transport, way, all, &info);
    if (rc == 0 && !explained(&info) && all)
        json_array_append_new(all, json_pack("{ss ss ss ss ss so}", "transport", transport, "guise", way, "feature", "",
                                             "how", "not usable here", "memory", "", "cost",
                                             info_text_value(detail(&info, transport))));
    else if (rc == 0 && !explained(&info))
        printf("\n%s as %s: not usable here\n  (%s)\n", transport, way, detail(&info, transport));
    info_free(&info);
    return rc;
}

static bool chosen(const struct info *info, const char *spec)
{
    size_t at = 0;
    const ferry_info_row_t *row = info_next(info, "option", "FERRY_TRANSPORT", &at);
    return spec || (row && strcmp(row->origin, "default") != 0);
}

int info_explain(const char *spec, bool json, int n, const char *nodes_text)
{
    struct info info = {0};
    uint64_t *nodes = nodes_text ? info_nodes(nodes_text, n) : NULL;
    if (nodes_text && !nodes)
        return EX_USAGE;
    json_t *all = json ? json_array() : NULL;
    int rc = ask(spec, NULL, all, &info);
    if (rc == 0 && !explained(&info) && !json)
        info_print_text(&info);
    bool good = explained(&info);
    if (rc == 0 && (good || json))
        rc = info_ways(&info, good && !chosen(&info, spec), explain_way, all);
    if (rc == 0 && n > 0)
        rc = info_plan(spec, n, nodes, all);
    info_free(&info);
    free(nodes);
    if (all) {
        json_dumpf(all, stdout, JSON_INDENT(2));
        putchar('\n');
        json_decref(all);
    }
    if (!info_written())
        return EX_IOERR;
    return rc != 0 ? rc : good ? 0 : 1;
}
