/* SPDX-License-Identifier: Apache-2.0
 * Peers' keys and local registrations: first contact, damaged keys, lookup of regions, user buffers, cost of a peer.
 * A thread per PE, and several channel threads on one heap. */
#include "team.h"
#include "base/clock.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct team team;

static int four_pes(void **state)
{
    (void)state;
    team_start(&team, 4, 2);
    return 0;
}

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

static void grow(struct member *me)
{
    void *address;

    EXPECT(me, fy_heap_alloc(me->heap, 3 * MEBIBYTE, 0, &address, &me->error) == FERRY_OK);
}

static int resolve(struct member *me, uint32_t segment, uint32_t pe, const struct fy_target **target)
{
    return fy_heap_resolve(me->heap, me->heap->segments[segment], pe, target, &me->error);
}

/* ------------------------------------------------------------------ targets */

static void resolve_all(struct member *me)
{
    grow(me);
    grow(me);
    for (uint32_t s = 0; s < 2; s++) {
        struct fy_segment *segment = me->heap->segments[s];

        for (uint32_t pe = 0; pe < 4; pe++) {
            const struct fy_target *target, *again;
            char *counterpart = me->team->members[pe].heap->base + segment->start;

            EXPECT(me, atomic_load(&segment->targets[pe])->length == 0);
            EXPECT(me, resolve(me, s, pe, &target) == FERRY_OK);
            EXPECT(me, target->length == segment->length && target->key != NULL);
            EXPECT(me, target->map == counterpart); /* the fake maps by knowing the address */
            EXPECT(me, resolve(me, s, pe, &again) == FERRY_OK && again == target);
            EXPECT(me, atomic_load(&segment->targets[pe]) == target);
        }
    }
    EXPECT(me, me->fake[0].imports == 8);
}

static void contact_with_everybody(void **state)
{
    (void)state;
    team_create(&team);
    team_run(&team, resolve_all);
}

static void resolve_second(struct member *me)
{
    const struct fy_target *target;

    grow(me);
    EXPECT(me, resolve(me, 0, 3, &target) == FERRY_OK);
    EXPECT(me, me->fake[0].imports == 0 && me->fake[1].imports == 1);
    EXPECT(me, target->map == NULL);
}

static void the_transport_that_carries(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < 4; i++) {
        team.members[i].carrier = 1;
        team.members[i].fake[1].unmappable = true;
        team.members[i].fake[0].key_padding = 7 * i;
        team.members[i].fake[1].key_padding = 30 * i;
    }
    team_create(&team);
    team_run(&team, resolve_second);
}

static void resolve_bad(struct member *me)
{
    const struct fy_target *target;

    grow(me);
    EXPECT(me, resolve(me, 0, 4, &target) == FERRY_ERR_ARG);
    EXPECT_MESSAGE(me, "pe 4 is out of range: the job has 4");
    EXPECT(me, target == &fy_target_none);
    me->carrier = FERRY_ERR_UNREACHABLE;
    EXPECT(me, resolve(me, 0, 2, &target) == FERRY_ERR_UNREACHABLE);
    EXPECT_MESSAGE(me, "no chosen transport reaches pe 2");
    me->carrier = 0;
    me->fake[0].fail_at = me->fake[0].calls + 1;
    EXPECT(me, resolve(me, 0, 2, &target) == FERRY_ERR_LIMIT);
    EXPECT_MESSAGE(me, "transport fake cannot import the key of pe 2 for segment 0: " FAKE_LIMIT);
    EXPECT(me, me->error.peer == 2);
    EXPECT(me, resolve(me, 0, 2, &target) == FERRY_OK); /* a failure is not remembered */
}

static void contact_that_fails(void **state)
{
    (void)state;
    team_create(&team);
    team_run(&team, resolve_bad);
}

static void resolve_slowly(struct member *me)
{
    const struct fy_target *target;

    grow(me);
    me->fake[0].again = 1000;
    EXPECT(me, resolve(me, 0, 1, &target) == FERRY_OK);
    me->fake[0].again = -1;
    EXPECT(me, resolve(me, 0, 2, &target) == FERRY_ERR_TIMEOUT);
    EXPECT_MESSAGE(me, "transport fake could not import the key of pe 2 for segment 0 within 0.3 s");
}

