/* SPDX-License-Identifier: Apache-2.0
 * What backs a chunk of host memory: huge pages from the kernel's pool, huge pages that it makes of ordinary memory, or
 * small ones. Setup thread. Every page is there before anybody may touch it: a fault that finds none would kill. */
#include "internal.h"
#include <errno.h>
#include <fcntl.h>
#include <linux/memfd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define STEP        ((size_t)64 << 20)
#define PATH_LENGTH 1024
#define POOL        "sys/kernel/mm/hugepages/hugepages-2048kB" /* pages of a granule each */
#define TRANSPARENT "sys/kernel/mm/transparent_hugepage/shmem_enabled"
_Static_assert(FY_GRANULE_SHIFT == 21, "chunks are whole numbers of 2 MiB pages");

/* ------------------------------------------------------------------ what there is */

static uint64_t pool_number(const char *root, const char *name)
{
    char path[PATH_LENGTH], text[64];

    if (snprintf(path, sizeof(path), "%s/" POOL "/%s", root, name) >= (int)sizeof(path) ||
        !fy_limits_file(path, text, sizeof(text)))
        return 0;
    return strtoull(text, NULL, 10);
}

void fy_pool_read(const char *root, struct fy_pool *pool)
{
    uint64_t most = pool_number(root, "nr_overcommit_hugepages"), surplus = pool_number(root, "surplus_hugepages");

    pool->total = pool_number(root, "nr_hugepages");
    pool->free = pool_number(root, "free_hugepages");
    pool->reserved = pool_number(root, "resv_hugepages");
    pool->more = most > surplus ? most - surplus : 0;
}

/* Pages that nobody has a claim on. */
static uint64_t unclaimed(const struct fy_pool *pool)
{
    return pool->free > pool->reserved ? pool->free - pool->reserved : 0;
}

/* Whether the kernel may make huge pages of the memory of a file: by itself, or when asked for a mapping. */
enum transparent { NEVER, ASKED, ALWAYS };

static enum transparent transparent_pages(const char *root)
{
    char path[PATH_LENGTH], text[128];

    if (snprintf(path, sizeof(path), "%s/" TRANSPARENT, root) >= (int)sizeof(path) ||
        !fy_limits_file(path, text, sizeof(text)))
        return NEVER;
    if (strstr(text, "[advise]"))
        return ASKED;
    return strstr(text, "[always]") || strstr(text, "[within_size]") || strstr(text, "[force]") ? ALWAYS : NEVER;
}

/* ------------------------------------------------------------------ before */

static int too_few(const struct fy_pool *pool, size_t length, uint32_t pes, struct ferry_error *error)
{
    fy_error_set(
        error, FERRY_ERR_NOMEM, "enlarge the pool (sysctl vm.nr_hugepages), or set FERRY_HEAP_PAGES=auto",
        "FERRY_HEAP_PAGES is huge, and %u PEs on this host need %zu pages of 2 MiB each: the pool has %llu, of which "
        "%llu are free and %llu of those reserved, and may grow by %llu",
        (unsigned)pes, length / FY_GRANULE, (unsigned long long)pool->total, (unsigned long long)pool->free,
        (unsigned long long)pool->reserved, (unsigned long long)pool->more);
    return FERRY_ERR_NOMEM;
}

int fy_pages_plan(const struct fy_heap_config *config, size_t length, struct ferry_error *error)
{
    uint32_t pes = config->local_pes ? config->local_pes : 1;
    uint64_t needed = (uint64_t)(length / FY_GRANULE) * pes;
    struct fy_limits limits;
    struct fy_pool pool;

    fy_limits_read(config->system_root, &limits);
    if (config->pages == FY_PAGES_SMALL)
        return fy_limits_check(&limits, length, pes, error);
    fy_pool_read(config->system_root, &pool);
    if (unclaimed(&pool) >= needed) { /* the pool's memory is not among what is available to others, nor the cgroup's */
        limits.available = limits.cgroup_limit = UINT64_MAX;
        return fy_limits_check(&limits, length, pes, error);
    }
    if (config->pages == FY_PAGES_HUGE && unclaimed(&pool) + pool.more < needed)
        return too_few(&pool, length, pes, error);
    return fy_limits_check(&limits, length, pes, error);
}

