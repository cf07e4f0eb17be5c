/* SPDX-License-Identifier: Apache-2.0
 * Part of ferry/device.cuh: the direct path. What lies in a window (ferry_gpu_window) is loaded and stored by the calling threads
 * themselves. Device functions: a thread, a warp or a block, as the template says. */
#ifndef FERRY_DEVICE_DIRECT_CUH
#define FERRY_DEVICE_DIRECT_CUH

#include <ferry/device_ring.cuh>

/* ------------------------------------------------------------------ who calls together */

enum ferry_gpu_scope { FERRY_GPU_THREAD, FERRY_GPU_WARP, FERRY_GPU_BLOCK };

template <int scope> FERRY_GPU_FN unsigned ferry_gpu_rank(void)
{
    if (scope == FERRY_GPU_THREAD)
        return 0;
    if (scope == FERRY_GPU_WARP)
        return ferry_gpu_lane();
    return threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
}

template <int scope> FERRY_GPU_FN unsigned ferry_gpu_size(void)
{
    if (scope == FERRY_GPU_THREAD)
        return 1;
    return scope == FERRY_GPU_WARP ? 32 : blockDim.x * blockDim.y * blockDim.z;
}

/* All have come; what any of them wrote before is known to each (PTX memory model, 8.8: barriers synchronise). */
template <int scope> FERRY_GPU_FN void ferry_gpu_together(void)
{
    if (scope == FERRY_GPU_WARP)
        __syncwarp();
    if (scope == FERRY_GPU_BLOCK)
        __syncthreads();
}

template <int scope> FERRY_GPU_FN bool ferry_gpu_leader(void)
{
    return ferry_gpu_rank<scope>() == 0;
}

/* What the leader has got, for all. */
template <int scope> FERRY_GPU_FN int ferry_gpu_result(int rc)
{
    if (scope == FERRY_GPU_WARP)
        return __shfl_sync(~0u, rc, 0);
    if (scope == FERRY_GPU_BLOCK) {
        __shared__ int result;
        if (ferry_gpu_leader<scope>())
            result = rc;
        __syncthreads();
        rc = result;
        __syncthreads(); /* before the next call writes it */
    }
    return rc;
}

/* ------------------------------------------------------------------ where */

/* Looks into one window; true: it is there, and the route says so. */
FERRY_GPU_FN bool ferry_gpu_enter(const struct ferry_window &window, struct ferry_gpu_route &route, uint64_t at, uint64_t length, int pe)
{
    const uint64_t there = ferry_window_peer(&window, at, length, (uint32_t)pe);
    if (!there)
        return false;
    route.base = window.base;
    route.bytes = window.bytes;
    route.there = there - (at - window.base);
    route.pe = (uint32_t)pe;
    route.flags = window.flags;
    return true;
}

/* Where the range lies on `pe`, for this kernel; 0: nowhere, so it is the ring's, which also tells what is wrong with bad ones. The
 * last answer is kept: the tables lie in memory, and a fence makes the next look at them slow. */
FERRY_GPU_FN uint64_t ferry_gpu_find(const struct ferry_gpu &g, struct ferry_gpu_route &route, const void *address, uint64_t length,
                                     int pe)
{
    const uint64_t at = (uint64_t)(uintptr_t)address, offset = at - route.base;
    if (!ferry_gpu_direct(g) || g.ring.layout != FERRY_RING_LAYOUT)
        return 0;
    if (route.pe == (uint32_t)pe && offset < route.bytes && length <= route.bytes - offset)
        return route.there + offset;
#pragma unroll 1
    for (uint32_t i = 0; i < g.n_windows; i++)
        if (ferry_gpu_enter(g.state->windows[i], route, at, length, pe))
            return route.there + (at - route.base);
    return 0;
}

/* The same for a word, which has to be aligned; atomics, too, if `shared`: words that kernels update by atomics. */
FERRY_GPU_FN uint64_t ferry_gpu_find_word(struct ferry_gpu &g, const void *word, unsigned width, int pe, bool shared)
{
    if ((uint64_t)(uintptr_t)word & (width - 1))
        return 0;
    const uint64_t there = ferry_gpu_find(g, g.word, word, width, pe);
    return !shared || g.word.flags & FERRY_WINDOW_ATOMICS ? there : 0;
}

/* ------------------------------------------------------------------ copies */

/* 16 bytes; those of a peer are read where they are, past this processor's cache. */
template <bool remote> FERRY_GPU_FN ulonglong2 ferry_gpu_read16(const char *from)
{
    ulonglong2 v;
    if (!remote)
        return *(const ulonglong2 *)from;
    asm volatile("ld.relaxed.sys.v2.u64 {%0, %1}, [%2];" : "=l"(v.x), "=l"(v.y) : "l"(from) : "memory");
    return v;
}

template <bool remote, typename T> FERRY_GPU_FN T ferry_gpu_read(const char *from)
{
    return remote ? *(const volatile T *)from : *(const T *)from;
}

