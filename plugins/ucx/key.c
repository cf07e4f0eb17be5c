/* SPDX-License-Identifier: Apache-2.0
 * Keys: what a peer has to know of memory of this PE, and what this PE knows of memory of peers. UCX's belong to one
 * endpoint, and so to one channel: each unpacks its own when it first needs it.
 * Setup thread; unpacking and sweeping: channel thread. */
#include "ucx.h"

#include <stdlib.h>
#include <string.h>

/* What a peer is told. The offset of an operation counts from `address`. */
struct key {
    uint32_t magic, packed_size;
    uint64_t address;
    uint8_t packed[FY_UX_PACKED];
};
_Static_assert(sizeof(struct key) <= FERRY_KEY_MAX, "a key is too long");

int fy_ux_export_key(struct ferry_transport *t, struct ferry_region *region, void *blob, size_t *size)
{
    struct key k = {.magic = FY_UX_MAGIC, .address = (uintptr_t)region->address};
    void *packed;
    size_t n;
    ucs_status_t status = ucp_rkey_pack(t->context.ucp, region->memh, &packed, &n);

    if (status != UCS_OK)
        return fy_ux_fail(t, -1, FERRY_ERR_TRANSPORT, status, "", "UCX cannot pack a key of %zu bytes: %s", region->length,
                          ucs_status_string(status));
    if (n <= sizeof k.packed) {
        memcpy(k.packed, packed, n);
        k.packed_size = (uint32_t)n;
        *size = offsetof(struct key, packed) + n;
        memcpy(blob, &k, *size);
    }
    ucp_rkey_buffer_release(packed);
    if (n > sizeof k.packed)
        return fy_ux_fail(t, -1, FERRY_ERR_LIMIT, UCS_OK, "name fewer devices in UCX_NET_DEVICES, or fewer transports in UCX_TLS",
                          "UCX's key over %s takes %zu bytes, and there is room for %zu", t->context.tls, n, sizeof k.packed);
    return FERRY_OK;
}

/* The address of the peer's memory in this process, if there is one. */
static void find_map(struct ferry_transport *t, struct ferry_rkey *r)
{
    ucp_ep_h ep = fy_ux_setup_peer(t, r->peer);
    struct fy_ux_heard heard;
    void *at = NULL;

    if (!ep)
        return;
    fy_ux_listen(&heard);
    if (ucp_ep_rkey_unpack(ep, r->packed, &r->mapped) != UCS_OK)
        r->mapped = NULL;
    else if (ucp_rkey_ptr(r->mapped, r->address, &at) == UCS_OK)
        r->map = at;
    fy_ux_listened();
}

int fy_ux_import_key(struct ferry_transport *t, uint32_t peer, const void *blob, size_t size, struct ferry_rkey **key)
{
    size_t head = offsetof(struct key, packed);
    struct ferry_rkey *r;
    struct key k;

    if (size > head && size <= sizeof k)
        memcpy(&k, blob, size);
    if (size <= head || size > sizeof k || k.magic != FY_UX_MAGIC || k.packed_size != size - head)
        return fy_ux_fail(t, peer, FERRY_ERR_MISMATCH, UCS_OK, "run the same build on all hosts",
                          "the key from pe %u is not of ucx", peer);
    r = calloc(1, sizeof *r + t->max_channels * sizeof r->at[0]);
    if (!r)
        return fy_ux_fail(t, peer, FERRY_ERR_NOMEM, UCS_OK, "", "no memory for a key of pe %u", peer);
    r->address = k.address;
    r->peer = peer;
    r->packed_size = k.packed_size;
    memcpy(r->packed, k.packed, k.packed_size);
    if (peer == t->my_pe)
        r->map = (char *)(uintptr_t)k.address; /* it is ours */
    else if (t->maps)
        find_map(t, r);
    if (!r->map && t->at_once) { /* there is no other way to it */
        if (r->mapped)
            ucp_rkey_destroy(r->mapped);
        free(r);
        return fy_ux_fail(t, peer, FERRY_ERR_TRANSPORT, UCS_OK, "add tcp to UCX_TLS, or let PEs see each other's memory",
                          "memory of pe %u cannot be mapped here by UCX's %s", peer, t->context.tls);
    }
    r->next = t->keys;
    t->keys = r;
    *key = r;
    return FERRY_OK;
}

