/* SPDX-License-Identifier: Apache-2.0
 * A new size for an allocation: where it stands if there is room, else elsewhere, with its contents.
 * Setup thread only, on all PEs alike. */
#include "internal.h"
#include <string.h>

/* What is done, once PEs agree; all of it follows from what is the same on every PE. */
struct resize {
    struct fy_plan plan;
    struct fy_allocator *allocator; /* of the block's class */
    size_t old, rounded;            /* sizes, multiples of FY_ALIGN */
    bool stays;
};

static int plan_resize(struct fy_heap_state *state, struct resize *resize, const void *address)
{
    struct fy_plan *plan = &resize->plan;
    int rc = fy_plan_find(state, plan, address, "realloc");

    if (rc)
        return rc;
    if (plan->call.size == 0) {
        fy_error_set(&plan->error, FERRY_ERR_ARG, NULL, "realloc: size is 0");
        return FERRY_ERR_ARG;
    }
    resize->allocator = state->allocators[fy_class(plan->call.memory, plan->call.flags)];
    resize->old = fy_allocator_size(resize->allocator, plan->call.place);
    if (plan->call.size > state->heap.config.reserve)
        return fy_plan_room(state, plan, FY_ALIGN); /* knows the words */
    if (!fy_allocator_prepare(resize->allocator)) {
        fy_error_set(&plan->error, FERRY_ERR_NOMEM, NULL, "no memory for the heap's list of blocks");
        return FERRY_ERR_NOMEM;
    }
    resize->rounded = fy_round_up(plan->call.size, FY_ALIGN);
    resize->stays = fy_allocator_fits(resize->allocator, plan->call.place, resize->rounded);
    return resize->stays ? FERRY_OK : fy_plan_room(state, plan, FY_ALIGN);
}

static int move_bytes(const struct fy_heap_state *state, const struct resize *resize, fy_copy_fn copy, void *arg,
                      struct ferry_error *error)
{
    const struct fy_plan *plan = &resize->plan;
    char *to = state->heap.base + plan->offset;
    const char *from = state->heap.base + plan->call.place;
    size_t n = resize->old < resize->rounded ? resize->old : resize->rounded;

    if (plan->call.memory != FERRY_MEMORY_HOST)
        return copy(arg, to, from, n, error);
    memcpy(to, from, n);
    return FERRY_OK;
}

/* To a place of its own. The old one is given up when every PE has its bytes in the new one, and nobody returns before.
 */
static int move(struct fy_heap_state *state, struct resize *resize, fy_copy_fn copy, void *arg,
                struct ferry_error *error)
{
    struct fy_plan *plan = &resize->plan;
    struct ferry_error mine;
    int rc = fy_plan_take(state, plan, FY_ALIGN, error);

    if (rc)
        return rc;
    rc = move_bytes(state, resize, copy, arg, &mine);
    rc = fy_exchange_outcome(state, rc, "move of an allocation", &mine, error);
    if (rc) {
        fy_allocator_release(resize->allocator, plan->offset);
        return rc;
    }
    fy_allocator_release(resize->allocator, plan->call.place);
    return FERRY_OK;
}

int fy_heap_resize(struct fy_heap *heap, void **address, size_t size, fy_copy_fn copy, void *arg,
                   struct ferry_error *error)
{
    struct fy_heap_state *state = fy_heap_state(heap);
    struct resize resize = {.plan = {.call = {.kind = FY_CALL_RESIZE, .size = size}}};
    struct fy_plan *plan = &resize.plan;
    int rc;

    plan->call.status = plan_resize(state, &resize, *address);
    rc = fy_call_agree(state, plan, error);
    if (!rc && resize.stays) {
        fy_allocator_resize(resize.allocator, plan->call.place, resize.rounded);
        plan->offset = plan->call.place;
    } else if (!rc) {
        rc = move(state, &resize, copy, arg, error);
    }
    if (rc)
        return rc;
    fy_call_remember(state, FY_CALL_RESIZE, plan->offset, resize.rounded);
    *address = heap->base + plan->offset;
    return FERRY_OK;
}
