/* SPDX-License-Identifier: Apache-2.0
 * Which bootstrap starts a job: what FERRY_BOOTSTRAP names, what the environment shows, what is refused, and in which words.
 * Arguments: the folder of the fakes. One thread. */
#include <ferry/ferry.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

static const char *folder;
static char lines[8192]; /* what the latest ferry_init logged */

static void keep(void *arg, int level, const char *line)
{
    size_t used = strlen(lines);
    (void)arg, (void)level;
    snprintf(lines + used, sizeof(lines) - used, "%s\n", line);
}

/* ferry_init with FERRY_BOOTSTRAP and one more variable, or NULL; a job is ended at once. */
static int start(ferry_attr_t attr, const char *bootstrap, const char *more, struct ferry_error *error)
{
    char named[600];
    const char *options[] = {"FERRY_LOG=info", "FERRY_TRANSPORT=loopback", named, more, NULL};
    ferry_job_t *job;
    snprintf(named, sizeof(named), "FERRY_BOOTSTRAP=%s", bootstrap);
    lines[0] = '\0';
    *error = (struct ferry_error){.size = sizeof(*error)};
    attr.size = sizeof(attr);
    attr.options = options;
    attr.log = keep;
    attr.error = error;
    int rc = ferry_init(&attr, &job);
    if (rc == FERRY_OK)
        assert_int_equal(ferry_finalize(job), FERRY_OK);
    return rc;
}

static void expect_words(const char *text, const char *words)
{
    if (!strstr(text, words))
        fail_msg("'%s' has not '%s'", text, words);
}

static void refused(ferry_attr_t attr, const char *bootstrap, const char *more, int status, const char *words)
{
    struct ferry_error error;
    assert_int_equal(start(attr, bootstrap, more, &error), status);
    assert_int_equal(error.status, status);
    expect_words(error.message, words);
    expect_words(lines, "cannot start: ");
}

static void starts(ferry_attr_t attr, const char *bootstrap, const char *more, const char *words)
{
    struct ferry_error error;
    int rc = start(attr, bootstrap, more, &error);
    if (rc != FERRY_OK)
        fail_msg("%s", error.message);
    expect_words(lines, words);
}

static const ferry_attr_t plain;

static void test_env(void **state)
{
    (void)state;
    starts(plain, "auto", NULL, "bootstrap env (nothing in the environment speaks of other PEs): pe 0 of 1");
    starts(plain, "env", NULL, "bootstrap env (FERRY_BOOTSTRAP names it): pe 0 of 1");
    struct ferry_error error;
    setenv("FERRY_RANK", "0", 1);
    setenv("FERRY_SIZE", "1", 1);
    int rc = start(plain, "auto", NULL, &error);
    unsetenv("FERRY_RANK");
    unsetenv("FERRY_SIZE");
    assert_int_equal(rc, FERRY_OK);
    expect_words(lines, "bootstrap env (FERRY_RANK is set): pe 0 of 1");
    refused(plain, "env", "FERRY_SIZE=3", FERRY_ERR_CONFIG, "FERRY_RANK -1 and FERRY_SIZE 3 do not go together");
}

/* What the program says itself counts; another name is a mistake, and says so. */
static void test_program(void **state)
{
    (void)state;
    ferry_attr_t id = {.bootstrap = FERRY_BOOTSTRAP_UNIQUEID, .n_pes = 1}, functions = {.bootstrap = FERRY_BOOTSTRAP_FUNCTIONS, .n_pes = 1};
    starts(id, "auto", NULL, "bootstrap uid (the program's own choice): pe 0 of 1");
    starts(id, "uid", NULL, "bootstrap uid");
    starts(functions, "functions", NULL, "bootstrap functions (the program's own choice): pe 0 of 1");
    refused(id, "env", NULL, FERRY_ERR_CONFIG, "FERRY_BOOTSTRAP is env, but the program brings its PEs together itself (uid)");
    refused(functions, "uid", NULL, FERRY_ERR_CONFIG, "but the program brings its PEs together itself (functions)");
    refused(plain, "uid", NULL, FERRY_ERR_CONFIG, "FERRY_BOOTSTRAP is uid, which is for programs that bring their PEs together themselves");
    id.n_pes = 2;
    refused(id, "auto", NULL, FERRY_ERR_ARG, "attribute id is null");
    functions.n_pes = 2;
    refused(functions, "auto", NULL, FERRY_ERR_ARG, "attribute functions is null");
    functions.rank = 2;
    refused(functions, "auto", NULL, FERRY_ERR_ARG, "attribute rank 2 is not below n_pes 2");
    refused((ferry_attr_t){.bootstrap = 9}, "auto", NULL, FERRY_ERR_ARG, "attribute bootstrap is 9, which is none of enum ferry_bootstrap");
}

