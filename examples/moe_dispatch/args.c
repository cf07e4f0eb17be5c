/* SPDX-License-Identifier: Apache-2.0
 * The command line. All PEs get the same arguments, so all of them find the same mistake and end alike.
 * Main thread, before ferry_init. */
#include "moe.h"
#include <argp.h>
#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { KEY_THREADS = 256, KEY_PES, KEY_INJECT };

static const struct argp_option rows[] = {
    {"text", 't', "FILE", 0, "text whose words are the tokens", 0},
    {"hidden", 'H', "N", 0, "components of a token's hidden vector (default 1024)", 0},
    {"topk", 'k', "N", 0, "experts per token (default 8)", 0},
    {"experts", 'e', "N", 0, "experts in all, spread over the PEs (default 64)", 0},
    {"channels", 'c', "N", 0, "channels per PE, each a ferry context of its own (default 2)", 0},
    {"ring", 'r', "N", 0, "tokens in the ring of each channel and peer (default 128)", 0},
    {"chunk", 'C', "N", 0, "tokens sent by one put, at most half a ring, and a divisor of it (default 16)", 0},
    {"tokens", 'n', "N", 0, "tokens in all, shared out over the PEs (default: the words, at most 65536)", 0},
    {"max-dest", 'd', "N", 0, "a PE sends to at most N PEs (default: no limit)", 0},
    {"threads", KEY_THREADS, NULL, 0, "one thread per channel; else the main thread drives them all", 0},
    {"pes", KEY_PES, "N", 0,
     "this process is N PEs, a thread each: a job of its own, or under ferry-run, which then starts the processes, N "
     "PEs of a job of N times as many (default: the process is one PE)",
     0},
    {"inject", KEY_INJECT, "FAULT", 0,
     "make a fault that must be found: corrupt (a byte of a slot changes after it was stamped), "
     "late (a signal goes out before its data; needs 2 PEs), weak (all signals are weak: an error that only a "
     "transport "
     "which reorders brings to light)",
     0},
    {NULL, 0, NULL, 0, NULL, 0}};

static void __attribute__((noreturn, format(printf, 1, 2))) usage(const char *format, ...)
{
    char line[512];
    va_list list;
    va_start(list, format);
    vsnprintf(line, sizeof line, format, list);
    va_end(list);
    fprintf(stderr, MOE_NAME ": %s\n", line);
    exit(EXIT_USAGE);
}

static uint64_t number(const char *option, const char *value, uint64_t most)
{
    char *end = NULL;
    errno = 0;
    unsigned long long parsed = strtoull(value, &end, 10);
    if (!isdigit((unsigned char)*value) || *end != '\0')
        usage("%s '%s': not a number; write digits only", option, value);
    if (errno == ERANGE || parsed < 1 || parsed > most)
        usage("%s '%s': out of range; accepted are 1 to %" PRIu64, option, value, most);
    return parsed;
}

static enum inject fault(const char *value)
{
    if (strcmp(value, "corrupt") == 0)
        return INJECT_CORRUPT;
    if (strcmp(value, "late") == 0)
        return INJECT_LATE;
    if (strcmp(value, "weak") == 0)
        return INJECT_WEAK;
    usage("--inject '%s': unknown; accepted are corrupt, late and weak", value);
}

static error_t parse(int key, char *value, struct argp_state *state)
{
    struct moe_args *args = state->input;
    switch (key) {
    case 't':
        args->path = value;
        return 0;
    case 'H':
        args->hidden = (uint32_t)number("--hidden", value, MAX_HIDDEN);
        return 0;
    case 'k':
        args->topk = (uint32_t)number("--topk", value, MAX_TOPK);
        return 0;
    case 'e':
        args->experts = (uint32_t)number("--experts", value, MAX_EXPERTS);
        return 0;
    case 'c':
        args->channels = (uint32_t)number("--channels", value, MAX_CHANNELS);
        return 0;
    case 'r':
        args->ring = (uint32_t)number("--ring", value, 1u << 20);
        return 0;
    case 'C':
        args->chunk = (uint32_t)number("--chunk", value, 1u << 20);
        return 0;
    case 'n':
        args->tokens = number("--tokens", value, 1u << 24);
        return 0;
    case 'd':
        args->max_dest = (uint32_t)number("--max-dest", value, 1u << 24);
        return 0;
    case KEY_THREADS:
        args->threads = 1;
        return 0;
    case KEY_PES:
        args->pes = (uint32_t)number("--pes", value, MAX_PES);
        return 0;
    case KEY_INJECT:
        args->inject = fault(value);
        return 0;
    case ARGP_KEY_ARG:
        usage("argument '%s' is not an option; see --help", value);
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static void check(const struct moe_args *args)
{
    if (!args->path)
        usage("--text FILE is missing; any text of your own will do, README.md for example");
    if (args->topk > args->experts)
        usage("--topk '%" PRIu32 "': more than --experts %" PRIu32, args->topk, args->experts);
    if (args->chunk > args->ring / 2)
        usage("--chunk '%" PRIu32 "': more than half of --ring %" PRIu32, args->chunk, args->ring);
    if (args->ring % args->chunk != 0)
        usage("--ring '%" PRIu32 "': not a multiple of --chunk %" PRIu32 ", so a chunk would wrap", args->ring,
              args->chunk);
}

void args_parse(int argc, char **argv, struct moe_args *args)
{
    static const char doc[] =
        "Sends the words of a text to experts on other PEs and back, as a mixture-of-experts layer "
        "does, and checks every byte. Run it under ferry-run.";
    const struct argp parser = {rows, parse, NULL, doc, NULL, NULL, NULL};
    *args = (struct moe_args){.hidden = 1024, .topk = 8, .experts = 64, .channels = 2, .ring = 128, .chunk = 16};
    argp_parse(&parser, argc, argv, 0, NULL, args);
    check(args);
}
