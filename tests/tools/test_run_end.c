/* SPDX-License-Identifier: Apache-2.0
 * ferry-run: the command line, signals, how a job ends and what is left of it. */
#include "command.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <pty.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static const char *tool, *standin;

/* ------------------------------------------------------------------ the command line */

static void test_usage_errors(void **state)
{
    (void)state;
    const char *const bad[] = {"0", "-1", "x", "", "4097", "2x", "1e2", "99999999999999999999"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct command c = {0};
        assert_int_equal(command_run(&c, ARGS(tool, "-n", bad[i], "echo", "started")), 64);
        assert_int_equal(c.length, 0);
        assert_int_equal(count_pieces(c.error_text, c.error_length, "from 1 to 4096"), 1);
        command_release(&c);
    }
    struct command c = {0};
    assert_int_equal(command_run(&c, ARGS(tool, "-n", "2")), 64);
    command_release(&c);
    assert_int_equal(command_run(&c, ARGS(tool, "--grace", "-1", "true")), 64);
    command_release(&c);
    assert_int_equal(command_run(&c, ARGS(tool, "--nonsense", "true")), 64);
    command_release(&c);
}

static void test_options_of_the_program(void **state)
{
    (void)state;
    struct command c = {0};
    assert_int_equal(command_run(&c, ARGS(tool, "-n", "1", "--", "echo", "-n", "9", "--prefix")), 0);
    assert_string_equal(c.text, "9 --prefix");
    command_release(&c);
    assert_int_equal(command_run(&c, ARGS(tool, "echo", "a", "-n", "9", "--", "--grace")), 0);
    assert_string_equal(c.text, "a -n 9 -- --grace\n");
    command_release(&c);
}

static void test_program_that_cannot_start(void **state)
{
    (void)state;
    struct command c = {0};
    assert_int_equal(command_run(&c, ARGS(tool, "-n", "8", "no-such-program-here")), 127);
    assert_string_equal(c.error_text, "ferry-run: cannot start no-such-program-here: No such file or directory\n");
    command_release(&c);
    assert_int_equal(command_run(&c, ARGS(tool, "-n", "8", "/etc/passwd")), 126);
    assert_string_equal(c.error_text, "ferry-run: cannot start /etc/passwd: Permission denied\n");
    command_release(&c);
}

/* ------------------------------------------------------------------ status and reports */

static void test_status_zero(void **state)
{
    (void)state;
    struct command c = {0};
    assert_int_equal(command_run(&c, ARGS(tool, "-n", "5", "true")), 0);
    assert_int_equal(c.error_length, 0);
    command_release(&c);
}

static void test_status_of_the_first(void **state)
{
    (void)state;
    struct command c = {0};
    /* 2 fails when 1 is gone, so that the order is known. */
    const char *script = "case $FERRY_RANK in 1) echo $$ > $FILE.new; mv $FILE.new $FILE; exit 3;; "
                         "2) until [ -s $FILE ]; do sleep 0.01; done; "
                         "while kill -0 $(cat $FILE) 2>/dev/null; do sleep 0.01; done; exit 4;; esac";
    char file[] = "/tmp/ferry-run-XXXXXX", setting[64];
    int fd = mkstemp(file);
    assert_true(fd >= 0);
    close(fd);
    snprintf(setting, sizeof setting, "FILE=%s", file);
    const char *const settings[] = {setting, NULL};
    c.settings = settings;
    assert_int_equal(command_run(&c, ARGS(tool, "-n", "4", "--grace", "50", "sh", "-c", script)), 3);
    assert_int_equal(count_pieces(c.error_text, c.error_length, "\n"), 2);
    const char *first = strstr(c.error_text, "ferry-run: pe 1 (pid "),
               *second = strstr(c.error_text, "ferry-run: pe 2 (pid ");
    assert_true(first && second && first < second);
    assert_non_null(strstr(first, ") exited with status 3\n"));
    assert_non_null(strstr(second, ") exited with status 4\n"));
    unlink(file);
    command_release(&c);
}

static void test_killed(void **state)
{
    (void)state;
    struct command c = {0};
    int pid = -1;
    assert_int_equal(
        command_run(&c, ARGS(tool, "-n", "3", "sh", "-c", "[ $FERRY_RANK != 2 ] || { echo pid $$; kill -9 $$; }")),
        128 + SIGKILL);
    char expected[128];
    assert_int_equal(sscanf(strstr(c.text, "pid"), "pid %d", &pid), 1);
    snprintf(expected, sizeof expected, "ferry-run: pe 2 (pid %d) was killed by signal 9 (Killed)\n", pid);
    assert_string_equal(c.error_text, expected);
    command_release(&c);
}

