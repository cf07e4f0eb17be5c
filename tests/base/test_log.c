/* SPDX-License-Identifier: Apache-2.0
 * Log lines (levels, sink, prefix, one write per line), error records, status names. */
#include "base/log.h"
#include "cmocka_headers.h"
#include <errno.h>
#include <ferry/ferry.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

struct sink {
    int n, level;
    char line[8192];
};

static void collect(void *arg, int level, const char *line)
{
    struct sink *sink = arg;

    errno = EIO; /* whatever the sink does */
    sink->n++;
    sink->level = level;
    snprintf(sink->line, sizeof(sink->line), "%s", line);
}

static void test_defaults(void **state)
{
    struct fy_log log;

    (void)state;
    memset(&log, 0xff, sizeof(log));
    fy_log_init(&log);
    assert_int_equal(log.level, FERRY_LOG_WARN);
    assert_int_equal(log.pe, -1);
    assert_null(log.sink);
}

static void test_levels(void **state)
{
    static const char *const names[] = {"error", "warning", "info", "debug", "trace"};
    struct sink sink = {0};
    struct fy_log log = {.pe = 3, .sink = collect, .sink_arg = &sink};
    char expected[64];

    (void)state;
    for (log.level = FERRY_LOG_ERROR; log.level <= FERRY_LOG_TRACE; log.level++) {
        for (int level = FERRY_LOG_ERROR; level <= FERRY_LOG_TRACE; level++) {
            sink.n = 0;
            fy_log(&log, level, "level %d", level);
            assert_int_equal(sink.n, level <= log.level);
            if (sink.n == 0)
                continue;
            snprintf(expected, sizeof(expected), "ferry [pe 3] %s: level %d", names[level], level);
            assert_string_equal(sink.line, expected);
            assert_int_equal(sink.level, level);
        }
    }
    sink.n = 0;
    fy_log(&log, -3, "odd"); /* a plugin's mistake: shown, not lost */
    assert_string_equal(sink.line, "ferry [pe 3] error: odd");
    fy_log(NULL, FERRY_LOG_ERROR, "to nobody");
    assert_int_equal(sink.n, 1);
}

static void test_text(void **state)
{
    struct sink sink = {0};
    struct fy_log log = {.level = FERRY_LOG_INFO, .pe = -1, .sink = collect, .sink_arg = &sink};
    static char longest[20000];

    (void)state;
    fy_log(&log, FERRY_LOG_INFO, "esc \x1b[2J tab\t del\x7f utf-8 \xc2\xb5s");
    assert_string_equal(sink.line, "ferry info: esc ?[2J tab? del? utf-8 \xc2\xb5s");
    sink.n = 0;
    fy_log(&log, FERRY_LOG_INFO, "one\ntwo\n");
    assert_int_equal(sink.n, 2);
    assert_string_equal(sink.line, "ferry info: two");
    fy_log(&log, FERRY_LOG_INFO, "%s", "");
    assert_string_equal(sink.line, "ferry info: ");
    memset(longest, 'y', sizeof(longest) - 1);
    fy_log(&log, FERRY_LOG_INFO, "%s", longest);
    assert_int_equal(strlen(sink.line), strlen("ferry info: ") + 4095);
    assert_string_equal(sink.line + strlen(sink.line) - 5, "yy...");
    errno = ENOSPC;
    fy_log(&log, FERRY_LOG_INFO, "why: %m");
    assert_int_equal(errno, ENOSPC);
    assert_string_equal(sink.line, "ferry info: why: No space left on device");
}

/* ---- stderr: replaced by a socket that keeps the border of every write */

#define THREADS 8
#define LINES   200

struct stderr_swap {
    int saved, reader;
};

static void swap_in(struct stderr_swap *swap)
{
    int pair[2];

    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair), 0);
    swap->saved = dup(STDERR_FILENO);
    swap->reader = pair[0];
    assert_true(dup2(pair[1], STDERR_FILENO) >= 0);
    close(pair[1]);
}

static void swap_out(struct stderr_swap *swap)
{
    dup2(swap->saved, STDERR_FILENO);
    close(swap->saved);
    close(swap->reader);
}

static ssize_t next_write(const struct stderr_swap *swap, char *out, size_t size)
{
    struct pollfd poll_for = {.fd = swap->reader, .events = POLLIN};
    ssize_t n;

    if (poll(&poll_for, 1, 10000) != 1)
        return -1;
    n = recv(swap->reader, out, size - 1, 0);
    if (n >= 0)
        out[n] = '\0';
    return n;
}

static void test_stderr(void **state)
{
    struct fy_log log;
    struct stderr_swap swap;
    char first[256] = "", second[256] = "";

    (void)state;
    fy_log_init(&log);
    swap_in(&swap);
    fy_log(&log, FERRY_LOG_WARN, "the %s", "sea");
    log.pe = 12;
    fy_log(&log, FERRY_LOG_INFO, "too quiet");
    fy_log(&log, FERRY_LOG_ERROR, "no port");
    next_write(&swap, first, sizeof(first));
    next_write(&swap, second, sizeof(second));
    swap_out(&swap);
    assert_string_equal(first, "ferry warning: the sea\n");
    assert_string_equal(second, "ferry [pe 12] error: no port\n");
}

