/* SPDX-License-Identifier: Apache-2.0
 * ferry-top over jobs that work, hang and die, and over pages that make no sense. Other jobs may run on this machine: each test
 * looks at its own processes only. */
#include "command.h"

#include <ferry/page.h>
#include <jansson.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <cmocka.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define LATE 200.0 /* seconds until a test gives up; what it waits for takes a hundredth of it */

static const char *top, *run, *hang;
static char stop_file[64];

/* The first JSON object that the tool prints. */
static json_t *object(const char *const *argv, int expected)
{
    struct command c = {0};
    json_error_t error;
    int status = command_run(&c, argv);
    if (status != expected)
        fail_msg("status %d: %.*s %.*s", status, (int)c.length, c.text, (int)c.error_length, c.error_text);
    json_t *all = json_loadb(c.text, c.length, JSON_DISABLE_EOF_CHECK, &error);
    if (!all)
        fail_msg("%s in %.*s", error.text, (int)c.length, c.text);
    command_release(&c);
    return all;
}

static pid_t parent_of(pid_t pid)
{
    char path[64], text[512];
    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    FILE *file = fopen(path, "re");
    size_t n = file ? fread(text, 1, sizeof text - 1, file) : 0;
    if (file)
        fclose(file);
    text[n] = '\0';
    const char *end = strrchr(text, ')');
    return end ? (pid_t)strtol(end + 4, NULL, 10) : -1; /* it has ended */
}

/* What a reading says of a PE of the job that this ferry-run has started; NULL: nothing. Borrowed. */
static json_t *pe_of(const json_t *reading, pid_t job, int pe)
{
    size_t i, k;
    json_t *one, *entry;
    json_array_foreach(json_object_get(reading, "jobs"), i, one)
        json_array_foreach(json_object_get(one, "pes"), k, entry)
            if (json_integer_value(json_object_get(entry, "pe")) == pe &&
                parent_of((pid_t)json_integer_value(json_object_get(entry, "pid"))) == job)
                return entry;
    return NULL;
}

static json_t *reading(void)
{
    return object(ARGS(top, "--once", "--json", "--interval", "0.2"), 0);
}

static pid_t pid_of(const struct command *job, int pe)
{
    json_t *all = reading(), *entry = pe_of(all, job->pid, pe);
    assert_non_null(entry);
    pid_t pid = (pid_t)json_integer_value(json_object_get(entry, "pid"));
    json_decref(all);
    return pid;
}

static void begin(struct command *job, const char *pes, const char *how)
{
    unlink(stop_file);
    command_start(job, ARGS(run, "-n", pes, hang, how, stop_file));
    command_await(job, "ready\n", (size_t)atoi(pes));
}

static void let_end(void)
{
    FILE *file = fopen(stop_file, "we");
    assert_non_null(file);
    fclose(file);
}

/* The channel with puts, of which there is one. */
static json_t *putting(json_t *entry)
{
    size_t i;
    json_t *channel;
    json_array_foreach(json_object_get(entry, "channels"), i, channel)
        if (json_integer_value(json_object_get(json_object_get(channel, "totals"), "puts")) > 0)
            return channel;
    return NULL;
}

static double number(const json_t *object_, const char *part, const char *name)
{
    return json_number_value(json_object_get(json_object_get(object_, part), name));
}

/* Each number of the page is what the program did; rates follow from two readings and the time between them. */
static void test_rates(void **state)
{
    (void)state;
    struct command job = {0};
    double deadline = command_now() + LATE;
    bool seen = false;
    begin(&job, "2", "puts");
    while (!seen && command_now() < deadline) {
        json_t *all = reading(), *entry = pe_of(all, job.pid, 0), *channel = entry ? putting(entry) : NULL;
        double rate = channel ? number(channel, "per_second", "puts") : 0, bytes = channel ? number(channel, "per_second", "bytes_put") : 0;
        seen = rate > 0;
        if (seen) {
            double seconds = json_number_value(json_object_get(entry, "seconds")), total = number(channel, "totals", "puts");
            assert_true(seconds >= 0.2);
            assert_true(rate * seconds <= total * 1.0001);                 /* no more than there were altogether */
            assert_true(bytes > 63.9 * rate && bytes < 64.1 * rate);       /* 64 each; a put may lie between two words */
            assert_true(number(channel, "per_second", "operations") >= rate * 0.9999);
            assert_string_equal(json_string_value(json_object_get(entry, "transports")), "loopback");
            assert_string_equal(json_string_value(json_object_get(entry, "program")), "hang");
        }
        json_decref(all);
    }
    assert_true(seen);
    let_end();
    command_finish(&job);
    assert_int_equal(job.status, 0);
    command_release(&job);
}

