/* SPDX-License-Identifier: Apache-2.0
 * See command.h. */
#include "command.h"
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

const char *test_path(const char *name)
{
    const char *value = getenv(name);
    if (!value)
        fail_msg("%s is not set: run this through meson test", name);
    return value;
}

static char *read_to_end(FILE *pipe)
{
    size_t used = 0, room = 4096;
    char *text = malloc(room);
    assert_non_null(text);
    for (size_t n; (n = fread(text + used, 1, room - used - 1, pipe)) > 0;) {
        used += n;
        if (used + 1 == room) {
            text = realloc(text, room *= 2);
            assert_non_null(text);
        }
    }
    text[used] = '\0';
    return text;
}

void command_run(struct command *command, const char *format, ...)
{
    char line[4096], whole[4200];
    va_list list;
    va_start(list, format);
    int n = vsnprintf(line, sizeof line, format, list);
    va_end(list);
    assert_in_range(n, 1, sizeof line - 1);
    snprintf(whole, sizeof whole, "{ %s\n} 2>&1", line);
    FILE *pipe = popen(whole, "r");
    assert_non_null(pipe);
    command->output = read_to_end(pipe);
    int status = pclose(pipe);
    command->status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

void command_free(struct command *command)
{
    free(command->output);
    command->output = NULL;
}

void command_expect(struct command *command, int status, const char *needle)
{
    if (command->status == status && strstr(command->output, needle))
        return;
    print_error("expected status %d and '%s', got status %d and:\n%s\n", status, needle, command->status,
                command->output);
    command_free(command);
    fail();
}

void command_checksums(const struct command *command, char *out, size_t size)
{
    const char *at = strstr(command->output, "checksum dispatch ");
    assert_non_null(at);
    size_t n = strcspn(at, "\n");
    assert_in_range(n, strlen("checksum dispatch 0123456789ABCDEF combine 0123456789ABCDEF"), size - 1);
    memcpy(out, at, n);
    out[n] = '\0';
}
