/* SPDX-License-Identifier: Apache-2.0
 * ferry-info --doctor: what the library and the transports found on this host, and what to do; and for --explain the
 * devices that local PEs would use. One thread. */
#include "info.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

static bool is_problem(const ferry_info_row_t *row)
{
    return strcmp(row->state, "problem") == 0;
}

/* Has this owner, from row `from` on, a problem? */
static bool broken(const struct info *info, const char *owner)
{
    const ferry_info_row_t *row;
    size_t at = 0;
    while ((row = info_next(info, "finding", owner, &at)))
        if (is_problem(row))
            return true;
    return false;
}

/* What was asked for can be used: the library, and every transport that was named, or one of auto's. */
static bool healthy(const struct info *info, bool automatic)
{
    const ferry_info_row_t *row;
    const char *last = "";
    size_t at = 0, good = 0, bad = 0;
    while ((row = info_next(info, "finding", NULL, &at))) {
        if (strcmp(row->name, last) == 0 || strcmp(row->name, "core") == 0)
            continue;
        last = row->name;
        if (broken(info, row->name))
            bad++;
        else
            good++;
    }
    return !broken(info, "core") && good > 0 && (automatic || bad == 0);
}

static void print_text(const struct info *info, bool good)
{
    const ferry_info_row_t *row;
    const char *last = "";
    size_t at = 0, warnings = 0, problems = 0;
    while ((row = info_next(info, "finding", NULL, &at))) {
        if (strcmp(row->name, last) != 0)
            printf("%s%s\n", *last ? "\n" : "", row->name);
        last = row->name;
        printf("  %-8s %s\n", row->state, row->value);
        info_print_wrapped(row->doc, 11);
        if (*row->origin) {
            printf("           -> ");
            info_print_hanging(row->origin, 14);
        }
        warnings += strcmp(row->state, "warning") == 0;
        problems += is_problem(row);
    }
    printf("\n%zu warning%s, %zu problem%s: %s\n", warnings, warnings == 1 ? "" : "s", problems,
           problems == 1 ? "" : "s", good ? "what was asked for can be used" : "what was asked for cannot be used");
}

static json_t *as_json(const struct info *info, bool good)
{
    const ferry_info_row_t *row;
    size_t at = 0;
    json_t *rows = json_array();
    while ((row = info_next(info, "finding", NULL, &at)))
        json_array_append_new(rows,
                              json_pack("{so so so so so}", "owner", info_text_value(row->name), "object",
                                        info_text_value(row->value), "level", info_text_value(row->state), "found",
                                        info_text_value(row->doc), "advice", info_text_value(row->origin)));
    return json_pack("{ss sb so}", "version", ferry_version(), "usable", (int)good, "findings", rows);
}

int info_doctor(const char *spec, bool json)
{
    struct info info = {0};
    int status = ferry_doctor(spec, info_row, &info);
    if (status != FERRY_OK || info.failed) {
        fprintf(stderr, "ferry-info: %s\n", status != FERRY_OK ? ferry_status_string(status) : "out of memory");
        info_free(&info);
        return EX_CONFIG;
    }
    const char *asked = spec ? spec : getenv("FERRY_TRANSPORT");
    bool good = healthy(&info, !asked || !*asked || strcmp(asked, "auto") == 0);
    if (json) {
        json_t *root = as_json(&info, good);
        json_dumpf(root, stdout, JSON_INDENT(2));
        putchar('\n');
        json_decref(root);
    } else {
        print_text(&info, good);
    }
    info_free(&info);
    if (!info_written())
        return EX_IOERR;
    return good ? 0 : 1;
}

/* ------------------------------------------------------------------ the plan of --explain */

/* The bit of one PE's node; *at goes behind it and the comma. 0: none is there. */
static uint64_t read_node(const char **at)
{
    char *end;
    unsigned long node = strtoul(*at, &end, 10);
    if (end == *at || **at == '-' || node > 63 || (*end && (*end != ',' || !end[1])))
        return 0;
    *at = *end ? end + 1 : end;
    return UINT64_C(1) << node;
}

uint64_t *info_nodes(const char *text, int n)
{
    uint64_t *nodes = calloc((size_t)n, sizeof *nodes), node = 0;
    const char *at = text;
    int given = 0;
    do {
        node = nodes ? read_node(&at) : 0;
        if (node && given < n)
            nodes[given++] = node;
    } while (node && *at);
    if (!node) {
        fprintf(stderr, "ferry-info: --nodes=%s is no list of NUMA nodes like 0,0,1,1\n", text);
        free(nodes);
        return NULL;
    }
    for (int i = given; i < n; i++)
        nodes[i] = nodes[i - given];
    return nodes;
}

static void print_plan(const struct info *info)
{
    const ferry_info_row_t *row;
    const char *last = "";
    size_t at = 0;
    while ((row = info_next(info, "plan", NULL, &at))) {
        if (strcmp(row->name, last) != 0)
            printf("\n%s, devices of local PEs\n", row->name);
        last = row->name;
        printf("  %-10s %s\n", row->value, row->state);
        info_print_wrapped(row->doc, 13);
    }
}

static void add_plan(const struct info *info, json_t *all)
{
    const ferry_info_row_t *row;
    size_t at = 0;
    while ((row = info_next(info, "plan", NULL, &at)))
        json_array_append_new(all, json_pack("{so so so so}", "transport", info_text_value(row->name), "pe",
                                             info_text_value(row->value), "devices", info_text_value(row->state), "why",
                                             info_text_value(row->doc)));
}

int info_plan(const char *spec, int n, const uint64_t *nodes, json_t *all)
{
    struct info info = {0};
    int status = ferry_plan(spec, n, nodes, info_row, &info);
    if (status == FERRY_OK && all)
        add_plan(&info, all);
    else if (status == FERRY_OK)
        print_plan(&info);
    info_free(&info);
    return status == FERRY_OK ? 0 : EX_CONFIG;
}
