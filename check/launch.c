/* SPDX-License-Identifier: Apache-2.0
 * PEs that a launcher starts, on this host: the stage lies in memory that they open by a path in /proc. One thread of
 * the process that plays the rule; and, in each PE, its main thread. */
#include "runner.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

struct stage *fy_launch_stage(int *shared)
{
    void *memory = MAP_FAILED;

    *shared = memfd_create("check-stage", MFD_CLOEXEC);
    if (*shared >= 0 && ftruncate(*shared, sizeof(struct stage)) == 0)
        memory = mmap(NULL, sizeof(struct stage), PROT_READ | PROT_WRITE, MAP_SHARED, *shared, 0);
    return memory == MAP_FAILED ? NULL : memory;
}

int fy_launch_play(const struct runner *runner)
{
    struct stage *stage = runner->stage;
    char self[PATH_MAX], command[2 * PATH_MAX], path[64];
    ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);
    int status;

    self[n > 0 ? n : 0] = '\0';
    if (ferry_uniqueid_create(&stage->unique) != FERRY_OK)
        return 1;
    snprintf(path, sizeof(path), "/proc/%d/fd/%d", (int)getpid(), runner->settings.shared);
    setenv(FY_LAUNCHED, path, 1);
    snprintf(command, sizeof(command), "%s '%s'", runner->settings.launch, self);
    status = system(command); /* in a process of its own, with SIGCHLD as it is by default */
    if (status != 0 && !stage->seen[0])
        snprintf(stage->seen, sizeof(stage->seen), "%.150s ended with status %d", runner->settings.launch,
                 WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status));
    return atomic_load(&stage->bad) + (status != 0);
}

/* What launchers call the rank of a process. */
static int rank(void)
{
    static const char *const names[] = {"FERRY_RANK", "OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "SLURM_PROCID"};

    for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
        if (getenv(names[i]))
            return atoi(getenv(names[i]));
    return -1;
}

static const struct rule *rule_of(const struct stage *stage)
{
    for (const struct rule_group *group = fy_rule_groups; group->name; group++)
        for (const struct rule *rule = group->rules; rule->id; rule++)
            if (strcmp(rule->id, stage->id) == 0)
                return rule;
    return NULL;
}

static int play(struct stage *stage, const struct rule *rule, int self)
{
    struct run run = {
        .n = stage->pes, .body = rule->body, .arg = stage, .options = rule->options, .log = fy_stage_hear};
    int bad = pes_one(&run, self, getenv("FERRY_ID") ? NULL : &stage->unique);

    if (bad && run.init_status[self] != FERRY_OK)
        fprintf(stderr, "pe %d: init gave %s: %s\n", self, ferry_status_string(run.init_status[self]),
                run.init_error[self].message);
    if (bad && atomic_fetch_add(&stage->bad, bad) == 0)
        memcpy(stage->seen, run.seen, sizeof(stage->seen));
    return 0; /* the failures are counted */
}

int fy_launched(void)
{
    int fd = open(getenv(FY_LAUNCHED), O_RDWR | O_CLOEXEC), self = rank();
    void *memory = MAP_FAILED;
    const struct rule *rule;

    if (fd >= 0)
        memory = mmap(NULL, sizeof(struct stage), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (memory == MAP_FAILED) {
        fprintf(stderr, "ferry-check: cannot open what its parent shares; --launch needs PEs on this host\n");
        return 1;
    }
    rule = rule_of(memory);
    if (self < 0 || self >= ((struct stage *)memory)->pes || !rule) {
        fprintf(stderr,
                "ferry-check: rank %d of %d PEs; --launch has to start as many as --pes says, by a launcher that "
                "sets FERRY_RANK, OMPI_COMM_WORLD_RANK, PMIX_RANK, PMI_RANK or SLURM_PROCID\n",
                self, ((struct stage *)memory)->pes);
        return 1;
    }
    return play(memory, rule, self);
}
