/* SPDX-License-Identifier: Apache-2.0
 * Segments: their tables, their place in the list, their registrations, and the end of them.
 * Setup thread only; what it enters is read by every channel. */
#include "internal.h"
#include <stdlib.h>

#define REASON_MAX 240

/* ------------------------------------------------------------------ birth */

void fy_segment_free(struct fy_segment *segment)
{
    if (!segment)
        return;
    if (segment->blobs)
        fy_keys_release(segment->blobs);
    free(segment->blobs);
    free(segment->targets);
    free(segment->regions);
    free(segment);
}

static uint32_t lowest_free(const struct fy_heap *heap)
{
    uint32_t i = 0;

    while (i < heap->n_segments && heap->segments[i])
        i++;
    return i;
}

bool fy_segment_room(const struct fy_heap *heap)
{
    return lowest_free(heap) < FY_SEGMENTS_MAX;
}

struct fy_segment *fy_segment_new(struct fy_heap_state *state, char *address, size_t length, uint32_t kind,
                                  uint32_t flags)
{
    const struct fy_heap_config *config = &state->heap.config;
    struct fy_segment *segment = calloc(1, sizeof(*segment));

    if (!segment)
        return NULL;
    segment->index = lowest_free(&state->heap);
    segment->start = (uint64_t)((uintptr_t)address - (uintptr_t)state->heap.base);
    segment->kind = kind;
    segment->flags = flags;
    segment->length = length;
    segment->address = address;
    segment->maker = FY_NO_TRANSPORT;
    segment->regions = calloc(config->n_transports ? config->n_transports : 1, sizeof(*segment->regions));
    segment->targets = calloc(config->n_pes, sizeof(*segment->targets));
    segment->blobs = calloc(1, sizeof(struct fy_keys));
    if (!segment->regions || !segment->targets || !segment->blobs || !fy_keys_reserve(state, segment->blobs)) {
        fy_segment_free(segment);
        return NULL;
    }
    for (uint32_t pe = 0; pe < config->n_pes; pe++)
        atomic_init(&segment->targets[pe], &fy_target_none);
    return segment;
}

void fy_segment_enter(struct fy_heap *heap, struct fy_segment *segment)
{
    heap->segments[segment->index] = segment;
    if (segment->index >= heap->n_segments)
        heap->n_segments = segment->index + 1;
}

/* ------------------------------------------------------------------ registration */

int fy_segment_failed(const struct fy_heap_state *state, size_t t, const char *what, const struct fy_segment *segment,
                      int status, struct ferry_error *error)
{
    const struct fy_transport *transport = state->heap.config.transports[t];
    bool chunk = segment->start < state->heap.config.reserve;
    char reason[REASON_MAX], memlock[FY_SIZE_TEXT];
    struct fy_limits limits;

    fy_transport_reason(transport, status, reason, sizeof(reason));
    fy_limits_read(state->heap.config.system_root, &limits);
    fy_error_set(error, status, "if the transport pins memory, raise memlock (ulimit -l); else see what it reports",
                 "transport %s cannot %s %zu bytes of %s: %s (memlock %s)", transport->name, what, segment->length,
                 chunk ? "the heap" : "a symmetric buffer", reason, fy_size_text(limits.memlock, memlock));
    return status;
}

int fy_segment_register(struct fy_heap_state *state, struct fy_segment *segment, const struct ferry_memory *memory,
                        struct ferry_error *error)
{
    for (size_t t = 0; t < state->heap.config.n_transports; t++) {
        const struct fy_transport *transport = state->heap.config.transports[t];
        int rc;

        if (t == segment->maker || !(state->reached[segment->kind] & 1u << t))
            continue;
        rc = transport->ops.register_memory(transport->handle, memory, &segment->regions[t]);
        if (rc >= 0 && segment->regions[t])
            continue;
        segment->regions[t] = NULL;
        return fy_segment_failed(state, t, "register", segment, rc < 0 ? rc : FERRY_ERR_TRANSPORT, error);
    }
    return FERRY_OK;
}

/* ------------------------------------------------------------------ end */

static void release_targets(struct fy_heap_state *state, struct fy_segment *segment)
{
    const struct fy_heap_config *config = &state->heap.config;

    for (uint32_t pe = 0; pe < config->n_pes; pe++) {
        const struct fy_target *target = atomic_load_explicit(&segment->targets[pe], memory_order_acquire);

        if (target == &fy_target_none)
            continue;
        if (target->map)
            fy_gpu_unpin(config->gpu, target->map);
        fy_target_release(state, target);
        atomic_store_explicit(&segment->targets[pe], &fy_target_none, memory_order_release);
    }
}

static void release_regions(struct fy_heap_state *state, struct fy_segment *segment)
{
    size_t maker = segment->maker;

    for (size_t t = state->heap.config.n_transports; t-- > 0;) {
        const struct fy_transport *transport = state->heap.config.transports[t];

        if (!segment->regions[t] || t == maker)
            continue;
        transport->ops.deregister_memory(transport->handle, segment->regions[t]);
        segment->regions[t] = NULL;
    }
    /* Last: the others have registered this memory. */
    if (maker == FY_NO_TRANSPORT || !segment->regions[maker])
        return;
    const struct fy_transport *owner = state->heap.config.transports[maker];
    owner->ops.free_memory(owner->handle, segment->regions[maker]);
    segment->regions[maker] = NULL;
}

void fy_segment_drop(struct fy_heap_state *state, struct fy_segment *segment)
{
    pthread_mutex_lock(state->setup);
    fy_gpu_unpin(state->heap.config.gpu, segment->address);
    release_targets(state, segment);
    release_regions(state, segment);
    pthread_mutex_unlock(state->setup);
}

void fy_segment_release(struct fy_heap_state *state, struct fy_segment *segment)
{
    fy_exchange_withdraw(state, segment->index);
    state->heap.segments[segment->index] = NULL;
    fy_segment_drop(state, segment);
    fy_segment_free(segment);
}
