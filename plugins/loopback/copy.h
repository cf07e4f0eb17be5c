/* SPDX-License-Identifier: Apache-2.0
 * Copies, word accesses and fences of loopback, and the rules they rely on: the only place in the plugin with
 * non-temporal stores and bare fences, and with the variants that ThreadSanitizer can follow.
 * Channel threads. Rules cited below:
 *   TSO   x86-64, ordinary memory: stores of one thread become visible in program order, loads are not reordered
 *         with loads, a locked instruction orders everything (Intel SDM vol. 3, 9.2; AMD APM vol. 2, 7.2)
 *   NT    non-temporal stores are exempt from TSO until an sfence or a locked instruction (same sections)
 *   C11   a release operation makes what precedes it visible to whoever reads it with acquire (C11 5.1.2.4)
 *   LIBC  memcpy and memmove end with an sfence where it uses non-temporal stores itself (glibc, musl) */
#ifndef FY_LOOPBACK_COPY_H
#define FY_LOOPBACK_COPY_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#if defined(__SANITIZE_THREAD__)
#define FY_LB_TSAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define FY_LB_TSAN 1
#endif
#endif
#ifndef FY_LB_TSAN
#define FY_LB_TSAN 0
#endif

#if defined(__x86_64__)
#include <emmintrin.h>
#define FY_LB_TSO 1
#else
#define FY_LB_TSO 0
#endif

#define FY_LB_SMALL 64 /* up to here a copy is a handful of moves */

#define FY_LB_LIKELY(x) __builtin_expect(!!(x), 1)

/* What a put or a put's data with FERRY_OP_FENCED needs first. TSO: nothing. C11: a release fence orders the plain
 * stores that follow, too. ThreadSanitizer knows no fences; there the flag that the target polls is a release store. */
static inline void fy_lb_fenced(void)
{
#if !FY_LB_TSO && !FY_LB_TSAN
    __atomic_thread_fence(__ATOMIC_RELEASE);
#endif
}

/* After a get that was not one word: later loads come after it. TSO: they do. */
static inline void fy_lb_got(void)
{
#if !FY_LB_TSO && !FY_LB_TSAN
    __atomic_thread_fence(__ATOMIC_ACQUIRE);
#endif
}

/* quiet: every store of this thread is visible before a later load, too. TSO lets a load pass an earlier store to
 * another address, so the store buffer has to be emptied; a locked instruction that changes nothing does it in 2 ns,
 * mfence takes 17 (Zen 4). The word just below the stack pointer is in no other core's cache. */
static inline void fy_lb_drain(void)
{
#if FY_LB_TSAN
    uint32_t here = 0;
    __atomic_fetch_or(&here, 0, __ATOMIC_SEQ_CST);
#elif FY_LB_TSO
    __asm__ volatile("lock; orl $0, -4(%%rsp)" ::: "memory", "cc");
#else
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
#endif
}

static inline int fy_lb_aligned(const void *p, size_t n)
{
    return ((uintptr_t)p & (n - 1)) == 0;
}

/* Single stores and loads of aligned words. Release and acquire, since the other side may poll such a word, with or
 * without FERRY_OP_WORD: C11 makes that enough for both ends, and on x86-64 both are plain moves. */
static inline void fy_lb_store8(void *to, const void *from)
{
    uint64_t v;
    memcpy(&v, from, 8);
    __atomic_store_n((uint64_t *)to, v, __ATOMIC_RELEASE);
}

static inline void fy_lb_store4(void *to, const void *from)
{
    uint32_t v;
    memcpy(&v, from, 4);
    __atomic_store_n((uint32_t *)to, v, __ATOMIC_RELEASE);
}

static inline void fy_lb_store2(void *to, const void *from)
{
    uint16_t v;
    memcpy(&v, from, 2);
    __atomic_store_n((uint16_t *)to, v, __ATOMIC_RELEASE);
}

static inline void fy_lb_store1(void *to, const void *from)
{
    __atomic_store_n((uint8_t *)to, *(const uint8_t *)from, __ATOMIC_RELEASE);
}

static inline void fy_lb_load8(void *to, const void *from)
{
    uint64_t v = __atomic_load_n((const uint64_t *)from, __ATOMIC_ACQUIRE);
    memcpy(to, &v, 8);
}

static inline void fy_lb_load4(void *to, const void *from)
{
    uint32_t v = __atomic_load_n((const uint32_t *)from, __ATOMIC_ACQUIRE);
    memcpy(to, &v, 4);
}

static inline void fy_lb_load2(void *to, const void *from)
{
    uint16_t v = __atomic_load_n((const uint16_t *)from, __ATOMIC_ACQUIRE);
    memcpy(to, &v, 2);
}

static inline void fy_lb_load1(void *to, const void *from)
{
    *(uint8_t *)to = __atomic_load_n((const uint8_t *)from, __ATOMIC_ACQUIRE);
}

/* Two moves of `half` bytes that may overlap cover half..2*half bytes. Constant half: the calls become moves. */
static inline __attribute__((always_inline)) void fy_lb_two(char *to, const char *from, size_t n, size_t half)
{
    char head[FY_LB_SMALL / 2], tail[FY_LB_SMALL / 2];

    memcpy(head, from, half);
    memcpy(tail, from + n - half, half);
    memcpy(to, head, half);
    memcpy(to + n - half, tail, half);
}

/* 1..FY_LB_SMALL bytes, any alignment. */
static inline void fy_lb_move(char *to, const char *from, size_t n)
{
    if (n >= 32)
        fy_lb_two(to, from, n, 32);
    else if (n >= 16)
        fy_lb_two(to, from, n, 16);
    else if (n >= 8)
        fy_lb_two(to, from, n, 8);
    else if (n >= 4)
        fy_lb_two(to, from, n, 4);
    else if (n >= 2)
        fy_lb_two(to, from, n, 2);
    else
        *to = *from;
}

/* A copy that leaves the caches alone. Ends with an sfence (NT), so that to all that follows it is like any other
 * put: a flag, a signal or an atomic posted next is not visible before it, and TSO holds again. */
#if FY_LB_TSO && !FY_LB_TSAN
static inline void fy_lb_stream(char *to, const char *from, size_t n)
{
    size_t head = -(uintptr_t)to & (FY_LB_SMALL - 1);

    memcpy(to, from, head); /* the caller's n is far above */
    to += head;
    from += head;
    for (n -= head; n >= 64; n -= 64, to += 64, from += 64) {
        __m128i a = _mm_loadu_si128((const __m128i *)(const void *)from);
        __m128i b = _mm_loadu_si128((const __m128i *)(const void *)(from + 16));
        __m128i c = _mm_loadu_si128((const __m128i *)(const void *)(from + 32));
        __m128i d = _mm_loadu_si128((const __m128i *)(const void *)(from + 48));

        _mm_stream_si128((__m128i *)(void *)to, a);
        _mm_stream_si128((__m128i *)(void *)(to + 16), b);
        _mm_stream_si128((__m128i *)(void *)(to + 32), c);
        _mm_stream_si128((__m128i *)(void *)(to + 48), d);
    }
    memcpy(to, from, n);
    _mm_sfence();
}
#else
static inline void fy_lb_stream(char *to, const char *from, size_t n)
{
    memcpy(to, from, n); /* which ThreadSanitizer sees as writes of this thread */
}
#endif

#endif
