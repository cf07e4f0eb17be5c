/* SPDX-License-Identifier: Apache-2.0
 * ferry-check: the results in the form of JUnit, which most servers that run tests can read. Main thread. */
#include "check.h"

#include <stdio.h>
#include <stdlib.h>

/* XML knows few control characters, and none is of use here. */
static void escaped(FILE *out, const char *text)
{
    for (; *text; text++) {
        switch (*text) {
        case '<':
            fputs("&lt;", out);
            break;
        case '>':
            fputs("&gt;", out);
            break;
        case '&':
            fputs("&amp;", out);
            break;
        case '"':
            fputs("&quot;", out);
            break;
        default:
            fputc((unsigned char)*text < 0x20 ? ' ' : *text, out);
        }
    }
}

static void attribute(FILE *out, const char *name, const char *text)
{
    fprintf(out, " %s=\"", name);
    escaped(out, text);
    fputc('"', out);
}

static void one(FILE *out, const struct check *check, const struct check_step *step, const struct entry *entry)
{
    char name[300], *again;

    snprintf(name, sizeof(name), "%s %s", entry->rule->id, entry->rule->title);
    fprintf(out, "  <testcase classname=\"L%d.%s\"", (int)check_level_of(step, entry), entry->group->name);
    attribute(out, "name", name);
    fprintf(out, " time=\"%.3f\">", entry->seconds);
    if (entry->outcome == OUTCOME_FAIL) {
        again = check_again(check, step, entry);
        fputs("<failure", out);
        attribute(out, "message", entry->reason);
        fputs(">seen: ", out);
        escaped(out, entry->seen);
        fputs("\nagain: ", out);
        escaped(out, again ? again : "(no memory)");
        free(again);
        fputs("</failure>", out);
    } else if (entry->outcome != OUTCOME_PASS) {
        fputs("<skipped", out);
        attribute(out, "message", entry->cause && entry->outcome == OUTCOME_EXPECTED ? entry->cause : entry->reason);
        fputs("/>", out);
    }
    fputs("</testcase>\n", out);
}

static void suite(FILE *out, const struct check *check, const struct check_step *step)
{
    int outcomes[OUTCOMES] = {0};

    for (size_t i = 0; i < step->runner.n; i++)
        outcomes[step->runner.entries[i].outcome]++;
    fputs(" <testsuite", out);
    attribute(out, "name", step->what);
    fprintf(out, " id=\"%zu\" tests=\"%zu\" failures=\"%d\" skipped=\"%d\">\n", (size_t)(step - check->steps),
            step->runner.n, outcomes[OUTCOME_FAIL],
            outcomes[OUTCOME_NOT_RUN] + outcomes[OUTCOME_NOT_APPLICABLE] + outcomes[OUTCOME_EXPECTED]);
    for (size_t i = 0; i < step->runner.n; i++)
        one(out, check, step, &step->runner.entries[i]);
    fputs(" </testsuite>\n", out);
}

int check_write_junit(const struct check *check)
{
    FILE *out = fopen(check->settings.junit, "we");
    bool good = out;

    if (out) {
        fputs("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites", out);
        attribute(out, "name", check->settings.transport);
        fputs(">\n", out);
        for (size_t i = 0; i < check->n; i++)
            suite(out, check, &check->steps[i]);
        fputs("</testsuites>\n", out);
        good = !ferror(out);
        good &= fclose(out) == 0;
    }
    if (!good)
        fprintf(stderr, "ferry-check: cannot write %s; choose a place that can be written\n", check->settings.junit);
    return good ? 0 : -1;
}
