/* SPDX-License-Identifier: Apache-2.0
 * A heap of one PE: reservation, growth, arguments, roles of transports, failures at every step, and nothing left
 * behind. One thread. */
#include "team.h"
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

static struct team team;

static int one_pe(void **state)
{
    (void)state;
    team_start(&team, 1, 1);
    return 0;
}

static int end(void **state)
{
    (void)state;
    team_end(&team);
    return 0;
}

static struct member *me(void)
{
    return &team.members[0];
}

static int alloc(size_t size, size_t alignment, void **address)
{
    return fy_heap_alloc(me()->heap, size, alignment, address, &me()->error);
}

static void *must(size_t size, size_t alignment)
{
    void *address;

    if (alloc(size, alignment, &address) != FERRY_OK)
        fail_msg("%s", me()->error.message);
    return address;
}

static void assert_says(const char *part)
{
    if (!strstr(me()->error.message, part))
        fail_msg("\"%s\" is not in \"%s\"", part, me()->error.message);
}

static int create(void)
{
    return fy_heap_create(&me()->config, &me()->heap, &me()->error);
}

/* ------------------------------------------------------------------ reservation */

static void a_reservation_too_large(void **state)
{
    struct holdings before = holdings_now(), after;

    (void)state;
    me()->config.reserve = (size_t)1 << 60;
    assert_int_equal(create(), FERRY_ERR_CONFIG);
    assert_null(me()->heap);
    assert_says("cannot reserve 1152921504606846976 bytes of address space for the heap (FERRY_HEAP_SIZE): Cannot "
                "allocate memory");
    assert_non_null(strstr(me()->error.hint, "FERRY_HEAP_SIZE"));
    me()->config.reserve = SIZE_MAX;
    assert_int_equal(create(), FERRY_ERR_CONFIG);
    assert_says("18446744073709551615");
    me()->config.reserve = 0;
    assert_int_equal(create(), FERRY_ERR_CONFIG);
    assert_says("FERRY_HEAP_SIZE is 0");
    after = holdings_now();
    assert_int_equal(before.files, after.files);
}

static void reserved_is_not_taken(void **state)
{
    void *address;

    (void)state;
    me()->config.reserve = (size_t)64 << 30;
    me()->config.chunk = 0;
    team_create(&team);
    assert_int_equal((uintptr_t)me()->heap->base % FY_GRANULE, 0);
    address = must(1, 1);
    assert_int_equal(me()->heap->backed, FY_GRANULE);
    assert_ptr_equal(address, me()->heap->base);
}

static void too_small_a_reservation(void **state)
{
    char part[128];
    void *address;

    (void)state;
    me()->config.reserve = 8 * MEBIBYTE - 5; /* rounded up to 8 MiB */
    team_create(&team);
    must(MEBIBYTE, 0);
    assert_int_equal(alloc(7 * MEBIBYTE, 0, &address), FERRY_ERR_NOMEM);
    assert_null(address);
    snprintf(part, sizeof(part), "FERRY_HEAP_SIZE reserves %zu bytes, %zu of them are taken; %zu would suffice",
             8 * MEBIBYTE, 2 * MEBIBYTE, 10 * MEBIBYTE);
    assert_says(part);
    assert_int_equal(alloc(SIZE_MAX, 0, &address), FERRY_ERR_NOMEM);
    assert_says("18446744073709551615 bytes does not fit");
    must(6 * MEBIBYTE, 0);
    assert_int_equal(me()->heap->n_segments, 2);
}

static void the_last_chunk_is_what_is_left(void **state)
{
    (void)state;
    me()->config.reserve = 10 * MEBIBYTE;
    me()->config.chunk = 7 * MEBIBYTE; /* rounded up to 8 */
    team_create(&team);
    must(64, 0);
    assert_int_equal(me()->heap->backed, 8 * MEBIBYTE);
    must(8 * MEBIBYTE - 64, 0);
    must(64, 0);
    assert_int_equal(me()->heap->backed, 10 * MEBIBYTE);
    assert_int_equal(me()->heap->segments[1]->length, 2 * MEBIBYTE);
}

/* ------------------------------------------------------------------ calls */