static void contact_takes_its_time(void **state)
{
    uint64_t begin = fy_now_ns();

    (void)state;
    for (uint32_t i = 0; i < 4; i++)
        team.members[i].config.timeout = 0.3;
    team_create(&team);
    team_run(&team, resolve_slowly);
    assert_true(fy_now_ns() - begin >= 300000000u);
}

static int no_key(void *arg, uint32_t pe, uint32_t segment, uint32_t t, void *key, size_t capacity, size_t *size,
                  struct ferry_error *error)
{
    (void)arg, (void)segment, (void)t, (void)key, (void)capacity, (void)size;
    fy_error_set(error, FERRY_ERR_PEER, NULL, "pe %u is dead", (unsigned)pe);
    return FERRY_ERR_PEER;
}

static void resolve_without_key(struct member *me)
{
    const struct fy_target *target;

    grow(me);
    EXPECT(me, resolve(me, 0, me->rank, &target) == FERRY_OK); /* one's own needs no question */
    EXPECT(me, resolve(me, 0, (me->rank + 1) % 4, &target) == FERRY_ERR_PEER);
    EXPECT_MESSAGE(me, "is dead");
    EXPECT(me, target == &fy_target_none);
    EXPECT(me, me->fake[0].imports == 1);
}

static void keys_that_cannot_be_had(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < 4; i++)
        team.members[i].config.up.key = no_key;
    team_create(&team);
    team_run(&team, resolve_without_key);
}

/* ------------------------------------------------------------------ channels beside each other */

struct racer {
    struct member *me;
    const struct fy_target *targets[4];
    int misses;
};

/* What the data path does: looks without a lock, resolves when it finds nothing. */
static void *race(void *arg)
{
    struct racer *racer = arg;
    struct fy_heap *heap = racer->me->heap;
    struct ferry_error error;

    for (uint64_t offset = 0; offset < 40 * MEBIBYTE; offset += FY_GRANULE / 2) {
        struct fy_backoff backoff = {0};
        const struct fy_target *target;

        while (atomic_load_explicit(&heap->backed, memory_order_acquire) <= offset)
            fy_backoff(&backoff);
        struct fy_segment *segment =
            atomic_load_explicit(&heap->granules[offset >> FY_GRANULE_SHIFT], memory_order_acquire);
        uint32_t pe = (uint32_t)(offset / FY_GRANULE) % 4;

        racer->misses += fy_heap_region(heap, 1, heap->base + offset, 64) != segment->regions[1];
        target = atomic_load_explicit(&segment->targets[pe], memory_order_acquire);
        if (target->length == 0)
            racer->misses += fy_heap_resolve(heap, segment, pe, &target, &error) != FERRY_OK;
        racer->misses += target->length != segment->length;
        racer->targets[pe] = target;
    }
    return NULL;
}

static void grow_under_race(struct member *me)
{
    pthread_t threads[3];
    struct racer racers[3];

    for (int i = 0; i < 3; i++) {
        racers[i] = (struct racer){.me = me};
        pthread_create(&threads[i], NULL, race, &racers[i]);
    }
    while (atomic_load(&me->heap->backed) < 40 * MEBIBYTE)
        grow(me);
    for (int i = 0; i < 3; i++) {
        pthread_join(threads[i], NULL);
        EXPECT(me, racers[i].misses == 0);
        for (int pe = 0; pe < 4; pe++)
            EXPECT(me, racers[i].targets[pe] == racers[0].targets[pe]);
    }
}

static void growth_while_channels_look(void **state)
{
    (void)state;
    team_create(&team);
    team_run(&team, grow_under_race);
}

/* ------------------------------------------------------------------ regions and buffers */

static struct member *me(void)
{
    return &team.members[0];
}