static void *log_many(void *arg)
{
    const struct fy_log *log = arg;

    for (int i = 0; i < LINES; i++)
        fy_log(log, FERRY_LOG_WARN, "line %d of several words and %s", i, "a tail");
    return NULL;
}

static void test_one_write_per_line(void **state)
{
    struct fy_log logs[THREADS];
    pthread_t threads[THREADS];
    struct stderr_swap swap;
    char line[512];
    int whole = 0, seen[THREADS] = {0};

    (void)state;
    swap_in(&swap);
    for (int i = 0; i < THREADS; i++) {
        fy_log_init(&logs[i]);
        logs[i].pe = i;
        pthread_create(&threads[i], NULL, log_many, &logs[i]);
    }
    for (int i = 0; i < THREADS * LINES; i++) {
        int pe = -1, number = -1, end = 0;

        if (next_write(&swap, line, sizeof(line)) <= 0)
            break;
        sscanf(line, "ferry [pe %d] warning: line %d of several words and a tail\n%n", &pe, &number, &end);
        if (end == (int)strlen(line) && pe >= 0 && pe < THREADS && number == seen[pe]) {
            seen[pe]++;
            whole++;
        }
    }
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    swap_out(&swap);
    assert_int_equal(whole, THREADS * LINES);
}

/* ---- records */

static void test_error_set(void **state)
{
    struct ferry_error error;
    char longest[1000];

    (void)state;
    memset(&error, 0xff, sizeof(error));
    errno = EACCES;
    fy_error_set(&error, FERRY_ERR_SYSTEM, "run as root", "file %s: %m", "x");
    assert_int_equal(errno, EACCES);
    assert_int_equal(error.size, sizeof(error));
    assert_int_equal(error.status, FERRY_ERR_SYSTEM);
    assert_int_equal(error.peer, -1);
    assert_int_equal(error.channel, -1);
    assert_int_equal(error.operation, -1);
    assert_int_equal(error.vendor, 0);
    assert_int_equal(error.library_status, 0);
    assert_string_equal(error.device, "");
    assert_string_equal(error.message, "file x: Permission denied");
    assert_string_equal(error.hint, "run as root");
    memset(longest, 'z', sizeof(longest) - 1);
    longest[sizeof(longest) - 1] = '\0';
    fy_error_set(&error, FERRY_ERR_ARG, longest, "two\nlines\n%s", longest);
    assert_int_equal(strlen(error.message), sizeof(error.message) - 1);
    assert_int_equal(strlen(error.hint), sizeof(error.hint) - 1);
    assert_memory_equal(error.message, "two lines zzz", 13);
    fy_error_set(&error, FERRY_ERR_ARG, NULL, "plain");
    assert_string_equal(error.hint, "");
    fy_error_set(NULL, FERRY_ERR_ARG, NULL, "for nobody");
}

static void test_status_names(void **state)
{
    int named = 0;

    (void)state;
    assert_string_equal(ferry_status_string(FERRY_OK), "FERRY_OK");
    assert_string_equal(ferry_status_string(FERRY_AGAIN), "FERRY_AGAIN");
    assert_string_equal(ferry_status_string(FERRY_DONE), "FERRY_DONE");
    assert_string_equal(ferry_status_string(FERRY_ERR_ARG), "FERRY_ERR_ARG");
    assert_string_equal(ferry_status_string(FERRY_ERR_PEER), "FERRY_ERR_PEER");
    assert_string_equal(ferry_status_string(FERRY_ERR_BOOTSTRAP), "FERRY_ERR_BOOTSTRAP");
    assert_string_equal(ferry_status_string(4711), "unknown status");
    for (int a = -100; a < 0; a++) {
        if (strncmp(ferry_status_string(a), "FERRY_ERR_", 10) != 0)
            continue;
        named++;
        for (int b = -100; b < a; b++)
            assert_string_not_equal(ferry_status_string(a), ferry_status_string(b));
    }
    assert_int_equal(named, 18);
    assert_int_equal(FERRY_STATUS_GROUP(FERRY_ERR_NOT_FOUND), 0);
    assert_int_equal(FERRY_STATUS_GROUP(FERRY_ERR_SYSTEM), 1);
    assert_int_equal(FERRY_STATUS_GROUP(FERRY_ERR_ACCESS), 2);
    assert_int_equal(FERRY_STATUS_GROUP(FERRY_ERR_ABI), 3);
    assert_int_equal(FERRY_STATUS_GROUP(FERRY_ERR_BOOTSTRAP), 4);
}

static void test_version(void **state)
{
    char version[32];

    (void)state;
    snprintf(version, sizeof(version), "%d.%d.%d", FERRY_VERSION_MAJOR, FERRY_VERSION_MINOR, FERRY_VERSION_PATCH);
    assert_string_equal(ferry_version(), version);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_defaults),
        cmocka_unit_test(test_levels),
        cmocka_unit_test(test_text),
        cmocka_unit_test(test_stderr),
        cmocka_unit_test(test_one_write_per_line),
        cmocka_unit_test(test_error_set),
        cmocka_unit_test(test_status_names),
        cmocka_unit_test(test_version),
    };

    return cmocka_run_group_tests_name("base log", tests, NULL, NULL);
}
