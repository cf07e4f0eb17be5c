/* SPDX-License-Identifier: Apache-2.0
 * Small operations on memory that a transport maps and leaves to us (FERRY_CAP_DIRECT): loads, stores and CPU atomics, with
 * no call into the transport. Each function answers false, and has done nothing, where the careful way has to be taken.
 * Called by the channel's thread with pe < n_pes. Rules cited: C11 5.1.2.4 (release and acquire); CAP_DIRECT comes only with
 * ORDER_ALL, which says that stores become visible in the order of the program. */
#ifndef FY_ORDER_DIRECT_H
#define FY_ORDER_DIRECT_H

#include "channel.h"
#include "fence.h"
#include <string.h>

#define FY_DIRECT_MAX 64u /* bytes; up to here a copy is a handful of moves */
/* Up to here it is a memcpy, which glibc does within the caches; beyond, the transport knows better. */
#define FY_DIRECT_COPY_MAX ((size_t)256 * 1024)

#ifdef FY_TSAN
#define FY_DIRECT_BLOCKS 0 /* plain copies race by design; the transport has a variant that the sanitizer understands */
#else
#define FY_DIRECT_BLOCKS 1
#endif

/* Where `length` (<= FY_DIRECT_COPY_MAX) bytes at a symmetric address lie in this process, NULL: not to be reached so. */
static inline char *fy_direct(const struct ferry_ctx *ctx, const void *address, size_t length, uint32_t pe)
{
    const struct fy_heap *heap = ctx->heap;
    uint64_t at = (uint64_t)((uintptr_t)address - (uintptr_t)heap->base);
    if (fy_unlikely(at >= atomic_load_explicit(&heap->backed, memory_order_acquire)))
        return NULL;
    struct fy_segment *segment = atomic_load_explicit(&heap->granules[at >> FY_GRANULE_SHIFT], memory_order_acquire);
    const struct fy_target *target = atomic_load_explicit(&segment->targets[pe], memory_order_acquire);
    return fy_likely(at + length <= target->direct_end) ? target->direct_base + at : NULL;
}

/* The same for an aligned word that is to be updated. */
static inline char *fy_direct_word(const struct ferry_ctx *ctx, const void *address, uint32_t pe)
{
    const struct fy_heap *heap = ctx->heap;
    uint64_t at = (uint64_t)((uintptr_t)address - (uintptr_t)heap->base);
    if (fy_unlikely(at >= atomic_load_explicit(&heap->backed, memory_order_acquire)))
        return NULL;
    struct fy_segment *segment = atomic_load_explicit(&heap->granules[at >> FY_GRANULE_SHIFT], memory_order_acquire);
    const struct fy_target *target = atomic_load_explicit(&segment->targets[pe], memory_order_acquire);
    return fy_likely(at + 8 <= target->direct_amo_end) ? target->direct_base + at : NULL;
}

/* Two moves of `half` bytes that may overlap cover half .. 2 * half bytes. */
static inline __attribute__((always_inline)) void fy_direct_two(char *to, const char *from, size_t n, size_t half)
{
    char head[32], tail[32];
    memcpy(head, from, half);
    memcpy(tail, from + n - half, half);
    memcpy(to, head, half);
    memcpy(to + n - half, tail, half);
}

/* 8 .. FY_DIRECT_MAX bytes, any alignment. */
static inline bool fy_direct_block(char *to, const char *from, size_t n)
{
    if (!FY_DIRECT_BLOCKS || n < 8)
        return false;
    if (n <= 16)
        fy_direct_two(to, from, n, 8);
    else if (n <= 32)
        fy_direct_two(to, from, n, 16);
    else
        fy_direct_two(to, from, n, 32);
    return true;
}

/* 1 .. FY_DIRECT_MAX bytes. Aligned words are single stores: somebody may be polling them, so they release. */
static inline bool fy_direct_copy(char *to, const char *from, size_t n)
{
    if (fy_likely(n == 8 && !((uintptr_t)to & 7))) {
        uint64_t v;
        memcpy(&v, from, 8);
        __atomic_store_n((uint64_t *)(void *)to, v, __ATOMIC_RELEASE);
        return true;
    }
    if (n == 4 && !((uintptr_t)to & 3)) {
        uint32_t v;
        memcpy(&v, from, 4);
        __atomic_store_n((uint32_t *)(void *)to, v, __ATOMIC_RELEASE);
        return true;
    }
    return fy_direct_block(to, from, n);
}

/* The other way: aligned words are single loads and acquire what their writer released. */
static inline bool fy_direct_fetch(char *to, const char *from, size_t n)
{
    if (fy_likely(n == 8 && !((uintptr_t)from & 7))) {
        uint64_t v = __atomic_load_n((const uint64_t *)(const void *)from, __ATOMIC_ACQUIRE);
        memcpy(to, &v, 8);
        return true;
    }
    if (n == 4 && !((uintptr_t)from & 3)) {
        uint32_t v = __atomic_load_n((const uint32_t *)(const void *)from, __ATOMIC_ACQUIRE);
        memcpy(to, &v, 4);
        return true;
    }
    return fy_direct_block(to, from, n);
}

/* length - 1 < MAX: neither 0 nor large, in one comparison. */
static inline bool fy_direct_put(struct ferry_ctx *ctx, void *dest, const void *src, size_t length, uint32_t pe)
{
    if (fy_unlikely(length - 1 >= FY_DIRECT_MAX || !src))
        return false;
    char *to = fy_direct(ctx, dest, length, pe);
    if (fy_unlikely(!to || !fy_direct_copy(to, src, length)))
        return false;
    ctx->stored = 1;
    fy_count(&ctx->counters.puts, 1);
    fy_count(&ctx->counters.bytes_put, length);
    return true;
}

