/* SPDX-License-Identifier: Apache-2.0
 * ferry-info --doctor and the plan of --explain: both forms of output, the exit status, what the library itself checks.
 * What transports find is tested beside each of them. */
#include "command.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <cmocka.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *tool;

static json_t *doctor(struct command *c, const char *spec, int status)
{
    json_error_t error;
    assert_int_equal(command_run(c, ARGS(tool, "--doctor", "--json", "-t", spec)), status);
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

static const json_t *finding(const json_t *root, const char *owner, const char *object)
{
    const json_t *entry;
    size_t i;
    json_array_foreach(json_object_get(root, "findings"), i, entry)
    {
        if (strcmp(text_of(entry, "owner"), owner) == 0 && strcmp(text_of(entry, "object"), object) == 0)
            return entry;
    }
    fail_msg("no finding of %s on %s", owner, object);
    return NULL;
}

static void level_is(const json_t *root, const char *owner, const char *object, const char *level, const char *text,
                     const char *advice)
{
    const json_t *entry = finding(root, owner, object);
    assert_string_equal(text_of(entry, "level"), level);
    if (!strstr(text_of(entry, "found"), text))
        fail_msg("'%s' is not in: %s", text, text_of(entry, "found"));
    if (!strstr(text_of(entry, "advice"), advice))
        fail_msg("'%s' is not in: %s", advice, text_of(entry, "advice"));
}

static void test_healthy(void **state)
{
    (void)state;
    struct command c = {0};
    json_t *root = doctor(&c, "loopback", 0);
    assert_true(json_is_true(json_object_get(root, "usable")));
    level_is(root, "core", "interface", "ok", "PEs meet on lo", "");
    level_is(root, "core", "address space", "ok", "", "");
    level_is(root, "loopback", "plugin", "ok", "chosen", "");
    level_is(root, "loopback", "memory files", "ok", "memfd_create", "");
    level_is(root, "loopback", "sockets", "ok", "abstract", "");
    level_is(root, "loopback", "reaches", "ok", "PEs of user", "");
    finding(root, "core", "cores");
    finding(root, "core", "huge pages");
    json_decref(root);
    command_release(&c);
}

static void test_text(void **state)
{
    (void)state;
    struct command c = {0};
    assert_int_equal(command_run(&c, ARGS(tool, "--doctor", "-t", "loopback")), 0);
    assert_int_equal(strncmp(c.text, "core\n", 5), 0);
    assert_int_equal(count_pieces(c.text, c.length, "\nloopback\n  ok       plugin\n           chosen: "), 1);
    assert_int_equal(count_pieces(c.text, c.length, "0 problems: what was asked for can be used\n"), 1);
    command_release(&c);
    assert_int_equal(command_run(&c, ARGS(tool, "--doctor", "-t", "lopback")), 1);
    assert_int_equal(count_pieces(c.text, c.length, "did you mean loopback?\n           -> correct the name"), 1);
    assert_int_equal(count_pieces(c.text, c.length, "1 problem: what was asked for cannot be used\n"), 1);
    command_release(&c);
}

/* What one transport cannot do does not matter to auto while another can; but it does to who names it. */
static void test_named(void **state)
{
    (void)state;
    struct command c = {0};
    json_t *root = doctor(&c, "loopback,lopback", 1);
    level_is(root, "lopback", "plugin", "problem", "did you mean loopback", "correct the name");
    level_is(root, "loopback", "plugin", "ok", "chosen", "");
    assert_true(json_is_false(json_object_get(root, "usable")));
    json_decref(root);
    command_release(&c);
    root = doctor(&c, "auto", 0);
    level_is(root, "loopback", "plugin", "ok", "", "");
    json_decref(root);
    command_release(&c);
}

static void test_bad_host(void **state)
{
    (void)state;
    const char *const settings[] = {"FERRY_INTERFACE=nothere0", "FERRY_GPU=3b:00.0", NULL};
    struct command c = {.settings = settings, .soft_files = 50};
    json_t *root = doctor(&c, "loopback", 1);
    level_is(root, "core", "interface", "problem", "there is none of this name", "FERRY_INTERFACE");
    level_is(root, "core", "open files", "problem", "50", "ulimit -n");
    level_is(root, "core", "gpu", "problem", "'3b:00.0', which is no PCI address", "nvidia-smi");
    json_decref(root);
    command_release(&c);
    struct command few = {.soft_files = 200};
    root = doctor(&few, "loopback", 0);
    level_is(root, "core", "open files", "warning", "200", "ulimit -n");
    json_decref(root);
    command_release(&few);
}

/* What ferry_init would refuse, and what it could only ignore. */
static void test_values_that_no_job_takes(void **state)
{
    static const struct {
        const char *set, *object, *level, *says;
        int status;
    } values[] = {
        {"FERRY_CHANNELS=100000", "options", "problem", "FERRY_CHANNELS is 100000, accepted are 1 to 65534", 1},
        {"FERRY_QUEUE_OPS=-1", "options", "problem", "FERRY_QUEUE_OPS is -1", 1},
        {"FERRY_BOUNCE_SIZE=8191", "options", "problem", "FERRY_BOUNCE_SIZE is 8191, the least is 8192", 1},
        {"FERRY_HEAP_SIZE=0", "options", "problem", "FERRY_HEAP_SIZE is 0", 1},
        {"FERRY_LOOPBACK_NT_TRESHOLD=1", "options", "warning",
         "no option is called FERRY_LOOPBACK_NT_TRESHOLD; did you mean FERRY_LOOPBACK_NT_THRESHOLD", 0},
        {"FERRY_GPU=0000FFFE:FD:1E.7", "gpu", "warning", "FERRY_GPU is fffe:fd:1e.7, and this host shows no such", 0},
        {"FERRY_GPU=12345678:FD:1E.7", "gpu", "problem", "which is no PCI address", 1},
    };
    (void)state;
    for (size_t i = 0; i < sizeof values / sizeof values[0]; i++) {
        struct command c = {.settings = ARGS(values[i].set)};
        json_t *root = doctor(&c, "loopback", values[i].status);
        level_is(root, "core", values[i].object, values[i].level, values[i].says, "");
        json_decref(root);
        command_release(&c);
    }
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__) /* these need an address space without limit */
static void test_address_space(void **state)
{
    (void)state;
    char line[512];
    struct command c = {0};
    snprintf(line, sizeof line, "ulimit -v 8000000; exec '%.400s' --doctor -t loopback", tool);
    assert_int_equal(command_run(&c, ARGS("/bin/sh", "-c", line)), 1);
    assert_int_equal(count_pieces(c.text, c.length, "problem  address space\n           limited to 7812 MiB"), 1);
    assert_int_equal(count_pieces(c.text, c.length, "-> ulimit -v unlimited"), 1);
    command_release(&c);
}
#endif

static void test_bad_option(void **state)
{
    (void)state;
    const char *const settings[] = {"FERRY_LOOPBACK_NT_THRESHOLD=many", NULL};
    struct command c = {.settings = settings};
    json_t *root = doctor(&c, "loopback", 1);
    level_is(root, "loopback", "plugin", "problem", "FERRY_LOOPBACK_NT_THRESHOLD", "unset FERRY_LOOPBACK_NT_THRESHOLD");
    json_decref(root);
    command_release(&c);
}

#ifdef WITH_IBRC
/* By the libibverbs of this machine, whatever it has. */
static void test_this_machine(void **state)
{
    (void)state;
    struct command c = {0};
    int status = command_run(&c, ARGS(tool, "--doctor", "-t", "ibrc"));
    if (count_pieces(c.text, c.length, "no RDMA device: /sys/class/infiniband is ") > 0) {
        assert_int_equal(status, 1);
        assert_true(count_pieces(c.text, c.length, "modprobe") > 0);
        assert_int_equal(count_pieces(c.text, c.length, "what was asked for cannot be used"), 1);
    } else {
        assert_int_equal(count_pieces(c.text, c.length, "the kernel has "), 1);
    }
    command_release(&c);
}
#endif

static void test_usage(void **state)
{
    static const char *const lines[][5] = {
        {"--doctor", "--explain", NULL},        {"-n", "2", NULL},
        {"--explain", "-n", "0", NULL},         {"--explain", "-n", "two", NULL},
        {"--explain", "--nodes=0", NULL},       {"--explain", "-n", "2", "--nodes=0,x", NULL},
        {"--explain", "-n", "2", "--nodes=64"}, {"--explain", "-n", "2", "--nodes="},
    };
    (void)state;
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++) {
        struct command c = {0};
        const char *argv[7] = {tool};
        memcpy(&argv[1], lines[i], sizeof lines[i]);
        if (command_run(&c, argv) != 64)
            fail_msg("case %zu: %d, %s", i, c.status, c.error_text);
        command_release(&c);
    }
}

