/* SPDX-License-Identifier: Apache-2.0
 * Pages behind a chunk: the pool's numbers, what each setting does with them, and huge pages of this machine.
 * One thread. */
#include "root.h"
#include "team.h"
#include <sched.h>
#include <time.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#define POOL "/proc/sys/vm/nr_hugepages"

static struct team team;
static struct root root;
static struct fy_log log_;
static char told[256]; /* the last line about a chunk */
static int lines;

static void note(void *arg, int level, const char *line)
{
    (void)arg;
    (void)level;
    if (!strstr(line, "heap chunk of"))
        return;
    snprintf(told, sizeof(told), "%s", line);
    lines++;
}

static bool pool_changed;

static struct member *me(void)
{
    return &team.members[0];
}

static int start(void **state)
{
    (void)state;
    fy_log_init(&log_);
    log_.level = FERRY_LOG_INFO;
    log_.sink = note;
    told[0] = '\0';
    lines = 0;
    team_start(&team, 1, 1);
    me()->config.log = &log_;
    me()->config.system_root = root.path;
    return root_make(&root);
}

static int end(void **state)
{
    (void)state;
    team_end(&team);
    return root_remove(&root);
}

static void pool(unsigned total, unsigned unused, unsigned reserved, unsigned more)
{
    static const char *const names[] = {"nr", "free", "resv", "nr_overcommit"};
    const unsigned numbers[] = {total, unused, reserved, more};
    char path[128], text[32];

    for (int i = 0; i < 4; i++) {
        snprintf(path, sizeof(path), "sys/kernel/mm/hugepages/hugepages-2048kB/%s_hugepages", names[i]);
        snprintf(text, sizeof(text), "%u\n", numbers[i]);
        root_put(&root, path, text);
    }
}

static void transparent(const char *text)
{
    root_put(&root, "sys/kernel/mm/transparent_hugepage/shmem_enabled", text);
}

static int alloc(size_t size, void **address)
{
    return fy_heap_alloc(me()->heap, size, 0, address, &me()->error);
}

static void assert_says(const char *part)
{
    if (!strstr(me()->error.message, part))
        fail_msg("\"%s\" is not in \"%s\"", part, me()->error.message);
}

/* ------------------------------------------------------------------ settings */

static void a_pool_too_small(void **state)
{
    void *address;

    (void)state;
    me()->config.pages = FY_PAGES_HUGE;
    me()->config.local_pes = 3;
    team_create(&team);
    assert_int_equal(alloc(4 * MEBIBYTE, &address), FERRY_ERR_NOMEM); /* no pool at all */
    assert_says("the pool has 0");
    pool(9, 7, 2, 0);
    assert_int_equal(alloc(4 * MEBIBYTE, &address), FERRY_ERR_NOMEM);
    assert_says("FERRY_HEAP_PAGES is huge, and 3 PEs on this host need 2 pages of 2 MiB each: the pool has 9, of which "
                "7 are free "
                "and 2 of those reserved, and may grow by 0");
    assert_non_null(strstr(me()->error.hint, "vm.nr_hugepages"));
    assert_int_equal(me()->heap->n_segments, 0);
}

/* The pool may grow out of memory that must then be there. */
static void a_pool_that_may_grow(void **state)
{
    void *address;

    (void)state;
    me()->config.pages = FY_PAGES_HUGE;
    pool(1, 1, 0, 1);
    root_put(&root, "proc/meminfo", "MemAvailable: 4095 kB\n");
    team_create(&team);
    assert_int_equal(alloc(4 * MEBIBYTE, &address), FERRY_ERR_NOMEM);
    assert_says("4.0 MiB available"); /* rounded */
}

/* What the pool promises somebody else may take: auto goes on without, huge says what there is. */
static void a_pool_that_is_gone(void **state)
{
    char *address;

    (void)state;
    pool(16384, 16384, 0, 0);                                  /* 32 GiB: not on this machine */
    root_put(&root, "proc/meminfo", "MemAvailable: 900 kB\n"); /* of no interest: the pool is not among it */
    me()->config.reserve = (size_t)64 << 30;
    me()->config.pages = FY_PAGES_HUGE;
    team_create(&team);
    assert_int_equal(alloc((size_t)32 << 30, (void **)&address), FERRY_ERR_NOMEM);
    assert_says("pages of 2 MiB for the heap (FERRY_HEAP_PAGES is huge): ");
    assert_says("the pool has 16384, of which 16384 are free");
    team_destroy(&team);
    me()->config.pages = FY_PAGES_AUTO;
    team_create(&team);
    assert_int_equal(alloc((size_t)32 << 30, (void **)&address), FERRY_ERR_NOMEM); /* the rest has not that much */
    assert_says("(900.0 KiB available, ");
    assert_int_equal(holdings_now().heaps, 0);
}

