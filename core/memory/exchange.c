/* SPDX-License-Identifier: Apache-2.0
 * What PEs tell each other about the heap: outcomes, and keys.
 * Setup thread only, on all PEs alike. No lock is held while PEs wait for each other. */
#include "internal.h"
#include <stdlib.h>
#include <string.h>

int fy_exchange_outcome(struct fy_heap_state *state, int status, const char *step, const struct ferry_error *mine,
                        struct ferry_error *error)
{
    const struct fy_heap_config *config = &state->heap.config;
    struct fy_fate fate;
    int rc;

    fy_fate_set(&fate, config->my_pe, status, mine);
    rc = config->up.reduce(config->up.arg, &fate, sizeof(fate), fy_fate_combine, step, error);
    return rc ? rc : fy_fate_tell(&fate, "", error);
}

/* ------------------------------------------------------------------ keys */

bool fy_keys_reserve(const struct fy_heap_state *state, struct fy_keys *keys)
{
    size_t n = state->heap.config.n_transports;

    keys->of = calloc(n ? n : 1, sizeof(*keys->of));
    return keys->of != NULL;
}

void fy_keys_release(struct fy_keys *keys)
{
    free(keys->of);
    keys->of = NULL;
}

/* Before PEs agree: as soon as one knows that all succeeded it may ask. */
static void offer(struct fy_heap_state *state, const struct fy_chunk *chunk)
{
    struct fy_keys *keys = chunk->segment->blobs;

    for (size_t t = 0; t < state->heap.config.n_transports; t++) {
        keys->of[t].size = chunk->key_size[t];
        memcpy(keys->of[t].bytes, chunk->keys[t], chunk->key_size[t]);
    }
    atomic_store_explicit(&state->named[chunk->segment->index], chunk->segment, memory_order_release);
    pthread_mutex_lock(&state->keys_lock);
    state->offered[chunk->segment->index] = keys;
    pthread_mutex_unlock(&state->keys_lock);
}

void fy_exchange_withdraw(struct fy_heap_state *state, uint32_t segment)
{
    atomic_store_explicit(&state->named[segment], NULL, memory_order_release);
    pthread_mutex_lock(&state->keys_lock);
    state->offered[segment] = NULL;
    pthread_mutex_unlock(&state->keys_lock);
}

struct fy_segment *fy_heap_segment(struct fy_heap *heap, uint32_t segment)
{
    struct fy_heap_state *state = fy_heap_state(heap);

    return segment < FY_SEGMENTS_MAX ? atomic_load_explicit(&state->named[segment], memory_order_acquire) : NULL;
}

int fy_heap_own_key(struct fy_heap *heap, uint32_t segment, uint32_t t, void *key, size_t capacity, size_t *size)
{
    struct fy_heap_state *state = fy_heap_state(heap);
    const struct fy_keys *keys;
    int rc = FERRY_ERR_NOT_FOUND;

    if (segment >= FY_SEGMENTS_MAX || t >= heap->config.n_transports)
        return rc;
    pthread_mutex_lock(&state->keys_lock);
    keys = state->offered[segment];
    if (keys && keys->of[t].size <= capacity) {
        *size = keys->of[t].size;
        memcpy(key, keys->of[t].bytes, *size);
        rc = FERRY_OK;
    }
    pthread_mutex_unlock(&state->keys_lock);
    return rc;
}

/* ------------------------------------------------------------------ chunks */

int fy_exchange_chunk(struct fy_heap_state *state, const struct fy_chunk *chunk, int status, const char *step,
                      const struct ferry_error *mine, struct ferry_error *error)
{
    int rc;

    if (status == FERRY_OK)
        offer(state, chunk);
    rc = fy_exchange_outcome(state, status, step, mine, error);
    if (rc && status == FERRY_OK)
        fy_exchange_withdraw(state, chunk->segment->index);
    return rc;
}
