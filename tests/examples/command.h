/* SPDX-License-Identifier: Apache-2.0
 * Runs a command line and keeps what it said. Used by the tests of the examples, from the main thread. */
#ifndef TESTS_EXAMPLES_COMMAND_H
#define TESTS_EXAMPLES_COMMAND_H

#include <stddef.h>

struct command {
    int status;   /* exit status, or 128 + signal */
    char *output; /* standard output and error; at least "" */
};

/* The variable of the environment, which meson sets; ends the test without it. */
const char *test_path(const char *name);
/* Formats, runs through the shell, collects. */
void command_run(struct command *command, const char *format, ...) __attribute__((format(printf, 2, 3)));
void command_free(struct command *command);
/* Prints command line and output, and fails the test, unless the status is `status` and the output has `needle`. */
void command_expect(struct command *command, int status, const char *needle);
/* The two checksums that moe_dispatch printed, as one string of `size` bytes. */
void command_checksums(const struct command *command, char *out, size_t size);

#endif
