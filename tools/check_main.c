/* SPDX-License-Identifier: Apache-2.0
 * ferry-check: checks a transport against the contract, by the rules of check/. Main thread. */
#include "check.h"
#include "standard.h"

#include <errno.h>
#include <libgen.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define DEFAULT_LEVELS 63u /* L0 to L5 */
#define MOST_SCALE     10000

static bool wanted(const struct check_settings *settings, const struct rule *rule, enum rule_level level)
{
    return settings->levels >> level & 1 && (!settings->rule || fy_asked(settings->rule, rule->id));
}

/* The rules, as rows of a table; generated documents are made of it. */
static void list(const struct check_settings *settings)
{
    for (const struct rule_group *group = fy_rule_groups; group->name; group++)
        for (const struct rule *rule = group->rules; rule->id; rule++)
            if (wanted(settings, rule, group->level))
                printf("| %s | L%d | %s | %s |\n", rule->id, (int)group->level, group->name, rule->title);
    if (wanted(settings, &fy_rule_reversed, LEVEL_ADVERSARY))
        printf("| %s | L%d | run | %s |\n", fy_rule_reversed.id, LEVEL_ADVERSARY, fy_rule_reversed.title);
}

/* A child that ends is waited for by its signal, with a time limit. */
static void prepare(struct check *check)
{
    sigset_t chld;

    sigemptyset(&chld);
    sigaddset(&chld, SIGCHLD);
    sigprocmask(SIG_BLOCK, &chld, NULL);
    check->log = memfd_create("ferry-check-log", MFD_CLOEXEC);
}

/* Is there a place for a file of results? Asked first: a run takes minutes, and its results are lost without one. */
static bool place(const char *path)
{
    char *copy = strdup(path ? path : "");
    struct stat there;
    bool good = !path;

    if (path && *path && stat(path, &there) == 0)
        good = !S_ISDIR(there.st_mode) && access(path, W_OK) == 0;
    else if (path && *path && copy)
        good = errno == ENOENT && access(dirname(copy), W_OK | X_OK) == 0;

    free(copy);
    if (!good)
        fprintf(stderr, "ferry-check: cannot write '%s'; choose a place that can be written\n", path);
    return good;
}

/* A wrong one would play nothing, or for years. */
static bool scale_good(void)
{
    const char *text = getenv("TEST_SCALE");
    char *end = NULL;
    long percent = text ? strtol(text, &end, 10) : 1;

    if (!text || (end != text && !*end && percent >= 1 && percent <= MOST_SCALE))
        return true;
    fprintf(stderr, "ferry-check: TEST_SCALE is '%s', which is not a number of percent from 1 to %d\n", text, MOST_SCALE);
    return false;
}

static int run(struct check *check)
{
    int rc;

    if (!scale_good())
        return 64;
    if (!place(check->settings.json) || !place(check->settings.junit))
        return 1;
    prepare(check);
    check->environment = check_environment();
    if (check_ask(check) != 0)
        return 1;
    rc = check_plan(check);
    if (rc != 0)
        return rc;
    check_print_head(check);
    check_run(check);
    check_print_end(check);
    if (check->settings.json && check_write_json(check) != 0)
        rc = 1;
    if (check->settings.junit && check_write_junit(check) != 0)
        rc = 1;
    return check_sum(check, -1).outcomes[OUTCOME_FAIL] ? 1 : rc;
}

int main(int argc, char **argv)
{
    struct check check = {.settings = {.transport = "loopback",
                                       .pes = 4,
                                       .seed = 1,
                                       .seeds = 3,
                                       .deadline = CHECK_DEADLINE,
                                       .levels = DEFAULT_LEVELS},
                          .log = -1};
    int rc = 0;

    if (getenv(FY_LAUNCHED))
        return fy_launched();
    tool_standard_streams(false);
    check_parse(&check.settings, argc, argv);
    rc = check_names(&check.settings);
    if (rc == 0 && check.settings.list)
        list(&check.settings);
    else if (rc == 0 && check.settings.mutants)
        rc = check_mutants();
    else if (rc == 0)
        rc = run(&check);
    check_free(&check);
    if (fflush(stdout) == 0 && !ferror(stdout))
        return rc;
    fprintf(stderr, "ferry-check: cannot write the output\n");
    return rc ? rc : 1;
}
