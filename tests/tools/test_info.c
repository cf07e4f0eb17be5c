/* SPDX-License-Identifier: Apache-2.0
 * ferry-info: both forms of output, and the exit status. */
#include "command.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <cmocka.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

static const char *tool;

/* Runs it with --json and parses all of stdout. */
static json_t *run_json(struct command *c, const char *const *argv, int status)
{
    json_error_t error;
    assert_int_equal(command_run(c, argv), status);
    json_t *root = json_loadb(c->text, c->length, 0, &error);
    if (!root)
        fail_msg("line %d: %s in:\n%s", error.line, error.text, c->text);
    return root;
}

static const char *text_of(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));
    if (!text)
        fail_msg("no text %s", key);
    return text;
}

/* The member of an array whose `name` is that; NULL: none. */
static json_t *named(const json_t *root, const char *array, const char *name)
{
    size_t i;
    json_t *entry;
    assert_true(json_is_array(json_object_get(root, array)));
    json_array_foreach(json_object_get(root, array), i,
                       entry) if (strcmp(text_of(entry, "name"), name) == 0) return entry;
    return NULL;
}

static void test_json(void **state)
{
    (void)state;
    struct command c = {0};
    json_t *root = run_json(&c, ARGS(tool, "--json"), 0);
    assert_true(strlen(text_of(root, "version")) >= 5);
    assert_true(json_array_size(json_object_get(root, "search")) >= 1);
    assert_true(json_is_string(json_array_get(json_object_get(root, "search"), 0)));

    json_t *plugin = named(root, "plugins", "loopback");
    assert_non_null(plugin);
    assert_string_equal(text_of(plugin, "state"), "chosen");
    assert_non_null(strstr(text_of(plugin, "path"), "loopback.so"));
    assert_non_null(text_of(plugin, "reason"));
    json_t *capabilities = json_object_get(plugin, "capabilities");
    assert_true(json_is_object(capabilities) && json_object_size(capabilities) > 5);
    assert_string_equal(text_of(capabilities, "get"), "yes");

    json_t *option = named(root, "options", "FERRY_HEAP_SIZE");
    assert_non_null(option);
    assert_string_equal(text_of(option, "origin"), "default");
    assert_true(strlen(text_of(option, "value")) > 0 && strlen(text_of(option, "doc")) > 0);
    json_decref(root);
    command_release(&c);
}

/* With one transport chosen: it alone. With none: the guises, too. */
static void test_explain(void **state)
{
    (void)state;
    struct command c = {0};
    assert_int_equal(command_run(&c, ARGS(tool, "--explain", "--transport=loopback")), 0);
    assert_non_null(strstr(c.text, "loopback, host memory\n"));
    assert_non_null(strstr(c.text, "8-byte atomics                 native"));
    assert_non_null(strstr(c.text, "put with signal ADD            native"));
    assert_null(strstr(c.text, "loopback as"));
    command_release(&c);
    const char *const settings[] = {"FERRY_LOOPBACK_GUISE=no-amo,no-get", NULL};
    struct command weak = {.settings = settings};
    assert_int_equal(command_run(&weak, ARGS(tool, "--explain")), 0);
    assert_non_null(strstr(weak.text, "8-byte atomics                 made           by mailbox"));
    assert_non_null(
        strstr(weak.text, "get                            made           a request to the target's mailbox"));
    command_release(&weak);
    const char *const few[] = {"FERRY_LOOPBACK_GUISE=no-fetch", NULL};
    struct command some = {.settings = few};
    assert_int_equal(command_run(&some, ARGS(tool, "--explain", "-t", "loopback")), 0);
    assert_non_null(strstr(some.text, "8-byte atomics                 native, made   fetch_add, fetch_and,"));
    assert_non_null(strstr(some.text, "compare_swap, fetch: by mailbox"));
    command_release(&some);
    struct command all = {0};
    assert_int_equal(command_run(&all, ARGS(tool, "--explain")), 0);
    assert_non_null(strstr(all.text, "loopback as no-amo, host memory\n"));
    assert_non_null(strstr(all.text, "loopback as max-msg=4096, host memory\n"));
    command_release(&all);
    struct command wrong = {0};
    assert_int_equal(command_run(&wrong, ARGS(tool, "--explain", "-t", "lopback")), 1);
    assert_non_null(strstr(wrong.text, "did you mean loopback?"));
    command_release(&wrong);
}

