/* SPDX-License-Identifier: Apache-2.0
 * Rings and the proxy as a whole: how they are made and unmade.
 * The application's threads. */
#include "internal.h"

#include <stdlib.h>
#include <string.h>

_Static_assert((int)FERRY_COMMAND_AMO_FETCH == (int)FERRY_AMO_FETCH && (int)FERRY_COMMAND_AMO_ADD == (int)FERRY_AMO_ADD &&
                   (int)FERRY_COMMAND_AMO_CSWAP == (int)FERRY_AMO_CSWAP,
               "commands name atomics by the numbers of the transports");

int fy_proxy_create(const struct fy_proxy_config *config, struct fy_proxy **out)
{
    struct fy_proxy *proxy = calloc(1, sizeof(*proxy));
    *out = NULL;
    if (!proxy)
        return FERRY_ERR_NOMEM;
    proxy->config = *config;
    proxy->most_workers = fy_worker_most(config);
    proxy->workers = calloc(proxy->most_workers, sizeof(*proxy->workers));
    if (!proxy->workers) {
        free(proxy);
        return FERRY_ERR_NOMEM;
    }
    pthread_mutex_init(&proxy->lock, NULL);
    pthread_cond_init(&proxy->changed, NULL);
    *out = proxy;
    return FERRY_OK;
}

static void release(struct ferry_ring *ring)
{
    fy_helper_end(ring);
    pthread_cond_destroy(&ring->helper.changed);
    pthread_mutex_destroy(&ring->helper.lock);
    pthread_mutex_destroy(&ring->lock);
    free(ring->memory);
    free(ring);
}

static struct ferry_ring *allocate(unsigned slot_bits)
{
    size_t bytes = fy_ring_bytes(slot_bits);
    struct ferry_ring *ring = calloc(1, sizeof(*ring));
    if (!ring)
        return NULL;
    /* whole pages: programs have them registered with a GPU */
    ring->memory = aligned_alloc(4096, (bytes + 4095) & ~(size_t)4095);
    if (!ring->memory) {
        free(ring);
        return NULL;
    }
    memset(ring->memory, 0, bytes);
    pthread_mutex_init(&ring->lock, NULL);
    pthread_mutex_init(&ring->helper.lock, NULL);
    pthread_cond_init(&ring->helper.changed, NULL);
    return ring;
}

/* A fence is nothing where one transport carries everything and keeps all order itself. */
static bool keeps_order(const struct fy_world *world)
{
    return world->n_lanes == 1 && !world->mail && (world->lanes[0].caps->order & FERRY_ORDER_ALL) == FERRY_ORDER_ALL;
}

static void fill_handle(struct ferry_ring *ring, unsigned slot_bits)
{
    struct fy_ring_memory *memory = ring->memory;
    const struct fy_world *world = ring->ctx->world;
    ring->handle = (struct ferry_ring_handle){.layout = FERRY_RING_LAYOUT,
                                              .slot_bits = slot_bits,
                                              .slots = memory->words,
                                              .head = &memory->head.word,
                                              .consumed = &memory->consumed.word,
                                              .completed = &memory->completed.word,
                                              .state = &memory->state,
                                              .alarm = &memory->alarm,
                                              .error = &memory->error,
                                              .base = (uint64_t)(uintptr_t)world->heap->base,
                                              .my_pe = world->my_pe,
                                              .n_pes = world->n_pes,
                                              .channel = ring->ctx->id,
                                              .ordered = keeps_order(world)};
}

int fy_ring_create(struct fy_proxy *proxy, uint32_t slots, struct ferry_ring **out, struct ferry_error *error)
{
    unsigned slot_bits = (unsigned)__builtin_ctz(slots);
    struct ferry_ring *ring = allocate(slot_bits);
    *out = NULL;
    if (!ring) {
        fy_error_set(error, FERRY_ERR_NOMEM, NULL, "no memory for a ring of %u slots", slots);
        return FERRY_ERR_NOMEM;
    }
    ring->proxy = proxy;
    int rc = fy_channel_create(proxy->config.world, false, false, &ring->ctx, error);
    if (rc != FERRY_OK) {
        release(ring);
        return rc;
    }
    fill_handle(ring, slot_bits);
    pthread_mutex_lock(&proxy->config.world->lock);
    ring->ctx->ring = ring; /* until the channel is delisted, before the ring goes */
    pthread_mutex_unlock(&proxy->config.world->lock);
    rc = fy_worker_attach(proxy, ring, error);
    if (rc != FERRY_OK) {
        fy_channel_destroy(ring->ctx);
        release(ring);
        return rc;
    }
    *out = ring;
    return FERRY_OK;
}

