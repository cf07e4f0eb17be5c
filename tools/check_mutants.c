/* SPDX-License-Identifier: Apache-2.0
 * ferry-check --mutants: the kit checks itself. Each broken plugin must fail the rule that is meant for it, and the
 * healthy one, which reorders just as they do, must keep all these rules. Main thread; two runs at a time. */
#include "check.h"
#include "mutants/mutants.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define AT_ONCE 2
#define TRIES   4 /* a promise that is broken now and then is noticed now and then */

/* One mutant, or the healthy one, against one rule. */
struct trial {
    const struct mutant *mutant;
    const char *rule;
    bool healthy;
    int tries, noticed; /* noticed: the rule failed; -1: not even played */
    double seconds, began;
    pid_t pid; /* 0: not running */
    int out;
};

static void be_the_trial(const struct trial *trial, const char *plugin)
{
    char seed[20];

    snprintf(seed, sizeof(seed), "%d", trial->tries);
    dup2(trial->out, STDOUT_FILENO);
    dup2(trial->out, STDERR_FILENO);
    setenv("FERRY_MUTANT_BREAK", trial->mutant->name, 1);
    setenv("FERRY_MUTANT_GAP", strncmp(trial->rule, "R60", 3) == 0 ? "no" : "yes", 1); /* speed is judged without */
    setenv("FERRY_TIMEOUT", trial->healthy ? "120" : "5", 1); /* what keeps the contract may be slow */
    setenv("TEST_SCALE", trial->tries > 1 ? "10" : "3", 0);
    unsetenv("FERRY_HOOKS");
    execl("/proc/self/exe", "ferry-check", plugin, "--rule", trial->rule, "--level", "L0..L6", "--seeds", "1", "--seed",
          seed, "--once", "--deadline", trial->healthy ? "300" : "10", (char *)NULL);
    _exit(127);
}

static void begin(struct trial *trial, const char *plugin)
{
    trial->out = memfd_create("ferry-check-mutant", MFD_CLOEXEC);
    trial->tries++;
    if (trial->tries == 1)
        trial->began = pes_now();
    fflush(NULL);
    trial->pid = fork();
    if (trial->pid == 0)
        be_the_trial(trial, plugin);
}

/* Does what it printed have a line that begins so? */
static bool printed(const struct trial *trial, const char *begins)
{
    FILE *out = fdopen(dup(trial->out), "r");
    char line[500];
    bool found = false;

    if (!out)
        return false;
    rewind(out);
    while (!found && fgets(line, sizeof(line), out))
        found = strncmp(line, begins, strlen(begins)) == 0;
    fclose(out);
    return found;
}

static void end(struct trial *trial, int status)
{
    char fails[40];

    snprintf(fails, sizeof(fails), "FAIL %s ", trial->rule);
    trial->noticed = printed(trial, fails) ? 1 : WIFEXITED(status) && WEXITSTATUS(status) == 0 ? 0 : -1;
    trial->seconds = pes_now() - trial->began;
    trial->pid = 0;
    close(trial->out);
}

static bool finished(const struct trial *trial)
{
    if (!trial->tries || trial->pid)
        return false;
    return trial->healthy || trial->noticed == 1 || trial->tries == TRIES;
}

static void print(const struct trial *trial)
{
    const char *what = trial->noticed == 1 ? "killed" : trial->noticed == 0 ? "SURVIVES" : "NOT PLAYED";

    if (trial->healthy)
        what = trial->noticed == 0 ? "keeps it" : trial->noticed == 1 ? "FALSE ALARM" : "NOT PLAYED";
    printf("%-24s %-6s %-11s %5.1f s  %s\n", trial->mutant->name, trial->rule, what, trial->seconds,
           trial->mutant->what);
    fflush(stdout);
}

static void play_all(struct trial *trials, size_t n, const char *plugin)
{
    for (size_t done = 0; done < n;) {
        int running = 0, status;
        pid_t pid;

        for (size_t i = 0; i < n; i++)
            running += trials[i].pid > 0;
        for (size_t i = 0; i < n && running < AT_ONCE; i++)
            if (!trials[i].pid && !finished(&trials[i])) {
                begin(&trials[i], plugin);
                running++;
            }
        pid = waitpid(-1, &status, 0);
        for (size_t i = 0; i < n; i++)
            if (pid > 0 && trials[i].pid == pid) {
                end(&trials[i], status);
                done += finished(&trials[i]);
                if (finished(&trials[i]))
                    print(&trials[i]);
            }
    }
}

/* Every mutant with its rule, then the healthy one with each of these rules once. */
static size_t make_trials(struct trial *trials)
{
    size_t n = 0;

    for (int i = HEALTHY + 1; i < MUTANTS; i++)
        trials[n++] = (struct trial){.mutant = &mutants[i], .rule = mutants[i].rule};
    for (int i = HEALTHY + 1; i < MUTANTS; i++) {
        bool before = false;

        for (int k = HEALTHY + 1; k < i; k++)
            before |= strcmp(mutants[k].rule, mutants[i].rule) == 0;
        if (!before)
            trials[n++] = (struct trial){.mutant = &mutants[HEALTHY], .rule = mutants[i].rule, .healthy = true};
    }
    return n;
}

int check_mutants(void)
{
    static struct trial trials[2 * MUTANTS]; /* one command of one thread */
    size_t n = make_trials(trials), wrong = 0, killed = 0;
    char plugin[PATH_MAX];
    double start = pes_now();

    if (check_find("mutants/mutant.so", plugin, sizeof(plugin)) != 0) {
        fprintf(stderr,
                "ferry-check: the broken plugins, mutant.so, are neither beside the tool nor in the build folder; "
                "install them with the tool\n");
        return 1;
    }
    play_all(trials, n, plugin);
    for (size_t i = 0; i < n; i++) {
        wrong += trials[i].noticed != !trials[i].healthy;
        killed += !trials[i].healthy && trials[i].noticed == 1;
    }
    printf("%s: %zu of %d mutants killed, each by the rule meant for it; %zu wrong, in %.0f s\n",
           wrong ? "FAIL" : "PASS", killed, MUTANTS - 1, wrong, pes_now() - start);
    return wrong ? 1 : 0;
}
