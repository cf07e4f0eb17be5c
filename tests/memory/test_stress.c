/* SPDX-License-Identifier: Apache-2.0
 * A thousand random calls on four PEs against a model: allocations of several classes, new sizes, releases, in small
 * chunks. One thread per PE; all draw the same calls, as collective calls are, and each has its own contents. */
#include "team.h"
#include <ferry/ferry.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CALLS  1000
#define BLOCKS 48

struct block {
    unsigned char *at;
    size_t size; /* as asked */
    uint32_t flags;
    unsigned seed;
};

struct model {
    uint64_t random;
    struct block blocks[BLOCKS];
    int moved, stayed, grown; /* what happened, so that all of it is known to have happened */
};

static struct team team;

static uint64_t draw(struct model *model, uint64_t below)
{
    model->random = model->random * 6364136223846793005u + 1442695040888963407u;
    return (model->random >> 33) % below;
}

/* Sizes of all magnitudes up to 1 MiB. */
static size_t draw_size(struct model *model)
{
    uint64_t most = (uint64_t)1 << draw(model, 21);

    return 1 + (size_t)draw(model, most);
}

static void fill(struct block *block, size_t from, uint32_t rank)
{
    for (size_t i = from; i < block->size; i++)
        block->at[i] = (unsigned char)(block->seed + rank * 7 + i * 13);
}

static bool intact(const struct block *block, size_t size, uint32_t rank)
{
    for (size_t i = 0; i < size; i++)
        if (block->at[i] != (unsigned char)(block->seed + rank * 7 + i * 13))
            return false;
    return true;
}

/* Blocks lie apart, within one segment each, and that of their class. */
static void check_place(struct member *me, const struct model *model, const struct block *block)
{
    const struct fy_segment *segment = fy_heap_find(me->heap, block->at);

    EXPECT(me, segment && segment->flags == block->flags && segment->kind == FERRY_MEMORY_HOST);
    EXPECT(me, segment && block->at + block->size <= (unsigned char *)segment->address + segment->length);
    EXPECT(me, (uintptr_t)block->at % FY_ALIGN == 0);
    for (int i = 0; i < BLOCKS; i++) {
        const struct block *other = &model->blocks[i];

        if (other != block && other->at)
            EXPECT(me, other->at >= block->at + block->size || block->at >= other->at + other->size);
    }
}

static void take(struct member *me, struct model *model, struct block *block)
{
    struct fy_want want = {.size = draw_size(model),
                           .alignment = (size_t)64 << draw(model, 7),
                           .flags = draw(model, 4) == 0 ? FERRY_ALLOC_SINGLE_WRITER : 0};
    uint32_t before = me->heap->n_segments;
    void *at;

    if (fy_heap_want(me->heap, &want, &at, &me->error) != FERRY_OK) {
        EXPECT_MESSAGE(me, "no failure");
        return;
    }
    *block = (struct block){at, want.size, want.flags, (unsigned)draw(model, 256)};
    EXPECT(me, (uintptr_t)at % want.alignment == 0);
    model->grown += me->heap->n_segments > before;
    check_place(me, model, block);
    fill(block, 0, me->rank);
}

static void resize(struct member *me, struct model *model, struct block *block)
{
    size_t size = draw_size(model), kept = size < block->size ? size : block->size;
    void *at = block->at;

    if (fy_heap_resize(me->heap, &at, size, NULL, NULL, &me->error) != FERRY_OK) {
        EXPECT_MESSAGE(me, "no failure");
        return;
    }
    model->moved += at != block->at;
    model->stayed += at == block->at;
    block->at = at;
    block->size = size;
    EXPECT(me, intact(block, kept, me->rank));
    check_place(me, model, block);
    fill(block, kept, me->rank);
}

static void give(struct member *me, struct block *block)
{
    EXPECT(me, intact(block, block->size, me->rank));
    EXPECT(me, fy_heap_free(me->heap, block->at, &me->error) == FERRY_OK);
    block->at = NULL;
}

static void body(struct member *me)
{
    struct model *model = calloc(1, sizeof(*model));
    uint32_t segments;
    void *at;

    model->random = 4711;
    for (int i = 0; i < CALLS; i++) {
        struct block *block = &model->blocks[draw(model, BLOCKS)];

        if (!block->at)
            take(me, model, block);
        else if (draw(model, 2))
            resize(me, model, block);
        else
            give(me, block);
    }
    if (me->rank == 0)
        printf("%d moved, %d stayed, %d times the heap grew\n", model->moved, model->stayed, model->grown);
    EXPECT(me, model->moved > 50 && model->stayed > 50 && model->grown > 2);
    for (int i = 0; i < BLOCKS; i++)
        if (model->blocks[i].at)
            give(me, &model->blocks[i]);
    /* Nothing is left over: every chunk can be had whole again, without another. */
    segments = me->heap->n_segments;
    for (uint32_t i = 0; i < segments; i++) {
        struct fy_want want = {
            .size = me->heap->segments[i]->length, .alignment = 64, .flags = me->heap->segments[i]->flags};

        EXPECT(me, fy_heap_want(me->heap, &want, &at, &me->error) == FERRY_OK);
    }
    EXPECT(me, me->heap->n_segments == segments);
    free(model);
}

static void a_thousand_calls(void **state)
{
    (void)state;
    team_start(&team, 4, 1);
    for (uint32_t rank = 0; rank < 4; rank++)
        team.members[rank].config.reserve = 256 * MEBIBYTE;
    team_create(&team);
    team_run(&team, body);
    team_end(&team);
    assert_int_equal(holdings_now().heaps, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_thousand_calls)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
