/* SPDX-License-Identifier: Apache-2.0
 * Reads a symbol out of a file that is not loaded, since loading runs its constructors. It looks where the loader does:
 * the dynamic segment, its hash table, the symbol. Every number in the file may be a lie. Setup thread. */
#include "internal.h"
#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <string.h>
#include <unistd.h>

#define NAME_BYTES  32
#define DYNAMIC_MAX 4096u  /* entries */
#define CHAIN_MAX   65536u /* symbols in one bucket */

/* What is needed of one file. Addresses are the file's own, before relocation; 0: it has no such table. */
struct image {
    int fd;
    unsigned n_segments;
    ElfW(Phdr) segments[FY_ELF_SEGMENTS];
    uint64_t symbols, strings, gnu_hash, hash;
};

/* Bytes that the loader would find at that address. Those that are in no file, being zeroed, are not read. */
static bool read_address(const struct image *image, uint64_t address, void *buffer, size_t size)
{
    for (unsigned i = 0; i < image->n_segments; i++) {
        const ElfW(Phdr) *segment = &image->segments[i];

        if (segment->p_type != PT_LOAD || address < segment->p_vaddr || segment->p_filesz < size ||
            address - segment->p_vaddr > segment->p_filesz - size)
            continue;
        return fy_elf_read(image->fd, buffer, size, segment->p_offset + (address - segment->p_vaddr));
    }
    return false;
}

/* Element `index` of a table of 32-bit numbers. */
static bool read_word(const struct image *image, uint64_t table, uint64_t index, uint32_t *word)
{
    return read_address(image, table + index * sizeof(*word), word, sizeof(*word));
}

static void take_entry(struct image *image, const ElfW(Dyn) * entry)
{
    switch (entry->d_tag) {
    case DT_SYMTAB:
        image->symbols = entry->d_un.d_ptr;
        break;
    case DT_STRTAB:
        image->strings = entry->d_un.d_ptr;
        break;
    case DT_GNU_HASH:
        image->gnu_hash = entry->d_un.d_ptr;
        break;
    case DT_HASH:
        image->hash = entry->d_un.d_ptr;
        break;
    default:
        break;
    }
}

static bool read_dynamic(struct image *image)
{
    const ElfW(Phdr) *dynamic = NULL;
    ElfW(Dyn) entry;

    for (unsigned i = 0; i < image->n_segments; i++)
        if (image->segments[i].p_type == PT_DYNAMIC)
            dynamic = &image->segments[i];
    for (unsigned i = 0; dynamic && i < DYNAMIC_MAX; i++) {
        if (!read_address(image, dynamic->p_vaddr + i * sizeof(entry), &entry, sizeof(entry)) || entry.d_tag == DT_NULL)
            break;
        take_entry(image, &entry);
    }
    return image->symbols && image->strings;
}

static bool read_image(struct image *image)
{
    ElfW(Ehdr) header;

    if (!fy_elf_read(image->fd, &header, sizeof(header), 0) || header.e_phentsize != sizeof(image->segments[0]) ||
        header.e_phnum > FY_ELF_SEGMENTS)
        return false;
    image->n_segments = header.e_phnum;
    return fy_elf_read(image->fd, image->segments, header.e_phnum * sizeof(image->segments[0]), header.e_phoff) &&
           read_dynamic(image);
}

/* Is symbol `index` the one, and defined here as data? */
static bool is_symbol(const struct image *image, uint32_t index, const char *name, ElfW(Sym) * symbol)
{
    size_t length = strlen(name) + 1;
    char found[NAME_BYTES];
    unsigned type, binding;

    if (length > sizeof(found) ||
        !read_address(image, image->symbols + (uint64_t)index * sizeof(*symbol), symbol, sizeof(*symbol)) ||
        !read_address(image, image->strings + symbol->st_name, found, length) || memcmp(found, name, length) != 0)
        return false;
    type = ELF64_ST_TYPE(symbol->st_info); /* the same for 32 bits */
    binding = ELF64_ST_BIND(symbol->st_info);
    return symbol->st_shndx != SHN_UNDEF && symbol->st_shndx != SHN_ABS && binding != STB_LOCAL &&
           (type == STT_OBJECT || type == STT_NOTYPE);
}

static bool find_gnu(const struct image *image, const char *name, ElfW(Sym) * symbol)
{
    enum { BUCKETS, FIRST, BLOOM, SHIFT, HEAD };
    uint64_t buckets, chain;
    uint32_t head[HEAD], index, word, hash = 5381;

    for (const char *p = name; *p; p++)
        hash = hash * 33 + (unsigned char)*p;
    if (!read_address(image, image->gnu_hash, head, sizeof(head)) || head[BUCKETS] == 0)
        return false;
    buckets = image->gnu_hash + sizeof(head) + (uint64_t)head[BLOOM] * sizeof(ElfW(Addr));
    chain = buckets + (uint64_t)head[BUCKETS] * sizeof(word);
    if (!read_word(image, buckets, hash % head[BUCKETS], &index) || index < head[FIRST])
        return false;
    for (unsigned i = 0; i < CHAIN_MAX; i++, index++) {
        if (!read_word(image, chain, index - head[FIRST], &word))
            return false;
        if ((word | 1) == (hash | 1) && is_symbol(image, index, name, symbol))
            return true;
        if (word & 1) /* the last of its bucket */
            return false;
    }
    return false;
}

static bool find_sysv(const struct image *image, const char *name, ElfW(Sym) * symbol)
{
    uint32_t head[2], index, hash = 0, top;

    for (const char *p = name; *p; p++) {
        hash = (hash << 4) + (unsigned char)*p;
        top = hash & 0xf0000000;
        hash = (hash ^ top >> 24) & ~top;
    }
    if (!read_address(image, image->hash, head, sizeof(head)) || head[0] == 0 ||
        !read_word(image, image->hash + sizeof(head), hash % head[0], &index))
        return false;
    for (unsigned i = 0; i < CHAIN_MAX && index != STN_UNDEF; i++) {
        if (is_symbol(image, index, name, symbol))
            return true;
        if (!read_word(image, image->hash + sizeof(head), (uint64_t)head[0] + index, &index))
            return false;
    }
    return false;
}

bool fy_elf_symbol(const char *path, const char *name, uint32_t *word)
{
    struct image image = {.fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK)};
    ElfW(Sym) symbol;
    bool found;

    if (image.fd < 0)
        return false;
    found = read_image(&image) &&
            (image.gnu_hash ? find_gnu(&image, name, &symbol) : image.hash && find_sysv(&image, name, &symbol));
    /* Not in the file: it is zeroed when it is loaded. */
    if (found && !read_address(&image, symbol.st_value, word, sizeof(*word)))
        *word = 0;
    close(image.fd);
    return found;
}
