/* SPDX-License-Identifier: Apache-2.0
 * Starts a program for a test, keeps what it prints, and waits for it with a deadline. One thread. */
#ifndef TESTS_COMMAND_H
#define TESTS_COMMAND_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#define ARGS(...) ((const char *const[]){__VA_ARGS__, NULL})
#define DEADLINE  60.0 /* seconds; nothing here takes a tenth of it on an idle machine */

struct command {
    /* set before command_start, 0: as said */
    int in_fd;                   /* standard input, 0: /dev/null */
    int out_fd;                  /* standard output, 0: kept; -1: closed */
    int err_fd;                  /* standard error, 0: kept */
    bool err_to_out;             /* 2>&1 */
    unsigned long soft_files;    /* limit on open files, 0: as it is */
    const char *const *settings; /* "NAME=value", NULL-ended, or NULL */
    /* then */
    pid_t pid;
    int out, err; /* files with the output */
    int status;   /* as a shell gives it */
    char *text, *error_text;
    size_t length, error_length;
};

void command_start(struct command *command, const char *const *argv);
/* Waits until the output so far holds `count` times `piece`; fails the test at the deadline. */
void command_await(struct command *command, const char *piece, size_t count);
/* Waits for the end, fills status and texts. */
void command_finish(struct command *command);
/* Both. Gives the status. */
int command_run(struct command *command, const char *const *argv);
/* Releases texts and files, and kills the program if it still runs. */
void command_release(struct command *command);

size_t count_pieces(const char *text, size_t length, const char *piece);
/* Seconds, monotonic. */
double command_now(void);
void command_pause(void);
/* A state letter of /proc/PID/stat, 0: there is no such process. */
char process_state(pid_t pid);

#endif
