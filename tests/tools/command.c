/* SPDX-License-Identifier: Apache-2.0
 * Starts a program for a test, keeps what it prints, and waits for it with a deadline. One thread. */
#include "command.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

double command_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

void command_pause(void)
{
    nanosleep(&(struct timespec){.tv_nsec = 2000000}, NULL);
}

static void child(const struct command *command, const char *const *argv)
{
    int in = command->in_fd ? command->in_fd : open("/dev/null", O_RDONLY);
    dup2(in, STDIN_FILENO);
    dup2(command->out_fd > 0 ? command->out_fd : command->out, STDOUT_FILENO);
    dup2(command->err_to_out ? STDOUT_FILENO : command->err_fd > 0 ? command->err_fd : command->err, STDERR_FILENO);
    if (command->out_fd < 0)
        close(STDOUT_FILENO);
    if (command->soft_files) {
        struct rlimit limit;
        getrlimit(RLIMIT_NOFILE, &limit);
        limit.rlim_cur = command->soft_files;
        setrlimit(RLIMIT_NOFILE, &limit);
    }
    for (const char *const *setting = command->settings; setting && *setting; setting++)
        putenv((char *)(uintptr_t)*setting);
    execv(argv[0], (char *const *)(uintptr_t)argv);
    dprintf(STDERR_FILENO, "cannot start %s: %s\n", argv[0], strerror(errno));
    _exit(125);
}

void command_start(struct command *command, const char *const *argv)
{
    command->out = memfd_create("out", MFD_CLOEXEC);
    command->err = memfd_create("err", MFD_CLOEXEC);
    assert_true(command->out >= 0 && command->err >= 0);
    command->pid = fork();
    assert_true(command->pid >= 0);
    if (command->pid == 0)
        child(command, argv);
}

/* What was printed so far, with a 0 after it. */
static char *contents(int fd, size_t *length)
{
    off_t size = lseek(fd, 0, SEEK_END);
    assert_true(size >= 0);
    char *text = malloc((size_t)size + 1);
    assert_non_null(text);
    ssize_t n = pread(fd, text, (size_t)size, 0);
    assert_true(n == size);
    text[size] = '\0';
    *length = (size_t)size;
    return text;
}

size_t count_pieces(const char *text, size_t length, const char *piece)
{
    size_t n = 0;
    const char *end = text + length;
    while ((text = memmem(text, (size_t)(end - text), piece, strlen(piece)))) {
        n++;
        text += strlen(piece);
    }
    return n;
}

static void take_texts(struct command *command)
{
    free(command->text);
    free(command->error_text);
    command->text = contents(command->out, &command->length);
    command->error_text = contents(command->err, &command->error_length);
}

void command_await(struct command *command, const char *piece, size_t count)
{
    double end = command_now() + DEADLINE;
    for (;;) {
        take_texts(command);
        if (count_pieces(command->text, command->length, piece) >= count)
            return;
        if (command_now() > end)
            fail_msg("no %zu times '%s' within %g s; stdout:\n%s\nstderr:\n%s", count, piece, DEADLINE, command->text,
                     command->error_text);
        command_pause();
    }
}

void command_finish(struct command *command)
{
    double end = command_now() + DEADLINE;
    int status;
    pid_t pid;
    while ((pid = waitpid(command->pid, &status, WNOHANG)) == 0 && command_now() < end)
        command_pause();
    take_texts(command);
    if (pid != command->pid)
        fail_msg("did not end within %g s; stderr:\n%s", DEADLINE, command->error_text);
    command->pid = 0;
    command->status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

int command_run(struct command *command, const char *const *argv)
{
    command_start(command, argv);
    command_finish(command);
    return command->status;
}

void command_release(struct command *command)
{
    if (command->pid > 0) {
        kill(command->pid, SIGKILL);
        waitpid(command->pid, NULL, 0);
    }
    free(command->text);
    free(command->error_text);
    close(command->out);
    close(command->err);
    *command = (struct command){0};
}

char process_state(pid_t pid)
{
    char path[64], line[256] = "";
    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    FILE *file = fopen(path, "r");
    if (!file)
        return 0;
    const char *got = fgets(line, sizeof line, file);
    fclose(file);
    const char *after = got ? strrchr(line, ')') : NULL;
    return after && after[1] ? after[2] : 0;
}