template <int scope, bool remote> FERRY_GPU_FN void ferry_gpu_copy16(char *to, const char *from, uint64_t units)
{
    const unsigned size = ferry_gpu_size<scope>();
    uint64_t i = ferry_gpu_rank<scope>();
    for (; i + 3 * (uint64_t)size < units; i += 4 * (uint64_t)size) { /* four at once: loads take long */
        ulonglong2 v[4];
#pragma unroll
        for (unsigned k = 0; k < 4; k++)
            v[k] = ferry_gpu_read16<remote>(from + 16 * (i + k * size));
#pragma unroll
        for (unsigned k = 0; k < 4; k++)
            *(ulonglong2 *)(to + 16 * (i + k * size)) = v[k];
    }
    for (; i < units; i += size)
        *(ulonglong2 *)(to + 16 * i) = ferry_gpu_read16<remote>(from + 16 * i);
}

template <int scope, bool remote, typename T> FERRY_GPU_FN void ferry_gpu_copy_units(char *to, const char *from, uint64_t units)
{
    for (uint64_t i = ferry_gpu_rank<scope>(); i < units; i += ferry_gpu_size<scope>())
        *(T *)(to + sizeof(T) * i) = ferry_gpu_read<remote, T>(from + sizeof(T) * i);
}

/* remote: the source is a peer's. */
template <int scope, bool remote> FERRY_GPU_FN void ferry_gpu_copy(uint64_t dest, uint64_t src, uint64_t length)
{
    char *to = (char *)(uintptr_t)dest;
    const char *from = (const char *)(uintptr_t)src;
    if (length == 8 && ((dest | src) & 7) == 0) { /* a word: arithmetic would take longer than the copy */
        if (ferry_gpu_leader<scope>())
            *(unsigned long long *)to = ferry_gpu_read<remote, unsigned long long>(from);
        return;
    }
    const struct ferry_split s = ferry_split_of(dest, src, length);
    ferry_gpu_copy_units<scope, remote, char>(to, from, s.head);
    to += s.head;
    from += s.head;
    if (s.width == 16)
        ferry_gpu_copy16<scope, remote>(to, from, s.units);
    else if (s.width == 8)
        ferry_gpu_copy_units<scope, remote, unsigned long long>(to, from, s.units);
    else if (s.width == 4)
        ferry_gpu_copy_units<scope, remote, unsigned>(to, from, s.units);
    else
        ferry_gpu_copy_units<scope, remote, char>(to, from, s.units);
    ferry_gpu_copy_units<scope, remote, char>(to + s.units * s.width, from + s.units * s.width, s.tail);
}

/* ------------------------------------------------------------------ words */

/* Any kind of atomic, in the whole system; returns the old value. */
template <typename T> FERRY_GPU_FN T ferry_gpu_update(T *word, unsigned amo, T value, T compare)
{
    switch (amo) {
    case FERRY_COMMAND_AMO_ADD: return atomicAdd_system(word, value);
    case FERRY_COMMAND_AMO_AND: return atomicAnd_system(word, value);
    case FERRY_COMMAND_AMO_OR: return atomicOr_system(word, value);
    case FERRY_COMMAND_AMO_XOR: return atomicXor_system(word, value);
    case FERRY_COMMAND_AMO_CSWAP: return atomicCAS_system(word, compare, value);
    case FERRY_COMMAND_AMO_FETCH: return *(volatile T *)word;
    default: return atomicExch_system(word, value); /* SET, SWAP */
    }
}

FERRY_GPU_FN uint64_t ferry_gpu_update_word(uint64_t word, unsigned amo, unsigned width, uint64_t value, uint64_t compare)
{
    if (width == 4)
        return ferry_gpu_update((unsigned *)(uintptr_t)word, amo, (unsigned)value, (unsigned)compare);
    return ferry_gpu_update((unsigned long long *)(uintptr_t)word, amo, (unsigned long long)value, (unsigned long long)compare);
}

/* What a signal covers comes before it, here and in the ring. `own`: stores of its own call are among it. */
FERRY_GPU_FN int ferry_gpu_cover(struct ferry_gpu &g, bool strong, bool own)
{
    if (!strong && !own)
        return FERRY_OK;
    if (!ferry_gpu_release_behind(g) || !strong)
        return FERRY_OK;
    const int rc = ferry_gpu_drain(g, FERRY_COMMAND_QUIET, 0);
    return rc == FERRY_ERR_STATE || rc == FERRY_ERR_ABI ? rc : FERRY_OK; /* others are of commands before: the error word has them */
}

/* A signal to where its word lies. */
FERRY_GPU_FN int ferry_gpu_signal_there(struct ferry_gpu &g, uint64_t there, uint64_t value, int how, bool own)
{
    const int rc = ferry_gpu_cover(g, !(how & FERRY_SIGNAL_WEAK), own);
    if (rc != FERRY_OK)
        return rc;
    if (how & FERRY_SIGNAL_ADD)
        atomicAdd_system((unsigned long long *)(uintptr_t)there, (unsigned long long)value);
    else
        asm volatile("st.relaxed.sys.u64 [%0], %1;" ::"l"(there), "l"(value) : "memory");
    return FERRY_OK;
}

#endif
