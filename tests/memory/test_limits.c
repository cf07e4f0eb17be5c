/* SPDX-License-Identifier: Apache-2.0
 * Limits read from a made-up /proc and /sys: versions of cgroup, nesting, containers, and the refusal with its numbers.
 * One thread. */
#include "root.h"
#include "team.h"
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

static struct root root;

static int make_root(void **state)
{
    (void)state;
    return root_make(&root);
}

static int remove_root(void **state)
{
    (void)state;
    return root_remove(&root);
}

static void put(const char *name, const char *text)
{
    root_put(&root, name, text);
}

static struct fy_limits look(void)
{
    struct fy_limits limits;

    fy_limits_read(root.path, &limits);
    return limits;
}

static void nothing_known_refuses_nothing(void **state)
{
    struct fy_limits limits = look();
    struct ferry_error error;

    (void)state;
    assert_true(limits.available == UINT64_MAX);
    assert_true(limits.cgroup_limit == UINT64_MAX);
    assert_int_equal(fy_limits_check(&limits, SIZE_MAX, 100, &error), FERRY_OK);
}

static void version_2(void **state)
{
    struct fy_limits limits;

    (void)state;
    put("proc/meminfo", "MemTotal:       24000 kB\nMemFree:  9 kB\nMemAvailable:   20000 kB\n");
    put("proc/self/cgroup", "0::/user/job\n");
    put("sys/fs/cgroup/user/job/memory.max", "max\n");
    put("sys/fs/cgroup/user/job/memory.current", "1\n");
    put("sys/fs/cgroup/user/memory.max", "1000000\n");
    put("sys/fs/cgroup/user/memory.current", "700000\n");
    put("sys/fs/cgroup/user/memory.stat", "anon 5\nfile 500\ninactive_file 100000\nactive_file 7\n");
    limits = look();
    assert_int_equal(limits.available, 20000 * 1024);
    assert_int_equal(limits.cgroup_limit, 1000000);
    assert_int_equal(limits.cgroup_usage, 600000);
    /* The group that leaves least counts, not the one with the lowest limit. */
    put("sys/fs/cgroup/user/job/memory.max", "500000\n");
    assert_int_equal(look().cgroup_limit, 1000000);
    put("sys/fs/cgroup/user/job/memory.current", "200000\n");
    assert_int_equal(look().cgroup_limit, 500000);
    assert_int_equal(look().cgroup_usage, 200000);
}

static void version_1(void **state)
{
    (void)state;
    put("proc/self/cgroup", "9:name=systemd:/x\n4:cpu,memory:/job/a\n3:cpuset:/\n0::/\n");
    put("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
    put("sys/fs/cgroup/memory/memory.usage_in_bytes", "77\n");
    assert_true(look().cgroup_limit == UINT64_MAX);
    put("sys/fs/cgroup/memory/job/a/memory.limit_in_bytes", "4096\n");
    put("sys/fs/cgroup/memory/job/a/memory.usage_in_bytes", "5000\n");
    put("sys/fs/cgroup/memory/job/a/memory.stat", "cache 1\ninactive_file 4000\ntotal_inactive_file 3000\n");
    assert_int_equal(look().cgroup_limit, 4096);
    assert_int_equal(look().cgroup_usage, 2000);
}

static void hybrid(void **state)
{
    (void)state;
    put("proc/self/cgroup", "0::/job\n");
    put("sys/fs/cgroup/unified/job/memory.max", "123456\n");
    put("sys/fs/cgroup/unified/job/memory.current", "3456\n");
    assert_int_equal(look().cgroup_limit, 123456);
    assert_int_equal(look().cgroup_usage, 3456);
}

/* In a container the path is the host's, and the container's own group is what is mounted. */
static void path_of_the_host(void **state)
{
    (void)state;
    put("proc/self/cgroup", "5:memory:/docker/0123456789abcdef\n");
    put("sys/fs/cgroup/memory/memory.limit_in_bytes", "8000000\n");
    put("sys/fs/cgroup/memory/memory.usage_in_bytes", "1000000\n");
    assert_int_equal(look().cgroup_limit, 8000000);
}

static void garbage_is_ignored(void **state)
{
    (void)state;
    put("proc/meminfo", "MemAvailable");
    put("proc/self/cgroup", "\n:\n0:\nmemory\n4:memory:\n0::\n7:memory:../../x");
    put("sys/fs/cgroup/memory/memory.limit_in_bytes", "lots\n");
    assert_true(look().available == UINT64_MAX);
    assert_true(look().cgroup_limit == UINT64_MAX);
}

static void refusal_has_the_numbers(void **state)
{
    struct fy_limits limits = {.available = (uint64_t)8 << 30,
                               .cgroup_limit = (uint64_t)3 << 30,
                               .cgroup_usage = (uint64_t)1 << 30,
                               .memlock = (uint64_t)8 << 20,
                               .file_size = UINT64_MAX,
                               .address_space = (uint64_t)9 << 40};
    struct ferry_error error;

    (void)state;
    assert_int_equal(fy_limits_check(&limits, (size_t)1 << 30, 2, &error), FERRY_OK);
    assert_int_equal(fy_limits_check(&limits, ((size_t)1 << 30) + 1, 2, &error), FERRY_ERR_NOMEM);
    assert_string_equal(error.message,
                        "no memory for 1073741825 bytes more in each of 2 PEs on this host (2.0 GiB in all): 8.0 GiB "
                        "available, cgroup limit 3.0 GiB, 1.0 GiB of it in use, memlock 8.0 MiB, "
                        "address space 9.0 TiB");
    assert_non_null(strstr(error.hint, "fewer PEs"));
    limits.cgroup_limit = UINT64_MAX;
    assert_int_equal(fy_limits_check(&limits, (size_t)4 << 30, 2, &error), FERRY_OK);
    assert_int_equal(fy_limits_check(&limits, (size_t)4 << 30, 3, &error), FERRY_ERR_NOMEM);
    assert_non_null(strstr(error.message, "cgroup limit unlimited"));
    assert_int_equal(fy_limits_check(&limits, SIZE_MAX / 2, 1000, &error), FERRY_ERR_NOMEM);
    limits.cgroup_limit = 5; /* in use: more than allowed */
    assert_int_equal(fy_limits_check(&limits, 1, 0, &error), FERRY_ERR_NOMEM);
}

static void file_size_limit(void **state)
{
    struct fy_limits limits = {.available = UINT64_MAX, .cgroup_limit = UINT64_MAX, .file_size = 4096};
    struct ferry_error error;

    (void)state;
    assert_int_equal(fy_limits_check(&limits, 4096, 1, &error), FERRY_OK);
    assert_int_equal(fy_limits_check(&limits, 4097, 1, &error), FERRY_ERR_NOMEM);
    assert_non_null(strstr(error.message, "4096"));
    assert_non_null(strstr(error.hint, "ulimit -f"));
}

static void sizes_in_words(void **state)
{
    char text[FY_SIZE_TEXT];

    (void)state;
    assert_string_equal(fy_size_text(0, text), "0 bytes");
    assert_string_equal(fy_size_text(1023, text), "1023 bytes");
    assert_string_equal(fy_size_text(1536, text), "1.5 KiB");
    assert_string_equal(fy_size_text(UINT64_MAX - 1, text), "16.0 EiB");
    assert_string_equal(fy_size_text(UINT64_MAX, text), "unlimited");
}

/* A transport that pins nothing needs no memlock. One that does says so itself, and then the number is told. */
static void memlock_is_for_those_who_pin(void **state)
{
    struct rlimit old, low;
    struct team *team = *state;
    struct member *me = &team->members[0];
    void *address;
    int rc, refused;

    team_create(team);
    getrlimit(RLIMIT_MEMLOCK, &old);
    low = (struct rlimit){64 << 10, old.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_MEMLOCK, &low), 0);
    rc = fy_heap_alloc(me->heap, 3 * MEBIBYTE, 0, &address, &me->error);
    me->fake[0].fail_at = me->fake[0].calls + 1; /* the next registration */
    refused = fy_heap_alloc(me->heap, 3 * MEBIBYTE, 0, &address, &me->error);
    setrlimit(RLIMIT_MEMLOCK, &old);
    assert_int_equal(rc, FERRY_OK);
    assert_int_equal(refused, FERRY_ERR_LIMIT);
    assert_non_null(strstr(me->error.message, "(memlock 64.0 KiB)"));
    assert_non_null(strstr(me->error.hint, "ulimit -l"));
}

