/* SPDX-License-Identifier: Apache-2.0
 * moe_dispatch as a user runs it: the same checksums for every number of PEs, bad arguments, and faults that it must
 * find. */
#include "command.h"
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>
#include <stdio.h>
#include <string.h>

static void run_moe(struct command *command, int pes, const char *arguments)
{
    command_run(command, "%s -n %d %s --text %s %s %s", test_path("RUN_PROGRAM"), pes, test_path("MOE_DISPATCH"),
                test_path("TEXT"), test_path("LESS"), arguments);
}

/* Runs each size, expects success and one and the same pair of checksums; puts it in `sums`. */
static void same_for_sizes(const int *sizes, size_t n, const char *arguments, char *sums, size_t sums_size)
{
    sums[0] = '\0';
    for (size_t i = 0; i < n; i++) {
        struct command command;
        char mine[128];
        run_moe(&command, sizes[i], arguments);
        command_expect(&command, 0, "every byte: 0 mismatched");
        command_checksums(&command, mine, sizeof mine);
        command_free(&command);
        if (i == 0)
            snprintf(sums, sums_size, "%s", mine);
        assert_string_equal(mine, sums);
    }
}

static void checksums_do_not_depend_on_the_number_of_pes(void **state)
{
    (void)state;
    const int sizes[] = {1, 2, 4, 16};
    char sums[128], again[128];
    same_for_sizes(sizes, 4, "", sums, sizeof sums);
    /* nor on how the tokens travel */
    same_for_sizes(sizes + 1, 1, "--threads --channels 5 --ring 8 --chunk 4", again, sizeof again);
    assert_string_equal(sums, again);
    /* but on the model */
    same_for_sizes(sizes + 1, 1, "--topk 7", again, sizeof again);
    assert_string_not_equal(sums, again);
}

static void odd_numbers_and_full_rings(void **state)
{
    (void)state;
    const int sizes[] = {1, 3, 5};
    char sums[128];
    same_for_sizes(sizes, 3, "--hidden 17 --topk 3 --experts 7 --channels 3 --ring 6 --chunk 3 --tokens 5000", sums,
                   sizeof sums);
    same_for_sizes(sizes, 3, "--hidden 1 --topk 1 --experts 1 --channels 1 --ring 2 --chunk 1 --tokens 300", sums,
                   sizeof sums);
}

static void more_pes_than_experts_or_tokens(void **state)
{
    (void)state;
    const int sizes[] = {1, 8};
    char sums[128];
    same_for_sizes(sizes, 2, "--experts 3 --topk 3 --hidden 64", sums, sizeof sums);
    same_for_sizes(sizes, 2, "--tokens 3 --hidden 64", sums, sizeof sums);
}

static void few_destinations(void **state)
{
    (void)state;
    struct command command;
    run_moe(&command, 8, "--hidden 16 --ring 4 --chunk 2 --experts 1024 --max-dest 3 --tokens 4096");
    command_expect(&command, 0, "at most 3 destinations");
    command_expect(&command, 0, "verified 4096 tokens of 4096, every byte: 0 mismatched");
    command_free(&command);
}

/* The thread sanitizer does not see what orders threads of one process if that came by way of another process; and it leaves address
 * space for some thirty heaps. */
#ifdef __SANITIZE_THREAD__
#define SEVERAL 0
#define MANY    16
#else
#define SEVERAL 1
#define MANY    64
#endif

