/* SPDX-License-Identifier: Apache-2.0
 * The minimal transport: small, self-contained, good for moe_dispatch, and built by a stranger against an installed
 * Ferry. Also README's program. */
#include "command.h"
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>
#include <stdio.h>
#include <string.h>

static void run_with(struct command *command, const char *transport, int pes, const char *program)
{
    command_run(command, "FERRY_TRANSPORT=%s %s -n %d %s", transport, test_path("RUN_PROGRAM"), pes, program);
}

static void moe_runs_over_it(void **state)
{
    (void)state;
    char program[1024], sums[3][128];
    snprintf(program, sizeof program, "%s --text %s --ring 8 --chunk 4", test_path("MOE_DISPATCH"), test_path("TEXT"));
    const int sizes[] = {1, 4};
    for (size_t i = 0; i < 2; i++) {
        const char *transports[] = {"loopback", test_path("MINIMAL"), test_path("MINIMAL_NO_AMO")};
        for (size_t t = 0; t < 3; t++) {
            struct command command;
            run_with(&command, transports[t], sizes[i], program);
            command_expect(&command, 0, "every byte: 0 mismatched");
            command_checksums(&command, sums[t], sizeof sums[t]);
            command_free(&command);
        }
        assert_string_equal(sums[0], sums[1]);
        assert_string_equal(sums[0], sums[2]);
    }
}

/* The run above would also pass if the name were ignored; and what is missing must be made, in the same domain. */
static void it_is_used_and_what_it_lacks_is_made(void **state)
{
    (void)state;
    struct command command;
    const char *transports[] = {test_path("MINIMAL"), test_path("MINIMAL_NO_AMO")};
    for (size_t t = 0; t < 2; t++) {
        command_run(&command, "FERRY_TRANSPORT=%s %s", transports[t], test_path("LACKING"));
        command_expect(&command, 0, "heap from minimal\n");
        command_expect(&command, 0, t == 0 ? "by mailbox: 3\n" : "by mailbox: 5\n");
        command_expect(&command, 0, "swap: FERRY_OK 0\n");
        command_expect(&command, 0, "get: FERRY_OK 5\n");
        command_expect(&command, 0, "add: FERRY_OK 47\n");
        command_free(&command);
    }
    command_run(&command, "FERRY_TRANSPORT=loopback %s", test_path("LACKING"));
    command_expect(&command, 0, "heap from elsewhere\n");
    command_expect(&command, 0, "by mailbox: 0\n");
    command_free(&command);
}

static void it_is_small_and_includes_one_header(void **state)
{
    (void)state;
    struct command command;
    command_run(&command, "wc -l < %s/examples/transport-minimal/minimal.c", test_path("SOURCE_ROOT"));
    int lines = 0;
    assert_int_equal(sscanf(command.output, "%d", &lines), 1);
    assert_in_range(lines, 1, 200);
    command_free(&command);
    command_run(&command, "grep '#include' %s/examples/transport-minimal/minimal.c | grep -e ferry -e '\"'",
                test_path("SOURCE_ROOT"));
    assert_string_equal(command.output, "#include <ferry/transport.h>\n");
    command_free(&command);
    command_run(&command, "nm -D --defined-only %s; nm -D --undefined-only %s | grep -e ferry_ -e fy_",
                test_path("MINIMAL"), test_path("MINIMAL"));
    assert_non_null(strstr(command.output, " ferry_plugin_v1\n"));
    assert_string_equal(strstr(command.output, "ferry_plugin_v1"), "ferry_plugin_v1\n"); /* the last line, and ... */
    assert_ptr_equal(strchr(command.output, '\n') + 1, command.output + strlen(command.output)); /* ... the only one */
    command_free(&command);
}

/* meson install into an empty folder, then make with nothing but what lies there. */
static void a_stranger_builds_it(void **state)
{
    (void)state;
    struct command command;
    command_run(
        &command,
        "set -e; d=$(mktemp -d); trap 'rm -rf \"$d\"' EXIT\n"
        "DESTDIR=$d/root %s install -C %s --no-rebuild --quiet\n"
        "pc=$(find $d/root -name ferry-plugin.pc); test -n \"$pc\"\n"
        "mkdir $d/mine; cp %s/examples/transport-minimal/minimal.c %s/examples/transport-minimal/Makefile $d/mine\n"
        "export PKG_CONFIG_PATH=$(dirname $pc) PKG_CONFIG_SYSROOT_DIR=$d/root\n"
        "unset CFLAGS LDFLAGS MAKEFLAGS\n"
        "cd $d/mine; make CC='%s -Wextra -Werror'; make install DESTDIR=$d/installed\n"
        "find $d/installed -name minimal.so | sed s,$d,,\n"
        "FERRY_TRANSPORT=$d/mine/minimal.so %s -n 2 %s --text %s --hidden 64",
        test_path("MESON"), test_path("BUILD_ROOT"), test_path("SOURCE_ROOT"), test_path("SOURCE_ROOT"),
        test_path("CC"), test_path("RUN_PROGRAM"), test_path("MOE_DISPATCH"), test_path("TEXT"));
    command_expect(&command, 0, "every byte: 0 mismatched");
    command_expect(&command, 0, "/ferry/plugins-v1/minimal.so");
    command_free(&command);
}

static void readme_has_the_hello_program(void **state)
{
    (void)state;
    struct command command;
    command_run(&command,
                "cd %s; awk '/^```c$/{f=1;next} /^```$/{f=0} f' README.md > %s/readme-block.c; "
                "tail -n +4 examples/hello.c | diff - %s/readme-block.c && wc -l < %s/readme-block.c",
                test_path("SOURCE_ROOT"), test_path("SCRATCH"), test_path("SCRATCH"), test_path("SCRATCH"));
    command_expect(&command, 0, "\n");
    command_free(&command);
    run_with(&command, "loopback", 3, test_path("HELLO"));
    command_expect(&command, 0, "pe 0 got: hello from pe 2\n");
    command_expect(&command, 0, "pe 1 got: hello from pe 0\n");
    command_expect(&command, 0, "pe 2 got: hello from pe 1\n");
    command_free(&command);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(moe_runs_over_it),
        cmocka_unit_test(it_is_used_and_what_it_lacks_is_made),
        cmocka_unit_test(it_is_small_and_includes_one_header),
        cmocka_unit_test(a_stranger_builds_it),
        cmocka_unit_test(readme_has_the_hello_program),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
