/* SPDX-License-Identifier: Apache-2.0
 * Public command rings.
 * Any thread; a ring is destroyed by one. */
#include "api.h"

#include <ferry/ring.h>

#define SLOTS_INITIAL 4096u

int ferry_ring_create(ferry_job_t *job, size_t slots, unsigned flags, ferry_ring_t **ring)
{
    job = fy_api_job(job);
    if (!job)
        return FERRY_ERR_STATE;
    if (!ring)
        return fy_usage(job, "ferry_ring_create: ring is null");
    *ring = NULL;
    if (flags != 0)
        return fy_usage(job, "ferry_ring_create: flags 0x%x, only 0 is defined", flags);
    if (slots == 0)
        slots = SLOTS_INITIAL;
    if (slots & (slots - 1) || slots < FERRY_RING_SLOTS_MIN || slots > FERRY_RING_SLOTS_MAX)
        return fy_usage(job, "ferry_ring_create: %zu slots, accepted are powers of two from %u to %u", slots,
                        FERRY_RING_SLOTS_MIN, FERRY_RING_SLOTS_MAX);
    struct ferry_error error;
    int rc = fy_ring_create(job->proxy, (uint32_t)slots, ring, &error);
    return rc == FERRY_OK ? rc : fy_errors_thread(job->errors, &error);
}

int ferry_ring_export(ferry_ring_t *ring, uint32_t layout, struct ferry_ring_handle *handle)
{
    if (!ring || !handle)
        return FERRY_ERR_ARG;
    if (layout != FERRY_RING_LAYOUT)
        return fy_fail(fy_ring_world(ring), FERRY_ERR_ABI, -1, -1, -1, "build the program with the headers of this library",
                       "ferry_ring_export: the program was built for ring layout 0x%x, the library has 0x%x", layout,
                       FERRY_RING_LAYOUT);
    *handle = *fy_ring_handle(ring);
    return FERRY_OK;
}

int ferry_ring_close(ferry_ring_t *ring)
{
    return ring ? fy_ring_close(ring) : FERRY_ERR_ARG;
}

int ferry_ring_destroy(ferry_ring_t *ring)
{
    return ring ? fy_ring_destroy(ring) : FERRY_ERR_ARG;
}

int ferry_ring_error(ferry_ring_t *ring, struct ferry_error *record)
{
    if (!ring || !record)
        return FERRY_ERR_ARG;
    fy_ring_take_error(ring, record);
    return FERRY_OK;
}
