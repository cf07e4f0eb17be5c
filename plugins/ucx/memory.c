/* SPDX-License-Identifier: Apache-2.0
 * Memory of this PE: allocated by UCX where its lanes through shared memory reach no other, registered elsewhere.
 * Setup thread. */
#include "ucx.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define TRIAL 4096u

static ucs_status_t map(struct ferry_transport *t, void *address, size_t length, unsigned flags, ucp_mem_h *memh)
{
    ucp_mem_map_params_t params = {.field_mask = UCP_MEM_MAP_PARAM_FIELD_LENGTH | UCP_MEM_MAP_PARAM_FIELD_FLAGS |
                                                 UCP_MEM_MAP_PARAM_FIELD_MEMORY_TYPE,
                                   .address = address,
                                   .length = length,
                                   .flags = flags,
                                   .memory_type = UCS_MEMORY_TYPE_HOST};

    if (address)
        params.field_mask |= UCP_MEM_MAP_PARAM_FIELD_ADDRESS;
    return ucp_mem_map(t->context.ucp, &params, memh);
}

/* Can another process of this host load and store it? Asked of our own address, which is on this host, too. */
static int shared(struct ferry_transport *t, ucp_ep_h ep, ucp_mem_h memh)
{
    ucp_mem_attr_t attr = {.field_mask = UCP_MEM_ATTR_FIELD_ADDRESS};
    void *packed, *at = NULL;
    ucp_rkey_h rkey;
    size_t size;
    int yes = 0;

    if (!ep || ucp_mem_query(memh, &attr) != UCS_OK || ucp_rkey_pack(t->context.ucp, memh, &packed, &size) != UCS_OK)
        return 0;
    if (ucp_ep_rkey_unpack(ep, packed, &rkey) == UCS_OK) {
        yes = ucp_rkey_ptr(rkey, (uintptr_t)attr.address, &at) == UCS_OK && at;
        ucp_rkey_destroy(rkey);
    }
    ucp_rkey_buffer_release(packed);
    return yes;
}

static int try_one(struct ferry_transport *t, void *address)
{
    ucp_ep_h ep = fy_ux_setup_peer(t, t->my_pe);
    struct fy_ux_heard heard;
    ucp_mem_h memh;
    int yes = 0;

    fy_ux_listen(&heard);
    if (map(t, address, TRIAL, address ? 0 : UCP_MEM_MAP_ALLOCATE, &memh) == UCS_OK) {
        yes = shared(t, ep, memh);
        ucp_mem_unmap(t->context.ucp, memh);
    }
    fy_ux_listened();
    if (!yes && heard.text[0])
        t->core->log(t->core, FERRY_LOG_DEBUG, "ucx: memory %s: %s", address ? "registered" : "allocated", heard.text);
    return yes;
}