static void what_was_got_is_told(void **state)
{
    static const struct {
        const char *enabled, *told;
        enum fy_pages pages;
    } cases[] = {
        {"always within_size advise [never] deny force\n", "small pages", FY_PAGES_AUTO},
        {"always within_size [advise] never deny force\n", "transparent huge pages", FY_PAGES_AUTO},
        {"[always] within_size advise never deny force\n", "transparent huge pages", FY_PAGES_AUTO},
        {"always [within_size] advise never deny force\n", "transparent huge pages", FY_PAGES_AUTO},
        {"[always] within_size advise never deny force\n", "small pages", FY_PAGES_SMALL},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        char *address;

        transparent(cases[i].enabled);
        me()->config.pages = cases[i].pages;
        team_create(&team);
        assert_int_equal(alloc(3 * MEBIBYTE, (void **)&address), FERRY_OK);
        for (size_t at = 0; at < 4 * MEBIBYTE; at += 4096)
            assert_int_equal(address[at], 0);
        memset(address, 1, 4 * MEBIBYTE);
        if (!strstr(told, cases[i].told))
            fail_msg("\"%s\" is not in \"%s\"", cases[i].told, told);
        assert_int_equal(lines, i + 1);
        team_destroy(&team);
    }
    assert_int_equal(holdings_now().heaps, 0);
}

static void a_file_size_limit_counts_for_the_pool(void **state)
{
    struct rlimit old, low;
    void *address;
    int rc;

    (void)state;
    pool(8, 8, 0, 0);
    team_create(&team);
    getrlimit(RLIMIT_FSIZE, &old);
    low = (struct rlimit){MEBIBYTE, old.rlim_max};
    setrlimit(RLIMIT_FSIZE, &low);
    rc = alloc(4 * MEBIBYTE, &address);
    setrlimit(RLIMIT_FSIZE, &old);
    assert_int_equal(rc, FERRY_ERR_NOMEM);
    assert_says("file size limit of 1048576 bytes");
}

/* ------------------------------------------------------------------ this machine */

static long in_pool(void)
{
    long n = -1;
    FILE *file = fopen(POOL, "r");

    if (file && fscanf(file, "%ld", &n) != 1)
        n = -1;
    if (file)
        fclose(file);
    return n;
}

static bool set_pool(long n)
{
    FILE *file = fopen(POOL, "w");
    bool good = file && fprintf(file, "%ld\n", n) > 0;

    if (file)
        good &= fclose(file) == 0;
    pool_changed |= good;
    return good;
}

/* Huge pages for two chunks; a third finds none, and the first two are as they were. */
static void use_pool(void)
{
    struct fy_pool now;
    char *one, *two;

    me()->config.pages = FY_PAGES_HUGE;
    team_create(&team);
    assert_int_equal(alloc(4 * MEBIBYTE, (void **)&one), FERRY_OK);
    assert_int_equal(alloc(4 * MEBIBYTE, (void **)&two), FERRY_OK);
    assert_non_null(strstr(told, "huge pages from the pool"));
    memset(one, 1, 4 * MEBIBYTE);
    memset(two, 2, 4 * MEBIBYTE);
    fy_pool_read("", &now);
    assert_true(now.free + 4 <= now.total);
    assert_int_equal(alloc(50 * MEBIBYTE, (void **)&two), FERRY_ERR_NOMEM);
    assert_says("of which");
    assert_int_equal(one[4 * MEBIBYTE - 1], 1);
    team_destroy(&team);
    me()->config.pages = FY_PAGES_AUTO;
    team_create(&team);
    assert_int_equal(alloc(4 * MEBIBYTE, (void **)&one), FERRY_OK);
    assert_non_null(strstr(told, "huge pages from the pool"));
    assert_int_equal(alloc(54 * MEBIBYTE, (void **)&two), FERRY_OK);
    assert_null(strstr(told, "huge pages from the pool"));
    memset(two, 3, 54 * MEBIBYTE);
}

static void test_huge_pages(void **state)
{
    long before = in_pool();
    struct fy_pool now;

    (void)state;
    me()->config.system_root = "";
    if (before != 0 || !set_pool(6)) {
        print_message("skipped: the pool has %ld pages, or may not be changed\n", before);
        skip();
    }
    fy_pool_read("", &now);
    if (now.total != 6 || now.free != 6) {
        print_message("skipped: of 6 pages of 2 MiB the kernel found %llu, and %llu are free\n", (unsigned long long)now.total,
                      (unsigned long long)now.free);
        skip();
    }
    use_pool();
    team_destroy(&team);
    /* all are given back; who else was quick enough to take some gives them back, too */
    fy_pool_read("", &now);
    for (time_t end = time(NULL) + 20; now.free != 6 && time(NULL) < end; fy_pool_read("", &now))
        sched_yield();
    assert_int_equal(now.free, 6);
}

static int end_pool(void **state)
{
    if (pool_changed)
        set_pool(0); /* as it was */
    return end(state);
}

#define PAGES(test) cmocka_unit_test_setup_teardown(test, start, end)

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        PAGES(a_pool_too_small),
        PAGES(a_pool_that_may_grow),
        PAGES(a_pool_that_is_gone),
        PAGES(what_was_got_is_told),
        PAGES(a_file_size_limit_counts_for_the_pool),
    };
    const struct CMUnitTest machine[] = {cmocka_unit_test_setup_teardown(test_huge_pages, start, end_pool)};

    if (argc > 1 && strcmp(argv[1], "machine") == 0)
        return cmocka_run_group_tests(machine, NULL, NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