static void bad_arguments(void **state)
{
    void *address = &address;

    (void)state;
    team_create(&team);
    assert_int_equal(alloc(0, 0, &address), FERRY_ERR_ARG);
    assert_says("size is 0");
    assert_null(address);
    assert_int_equal(alloc(1, 96, &address), FERRY_ERR_ARG);
    assert_says("alignment 96 is no power of two");
    assert_int_equal(alloc(1, 3, &address), FERRY_ERR_ARG);
    assert_says("alignment 3 is no power of two");
    assert_int_equal(alloc(1, FY_GRANULE * 2, &address), FERRY_ERR_ARG);
    assert_says("alignment 4194304 is more than 2097152");
    assert_int_equal(me()->heap->n_segments, 0);
}

static void bad_frees(void **state)
{
    char *first, outside;

    (void)state;
    team_create(&team);
    first = must(200, 0);
    must(200, 0);
    assert_int_equal(fy_heap_free(me()->heap, NULL, &me()->error), FERRY_OK);
    assert_int_equal(fy_heap_free(me()->heap, &outside, &me()->error), FERRY_ERR_ARG);
    assert_says("is not in the symmetric heap");
    assert_int_equal(fy_heap_free(me()->heap, first + 64, &me()->error), FERRY_ERR_ARG);
    assert_says("(heap offset 64) is not the start of an allocation");
    assert_int_equal(fy_heap_free(me()->heap, first + 32 * MEBIBYTE, &me()->error), FERRY_ERR_ARG);
    assert_int_equal(fy_heap_free(me()->heap, first, &me()->error), FERRY_OK);
    assert_int_equal(fy_heap_free(me()->heap, first, &me()->error), FERRY_ERR_ARG);
}

static void alignments(void **state)
{
    (void)state;
    team_create(&team);
    for (size_t alignment = 1; alignment <= FY_GRANULE; alignment *= 2)
        assert_int_equal((uintptr_t)must(24, alignment) % (alignment < 64 ? 64 : alignment), 0);
}

static void fresh_memory_is_zero(void **state)
{
    const size_t size = 5 * MEBIBYTE;
    char *address;
    size_t dirty = 0;

    (void)state;
    team_create(&team);
    address = must(size, 0);
    for (size_t i = 0; i < size; i++)
        dirty += address[i] != 0;
    assert_int_equal(dirty, 0);
    memset(address, 7, size);
    /* Freed memory stays backed, and is used again. */
    assert_int_equal(fy_heap_free(me()->heap, address, &me()->error), FERRY_OK);
    assert_ptr_equal(must(size, 0), address);
    assert_int_equal(me()->heap->n_segments, 1);
}

static void allocations_do_not_straddle(void **state)
{
    char *first, *second;

    (void)state;
    team_create(&team);
    must(MEBIBYTE + 64, 0);
    first = must(MEBIBYTE, 0); /* does not fit in the rest of the first chunk, which is one with the second otherwise */
    assert_ptr_equal(first, me()->heap->base + FY_GRANULE);
    second = must(MEBIBYTE - 64, 0);
    assert_ptr_equal(second, me()->heap->base + MEBIBYTE + 64);
}

static void calls_that_need_no_growth_exchange_once(void **state)
{
    void *address;
    int before;

    (void)state;
    team_create(&team);
    address = must(64, 0);
    assert_int_equal(me()->gathers, 2); /* the call, the outcome */
    before = me()->gathers;
    must(64, 0);
    assert_int_equal(me()->gathers, before + 1);
    assert_int_equal(fy_heap_free(me()->heap, address, &me()->error), FERRY_OK);
    assert_int_equal(me()->gathers, before + 2);
}

static void more_than_the_machine_has(void **state)
{
    struct fy_limits limits;
    void *address;
    char part[96];
    size_t size;

    (void)state;
    fy_limits_read("", &limits);
    size = fy_round_up(limits.available + ((uint64_t)1 << 30), FY_GRANULE);
    me()->config.reserve = size * 2;
    team_create(&team);
    assert_int_equal(alloc(size, 0, &address), FERRY_ERR_NOMEM);
    snprintf(part, sizeof(part), "pe 0: no memory for %zu bytes more in each of 1 PEs on this host", size);
    assert_says(part);
    assert_says("memlock");
    assert_int_equal(me()->error.peer, 0);
    must(64, 0);
}

