/* SPDX-License-Identifier: Apache-2.0
 * The reading end of a command ring: where its words lie, and whether the next command is all there.
 * Called by the one thread that reads the ring. */
#ifndef FY_PROXY_FEED_H
#define FY_PROXY_FEED_H

#include <ferry/ring.h>
#include <stdbool.h>
#include <stddef.h>

/* A cache line each: they have different writers, or readers that should not disturb each other. */
struct fy_ring_line {
    uint64_t word;
    uint64_t pad[7];
};

/* The memory of a ring, in one block: these, then the slots. */
struct fy_ring_memory {
    struct fy_ring_line head;      /* producers */
    struct fy_ring_line consumed;  /* the reader */
    struct fy_ring_line completed; /* the reader */
    uint64_t state, alarm, error;  /* the reader; and the application's thread that takes the error */
    uint64_t pad[5];
    uint64_t words[];
};

static inline size_t fy_ring_bytes(unsigned slot_bits)
{
    return sizeof(struct fy_ring_memory) + ((size_t)16 << slot_bits);
}

/* Reads the slot at `position`; false: not written yet. Both words carry the lap: who wrote them may have done so one by one. */
static inline bool fy_feed_slot(const struct ferry_ring_handle *ring, uint64_t position, uint64_t *words)
{
    const uint64_t *slot = ring->slots + 2 * (position & FERRY_RING_BITS(ring->slot_bits));
    uint64_t lap = ferry_ring_lap(position, ring->slot_bits);
    words[0] = __atomic_load_n(slot, __ATOMIC_ACQUIRE); /* pairs with the release in ferry_ring_store (C11 5.1.2.4) */
    if ((words[0] & 1) != lap)
        return false;
    words[1] = __atomic_load_n(slot + 1, __ATOMIC_ACQUIRE);
    return (words[1] & 1) == lap;
}

/* The words of the command at `position`. Returns its slots; 0: it is not all there yet. A first word that no encoder writes
 * counts as a command of one slot. */
static inline unsigned fy_feed_look(const struct ferry_ring_handle *ring, uint64_t position, uint64_t words[FERRY_RING_WORDS])
{
    if (!fy_feed_slot(ring, position, words))
        return 0;
    unsigned slots = ferry_ring_slots(words[0]);
    for (unsigned i = 1; i < slots; i++)
        if (!fy_feed_slot(ring, position + i, words + 2 * i))
            return 0;
    return slots ? slots : 1;
}

#endif
