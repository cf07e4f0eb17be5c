/* SPDX-License-Identifier: Apache-2.0
 * Looks at a file before dlopen does: says what it is instead, and keeps a truncated one from being mapped (touching
 * pages past its end would end the process with SIGBUS). Setup thread. */
#include "internal.h"
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define NATIVE_CLASS (sizeof(void *) == 8 ? ELFCLASS64 : ELFCLASS32)
#define NATIVE_DATA  (__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ ? ELFDATA2LSB : ELFDATA2MSB)

bool fy_elf_read(int fd, void *buffer, size_t size, uint64_t offset)
{
    ssize_t n;

    if (offset > (uint64_t)INT64_MAX - size)
        return false;
    do
        n = pread(fd, buffer, size, (off_t)offset);
    while (n < 0 && errno == EINTR);
    return n == (ssize_t)size;
}

/* false: the file ends before what its headers promise; *promised: its least size. */
static bool complete(int fd, const ElfW(Ehdr) * header, uint64_t size, uint64_t *promised)
{
    ElfW(Phdr) segment;
    uint64_t end = (uint64_t)header->e_phoff + (uint64_t)header->e_phnum * sizeof(segment);

    *promised = end;
    if (header->e_phentsize != sizeof(segment) || header->e_phnum > FY_ELF_SEGMENTS || end > size ||
        end < header->e_phoff)
        return false;
    for (unsigned i = 0; i < header->e_phnum; i++) {
        if (!fy_elf_read(fd, &segment, sizeof(segment), header->e_phoff + i * sizeof(segment)))
            return false;
        end = (uint64_t)segment.p_offset + segment.p_filesz;
        if (end > *promised)
            *promised = end;
        if (end > size || end < segment.p_offset)
            return false;
    }
    end = header->e_shnum ? header->e_shoff + (uint64_t)header->e_shnum * header->e_shentsize : 0;
    if (end > *promised)
        *promised = end;
    return end <= size;
}

static enum fy_outcome check_open(int fd, const struct stat *st, char *reason, size_t size)
{
    ElfW(Ehdr) header = {0};
    uint64_t promised = 0, bytes = (uint64_t)st->st_size;

    if (bytes < SELFMAG || !fy_elf_read(fd, header.e_ident, SELFMAG, 0) ||
        memcmp(header.e_ident, ELFMAG, SELFMAG) != 0) {
        snprintf(reason, size, "it is not a shared object (%llu bytes without an ELF header)",
                 (unsigned long long)bytes);
        return FY_REFUSED_FILE;
    }
    if (bytes < sizeof(header) || !fy_elf_read(fd, &header, sizeof(header), 0)) {
        snprintf(reason, size, "it is truncated: %llu bytes end within the ELF header", (unsigned long long)bytes);
        return FY_REFUSED_FILE;
    }
    if (header.e_ident[EI_CLASS] != NATIVE_CLASS) {
        snprintf(reason, size, "it is built for another machine (ELF class %u)", header.e_ident[EI_CLASS]);
        return FY_REFUSED_FILE;
    }
    if (header.e_ident[EI_DATA] != NATIVE_DATA) {
        snprintf(reason, size, "it is built for another machine (ELF byte order %u)", header.e_ident[EI_DATA]);
        return FY_REFUSED_FILE;
    }
    if (header.e_type != ET_DYN) {
        snprintf(reason, size, "it is not a shared object (ELF type %u)", header.e_type);
        return FY_REFUSED_FILE;
    }
    if (!complete(fd, &header, bytes, &promised)) {
        snprintf(reason, size, "it is truncated or damaged: %llu bytes, its headers promise %llu at least",
                 (unsigned long long)bytes, (unsigned long long)promised);
        return FY_REFUSED_FILE;
    }
    return FY_FOUND;
}

enum fy_outcome fy_elf_check(const char *path, char *reason, size_t size)
{
    enum fy_outcome outcome = FY_REFUSED_FILE;
    struct stat st;
    /* O_NONBLOCK: a pipe of that name must not stop us. */
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);

    if (fd < 0) {
        outcome = errno == ENOENT || errno == ENOTDIR ? FY_NOT_FOUND : FY_REFUSED_FILE;
        snprintf(reason, size, outcome == FY_NOT_FOUND ? "there is no such file" : "it cannot be read: %m");
        return outcome;
    }
    if (fstat(fd, &st) != 0)
        snprintf(reason, size, "it cannot be examined: %m");
    else if (S_ISDIR(st.st_mode))
        snprintf(reason, size, "it is a directory");
    else if (!S_ISREG(st.st_mode))
        snprintf(reason, size, "it is not a regular file");
    else
        outcome = check_open(fd, &st, reason, size);
    close(fd);
    return outcome;
}
