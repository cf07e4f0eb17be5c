/* SPDX-License-Identifier: Apache-2.0
 * Device memory of the stand-in: files in memory, mapped at their device addresses without access, so that a CPU that
 * loads or stores there faults as it would, and a second time for the copy functions. Reservations, handles,
 * descriptors. Any thread. */
#include "driver.h"
#include "fake.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#define GRANULE (2u << 20)
#define MOST    4096

struct handle {
    int fd;
    size_t bytes;
    int references; /* the creator's, and one for each mapping */
    bool imported;  /* another one's memory: does not count */
};

struct location {
    int type, id;
};

static struct mapping {
    uint64_t address;
    size_t bytes;
    struct handle *handle; /* NULL: a reservation */
    void *alias;
    unsigned access; /* bit n: device n may use it */
} maps[MOST];
static uint64_t used;

uint64_t fake_used(void)
{
    return used;
}

static struct mapping *entry(uint64_t address, size_t bytes, bool reservation)
{
    for (int i = 0; i < MOST; i++)
        if (maps[i].bytes && !maps[i].handle == reservation && address >= maps[i].address &&
            address + bytes <= maps[i].address + maps[i].bytes)
            return &maps[i];
    return NULL;
}

static struct mapping *free_entry(void)
{
    for (int i = 0; i < MOST; i++)
        if (!maps[i].bytes)
            return &maps[i];
    return NULL;
}

/* The kernel tells without a fault. */
static bool readable(uint64_t address)
{
    char byte;
    struct iovec to = {&byte, 1}, from = {(void *)(uintptr_t)address, 1}; // NOLINT

    return process_vm_readv(getpid(), &to, 1, &from, 1, 0) == 1;
}

/* Device memory, or addresses reserved for it; host memory may lie over the latter, as with the real one. */
static bool overlaps(uint64_t address, size_t bytes)
{
    for (int i = 0; i < MOST; i++)
        if (maps[i].bytes && address < maps[i].address + maps[i].bytes && maps[i].address < address + bytes &&
            (maps[i].handle || !readable(address)))
            return true;
    return false;
}

/* A range may lie over several mappings that follow each other: each of them is the same file's neighbour only by
 * chance, so a copy over a border is made piece by piece by the caller. */
void *fake_reach(uint64_t address, size_t bytes)
{
    struct mapping *map = entry(address, bytes, false);
    int device = fake_current();

    if (map)
        return device >= 0 && map->access & 1u << device ? (char *)map->alias + (address - map->address) : NULL;
    return overlaps(address, bytes) ? NULL : (void *)(uintptr_t)address; // NOLINT
}

/* For tests: what the CPU sees of device memory; NULL: there is none. */
FAKE_API void *fakecuda_alias(uint64_t address)
{
    struct mapping *map;
    void *alias;

    pthread_mutex_lock(&fake_lock);
    map = entry(address, 1, false);
    alias = map ? (char *)map->alias + (address - map->address) : NULL;
    pthread_mutex_unlock(&fake_lock);
    return alias;
}

/* For tests: reservations, mappings, and bytes of own memory that are left. */
FAKE_API void fakecuda_left(int *reserved, int *mapped, uint64_t *bytes)
{
    *reserved = *mapped = 0;
    pthread_mutex_lock(&fake_lock);
    for (int i = 0; i < MOST; i++) {
        *reserved += maps[i].bytes && !maps[i].handle;
        *mapped += maps[i].bytes && maps[i].handle;
    }
    *bytes = used;
    pthread_mutex_unlock(&fake_lock);
}

FAKE_API int cuMemGetInfo_v2(size_t *free_bytes, size_t *total)
{
    *total = fake_number("FAKECUDA_MEMORY", 1u << 30);
    pthread_mutex_lock(&fake_lock);
    *free_bytes = *total > used ? *total - used : 0;
    pthread_mutex_unlock(&fake_lock);
    return fake_current() < 0 ? FAKE_INVALID_CONTEXT : FAKE_OK;
}

FAKE_API int cuMemGetAllocationGranularity(size_t *granularity, const void *prop, int option)
{
    (void)option;
    *granularity = GRANULE;
    return prop ? FAKE_OK : FAKE_INVALID_VALUE;
}

/* ------------------------------------------------------------------ addresses */

