/* SPDX-License-Identifier: Apache-2.0
 * Option tables: sources and their precedence, loading, unknown names and suggestions. */
#include "base/option.h"
#include "cmocka_headers.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct ferry_option rows[] = {{"heap_size", FERRY_OPTION_SIZE, 0, "64G", NULL, ""},
                                           {"timeout", FERRY_OPTION_SECONDS, 0, "60", NULL, ""},
                                           {"transport", FERRY_OPTION_STRING, 0, "auto", NULL, ""},
                                           {"log", FERRY_OPTION_CHOICE, 0, "warn", "error|warn|info", ""},
                                           {NULL, 0, 0, NULL, NULL, NULL}};

static void load(struct fy_options *options, const char *const *overrides, char **environment)
{
    struct fy_source source = {overrides, environment};
    struct ferry_error error;

    if (fy_options_load(options, rows, NULL, &source, &error) != FERRY_OK)
        fail_msg("%s", error.message);
}

static void test_defaults(void **state)
{
    struct fy_options options;

    (void)state;
    load(&options, NULL, NULL);
    assert_int_equal(options.n, 4);
    assert_int_equal(fy_options_number(&options, "heap_size"), 64ll << 30);
    assert_true(fy_options_seconds(&options, "timeout") == 60);
    assert_string_equal(fy_options_string(&options, "transport"), "auto");
    assert_int_equal(fy_options_number(&options, "log"), 1);
    const struct fy_option_value *found = fy_options_find(&options, "heap_size");
    assert_string_equal(found->variable, "FERRY_HEAP_SIZE");
    assert_string_equal(found->text, "64G");
    assert_ptr_equal(found->row, &rows[0]);
    assert_int_equal(found->origin, FY_ORIGIN_DEFAULT);
    assert_null(fy_options_find(&options, "heap"));
    assert_int_equal(fy_options_number(&options, "heap"), 0);
    assert_true(fy_options_seconds(&options, "heap") == 0);
    assert_string_equal(fy_options_string(&options, "heap"), "");
    fy_options_free(&options);
    assert_int_equal(options.n, 0);
    fy_options_free(&options); /* twice is harmless */
}

static void test_precedence(void **state)
{
    char heap[] = "FERRY_HEAP_SIZE=1M", heap_again[] = "FERRY_HEAP_SIZE=2M", log[] = "FERRY_LOG=info";
    char longer[] = "FERRY_LOG_FILE=error", other[] = "PATH=/bin";
    char *environment[] = {other, longer, heap, heap_again, log, NULL};
    const char *const overrides[] = {"FERRY_TIMEOUT=5", "FERRY_LOG=error", "FERRY_TIMEOUT=250ms", NULL};
    struct fy_options options;

    (void)state;
    load(&options, overrides, environment);
    assert_int_equal(fy_options_number(&options, "heap_size"), 1 << 20); /* the first, as getenv */
    assert_int_equal(fy_options_find(&options, "heap_size")->origin, FY_ORIGIN_ENVIRONMENT);
    assert_int_equal(fy_options_number(&options, "log"), 0);
    assert_int_equal(fy_options_find(&options, "log")->origin, FY_ORIGIN_ATTRIBUTE);
    assert_true(fy_options_seconds(&options, "timeout") == 0.25); /* the last */
    /* The values are copies. */
    memcpy(heap, "FERRY_HEAP_SIZE=9M", sizeof(heap));
    assert_string_equal(fy_options_find(&options, "heap_size")->text, "1M");
    fy_options_free(&options);
}

static void test_source_get(void **state)
{
    char empty[] = "FERRY_A=", bare[] = "FERRY_B", equals[] = "FERRY_C=x=y";
    char *environment[] = {empty, bare, equals, NULL};
    struct fy_source source = {NULL, environment};
    enum fy_origin origin = FY_ORIGIN_ATTRIBUTE;

    (void)state;
    assert_string_equal(fy_source_get(&source, "FERRY_A", &origin), "");
    assert_int_equal(origin, FY_ORIGIN_ENVIRONMENT);
    assert_null(fy_source_get(&source, "FERRY_B", &origin));
    assert_int_equal(origin, FY_ORIGIN_DEFAULT);
    assert_string_equal(fy_source_get(&source, "FERRY_C", NULL), "x=y");
}

static void test_bad_value_ends_loading(void **state)
{
    const char *const overrides[] = {"FERRY_LOG=loud", NULL};
    struct fy_source source = {overrides, NULL};
    struct fy_options options;
    struct ferry_error error;

    (void)state;
    assert_int_equal(fy_options_load(&options, rows, NULL, &source, &error), FERRY_ERR_CONFIG);
    assert_string_equal(error.message, "FERRY_LOG is 'loud', which is not one of error|warn|info");
    assert_int_equal(options.n, 0); /* nothing left to free */
    assert_null(options.values);
}