static void await_state(pid_t pid, const char *states)
{
    double end = command_now() + DEADLINE;
    char now;
    while (!strchr(states, now = process_state(pid)) || now == 0) {
        assert_true(command_now() < end);
        command_pause();
    }
}

/* A death is reported after its connections are closed: who ends because of it may be seen first. */
static void test_killed_counts_first(void **state)
{
    (void)state;
    int ends[2];
    pid_t exits, dies;
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    struct command c = {.in_fd = ends[0]};
    command_start(&c, ARGS(tool, "-n", "2", "--prefix", "--grace", "30", "sh", "-c",
                           "echo pid $$; [ $FERRY_RANK = 1 ] || { read line; exit 5; }; exec sleep 1000"));
    command_await(&c, "\n", 2);
    exits = atoi(strstr(c.text, "[0] pid ") + 8);
    dies = atoi(strstr(c.text, "[1] pid ") + 8);
    kill(c.pid, SIGSTOP);
    await_state(c.pid, "T");
    close(ends[1]);
    await_state(exits, "Z");
    kill(dies, SIGKILL);
    await_state(dies, "Z");
    kill(c.pid, SIGCONT);
    command_finish(&c);
    assert_int_equal(c.status, 128 + SIGKILL);
    assert_int_equal(count_pieces(c.error_text, c.error_length, "exited with status 5\n"), 1);
    assert_int_equal(count_pieces(c.error_text, c.error_length, "was killed by signal 9 (Killed)\n"), 1);
    close(ends[0]);
    command_release(&c);
}

/* ------------------------------------------------------------------ after a failure */

static void test_survivors_end_by_themselves(void **state)
{
    (void)state;
    struct command c = {0};
    const char *script = "[ $FERRY_RANK != 0 ] || exit 7; trap 'echo told' TERM; sleep 0.5; echo done; exit 0";
    assert_int_equal(command_run(&c, ARGS(tool, "-n", "3", "--grace", "30", "sh", "-c", script)), 7);
    assert_int_equal(count_pieces(c.text, c.length, "done\n"), 2);
    assert_int_equal(count_pieces(c.text, c.length, "told\n"), 0);
    assert_int_equal(count_pieces(c.error_text, c.error_length, "\n"), 1);
    command_release(&c);
}

static void test_term_after_grace(void **state)
{
    (void)state;
    struct command c = {0};
    double start = command_now();
    assert_int_equal(command_run(&c, ARGS(tool, "-n", "3", "--grace", "0.5", "sh", "-c",
                                          "[ $FERRY_RANK != 1 ] || exit 9; exec sleep 1000")),
                     9);
    assert_true(command_now() - start >= 0.5);
    assert_int_equal(count_pieces(c.error_text, c.error_length, "pe 1 (pid "), 1);
    assert_int_equal(
        count_pieces(c.error_text, c.error_length, "was killed by signal 15 (Terminated), ended by ferry-run"), 2);
    assert_int_equal(count_pieces(c.error_text, c.error_length, "2 of 3 PEs still run 0.5 s after the first failure"),
                     1);
    command_release(&c);
}

static void test_kill_after_term(void **state)
{
    (void)state;
    struct command c = {0};
    command_start(&c, ARGS(tool, "-n", "2", "--grace", "0", "--prefix", "sh", "-c",
                           "trap '' TERM; echo pid $$; while :; do sleep 1; done"));
    command_await(&c, "\n", 2);
    double start = command_now();
    kill(atoi(strstr(c.text, "[1] pid ") + 8), SIGKILL);
    command_finish(&c);
    assert_int_equal(c.status, 128 + SIGKILL);
    assert_true(command_now() - start >= 2.0);
    assert_int_equal(count_pieces(c.error_text, c.error_length, "1 of 2 PEs did not end on SIGTERM: killing"), 1);
    assert_int_equal(count_pieces(c.error_text, c.error_length, "pe 0 (pid "), 1);
    assert_int_equal(count_pieces(c.error_text, c.error_length, "was killed by signal 9 (Killed), ended by ferry-run"),
                     1);
    command_release(&c);
}

static void test_timeout(void **state)
{
    (void)state;
    struct command c = {0};
    assert_int_equal(command_run(&c, ARGS(tool, "-n", "2", "--timeout", "0.3", "sleep", "1000")), 124);
    assert_int_equal(count_pieces(c.error_text, c.error_length, "has run for 0.3 s"), 1);
    command_release(&c);
}

/* ------------------------------------------------------------------ signals */