/* Nothing is shown before the list of nodes is read; and all of it is, what lies behind the last PE, too. */
static void test_nodes_first(void **state)
{
    (void)state;
    struct command c = {0};
    assert_int_equal(command_run(&c, ARGS(tool, "--explain", "-t", "loopback", "-n", "2", "--nodes=0,1,x")), 64);
    assert_int_equal(c.length, 0);
    assert_int_equal(count_pieces(c.error_text, c.error_length, "--nodes=0,1,x is no list of NUMA nodes"), 1);
    command_release(&c);
}

/* Who gets none of it hears why. */
static void test_closed_stdout(void **state)
{
    static const char *const lines[][4] = {
        {"--doctor"}, {"--doctor", "--json"}, {"--explain"}, {"--explain", "--json"}};
    (void)state;
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++) {
        struct command c = {.out_fd = -1};
        const char *argv[] = {tool, "-t", "loopback", lines[i][0], lines[i][1], NULL};
        assert_int_equal(command_run(&c, argv), 74);
        assert_int_equal(count_pieces(c.error_text, c.error_length, "ferry-info: cannot write the output\n"), 1);
        command_release(&c);
    }
}

/* loopback has no devices to choose from: a plan, but an empty one. */
static void test_empty_plan(void **state)
{
    (void)state;
    struct command c = {0};
    assert_int_equal(command_run(&c, ARGS(tool, "--explain", "-t", "loopback", "-n", "4", "--nodes=0,1")), 0);
    assert_int_equal(count_pieces(c.text, c.length, "devices of local PEs"), 0);
    command_release(&c);
}

int main(void)
{
    tool = getenv("TOOLS_INFO");
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_healthy),
        cmocka_unit_test(test_text),
        cmocka_unit_test(test_named),
        cmocka_unit_test(test_bad_host),
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
        cmocka_unit_test(test_address_space),
#endif
        cmocka_unit_test(test_bad_option),
        cmocka_unit_test(test_usage),
        cmocka_unit_test(test_values_that_no_job_takes),
        cmocka_unit_test(test_nodes_first),
        cmocka_unit_test(test_closed_stdout),
        cmocka_unit_test(test_empty_plan),
#ifdef WITH_IBRC
        cmocka_unit_test(test_this_machine),
#endif
    };
    return tool ? cmocka_run_group_tests(tests, NULL, NULL) : 1;
}
