/* SPDX-License-Identifier: Apache-2.0
 * ferry-perf: the line on the terminal that says what is measured now. Called by PE 0's main thread.
 * The cursor stays at the line's start, so that whatever is printed next takes its place. */
#include "perf.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Under ferry-run standard error is a pipe to it, which carries whole lines only; it goes on to ferry-run's own. -1:
 * that is no terminal. */
static int terminal_of_ferry_run(void)
{
    struct stat st;
    char path[64], name[16] = "";
    if (fstat(STDERR_FILENO, &st) != 0 || !S_ISFIFO(st.st_mode))
        return -1;
    snprintf(path, sizeof path, "/proc/%d/comm", (int)getppid());
    FILE *file = fopen(path, "re");
    const char *read = file ? fgets(name, sizeof name, file) : NULL;
    if (file)
        fclose(file);
    if (!read || strcmp(name, "ferry-run\n") != 0)
        return -1;
    snprintf(path, sizeof path, "/proc/%d/fd/%d", (int)getppid(), STDERR_FILENO);
    if (stat(path, &st) != 0 || !S_ISCHR(st.st_mode))
        return -1;
    int fd = open(path, O_WRONLY | O_NOCTTY | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0 || isatty(fd))
        return fd;
    close(fd);
    return -1;
}

void perf_progress_begin(struct perf_progress *progress, size_t all)
{
    *progress = (struct perf_progress){.fd = -1, .all = all};
    progress->fd = isatty(STDERR_FILENO) ? dup(STDERR_FILENO) : terminal_of_ferry_run();
}

void perf_progress_step(struct perf_progress *progress, const char *test, size_t bytes)
{
    progress->done++;
    if (progress->fd >= 0)
        dprintf(progress->fd, "\r\033[K[%zu/%zu] %s, %zu B\r", progress->done, progress->all, test, bytes);
}

void perf_progress_end(struct perf_progress *progress)
{
    if (progress->fd < 0)
        return;
    dprintf(progress->fd, "\r\033[K");
    close(progress->fd);
    progress->fd = -1;
}
