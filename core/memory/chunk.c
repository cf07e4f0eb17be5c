/* SPDX-License-Identifier: Apache-2.0
 * Chunks: memory put under a piece of the reservation, registered with every transport, and published as a segment.
 * Setup thread only; what it publishes is read by every channel. */
#include "internal.h"
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define COMMIT_STEP ((size_t)64 << 20)
#define REASON_MAX  160

/* ------------------------------------------------------------------ backing */

/* A failure of the operating system while a chunk is made. */
static int system_failed(const struct fy_heap_state *state, const char *what, size_t length, int why,
                         struct ferry_error *error)
{
    struct fy_limits limits;
    char available[FY_SIZE_TEXT], limit[FY_SIZE_TEXT], memlock[FY_SIZE_TEXT];

    fy_limits_read(state->heap.config.system_root, &limits);
    fy_error_set(error, FERRY_ERR_NOMEM, "ask for less, run fewer PEs on this host, or raise the limit that was met",
                 "cannot %s of %zu bytes for the heap: %s (%s available, cgroup limit %s, memlock %s)", what, length,
                 strerror(why), fy_size_text(limits.available, available), fy_size_text(limits.cgroup_limit, limit),
                 fy_size_text(limits.memlock, memlock));
    error->library_status = why;
    return FERRY_ERR_NOMEM;
}

/* Has the kernel find the pages now, where that can be refused, and not at the first store, where it could only kill.
 */
static int commit(int fd, size_t length)
{
    /* In steps: a signal interrupts a call, and undoes all it did. */
    for (size_t at = 0; at < length;) {
        size_t step = length - at < COMMIT_STEP ? length - at : COMMIT_STEP;

        if (fallocate(fd, 0, (off_t)at, (off_t)step) == 0)
            at += step;
        else if (errno != EINTR)
            return errno;
    }
    return 0;
}