/* The counters are exact, once nothing moves. */
static void test_exact(void **state)
{
    (void)state;
    struct command job = {0};
    double deadline = command_now() + LATE;
    bool seen = false;
    begin(&job, "2", "count");
    while (!seen && command_now() < deadline) {
        json_t *all = reading(), *entry = pe_of(all, job.pid, 0), *channel = entry ? putting(entry) : NULL;
        seen = channel && number(channel, "totals", "puts") == 100000 && number(channel, "totals", "bytes_put") == 6400000 &&
               number(channel, "totals", "gets") == 1000 && number(channel, "totals", "bytes_got") == 8000;
        json_decref(all);
    }
    assert_true(seen);
    let_end();
    command_finish(&job);
    assert_int_equal(job.status, 0);
    command_release(&job);
}

static void number_text(char *out, size_t size, pid_t pid)
{
    snprintf(out, size, "%d", (int)pid);
}

/* Reports until one has the culprit: on a busy machine a PE may not be in its wait yet. */
static void await_culprit(pid_t asked, int culprit, const char *why)
{
    char pid[16];
    double deadline = command_now() + LATE;
    json_int_t found = -2;
    number_text(pid, sizeof pid, asked);
    while (found != culprit && command_now() < deadline) {
        json_t *report = object(ARGS(top, "--dump", pid, "--json"), 0);
        json_t *who = json_object_get(report, "culprit");
        assert_non_null(who);
        found = json_is_integer(who) ? json_integer_value(who) : -1;
        if (found == culprit && !strstr(json_string_value(json_object_get(report, "why")), why))
            fail_msg("why: %s", json_string_value(json_object_get(report, "why")));
        assert_int_equal(json_array_size(json_object_get(report, "pes")), json_integer_value(json_object_get(report, "n_pes")));
        json_decref(report);
    }
    assert_int_equal(found, culprit);
}

/* A report is written in pieces: until both are there. */
static void await_said(const struct command *job, const char *words, const char *more)
{
    double deadline = command_now() + LATE;
    char said[65536] = "";
    while (!(strstr(said, words) && strstr(said, more)) && command_now() < deadline) {
        ssize_t n = pread(job->err, said, sizeof said - 1, 0);
        said[n > 0 ? n : 0] = '\0';
        command_pause();
    }
    assert_non_null(strstr(said, words));
    assert_non_null(strstr(said, more));
}

static void await_stopped(pid_t pid)
{
    double deadline = command_now() + LATE;
    while (process_state(pid) != 'T' && command_now() < deadline)
        command_pause();
    assert_int_equal(process_state(pid), 'T');
}

/* Also when the one that is asked is the one that is stopped. Then ferry-run asks, as SIGUSR1 has it do. */
static void test_stopped(void **state)
{
    (void)state;
    struct command job = {.settings = ARGS("FERRY_PEER_TIMEOUT=0")};
    begin(&job, "3", "barrier");
    pid_t stopped = pid_of(&job, 2);
    await_stopped(stopped);
    await_culprit(stopped, 2, "does not answer");
    await_culprit(job.pid, 2, "does not answer"); /* what the process has started */
    kill(job.pid, SIGUSR1);
    await_said(&job, "culprit: pe 2: ", "pe 2: does not answer\n");
    kill(stopped, SIGCONT);
    command_finish(&job);
    assert_int_equal(job.status, 0);
    command_release(&job);
}

/* It is not known whom the others wait for; but one does not wait. */
static void test_busy(void **state)
{
    (void)state;
    struct command job = {0};
    begin(&job, "3", "busy");
    await_culprit(pid_of(&job, 0), 1, "in no call of ferry that waits");
    let_end();
    command_finish(&job);
    assert_int_equal(job.status, 0);
    command_release(&job);
}

/* FERRY_STALL_SECONDS: told once, by one PE, and the job goes on. */
static void test_stall(void **state)
{
    (void)state;
    struct command job = {.settings = ARGS("FERRY_STALL_SECONDS=0.3")};
    begin(&job, "3", "busy");
    await_said(&job, "waits for more than 0.3 s (FERRY_STALL_SECONDS)", "culprit: pe 1: ");
    await_said(&job, "\"culprit\":1", "");
    let_end();
    command_finish(&job);
    assert_int_equal(job.status, 0);
    command_release(&job);
}

/* A page is gone with its process, however that ends; and who does not want to be seen is not. */
static void test_gone(void **state)
{
    (void)state;
    struct command job = {0}, hidden = {.settings = ARGS("FERRY_COUNTERS_PAGE=no")};
    begin(&job, "2", "busy");
    pid_t pid = pid_of(&job, 1), launcher = job.pid;
    char text[16];
    kill(pid, SIGKILL);
    command_finish(&job);
    json_t *all = reading();
    assert_null(pe_of(all, launcher, 0));
    assert_null(pe_of(all, launcher, 1));
    json_decref(all);
    command_release(&job);

    struct command asked = {0};
    number_text(text, sizeof text, getpid());
    assert_int_equal(command_run(&asked, ARGS(top, "--dump", text)), 69);
    assert_int_equal(count_pieces(asked.error_text, asked.error_length, "is no PE of a job"), 1);
    command_release(&asked);

    begin(&hidden, "2", "busy");
    all = reading();
    assert_null(pe_of(all, hidden.pid, 0));
    json_decref(all);
    let_end();
    command_finish(&hidden);
    assert_int_equal(hidden.status, 0);
    command_release(&hidden);
}

