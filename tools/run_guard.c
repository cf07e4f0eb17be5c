/* SPDX-License-Identifier: Apache-2.0
 * ferry-run: the guard, a process that leads the PEs' process group and does nothing but wait for ferry-run to go,
 * however it goes, and then kill the group, itself included. As long as it lives the group's number cannot be reused.
 * Called by the main thread, at the start and at the end. */
#include "run.h"

#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <sysexits.h>
#include <unistd.h>

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

void run_guard_end(struct run_job *job)
{
    close(job->guard_fd);
    while (waitpid(job->group, NULL, 0) < 0 && errno == EINTR)
        ;
}
