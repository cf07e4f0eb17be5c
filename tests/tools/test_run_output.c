/* SPDX-License-Identifier: Apache-2.0
 * ferry-run: what children are given, and what becomes of their output. */
#include "command.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <cmocka.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static const char *tool, *standin;

/* KiB; sanitizers need more of it. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
static const char small_stack[] = "1024";
#else
static const char small_stack[] = "64";
#endif

static void test_environment(void **state)
{
    (void)state;
    struct command c = {0};
    const char *const settings[] = {"FERRY_RANK=77", "FERRY_SIZE=88", "FERRY_ID=old", NULL};
    c.settings = settings;
    assert_int_equal(
        command_run(&c, ARGS(tool, "-n", "3", "--", "sh", "-c",
                             "echo \"$FERRY_RANK of $FERRY_SIZE\"; echo id=$FERRY_ID; env | grep -c ^FERRY_")),
        0);
    assert_int_equal(count_pieces(c.text, c.length, "0 of 3\n"), 1);
    assert_int_equal(count_pieces(c.text, c.length, "1 of 3\n"), 1);
    assert_int_equal(count_pieces(c.text, c.length, "2 of 3\n"), 1);
    assert_int_equal(count_pieces(c.text, c.length, "3\n") - count_pieces(c.text, c.length, "of 3\n"), 3);
    /* the same id for all, and one that can be read */
    char id[512];
    assert_int_equal(sscanf(strstr(c.text, "id="), "%511s", id), 1);
    assert_true(strlen(id) == 3 + 256 && strspn(id + 3, "0123456789abcdef") == 256);
    assert_int_equal(count_pieces(c.text, c.length, id), 3);
    command_release(&c);
}

/* Whole file, 0-terminated pieces and all. */
static size_t read_proc(pid_t pid, const char *what, char *out, size_t size)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/%s", (int)pid, what);
    int fd = open(path, O_RDONLY);
    ssize_t n = fd < 0 ? -1 : read(fd, out, size);
    assert_true(n >= 0);
    close(fd);
    return (size_t)n;
}

static void test_id_is_only_in_children(void **state)
{
    (void)state;
    char seen[65536], id[600];
    struct command c = {0};
    command_start(&c, ARGS(tool, "-n", "1", "--", "sh", "-c", "echo \"id=$FERRY_ID\"; exec sleep 100"));
    command_await(&c, "\n", 1);
    assert_int_equal(sscanf(c.text, "id=%511s", id), 1);
    size_t n = read_proc(c.pid, "environ", seen, sizeof seen);
    assert_int_equal(count_pieces(seen, n, id), 0);
    assert_int_equal(count_pieces(seen, n, "FERRY_ID"), 0);
    n = read_proc(c.pid, "cmdline", seen, sizeof seen);
    assert_int_equal(count_pieces(seen, n, id), 0);
    kill(c.pid, SIGTERM);
    command_finish(&c);
    assert_int_equal(c.status, 128 + SIGTERM);
    assert_int_equal(count_pieces(c.error_text, c.error_length, id), 0);
    command_release(&c);
}

/* Checks that `text` is made of whole standin lines, each PE's in order and complete. */
static void check_lines(const char *text, size_t length, int n_pes, unsigned long count, unsigned long payload)
{
    unsigned long *next = calloc((size_t)n_pes, sizeof *next);
    const char *at = text;
    assert_non_null(next);
    while (at < text + length) {
        char *end;
        long rank = strtol(at, &end, 10);
        unsigned long index = strtoul(end, &end, 10);
        assert_true(rank >= 0 && rank < n_pes && *end == ' ');
        assert_int_equal(index, next[rank]);
        next[rank]++;
        end++;
        assert_true((size_t)(text + length - end) > payload);
        for (unsigned long k = 0; k < payload; k++)
            if (end[k] != (char)('a' + ((unsigned long)rank + index + k) % 26))
                fail_msg("byte %lu of line %lu of pe %ld is wrong", k, index, rank);
        assert_int_equal(end[payload], '\n');
        at = end + payload + 1;
    }
    for (int i = 0; i < n_pes; i++)
        assert_int_equal(next[i], count);
    free(next);
}

static void test_lines_stay_whole(void **state)
{
    (void)state;
    struct command c = {0};
    assert_int_equal(command_run(&c, ARGS(tool, "-n", "16", standin, "lines", "300", "90", "37")), 0);
    check_lines(c.text, c.length, 16, 300, 90);
    assert_int_equal(c.error_length, 0);
    command_release(&c);
}

static void test_much_from_64(void **state)
{
    (void)state;
    struct command c = {0};
    assert_int_equal(command_run(&c, ARGS(tool, "-n", "64", standin, "lines", "5000", "60", "65536")), 0);
    check_lines(c.text, c.length, 64, 5000, 60);
    command_release(&c);
}

