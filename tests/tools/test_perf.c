/* SPDX-License-Identifier: Apache-2.0
 * ferry-perf: every test runs, in every form of output, and the figures are in order. */
#include "command.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <cmocka.h>
#include <jansson.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *run, *perf;

static json_t *run_json(struct command *c, const char *const *argv)
{
    json_error_t error;
    int status = command_run(c, argv);
    if (status != 0)
        fail_msg("status %d:\n%s", status, c->error_text);
    json_t *root = json_loadb(c->text, c->length, 0, &error);
    if (!root)
        fail_msg("line %d: %s in:\n%s", error.line, error.text, c->text);
    assert_true(json_is_array(root));
    return root;
}

static double number_of(const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);
    if (!json_is_number(value))
        fail_msg("no number %s", key);
    return json_number_value(value);
}

static const char *text_of(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));
    if (!text)
        fail_msg("no text %s", key);
    return text;
}

static void check_result(const json_t *result, int pes, int channels, long iterations)
{
    assert_int_equal((long)number_of(result, "pes"), pes);
    assert_int_equal((long)number_of(result, "channels"), channels);
    assert_int_equal((long)number_of(result, "iterations"), iterations);
    double min = number_of(result, "min"), median = number_of(result, "median"), p99 = number_of(result, "p99");
    assert_true(min > 0 && min <= median && median <= p99);
    assert_string_equal(text_of(result, "transport"), "loopback");
    assert_int_equal(json_object_size(result), 10);
}

static void test_all(void **state)
{
    (void)state;
    static const struct {
        const char *name, *unit;
        int bytes, channels;
    } expected[] = {{"put_lat", "ns", 8, 1},     {"put_flag_lat", "ns", 8, 1},   {"put_quiet_lat", "ns", 8, 1},
                    {"get_lat", "ns", 8, 1},     {"put_bw", "GB/s", 65536, 1},   {"get_bw", "GB/s", 65536, 1},
                    {"put_rate", "Mop/s", 8, 1}, {"iput_rate", "Mop/s", 8, 1},   {"p_rate", "Mop/s", 8, 1},
                    {"put_signal_rate", "Mop/s", 8, 1},
                    {"signal_lat", "ns", 0, 1},  {"put_signal_lat", "ns", 8, 1}, {"fetch_add_lat", "ns", 0, 1},
                    {"add_rate", "Mop/s", 0, 1}, {"cswap_lat", "ns", 0, 1},      {"quiet_idle", "ns", 0, 1},
                    {"barrier_lat", "ns", 0, 1}, {"moe_ht", "GB/s", 149440, 10}, {"moe_ll", "us", 7408, 36}};
    struct command c = {0};
    json_t *root = run_json(&c, ARGS(run, "-n", "2", perf, "--json", "all", "--iters", "5", "--warmup", "1"));
    assert_int_equal(json_array_size(root), sizeof expected / sizeof *expected);
    for (size_t i = 0; i < sizeof expected / sizeof *expected; i++) {
        const json_t *result = json_array_get(root, i);
        assert_string_equal(text_of(result, "test"), expected[i].name);
        assert_string_equal(text_of(result, "unit"), expected[i].unit);
        assert_int_equal((long)number_of(result, "bytes"), expected[i].bytes);
        check_result(result, 2, expected[i].channels, 5);
    }
    /* Of the tests from kernels there is a line that says why not. */
    assert_int_equal(count_pieces(c.error_text, c.error_length, "ferry-perf: gpu_...: "), 1);
    assert_int_equal(count_pieces(c.error_text, c.error_length, "; these tests are left out"), 1);
    json_decref(root);
    command_release(&c);
}

/* Asked for by name, they are an error. tests/gpu/run runs them where there is a GPU. */
static void test_no_gpu(void **state)
{
    (void)state;
    static const char *const names[] = {"gpu_put_lat",       "gpu_signal_lat",   "gpu_put_rate", "gpu_put_bw",
                                        "gpu_fetch_add_lat", "gpu_command_rate", "gpu_moe_ht",   "gpu_moe_ll"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        struct command c = {0};
        char words[64];
        snprintf(words, sizeof words, "ferry-perf: %s: ", names[i]);
        assert_int_equal(command_run(&c, ARGS(run, "-n", "2", perf, names[i], "--memory=gpu", "--warps=8")), 1);
        assert_int_equal(c.length, 0);
        assert_int_equal(count_pieces(c.error_text, c.error_length, words), 1);
        command_release(&c);
    }
}