/* By trial, since what a version of UCX can do with which memory is nowhere to be read. */
int fy_ux_try_memory(struct ferry_transport *t)
{
    int wants = t->options.memory;
    void *page;

    if (!t->context.shm || t->options.watch == FY_UX_WATCH_YES)
        return wants == FY_UX_MEMORY_ALLOCATE
                   ? fy_ux_fail(t, -1, FERRY_ERR_CONFIG, UCS_OK, "set FERRY_UCX_MEMORY=auto",
                                "FERRY_UCX_MEMORY=allocate has no use with UCX's %s", t->context.tls)
                   : FERRY_OK;
    if (wants != FY_UX_MEMORY_ALLOCATE && t->context.attaches) {
        page = mmap(NULL, TRIAL, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        t->maps = page != MAP_FAILED && try_one(t, page);
        if (page != MAP_FAILED)
            munmap(page, TRIAL);
    }
    if (wants != FY_UX_MEMORY_REGISTER && !t->maps)
        t->maps = t->allocates = try_one(t, NULL);
    if (wants == FY_UX_MEMORY_ALLOCATE && !t->allocates)
        return fy_ux_fail(t, -1, FERRY_ERR_DEVICE, UCS_OK, "is there room in /dev/shm? else FERRY_UCX_MEMORY=register",
                          "UCX cannot allocate memory that other processes share");
    return FERRY_OK;
}

static struct ferry_region *enter(struct ferry_transport *t, ucp_mem_h memh, void *address, size_t length)
{
    struct ferry_region *r = calloc(1, sizeof *r);

    if (!r)
        return NULL;
    r->memh = memh;
    r->address = address;
    r->length = length;
    r->fd = -1;
    r->next = t->regions;
    t->regions = r;
    return r;
}

static int refused(struct ferry_transport *t, const char *what, size_t length, const struct fy_ux_heard *heard,
                   ucs_status_t status)
{
    return fy_ux_fail(t, -1, status == UCS_ERR_NO_MEMORY ? FERRY_ERR_NOMEM : FERRY_ERR_TRANSPORT, status,
                      what[0] == 'a' ? "look at df /dev/shm (posix), sysctl kernel.shmmax kernel.shmall (sysv), and the free memory"
                                     : "look at ulimit -l, and the free memory",
                      "UCX cannot %s %zu bytes: %s", what, length, fy_ux_reason(heard, status));
}

int fy_ux_allocate(struct ferry_transport *t, struct ferry_memory *memory, struct ferry_region **region)
{
    unsigned flags = UCP_MEM_MAP_ALLOCATE | (memory->address ? UCP_MEM_MAP_FIXED : 0);
    ucp_mem_attr_t attr = {.field_mask = UCP_MEM_ATTR_FIELD_ADDRESS};
    struct fy_ux_heard heard;
    ucs_status_t status;
    ucp_mem_h memh;
    ucp_ep_h ep;

    if (memory->kind != FERRY_MEMORY_HOST || !t->allocates)
        return fy_ux_fail(t, -1, FERRY_ERR_UNSUPPORTED, UCS_OK, "register memory instead",
                          "ucx does not allocate memory of kind %u here", memory->kind);
    ep = fy_ux_setup_peer(t, t->my_pe);
    fy_ux_listen(&heard);
    status = map(t, memory->address, memory->length, flags, &memh);
    if (status == UCS_OK && !shared(t, ep, memh)) {
        ucp_mem_unmap(t->context.ucp, memh);
        status = UCS_ERR_NO_MEMORY;
    }
    if (status == UCS_OK)
        status = ucp_mem_query(memh, &attr);
    fy_ux_listened();
    if (status != UCS_OK)
        return refused(t, "allocate", memory->length, &heard, status);
    *region = enter(t, memh, attr.address, memory->length);
    if (!*region) {
        ucp_mem_unmap(t->context.ucp, memh);
        return fy_ux_fail(t, -1, FERRY_ERR_NOMEM, UCS_OK, "", "no memory to describe memory");
    }
    (*region)->fd = fy_ux_backing(attr.address, memory->length, &memory->fd_offset);
    memory->address = attr.address;
    memory->fd = (*region)->fd;
    memory->remote = 1;
    return FERRY_OK;
}

int fy_ux_register(struct ferry_transport *t, const struct ferry_memory *memory, struct ferry_region **region)
{
    struct fy_ux_heard heard;
    ucs_status_t status;
    ucp_mem_h memh;

    if (memory->kind != FERRY_MEMORY_HOST)
        return fy_ux_fail(t, -1, FERRY_ERR_UNSUPPORTED, UCS_OK, "", "ucx moves no memory of kind %u", memory->kind);
    fy_ux_listen(&heard);
    status = map(t, memory->address, memory->length, 0, &memh);
    fy_ux_listened();
    if (status != UCS_OK)
        return refused(t, "register", memory->length, &heard, status);
    *region = enter(t, memh, memory->address, memory->length);
    if (*region)
        return FERRY_OK;
    ucp_mem_unmap(t->context.ucp, memh);
    return fy_ux_fail(t, -1, FERRY_ERR_NOMEM, UCS_OK, "", "no memory to describe memory");
}

int fy_ux_deregister(struct ferry_transport *t, struct ferry_region *region)
{
    struct ferry_region **at = &t->regions;

    while (*at && *at != region)
        at = &(*at)->next;
    if (!*at)
        return FERRY_ERR_NOT_FOUND;
    *at = region->next;
    ucp_mem_unmap(t->context.ucp, region->memh);
    if (region->fd >= 0)
        close(region->fd);
    free(region);
    return FERRY_OK;
}

void fy_ux_memory_close(struct ferry_transport *t)
{
    while (t->regions)
        fy_ux_deregister(t, t->regions);
}