static void test_plugin_tables(void **state)
{
    static const struct ferry_option good[] = {{"gid_index", FERRY_OPTION_INT, 0, "3", NULL, ""}, {0}};
    static const struct ferry_option capital[] = {{"Gid", FERRY_OPTION_INT, 0, "3", NULL, ""}, {0}};
    static const struct ferry_option empty[] = {{"", FERRY_OPTION_INT, 0, "3", NULL, ""}, {0}};
    static const struct ferry_option initial[] = {{"gid", FERRY_OPTION_INT, 0, "three", NULL, ""}, {0}};
    static const struct ferry_option none[] = {{"gid", FERRY_OPTION_INT, 0, NULL, NULL, ""}, {0}};
    static const struct ferry_option endless[] = {
        {"a_name_that_is_longer_than_what_a_variable_has_room_for_in_the_table", FERRY_OPTION_INT, 0, "3", NULL, ""},
        {0}};
    static const struct ferry_option *const bad[] = {capital, empty, initial, none, endless};
    const char *const overrides[] = {"FERRY_MY_NIC_GID_INDEX=5", NULL};
    struct fy_source source = {overrides, NULL};
    struct fy_options options;
    struct ferry_error error;

    (void)state;
    assert_int_equal(fy_options_load(&options, good, "my-nic", &source, &error), FERRY_OK);
    assert_int_equal(fy_options_number(&options, "gid_index"), 5);
    fy_options_free(&options);
    assert_int_equal(fy_options_load(&options, NULL, "my-nic", &source, &error), FERRY_OK);
    assert_int_equal(options.n, 0);
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        assert_int_equal(fy_options_load(&options, bad[i], "my-nic", &source, &error), FERRY_ERR_CONFIG);
        assert_true(strstr(error.message, "my-nic") || strstr(error.message, "FERRY_MY_NIC_GID"));
        assert_int_equal(options.n, 0);
    }
}

static void test_variable_names(void **state)
{
    char name[64], tight[8];

    (void)state;
    fy_option_variable(NULL, "heap_size", name, sizeof(name));
    assert_string_equal(name, "FERRY_HEAP_SIZE");
    fy_option_variable("my-nic2", "gid_index", name, sizeof(name));
    assert_string_equal(name, "FERRY_MY_NIC2_GID_INDEX");
    fy_option_variable("ibrc", "x", tight, sizeof(tight));
    assert_string_equal(tight, "FERRY_I");
}

static void test_core_table(void **state)
{
    struct fy_source source = {NULL, NULL};
    struct fy_options options;
    struct ferry_error error;

    (void)state;
    if (fy_options_load(&options, fy_core_options, NULL, &source, &error) != FERRY_OK)
        fail_msg("%s", error.message);
    assert_int_equal(fy_options_number(&options, "rank"), -1);
    assert_int_equal(fy_options_number(&options, "heap_size"), 64ll << 30);
    for (size_t i = 0; i < options.n; i++) {
        assert_true(strlen(fy_core_options[i].doc) > 10);
        assert_ptr_equal(fy_options_find(&options, fy_core_options[i].name), &options.values[i]); /* no name twice */
    }
    fy_options_free(&options);
}

/* ---- unknown names */

struct lines {
    int n;
    char text[8][256];
};

static void collect(void *arg, int level, const char *line)
{
    struct lines *lines = arg;

    assert_int_equal(level, FERRY_LOG_WARN);
    assert_true(lines->n < 8);
    snprintf(lines->text[lines->n++], sizeof(lines->text[0]), "%s", line);
}

static void warn(struct lines *lines, const char *const *overrides, char **environment, const char *const *foreign)
{
    static const struct ferry_option plugin_rows[] = {{"copy_max", FERRY_OPTION_SIZE, 0, "1K", NULL, ""}, {0}};
    struct fy_log log = {.level = FERRY_LOG_WARN, .pe = -1, .sink = collect, .sink_arg = lines};
    struct fy_source none = {NULL, NULL}, source = {overrides, environment};
    struct fy_options core, plugin;
    const struct fy_options *const known[] = {&core, &plugin, NULL};
    struct ferry_error error;

    load(&core, NULL, NULL);
    assert_int_equal(fy_options_load(&plugin, plugin_rows, "loopback", &none, &error), FERRY_OK);
    lines->n = 0;
    fy_options_warn_unknown(&source, known, foreign, &log);
    fy_options_free(&core);
    fy_options_free(&plugin);
}