/* An odd PE, threads, and iterations that the tool finds itself: fewer than the test's own only if they take long. */
static void test_pairs_and_threads(void **state)
{
    (void)state;
    const struct {
        const char *name;
        int channels;
        long most;
    } cases[] = {{"add_rate", 4, 10000000}, {"get_bw", 3, 262144 + 3}, {"quiet_idle", 1, 10000000}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct command c = {0};
        char channels[16];
        snprintf(channels, sizeof channels, "%d", cases[i].channels);
        json_t *root = run_json(&c, ARGS(run, "-n", "5", perf, cases[i].name, "-c", channels, "--json"));
        assert_int_equal(json_array_size(root), 1);
        long iterations = (long)number_of(json_array_get(root, 0), "iterations");
        assert_true(iterations >= 20 && iterations <= cases[i].most);
        check_result(json_array_get(root, 0), 5, cases[i].channels, iterations);
        json_decref(root);
        command_release(&c);
    }
}

static void test_sweep_and_reuse(void **state)
{
    (void)state;
    const long sizes[] = {3072, 6144, 12288};
    for (int cold = 0; cold < 2; cold++) {
        struct command c = {0};
        json_t *root = run_json(&c, ARGS(run, "-n", "2", perf, "put_bw", "--min", "3K", "--max", "16K", "-i", "256",
                                         "--json", "--reuse", cold ? "cold" : "cached"));
        assert_int_equal(json_array_size(root), 3);
        for (size_t i = 0; i < 3; i++) {
            assert_int_equal((long)number_of(json_array_get(root, i), "bytes"), sizes[i]);
            check_result(json_array_get(root, i), 2, 1, 256);
        }
        json_decref(root);
        command_release(&c);
    }
}

/* A transport that has little: the core makes the rest, and every test is measured. */
static void test_what_a_transport_lacks(void **state)
{
    (void)state;
    char setting[1024];
    snprintf(setting, sizeof setting, "FERRY_TRANSPORT=%s", getenv("TOOLS_MINIMAL"));
    struct command c = {.settings = ARGS(setting)};
    json_t *root = run_json(&c, ARGS(run, "-n", "2", perf, "--json", "all", "-i", "2", "--warmup", "0"));
    assert_int_equal(json_array_size(root), 19);
    assert_int_equal(count_pieces(c.error_text, c.error_length, "FERRY_ERR_"), 0);
    json_decref(root);
    command_release(&c);
}

/* What came out at the other end of a terminal so far, with a 0 after it. */
static void read_terminal(int fd, char *text, size_t size)
{
    size_t used = 0;
    ssize_t n;
    while (used + 1 < size && (n = read(fd, text + used, size - 1 - used)) > 0)
        used += (size_t)n;
    text[used] = '\0';
}

static void test_progress(void **state)
{
    (void)state;
    char text[4096];
    int master = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC | O_NONBLOCK);
    assert_true(master >= 0 && grantpt(master) == 0 && unlockpt(master) == 0);
    int slave = open(ptsname(master), O_RDWR | O_NOCTTY | O_CLOEXEC);
    assert_true(slave >= 0);
    struct command c = {.err_fd = slave};
    json_t *root = run_json(&c, ARGS(run, "-n", "2", perf, "get_lat", "-s", "8,16", "-i", "20", "--json"));
    assert_int_equal(json_array_size(root), 2);
    read_terminal(master, text, sizeof text);
    assert_string_equal(text, "\r\033[K[1/2] get_lat, 8 B\r\r\033[K[2/2] get_lat, 16 B\r\r\033[K");
    json_decref(root);
    command_release(&c);
    close(slave);
    close(master);
}

static void test_sizes_and_channels(void **state)
{
    (void)state;
    struct command c = {0};
    json_t *root =
        run_json(&c, ARGS(run, "-n", "3", perf, "put_rate", "-s", "1,4K,1M", "-i", "300", "-c", "3", "--json"));
    const long sizes[] = {1, 4096, 1048576};
    assert_int_equal(json_array_size(root), 3);
    for (size_t i = 0; i < 3; i++) {
        check_result(json_array_get(root, i), 3, 3, 300);
        assert_int_equal((long)number_of(json_array_get(root, i), "bytes"), sizes[i]);
    }
    json_decref(root);
    command_release(&c);

    root =
        run_json(&c, ARGS(run, "-n", "2", perf, "put_lat", "-s", "1,100,20M", "-i", "10", "--warmup", "0", "--json"));
    assert_int_equal(json_array_size(root), 3);
    json_decref(root);
    command_release(&c);
}

static void test_csv_and_table(void **state)
{
    (void)state;
    struct command c = {0};
    assert_int_equal(command_run(&c, ARGS(run, "-n", "2", perf, "get_lat", "--csv", "-i", "50", "-s", "8,16")), 0);
    assert_int_equal(strncmp(c.text,
                             "test,bytes,transport,pes,channels,iterations,min,median,p99,unit\n"
                             "get_lat,8,loopback,2,1,50,",
                             91 - 1),
                     0);
    assert_int_equal(count_pieces(c.text, c.length, "\n"), 3);
    assert_int_equal(count_pieces(c.text, c.length, ","), 27);
    command_release(&c);

    assert_int_equal(command_run(&c, ARGS(run, "-n", "2", perf, "get_lat", "-i", "50")), 0);
    assert_int_equal(count_pieces(c.text, c.length, "\n"), 3);
    assert_int_equal(count_pieces(c.text, c.length, "\nget_lat "), 1);
    command_release(&c);
}