static void test_long_lines(void **state)
{
    (void)state;
    struct command c = {0};
    assert_int_equal(command_run(&c, ARGS(tool, "-n", "4", standin, "lines", "2", "5000000", "70001")), 0);
    check_lines(c.text, c.length, 4, 2, 5000000);
    command_release(&c);
}

static void test_bytes_unchanged(void **state)
{
    (void)state;
    struct command direct = {0}, c = {0};
    assert_int_equal(command_run(&direct, ARGS(standin, "binary")), 0);
    assert_int_equal(direct.length, 1024);
    assert_int_equal(command_run(&c, ARGS(tool, "-n", "1", standin, "binary")), 0);
    assert_int_equal(c.length, direct.length);
    assert_memory_equal(c.text, direct.text, c.length);
    command_release(&direct);
    command_release(&c);
}

static void test_last_line_without_newline(void **state)
{
    (void)state;
    struct command c = {0};
    assert_int_equal(command_run(&c, ARGS(tool, "sh", "-c", "printf 'one\\ntwo'")), 0);
    assert_string_equal(c.text, "one\ntwo");
    command_release(&c);
    /* Lines of several PEs are not glued together. */
    assert_int_equal(command_run(&c, ARGS(tool, "-n", "3", "sh", "-c", "printf end")), 0);
    assert_string_equal(c.text, "end\nend\nend");
    command_release(&c);
}

static void test_tags(void **state)
{
    (void)state;
    struct command c = {0};
    const char *script = "echo out $FERRY_RANK; echo err $FERRY_RANK >&2; printf last >&2";
    assert_int_equal(command_run(&c, ARGS(tool, "-n", "2", "sh", "-c", script)), 0);
    assert_int_equal(c.length, 12);
    assert_int_equal(count_pieces(c.text, c.length, "[") + count_pieces(c.text, c.length, "]"), 0);
    assert_int_equal(count_pieces(c.error_text, c.error_length, "[0] err 0\n"), 1);
    assert_int_equal(count_pieces(c.error_text, c.error_length, "[1] err 1\n"), 1);
    assert_int_equal(count_pieces(c.error_text, c.error_length, "[0] last"), 1);
    assert_int_equal(count_pieces(c.error_text, c.error_length, "[1] last"), 1);
    command_release(&c);

    assert_int_equal(command_run(&c, ARGS(tool, "-n", "2", "--prefix", "sh", "-c", script)), 0);
    assert_int_equal(count_pieces(c.text, c.length, "[0] out 0\n"), 1);
    assert_int_equal(count_pieces(c.text, c.length, "[1] out 1\n"), 1);
    assert_int_equal(c.length, 20);
    command_release(&c);
}

/* With 2>&1 a line of one stream never lands inside a line of the other. */
static void test_both_in_one_file(void **state)
{
    (void)state;
    struct command c = {.err_to_out = true};
    const char *script = "i=0; while [ $i -lt 300 ]; do printf 'out-'; printf 'err-' >&2; echo put; echo or >&2; "
                         "i=$((i+1)); done";
    assert_int_equal(command_run(&c, ARGS(tool, "-n", "4", "sh", "-c", script)), 0);
    assert_int_equal(count_pieces(c.text, c.length, "out-put\n"), 1200);
    assert_int_equal(count_pieces(c.text, c.length, "] err-or\n"), 1200);
    command_release(&c);
}

static void test_stdin_is_for_rank_0(void **state)
{
    (void)state;
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    assert_int_equal(write(ends[1], "hello\nthere", 11), 11);
    close(ends[1]);
    struct command c = {.in_fd = ends[0]};
    assert_int_equal(command_run(&c, ARGS(tool, "-n", "3", "--prefix", "cat")), 0);
    assert_string_equal(c.text, "[0] hello\n[0] there");
    close(ends[0]);
    command_release(&c);
}

/* Nobody reads any more: the job ends, as a single process would, and one line says why. */
static void test_reader_leaves(void **state)
{
    (void)state;
    int ends[2];
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    close(ends[0]);
    struct command c = {.out_fd = ends[1]};
    assert_int_equal(command_run(&c, ARGS(tool, "-n", "4", "yes")), 141);
    assert_string_equal(c.error_text, "ferry-run: nobody reads standard output any more: ending 4 of 4 PEs\n");
    command_release(&c);
    /* One that takes no notice of SIGTERM. */
    c.out_fd = ends[1];
    assert_int_equal(command_run(&c, ARGS(tool, "-n", "1", "sh", "-c", "trap '' TERM; exec yes")), 141);
    assert_int_equal(count_pieces(c.error_text, c.error_length, "1 of 1 PEs did not end on SIGTERM: killing"), 1);
    close(ends[1]);
    command_release(&c);
}

