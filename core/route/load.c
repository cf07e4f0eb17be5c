/* SPDX-License-Identifier: Apache-2.0
 * From a file to an accepted plugin: the symbol and its ABI major, read from the file; then dlopen, which runs
 * constructors; then the malformed ones. Setup thread. No function of the plugin's tables is called here. */
#include "internal.h"
#include <dlfcn.h>
#include <link.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#define OLDEST_OTHER_MAJOR 0u
#define NEWEST_OTHER_MAJOR 16u

/* dlsym also looks into what the file depends on: a plugin linked to another plugin would pass for it. NULL: not its
 * own. */
static const void *own_symbol(void *library, const char *name)
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
static size_t symbol_size(const void *address)
{
    const ElfW(Sym) *symbol = NULL;
    Dl_info info;

    if (!dladdr1(address, &info, (void **)&symbol, RTLD_DL_SYMENT) || !symbol || info.dli_saddr != address)
        return 0;
    return symbol->st_size;
}

static enum fy_outcome no_symbol(struct fy_transport *t)
{
    fy_candidate_refuse(t, FY_REFUSED_NO_PLUGIN,
                        "it is no Ferry plugin: it has no symbol " FERRY_PLUGIN_SYMBOL " of its own");
    return t->outcome;
}

static enum fy_outcome other_abi(struct fy_transport *t, uint32_t abi)
{
    fy_candidate_refuse(t, FY_REFUSED_ABI, "it speaks transport ABI %u.%u, this library speaks %u.%u", abi >> 16,
                        abi & 0xffff, FERRY_TRANSPORT_ABI_MAJOR, FERRY_TRANSPORT_ABI_MINOR);
    return t->outcome;
}

/* No symbol of our major: is it a plugin of another one? */
static enum fy_outcome other_major(struct fy_transport *t)
{
    uint32_t word;
    char name[32];

    for (unsigned major = OLDEST_OTHER_MAJOR; major <= NEWEST_OTHER_MAJOR; major++) {
        snprintf(name, sizeof(name), "ferry_plugin_v%u", major);
        if (major == FERRY_TRANSPORT_ABI_MAJOR || !fy_elf_symbol(t->path, name, &word))
            continue;
        fy_candidate_refuse(t, FY_REFUSED_ABI, "it speaks transport ABI %u (%s), this library speaks %u.%u", major,
                            name, FERRY_TRANSPORT_ABI_MAJOR, FERRY_TRANSPORT_ABI_MINOR);
        return t->outcome;
    }
    return no_symbol(t);
}

/* Before anything of the file runs: loading it runs its constructors, and those of what it depends on. */
static enum fy_outcome check_file(struct fy_transport *t)
{
    char why[256];
    uint32_t abi;
    enum fy_outcome outcome = fy_elf_check(t->path, why, sizeof(why));

    if (outcome != FY_FOUND) {
        fy_candidate_refuse(t, outcome, "%s", why);
        return outcome;
    }
    if (!fy_elf_symbol(t->path, FERRY_PLUGIN_SYMBOL, &abi))
        return other_major(t);
    return abi >> 16 == FERRY_TRANSPORT_ABI_MAJOR ? FY_FOUND : other_abi(t, abi);
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

static enum fy_outcome open_library(struct fy_transport *t)
{
    size_t length = strlen(t->path);
    const char *why, *package;

    t->library = open_quietly(t->path);
    if (t->library)
        return FY_FOUND;
    why = dlerror();
    if (!why)
        why = "no reason given";
    /* The reason stands beside the path already. */
    if (strncmp(why, t->path, length) == 0 && strncmp(why + length, ": ", 2) == 0)
        why += length + 2;
    package = package_of(why);
    fy_candidate_refuse(t, FY_REFUSED_FILE, "it cannot be loaded: %s%s%s", why, package ? "; install the package " : "",
                        package ? package : "");
    return t->outcome;
}

/* A file found by name must answer to that name: FERRY_<NAME>_… and the table speak of the plugin's own. */
static enum fy_outcome accept_name(struct fy_transport *t, const struct ferry_plugin *plugin)
{
    if (t->by_path) {
        snprintf(t->name, sizeof(t->name), "%s", plugin->name);
    } else if (strcmp(t->name, plugin->name) != 0) {
        fy_candidate_refuse(t, FY_REFUSED_NO_PLUGIN, "the plugin in it is named %s, so its file must be named %s.so",
                            plugin->name, plugin->name);
        return t->outcome;
    }
    return FY_FOUND;
}

static enum fy_outcome accept(struct fy_transport *t, const struct ferry_plugin *plugin)
{
    size_t available = symbol_size(plugin);
    char why[256];

    if (available > 0 && available < sizeof(plugin->abi) + sizeof(plugin->size)) {
        fy_candidate_refuse(t, FY_REFUSED_NO_PLUGIN, "its " FERRY_PLUGIN_SYMBOL " is malformed: %zu bytes", available);
        return t->outcome;
    }
    /* Again: the file may have been replaced in between. */
    if (plugin->abi >> 16 != FERRY_TRANSPORT_ABI_MAJOR)
        return other_abi(t, plugin->abi);
    if (!fy_plugin_check(plugin, available, why, sizeof(why))) {
        fy_candidate_refuse(t, FY_REFUSED_NO_PLUGIN, "its " FERRY_PLUGIN_SYMBOL " is malformed: %s", why);
        return t->outcome;
    }
    if (accept_name(t, plugin) != FY_FOUND)
        return t->outcome;
    t->plugin = plugin;
    fy_ops_overlay(&t->ops, plugin->ops);
    return FY_FOUND;
}

enum fy_outcome fy_load(struct fy_transport *t)
{
    const void *address;

    if (check_file(t) != FY_FOUND || open_library(t) != FY_FOUND)
        return t->outcome;
    address = own_symbol(t->library, FERRY_PLUGIN_SYMBOL);
    return address ? accept(t, address) : no_symbol(t);
}