static void unmap_chunk(const struct fy_segment *segment)
{
    /* In one step, so that no other thread's mapping can come in between. */
    mmap(segment->address, segment->length, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
}

static int back(struct fy_heap_state *state, struct fy_chunk *chunk, struct ferry_error *error)
{
    struct fy_segment *segment = chunk->segment;
    size_t length = segment->length;
    int fd = memfd_create("ferry-heap", MFD_CLOEXEC);
    int why;

    if (fd < 0)
        return system_failed(state, "make a memory file", length, errno, error);
    if (ftruncate(fd, (off_t)length) != 0 || (errno = commit(fd, length)) != 0) {
        why = errno;
        close(fd);
        return system_failed(state, "back a chunk", length, why, error);
    }
    if (mmap(segment->address, length, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0) == MAP_FAILED) {
        why = errno;
        close(fd);
        return system_failed(state, "map a chunk", length, why, error);
    }
    madvise(segment->address, length, MADV_HUGEPAGE); /* a wish */
    chunk->memory.fd = fd;
    chunk->mapped = true;
    return FERRY_OK;
}

/* ------------------------------------------------------------------ transports */

static int transport_failed(const struct fy_heap_state *state, size_t t, const char *what,
                            const struct fy_segment *segment, int status, struct ferry_error *error)
{
    const struct fy_transport *transport = state->heap.config.transports[t];
    char reason[REASON_MAX], memlock[FY_SIZE_TEXT];
    struct fy_limits limits;

    fy_transport_reason(transport, status, reason, sizeof(reason));
    fy_limits_read(state->heap.config.system_root, &limits);
    fy_error_set(error, status, "if the transport pins memory, raise memlock (ulimit -l); else see what it reports",
                 "transport %s cannot %s %zu bytes of the heap: %s (memlock %s)", transport->name, what,
                 segment->length, reason, fy_size_text(limits.memlock, memlock));
    return status;
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
    size_t t = state->allocating;
    const struct fy_transport *transport = state->heap.config.transports[t];
    struct ferry_region *region = NULL;
    int rc = transport->ops.allocate_memory(transport->handle, &chunk->memory, &region);

    if (rc < 0 || !region) {
        reserve_hole(state, segment, false);
        return transport_failed(state, t, "allocate", segment, rc < 0 ? rc : FERRY_ERR_TRANSPORT, error);
    }
    if (chunk->memory.address != segment->address || chunk->memory.length < segment->length) {
        fy_error_set(error, FERRY_ERR_TRANSPORT, "the plugin has to map it at the address it is given (MAP_FIXED)",
                     "transport %s allocated %zu bytes at %p, but %zu bytes at %p were asked for", transport->name,
                     chunk->memory.length, chunk->memory.address, segment->length, (void *)segment->address);
        transport->ops.free_memory(transport->handle, region);
        reserve_hole(state, segment, false);
        return FERRY_ERR_TRANSPORT;
    }
    segment->regions[t] = region;
    return zero_allocated(state, segment, error);
}

static int register_all(struct fy_heap_state *state, struct fy_chunk *chunk, struct ferry_error *error)
{
    struct fy_segment *segment = chunk->segment;

    for (size_t t = 0; t < state->heap.config.n_transports; t++) {
        const struct fy_transport *transport = state->heap.config.transports[t];
        int rc;

        if (t == state->allocating)
            continue;
        rc = transport->ops.register_memory(transport->handle, &chunk->memory, &segment->regions[t]);
        if (rc >= 0 && segment->regions[t])
            continue;
        segment->regions[t] = NULL;
        return transport_failed(state, t, "register", segment, rc < 0 ? rc : FERRY_ERR_TRANSPORT, error);
    }
    return FERRY_OK;
}

static int export_all(struct fy_heap_state *state, struct fy_chunk *chunk, struct ferry_error *error)
{
    for (size_t t = 0; t < state->heap.config.n_transports; t++) {
        const struct fy_transport *transport = state->heap.config.transports[t];
        size_t size = FERRY_KEY_MAX;
        int rc = transport->ops.export_key(transport->handle, chunk->segment->regions[t], chunk->keys[t], &size);

        if (rc < 0 || size > FERRY_KEY_MAX)
            return transport_failed(state, t, "export a key for", chunk->segment, rc < 0 ? rc : FERRY_ERR_TRANSPORT,
                                    error);
        chunk->key_size[t] = (uint16_t)size;
    }
    return FERRY_OK;
}

static int wire(struct fy_heap_state *state, struct fy_chunk *chunk, struct ferry_error *error)
{
    int rc = FERRY_OK;

    pthread_mutex_lock(state->setup);
    if (state->allocating != FY_NO_TRANSPORT)
        rc = allocate(state, chunk, error);
    if (!rc)
        rc = register_all(state, chunk, error);
    if (!rc)
        rc = export_all(state, chunk, error);
    pthread_mutex_unlock(state->setup);
    return rc;
}

/* ------------------------------------------------------------------ segments */

static void segment_free(struct fy_segment *segment)
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

static struct fy_segment *segment_new(struct fy_heap_state *state, uint64_t start, size_t length)
{
    const struct fy_heap_config *config = &state->heap.config;
    struct fy_segment *segment = calloc(1, sizeof(*segment));

    if (!segment)
        return NULL;
    segment->index = state->heap.n_segments;
    segment->start = start;
    segment->length = length;
    segment->address = state->heap.base + start;
    segment->regions = calloc(config->n_transports ? config->n_transports : 1, sizeof(*segment->regions));
    segment->targets = calloc(config->n_pes, sizeof(*segment->targets));
    segment->blobs = calloc(1, sizeof(struct fy_keys));
    if (!segment->regions || !segment->targets || !segment->blobs || !fy_keys_reserve(state, segment->blobs)) {
        segment_free(segment);
        return NULL;
    }
    for (uint32_t pe = 0; pe < config->n_pes; pe++)
        atomic_init(&segment->targets[pe], &fy_target_none);
    return segment;
}

static void release_targets(struct fy_heap_state *state, struct fy_segment *segment)
{
    const struct fy_heap_config *config = &state->heap.config;

    for (uint32_t pe = 0; pe < config->n_pes; pe++) {
        const struct fy_target *target = atomic_load_explicit(&segment->targets[pe], memory_order_acquire);

        if (target == &fy_target_none)
            continue;
        fy_target_release(state, target);
        atomic_store_explicit(&segment->targets[pe], &fy_target_none, memory_order_release);
    }
}

static void release_regions(struct fy_heap_state *state, struct fy_segment *segment)
{
    for (size_t t = state->heap.config.n_transports; t-- > 0;) {
        const struct fy_transport *transport = state->heap.config.transports[t];
        struct ferry_region *region = segment->regions[t];

        if (!region || t == state->allocating)
            continue;
        transport->ops.deregister_memory(transport->handle, region);
        segment->regions[t] = NULL;
    }
    /* Last: the others have registered this memory. */
    if (state->allocating == FY_NO_TRANSPORT || !segment->regions[state->allocating])
        return;
    const struct fy_transport *owner = state->heap.config.transports[state->allocating];
    owner->ops.free_memory(owner->handle, segment->regions[state->allocating]);
    segment->regions[state->allocating] = NULL;
}

void fy_segment_release(struct fy_heap_state *state, struct fy_segment *segment)
{
    fy_exchange_withdraw(state, segment->index);
    pthread_mutex_lock(state->setup);
    release_targets(state, segment);
    release_regions(state, segment);
    pthread_mutex_unlock(state->setup);
    segment_free(segment);
}

/* ------------------------------------------------------------------ making, growing */

void fy_chunk_undo(struct fy_heap_state *state, struct fy_chunk *chunk)
{
    struct fy_segment *segment = chunk->segment;
    bool allocated;

    if (!segment)
        return;
    allocated = state->allocating != FY_NO_TRANSPORT && segment->regions[state->allocating];
    pthread_mutex_lock(state->setup);
    release_regions(state, segment);
    pthread_mutex_unlock(state->setup);
    if (allocated)
        reserve_hole(state, segment, true);
    if (chunk->mapped)
        unmap_chunk(segment);
    segment_free(segment);
    chunk->segment = NULL;
}

int fy_chunk_make(struct fy_heap_state *state, uint64_t start, size_t length, struct fy_chunk *chunk,
                  struct ferry_error *error)
{
    int rc = FERRY_OK;

    memset(chunk, 0, sizeof(*chunk));
    chunk->segment = segment_new(state, start, length);
    if (!chunk->segment)
        return system_failed(state, "make the tables for a chunk", length, ENOMEM, error);
    chunk->memory = (struct ferry_memory){.size = sizeof(chunk->memory),
                                          .kind = FERRY_MEMORY_HOST,
                                          .address = chunk->segment->address,
                                          .length = length,
                                          .fd = -1,
                                          .remote = 1};
    if (state->allocating == FY_NO_TRANSPORT)
        rc = back(state, chunk, error);
    if (!rc)
        rc = wire(state, chunk, error);
    if (chunk->mapped)
        close(chunk->memory.fd); /* a transport that needs it has its own */
    if (rc)
        fy_chunk_undo(state, chunk);
    return rc;
}

static void publish(struct fy_heap *heap, struct fy_segment *segment)
{
    uint64_t end = segment->start + segment->length;

    heap->segments[heap->n_segments++] = segment;
    for (uint64_t i = segment->start >> FY_GRANULE_SHIFT; i < end >> FY_GRANULE_SHIFT; i++)
        atomic_store_explicit(&heap->granules[i], segment, memory_order_release);
    atomic_store_explicit(&heap->backed, end, memory_order_release);
    fy_log(heap->config.log, FERRY_LOG_DEBUG, "heap grew by %zu bytes to %llu, segment %u", segment->length,
           (unsigned long long)end, segment->index);
}

int fy_heap_grow(struct fy_heap_state *state, size_t length, struct ferry_error *error)
{
    uint64_t start = atomic_load_explicit(&state->heap.backed, memory_order_relaxed);
    struct ferry_error mine;
    struct fy_chunk chunk;
    int made = fy_chunk_make(state, start, length, &chunk, &mine);
    int rc = fy_exchange_chunk(state, &chunk, made, &mine, error);

    if (rc) {
        if (!made)
            fy_chunk_undo(state, &chunk);
        return rc;
    }
    fy_allocator_add(state->allocator, start, length);
    publish(&state->heap, chunk.segment);
    return FERRY_OK;
}
