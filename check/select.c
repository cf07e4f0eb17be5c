/* SPDX-License-Identifier: Apache-2.0
 * Which rules a run has: all, or groups and rules by name. Main thread. */
#include "runner.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const struct rule fy_rule_reversed = {.id = "R9.1", .title = "chaos reordered something in this run", .min_pes = 1};
static const struct rule_group whole_run = {"run", &fy_rule_reversed, LEVEL_ADVERSARY, "order"};

/* Is `name` an item of the comma list? */
static bool listed(const char *list, const char *name)
{
    size_t length = strlen(name);

    for (const char *at = list; at && *at; at += *at == ',') {
        size_t n = strcspn(at, ",");

        if (n == length && memcmp(at, name, n) == 0)
            return true;
        at += n;
    }
    return false;
}

/* "R10.2" asks for one rule, "R10" for all of the item, "R10,R11.1" for those of both. */
bool fy_asked(const char *wish, const char *id)
{
    for (const char *at = wish; *at; at += *at == ',') {
        size_t n = strcspn(at, ",");

        if (n > 0 && strncmp(at, id, n) == 0 && (id[n] == '\0' || id[n] == '.'))
            return true;
        at += n;
    }
    return false;
}

static void name_entry(struct entry *entry)
{
    size_t at = 0;
    const char *parts[2] = {entry->rule->id, entry->rule->title};

    for (int p = 0; p < 2; p++) {
        if (p && at + 1 < sizeof(entry->name))
            entry->name[at++] = '_';
        for (const char *c = parts[p]; *c && at + 1 < sizeof(entry->name); c++) {
            bool good = isalnum((unsigned char)*c);

            if (good || (at && entry->name[at - 1] != '_'))
                entry->name[at++] = good ? *c : '_';
        }
    }
    entry->name[at] = '\0';
}

static void add(struct runner *runner, const struct rule_group *group, const struct rule *rule)
{
    struct entry *entry = &runner->entries[runner->n++];

    *entry = (struct entry){.group = group, .rule = rule, .runner = runner};
    name_entry(entry);
}

static bool wanted(const struct settings *s, const struct rule_group *group, const struct rule *rule)
{
    return (!s->groups || listed(s->groups, group->name)) && (!s->rule || fy_asked(s->rule, rule->id)) &&
           (!s->levels || s->levels >> group->level & 1);
}

static bool known_groups(const char *wish)
{
    for (const char *at = wish; at && *at; at += *at == ',') {
        size_t n = strcspn(at, ",");
        const struct rule_group *group = fy_rule_groups;

        while (group->name && (strlen(group->name) != n || memcmp(group->name, at, n) != 0))
            group++;
        if (!group->name) {
            fprintf(stderr, "conformance: there is no group %.*s; --list shows the groups\n", (int)n, at);
            return false;
        }
        at += n;
    }
    return true;
}

int fy_fill(struct runner *runner, bool with_run)
{
    const struct settings *s = &runner->settings;
    size_t all = 1;

    for (const struct rule_group *group = fy_rule_groups; group->name; group++)
        for (const struct rule *rule = group->rules; rule->id; rule++)
            all++;
    runner->entries = calloc(all, sizeof(*runner->entries));
    if (!runner->entries)
        return -1;
    for (const struct rule_group *group = fy_rule_groups; group->name; group++)
        for (const struct rule *rule = group->rules; rule->id; rule++)
            if (wanted(s, group, rule))
                add(runner, group, rule);
    if (with_run)
        add(runner, &whole_run, &fy_rule_reversed);
    return 0;
}

int fy_select(struct runner *runner)
{
    const struct settings *s = &runner->settings;

    if (!known_groups(s->groups) || fy_fill(runner, true) != 0)
        return -1;
    if (runner->n > 1 || (s->rule && fy_asked(s->rule, fy_rule_reversed.id)))
        return 0;
    fprintf(stderr, "conformance: no rule %s; --list shows the rules\n", s->rule ? s->rule : "");
    return -1;
}

static bool any_asked(const char *wish)
{
    for (const struct rule_group *group = fy_rule_groups; group->name; group++)
        for (const struct rule *rule = group->rules; rule->id; rule++)
            if (fy_asked(wish, rule->id))
                return true;
    return fy_asked(wish, fy_rule_reversed.id);
}

bool fy_all_rules_exist(const char *wish, char *unknown, size_t size)
{
    for (const char *at = wish; *at; at += *at == ',') {
        size_t n = strcspn(at, ",");

        snprintf(unknown, size, "%.*s", (int)n, at);
        if (!any_asked(unknown))
            return false;
        at += n;
    }
    return *wish;
}

/* A rule that starts jobs itself keeps their reports to itself. */
static bool heard_of_jobs(const struct runner *runner)
{
    for (size_t i = 0; i < runner->n; i++) {
        const struct entry *entry = &runner->entries[i];

        if (entry->rule != &fy_rule_reversed && !(entry->rule->flags & RULE_ALONE) &&
            entry->outcome != OUTCOME_NOT_APPLICABLE && entry->outcome != OUTCOME_NOT_RUN)
            return true;
    }
    return false;
}

void fy_judge_run(struct entry *entry)
{
    const struct runner *runner = entry->runner;

    entry->outcome = runner->reversals ? OUTCOME_PASS : OUTCOME_FAIL;
    snprintf(entry->reason, sizeof(entry->reason), "%llu reversals in %llu instances",
             (unsigned long long)runner->reversals, (unsigned long long)runner->instances);
    if (!runner->chaos || !heard_of_jobs(runner)) {
        entry->outcome = OUTCOME_NOT_APPLICABLE;
        snprintf(entry->reason, sizeof(entry->reason), "%s",
                 runner->chaos ? "no rule of this run reports of chaos" : "chaos is not among FERRY_HOOKS");
    }
}
