/* SPDX-License-Identifier: Apache-2.0
 * Birth and death of a heap: reserves address space and tables, checks the transports' roles, releases everything.
 * Setup thread only. */
#include "internal.h"
#include <errno.h>
#include <ferry/ferry.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

const struct fy_target fy_target_none = {.length = 0};

void *fy_pages_get(size_t length)
{
    void *pages = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    return pages == MAP_FAILED ? NULL : pages;
}

void fy_pages_put(void *pages, size_t length)
{
    if (pages)
        munmap(pages, length);
}

void fy_transport_reason(const struct fy_transport *t, int status, char *out, size_t size)
{
    struct ferry_error record = {.size = sizeof(record), .peer = -1, .channel = -1, .operation = -1};

    t->ops.query_error(t->handle, FERRY_CHANNEL_SERVICE, FERRY_PEER_ALL, &record);
    record.message[sizeof(record.message) - 1] = '\0';
    if (record.status == status && record.message[0])
        snprintf(out, size, "%s", record.message);
    else
        snprintf(out, size, "%s", ferry_status_string(status));
}

/* Reserves an aligned piece of address space: a granule more than needed, cut to size at both ends. */
static int reserve(size_t length, char **base, struct ferry_error *error)
{
    size_t more = length + FY_GRANULE;
    char *start = mmap(NULL, more, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    if (start == MAP_FAILED) {
        int why = errno;

        fy_error_set(error, FERRY_ERR_CONFIG,
                     "set FERRY_HEAP_SIZE to what all allocations of a PE together need; if that was little, look at "
                     "ulimit -v",
                     "cannot reserve %zu bytes of address space for the heap (FERRY_HEAP_SIZE): %s", length,
                     strerror(why));
        error->library_status = why;
        return FERRY_ERR_CONFIG;
    }
    char *aligned = (char *)fy_round_up((uintptr_t)start, FY_GRANULE);
    if (aligned > start)
        munmap(start, (size_t)(aligned - start));
    if (start + more > aligned + length)
        munmap(aligned + length, (size_t)(start + more - aligned - length));
    *base = aligned;
    return FERRY_OK;
}

/* Which transport allocates the chunks, if one has to. */
static int find_allocating(const struct fy_heap_config *config, size_t *allocating, struct ferry_error *error)
{
    *allocating = FY_NO_TRANSPORT;
    for (size_t t = 0; t < config->n_transports; t++) {
        if (!(config->transports[t]->caps.flags & FERRY_CAP_MUST_ALLOCATE))
            continue;
        if (*allocating != FY_NO_TRANSPORT) {
            fy_error_set(error, FERRY_ERR_CONFIG, "name only one of them in FERRY_TRANSPORT",
                         "transports %s and %s both have to allocate the heap's memory themselves",
                         config->transports[*allocating]->name, config->transports[t]->name);
            return FERRY_ERR_CONFIG;
        }
        *allocating = t;
    }
    return FERRY_OK;
}

static int check_config(const struct fy_heap_config *config, struct ferry_error *error)
{
    if (config->n_transports > FY_TRANSPORTS_MAX) {
        fy_error_set(error, FERRY_ERR_LIMIT, "name fewer in FERRY_TRANSPORT",
                     "%zu transports are more than the %u there may be", config->n_transports, FY_TRANSPORTS_MAX);
        return FERRY_ERR_LIMIT;
    }
    if (config->reserve == 0) {
        fy_error_set(error, FERRY_ERR_CONFIG, "give a size, such as 64G",
                     "FERRY_HEAP_SIZE is 0, and a heap needs address space");
        return FERRY_ERR_CONFIG;
    }
    if (config->reserve > SIZE_MAX / 2) {
        fy_error_set(error, FERRY_ERR_CONFIG, "give a size, such as 64G",
                     "cannot reserve %zu bytes of address space for the heap (FERRY_HEAP_SIZE): %s", config->reserve,
                     strerror(ENOMEM));
        return FERRY_ERR_CONFIG;
    }
    return FERRY_OK;
}

static void set_config(struct fy_heap_state *state, const struct fy_heap_config *config)
{
    struct fy_heap_config *own = &state->heap.config;

    *own = *config;
    own->reserve = fy_round_up(own->reserve, FY_GRANULE);
    if (own->chunk > own->reserve)
        own->chunk = own->reserve;
    own->chunk = own->chunk ? fy_round_up(own->chunk, FY_GRANULE) : FY_GRANULE;
    if (!own->system_root)
        own->system_root = "";
    state->setup = config->setup ? config->setup : &state->own_setup;
}

static size_t granules_length(const struct fy_heap *heap)
{
    return (heap->config.reserve >> FY_GRANULE_SHIFT) * sizeof(*heap->granules);
}

static int make_tables(struct fy_heap_state *state, struct ferry_error *error)
{
    struct fy_heap *heap = &state->heap;

    state->scratch_length = (size_t)heap->config.n_pes * FY_RECORD_MAX;
    state->scratch = fy_pages_get(state->scratch_length);
    heap->granules = fy_pages_get(granules_length(heap));
    state->allocator = fy_allocator_create();
    if (state->scratch && heap->granules && state->allocator)
        return FERRY_OK;
    fy_error_set(error, FERRY_ERR_NOMEM, "lower FERRY_HEAP_SIZE, or raise the process's memory limit (ulimit -v)",
                 "no memory for the tables of a heap of %zu bytes and %u PEs", heap->config.reserve,
                 (unsigned)heap->config.n_pes);
    return FERRY_ERR_NOMEM;
}

static void free_state(struct fy_heap_state *state)
{
    fy_allocator_destroy(state->allocator);
    fy_pages_put(state->heap.granules, granules_length(&state->heap));
    fy_pages_put(state->scratch, state->scratch_length);
    pthread_mutex_destroy(&state->buffers_lock);
    pthread_mutex_destroy(&state->keys_lock);
    pthread_mutex_destroy(&state->own_setup);
    free(state->reach);
    free(state->buffers);
    free(state);
}

int fy_heap_create(const struct fy_heap_config *config, struct fy_heap **heap, struct ferry_error *error)
{
    struct fy_heap_state *state;
    size_t allocating;
    int rc = check_config(config, error);

    *heap = NULL;
    if (!rc)
        rc = find_allocating(config, &allocating, error);
    if (rc)
        return rc;
    state = calloc(1, sizeof(*state));
    if (!state) {
        fy_error_set(error, FERRY_ERR_NOMEM, NULL, "no memory for the heap's description");
        return FERRY_ERR_NOMEM;
    }
    pthread_mutex_init(&state->own_setup, NULL); /* cannot fail: default attributes */
    pthread_mutex_init(&state->buffers_lock, NULL);
    pthread_mutex_init(&state->keys_lock, NULL);
    set_config(state, config);
    state->allocating = allocating;
    rc = reserve(state->heap.config.reserve, &state->heap.base, error);
    if (!rc)
        rc = make_tables(state, error);
    if (rc) {
        if (state->heap.base)
            munmap(state->heap.base, state->heap.config.reserve);
        free_state(state);
        return rc;
    }
    *heap = &state->heap;
    return FERRY_OK;
}

void fy_heap_destroy(struct fy_heap *heap)
{
    struct fy_heap_state *state = fy_heap_state(heap);
    uint64_t backed;

    if (!heap)
        return;
    backed = atomic_load_explicit(&heap->backed, memory_order_relaxed);
    while (state->n_buffers > 0)
        fy_buffer_deregister(state->buffers[state->n_buffers - 1]);
    for (uint32_t i = heap->n_segments; i > 0; i--)
        fy_segment_release(state, heap->segments[i - 1]);
    /* What a transport allocated it has unmapped itself: the place may be somebody else's by now. */
    if (state->allocating == FY_NO_TRANSPORT)
        munmap(heap->base, heap->config.reserve);
    else if (!state->lost && backed < heap->config.reserve)
        munmap(heap->base + backed, heap->config.reserve - backed);
    free_state(state);
}