/* A file size limit must be a refusal: the kernel's own way to say it is a signal that kills. */
static void a_file_size_limit_is_no_signal(void **state)
{
    struct rlimit old, low;
    void *address;
    int rc;

    (void)state;
    team_create(&team);
    getrlimit(RLIMIT_FSIZE, &old);
    low = (struct rlimit){MEBIBYTE, old.rlim_max};
    setrlimit(RLIMIT_FSIZE, &low);
    rc = alloc(64, 0, &address);
    setrlimit(RLIMIT_FSIZE, &old);
    assert_int_equal(rc, FERRY_ERR_NOMEM);
    assert_says("file size limit of 1048576 bytes");
    must(64, 0);
}

/* ------------------------------------------------------------------ transports */

static void keys_and_registrations_per_transport(void **state)
{
    (void)state;
    me()->config.n_transports = 2;
    team_create(&team);
    must(3 * MEBIBYTE, 0);
    must(3 * MEBIBYTE, 0);
    assert_int_equal(me()->fake[0].live_regions, 2);
    assert_int_equal(me()->fake[1].live_regions, 2);
    assert_int_equal(me()->heap->segments[1]->index, 1);
}

static void no_transport_at_all(void **state)
{
    (void)state;
    me()->config.n_transports = 0;
    team_create(&team);
    memset(must(100, 0), 1, 100);
}

static void too_many_transports(void **state)
{
    (void)state;
    me()->config.n_transports = FY_TRANSPORTS_MAX + 1;
    assert_int_equal(create(), FERRY_ERR_LIMIT);
    assert_says("17 transports");
}

static void one_that_must_allocate_does(void **state)
{
    char *address;

    (void)state;
    me()->config.n_transports = 2;
    me()->transport[1].caps.flags |= FERRY_CAP_MUST_ALLOCATE;
    team_create(&team);
    address = must(3 * MEBIBYTE, 0);
    assert_int_equal(me()->fake[1].allocations, 1);
    assert_int_equal(me()->fake[0].live_regions, 1);
    assert_ptr_equal(address, me()->heap->base);
    for (size_t i = 0; i < 3 * MEBIBYTE; i += 511)
        assert_int_equal(address[i], 0); /* the fake one left rubbish */
    assert_int_equal(holdings_now().heaps, 0);
    must(3 * MEBIBYTE, 0);
}

static void two_that_must_allocate_conflict(void **state)
{
    (void)state;
    me()->config.n_transports = 2;
    me()->transport[0].caps.flags |= FERRY_CAP_MUST_ALLOCATE;
    me()->transport[1].caps.flags |= FERRY_CAP_MUST_ALLOCATE;
    assert_int_equal(create(), FERRY_ERR_CONFIG);
    assert_says("transports fake and mock both have to allocate");
}

static void allocated_elsewhere(void **state)
{
    void *address;
    char part[128];

    (void)state;
    me()->transport[0].caps.flags |= FERRY_CAP_MUST_ALLOCATE;
    me()->fake[0].displaced = true;
    team_create(&team);
    assert_int_equal(alloc(64, 0, &address), FERRY_ERR_TRANSPORT);
    assert_says("transport fake allocated 2097152 bytes at ");
    snprintf(part, sizeof(part), "at %p were asked for", (void *)me()->heap->base);
    assert_says(part);
    assert_int_equal(me()->fake[0].live_regions, 0);
    me()->fake[0].displaced = false;
    assert_ptr_equal(must(64, 0), me()->heap->base);
}

static bool is_mapped(char *address)
{
    unsigned char in_core;

    return mincore(address, 1, &in_core) == 0;
}

/* Fails the k-th setup call, for every k until one allocation goes through: each time nothing may remain. */
static void fail_everywhere(size_t n_transports, int allocating, int calls_expected)
{
    struct holdings before, after;
    void *address;
    int failures = 0;

    me()->config.n_transports = n_transports;
    if (allocating >= 0)
        me()->transport[allocating].caps.flags |= FERRY_CAP_MUST_ALLOCATE;
    team_create(&team);
    before = holdings_now();
    for (size_t t = 0; t < n_transports; t++) {
        for (int k = 1; k <= calls_expected; k++) {
            me()->fake[0].calls = me()->fake[1].calls = 0;
            me()->fake[t].fail_at = k;
            assert_int_equal(alloc(64, 0, &address), FERRY_ERR_LIMIT);
            assert_says(t == 0 ? "pe 0: transport fake cannot" : "pe 0: transport mock cannot");
            assert_says(FAKE_LIMIT);
            assert_int_equal(me()->fake[0].live_regions + me()->fake[1].live_regions, 0);
            assert_int_equal(me()->heap->n_segments, 0);
            after = holdings_now();
            assert_int_equal(before.files, after.files);
            assert_int_equal(before.mappings, after.mappings);
            assert_int_equal(after.heaps, 0);
            assert_true(is_mapped(me()->heap->base)); /* reserved as before: nobody else may come to lie there */
            me()->fake[t].fail_at = 0;
            failures++;
        }
    }
    assert_int_equal(failures, (int)n_transports * calls_expected);
    assert_ptr_equal(must(64, 0), me()->heap->base);
}

