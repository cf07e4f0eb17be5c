/* SPDX-License-Identifier: Apache-2.0
 * ferry-info --explain: per transport what is native, what the library makes, what that costs; and where no transport
 * was chosen, the same for each guise of loopback. One thread. */
#include "info.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#define GUISE "FERRY_LOOPBACK_GUISE"

/* For words that want a number. */
static const struct {
    const char *word, *number;
} samples[] = {{"max-msg=", "4096"}, {"inline=", "0"}, {"copy=", "0"}, {"depth=", "4"}, {"hosts=", "2"}};

static void sample(const char *choice, char *guise, size_t size)
{
    const char *number = "";
    for (size_t i = 0; i < sizeof samples / sizeof *samples; i++)
        if (strcmp(choice, samples[i].word) == 0)
            number = samples[i].number;
    snprintf(guise, size, "%s%s", choice, number);
}

void info_print_explained(const struct info *info, const char *guise)
{
    const ferry_info_row_t *row;
    const char *last = "";
    size_t at = 0;
    while ((row = info_next(info, "explain", NULL, &at))) {
        if (strcmp(row->name, last) != 0)
            printf("\n%s%s%s, %s memory\n", row->name, guise ? " as " : "", guise ? guise : "", row->origin);
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

static int explain_guises(const struct info *plain, json_t *all)
{
    const ferry_info_row_t *row;
    size_t at = 0;
    int rc = 0;
    while (rc == 0 && (row = info_next(plain, "choice", GUISE, &at))) {
        struct info info = {0};
        char guise[64];
        sample(row->value, guise, sizeof guise);
        setenv(GUISE, guise, 1);
        rc = ask("loopback", guise, all, &info);
        info_free(&info);
    }
    unsetenv(GUISE);
    return rc;
}

static bool chosen(const struct info *info, const char *spec)
{
    size_t at = 0;
    const ferry_info_row_t *row = info_next(info, "option", "FERRY_TRANSPORT", &at);
    return spec || getenv(GUISE) || (row && strcmp(row->origin, "default") != 0);
}

/* Whatever was named and cannot be used has no rows: then the table of reasons is what helps. */
static bool explained(const struct info *info)
{
    size_t at = 0;
    return info_next(info, "explain", NULL, &at) != NULL;
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
    if (rc == 0 && good && !chosen(&info, spec))
        rc = explain_guises(&info, all);
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
