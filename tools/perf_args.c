/* SPDX-License-Identifier: Apache-2.0
 * ferry-perf: the command line. Called once per PE, before the job exists; only the first PE complains. */
#include "perf.h"
#include "perf_gpu.h"

#include <argp.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>
#include <unistd.h>

#define MAX_SIZE    ((size_t)1 << 40)
#define DEFAULT_MAX ((size_t)4 << 20)

const char *argp_program_version = "ferry-perf " FERRY_VERSION_STRING;

enum { KEY_WARMUP = 256, KEY_MIN, KEY_MAX, KEY_REUSE, KEY_CSV, KEY_JSON, KEY_NO_PIN, KEY_LIST, KEY_MEMORY, KEY_WARPS };

static const struct argp_option option_rows[] = {
    {"size", 's', "BYTES[,BYTES...]", 0, "Payload, with K, M or G for powers of 1024 (default: the test's own)", 0},
    {"min", KEY_MIN, "BYTES", 0, "Payloads from here, each twice the one before (default, with --max: 1)", 0},
    {"max", KEY_MAX, "BYTES", 0, "Payloads up to here (default, with --min: 4M)", 0},
    {"iters", 'i', "N", 0, "Iterations that are measured (default: what takes about half a second)", 0},
    {"warmup", KEY_WARMUP, "N", 0, "Iterations before that (default: a tenth)", 0},
    {"channels", 'c', "N", 0,
     "Channels of rates and bandwidths, each with a thread (default: 1); of moe_ht (10) and moe_ll (36), driven by one "
     "thread; rings of gpu_... (8, of latencies always 1)",
     0},
    {"reuse", KEY_REUSE, "cached|cold", 0,
     "Buffers of put_bw and get_bw: always the same, or walking through 256M (default: cached)", 0},
    {"memory", KEY_MEMORY, "host|gpu", 0, "Memory that gpu_... move: the host's, or the GPU's (default: host)", 0},
    {"warps", KEY_WARPS, "N", 0, "Warps of gpu_put_rate and gpu_put_bw (default: 64)", 0},
    {"csv", KEY_CSV, NULL, 0, "Print comma-separated values", 0},
    {"json", KEY_JSON, NULL, 0, "Print a JSON array with an object per result, and nothing else", 0},
    {"no-pin", KEY_NO_PIN, NULL, 0,
     "Leave PEs where the kernel puts them (default: each on a core, if there are enough)", 0},
    {"list", KEY_LIST, NULL, 0, "List the tests", 0},
    {0}};

static const char doc[] =
    "Measures Ferry: start it with ferry-run -n 2.\v"
    "With more than two PEs, 0 and 1, 2 and 3, and so on are pairs that all do the same at a time, and samples of all "
    "are "
    "put together: figures are those of one pair. barrier_lat, moe_ht and moe_ll are done by all PEs together: moe_ht "
    "and "
    "moe_ll are all to all, with figures of one PE. Latencies of exchanges are half a round trip. ferry-perf(1) says "
    "what a sample is.";

/* What is known while the command line is read. */
struct perf_command {
    struct perf_options *options;
    size_t min, max; /* 0: not given */
};

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

static size_t parse_size(const char *name, const char *text, size_t length, struct argp_state *state)
{
    uint64_t value = 0;
    if (!read_number(text, length, true, &value) || value < 1 || value > MAX_SIZE)
        argp_error(state, "%s %.*s: bytes, like 8, 64K or 1M, at least 1, are expected", name, (int)length, text);
    return (size_t)value;
}

static void parse_sizes(struct perf_options *options, const char *text, struct argp_state *state)
{
    options->n_sizes = 0;
    for (;;) {
        size_t length = strcspn(text, ",");
        if (options->n_sizes == PERF_MAX_SIZES)
            argp_error(state, "--size: more than %d sizes", PERF_MAX_SIZES);
        options->sizes[options->n_sizes++ % PERF_MAX_SIZES] = parse_size("--size", text, length, state);
        if (text[length] == '\0')
            return;
        text += length + 1;
    }
}

/* --min and --max, 0: not given, as sizes. */
static void sweep(struct perf_command *command, struct argp_state *state)
{
    struct perf_options *options = command->options;
    if (!command->min && !command->max)
        return;
    size_t min = command->min ? command->min : 1, max = command->max ? command->max : DEFAULT_MAX;
    if (options->n_sizes > 0)
        argp_error(state, "--size does not go together with --min and --max");
    if (min > max)
        argp_error(state, "--min %zu is more than --max %zu", min, max);
    for (size_t size = min; size <= max && options->n_sizes < PERF_MAX_SIZES; size *= 2)
        options->sizes[options->n_sizes++] = size;
}

static bool parse_reuse(const char *text, struct argp_state *state)
{
    bool cold = strcmp(text, "cold") == 0;
    if (!cold && strcmp(text, "cached") != 0)
        argp_error(state, "--reuse %s: cached or cold is expected", text);
    return cold;
}

static int parse_memory(const char *text, struct argp_state *state)
{
    const bool gpu = strcmp(text, "gpu") == 0;
    if (!gpu && strcmp(text, "host") != 0)
        argp_error(state, "--memory %s: host or gpu is expected", text);
    return gpu ? FERRY_MEMORY_GPU : FERRY_MEMORY_HOST;
}

static void list_tests(void)
{
    for (const struct perf_test *test = perf_tests; test->name; test++)
        printf("%-17s %s\n", test->name, test->summary);
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
    struct perf_options *options = ((struct perf_command *)state->input)->options;
    if (options->test)
        argp_error(state, "one test at a time, or all: %s is too much", arg);
    check_test(arg, state);
    options->test = arg;
    return 0;
}

static error_t parse_one(int key, char *arg, struct argp_state *state)
{
    struct perf_command *command = state->input;
    struct perf_options *options = command->options;
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
    case KEY_MIN:
        command->min = parse_size("--min", arg, strlen(arg), state);
        return 0;
    case KEY_MAX:
        command->max = parse_size("--max", arg, strlen(arg), state);
        return 0;
    case KEY_REUSE:
        options->cold = parse_reuse(arg, state);
        return 0;
    case KEY_MEMORY:
        options->memory = parse_memory(arg, state);
        return 0;
    case KEY_WARPS:
        options->warps = (unsigned)parse_number("--warps", arg, 1, PERF_GPU_WARPS_MAX, state);
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
        if (fflush(stdout) != 0 || ferror(stdout))
            argp_failure(state, EX_IOERR, errno, "cannot write the output");
        exit(0);
    case ARGP_KEY_ARG:
        return parse_word(arg, state);
    case ARGP_KEY_NO_ARGS:
        argp_error(state, "which test? see --list");
        return EINVAL;
    case ARGP_KEY_END:
        sweep(command, state);
        return 0;
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
    struct perf_command command = {.options = options};
    *options = (struct perf_options){.warmup = UINT64_MAX, .warps = 64};
    argp_parse(&parser, argc, argv, 0, NULL, &command);
    if (saved >= 0) {
        dup2(saved, STDERR_FILENO);
        close(saved);
    }
}