int fy_ux_map_key(struct ferry_transport *t, const struct ferry_rkey *key, void **address)
{
    (void)t;
    *address = key->map;
    return key->map ? FERRY_OK : FERRY_ERR_UNSUPPORTED;
}

/* ------------------------------------------------------------------ of one channel */

/* Near: a lane does at once what it is given, since the memory is mapped, or is the own process's. */
static int near(const struct fy_ux_peer *p, const struct ferry_rkey *key, ucp_rkey_h rkey)
{
    void *at = NULL;

    return p->loops || (key->map && ucp_rkey_ptr(rkey, key->address, &at) == UCS_OK && at);
}

int fy_ux_key_unpack(struct fy_ux_channel *c, struct ferry_rkey *key)
{
    struct fy_ux_peer *p = &c->peers[key->peer];
    struct fy_ux_heard heard;
    ucs_status_t status;
    ucp_rkey_h rkey;

    fy_ux_key_sweep(c);
    fy_ux_listen(&heard);
    status = ucp_ep_rkey_unpack(p->ep, key->packed, &rkey);
    fy_ux_listened();
    if (status != UCS_OK)
        return fy_ux_fail(c->t, key->peer, fy_ux_status(status), status, "", "UCX cannot use a key of pe %u: %s", key->peer,
                          fy_ux_reason(&heard, status));
    if (near(p, key, rkey))
        __atomic_store_n(&key->at[c->id].near, rkey, __ATOMIC_RELEASE); /* the setup thread takes it away */
    else
        __atomic_store_n(&key->at[c->id].far, rkey, __ATOMIC_RELEASE);
    return FERRY_OK;
}

void fy_ux_key_sweep(struct fy_ux_channel *c)
{
    struct fy_ux_old_key *old = __atomic_exchange_n(&c->old_keys, NULL, __ATOMIC_ACQUIRE); /* what the setup thread put */

    while (old) {
        struct fy_ux_old_key *next = old->next;
        ucp_rkey_destroy(old->rkey);
        free(old);
        old = next;
    }
}

static ucp_rkey_h take(struct ferry_rkey *key, uint32_t channel)
{
    ucp_rkey_h near_key = __atomic_exchange_n(&key->at[channel].near, NULL, __ATOMIC_ACQ_REL);
    ucp_rkey_h far_key = __atomic_exchange_n(&key->at[channel].far, NULL, __ATOMIC_ACQ_REL);

    return near_key ? near_key : far_key;
}

/* A worker's keys lie in a pool of the worker, which its thread may be using: it destroys them itself. */
static void retire(struct fy_ux_channel *c, ucp_rkey_h rkey)
{
    struct fy_ux_old_key *old = malloc(sizeof *old);

    if (!old)
        return; /* it goes with its worker */
    old->rkey = rkey;
    old->next = __atomic_load_n(&c->old_keys, __ATOMIC_RELAXED);
    while (!__atomic_compare_exchange_n(&c->old_keys, &old->next, old, 1, __ATOMIC_RELEASE, __ATOMIC_RELAXED))
        ;
}

int fy_ux_release_key(struct ferry_transport *t, struct ferry_rkey *key)
{
    struct ferry_rkey **at = &t->keys;

    while (*at && *at != key)
        at = &(*at)->next;
    if (!*at)
        return FERRY_ERR_NOT_FOUND;
    *at = key->next;
    for (uint32_t i = 0; i < t->max_channels; i++) {
        ucp_rkey_h rkey = take(key, i);
        if (rkey)
            retire(t->channels[i], rkey);
    }
    if (key->mapped)
        ucp_rkey_destroy(key->mapped);
    free(key);
    return FERRY_OK;
}

void fy_ux_keys_leave(struct fy_ux_channel *c, int destroy)
{
    for (struct ferry_rkey *key = c->t->keys; key; key = key->next) {
        ucp_rkey_h rkey = take(key, c->id);
        if (rkey && destroy)
            ucp_rkey_destroy(rkey);
    }
    if (destroy)
        fy_ux_key_sweep(c);
}

void fy_ux_keys_close(struct ferry_transport *t)
{
    while (t->keys)
        fy_ux_release_key(t, t->keys);
}
