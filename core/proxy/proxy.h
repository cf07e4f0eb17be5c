/* SPDX-License-Identifier: Apache-2.0
 * The proxy: threads that carry out the commands of rings. Each ring has a channel of its own, and one thread that owns both.
 * Made and unmade by the application's threads, under the proxy's lock; carried out by the proxy's threads. */
#ifndef FY_PROXY_PROXY_H
#define FY_PROXY_PROXY_H

#include "../order/channel.h"
#include "cores.h"

struct fy_proxy;

struct fy_proxy_config {
    struct fy_world *world;
    uint32_t threads;       /* most of them; 0: one for every FY_RINGS_PER_THREAD rings, as far as there are cores */
    struct fy_cores cores;  /* where they run */
    double spin;            /* seconds without work until a thread yields; then as long again until it sleeps */
    double sleep;           /* seconds that it sleeps at a time; 0: it never does */
    void (*tell)(void *arg, const struct ferry_error *record); /* the first failure of a ring */
    void (*retire)(void *arg, const struct ferry_counters *counters); /* of a ring's context, when it ends */
    void *arg;
};
#define FY_RINGS_PER_THREAD 4u

/* Starts no thread: the first ring does. */
int fy_proxy_create(const struct fy_proxy_config *config, struct fy_proxy **proxy);
/* Closes all rings. `drain`: what their producers have posted is carried out and completed before; the first failure is returned. Then joins
 * the threads. Nobody posts any more. */
int fy_proxy_destroy(struct fy_proxy *proxy, bool drain);

/* slots: a power of two. The channel counts as one of the application's. */
int fy_ring_create(struct fy_proxy *proxy, uint32_t slots, struct ferry_ring **ring, struct ferry_error *error);
/* Carries out what was posted, and completes it; producers that post meanwhile, or later, are refused. The memory stays. */
int fy_ring_close(struct ferry_ring *ring);
/* The same, and releases. The status of the first failure that nobody took, or of the closing. */
int fy_ring_destroy(struct ferry_ring *ring);
const struct ferry_ring_handle *fy_ring_handle(const struct ferry_ring *ring);
/* The first failure since the last call; status FERRY_OK: none. Any thread. */
void fy_ring_take_error(struct ferry_ring *ring, struct ferry_error *record);
/* Slots that were reserved, taken, and are complete. Any thread, while the ring's channel is listed. */
void fy_ring_look(const struct ferry_ring *ring, uint64_t *head, uint64_t *consumed, uint64_t *completed);
struct fy_world *fy_ring_world(const struct ferry_ring *ring);

#endif
