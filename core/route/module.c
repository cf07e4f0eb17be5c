/* SPDX-License-Identifier: Apache-2.0
 * Loading a shared object with care: what is looked at before, whose symbols count, which package a missing library is in.
 * Setup thread. No function of what was loaded is called here. */
#include "module.h"
#include "internal.h"
#include <dlfcn.h>
#include <link.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

/* dlsym also looks into what the file depends on: a plugin linked to another plugin would pass for it. NULL: not its
 * own. */
const void *fy_module_symbol(void *library, const char *name)
{
    struct link_map *mine = NULL, *theirs = NULL;
    const void *address = dlsym(library, name);
    Dl_info info;

    if (!address || dlinfo(library, RTLD_DI_LINKMAP, &mine) != 0 ||
        !dladdr1(address, &info, (void **)&theirs, RTLD_DL_LINKMAP))
        return NULL;
    return mine == theirs ? address : NULL;
}

/* Size of the object at `address` as its file states it; 0: not stated. */
size_t fy_module_symbol_size(const void *address)
{
    const ElfW(Sym) *symbol = NULL;
    Dl_info info;

    if (!dladdr1(address, &info, (void **)&symbol, RTLD_DL_SYMENT) || !symbol || info.dli_saddr != address)
        return 0;
    return symbol->st_size;
}

/* Which package has a library that a plugin needs: Debian's name, and Fedora's where that differs. NULL: not known. */
static const char *package_of(const char *why)
{
    static const struct {
        const char *library, *package;
    } known[] = {
        {"libfabric.so.", "libfabric1 (Debian, Ubuntu) or libfabric (Fedora, RHEL)"},
        {"libibverbs.so.", "libibverbs1 (Debian, Ubuntu) or libibverbs (Fedora, RHEL)"},
        {"libucp.so.", "libucx0 (Debian, Ubuntu) or ucx (Fedora, RHEL)"},
        {"libpmix.so.", "libpmix2 (Debian, Ubuntu) or pmix (Fedora, RHEL)"},
        {"libhwloc.so.", "libhwloc15 (Debian, Ubuntu) or hwloc-libs (Fedora, RHEL)"},
    };

    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
        if (strncmp(why, known[i].library, strlen(known[i].library)) == 0)
            return known[i].package;
    return NULL;
}

/* What a plugin needs may come with constructors that install signal handlers: libpsm2, which Debian's libfabric needs, ends
 * the process on SIGTERM with status 1, as if it had not been killed. Handlers are the program's. */
static void *open_quietly(const char *path)
{
    struct sigaction was[NSIG], is;
    int known[NSIG];
    void *library;

    for (int i = 1; i < NSIG; i++)
        known[i] = sigaction(i, NULL, &was[i]) == 0;
    library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    for (int i = 1; i < NSIG; i++)
        if (known[i] && sigaction(i, NULL, &is) == 0 && is.sa_handler != was[i].sa_handler)
            sigaction(i, &was[i], NULL);
    return library;
}

void *fy_module_open(const char *path, char *out, size_t size)
{
    size_t length = strlen(path);
    const char *why, *package;
    void *library = open_quietly(path);

    if (library)
        return library;
    why = dlerror();
    if (!why)
        why = "no reason given";
    /* The reason stands beside the path already. */
    if (strncmp(why, path, length) == 0 && strncmp(why + length, ": ", 2) == 0)
        why += length + 2;
    package = package_of(why);
    snprintf(out, size, "%s%s%s", why, package ? "; install the package " : "", package ? package : "");
    return NULL;
}

bool fy_module_folder(const char *installed, const char *built, char *folder, size_t size)
{
    return fy_search_beside(installed, built, folder, size);
}

bool fy_module_name(const char *name)
{
    return fy_name_valid(name);
}

const char *fy_module_check(const char *path, const char *symbol, uint32_t *word, char *why, size_t size)
{
    if (fy_elf_check(path, why, size) != FY_FOUND)
        return why;
    if (fy_elf_symbol(path, symbol, word))
        return NULL;
    snprintf(why, size, "it has no symbol %s of its own", symbol);
    return why;
}
