/* SPDX-License-Identifier: Apache-2.0
 * First contact with a peer's segment: imports its key, maps it if that is possible, publishes the target.
 * Any channel thread, under the setup lock; readers of the published table take none. */
#include "internal.h"
#include "../base/clock.h"
#include <ferry/ferry.h>
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

/* The key that `pe` has for transport t of the segment; from the table, or over the bootstrap's wire. */
static int ask_key(struct fy_heap_state *state, const struct fy_segment *segment, uint32_t pe, size_t t, void *key,
                   size_t *size, struct ferry_error *error)
{
    const struct fy_heap_config *config = &state->heap.config;
    int rc;

    if (pe == config->my_pe)
        rc = fy_heap_own_key(&state->heap, segment->index, (uint32_t)t, key, FERRY_KEY_MAX, size);
    else
        return config->up.key(config->up.arg, pe, segment->index, (uint32_t)t, key, FERRY_KEY_MAX, size, error);
    if (rc)
        fy_error_set(error, rc, NULL, "segment %u has no key for transport %s", segment->index,
                     config->transports[t]->name);
    return rc;
}

/* import_key, until the transport is done with it. */
static int import_bytes(const struct fy_heap_state *state, const struct fy_segment *segment, uint32_t pe, size_t t,
                        const void *bytes, size_t size, struct ferry_rkey **key, struct ferry_error *error)
{
    const struct fy_transport *transport = state->heap.config.transports[t];
    const struct fy_memory_up *up = &state->heap.config.up;
    uint64_t deadline = fy_deadline(state->heap.config.timeout);
    struct fy_backoff backoff = {.rounds = state->heap.config.crowded ? FY_SPIN + FY_YIELD : 0};
    char reason[160];
    int rc;

    *key = NULL;
    while ((rc = transport->ops.import_key(transport->handle, pe, bytes, size, key)) == FERRY_AGAIN) {
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

#define MOST_KEYS 3 /* puts, atomics of 4 and of 8 bytes */

/* A target and what is needed to release it. */
struct owned_target {
    struct fy_target target; /* first */
    unsigned n_keys;
    struct {
        struct ferry_rkey *key;
        size_t transport;
    } keys[MOST_KEYS];
};

/* The key of transport t, imported once. */
static int import(struct fy_heap_state *state, const struct fy_segment *segment, uint32_t pe, size_t t,
                  struct owned_target *made, const struct ferry_rkey **key, struct ferry_error *error)
{
    char bytes[FERRY_KEY_MAX];
    size_t size = 0;
    int rc;

    for (unsigned i = 0; i < made->n_keys; i++) {
        if (made->keys[i].transport != t)
            continue;
        *key = made->keys[i].key;
        return FERRY_OK;
    }
    rc = ask_key(state, segment, pe, t, bytes, &size, error);
    if (!rc)
        rc = import_bytes(state, segment, pe, t, bytes, size, &made->keys[made->n_keys].key, error);
    if (rc)
        return rc;
    *key = made->keys[made->n_keys].key;
    made->keys[made->n_keys++].transport = t;
    return FERRY_OK;
}

static void release_keys(struct fy_heap_state *state, struct owned_target *made)
{
    while (made->n_keys-- > 0) {
        const struct fy_transport *transport = state->heap.config.transports[made->keys[made->n_keys].transport];
        transport->ops.release_key(transport->handle, made->keys[made->n_keys].key);
    }
}

/* Which transport does the atomics of `width`, and which of them the transport of the puts, t, may do at once. */
static int choose_way(struct fy_heap_state *state, const struct fy_segment *segment, uint32_t pe, size_t t, unsigned width,
                      struct owned_target *made, struct ferry_error *error)
{
    const struct fy_heap_config *config = &state->heap.config;
    const struct ferry_caps *caps = &config->transports[t]->caps;
    struct fy_way *way = &made->target.way[width == 8];
    uint32_t *native = width == 8 ? &made->target.amo64 : &made->target.amo32;
    bool single = (segment->flags & FERRY_ALLOC_SINGLE_WRITER) && fy_amo_makes_all(caps, width);

    way->lane = FY_WAY_MAIL;
    if (made->target.mail)
        return FERRY_OK;
    if (single)
        way->lane = (int32_t)t; /* nobody else updates the words: any domain will do */
    else if (config->up.way_of)
        way->lane = config->up.way_of(config->up.arg, pe, width);
    if (way->lane == FY_WAY_MAIL) { /* applied by the owner's CPU, so what another CPU does is exclusive with it */
        *native = caps->domain == FERRY_DOMAIN_CPU ? (width == 8 ? caps->amo64 : caps->amo32) : 0;
        return FERRY_OK;
    }
    if ((size_t)way->lane == t)
        *native = width == 8 ? caps->amo64 : caps->amo32;
    return import(state, segment, pe, (size_t)way->lane, made, &way->key, error);
}

static void reach_directly(struct fy_heap_state *state, const struct fy_segment *segment, size_t t, struct owned_target *made)
{
    const struct fy_transport *transport = state->heap.config.transports[t];
    struct fy_target *target = &made->target;

    if (segment->kind == FERRY_MEMORY_HOST && (transport->caps.flags & FERRY_CAP_MAP))
        if (transport->ops.map_key(transport->handle, target->key, &target->map) < 0)
            target->map = NULL; /* not this peer */
    if (!target->map || !state->heap.config.direct || !(transport->caps.flags & FERRY_CAP_DIRECT))
        return;
    target->direct_end = segment->start + segment->length;
    target->direct_base = (char *)target->map - segment->start;
    if (target->amo64 == transport->caps.amo64)
        target->direct_amo_end = target->direct_end;
}

static int fill(struct fy_heap_state *state, const struct fy_segment *segment, uint32_t pe, size_t t,
                struct owned_target *made, struct ferry_error *error)
{
    int rc = import(state, segment, pe, t, made, &made->target.key, error);

    made->target.length = segment->length;
    made->target.start = segment->start;
    made->target.segment = segment->index;
    made->target.mail = segment->kind != FERRY_MEMORY_HOST;
    if (!rc)
        rc = choose_way(state, segment, pe, t, 8, made, error);
    if (!rc)
        rc = choose_way(state, segment, pe, t, 4, made, error);
    if (!rc)
        reach_directly(state, segment, t, made);
    return rc;
}

static int contact(struct fy_heap_state *state, struct fy_segment *segment, uint32_t pe,
                   const struct fy_target **target, struct ferry_error *error)
{
    struct owned_target *made;
    size_t t;
    int rc = choose_transport(state, pe, &t, error);

    if (rc)
        return rc;
    made = calloc(1, sizeof(*made));
    if (!made) {
        fy_error_set(error, FERRY_ERR_NOMEM, NULL, "no memory to describe segment %u of pe %u", segment->index,
                     (unsigned)pe);
        return FERRY_ERR_NOMEM;
    }
    rc = fill(state, segment, pe, t, made, error);
    if (rc) {
        release_keys(state, made);
        free(made);
        return rc;
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
    if (pe < heap->config.n_pes)
        *target = atomic_load_explicit(&segment->targets[pe], memory_order_acquire);
    if (*target != &fy_target_none) /* symmetric buffers come here with every operation */
        return FERRY_OK;
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

    release_keys(state, owned);
    free(owned);
}