/* Processes, threads, both: the job is the same. */
static void threads_are_pes_like_processes(void **state)
{
    (void)state;
    const int sizes[] = {8}, halves[] = {2}, one[] = {1};
    char sums[128], again[128];
    same_for_sizes(sizes, 1, "--hidden 32 --tokens 300", sums, sizeof sums);
    if (SEVERAL) {
        same_for_sizes(halves, 1, "--hidden 32 --tokens 300 --pes 4", again, sizeof again);
        assert_string_equal(sums, again);
    }
    same_for_sizes(one, 1, "--hidden 32 --tokens 300 --pes 8", again, sizeof again);
    assert_string_equal(sums, again);
    struct command command;
    command_run(&command, "%s --text %s %s --hidden 32 --tokens 300 --pes 8", test_path("MOE_DISPATCH"), test_path("TEXT"),
                test_path("LESS"));
    command_expect(&command, 0, "moe_dispatch: 8 PEs, 300 tokens");
    command_checksums(&command, again, sizeof again);
    assert_string_equal(sums, again);
    command_free(&command);
    command_run(&command, "FERRY_RANK=0 %s --text %s --pes 2", test_path("MOE_DISPATCH"), test_path("TEXT"));
    command_expect(&command, 1, "--pes '2': FERRY_ERR_ARG; alone it needs none of FERRY_RANK, FERRY_SIZE and FERRY_ID");
    command_free(&command);
}

static void many_pes(void **state)
{
    (void)state;
    struct command command;
    char arguments[160], says[80];
    snprintf(arguments, sizeof arguments,
             "--pes %d --hidden 16 --topk 4 --ring 4 --chunk 2 --channels 1 --experts 1024 --max-dest 8 --tokens 1024",
             MANY / (1 + SEVERAL));
    snprintf(says, sizeof says, "moe_dispatch: %d PEs, 1024 tokens", MANY);
    run_moe(&command, 1 + SEVERAL, arguments);
    command_expect(&command, 0, says);
    command_expect(&command, 0, "verified 1024 tokens of 1024, every byte: 0 mismatched");
    command_free(&command);
}

static void prints_each_pe_and_the_total(void **state)
{
    (void)state;
    struct command command;
    run_moe(&command, 2, "--hidden 64 --tokens 100");
    command_expect(&command, 0, "pe 0: 50 tokens  dispatch ");
    command_expect(&command, 0, "pe 1: 50 tokens  dispatch ");
    command_expect(&command, 0, "total: 100 tokens  dispatch ");
    command_expect(&command, 0, " GB/s");
    command_expect(&command, 0, " tokens/s");
    command_free(&command);
}

