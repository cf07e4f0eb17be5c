/* SPDX-License-Identifier: Apache-2.0
 * The collective calls: every PE works out what its call would do, all compare, then each does it.
 * Setup thread only. Nothing changes before the comparison, and nothing that follows it depends on one PE alone. */
#include "internal.h"
#include <stdio.h>
#include <string.h>

enum { CALL_ALLOC = 1, CALL_FREE = 2 };

#define PLACE_NULL    (UINT64_MAX)     /* free of NULL */
#define PLACE_OUTSIDE (UINT64_MAX - 1) /* free of something that is not in the heap */
#define CALL_TEXT     96

/* One PE's call, as the others see it. */
struct call {
    struct fy_blob blob;
    uint32_t kind;
    int32_t status;    /* negative: this PE already knows that it cannot */
    uint64_t size;     /* as asked */
    uint64_t place;    /* alignment, or offset to be freed */
    uint64_t sequence; /* collective calls before this one */
    uint64_t history;  /* digest of the heap before it */
    uint64_t grow;     /* bytes by which the heap would grow */
};
_Static_assert(sizeof(struct call) <= FY_RECORD_MAX, "scratch is too small");

/* What is planned here. */
struct plan {
    struct call call;
    size_t rounded;
    uint64_t offset;
    struct ferry_error error; /* valid if call.status is negative */
};

static void remember(struct fy_heap_state *state, uint64_t kind, uint64_t offset, uint64_t size)
{
    uint64_t h = state->history;

    h = (h ^ kind) * 0x9e3779b97f4a7c15u;
    h = (h ^ h >> 32 ^ offset) * 0xd6e8feb86659fd93u;
    h = (h ^ h >> 32 ^ size) * 0x9e3779b97f4a7c15u;
    state->history = h ^ h >> 32;
}

/* ------------------------------------------------------------------ comparison */

static void describe(const struct call *call, char text[CALL_TEXT])
{
    unsigned long long size = call->size, place = call->place;

    if (call->kind == CALL_ALLOC && place == FY_ALIGN)
        snprintf(text, CALL_TEXT, "malloc of %llu bytes", size);
    else if (call->kind == CALL_ALLOC)
        snprintf(text, CALL_TEXT, "malloc of %llu bytes aligned to %llu", size, place);
    else if (place == PLACE_NULL)
        snprintf(text, CALL_TEXT, "free of NULL");
    else if (place == PLACE_OUTSIDE)
        snprintf(text, CALL_TEXT, "free of an address outside the heap");
    else
        snprintf(text, CALL_TEXT, "free of heap offset %llu", place);
}

static int disagree(const struct fy_heap_state *state, uint32_t pe, struct ferry_error *error)
{
    error->peer = (int32_t)(pe == state->heap.config.my_pe ? 0 : pe);
    return error->status;
}

static int compare_calls(const struct fy_heap_state *state, const struct call *all, struct ferry_error *error)
{
    char first[CALL_TEXT], other[CALL_TEXT];

    for (uint32_t pe = 1; pe < state->heap.config.n_pes; pe++) {
        const struct call *call = &all[pe];

        if (call->kind == all->kind && call->size == all->size && call->place == all->place)
            continue;
        describe(all, first);
        describe(call, other);
        fy_error_set(error, FERRY_ERR_MISMATCH, "make the same allocation calls, in the same order, on every PE",
                     "pe 0 called %s, pe %u called %s: the heap's calls are collective", first, (unsigned)pe, other);
        return disagree(state, pe, error);
    }
    return FERRY_OK;
}

static int compare_states(const struct fy_heap_state *state, const struct call *all, struct ferry_error *error)
{
    for (uint32_t pe = 1; pe < state->heap.config.n_pes; pe++) {
        const struct call *call = &all[pe];

        if (call->sequence != all->sequence || call->history != all->history) {
            fy_error_set(error, FERRY_ERR_MISMATCH, "finalize, and start again",
                         "the heaps of pe 0 and pe %u are not the same since an earlier call failed on one of them "
                         "(calls so far: %llu and %llu)",
                         (unsigned)pe, (unsigned long long)all->sequence, (unsigned long long)call->sequence);
            return disagree(state, pe, error);
        }
        if (call->grow != all->grow) {
            fy_error_set(error, FERRY_ERR_MISMATCH, "give every PE the same values",
                         "pe 0 would grow its heap by %llu bytes, pe %u by %llu: FERRY_HEAP_CHUNK or FERRY_HEAP_SIZE "
                         "differ between them",
                         (unsigned long long)all->grow, (unsigned)pe, (unsigned long long)call->grow);
            return disagree(state, pe, error);
        }
    }
    return FERRY_OK;
}

/* Some PE cannot, and not because of the arguments, which are the same everywhere: the others need to hear why. */
static bool reasons_needed(const struct fy_heap_state *state, const struct call *all, bool *failed)
{
    bool argument = true;

    *failed = false;
    for (uint32_t pe = 0; pe < state->heap.config.n_pes; pe++) {
        *failed |= all[pe].status < 0;
        argument &= all[pe].status == FERRY_ERR_ARG;
    }
    return *failed && !argument;
}

/* One exchange, unless some PE cannot. After FERRY_OK every PE goes on, with the same plan. */
static int agree(struct fy_heap_state *state, struct plan *plan, struct ferry_error *error)
{
    const struct call *all = (const struct call *)state->scratch;
    bool failed;
    int rc;

    plan->call.sequence = state->sequence++;
    plan->call.history = state->history;
    rc = fy_exchange(state, &plan->call, sizeof(plan->call), "allocation on the symmetric heap", error);
    if (!rc)
        rc = compare_calls(state, all, error);
    if (rc)
        return rc;
    if (reasons_needed(state, all, &failed))
        return fy_exchange_failure(state, plan->call.status, &plan->error, error);
    if (failed) { /* the arguments, which are the same everywhere */
        *error = plan->error;
        return plan->call.status;
    }
    return compare_states(state, all, error);
}

