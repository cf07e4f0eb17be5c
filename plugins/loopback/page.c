/* SPDX-License-Identifier: Apache-2.0
 * The page that a PE shares with its peers under some guises: calls of its service, remote data, the lock of its NIC.
 * A peer imports it before it imports the first key. Threads: guise.h; every member is reached by atomics only. */
#include "guise.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define NIC_TRIES 1000

static size_t page_length(const struct ferry_transport *t)
{
    size_t unit = (size_t)sysconf(_SC_PAGESIZE), n = sizeof(struct fy_lb_page);

    n += (t->n_pes ? t->n_pes : 1) * sizeof(struct fy_lb_ring);
    return (n + unit - 1) & ~(unit - 1);
}

int fy_lb_page_make(struct ferry_transport *t)
{
    struct ferry_memory memory = {
        .size = sizeof memory, .kind = FERRY_MEMORY_HOST, .length = page_length(t), .fd = -1, .remote = 1};
    int status;

    status = fy_lb_map_file(t, "ferry-page", &memory);
    if (status)
        return status;
    status = fy_lb_region_add(t, &memory, &t->guise->page_region);
    close(memory.fd); /* the region has its own */
    if (status) {
        munmap(memory.address, memory.length);
        return status;
    }
    t->guise->page_region->mapped = 1;
    t->guise->page = memory.address;
    return FERRY_OK;
}

int fy_lb_page_import(struct ferry_transport *t, const struct fy_lb_key *key)
{
    struct fy_lb_guise *g = t->guise;
    uint32_t peer = key->head.pe;
    struct fy_lb_key page = *key;
    struct ferry_rkey *imported;
    int status;

    if (peer >= t->n_pes)
        return fy_lb_fail(t, -1, FERRY_ERR_ARG, 0, "", "there is no PE %u", peer);
    if (!g->page || g->pages[peer])
        return FERRY_OK;
    if (!key->page_region || key->page_length != page_length(t))
        return fy_lb_fail(t, peer, FERRY_ERR_MISMATCH, 0, "give every PE the same FERRY_LOOPBACK_GUISE",
                          "PE %u wears another guise of loopback than this one", peer);
    page.region = key->page_region;
    page.address = key->page_address;
    page.length = key->page_length;
    page.has_file = 1;
    page.kind = FERRY_MEMORY_HOST;
    status = fy_lb_import_memory(t, &page, &imported);
    if (status == FERRY_OK)
        g->pages[peer] = (struct fy_lb_page *)(void *)imported->base;
    return status;
}

/* ---- remote data */

int fy_lb_data_reserve(const struct ferry_transport *t, const struct ferry_op *op)
{
    struct fy_lb_ring *ring = &op->key->page->rings[t->my_pe];
    struct fy_lb_guise *g = t->guise;
    int status = FERRY_AGAIN;
    uint64_t used;

    pthread_mutex_lock(&g->ring_lock);
    used = ring->given - __atomic_load_n(&ring->taken, __ATOMIC_ACQUIRE);
    if (used + g->reserved[op->peer] < FY_LB_RING) {
        g->reserved[op->peer]++;
        status = FERRY_OK;
    }
    pthread_mutex_unlock(&g->ring_lock);
    return status;
}

/* The release of `given` makes the put's bytes, which this thread wrote, visible to whoever takes the data (C11). */
void fy_lb_data_give(const struct ferry_transport *t, const struct ferry_op *op)
{
    struct fy_lb_ring *ring = &op->key->page->rings[t->my_pe];
    struct fy_lb_guise *g = t->guise;

    pthread_mutex_lock(&g->ring_lock);
    __atomic_store_n(&ring->data[ring->given % FY_LB_RING], op->remote_data, __ATOMIC_RELAXED);
    __atomic_store_n(&ring->given, ring->given + 1, __ATOMIC_RELEASE);
    g->reserved[op->peer]--;
    pthread_mutex_unlock(&g->ring_lock);
}

static int deliver_from(struct ferry_transport *t, uint32_t pe)
{
    struct fy_lb_ring *ring = &t->guise->page->rings[pe];
    uint64_t taken = ring->taken, given = __atomic_load_n(&ring->given, __ATOMIC_ACQUIRE);
    int any = given != taken;

    for (uint64_t left = FY_LB_RING; left > 0 && given != taken; left--) {
        uint32_t data = __atomic_load_n(&ring->data[taken % FY_LB_RING], __ATOMIC_RELAXED);

        __atomic_store_n(&ring->taken, ++taken, __ATOMIC_RELEASE); /* the place is read */
        t->core->deliver(t->core, pe, data);
    }
    return any;
}

/* ---- the NIC */

/* One whose process died on the way is taken over: the word that it was at is as old or as new as any. */
int fy_lb_nic_lock(struct fy_lb_page *page)
{
    uint32_t self = (uint32_t)getpid();

    for (int i = 0; i < NIC_TRIES; i++) {
        uint32_t holder = 0;

        if (__atomic_compare_exchange_n(&page->nic, &holder, self, 0, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
            return 1;
        if (i + 1 == NIC_TRIES && kill((pid_t)holder, 0) && errno == ESRCH)
            return __atomic_compare_exchange_n(&page->nic, &holder, self, 0, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED);
    }
    return 0;
}

void fy_lb_nic_unlock(struct fy_lb_page *page)
{
    __atomic_store_n(&page->nic, 0, __ATOMIC_RELEASE);
}

/* ---- the service */

int fy_lb_page_serve(struct ferry_transport *t)
{
    struct fy_lb_page *page = t->guise->page;
    uint64_t call = __atomic_add_fetch(&page->begun, 1, __ATOMIC_ACQ_REL);
    int delivered = 0;

    for (uint32_t pe = 0; t->guise->choice.worn & FY_LB_CQ_DATA && pe < t->n_pes; pe++)
        delivered |= deliver_from(t, pe);
    __atomic_store_n(&page->ended, call, __ATOMIC_RELEASE);
    return delivered ? FERRY_OK : FERRY_AGAIN;
}
