/* SPDX-License-Identifier: Apache-2.0
 * ferry-run: starts the PEs of a job on this machine, carries their output, and ends with their status. */
#include "run.h"
#include "standard.h"

#include <err.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sysexits.h>
#include <unistd.h>

static void open_signals(struct run_job *job)
{
    static const int taken[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGCONT, SIGTSTP, SIGCHLD};
    sigset_t set;
    sigemptyset(&set);
    for (size_t i = 0; i < sizeof taken / sizeof *taken; i++)
        sigaddset(&set, taken[i]);
    sigprocmask(SIG_BLOCK, &set, &job->old_mask);
    signal(SIGCHLD, SIG_DFL); /* ignored by the caller, it would hide how children ended */
    signal(SIGPIPE, SIG_IGN);
    signal(SIGTTOU, SIG_IGN); /* we take the terminal back from the background */
    job->signal_fd = signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC);
    if (job->signal_fd < 0)
        err(EX_OSERR, "cannot receive signals");
}

static void open_sinks(struct run_job *job)
{
    struct stat out, error;
    run_sink_open(&job->sinks[0], STDOUT_FILENO);
    run_sink_open(&job->sinks[1], STDERR_FILENO);
    job->self = (struct run_source){.fd = -1, .rank = -1, .sink = &job->sinks[1]};
    /* With 2>&1 one queue serves both, so that a line of one never lands inside a line of the other. */
    if (fstat(STDOUT_FILENO, &out) == 0 && fstat(STDERR_FILENO, &error) == 0 && out.st_dev == error.st_dev &&
        out.st_ino == error.st_ino) {
        job->sinks[1].fd = -1;
        job->self.sink = &job->sinks[0];
    }
}

static void release(struct run_job *job)
{
    for (int i = 0; i < 2 * job->options.n; i++) {
        if (job->sources[i].fd >= 0)
            close(job->sources[i].fd);
        free(job->sources[i].line.data);
    }
    free(job->sinks[0].buffer.data);
    free(job->sinks[1].buffer.data);
    free(job->sources);
    free(job->pes);
    close(job->signal_fd);
    if (job->meeting)
        ferry_meeting_close(job->meeting);
}

int main(int argc, char **argv)
{
    struct run_job job = {0};
    run_parse(argc, argv, &job.options);
    tool_standard_streams(true);
    open_signals(&job);
    open_sinks(&job);
    job.pes = calloc((size_t)job.options.n, sizeof *job.pes);
    job.sources = calloc(2 * (size_t)job.options.n, sizeof *job.sources);
    if (!job.pes || !job.sources)
        err(EX_OSERR, "cannot keep track of %d processes", job.options.n);
    for (int i = 0; i < 2 * job.options.n; i++)
        job.sources[i].fd = -1;

    run_guard_start(&job);
    job.exit_status = run_launch(&job);
    if (job.exit_status == 0) {
        job.overtime = job.options.timeout > 0 ? run_now() + job.options.timeout : 0;
        run_loop(&job);
    } else {
        run_signal_all(&job, SIGKILL);
        run_sink_flush(job.self.sink);
    }
    if (job.terminal_given)
        tcsetpgrp(STDIN_FILENO, getpgrp());
    run_guard_end(&job);
    release(&job);
    return job.exit_status;
}