static int page_file(const void *bytes, size_t size)
{
    int fd = memfd_create(FERRY_PAGE_NAME, MFD_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, bytes, size), (ssize_t)size);
    return fd;
}

static struct ferry_page plausible(void)
{
    return (struct ferry_page){.magic = FERRY_PAGE_MAGIC, .layout = FERRY_PAGE_LAYOUT, .size = sizeof(struct ferry_page),
                               .pid = (uint32_t)getpid(), .n_pes = 1, .n_channels = 1, .channels_at = sizeof(struct ferry_page),
                               .channel_stride = sizeof(struct ferry_page_channel), .report_at = sizeof(struct ferry_page)};
}

/* Does the reading have a PE of this very process? */
static size_t seen_here(void)
{
    size_t i, k, n = 0;
    json_t *all = reading(), *one, *entry;
    json_array_foreach(json_object_get(all, "jobs"), i, one)
        json_array_foreach(json_object_get(one, "pes"), k, entry)
            n += json_integer_value(json_object_get(entry, "pid")) == getpid();
    json_decref(all);
    return n;
}

/* Pages that make no sense are left out; one that makes some is shown, whatever its words and numbers are. */
static void test_garbage(void **state)
{
    (void)state;
    int fds[64];
    size_t n = 0;
    char noise[20000];
    unsigned seed = 1;
    for (size_t i = 0; i < sizeof noise; i++)
        noise[i] = (char)((seed = seed * 1103515245u + 12345u) >> 16);
    fds[n++] = page_file("", 0);
    fds[n++] = page_file(noise, 100);
    fds[n++] = page_file(noise, sizeof noise);
    struct ferry_page bad[8];
    for (size_t i = 0; i < 8; i++)
        bad[i] = plausible();
    bad[0].channels_at = UINT64_MAX - 3;
    bad[1].channel_stride = 0;
    bad[2].channel_stride = UINT64_MAX / 2;
    bad[3].n_channels = UINT32_MAX;
    bad[4].pe = 7;
    bad[5].report_at = 10, bad[5].report_room = UINT64_MAX;
    bad[6].layout = 99;
    bad[7].pid = 1;
    for (size_t i = 0; i < 8; i++) {
        char file[sizeof(struct ferry_page) + sizeof(struct ferry_page_channel)] = {0};
        memcpy(file, &bad[i], sizeof bad[i]);
        fds[n++] = page_file(file, sizeof file);
    }
    assert_int_equal(seen_here(), 0);

    struct {
        struct ferry_page head;
        struct ferry_page_channel channel;
    } odd;
    memset(&odd, 0xff, sizeof odd);
    odd.head = plausible();
    odd.head.job = UINT64_MAX;
    memset(odd.head.transports, 0xfe, sizeof odd.head.transports);
    memset(odd.head.waits, 0xff, sizeof odd.head.waits);
    odd.head.waits[0].state = 2;
    fds[n++] = page_file(&odd, sizeof odd);
    assert_int_equal(seen_here(), 1);
    struct command table = {0};
    assert_int_equal(command_run(&table, ARGS(top, "--once", "--interval", "0.05")), 0);
    command_release(&table);
    while (n > 0)
        close(fds[--n]);
}

static void test_full_disk_is_an_error(void **state)
{
    (void)state;
    const char *const *const calls[] = {ARGS(top, "--once", "--interval", "0.1"), ARGS(top, "--once", "--interval", "0.1", "--json"),
                                        ARGS(top, "--interval", "0.1", "--json")};
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
        struct command c = {.out_fd = open("/dev/full", O_WRONLY | O_CLOEXEC)};
        int full = c.out_fd;
        assert_true(full >= 0);
        assert_int_equal(command_run(&c, calls[i]), 74);
        assert_int_equal(count_pieces(c.error_text, c.error_length, "ferry-top: standard output: "), 1);
        close(full);
        command_release(&c);
    }
}

int main(void)
{
    top = getenv("TOOLS_TOP");
    run = getenv("TOOLS_RUN");
    hang = getenv("TOOLS_HANG");
    snprintf(stop_file, sizeof stop_file, "/tmp/ferry-top-test.%d", (int)getpid());
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rates), cmocka_unit_test(test_exact), cmocka_unit_test(test_stopped), cmocka_unit_test(test_busy),
        cmocka_unit_test(test_stall), cmocka_unit_test(test_gone),  cmocka_unit_test(test_garbage),
        cmocka_unit_test(test_full_disk_is_an_error),
    };
    int rc = cmocka_run_group_tests(tests, NULL, NULL);
    unlink(stop_file);
    return rc;
}
