/* SPDX-License-Identifier: Apache-2.0
 * ferry-run: SIGUSR1 asks for a report of the job, by ferry-top, if what it has started are PEs that would end by that signal:
 * otherwise the signal is the program's. Called from the loop only. */
#include "run.h"

#include <dirent.h>
#include <fcntl.h>
#include <ferry/page.h>
#include <limits.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* One of the masks of /proc/PID/status has the signal. */
static bool has(const char *status, const char *mask, int number)
{
    const char *at = strstr(status, mask);
    return at && strtoull(at + strlen(mask), NULL, 16) >> (number - 1) & 1;
}

/* Caught, blocked or ignored: it would not end the process. */
static bool uses(pid_t pid, int number)
{
    char path[64], status[8192];
    snprintf(path, sizeof path, "/proc/%d/status", (int)pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, status, sizeof status - 1);
    if (fd >= 0)
        close(fd);
    status[n > 0 ? n : 0] = '\0';
    return has(status, "\nSigCgt:", number) || has(status, "\nSigBlk:", number) || has(status, "\nSigIgn:", number);
}

/* It is in a job of Ferry, so that somebody can answer; a shell, or a program that waits for the signal, gets it. */
static bool is_pe(pid_t pid)
{
    char path[320], link[64];
    struct dirent *entry;
    bool found = false;
    snprintf(path, sizeof path, "/proc/%d/fd", (int)pid);
    DIR *files = opendir(path);
    while (files && !found && (entry = readdir(files))) {
        snprintf(path, sizeof path, "/proc/%d/fd/%s", (int)pid, entry->d_name);
        ssize_t n = readlink(path, link, sizeof link - 1);
        link[n > 0 ? n : 0] = '\0';
        found = strcmp(link, FERRY_PAGE_LINK) == 0;
    }
    if (files)
        closedir(files);
    return found;
}

/* ferry-top lies beside ferry-run. */
static bool find_top(char path[PATH_MAX])
{
    ssize_t n = readlink("/proc/self/exe", path, PATH_MAX - 16);
    if (n <= 0)
        return false;
    path[n] = '\0';
    strcpy(strrchr(path, '/') + 1, "ferry-top");
    return access(path, X_OK) == 0;
}

/* Its signals as they were before ferry-run took them; what it prints goes where messages go. */
static bool start(const struct run_job *job, const char *path, pid_t pe)
{
    char number[16];
    pid_t child;
    snprintf(number, sizeof number, "%d", pe);
    char name[] = "ferry-top", option[] = "--dump", *argv[] = {name, option, number, NULL};
    posix_spawnattr_t how;
    posix_spawn_file_actions_t files;
    if (posix_spawnattr_init(&how) != 0)
        return false;
    if (posix_spawn_file_actions_init(&files) != 0) {
        posix_spawnattr_destroy(&how);
        return false;
    }
    posix_spawnattr_setsigmask(&how, &job->old_mask);
    posix_spawnattr_setflags(&how, POSIX_SPAWN_SETSIGMASK);
    posix_spawn_file_actions_adddup2(&files, STDERR_FILENO, STDOUT_FILENO);
    int rc = posix_spawn(&child, path, &files, &how, argv, environ);
    posix_spawn_file_actions_destroy(&files);
    posix_spawnattr_destroy(&how);
    return rc == 0;
}

bool run_report(struct run_job *job)
{
    char path[PATH_MAX];
    pid_t first = 0;
    for (int i = 0; i < job->options.n; i++) {
        if (!job->pes[i].alive)
            continue;
        if (!is_pe(job->pes[i].pid) || uses(job->pes[i].pid, SIGUSR1))
            return false;
        if (!first)
            first = job->pes[i].pid;
    }
    if (!first)
        return false;
    if (!find_top(path) || !start(job, path, first))
        run_say(job, "SIGUSR1 asks for a report, but ferry-top, which makes it, cannot be started from where ferry-run is");
    return true; /* the signal would have ended the processes */
}
