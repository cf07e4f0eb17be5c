/* SPDX-License-Identifier: Apache-2.0
 * Prints docs/configuration.md from the option tables of the core and of the plugins (.so) given as arguments;
 * with --check FILE, compares instead. For developers, not installed. One thread. */
#include "base/option.h"
#include <dlfcn.h>
#include <ferry/transport.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char intro[] =
    "<!-- Made by tools/gen-config from the option tables: edit those. -->\n"
    "# Configuration\n"
    "\n"
    "Ferry is configured by variables of the environment. An application can set the same names in\n"
    "`ferry_attr_t.options`, as `\"FERRY_HEAP_SIZE=1G\"`; those win over the environment. All are read in\n"
    "`ferry_init`; later changes have no effect. `ferry-info` prints the values in effect and where each comes from.\n"
    "\n"
    "A value that cannot be read is an error of `ferry_init` that names the variable, the value and what is accepted.\n"
    "A name that starts with `FERRY_` and is none of these is warned about, with the name that was probably meant.\n"
    "\n"
    "| form | what is accepted |\n"
    "|---|---|\n"
    "| yes or no | `0` `1` `no` `yes` `off` `on` `false` `true` |\n"
    "| number | decimal, or hexadecimal as in `0x1f`; may be negative |\n"
    "| size | bytes, alone or with `K` `M` `G` `T` `P` `E` (powers of 1024), as in `4096` or `64M` |\n"
    "| time | seconds, as in `10`, `2.5s` or `500ms` |\n"
    "| text | taken as it is |\n"
    "| one of | one of the words in the table |\n"
    "| list | any of the words in the table, separated by commas; a word that ends in `=` takes a number |\n";

static const char *const launcher_rows[] = {"rank", "size", "id"};

static bool set_by_launcher(const struct ferry_option *row)
{
    for (size_t i = 0; i < sizeof(launcher_rows) / sizeof(launcher_rows[0]); i++)
        if (strcmp(row->name, launcher_rows[i]) == 0)
            return true;
    return false;
}

static const char *form_name(uint32_t type)
{
    static const char *const names[] = {
        [FERRY_OPTION_BOOL] = "yes or no", [FERRY_OPTION_INT] = "number",  [FERRY_OPTION_SIZE] = "size",
        [FERRY_OPTION_SECONDS] = "time",   [FERRY_OPTION_STRING] = "text", [FERRY_OPTION_CHOICE] = "one of",
        [FERRY_OPTION_SET] = "list of"};

    return type < sizeof(names) / sizeof(names[0]) ? names[type] : "?";
}

/* A bar would end the cell. */
static void print_cell(FILE *out, const char *text)
{
    for (; *text; text++) {
        if (*text == '|')
            fputc('\\', out);
        fputc(*text, out);
    }
}

static void print_choices(FILE *out, const char *choices)
{
    for (const char *p = choices; *p;) {
        size_t n = strcspn(p, "|");

        fprintf(out, " `%.*s`", (int)n, p);
        p += n + (p[n] == '|');
    }
}

static void print_row(FILE *out, const char *plugin, const struct ferry_option *row)
{
    char variable[128];

    fy_option_variable(plugin, row->name, variable, sizeof(variable));
    fprintf(out, "| `%s` | %s", variable, form_name(row->type));
    if (row->choices)
        print_choices(out, row->choices);
    if (row->initial && *row->initial) {
        fputs(" | `", out);
        print_cell(out, row->initial);
        fputs("` | ", out);
    } else {
        fputs(" | empty | ", out);
    }
    print_cell(out, row->doc ? row->doc : "");
    fputs(" |\n", out);
}

static void print_head(FILE *out)
{
    fputs("\n| variable | form | default | meaning |\n|---|---|---|---|\n", out);
}

static void print_core(FILE *out, bool launcher)
{
    print_head(out);
    for (const struct ferry_option *row = fy_core_options; row->name; row++)
        if (set_by_launcher(row) == launcher)
            print_row(out, NULL, row);
}

static bool print_plugin(FILE *out, const char *path)
{
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    const struct ferry_plugin *plugin = library ? dlsym(library, FERRY_PLUGIN_SYMBOL) : NULL;

    if (!plugin) {
        fprintf(stderr, "gen-config: %s\n", dlerror());
        return false;
    }
    if (plugin->abi >> 16 != FERRY_TRANSPORT_ABI_MAJOR) {
        fprintf(stderr, "gen-config: %s speaks abi %u, not %u\n", path, plugin->abi >> 16, FERRY_TRANSPORT_ABI_MAJOR);
        return false;
    }
    fprintf(out, "\n### %s `%s`\n\n%s\n", plugin->kind == 1 ? "Hook" : "Transport", plugin->name, plugin->summary);
    if (!plugin->options || !plugin->options->name) {
        fputs("\nIt has no options.\n", out);
        return true;
    }
    print_head(out);
    for (const struct ferry_option *row = plugin->options; row->name; row++)
        print_row(out, plugin->name, row);
    return true;
}

static bool print_all(FILE *out, char *const *plugins)
{
    fputs(intro, out);
    fputs("\n## Core\n", out);
    print_core(out, false);
    fputs("\n## Set by the launcher\n\n`ferry-run` sets these for each process. Set them by hand only to write a "
          "launcher.\n",
          out);
    print_core(out, true);
    fputs("\n## Plugins\n\nOption `x_y` of plugin `p` is the variable `FERRY_P_X_Y`.\n", out);
    for (; *plugins; plugins++)
        if (!print_plugin(out, *plugins))
            return false;
    return true;
}

/* Line number of the first difference, 0: none. */
static unsigned first_difference(FILE *file, const char *text)
{
    unsigned line = 1;
    int c;

    while ((c = fgetc(file)) == (unsigned char)*text && *text) {
        line += *text == '\n';
        text++;
    }
    return c == EOF && *text == '\0' ? 0 : line;
}

static int check(const char *path, const char *text)
{
    FILE *file = fopen(path, "r");
    unsigned line;

    if (!file) {
        perror(path);
        return 1;
    }
    line = first_difference(file, text);
    fclose(file);
    if (line == 0)
        return 0;
    fprintf(stderr,
            "%s differs from the option tables at line %u: write the output of this program, run with the same "
            "plugins, to it\n",
            path, line);
    return 1;
}

int main(int argc, char **argv)
{
    bool checking = argc > 2 && strcmp(argv[1], "--check") == 0;
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);

    if (!out) {
        perror("gen-config");
        return 1;
    }
    bool complete = print_all(out, argv + (checking ? 3 : 1));
    if (fclose(out) != 0)
        complete = false;
    int status = complete ? 0 : 1;
    if (complete && checking)
        status = check(argv[2], text);
    else if (complete && (fputs(text, stdout) < 0 || fflush(stdout) != 0))
        status = 1;
    free(text);
    return status;
}
