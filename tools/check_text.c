/* SPDX-License-Identifier: Apache-2.0
 * ferry-check: what a person reads. Main thread. */
#include "check.h"

#include <ferry/ferry.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *member(const json_t *object, const char *name)
{
    const char *value = json_string_value(json_object_get(object, name));

    return value ? value : "";
}

void check_print_head(const struct check *check)
{
    const json_t *plugin = json_object_get(check->claims, "plugin");
    json_t *row, *value;
    const char *name;
    size_t i;

    printf("ferry-check %s: %s %s, %s\n", FERRY_VERSION_STRING, member(plugin, "name"), member(plugin, "version"),
           member(plugin, "path"));
    printf("  sha256 %s\n  %s\n", check->sha256[0] ? check->sha256 : "(not readable)", member(plugin, "detail"));
    printf("  %d PEs as %s\n\nclaimed:\n", check->settings.pes, check->settings.processes ? "processes" : "threads");
    json_object_foreach(json_object_get(check->claims, "capabilities"), name,
                        value) if (strcmp(json_string_value(value), "no") != 0 &&
                                   strcmp(json_string_value(value), "none") != 0)
        printf("  %-30s %s\n", name, json_string_value(value));
    printf("not claimed:\n");
    json_array_foreach(json_object_get(check->claims, "not claimed"), i, row)
        printf("  %-30s %s: %s\n", member(row, "feature"), member(row, "state"), member(row, "instead"));
    printf("\n");
}

/* The first lines; all of a program in C. */
static void print_log(const struct check *check, const struct entry *entry)
{
    static char text[60000]; /* too large for a stack frame; one thread */
    const int most = strcmp(entry->group->name, "programs") == 0 ? 1000 : 12;
    ssize_t n = pread(check->log, text, sizeof(text) - 1, 0);
    char *line = text, *end;

    text[n > 0 ? n : 0] = '\0';
    for (int lines = 0; *line && lines < most; lines++, line = end + 1) {
        end = strchrnul(line, '\n');
        printf("    | %.*s\n", (int)(end - line), line);
        if (!*end)
            break;
    }
}

static void print_failure(const struct check *check, const struct check_step *step, const struct entry *entry)
{
    char *again = check_again(check, step, entry);

    printf("FAIL %s %s\n", entry->rule->id, entry->rule->title);
    printf("  done:    %s, %d PEs as %s", step->what, check->settings.pes,
           check->settings.processes ? "processes" : "threads");
    if (step->chaos)
        printf(", seed %lu", step->seed);
    printf(", %d percent of the full count\n", check_scale(check, step));
    printf("  seen:    %s%s%s\n", entry->seen, entry->seen[0] ? "; " : "", entry->reason);
    printf("  allowed: only that %s; docs/semantics.md#%s\n", entry->rule->title, entry->group->anchor);
    printf("  again:   %s\n", again ? again : "(no memory)");
    free(again);
    print_log(check, entry);
}

void check_print_entry(const struct check *check, const struct check_step *step, const struct entry *entry)
{
    static const char *const words[OUTCOMES] = {"not run", "pass", "FAIL", "n/a", "known"};

    if (entry->outcome == OUTCOME_FAIL)
        print_failure(check, step, entry);
    else if (entry->outcome == OUTCOME_EXPECTED)
        printf("KNOWN %s %s: %s\n", entry->rule->id, entry->rule->title, entry->cause);
    else if (check->settings.verbose)
        printf("%-7s %-6s %s%s%s\n", words[entry->outcome], entry->rule->id, entry->rule->title,
               entry->reason[0] ? ": " : "", entry->reason);
    else if (entry->outcome == OUTCOME_NOT_RUN)
        printf("%s %s: %s\n", entry->rule->id, entry->rule->title, entry->reason);
    if (entry->group->level == LEVEL_SPEED && entry->outcome == OUTCOME_PASS)
        print_log(check, entry); /* its figures */
    fflush(stdout);
}

void check_print_step(const struct check *check, const struct check_step *step)
{
    int outcomes[OUTCOMES] = {0};
    double seconds = 0;

    (void)check;
    if (!step->runner.n)
        return;
    for (size_t i = 0; i < step->runner.n; i++) {
        outcomes[step->runner.entries[i].outcome]++;
        seconds += step->runner.entries[i].seconds;
    }
    printf("-- %s", step->what);
    if (step->chaos)
        printf(", seed %lu: %llu reversals", step->seed, (unsigned long long)step->runner.reversals);
    printf(": %d passed, %d failed, %d known, %d not applicable, %d not run; %.1f s\n", outcomes[OUTCOME_PASS],
           outcomes[OUTCOME_FAIL], outcomes[OUTCOME_EXPECTED], outcomes[OUTCOME_NOT_APPLICABLE],
           outcomes[OUTCOME_NOT_RUN], seconds);
}

void check_print_end(const struct check *check)
{
    struct check_sums all = check_sum(check, -1);
    char levels[64] = "", left[40] = "";

    printf("\nlevel            passed  failed  known    n/a  not run\n");
    for (int level = 0; level < LEVELS; level++) {
        struct check_sums sums = check_sum(check, level);
        const int *n = sums.outcomes;

        if (n[OUTCOME_PASS] + n[OUTCOME_FAIL] + n[OUTCOME_EXPECTED] + n[OUTCOME_NOT_APPLICABLE] + n[OUTCOME_NOT_RUN] ==
            0)
            continue;
        printf("L%d %-12s %7d %7d %6d %6d %8d\n", level, check_level_names[level], n[OUTCOME_PASS], n[OUTCOME_FAIL],
               n[OUTCOME_EXPECTED], n[OUTCOME_NOT_APPLICABLE], n[OUTCOME_NOT_RUN]);
        if (!n[OUTCOME_FAIL] && n[OUTCOME_PASS] + n[OUTCOME_EXPECTED])
            snprintf(levels + strlen(levels), sizeof(levels) - strlen(levels), " L%d", level);
    }
    if (all.outcomes[OUTCOME_NOT_RUN])
        snprintf(left, sizeof(left), "; %d not run", all.outcomes[OUTCOME_NOT_RUN]);
    printf("%s: %s keeps%s, by ferry-check %s in %.0f s%s\n", all.outcomes[OUTCOME_FAIL] ? "FAIL" : "PASS",
           member(json_object_get(check->claims, "plugin"), "name"), levels[0] ? levels : " none of these levels",
           FERRY_VERSION_STRING, check->seconds, left);
}
