/* SPDX-License-Identifier: Apache-2.0
 * A job leaves room in the kernel's table of descriptors, so that no thread of it ever waits for that table to grow.
 * Each case is a process of its own, whose table is as small as a fork makes it. */
#include <ferry/ferry.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

/* How many descriptors the table has room for (proc(5), FDSize). */
static int table_size(void)
{
    char line[128];
    int size = -1;
    FILE *file = fopen("/proc/self/status", "re");
    while (file && size < 0 && fgets(line, sizeof(line), file))
        sscanf(line, "FDSize: %d", &size);
    if (file)
        fclose(file);
    return size;
}

/* 0: as it should be; else what is wrong. */
static int child(rlim_t limit, int wanted)
{
    struct rlimit old;
    ferry_job_t *job = NULL;
    int before, after;
    if (getrlimit(RLIMIT_NOFILE, &old) != 0 || setrlimit(RLIMIT_NOFILE, &(struct rlimit){limit, old.rlim_max}) != 0)
        return 1;
    before = table_size();
    if (before < 0 || before >= wanted)
        return 2; /* says nothing */
    if (setenv("FERRY_TRANSPORT", "loopback", 1) != 0 || ferry_init(NULL, &job) != FERRY_OK)
        return 3;
    after = table_size();
    ferry_finalize(job);
    return after >= wanted ? 0 : 4;
}

static void in_a_process(rlim_t limit, int wanted)
{
    int status = -1;
    pid_t pid = fork();
    if (pid == 0)
        _exit(child(limit, wanted));
    assert_true(pid > 0 && waitpid(pid, &status, 0) == pid);
    assert_int_equal(status, 0);
}

static void test_room(void **state)
{
    (void)state;
    in_a_process(1024, 1024);
}

static void test_low_limit(void **state)
{
    (void)state;
    in_a_process(500, 500);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_room), cmocka_unit_test(test_low_limit)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
