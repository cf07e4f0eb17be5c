/* SPDX-License-Identifier: Apache-2.0
 * From a file to an accepted plugin: dlopen, the symbol and whose it is, the ABI major, the malformed ones.
 * Setup thread. Nothing of the plugin is called here, and nothing but `abi` is read before the major was compared. */
#include "internal.h"
#include <dlfcn.h>
#include <link.h>
#include <stdio.h>
#include <string.h>

#define OLDEST_OTHER_MAJOR 0u
#define NEWEST_OTHER_MAJOR 16u

enum origin { ORIGIN_NONE, ORIGIN_OWN, ORIGIN_OTHER };

/* dlsym also looks into what the file depends on: a plugin linked to another plugin would pass for it. */
static enum origin find_symbol(void *library, const char *name, const void **address, const char **owner)
{
    struct link_map *mine = NULL, *theirs = NULL;
    Dl_info info;

    *owner = "an unknown file";
    *address = dlsym(library, name);
    if (!*address)
        return ORIGIN_NONE;
    if (dlinfo(library, RTLD_DI_LINKMAP, &mine) != 0 || !dladdr1(*address, &info, (void **)&theirs, RTLD_DL_LINKMAP) ||
        !theirs)
        return ORIGIN_OTHER;
    /* dladdr's copy of the pointer: the map itself belongs to the loader and is guarded by its lock. */
    if (info.dli_fname)
        *owner = info.dli_fname;
    return mine == theirs ? ORIGIN_OWN : ORIGIN_OTHER;
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

/* No symbol of our major: is it a plugin of another one? */
static enum fy_outcome other_major(struct fy_transport *t)
{
    const void *address;
    const char *owner;
    char name[32];

    for (unsigned major = OLDEST_OTHER_MAJOR; major <= NEWEST_OTHER_MAJOR; major++) {
        snprintf(name, sizeof(name), "ferry_plugin_v%u", major);
        if (major == FERRY_TRANSPORT_ABI_MAJOR || find_symbol(t->library, name, &address, &owner) != ORIGIN_OWN)
            continue;
        fy_candidate_refuse(t, FY_REFUSED_ABI, "it speaks transport ABI %u (%s), this library speaks %u.%u", major,
                            name, FERRY_TRANSPORT_ABI_MAJOR, FERRY_TRANSPORT_ABI_MINOR);
        return t->outcome;
    }
    fy_candidate_refuse(t, FY_REFUSED_NO_PLUGIN, "it is no Ferry plugin: it has no symbol " FERRY_PLUGIN_SYMBOL);
    return t->outcome;
}

static enum fy_outcome open_library(struct fy_transport *t)
{
    size_t length = strlen(t->path);
    const char *why;

    t->library = dlopen(t->path, RTLD_NOW | RTLD_LOCAL);
    if (t->library)
        return FY_FOUND;
    why = dlerror();
    if (!why)
        why = "no reason given";
    /* The reason stands beside the path already. */
    if (strncmp(why, t->path, length) == 0 && strncmp(why + length, ": ", 2) == 0)
        why += length + 2;
    fy_candidate_refuse(t, FY_REFUSED_FILE, "it cannot be loaded: %s", why);
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
    if (plugin->abi >> 16 != FERRY_TRANSPORT_ABI_MAJOR) {
        fy_candidate_refuse(t, FY_REFUSED_ABI, "it speaks transport ABI %u.%u, this library speaks %u.%u",
                            plugin->abi >> 16, plugin->abi & 0xffff, FERRY_TRANSPORT_ABI_MAJOR,
                            FERRY_TRANSPORT_ABI_MINOR);
        return t->outcome;
    }
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
    char why[256];
    const void *address;
    const char *owner;
    enum fy_outcome outcome = fy_elf_check(t->path, why, sizeof(why));

    if (outcome != FY_FOUND) {
        fy_candidate_refuse(t, outcome, "%s", why);
        return outcome;
    }
    if (open_library(t) != FY_FOUND)
        return t->outcome;
    switch (find_symbol(t->library, FERRY_PLUGIN_SYMBOL, &address, &owner)) {
    case ORIGIN_NONE:
        return other_major(t);
    case ORIGIN_OTHER:
        fy_candidate_refuse(t, FY_REFUSED_NO_PLUGIN,
                            "it is no Ferry plugin itself: the symbol " FERRY_PLUGIN_SYMBOL " comes from %s", owner);
        return t->outcome;
    case ORIGIN_OWN:
        break;
    }
    return accept(t, address);
}
