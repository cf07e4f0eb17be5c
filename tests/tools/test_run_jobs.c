/* SPDX-License-Identifier: Apache-2.0
 * ferry-run: programs that begin several jobs, and PEs that never join one. */
#include "command.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *tool, *rounds;

static void assert_pieces(const struct command *c, const char *piece, size_t count)
{
    if (count_pieces(c->text, c->length, piece) != count)
        fail_msg("not %zu times '%s':\n%.*s\n%.*s", count, piece, (int)c->length, c->text, (int)c->error_length,
                 c->error_text);
}

static void test_jobs_in_turn(void **state)
{
    (void)state;
    struct command c = {0};
    int status = command_run(&c, ARGS(tool, "-n", "3", rounds, "3", "-1", "0"));
    for (int i = 0; i < 3; i++) {
        char line[32];
        snprintf(line, sizeof line, "job %d of 3\n", i);
        assert_pieces(&c, line, 3);
    }
    assert_int_equal(status, 0);
    command_release(&c);
}

/* PE 1 has ended well, without joining job `from`: the others do not wait for the time to pass. */
static void ended(const char *from)
{
    struct command c = {0};
    char piece[64];
    double begin = command_now();
    assert_int_equal(command_run(&c, ARGS(tool, "-n", "3", rounds, "3", "1", from)), 3);
    assert_true(command_now() - begin < 10); /* far below FERRY_TIMEOUT, on a busy machine too */
    for (int pe = 0; pe < 3; pe += 2) {
        snprintf(piece, sizeof piece, "no job %s for %d: FERRY_ERR_PEER, peer 1\n", from, pe);
        assert_pieces(&c, piece, 1);
    }
    assert_int_equal(count_pieces(c.error_text, c.error_length, "PE 1 of 3 is needed, and its process has ended"), 2);
    command_release(&c);
}

static void test_ended_before_init(void **state)
{
    (void)state;
    ended("0");
}

static void test_ended_before_the_second(void **state)
{
    (void)state;
    ended("1");
}

/* Too few descriptors to connect with: said at once, with the limit. */
static void test_no_descriptors(void **state)
{
    (void)state;
    for (int limit = 5; limit <= 8; limit++) {
        struct command c = {0};
        char script[64], piece[64];
        double begin = command_now();
        snprintf(script, sizeof script, "ulimit -n %d; exec \"$0\" 1 -1 0", limit);
        snprintf(piece, sizeof piece, limit < 8 ? "Too many open files (ulimit -n is %d)" : "Too many open files",
                 limit);
        assert_int_equal(command_run(&c, ARGS(tool, "-n", "4", "sh", "-c", script, rounds)), 3);
        assert_true(command_now() - begin < 10);
        if (count_pieces(c.error_text, c.error_length, piece) == 0)
            fail_msg("not '%s':\n%.*s", piece, (int)c.error_length, c.error_text);
        command_release(&c);
    }
}

int main(void)
{
    tool = getenv("TOOLS_RUN");
    rounds = getenv("TOOLS_ROUNDS");
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_jobs_in_turn),
        cmocka_unit_test(test_ended_before_init),
        cmocka_unit_test(test_ended_before_the_second),
        cmocka_unit_test(test_no_descriptors),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
