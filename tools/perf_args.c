/* SPDX-License-Identifier: Apache-2.0
 * ferry-perf: the command line. Called once per PE, before the job exists; only the first PE complains. */
#include "perf.h"

#include <argp.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

const char *argp_program_version = "ferry-perf " FERRY_VERSION_STRING;

enum { KEY_WARMUP = 256, KEY_CSV, KEY_JSON, KEY_NO_PIN, KEY_LIST };

static const struct argp_option option_rows[] = {
    {"size", 's', "BYTES[,BYTES...]", 0, "Payload, with K, M or G for powers of 1024 (default: the test's own)", 0},
    {"iters", 'i', "N", 0, "Iterations that are measured (default: the test's own)", 0},
    {"warmup", KEY_WARMUP, "N", 0, "Iterations before that (default: a tenth)", 0},
    {"channels", 'c', "N", 0, "Contexts that rates and bandwidths are spread over, in turn (default: 1)", 0},
    {"csv", KEY_CSV, NULL, 0, "Print comma-separated values", 0},
    {"json", KEY_JSON, NULL, 0, "Print a JSON array with an object per result", 0},
    {"no-pin", KEY_NO_PIN, NULL, 0,
     "Leave PEs where the kernel puts them (default: each on a core, if there are enough)", 0},
    {"list", KEY_LIST, NULL, 0, "List the tests", 0},
    {0}};

static const char doc[] = "Measures Ferry: start it with ferry-run -n 2.\v"
                          "PE 0 and 1 do the work (barrier_lat: all). Iterations are timed in up to 1000 groups; min, "
                          "median, p99 and max are "
                          "those of the groups' averages. Latencies of exchanges are half a round trip.";

/* Digits only, and at most one of the suffixes K, M, G if `units`. */
static bool read_number(const char *text, size_t length, bool units, uint64_t *value)
{
    uint64_t factor = 1, sum = 0;
    const char *suffix = units && length > 1 ? strchr("KMG", text[length - 1]) : NULL;
    if (suffix && *suffix) {
        factor = *suffix == 'K' ? 1 << 10 : *suffix == 'M' ? 1 << 20 : 1 << 30;
        length--;
    }
    if (length == 0 || length > 15)
        return false;
    for (size_t i = 0; i < length; i++) {
        if (text[i] < '0' || text[i] > '9')
            return false;
        sum = sum * 10 + (uint64_t)(text[i] - '0');
    }
    return !__builtin_mul_overflow(sum, factor, value);
}

static uint64_t parse_number(const char *name, const char *text, uint64_t min, uint64_t max, struct argp_state *state)
{
    uint64_t value = 0;
    if (!read_number(text, strlen(text), false, &value) || value < min || value > max)
        argp_error(state, "%s %s: a whole number from %llu to %llu is expected", name, text, (unsigned long long)min,
                   (unsigned long long)max);
    return value;
}

static void parse_sizes(struct perf_options *options, const char *text, struct argp_state *state)
{
    options->n_sizes = 0;
    for (;;) {
        size_t length = strcspn(text, ",");
        uint64_t value = 0;
        if (options->n_sizes == PERF_MAX_SIZES)
            argp_error(state, "--size: more than %d sizes", PERF_MAX_SIZES);
        if (!read_number(text, length, true, &value) || value < 1 || value > (UINT64_C(1) << 40))
            argp_error(state, "--size %.*s: bytes, like 8, 64K or 1M, at least 1, are expected", (int)length, text);
        options->sizes[options->n_sizes++ % PERF_MAX_SIZES] = (size_t)value;
        if (text[length] == '\0')
            return;
        text += length + 1;
    }
}

static void list_tests(void)
{
    for (const struct perf_test *test = perf_tests; test->name; test++)
        printf("%-16s %s\n", test->name, test->summary);
}

static void check_test(const char *name, struct argp_state *state)
{
    if (strcmp(name, "all") == 0)
        return;
    for (const struct perf_test *test = perf_tests; test->name; test++)
        if (strcmp(name, test->name) == 0)
            return;
    argp_error(state, "no test named %s: see --list", name);
}

static error_t parse_word(const char *arg, struct argp_state *state)
{
    struct perf_options *options = state->input;
    if (options->test)
        argp_error(state, "one test at a time, or all: %s is too much", arg);
    check_test(arg, state);
    options->test = arg;
    return 0;
}

static error_t parse_one(int key, char *arg, struct argp_state *state)
{
    struct perf_options *options = state->input;
    switch (key) {
    case 's':
        parse_sizes(options, arg, state);
        return 0;
    case 'i':
        options->iters = parse_number("--iters", arg, 1, UINT64_C(1000000000000), state);
        return 0;
    case KEY_WARMUP:
        options->warmup = parse_number("--warmup", arg, 0, UINT64_C(1000000000000), state);
        return 0;
    case 'c':
        options->channels = (int)parse_number("--channels", arg, 1, PERF_MAX_CHANNELS, state);
        return 0;
    case KEY_CSV:
        options->format = PERF_CSV;
        return 0;
    case KEY_JSON:
        options->format = PERF_JSON;
        return 0;
    case KEY_NO_PIN:
        options->no_pin = true;
        return 0;
    case KEY_LIST:
        list_tests();
        exit(0);
    case ARGP_KEY_ARG:
        return parse_word(arg, state);
    case ARGP_KEY_NO_ARGS:
        argp_error(state, "which test? see --list");
        return EINVAL;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

/* All PEs find the same mistake; one message is enough. Gives the descriptor of the real stderr, -1: it is in place. */
static int silence_others(void)
{
    const char *rank = getenv("FERRY_RANK");
    if (!rank || strcmp(rank, "0") == 0)
        return -1;
    int saved = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 3), null_fd = open("/dev/null", O_WRONLY | O_CLOEXEC);
    if (saved < 0 || null_fd < 0)
        return -1;
    dup2(null_fd, STDERR_FILENO);
    close(null_fd);
    return saved;
}

void perf_parse(int argc, char **argv, struct perf_options *options)
{
    static const struct argp parser = {.options = option_rows, .parser = parse_one, .args_doc = "TEST|all", .doc = doc};
    int saved = silence_others();
    *options = (struct perf_options){.warmup = UINT64_MAX, .channels = 1};
    argp_parse(&parser, argc, argv, 0, NULL, options);
    if (saved >= 0) {
        dup2(saved, STDERR_FILENO);
        close(saved);
    }
}
