/* SPDX-License-Identifier: Apache-2.0
 * moe_dispatch_gpu as far as it goes without a GPU: its arguments, and what it says where there is none. tests/gpu/run compares its
 * checksums with those of moe_dispatch. Main thread. */
#include "command.h"
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>
#include <string.h>

/* With no GPU to be seen, also where there is one. */
static void run_moe(struct command *command, const char *start, const char *arguments)
{
    command_run(command, "CUDA_VISIBLE_DEVICES= %s %s --text %s %s", start, test_path("MOE_DISPATCH_GPU"), test_path("TEXT"), arguments);
}

static void no_gpu_is_said(void **state)
{
    (void)state;
    struct command command;
    run_moe(&command, "", "");
    command_expect(&command, 1, "moe_dispatch_gpu: no GPU: ");
    command_expect(&command, 1, "; moe_dispatch does the same work without one");
    assert_null(strstr(command.output, "checksum"));
    command_free(&command);
    command_run(&command, "CUDA_VISIBLE_DEVICES= %s -n 2 %s --text %s", test_path("RUN_PROGRAM"), test_path("MOE_DISPATCH_GPU"),
                test_path("TEXT"));
    command_expect(&command, 1, "[0] moe_dispatch_gpu: no GPU: ");
    command_free(&command);
}

static void arguments_are_those_of_moe_dispatch(void **state)
{
    (void)state;
    const struct {
        const char *arguments, *message;
    } rows[] = {
        {"--ring 4 --chunk 5", "moe_dispatch_gpu: "},
        {"--channels 0", "moe_dispatch_gpu: --channels '0'"},
        {"--text /no/such/file", "moe_dispatch_gpu: --text '/no/such/file': "},
        {"--inject frogs", "moe_dispatch_gpu: --inject 'frogs'"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct command command;
        run_moe(&command, "", rows[i].arguments);
        command_expect(&command, 64, rows[i].message);
        command_free(&command);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_gpu_is_said),
        cmocka_unit_test(arguments_are_those_of_moe_dispatch),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
