/* SPDX-License-Identifier: Apache-2.0
 * Memory fences of the core, in one place, with a variant that the thread sanitizer understands.
 * For stores that the application made through ferry_ptr; transports order their own. Any thread. */
#ifndef FY_ORDER_FENCE_H
#define FY_ORDER_FENCE_H

#include <stdint.h>

#if defined(__SANITIZE_THREAD__)
#define FY_TSAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define FY_TSAN 1
#endif
#endif

/* C11 7.17.4: stores before it are visible before stores after it. On x86 (TSO) it costs nothing. The thread sanitizer
 * does not model fences, so there an acquire-release update of `word` stands for it. */
static inline void fy_fence_release(uint64_t *word)
{
#ifdef FY_TSAN
    __atomic_fetch_add(word, 1, __ATOMIC_ACQ_REL);
#else
    (void)word;
    __atomic_thread_fence(__ATOMIC_RELEASE);
#endif
}

/* C11 7.17.4, sequentially consistent: earlier stores are visible to all before later loads are made. */
static inline void fy_fence_full(uint64_t *word)
{
#ifdef FY_TSAN
    __atomic_fetch_add(word, 1, __ATOMIC_SEQ_CST);
#else
    (void)word;
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
#endif
}

/* Two halves of an order that goes by way of memory which the thread sanitizer cannot follow: a request is carried out by one
 * thread of this PE, and the reply, or a signal that came after it, reaches another by a transport's copies, perhaps through
 * a second mapping, or by way of another process. Outside the sanitizer they are nothing: the transport keeps that order. */
static inline void fy_fence_applied(uint64_t *word)
{
#ifdef FY_TSAN
    __atomic_fetch_add(word, 1, __ATOMIC_RELEASE);
#else
    (void)word;
#endif
}

static inline void fy_fence_seen(uint64_t *word)
{
#ifdef FY_TSAN
    (void)__atomic_load_n(word, __ATOMIC_ACQUIRE);
#else
    (void)word;
#endif
}

#endif