static void regions_of_the_heap(void **state)
{
    struct fy_heap *heap;
    struct fy_segment *first, *second;

    (void)state;
    team_create(&team);
    heap = me()->heap;
    grow(me());
    grow(me());
    first = heap->segments[0];
    second = heap->segments[1];
    assert_ptr_equal(fy_heap_region(heap, 0, heap->base, 1), first->regions[0]);
    assert_ptr_equal(fy_heap_region(heap, 0, heap->base, first->length), first->regions[0]);
    assert_ptr_equal(fy_heap_region(heap, 0, heap->base + 4 * MEBIBYTE - 1, 1), first->regions[0]);
    assert_ptr_equal(fy_heap_region(heap, 0, heap->base + 4 * MEBIBYTE, 1), second->regions[0]);
    assert_null(fy_heap_region(heap, 0, heap->base + 4 * MEBIBYTE - 1, 2)); /* two segments: to be cut */
    assert_null(fy_heap_region(heap, 0, heap->base, SIZE_MAX));
    assert_null(fy_heap_region(heap, 0, heap->base + 8 * MEBIBYTE, 1)); /* reserved only */
    assert_null(fy_heap_region(heap, 0, heap->base - 1, 1));
    assert_null(fy_heap_region(heap, 0, heap->base + 64 * MEBIBYTE, 1));
    assert_null(fy_heap_region(heap, 0, NULL, 1));
}

static struct ferry_buffer *buffer_of(char *address, size_t length)
{
    struct ferry_buffer *buffer;

    if (fy_buffer_register(me()->heap, address, length, &buffer, &me()->error) != FERRY_OK)
        fail_msg("%s", me()->error.message);
    return buffer;
}

static struct ferry_region *region_at(const char *address, size_t length)
{
    return fy_heap_region(me()->heap, 0, address, length);
}

static void buffers_that_overlap(void **state)
{
    static char memory[10000];
    struct ferry_buffer *low, *wide, *inside;

    (void)state;
    team_create(&team);
    low = buffer_of(memory, 100);
    wide = buffer_of(memory + 1000, 5000);
    inside = buffer_of(memory + 2000, 10);
    assert_ptr_equal(region_at(memory, 100), low->regions[0]);
    assert_null(region_at(memory, 101));
    assert_null(region_at(memory + 100, 1));
    assert_ptr_equal(region_at(memory + 2000, 10), inside->regions[0]);
    assert_ptr_equal(region_at(memory + 2000, 11), wide->regions[0]);
    assert_ptr_equal(region_at(memory + 5990, 10), wide->regions[0]); /* behind the one inside */
    assert_null(region_at(memory + 5990, 11));
    assert_null(region_at(memory + 5990, SIZE_MAX));
    assert_int_equal(fy_buffer_deregister(wide), FERRY_OK);
    assert_null(region_at(memory + 2000, 11));
    assert_ptr_equal(region_at(memory + 2000, 10), inside->regions[0]);
    assert_int_equal(fy_buffer_deregister(low), FERRY_OK);
    assert_int_equal(me()->fake[0].live_regions, 1); /* the last goes with the heap */
}

static void buffers_that_cannot_be(void **state)
{
    struct ferry_buffer *buffer;
    char memory[64];
    struct fy_heap *heap;

    (void)state;
    me()->config.n_transports = 2;
    team_create(&team);
    heap = me()->heap;
    assert_int_equal(fy_buffer_register(heap, NULL, 64, &buffer, &me()->error), FERRY_ERR_ARG);
    assert_int_equal(fy_buffer_register(heap, memory, 0, &buffer, &me()->error), FERRY_ERR_ARG);
    assert_int_equal(fy_buffer_register(heap, memory, SIZE_MAX, &buffer, &me()->error), FERRY_ERR_ARG);
    assert_non_null(strstr(me()->error.message, "18446744073709551615"));
    assert_int_equal(fy_buffer_register(heap, heap->base + 100, 10, &buffer, &me()->error), FERRY_ERR_ARG);
    assert_non_null(strstr(me()->error.message, "lie in the symmetric heap"));
    assert_int_equal(fy_buffer_register(heap, heap->base - 100, 101, &buffer, &me()->error), FERRY_ERR_ARG);
    me()->fake[1].fail_at = 1; /* the second transport: the first is to let go again */
    assert_int_equal(fy_buffer_register(heap, memory, 64, &buffer, &me()->error), FERRY_ERR_LIMIT);
    assert_null(buffer);
    assert_non_null(strstr(me()->error.message, "transport mock cannot register the buffer of 64 bytes"));
    assert_int_equal(me()->fake[0].live_regions, 0);
    assert_null(region_at(memory, 64));
    assert_int_equal(fy_buffer_deregister(NULL), FERRY_ERR_ARG);
}

