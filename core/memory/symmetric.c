/* SPDX-License-Identifier: Apache-2.0
 * Symmetric buffers: memory of the user that all PEs register together, and that peers then reach like the heap.
 * Setup thread only, on all PEs alike; the buffer is found by every channel once it is in the list (buffer.c). */
#include "internal.h"
#include <ferry/ferry.h>
#include <stdlib.h>
#include <string.h>

#define CALL "register_symmetric"

/* ------------------------------------------------------------------ before PEs agree */

static int refuse(struct fy_plan *plan, int status, const char *hint, const char *why, const char *name)
{
    fy_error_set(&plan->error, status, hint, CALL ": %s%s", why, name);
    return status;
}

static int plan_share(struct fy_heap_state *state, struct fy_plan *plan, char *address, size_t length)
{
    size_t maker = state->allocating[FERRY_MEMORY_HOST];
    int rc = fy_buffer_check(&state->heap, address, length, CALL, &plan->error);

    if (rc)
        return rc;
    if ((uintptr_t)address & 7)
        return refuse(plan, FERRY_ERR_ARG, NULL, "the address is not aligned to 8 bytes", "");
    if (fy_buffer_shared(state, address, length))
        return refuse(plan, FERRY_ERR_ARG, "deregister the other one first",
                      "some of the bytes belong to a symmetric buffer already", "");
    if (maker != FY_NO_TRANSPORT)
        return refuse(plan, FERRY_ERR_UNSUPPORTED, "use memory from ferry_malloc",
                      "peers can only reach memory that this transport has allocated itself: ",
                      state->heap.config.transports[maker]->name);
    if (!fy_segment_room(&state->heap))
        return refuse(plan, FERRY_ERR_LIMIT, "deregister some, or raise FERRY_HEAP_CHUNK",
                      "all segments are in use by the heap and symmetric buffers", "");
    return FERRY_OK;
}

/* ------------------------------------------------------------------ making */

static int make(struct fy_heap_state *state, char *address, size_t length, struct fy_chunk *chunk,
                struct ferry_error *error)
{
    int rc;

    memset(chunk, 0, sizeof(*chunk));
    chunk->memory = (struct ferry_memory){.size = sizeof(chunk->memory),
                                          .kind = FERRY_MEMORY_HOST,
                                          .address = address,
                                          .length = length,
                                          .fd = -1,
                                          .remote = 1};
    chunk->segment = fy_segment_new(state, address, length, FERRY_MEMORY_HOST, 0);
    if (!chunk->segment) {
        fy_error_set(error, FERRY_ERR_NOMEM, NULL, "no memory for the tables of a symmetric buffer");
        return FERRY_ERR_NOMEM;
    }
    pthread_mutex_lock(state->setup);
    rc = fy_segment_register(state, chunk->segment, &chunk->memory, error);
    if (!rc)
        rc = fy_chunk_export(state, chunk, error);
    pthread_mutex_unlock(state->setup);
    if (rc)
        fy_chunk_undo(state, chunk);
    return rc;
}

/* Reaches the next PE, round the ring, of each transport. Where the PEs of a host are in several processes, one PE at
 * least has its next one in another: what a transport cannot share shows here, and not at the first use. */
static int try_peers(struct fy_heap_state *state, struct fy_segment *segment, struct ferry_error *error)
{
    const struct fy_heap_config *config = &state->heap.config;
    uint32_t tried = 0;

    for (uint32_t i = 1; i < config->n_pes; i++) {
        uint32_t pe = (config->my_pe + i) % config->n_pes;
        int t = config->up.transport_of(config->up.arg, pe);
        const struct fy_target *target;
        int rc;

        if (t < 0 || (tried & 1u << t))
            continue;
        tried |= 1u << t;
        rc = fy_heap_resolve(&state->heap, segment, pe, &target, error);
        if (rc && FERRY_STATUS_GROUP(rc) != FERRY_STATUS_GROUP(FERRY_ERR_PEER)) {
            strcpy(error->hint, "use memory from ferry_malloc, which every transport can share");
            return rc;
        }
        if (rc)
            return rc;
    }
    return FERRY_OK;
}

static int share(struct fy_heap_state *state, struct fy_plan *plan, struct ferry_buffer *buffer,
                 struct ferry_error *error)
{
    struct ferry_error mine;
    struct fy_chunk chunk;
    int rc = fy_call_agree(state, plan, error), made;

    if (rc)
        return rc;
    made = make(state, buffer->address, buffer->length, &chunk, &mine); /* PEs agreed, so there is a buffer */
    rc = fy_exchange_chunk(state, &chunk, made, CALL, &mine, error);
    if (rc) {
        if (!made)
            fy_chunk_undo(state, &chunk);
        return rc;
    }
    buffer->segment = chunk.segment;
    buffer->regions = chunk.segment->regions;
    fy_segment_enter(&state->heap, chunk.segment);
    rc = try_peers(state, chunk.segment, &mine);
    if (!rc && !fy_buffer_add(state, buffer)) {
        fy_error_set(&mine, FERRY_ERR_NOMEM, NULL, "no memory for the list of buffers");
        rc = FERRY_ERR_NOMEM;
    }
    rc = fy_exchange_outcome(state, rc, CALL, &mine, error);
    if (rc) {
        fy_buffer_remove(state, buffer);
        fy_segment_release(state, chunk.segment);
        return rc;
    }
    fy_call_remember(state, FY_CALL_SHARE, chunk.segment->index, buffer->length);
    return FERRY_OK;
}

int fy_buffer_share(struct fy_heap *heap, void *address, size_t length, struct ferry_buffer **buffer,
                    struct ferry_error *error)
{
    struct fy_heap_state *state = fy_heap_state(heap);
    struct fy_plan plan = {.call = {.kind = FY_CALL_SHARE, .size = length}};
    struct ferry_buffer *made = calloc(1, sizeof(*made));
    int rc;

    *buffer = NULL;
    if (made)
        *made = (struct ferry_buffer){.heap = heap, .address = address, .length = length};
    else
        plan.call.status = refuse(&plan, FERRY_ERR_NOMEM, NULL, "no memory to describe a buffer", "");
    if (made)
        plan.call.status = plan_share(state, &plan, address, length);
    rc = share(state, &plan, made, error);
    if (rc)
        free(made);
    else
        *buffer = made;
    return rc;
}

int fy_buffer_unshare(struct ferry_buffer *buffer, struct ferry_error *error)
{
    struct fy_heap_state *state = fy_heap_state(buffer->heap);
    struct fy_plan plan = {.call = {.kind = FY_CALL_UNSHARE, .size = buffer->length, .place = buffer->segment->index}};
    int rc = fy_call_agree(state, &plan, error);

    if (rc)
        return rc;
    fy_call_remember(state, FY_CALL_UNSHARE, buffer->segment->index, buffer->length);
    fy_buffer_remove(state, buffer);
    fy_segment_release(state, buffer->segment);
    free(buffer);
    return FERRY_OK;
}
