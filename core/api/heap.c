/* SPDX-License-Identifier: Apache-2.0
 * Public symmetric heap and registered buffers.
 * Collective calls: one thread per PE. ferry_ptr, register: any thread. */
#include "api.h"

#include <stdlib.h>
#include <string.h>

/* ------------------------------------------------------------------ allocation */

static uint32_t default_kind(const struct ferry_job *job)
{
    return fy_options_number(&job->options, "heap_kind") ? FERRY_MEMORY_GPU : FERRY_MEMORY_HOST; /* gpu, and its other name */
}

static void *allocate(struct ferry_job *job, const struct fy_want *want, const char *call)
{
    struct ferry_error error;
    void *address = NULL;
    int rc = fy_world_check(&job->world, -2, call);
    if (rc != FERRY_OK || want->size == 0)
        return NULL;
    rc = fy_heap_want(job->heap, want, &address, &error);
    if (rc == FERRY_OK)
        return address;
    fy_errors_thread(job->errors, &error);
    return NULL;
}

static void *allocate_plain(struct ferry_job *job, size_t size, size_t alignment, const char *call)
{
    const struct fy_want want = {.size = size, .alignment = alignment, .kind = default_kind(job)};
    return allocate(job, &want, call);
}

void *ferry_malloc(ferry_job_t *job, size_t size)
{
    job = fy_api_job(job);
    return job ? allocate_plain(job, size, 64, "ferry_malloc") : NULL;
}

void *ferry_align(ferry_job_t *job, size_t alignment, size_t size)
{
    job = fy_api_job(job);
    return job ? allocate_plain(job, size, alignment, "ferry_align") : NULL;
}

void *ferry_alloc(ferry_job_t *job, const ferry_alloc_attr_t *attr)
{
    job = fy_api_job(job);
    if (!job)
        return NULL;
    if (!attr || attr->size < sizeof(*attr)) {
        fy_usage(job, "ferry_alloc: the attributes are null, or their size is not set");
        return NULL;
    }
    const struct fy_want want = {
        .size = attr->bytes,
        .alignment = attr->alignment ? attr->alignment : 64,
        .kind = attr->kind == FERRY_MEMORY_DEFAULT ? default_kind(job) : (uint32_t)attr->kind,
        .flags = attr->flags,
    };
    return allocate(job, &want, "ferry_alloc");
}

/* ------------------------------------------------------------------ contents that the CPU may not touch */

#define PIECE ((size_t)16 << 10)

/* Zeroes own memory by puts. */
static int clear_by_puts(struct ferry_job *job, char *to, size_t length)
{
    static const char zeros[PIECE];
    int rc = FERRY_OK;
    for (size_t at = 0; at < length && rc == FERRY_OK; at += PIECE)
        rc = ferry_put_nbi(job->default_ctx, to + at, zeros, length - at < PIECE ? length - at : PIECE,
                           (int)job->world.my_pe);
    int done = ferry_quiet(job->default_ctx); /* also after a failure: the rest is complete then */
    return rc == FERRY_OK ? done : rc;
}

static int clear(struct ferry_job *job, void *address, size_t length)
{
    if (fy_heap_find(job->heap, address)->kind != FERRY_MEMORY_HOST)
        return clear_by_puts(job, address, length);
    memset(address, 0, length);
    return FERRY_OK;
}

/* Copies own memory by gets and puts, through memory that the CPU may touch. */
static int copy_by_puts(void *arg, void *to, const void *from, size_t length, struct ferry_error *error)
{
    struct ferry_job *job = arg;
    ferry_ctx_t *ctx = job->default_ctx;
    int pe = (int)job->world.my_pe, rc = FERRY_OK;
    char *stage = malloc(PIECE);
    if (!stage) {
        fy_error_set(error, FERRY_ERR_NOMEM, NULL, "no memory to move an allocation through");
        return FERRY_ERR_NOMEM;
    }
    for (size_t at = 0; at < length && rc == FERRY_OK; at += PIECE) {
        size_t n = length - at < PIECE ? length - at : PIECE;
        rc = ferry_get(ctx, stage, (const char *)from + at, n, pe);
        if (rc == FERRY_OK)
            rc = ferry_put_nbi(ctx, (char *)to + at, stage, n, pe);
        int done = ferry_quiet_pe(ctx, pe); /* also after a failure: the stage is about to be used again, or freed */
        rc = rc == FERRY_OK ? done : rc;
    }
    free(stage);
    if (rc != FERRY_OK) {
        error->size = sizeof(*error);
        fy_errors_last(job->errors, error);
    }
    return rc;
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
    void *address = allocate_plain(job, bytes, 64, "ferry_calloc");
    if (!address)
        return NULL;
    int rc = clear(job, address, bytes);
    /* nobody may put into it before everybody has cleared it */
    return ferry_sync(job) == FERRY_OK && rc == FERRY_OK ? address : NULL;
}

