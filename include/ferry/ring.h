/* SPDX-License-Identifier: Apache-2.0
 * The command ring: how a producer, a CPU thread or a CUDA thread, hands operations to the library's proxy. The handle, and the
 * producer's side on a CPU; the device's is in ferry/device.cuh. Rings are made by ferry_ring_create of ferry.h. Each producer has
 * a copy of the handle of its own; any number of producers share a ring. docs/gpu.md says how it works. */
#ifndef FERRY_RING_H
#define FERRY_RING_H

#include <ferry/command.h>

#if !defined(__CUDA_ARCH__)
#include <sched.h>
#endif

#ifdef __cplusplus
extern "C" {
#endif

enum ferry_ring_state {
    FERRY_RING_OPEN = 0,
    FERRY_RING_CLOSING = 1, /* what was reserved before is still carried out */
    FERRY_RING_CLOSED = 2   /* nobody reads it any more */
};

/* Passed by value. Everything behind the pointers is the library's. */
struct ferry_ring_handle {
    uint32_t layout;    /* FERRY_RING_LAYOUT of the library */
    uint32_t slot_bits; /* log2 of the number of slots */
    uint64_t *slots;    /* two words each */
    uint64_t *head;     /* slots reserved so far */
    const uint64_t *consumed;  /* slots read so far */
    const uint64_t *completed; /* up to which slot what was asked to be announced is complete */
    const uint64_t *state;     /* enum ferry_ring_state */
    const uint64_t *alarm;     /* 0, or -status of what ended the job or killed a PE */
    const uint64_t *error;     /* 0, or the first command that failed: see ferry_ring_failure */
    uint64_t base;      /* start of this PE's symmetric heap */
    uint64_t seen;      /* the producer's own: `consumed` when it last looked */
    uint32_t my_pe, n_pes;
    uint32_t channel;
    uint32_t ordered;   /* 1: operations to a PE stay in order by themselves, a fence is nothing */
};

/* ------------------------------------------------------------------ producers on the CPU
 * The device's are in ferry/device.cuh. All return FERRY_OK or a negative status; they wait for room, not for the network. */

/* C11 5.1.2.4: a command releases what its producer wrote before, so each word does; who reads it acquires. */
static inline void ferry_ring_store(const struct ferry_ring_handle *ring, uint64_t position, const uint64_t *words, unsigned slots)
{
    uint64_t mask = FERRY_RING_BITS(ring->slot_bits);
    unsigned i;
    for (i = 0; i < slots; i++) {
        uint64_t *slot = ring->slots + 2 * ((position + i) & mask), lap = ferry_ring_lap(position + i, ring->slot_bits);
        __atomic_store_n(slot, words[2 * i] | lap, __ATOMIC_RELEASE);
        __atomic_store_n(slot + 1, words[2 * i + 1] | lap, __ATOMIC_RELEASE);
    }
}

/* 1: the slots below `end` have been read in their last lap, and may be written. */
static inline int ferry_ring_room(struct ferry_ring_handle *ring, uint64_t end)
{
    uint64_t capacity = (uint64_t)1 << ring->slot_bits;
    if (end - ring->seen <= capacity)
        return 1;
    ring->seen = __atomic_load_n(ring->consumed, __ATOMIC_ACQUIRE);
    return end - ring->seen <= capacity;
}

static inline void ferry_ring_pause(unsigned *turns)
{
    if (++*turns % 64 == 0) {
#if !defined(__CUDA_ARCH__)
        sched_yield();
#endif
        return;
    }
#if defined(__x86_64__) && !defined(__CUDA_ARCH__)
    __builtin_ia32_pause();
#endif
}

static inline int ferry_ring_await_room(struct ferry_ring_handle *ring, uint64_t end)
{
    unsigned turns = 0;
    while (!ferry_ring_room(ring, end)) {
        if (__atomic_load_n(ring->state, __ATOMIC_ACQUIRE) == FERRY_RING_CLOSED)
            return FERRY_ERR_STATE;
        ferry_ring_pause(&turns);
    }
    return FERRY_OK;
}

/* Gives reserved slots up. They are filled, since a hole would stop the reader. */
static inline void ferry_ring_cancel(struct ferry_ring_handle *ring, uint64_t position, unsigned slots)
{
    const uint64_t nop[2] = {(uint64_t)1 << 1 | (uint64_t)FERRY_COMMAND_NOP << 3, 0};
    unsigned i;
    for (i = 0; i < slots; i++)
        if (ferry_ring_await_room(ring, position + i + 1) == FERRY_OK)
            ferry_ring_store(ring, position + i, nop, 1);
}

/* Takes `slots` (1 to 3) slots; ferry_ring_store or ferry_ring_cancel must follow. The look at the state comes after the reservation, both
 * sequentially consistent (C11 7.17.3): either it sees that the ring closes, or the library's look at the head, which follows
 * the closing, sees the reservation and carries the command out. */
static inline int ferry_ring_reserve(struct ferry_ring_handle *ring, unsigned slots, uint64_t *position)
{
    int rc = FERRY_OK;
    *position = __atomic_fetch_add(ring->head, slots, __ATOMIC_SEQ_CST);
    if (__atomic_load_n(ring->state, __ATOMIC_SEQ_CST) != FERRY_RING_OPEN)
        rc = FERRY_ERR_STATE;
    if (rc == FERRY_OK)
        rc = ferry_ring_await_room(ring, *position + slots);
    if (rc != FERRY_OK)
        ferry_ring_cancel(ring, *position, slots);
    return rc;
}

/* The same without waiting, and without a reservation if there is no room: FERRY_AGAIN. */
static inline int ferry_ring_try_reserve(struct ferry_ring_handle *ring, unsigned slots, uint64_t *position)
{
    uint64_t head = __atomic_load_n(ring->head, __ATOMIC_RELAXED);
    do {
        if (!ferry_ring_room(ring, head + slots))
            return __atomic_load_n(ring->state, __ATOMIC_ACQUIRE) == FERRY_RING_OPEN ? FERRY_AGAIN : FERRY_ERR_STATE;
    } while (!__atomic_compare_exchange_n(ring->head, &head, head + slots, 0, __ATOMIC_SEQ_CST, __ATOMIC_RELAXED));
    *position = head;
    if (__atomic_load_n(ring->state, __ATOMIC_SEQ_CST) == FERRY_RING_OPEN)
        return FERRY_OK;
    ferry_ring_cancel(ring, head, slots);
    return FERRY_ERR_STATE;
}

/* Hands a command over. *end, unless NULL, is for ferry_ring_wait, if the command is to be announced. FERRY_ERR_STATE: the ring
 * was closed, and the command is not carried out. FERRY_ERR_ARG, FERRY_ERR_LIMIT: it cannot be told; the error word says so, too. */
static inline int ferry_ring_post(struct ferry_ring_handle *ring, const struct ferry_command *command, uint64_t *end)
{
    uint64_t words[FERRY_RING_WORDS], position;
    int told, rc;
    unsigned slots;
    if (ring->layout != FERRY_RING_LAYOUT)
        return FERRY_ERR_ABI;
    slots = ferry_ring_encode(command, ring->base, words, &told);
    rc = ferry_ring_reserve(ring, slots, &position);
    if (rc != FERRY_OK)
        return rc;
    ferry_ring_store(ring, position, words, slots);
    if (end)
        *end = position + slots;
    return told;
}

/* The same; FERRY_AGAIN, and nothing is done, if the ring is full. */
static inline int ferry_ring_try_post(struct ferry_ring_handle *ring, const struct ferry_command *command, uint64_t *end)
{
    uint64_t words[FERRY_RING_WORDS], position;
    int told, rc;
    unsigned slots;
    if (ring->layout != FERRY_RING_LAYOUT)
        return FERRY_ERR_ABI;
    slots = ferry_ring_encode(command, ring->base, words, &told);
    rc = ferry_ring_try_reserve(ring, slots, &position);
    if (rc != FERRY_OK)
        return rc;
    ferry_ring_store(ring, position, words, slots);
    if (end)
        *end = position + slots;
    return told;
}

/* Status of the first command of the ring that failed, FERRY_OK if none did. ferry_ring_error has the details. */
static inline int ferry_ring_status(const struct ferry_ring_handle *ring)
{
    return ferry_ring_failure_of(__atomic_load_n(ring->error, __ATOMIC_ACQUIRE)).status;
}

/* 1: what was announced up to `end` is complete, 0: not yet, negative: it will never be. */
static inline int ferry_ring_test(const struct ferry_ring_handle *ring, uint64_t end)
{
    uint64_t state = __atomic_load_n(ring->state, __ATOMIC_ACQUIRE); /* before the other: all is announced before it closes */
    if (__atomic_load_n(ring->completed, __ATOMIC_ACQUIRE) >= end)
        return 1;
    return state == FERRY_RING_CLOSED ? FERRY_ERR_STATE : 0;
}

/* Until then. Then the ring's status: a failure before may have been any command's. */
static inline int ferry_ring_wait(const struct ferry_ring_handle *ring, uint64_t end)
{
    unsigned turns = 0;
    int rc = ferry_ring_test(ring, end);
    while (!rc) {
        ferry_ring_pause(&turns);
        rc = ferry_ring_test(ring, end);
    }
    return rc < 0 ? rc : ferry_ring_status(ring);
}

static inline int ferry_ring_put_nbi(struct ferry_ring_handle *ring, void *dest, const void *src, uint64_t length, int pe)
{
    struct ferry_command c = {FERRY_COMMAND_PUT, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0};
    c.pe = (uint32_t)pe;
    c.remote = (uint64_t)(uintptr_t)dest;
    c.local = (uint64_t)(uintptr_t)src;
    c.length = length;
    return ferry_ring_post(ring, &c, (uint64_t *)0);
}

/* how: as of ferry_put_signal, 0 SET, 1 ADD, perhaps | 0x100, weak. */
static inline int ferry_ring_put_signal_nbi(struct ferry_ring_handle *ring, void *dest, const void *src, uint64_t length,
                                            uint64_t *signal, uint64_t value, int how, int pe)
{
    struct ferry_command c = {FERRY_COMMAND_PUT_SIGNAL, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0};
    if (how & ~0x101)
        c.kind = FERRY_COMMAND_BAD; /* is none to post: told as an error */
    c.flags = (uint8_t)((how & 1 ? FERRY_COMMAND_ADD : 0) | (how & 0x100 ? FERRY_COMMAND_WEAK : 0));
    c.pe = (uint32_t)pe;
    c.remote = (uint64_t)(uintptr_t)dest;
    c.local = (uint64_t)(uintptr_t)src;
    c.length = length;
    c.signal = (uint64_t)(uintptr_t)signal;
    c.value = value;
    return ferry_ring_post(ring, &c, (uint64_t *)0);
}

static inline int ferry_ring_signal(struct ferry_ring_handle *ring, uint64_t *signal, uint64_t value, int how, int pe)
{
    struct ferry_command c = {FERRY_COMMAND_SIGNAL_SET, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0};
    c.kind = (uint8_t)(how & ~0x101 ? FERRY_COMMAND_BAD : FERRY_COMMAND_SIGNAL_SET + (how & 1) + (how & 0x100 ? 2 : 0));
    c.pe = (uint32_t)pe;
    c.remote = (uint64_t)(uintptr_t)signal;
    c.value = value;
    return ferry_ring_post(ring, &c, (uint64_t *)0);
}

static inline int ferry_ring_fence(struct ferry_ring_handle *ring)
{
    struct ferry_command c = {FERRY_COMMAND_FENCE, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0};
    return ring->ordered ? FERRY_OK : ferry_ring_post(ring, &c, (uint64_t *)0);
}

/* All that this producer, and any that it synchronised with, posted before is complete. */
static inline int ferry_ring_quiet(struct ferry_ring_handle *ring)
{
    struct ferry_command c = {FERRY_COMMAND_QUIET, 0, 0, FERRY_COMMAND_ANNOUNCE, 0, 0, 0, 0, 0, 0, 0};
    uint64_t end;
    int rc = ferry_ring_post(ring, &c, &end);
    return rc == FERRY_OK ? ferry_ring_wait(ring, end) : rc;
}

#ifdef __cplusplus
}
#endif
#endif
