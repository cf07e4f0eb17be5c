/* SPDX-License-Identifier: Apache-2.0
 * Registered memory of this PE, on every device in use, and keys of peers' memory.
 * Setup thread. */
#include "ibrc.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

/* What a peer is told. The offset of an operation counts from `address`. */
struct key {
    uint32_t magic, n;
    uint64_t address, length;
    uint32_t strict[FY_IB_RAILS], bulk[FY_IB_RAILS];
};
_Static_assert(sizeof(struct key) <= FERRY_KEY_MAX, "a key is too long");

static int refused(struct ferry_transport *t, const struct fy_ib_device *d, const struct ferry_memory *m, int error)
{
    struct rlimit limit = {0, 0};
    char hint[192] = "";

    if (error == ENOMEM || error == EAGAIN) {
        getrlimit(RLIMIT_MEMLOCK, &limit);
        if (limit.rlim_cur == RLIM_INFINITY)
            snprintf(hint, sizeof hint, "RLIMIT_MEMLOCK is unlimited: the device or the machine has no memory left");
        else
            snprintf(hint, sizeof hint,
                     "RLIMIT_MEMLOCK is %llu KiB: raise it with ulimit -l unlimited, or in /etc/security/limits.conf",
                     (unsigned long long)limit.rlim_cur / 1024);
    }
    return fy_ib_fail(t, -1, error == ENOMEM ? FERRY_ERR_NOMEM : FERRY_ERR_SYSTEM, error, hint,
                      "cannot register %zu bytes at %p with RDMA device %s: %s", m->length, m->address, d->name,
                      strerror(error));
}

/* A source that may not be written takes a registration without the right to write. */
static struct ibv_mr *reg(struct fy_ib_device *d, const struct ferry_memory *m, unsigned extra)
{
    unsigned access = IBV_ACCESS_LOCAL_WRITE;
    struct ibv_mr *mr;

    if (m->remote)
        access |= IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | (d->t->atomics ? IBV_ACCESS_REMOTE_ATOMIC : 0);
    mr = ibv_reg_mr(d->pd, m->address, m->length, access | extra);
    if (!mr && !m->remote && (errno == EFAULT || errno == EACCES || errno == EPERM || errno == EINVAL))
        mr = ibv_reg_mr(d->pd, m->address, m->length, 0u | extra);
    return mr;
}

static void drop(struct ferry_region *r)
{
    for (int i = 0; i < FY_IB_RAILS; i++) {
        if (r->bulk[i])
            ibv_dereg_mr(r->bulk[i]);
        if (r->mr[i])
            ibv_dereg_mr(r->mr[i]);
    }
    free(r);
}

static int register_all(struct ferry_transport *t, const struct ferry_memory *m, struct ferry_region *r)
{
    for (uint32_t i = 0; i < t->n_devices; i++) {
        struct fy_ib_device *d = &t->devices[i];
        r->mr[i] = reg(d, m, 0);
        if (!r->mr[i])
            return refused(t, d, m, errno);
        r->lkey[i] = r->mr[i]->lkey;
        if (!m->remote || !t->options.relaxed)
            continue;
        r->bulk[i] = reg(d, m, IBV_ACCESS_RELAXED_ORDERING);
        if (!r->bulk[i])
            return refused(t, d, m, errno);
    }
    return FERRY_OK;
}

int fy_ib_register(struct ferry_transport *t, const struct ferry_memory *m, struct ferry_region **region)
{
    struct ferry_region *r;
    int rc;

    if (m->kind != FERRY_MEMORY_HOST)
        return fy_ib_fail(t, -1, FERRY_ERR_UNSUPPORTED, 0, "put through host memory",
                          "ibrc registers host memory only");
    r = calloc(1, sizeof *r);
    if (!r)
        return fy_ib_fail(t, -1, FERRY_ERR_NOMEM, ENOMEM, "", "no memory to note a registration");
    r->address = m->address;
    r->length = m->length;
    rc = register_all(t, m, r);
    if (rc) {
        drop(r);
        return rc;
    }
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
    drop(region);
    return FERRY_OK;
}

int fy_ib_export_key(struct ferry_transport *t, struct ferry_region *region, void *blob, size_t *size)
{
    struct key k = {
        .magic = FY_IB_MAGIC, .n = t->n_devices, .address = (uintptr_t)region->address, .length = region->length};

    for (uint32_t i = 0; i < t->n_devices; i++) {
        k.strict[i] = region->mr[i]->rkey;
        k.bulk[i] = (region->bulk[i] ? region->bulk[i] : region->mr[i])->rkey;
    }
    memcpy(blob, &k, sizeof k);
    *size = sizeof k;
    return FERRY_OK;
}

int fy_ib_import_key(struct ferry_transport *t, uint32_t peer, const void *blob, size_t size, struct ferry_rkey **key)
{
    struct ferry_rkey *r;
    struct key k;

    if (size == sizeof k)
        memcpy(&k, blob, sizeof k);
    if (size != sizeof k || k.magic != FY_IB_MAGIC || k.n > FY_IB_RAILS)
        return fy_ib_fail(t, peer, FERRY_ERR_MISMATCH, 0, "run the same build on all hosts",
                          "the key from pe %u is not of ibrc", peer);
    r = calloc(1, sizeof *r);
    if (!r)
        return fy_ib_fail(t, peer, FERRY_ERR_NOMEM, ENOMEM, "", "no memory for a key of pe %u", peer);
    r->address = k.address;
    memcpy(r->strict, k.strict, sizeof r->strict);
    memcpy(r->bulk, k.bulk, sizeof r->bulk);
    r->next = t->keys;
    t->keys = r;
    *key = r;
    return FERRY_OK;
}

int fy_ib_release_key(struct ferry_transport *t, struct ferry_rkey *key)
{
    struct ferry_rkey **at = &t->keys;

    while (*at && *at != key)
        at = &(*at)->next;
    if (!*at)
        return FERRY_ERR_NOT_FOUND;
    *at = key->next;
    free(key);
    return FERRY_OK;
}

void fy_ib_memory_close(struct ferry_transport *t)
{
    while (t->keys)
        fy_ib_release_key(t, t->keys);
    while (t->regions)
        fy_ib_deregister(t, t->regions);
}
