/* SPDX-License-Identifier: Apache-2.0
 * ferry-check: the command line. Main thread. */
#include "check.h"

#include <ferry/ferry.h>

#include <argp.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *argp_program_version = "ferry-check " FERRY_VERSION_STRING;

#define MOST_SEED 1000000000000

enum {
    KEY_CHANNELS = 256,
    KEY_RULE,
    KEY_SEEDS,
    KEY_SECONDS,
    KEY_JSON,
    KEY_JUNIT,
    KEY_LIST,
    KEY_MUTANTS,
    KEY_DEADLINE,
    KEY_ONCE,
    KEY_EXPECTED,
    KEY_PROCESSES,
    KEY_BASELINE,
    KEY_LAUNCH
};

static const struct argp_option rows[] = {
    {"pes", 'n', "N", 0, "PEs of each job, 1 to 64 (4)", 0},
    {"processes", KEY_PROCESSES, NULL, 0, "PEs are processes, for the rules that allow it; else they are threads", 0},
    {"launch", KEY_LAUNCH, "COMMAND", 0,
     "PEs are processes that COMMAND starts on this host, as 'ferry-run -n 4' or 'mpirun -n 4'", 0},
    {"channels", KEY_CHANNELS, "N", 0, "Most contexts that exist at once in a PE: FERRY_CHANNELS", 0},
    {"level", 'l', "LEVEL", 0, "Only this level, as L2, or these, as L0..L3 (L0..L5); L6 is speed", 0},
    {"rule", KEY_RULE, "ID[,ID]", 0, "Only these rules (R10.2), or all of one item (R10)", 0},
    {"seed", 's', "SEED", 0, "First seed of the adversary (1)", 0},
    {"seeds", KEY_SEEDS, "N", 0, "How many seeds the adversary plays, one after another (3)", 0},
    {"seconds", KEY_SECONDS, "T", 0, "No rule begins after this time; what is left is named", 0},
    {"deadline", KEY_DEADLINE, "T", 0, "How many seconds a rule may take (60)", 0},
    {"expected", KEY_EXPECTED, "FILE", 0,
     "Known weaknesses, an array of {\"rule\", \"cause\"}: what fails besides them, or passes in spite of them, fails",
     0},
    {"baseline", KEY_BASELINE, "FILE", 0,
     "With L6: costs of calls must not be much worse than in FILE, which is written where it is not there", 0},
    {"json", KEY_JSON, "FILE", 0, "Write the bundle of results to FILE", 0},
    {"junit", KEY_JUNIT, "FILE", 0, "Write the results to FILE in JUnit's form", 0},
    {"list", KEY_LIST, NULL, 0, "List the rules with their levels, and end", 0},
    {"mutants", KEY_MUTANTS, NULL, 0,
     "Check the kit itself: each of its broken plugins must fail the rule meant for it", 0},
    {"once", KEY_ONCE, NULL, 0, "End at the first failure", 0},
    {"verbose", 'v', NULL, 0, "Name every rule, and what it says", 0},
    {0}};

static long number(const char *text, const char *what, long least, long most, struct argp_state *state)
{
    char *end;
    long n = strtol(text, &end, 10); /* beyond all numbers it is the last one, which is more than `most` */

    if (end == text || *end || n < least || n > most)
        argp_error(state, "%s %s is not a number from %ld to %ld", what, text, least, most);
    return n;
}

static int level(const char **text, struct argp_state *state, const char *whole)
{
    const char *at = *text;

    if (at[0] != 'L' || at[1] < '0' || at[1] >= '0' + LEVELS)
        argp_error(state, "--level %s is neither a level, as L2, nor a range, as L0..L3; the last is L%d", whole,
                   LEVELS - 1);
    *text = at + 2;
    return at[1] - '0';
}

static unsigned levels(const char *text, struct argp_state *state)
{
    const char *at = text;
    int first = level(&at, state, text), last = first;

    if (strncmp(at, "..", 2) == 0) {
        at += 2;
        last = level(&at, state, text);
    }
    if (*at || last < first)
        argp_error(state, "--level %s is neither a level, as L2, nor a range, as L0..L3", text);
    return (2u << last) - (1u << first);
}

static double seconds(const char *text, const char *what, struct argp_state *state)
{
    char *end;
    double value = strtod(text, &end);

    if (end == text || *end || !(value > 0) || value > 1e6)
        argp_error(state, "%s %s is no time in seconds", what, text);
    return value;
}

/* A file is named by its path; one that lies here needs none. */
static const char *file_or_name(const char *text)
{
    size_t n = strlen(text);
    static char path[PATH_MAX]; /* the one command line of the process */

    if (strchr(text, ',') || (!strchr(text, '/') && (n < 4 || strcmp(text + n - 3, ".so") != 0)))
        return text;
    return realpath(text, path) ? path : text;
}

static error_t parse_output(int key, char *arg, struct check_settings *s)
{
    switch (key) {
    case KEY_EXPECTED:
        s->expected = arg;
        return 0;
    case KEY_BASELINE:
        s->baseline = arg;
        return 0;
    case KEY_JSON:
        s->json = arg;
        return 0;
    case KEY_JUNIT:
        s->junit = arg;
        return 0;
    case KEY_LIST:
        s->list = true;
        return 0;
    case KEY_MUTANTS:
        s->mutants = true;
        return 0;
    case KEY_ONCE:
        s->once = true;
        return 0;
    case 'v':
        s->verbose = true;
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
    struct check_settings *s = state->input;

    switch (key) {
    case 'n':
        s->pes = (int)number(arg, "--pes", 1, 64, state);
        return 0;
    case KEY_PROCESSES:
        s->processes = true;
        return 0;
    case KEY_LAUNCH:
        s->launch = arg;
        s->processes = true;
        return 0;
    case KEY_CHANNELS:
        s->channels = (int)number(arg, "--channels", 1, 100000, state);
        return 0;
    case 'l':
        s->levels = levels(arg, state);
        return 0;
    case KEY_RULE:
        s->rule = arg;
        return 0;
    case 's':
        s->seed = (unsigned long)number(arg, "--seed", 0, MOST_SEED, state);
        return 0;
    case KEY_SEEDS:
        s->seeds = (int)number(arg, "--seeds", 1, 1000, state);
        return 0;
    case KEY_SECONDS:
        s->seconds = seconds(arg, "--seconds", state);
        return 0;
    case KEY_DEADLINE:
        s->deadline = seconds(arg, "--deadline", state);
        return 0;
    case ARGP_KEY_ARG:
        if (state->arg_num > 0)
            argp_error(state, "one transport at a time: %s or %s", s->transport, arg);
        if (!*arg)
            argp_error(state, "the transport has an empty name; give a name, or the path of a plugin");
        s->transport = file_or_name(arg);
        return 0;
    case ARGP_KEY_END:
        if (s->mutants && (s->rule || s->json || s->junit || s->expected || s->baseline || state->arg_num))
            argp_error(state, "--mutants plays its own transports and rules, and writes no file: give it alone");
        return 0;
    default:
        return parse_output(key, arg, s);
    }
}

void check_parse(struct check_settings *settings, int argc, char **argv)
{
    static const struct argp argp = {.options = rows,
                                     .parser = parse,
                                     .args_doc = "[NAME | PATH.so]",
                                     .doc = "Checks a transport against the contract: what holds, what does not, and "
                                            "why. Without a name it checks loopback.\v"
                                            "The exit status is 0 if everything holds that the transport claims, 1 if "
                                            "something does not, 64 if the command "
                                            "line is wrong."};

    argp_parse(&argp, argc, argv, 0, NULL, settings);
}
