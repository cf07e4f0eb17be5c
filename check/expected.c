/* SPDX-License-Identifier: Apache-2.0
 * What a transport is known not to keep: a file with an array of {"rule": ID, "cause": TEXT}, with "sometimes": true
 * where it depends on how threads run. Another listed rule that passes is as wrong as one that fails and is not listed.
 * Main thread. */
#include "runner.h"

#include <jansson.h>
#include <stdio.h>
#include <string.h>

/* The entry of this rule; NULL where the run leaves it out. */
static struct entry *entry_of(struct runner *runner, const char *id)
{
    for (size_t i = 0; i < runner->n; i++)
        if (strcmp(runner->entries[i].rule->id, id) == 0)
            return &runner->entries[i];
    return NULL;
}

static bool known(const char *id)
{
    if (strcmp(id, fy_rule_reversed.id) == 0)
        return true;
    for (const struct rule_group *group = fy_rule_groups; group->name; group++)
        for (const struct rule *rule = group->rules; rule->id; rule++)
            if (strcmp(rule->id, id) == 0)
                return true;
    return false;
}

static int take(struct runner *runner, json_t *item, size_t index)
{
    const char *file = runner->settings.expected, *id = NULL, *cause = NULL;
    int sometimes = 0;
    struct entry *entry;

    if (json_unpack(item, "{s:s, s:s, s?b !}", "rule", &id, "cause", &cause, "sometimes", &sometimes) != 0 || !*cause) {
        fprintf(stderr, "%s: item %zu is not {\"rule\": ID, \"cause\": TEXT}\n", file, index);
        return -1;
    }
    if (!known(id)) {
        fprintf(stderr, "%s: there is no rule %s; --list shows the rules\n", file, id);
        return -1;
    }
    entry = entry_of(runner, id);
    if (entry) {
        entry->cause = cause;
        entry->sometimes = sometimes;
    }
    return 0;
}

int fy_expected_read(struct runner *runner)
{
    const char *file = runner->settings.expected;
    json_error_t error;
    json_t *item;
    size_t index;

    if (!file)
        return 0;
    runner->expected = json_load_file(file, 0, &error);
    if (!json_is_array(runner->expected)) {
        fprintf(stderr, "%s: no array of known weaknesses: %s\n", file,
                runner->expected ? "it is something else" : error.text);
        return -1;
    }
    json_array_foreach(runner->expected, index, item) if (take(runner, item, index) != 0) return -1;
    return 0;
}

void fy_expected_judge(struct entry *entry)
{
    if (!entry->cause)
        return;
    if (entry->outcome == OUTCOME_FAIL) {
        entry->outcome = OUTCOME_EXPECTED;
    } else if (entry->outcome == OUTCOME_PASS && !entry->sometimes) {
        entry->outcome = OUTCOME_FAIL;
        snprintf(entry->reason, sizeof(entry->reason), "passes, but %s lists it as failing: %.300s; take it out there",
                 entry->runner->settings.expected, entry->cause);
    }
}

void fy_expected_free(struct runner *runner)
{
    json_decref(runner->expected);
}
