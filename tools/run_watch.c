/* SPDX-License-Identifier: Apache-2.0
 * ferry-run: signals that come, processes that end or stop, and how a job is ended. Called from the loop only. */
#include "run.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define KILL_AFTER  2.0 /* seconds from SIGTERM to SIGKILL */
#define SAME_MOMENT 0.5 /* seconds between a death and its report, on a busy machine */

double run_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

void run_say(struct run_job *job, const char *format, ...)
{
    char line[1024];
    int n = snprintf(line, sizeof line, "ferry-run: ");
    va_list args;
    va_start(args, format);
    vsnprintf(line + n, sizeof line - (size_t)n - 1, format, args);
    va_end(args);
    strcat(line, "\n");
    run_sink_append(job->self.sink, &job->self, line, strlen(line));
}

void run_signal_all(struct run_job *job, int number)
{
    if (job->alive > 0 || !job->guard_gone)
        kill(-job->group, number);
    for (int i = 0; i < job->options.n; i++) {
        if (!job->pes[i].alive)
            continue;
        /* A program like timeout or setsid makes a group of its own. */
        pid_t pid = job->pes[i].pid, group = getpgid(pid);
        if (group == job->group)
            continue;
        kill(group == pid ? -pid : pid, number);
    }
}

static const char *signal_text(int number)
{
    const char *text = sigdescr_np(number);
    return text ? text : "unknown";
}

static void start_grace(struct run_job *job)
{
    if (job->stage != RUN_GOING)
        return;
    job->stage = RUN_GRACE;
    job->failed_at = run_now();
    job->deadline = job->failed_at + job->options.grace;
}

/* The status of the first failure is kept. But one that was killed counts as the first if it is seen a moment later:
 * the kernel closes a dying process's connections before it reports the death, so that another may end because of
 * it and yet be seen first. */
static bool counts_as_first(const struct run_job *job, bool killed)
{
    if (job->exit_status == 0)
        return true;
    return killed && !job->exit_by_signal && job->stage == RUN_GRACE && run_now() - job->failed_at < SAME_MOMENT;
}

static void say_failure(struct run_job *job, int rank, const siginfo_t *info)
{
    bool killed = info->si_code != CLD_EXITED;
    int pid = (int)info->si_pid, status = info->si_status;
    const char *by_us = job->stage >= RUN_TERMINATING ? ", ended by ferry-run" : "";

    if (job->reader_left && killed && (status == SIGTERM || status == SIGKILL))
        return; /* that this happens to all of them was said */
    if (killed)
        run_say(job, "pe %d (pid %d) was killed by signal %d (%s)%s", rank, pid, status, signal_text(status), by_us);
    else
        run_say(job, "pe %d (pid %d) exited with status %d%s", rank, pid, status, by_us);
}

static void note_failure(struct run_job *job, int rank, const siginfo_t *info)
{
    bool killed = info->si_code != CLD_EXITED;

    say_failure(job, rank, info);
    if (counts_as_first(job, killed)) {
        job->exit_status = killed ? 128 + info->si_status : info->si_status;
        job->exit_by_signal = killed;
    }
    start_grace(job);
}

static int find_rank(const struct run_job *job, pid_t pid)
{
    for (int i = 0; i < job->options.n; i++)
        if (job->pes[i].alive && job->pes[i].pid == pid)
            return i;
    return -1;
}

/* A PE that reads the terminal from the background is stopped by the kernel, with its whole group. If the terminal is
 * ours, the group gets it; ^Z then stops the group and not us, so that we follow. A PE that was stopped in another
 * way is somebody's experiment, and left alone. */
static void note_stop(struct run_job *job, int rank, int number)
{
    bool wants_terminal = number == SIGTTIN || number == SIGTTOU;
    if (wants_terminal && tcgetpgrp(STDIN_FILENO) == getpgrp())
        job->terminal_given = tcsetpgrp(STDIN_FILENO, job->group) == 0;
    if (wants_terminal && job->terminal_given) {
        run_signal_all(job, SIGCONT);
        return;
    }
    if (wants_terminal && rank == 0)
        run_say(job, "pe 0 is stopped: it wants to use the terminal, and ferry-run is in the background");
    if (number == SIGTSTP && job->terminal_given) {
        tcsetpgrp(STDIN_FILENO, getpgrp());
        job->terminal_given = false;
        raise(SIGSTOP);
    }
}

