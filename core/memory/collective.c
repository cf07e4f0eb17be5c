/* SPDX-License-Identifier: Apache-2.0
 * Allocation and release: every PE works out what its call would do, all compare, then each does it.
 * Setup thread only. Nothing that follows the comparison depends on one PE alone. */
#include "internal.h"
#include <ferry/ferry.h>
#include <string.h>

/* ------------------------------------------------------------------ room */

static int too_small(const struct fy_heap *heap, size_t size, struct ferry_error *error)
{
    unsigned long long backed = atomic_load_explicit(&heap->backed, memory_order_relaxed);
    unsigned long long more = size > SIZE_MAX / 2 ? SIZE_MAX / 2 : fy_round_up(size, FY_GRANULE);

    fy_error_set(error, FERRY_ERR_NOMEM, "raise FERRY_HEAP_SIZE on every PE: it costs address space only",
                 "malloc of %zu bytes does not fit in the heap: FERRY_HEAP_SIZE reserves %zu bytes, %llu of them are "
                 "taken; %llu would suffice",
                 size, heap->config.reserve, backed, backed + more);
    return FERRY_ERR_NOMEM;
}

static int no_growth(const struct fy_heap_state *state, uint32_t kind, struct ferry_error *error)
{
    const struct fy_heap_config *config = &state->heap.config;

    if (state->lost) {
        fy_error_set(error, FERRY_ERR_STATE, NULL,
                     "the heap cannot grow any more: the place behind it was taken "
                     "when %s gave a chunk back",
                     state->allocating[kind] == FY_NO_TRANSPORT ? "the GPU's driver"
                                                                : config->transports[state->allocating[kind]]->name);
        return FERRY_ERR_STATE;
    }
    fy_error_set(error, FERRY_ERR_LIMIT, "raise FERRY_HEAP_CHUNK on every PE",
                 "the heap has grown %u times already, by pieces of FERRY_HEAP_CHUNK %zu bytes", FY_SEGMENTS_MAX,
                 config->chunk);
    return FERRY_ERR_LIMIT;
}

static int plan_growth(struct fy_heap_state *state, struct fy_plan *plan)
{
    const struct fy_heap *heap = &state->heap;
    uint64_t room = heap->config.reserve - atomic_load_explicit(&heap->backed, memory_order_relaxed);
    size_t length = fy_round_up(plan->rounded, FY_GRANULE);

    if (length > room)
        return too_small(heap, plan->call.size, &plan->error);
    if (state->lost || !fy_segment_room(heap))
        return no_growth(state, plan->call.memory, &plan->error);
    if (length < heap->config.chunk)
        length = heap->config.chunk < room ? heap->config.chunk : room;
    plan->call.grow = length;
    if (plan->call.memory != FERRY_MEMORY_HOST)
        return FERRY_OK; /* whoever allocates it knows its limits */
    /* All PEs have looked before any of them takes: the exchange lies between. */
    return fy_pages_plan(&heap->config, length, &plan->error);
}

/* Large chunks of one class may lie between those of another: each class has its own list of blocks. */
static struct fy_allocator *allocator_of(struct fy_heap_state *state, const struct fy_plan *plan)
{
    struct fy_allocator **allocator = &state->allocators[fy_class(plan->call.memory, plan->call.flags)];

    if (!*allocator)
        *allocator = fy_allocator_create();
    return *allocator;
}

int fy_plan_room(struct fy_heap_state *state, struct fy_plan *plan, size_t alignment)
{
    struct fy_allocator *allocator;
    size_t size = plan->call.size;

    if (size > state->heap.config.reserve)
        return too_small(&state->heap, size, &plan->error);
    allocator = allocator_of(state, plan);
    if (!allocator || !fy_allocator_prepare(allocator)) {
        fy_error_set(&plan->error, FERRY_ERR_NOMEM, NULL, "no memory for the heap's list of blocks");
        return FERRY_ERR_NOMEM;
    }
    plan->rounded = fy_round_up(size, FY_ALIGN);
    plan->offset = fy_allocator_find(allocator, plan->rounded, alignment);
    return plan->offset == FY_OFFSET_NONE ? plan_growth(state, plan) : FERRY_OK;
}

int fy_plan_take(struct fy_heap_state *state, struct fy_plan *plan, size_t alignment, struct ferry_error *error)
{
    struct fy_allocator *allocator = allocator_of(state, plan);

    if (plan->call.grow) {
        int rc = fy_heap_grow(state, plan->call.grow, plan->call.memory, plan->call.flags, error);

        if (rc)
            return rc;
        plan->offset = fy_allocator_find(allocator, plan->rounded, alignment);
    }
    fy_allocator_take(allocator, plan->offset, plan->rounded);
    return FERRY_OK;
}

/* ------------------------------------------------------------------ allocation */

static int bad(struct fy_plan *plan, int status, const char *hint, const char *what, unsigned long long value)
{
    fy_error_set(&plan->error, status, hint, "malloc: %s (%llu)", what, value);
    return status;
}