/* ------------------------------------------------------------------ backing */

/* Has the kernel find the pages now, where that can be refused, and not at the first store, where it could only kill.
 * In steps: a signal interrupts a call, and undoes all it did. */
static int commit(int fd, size_t length)
{
    for (size_t at = 0; at < length;) {
        size_t step = length - at < STEP ? length - at : STEP;

        if (fallocate(fd, 0, (off_t)at, (off_t)step) == 0)
            at += step;
        else if (errno != EINTR)
            return errno;
    }
    return 0;
}

/* The same through a mapping, whose advice the kernel then heeds. It need not succeed: commit follows. */
static void populate(char *address, size_t length)
{
#ifdef MADV_POPULATE_WRITE
    for (size_t at = 0; at < length;) {
        size_t step = length - at < STEP ? length - at : STEP;

        if (madvise(address + at, step, MADV_POPULATE_WRITE) == 0)
            at += step;
        else if (errno != EINTR)
            return;
    }
#else
    (void)address;
    (void)length;
#endif
}

static int map(int fd, void *address, size_t length)
{
    return mmap(address, length, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0) == MAP_FAILED ? errno : 0;
}

static void unmap(void *address, size_t length)
{
    /* In one step, so that no other thread's mapping can come in between. */
    mmap(address, length, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
}

static int make_file(unsigned flags, size_t length, int *fd, const char **what)
{
    int why;

    *what = "make a memory file";
    *fd = memfd_create("ferry-heap", MFD_CLOEXEC | flags);
    if (*fd < 0)
        return errno;
    *what = "back a chunk";
    if (ftruncate(*fd, (off_t)length) == 0)
        return 0;
    why = errno;
    close(*fd);
    return why;
}

static int from_pool(void *address, size_t length, int *fd, const char **what)
{
    int why = make_file(MFD_HUGETLB | MFD_HUGE_2MB, length, fd, what);

    if (why)
        return why;
    why = commit(*fd, length);
    if (!why) {
        *what = "map a chunk";
        why = map(*fd, address, length);
    }
    if (why)
        close(*fd);
    else
        *what = "huge pages from the pool";
    return why;
}

static int from_memory(const struct fy_heap_config *config, void *address, size_t length, int *fd, const char **what)
{
    enum transparent how = config->pages == FY_PAGES_SMALL ? NEVER : transparent_pages(config->system_root);
    int why = make_file(0, length, fd, what);

    if (why)
        return why;
    *what = "map a chunk";
    why = map(*fd, address, length);
    if (why) {
        close(*fd);
        return why;
    }
    madvise(address, length, config->pages == FY_PAGES_SMALL ? MADV_NOHUGEPAGE : MADV_HUGEPAGE); /* a wish */
    if (how == ASKED)
        populate(address, length);
    *what = "back a chunk";
    why = commit(*fd, length);
    if (why) {
        unmap(address, length);
        close(*fd);
        return why;
    }
    *what = how == NEVER ? "small pages" : "transparent huge pages where the kernel has them";
    return 0;
}

int fy_pages_map(const struct fy_heap_config *config, void *address, size_t length, int *fd, const char **what)
{
    struct fy_limits limits;
    struct ferry_error error;
    struct fy_pool pool;
    int why;

    fy_pool_read(config->system_root, &pool);
    if (config->pages == FY_PAGES_HUGE || (config->pages == FY_PAGES_AUTO && unclaimed(&pool) >= length / FY_GRANULE)) {
        why = from_pool(address, length, fd, what);
        if (!why || config->pages == FY_PAGES_HUGE)
            return why;
        /* Somebody was faster. What the pool was to give is now to come out of the rest. */
        fy_limits_read(config->system_root, &limits);
        *what = "back a chunk";
        if (fy_limits_check(&limits, length, config->local_pes, &error) != FERRY_OK)
            return ENOMEM;
    }
    return from_memory(config, address, length, fd, what);
}
