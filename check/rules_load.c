/* SPDX-License-Identifier: Apache-2.0
 * Item 58: the plugin by itself, without the library: its table, what an instance claims, what opening and closing
 * leaves behind, what it makes of bytes that no peer of its kind sent. Called once, without a job. */
#include "rules.h"
#include "stub.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define FLAGS_KNOWN ((FERRY_CAP_DIRECT << 1) - 1)
#define AMO_KNOWN   (((1u << FERRY_AMO_KINDS) - 1) * 0x10001u)
#define AMO_FETCHES ((1u << FERRY_AMO_SWAP) | (1u << FERRY_AMO_CSWAP) | (1u << FERRY_AMO_FETCH))

/* False: the rule is over. */
static bool load(struct pe *pe, struct stub *stub)
{
    if (!rule_stage(pe)->plugin[0]) {
        rule_not_applicable(pe, "not one plugin, but several");
        return false;
    }
    if (EXPECT(pe, stub_load(stub, rule_stage(pe)->plugin) != NULL))
        return true;
    fprintf(stderr, "  %s\n", stub->said);
    return false;
}

/* A closed instance must be had again, so `ops` with all that a plugin may leave out is not at hand: only what is
 * required is called, and what is there. */
static struct ferry_transport *open_one(struct pe *pe, struct stub *stub)
{
    struct ferry_transport *t = stub_open(stub);

    if (!EXPECT(pe, t != NULL))
        fprintf(stderr, "  open: %s\n", stub->said);
    return t;
}

/* ------------------------------------------------------------------ the table */

static bool good_name(const char *name, const char *besides)
{
    if (!name || !*name)
        return false;
    for (; *name; name++)
        if (!islower((unsigned char)*name) && !isdigit((unsigned char)*name) && !strchr(besides, *name))
            return false;
    return true;
}

static void option_rows(struct pe *pe, const struct ferry_option *row)
{
    for (int n = 0; row && row->name && EXPECT(pe, n < 1000); row++, n++) {
        bool choice = row->type == FERRY_OPTION_CHOICE || row->type == FERRY_OPTION_SET;

        if (!EXPECT(pe, good_name(row->name, "_") && row->type <= FERRY_OPTION_SET && row->reserved == 0) ||
            !EXPECT(pe, row->initial && row->doc && *row->doc && choice == (row->choices != NULL)))
            fprintf(stderr, "  option %.40s\n", row->name);
    }
}

static void table(struct pe *pe)
{
    struct stub stub;
    const struct ferry_plugin *plugin;

    if (!load(pe, &stub))
        return;
    plugin = stub.plugin;
    EXPECT(pe, plugin->abi >> 16 == FERRY_TRANSPORT_ABI_MAJOR);
    if (!EXPECT(pe, plugin->size >= offsetof(struct ferry_plugin, kind) && plugin->size < 4096))
        return;
    EXPECT(pe, good_name(plugin->name, "_-"));
    EXPECT(pe, plugin->summary && *plugin->summary && plugin->version && *plugin->version);
    EXPECT(pe, plugin->size < offsetof(struct ferry_plugin, report) || (plugin->kind <= 1 && plugin->reserved == 0));
    option_rows(pe, plugin->options);
    if (!EXPECT(pe, plugin->open && plugin->ops))
        return;
    EXPECT(pe, plugin->ops->size >= sizeof(struct ferry_host_ops) && plugin->ops->size < 4096);
    EXPECT(pe, plugin->ops->reserved == 0);
    EXPECT(pe, plugin->ops->export_endpoint && plugin->ops->register_memory && plugin->ops->deregister_memory);
    EXPECT(pe, plugin->ops->export_key && plugin->ops->import_key && plugin->ops->release_key && plugin->ops->query);
    EXPECT(pe, plugin->ops->rma && plugin->ops->quiet && plugin->ops->progress && plugin->ops->close);
}

/* ------------------------------------------------------------------ claims */

static void atomics_claimed(struct pe *pe, uint32_t kinds)
{
    EXPECT(pe, !(kinds & ~AMO_KNOWN));
    EXPECT(pe, !(kinds & AMO_FETCHES)); /* fetching by nature: only the fetching bits exist */
}

