/* SPDX-License-Identifier: Apache-2.0
 * Registered memory of this PE, on every device in use, in chunks where a device does not take it at once; host memory,
 * and GPU memory by dma-buf or peer memory.
 * Setup thread. */
#include "ibrc.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

/* The loader would refuse a library without it if it were linked, whatever its strength. */
fy_ib_reg_dmabuf_fn *fy_ib_reg_dmabuf(void)
{
    return (fy_ib_reg_dmabuf_fn *)dlsym(RTLD_DEFAULT, "ibv_reg_dmabuf_mr");
}

/* A registration that is tried: a part of the memory, and why it failed. */
struct part {
    const struct ferry_memory *memory;
    size_t offset, length;
    int access;
    int dmabuf_error, error; /* by dma-buf (-1: there is none, -2: the library has no call for it), by address */
};

const char *fy_ib_memlock_hint(char *hint, size_t size)
{
    struct rlimit limit = {0, 0};

    getrlimit(RLIMIT_MEMLOCK, &limit);
    if (limit.rlim_cur == RLIM_INFINITY)
        snprintf(hint, size, "RLIMIT_MEMLOCK is unlimited: the device or the machine has no memory left");
    else
        snprintf(hint, size,
                 "RLIMIT_MEMLOCK is %llu KiB: raise it with ulimit -l unlimited, or in /etc/security/limits.conf",
                 (unsigned long long)limit.rlim_cur / 1024);
    return hint;
}

static const char *dmabuf_reason(const struct part *p)
{
    if (p->dmabuf_error == -1)
        return "the memory has none";
    if (p->dmabuf_error == -2)
        return "libibverbs is older than 34";
    if (p->dmabuf_error == EOPNOTSUPP || p->dmabuf_error == ENOSYS)
        return "the kernel (5.12 or newer) or the NIC's driver has no support";
    return strerror(p->dmabuf_error);
}

static int refused(struct ferry_transport *t, const struct fy_ib_device *d, const struct part *p)
{
    int status = p->error == ENOMEM ? FERRY_ERR_NOMEM : FERRY_ERR_SYSTEM;
    char hint[192] = "";

    if (p->error == ENOMEM || p->error == EAGAIN)
        fy_ib_memlock_hint(hint, sizeof hint);
    if (p->memory->kind != FERRY_MEMORY_GPU)
        return fy_ib_fail(t, -1, status, p->error, hint, "cannot register %zu bytes at %p with RDMA device %s: %s",
                          p->length, (char *)p->memory->address + p->offset, d->name, strerror(p->error));
    return fy_ib_fail(
        t, -1, status, p->error,
        "load the GPU driver's peer memory module (nvidia_peermem; amdgpu has it built in), or use a kernel, "
        "NIC driver and GPU driver with dma-buf",
        "cannot register %zu bytes of GPU memory at %p with RDMA device %s: by dma-buf: %s; by peer memory: %s",
        p->length, (char *)p->memory->address + p->offset, d->name, dmabuf_reason(p), strerror(p->error));
}

static struct ibv_mr *by_dmabuf(struct ibv_pd *pd, struct part *p)
{
    fy_ib_reg_dmabuf_fn *reg_dmabuf = fy_ib_reg_dmabuf();
    const struct ferry_memory *m = p->memory;
    struct ibv_mr *mr;

    p->dmabuf_error = -1;
    if (m->size < offsetof(struct ferry_memory, dmabuf_offset) + sizeof m->dmabuf_offset || !m->has_dmabuf)
        return NULL;
    p->dmabuf_error = -2;
    if (!reg_dmabuf)
        return NULL;
    mr = reg_dmabuf(pd, m->dmabuf_offset + p->offset, p->length, (uintptr_t)m->address + p->offset, m->dmabuf,
                    p->access);
    p->dmabuf_error = mr ? 0 : errno;
    return mr;
}

/* Trying is the only sure way to know whether a device takes GPU memory. */
static struct ibv_mr *try(struct ibv_pd *pd, struct part *p)
{
    struct ibv_mr *mr = p->memory->kind == FERRY_MEMORY_GPU ? by_dmabuf(pd, p) : NULL;

    if (mr)
        return mr;
    mr = ibv_reg_mr(pd, (char *)p->memory->address + p->offset, p->length, (unsigned)p->access);
    p->error = mr ? 0 : errno;
    return mr;
}

/* A source that may not be written takes a registration without the right to write. */
static struct ibv_mr *reg(const struct fy_ib_device *d, struct part *p, int relaxed)
{
    struct ibv_mr *mr;

    p->access = IBV_ACCESS_LOCAL_WRITE | (relaxed ? IBV_ACCESS_RELAXED_ORDERING : 0);
    if (p->memory->remote)
        p->access |= IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | (d->t->atomics ? IBV_ACCESS_REMOTE_ATOMIC : 0);
    mr = try(d->pd, p);
    if (mr || p->memory->remote ||
        (p->error != EFAULT && p->error != EACCES && p->error != EPERM && p->error != EINVAL))
        return mr;
    p->access &= ~IBV_ACCESS_LOCAL_WRITE;
    return try(d->pd, p);
}

