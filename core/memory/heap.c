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
static int reserve(const char *root, size_t length, char **base, struct ferry_error *error)
{
    size_t more = length + FY_GRANULE;
    char *start = mmap(NULL, more, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    if (start == MAP_FAILED) {
        int why = errno;
        struct fy_limits limits;
        char space[FY_SIZE_TEXT];

        fy_limits_read(root, &limits);
        fy_error_set(
            error, FERRY_ERR_CONFIG,
            "set FERRY_HEAP_SIZE to what all allocations of a PE together need; if that was little, look at "
            "ulimit -v",
            "cannot reserve %zu bytes of address space for the heap (FERRY_HEAP_SIZE): %s (address space limit %s)",
            length, strerror(why), fy_size_text(limits.address_space, space));
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

/* Where GPU memory is wanted, of the driver; without one, host memory works as ever. */
static int reserve_any(struct fy_heap_state *state, struct ferry_error *error)
{
    const struct fy_heap_config *config = &state->heap.config;
    void *base;

    if (config->gpu && config->gpu_memory && state->allocating[FERRY_MEMORY_GPU] == FY_NO_TRANSPORT &&
        fy_gpu_reserve(config->gpu, config->reserve, &base, &state->gpu_error) == FERRY_OK) {
        state->gpu_reserved = true;
        state->heap.base = base;
        return FERRY_OK;
    }
    return reserve(config->system_root, config->reserve, &state->heap.base, error);
}

/* Gives addresses back, mapped or not. */
static void unreserve(struct fy_heap_state *state)
{
    struct fy_heap *heap = &state->heap;
    int code;

    if (!state->gpu_reserved) {
        munmap(heap->base, heap->config.reserve);
        return;
    }
    code = fy_gpu_unreserve(heap->config.gpu, heap->base, heap->config.reserve);
    if (code)
        fy_log(heap->config.log, FERRY_LOG_DEBUG, "the GPU's driver keeps the addresses of the heap (CUDA error %d)", code);
}

/* What transport t can do with memory of that kind; false: nothing. */
static bool query(const struct fy_heap_config *config, size_t t, uint32_t kind, struct ferry_caps *caps)
{
    const struct fy_transport *transport = config->transports[t];

    *caps = transport->caps; /* host memory: already known */
    if (kind == FERRY_MEMORY_HOST)
        return true;
    memset(caps, 0, sizeof(*caps));
    caps->size = sizeof(*caps);
    return transport->ops.query(transport->handle, kind, caps) >= 0;
}

/* Which transports reach memory of a kind, and which of them allocates it, if one has to. */
static int find_roles(struct fy_heap_state *state, uint32_t kind, struct ferry_error *error)
{
    static const char *const words[FY_KINDS] = {"the heap's memory", "the heap's GPU memory"};
    const struct fy_heap_config *config = &state->heap.config;
    size_t *allocating = &state->allocating[kind];
    struct ferry_caps caps;

    *allocating = FY_NO_TRANSPORT;
    for (size_t t = 0; t < config->n_transports; t++) {
        if (!query(config, t, kind, &caps))
            continue;
        state->reached[kind] |= 1u << t;
        if (!(caps.flags & FERRY_CAP_MUST_ALLOCATE))
            continue;
        if (*allocating != FY_NO_TRANSPORT) {
            fy_error_set(error, FERRY_ERR_CONFIG, "name only one of them in FERRY_TRANSPORT",
                         "transports %s and %s both have to allocate %s themselves",
                         config->transports[*allocating]->name, config->transports[t]->name, words[kind]);
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

    heap->granules = fy_pages_get(granules_length(heap));
    if (heap->granules)
        return FERRY_OK;
    fy_error_set(error, FERRY_ERR_NOMEM, "lower FERRY_HEAP_SIZE, or raise the process's memory limit (ulimit -v)",
                 "no memory for the tables of a heap of %zu bytes and %u PEs", heap->config.reserve,
                 (unsigned)heap->config.n_pes);
    return FERRY_ERR_NOMEM;
}

static void free_state(struct fy_heap_state *state)
{
    for (size_t i = 0; i < FY_CLASSES; i++)
        fy_allocator_destroy(state->allocators[i]);
    fy_pages_put(state->heap.granules, granules_length(&state->heap));
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
    int rc = check_config(config, error);

    *heap = NULL;
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
    for (uint32_t kind = 0; kind < FY_KINDS && !rc; kind++)
        rc = find_roles(state, kind, error);
    if (!rc)
        rc = reserve_any(state, error);
    if (!rc)
        rc = make_tables(state, error);
    if (rc) {
        if (state->heap.base)
            unreserve(state);
        free_state(state);
        return rc;
    }
    *heap = &state->heap;
    return FERRY_OK;
}

/* What a transport allocated it has unmapped itself: the place may be somebody else's by now. */
static void release_segment(struct fy_heap_state *state, struct fy_segment *segment)
{
    bool ours = segment->maker == FY_NO_TRANSPORT;
    char *address = segment->address;
    size_t length = segment->length;

    bool gpu = segment->kind == FERRY_MEMORY_GPU;

    fy_segment_release(state, segment);
    if (ours && gpu)
        fy_gpu_free(state->heap.config.gpu, address, length);
    else if (ours && !state->gpu_reserved)
        munmap(address, length);
    else if (ours) /* the driver unmaps all of it: nobody else's mapping may come in between */
        mmap(address, length, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
}

/* A symmetric buffer is the user's memory, and PEs do not meet any more. */
static void release_buffers(struct fy_heap_state *state)
{
    while (state->n_buffers > 0) {
        struct ferry_buffer *buffer = state->buffers[state->n_buffers - 1];

        if (!buffer->segment) {
            fy_buffer_deregister(buffer);
            continue;
        }
        fy_buffer_remove(state, buffer);
        fy_segment_release(state, buffer->segment);
        free(buffer);
    }
}

void fy_heap_destroy(struct fy_heap *heap)
{
    struct fy_heap_state *state = fy_heap_state(heap);
    uint64_t backed;

    if (!heap)
        return;
    backed = atomic_load_explicit(&heap->backed, memory_order_relaxed);
    release_buffers(state);
    for (uint32_t i = heap->n_segments; i > 0; i--)
        if (heap->segments[i - 1])
            release_segment(state, heap->segments[i - 1]);
    if (state->gpu_reserved)
        unreserve(state);
    else if (!state->lost && backed < heap->config.reserve)
        munmap(heap->base + backed, heap->config.reserve - backed);
    free_state(state);
}
