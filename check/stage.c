/* SPDX-License-Identifier: Apache-2.0
 * Plays one rule in a child process: a crash or a hang is a failure that names the rule, and the rest goes on. Main
 * thread; `fy_stage_hear` is called by any thread of a job. */
#include "runner.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* Takes the reports of the hooks; passes the rest on. */
void fy_stage_hear(void *arg, int level, const char *line)
{
    struct stage *stage = arg;
    const char *chaos = strstr(line, "chaos: seed "), *count = strstr(line, "count: ");
    unsigned long long reversals;
    (void)level;

    if (chaos && sscanf(chaos, "chaos: seed %*d: %llu reversals", &reversals) == 1) {
        atomic_fetch_add(&stage->reversals, reversals);
        atomic_fetch_add(&stage->instances, 1);
        return;
    }
    if (count && strstr(count, "in balance"))
        return;
    if (count && strstr(count, "out of balance"))
        atomic_fetch_add(&stage->unbalanced, 1);
    fprintf(stderr, "%s\n", line);
}

static void enter(struct pe *pe)
{
    struct stage *stage = rule_stage(pe);

    if (stage->processes)
        prctl(PR_SET_PDEATHSIG, SIGKILL);
    stage->rule->body(pe);
}

static int play_alone(struct stage *stage, int pes)
{
    struct run run = {.n = pes};
    struct pe pe = {.n = pes, .arg = stage, .run = &run};

    stage->rule->body(&pe);
    memcpy(stage->seen, run.seen, sizeof(stage->seen));
    return atomic_load(&run.failures);
}

/* What the init or the end of a PE said, where nothing before it failed. */
static void look_at_ends(struct run *run)
{
    for (int i = 0; !run->seen[0] && i < run->n; i++) {
        if (run->init_status[i] != FERRY_OK)
            snprintf(run->seen, sizeof(run->seen), "pe %d: init gave %s: %.180s", i,
                     ferry_status_string(run->init_status[i]), run->init_error[i].message);
        else if (run->final_status[i] != FERRY_OK)
            snprintf(run->seen, sizeof(run->seen), "pe %d: finalize gave %s", i,
                     ferry_status_string(run->final_status[i]));
    }
}

static int play_together(const struct runner *runner, int pes)
{
    struct stage *stage = runner->stage;
    struct run run = {.n = pes, .body = enter, .arg = stage, .options = stage->rule->options, .log = fy_stage_hear};
    int bad;

    if (runner->settings.launch)
        return fy_launch_play(runner);
    bad = stage->processes ? pes_fork(&run) : pes_run(&run);
    if (bad)
        look_at_ends(&run);
    memcpy(stage->seen, run.seen, sizeof(stage->seen));
    return bad;
}

/* The rules' own limits and the deadline say what takes too long. The library's are made for machines that have time for it:
 * on one that has not, a PE that is alive would be taken for dead. */
static void be_patient(void)
{
    setenv("FERRY_TIMEOUT", "300", 0);
    setenv("FERRY_PEER_TIMEOUT", "300", 0);
}

/* Ends the child with `exit`, so that a leak checker sees it. */
static void child(struct runner *runner, int pes)
{
    struct stage *stage = runner->stage;
    sigset_t chld;

    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    sigemptyset(&chld);
    sigaddset(&chld, SIGCHLD);
    sigprocmask(SIG_UNBLOCK, &chld, NULL);
    be_patient();
    if (runner->settings.log >= 0) {
        dup2(runner->settings.log, STDOUT_FILENO);
        dup2(runner->settings.log, STDERR_FILENO);
    }
    atomic_store(&stage->bad, stage->rule->flags & RULE_ALONE ? play_alone(stage, pes) : play_together(runner, pes));
    fflush(NULL);
    exit(0);
}

/* Waits for the child; after the deadline it is killed with all that it started. */
int fy_stage_end_of(pid_t pid, double deadline, bool *late)
{
    struct pes_limit limit = pes_limit(deadline);
    sigset_t chld;
    int status = 0;

    sigemptyset(&chld);
    sigaddset(&chld, SIGCHLD);
    *late = false;
    while (waitpid(pid, &status, WNOHANG) == 0) {
        struct timespec rest = {.tv_sec = limit.left > 1 ? 1 : 0, .tv_nsec = limit.left > 1 ? 0 : 100000000};

        if (!pes_in_time(&limit)) {
            *late = true;
            kill(-pid, SIGKILL);
            kill(pid, SIGKILL);
            waitpid(pid, &status, 0);
            break;
        }
        sigtimedwait(&chld, NULL, &rest);
    }
    return status;
}

static enum outcome failed(struct entry *entry, const char *what, double number)
{
    snprintf(entry->reason, sizeof(entry->reason), what, number);
    return OUTCOME_FAIL;
}