/* ------------------------------------------------------------------ size, end */

void *ferry_realloc(ferry_job_t *job, void *address, size_t size)
{
    job = fy_api_job(job);
    if (!job)
        return NULL;
    if (!address)
        return allocate_plain(job, size, 64, "ferry_realloc");
    if (size == 0) {
        ferry_free(job, address);
        return NULL;
    }
    struct ferry_error error;
    int rc = fy_world_check(&job->world, -2, "ferry_realloc");
    if (rc != FERRY_OK)
        return NULL;
    rc = fy_heap_resize(job->heap, &address, size, copy_by_puts, job, &error);
    if (rc == FERRY_OK)
        return address;
    fy_errors_thread(job->errors, &error);
    return NULL;
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

/* ------------------------------------------------------------------ reach */

/* The segment of an address, whose counterpart on `pe` is asked for; NULL after a complaint in the name of the call. */
static struct fy_segment *segment_on(ferry_job_t *job, const void *address, int pe, const char *call)
{
    if ((uint32_t)pe >= job->world.n_pes) {
        fy_usage(job, "%s: pe %d is out of range, the job has 0 to %u", call, pe, job->world.n_pes - 1);
        return NULL;
    }
    struct fy_segment *segment = fy_heap_find(job->heap, address);
    if (!segment)
        fy_usage(job, "%s: %p is not in the symmetric heap", call, address);
    return segment;
}

void *ferry_ptr(ferry_job_t *job, const void *address, int pe)
{
    job = fy_api_job(job);
    if (!job)
        return NULL;
    struct fy_segment *segment = segment_on(job, address, pe, "ferry_ptr");
    if (!segment)
        return NULL;
    if (segment->kind != FERRY_MEMORY_HOST)
        return NULL;
    if ((uint32_t)pe == job->world.my_pe)
        return (void *)(uintptr_t)address;
    const struct fy_target *target;
    struct ferry_error error;
    int rc = fy_heap_resolve(job->heap, segment, (uint32_t)pe, &target, &error);
    if (rc != FERRY_OK) {
        fy_errors_thread(job->errors, &error);
        return NULL;
    }
    if (!target->map)
        return NULL;
    atomic_store(&job->world.pointers_out, 1);
    return (char *)target->map + ((const char *)address - segment->address);
}

void *ferry_device_ptr(ferry_job_t *job, const void *address, int pe)
{
    job = fy_api_job(job);
    if (!job)
        return NULL;
    struct fy_segment *segment = segment_on(job, address, pe, "ferry_device_ptr");
    if (!segment)
        return NULL;
    struct ferry_error error;
    void *device;
    int rc = fy_heap_device(job->heap, segment, (uint32_t)pe, address, &device, &error);
    if (rc != FERRY_OK) {
        fy_errors_thread(job->errors, &error);
        return NULL;
    }
    if ((uint32_t)pe != job->world.my_pe)
        atomic_store(&job->world.pointers_out, 1);
    return device;
}

/* ------------------------------------------------------------------ buffers */

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

int ferry_register_symmetric(ferry_job_t *job, void *address, size_t length, ferry_buffer_t **buffer)
{
    job = fy_api_job(job);
    if (!job)
        return FERRY_ERR_STATE;
    if (!buffer)
        return fy_usage(job, "ferry_register_symmetric: buffer is null");
    *buffer = NULL;
    int rc = fy_world_check(&job->world, -2, "ferry_register_symmetric");
    if (rc != FERRY_OK)
        return rc;
    struct ferry_error error;
    rc = fy_buffer_share(job->heap, address, length, buffer,
                         &error); /* looks at the arguments: the others hear of bad ones */
    if (rc != FERRY_OK)
        return fy_errors_thread(job->errors, &error);
    (*buffer)->owner = job;
    return FERRY_OK;
}

static int deregister_symmetric(ferry_buffer_t *buffer)
{
    struct ferry_job *job = buffer->owner;
    struct ferry_error error;
    int rc = fy_world_check(&job->world, -2, "ferry_deregister");
    if (rc != FERRY_OK)
        return rc;
    rc = fy_buffer_unshare(buffer, &error);
    return rc == FERRY_OK ? rc : fy_errors_thread(job->errors, &error);
}

int ferry_deregister(ferry_buffer_t *buffer)
{
    if (buffer)
        return buffer->segment ? deregister_symmetric(buffer) : fy_buffer_deregister(buffer);
    struct ferry_job *job = fy_api_job(NULL);
    return job ? fy_usage(job, "ferry_deregister: buffer is null") : FERRY_ERR_STATE;
}
