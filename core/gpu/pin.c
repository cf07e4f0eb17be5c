/* SPDX-License-Identifier: Apache-2.0
 * Host memory that kernels may load and store: pinned when somebody first asks, unpinned before it goes.
 * Any thread, under the lock. */
#include "gpu.h"
#include <stdlib.h>

struct fy_gpu_pin {
    struct fy_gpu_pin *next;
    char *base;
    fy_cu_pointer device; /* where the base is for kernels */
};

static struct fy_gpu_pin **find(struct fy_gpu *gpu, const void *base)
{
    struct fy_gpu_pin **at = &gpu->pins;

    while (*at && (*at)->base != base)
        at = &(*at)->next;
    return at;
}

static int pin(struct fy_gpu *gpu, void *base, size_t length, const void *address, fy_cu_pointer *device,
               struct ferry_error *error)
{
    struct fy_gpu_pin *made = malloc(sizeof(*made));
    int code;

    if (!made) {
        fy_error_set(error, FERRY_ERR_NOMEM, NULL, "no memory to note what is pinned");
        return FERRY_ERR_NOMEM;
    }
    code = gpu->driver.pin(base, length, FY_CU_PORTABLE | FY_CU_DEVICE_MAP);
    if (code == FY_CU_ALREADY_REGISTERED) { /* all or part of it, by the program, or another PE of this process: theirs
                                               to undo */
        free(made);
        code = gpu->driver.pinned(device, (void *)(uintptr_t)address, 0);
        return code ? fy_gpu_failed(gpu, code, "find memory of which the program has pinned another part", error)
                    : FERRY_OK;
    }
    if (!code) {
        code = gpu->driver.pinned(&made->device, base, 0);
        if (code)
            gpu->driver.unpin(base);
    }
    if (code) {
        free(made);
        return fy_gpu_failed(gpu, code, "pin host memory", error);
    }
    made->base = base;
    made->next = gpu->pins;
    gpu->pins = made;
    *device = made->device + (fy_cu_pointer)((const char *)address - made->base);
    return FERRY_OK;
}

int fy_gpu_pin(struct fy_gpu *gpu, void *base, size_t length, const void *address, void **device,
               struct ferry_error *error)
{
    int rc = fy_gpu_open(gpu, error), code;
    struct fy_gpu_pin *found;
    fy_cu_pointer at = 0;

    if (rc)
        return rc;
    pthread_mutex_lock(&gpu->lock);
    found = *find(gpu, base);
    if (found) {
        at = found->device + (fy_cu_pointer)((const char *)address - found->base);
    } else if ((code = fy_gpu_enter(gpu))) {
        rc = fy_gpu_failed(gpu, code, "be used by this thread", error);
    } else {
        rc = pin(gpu, base, length, address, &at, error);
        fy_gpu_leave(gpu);
    }
    pthread_mutex_unlock(&gpu->lock);
    *device = (void *)(uintptr_t)at;
    return rc;
}

static void unpin(struct fy_gpu *gpu, struct fy_gpu_pin **at)
{
    struct fy_gpu_pin *found = *at;

    *at = found->next;
    if (!fy_gpu_enter(gpu)) {
        gpu->driver.unpin(found->base);
        fy_gpu_leave(gpu);
    }
    free(found);
}

void fy_gpu_unpin(struct fy_gpu *gpu, const void *base)
{
    struct fy_gpu_pin **at;

    if (!gpu || !atomic_load_explicit(&gpu->open, memory_order_acquire))
        return;
    pthread_mutex_lock(&gpu->lock);
    at = find(gpu, base);
    if (*at)
        unpin(gpu, at);
    pthread_mutex_unlock(&gpu->lock);
}

void fy_gpu_unpin_all(struct fy_gpu *gpu)
{
    pthread_mutex_lock(&gpu->lock);
    while (gpu->pins)
        unpin(gpu, &gpu->pins);
    pthread_mutex_unlock(&gpu->lock);
}