void run_take_stops(struct run_job *job)
{
    for (;;) {
        siginfo_t info = {0};
        if (waitid(P_ALL, 0, &info, WSTOPPED | WNOHANG) != 0 || info.si_pid == 0)
            return;
        int rank = find_rank(job, info.si_pid);
        if (rank >= 0)
            note_stop(job, rank, info.si_status);
    }
}

void run_reap(struct run_job *job)
{
    for (;;) {
        siginfo_t info = {0};
        if (waitid(P_ALL, 0, &info, WEXITED | WNOHANG) != 0 || info.si_pid == 0)
            return;
        if (info.si_pid == job->group)
            job->guard_gone = true; /* from now on the number is the group's only while a PE is in it */
        int rank = find_rank(job, info.si_pid);
        if (rank < 0)
            continue;
        job->pes[rank].alive = false;
        job->alive--;
        ferry_meeting_lost(job->meeting, rank); /* others may wait for it to join */
        if (info.si_code == CLD_EXITED && info.si_status == 0)
            continue;
        note_failure(job, rank, &info);
    }
}

static void take_signal(struct run_job *job, int number)
{
    if (number == SIGCHLD)
        return; /* the loop reaps after all signals */
    if (job->alive == 0) {
        /* Only output is left, and who reads it does not. */
        job->give_up = job->give_up || number == SIGINT || number == SIGTERM || number == SIGHUP || number == SIGQUIT;
        return;
    }
    if (number == SIGUSR1 && run_report(job))
        return;
    run_signal_all(job, number);
    if (number == SIGTSTP)
        raise(SIGSTOP); /* the shell wants to see us stopped; its SIGCONT is passed on */
}

void run_take_signals(struct run_job *job)
{
    struct signalfd_siginfo info[16];
    ssize_t n;
    do {
        n = read(job->signal_fd, info, sizeof info);
        for (ssize_t i = 0; i < n / (ssize_t)sizeof *info; i++)
            take_signal(job, (int)info[i].ssi_signo);
    } while (n == (ssize_t)sizeof info);
}

static void terminate(struct run_job *job)
{
    job->stage = RUN_TERMINATING;
    job->deadline = run_now() + KILL_AFTER;
    run_signal_all(job, SIGTERM);
    run_signal_all(job, SIGCONT); /* one that is stopped would not notice */
}

void run_reader_left(struct run_job *job)
{
    job->reader_left = true;
    if (job->exit_status == 0)
        job->exit_status = RUN_EXIT_PIPE;
    if (job->alive == 0 || job->stage >= RUN_TERMINATING) {
        run_say(job, "nobody reads standard output any more: the rest is dropped");
        return;
    }
    run_say(job, "nobody reads standard output any more: ending %d of %d PEs", job->alive, job->options.n);
    terminate(job);
}

void run_check_deadlines(struct run_job *job)
{
    double now = run_now();
    if (job->alive == 0)
        return;
    if (job->overtime > 0 && now >= job->overtime && job->stage < RUN_TERMINATING) {
        run_say(job, "the job has run for %g s (--timeout): ending %d of %d PEs", job->options.timeout, job->alive,
                job->options.n);
        if (job->exit_status == 0)
            job->exit_status = RUN_EXIT_TIMEOUT;
        terminate(job);
        return;
    }
    if (job->deadline == 0 || now < job->deadline)
        return;
    if (job->stage == RUN_GRACE) {
        run_say(job, "%d of %d PEs still run %g s after the first failure: ending them", job->alive, job->options.n,
                job->options.grace);
        terminate(job);
    } else if (job->stage == RUN_TERMINATING) {
        run_say(job, "%d of %d PEs did not end on SIGTERM: killing them", job->alive, job->options.n);
        job->stage = RUN_KILLED;
        job->deadline = 0;
        run_signal_all(job, SIGKILL);
    }
}

double run_next_deadline(const struct run_job *job)
{
    double next = job->deadline;
    if (job->alive == 0)
        return -1;
    if (job->overtime > 0 && job->stage < RUN_TERMINATING && (next == 0 || job->overtime < next))
        next = job->overtime;
    if (next == 0)
        return -1;
    double left = next - run_now();
    return left > 0 ? left : 0;
}
