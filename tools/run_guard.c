/* SPDX-License-Identifier: Apache-2.0
 * ferry-run: the guard, a process that leads the PEs' process group and does nothing but wait for ferry-run to go,
 * however it goes, and then kill the group, itself included. As long as it lives the group's number cannot be reused.
 * What left the group comes to ferry-run when its parent ends, and is killed from here. Called by the main thread, at
 * the start and at the end. */
#include "run.h"

#include <dirent.h>
#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <sysexits.h>
#include <unistd.h>

#define KILL_FOR 2.0 /* seconds: what is stuck in the kernel, or is not ours to kill, does not keep us */

static void guard_main(int fd)
{
    sigset_t all;
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, NULL);
    setpgid(0, 0);
    prctl(PR_SET_NAME, "ferry-run-guard");
    /* Keeps nothing of ferry-run's open: who reads its output must see the end of it. */
    dup2(fd, STDIN_FILENO);
    if (close_range(1, ~0u, 0) != 0)
        for (int i = (int)sysconf(_SC_OPEN_MAX) - 1; i > 0; i--)
            close(i);

    char byte;
    while (read(STDIN_FILENO, &byte, 1) < 0 && errno == EINTR)
        ;
    kill(0, SIGKILL);
    _exit(0);
}

void run_guard_start(struct run_job *job)
{
    int ends[2];
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    if (pipe2(ends, O_CLOEXEC) != 0)
        err(EX_OSERR, "cannot make a pipe");
    pid_t pid = fork();
    if (pid < 0)
        err(EX_OSERR, "cannot start a process");
    if (pid == 0) {
        close(ends[1]);
        guard_main(ends[0]);
    }
    close(ends[0]);
    /* Both sides do it, so that it is done whoever comes first. */
    setpgid(pid, pid);
    job->group = pid;
    job->guard_fd = ends[1];
}

/* 0: there is no such process. */
static pid_t parent_of(pid_t pid)
{
    char path[64], line[512];
    int parent = 0;
    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return 0;
    ssize_t n = read(fd, line, sizeof line - 1);
    close(fd);
    line[n > 0 ? n : 0] = '\0';
    /* The name before it may hold anything. */
    const char *after = strrchr(line, ')');
    return after && sscanf(after, ") %*c %d", &parent) == 1 ? parent : 0;
}

static void kill_children(void)
{
    DIR *proc = opendir("/proc");
    struct dirent *entry;
    while (proc && (entry = readdir(proc))) {
        pid_t pid = (pid_t)atoi(entry->d_name);
        /* A child that was not waited for keeps its number: it is no other's. */
        if (pid > 0 && parent_of(pid) == getpid())
            kill(pid, SIGKILL);
    }
    if (proc)
        closedir(proc);
}

/* The children of one that is killed come to us in turn: until there are none. */
static void kill_adopted(void)
{
    double end = run_now() + KILL_FOR;
    for (;;) {
        pid_t pid = waitpid(-1, NULL, WNOHANG);
        if (pid > 0)
            continue;
        if (pid < 0 || run_now() > end)
            return;
        kill_children();
        poll(NULL, 0, 1);
    }
}

void run_guard_end(struct run_job *job)
{
    close(job->guard_fd);
    while (waitpid(job->group, NULL, 0) < 0 && errno == EINTR)
        ;
    kill_adopted();
}
