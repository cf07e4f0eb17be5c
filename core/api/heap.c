/* SPDX-License-Identifier: Apache-2.0
 * Public symmetric heap and registered buffers.
 * Collective calls: one thread per PE. ferry_ptr, register: any thread. */
#include "api.h"

#include <string.h>

static void *allocate(struct ferry_job *job, size_t size, size_t alignment)
{
    struct ferry_error error;
    void *address = NULL;
    int rc = fy_world_check(&job->world, -2, "ferry_malloc");
    if (rc != FERRY_OK || size == 0)
        return NULL;
    rc = fy_heap_alloc(job->heap, size, alignment, &address, &error);
    if (rc == FERRY_OK)
        return address;
    fy_errors_thread(job->errors, &error);
    return NULL;
}

void *ferry_malloc(ferry_job_t *job, size_t size)
{
    return ferry_align(job, 64, size);
}

void *ferry_align(ferry_job_t *job, size_t alignment, size_t size)
{
    job = fy_api_job(job);
    return job ? allocate(job, size, alignment) : NULL;
}

void *ferry_calloc(ferry_job_t *job, size_t count, size_t size)
{
    job = fy_api_job(job);
    size_t bytes;
    if (!job)
        return NULL;
    if (__builtin_mul_overflow(count, size, &bytes)) {
        fy_usage(job, "ferry_calloc: count %zu times size %zu is more than a size can say", count, size);
        return NULL;
    }
    void *address = allocate(job, bytes, 64);
    if (!address)
        return NULL;
    memset(address, 0, bytes);
    /* nobody may put into it before everybody has cleared it */
    return ferry_sync(job) == FERRY_OK ? address : NULL;
}

int ferry_free(ferry_job_t *job, void *address)
{
    job = fy_api_job(job);
    if (!job)
        return FERRY_ERR_STATE;
    if (!address)
        return FERRY_OK;
    int rc = fy_world_check(&job->world, -2, "ferry_free");
    if (rc != FERRY_OK)
        return rc;
    struct ferry_error error;
    rc = fy_heap_free(job->heap, address, &error);
    return rc == FERRY_OK ? rc : fy_errors_thread(job->errors, &error);
}

void *ferry_ptr(ferry_job_t *job, const void *address, int pe)
{
    job = fy_api_job(job);
    if (!job)
        return NULL;
    if ((uint32_t)pe >= job->world.n_pes) {
        fy_usage(job, "ferry_ptr: pe %d is out of range, the job has 0 to %u", pe, job->world.n_pes - 1);
        return NULL;
    }
    struct fy_heap *heap = job->heap;
    uint64_t at = (uint64_t)((uintptr_t)address - (uintptr_t)heap->base);
    if (at >= atomic_load(&heap->backed)) {
        fy_usage(job, "ferry_ptr: %p is not in the symmetric heap", address);
        return NULL;
    }
    if ((uint32_t)pe == job->world.my_pe)
        return (void *)(uintptr_t)address;
    struct fy_segment *segment = atomic_load(&heap->granules[at >> FY_GRANULE_SHIFT]);
    const struct fy_target *target;
    struct ferry_error error;
    int rc = fy_heap_resolve(heap, segment, (uint32_t)pe, &target, &error);
    if (rc != FERRY_OK) {
        fy_errors_thread(job->errors, &error);
        return NULL;
    }
    if (!target->map)
        return NULL;
    atomic_store(&job->world.pointers_out, 1);
    return (char *)target->map + (at - segment->start);
}

int ferry_register(ferry_job_t *job, void *address, size_t length, ferry_buffer_t **buffer)
{
    job = fy_api_job(job);
    if (!job)
        return FERRY_ERR_STATE;
    if (!buffer)
        return fy_usage(job, "ferry_register: buffer is null");
    *buffer = NULL;
    if (!address || length == 0 || (uintptr_t)address + length < (uintptr_t)address)
        return fy_usage(job, "ferry_register: %zu bytes at %p are no memory", length, address);
    struct ferry_error error;
    int rc = fy_buffer_register(job->heap, address, length, buffer, &error);
    if (rc != FERRY_OK)
        return fy_errors_thread(job->errors, &error);
    (*buffer)->owner = job;
    return FERRY_OK;
}

int ferry_deregister(ferry_buffer_t *buffer)
{
    if (buffer)
        return fy_buffer_deregister(buffer);
    struct ferry_job *job = fy_api_job(NULL);
    return job ? fy_usage(job, "ferry_deregister: buffer is null") : FERRY_ERR_STATE;
}
