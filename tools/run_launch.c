/* SPDX-License-Identifier: Apache-2.0
 * ferry-run: opens the meeting and starts the PEs. Main thread; the library's meeting thread already runs, so a child
 * calls nothing but system calls before exec. */
#include "run.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <sysexits.h>
#include <unistd.h>

extern char **environ;

/* What every child needs, prepared before the first fork. */
struct launch {
    char **environment; /* its last three strings are the ones below */
    char rank[32];
    char size[32];
    char id[sizeof "FERRY_ID=" + FERRY_UNIQUEID_TEXT];
    int null_fd;
    struct rlimit old_files;
};

/* The pipes of one child, and the one that tells of a failed exec. -1: not open. */
struct child_fds {
    int in, out[2], err[2], report[2];
};

static int make_id(struct run_job *job, struct launch *launch)
{
    ferry_uniqueid_t id;
    char text[FERRY_UNIQUEID_TEXT];
    int status = ferry_meeting_open(&id, &job->meeting);
    if (status == FERRY_OK)
        status = ferry_uniqueid_to_text(&id, text);
    if (status != FERRY_OK) {
        run_say(job, "cannot make the id on which the PEs meet: %s", ferry_status_string(status));
        return EX_OSERR;
    }
    snprintf(launch->id, sizeof launch->id, "FERRY_ID=%s", text);
    explicit_bzero(&id, sizeof id);
    explicit_bzero(text, sizeof text);
    return 0;
}

static bool is_ours(const char *variable)
{
    return strncmp(variable, "FERRY_RANK=", 11) == 0 || strncmp(variable, "FERRY_SIZE=", 11) == 0 ||
           strncmp(variable, "FERRY_ID=", 9) == 0;
}

static int make_environment(struct run_job *job, struct launch *launch)
{
    size_t n = 0, kept = 0;
    while (environ[n])
        n++;
    launch->environment = calloc(n + 4, sizeof *launch->environment);
    if (!launch->environment) {
        run_say(job, "out of memory");
        return EX_OSERR;
    }
    for (size_t i = 0; i < n; i++)
        if (!is_ours(environ[i]))
            launch->environment[kept++] = environ[i];
    snprintf(launch->size, sizeof launch->size, "FERRY_SIZE=%d", job->options.n);
    launch->environment[kept++] = launch->rank;
    launch->environment[kept++] = launch->size;
    launch->environment[kept] = launch->id;
    return 0;
}

/* Two pipes per PE, and its connection to the meeting: raises the limit on open files if it is too low. Children get
 * the old one. */
static int make_room_for_files(struct run_job *job, struct launch *launch)
{
    rlim_t needed = (rlim_t)job->options.n * 3 + 64;
    if (getrlimit(RLIMIT_NOFILE, &launch->old_files) != 0 || launch->old_files.rlim_cur >= needed)
        return 0;
    struct rlimit raised = launch->old_files;
    raised.rlim_cur = raised.rlim_max < needed ? raised.rlim_max : needed;
    if (raised.rlim_cur >= needed && setrlimit(RLIMIT_NOFILE, &raised) == 0)
        return 0;
    run_say(job, "%d PEs need %llu open files, the limit (ulimit -Hn) is %llu", job->options.n,
            (unsigned long long)needed, (unsigned long long)launch->old_files.rlim_max);
    return EX_OSERR;
}

static void run_child(const struct run_job *job, const struct launch *launch, const struct child_fds *fds, pid_t parent)
{
    setpgid(0, job->group);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(EX_OSERR);
    dup2(fds->in, STDIN_FILENO);
    dup2(fds->out[1], STDOUT_FILENO);
    dup2(fds->err[1], STDERR_FILENO);
    setrlimit(RLIMIT_NOFILE, &launch->old_files);
    signal(SIGPIPE, SIG_DFL);
    signal(SIGTTOU, SIG_DFL);
    sigprocmask(SIG_SETMASK, &job->old_mask, NULL);
    execvpe(job->options.argv[0], job->options.argv, launch->environment);
    int error = errno;
    ssize_t written = write(fds->report[1], &error, sizeof error);
    _exit(written == sizeof error ? 127 : EX_OSERR);
}

static void close_all(const struct child_fds *fds)
{
    const int all[] = {fds->out[0], fds->out[1], fds->err[0], fds->err[1], fds->report[0], fds->report[1]};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (all[i] >= 0)
            close(all[i]);
}

/* errno of the exec that failed, 0 if it went well. A child may be stopped before exec, with the group, when another
 * wants the terminal: signals are served meanwhile, so that it gets it and goes on. */
static int exec_outcome(struct run_job *job, int fd)
{
    struct pollfd fds[] = {{.fd = fd, .events = POLLIN}, {.fd = job->signal_fd, .events = POLLIN}};
    int error = 0;
    while (poll(fds, 2, -1) < 0 || !fds[0].revents) {
        run_take_signals(job);
        run_take_stops(job);
    }
    return read(fd, &error, sizeof error) == sizeof error ? error : 0;
}

static void open_source(struct run_job *job, int rank, int fd, bool is_err)
{
    struct run_sink *sink = is_err && job->sinks[1].fd >= 0 ? &job->sinks[1] : &job->sinks[0];
    fcntl(fd, F_SETFL, O_NONBLOCK);
    job->sources[2 * rank + is_err] = (struct run_source){
        .fd = fd, .rank = rank, .tag = is_err || job->options.prefix, .left = SIZE_MAX, .sink = sink};
}

static int start_one(struct run_job *job, struct launch *launch, int rank)
{
    struct child_fds fds = {rank == 0 ? STDIN_FILENO : launch->null_fd, {-1, -1}, {-1, -1}, {-1, -1}};
    pid_t parent = getpid(), pid = -1;
    snprintf(launch->rank, sizeof launch->rank, "FERRY_RANK=%d", rank);
    if (pipe2(fds.out, O_CLOEXEC) == 0 && pipe2(fds.err, O_CLOEXEC) == 0 && pipe2(fds.report, O_CLOEXEC) == 0)
        pid = fork();
    if (pid == 0)
        run_child(job, launch, &fds, parent);
    if (pid < 0) {
        run_say(job, "cannot start pe %d: %s", rank, strerror(errno));
        close_all(&fds);
        return EX_OSERR;
    }
    setpgid(pid, job->group);
    close(fds.report[1]);
    fds.report[1] = -1;
    job->pes[rank] = (struct run_pe){.pid = pid, .alive = true};
    job->alive++;
    int error = exec_outcome(job, fds.report[0]);
    if (error) {
        run_say(job, "cannot start %s: %s", job->options.argv[0], strerror(error));
        waitpid(pid, NULL, 0);
        job->pes[rank].alive = false;
        job->alive--;
        close_all(&fds);
        return error == ENOENT ? 127 : 126;
    }
    close(fds.report[0]);
    close(fds.out[1]);
    close(fds.err[1]);
    open_source(job, rank, fds.out[0], false);
    open_source(job, rank, fds.err[0], true);
    return 0;
}

int run_launch(struct run_job *job)
{
    struct launch launch = {.null_fd = open("/dev/null", O_RDONLY | O_CLOEXEC)};
    int status = make_room_for_files(job, &launch);
    if (status == 0)
        status = make_id(job, &launch);
    if (status == 0)
        status = make_environment(job, &launch);
    for (int rank = 0; status == 0 && rank < job->options.n; rank++)
        status = start_one(job, &launch, rank);
    explicit_bzero(launch.id, sizeof launch.id);
    free(launch.environment);
    close(launch.null_fd);
    return status;
}