static void test_signals_are_passed_on(void **state)
{
    (void)state;
    const int passed[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGCONT, SIGUSR2};
    struct command c = {0};
    command_start(&c, ARGS(tool, "-n", "4", standin, "signals"));
    command_await(&c, "ready\n", 4);
    for (size_t i = 0; i < sizeof passed / sizeof *passed; i++) {
        char line[32];
        snprintf(line, sizeof line, "signal %d\n", passed[i]);
        kill(c.pid, passed[i]);
        command_await(&c, line, 4);
    }
    command_finish(&c);
    assert_int_equal(c.status, 0);
    assert_int_equal(count_pieces(c.text, c.length, "\n"), 4 + 4 * 7);
    command_release(&c);
}

static void test_signal_status(void **state)
{
    (void)state;
    struct command c = {0};
    command_start(&c, ARGS(tool, "-n", "3", "sh", "-c", "echo ready; exec sleep 1000"));
    command_await(&c, "ready\n", 3);
    kill(c.pid, SIGINT);
    command_finish(&c);
    assert_int_equal(c.status, 128 + SIGINT);
    assert_int_equal(count_pieces(c.error_text, c.error_length, "was killed by signal 2 (Interrupt)\n"), 3);
    command_release(&c);
}

/* Pids that children printed as "pid N" lines. */
static size_t read_pids(const struct command *c, pid_t *pids, size_t most)
{
    size_t n = 0;
    for (const char *at = c->text; n < most && (at = strstr(at, "pid ")); at += 4)
        pids[n++] = (pid_t)atoi(at + 4);
    return n;
}

static void test_stop_and_go_on(void **state)
{
    (void)state;
    struct command c = {0};
    pid_t pids[2] = {0};
    command_start(&c, ARGS(tool, "-n", "2", "sh", "-c", "echo pid $$; exec sleep 1000"));
    command_await(&c, "\n", 2);
    assert_int_equal(read_pids(&c, pids, 2), 2);
    kill(c.pid, SIGTSTP);
    await_state(pids[0], "T");
    await_state(pids[1], "T");
    await_state(c.pid, "T");
    kill(c.pid, SIGCONT);
    await_state(pids[0], "SR");
    await_state(pids[1], "SR");
    kill(c.pid, SIGTERM);
    command_finish(&c);
    command_release(&c);
}

/* ------------------------------------------------------------------ nothing is left */

static bool is_gone(pid_t pid)
{
    char now = process_state(pid);
    return now == 0 || now == 'Z' || now == 'X';
}

static void await_gone(const pid_t *pids, size_t n)
{
    double end = command_now() + DEADLINE;
    for (size_t i = 0; i < n; i++)
        while (!is_gone(pids[i])) {
            if (command_now() > end)
                fail_msg("process %d is still there", (int)pids[i]);
            command_pause();
        }
}

static const char family[] = "sh -c 'trap \"\" TERM HUP INT; echo pid $$; while :; do sleep 1; done' & "
                             "trap '' HUP; echo pid $$; wait";

static void test_killed_launcher_leaves_nothing(void **state)
{
    (void)state;
    struct command c = {0};
    pid_t pids[8] = {0};
    command_start(&c, ARGS(tool, "-n", "4", "sh", "-c", family));
    command_await(&c, "pid ", 8);
    command_await(&c, "\n", 8);
    assert_int_equal(read_pids(&c, pids, 8), 8);
    kill(c.pid, SIGKILL);
    command_finish(&c);
    assert_int_equal(c.status, 128 + SIGKILL);
    await_gone(pids, 8);
    command_release(&c);
}

static void test_failure_ends_grandchildren(void **state)
{
    (void)state;
    struct command c = {0};
    pid_t pids[2] = {0};
    command_start(&c, ARGS(tool, "-n", "2", "--grace", "0", "--prefix", "sh", "-c",
                           "(trap '' TERM; exec sleep 1000) & echo pe $$ pid $!; exec sleep 1000"));
    command_await(&c, "\n", 2);
    assert_int_equal(read_pids(&c, pids, 2), 2);
    kill(atoi(strstr(c.text, "[1] pe ") + 7), SIGKILL);
    command_finish(&c);
    assert_int_equal(c.status, 128 + SIGKILL);
    await_gone(pids, 2);
    command_release(&c);
}

/* A PE that leaves a process behind does not keep ferry-run, nor the process. */
static void test_leftovers(void **state)
{
    (void)state;
    struct command c = {0};
    pid_t pid = 0;
    assert_int_equal(command_run(&c, ARGS(tool, "sh", "-c", "(trap '' TERM; exec sleep 1000) & echo pid $!; echo end")),
                     0);
    assert_int_equal(read_pids(&c, &pid, 1), 1);
    assert_int_equal(count_pieces(c.text, c.length, "end\n"), 1);
    await_gone(&pid, 1);
    command_release(&c);
}