static void test_explain_json(void **state)
{
    (void)state;
    struct command c = {0};
    json_t *rows = run_json(&c, ARGS(tool, "--explain", "--json", "-t", "loopback"), 0), *row;
    size_t i;
    bool seen = false;
    assert_true(json_is_array(rows) && json_array_size(rows) > 10);
    json_array_foreach(rows, i, row)
    {
        assert_string_equal(text_of(row, "transport"), "loopback");
        seen |= strcmp(text_of(row, "feature"), "get") == 0 && strcmp(text_of(row, "how"), "native") == 0;
    }
    assert_true(seen);
    json_decref(rows);
    command_release(&c);
}

#if defined(WITH_LIBFABRIC) || defined(WITH_UCX)
/* The cost that is told of that feature, or NULL. */
static const char *cost_of(const json_t *rows, const char *way, const char *feature, const char *how)
{
    json_t *row;
    size_t i;
    json_array_foreach(rows, i, row) if (strcmp(text_of(row, "guise"), way) == 0 &&
                                         strcmp(text_of(row, "feature"), feature) == 0 &&
                                         strcmp(text_of(row, "how"), how) == 0) return text_of(row, "cost");
    return NULL;
}

#endif

#ifdef WITH_LIBFABRIC
/* Each provider is a transport of its own, as far as what is native goes; who named one sees that one. */
static void test_explain_providers(void **state)
{
    (void)state;
    struct command c = {0};
    assert_int_equal(command_run(&c, ARGS(tool, "--explain", "-t", "libfabric")), 0);
    assert_non_null(strstr(c.text, "\nlibfabric as tcp;ofi_rxm, host memory\n  (provider tcp;ofi_rxm on "));
    assert_non_null(strstr(c.text, "\nlibfabric as cxi: not usable here\n  (libfabric "));
    command_release(&c);
    struct command j = {0};
    json_t *rows = run_json(&j, ARGS(tool, "--explain", "--json", "-t", "libfabric"), 0);
    assert_non_null(strstr(cost_of(rows, "tcp;ofi_rxm", "put after fence after atomic", "made"), "a wait for that channel"));
    assert_non_null(cost_of(rows, "shm by queues", "put after fence after atomic", "native"));
    assert_non_null(cost_of(rows, "shm by copies", "put after fence after atomic", "made"));
    assert_non_null(cost_of(rows, "sockets", "put after fence after atomic", "native"));
    assert_non_null(cost_of(rows, "cxi", "", "not usable here"));
    json_decref(rows);
    command_release(&j);
    const char *const settings[] = {"FERRY_LIBFABRIC_PROVIDER=shm", NULL};
    struct command one = {.settings = settings};
    assert_int_equal(command_run(&one, ARGS(tool, "--explain", "-t", "libfabric")), 0);
    assert_non_null(strstr(one.text, "(provider shm on shm)"));
    assert_null(strstr(one.text, "libfabric as"));
    command_release(&one);
}

#endif

#ifdef WITH_UCX
static void test_explain_lanes(void **state)
{
    (void)state;
    struct command c = {0};
    json_t *rows = run_json(&c, ARGS(tool, "--explain", "--json", "-t", "ucx"), 0);
    assert_non_null(cost_of(rows, "posix,self", "progress at the target", "native"));
    assert_non_null(cost_of(rows, "tcp,self", "progress at the target", "made"));
    assert_non_null(cost_of(rows, "tcp,self", "get", "native"));
    json_decref(rows);
    command_release(&c);
    const char *const settings[] = {"UCX_TLS=self", NULL};
    struct command one = {.settings = settings};
    assert_int_equal(command_run(&one, ARGS(tool, "--explain", "-t", "ucx")), 0);
    assert_non_null(strstr(one.text, "\nucx, host memory\n  (UCX "));
    assert_null(strstr(one.text, "ucx as"));
    command_release(&one);
}

#endif

static void test_origin(void **state)
{
    (void)state;
    const char *const settings[] = {"FERRY_HEAP_SIZE=3G", NULL};
    struct command c = {.settings = settings};
    json_t *root = run_json(&c, ARGS(tool, "--json"), 0);
    json_t *option = named(root, "options", "FERRY_HEAP_SIZE");
    assert_non_null(option);
    assert_string_equal(text_of(option, "origin"), "environment");
    assert_string_equal(text_of(option, "value"), "3G");
    json_decref(root);
    command_release(&c);
}

