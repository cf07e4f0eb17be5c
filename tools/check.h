/* SPDX-License-Identifier: Apache-2.0
 * ferry-check's own: what was asked for, the steps of a run, and who makes which part of the answer. Main thread. */
#ifndef TOOLS_CHECK_H
#define TOOLS_CHECK_H

#include "runner.h"

#include <jansson.h>

#define CHECK_DEADLINE 60 /* seconds for a rule, by default */
#define CHECK_STEPS 1010 /* a step for each seed of chaos, and a few besides */

struct check_settings {
    const char *transport, *rule, *json, *junit, *expected, *baseline, *launch;
    int pes, channels, seeds;
    unsigned levels; /* bit n: level n */
    unsigned long seed;
    double deadline; /* seconds for each rule */
    double seconds;  /* no rule begins later; 0: no bound */
    bool processes, list, verbose, mutants;
    bool once; /* ends at the first failure */
};

/* A part of a run: rules under one environment. */
struct check_step {
    const char *what; /* "as it is" */
    unsigned levels;
    bool chaos, calls;  /* calls: the core does nothing by itself, every operation goes through the plugin */
    unsigned long seed; /* of chaos */
    int scale;          /* percent of each rule's full count, unless the user says another */
    struct runner runner;
};

struct check {
    struct check_settings settings;
    json_t *claims;  /* plugin, capabilities, made: check_claims.c */
    char sha256[65]; /* of the plugin's file; empty if it cannot be read */
    struct check_step *steps;
    size_t n;
    json_t *environment; /* variables that the user had set: check_again.c */
    int log;         /* what the rule at hand prints */
    bool failed;     /* some rule did */
    double rate;     /* bytes per second of large puts; 0: not measured */
    double began, seconds;
};

struct check_sums {
    int outcomes[OUTCOMES];
    double seconds;
};

extern const char *const check_level_names[LEVELS];

/* check_args.c */
void check_parse(struct check_settings *settings, int argc, char **argv);
/* check_claims.c: asks in a child process, since a library beneath a plugin may start threads; negative, with a
 * message, if the transport cannot be used. */
int check_ask(struct check *check);
/* The path of what comes with the tool, "null.so"; negative: it is not there. */
int check_find(const char *name, char *path, size_t size);
/* check_plan.c */
int check_plan(struct check *check);
/* 64, with a message, if --rule names what is no rule. */
int check_names(const struct check_settings *settings);
void check_run(struct check *check);
/* Percent of each rule's full count. */
int check_scale(const struct check *check, const struct check_step *step);
enum rule_level check_level_of(const struct check_step *step, const struct entry *entry);
struct check_sums check_sum(const struct check *check, int level); /* -1: all */
void check_free(struct check *check);
/* check_text.c */
void check_print_head(const struct check *check);
void check_print_step(const struct check *check, const struct check_step *step);
void check_print_entry(const struct check *check, const struct check_step *step, const struct entry *entry);
void check_print_end(const struct check *check);
/* check_again.c: the variables that bear on a run, as they are now; and a command that plays this one again, to be
 * freed; NULL: no memory. */
json_t *check_environment(void);
char *check_again(const struct check *check, const struct check_step *step, const struct entry *entry);
/* check_bundle.c, check_junit.c: negative, with a message, if the file cannot be written. */
int check_write_json(const struct check *check);
int check_write_junit(const struct check *check);
/* check_mutants.c: the kit checks itself; the exit status. */
int check_mutants(void);

#endif
