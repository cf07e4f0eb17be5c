/* SPDX-License-Identifier: Apache-2.0
 * A transport that only keeps count: registers, exports, imports, maps and allocates within one process.
 * Called by the thread of its PE, or under the heap's setup lock. */
#include "team.h"
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

struct ferry_region {
    struct ferry_memory memory;
};

struct key {
    char magic[4];
    uint32_t pe;
    char *address;
    uint64_t length;
};

struct ferry_rkey {
    struct key key;
};

static bool fails(struct ferry_transport *t)
{
    return ++t->calls == t->fail_at;
}

static int fake_register(struct ferry_transport *t, const struct ferry_memory *memory, struct ferry_region **region)
{
    if (fails(t))
        return FERRY_ERR_LIMIT;
    *region = malloc(sizeof(**region));
    (*region)->memory = *memory;
    t->live_regions++;
    return FERRY_OK;
}

static int fake_deregister(struct ferry_transport *t, struct ferry_region *region)
{
    t->live_regions--;
    free(region);
    return FERRY_OK;
}

static int fake_allocate(struct ferry_transport *t, struct ferry_memory *memory, struct ferry_region **region)
{
    void *at;

    if (fails(t))
        return FERRY_ERR_LIMIT;
    at = mmap(t->displaced ? NULL : memory->address, memory->length,
              memory->kind == FERRY_MEMORY_HOST ? PROT_READ | PROT_WRITE : PROT_NONE,
              MAP_PRIVATE | MAP_ANONYMOUS | (t->displaced ? 0 : MAP_FIXED), -1, 0);
    if (at == MAP_FAILED)
        return FERRY_ERR_NOMEM;
    if (memory->kind == FERRY_MEMORY_HOST)
        memset(at, 0xa5, memory->length); /* what was there before is nobody's business */
    memory->address = at;
    *region = malloc(sizeof(**region));
    (*region)->memory = *memory;
    t->live_regions++;
    t->allocations++;
    return FERRY_OK;
}

static int fake_free(struct ferry_transport *t, struct ferry_region *region)
{
    munmap(region->memory.address, region->memory.length);
    return fake_deregister(t, region);
}

static int fake_export(struct ferry_transport *t, struct ferry_region *region, void *blob, size_t *size)
{
    struct key key = {"key", t->pe, region->memory.address, region->memory.length};

    if (fails(t))
        return FERRY_ERR_LIMIT;
    memcpy(blob, &key, sizeof(key));
    memset((char *)blob + sizeof(key), 0x11, t->key_padding);
    *size = sizeof(key) + t->key_padding;
    return FERRY_OK;
}

static int fake_import(struct ferry_transport *t, uint32_t peer, const void *blob, size_t size,
                       struct ferry_rkey **rkey)
{
    struct key key;

    if (t->again != 0) {
        t->again -= t->again > 0;
        return FERRY_AGAIN;
    }
    if (fails(t))
        return FERRY_ERR_LIMIT;
    if (size < sizeof(key))
        return FERRY_ERR_ARG;
    memcpy(&key, blob, sizeof(key));
    if (memcmp(key.magic, "key", 4) != 0 || key.pe != peer)
        return FERRY_ERR_ACCESS;
    *rkey = malloc(sizeof(**rkey));
    (*rkey)->key = key;
    t->live_keys++;
    t->imports++;
    return FERRY_OK;
}

static int fake_release(struct ferry_transport *t, struct ferry_rkey *key)
{
    t->live_keys--;
    free(key);
    return FERRY_OK;
}

static int fake_map(struct ferry_transport *t, const struct ferry_rkey *key, void **address)
{
    if (t->unmappable)
        return FERRY_ERR_UNSUPPORTED;
    *address = key->key.address;
    return FERRY_OK;
}

static int fake_query(struct ferry_transport *t, uint32_t kind, struct ferry_caps *caps)
{
    if (kind != FERRY_MEMORY_GPU || !t->gpu)
        return FERRY_ERR_UNSUPPORTED;
    caps->flags = t->gpu == FAKE_ALLOCATES ? FERRY_CAP_MUST_ALLOCATE : 0;
    return FERRY_OK;
}

static int fake_query_error(struct ferry_transport *t, uint32_t channel, uint32_t peer, struct ferry_error *record)
{
    (void)channel;
    (void)peer;
    if (t->calls == t->fail_at)
        fy_error_set(record, FERRY_ERR_LIMIT, NULL, "%s", FAKE_LIMIT);
    return FERRY_OK;
}

void fake_transport(struct fy_transport *transport, struct ferry_transport *fake, const char *name, uint32_t pe)
{
    memset(transport, 0, sizeof(*transport));
    memset(fake, 0, sizeof(*fake));
    fake->pe = pe;
    strcpy(transport->name, name);
    transport->handle = fake;
    transport->caps.flags = FERRY_CAP_MAP;
    transport->ops = (struct ferry_host_ops){.register_memory = fake_register,
                                             .deregister_memory = fake_deregister,
                                             .allocate_memory = fake_allocate,
                                             .free_memory = fake_free,
                                             .export_key = fake_export,
                                             .import_key = fake_import,
                                             .release_key = fake_release,
                                             .map_key = fake_map,
                                             .query = fake_query,
                                             .query_error = fake_query_error};
}
