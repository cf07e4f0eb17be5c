/* SPDX-License-Identifier: Apache-2.0
 * Memory that a request reads or writes. Of another process: what is a shared mapping of a file, as Ferry's heap is, is
 * mapped here by way of /proc/PID/fd, and words are stored as a whole; the rest goes by process_vm_writev and _readv.
 * Any thread, under the table's lock. */
#include "reach.h"
#include "internal.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/uio.h>
#include <unistd.h>

/* A file of another process, mapped as a whole. */
static struct view {
    uint32_t key; /* of the registration that it was mapped for; 0: none */
    char *at;     /* NULL: it cannot be mapped */
    size_t length;
} views[TABLE_MRS];

static uint64_t load(const char *from)
{
    char bytes[8];
    uint64_t word;

    if (!((uintptr_t)from & 7))
        return __atomic_load_n((const uint64_t *)(const void *)from, __ATOMIC_RELAXED);
    for (int i = 0; i < 8; i++)
        bytes[i] = __atomic_load_n(from + i, __ATOMIC_RELAXED);
    memcpy(&word, bytes, 8);
    return word;
}

void fv_copy(void *to, const void *from, size_t length)
{
    char *t = to;
    const char *f = from;

    while (length) {
        size_t step = (uintptr_t)t & 7 || length < 8 ? 1 : 8;
        if (step == 8)
            __atomic_store_n((uint64_t *)(void *)t, load(f), __ATOMIC_RELEASE);
        else
            __atomic_store_n(t, __atomic_load_n(f, __ATOMIC_RELAXED), __ATOMIC_RELEASE);
        t += step;
        f += step;
        length -= step;
    }
}

/* ------------------------------------------------------------------ the owner's side */

struct mapping {
    dev_t device;
    ino_t file;
    uint64_t from; /* of the registration's first byte in the file */
};

/* The file whose shared mapping covers the memory as one piece. */
static bool find_mapping(uint64_t address, uint64_t length, struct mapping *m)
{
    FILE *maps = fopen("/proc/self/maps", "re");
    uint64_t next = address;
    char line[512];

    while (maps && next < address + length && fgets(line, sizeof line, maps)) {
        uint64_t start, end, offset, inode;
        unsigned major, minor;
        char rights[8];
        if (sscanf(line, "%" SCNx64 "-%" SCNx64 " %7s %" SCNx64 " %x:%x %" SCNu64, &start, &end, rights, &offset,
                   &major, &minor, &inode) != 7)
            continue;
        if (end <= next)
            continue;
        struct mapping here = {makedev(major, minor), inode, offset + (address - start)};
        if (start > next || rights[3] != 's' || !inode)
            break;
        if (next != address && (here.file != m->file || here.device != m->device || here.from != m->from))
            break;
        *m = here;
        next = end;
    }
    if (maps)
        fclose(maps);
    return next >= address + length;
}

/* A descriptor of that file which stays open, whatever the program does with its own. */
static int find_file(const struct mapping *m)
{
    for (int fd = 0; fd < 1024; fd++) {
        struct stat s;
        if (fstat(fd, &s) == 0 && S_ISREG(s.st_mode) && s.st_ino == m->file && s.st_dev == m->device)
            return fcntl(fd, F_DUPFD_CLOEXEC, 3);
    }
    return -1;
}

void fv_reach_open(struct entry_mr *mr)
{
    struct mapping m = {0};

    if (!fv_table_shared() || !mr->length || !find_mapping(mr->address, mr->length, &m))
        return;
    mr->fd = find_file(&m);
    mr->from = m.from;
}

void fv_reach_close(struct entry_mr *mr)
{
    if (mr->fd >= 0)
        close(mr->fd);
    mr->fd = -1;
}

/* ------------------------------------------------------------------ the other side */

static void drop(struct view *v)
{
    if (v->at)
        munmap(v->at, v->length);
    *v = (struct view){0};
}

static void map(struct view *v, const struct entry_mr *mr, pid_t pid)
{
    char path[64];
    struct stat s;
    int fd;

    snprintf(path, sizeof path, "/proc/%ld/fd/%d", (long)pid, mr->fd);
    fd = open(path, O_RDWR | O_CLOEXEC);
    if (fd < 0)
        return;
    if (fstat(fd, &s) == 0 && (uint64_t)s.st_size >= mr->from + mr->length) {
        void *at = mmap(NULL, (size_t)s.st_size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        if (at != MAP_FAILED)
            *v = (struct view){.key = v->key, .at = at, .length = (size_t)s.st_size};
    }
    close(fd);
}

/* Where this process sees an address of the registration; NULL: nowhere. */
static char *see(const struct entry_mr *mr, uint64_t at, pid_t pid)
{
    struct view *v = &views[mr->number & (TABLE_MRS - 1)];

    if (mr->fd < 0)
        return NULL;
    if (v->key != mr->number) {
        drop(v);
        v->key = mr->number;
        map(v, mr, pid);
    }
    return v->at ? v->at + mr->from + (at - mr->address) : NULL;
}

static int across(pid_t pid, uint64_t at, void *local, size_t length, bool write)
{
    while (length) {
        struct iovec here = {local, length}, there = {(void *)(uintptr_t)at, length};
        ssize_t n =
            write ? process_vm_writev(pid, &here, 1, &there, 1, 0) : process_vm_readv(pid, &here, 1, &there, 1, 0);
        if (n <= 0)
            return n < 0 ? errno : EFAULT;
        at += (uint64_t)n;
        local = (char *)local + n;
        length -= (size_t)n;
    }
    return 0;
}

static int reach(const struct entry_mr *mr, uint64_t at, void *local, size_t length, bool write)
{
    pid_t pid;
    char *there;

    if (mr->slot == fv_table_slot()) {
        there = (char *)(uintptr_t)at;
    } else {
        if (!fv_table_alive(mr->slot))
            return ESRCH;
        pid = fv_table_pid(mr->slot);
        there = see(mr, at, pid);
        if (!there)
            return across(pid, at, local, length, write);
    }
    if (fv.fast && length > 64) /* longer than any word that somebody waits for */
        memcpy(write ? there : local, write ? local : there, length);
    else
        fv_copy(write ? there : local, write ? local : there, length);
    return 0;
}

int fv_reach_write(const struct entry_mr *mr, uint64_t at, const void *from, size_t length)
{
    return reach(mr, at, (void *)(uintptr_t)from, length, true);
}

int fv_reach_read(const struct entry_mr *mr, uint64_t at, void *to, size_t length)
{
    return reach(mr, at, to, length, false);
}

void fv_reach_forget(void)
{
    for (uint32_t i = 0; i < TABLE_MRS; i++)
        drop(&views[i]);
}
