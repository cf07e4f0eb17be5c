/* SPDX-License-Identifier: Apache-2.0
 * ferry-check: what a run was started with, and the command that plays one of its rules again. Main thread. */
#include "check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

extern char **environ;

static bool matters(const char *variable)
{
    static const char *const prefixes[] = {"FERRY_", "UCX_", "FI_", "TEST_SCALE="};

    if (strncmp(variable, "FERRY_ID=", 9) == 0) /* a secret */
        return false;
    for (size_t i = 0; i < sizeof(prefixes) / sizeof(*prefixes); i++)
        if (strncmp(variable, prefixes[i], strlen(prefixes[i])) == 0)
            return true;
    return false;
}

json_t *check_environment(void)
{
    json_t *object = json_object();

    for (char **entry = environ; *entry; entry++) {
        size_t n = strcspn(*entry, "=");
        char *name = (*entry)[n] && matters(*entry) ? strndup(*entry, n) : NULL;

        if (name)
            json_object_set_new(object, name, json_string(*entry + n + 1));
        free(name);
    }
    return object;
}

/* As a shell takes it: words of harmless letters as they are, all else between quotes. */
static void word(FILE *out, const char *text)
{
    if (*text &&
        strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-+=./,:@%") == strlen(text)) {
        fputs(text, out);
        return;
    }
    fputc('\'', out);
    for (; *text; text++)
        fputs(*text == '\'' ? "'\\''" : (char[]){*text, '\0'}, out);
    fputc('\'', out);
}

static void option(FILE *out, const char *name, const char *value)
{
    if (!value)
        return;
    fprintf(out, " %s ", name);
    word(out, value);
}

static void variables(FILE *out, const json_t *environment)
{
    const char *name;
    json_t *value;

    json_object_foreach((json_t *)environment, name, value)
    {
        fprintf(out, "%s=", name);
        word(out, json_string_value(value));
        fputc(' ', out);
    }
}

/* What the whole run says, R9.1, needs all of the run. */
static void which(FILE *out, const struct check_step *step, const struct entry *entry)
{
    if (entry->rule != &fy_rule_reversed)
        fprintf(out, " --rule %s", entry->rule->id);
    fprintf(out, " --level L%d", (int)check_level_of(step, entry));
    if (step->chaos)
        fprintf(out, " --seed %lu --seeds 1", step->seed);
}

char *check_again(const struct check *check, const struct check_step *step, const struct entry *entry)
{
    const struct check_settings *s = &check->settings;
    char *line = NULL;
    size_t size;
    FILE *out = open_memstream(&line, &size);

    if (!out)
        return NULL;
    variables(out, check->environment);
    fputs("ferry-check ", out);
    word(out, s->transport);
    which(out, step, entry);
    fprintf(out, " --pes %d", s->pes);
    if (s->channels)
        fprintf(out, " --channels %d", s->channels);
    if (s->deadline != CHECK_DEADLINE)
        fprintf(out, " --deadline %g", s->deadline);
    option(out, "--baseline", s->baseline);
    option(out, "--expected", s->expected);
    if (s->launch)
        option(out, "--launch", s->launch);
    else if (s->processes)
        fputs(" --processes", out);
    fclose(out);
    return line;
}
