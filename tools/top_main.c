/* SPDX-License-Identifier: Apache-2.0
 * ferry-top: the command line, and the loop of readings. One thread. */
#include "top.h"

#include <argp.h>
#include <err.h>
#include <errno.h>
#include <ferry/ferry.h>
#include <math.h>
#include <stdlib.h>
#include <sysexits.h>
#include <time.h>
#include <unistd.h>

const char *argp_program_version = "ferry-top " FERRY_VERSION_STRING;

enum { KEY_ONCE = 256, KEY_JSON, KEY_DUMP };

static const struct argp_option option_rows[] = {
    {"once", KEY_ONCE, NULL, 0, "Print one reading, over one interval, and leave", 0},
    {"interval", 'i', "SECONDS", 0, "Time between two readings (default: 1)", 0},
    {"json", KEY_JSON, NULL, 0, "Print JSON, an object on one line for each reading, instead of a table", 0},
    {"dump", KEY_DUMP, "PID", 0,
     "Have all PEs of the job of that process tell what they wait for and what is outstanding, and who keeps the others waiting", 0},
    {0}};

static const char doc[] = "Shows this user's running Ferry jobs on this host: what each PE does on each channel.\v"
                          "With --dump, as text, or with --json as an object with a field 'culprit'. The exit status is 0, 64 "
                          "for a bad command line, 69 if the process of --dump is no PE, 1 if no PE of its job answers, and 74 if the output cannot be written.";

static error_t parse_one(int key, char *arg, struct argp_state *state)
{
    struct top_options *options = state->input;
    char *end = NULL;
    switch (key) {
    case KEY_ONCE: options->once = true; return 0;
    case KEY_JSON: options->json = true; return 0;
    case 'i':
        options->interval = strtod(arg, &end);
        if (end == arg || *end || !isfinite(options->interval) || options->interval < 0.01 || options->interval > 1e6)
            argp_error(state, "--interval %s: a number of seconds, 0.01 or more, is expected", arg);
        return 0;
    case KEY_DUMP: {
        errno = 0;
        long pid = strtol(arg, &end, 10);
        if (errno || end == arg || *end || pid < 1 || pid > INT32_MAX)
            argp_error(state, "--dump %s: the number of a process is expected", arg);
        options->dump = (pid_t)pid;
        return 0;
    }
    case ARGP_KEY_ARG: argp_error(state, "what is '%s'? Only options are expected", arg); return 0;
    default: return ARGP_ERR_UNKNOWN;
    }
}

void top_parse(int argc, char **argv, struct top_options *options)
{
    static const struct argp parser = {option_rows, parse_one, NULL, doc, NULL, NULL, NULL};
    *options = (struct top_options){.interval = 1};
    argp_parse(&parser, argc, argv, 0, NULL, options);
}

static void sleep_for(double seconds)
{
    struct timespec t = {(time_t)seconds, (long)((seconds - floor(seconds)) * 1e9)};
    while (nanosleep(&t, &t) != 0 && errno == EINTR)
        ;
}

static void flush(void)
{
    if (fflush(stdout) != 0 || ferror(stdout))
        err(EX_IOERR, "standard output");
}

int main(int argc, char **argv)
{
    struct top_options options;
    struct top_pages before, after;
    top_parse(argc, argv, &options);
    if (options.dump) {
        int status = top_dump(options.dump, options.json);
        flush();
        return status;
    }
    bool screen = !options.once && !options.json && isatty(STDOUT_FILENO);
    top_pages_read(&before);
    for (;;) {
        sleep_for(options.interval);
        top_pages_read(&after);
        if (screen)
            printf("\033[H\033[J");
        if (options.json)
            top_json(&before, &after);
        else
            top_table(&before, &after);
        flush();
        top_pages_release(&before);
        before = after;
        if (options.once)
            break;
    }
    top_pages_release(&before);
    return 0;
}