/* Until its thread has let go of it. Then the first failure that nobody took, or why it did not end well. */
static int shut(struct ferry_ring *ring, enum fy_close how)
{
    struct fy_proxy *proxy = ring->proxy;
    pthread_mutex_lock(&proxy->lock);
    if (!ring->detached)
        atomic_store(&ring->closing, (uint32_t)how);
    while (!ring->detached)
        pthread_cond_wait(&proxy->changed, &proxy->lock);
    int rc = ring->closed;
    pthread_mutex_unlock(&proxy->lock);
    pthread_mutex_lock(&ring->lock);
    if (rc == FERRY_OK)
        rc = ring->failure.status;
    pthread_mutex_unlock(&ring->lock);
    return rc;
}

static void unlist(struct ferry_ring *ring)
{
    struct fy_proxy *proxy = ring->proxy;
    pthread_mutex_lock(&proxy->lock);
    struct ferry_ring **at = &proxy->rings;
    while (*at != ring)
        at = &(*at)->next;
    *at = ring->next;
    pthread_mutex_unlock(&proxy->lock);
}

static int end(struct ferry_ring *ring, enum fy_close how)
{
    int rc = shut(ring, how);
    unlist(ring);
    fy_helper_end(ring);
    ring->proxy->config.retire(ring->proxy->config.arg, &ring->ctx->counters);
    int quiet = fy_channel_destroy(ring->ctx);
    release(ring);
    return rc != FERRY_OK || how == FY_CLOSE_NOW ? rc : quiet;
}

int fy_ring_close(struct ferry_ring *ring)
{
    return shut(ring, FY_CLOSE_DRAIN);
}

int fy_ring_destroy(struct ferry_ring *ring)
{
    return end(ring, FY_CLOSE_DRAIN);
}

int fy_proxy_destroy(struct fy_proxy *proxy, bool drain)
{
    int result = FERRY_OK;
    while (proxy->rings) {
        int rc = end(proxy->rings, drain ? FY_CLOSE_DRAIN : FY_CLOSE_NOW);
        if (result == FERRY_OK)
            result = rc;
    }
    for (uint32_t i = 0; i < proxy->n_workers; i++) {
        struct fy_worker *worker = &proxy->workers[i];
        pthread_mutex_lock(&proxy->lock);
        atomic_store(&worker->stop, true);
        pthread_cond_broadcast(&proxy->changed);
        pthread_mutex_unlock(&proxy->lock);
        pthread_join(worker->thread, NULL);
        free(worker->rings);
    }
    pthread_cond_destroy(&proxy->changed);
    pthread_mutex_destroy(&proxy->lock);
    free(proxy->workers);
    free(proxy);
    return result;
}

const struct ferry_ring_handle *fy_ring_handle(const struct ferry_ring *ring)
{
    return &ring->handle;
}

void fy_ring_take_error(struct ferry_ring *ring, struct ferry_error *record)
{
    static const struct ferry_error none = {.peer = -1, .channel = -1, .operation = -1};
    uint32_t size = record->size;
    pthread_mutex_lock(&ring->lock);
    const struct ferry_error *from = ring->failure.status != FERRY_OK ? &ring->failure : &none;
    memcpy(record, from, size && size < sizeof(*from) ? size : sizeof(*from));
    record->size = size;
    ring->failure.status = FERRY_OK;
    __atomic_store_n(&ring->memory->error, 0, __ATOMIC_RELEASE);
    pthread_mutex_unlock(&ring->lock);
}

struct fy_world *fy_ring_world(const struct ferry_ring *ring)
{
    return ring->ctx->world;
}

void fy_ring_look(const struct ferry_ring *ring, uint64_t *head, uint64_t *consumed, uint64_t *completed)
{
    *head = __atomic_load_n(ring->handle.head, __ATOMIC_RELAXED);
    *consumed = __atomic_load_n(ring->handle.consumed, __ATOMIC_RELAXED);
    *completed = __atomic_load_n(ring->handle.completed, __ATOMIC_RELAXED);
}