/* Gigabytes that have to be made first are not made faster because another process wants the memory's bandwidth, too.
 */
static double deadline_of(const struct runner *runner, const struct entry *entry)
{
    return runner->settings.deadline * (entry->rule->flags & RULE_BIG ? 4 : 1);
}

static enum outcome judge(const struct runner *runner, struct entry *entry, int status, bool late)
{
    struct stage *stage = runner->stage;

    if (late)
        return failed(entry, "still running after %.0f s", entry->seconds);
    if (WIFSIGNALED(status))
        return failed(entry, "killed by signal %.0f", WTERMSIG(status));
    if (WEXITSTATUS(status))
        return failed(entry, "the process ended with status %.0f", WEXITSTATUS(status));
    if (atomic_load(&stage->bad))
        return failed(entry, "%.0f expectations failed, see the lines above", atomic_load(&stage->bad));
    if (atomic_load(&stage->unbalanced))
        return failed(entry, "the count hook found %.0f things out of balance",
                      (double)atomic_load(&stage->unbalanced));
    if (!atomic_load(&stage->not_applicable))
        return OUTCOME_PASS;
    snprintf(entry->reason, sizeof(entry->reason), "%s", stage->reason);
    return OUTCOME_NOT_APPLICABLE;
}

static bool only_max_msg(const struct runner *runner)
{
    const char *guise = getenv("FERRY_LOOPBACK_GUISE"), *hooks = getenv("FERRY_HOOKS");

    return !(hooks && *hooks) && strcmp(runner->settings.transport, "loopback") == 0 && guise &&
           strncmp(guise, "max-msg=", 8) == 0 && !strchr(guise, ',');
}

/* Reasons that need no look at the body; NULL: the rule applies. */
static const char *excluded(const struct runner *runner, const struct rule *rule)
{
    if (rule->min_pes > runner->settings.pes)
        return "needs more PEs than this run has";
    if (runner->settings.processes && rule->flags & (RULE_ONE_PROCESS | RULE_ALONE))
        return "its PEs share memory beside the heap; it runs with threads";
    if (rule->flags & RULE_BIG && !runner->settings.big && !runner->stage->plain && !only_max_msg(runner))
        return "moves gigabytes: runs once, over a transport as it is, where that was asked for or costs little";
    if (rule->flags & RULE_ASKED && !runner->settings.groups && !runner->settings.rule && !runner->settings.levels)
        return "starts dozens of jobs: runs where its group or level is asked for";
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
    if (rule->flags & RULE_BIG)
        return "takes minutes with instrumented copies; it runs without sanitizers";
#endif
#ifdef __SANITIZE_THREAD__
    if (rule->flags & RULE_RACES)
        return "looks at bytes while they are written; it runs without the thread sanitizer";
#endif
    return NULL;
}

static void set_stage(struct runner *runner, const struct rule *rule)
{
    const char *guise = getenv("FERRY_LOOPBACK_GUISE"), *hooks = getenv("FERRY_HOOKS");

    memset(runner->stage, 0, sizeof(*runner->stage));
    runner->stage->rule = rule;
    runner->stage->pes = runner->settings.pes;
    snprintf(runner->stage->id, sizeof(runner->stage->id), "%s", rule->id);
    runner->stage->caps = runner->caps;
    runner->stage->chaos = runner->chaos;
    runner->stage->processes = runner->settings.processes;
    memcpy(runner->stage->plugin, runner->plugin, sizeof(runner->plugin));
    runner->stage->plain =
        strcmp(runner->settings.transport, "loopback") == 0 && !(guise && *guise) && !(hooks && *hooks);
}

/* A launcher starts as many as it was told. */
static int pes_of(const struct runner *runner, const struct rule *rule)
{
    int pes = runner->settings.pes;

    return rule->flags & RULE_PAIR && pes > 2 && !runner->settings.launch ? 2 : pes;
}

static enum outcome play(struct runner *runner, struct entry *entry)
{
    double start = pes_now();
    bool late;
    pid_t pid;
    int status;

    fflush(NULL);
    if (runner->settings.log >= 0 &&
        (ftruncate(runner->settings.log, 0) != 0 || lseek(runner->settings.log, 0, SEEK_SET) != 0))
        return failed(entry, "the rule's log cannot be emptied, error %.0f", errno);
    pid = fork();
    if (pid < 0)
        return failed(entry, "fork failed with error %.0f", errno);
    if (pid == 0)
        child(runner, pes_of(runner, entry->rule));
    status = fy_stage_end_of(pid, deadline_of(runner, entry), &late);
    entry->seconds = pes_now() - start;
    return judge(runner, entry, status, late);
}

