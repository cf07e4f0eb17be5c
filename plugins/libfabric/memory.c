/* SPDX-License-Identifier: Apache-2.0
 * Registered memory of this PE, one registration each, and keys, own and peers'.
 * Setup thread. */
#include "libfabric.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

/* What a peer is told. */
struct key {
    uint32_t magic, size;
    uint64_t base, key, length;
};
_Static_assert(sizeof(struct key) <= FERRY_KEY_MAX, "a key is too long");

static const char *memlock_hint(char *hint, size_t size)
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

static int refused(struct ferry_transport *t, const struct ferry_memory *m, int error)
{
    int full = error == FI_ENOMEM || error == FI_EAGAIN || error == EPERM;
    char hint[192] = "run with FI_LOG_LEVEL=warn to see what the provider says";

    return fy_lf_fail(t, -1, full ? FERRY_ERR_NOMEM : FERRY_ERR_SYSTEM, error,
                      full ? memlock_hint(hint, sizeof hint) : hint,
                      "provider %s cannot register %zu bytes at %p: %s", t->name, m->length, m->address,
                      fi_strerror(error));
}

/* A key of our own choice where the provider does not choose one. */
static int reg(struct ferry_transport *t, const struct ferry_memory *m, uint64_t access, struct ferry_region *r)
{
    int rc = fi_mr_reg(t->domain, m->address, m->length, access, 0, t->next_key, 0, &r->mr, NULL);

    if (!rc && !(t->info->domain_attr->mr_mode & FI_MR_PROV_KEY))
        t->next_key++;
    if (rc || !m->remote || !(t->info->domain_attr->mr_mode & FI_MR_ENDPOINT))
        return rc;
    rc = fi_mr_bind(r->mr, &t->service.ep->fid, 0);
    return rc ? rc : fi_mr_enable(r->mr);
}

static int register_with(struct ferry_transport *t, const struct ferry_memory *m, struct ferry_region *r)
{
    int rc;

    if (m->remote)
        return reg(t, m, FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE, r);
    if (!t->local)
        return 0;
    rc = reg(t, m, FI_READ | FI_WRITE, r);
    if (rc == -EFAULT || rc == -EACCES || rc == -EINVAL) /* a source that may not be written */
        rc = reg(t, m, FI_WRITE, r);
    return rc;
}

int fy_lf_register(struct ferry_transport *t, const struct ferry_memory *m, struct ferry_region **region)
{
    struct ferry_region *r;
    int rc;

    if (m->kind != FERRY_MEMORY_HOST)
        return fy_lf_fail(t, -1, FERRY_ERR_UNSUPPORTED, 0, "put through host memory",
                          "libfabric registers host memory, not kind %u", m->kind);
    r = calloc(1, sizeof *r);
    if (!r)
        return fy_lf_fail(t, -1, FERRY_ERR_NOMEM, ENOMEM, "", "no memory to note a registration");
    r->address = m->address;
    r->length = m->length;
    rc = register_with(t, m, r);
    if (rc) {
        if (r->mr)
            fi_close(&r->mr->fid);
        free(r);
        return refused(t, m, -rc);
    }
    r->desc = r->mr ? fi_mr_desc(r->mr) : NULL;
    r->next = t->regions;
    t->regions = r;
    *region = r;
    return FERRY_OK;
}

int fy_lf_deregister(struct ferry_transport *t, struct ferry_region *region)
{
    struct ferry_region **at = &t->regions;

    while (*at && *at != region)
        at = &(*at)->next;
    if (!*at)
        return FERRY_ERR_NOT_FOUND;
    *at = region->next;
    if (region->mr)
        fi_close(&region->mr->fid);
    free(region);
    return FERRY_OK;
}

uint64_t fy_lf_base(const struct ferry_transport *t, const struct ferry_region *region)
{
    return t->virt ? (uintptr_t)region->address : 0;
}

int fy_lf_export_key(struct ferry_transport *t, struct ferry_region *region, void *blob, size_t *size)
{
    struct key k = {.magic = FY_LF_MAGIC, .size = sizeof k, .base = fy_lf_base(t, region), .length = region->length};

    if (!region->mr)
        return fy_lf_fail(t, -1, FERRY_ERR_ARG, 0, "", "memory at %p is not registered for peers", (void *)region->address);
    k.key = fi_mr_key(region->mr);
    if (k.key == FI_KEY_NOTAVAIL)
        return fy_lf_fail(t, -1, FERRY_ERR_UNSUPPORTED, 0, "use another provider",
                          "provider %s has keys longer than 8 bytes", t->name);
    memcpy(blob, &k, sizeof k);
    *size = sizeof k;
    return FERRY_OK;
}

int fy_lf_import_key(struct ferry_transport *t, uint32_t peer, const void *blob, size_t size, struct ferry_rkey **key)
{
    struct ferry_rkey *r;
    struct key k = {0};

    if (size == sizeof k)
        memcpy(&k, blob, sizeof k);
    if (k.magic != FY_LF_MAGIC || k.size != sizeof k)
        return fy_lf_fail(t, peer, FERRY_ERR_MISMATCH, 0, "run the same build on all hosts",
                          "the key from pe %u is not of libfabric", peer);
    r = calloc(1, sizeof *r);
    if (!r)
        return fy_lf_fail(t, peer, FERRY_ERR_NOMEM, ENOMEM, "", "no memory for a key of pe %u", peer);
    r->base = k.base;
    r->key = k.key;
    r->next = t->keys;
    t->keys = r;
    *key = r;
    return FERRY_OK;
}

int fy_lf_release_key(struct ferry_transport *t, struct ferry_rkey *key)
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

void fy_lf_memory_close(struct ferry_transport *t)
{
    while (t->keys)
        fy_lf_release_key(t, t->keys);
    while (t->regions)
        fy_lf_deregister(t, t->regions);
}
