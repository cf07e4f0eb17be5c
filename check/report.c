/* SPDX-License-Identifier: Apache-2.0
 * What a run leaves behind: the list of rules, a file of results, one line for the matrix. Main thread. */
#include "runner.h"

#include <jansson.h>
#include <stdio.h>
#include <string.h>

static const char *const words[] = {"not-run", "pass", "fail", "not-applicable", "expected-failure"};

/* The rows of the table in docs/semantics.md. */
void fy_report_list(const struct runner *runner)
{
    for (size_t i = 0; i < runner->n; i++)
        printf("| %s | %s | %s |\n", runner->entries[i].rule->id, runner->entries[i].group->name,
               runner->entries[i].rule->title);
}

int fy_report_json(const struct runner *runner)
{
    json_t *list = json_array();
    int rc;

    for (size_t i = 0; i < runner->n; i++) {
        const struct entry *e = &runner->entries[i];

        json_array_append_new(list,
                              json_pack("{s:s, s:s, s:s, s:s, s:s, s:f}", "rule", e->rule->id, "group", e->group->name,
                                        "title", e->rule->title, "status", words[e->outcome], "reason",
                                        e->outcome == OUTCOME_EXPECTED ? e->cause : e->reason, "seconds", e->seconds));
    }
    rc = json_dump_file(list, runner->settings.json, JSON_INDENT(1));
    json_decref(list);
    if (rc != 0)
        fprintf(stderr, "conformance: cannot write %s; choose a place that can be written\n", runner->settings.json);
    return rc;
}

static void count_group(const struct runner *runner, const char *group, int counts[OUTCOMES])
{
    memset(counts, 0, OUTCOMES * sizeof(*counts));
    for (size_t i = 0; i < runner->n; i++)
        if (strcmp(runner->entries[i].group->name, group) == 0)
            counts[runner->entries[i].outcome]++;
}

/* row NAME GROUP=pass/fail/not-applicable … reversals=N seconds=S */
void fy_report_row(const struct runner *runner)
{
    double seconds = 0;
    int counts[OUTCOMES];

    printf("row %s", runner->settings.row);
    for (const struct rule_group *group = fy_rule_groups; group->name; group++) {
        count_group(runner, group->name, counts);
        printf(" %s=%d/%d/%d", group->name, counts[OUTCOME_PASS] + counts[OUTCOME_EXPECTED],
               counts[OUTCOME_FAIL] + counts[OUTCOME_NOT_RUN], counts[OUTCOME_NOT_APPLICABLE]);
    }
    for (size_t i = 0; i < runner->n; i++)
        seconds += runner->entries[i].seconds;
    printf(" reversals=%llu chaos=%s seconds=%.1f\n", (unsigned long long)runner->reversals,
           runner->chaos ? "yes" : "no", seconds);
}