/* ------------------------------------------------------------------ allocation */

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

static int plan_growth(struct fy_heap_state *state, struct plan *plan)
{
    const struct fy_heap *heap = &state->heap;
    uint64_t room = heap->config.reserve - atomic_load_explicit(&heap->backed, memory_order_relaxed);
    size_t length = fy_round_up(plan->rounded, FY_GRANULE);
    struct fy_limits limits;

    if (length > room)
        return too_small(heap, plan->call.size, &plan->error);
    if (heap->n_segments == FY_SEGMENTS_MAX) {
        fy_error_set(&plan->error, FERRY_ERR_LIMIT, "raise FERRY_HEAP_CHUNK on every PE",
                     "the heap has grown %u times already, by pieces of FERRY_HEAP_CHUNK %zu bytes", FY_SEGMENTS_MAX,
                     heap->config.chunk);
        return FERRY_ERR_LIMIT;
    }
    if (state->lost) {
        fy_error_set(&plan->error, FERRY_ERR_STATE, NULL,
                     "the heap cannot grow any more: the place behind it was taken "
                     "when transport %s gave a chunk back",
                     heap->config.transports[state->allocating]->name);
        return FERRY_ERR_STATE;
    }
    if (length < heap->config.chunk)
        length = heap->config.chunk < room ? heap->config.chunk : room;
    plan->call.grow = length;
    /* All PEs have looked before any of them takes: the exchange lies between. */
    fy_limits_read(heap->config.system_root, &limits);
    return fy_limits_check(&limits, length, heap->config.local_pes, &plan->error);
}

static int plan_alloc(struct fy_heap_state *state, struct plan *plan)
{
    size_t size = plan->call.size, alignment = plan->call.place;

    if (size == 0) {
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
    if (size > state->heap.config.reserve)
        return too_small(&state->heap, size, &plan->error);
    if (!fy_allocator_prepare(state->allocator)) {
        fy_error_set(&plan->error, FERRY_ERR_NOMEM, NULL, "no memory for the heap's list of blocks");
        return FERRY_ERR_NOMEM;
    }
    plan->rounded = fy_round_up(size, FY_ALIGN);
    plan->offset = fy_allocator_find(state->allocator, plan->rounded, alignment);
    return plan->offset == FY_OFFSET_NONE ? plan_growth(state, plan) : FERRY_OK;
}

static int alloc(struct fy_heap_state *state, struct plan *plan, struct ferry_error *error)
{
    int rc = agree(state, plan, error);

    if (rc)
        return rc;
    if (plan->call.grow) {
        rc = fy_heap_grow(state, plan->call.grow, error);
        if (rc)
            return rc;
        plan->offset = fy_allocator_find(state->allocator, plan->rounded, plan->call.place);
    }
    fy_allocator_take(state->allocator, plan->offset, plan->rounded);
    remember(state, CALL_ALLOC, plan->offset, plan->rounded);
    return FERRY_OK;
}

int fy_heap_alloc(struct fy_heap *heap, size_t size, size_t alignment, void **address, struct ferry_error *error)
{
    struct fy_heap_state *state = fy_heap_state(heap);
    struct plan plan = {.call = {.kind = CALL_ALLOC, .size = size, .place = alignment}};
    int rc;

    *address = NULL;
    /* Everything is aligned to FY_ALIGN anyway. 3 is wrong all the same. */
    if (alignment < FY_ALIGN && (alignment & (alignment - 1)) == 0)
        plan.call.place = FY_ALIGN;
    plan.call.status = plan_alloc(state, &plan);
    rc = alloc(state, &plan, error);
    fy_exchange_done(state);
    if (!rc)
        *address = heap->base + plan.offset;
    return rc;
}

/* ------------------------------------------------------------------ release */

static int plan_free(struct fy_heap_state *state, struct plan *plan, const void *address)
{
    uint64_t offset = (uint64_t)((uintptr_t)address - (uintptr_t)state->heap.base);

    if (!address) {
        plan->call.place = PLACE_NULL;
        return FERRY_OK;
    }
    if (offset >= state->heap.config.reserve) {
        plan->call.place = PLACE_OUTSIDE;
        fy_error_set(&plan->error, FERRY_ERR_ARG, NULL, "free: address %p is not in the symmetric heap, %p to %p",
                     address, (void *)state->heap.base, (void *)(state->heap.base + state->heap.config.reserve));
        return FERRY_ERR_ARG;
    }
    plan->call.place = offset;
    if (fy_allocator_size(state->allocator, offset) == 0) {
        fy_error_set(&plan->error, FERRY_ERR_ARG, "pass what an allocation returned, once",
                     "free: address %p (heap offset %llu) is not the start of an allocation", address,
                     (unsigned long long)offset);
        return FERRY_ERR_ARG;
    }
    return FERRY_OK;
}

int fy_heap_free(struct fy_heap *heap, void *address, struct ferry_error *error)
{
    struct fy_heap_state *state = fy_heap_state(heap);
    struct plan plan = {.call = {.kind = CALL_FREE}};
    int rc;

    plan.call.status = plan_free(state, &plan, address);
    rc = agree(state, &plan, error);
    fy_exchange_done(state);
    if (rc || !address)
        return rc;
    fy_allocator_release(state->allocator, plan.call.place);
    remember(state, CALL_FREE, plan.call.place, 0);
    return FERRY_OK;
}