static void many_buffers(void **state)
{
    enum { N = 2000 };
    struct ferry_buffer *buffers[N];
    static char memory[N * 16];

    (void)state;
    team_create(&team);
    for (size_t i = 0; i < N; i++) { /* 7 and 2000 have no common factor: every place once */
        size_t at = i * 7 % N;

        buffers[at] = buffer_of(memory + at * 16, 16);
    }
    for (size_t i = 0; i < N; i++)
        assert_ptr_equal(region_at(memory + i * 16 + 3, 13), buffers[i]->regions[0]);
    for (size_t i = 0; i < N; i += 2)
        assert_int_equal(fy_buffer_deregister(buffers[i]), FERRY_OK);
    for (size_t i = 0; i < N; i++)
        assert_int_equal(region_at(memory + i * 16, 16) != NULL, i % 2);
    assert_int_equal(me()->fake[0].live_regions, N / 2);
}

/* Peers ask with any numbers. */
static void keys_that_nobody_has(void **state)
{
    char key[FERRY_KEY_MAX];
    size_t size;

    (void)state;
    team_create(&team);
    assert_int_equal(fy_heap_own_key(me()->heap, 0, 0, key, sizeof(key), &size), FERRY_ERR_NOT_FOUND);
    grow(me());
    assert_int_equal(fy_heap_own_key(me()->heap, 0, 0, key, sizeof(key), &size), FERRY_OK);
    assert_int_equal(fy_heap_own_key(me()->heap, 0, 0, key, size - 1, &size), FERRY_ERR_NOT_FOUND);
    assert_int_equal(fy_heap_own_key(me()->heap, 1, 0, key, sizeof(key), &size), FERRY_ERR_NOT_FOUND);
    assert_int_equal(fy_heap_own_key(me()->heap, FY_SEGMENTS_MAX, 0, key, sizeof(key), &size), FERRY_ERR_NOT_FOUND);
    assert_int_equal(fy_heap_own_key(me()->heap, UINT32_MAX, UINT32_MAX, key, sizeof(key), &size), FERRY_ERR_NOT_FOUND);
}

/* ------------------------------------------------------------------ cost of a peer */

/* Everybody says what this PE says. */
static int echo(void *arg, void *data, size_t length, void (*combine)(void *into, const void *other), const char *step,
                struct ferry_error *error)
{
    (void)arg;
    (void)data;
    (void)length;
    (void)combine;
    (void)step;
    (void)error;
    return FERRY_OK;
}

static size_t resident(void)
{
    char text[128] = "";
    unsigned long pages = 0;
    FILE *file = fopen("/proc/self/statm", "r");

    assert_non_null(file);
    assert_non_null(fgets(text, sizeof(text), file));
    fclose(file);
    assert_int_equal(sscanf(text, "%*u %lu", &pages), 1);
    return pages * (size_t)sysconf(_SC_PAGESIZE);
}

static void a_peer_never_contacted_costs_64_bytes(void **state)
{
    const uint32_t peers = 200000;
    size_t before, bytes;

    (void)state;
    me()->config.n_pes = peers;
    me()->config.local_pes = 1;
    me()->config.up.reduce = echo;
    team_create(&team);
    before = resident();
    grow(me());
    bytes = resident() - before;
    print_message("%.1f bytes resident for each of %u peers that were not contacted\n", (double)bytes / peers, peers);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__) /* they keep books of their own */
    assert_true(bytes <= (size_t)peers * 64);
#endif
}

#define FOUR_PES(test) cmocka_unit_test_setup_teardown(test, four_pes, end)
#define ONE_PE(test)   cmocka_unit_test_setup_teardown(test, one_pe, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        FOUR_PES(contact_with_everybody),
        FOUR_PES(the_transport_that_carries),
        FOUR_PES(contact_that_fails),
        FOUR_PES(contact_takes_its_time),
        FOUR_PES(keys_that_cannot_be_had),
        ONE_PE(keys_that_nobody_has),
        FOUR_PES(growth_while_channels_look),
        ONE_PE(regions_of_the_heap),
        ONE_PE(buffers_that_overlap),
        ONE_PE(buffers_that_cannot_be),
        ONE_PE(many_buffers),
        ONE_PE(a_peer_never_contacted_costs_64_bytes),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
