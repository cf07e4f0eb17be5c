/* SPDX-License-Identifier: Apache-2.0
 * ferry-check: the bundle of results, one JSON object that can be published. Main thread. */
#include "check.h"

#include <ferry/ferry.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

static const char *const words[OUTCOMES] = {"not-run", "pass", "fail", "not-applicable", "expected-failure"};

static json_t *host(void)
{
    struct utsname name;

    uname(&name);
    return json_pack("{ss ss ss sI}", "system", name.sysname, "kernel", name.release, "machine", name.machine, "cores",
                     (json_int_t)sysconf(_SC_NPROCESSORS_ONLN));
}

static json_t *result(const struct check *check, const struct check_step *step, const struct entry *entry)
{
    char reference[100], level[8], *again;
    json_t *object;

    snprintf(reference, sizeof(reference), "docs/semantics.md#%s", entry->group->anchor);
    snprintf(level, sizeof(level), "L%d", (int)check_level_of(step, entry));
    object = json_pack("{ss ss ss ss ss ss sf ss}", "rule", entry->rule->id, "level", level, "title",
                       entry->rule->title, "status", words[entry->outcome], "step", step->what, "reference", reference,
                       "seconds", entry->seconds, "reason", entry->reason);
    json_object_set_new(object, "percent", json_integer(check_scale(check, step)));
    if (step->chaos)
        json_object_set_new(object, "seed", json_integer((json_int_t)step->seed));
    if (entry->seen[0])
        json_object_set_new(object, "seen", json_string(entry->seen));
    if (entry->cause)
        json_object_set_new(object, "cause", json_string(entry->cause));
    if (entry->outcome != OUTCOME_FAIL)
        return object;
    again = check_again(check, step, entry);
    json_object_set_new(object, "again", json_string(again));
    free(again);
    return object;
}

static json_t *sums(const struct check *check, int level)
{
    struct check_sums sums = check_sum(check, level);
    json_t *object = json_pack("{sf}", "seconds", sums.seconds);

    for (int i = 0; i < OUTCOMES; i++)
        json_object_set_new(object, words[i], json_integer(sums.outcomes[i]));
    return object;
}

static json_t *bundle(const struct check *check)
{
    json_t *levels = json_object(), *results = json_array(), *seeds = json_array(), *root;
    char when[40];
    time_t now = time(NULL);

    strftime(when, sizeof(when), "%Y-%m-%dT%H:%M:%SZ", gmtime(&now));
    for (int level = 0; level < LEVELS; level++) {
        char name[8];

        snprintf(name, sizeof(name), "L%d", level);
        json_object_set_new(levels, name, sums(check, level));
    }
    for (size_t i = 0; i < check->n; i++) {
        if (check->steps[i].chaos)
            json_array_append_new(seeds, json_integer((json_int_t)check->steps[i].seed));
        for (size_t k = 0; k < check->steps[i].runner.n; k++)
            json_array_append_new(results, result(check, &check->steps[i], &check->steps[i].runner.entries[k]));
    }
    root =
        json_pack("{s{ss ss} ss sO sO sO sO ss so so si ss so so so so}", "kit", "name", "ferry-check", "version",
                  FERRY_VERSION_STRING, "when", when, "plugin", json_object_get(check->claims, "plugin"),
                  "capabilities", json_object_get(check->claims, "capabilities"), "not_claimed",
                  json_object_get(check->claims, "not claimed"), "devices", json_object_get(check->claims, "devices"),
                  "sha256", check->sha256, "host", host(), "environment", json_incref(check->environment), "pes",
                  check->settings.pes, "pes_are", check->settings.processes ? "processes" : "threads", "seeds", seeds,
                  "levels", levels, "all", sums(check, -1), "results", results);
    if (root && check->settings.launch)
        json_object_set_new(root, "launch", json_string(check->settings.launch));
    return root;
}

int check_write_json(const struct check *check)
{
    json_t *root = bundle(check);
    int rc = root ? json_dump_file(root, check->settings.json, JSON_INDENT(1)) : -1;

    json_decref(root);
    if (rc != 0)
        fprintf(stderr, "ferry-check: cannot write %s; choose a place that can be written\n", check->settings.json);
    return rc;
}
