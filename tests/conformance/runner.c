/* SPDX-License-Identifier: Apache-2.0
 * conformance: the rules of the contract over any transport, each as a test named by its rule. Main thread. */
#include "runner.h"

#include <argp.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum keys { KEY_PROCESSES = 256, KEY_RULE, KEY_LIST, KEY_LONG, KEY_JSON, KEY_ROW, KEY_DEADLINE, KEY_EXPECTED, KEY_WARM };

static const struct argp_option options[] = {
    {"transport", 't', "NAME", 0, "transport by name, or by the path of its file (loopback)", 0},
    {"pes", 'n', "N", 0, "number of PEs (4)", 0},
    {"processes", KEY_PROCESSES, NULL, 0, "PEs are processes, for the rules that allow it", 0},
    {"group", 'g', "GROUP[,GROUP]", 0, "only these groups of rules", 0},
    {"rule", KEY_RULE, "ID[,ID]", 0, "only these rules (R10.2), or all of one item (R10)", 0},
    {"list", KEY_LIST, NULL, 0, "list the rules and end", 0},
    {"long", KEY_LONG, NULL, 0, "full counts; otherwise TEST_SCALE percent of them, 10 if it is not set", 0},
    {"seed", 's', "SEED", 0, "seed of the chaos hook", 0},
    {"json", KEY_JSON, "FILE", 0, "write the results to FILE", 0},
    {"row", KEY_ROW, "NAME", 0, "print one line of sums, for the matrix", 0},
    {"expected", KEY_EXPECTED, "FILE", 0, "known weaknesses; what fails besides them, or passes in spite of them, fails", 0},
    {"warm", KEY_WARM, NULL, 0, "open the transport once before the rules, so that not each of them loads its libraries", 0},
    {"deadline", KEY_DEADLINE, "SECONDS", 0, "how long a rule may take (60; 600 with --long)", 0},
    {0},
};

static int positive(const char *text, struct argp_state *state)
{
    char *end;
    long n = strtol(text, &end, 10);

    if (*end || n < 1 || n > 100000)
        argp_error(state, "%s is no number that fits here", text);
    return (int)n;
}

static void full_counts(struct settings *s)
{
    setenv("TEST_SCALE", "100", 1);
    s->deadline = 600;
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
    struct settings *s = state->input;

    switch (key) {
    case 't':
        s->transport = arg;
        return 0;
    case 'n':
        s->pes = positive(arg, state);
        return 0;
    case KEY_PROCESSES:
        s->processes = true;
        return 0;
    case 'g':
        s->groups = arg;
        return 0;
    case KEY_RULE:
        s->rule = arg;
        return 0;
    case KEY_LIST:
        s->list = true;
        return 0;
    case KEY_LONG:
        full_counts(s);
        return 0;
    case 's':
        return setenv("FERRY_CHAOS_SEED", arg, 1);
    case KEY_JSON:
        s->json = arg;
        return 0;
    case KEY_ROW:
        s->row = arg;
        return 0;
    case KEY_EXPECTED:
        s->expected = arg;
        return 0;
    case KEY_WARM:
        s->warm = true;
        return 0;
    case KEY_DEADLINE:
        s->deadline = positive(arg, state);
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static bool has_chaos(void)
{
    const char *hooks = getenv("FERRY_HOOKS"), *at = hooks ? strstr(hooks, "chaos") : NULL;

    return at && (at == hooks || at[-1] == ',') && (at[5] == '\0' || at[5] == ',');
}

static void one(void **state)
{
    struct entry *entry = *state;

    if (entry->rule == &fy_rule_reversed)
        fy_judge_run(entry);
    else
        fy_stage_play(entry->runner, entry);
    if (entry->outcome == OUTCOME_NOT_APPLICABLE) {
        printf("[    N/A   ] %s: %s\n", entry->name, entry->reason);
        skip();
    }
    if (entry->outcome == OUTCOME_FAIL)
        fail_msg("%s: %s", entry->rule->id, entry->reason);
    if (entry->outcome == OUTCOME_EXPECTED)
        printf("[ EXPECTED ] %s: %s; known: %s\n", entry->name, entry->reason, entry->cause);
    else if (entry->reason[0])
        printf("    %s: %s\n", entry->rule->id, entry->reason);
}

static int run(struct runner *runner)
{
    struct CMUnitTest *tests = calloc(runner->n, sizeof(*tests));
    int rc;

    if (!tests)
        return 1;
    for (size_t i = 0; i < runner->n; i++)
        tests[i] = (struct CMUnitTest){
            .name = runner->entries[i].name, .test_func = one, .initial_state = &runner->entries[i]};
    rc = _cmocka_run_group_tests("conformance", tests, runner->n, NULL, NULL);
    free(tests);
    if (runner->settings.row)
        fy_report_row(runner);
    if (runner->settings.json && fy_report_json(runner) != 0)
        rc = 1;
    return rc ? 1 : 0;
}

static void unread(void *arg, const ferry_info_row_t *row)
{
    (void)arg;
    (void)row;
}

static int prepare(struct runner *runner)
{
    sigset_t chld;

    sigemptyset(&chld);
    sigaddset(&chld, SIGCHLD);
    sigprocmask(SIG_BLOCK, &chld, NULL);
    setvbuf(stdout, NULL, _IOLBF, 0);
    setenv("TEST_SCALE", "10", 0);
    setenv("TEST_TRANSPORT", runner->settings.transport, 1);
    runner->chaos = has_chaos();
    runner->stage = pes_shared(sizeof(*runner->stage));
    if (!runner->stage || fy_stage_capabilities(runner) != 0) {
        fprintf(stderr, "conformance: transport %s cannot be opened; ferry-info tells why\n",
                runner->settings.transport);
        return -1;
    }
    /* each rule is a child, which gets what its parent has loaded; a child has just shown that the transport opens */
    return runner->settings.warm ? ferry_info(runner->settings.transport, 0, unread, NULL) : 0;
}

int main(int argc, char **argv)
{
    static const struct argp argp = {
        .options = options, .parser = parse, .doc = "Plays the rules of docs/semantics.md over a transport."};
    struct runner runner = {.settings = {.transport = pes_transport(), .pes = 4, .deadline = 60, .log = -1}};
    int rc;

    if (argp_parse(&argp, argc, argv, 0, NULL, &runner.settings) != 0)
        return 64;
    if (runner.settings.pes > 64) {
        fprintf(stderr, "conformance: at most 64 PEs, not %d\n", runner.settings.pes);
        return 64;
    }
    if (fy_select(&runner) != 0 || fy_expected_read(&runner) != 0)
        return 64;
    if (runner.settings.list)
        fy_report_list(&runner);
    rc = runner.settings.list ? 0 : prepare(&runner) != 0 ? 1 : run(&runner);
    fy_expected_free(&runner);
    free(runner.entries);
    return rc;
}
