/* SPDX-License-Identifier: Apache-2.0
 * The allocator of offsets against a plain model: no overlap, alignment, no straddling, reuse, and speed.
 * One thread. */
#include "team.h"
#include "base/clock.h"
#include <stdlib.h>
#include <string.h>

#define UNITS 4096u /* of FY_ALIGN bytes in the model: two chunks of 2048 */
#define CHUNK (UNITS / 2 * FY_ALIGN)
#define LIVE  256u

static uint64_t next_random(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

static struct fy_allocator *two_chunks(void)
{
    struct fy_allocator *a = fy_allocator_create();

    assert_non_null(a);
    assert_int_equal(fy_allocator_find(a, FY_ALIGN, FY_ALIGN), FY_OFFSET_NONE);
    for (int i = 0; i < 2; i++) {
        assert_true(fy_allocator_prepare(a));
        fy_allocator_add(a, (uint64_t)i * CHUNK, CHUNK);
    }
    return a;
}

/* Is there room for `units` in the model at an aligned place inside one chunk? The lowest, or UNITS. */
static unsigned model_find(const bool *used, unsigned units, unsigned alignment)
{
    for (unsigned at = 0; at + units <= UNITS; at += alignment) {
        unsigned n = 0;

        if (at / (UNITS / 2) != (at + units - 1) / (UNITS / 2))
            continue;
        while (n < units && !used[at + n])
            n++;
        if (n == units)
            return at;
    }
    return UNITS;
}

struct live {
    unsigned at, units;
};

static void model_mark(bool *used, struct live l, bool value)
{
    for (unsigned i = 0; i < l.units; i++) {
        assert_int_equal(used[l.at + i], !value);
        used[l.at + i] = value;
    }
}

static struct live take_one(struct fy_allocator *a, const bool *used, uint64_t *seed)
{
    unsigned units = (unsigned)(next_random(seed) % 40 + 1);
    unsigned alignment = 1u << (next_random(seed) % 4 ? 0 : next_random(seed) % 8);
    uint64_t offset = fy_allocator_find(a, units * FY_ALIGN, alignment * FY_ALIGN);
    unsigned expected = model_find(used, units, alignment);

    if (offset == FY_OFFSET_NONE) {
        assert_int_equal(expected, UNITS);
        return (struct live){0, 0};
    }
    assert_int_equal(offset % (alignment * FY_ALIGN), 0);
    if (alignment == 1) /* first fit; with an alignment roomier blocks come first */
        assert_int_equal(offset / FY_ALIGN, expected);
    assert_int_equal(offset / CHUNK, (offset + units * FY_ALIGN - 1) / CHUNK);
    assert_true(fy_allocator_prepare(a));
    fy_allocator_take(a, offset, units * FY_ALIGN);
    assert_int_equal(fy_allocator_size(a, offset), units * FY_ALIGN);
    return (struct live){(unsigned)(offset / FY_ALIGN), units};
}

static void agrees_with_the_model(void **state)
{
    struct fy_allocator *a = two_chunks();
    struct live live[LIVE] = {{0, 0}};
    bool used[UNITS] = {false};
    uint64_t seed = 88172645463325252u;

    (void)state;
    for (int i = 0; i < 20000; i++) {
        struct live *l = &live[next_random(&seed) % LIVE];

        if (l->units) {
            fy_allocator_release(a, (uint64_t)l->at * FY_ALIGN);
            model_mark(used, *l, false);
            assert_int_equal(fy_allocator_size(a, (uint64_t)l->at * FY_ALIGN), 0);
            *l = (struct live){0, 0};
        } else {
            *l = take_one(a, used, &seed);
            model_mark(used, *l, true);
        }
    }
    for (unsigned i = 0; i < LIVE; i++)
        if (live[i].units)
            fy_allocator_release(a, (uint64_t)live[i].at * FY_ALIGN);
    /* Everything joined again, but not over the border of the chunks. */
    assert_int_equal(fy_allocator_find(a, CHUNK, FY_ALIGN), 0);
    assert_int_equal(fy_allocator_find(a, CHUNK + FY_ALIGN, FY_ALIGN), FY_OFFSET_NONE);
    fy_allocator_destroy(a);
}

static void only_starts_are_allocations(void **state)
{
    struct fy_allocator *a = two_chunks();

    (void)state;
    fy_allocator_take(a, 0, 4 * FY_ALIGN);
    assert_int_equal(fy_allocator_size(a, 0), 4 * FY_ALIGN);
    assert_int_equal(fy_allocator_size(a, 1), 0);
    assert_int_equal(fy_allocator_size(a, FY_ALIGN), 0);
    assert_int_equal(fy_allocator_size(a, 4 * FY_ALIGN), 0);
    assert_int_equal(fy_allocator_size(a, 2 * CHUNK), 0);
    assert_int_equal(fy_allocator_size(a, UINT64_MAX), 0);
    fy_allocator_destroy(a);
}

/* A block that has no room to spare, but happens to be aligned, must be found again: else align and free would leak. */
static void an_aligned_block_is_used_again(void **state)
{
    struct fy_allocator *a = fy_allocator_create();
    const size_t big = CHUNK / 2;

    (void)state;
    fy_allocator_add(a, 0, CHUNK);
    for (int i = 0; i < 3; i++) {
        uint64_t first = fy_allocator_find(a, big, big);

        assert_int_equal(first, 0);
        assert_true(fy_allocator_prepare(a));
        fy_allocator_take(a, first, big);
        assert_int_equal(fy_allocator_find(a, big, big), big);
        fy_allocator_release(a, first);
    }
    fy_allocator_destroy(a);
}

static void sizes_near_the_limit(void **state)
{
    struct fy_allocator *a = two_chunks();

    (void)state;
    assert_int_equal(fy_allocator_find(a, SIZE_MAX & ~(size_t)63, FY_GRANULE), FY_OFFSET_NONE);
    assert_int_equal(fy_allocator_find(a, SIZE_MAX & ~(size_t)63, FY_ALIGN), FY_OFFSET_NONE);
    fy_allocator_destroy(a);
}

/* 10^5 allocations, then all freed in a shuffled order and taken again: a list or an array would take minutes. */
static void a_hundred_thousand(void **state)
{
    enum { N = 100000 };
    struct fy_allocator *a = fy_allocator_create();
    uint64_t *offsets = calloc(N, sizeof(*offsets));
    uint64_t seed = 362436069, begin = fy_now_ns();
    double seconds;

    (void)state;
    assert_non_null(offsets);
    fy_allocator_add(a, 0, (size_t)1 << 30);
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < N; i++) {
            size_t size = (next_random(&seed) % 100 + 1) * FY_ALIGN;

            offsets[i] = fy_allocator_find(a, size, FY_ALIGN << next_random(&seed) % 3);
            assert_true(fy_allocator_prepare(a));
            fy_allocator_take(a, offsets[i], size);
        }
        for (int i = N; i > 0; i--) {
            size_t pick = next_random(&seed) % (size_t)i;

            fy_allocator_release(a, offsets[pick]);
            offsets[pick] = offsets[i - 1];
        }
    }
    seconds = (double)(fy_now_ns() - begin) / 1e9;
    print_message("2 x %d allocations and frees: %.3f s\n", N, seconds);
    assert_int_equal(fy_allocator_find(a, (size_t)1 << 30, FY_ALIGN), 0);
    assert_true(seconds < 60);
    free(offsets);
    fy_allocator_destroy(a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(agrees_with_the_model),
        cmocka_unit_test(only_starts_are_allocations),
        cmocka_unit_test(an_aligned_block_is_used_again),
        cmocka_unit_test(sizes_near_the_limit),
        cmocka_unit_test(a_hundred_thousand),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
