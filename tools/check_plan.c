/* SPDX-License-Identifier: Apache-2.0
 * ferry-check: the steps of a run, each with its environment, and their sums. Main thread. */
#include "check.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BIT(level) (1u << (level))

const char *const check_level_names[LEVELS] = {"load", "data", "order", "threads", "adversary", "faults", "speed"};

static struct check_step *add(struct check *check, const char *what, unsigned levels, int scale)
{
    struct check_step *step = &check->steps[check->n++];

    step->what = what;
    step->levels = levels;
    step->scale = scale;
    return step;
}

static bool claims_direct(const struct check *check)
{
    const char *claim =
        json_string_value(json_object_get(json_object_get(check->claims, "capabilities"), "direct loads and stores"));

    return claim && strcmp(claim, "yes") == 0;
}

static void steps(struct check *check)
{
    const unsigned plain = BIT(LEVEL_DATA) | BIT(LEVEL_ORDER) | BIT(LEVEL_THREADS), wanted = check->settings.levels;

    if (wanted & BIT(LEVEL_LOAD))
        add(check, "by itself", BIT(LEVEL_LOAD), 100);
    if (wanted & plain)
        add(check, "as it is", wanted & plain, 5)->runner.settings.big = !check->settings.processes;
    if (wanted & plain && claims_direct(check))
        add(check, "every operation through the plugin", wanted & plain, 5)->calls = true;
    if (wanted & BIT(LEVEL_FAULTS))
        add(check, "faults", BIT(LEVEL_FAULTS), 10);
    for (int i = 0; wanted & BIT(LEVEL_ADVERSARY) && i < check->settings.seeds; i++) {
        struct check_step *step = add(check, "under chaos", plain, 2);

        step->chaos = true;
        step->seed = check->settings.seed + (unsigned long)i;
    }
    if (wanted & BIT(LEVEL_SPEED))
        add(check, "speed", BIT(LEVEL_SPEED), 100);
}

static int fill(struct check *check, struct check_step *step)
{
    struct settings *s = &step->runner.settings;
    bool with_run;

    s->transport = check->settings.transport;
    s->rule = check->settings.rule;
    s->expected = check->settings.expected;
    s->pes = check->settings.pes;
    s->processes = check->settings.processes;
    s->launch = check->settings.launch;
    s->shared = check->steps[0].runner.settings.shared;
    s->levels = step->levels;
    s->deadline = check->settings.deadline;
    s->log = check->log;
    step->runner.chaos = step->chaos;
    step->runner.stage = check->steps[0].runner.stage;
    step->runner.caps = check->steps[0].runner.caps;
    memcpy(step->runner.plugin, check->steps[0].runner.plugin, sizeof(step->runner.plugin));
    with_run = step->chaos && (!s->rule || fy_asked(s->rule, fy_rule_reversed.id));
    return fy_fill(&step->runner, with_run) != 0 || fy_expected_read(&step->runner) != 0 ? -1 : 0;
}

static int no_rule(const char *names, const char *where)
{
    fprintf(stderr, "ferry-check: there is no rule '%s'%s; --list shows the rules\n", names, where);
    return 64;
}

int check_names(const struct check_settings *settings)
{
    char unknown[40] = "";

    if (settings->rule && !fy_all_rules_exist(settings->rule, unknown, sizeof(unknown)))
        return no_rule(unknown, "");
    return 0;
}

int check_plan(struct check *check)
{
    size_t rules = 0;
    struct runner *first;

    check->steps = calloc(CHECK_STEPS, sizeof(*check->steps));
    if (!check->steps)
        return 1;
    steps(check);
    first = &check->steps[0].runner;
    first->settings.transport = check->settings.transport;
    first->stage = fy_launch_stage(&first->settings.shared);
    if (!first->stage || fy_stage_capabilities(first) != 0) {
        fprintf(stderr, "ferry-check: transport %s cannot be opened; ferry-info tells why\n",
                check->settings.transport);
        return 1;
    }
    for (size_t i = 0; i < check->n; i++) {
        if (fill(check, &check->steps[i]) != 0)
            return 64;
        rules += check->steps[i].runner.n;
    }
    return rules ? 0 : no_rule(check->settings.rule ? check->settings.rule : "", " in the levels asked for");
}

static const char *set_by_user(const struct check *check, const char *name)
{
    return json_string_value(json_object_get(check->environment, name));
}

/* The hooks of a step, before those that the user named. */
static void set_hooks(const struct check_step *step, const char *user)
{
    char hooks[400];

    snprintf(hooks, sizeof(hooks), "%s%s%s%s", step->chaos ? "chaos," : "", "count", user && *user ? "," : "",
             user ? user : "");
    setenv("FERRY_HOOKS",
           step->calls || step->chaos || (step->levels & BIT(LEVEL_FAULTS)) ? hooks
           : user                                                           ? user
                                                                            : "",
           1);
}

