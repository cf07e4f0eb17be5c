/* SPDX-License-Identifier: Apache-2.0
 * Memory of the GPU: made, mapped where the heap wants it, given to others, and taken from others.
 * Setup thread, or under the setup lock. */
#include "gpu.h"
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define FY_GPU_PIECE ((size_t)2 << 20)

static int no_memory(struct fy_gpu *gpu, size_t length, struct ferry_error *error)
{
    size_t available = 0, total = 0;

    gpu->driver.left(&available, &total);
    fy_error_set(error, FERRY_ERR_NOMEM, "ask for less, or for host memory; see what else uses the GPU (nvidia-smi)",
                 "%s has no memory for a chunk of %zu bytes: %zu of its %zu bytes are free", gpu->name, length,
                 available, total);
    return FERRY_ERR_NOMEM;
}

static int grant(struct fy_gpu *gpu, fy_cu_pointer at, size_t length)
{
    const struct fy_cu_access access = {.location = {FY_CU_ON_DEVICE, gpu->device}, .flags = FY_CU_READ_WRITE};

    return gpu->driver.access(at, length, &access, 1);
}

/* The memory lives as long as the mapping, whatever becomes of the handle. */
static int map(struct fy_gpu *gpu, fy_cu_memory memory, size_t length, fy_cu_pointer at, struct ferry_error *error)
{
    int code = gpu->driver.map(at, length, 0, memory, 0);

    if (code)
        return fy_gpu_failed(gpu, code, "map memory", error);
    code = grant(gpu, at, length);
    if (!code)
        return FERRY_OK;
    gpu->driver.unmap(at, length);
    return fy_gpu_failed(gpu, code, "reach memory of this GPU or a peer's", error);
}

static int zero(struct fy_gpu *gpu, fy_cu_pointer at, size_t length)
{
    int code = gpu->stream ? 0 : gpu->driver.stream(&gpu->stream, FY_CU_NON_BLOCKING);

    if (!code)
        code = gpu->driver.set(at, 0, length, gpu->stream);
    return code ? code : gpu->driver.finish(gpu->stream);
}

static int create(struct fy_gpu *gpu, size_t length, fy_cu_memory *memory)
{
    struct fy_cu_property property = {.type = FY_CU_PINNED,
                                      .handles = FY_CU_HANDLE_FD,
                                      .location = {FY_CU_ON_DEVICE, gpu->device},
                                      .rdma = gpu->rdma};
    int code = gpu->driver.create(memory, length, &property, 0);

    if (!code || code == FY_CU_OUT_OF_MEMORY || !property.rdma)
        return code;
    property.rdma = 0; /* a device may say yes, and the system around it no */
    return gpu->driver.create(memory, length, &property, 0);
}

static int enter(struct fy_gpu *gpu, struct ferry_error *error)
{
    int rc = fy_gpu_open(gpu, error), code;

    if (rc)
        return rc;
    code = fy_gpu_enter(gpu);
    return code ? fy_gpu_failed(gpu, code, "be used by this thread", error) : FERRY_OK;
}

/* ------------------------------------------------------------------ addresses */

int fy_gpu_reserve(struct fy_gpu *gpu, size_t length, void **base, struct ferry_error *error)
{
    int rc = enter(gpu, error), code;
    fy_cu_pointer at = 0;

    if (rc)
        return rc;
    code = gpu->driver.reserve(&at, length, FY_GPU_PIECE, 0, 0);
    fy_gpu_leave(gpu);
    *base = (void *)(uintptr_t)at;
    return code ? fy_gpu_failed(gpu, code, "reserve addresses for the heap (FERRY_HEAP_SIZE)", error) : FERRY_OK;
}

int fy_gpu_unreserve(struct fy_gpu *gpu, void *base, size_t length)
{
    int code = fy_gpu_enter(gpu);

    if (code)
        return code;
    code = gpu->driver.unreserve((uintptr_t)base, length);
    fy_gpu_leave(gpu);
    return code;
}

/* ------------------------------------------------------------------ own memory */

static int allocate(struct fy_gpu *gpu, fy_cu_pointer at, size_t length, int *fd, struct ferry_error *error)
{
    fy_cu_memory memory;
    int code = create(gpu, length, &memory), rc;

    if (code)
        return code == FY_CU_OUT_OF_MEMORY ? no_memory(gpu, length, error)
                                           : fy_gpu_failed(gpu, code, "allocate", error);
    *fd = -1;
    code = gpu->driver.export_fd(fd, memory, FY_CU_HANDLE_FD, 0);
    rc = code ? fy_gpu_failed(gpu, code, "share memory", error) : map(gpu, memory, length, at, error);
    gpu->driver.drop(memory);
    if (!rc && (code = zero(gpu, at, length))) {
        rc = fy_gpu_failed(gpu, code, "zero memory", error);
        gpu->driver.unmap(at, length);
    }
    if (rc && *fd >= 0)
        close(*fd);
    return rc;
}

int fy_gpu_allocate(struct fy_gpu *gpu, void *address, size_t length, int *fd, struct ferry_error *error)
{
    int rc = enter(gpu, error);

    if (rc)
        return rc;
    pthread_mutex_lock(&gpu->lock);
    rc = allocate(gpu, (uintptr_t)address, length, fd, error);
    pthread_mutex_unlock(&gpu->lock);
    fy_gpu_leave(gpu);
    return rc;
}

void fy_gpu_free(struct fy_gpu *gpu, void *address, size_t length)
{
    if (fy_gpu_enter(gpu))
        return;
    gpu->driver.unmap((uintptr_t)address, length);
    fy_gpu_leave(gpu);
}

/* ------------------------------------------------------------------ of others */

static int import(struct fy_gpu *gpu, fy_cu_memory memory, size_t length, void **address, struct ferry_error *error)
{
    fy_cu_pointer at = 0;
    int code = gpu->driver.reserve(&at, length, 0, 0, 0), rc;

    if (code)
        return fy_gpu_failed(gpu, code, "reserve addresses for a peer's memory", error);
    rc = map(gpu, memory, length, at, error);
    if (rc)
        gpu->driver.unreserve(at, length);
    *address = (void *)(uintptr_t)at;
    return rc;
}

int fy_gpu_import(struct fy_gpu *gpu, int fd, size_t length, void **address, struct ferry_error *error)
{
    int rc = enter(gpu, error), code;
    fy_cu_memory memory;

    if (rc)
        return rc;
    code = gpu->driver.import_fd(&memory, (void *)(intptr_t)fd, FY_CU_HANDLE_FD);
    if (code) {
        rc = fy_gpu_failed(gpu, code, "take a peer's memory", error);
    } else {
        rc = import(gpu, memory, length, address, error);
        gpu->driver.drop(memory);
    }
    fy_gpu_leave(gpu);
    return rc;
}

void fy_gpu_unmap(struct fy_gpu *gpu, void *address, size_t length)
{
    if (fy_gpu_enter(gpu))
        return;
    gpu->driver.unmap((uintptr_t)address, length);
    gpu->driver.unreserve((uintptr_t)address, length);
    fy_gpu_leave(gpu);
}

int fy_gpu_share(struct fy_gpu *gpu, void *address, size_t length, struct ferry_error *error)
{
    int rc = enter(gpu, error), code;

    if (rc)
        return rc;
    code = grant(gpu, (uintptr_t)address, length);
    fy_gpu_leave(gpu);
    return code ? fy_gpu_failed(gpu, code, "reach memory of a peer's GPU", error) : FERRY_OK;
}
