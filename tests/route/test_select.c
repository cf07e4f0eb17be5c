/* SPDX-License-Identifier: Apache-2.0
 * Which candidates are chosen: names, lists, auto, typing errors, the table, the survey.
 * One thread. */
#include "fixture.h"
#include <unistd.h>

static int choose(struct fixture *f, const char *spec)
{
    fixture_route(f, NULL);
    f->lines[0] = '\0';
    memset(&f->error, 0, sizeof(f->error));
    return fy_route_select(f->route, spec, &f->error);
}

static void expect_chosen(const struct fixture *f, const char *names)
{
    char text[256] = "";
    size_t at = 0;

    for (size_t i = 0; i < f->route->n_chosen; i++) {
        assert_int_equal(f->route->chosen[i]->outcome, FY_CHOSEN);
        at += (size_t)snprintf(text + at, sizeof(text) - at, "%s%s", i ? " " : "", f->route->chosen[i]->name);
    }
    assert_string_equal(text, names);
}

static void test_name(void **state)
{
    struct fixture *f = *state;
    const struct fy_transport *t;

    fixture_put(f, "good", "better", NULL);
    assert_int_equal(choose(f, "good"), FERRY_OK);
    expect_chosen(f, "good");
    assert_int_equal(f->route->asked, 1);
    /* Only what was named was looked at: no scan. */
    assert_int_equal(f->route->n_candidates, 1);
    t = f->route->chosen[0];
    assert_int_equal(t->probe.score, 20);
    assert_int_equal(t->probe.devices, 1);
    /* Watching is refused while probing, and a probe does not shout. */
    assert_string_equal(t->probe.detail, "watching in probe gives -3");
    assert_string_equal(f->lines, "");
    assert_null(t->handle);
}

static void test_probe_logs_at_debug(void **state)
{
    struct fixture *f = *state;

    fixture_put(f, "good", NULL);
    f->log.level = FERRY_LOG_DEBUG;
    assert_int_equal(choose(f, "good"), FERRY_OK);
    assert_contains(f->lines, "debug: good: probed with abi 1\n");
}

static void test_list(void **state)
{
    struct fixture *f = *state;
    char signature[128], small[12];

    fixture_put(f, "good", "better", "noprobe", NULL);
    assert_int_equal(choose(f, "noprobe, good ,better"), FERRY_OK);
    expect_chosen(f, "noprobe good better");
    assert_int_equal(f->route->chosen[0]->probe.score, 1);
    fy_route_signature(f->route, signature, sizeof(signature));
    assert_string_equal(signature, "noprobe 1.2.3 abi 1.2, good 1.0 abi 1.2, better 1.2.3 abi 1.2");
    fy_route_signature(f->route, small, sizeof(small));
    assert_string_equal(small, "noprobe 1.2");
}

static void test_path(void **state)
{
    struct fixture *f = *state;
    char path[512], spec[600];

    /* The plugin's own name counts; the file may be called anything. */
    fixture_put_as(f, "good", "libmine-3");
    fixture_put(f, "better", NULL);
    snprintf(path, sizeof(path), "%s/libmine-3.so", f->dir);
    assert_int_equal(choose(f, path), FERRY_OK);
    expect_chosen(f, "good");
    assert_string_equal(f->route->chosen[0]->path, path);
    snprintf(spec, sizeof(spec), "better,%s", path);
    assert_int_equal(choose(f, spec), FERRY_OK);
    expect_chosen(f, "better good");
    assert_int_equal(choose(f, "/nowhere/x.so"), FERRY_ERR_NOT_FOUND);
    assert_string_equal(f->error.message, "transport x (/nowhere/x.so): there is no such file");
    assert_string_equal(f->error.hint, "correct the path, or put the file there");
    assert_string_equal(f->error.device, "/nowhere/x.so");
}

/* A path longer than what a record holds: the cause is there all the same. */
static void test_long_path(void **state)
{
    struct fixture *f = *state;
    char spec[700];

    for (size_t i = 0; i < sizeof(spec); i++)
        spec[i] = i % 20 ? 'a' : '/';
    strcpy(spec + 400, "/x.so");
    assert_int_equal(choose(f, spec), FERRY_ERR_NOT_FOUND);
    assert_contains(f->error.message, "aaa/x.so): there is no such file");
    spec[400] = spec[405] = 'a';
    strcpy(spec + 600, "/x.so");
    assert_int_equal(choose(f, spec), FERRY_ERR_ABI);
    assert_contains(f->error.message, "its path is longer than 511 characters");
}

static void test_same_twice_by_path(void **state)
{
    struct fixture *f = *state;
    char spec[600];

    fixture_put(f, "good", NULL);
    snprintf(spec, sizeof(spec), "good,%s/./good.so", f->dir);
    assert_int_equal(choose(f, spec), FERRY_ERR_CONFIG);
    assert_contains(f->error.message, "FERRY_TRANSPORT has good twice, as ");
}