static void test_unknown_variable(void **state)
{
    char typo[] = "FERRY_TRANSPRT=s3cret", again[] = "FERRY_TRANSPRT=other", known[] = "FERRY_LOG=info";
    char plugin[] = "FERRY_LOOPBACK_COPY_MAX=1", plugin_typo[] = "FERRY_LOOPBACK_COPYMAX=1", bare[] = "FERRY_BARE";
    char foreign[] = "FERRY_IBRC_GID=3", other[] = "FERRYMAN=1", far[] = "FERRY_COMPLETELY_ELSE=1";
    char *environment[] = {typo, known, again, plugin, plugin_typo, foreign, other, far, bare, NULL};
    static const char *const prefixes[] = {"FERRY_UCX_", "FERRY_IBRC_", NULL};
    struct lines lines;

    (void)state;
    warn(&lines, NULL, environment, prefixes);
    assert_int_equal(lines.n, 3);
    assert_string_equal(lines.text[0],
                        "ferry warning: no option is called FERRY_TRANSPRT; did you mean FERRY_TRANSPORT");
    assert_string_equal(
        lines.text[1],
        "ferry warning: no option is called FERRY_LOOPBACK_COPYMAX; did you mean FERRY_LOOPBACK_COPY_MAX");
    assert_string_equal(lines.text[2], "ferry warning: no option is called FERRY_COMPLETELY_ELSE; it has no effect "
                                       "(ferry-info lists those that do)");
    warn(&lines, NULL, environment, NULL);
    assert_int_equal(lines.n, 4); /* now FERRY_IBRC_GID is nobody's */
    assert_non_null(strstr(lines.text[2], "FERRY_IBRC_GID;"));
}

static void test_unknown_override(void **state)
{
    static const char *const overrides[] = {"HEAP_SIZE=s3cret", "FERRY_LOG=info", "s3cret", "FERRY_ID", NULL};
    struct lines lines;

    (void)state;
    warn(&lines, overrides, NULL, NULL);
    assert_int_equal(lines.n, 3);
    assert_string_equal(lines.text[0], "ferry warning: no option is called HEAP_SIZE; did you mean FERRY_HEAP_SIZE");
    assert_non_null(strstr(lines.text[1], "entry 2 of the attribute options"));
    assert_non_null(strstr(lines.text[2], "entry 3 of the attribute options"));
    for (int i = 0; i < lines.n; i++)
        assert_null(strstr(lines.text[i], "s3cret"));
}

static void test_unknown_monster(void **state)
{
    static char monster[100000] = "FERRY_";
    char *environment[] = {monster, NULL};
    struct lines lines;

    (void)state;
    memset(monster + 6, 'A', sizeof(monster) - 6 - 9);
    memcpy(monster + sizeof(monster) - 9, "=s3cret!", 9);
    warn(&lines, NULL, environment, NULL);
    assert_int_equal(lines.n, 1);
    assert_non_null(strstr(lines.text[0], "no option is called FERRY_AAAA"));
    assert_null(strstr(lines.text[0], "s3cret"));
}

static void test_nearest(void **state)
{
    static const char *const names[] = {"loopback", "ibrc", "libfabric", "ucx", "log"};
    static const struct {
        const char *name, *nearest;
    } cases[] = {{"lopback", "loopback"},
                 {"loopbcak", "loopback"},
                 {"LOOPBACK", "loopback"},
                 {"loopback", "loopback"},
                 {"irbc", "ibrc"},
                 {"ibcr", "ibrc"},
                 {"ib", NULL},
                 {"libfabrics", "libfabric"},
                 {"lbfabrc", "libfabric"},
                 {"libfa", NULL},
                 {"uxc", "ucx"},
                 {"lgo", "log"},
                 {"foo", NULL},
                 {"", NULL},
                 {"x", NULL},
                 {"tcp", NULL},
                 {"libfabrrr", "libfabric"}};
    char endless[200];

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const char *near = fy_nearest(cases[i].name, names, 5);

        if (near != cases[i].nearest && (!near || !cases[i].nearest || strcmp(near, cases[i].nearest) != 0))
            fail_msg("nearest to '%s' is %s", cases[i].name, near ? near : "nothing");
    }
    memset(endless, 'x', sizeof(endless) - 1);
    endless[sizeof(endless) - 1] = '\0';
    const char *const long_names[] = {endless};
    assert_null(fy_nearest(endless, names, 5));
    assert_null(fy_nearest("x", long_names, 1));
    assert_null(fy_nearest("loopback", names, 0));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_defaults),         cmocka_unit_test(test_precedence),
        cmocka_unit_test(test_source_get),       cmocka_unit_test(test_bad_value_ends_loading),
        cmocka_unit_test(test_plugin_tables),    cmocka_unit_test(test_variable_names),
        cmocka_unit_test(test_core_table),       cmocka_unit_test(test_unknown_variable),
        cmocka_unit_test(test_unknown_override), cmocka_unit_test(test_unknown_monster),
        cmocka_unit_test(test_nearest),
    };

    return cmocka_run_group_tests_name("base option tables", tests, NULL, NULL);
}