static void bad_arguments_are_named(void **state)
{
    (void)state;
    static const struct {
        const char *arguments, *message;
    } rows[] = {
        {"--chunk 65", "--chunk '65': more than half of --ring 128"},
        {"--ring 100", "--ring '100': not a multiple of --chunk 16"},
        {"--topk 9 --experts 8", "--topk '9': more than --experts 8"},
        {"--topk 65", "--topk '65': out of range; accepted are 1 to 64"},
        {"--hidden 0", "--hidden '0': out of range"},
        {"--hidden -4", "--hidden '-4': not a number"},
        {"--hidden ''", "--hidden '': not a number"},
        {"--tokens 1x", "--tokens '1x': not a number"},
        {"--tokens 99999999999999999999", "--tokens '99999999999999999999': out of range"},
        {"--channels 0", "--channels '0': out of range"},
        {"--pes 0", "--pes '0': out of range; accepted are 1 to 4096"},
        {"--experts 65537", "--experts '65537': out of range"},
        {"--max-dest 0", "--max-dest '0': out of range"},
        {"--max-dest 1 --experts 8 --topk 5", "--max-dest '1': leaves some pe 4 of 8 experts"},
        {"--inject nothing", "--inject 'nothing': unknown; accepted are corrupt, late and weak"},
        {"--text /no/such/file", "--text '/no/such/file': No such file or directory"},
        {"--text /", "--text '/': Is a directory"},
        {"--text /dev/null", "--text '/dev/null': holds no words"},
        {"surplus", "argument 'surplus' is not an option"},
        {"--bogus", "unrecognized option '--bogus'"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct command command;
        run_moe(&command, 2, rows[i].arguments);
        command_expect(&command, 64, rows[i].message);
        command_free(&command);
    }
    struct command command;
    command_run(&command, "%s", test_path("MOE_DISPATCH"));
    command_expect(&command, 64, "--text FILE is missing");
    command_free(&command);
    run_moe(&command, 1, "--inject late");
    command_expect(&command, 64, "--inject 'late': there is no second pe");
    command_free(&command);
}

static void lost_output_is_an_error(void **state)
{
    (void)state;
    struct command command;
    command_run(&command, "%s --text %s --hidden 16 --tokens 32 >/dev/full", test_path("MOE_DISPATCH"), test_path("TEXT"));
    command_expect(&command, 1, "moe_dispatch: cannot write the output");
    command_free(&command);
}

static void too_many_channels_is_an_error(void **state)
{
    (void)state;
    struct command command;
    run_moe(&command, 2, "--channels 9 --hidden 16");
    command_expect(&command, 0, "0 mismatched");
    command_free(&command);
    command_run(&command, "FERRY_CHANNELS=8 %s -n 2 %s --text %s --channels 9 --hidden 16", test_path("RUN_PROGRAM"),
                test_path("MOE_DISPATCH"), test_path("TEXT"));
    command_expect(&command, 1, "--channels '9': context ");
    command_free(&command);
}

/* A check that cannot fail is no check. */
static void a_changed_byte_is_found(void **state)
{
    (void)state;
    for (int pes = 1; pes <= 3; pes++) {
        struct command command;
        char named[64];
        run_moe(&command, pes, "--inject corrupt --hidden 64");
        snprintf(named, sizeof named, "dispatch: pe %d channel 0 from pe 0 slot 0: expected stamp", pes - 1);
        command_expect(&command, 1, named);
        command_expect(&command, 1, "data was lost or changed");
        assert_null(strstr(command.output, "checksum dispatch 0"));
        command_free(&command);
    }
}

static void data_later_than_its_signal_is_found(void **state)
{
    (void)state;
    struct command command;
    run_moe(&command, 2, "--inject late --hidden 64");
    command_expect(&command, 1, "dispatch: pe 1 channel 0 from pe 0 slot 0: expected stamp");
    command_expect(&command, 1, "data was not visible when its signal was");
    command_free(&command);
    run_moe(&command, 3, "--inject late --hidden 64 --threads");
    command_expect(&command, 1, "data was not visible when its signal was");
    command_free(&command);
}

/* Over a transport that reverses whatever is not ordered: right with strong signals, found with weak ones. It serves
 * the PEs of one process, so there is one. */
static void signals_must_cover_their_data(void **state)
{
    (void)state;
    const struct {
        const char *arguments;
        int status;
        const char *message;
    } rows[] = {
        {"", 0, "every byte: 0 mismatched"},
        {"--inject weak", 1, "data was not visible when its signal was"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct command command;
        command_run(&command, "FERRY_TRANSPORT=%s %s -n 1 %s --text %s --hidden 64 --ring 8 --chunk 2 %s",
                    test_path("HOLDBACK"), test_path("RUN_PROGRAM"), test_path("MOE_DISPATCH"), test_path("TEXT"),
                    rows[i].arguments);
        command_expect(&command, rows[i].status, rows[i].message);
        command_free(&command);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(checksums_do_not_depend_on_the_number_of_pes),
        cmocka_unit_test(odd_numbers_and_full_rings),
        cmocka_unit_test(more_pes_than_experts_or_tokens),
        cmocka_unit_test(few_destinations),
        cmocka_unit_test(threads_are_pes_like_processes),
        cmocka_unit_test(many_pes),
        cmocka_unit_test(prints_each_pe_and_the_total),
        cmocka_unit_test(bad_arguments_are_named),
        cmocka_unit_test(lost_output_is_an_error),
        cmocka_unit_test(too_many_channels_is_an_error),
        cmocka_unit_test(a_changed_byte_is_found),
        cmocka_unit_test(data_later_than_its_signal_is_found),
        cmocka_unit_test(signals_must_cover_their_data),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
