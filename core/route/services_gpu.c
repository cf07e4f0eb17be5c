/* SPDX-License-Identifier: Apache-2.0
 * struct ferry_gpu_ops: what plugins do with GPU memory, by the job's GPU.
 * Any thread of a plugin; the record of a failure is kept with the GPU. */
#include "../gpu/gpu.h"
#include "internal.h"
#include <stdio.h>

static struct fy_gpu *gpu_of(const struct ferry_core *core)
{
    const struct fy_transport *t = (const struct fy_transport *)((uintptr_t)core - offsetof(struct fy_transport, core));

    return t->route->services.gpu;
}

static int noted(struct fy_gpu *gpu, int rc, const struct ferry_error *error)
{
    if (rc < 0) {
        pthread_mutex_lock(&gpu->lock);
        gpu->failure = *error;
        pthread_mutex_unlock(&gpu->lock);
    }
    return rc;
}

static int open_queue(const struct ferry_core *core, struct ferry_gpu_queue **queue)
{
    struct fy_gpu *gpu = gpu_of(core);
    struct ferry_error error;

    return noted(gpu, fy_gpu_queue_open(gpu, queue, &error), &error);
}

static void close_queue(const struct ferry_core *core, struct ferry_gpu_queue *queue)
{
    (void)core;
    fy_gpu_queue_close(queue);
}

static int copy(const struct ferry_core *core, struct ferry_gpu_queue *queue, void *to, const void *from, size_t length)
{
    (void)core;
    return fy_gpu_copy(queue, to, from, length);
}

static int copied(const struct ferry_core *core, struct ferry_gpu_queue *queue, uint64_t *ticket)
{
    (void)core;
    return fy_gpu_copied(queue, ticket);
}

static int import_fd(const struct ferry_core *core, int fd, size_t length, void **address)
{
    struct fy_gpu *gpu = gpu_of(core);
    struct ferry_error error;

    return noted(gpu, fy_gpu_import(gpu, fd, length, address, &error), &error);
}

static void unmap(const struct ferry_core *core, void *address, size_t length)
{
    fy_gpu_unmap(gpu_of(core), address, length);
}

static int share(const struct ferry_core *core, void *address, size_t length)
{
    struct fy_gpu *gpu = gpu_of(core);
    struct ferry_error error;

    return noted(gpu, fy_gpu_share(gpu, address, length, &error), &error);
}

static void why(const struct ferry_core *core, char *text, size_t size)
{
    struct fy_gpu *gpu = gpu_of(core);

    pthread_mutex_lock(&gpu->lock);
    snprintf(text, size, "%s", gpu->failure.message);
    pthread_mutex_unlock(&gpu->lock);
}

const struct ferry_gpu_ops fy_services_gpu = {
    .size = sizeof(struct ferry_gpu_ops),
    .open_queue = open_queue,
    .close_queue = close_queue,
    .copy = copy,
    .copied = copied,
    .import_fd = import_fd,
    .unmap = unmap,
    .share = share,
    .why = why,
};
