/* SPDX-License-Identifier: Apache-2.0
 * What of the direct path of kernels is plain arithmetic: where an address lies on a peer, and how a copy is cut into pieces.
 * One thread. */
#include <ferry/window.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static const uint64_t peers[3] = {0x10000, 0, 0x90000};
static const struct ferry_window window = {0x10000, 0x1000, peers, 3, 0};

static void inside(void **state)
{
    (void)state;
    assert_int_equal(ferry_window_peer(&window, 0x10000, 0x1000, 0), 0x10000);
    assert_int_equal(ferry_window_peer(&window, 0x10ff8, 8, 2), 0x90ff8);
    assert_int_equal(ferry_window_peer(&window, 0x10fff, 1, 2), 0x90fff);
    assert_int_equal(ferry_window_peer(&window, 0x10123, 0, 2), 0x90123);
}

/* Whatever is not all inside is left to the ring, which tells what is wrong with it. */
static void outside(void **state)
{
    const struct ferry_window unused = {0, 0, NULL, 0, 0};
    (void)state;
    assert_int_equal(ferry_window_peer(&window, 0xffff, 1, 0), 0);
    assert_int_equal(ferry_window_peer(&window, 0xffff, 2, 0), 0);
    assert_int_equal(ferry_window_peer(&window, 0x11000, 0, 0), 0);
    assert_int_equal(ferry_window_peer(&window, 0x11000, 8, 0), 0);
    assert_int_equal(ferry_window_peer(&window, 0x10ff9, 8, 0), 0);
    assert_int_equal(ferry_window_peer(&window, 0x10001, 0x1000, 0), 0);
    assert_int_equal(ferry_window_peer(&window, 0x10008, UINT64_MAX, 0), 0);
    assert_int_equal(ferry_window_peer(&window, UINT64_MAX, UINT64_MAX, 0), 0);
    assert_int_equal(ferry_window_peer(&unused, 0, 0, 0), 0);
    assert_int_equal(ferry_window_peer(&unused, 0x10000, 8, 0), 0);
}

static void no_such_pe(void **state)
{
    (void)state;
    assert_int_equal(ferry_window_peer(&window, 0x10000, 8, 1), 0); /* not mapped */
    assert_int_equal(ferry_window_peer(&window, 0x10000, 8, 3), 0);
    assert_int_equal(ferry_window_peer(&window, 0x10000, 8, UINT32_MAX), 0);
}

/* The pieces follow each other, are aligned, and make up the whole. */
static void check_split(uint64_t dest, uint64_t src, uint64_t length)
{
    const struct ferry_split s = ferry_split_of(dest, src, length);
    assert_int_equal(s.head + s.units * s.width + s.tail, length);
    assert_true(s.width == 16 || s.width == 8 || s.width == 4 || s.width == 1);
    assert_true(s.head < s.width && s.tail < s.width);
    if (s.units) {
        assert_int_equal((dest + s.head) % s.width, 0);
        assert_int_equal((src + s.head) % s.width, 0);
    }
    if (length <= FERRY_SPLIT_SHORT)
        assert_true(s.width == 1 || (s.head == 0 && s.tail == 0));
    if (s.width < 16) /* the next wider one would not do */
        assert_int_not_equal((length > FERRY_SPLIT_SHORT ? dest ^ src : dest | src | length) % (s.width == 1 ? 4 : s.width * 2), 0);
}

static void pieces(void **state)
{
    (void)state;
    for (uint64_t dest = 0x1000; dest < 0x1020; dest++)
        for (uint64_t src = 0x2000; src < 0x2020; src++)
            for (uint64_t length = 0; length < 140; length++)
                check_split(dest, src, length);
    check_split(0x1000, 0x2000, 1ull << 40);
    check_split(0x1001, 0x2001, (1ull << 40) + 3);
}

/* A copy made of them is right, and touches nothing else. */
static void copy(void **state)
{
    unsigned char from[256], to[256], expected[256];
    (void)state;
    for (unsigned i = 0; i < sizeof(from); i++)
        from[i] = (unsigned char)(i * 7 + 1);
    for (unsigned at = 16; at < 32; at++)
        for (unsigned length = 0; length < 200; length++) {
            const struct ferry_split s = ferry_split_of((uintptr_t)(to + at), (uintptr_t)(from + 16), length);
            memset(to, 0, sizeof(to));
            memset(expected, 0, sizeof(expected));
            memcpy(expected + at, from + 16, length);
            memcpy(to + at, from + 16, s.head);
            for (uint64_t i = 0; i < s.units; i++)
                memcpy(to + at + s.head + i * s.width, from + 16 + s.head + i * s.width, s.width);
            memcpy(to + at + length - s.tail, from + 16 + length - s.tail, s.tail);
            assert_memory_equal(to, expected, sizeof(to));
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(inside), cmocka_unit_test(outside), cmocka_unit_test(no_such_pe),
        cmocka_unit_test(pieces), cmocka_unit_test(copy),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
