/* SPDX-License-Identifier: Apache-2.0
 * From a file to an accepted plugin: the symbol and its ABI major, read from the file; then dlopen, which runs
 * constructors; then the malformed ones. Setup thread. No function of the plugin's tables is called here. */
#include "internal.h"
#include "module.h"
#include <stdio.h>
#include <string.h>

#define OLDEST_OTHER_MAJOR 0u
#define NEWEST_OTHER_MAJOR 16u

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

static enum fy_outcome open_library(struct fy_transport *t)
{
    char why[400];

    t->library = fy_module_open(t->path, why, sizeof(why));
    if (t->library)
        return FY_FOUND;
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
    size_t available = fy_module_symbol_size(plugin);
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
    address = fy_module_symbol(t->library, FERRY_PLUGIN_SYMBOL);
    return address ? accept(t, address) : no_symbol(t);
}
