/* SPDX-License-Identifier: Apache-2.0
 * Keys: what a peer has to know of memory of this PE, and what this PE knows of memory of peers.
 * Setup thread. */
#include "ibrc.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define KEYS ((FERRY_KEY_MAX - 32) / sizeof(uint32_t))

/* What a peer is told. The offset of an operation counts from `address`. */
struct key {
    uint32_t magic;
    uint16_t devices, kinds; /* kinds 2: each strict key is followed by the relaxed one */
    uint64_t address, length;
    uint32_t shift, chunks;
    uint32_t keys[KEYS]; /* by chunk, device, kind */
};
_Static_assert(sizeof(struct key) <= FERRY_KEY_MAX, "a key is too long");

static size_t size_of(const struct key *k)
{
    return offsetof(struct key, keys) + (size_t)k->chunks * k->devices * k->kinds * sizeof(uint32_t);
}

int fy_ib_export_key(struct ferry_transport *t, struct ferry_region *region, void *blob, size_t *size)
{
    struct key k = {.magic = FY_IB_MAGIC,
                    .devices = (uint16_t)t->n_devices,
                    .kinds = t->options.relaxed ? 2 : 1,
                    .address = (uintptr_t)region->address,
                    .length = region->length,
                    .shift = region->shift,
                    .chunks = region->chunks};
    uint32_t n = k.chunks * k.devices * k.kinds;

    if (k.chunks > KEYS || n > KEYS)
        return fy_ib_fail(t, -1, FERRY_ERR_LIMIT, 0, "make the heap smaller, or use fewer rails",
                          "%zu bytes are %u registrations of the RDMA devices in use, and a key has room for %zu",
                          region->length, n, KEYS);
    for (uint32_t i = 0; i < n; i++)
        k.keys[i] = region->mr[k.kinds == 2 ? i : 2 * i]->rkey;
    memcpy(blob, &k, size_of(&k));
    *size = size_of(&k);
    return FERRY_OK;
}

static int readable(const void *blob, size_t size, struct key *k)
{
    memset(k, 0, sizeof *k);
    if (size < offsetof(struct key, keys) || size > sizeof *k)
        return 0;
    memcpy(k, blob, size);
    return k->magic == FY_IB_MAGIC && k->devices && k->devices <= FY_IB_RAILS && (k->kinds == 1 || k->kinds == 2) &&
           k->chunks && k->chunks <= KEYS && (k->chunks == 1 || k->shift < FY_IB_ONE_CHUNK) && size == size_of(k);
}

int fy_ib_import_key(struct ferry_transport *t, uint32_t peer, const void *blob, size_t size, struct ferry_rkey **key)
{
    struct ferry_rkey *r;
    struct key k;

    if (!readable(blob, size, &k))
        return fy_ib_fail(t, peer, FERRY_ERR_MISMATCH, 0, "run the same build on all hosts",
                          "the key from pe %u is not of ibrc", peer);
    if (k.chunks > 1 && t->message_max / (FY_IB_PIECES - 2) > (size_t)1 << k.shift)
        return fy_ib_fail(t, peer, FERRY_ERR_MISMATCH, 0, "use devices of one kind on all hosts",
                          "pe %u registers memory in pieces of %zu bytes, too short for messages of %zu", peer,
                          (size_t)1 << k.shift, t->message_max);
    r = calloc(1, sizeof *r + k.chunks * sizeof r->at[0]);
    if (!r)
        return fy_ib_fail(t, peer, FERRY_ERR_NOMEM, ENOMEM, "", "no memory for a key of pe %u", peer);
    r->address = k.address;
    r->chunks = k.chunks;
    r->shift = k.chunks > 1 ? k.shift : FY_IB_ONE_CHUNK;
    for (uint32_t i = 0; i < k.chunks * k.devices; i++) {
        struct fy_ib_rkeys *at = &r->at[i / k.devices];
        at->strict[i % k.devices] = k.keys[i * k.kinds];
        at->bulk[i % k.devices] = k.keys[i * k.kinds + k.kinds - 1];
    }
    if (k.chunks > 1)
        fy_ib_be_careful(t);
    r->next = t->keys;
    t->keys = r;
    *key = r;
    return FERRY_OK;
}

int fy_ib_release_key(struct ferry_transport *t, struct ferry_rkey *key)
{
    struct ferry_rkey **at = &t->keys;

    while (*at && *at != key)
        at = &(*at)->next;
    if (!*at)
        return FERRY_ERR_NOT_FOUND;
    *at = key->next;
    free(key);
    return FERRY_OK;
}

void fy_ib_keys_close(struct ferry_transport *t)
{
    while (t->keys)
        fy_ib_release_key(t, t->keys);
}
