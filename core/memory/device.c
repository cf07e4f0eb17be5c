/* SPDX-License-Identifier: Apache-2.0
 * Where kernels of this PE's GPU reach the heap, their own and that of peers.
 * Any thread; what has to be imported or pinned for it is, at the first call. */
#include "internal.h"
#include <ferry/ferry.h>

static int no_way(struct ferry_error *error, uint32_t pe, const char *hint, const char *why)
{
    fy_error_set(error, FERRY_ERR_UNSUPPORTED, hint, "kernels cannot reach memory of pe %u: %s", (unsigned)pe, why);
    error->peer = (int32_t)pe;
    return FERRY_ERR_UNSUPPORTED;
}

/* GPU memory of a peer, as the transport has it here. */
static int mapped_gpu(struct fy_heap_state *state, const struct fy_target *target, uint32_t pe, void **base,
                      struct ferry_error *error)
{
    const struct fy_heap_config *config = &state->heap.config;
    const struct fy_transport *transport = config->transports[config->up.transport_of(config->up.arg, pe)];
    char reason[160];
    int rc;

    pthread_mutex_lock(state->setup);
    rc = transport->ops.map_key(transport->handle, target->key, base);
    if (rc < 0)
        fy_transport_reason(transport, rc, reason, sizeof(reason));
    pthread_mutex_unlock(state->setup);
    return rc < 0 ? no_way(error, pe, "use rings for it", reason) : FERRY_OK;
}

static int of_peer(struct fy_heap_state *state, struct fy_segment *segment, uint32_t pe, size_t offset, void **device,
                   struct ferry_error *error)
{
    const struct fy_target *target;
    void *base = NULL;
    int rc;

    if (state->heap.config.no_peers)
        return no_way(error, pe, "set FERRY_P2P=all, or use rings for it", "FERRY_P2P is off");
    rc = fy_heap_resolve(&state->heap, segment, pe, &target, error);
    if (rc)
        return rc;
    if (segment->kind == FERRY_MEMORY_GPU) {
        rc = mapped_gpu(state, target, pe, &base, error);
        *device = (char *)base + offset;
        return rc;
    }
    if (!target->map)
        return no_way(error, pe, "use rings for it", "the transport does not map it into this process");
    return fy_gpu_pin(state->heap.config.gpu, target->map, segment->length, (char *)target->map + offset, device,
                      error);
}

int fy_heap_device(struct fy_heap *heap, struct fy_segment *segment, uint32_t pe, const void *address, void **device,
                   struct ferry_error *error)
{
    struct fy_heap_state *state = fy_heap_state(heap);
    size_t offset = (size_t)((const char *)address - segment->address);
    int rc;

    *device = NULL;
    if (!heap->config.gpu)
        return no_way(error, pe, NULL, "this job has no GPU");
    if (pe != heap->config.my_pe) {
        rc = of_peer(state, segment, pe, offset, device, error);
    } else if (segment->kind == FERRY_MEMORY_HOST) {
        rc = fy_gpu_pin(heap->config.gpu, segment->address, segment->length, address, device, error);
    } else if (segment->maker != FY_NO_TRANSPORT) {
        rc = no_way(error, pe, NULL, "a transport made it, as memory that only it can reach");
    } else {
        *device = (void *)(uintptr_t)address;
        rc = FERRY_OK;
    }
    if (rc)
        *device = NULL;
    return rc;
}