static void test_one_pe_is_too_few(void **state)
{
    (void)state;
    struct command c = {0};
    assert_int_equal(command_run(&c, ARGS(perf, "put_lat", "--json")), 64);
    assert_int_equal(c.length, 0);
    assert_int_equal(count_pieces(c.error_text, c.error_length, "2 PEs are needed, this job has 1"), 1);
    command_release(&c);
}

/* The partner dies in the middle: no hang in the polling loop, and a message that says why. */
static void test_dead_partner(void **state)
{
    (void)state;
    const char *const tests[] = {"put_lat", "put_signal_lat", "barrier_lat"};
    for (size_t i = 0; i < sizeof tests / sizeof *tests; i++) {
        struct command c = {0};
        char script[1024];
        snprintf(script, sizeof script, "echo pid $$; exec %s %s -i 1000000000000 --warmup 1", perf, tests[i]);
        command_start(&c, ARGS(run, "-n", "2", "--grace", "30", "--prefix", "sh", "-c", script));
        command_await(&c, "# test", 1);
        const char *victim = strstr(c.text, "[1] pid ");
        assert_non_null(victim);
        kill(atoi(victim + 8), SIGKILL);
        command_finish(&c);
        assert_int_equal(c.status, 128 + SIGKILL);
        assert_int_equal(count_pieces(c.error_text, c.error_length, "[0] ferry-perf: "), 1);
        assert_int_equal(count_pieces(c.error_text, c.error_length, ": FERRY_ERR_PEER"), 1);
        assert_int_equal(count_pieces(c.error_text, c.error_length, "ended by ferry-run"), 0);
        command_release(&c);
    }
}

static void test_usage_errors(void **state)
{
    (void)state;
    const char *const *const bad[] = {ARGS(perf, "no_such_test"),
                                      ARGS(perf),
                                      ARGS(perf, "put_lat", "get_lat"),
                                      ARGS(perf, "put_lat", "-s", "0"),
                                      ARGS(perf, "put_lat", "-s", "12Q"),
                                      ARGS(perf, "put_lat", "-s", "8,"),
                                      ARGS(perf, "put_lat", "-i", "0"),
                                      ARGS(perf, "put_lat", "-i", "-5"),
                                      ARGS(perf, "put_lat", "-c", "65"),
                                      ARGS(perf, "put_lat", "-s", "99999999999999G"),
                                      ARGS(perf, "put_lat", "--warmup=x"),
                                      ARGS(perf, "put_lat", "-s", "8", "--min", "4"),
                                      ARGS(perf, "put_lat", "--min", "16", "--max", "8"),
                                      ARGS(perf, "put_lat", "--max", "0"),
                                      ARGS(perf, "put_bw", "--reuse", "warm"),
                                      ARGS(perf, "gpu_put_bw", "--memory=disk"),
                                      ARGS(perf, "gpu_put_bw", "--warps=0"),
                                      ARGS(perf, "gpu_put_bw", "--warps=1025"),
                                      ARGS(perf, "put_bw", "--json=x")};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct command c = {0};
        assert_int_equal(command_run(&c, bad[i]), 64);
        assert_int_equal(c.length, 0);
        command_release(&c);
    }
    /* One complaint, not one for each PE. */
    struct command c = {0};
    assert_int_equal(command_run(&c, ARGS(run, "-n", "4", perf, "no_such_test")), 64);
    assert_int_equal(count_pieces(c.error_text, c.error_length, "no test named no_such_test"), 1);
    command_release(&c);
    memset(&c, 0, sizeof c);
    assert_int_equal(command_run(&c, ARGS("/bin/sh", "-c", "exec \"$0\" --list >/dev/full", perf)), 74);
    assert_int_equal(count_pieces(c.error_text, c.error_length, "ferry-perf: cannot write the output"), 1);
    command_release(&c);
}

int main(void)
{
    run = getenv("TOOLS_RUN");
    perf = getenv("TOOLS_PERF");
    setenv("CUDA_VISIBLE_DEVICES", "", 1); /* no GPU, also where there is one */
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_all),
                                       cmocka_unit_test(test_no_gpu),
                                       cmocka_unit_test(test_sizes_and_channels),
                                       cmocka_unit_test(test_csv_and_table),
                                       cmocka_unit_test(test_one_pe_is_too_few),
                                       cmocka_unit_test(test_dead_partner),
                                       cmocka_unit_test(test_usage_errors),
                                       cmocka_unit_test(test_pairs_and_threads),
                                       cmocka_unit_test(test_sweep_and_reuse),
                                       cmocka_unit_test(test_what_a_transport_lacks),
                                       cmocka_unit_test(test_progress)};
    return run && perf ? cmocka_run_group_tests(tests, NULL, NULL) : 1;
}