FAKE_API int cuMemAddressReserve(uint64_t *address, size_t bytes, size_t alignment, uint64_t hint,
                                 unsigned long long flags)
{
    int rc = fake_fails("cuMemAddressReserve");
    size_t align = alignment > GRANULE ? alignment : GRANULE;
    struct mapping *map;
    char *whole = MAP_FAILED;

    if (rc || flags || !bytes || bytes % GRANULE)
        return rc ? rc : FAKE_INVALID_VALUE;
    pthread_mutex_lock(&fake_lock);
    map = free_entry();
    if (hint && hint % align == 0 && fake_number("FAKECUDA_HINTS", 1)) /* a hint; taken where nothing is mapped */
        whole = mmap((void *)(uintptr_t)hint, bytes, PROT_NONE,        // NOLINT
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
    if (whole == MAP_FAILED) {
        whole = mmap(NULL, bytes + align, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (whole != MAP_FAILED) {
            size_t before = (align - (uintptr_t)whole % align) % align;
            if (before)
                munmap(whole, before);
            munmap(whole + before + bytes, align - before);
            whole += before;
        }
    }
    if (map && whole != MAP_FAILED)
        *map = (struct mapping){.address = (uintptr_t)whole, .bytes = bytes};
    pthread_mutex_unlock(&fake_lock);
    *address = (uintptr_t)whole;
    return map && whole != MAP_FAILED ? FAKE_OK : FAKE_OUT_OF_MEMORY;
}

FAKE_API int cuMemAddressFree(uint64_t address, size_t bytes)
{
    struct mapping *map;
    int rc = FAKE_INVALID_VALUE;

    pthread_mutex_lock(&fake_lock);
    map = entry(address, bytes, true);
    if (map && map->address == address && map->bytes == bytes && !entry(address, GRANULE, false)) {
        munmap((void *)(uintptr_t)address, bytes); // NOLINT
        map->bytes = 0;
        rc = FAKE_OK;
    }
    pthread_mutex_unlock(&fake_lock);
    return rc;
}

/* ------------------------------------------------------------------ handles */

static void release(struct handle *handle)
{
    if (--handle->references)
        return;
    used -= handle->imported ? 0 : handle->bytes;
    close(handle->fd);
    free(handle);
}

static struct handle *new_handle(int fd, size_t bytes, bool imported)
{
    struct handle *handle = calloc(1, sizeof(*handle));

    if (handle)
        *handle = (struct handle){.fd = fd, .bytes = bytes, .references = 1, .imported = imported};
    return handle;
}

FAKE_API int cuMemCreate(uint64_t *out, size_t bytes, const void *prop, unsigned long long flags)
{
    int rc = fake_fails("cuMemCreate"), fd = -1;
    struct handle *handle = NULL;

    if (rc || flags || !prop || !bytes || bytes % GRANULE)
        return rc ? rc : FAKE_INVALID_VALUE;
    pthread_mutex_lock(&fake_lock);
    if (used + bytes <= fake_number("FAKECUDA_MEMORY", 1u << 30))
        fd = memfd_create("fakecuda", MFD_CLOEXEC);
    if (fd >= 0 && ftruncate(fd, (off_t)bytes) == 0)
        handle = new_handle(fd, bytes, false);
    if (handle)
        used += bytes;
    else if (fd >= 0)
        close(fd);
    pthread_mutex_unlock(&fake_lock);
    *out = (uintptr_t)handle;
    return handle ? FAKE_OK : FAKE_OUT_OF_MEMORY;
}

FAKE_API int cuMemRelease(uint64_t handle)
{
    if (!handle)
        return FAKE_INVALID_VALUE;
    pthread_mutex_lock(&fake_lock);
    release((struct handle *)(uintptr_t)handle); // NOLINT
    pthread_mutex_unlock(&fake_lock);
    return FAKE_OK;
}

/* type 1: a descriptor. */
FAKE_API int cuMemExportToShareableHandle(void *out, uint64_t handle, int type, unsigned long long flags)
{
    int rc = fake_fails("cuMemExportToShareableHandle"), fd;

    if (rc || type != 1 || flags || !handle)
        return rc ? rc : FAKE_INVALID_VALUE;
    fd = fcntl(((struct handle *)(uintptr_t)handle)->fd, F_DUPFD_CLOEXEC, 0); // NOLINT
    *(int *)out = fd;
    return fd < 0 ? FAKE_OUT_OF_MEMORY : FAKE_OK;
}

FAKE_API int cuMemImportFromShareableHandle(uint64_t *out, void *shared, int type)
{
    int rc = fake_fails("cuMemImportFromShareableHandle"), fd = (int)(intptr_t)shared;
    struct stat at;
    struct handle *handle = NULL;

    if (rc || type != 1 || fstat(fd, &at) != 0)
        return rc ? rc : FAKE_INVALID_VALUE;
    fd = fcntl(fd, F_DUPFD_CLOEXEC, 0);
    if (fd >= 0)
        handle = new_handle(fd, (size_t)at.st_size, true);
    *out = (uintptr_t)handle;
    return handle ? FAKE_OK : FAKE_OUT_OF_MEMORY;
}

/* ------------------------------------------------------------------ mappings */

FAKE_API int cuMemMap(uint64_t address, size_t bytes, size_t offset, uint64_t handle, unsigned long long flags)
{
    struct handle *h = (struct handle *)(uintptr_t)handle; // NOLINT
    int rc = fake_fails("cuMemMap");
    struct mapping *map;

    if (rc || flags || !h || offset % GRANULE || bytes % GRANULE || offset + bytes > h->bytes)
        return rc ? rc : FAKE_INVALID_VALUE;
    pthread_mutex_lock(&fake_lock);
    map = free_entry();
    rc = FAKE_INVALID_VALUE;
    if (map && entry(address, bytes, true) && !entry(address, GRANULE, false)) {
        void *alias = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, h->fd, (off_t)offset);
        rc = alias == MAP_FAILED ? FAKE_OUT_OF_MEMORY : FAKE_OK;
        if (rc == FAKE_OK) {
            *map = (struct mapping){address, bytes, h, alias, 0};
            h->references++;
        }
    }
    pthread_mutex_unlock(&fake_lock);
    return rc;
}

FAKE_API int cuMemUnmap(uint64_t address, size_t bytes)
{
    int rc = FAKE_INVALID_VALUE;

    pthread_mutex_lock(&fake_lock);
    for (int i = 0; i < MOST; i++)
        if (maps[i].handle && maps[i].bytes && maps[i].address >= address &&
            maps[i].address + maps[i].bytes <= address + bytes) {
            munmap(maps[i].alias, maps[i].bytes);
            release(maps[i].handle);
            maps[i] = (struct mapping){0};
            rc = FAKE_OK;
        }
    pthread_mutex_unlock(&fake_lock);
    return rc;
}

/* Of each entry: location {type 1: device, id}, flags (3: read and write). */
FAKE_API int cuMemSetAccess(uint64_t address, size_t bytes, const void *descs, size_t n)
{
    struct desc {
        struct location location;
        int flags;
    };
    const struct desc *d = descs;
    int rc = fake_fails("cuMemSetAccess"), found = 0;

    if (rc)
        return rc;
    pthread_mutex_lock(&fake_lock);
    for (int i = 0; i < MOST; i++) {
        if (!maps[i].handle || !maps[i].bytes || maps[i].address < address ||
            maps[i].address + maps[i].bytes > address + bytes)
            continue;
        found++;
        for (size_t k = 0; k < n; k++)
            maps[i].access =
                d[k].flags == 3 ? maps[i].access | 1u << d[k].location.id : maps[i].access & ~(1u << d[k].location.id);
    }
    pthread_mutex_unlock(&fake_lock);
    return found ? FAKE_OK : FAKE_INVALID_VALUE;
}

/* type 1: a dmabuf. Any file does for tests. */
FAKE_API int cuMemGetHandleForAddressRange(void *out, uint64_t address, size_t bytes, int type,
                                           unsigned long long flags)
{
    struct mapping *map;
    int fd = -1;

    (void)flags;
    if (type != 1 || !fake_number("FAKECUDA_DMABUF", 0))
        return FAKE_NOT_SUPPORTED;
    pthread_mutex_lock(&fake_lock);
    map = entry(address, bytes, false);
    if (map)
        fd = fcntl(map->handle->fd, F_DUPFD_CLOEXEC, 0);
    pthread_mutex_unlock(&fake_lock);
    *(int *)out = fd;
    return fd < 0 ? FAKE_INVALID_VALUE : FAKE_OK;
}