static void test_misspelt(void **state)
{
    struct fixture *f = *state;

    fixture_put(f, "good", "better", NULL);
    assert_int_equal(choose(f, "godo"), FERRY_ERR_NOT_FOUND);
    assert_string_equal(f->error.message, "no transport named godo; did you mean good?");
    assert_string_equal(f->error.hint, "correct the name, or put the plugin's folder in FERRY_PLUGIN_PATH");
    /* The table: what was asked, what there is, where it looked. What there is was not loaded. */
    assert_contains(f->lines, "godo             not found    -");
    assert_lacks(f->lines, "did you mean good?"); /* the record says so */
    assert_contains(f->lines, "good             found        ");
    assert_contains(f->lines, "better           found        ");
    assert_contains(f->lines, "folders, in the order of search:");
    assert_contains(f->lines, f->dir);
    assert_int_equal(fixture_candidate(f, "good")->outcome, FY_FOUND);
    assert_null(fixture_candidate(f, "good")->library);
    assert_int_equal(f->route->n_chosen, 0);
    assert_int_equal(choose(f, "BETTER"), FERRY_ERR_NOT_FOUND);
    assert_string_equal(f->error.message, "no transport named BETTER; did you mean better?");
    assert_int_equal(choose(f, "atuo"), FERRY_ERR_NOT_FOUND);
    assert_contains(f->error.message, "did you mean auto?");
    assert_int_equal(choose(f, "infiniband"), FERRY_ERR_NOT_FOUND);
    assert_string_equal(f->error.message, "no transport named infiniband: no folder has a file of that name");
}

/* Never a fallback: one bad name in a list ends it, and the others are not chosen. */
static void test_list_with_a_bad_one(void **state)
{
    struct fixture *f = *state;

    fixture_put(f, "good", "nodevice", "othermajor", "better", NULL);
    assert_int_equal(choose(f, "good,nodevice,othermajor"), FERRY_ERR_DEVICE);
    assert_contains(f->error.message, "transport nodevice (");
    expect_chosen(f, "");
    assert_int_equal(fixture_candidate(f, "good")->outcome, FY_USABLE);
    assert_int_equal(fixture_candidate(f, "othermajor")->outcome, FY_REFUSED_ABI);
    assert_int_equal(fixture_candidate(f, "better")->outcome, FY_FOUND);
    assert_contains(f->lines, "score 20, version 1.0");
    /* The first failure is told by the record, so the table has the reason of the second alone. */
    assert_contains(f->error.message, "no card: load the module");
    assert_lacks(f->lines, "no card: load the module");
    assert_lacks(f->lines, "repair that, or choose another transport in FERRY_TRANSPORT");
    assert_contains(f->lines, "it speaks transport ABI 2.3");
    assert_contains(f->lines, "to do: install the plugin that was built for this version of Ferry");
    assert_int_equal(fixture_count(f->lines, "transports that were looked at"), 1);
}

static void test_bad_specs(void **state)
{
    static const struct {
        const char *spec, *message;
    } rows[] = {
        {"", "FERRY_TRANSPORT is '': item 1 is empty"},
        {"good,,better", "FERRY_TRANSPORT is 'good,,better': item 2 is empty"},
        {"good,", "FERRY_TRANSPORT is 'good,': item 2 is empty"},
        {" ", "FERRY_TRANSPORT is ' ': item 1 is empty"},
        {"good,better,good", "FERRY_TRANSPORT is 'good,better,good': good is there twice"},
        {"good,auto", "FERRY_TRANSPORT is 'good,auto': auto stands alone, not in a list"},
    };
    struct fixture *f = *state;

    fixture_put(f, "good", "better", NULL);
    for (size_t i = 0; i < FY_COUNT(rows); i++) {
        assert_int_equal(choose(f, rows[i].spec), FERRY_ERR_CONFIG);
        assert_string_equal(f->error.message, rows[i].message);
        assert_int_equal(f->route->n_candidates, 0);
    }
}

static void test_hook_as_transport(void **state)
{
    struct fixture *f = *state;

    fixture_put(f, "good", "hook", NULL);
    assert_int_equal(choose(f, "good,hook"), FERRY_ERR_CONFIG);
    assert_contains(f->error.message, "transport hook (");
    assert_contains(f->error.message, "it is a hook, which wraps a transport");
    assert_string_equal(f->error.hint, "name it in FERRY_HOOKS");
}

