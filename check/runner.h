/* SPDX-License-Identifier: Apache-2.0
 * The runner's own: settings, results, and who makes which. Main thread only. */
#ifndef CHECK_RUNNER_H
#define CHECK_RUNNER_H

#include "rules.h"

#include <jansson.h>

struct settings {
    const char *transport, *groups, *rule, *json, *row, *expected;
    int pes;
    double deadline; /* seconds for each rule */
    bool processes, list, warm;
    unsigned levels;    /* bit n: groups of level n; 0: all */
    bool big;           /* rules of gigabytes, too */
    const char *launch; /* a command that starts the PEs, as "ferry-run -n 4"; NULL: they are started here */
    int shared;         /* with it: the descriptor of the stage's memory */
    int log;            /* where a rule's own words go, emptied before each; -1: to stdout and stderr */
};

/* Expected: it failed, and the file of known weaknesses says so. */
enum outcome { OUTCOME_NOT_RUN = 0, OUTCOME_PASS, OUTCOME_FAIL, OUTCOME_NOT_APPLICABLE, OUTCOME_EXPECTED, OUTCOMES };

/* One rule of this run. */
struct entry {
    const struct rule_group *group;
    const struct rule *rule;
    enum outcome outcome;
    double seconds;
    char reason[600];
    const char *cause; /* why it is expected to fail; NULL: it is not */
    bool sometimes;    /* it may pass, too */
    char name[128];    /* R10_2_fence_orders_… */
    char seen[256];    /* where it first failed */
    struct runner *runner;
};

struct runner {
    struct settings settings;
    struct entry *entries;
    size_t n;
    struct stage *stage; /* shared with child processes */
    char plugin[256];
    struct rule_caps caps;
    json_t *expected; /* owns the causes */
    uint64_t reversals, instances;
    bool chaos;
};

/* The item that the whole run proves: chaos did reorder. */
extern const struct rule fy_rule_reversed;

/* stage.c: reads the capabilities in a child process; plays one rule in a child process, with a deadline. */
int fy_stage_capabilities(struct runner *runner);
void fy_stage_play(struct runner *runner, struct entry *entry);
/* launch.c: memory of a stage that other processes can open, by the descriptor; NULL: there is none. Starts the PEs of
 * the stage by the command; the number of failures. In a process that was started so (FY_LAUNCHED is set): plays its
 * part, and returns its exit status. */
#define FY_LAUNCHED "CHECK_STAGE"
struct stage *fy_launch_stage(int *shared);
int fy_launch_play(const struct runner *runner);
int fy_launched(void);
/* stage.c: the status of a child that is a group of its own, which is killed after the deadline; SIGCHLD is blocked. */
int fy_stage_end_of(pid_t pid, double deadline, bool *late);
/* stage.c: takes lines of a job's log; arg is the stage. */
void fy_stage_hear(void *arg, int level, const char *line);
/* Bytes per second of large puts, measured now; 0: they fail. */
double fy_stage_rate(struct runner *runner);
/* select.c: the entries that the settings ask for; negative, with a message, when a name is unknown. And without
 * looking at names: there may be none; with_run: with the item about the whole run. */
int fy_select(struct runner *runner);
int fy_fill(struct runner *runner, bool with_run);
/* select.c: does the comma list name this rule, or its item? Does each of its names have a rule? Else the first that has
 * none is in `unknown`. */
bool fy_asked(const char *wish, const char *id);
bool fy_all_rules_exist(const char *wish, char *unknown, size_t size);
/* expected.c: reads the file of known weaknesses, negative with a message if it is none; and what that makes of an
 * outcome. */
int fy_expected_read(struct runner *runner);
void fy_expected_judge(struct entry *entry);
void fy_expected_free(struct runner *runner);
/* select.c: the last item of a run, chaos did something. */
void fy_judge_run(struct entry *entry);
/* report.c */
void fy_report_list(const struct runner *runner);
int fy_report_json(const struct runner *runner);
void fy_report_row(const struct runner *runner);

#endif