/* Nor do those that left group and session, nor their children. */
static void test_leftover_sessions(void **state)
{
    (void)state;
    struct command c = {0};
    char folder[] = "/tmp/ferry-run-XXXXXX", setting[64];
    pid_t pids[6] = {0};
    assert_non_null(mkdtemp(folder));
    snprintf(setting, sizeof setting, "FOLDER=%s", folder);
    const char *const settings[] = {setting, NULL};
    c.settings = settings;
    const char *script = "setsid sh -c 'trap \"\" TERM HUP; setsid sleep 1000 & echo pid $!; sleep 1000 & echo pid $!; "
                         "echo pid $$; : >$FOLDER/$FERRY_RANK; wait' & "
                         "until [ -e $FOLDER/$FERRY_RANK ]; do sleep 0.01; done; rm $FOLDER/$FERRY_RANK";
    assert_int_equal(command_run(&c, ARGS(tool, "-n", "2", "sh", "-c", script)), 0);
    assert_int_equal(read_pids(&c, pids, 6), 6);
    for (size_t i = 0; i < 6; i++)
        assert_int_equal(process_state(pids[i]), 0);
    rmdir(folder);
    command_release(&c);
}

/* Programs that make a process group of their own get the signals too. */
static void test_own_group(void **state)
{
    (void)state;
    struct command c = {0};
    pid_t pids[2] = {0};
    command_start(&c, ARGS(tool, "-n", "2", "setsid", "sh", "-c", "echo pid $$; exec sleep 1000"));
    command_await(&c, "\n", 2);
    assert_int_equal(read_pids(&c, pids, 2), 2);
    kill(c.pid, SIGTERM);
    command_finish(&c);
    assert_int_equal(c.status, 128 + SIGTERM);
    await_gone(pids, 2);
    command_release(&c);
}

/* ------------------------------------------------------------------ a terminal */

static void await_on_terminal(int fd, const char *piece)
{
    static char seen[4096];
    size_t n = 0;
    double end = command_now() + DEADLINE;
    while (count_pieces(seen, n, piece) == 0) {
        assert_true(command_now() < end && n < sizeof seen);
        ssize_t got = read(fd, seen + n, sizeof seen - n);
        assert_true(got > 0);
        n += (size_t)got;
    }
}

/* PE 0 may read the terminal, although its group is not the one that the terminal began with; ^C then reaches the PEs.
 */
static void test_terminal(void **state)
{
    (void)state;
    int terminal;
    pid_t pid = forkpty(&terminal, NULL, NULL, NULL);
    assert_true(pid >= 0);
    if (pid == 0) {
        execl(tool, tool, "-n", "8", "sh", "-c",
              "[ $FERRY_RANK = 0 ] || exec sleep 1000; read a; echo got=$a; exec sleep 1000", (char *)NULL);
        _exit(125);
    }
    alarm((unsigned)DEADLINE); /* a read of the terminal has no deadline of its own */
    assert_int_equal(write(terminal, "word\n", 5), 5);
    await_on_terminal(terminal, "got=word");
    assert_int_equal(write(terminal, "\003", 1), 1);
    await_on_terminal(terminal, "pe 1");
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    alarm(0);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 128 + SIGINT);
    close(terminal);
}

int main(void)
{
    tool = getenv("TOOLS_RUN");
    standin = getenv("TOOLS_STANDIN");
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_usage_errors),
                                       cmocka_unit_test(test_options_of_the_program),
                                       cmocka_unit_test(test_program_that_cannot_start),
                                       cmocka_unit_test(test_status_zero),
                                       cmocka_unit_test(test_status_of_the_first),
                                       cmocka_unit_test(test_killed),
                                       cmocka_unit_test(test_killed_counts_first),
                                       cmocka_unit_test(test_survivors_end_by_themselves),
                                       cmocka_unit_test(test_term_after_grace),
                                       cmocka_unit_test(test_kill_after_term),
                                       cmocka_unit_test(test_timeout),
                                       cmocka_unit_test(test_signals_are_passed_on),
                                       cmocka_unit_test(test_signal_status),
                                       cmocka_unit_test(test_stop_and_go_on),
                                       cmocka_unit_test(test_killed_launcher_leaves_nothing),
                                       cmocka_unit_test(test_failure_ends_grandchildren),
                                       cmocka_unit_test(test_leftovers),
                                       cmocka_unit_test(test_leftover_sessions),
                                       cmocka_unit_test(test_own_group),
                                       cmocka_unit_test(test_terminal)};
    return tool && standin ? cmocka_run_group_tests(tests, NULL, NULL) : 1;
}
