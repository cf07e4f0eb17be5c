/* SPDX-License-Identifier: Apache-2.0
 * Windows: ranges of memory that kernels reach on their peers by loads and stores of their own; and how a copy is cut into
 * aligned pieces. Pure functions, C11 and CUDA C++, used by ferry/device.cuh and tested on the CPU; any thread. */
#ifndef FERRY_WINDOW_H
#define FERRY_WINDOW_H

#include <ferry/command.h>

#ifdef __cplusplus
extern "C" {
#endif

#define FERRY_WINDOWS 4u /* of a handle, at most */

/* Kernels update words in it by atomics of their own. Then nothing else may: no CPU, no ring, no network card. */
#define FERRY_WINDOW_ATOMICS 1u

struct ferry_window {
    uint64_t base, bytes;  /* this PE's addresses; 0 bytes: not in use */
    const uint64_t *peers; /* of each PE: where kernels of this one find the counterpart of `base`; 0: they do not */
    uint32_t n_pes;
    uint32_t flags;        /* FERRY_WINDOW_… */
};

/* All of the range lies in it. */
FERRY_RING_FN int ferry_window_has(const struct ferry_window *window, uint64_t address, uint64_t length)
{
    const uint64_t at = address - window->base;
    return at < window->bytes && length <= window->bytes - at;
}

/* Where the range lies on `pe`; 0: not in this window, no such PE, or not mapped. */
FERRY_RING_FN uint64_t ferry_window_peer(const struct ferry_window *window, uint64_t address, uint64_t length, uint32_t pe)
{
    uint64_t there;
    if (!ferry_window_has(window, address, length) || pe >= window->n_pes)
        return 0;
    there = window->peers[pe];
    return there ? there + (address - window->base) : 0;
}

/* A copy: `head` bytes up to where the destination is aligned, `units` of `width` bytes, then `tail` bytes. */
struct ferry_split {
    uint64_t head, units, tail;
    uint32_t width; /* 16, 8, 4 or 1 */
};

#define FERRY_SPLIT_SHORT 64u

/* The widest units that both sides are aligned to after the same head; of a short copy, those that leave no head and no tail, whose
 * bytes go one by one. */
FERRY_RING_FN struct ferry_split ferry_split_of(uint64_t dest, uint64_t src, uint64_t length)
{
    struct ferry_split split;
    const uint64_t apart = length > FERRY_SPLIT_SHORT ? dest ^ src : dest | src | length;
    split.width = apart & 3 ? 1 : apart & 7 ? 4 : apart & 15 ? 8 : 16;
    split.head = (0 - dest) & (split.width - 1);
    if (split.head > length)
        split.head = length;
    split.units = (length - split.head) >> (split.width == 16 ? 4 : split.width == 8 ? 3 : split.width == 4 ? 2 : 0); /* no division */
    split.tail = (length - split.head) & (split.width - 1);
    return split;
}

#ifdef __cplusplus
}
#endif
#endif
