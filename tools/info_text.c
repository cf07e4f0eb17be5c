/* SPDX-License-Identifier: Apache-2.0
 * ferry-info: the form for people. One thread. */
#include "info.h"

#include <stdio.h>
#include <string.h>

#define COLUMNS 100

/* Words of `text`, broken into lines; `column`: where the first begins. */
static void wrap(const char *text, int indent, int column)
{
    bool first = true;
    while (*(text += strspn(text, " \n"))) {
        int length = (int)strcspn(text, " \n");
        if (column > indent && column + 1 + length > COLUMNS) {
            putchar('\n');
            column = 0;
        }
        if (column == 0)
            column = printf("%*s%.*s", indent, "", length, text);
        else
            column += printf("%s%.*s", first ? "" : " ", length, text);
        first = false;
        text += length;
    }
    if (column > 0)
        putchar('\n');
}

void info_print_wrapped(const char *text, int indent)
{
    wrap(text, indent, 0);
}

void info_print_hanging(const char *text, int indent)
{
    wrap(text, indent, indent);
}

static void print_search(const struct info *info)
{
    const ferry_info_row_t *row;
    size_t at = 0;
    puts("\nfolders searched for plugins");
    while ((row = info_next(info, "search", NULL, &at)))
        printf("  %s\n", row->name);
}

static void print_capabilities(const struct info *info, const char *plugin)
{
    const ferry_info_row_t *row;
    size_t at = 0;
    while ((row = info_next(info, "capability", plugin, &at)))
        printf("      %-28s %s\n", row->state, row->value);
}

static void print_plugins(const struct info *info)
{
    const ferry_info_row_t *row;
    size_t at = 0;
    puts("\nplugins");
    while ((row = info_next(info, "plugin", NULL, &at))) {
        printf("  %s%s%s: %s\n", row->name, *row->origin ? " " : "", row->origin, row->state);
        if (*row->value)
            printf("      %-28s %s\n", "file", row->value);
        info_print_wrapped(row->doc, 6);
        /* A name met twice was opened once: the file that is usable. */
        if (strcmp(row->state, "chosen") == 0 || strcmp(row->state, "usable") == 0)
            print_capabilities(info, row->name);
    }
    at = 0;
    if (!info_next(info, "plugin", NULL, &at))
        puts("  none");
}

static void print_options(const struct info *info)
{
    const ferry_info_row_t *row;
    size_t at = 0;
    puts("\noptions");
    while ((row = info_next(info, "option", NULL, &at))) {
        printf("  %s=%s (%s)\n", row->name, row->value, row->origin);
        info_print_wrapped(row->doc, 6);
    }
}

bool info_written(void)
{
    bool good = fflush(stdout) == 0 && !ferror(stdout);
    if (!good)
        fprintf(stderr, "ferry-info: cannot write the output\n");
    return good;
}

int info_print_text(const struct info *info)
{
    printf("ferry %s\n", ferry_version());
    print_search(info);
    print_plugins(info);
    print_options(info);
    return fflush(stdout) == 0 && !ferror(stdout) ? 0 : -1;
}