static void test_the_secret_stays(void **state)
{
    (void)state;
    const char *const settings[] = {"FERRY_ID=5ec5e75ec5e7", "FERRY_RANK=0", "FERRY_SIZE=1", NULL};
    const char *const forms[] = {"--json", "--all"};
    for (size_t i = 0; i < 2; i++) {
        struct command c = {.settings = settings};
        command_run(&c, ARGS(tool, forms[i]));
        assert_int_equal(count_pieces(c.text, c.length, "5ec5e7"), 0);
        assert_int_equal(count_pieces(c.error_text, c.error_length, "5ec5e7"), 0);
        assert_true(count_pieces(c.text, c.length, "FERRY_ID") >= 1);
        command_release(&c);
    }
}

static void test_unusable(void **state)
{
    (void)state;
    struct command c = {0};
    json_t *root = run_json(&c, ARGS(tool, "--json", "--transport", "lopback"), 1);
    json_t *plugin = named(root, "plugins", "lopback");
    assert_non_null(plugin);
    assert_string_equal(text_of(plugin, "state"), "not found");
    assert_non_null(strstr(text_of(plugin, "reason"), "loopback"));
    assert_int_equal(json_object_size(json_object_get(plugin, "capabilities")), 0);
    json_decref(root);
    command_release(&c);

    /* What else the folders hold does not make up for it, nor spoil what was asked for. */
    assert_int_equal(command_run(&c, ARGS(tool, "--all", "--transport", "loopback,lopback")), 1);
    command_release(&c);
    assert_int_equal(command_run(&c, ARGS(tool, "--all", "--transport", "loopback")), 0);
    command_release(&c);
    const char *const settings[] = {"FERRY_TRANSPORT=lopback", NULL};
    c.settings = settings;
    assert_int_equal(command_run(&c, ARGS(tool)), 1);
    command_release(&c);
}

static void test_bad_option(void **state)
{
    (void)state;
    const char *const settings[] = {"FERRY_HEAP_SIZE=12Q", NULL};
    struct command c = {.settings = settings};
    assert_int_equal(command_run(&c, ARGS(tool)), 78);
    assert_true(count_pieces(c.error_text, c.error_length, "FERRY_HEAP_SIZE") >= 1);
    assert_true(count_pieces(c.error_text, c.error_length, "12Q") >= 1);
    command_release(&c);
}

static void test_text(void **state)
{
    (void)state;
    const char *const settings[] = {"FERRY_LOG=error", NULL};
    struct command c = {.settings = settings};
    assert_int_equal(command_run(&c, ARGS(tool, "--all")), 0);
    assert_int_equal(strncmp(c.text, "ferry ", 6), 0);
    assert_int_equal(count_pieces(c.text, c.length, "\nfolders searched for plugins\n"), 1);
    assert_int_equal(count_pieces(c.text, c.length, "loopback.so\n"), 1);
    assert_int_equal(count_pieces(c.text, c.length, "  FERRY_LOG=error (environment)\n"), 1);
    assert_int_equal(count_pieces(c.text, c.length, "  FERRY_CHANNELS=64 (default)\n"), 1);
    assert_int_equal(c.error_length, 0);
    command_release(&c);
}

static void test_usage(void **state)
{
    (void)state;
    struct command c = {0};
    assert_int_equal(command_run(&c, ARGS(tool, "--nonsense")), 64);
    command_release(&c);
}

int main(void)
{
    tool = getenv("TOOLS_INFO");
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_json),
                                       cmocka_unit_test(test_explain),
                                       cmocka_unit_test(test_explain_json),
#ifdef WITH_LIBFABRIC
                                       cmocka_unit_test(test_explain_providers),
#endif
#ifdef WITH_UCX
                                       cmocka_unit_test(test_explain_lanes),
#endif
                                       cmocka_unit_test(test_origin),
                                       cmocka_unit_test(test_the_secret_stays),
                                       cmocka_unit_test(test_unusable),
                                       cmocka_unit_test(test_bad_option),
                                       cmocka_unit_test(test_text),
                                       cmocka_unit_test(test_usage)};
    return tool ? cmocka_run_group_tests(tests, NULL, NULL) : 1;
}
