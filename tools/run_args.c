/* SPDX-License-Identifier: Apache-2.0
 * ferry-run: the command line. Called once, at the start; leaves with EX_USAGE if it makes no sense. */
#include "run.h"

#include <argp.h>
#include <errno.h>
#include <ferry/ferry.h>
#include <math.h>
#include <stdlib.h>

const char *argp_program_version = "ferry-run " FERRY_VERSION_STRING;

enum { KEY_PREFIX = 256, KEY_GRACE, KEY_TIMEOUT };

static const struct argp_option option_rows[] = {
    {"pes", 'n', "N", 0, "Start N processes, 1 to 4096 (default: 1)", 0},
    {"prefix", KEY_PREFIX, NULL, 0, "Put [rank] before each line of standard output (standard error always has it)", 0},
    {"grace", KEY_GRACE, "SECONDS", 0,
     "Time for the others to end by themselves after one has failed, before they are sent SIGTERM, and SIGKILL two "
     "seconds later (default: 5)",
     0},
    {"timeout", KEY_TIMEOUT, "SECONDS", 0, "End the job, with status 124, if it runs longer (default: no limit)", 0},
    {0}};

static const char doc[] =
    "Starts the PEs of a Ferry job on this machine.\v"
    "Each process gets FERRY_RANK, FERRY_SIZE and FERRY_ID. Process 0 has the standard input of ferry-run, the others "
    "have none. SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGTSTP and SIGCONT are passed on; "
    "SIGUSR1 prints a report of what the PEs wait for instead, if the program would be ended by it. The exit status "
    "is 0 if all ended with 0, else that of the first that failed, 128 + N if signal N killed it (which counts before "
    "a failure half a second earlier); 127 if the program "
    "was not found, 126 if it could not be run, 124 after --timeout, 141 if who reads standard output left, which ends "
    "the job, 74 if output could not be written for another reason, 71 if the operating system refused something, 64 "
    "for a bad command line. Whatever the processes leave running is killed at the end.";

static int parse_count(const char *text, struct argp_state *state)
{
    char *end;
    errno = 0;
    long value = strtol(text, &end, 10);
    if (errno || end == text || *end || value < 1 || value > RUN_MAX_PES)
        argp_error(state, "-n %s: the number of processes is a whole number from 1 to %d", text, RUN_MAX_PES);
    return (int)value;
}

static double parse_seconds(const char *name, const char *text, struct argp_state *state)
{
    char *end;
    double value = strtod(text, &end);
    if (end == text || *end || !isfinite(value) || value < 0 || value > 1e9)
        argp_error(state, "%s %s: a number of seconds, 0 or more, is expected", name, text);
    return value;
}

static error_t parse_one(int key, char *arg, struct argp_state *state)
{
    struct run_options *options = state->input;
    switch (key) {
    case 'n':
        options->n = parse_count(arg, state);
        return 0;
    case KEY_PREFIX:
        options->prefix = true;
        return 0;
    case KEY_GRACE:
        options->grace = parse_seconds("--grace", arg, state);
        return 0;
    case KEY_TIMEOUT:
        options->timeout = parse_seconds("--timeout", arg, state);
        return 0;
    case ARGP_KEY_ARG:
        /* The program: this and all that follows is its own. */
        options->argv = &state->argv[state->next - 1];
        state->next = state->argc;
        return 0;
    case ARGP_KEY_NO_ARGS:
        argp_error(state, "no program to start was given");
        return EINVAL;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

void run_parse(int argc, char **argv, struct run_options *options)
{
    static const struct argp parser = {
        .options = option_rows, .parser = parse_one, .args_doc = "PROGRAM [ARGUMENT...]", .doc = doc};
    *options = (struct run_options){.n = 1, .grace = 5};
    argp_parse(&parser, argc, argv, ARGP_IN_ORDER, NULL, options);
}