static void drop(struct ferry_transport *t, struct ferry_region *r)
{
    for (size_t i = 0; r->mr && i < (size_t)r->chunks * t->n_devices * 2; i++)
        if (r->mr[i])
            ibv_dereg_mr(r->mr[i]);
    free(r->mr);
    free(r->lkey);
    free(r);
}

static int register_chunk(struct ferry_transport *t, const struct ferry_memory *m, struct ferry_region *r,
                          uint32_t chunk)
{
    struct part p = {.memory = m, .offset = r->chunks > 1 ? (size_t)chunk << r->shift : 0};

    p.length = m->length - p.offset;
    if (r->chunks > 1 && p.length > (size_t)1 << r->shift)
        p.length = (size_t)1 << r->shift;
    for (uint32_t i = 0; i < t->n_devices; i++) {
        struct ibv_mr **mr = &r->mr[2 * (chunk * t->n_devices + i)];
        mr[0] = reg(&t->devices[i], &p, 0);
        if (!mr[0])
            return refused(t, &t->devices[i], &p);
        r->lkey[chunk][i] = mr[0]->lkey;
        if (!m->remote || !t->options.relaxed)
            continue;
        mr[1] = reg(&t->devices[i], &p, 1);
        if (!mr[1])
            return refused(t, &t->devices[i], &p);
    }
    return FERRY_OK;
}

static int register_all(struct ferry_transport *t, const struct ferry_memory *m, struct ferry_region *r)
{
    size_t chunks = m->length ? ((m->length - 1) >> t->shift) + 1 : 1;
    int rc = FERRY_OK;

    if (chunks > UINT16_MAX)
        return fy_ib_fail(t, -1, FERRY_ERR_LIMIT, 0, "use less memory, or another device",
                          "RDMA device %s would need %zu registrations for %zu bytes", t->devices[0].name, chunks,
                          m->length);
    r->chunks = (uint32_t)chunks;
    r->shift = chunks > 1 ? t->shift : FY_IB_ONE_CHUNK;
    r->mr = calloc(chunks * t->n_devices * 2, sizeof(struct ibv_mr *));
    r->lkey = calloc(chunks, sizeof *r->lkey);
    if (!r->mr || !r->lkey)
        return fy_ib_fail(t, -1, FERRY_ERR_NOMEM, ENOMEM, "", "no memory to note a registration");
    for (uint32_t i = 0; i < r->chunks && !rc; i++)
        rc = register_chunk(t, m, r, i);
    return rc;
}

int fy_ib_register(struct ferry_transport *t, const struct ferry_memory *m, struct ferry_region **region)
{
    struct ferry_region *r;
    int rc;

    if (m->kind != FERRY_MEMORY_HOST && m->kind != FERRY_MEMORY_GPU)
        return fy_ib_fail(t, -1, FERRY_ERR_UNSUPPORTED, 0, "put through host memory",
                          "ibrc registers host and GPU memory, not kind %u", m->kind);
    r = calloc(1, sizeof *r);
    if (!r)
        return fy_ib_fail(t, -1, FERRY_ERR_NOMEM, ENOMEM, "", "no memory to note a registration");
    r->address = m->address;
    r->length = m->length;
    r->gpu = m->kind == FERRY_MEMORY_GPU;
    rc = register_all(t, m, r);
    if (rc) {
        drop(t, r);
        return rc;
    }
    if (r->gpu || r->chunks > 1)
        fy_ib_be_careful(t);
    r->next = t->regions;
    t->regions = r;
    *region = r;
    return FERRY_OK;
}

int fy_ib_deregister(struct ferry_transport *t, struct ferry_region *region)
{
    struct ferry_region **at = &t->regions;

    while (*at && *at != region)
        at = &(*at)->next;
    if (!*at)
        return FERRY_ERR_NOT_FOUND;
    *at = region->next;
    drop(t, region);
    return FERRY_OK;
}

/* A message is no longer than a chunk, so it meets one border here at most. */
void fy_ib_chunks(struct ferry_transport *t)
{
    t->shift = FY_IB_ONE_CHUNK - 1;
    for (uint32_t i = 0; i < t->n_devices; i++) {
        uint64_t most = t->devices[i].attr.max_mr_size; /* 0: the device does not say */
        while (most && t->shift > 12 && (uint64_t)1 << t->shift > most)
            t->shift--;
    }
    if (t->message_max > (size_t)1 << t->shift)
        t->message_max = (size_t)1 << t->shift;
}

void fy_ib_memory_close(struct ferry_transport *t)
{
    while (t->regions)
        fy_ib_deregister(t, t->regions);
}