/* The kind of memory, and the flags. */
static int check_class(const struct fy_heap_state *state, struct fy_plan *plan)
{
    const struct fy_heap_config *config = &state->heap.config;

    if (plan->call.memory >= FY_KINDS)
        return bad(plan, FERRY_ERR_ARG, NULL, "kind is none of enum ferry_memory_kind", plan->call.memory);
    if (plan->call.flags & ~FERRY_ALLOC_SINGLE_WRITER)
        return bad(plan, FERRY_ERR_ARG, NULL, "flags has bits that are no FERRY_ALLOC_ flag", plan->call.flags);
    if (plan->call.memory != FERRY_MEMORY_GPU || state->allocating[FERRY_MEMORY_GPU] != FY_NO_TRANSPORT)
        return FERRY_OK;
    if (!config->gpu_memory) {
        fy_error_set(&plan->error, FERRY_ERR_UNSUPPORTED,
                     "set FERRY_GPU_MEMORY=yes on every PE, or ask for host memory (FERRY_HEAP_KIND=host)",
                     "malloc: no GPU memory can be had: FERRY_GPU_MEMORY is no");
        return FERRY_ERR_UNSUPPORTED;
    }
    if (state->reached[FERRY_MEMORY_GPU])
        return FERRY_OK;
    fy_error_set(
        &plan->error, FERRY_ERR_UNSUPPORTED,
        "name a transport that carries GPU memory in FERRY_TRANSPORT, or ask for host memory (FERRY_HEAP_KIND=host)",
        "malloc: no GPU memory can be had: of the %zu transports in use (the first is %s) none carries it",
        config->n_transports, config->n_transports ? config->transports[0]->name : "none");
    return FERRY_ERR_UNSUPPORTED;
}

static int plan_alloc(struct fy_heap_state *state, struct fy_plan *plan)
{
    size_t alignment = plan->call.place;
    int rc = check_class(state, plan);

    if (rc)
        return rc;
    if (plan->call.size == 0) {
        fy_error_set(&plan->error, FERRY_ERR_ARG, NULL, "malloc: size is 0");
        return FERRY_ERR_ARG;
    }
    if (alignment & (alignment - 1)) {
        fy_error_set(&plan->error, FERRY_ERR_ARG, NULL, "malloc: alignment %zu is no power of two", alignment);
        return FERRY_ERR_ARG;
    }
    if (alignment > FY_GRANULE) {
        fy_error_set(&plan->error, FERRY_ERR_ARG, NULL, "malloc: alignment %zu is more than %zu, the largest there is",
                     alignment, FY_GRANULE);
        return FERRY_ERR_ARG;
    }
    return fy_plan_room(state, plan, alignment);
}

static int alloc(struct fy_heap_state *state, struct fy_plan *plan, struct ferry_error *error)
{
    int rc = fy_call_agree(state, plan, error);

    if (!rc)
        rc = fy_plan_take(state, plan, plan->call.place, error);
    if (!rc)
        fy_call_remember(state, FY_CALL_ALLOC, plan->offset, plan->rounded);
    return rc;
}

int fy_heap_want(struct fy_heap *heap, const struct fy_want *want, void **address, struct ferry_error *error)
{
    struct fy_heap_state *state = fy_heap_state(heap);
    struct fy_plan plan = {.call = {.kind = FY_CALL_ALLOC,
                                    .size = want->size,
                                    .place = want->alignment,
                                    .memory = want->kind,
                                    .flags = want->flags}};
    int rc;

    *address = NULL;
    /* Everything is aligned to FY_ALIGN anyway. 3 is wrong all the same. */
    if (want->alignment < FY_ALIGN && (want->alignment & (want->alignment - 1)) == 0)
        plan.call.place = FY_ALIGN;
    plan.call.status = plan_alloc(state, &plan);
    rc = alloc(state, &plan, error);
    if (!rc)
        *address = heap->base + plan.offset;
    return rc;
}

int fy_heap_alloc(struct fy_heap *heap, size_t size, size_t alignment, void **address, struct ferry_error *error)
{
    const struct fy_want plain = {.size = size, .alignment = alignment, .kind = FERRY_MEMORY_HOST};

    return fy_heap_want(heap, &plain, address, error);
}

/* ------------------------------------------------------------------ release */

int fy_plan_find(struct fy_heap_state *state, struct fy_plan *plan, const void *address, const char *call)
{
    const struct fy_heap *heap = &state->heap;
    uint64_t offset = (uint64_t)((uintptr_t)address - (uintptr_t)heap->base);
    const struct fy_segment *segment;

    if (offset >= heap->config.reserve) {
        plan->call.place = FY_PLACE_OUTSIDE;
        fy_error_set(&plan->error, FERRY_ERR_ARG, NULL, "%s: address %p is not in the symmetric heap, %p to %p", call,
                     address, (void *)heap->base, (void *)(heap->base + heap->config.reserve));
        return FERRY_ERR_ARG;
    }
    plan->call.place = offset;
    segment = fy_heap_find(&state->heap, address);
    if (segment) {
        plan->call.memory = segment->kind;
        plan->call.flags = segment->flags;
    }
    if (!segment || fy_allocator_size(allocator_of(state, plan), offset) == 0) {
        fy_error_set(&plan->error, FERRY_ERR_ARG, "pass what an allocation returned, once",
                     "%s: address %p (heap offset %llu) is not the start of an allocation", call, address,
                     (unsigned long long)offset);
        return FERRY_ERR_ARG;
    }
    return FERRY_OK;
}

int fy_heap_free(struct fy_heap *heap, void *address, struct ferry_error *error)
{
    struct fy_heap_state *state = fy_heap_state(heap);
    struct fy_plan plan = {.call = {.kind = FY_CALL_FREE, .place = FY_PLACE_NULL}};
    int rc;

    if (address)
        plan.call.status = fy_plan_find(state, &plan, address, "free");
    rc = fy_call_agree(state, &plan, error);
    if (rc || !address)
        return rc;
    fy_allocator_release(allocator_of(state, &plan), plan.call.place);
    fy_call_remember(state, FY_CALL_FREE, plan.call.place, 0);
    return FERRY_OK;
}
