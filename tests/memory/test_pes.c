/* SPDX-License-Identifier: Apache-2.0
 * The collective calls among four PEs: equal offsets, calls that differ, limits, failures of one that all undo.
 * A thread per PE. */
#include "team.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define LIVE 64u

static struct team team;

static int four_pes(void **state)
{
    (void)state;
    team_start(&team, 4, 2);
    return 0;
}

static int end(void **state)
{
    (void)state;
    team_end(&team);
    return 0;
}

static int alloc(struct member *me, size_t size, size_t alignment, char **address)
{
    void *got;
    int rc = fy_heap_alloc(me->heap, size, alignment, &got, &me->error);

    *address = got;
    return rc;
}

static uint64_t next_random(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

/* ------------------------------------------------------------------ random use against a model */

struct piece {
    char *address;
    size_t size;
};

static bool overlaps(const struct piece *pieces, const struct piece *one)
{
    for (unsigned i = 0; i < LIVE; i++)
        if (&pieces[i] != one && pieces[i].size && pieces[i].address < one->address + one->size &&
            one->address < pieces[i].address + pieces[i].size)
            return true;
    return false;
}

static bool filled(const struct piece *piece, int value)
{
    for (size_t i = 0; i < piece->size; i += 97)
        if (piece->address[i] != (char)value)
            return false;
    return true;
}

static void step(struct member *me, struct piece *pieces, uint64_t *seed, uint64_t *trace)
{
    struct piece *piece = &pieces[next_random(seed) % LIVE];
    size_t alignment = (size_t)1 << next_random(seed) % 14;
    size_t size = next_random(seed) % (next_random(seed) % 8 ? 3000 : 3 * MEBIBYTE) + 1;

    if (piece->size) {
        EXPECT(me, filled(piece, (int)(piece - pieces) + 1));
        EXPECT(me, fy_heap_free(me->heap, piece->address, &me->error) == FERRY_OK);
        piece->size = 0;
        return;
    }
    if (alloc(me, size, alignment, &piece->address) != FERRY_OK) {
        EXPECT(me, me->error.status == FERRY_ERR_NOMEM);
        *trace = *trace * 31 + 1;
        return;
    }
    piece->size = size;
    EXPECT(me, ((uintptr_t)piece->address & (alignment - 1)) == 0);
    EXPECT(me, !overlaps(pieces, piece));
    EXPECT(me, fy_heap_region(me->heap, 1, piece->address, size) != NULL);
    memset(piece->address, (int)(piece - pieces) + 1, size);
    *trace = *trace * 31 + (uint64_t)(piece->address - me->heap->base);
}

static void random_use(struct member *me)
{
    struct piece pieces[LIVE] = {{NULL, 0}};
    uint64_t seed = 88172645463325252u; /* the same everywhere */

    for (int i = 0; i < 1500; i++)
        step(me, pieces, &seed, me->arg);
}

static void the_same_offsets_everywhere(void **state)
{
    uint64_t traces[4] = {0};

    (void)state;
    for (uint32_t i = 0; i < team.n; i++)
        team.members[i].arg = &traces[i];
    team_create(&team);
    team_run(&team, random_use);
    for (uint32_t i = 1; i < team.n; i++)
        assert_true(traces[i] == traces[0]);
    assert_true(traces[0] != 0);
    assert_true(team.members[0].heap->n_segments > 3);
    for (uint32_t i = 1; i < team.n; i++)
        assert_int_equal(team.members[i].heap->n_segments, team.members[0].heap->n_segments);
}

/* ------------------------------------------------------------------ calls that differ */

static void differ_in_size(struct member *me)
{
    char *address;

    EXPECT(me, alloc(me, me->rank == 2 ? 65 : 64, 0, &address) == FERRY_ERR_MISMATCH);
    EXPECT(me, address == NULL);
    EXPECT_MESSAGE(me, "pe 0 called malloc of 64 bytes, pe 2 called malloc of 65 bytes");
    EXPECT(me, me->error.peer == (me->rank == 2 ? 0 : 2));
    EXPECT(me, me->heap->n_segments == 0);
}

static void differ_in_alignment(struct member *me)
{
    char *address;

    EXPECT(me, alloc(me, 64, me->rank == 3 ? 128 : 0, &address) == FERRY_ERR_MISMATCH);
    EXPECT_MESSAGE(me, "pe 0 called malloc of 64 bytes, pe 3 called malloc of 64 bytes aligned to 128");
}

static void differ_in_kind(struct member *me)
{
    char *address, *second;

    EXPECT(me, alloc(me, 64, 0, &address) == FERRY_OK);
    if (me->rank == 2) {
        EXPECT(me, fy_heap_free(me->heap, address, &me->error) == FERRY_ERR_MISMATCH);
    } else {
        EXPECT(me, alloc(me, 64, 0, &second) == FERRY_ERR_MISMATCH);
    }
    EXPECT_MESSAGE(me, "pe 0 called malloc of 64 bytes, pe 2 called free of heap offset 0");
}

static void differ_in_address(struct member *me)
{
    char *first, *second, outside;
    int rc;

    EXPECT(me, alloc(me, 64, 0, &first) == FERRY_OK);
    EXPECT(me, alloc(me, 64, 0, &second) == FERRY_OK);
    rc = fy_heap_free(me->heap, me->rank == 1 ? second : first, &me->error);
    EXPECT(me, rc == FERRY_ERR_MISMATCH);
    EXPECT_MESSAGE(me, "pe 0 called free of heap offset 0, pe 1 called free of heap offset 64");
    rc = fy_heap_free(me->heap, me->rank == 1 ? NULL : first, &me->error);
    EXPECT(me, rc == FERRY_ERR_MISMATCH);
    EXPECT_MESSAGE(me, "pe 1 called free of NULL");
    rc = fy_heap_free(me->heap, me->rank == 1 ? &outside : first, &me->error);
    EXPECT(me, rc == FERRY_ERR_MISMATCH);
    EXPECT_MESSAGE(me, "pe 1 called free of an address outside the heap");
}

static void differ_by_an_error(struct member *me)
{
    char *address;

    EXPECT(me, alloc(me, me->rank == 1 ? 0 : 64, 0, &address) == FERRY_ERR_MISMATCH);
    EXPECT_MESSAGE(me, "pe 1 called malloc of 0 bytes");
}

static void run_created(void (*fn)(struct member *me))
{
    team_create(&team);
    team_run(&team, fn);
}

static void calls_that_differ(void **state)
{
    void (*const tests[])(struct member *) = {differ_in_size, differ_in_alignment, differ_in_kind, differ_in_address,
                                              differ_by_an_error};

    (void)state;
    for (size_t i = 0; i < sizeof(tests) / sizeof(*tests); i++) {
        run_created(tests[i]);
        team_destroy(&team);
    }
}

static void wrong_for_all(struct member *me)
{
    char *address;

    EXPECT(me, alloc(me, 64, 48, &address) == FERRY_ERR_ARG);
    EXPECT_MESSAGE(me, "malloc: alignment 48");
    EXPECT(me, me->gathers == 1); /* everybody knows the reason */
    EXPECT(me, alloc(me, 64, 0, &address) == FERRY_OK);
}

static void an_error_that_all_make(void **state)
{
    (void)state;
    run_created(wrong_for_all);
}

static void differ_in_chunk(struct member *me)
{
    char *address;

    EXPECT(me, alloc(me, 64, 0, &address) == FERRY_ERR_MISMATCH);
    EXPECT_MESSAGE(me, "pe 0 would grow its heap by 2097152 bytes, pe 3 by 4194304");
    EXPECT_MESSAGE(me, "FERRY_HEAP_CHUNK");
}

static void settings_that_differ(void **state)
{
    (void)state;
    team.members[3].config.chunk = 4 * MEBIBYTE;
    run_created(differ_in_chunk);
}

/* ------------------------------------------------------------------ limits */

static void small_reserve(struct member *me)
{
    char *address;

    EXPECT(me, alloc(me, 20 * MEBIBYTE, 0, &address) == FERRY_ERR_NOMEM);
    EXPECT_MESSAGE(me,
                   "pe 1: malloc of 20971520 bytes does not fit in the heap: FERRY_HEAP_SIZE reserves 16777216 bytes");
    EXPECT(me, me->error.peer == 1);
    EXPECT(me, alloc(me, 64, 0, &address) == FERRY_OK);
}

static void one_reserved_less(void **state)
{
    (void)state;
    team.members[1].config.reserve = 16 * MEBIBYTE;
    run_created(small_reserve);
}

static void write_file(const char *folder, const char *name, const char *text)
{
    char path[256];
    FILE *file;

    snprintf(path, sizeof(path), "%s/%s", folder, name);
    file = fopen(path, "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

static void short_of_memory(struct member *me)
{
    char *address;

    /* 4 PEs ask 5 MiB each (6 with rounding) where there are 20: each one alone would fit. */
    EXPECT(me, alloc(me, 5 * MEBIBYTE, 0, &address) == FERRY_ERR_NOMEM);
    EXPECT_MESSAGE(
        me,
        "pe 2: no memory for 6291456 bytes more in each of 4 PEs on this host (24.0 MiB in all): 20.0 MiB available");
    EXPECT(me, me->error.peer == 2);
    EXPECT(me, strstr(me->error.hint, "fewer PEs") != NULL);
    EXPECT(me, me->heap->n_segments == 0);
    EXPECT(me, me->fake[0].calls == 0); /* nothing was begun */
    EXPECT(me, alloc(me, 3 * MEBIBYTE, 0, &address) == FERRY_OK);
}

static void one_is_short_of_memory(void **state)
{
    char root[] = "/tmp/ferry-pes-XXXXXX", proc[64], command[96];

    (void)state;
    assert_non_null(mkdtemp(root));
    snprintf(proc, sizeof(proc), "%s/proc", root);
    mkdir(proc, 0700);
    write_file(proc, "meminfo", "MemAvailable: 20480 kB\n");
    team.members[2].config.system_root = root;
    run_created(short_of_memory);
    snprintf(command, sizeof(command), "rm -r '%s'", root);
    assert_int_equal(system(command), 0);
}

/* ------------------------------------------------------------------ failures */

static void one_fails(struct member *me)
{
    char *address;

    EXPECT(me, alloc(me, 64, 0, &address) == FERRY_ERR_LIMIT);
    EXPECT_MESSAGE(me, "pe 2: transport fake cannot register 2097152 bytes of the heap: " FAKE_LIMIT);
    EXPECT(me, me->error.peer == 2);
    EXPECT(me, me->heap->backed == 0);
    EXPECT(me, me->fake[0].live_regions == 0 && me->fake[1].live_regions == 0);
    EXPECT(me, alloc(me, 64, 0, &address) == FERRY_OK);
    EXPECT(me, address == me->heap->base);
}

static void all_undo_what_one_cannot(void **state)
{
    (void)state;
    team.members[2].fake[0].fail_at = 1;
    run_created(one_fails);
}

static void mine_at_first(struct member *me)
{
    char *address;

    EXPECT(me, alloc(me, 64, 0, &address) == FERRY_ERR_PEER);
    EXPECT_MESSAGE(me, "pe 3 is dead");
    EXPECT(me, me->fake[0].live_regions == 0 && me->fake[1].live_regions == 0);
    EXPECT(me, me->heap->n_segments == 0);
}

static void a_death_in_any_step(void **state)
{
    static const char *const steps[] = {"allocation on the symmetric heap", "growth of the heap"};

    (void)state;
    for (size_t i = 0; i < 2; i++) {
        team.fail_step = steps[i];
        run_created(mine_at_first);
        team_destroy(&team);
    }
    assert_int_equal(holdings_now().heaps, 0);
}

/* One PE did not hear that a growth went well: from then on the heaps differ, and that must not pass unnoticed. */
static void after_a_split(struct member *me)
{
    char *address;
    int rc = alloc(me, 64, 0, &address);

    EXPECT(me, rc == (me->rank == 1 ? FERRY_ERR_TIMEOUT : FERRY_OK));
    EXPECT(me, alloc(me, 64, 0, &address) == FERRY_ERR_MISMATCH);
    EXPECT_MESSAGE(me, "the heaps of pe 0 and pe 1 are not the same");
}

static int deaf(void *arg, void *data, size_t length, void (*combine)(void *into, const void *other), const char *step,
                struct ferry_error *error)
{
    int rc = team_reduce(arg, data, length, combine, step, error);

    if (rc || strcmp(step, "growth of the heap") != 0)
        return rc;
    fy_error_set(error, FERRY_ERR_TIMEOUT, NULL, "too late");
    return FERRY_ERR_TIMEOUT;
}

static void heaps_that_came_apart(void **state)
{
    (void)state;
    team.members[1].config.up.reduce = deaf;
    run_created(after_a_split);
}

#define FOUR_PES(test) cmocka_unit_test_setup_teardown(test, four_pes, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        FOUR_PES(the_same_offsets_everywhere), FOUR_PES(calls_that_differ),
        FOUR_PES(an_error_that_all_make),      FOUR_PES(settings_that_differ),
        FOUR_PES(one_reserved_less),           FOUR_PES(one_is_short_of_memory),
        FOUR_PES(all_undo_what_one_cannot),    FOUR_PES(a_death_in_any_step),
        FOUR_PES(heaps_that_came_apart),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
