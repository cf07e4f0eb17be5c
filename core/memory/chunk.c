/* SPDX-License-Identifier: Apache-2.0
 * Chunks: memory put under a piece of the reservation, registered with every transport, and published as a segment.
 * Setup thread only; what it publishes is read by every channel. */
#include "internal.h"
#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* ------------------------------------------------------------------ memory */

/* A failure of the operating system while a chunk is made. */
static int system_failed(const struct fy_heap_state *state, const char *what, size_t length, int why,
                         struct ferry_error *error)
{
    struct fy_limits limits;
    char text[FY_LIMITS_TEXT];

    fy_limits_read(state->heap.config.system_root, &limits);
    fy_error_set(error, FERRY_ERR_NOMEM, "ask for less, run fewer PEs on this host, or raise the limit that was met",
                 "cannot %s of %zu bytes for the heap: %s (%s)", what, length, strerror(why),
                 fy_limits_text(&limits, text));
    error->library_status = why;
    return FERRY_ERR_NOMEM;
}

static void unmap_chunk(struct fy_heap_state *state, const struct fy_segment *segment)
{
    if (segment->kind == FERRY_MEMORY_GPU) {
        fy_gpu_free(state->heap.config.gpu, segment->address, segment->length);
        return;
    }
    /* In one step, so that no other thread's mapping can come in between. */
    mmap(segment->address, segment->length, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
}

static int back(struct fy_heap_state *state, struct fy_chunk *chunk, struct ferry_error *error)
{
    const struct fy_heap_config *config = &state->heap.config;
    struct fy_segment *segment = chunk->segment;
    const char *what;
    struct fy_pool pool;
    int why = fy_pages_map(config, segment->address, segment->length, &chunk->memory.fd, &what);

    if (!why) {
        chunk->mapped = true;
        fy_log(config->log, FERRY_LOG_INFO, "heap chunk of %zu bytes: %s", segment->length, what);
        return FERRY_OK;
    }
    if (config->pages != FY_PAGES_HUGE)
        return system_failed(state, what, segment->length, why, error);
    fy_pool_read(config->system_root, &pool);
    fy_error_set(
        error, FERRY_ERR_NOMEM, "enlarge the pool (sysctl vm.nr_hugepages), or set FERRY_HEAP_PAGES=auto",
        "cannot %s of %zu pages of 2 MiB for the heap (FERRY_HEAP_PAGES is huge): %s; the pool has %llu, of which "
        "%llu are free and %llu of those reserved, and may grow by %llu",
        what, segment->length / FY_GRANULE, strerror(why), (unsigned long long)pool.total,
        (unsigned long long)pool.free, (unsigned long long)pool.reserved, (unsigned long long)pool.more);
    error->library_status = why;
    return FERRY_ERR_NOMEM;
}

static int back_gpu(struct fy_heap_state *state, struct fy_chunk *chunk, struct ferry_error *error)
{
    const struct fy_segment *segment = chunk->segment;
    int rc;

    if (!state->gpu_reserved) {
        *error = state->gpu_error;
        return error->status;
    }
    rc = fy_gpu_allocate(state->heap.config.gpu, segment->address, segment->length, &chunk->memory.fd, error);
    chunk->mapped = !rc;
    return rc;
}

/* The place is taken (MAP_FIXED) by the plugin, over the reservation; it gives it back unmapped. */
static void reserve_hole(struct fy_heap_state *state, const struct fy_segment *segment, bool was_allocated)
{
    void *got = mmap(segment->address, segment->length, PROT_NONE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);

    if (got == segment->address)
        return;
    if (got != MAP_FAILED)
        munmap(got, segment->length); /* a kernel that does not know NOREPLACE */
    if (was_allocated)
        state->lost = true;
}

/* Zeroes memory of a transport's making, as fresh memory is promised to be; not at the price of a signal. */
static int zero_allocated(struct fy_heap_state *state, const struct fy_segment *segment, struct ferry_error *error)
{
    if (segment->kind != FERRY_MEMORY_HOST)
        return FERRY_OK; /* not the CPU's to touch */
#ifdef MADV_POPULATE_WRITE
    if (madvise(segment->address, segment->length, MADV_POPULATE_WRITE) != 0 && errno != EINVAL)
        return system_failed(state, "populate a chunk", segment->length, errno, error);
#endif
    memset(segment->address, 0, segment->length);
    return FERRY_OK;
}

static int allocate(struct fy_heap_state *state, struct fy_chunk *chunk, struct ferry_error *error)
{
    struct fy_segment *segment = chunk->segment;
    size_t t = state->allocating[segment->kind];
    const struct fy_transport *transport = state->heap.config.transports[t];
    struct ferry_region *region = NULL;
    int rc = transport->ops.allocate_memory(transport->handle, &chunk->memory, &region);

    if (rc < 0 || !region) {
        reserve_hole(state, segment, false);
        return fy_segment_failed(state, t, "allocate", segment, rc < 0 ? rc : FERRY_ERR_TRANSPORT, error);
    }
    if (chunk->memory.address != segment->address || chunk->memory.length < segment->length) {
        fy_error_set(error, FERRY_ERR_TRANSPORT, "the plugin has to map it at the address it is given (MAP_FIXED)",
                     "transport %s allocated %zu bytes at %p, but %zu bytes at %p were asked for", transport->name,
                     chunk->memory.length, chunk->memory.address, segment->length, (void *)segment->address);
        transport->ops.free_memory(transport->handle, region);
        reserve_hole(state, segment, false);
        return FERRY_ERR_TRANSPORT;
    }
    segment->maker = t;
    segment->regions[t] = region;
    return zero_allocated(state, segment, error);
}

/* ------------------------------------------------------------------ making */

int fy_chunk_export(struct fy_heap_state *state, struct fy_chunk *chunk, struct ferry_error *error)
{
    for (size_t t = 0; t < state->heap.config.n_transports; t++) {
        const struct fy_transport *transport = state->heap.config.transports[t];
        size_t size = FERRY_KEY_MAX;
        int rc;

        if (!chunk->segment->regions[t])
            continue;
        rc = transport->ops.export_key(transport->handle, chunk->segment->regions[t], chunk->keys[t], &size);
        if (rc < 0 || size > FERRY_KEY_MAX)
            return fy_segment_failed(state, t, "export a key for", chunk->segment, rc < 0 ? rc : FERRY_ERR_TRANSPORT,
                                     error);
        chunk->key_size[t] = (uint16_t)size;
    }
    return FERRY_OK;
}

static int wire(struct fy_heap_state *state, struct fy_chunk *chunk, struct ferry_error *error)
{
    int rc = FERRY_OK;

    pthread_mutex_lock(state->setup);
    if (state->allocating[chunk->segment->kind] != FY_NO_TRANSPORT)
        rc = allocate(state, chunk, error);
    if (!rc)
        rc = fy_segment_register(state, chunk->segment, &chunk->memory, error);
    if (!rc)
        rc = fy_chunk_export(state, chunk, error);
    pthread_mutex_unlock(state->setup);
    return rc;
}

void fy_chunk_undo(struct fy_heap_state *state, struct fy_chunk *chunk)
{
    struct fy_segment *segment = chunk->segment;

    if (!segment)
        return;
    fy_segment_drop(state, segment);
    if (segment->maker != FY_NO_TRANSPORT)
        reserve_hole(state, segment, true);
    if (chunk->mapped)
        unmap_chunk(state, segment);
    fy_segment_free(segment);
    chunk->segment = NULL;
}

int fy_chunk_make(struct fy_heap_state *state, uint64_t start, size_t length, uint32_t kind, uint32_t flags,
                  struct fy_chunk *chunk, struct ferry_error *error)
{
    int rc = FERRY_OK;

    memset(chunk, 0, sizeof(*chunk));
    chunk->segment = fy_segment_new(state, state->heap.base + start, length, kind, flags);
    if (!chunk->segment)
        return system_failed(state, "make the tables for a chunk", length, ENOMEM, error);
    chunk->memory = (struct ferry_memory){.size = sizeof(chunk->memory),
                                          .kind = kind,
                                          .address = chunk->segment->address,
                                          .length = length,
                                          .fd = -1,
                                          .remote = 1};
    if (state->allocating[kind] == FY_NO_TRANSPORT)
        rc = kind == FERRY_MEMORY_GPU ? back_gpu(state, chunk, error) : back(state, chunk, error);
    if (!rc)
        rc = wire(state, chunk, error);
    if (chunk->mapped)
        close(chunk->memory.fd); /* a transport that needs it has its own */
    if (rc)
        fy_chunk_undo(state, chunk);
    return rc;
}

/* ------------------------------------------------------------------ growing */

static void publish(struct fy_heap *heap, struct fy_segment *segment)
{
    uint64_t end = segment->start + segment->length;

    fy_segment_enter(heap, segment);
    for (uint64_t i = segment->start >> FY_GRANULE_SHIFT; i < end >> FY_GRANULE_SHIFT; i++)
        atomic_store_explicit(&heap->granules[i], segment, memory_order_release);
    atomic_store_explicit(&heap->backed, end, memory_order_release);
    fy_log(heap->config.log, FERRY_LOG_DEBUG, "heap grew by %zu bytes to %llu, segment %u", segment->length,
           (unsigned long long)end, segment->index);
}

int fy_heap_grow(struct fy_heap_state *state, size_t length, uint32_t kind, uint32_t flags, struct ferry_error *error)
{
    uint64_t start = atomic_load_explicit(&state->heap.backed, memory_order_relaxed);
    struct ferry_error mine;
    struct fy_chunk chunk;
    int made = fy_chunk_make(state, start, length, kind, flags, &chunk, &mine);
    int rc = fy_exchange_chunk(state, &chunk, made, "growth of the heap", &mine, error);

    if (rc) {
        if (!made)
            fy_chunk_undo(state, &chunk);
        return rc;
    }
    fy_allocator_add(state->allocators[fy_class(kind, flags)], start, length);
    publish(&state->heap, chunk.segment);
    return FERRY_OK;
}