/* The reservation counts against it, and the message has the number. */
static void address_space_limit(void **state)
{
    struct rlimit old, low;
    struct team *team = *state;
    struct member *me = &team->members[0];
    char part[64], size[FY_SIZE_TEXT];
    unsigned long pages = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    int rc;

    if (!file || fscanf(file, "%lu", &pages) != 1)
        fail_msg("/proc/self/statm");
    fclose(file);
    getrlimit(RLIMIT_AS, &old);
    low = (struct rlimit){(rlim_t)pages * 4096 + ((rlim_t)2 << 30), old.rlim_max}; /* sanitizers use terabytes */
    if (setrlimit(RLIMIT_AS, &low) != 0)
        fail_msg("setrlimit");
    me->config.reserve = (size_t)64 << 30;
    rc = fy_heap_create(&me->config, &me->heap, &me->error);
    setrlimit(RLIMIT_AS, &old);
    assert_int_equal(rc, FERRY_ERR_CONFIG);
    snprintf(part, sizeof(part), "(address space limit %s)", fy_size_text(low.rlim_cur, size));
    assert_non_null(strstr(me->error.message, part));
    assert_non_null(strstr(me->error.hint, "ulimit -v"));
}

static int one_pe(void **state)
{
    static struct team team;

    team_start(&team, 1, 1);
    *state = &team;
    return 0;
}

static int end(void **state)
{
    team_end(*state);
    return 0;
}

/* The real machine: there is memory, and it is not endless. */
static void this_machine(void **state)
{
    struct fy_limits limits;
    struct ferry_error error;
    struct rlimit memlock;

    (void)state;
    fy_limits_read("", &limits);
    getrlimit(RLIMIT_MEMLOCK, &memlock);
    assert_true(limits.available > MEBIBYTE && limits.available < (uint64_t)1 << 50);
    assert_true(limits.memlock == (memlock.rlim_cur == RLIM_INFINITY ? UINT64_MAX : memlock.rlim_cur));
    assert_int_equal(fy_limits_check(&limits, (size_t)1 << 55, 1, &error), FERRY_ERR_NOMEM);
}

#define WITH_ROOT(test) cmocka_unit_test_setup_teardown(test, make_root, remove_root)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_ROOT(nothing_known_refuses_nothing),
        WITH_ROOT(version_2),
        WITH_ROOT(version_1),
        WITH_ROOT(hybrid),
        WITH_ROOT(path_of_the_host),
        WITH_ROOT(garbage_is_ignored),
        cmocka_unit_test(refusal_has_the_numbers),
        cmocka_unit_test(file_size_limit),
        cmocka_unit_test(sizes_in_words),
        cmocka_unit_test_setup_teardown(memlock_is_for_those_who_pin, one_pe, end),
        cmocka_unit_test_setup_teardown(address_space_limit, one_pe, end),
        cmocka_unit_test(this_machine),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