static inline bool fy_direct_get(struct ferry_ctx *ctx, void *dest, const void *src, size_t length, uint32_t pe)
{
    if (fy_unlikely(length - 1 >= FY_DIRECT_MAX || !dest))
        return false;
    const char *from = fy_direct(ctx, src, length, pe);
    if (fy_unlikely(!from || !fy_direct_fetch(dest, from, length)))
        return false;
    fy_count(&ctx->counters.gets, 1);
    fy_count(&ctx->counters.bytes_got, length);
    return true;
}

/* Longer ones, out of the callers' line. */
static inline bool fy_direct_put_long(struct ferry_ctx *ctx, void *dest, const void *src, size_t length, uint32_t pe)
{
    if (!FY_DIRECT_BLOCKS || length - 1 >= FY_DIRECT_COPY_MAX || !src)
        return false;
    char *to = fy_direct(ctx, dest, length, pe);
    if (fy_unlikely(!to))
        return false;
    memmove(to, src, length); /* the caller's own buffers may overlap; it costs the same */
    ctx->stored = 1;
    fy_count(&ctx->counters.puts, 1);
    fy_count(&ctx->counters.bytes_put, length);
    return true;
}

static inline bool fy_direct_get_long(struct ferry_ctx *ctx, void *dest, const void *src, size_t length, uint32_t pe)
{
    if (!FY_DIRECT_BLOCKS || length - 1 >= FY_DIRECT_COPY_MAX || !dest)
        return false;
    const char *from = fy_direct(ctx, src, length, pe);
    if (fy_unlikely(!from))
        return false;
    memmove(dest, from, length);
    fy_count(&ctx->counters.gets, 1);
    fy_count(&ctx->counters.bytes_got, length);
    return true;
}

static inline __attribute__((always_inline)) uint64_t fy_direct_update(uint64_t *word, unsigned kind, uint64_t operand,
                                                                      uint64_t compare)
{
    switch (kind) {
    case FERRY_AMO_SET: __atomic_store_n(word, operand, __ATOMIC_RELEASE); return 0;
    case FERRY_AMO_ADD: return __atomic_fetch_add(word, operand, __ATOMIC_ACQ_REL);
    case FERRY_AMO_AND: return __atomic_fetch_and(word, operand, __ATOMIC_ACQ_REL);
    case FERRY_AMO_OR: return __atomic_fetch_or(word, operand, __ATOMIC_ACQ_REL);
    case FERRY_AMO_XOR: return __atomic_fetch_xor(word, operand, __ATOMIC_ACQ_REL);
    case FERRY_AMO_SWAP: return __atomic_exchange_n(word, operand, __ATOMIC_ACQ_REL);
    case FERRY_AMO_CSWAP:
        __atomic_compare_exchange_n(word, &compare, operand, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE);
        return compare;
    default: return __atomic_load_n(word, __ATOMIC_ACQUIRE);
    }
}

/* `kind` is a constant at every call, so that one update remains of the switch. */
static inline __attribute__((always_inline)) bool fy_direct_amo(struct ferry_ctx *ctx, const void *address, unsigned kind,
                                                               uint64_t operand, uint64_t compare, uint64_t *old, uint32_t pe)
{
    if (fy_unlikely((uintptr_t)address & 7))
        return false;
    char *to = fy_direct_word(ctx, address, pe);
    if (fy_unlikely(!to))
        return false;
    uint64_t before = fy_direct_update((uint64_t *)(void *)to, kind, operand, compare);
    if (old)
        *old = before;
    else
        ctx->stored = 1;
    fy_count(&ctx->counters.atomics, 1);
    return true;
}

static inline void fy_direct_mark(char *word, uint64_t value, unsigned op)
{
    fy_direct_update((uint64_t *)(void *)word, op == FERRY_SIGNAL_SET ? FERRY_AMO_SET : FERRY_AMO_ADD, value, 0);
}

static inline bool fy_direct_signal(struct ferry_ctx *ctx, uint64_t *signal, uint64_t value, unsigned how, uint32_t pe)
{
    unsigned op = how & ~(unsigned)FERRY_SIGNAL_WEAK;
    if (fy_unlikely((uintptr_t)signal & 7 || op > 1))
        return false;
    char *word = fy_direct_word(ctx, signal, pe);
    if (fy_unlikely(!word))
        return false;
    fy_direct_mark(word, value, op);
    ctx->stored = 1;
    fy_count(&ctx->counters.signals, 1);
    return true;
}

/* The data, then the signal: both are stores, or a store and a locked add, and stay in this order. */
static inline bool fy_direct_put_signal(struct ferry_ctx *ctx, void *dest, const void *src, size_t length, uint64_t *signal,
                                        uint64_t value, unsigned how, uint32_t pe)
{
    unsigned op = how & ~(unsigned)FERRY_SIGNAL_WEAK;
    if (fy_unlikely((uintptr_t)signal & 7 || op > 1 || length - 1 >= FY_DIRECT_MAX || !src))
        return false;
    char *to = fy_direct(ctx, dest, length, pe), *word = fy_direct_word(ctx, signal, pe);
    if (fy_unlikely(!to || !word || !fy_direct_copy(to, src, length)))
        return false; /* nothing is written before both are known to be good */
    fy_direct_mark(word, value, op);
    ctx->stored = 1;
    fy_count(&ctx->counters.puts, 1);
    fy_count(&ctx->counters.signals, 1);
    fy_count(&ctx->counters.bytes_put, length);
    return true;
}

#endif
