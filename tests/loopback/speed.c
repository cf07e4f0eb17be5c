/* SPDX-License-Identifier: Apache-2.0
 * Prints what the loopback plugin's functions cost, and its copies as ratios to memcpy in the same run. Asserts nothing
 * about time, since machines differ and may be busy; only that the bytes arrived. Main thread. */
#include "harness.h"

#include <sys/mman.h>

#define REPEATS 7
#define LOOP    1000000u
#define LARGEST (16u << 20)

static struct pe a, b;
static struct ferry_rkey *key;
static struct ferry_host_ops table; /* as the core calls it: through a table in memory */
static uint64_t value;

static void put_8(const struct ferry_op *op)
{
    table.rma(a.t, 0, op);
}

static void put_8_quiet(const struct ferry_op *op)
{
    uint64_t ticket = 0;

    table.rma(a.t, 0, op);
    table.quiet(a.t, 0, 1, &ticket);
}

static void atomic(const struct ferry_op *op)
{
    table.amo(a.t, 0, op);
}

static void signal_8(const struct ferry_op *op)
{
    table.put_signal(a.t, 0, op);
}

static void time_op(const char *name, void (*call)(const struct ferry_op *op), const struct ferry_op *op)
{
    double best = 1e9;

    for (int r = 0; r < REPEATS; r++) {
        double start = seconds(), took;

        for (unsigned i = 0; i < SCALE(LOOP); i++)
            call(op);
        took = (seconds() - start) / SCALE(LOOP);
        best = took < best ? took : best;
    }
    print_message("%-28s %7.2f ns\n", name, best * 1e9);
}

static void test_operations(void **state)
{
    struct ferry_op op = {.kind = FERRY_OP_PUT, .local = &value, .key = key, .offset = 64, .length = 8};

    (void)state;
    value = 42;
    time_op("put 8 bytes", put_8, &op);
    time_op("put 8 bytes + quiet", put_8_quiet, &op);
    assert_int_equal(*(uint64_t *)(void *)(b.memory + 64), 42);
    op.kind = FERRY_OP_GET;
    time_op("get 8 bytes", put_8, &op);
    op = amo_op(key, 128, FERRY_AMO_ADD, 8, 1);
    time_op("add", atomic, &op);
    op.flags = FERRY_OP_FETCH;
    op.local = &value;
    time_op("fetch_add", atomic, &op);
    assert_int_equal(value + 1, 2 * REPEATS * SCALE(LOOP));
    op.amo = FERRY_AMO_CSWAP;
    time_op("compare_swap", atomic, &op);
    op = (struct ferry_op){.kind = FERRY_OP_PUT_SIGNAL,
                           .amo = FERRY_AMO_SET,
                           .width = 8,
                           .local = &value,
                           .key = key,
                           .offset = 64,
                           .length = 8,
                           .operand = 9,
                           .signal_key = key,
                           .signal_offset = 256};
    time_op("put_signal 8 bytes, set", signal_8, &op);
    op.amo = FERRY_AMO_ADD;
    time_op("put_signal 8 bytes, add", signal_8, &op);
    assert_int_equal(*(uint64_t *)(void *)(b.memory + 256), 9 + 9 * REPEATS * SCALE(LOOP));
}

static double copy_time(char *to, const char *from, size_t n, int with_put)
{
    struct ferry_op op = {.kind = FERRY_OP_PUT, .local = (void *)(uintptr_t)from, .key = key, .length = n};
    unsigned times = (unsigned)(SCALE(64u << 20) / n) + 1;
    double start = seconds();

    for (unsigned i = 0; i < times; i++) {
        if (with_put)
            table.rma(a.t, 0, &op);
        else
            memcpy(to, from, n);
        __asm__ volatile("" ::: "memory");
    }
    return (seconds() - start) / times;
}

/* Interleaved, so that both meet the machine in the same state. */
static void test_copies(void **state)
{
    char *from = malloc(LARGEST);

    (void)state;
    assert_non_null(from);
    fill(from, LARGEST, 5);
    for (size_t n = 4096; n <= LARGEST; n *= 4) {
        double best[2] = {1e9, 1e9};

        for (int r = 0; r < 2 * REPEATS; r++) {
            double took = copy_time(b.memory, from, n, r % 2);

            best[r % 2] = took < best[r % 2] ? took : best[r % 2];
        }
        memset(b.memory, 0, n);
        put(&a, key, 0, from, n, 0);
        assert_memory_equal(b.memory, from, n);
        print_message("put %8zu bytes: %6.1f GB/s, %.2f of memcpy's %6.1f GB/s\n", n, (double)n / best[1] / 1e9,
                      best[0] / best[1], (double)n / best[0] / 1e9);
    }
    free(from);
}

static int open_pair(void **state)
{
    struct pe_options options = {.length = LARGEST};
    struct blob other;

    (void)state;
    pe_open(&a, 0, &options);
    pe_open(&b, 1, &options);
    other = foreign(&b.key);
    key = pe_must_import(&a, 1, &other); /* mapped, as between processes */
    table = *ops();
    return 0;
}

static int close_pair(void **state)
{
    (void)state;
    pe_close(&a);
    pe_close(&b);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_operations), cmocka_unit_test(test_copies)};

    return cmocka_run_group_tests_name("loopback speed", tests, open_pair, close_pair);
}