void fy_stage_play(struct runner *runner, struct entry *entry)
{
    const char *why;
    double start = pes_now();

    set_stage(runner, entry->rule);
    why = excluded(runner, entry->rule);
    if (why) {
        snprintf(entry->reason, sizeof(entry->reason), "%s", why);
        entry->outcome = OUTCOME_NOT_APPLICABLE;
        return;
    }
    entry->outcome = play(runner, entry);
    memcpy(entry->seen, runner->stage->seen, sizeof(entry->seen));
    fy_expected_judge(entry);
    entry->seconds = pes_now() - start;
    runner->reversals += atomic_load(&runner->stage->reversals);
    runner->instances += atomic_load(&runner->stage->instances);
}

/* ------------------------------------------------------------------ how fast it is */

#define RATE_BYTES (8u << 20)

/* Seconds for 16 GiB, as rules of gigabytes spend them: half of it is memory to be made, all of it is put, and an
 * eighth is got. */
static double seconds_of(double made, double put, double got)
{
    const double times = 16.0 * (1u << 30) / RATE_BYTES;

    return times / 2 * made + times * put + times / 8 * got;
}

/* PE 0 puts 8 times 8 MiB and gets them once, after a first time that only touches the pages. words[0]: bytes per
 * second. */
static void measure(struct pe *pe)
{
    double begin = pes_now(), made, put, got;
    uint8_t *data = rule_calloc(pe, RATE_BYTES), *source = calloc(1, RATE_BYTES);

    made = (pes_now() - begin) / pe->n;
    if (data && EXPECT(pe, source != NULL) && pe->rank == 0) {
        EXPECT_OK(pe, ferry_put(pe->ctx, data, source, RATE_BYTES, 1));
        EXPECT_OK(pe, ferry_quiet(pe->ctx));
        begin = pes_now();
        for (int i = 0; i < 8; i++)
            EXPECT_OK(pe, ferry_put_nbi(pe->ctx, data, source, RATE_BYTES, 1));
        EXPECT_OK(pe, ferry_quiet(pe->ctx));
        put = (pes_now() - begin) / 8;
        begin = pes_now();
        EXPECT_OK(pe, ferry_get(pe->ctx, source, data, RATE_BYTES, 1));
        got = pes_now() - begin;
        atomic_store(&rule_stage(pe)->words[0], (uint64_t)(16.0 * (1u << 30) / seconds_of(made, put, got)));
    }
    EXPECT_OK(pe, ferry_barrier(pe->job));
    free(source);
}

double fy_stage_rate(struct runner *runner)
{
    static const struct rule rate = {"rate", "how fast large puts are", 2, RULE_PAIR, measure, NULL};
    struct entry entry = {.rule = &rate, .runner = runner};

    set_stage(runner, &rate);
    return play(runner, &entry) == OUTCOME_PASS ? (double)atomic_load(&runner->stage->words[0]) : 0;
}

/* ------------------------------------------------------------------ capabilities */

static void take_number(const ferry_info_row_t *row, const char *name, size_t *out)
{
    if (strcmp(row->state, name) != 0)
        return;
    *out = strcmp(row->value, "any") == 0 ? SIZE_MAX : strtoull(row->value, NULL, 10);
}

static void take_flag(const ferry_info_row_t *row, const char *name, int *out)
{
    if (strcmp(row->state, name) == 0)
        *out = strcmp(row->value, "yes") == 0;
}

static void take(void *arg, const ferry_info_row_t *row)
{
    struct stage *stage = arg;
    struct rule_caps *caps = &stage->caps;

    if (strcmp(row->what, "plugin") == 0 && strcmp(row->state, "chosen") == 0)
        snprintf(stage->plugin, sizeof(stage->plugin), "%s", stage->plugin[0] ? "" : row->value);
    if (strcmp(row->what, "capability") != 0)
        return;
    take_number(row, "largest message", &caps->message_max);
    take_number(row, "largest copied put", &caps->copy_max);
    take_number(row, "largest inline put", &caps->inline_max);
    take_number(row, "queue depth", &caps->queue_depth);
    take_number(row, "channels", &caps->channels);
    take_flag(row, "strong signals", &caps->strong_signals);
    take_flag(row, "target makes progress", &caps->target_progress);
    take_flag(row, "unregistered local memory", &caps->unregistered);
    take_flag(row, "maps peers' memory", &caps->map);
    take_flag(row, "get", &caps->get);
    if (strcmp(row->state, "atomicity domain") == 0)
        caps->nic_domain = strcmp(row->value, "nic") == 0;
}

int fy_stage_capabilities(struct runner *runner)
{
    bool late;
    pid_t pid = fork();
    int status;

    if (pid < 0)
        return -1;
    if (pid == 0)
        exit(ferry_info(runner->settings.transport, 0, take, runner->stage) == FERRY_OK ? 0 : 1);
    status = fy_stage_end_of(pid, 60, &late);
    runner->caps = runner->stage->caps;
    memcpy(runner->plugin, runner->stage->plugin, sizeof(runner->plugin));
    return late || status ? -1 : 0;
}