static void fake(const char *name, char *path, size_t size)
{
    snprintf(path, size, "%s/%s.so", folder, name);
}

static void test_plugin(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        int status;
        const char *words;
    } bad[] = {
        {"fake_other_abi", FERRY_ERR_ABI, "it speaks bootstrap ABI 2.3, this library speaks 1.0"},
        {"fake_short", FERRY_ERR_ABI, "is malformed: its size is wrong"},
        {"fake_no_allgather", FERRY_ERR_ABI, "is malformed: a member is missing that is required"},
        {"fake_bad_name", FERRY_ERR_ABI, "is malformed: its name is not 1 to 31 characters of a-z 0-9 _ -"},
        {"fake_bad_place", FERRY_ERR_BOOTSTRAP, "bootstrap fake says that this is PE 5 of 1 PEs"},
        {"fake_no_reason", FERRY_ERR_BOOTSTRAP, "bootstrap fake failed without a reason"},
        {"fake_reason", FERRY_ERR_TIMEOUT, "the fake has 60 s and no wish to start"},
        {"nothing_here", FERRY_ERR_NOT_FOUND, "there is no such file"},
    };
    char path[512];
    fake("fake_good", path, sizeof(path));
    starts(plain, path, NULL, "bootstrap fake (FERRY_BOOTSTRAP names it): pe 0 of 1");
    expect_words(lines, "the fake opens: size 24, node unknown");
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        fake(bad[i].name, path, sizeof(path));
        refused(plain, path, NULL, bad[i].status, bad[i].words);
    }
    refused(plain, "/proc/self/exe", NULL, FERRY_ERR_ABI, "it has no symbol ferry_bootstrap_v1 of its own");
    refused(plain, "carrier-pigeon", NULL, FERRY_ERR_NOT_FOUND, "no bootstrap named carrier-pigeon: no folder has a file of that name");
    refused(plain, "../pmix.c", NULL, FERRY_ERR_NOT_FOUND, "bootstrap pmix.c (../pmix.c): there is no such file");
    memset(path, 'x', sizeof(path) - 1);
    path[0] = '/';
    path[sizeof(path) - 1] = '\0';
    char longer[530];
    snprintf(longer, sizeof(longer), "%sxxxx", path);
    refused(plain, longer, NULL, FERRY_ERR_CONFIG, "its path is too long");
}

static void test_set_uid(void **state)
{
    (void)state;
    char work[] = "/tmp/ferry-launch.XXXXXX", command[1400], said[1024] = "";
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    skip(); /* a sanitizer's runtime does not start in a set-uid program */
#endif
    if (geteuid() != 0)
        skip();
    assert_non_null(mkdtemp(work));
    snprintf(command, sizeof(command),
             "chmod 755 %s && cp %s/launch_secure %s/p && chown 65534 %s/p && chmod 4755 %s/p && FERRY_BOOTSTRAP=%s/fake_good.so %s/p 2>/dev/null; rm -rf %s",
             work, folder, work, work, work, folder, work, work);
    FILE *out = popen(command, "r");
    assert_non_null(out);
    size_t n = fread(said, 1, sizeof(said) - 1, out);
    said[n] = '\0';
    pclose(out);
    if (strstr(said, "raised 0"))
        skip(); /* the file system does not honour it */
    expect_words(said, "raised 1: FERRY_ERR_CONFIG");
    expect_words(said, "a program with raised privileges takes no path from its environment");
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_env),
        cmocka_unit_test(test_program),
        cmocka_unit_test(test_plugin),
        cmocka_unit_test(test_set_uid),
    };
    if (argc < 2)
        return 2;
    folder = argv[1]; /* absolute */
    static const char *const shown[] = {"FERRY_RANK", "FERRY_SIZE", "FERRY_ID", "PMIX_NAMESPACE", "PMI_RANK", "SLURM_PROCID", "OMPI_COMM_WORLD_RANK"};
    for (size_t i = 0; i < sizeof(shown) / sizeof(shown[0]); i++)
        unsetenv(shown[i]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