static void claims(struct pe *pe)
{
    struct {
        struct ferry_caps caps;
        uint8_t behind[64];
    } room;
    struct ferry_caps *caps = &room.caps;
    uint8_t blob[FERRY_ENDPOINT_MAX];
    size_t size = sizeof(blob);
    struct stub stub;
    struct ferry_transport *t;

    if (!load(pe, &stub) || !(t = open_one(pe, &stub)))
        return;
    memset(&room, 0, sizeof(room));
    memset(room.behind, 0xa5, sizeof(room.behind));
    caps->size = sizeof(*caps);
    EXPECT(pe, stub.plugin->ops->query(t, FERRY_MEMORY_HOST, caps) == FERRY_OK);
    EXPECT(pe, caps->size <= sizeof(*caps) && rule_all(room.behind, sizeof(room.behind), 0xa5));
    EXPECT(pe, !(caps->flags & ~FLAGS_KNOWN) && !(caps->order & ~FERRY_ORDER_ALL) && caps->domain <= FERRY_DOMAIN_GPU);
    atomics_claimed(pe, caps->amo32);
    atomics_claimed(pe, caps->amo64);
    EXPECT(pe, caps->message_max >= 8);
    EXPECT(pe, !(caps->flags & FERRY_CAP_REMOTE_DATA) || caps->flags & FERRY_CAP_TARGET_PROGRESS);
    EXPECT(pe, !(caps->flags & FERRY_CAP_DIRECT) ||
                   (caps->flags & FERRY_CAP_MAP && caps->order == FERRY_ORDER_ALL && caps->domain == FERRY_DOMAIN_CPU));
    EXPECT(pe, !(caps->flags & FERRY_CAP_FENCE_CALL) || stub.plugin->ops->fence);
    EXPECT(pe, !(caps->flags & FERRY_CAP_PUT_SIGNAL) || stub.plugin->ops->put_signal);
    EXPECT(pe, !(caps->flags & FERRY_CAP_MAP) || stub.plugin->ops->map_key);
    EXPECT(pe, !(caps->flags & FERRY_CAP_MUST_ALLOCATE) ||
                   (stub.plugin->ops->allocate_memory && stub.plugin->ops->free_memory));
    EXPECT(pe, !(caps->amo32 | caps->amo64) || (stub.plugin->ops->amo && caps->domain != FERRY_DOMAIN_NONE));
    EXPECT(pe, stub.plugin->ops->export_endpoint(t, blob, &size) == FERRY_OK && size <= FERRY_ENDPOINT_MAX);
    EXPECT(pe, stub.plugin->ops->close(t) == FERRY_OK);
}

/* ------------------------------------------------------------------ again and again */

static long resident(void)
{
    long pages = 0, all;
    FILE *file = fopen("/proc/self/statm", "re");

    if (!file)
        return 0;
    if (fscanf(file, "%ld %ld", &all, &pages) != 2)
        pages = 0;
    fclose(file);
    return pages * 4096;
}

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define GROWTH (256l << 20) /* their allocators keep what was freed */
#else
#define GROWTH (8l << 20)
#endif

/* What a library beneath keeps for good, it has after the first tenth. */
static void opened_again(struct pe *pe)
{
    enum { SETTLED = 10, TIMES = 100 };
    struct pes_usage before = {0}, after;
    long bytes = 0;
    struct stub stub;

    if (!load(pe, &stub))
        return;
    for (int i = 0; i < TIMES; i++) {
        uint8_t blob[FERRY_ENDPOINT_MAX];
        size_t size = sizeof(blob);
        struct ferry_transport *t = open_one(pe, &stub);

        if (!t)
            return;
        EXPECT(pe, stub.plugin->ops->export_endpoint(t, blob, &size) == FERRY_OK);
        EXPECT(pe, stub.plugin->ops->close(t) == FERRY_OK);
        if (i == SETTLED) {
            before = pes_usage();
            bytes = resident();
        }
    }
    after = pes_usage_after(&before);
    if (!EXPECT(pe, after.fds <= before.fds && after.threads <= before.threads && after.maps <= before.maps + 8) ||
        !EXPECT(pe, resident() <= bytes + GROWTH))
        fprintf(stderr, "  descriptors %d then %d, mappings %d then %d, threads %d then %d, %ld then %ld bytes\n",
                before.fds, after.fds, before.maps, after.maps, before.threads, after.threads, bytes, resident());
}

