/* SPDX-License-Identifier: Apache-2.0
 * Which registration covers a local address: heap segments by table, the user's buffers, symmetric ones among them, by
 * a sorted list. Any thread: the heap's table is read without a lock, the list under its own. */
#include "internal.h"
#include <stdlib.h>
#include <string.h>

/* ------------------------------------------------------------------ the list, under buffers_lock */

/* Number of buffers that start at or below `address`. */
static size_t below(const struct fy_heap_state *state, const char *address)
{
    size_t low = 0, high = state->n_buffers;

    while (low < high) {
        size_t middle = (low + high) / 2;

        if (state->buffers[middle]->address <= address)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static void update_reach(struct fy_heap_state *state, size_t from)
{
    for (size_t i = from; i < state->n_buffers; i++) {
        char *end = state->buffers[i]->address + state->buffers[i]->length;

        state->reach[i] = i > 0 && state->reach[i - 1] > end ? state->reach[i - 1] : end;
    }
}

static bool make_room(struct fy_heap_state *state)
{
    size_t capacity = state->buffers_capacity ? state->buffers_capacity * 2 : 16;
    struct ferry_buffer **buffers;
    char **reach;

    if (state->n_buffers < state->buffers_capacity)
        return true;
    buffers = realloc(state->buffers, capacity * sizeof(*buffers));
    if (buffers)
        state->buffers = buffers;
    reach = realloc(state->reach, capacity * sizeof(*reach));
    if (reach)
        state->reach = reach;
    if (!buffers || !reach)
        return false;
    state->buffers_capacity = capacity;
    return true;
}

bool fy_buffer_add(struct fy_heap_state *state, struct ferry_buffer *buffer)
{
    size_t at;
    bool room;

    pthread_mutex_lock(&state->buffers_lock);
    room = make_room(state);
    if (room) {
        at = below(state, buffer->address);
        memmove(&state->buffers[at + 1], &state->buffers[at], (state->n_buffers - at) * sizeof(*state->buffers));
        state->buffers[at] = buffer;
        state->n_buffers++;
        atomic_fetch_add_explicit(&state->n_shared, buffer->segment != NULL, memory_order_release);
        update_reach(state, at);
    }
    pthread_mutex_unlock(&state->buffers_lock);
    return room;
}

bool fy_buffer_remove(struct fy_heap_state *state, const struct ferry_buffer *buffer)
{
    size_t at;

    pthread_mutex_lock(&state->buffers_lock);
    at = below(state, buffer->address);
    while (at > 0 && state->buffers[at - 1] != buffer)
        at--;
    if (at > 0) {
        at--;
        state->n_buffers--;
        atomic_fetch_sub_explicit(&state->n_shared, buffer->segment != NULL, memory_order_release);
        memmove(&state->buffers[at], &state->buffers[at + 1], (state->n_buffers - at) * sizeof(*state->buffers));
        update_reach(state, at);
        at++;
    }
    pthread_mutex_unlock(&state->buffers_lock);
    return at > 0;
}

/* Buffers may overlap: going down, the search ends where none below reaches far enough. */
static struct ferry_region *list_find(struct fy_heap_state *state, size_t t, const char *address, size_t length)
{
    struct ferry_region *region = NULL;

    pthread_mutex_lock(&state->buffers_lock);
    for (size_t i = below(state, address); i > 0; i--) {
        const struct ferry_buffer *buffer = state->buffers[i - 1];

        if ((size_t)(state->reach[i - 1] - address) < length || state->reach[i - 1] < address)
            break;
        if ((size_t)(address - buffer->address) <= buffer->length &&
            buffer->length - (size_t)(address - buffer->address) >= length) {
            region = buffer->regions[t];
            break;
        }
    }
    pthread_mutex_unlock(&state->buffers_lock);
    return region;
}

/* Symmetric buffers do not share bytes with each other, but others may with them. */
const struct ferry_buffer *fy_buffer_shared(struct fy_heap_state *state, const char *address, size_t length)
{
    const struct ferry_buffer *found = NULL;

    if (atomic_load_explicit(&state->n_shared, memory_order_acquire) == 0)
        return NULL;
    pthread_mutex_lock(&state->buffers_lock);
    for (size_t i = below(state, address + length - 1); i > 0 && !found; i--) {
        if (state->reach[i - 1] <= address)
            break;
        if (state->buffers[i - 1]->segment && address < state->buffers[i - 1]->address + state->buffers[i - 1]->length)
            found = state->buffers[i - 1];
    }
    pthread_mutex_unlock(&state->buffers_lock);
    return found;
}

/* ------------------------------------------------------------------ registration */

static void deregister_all(struct fy_heap_state *state, struct ferry_buffer *buffer)
{
    pthread_mutex_lock(state->setup);
    for (size_t t = state->heap.config.n_transports; t-- > 0;) {
        const struct fy_transport *transport = state->heap.config.transports[t];

        if (buffer->regions[t])
            transport->ops.deregister_memory(transport->handle, buffer->regions[t]);
        buffer->regions[t] = NULL;
    }
    pthread_mutex_unlock(state->setup);
}

static int register_all(struct fy_heap_state *state, struct ferry_buffer *buffer, struct ferry_error *error)
{
    const struct ferry_memory memory = {.size = sizeof(memory),
                                        .kind = FERRY_MEMORY_HOST,
                                        .address = buffer->address,
                                        .length = buffer->length,
                                        .fd = -1};
    int rc = FERRY_OK;

    pthread_mutex_lock(state->setup);
    for (size_t t = 0; t < state->heap.config.n_transports && !rc; t++) {
        const struct fy_transport *transport = state->heap.config.transports[t];
        char reason[160];

        rc = transport->ops.register_memory(transport->handle, &memory, &buffer->regions[t]);
        if (rc >= 0 && buffer->regions[t]) {
            rc = FERRY_OK;
            continue;
        }
        rc = rc < 0 ? rc : FERRY_ERR_TRANSPORT;
        buffer->regions[t] = NULL;
        fy_transport_reason(transport, rc, reason, sizeof(reason));
        fy_error_set(error, rc, "if the transport pins memory, raise memlock (ulimit -l)",
                     "transport %s cannot register the buffer of %zu bytes at %p: %s", transport->name, buffer->length,
                     (void *)buffer->address, reason);
    }
    pthread_mutex_unlock(state->setup);
    return rc;
}

int fy_buffer_check(const struct fy_heap *heap, const char *address, size_t length, const char *call,
                    struct ferry_error *error)
{
    uintptr_t at = (uintptr_t)address, base = (uintptr_t)heap->base;

    if (!address || length == 0 || length > UINTPTR_MAX - at) {
        fy_error_set(error, FERRY_ERR_ARG, NULL, "%s: %p with length %zu is no buffer", call, (const void *)address,
                     length);
        return FERRY_ERR_ARG;
    }
    if (at < base + heap->config.reserve && at + length > base) {
        fy_error_set(error, FERRY_ERR_ARG, "use it as it is",
                     "%s: the %zu bytes at %p lie in the symmetric heap, which is registered already", call, length,
                     (const void *)address);
        return FERRY_ERR_ARG;
    }
    return FERRY_OK;
}

static void buffer_free(struct ferry_buffer *buffer)
{
    if (buffer)
        free(buffer->regions);
    free(buffer);
}

int fy_buffer_register(struct fy_heap *heap, void *address, size_t length, struct ferry_buffer **buffer,
                       struct ferry_error *error)
{
    struct fy_heap_state *state = fy_heap_state(heap);
    struct ferry_buffer *made;
    int rc = fy_buffer_check(heap, address, length, "register", error);

    *buffer = NULL;
    if (rc)
        return rc;
    made = calloc(1, sizeof(*made));
    if (made)
        made->regions = calloc(heap->config.n_transports ? heap->config.n_transports : 1, sizeof(*made->regions));
    if (!made || !made->regions) {
        buffer_free(made);
        fy_error_set(error, FERRY_ERR_NOMEM, NULL, "no memory to describe a buffer");
        return FERRY_ERR_NOMEM;
    }
    made->heap = heap;
    made->address = address;
    made->length = length;
    rc = register_all(state, made, error);
    if (!rc && !fy_buffer_add(state, made)) {
        fy_error_set(error, FERRY_ERR_NOMEM, NULL, "no memory for the list of buffers");
        rc = FERRY_ERR_NOMEM;
    }
    if (rc) {
        deregister_all(state, made);
        buffer_free(made);
        return rc;
    }
    *buffer = made;
    return FERRY_OK;
}

int fy_buffer_deregister(struct ferry_buffer *buffer)
{
    struct fy_heap_state *state;

    if (!buffer || buffer->segment)
        return FERRY_ERR_ARG;
    state = fy_heap_state(buffer->heap);
    if (!fy_buffer_remove(state, buffer))
        return FERRY_ERR_ARG;
    deregister_all(state, buffer);
    buffer_free(buffer);
    return FERRY_OK;
}

/* ------------------------------------------------------------------ lookup */

struct fy_segment *fy_heap_find(struct fy_heap *heap, const void *address)
{
    uint64_t offset = (uint64_t)((uintptr_t)address - (uintptr_t)heap->base);
    const struct ferry_buffer *buffer;

    if (offset < atomic_load_explicit(&heap->backed, memory_order_acquire))
        return atomic_load_explicit(&heap->granules[offset >> FY_GRANULE_SHIFT], memory_order_acquire);
    if (offset < heap->config.reserve)
        return NULL;
    buffer = fy_buffer_shared(fy_heap_state(heap), address, 1);
    return buffer ? buffer->segment : NULL;
}

struct ferry_region *fy_heap_region(struct fy_heap *heap, size_t t, const void *address, size_t length)
{
    uint64_t offset = (uint64_t)((uintptr_t)address - (uintptr_t)heap->base);
    struct fy_segment *segment;

    if (offset >= heap->config.reserve)
        return list_find(fy_heap_state(heap), t, address, length);
    if (offset >= atomic_load_explicit(&heap->backed, memory_order_acquire))
        return NULL;
    segment = atomic_load_explicit(&heap->granules[offset >> FY_GRANULE_SHIFT], memory_order_acquire);
    return segment->start + segment->length - offset >= length ? segment->regions[t] : NULL;
}