/* The same for standard error alone: the job goes on. */
static void test_reader_of_errors_leaves(void **state)
{
    (void)state;
    int ends[2];
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    close(ends[0]);
    struct command c = {.err_fd = ends[1]};
    assert_int_equal(command_run(&c, ARGS(tool, "-n", "2", "sh", "-c", "yes | head -c 100000 >&2; echo done")), 0);
    assert_string_equal(c.text, "done\ndone\n");
    close(ends[1]);
    command_release(&c);
}

/* With little stack, which programs of many threads are given. */
static void test_small_stack(void **state)
{
    (void)state;
    struct command c = {0};
    assert_int_equal(
        command_run(&c, ARGS("/bin/sh", "-c", "ulimit -s $1; exec \"$0\" -n 2 echo hi", tool, small_stack)), 0);
    assert_string_equal(c.text, "hi\nhi\n");
    command_release(&c);
}

static void test_closed_stdout(void **state)
{
    (void)state;
    struct command c = {.out_fd = -1};
    assert_int_equal(command_run(&c, ARGS(tool, "-n", "4", "--", "sh", "-c", "yes | head -c 1000000; echo done >&2")),
                     0);
    assert_int_equal(count_pieces(c.error_text, c.error_length, "] done\n"), 4);
    command_release(&c);
}

static void test_full_disk_is_an_error(void **state)
{
    (void)state;
    struct command c = {.out_fd = open("/dev/full", O_WRONLY | O_CLOEXEC)};
    int full = c.out_fd;
    if (full < 0)
        skip();
    assert_int_equal(command_run(&c, ARGS(tool, "-n", "2", "echo", "hi")), 74);
    assert_int_equal(count_pieces(c.error_text, c.error_length, "cannot write to standard output (No space"), 1);
    close(full);
    command_release(&c);
}

static void await_error(const struct command *c, const char *piece, size_t count)
{
    double end = command_now() + DEADLINE;
    char seen[8192];
    for (;;) {
        ssize_t n = pread(c->err, seen, sizeof seen, 0);
        assert_true(n >= 0);
        if (count_pieces(seen, (size_t)n, piece) >= count)
            return;
        if (command_now() > end)
            fail_msg("no %zu times '%s' in:\n%.*s", count, piece, (int)n, seen);
        command_pause();
    }
}

/* The reader pauses: nothing is lost, and signals are still passed on meanwhile. */
static void test_slow_reader(void **state)
{
    (void)state;
    int ends[2];
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    struct command c = {.out_fd = ends[1]};
    command_start(&c, ARGS(tool, "-n", "8", "--", "sh", "-c", "echo ready >&2; exec yes"));
    close(ends[1]);
    await_error(&c, "ready\n", 8);
    char byte;
    assert_int_equal(read(ends[0], &byte, 1), 1);
    kill(c.pid, SIGTERM);
    await_error(&c, "was killed by signal 15", 8);
    /* Output is waiting and nobody reads: a second signal means it. */
    double end = command_now() + DEADLINE;
    while (waitpid(c.pid, &c.status, WNOHANG) == 0) {
        assert_true(command_now() < end);
        kill(c.pid, SIGTERM);
        command_pause();
    }
    c.pid = 0;
    assert_true(WIFEXITED(c.status) && WEXITSTATUS(c.status) == 128 + SIGTERM);
    close(ends[0]);
    command_release(&c);
}

static void test_few_files_allowed(void **state)
{
    (void)state;
    struct command c = {.soft_files = 100};
    assert_int_equal(command_run(&c, ARGS(tool, "-n", "100", "sh", "-c", "ulimit -Sn")), 0);
    assert_int_equal(count_pieces(c.text, c.length, "100\n"), 100);
    command_release(&c);
}

int main(void)
{
    tool = getenv("TOOLS_RUN");
    standin = getenv("TOOLS_STANDIN");
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_environment),
                                       cmocka_unit_test(test_id_is_only_in_children),
                                       cmocka_unit_test(test_lines_stay_whole),
                                       cmocka_unit_test(test_much_from_64),
                                       cmocka_unit_test(test_long_lines),
                                       cmocka_unit_test(test_bytes_unchanged),
                                       cmocka_unit_test(test_last_line_without_newline),
                                       cmocka_unit_test(test_tags),
                                       cmocka_unit_test(test_both_in_one_file),
                                       cmocka_unit_test(test_stdin_is_for_rank_0),
                                       cmocka_unit_test(test_reader_leaves),
                                       cmocka_unit_test(test_reader_of_errors_leaves),
                                       cmocka_unit_test(test_small_stack),
                                       cmocka_unit_test(test_closed_stdout),
                                       cmocka_unit_test(test_full_disk_is_an_error),
                                       cmocka_unit_test(test_slow_reader),
                                       cmocka_unit_test(test_few_files_allowed)};
    return tool && standin ? cmocka_run_group_tests(tests, NULL, NULL) : 1;
}