/* ------------------------------------------------------------------ garbage */

static void garbage(struct pe *pe)
{
    uint8_t blob[FERRY_ENDPOINT_MAX];
    struct ferry_transport *t;
    struct stub stub;
    char why[200] = "";
    uint64_t state = 99;

    if (!load(pe, &stub) || !(t = open_one(pe, &stub)))
        return;
    for (int i = 0; i < 200; i++) {
        size_t n = i < 2 ? (size_t)i : rule_draw(&state) % (i % 2 ? FERRY_KEY_MAX : FERRY_ENDPOINT_MAX);
        struct ferry_rkey *key = NULL;

        for (size_t k = 0; k < sizeof(blob); k++)
            blob[k] = i % 3 ? (uint8_t)(rule_draw(&state) >> 56) : (uint8_t) - (i % 2);
        if (stub.plugin->ops->reach)
            EXPECT(pe, stub.plugin->ops->reach(t, 0, blob, n, why, sizeof(why)) < 0);
        if (n <= FERRY_KEY_MAX)
            EXPECT(pe, stub.plugin->ops->import_key(t, 0, blob, n, &key) < 0);
    }
    EXPECT(pe, stub.plugin->ops->close(t) == FERRY_OK);
}

/* Memory of a kind that there is not, and its own key with the end cut off. */
static void refused(struct pe *pe, const struct ferry_host_ops *ops, struct ferry_transport *t)
{
    struct ferry_memory memory = {
        .size = sizeof(memory), .length = 1 << 16, .fd = memfd_create("check", MFD_CLOEXEC), .remote = 1};
    struct ferry_caps caps = {.size = sizeof(caps)};
    struct ferry_region *region = NULL;
    struct ferry_rkey *key = NULL;
    uint8_t blob[FERRY_KEY_MAX];
    size_t size = sizeof(blob);

    EXPECT(pe, memory.fd >= 0 && ftruncate(memory.fd, 1 << 16) == 0);
    memory.address = mmap(NULL, 1 << 16, PROT_READ | PROT_WRITE, MAP_SHARED, memory.fd, 0);
    EXPECT(pe, ops->query(t, 77, &caps) < 0);
    memory.kind = 77;
    EXPECT(pe, ops->register_memory(t, &memory, &region) < 0);
    memory.kind = FERRY_MEMORY_HOST;
    if (ops->register_memory(t, &memory, &region) ==
        FERRY_OK) { /* one that must allocate may refuse what is not its own */
        EXPECT(pe, ops->export_key(t, region, blob, &size) == FERRY_OK && size <= sizeof(blob));
        for (size_t n = 0; n < size; n++)
            EXPECT(pe, ops->import_key(t, 0, blob, n, &key) < 0);
        EXPECT(pe, ops->deregister_memory(t, region) == FERRY_OK);
    }
    munmap(memory.address, 1 << 16);
    close(memory.fd);
}

static void refusals(struct pe *pe)
{
    struct ferry_transport *t;
    struct stub stub;

    if (!load(pe, &stub) || !(t = open_one(pe, &stub)))
        return;
    refused(pe, stub.plugin->ops, t);
    EXPECT(pe, stub.plugin->ops->close(t) == FERRY_OK);
}

const struct rule fy_rules_load[] = {
    {"R58.1", "the plugin's table is one that the core can read", 1, RULE_ALONE, table, NULL},
    {"R58.2", "what an instance claims fits together", 1, RULE_ALONE, claims, NULL},
    {"R58.3", "instances opened and closed a hundred times leave nothing behind", 1, RULE_ALONE, opened_again, NULL},
    {"R58.4", "endpoints and keys that are garbage are refused", 1, RULE_ALONE, garbage, NULL},
    {"R58.5", "memory of no kind, and keys that are cut off, are refused", 1, RULE_ALONE, refusals, NULL},
    {NULL, NULL, 0, 0, NULL, NULL},
};
