/* SPDX-License-Identifier: Apache-2.0
 * What PEs tell each other about the heap: sealed records, outcomes, failures and keys.
 * Setup thread only, on all PEs alike. No lock is held while PEs wait for each other. */
#include "internal.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define KEEP_SCRATCH ((size_t)64 << 10) /* a smaller area is not worth giving back */

int fy_exchange(struct fy_heap_state *state, void *record, size_t length, const char *step, struct ferry_error *error)
{
    const struct fy_heap_config *config = &state->heap.config;
    size_t payload = length - sizeof(struct fy_blob);
    int rc;

    fy_blob_seal(record, FY_BLOB_ALLOC, config->my_pe, (uint16_t)payload);
    rc = config->up.allgather(config->up.arg, record, state->scratch, length, step, error);
    if (rc)
        return rc;
    for (uint32_t pe = 0; pe < config->n_pes; pe++) {
        const void *opened;
        size_t size;
        const char *bad = fy_blob_open(state->scratch + pe * length, length, FY_BLOB_ALLOC, pe, &opened, &size);

        if (!bad && size != payload)
            bad = "size";
        if (!bad)
            continue;
        fy_error_set(error, FERRY_ERR_BOOTSTRAP,
                     "the PEs run different builds, or what exchanges their bytes is at fault",
                     "what pe %u sent in the %s cannot be read: wrong %s", (unsigned)pe, step, bad);
        error->peer = (int32_t)pe;
        return FERRY_ERR_BOOTSTRAP;
    }
    return FERRY_OK;
}

void fy_exchange_done(struct fy_heap_state *state)
{
    if (state->scratch_length > KEEP_SCRATCH)
        madvise(state->scratch, state->scratch_length, MADV_DONTNEED);
}

/* ------------------------------------------------------------------ failures */

struct failure {
    struct fy_blob blob;
    int32_t status;
    uint32_t reserved;
    int64_t library_status;
    char message[sizeof(((struct ferry_error *)0)->message)];
    char hint[sizeof(((struct ferry_error *)0)->hint)];
};
_Static_assert(sizeof(struct failure) <= FY_RECORD_MAX, "scratch is too small");

int fy_exchange_failure(struct fy_heap_state *state, int status, const struct ferry_error *mine,
                        struct ferry_error *error)
{
    struct failure record = {.status = status};
    const struct failure *all = (const struct failure *)state->scratch;
    int rc;

    if (status) {
        record.library_status = mine->library_status;
        snprintf(record.message, sizeof(record.message), "%s", mine->message);
        snprintf(record.hint, sizeof(record.hint), "%s", mine->hint);
    }
    rc = fy_exchange(state, &record, sizeof(record), "exchange of the reason why memory cannot be had", error);
    if (rc)
        return rc;
    for (uint32_t pe = 0; pe < state->heap.config.n_pes; pe++) {
        if (all[pe].status >= 0)
            continue;
        fy_error_set(error, all[pe].status, all[pe].hint, "pe %u: %s", (unsigned)pe, all[pe].message);
        error->library_status = all[pe].library_status;
        error->peer = (int32_t)pe;
        return all[pe].status;
    }
    fy_error_set(error, FERRY_ERR_MISMATCH, NULL, "a pe reported a failure and then took it back");
    return FERRY_ERR_MISMATCH;
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

struct outcome {
    struct fy_blob blob;
    int32_t status;
    uint32_t reserved;
};
_Static_assert(sizeof(struct outcome) <= FY_RECORD_MAX, "scratch is too small");

int fy_exchange_outcome(struct fy_heap_state *state, int status, const char *step, const struct ferry_error *mine,
                        struct ferry_error *error)
{
    struct outcome record = {.status = status};
    const struct outcome *all = (const struct outcome *)state->scratch;
    int rc = fy_exchange(state, &record, sizeof(record), step, error);

    if (rc)
        return rc;
    for (uint32_t pe = 0; pe < state->heap.config.n_pes; pe++)
        if (all[pe].status != FERRY_OK)
            return fy_exchange_failure(state, status, mine, error);
    return FERRY_OK;
}

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
