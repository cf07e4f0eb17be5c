/* SPDX-License-Identifier: Apache-2.0
 * First contact with a peer's segment: imports its key, maps it if that is possible, publishes the target.
 * Any channel thread, under the setup lock; readers of the published table take none. */
#include "internal.h"
#include "../base/clock.h"
#include <stdlib.h>

static int choose_transport(struct fy_heap_state *state, uint32_t pe, size_t *index, struct ferry_error *error)
{
    const struct fy_heap_config *config = &state->heap.config;
    int t;

    if (pe >= config->n_pes) {
        fy_error_set(error, FERRY_ERR_ARG, NULL, "pe %u is out of range: the job has %u", (unsigned)pe,
                     (unsigned)config->n_pes);
        return FERRY_ERR_ARG;
    }
    t = config->up.transport_of(config->up.arg, pe);
    if (t < 0 || (size_t)t >= config->n_transports) {
        int status = t < 0 ? t : FERRY_ERR_UNREACHABLE;

        fy_error_set(error, status, "see ferry-info for what each transport reaches",
                     "no chosen transport reaches pe %u", (unsigned)pe);
        error->peer = (int32_t)pe;
        return status;
    }
    *index = (size_t)t;
    return FERRY_OK;
}

/* The key that `pe` sent for transport t. */
static int open_key(const struct fy_heap_state *state, const struct fy_segment *segment, uint32_t pe, size_t t,
                    const void **key, size_t *size, struct ferry_error *error)
{
    const struct fy_keys *keys = segment->blobs;
    const void *payload = NULL;
    const struct fy_key_head *head;
    const char *bad = fy_blob_open(keys->bytes + pe * keys->stride, keys->stride, FY_BLOB_KEY, pe, &payload, size);

    if (!bad && *size < sizeof(*head))
        bad = "size";
    head = payload;
    if (!bad && head->transport != t)
        bad = "transport";
    if (bad) {
        fy_error_set(error, FERRY_ERR_TRANSPORT,
                     "the PEs run different builds, or what exchanges their bytes is at fault",
                     "the key of pe %u for segment %u, transport %s, cannot be read: wrong %s", (unsigned)pe,
                     segment->index, state->heap.config.transports[t]->name, bad);
        error->peer = (int32_t)pe;
        return FERRY_ERR_TRANSPORT;
    }
    *key = head + 1;
    *size -= sizeof(*head);
    return FERRY_OK;
}

static int import(const struct fy_heap_state *state, const struct fy_segment *segment, uint32_t pe, size_t t,
                  struct ferry_rkey **key, struct ferry_error *error)
{
    const struct fy_transport *transport = state->heap.config.transports[t];
    uint64_t deadline = fy_deadline(state->heap.config.timeout);
    struct fy_backoff backoff = {0};
    char reason[160];
    const void *bytes;
    size_t size;
    int rc = open_key(state, segment, pe, t, &bytes, &size, error);

    if (rc)
        return rc;
    *key = NULL;
    while ((rc = transport->ops.import_key(transport->handle, pe, bytes, size, key)) == FERRY_AGAIN) {
        const struct fy_memory_up *up = &state->heap.config.up;

        if (!fy_backoff(&backoff))
            continue;
        rc = up->alive ? up->alive(up->arg, pe, error) : FERRY_OK;
        if (rc)
            return rc;
        if (fy_now_ns() < deadline)
            continue;
        fy_error_set(error, FERRY_ERR_TIMEOUT, "raise FERRY_TIMEOUT if the peer is only slow",
                     "transport %s could not import the key of pe %u for segment %u within %g s", transport->name,
                     (unsigned)pe, segment->index, state->heap.config.timeout);
        error->peer = (int32_t)pe;
        return FERRY_ERR_TIMEOUT;
    }
    if (rc >= 0)
        return FERRY_OK;
    fy_transport_reason(transport, rc, reason, sizeof(reason));
    fy_error_set(error, rc, NULL, "transport %s cannot import the key of pe %u for segment %u: %s", transport->name,
                 (unsigned)pe, segment->index, reason);
    error->peer = (int32_t)pe;
    return rc;
}

/* A target and what is needed to release it. */
struct owned_target {
    struct fy_target target; /* first */
    struct ferry_rkey *key;
    size_t transport;
};

static int contact(struct fy_heap_state *state, struct fy_segment *segment, uint32_t pe,
                   const struct fy_target **target, struct ferry_error *error)
{
    struct owned_target *made;
    size_t t;
    int rc = choose_transport(state, pe, &t, error);

    if (rc)
        return rc;
    const struct fy_transport *transport = state->heap.config.transports[t];
    made = calloc(1, sizeof(*made));
    if (!made) {
        fy_error_set(error, FERRY_ERR_NOMEM, NULL, "no memory to describe segment %u of pe %u", segment->index,
                     (unsigned)pe);
        return FERRY_ERR_NOMEM;
    }
    rc = import(state, segment, pe, t, &made->key, error);
    if (rc) {
        free(made);
        return rc;
    }
    made->transport = t;
    made->target.length = segment->length;
    made->target.key = made->key;
    if (transport->caps.flags & FERRY_CAP_MAP)
        if (transport->ops.map_key(transport->handle, made->key, &made->target.map) < 0)
            made->target.map = NULL; /* not this peer */
    if (made->target.map && state->heap.config.direct && (transport->caps.flags & FERRY_CAP_DIRECT)) {
        made->target.direct_end = segment->start + segment->length;
        made->target.direct_base = (char *)made->target.map - segment->start;
    }
    atomic_store_explicit(&segment->targets[pe], &made->target, memory_order_release);
    *target = &made->target;
    return FERRY_OK;
}

int fy_heap_resolve(struct fy_heap *heap, struct fy_segment *segment, uint32_t pe, const struct fy_target **target,
                    struct ferry_error *error)
{
    struct fy_heap_state *state = fy_heap_state(heap);
    int rc = FERRY_OK;

    *target = &fy_target_none;
    pthread_mutex_lock(state->setup);
    if (pe < heap->config.n_pes) /* another thread may have been faster */
        *target = atomic_load_explicit(&segment->targets[pe], memory_order_acquire);
    if (*target == &fy_target_none)
        rc = contact(state, segment, pe, target, error);
    pthread_mutex_unlock(state->setup);
    return rc;
}

void fy_target_release(struct fy_heap_state *state, const struct fy_target *target)
{
    struct owned_target *owned = (struct owned_target *)(uintptr_t)target;
    const struct fy_transport *transport = state->heap.config.transports[owned->transport];

    transport->ops.release_key(transport->handle, owned->key);
    free(owned);
}