static void failures_leave_nothing(void **state)
{
    (void)state;
    fail_everywhere(2, -1, 2); /* register, export */
}

static void failures_with_allocation_leave_nothing(void **state)
{
    (void)state;
    fail_everywhere(2, 0, 2); /* allocate or register, export */
}

static void no_file_left(void **state)
{
    struct rlimit old, none;
    void *address;
    int rc;

    (void)state;
    team_create(&team);
    getrlimit(RLIMIT_NOFILE, &old);
    none = (struct rlimit){0, old.rlim_max};
    setrlimit(RLIMIT_NOFILE, &none);
    rc = alloc(64, 0, &address);
    setrlimit(RLIMIT_NOFILE, &old);
    assert_int_equal(rc, FERRY_ERR_NOMEM);
    assert_says("cannot make a memory file of 2097152 bytes for the heap: Too many open files");
    must(64, 0);
}

/* ------------------------------------------------------------------ leaks */

static void once_around(void)
{
    const struct fy_target *target;
    struct ferry_buffer *buffer;
    static char mine[4096];

    team_create(&team);
    must(64, 0);
    must(3 * MEBIBYTE, 4096);
    for (uint32_t i = 0; i < me()->heap->n_segments; i++)
        assert_int_equal(fy_heap_resolve(me()->heap, me()->heap->segments[i], 0, &target, &me()->error), FERRY_OK);
    assert_int_equal(fy_buffer_register(me()->heap, mine, sizeof(mine), &buffer, &me()->error), FERRY_OK);
    assert_int_equal(holdings_now().heaps, 2);
    team_destroy(&team);
}

static void fifty_heaps_leave_nothing(void **state)
{
    struct holdings before, after;

    (void)state;
    me()->config.n_transports = 2;
    once_around(); /* what the C library keeps for itself */
    before = holdings_now();
    for (int i = 0; i < 50; i++)
        once_around();
    after = holdings_now();
    assert_int_equal(before.files, after.files);
    assert_int_equal(after.heaps, 0);
    /* A sanitizer may map a thing or two; a leak would be 50 at least. */
    assert_true(after.mappings < before.mappings + 25);
}

static void no_file_is_kept_open(void **state)
{
    int before;

    (void)state;
    team_create(&team);
    must(64, 0);
    before = holdings_now().files;
    must(20 * MEBIBYTE, 0);
    assert_int_equal(holdings_now().files, before);
}

static void destroying_nothing(void **state)
{
    (void)state;
    fy_heap_destroy(NULL);
}

#define ONE_PE(test) cmocka_unit_test_setup_teardown(test, one_pe, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        ONE_PE(a_reservation_too_large),
        ONE_PE(reserved_is_not_taken),
        ONE_PE(too_small_a_reservation),
        ONE_PE(the_last_chunk_is_what_is_left),
        ONE_PE(bad_arguments),
        ONE_PE(bad_frees),
        ONE_PE(alignments),
        ONE_PE(fresh_memory_is_zero),
        ONE_PE(allocations_do_not_straddle),
        ONE_PE(calls_that_need_no_growth_exchange_once),
        ONE_PE(more_than_the_machine_has),
        ONE_PE(a_file_size_limit_is_no_signal),
        ONE_PE(keys_and_registrations_per_transport),
        ONE_PE(no_transport_at_all),
        ONE_PE(too_many_transports),
        ONE_PE(one_that_must_allocate_does),
        ONE_PE(two_that_must_allocate_conflict),
        ONE_PE(allocated_elsewhere),
        ONE_PE(failures_leave_nothing),
        ONE_PE(failures_with_allocation_leave_nothing),
        ONE_PE(no_file_left),
        ONE_PE(fifty_heaps_leave_nothing),
        ONE_PE(no_file_is_kept_open),
        ONE_PE(destroying_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
