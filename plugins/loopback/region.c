/* SPDX-License-Identifier: Apache-2.0
 * This PE's registered memory and the keys to it.
 * Setup thread; the list of regions is also read by the control thread (serve.c), hence the lock. */
#include "guise.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int fy_lb_region_add(struct ferry_transport *t, const struct ferry_memory *memory, struct ferry_region **region)
{
    struct ferry_region *r;

    r = calloc(1, sizeof *r);
    if (!r)
        return fy_lb_fail(t, -1, FERRY_ERR_NOMEM, ENOMEM, "", "no memory to register %zu bytes", memory->length);
    r->address = memory->address;
    r->place = memory->address;
    r->kind = memory->kind;
    r->length = memory->length;
    r->offset = memory->fd_offset;
    r->remote = memory->remote != 0;
    r->fd = -1;
    if (r->remote && memory->fd >= 0 && (r->fd = fcntl(memory->fd, F_DUPFD_CLOEXEC, 0)) < 0) {
        int error = errno;

        free(r);
        return fy_lb_fail(t, -1, FERRY_ERR_SYSTEM, error, "raise the limit on open files (ulimit -n)",
                          "cannot keep the file behind %zu bytes at %p: %s", memory->length, memory->address,
                          strerror(error));
    }
    pthread_mutex_lock(&t->lock);
    r->number = ++t->last_region;
    r->next = t->regions;
    t->regions = r;
    pthread_mutex_unlock(&t->lock);
    *region = r;
    return FERRY_OK;
}

int fy_lb_register(struct ferry_transport *t, const struct ferry_memory *memory, struct ferry_region **region)
{
    if (!memory->address || !memory->length)
        return fy_lb_fail(t, -1, FERRY_ERR_ARG, 0, "", "cannot register %zu bytes at %p: empty", memory->length,
                          memory->address);
    if (memory->kind == FERRY_MEMORY_GPU && t->guise && t->guise->choice.worn & FY_LB_GPU_LIKE)
        return fy_lb_register_gpu(t, memory, region);
    if (memory->kind == FERRY_MEMORY_GPU && t->gpu)
        return fy_lb_region_add(t, memory, region);
    if (memory->kind != FERRY_MEMORY_HOST)
        return fy_lb_fail(t, -1, FERRY_ERR_UNSUPPORTED, 0, "", "loopback moves host memory only, kind %u was given",
                          memory->kind);
    if (memory->remote && t->guise && t->guise->choice.worn & FY_LB_MUST_ALLOC)
        return fy_lb_fail(t, -1, FERRY_ERR_UNSUPPORTED, 0, "ask allocate_memory for it",
                          "cannot let peers reach %zu bytes at %p: under the guise must-alloc, memory that was not "
                          "allocated by loopback is for local use only",
                          memory->length, memory->address);
    return fy_lb_region_add(t, memory, region);
}

static void region_free(struct ferry_region *r)
{
    if (r->mapped)
        fy_lb_region_unmap(r);
    if (r->fd >= 0)
        close(r->fd);
    free(r);
}

int fy_lb_deregister(struct ferry_transport *t, struct ferry_region *region)
{
    struct ferry_region **at;

    pthread_mutex_lock(&t->lock);
    for (at = &t->regions; *at && *at != region; at = &(*at)->next)
        ;
    if (*at)
        *at = region->next;
    pthread_mutex_unlock(&t->lock);
    region_free(region);
    return FERRY_OK;
}

int fy_lb_export_key(struct ferry_transport *t, struct ferry_region *region, void *blob, size_t *size)
{
    struct fy_lb_key out;

    if (!region->remote)
        return fy_lb_fail(t, -1, FERRY_ERR_ARG, 0, "", "the memory at %p was registered for local use only",
                          region->address);
    memset(&out, 0, sizeof out);
    out.process = t->self.process;
    memcpy(out.token, t->token, sizeof out.token);
    out.region = region->number;
    out.address = (uintptr_t)region->place;
    out.length = region->length;
    out.has_file = region->fd >= 0;
    out.kind = region->kind;
    if (t->guise && t->guise->page) {
        out.page_region = t->guise->page_region->number;
        out.page_address = (uintptr_t)t->guise->page;
        out.page_length = t->guise->page_region->length;
    }
    fy_lb_seal(t->secret, FY_LB_KEY, t->my_pe, &out, sizeof out);
    memcpy(blob, &out, sizeof out);
    *size = sizeof out;
    return FERRY_OK;
}

void fy_lb_regions_close(struct ferry_transport *t)
{
    while (t->regions) {
        struct ferry_region *r = t->regions;

        t->regions = r->next;
        region_free(r);
    }
}