static void test_auto(void **state)
{
    struct fixture *f = *state;

    fixture_put(f, "good", "better", "equal", "noprobe", "hook", "nodevice", "othermajor", "boastful", NULL);
    fixture_write(f, "text.so", "text", 4);
    fixture_write(f, "notes.txt", "text", 4);
    fixture_write(f, "UPPER.so", "text", 4);
    f->log.level = FERRY_LOG_INFO;
    assert_int_equal(choose(f, "auto"), FERRY_OK);
    /* By score; those of one score by name; a score has a ceiling. */
    expect_chosen(f, "boastful better equal good noprobe");
    assert_int_equal(f->route->chosen[0]->probe.score, 100);
    assert_int_equal(f->route->asked, 0);
    assert_int_equal(fixture_candidate(f, "hook")->outcome, FY_USABLE);
    assert_int_equal(fixture_candidate(f, "nodevice")->outcome, FY_NO_DEVICE);
    assert_int_equal(fixture_candidate(f, "othermajor")->outcome, FY_REFUSED_ABI);
    assert_int_equal(fixture_candidate(f, "text")->outcome, FY_REFUSED_FILE);
    assert_null(fixture_candidate(f, "notes"));
    assert_null(fixture_candidate(f, "UPPER"));
    /* One line. */
    assert_string_equal(f->lines,
                        "ferry info: transport: boastful (score 100), then better (score 60), equal (score 60), "
                        "good (score 20), noprobe (score 1); chosen automatically out of 9 plugins\n");
    /* The spec may be absent. */
    assert_int_equal(choose(f, NULL), FERRY_OK);
    expect_chosen(f, "boastful better equal good noprobe");
}

static void test_auto_without_any(void **state)
{
    struct fixture *f = *state;

    assert_int_equal(choose(f, "auto"), FERRY_ERR_NOT_FOUND);
    assert_contains(f->error.message, "there is no transport: looked in ");
    assert_contains(f->error.message, f->dir);
    assert_contains(f->lines, "there is no plugin in any folder");
    fixture_put(f, "hook", "nodevice", NULL);
    assert_int_equal(choose(f, "auto"), FERRY_ERR_DEVICE);
    assert_contains(f->error.message, "none of the 2 plugins found in ");
    assert_contains(f->lines, "no card: load the module");
    assert_contains(f->lines, "a hook, version 1.0");
}

static void test_table(void **state)
{
    struct fixture *f = *state;
    char expected[1024], *text;

    fixture_put(f, "good", "better", NULL);
    assert_int_equal(choose(f, "better"), FERRY_OK);
    text = fy_route_table(f->route);
    snprintf(expected, sizeof(expected),
             "  candidate        outcome      file, reason, what to do\n"
             "  better           chosen       %s/better.so\n"
             "                   score 60, version 1.2.3\n"
             "folders, in the order of search:\n"
             "  %s\n",
             f->dir, f->dir);
    assert_string_equal(text, expected);
    free(text);
}

static void test_survey(void **state)
{
    struct fixture *f = *state;

    fixture_put(f, "good", "better", "hook", "nodevice", "nosymbol", NULL);
    fixture_route(f, NULL);
    assert_int_equal(fy_route_survey(f->route, NULL, 0), FERRY_OK);
    assert_int_equal(f->route->n_candidates, 5);
    assert_int_equal(fixture_candidate(f, "nosymbol")->outcome, FY_REFUSED_NO_PLUGIN);
    expect_chosen(f, "better good");
    /* Named: those alone, and no error for what is not usable. */
    fixture_route(f, NULL);
    assert_int_equal(fy_route_survey(f->route, "good,nodevice,lopback", 0), FERRY_OK);
    assert_int_equal(f->route->n_candidates, 3);
    expect_chosen(f, "good");
    assert_int_equal(fixture_candidate(f, "lopback")->outcome, FY_NOT_FOUND);
    /* Named, and the rest. */
    fixture_route(f, NULL);
    assert_int_equal(fy_route_survey(f->route, "good", 1), FERRY_OK);
    assert_int_equal(f->route->n_candidates, 5);
    expect_chosen(f, "good");
    assert_int_equal(fixture_candidate(f, "better")->outcome, FY_USABLE);
    assert_string_equal(f->lines, "");
    assert_int_equal(fy_route_survey(f->route, "good,,", 0), FERRY_ERR_CONFIG);
    assert_contains(f->lines, "item 2 is empty");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_name),      TEST(test_probe_logs_at_debug),
        TEST(test_list),      TEST(test_path),
        TEST(test_long_path), TEST(test_same_twice_by_path),
        TEST(test_misspelt),  TEST(test_list_with_a_bad_one),
        TEST(test_bad_specs), TEST(test_hook_as_transport),
        TEST(test_auto),      TEST(test_auto_without_any),
        TEST(test_table),     TEST(test_survey),
    };

    return cmocka_run_group_tests_name("route/select", tests, NULL, NULL);
}
