/* SPDX-License-Identifier: Apache-2.0
 * ferry-run: the loop that waits for output, signals and deadlines, until all PEs are gone and all output is out. */
#include "run.h"

#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <sysexits.h>

/* What is polled in one turn; `source` of an entry is NULL for signals and sinks. */
struct polled {
    struct pollfd *fds;
    struct run_source **sources;
    char *chunk; /* what is read; not on the stack, which may be small */
    nfds_t n;
};

static void add(struct polled *polled, int fd, short events, struct run_source *source)
{
    polled->fds[polled->n] = (struct pollfd){.fd = fd, .events = events};
    polled->sources[polled->n++] = source;
}

static void collect(struct run_job *job, struct polled *polled)
{
    polled->n = 0;
    add(polled, job->signal_fd, POLLIN, NULL);
    for (int i = 0; i < 2; i++)
        if (job->sinks[i].fd >= 0 && run_sink_pending(&job->sinks[i]))
            add(polled, job->sinks[i].fd, POLLOUT, NULL);
    for (int i = 0; i < 2 * job->options.n; i++) {
        struct run_source *source = &job->sources[i];
        if (source->fd >= 0 && !run_sink_full(source->sink))
            add(polled, source->fd, POLLIN, source);
    }
}

/* All PEs are gone: what they left running is killed, and only what is still in the pipes is waited for. */
static void begin_end(struct run_job *job)
{
    run_signal_all(job, SIGKILL);
    for (int i = 0; i < 2 * job->options.n; i++) {
        struct run_source *source = &job->sources[i];
        int room = source->fd < 0 ? 0 : fcntl(source->fd, F_GETPIPE_SZ);
        source->left = room > 0 ? (size_t)room : 65536;
    }
}

static bool is_done(const struct run_job *job)
{
    if (job->alive > 0)
        return false;
    if (job->give_up)
        return true;
    for (int i = 0; i < 2; i++)
        if (job->sinks[i].fd >= 0 && run_sink_pending(&job->sinks[i]))
            return false;
    for (int i = 0; i < 2 * job->options.n; i++)
        if (job->sources[i].fd >= 0)
            return false;
    return true;
}

/* `ending`: a pipe in which nothing is waiting is held open by something that left the job. */
static void serve_sources(const struct polled *polled, bool ending)
{
    for (nfds_t i = 0; i < polled->n; i++) {
        struct run_source *source = polled->sources[i];
        if (!source)
            continue;
        if (polled->fds[i].revents)
            run_source_read(source, polled->chunk);
        else if (ending)
            run_source_finish(source);
    }
}

static int poll_timeout(const struct run_job *job, const struct polled *polled, bool ending)
{
    if (ending)
        for (nfds_t i = 0; i < polled->n; i++)
            if (polled->sources[i])
                return 0;
    double left = run_next_deadline(job);
    return left < 0 ? -1 : (int)(left * 1000) + 1;
}

/* Says, once, that output is lost. Without a reader of standard output the job ends, as a single process would. */
static void check_sinks(struct run_job *job, bool said[2])
{
    for (int i = 0; i < 2; i++) {
        if (!job->sinks[i].error || said[i])
            continue;
        said[i] = true;
        if (i == 0 && job->sinks[i].error == EPIPE) {
            run_reader_left(job);
            continue;
        }
        errno = job->sinks[i].error;
        run_say(job, "cannot write to standard %s (%m): the PEs' further output there is dropped",
                i == 0 ? "output" : "error");
        if (job->sinks[i].error != EPIPE && job->exit_status == 0)
            job->exit_status = EX_IOERR;
    }
}

void run_loop(struct run_job *job)
{
    size_t most = 3 + 2 * (size_t)job->options.n;
    struct polled polled = {calloc(most, sizeof *polled.fds), calloc(most, sizeof *polled.sources), malloc(RUN_CHUNK),
                            0};
    bool ending = false, said[2] = {false, false};
    if (!polled.fds || !polled.sources || !polled.chunk)
        err(EX_OSERR, "cannot watch %d processes", job->options.n);
    run_reap(job); /* the launch has eaten the news of those that ended meanwhile */
    while (!is_done(job)) {
        if (job->alive == 0 && !ending) {
            ending = true;
            begin_end(job);
        }
        collect(job, &polled);
        int ready = poll(polled.fds, polled.n, poll_timeout(job, &polled, ending));
        if (ready < 0 && errno != EINTR)
            err(EX_OSERR, "cannot wait for output");
        if (ready >= 0)
            serve_sources(&polled, ending);
        run_take_signals(job);
        run_take_stops(job);
        run_reap(job);
        run_check_deadlines(job);
        for (int i = 0; i < 2; i++)
            if (job->sinks[i].fd >= 0)
                run_sink_flush(&job->sinks[i]);
        check_sinks(job, said);
    }
    free(polled.fds);
    free(polled.sources);
    free(polled.chunk);
}
