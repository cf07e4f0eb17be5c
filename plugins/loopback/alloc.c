/* SPDX-License-Identifier: Apache-2.0
 * Memory of loopback's own making: under must-alloc what peers may reach, under gpu-like what the CPU may not touch.
 * The latter is mapped twice: without access where the user sees it, and once more for the plugin. Setup thread. */
#include "guise.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static void *map(const struct ferry_memory *memory, void *at, int access)
{
    return mmap(at, memory->length, access, MAP_SHARED | (at ? MAP_FIXED : 0), memory->fd, (off_t)memory->fd_offset);
}

int fy_lb_map_file(struct ferry_transport *t, const char *name, struct ferry_memory *memory)
{
    int access = memory->kind == FERRY_MEMORY_GPU ? PROT_NONE : PROT_READ | PROT_WRITE, error;
    void *address = MAP_FAILED;

    memory->fd_offset = 0;
    memory->fd = memfd_create(name, MFD_CLOEXEC);
    if (memory->fd >= 0 && !ftruncate(memory->fd, (off_t)memory->length))
        address = map(memory, memory->address, access);
    if (address != MAP_FAILED) {
        memory->address = address;
        return FERRY_OK;
    }
    error = errno;
    if (memory->fd >= 0)
        close(memory->fd);
    memory->fd = -1;
    return fy_lb_fail(t, -1, FERRY_ERR_SYSTEM, error, "look at ulimit -n, ulimit -v and the free memory",
                      "loopback cannot allocate %zu bytes: %s", memory->length, strerror(error));
}

/* The second mapping. NULL: there is none, errno says why. */
static char *map_again(const struct ferry_memory *memory)
{
    void *place = map(memory, NULL, PROT_READ | PROT_WRITE);

    return place == MAP_FAILED ? NULL : place;
}

static int adopt(struct ferry_transport *t, struct ferry_memory *memory, struct ferry_region **region)
{
    int status = fy_lb_region_add(t, memory, region);

    if (status)
        return status;
    if (memory->kind != FERRY_MEMORY_GPU) {
        (*region)->mapped = 1;
        return FERRY_OK;
    }
    (*region)->place = map_again(memory);
    if ((*region)->place) {
        (*region)->mapped = 1;
        return FERRY_OK;
    }
    status = fy_lb_fail(t, -1, FERRY_ERR_SYSTEM, errno, "", "cannot map %zu bytes a second time: %s", memory->length,
                        strerror(errno));
    fy_lb_deregister(t, *region);
    return status;
}

int fy_lb_allocate(struct ferry_transport *t, struct ferry_memory *memory, struct ferry_region **region)
{
    uint32_t worn = t->guise ? t->guise->choice.worn : 0;
    uint32_t needs = memory->kind == FERRY_MEMORY_GPU ? FY_LB_GPU_LIKE : FY_LB_MUST_ALLOC;
    int status;

    if (!(worn & needs))
        return fy_lb_fail(t, -1, FERRY_ERR_UNSUPPORTED, 0, "register memory instead",
                          "loopback does not allocate memory of kind %u", memory->kind);
    if (!memory->length)
        return fy_lb_fail(t, -1, FERRY_ERR_ARG, 0, "", "cannot allocate 0 bytes");
    memory->remote = 1;
    status = fy_lb_map_file(t, "ferry-heap", memory);
    if (status)
        return status;
    status = adopt(t, memory, region);
    close(memory->fd); /* the region has its own */
    memory->fd = status ? -1 : (*region)->fd;
    if (status)
        munmap(memory->address, memory->length);
    return status;
}

int fy_lb_free(struct ferry_transport *t, struct ferry_region *region)
{
    return fy_lb_deregister(t, region);
}

void fy_lb_region_unmap(struct ferry_region *region)
{
    munmap(region->address, region->length);
    if (region->place != region->address)
        munmap(region->place, region->length);
}

/* A part of what was allocated: the CPU finds it where the plugin mapped the whole. */
int fy_lb_register_gpu(struct ferry_transport *t, const struct ferry_memory *memory, struct ferry_region **region)
{
    const struct ferry_region *whole;
    struct ferry_memory part = *memory;
    char *place = NULL;
    int status;

    pthread_mutex_lock(&t->lock);
    for (whole = t->regions; whole; whole = whole->next) {
        size_t from = (size_t)((char *)memory->address - (char *)whole->address);

        if (whole->kind == FERRY_MEMORY_GPU && whole->mapped && (char *)memory->address >= (char *)whole->address &&
            from <= whole->length && memory->length <= whole->length - from) {
            place = whole->place + from;
            part.fd_offset = whole->offset + from;
            part.fd = whole->fd;
            break;
        }
    }
    pthread_mutex_unlock(&t->lock);
    if (!place)
        return fy_lb_fail(t, -1, FERRY_ERR_ARG, 0, "ask allocate_memory for it",
                          "cannot register %zu bytes at %p: this memory of kind GPU is not loopback's", memory->length,
                          memory->address);
    status = fy_lb_region_add(t, &part, region);
    if (status == FERRY_OK)
        (*region)->place = place;
    return status;
}
