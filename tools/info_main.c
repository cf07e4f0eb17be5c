/* SPDX-License-Identifier: Apache-2.0
 * ferry-info: shows which transports this machine has and why not, what they can do, and which options there are.
 * One thread. */
#include "info.h"
#include "standard.h"

#include <argp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

const char *argp_program_version = "ferry-info " FERRY_VERSION_STRING;

struct settings {
    const char *spec;  /* NULL: FERRY_TRANSPORT */
    const char *nodes; /* NULL: all PEs where this process may run */
    int n;             /* 0: no plan */
    bool all, json, explain, doctor;
};

#define PES_MAX 4096
enum { KEY_JSON = 256, KEY_NODES };

static const struct argp_option option_rows[] = {
    {"all", 'a', NULL, 0, "Look at every plugin in the folders, not only at those in question", 0},
    {"transport", 't', "SPEC", 0, "Look at these transports: what FERRY_TRANSPORT would say", 0},
    {"explain", 'e', NULL, 0,
     "Show what the transports do themselves, what is made of the rest, and what it costs; for each provider of libfabric "
     "and lanes of UCX, and, where none was chosen, for each guise of loopback",
     0},
    {"np", 'n', "N", 0, "With --explain: show which devices N PEs of this host would use, and why", 0},
    {"nodes", KEY_NODES, "LIST", 0, "With -n: the NUMA node of each PE, as 0,0,1,1; repeated if shorter", 0},
    {"doctor", 'd', NULL, 0, "Check this host and its devices: what works, what does not, and what to do about it", 0},
    {"json", KEY_JSON, NULL, 0, "Print one JSON object", 0},
    {0}};

static error_t parse_one(int key, char *arg, struct argp_state *state)
{
    struct settings *settings = state->input;
    switch (key) {
    case 'a':
        settings->all = true;
        return 0;
    case 't':
        settings->spec = arg;
        return 0;
    case 'e':
        settings->explain = true;
        return 0;
    case 'd':
        settings->doctor = true;
        return 0;
    case 'n': {
        char *end;
        long n = strtol(arg, &end, 10);
        if (end == arg || *end || n < 1 || n > PES_MAX)
            argp_error(state, "-n %s is not a number of PEs between 1 and %d", arg, PES_MAX);
        settings->n = (int)n;
        return 0;
    }
    case KEY_NODES:
        settings->nodes = arg;
        return 0;
    case ARGP_KEY_END:
        if (settings->explain && settings->doctor)
            argp_error(state, "--explain and --doctor do not go together");
        if ((settings->n || settings->nodes) && !settings->explain)
            argp_error(state, "-n and --nodes belong to --explain");
        if (settings->nodes && !settings->n)
            argp_error(state, "--nodes wants -n");
        return 0;
    case KEY_JSON:
        settings->json = true;
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

/* What is asked for when the command line does not say. */
static const char *configured(const struct info *info)
{
    size_t at = 0;
    const ferry_info_row_t *row = info_next(info, "option", "FERRY_TRANSPORT", &at);
    return row ? row->value : "auto";
}

/* With --all the rows hold more than what was asked for: that is judged by rows of its own. */
static bool judge(const struct settings *settings, const struct info *shown)
{
    const char *spec = settings->spec ? settings->spec : configured(shown);
    if (!settings->all || strcmp(spec, "auto") == 0)
        return info_satisfied(shown, spec);
    struct info asked = {0};
    int status = ferry_info(spec, 0, info_row, &asked);
    bool good = status == FERRY_OK && !asked.failed && info_satisfied(&asked, spec);
    info_free(&asked);
    return good;
}

int main(int argc, char **argv)
{
    static const struct argp parser = {
        .options = option_rows,
        .parser = parse_one,
        .doc =
            "Shows Ferry's transports, what they can do, and the options with their values.\vThe exit status is 1 if a "
            "transport that was named, here or by FERRY_TRANSPORT, cannot be used, or if there is none at all."};
    struct settings settings = {0};
    struct info info = {0};
    tool_standard_streams(false);
    argp_parse(&parser, argc, argv, 0, NULL, &settings);
    if (settings.doctor)
        return info_doctor(settings.spec, settings.json);
    if (settings.explain)
        return info_explain(settings.spec, settings.json, settings.n, settings.nodes);
    int status = ferry_info(settings.spec, settings.all, info_row, &info);
    if (status != FERRY_OK || info.failed) {
        fprintf(stderr, "ferry-info: %s\n", status != FERRY_OK ? ferry_status_string(status) : "out of memory");
        info_free(&info);
        return EX_CONFIG;
    }
    int printed = settings.json ? info_print_json(&info) : info_print_text(&info);
    if (printed != 0)
        fprintf(stderr, "ferry-info: cannot write the output\n");
    bool good = judge(&settings, &info);
    info_free(&info);
    return printed != 0 ? EX_IOERR : good ? 0 : 1;
}