static void enter(const struct check *check, const struct check_step *step)
{
    char number[32], path[PATH_MAX];

    set_hooks(step, set_by_user(check, "FERRY_HOOKS"));
    setenv("TEST_TRANSPORT", check->settings.transport, 1);
    setenv("FERRY_HEAP_CHUNK", "4M", 0); /* each rule is a job of its own */
    if (step->calls)
        setenv("FERRY_DIRECT", "no", 1);
    if (check_find("null.so", path, sizeof(path)) == 0)
        setenv("CHECK_NULL", path, 1);
    if (check->settings.baseline)
        setenv("CHECK_BASELINE", check->settings.baseline, 1);
    snprintf(number, sizeof(number), "%d", check_scale(check, step));
    setenv("TEST_SCALE", number, 1);
    snprintf(number, sizeof(number), "%lu", step->seed);
    if (step->chaos)
        setenv("FERRY_CHAOS_SEED", number, 1);
    snprintf(number, sizeof(number), "%d", check->settings.channels);
    if (check->settings.channels)
        setenv("FERRY_CHANNELS", number, 1);
}

/* Takes back what the step set, for the next one: these are as the user had set them. */
static void leave(const struct check *check)
{
    static const char *const names[] = {"FERRY_HOOKS", "FERRY_DIRECT", "FERRY_CHAOS_SEED"};

    for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
        const char *user = set_by_user(check, names[i]);

        if (user)
            setenv(names[i], user, 1);
        else
            unsetenv(names[i]);
    }
}

/* Gigabytes are moved where that takes no longer than a minute, or where the rule was named. */
static bool affordable(struct check *check, struct check_step *step, struct entry *entry)
{
    const double bytes = 16.0 * (1u << 30), most = 60;

    if (!(entry->rule->flags & RULE_BIG) || !step->runner.settings.big || check->settings.rule)
        return true;
    if (check->rate == 0)
        check->rate = fy_stage_rate(&step->runner);
    if (check->rate * most >= bytes)
        return true;
    snprintf(entry->reason, sizeof(entry->reason),
             "not run: budget: 16 GiB at %.2f GB/s take %.0f s; %.0f s are allowed", check->rate / 1e9,
             check->rate > 0 ? bytes / check->rate : 0, most);
    return false;
}

static void play(struct check *check, struct check_step *step, struct entry *entry)
{
    double passed = pes_now() - check->began;

    if (check->settings.once && check->failed) {
        snprintf(entry->reason, sizeof(entry->reason), "not run: a rule had failed");
        return;
    }
    if (check->settings.seconds > 0 && passed > check->settings.seconds) {
        snprintf(entry->reason, sizeof(entry->reason), "not run: budget: %.0f s of %.0f s were over", passed,
                 check->settings.seconds);
        return;
    }
    if (entry->rule == &fy_rule_reversed)
        fy_judge_run(entry);
    else if (affordable(check, step, entry))
        fy_stage_play(&step->runner, entry);
    check->failed |= entry->outcome == OUTCOME_FAIL;
}

void check_run(struct check *check)
{
    check->began = pes_now();
    for (size_t i = 0; i < check->n; i++) {
        struct check_step *step = &check->steps[i];

        enter(check, step);
        for (size_t k = 0; k < step->runner.n; k++) {
            play(check, step, &step->runner.entries[k]);
            check_print_entry(check, step, &step->runner.entries[k]);
        }
        leave(check);
        check_print_step(check, step);
    }
    check->seconds = pes_now() - check->began;
}

int check_scale(const struct check *check, const struct check_step *step)
{
    const char *user = set_by_user(check, "TEST_SCALE");

    return user ? atoi(user) : step->scale;
}

enum rule_level check_level_of(const struct check_step *step, const struct entry *entry)
{
    return step->chaos ? LEVEL_ADVERSARY : entry->group->level;
}

struct check_sums check_sum(const struct check *check, int level)
{
    struct check_sums sums = {{0}, 0};

    for (size_t i = 0; i < check->n; i++)
        for (size_t k = 0; k < check->steps[i].runner.n; k++) {
            const struct entry *entry = &check->steps[i].runner.entries[k];

            if (level >= 0 && (int)check_level_of(&check->steps[i], entry) != level)
                continue;
            sums.outcomes[entry->outcome]++;
            sums.seconds += entry->seconds;
        }
    return sums;
}

void check_free(struct check *check)
{
    for (size_t i = 0; i < check->n; i++) {
        fy_expected_free(&check->steps[i].runner);
        free(check->steps[i].runner.entries);
    }
    free(check->steps);
    json_decref(check->claims);
    json_decref(check->environment);
}
