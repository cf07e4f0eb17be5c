/* SPDX-License-Identifier: Apache-2.0
 * The file behind memory that UCX has mapped, so that other transports can share it, too: UCX keeps it open for its peers,
 * but does not tell. Setup thread. */
#include "ucx.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

struct backing {
    dev_t device;
    ino_t inode;
    unsigned long long offset;
};

/* The mapping that starts at an address, as /proc/self/maps has it. 0: there is none, or it has no file. */
static int find_mapping(const void *address, size_t length, struct backing *b)
{
    FILE *file = fopen("/proc/self/maps", "re");
    unsigned long long from, to, inode = 0;
    unsigned major, minor;
    char line[512];
    int found = 0;

    while (file && !found && fgets(line, sizeof line, file)) {
        if (sscanf(line, "%llx-%llx %*4s %llx %x:%x %llu", &from, &to, &b->offset, &major, &minor, &inode) != 6)
            continue;
        found = from == (uintptr_t)address && to - from >= length;
    }
    if (file)
        fclose(file);
    b->device = makedev(major, minor);
    b->inode = (ino_t)inode;
    return found && inode;
}

int fy_ux_backing(const void *address, size_t length, uint64_t *offset)
{
    struct backing b;
    struct stat status;
    struct dirent *entry;
    int copy = -1, fd;
    DIR *folder;

    if (!find_mapping(address, length, &b))
        return -1;
    folder = opendir("/proc/self/fd");
    while (folder && copy < 0 && (entry = readdir(folder))) {
        fd = atoi(entry->d_name);
        if (entry->d_name[0] != '.' && !fstat(fd, &status) && status.st_dev == b.device && status.st_ino == b.inode)
            copy = fcntl(fd, F_DUPFD_CLOEXEC, 0);
    }
    if (folder)
        closedir(folder);
    *offset = b.offset;
    return copy;
}
