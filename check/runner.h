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
    bool processes, list;
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
    char name[128]; /* R10_2_fence_orders_… */
    struct runner *runner;
};

struct runner {
    struct settings settings;
    struct entry *entries;
    size_t n;
    struct stage *stage; /* shared with child processes */
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
/* select.c: the entries that the settings ask for; negative when a name is unknown. */
int fy_select(struct runner *runner);
/* expected.c: reads the file of known weaknesses, negative with a message if it is none; and what that makes of an outcome. */
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
