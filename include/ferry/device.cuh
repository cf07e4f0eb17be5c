/* SPDX-License-Identifier: Apache-2.0
 * Ferry's interface for CUDA kernels: operations are loads and stores where the peer's memory is mapped (ferry_gpu_window), else
 * commands in a ring, which the library's proxy carries out. Header only, no relocatable device code; kernels take `struct ferry_gpu`
 * by value. CUDA C++17, sm_80 and later; docs/gpu.md. Device functions: any thread; names say whether a warp or a block calls. */
#ifndef FERRY_DEVICE_CUH
#define FERRY_DEVICE_CUH

#include <ferry/device_direct.cuh>
#include <ferry/device_ring.cuh>

/* ------------------------------------------------------------------ the job */

FERRY_GPU_FN int ferry_gpu_my_pe(const struct ferry_gpu &g)
{
    return (int)g.ring.my_pe;
}

FERRY_GPU_FN int ferry_gpu_n_pes(const struct ferry_gpu &g)
{
    return (int)g.ring.n_pes;
}

/* Where this kernel loads and stores the counterpart of `address` on `pe`; nullptr: it lies in no window. Fence and quiet order
 * what the calling thread stores there, too. */
FERRY_GPU_FN void *ferry_gpu_ptr(struct ferry_gpu &g, const void *address, int pe)
{
    return (void *)(uintptr_t)ferry_gpu_find(g, g.data, address, 1, pe);
}

/* ------------------------------------------------------------------ how they work, for every scope
 * Threads of a scope call together, with the same arguments; what any of them wrote before belongs to the operation. Where it
 * becomes a command, it is one. */

FERRY_GPU_FN int ferry_gpu_tell(struct ferry_gpu &g, const struct ferry_command &command, bool payload)
{
    uint64_t end;
    const int rc = ferry_gpu_post(g, command, payload, &end);
    return rc == FERRY_OK && command.flags & FERRY_COMMAND_ANNOUNCE ? ferry_gpu_wait(g, end) : rc;
}

/* flags: FERRY_COMMAND_ANNOUNCE if it is to wait. */
template <int scope>
FERRY_GPU_FN int ferry_gpu_put_by(struct ferry_gpu &g, void *dest, const void *src, uint64_t length, int pe, unsigned flags)
{
    const uint64_t there = ferry_gpu_find(g, g.data, dest, length, pe);
    int rc = FERRY_OK;
    ferry_gpu_together<scope>();
    if (there) {
        ferry_gpu_copy<scope, false>(there, (uint64_t)(uintptr_t)src, length);
        ferry_gpu_together<scope>(); /* a signal, or a quiet, of any one of them covers it */
        return rc;
    }
    if (ferry_gpu_leader<scope>())
        rc = ferry_gpu_tell(g, ferry_gpu_command(FERRY_COMMAND_PUT, flags, pe, dest, src, length, nullptr, 0), true);
    return ferry_gpu_result<scope>(rc);
}

template <int scope>
FERRY_GPU_FN int ferry_gpu_get_by(struct ferry_gpu &g, void *dest, const void *src, uint64_t length, int pe, unsigned flags)
{
    const uint64_t there = ferry_gpu_find(g, g.data, src, length, pe);
    int rc = FERRY_OK;
    ferry_gpu_together<scope>();
    if (there) {
        ferry_gpu_copy<scope, true>((uint64_t)(uintptr_t)dest, there, length);
        ferry_gpu_together<scope>();
        return rc;
    }
    if (ferry_gpu_leader<scope>())
        rc = ferry_gpu_tell(g, ferry_gpu_command(FERRY_COMMAND_GET, flags, pe, src, dest, length, nullptr, 0), true);
    return ferry_gpu_result<scope>(rc);
}

FERRY_GPU_FN unsigned ferry_gpu_signal_kind(int how)
{
    return how & ~(FERRY_SIGNAL_ADD | FERRY_SIGNAL_WEAK)
               ? (unsigned)FERRY_COMMAND_BAD
               : (unsigned)FERRY_COMMAND_SIGNAL_SET + (how & FERRY_SIGNAL_ADD ? 1 : 0) + (how & FERRY_SIGNAL_WEAK ? 2 : 0);
}

/* One thread. own: its call has stored data, which the signal covers in any case. Through the ring it carries no data, so it
 * releases nothing, unless there were stores: what else it covers was put by commands, which did. */
FERRY_GPU_FN int ferry_gpu_signal_word(struct ferry_gpu &g, uint64_t *signal, uint64_t value, int how, int pe, bool own)
{
    const unsigned kind = ferry_gpu_signal_kind(how);
    const uint64_t there = kind == FERRY_COMMAND_BAD ? 0 : ferry_gpu_find_word(g, signal, 8, pe, (how & FERRY_SIGNAL_ADD) != 0);
    if (there)
        return ferry_gpu_signal_there(g, there, value, how, own);
    return ferry_gpu_tell(g, ferry_gpu_command(kind, 0, pe, signal, nullptr, 0, nullptr, value), ferry_gpu_direct(g));
}

template <int scope> FERRY_GPU_FN int ferry_gpu_signal_by(struct ferry_gpu &g, uint64_t *signal, uint64_t value, int how, int pe)
{
    int rc = FERRY_OK;
    ferry_gpu_together<scope>();
    if (ferry_gpu_leader<scope>())
        rc = ferry_gpu_signal_word(g, signal, value, how, pe, false);
    return ferry_gpu_result<scope>(rc);
}

/* One thread: the data go through the ring. A word that kernels update by atomics is none of the proxy's: the signal waits for the
 * data then. */
FERRY_GPU_FN int ferry_gpu_put_signal_tell(struct ferry_gpu &g, void *dest, const void *src, uint64_t length, uint64_t *signal,
                                           uint64_t value, int how, int pe, unsigned flags)
{
    const unsigned kind = ferry_gpu_signal_kind(how) == FERRY_COMMAND_BAD ? FERRY_COMMAND_BAD : FERRY_COMMAND_PUT_SIGNAL;
    if (kind != FERRY_COMMAND_BAD && ferry_gpu_find_word(g, signal, 8, pe, true)) {
        const int rc = ferry_gpu_tell(g, ferry_gpu_command(FERRY_COMMAND_PUT, 0, pe, dest, src, length, nullptr, 0), true);
        return rc == FERRY_OK ? ferry_gpu_signal_word(g, signal, value, how & ~FERRY_SIGNAL_WEAK, pe, true) : rc;
    }
    flags |= (how & FERRY_SIGNAL_ADD ? FERRY_COMMAND_ADD : 0) | (how & FERRY_SIGNAL_WEAK ? FERRY_COMMAND_WEAK : 0);
    return ferry_gpu_tell(g, ferry_gpu_command(kind, flags, pe, dest, src, length, signal, value), true);
}

template <int scope>
FERRY_GPU_FN int ferry_gpu_put_signal_by(struct ferry_gpu &g, void *dest, const void *src, uint64_t length, uint64_t *signal,
                                         uint64_t value, int how, int pe, unsigned flags)
{
    const uint64_t there = ferry_gpu_find(g, g.data, dest, length, pe);
    int rc = FERRY_OK;
    ferry_gpu_together<scope>();
    if (there) {
        ferry_gpu_copy<scope, false>(there, (uint64_t)(uintptr_t)src, length);
        ferry_gpu_together<scope>();
    }
    if (ferry_gpu_leader<scope>())
        rc = there ? ferry_gpu_signal_word(g, signal, value, how, pe, true)
                   : ferry_gpu_put_signal_tell(g, dest, src, length, signal, value, how, pe, flags);
    return ferry_gpu_result<scope>(rc);
}

/* Nothing in the ring where the transport keeps order by itself; but stores wait for the commands before the fence. */
template <int scope> FERRY_GPU_FN int ferry_gpu_fence_by(struct ferry_gpu &g)
{
    int rc = FERRY_OK;
    ferry_gpu_together<scope>();
    if (ferry_gpu_leader<scope>()) {
        if (ferry_gpu_direct(g))
            rc = ferry_gpu_cover(g, true, true);
        else if (!g.ring.ordered)
            rc = ferry_gpu_tell(g, ferry_gpu_command(FERRY_COMMAND_FENCE, 0, 0, nullptr, nullptr, 0, nullptr, 0), false);
    }
    return ferry_gpu_result<scope>(rc);
}

template <int scope> FERRY_GPU_FN int ferry_gpu_quiet_by(struct ferry_gpu &g, unsigned kind, int pe)
{
    int rc = FERRY_OK;
    ferry_gpu_together<scope>();
    if (ferry_gpu_leader<scope>()) {
        bool behind = true;
        if (ferry_gpu_direct(g))
            behind = ferry_gpu_release_behind(g) || g.ring.layout != FERRY_RING_LAYOUT;
        if (behind)
            rc = ferry_gpu_drain(g, kind, pe);
    }
    return ferry_gpu_result<scope>(rc);
}

/* ------------------------------------------------------------------ operations of a thread
 * Rules and arguments of the host's functions of the same name. `_nbi`: the source belongs to the library until quiet. how:
 * FERRY_SIGNAL_SET or FERRY_SIGNAL_ADD, perhaps | FERRY_SIGNAL_WEAK. quiet: all that this thread posted before, and others of which
 * it knows, is complete, and what they got is in place. */

FERRY_GPU_FN int ferry_gpu_put(struct ferry_gpu &g, void *dest, const void *src, uint64_t length, int pe)
{
    return ferry_gpu_put_by<FERRY_GPU_THREAD>(g, dest, src, length, pe, FERRY_COMMAND_ANNOUNCE);
}

FERRY_GPU_FN int ferry_gpu_put_nbi(struct ferry_gpu &g, void *dest, const void *src, uint64_t length, int pe)
{
    return ferry_gpu_put_by<FERRY_GPU_THREAD>(g, dest, src, length, pe, 0);
}

FERRY_GPU_FN int ferry_gpu_get(struct ferry_gpu &g, void *dest, const void *src, uint64_t length, int pe)
{
    return ferry_gpu_get_by<FERRY_GPU_THREAD>(g, dest, src, length, pe, FERRY_COMMAND_ANNOUNCE);
}

FERRY_GPU_FN int ferry_gpu_get_nbi(struct ferry_gpu &g, void *dest, const void *src, uint64_t length, int pe)
{
    return ferry_gpu_get_by<FERRY_GPU_THREAD>(g, dest, src, length, pe, 0);
}

FERRY_GPU_FN int ferry_gpu_put_signal(struct ferry_gpu &g, void *dest, const void *src, uint64_t length, uint64_t *signal,
                                      uint64_t value, int how, int pe)
{
    return ferry_gpu_put_signal_by<FERRY_GPU_THREAD>(g, dest, src, length, signal, value, how, pe, FERRY_COMMAND_ANNOUNCE);
}

FERRY_GPU_FN int ferry_gpu_put_signal_nbi(struct ferry_gpu &g, void *dest, const void *src, uint64_t length, uint64_t *signal,
                                          uint64_t value, int how, int pe)
{
    return ferry_gpu_put_signal_by<FERRY_GPU_THREAD>(g, dest, src, length, signal, value, how, pe, 0);
}

FERRY_GPU_FN int ferry_gpu_signal(struct ferry_gpu &g, uint64_t *signal, uint64_t value, int how, int pe)
{
    return ferry_gpu_signal_by<FERRY_GPU_THREAD>(g, signal, value, how, pe);
}

FERRY_GPU_FN int ferry_gpu_fence(struct ferry_gpu &g)
{
    return ferry_gpu_fence_by<FERRY_GPU_THREAD>(g);
}

FERRY_GPU_FN int ferry_gpu_quiet(struct ferry_gpu &g)
{
    return ferry_gpu_quiet_by<FERRY_GPU_THREAD>(g, FERRY_COMMAND_QUIET, 0);
}

FERRY_GPU_FN int ferry_gpu_quiet_pe(struct ferry_gpu &g, int pe)
{
    return ferry_gpu_quiet_by<FERRY_GPU_THREAD>(g, FERRY_COMMAND_QUIET_PE, pe);
}

/* One value, by value: no source to keep. */
FERRY_GPU_FN int ferry_gpu_p(struct ferry_gpu &g, uint64_t *dest, uint64_t value, int pe)
{
    const uint64_t there = ferry_gpu_find_word(g, dest, 8, pe, false);
    if (!there)
        return ferry_gpu_tell(g, ferry_gpu_command(FERRY_COMMAND_P64, 0, pe, dest, nullptr, 0, nullptr, value), false);
    *(volatile uint64_t *)(uintptr_t)there = value;
    return FERRY_OK;
}

FERRY_GPU_FN int ferry_gpu_p32(struct ferry_gpu &g, uint32_t *dest, uint32_t value, int pe)
{
    const uint64_t there = ferry_gpu_find_word(g, dest, 4, pe, false);
    if (!there)
        return ferry_gpu_tell(g, ferry_gpu_command(FERRY_COMMAND_P32, 0, pe, dest, nullptr, 0, nullptr, value), false);
    *(volatile uint32_t *)(uintptr_t)there = value;
    return FERRY_OK;
}

/* ------------------------------------------------------------------ atomics, of a thread
 * By the kernel where the word lies in a window that was opened for them (FERRY_WINDOW_ATOMICS), else through the ring. */

FERRY_GPU_FN struct ferry_command ferry_gpu_atomic_command(unsigned amo, unsigned width, unsigned flags, const void *word, const void *old,
                                                           uint64_t value, uint64_t compare, int pe)
{
    struct ferry_command c = ferry_gpu_command(FERRY_COMMAND_AMO, flags, pe, word, old, 0, nullptr, value);
    c.amo = (uint8_t)amo;
    c.width = (uint8_t)width;
    c.compare = compare;
    return c;
}

FERRY_GPU_FN uint64_t ferry_gpu_atomic_there(struct ferry_gpu &g, unsigned amo, unsigned width, const void *word, int pe)
{
    return (width == 8 || width == 4) && amo <= FERRY_COMMAND_AMO_FETCH ? ferry_gpu_find_word(g, word, width, pe, true) : 0;
}

/* Without a result. amo: FERRY_COMMAND_AMO_SET to _XOR; width: 8 or 4 bytes. */
FERRY_GPU_FN int ferry_gpu_atomic(struct ferry_gpu &g, unsigned amo, unsigned width, void *word, uint64_t value, int pe)
{
    const uint64_t there = ferry_gpu_atomic_there(g, amo, width, word, pe);
    if (!there)
        return ferry_gpu_tell(g, ferry_gpu_atomic_command(amo, width, 0, word, nullptr, value, 0, pe), false);
    ferry_gpu_update_word(there, amo, width, value, 0);
    return FERRY_OK;
}

/* Through the ring: its result comes to a word of the host. */
FERRY_GPU_FN int ferry_gpu_atomic_ask(struct ferry_gpu &g, unsigned amo, unsigned width, void *word, uint64_t value, uint64_t compare,
                                      uint64_t *old, int pe)
{
    unsigned slot = (blockIdx.x * blockDim.x + threadIdx.x) % FERRY_GPU_FETCH_SLOTS;
    while (atomicCAS(&g.state->busy[slot], 0u, 1u) != 0)
        slot = (slot + 1) % FERRY_GPU_FETCH_SLOTS;
    const unsigned flags = FERRY_COMMAND_FETCH | FERRY_COMMAND_ANNOUNCE;
    const int rc = ferry_gpu_tell(g, ferry_gpu_atomic_command(amo, width, flags, word, g.fetched + slot, value, compare, pe), false);
    const uint64_t got = ferry_gpu_load(g.fetched + slot);
    *old = width == 4 ? (uint32_t)got : got;
    __threadfence();
    atomicExch(&g.state->busy[slot], 0u);
    return rc;
}

/* With its old value, of any kind but SET; compare: of FERRY_COMMAND_AMO_CSWAP. */
FERRY_GPU_FN int ferry_gpu_atomic_fetch(struct ferry_gpu &g, unsigned amo, unsigned width, void *word, uint64_t value, uint64_t compare,
                                        uint64_t *old, int pe)
{
    const uint64_t there = amo == FERRY_COMMAND_AMO_SET ? 0 : ferry_gpu_atomic_there(g, amo, width, word, pe);
    if (!there)
        return ferry_gpu_atomic_ask(g, amo, width, word, value, compare, old, pe);
    *old = ferry_gpu_update_word(there, amo, width, value, compare);
    return FERRY_OK;
}

FERRY_GPU_FN int ferry_gpu_atomic_add(struct ferry_gpu &g, uint64_t *word, uint64_t value, int pe)
{
    return ferry_gpu_atomic(g, FERRY_COMMAND_AMO_ADD, 8, word, value, pe);
}

FERRY_GPU_FN int ferry_gpu_atomic_fetch_add(struct ferry_gpu &g, uint64_t *word, uint64_t value, uint64_t *old, int pe)
{
    return ferry_gpu_atomic_fetch(g, FERRY_COMMAND_AMO_ADD, 8, word, value, 0, old, pe);
}

FERRY_GPU_FN int ferry_gpu_atomic_swap(struct ferry_gpu &g, uint64_t *word, uint64_t value, uint64_t *old, int pe)
{
    return ferry_gpu_atomic_fetch(g, FERRY_COMMAND_AMO_SWAP, 8, word, value, 0, old, pe);
}

FERRY_GPU_FN int ferry_gpu_atomic_compare_swap(struct ferry_gpu &g, uint64_t *word, uint64_t compare, uint64_t value, uint64_t *old,
                                               int pe)
{
    return ferry_gpu_atomic_fetch(g, FERRY_COMMAND_AMO_CSWAP, 8, word, value, compare, old, pe);
}

/* The value of a word of a peer. */
FERRY_GPU_FN int ferry_gpu_g(struct ferry_gpu &g, const uint64_t *src, uint64_t *value, int pe)
{
    const uint64_t there = ferry_gpu_find_word(g, src, 8, pe, false);
    if (!there)
        return ferry_gpu_atomic_ask(g, FERRY_COMMAND_AMO_FETCH, 8, (void *)src, 0, 0, value, pe);
    *value = *(const volatile uint64_t *)(uintptr_t)there;
    return FERRY_OK;
}

/* ------------------------------------------------------------------ operations of a warp: all 32 threads call
 * quiet and fence: for what all of them did before. */

FERRY_GPU_FN int ferry_gpu_put_warp(struct ferry_gpu &g, void *dest, const void *src, uint64_t length, int pe)
{
    return ferry_gpu_put_by<FERRY_GPU_WARP>(g, dest, src, length, pe, FERRY_COMMAND_ANNOUNCE);
}

FERRY_GPU_FN int ferry_gpu_put_nbi_warp(struct ferry_gpu &g, void *dest, const void *src, uint64_t length, int pe)
{
    return ferry_gpu_put_by<FERRY_GPU_WARP>(g, dest, src, length, pe, 0);
}

FERRY_GPU_FN int ferry_gpu_get_warp(struct ferry_gpu &g, void *dest, const void *src, uint64_t length, int pe)
{
    return ferry_gpu_get_by<FERRY_GPU_WARP>(g, dest, src, length, pe, FERRY_COMMAND_ANNOUNCE);
}

FERRY_GPU_FN int ferry_gpu_get_nbi_warp(struct ferry_gpu &g, void *dest, const void *src, uint64_t length, int pe)
{
    return ferry_gpu_get_by<FERRY_GPU_WARP>(g, dest, src, length, pe, 0);
}

FERRY_GPU_FN int ferry_gpu_put_signal_warp(struct ferry_gpu &g, void *dest, const void *src, uint64_t length, uint64_t *signal,
                                           uint64_t value, int how, int pe)
{
    return ferry_gpu_put_signal_by<FERRY_GPU_WARP>(g, dest, src, length, signal, value, how, pe, FERRY_COMMAND_ANNOUNCE);
}

FERRY_GPU_FN int ferry_gpu_put_signal_nbi_warp(struct ferry_gpu &g, void *dest, const void *src, uint64_t length,
                                               uint64_t *signal, uint64_t value, int how, int pe)
{
    return ferry_gpu_put_signal_by<FERRY_GPU_WARP>(g, dest, src, length, signal, value, how, pe, 0);
}

FERRY_GPU_FN int ferry_gpu_signal_warp(struct ferry_gpu &g, uint64_t *signal, uint64_t value, int how, int pe)
{
    return ferry_gpu_signal_by<FERRY_GPU_WARP>(g, signal, value, how, pe);
}

FERRY_GPU_FN int ferry_gpu_fence_warp(struct ferry_gpu &g)
{
    return ferry_gpu_fence_by<FERRY_GPU_WARP>(g);
}

FERRY_GPU_FN int ferry_gpu_quiet_warp(struct ferry_gpu &g)
{
    return ferry_gpu_quiet_by<FERRY_GPU_WARP>(g, FERRY_COMMAND_QUIET, 0);
}

FERRY_GPU_FN int ferry_gpu_quiet_pe_warp(struct ferry_gpu &g, int pe)
{
    return ferry_gpu_quiet_by<FERRY_GPU_WARP>(g, FERRY_COMMAND_QUIET_PE, pe);
}

/* ------------------------------------------------------------------ operations of a block: all threads call
 */

FERRY_GPU_FN int ferry_gpu_put_block(struct ferry_gpu &g, void *dest, const void *src, uint64_t length, int pe)
{
    return ferry_gpu_put_by<FERRY_GPU_BLOCK>(g, dest, src, length, pe, FERRY_COMMAND_ANNOUNCE);
}

FERRY_GPU_FN int ferry_gpu_put_nbi_block(struct ferry_gpu &g, void *dest, const void *src, uint64_t length, int pe)
{
    return ferry_gpu_put_by<FERRY_GPU_BLOCK>(g, dest, src, length, pe, 0);
}

FERRY_GPU_FN int ferry_gpu_get_block(struct ferry_gpu &g, void *dest, const void *src, uint64_t length, int pe)
{
    return ferry_gpu_get_by<FERRY_GPU_BLOCK>(g, dest, src, length, pe, FERRY_COMMAND_ANNOUNCE);
}

FERRY_GPU_FN int ferry_gpu_get_nbi_block(struct ferry_gpu &g, void *dest, const void *src, uint64_t length, int pe)
{
    return ferry_gpu_get_by<FERRY_GPU_BLOCK>(g, dest, src, length, pe, 0);
}

FERRY_GPU_FN int ferry_gpu_put_signal_block(struct ferry_gpu &g, void *dest, const void *src, uint64_t length, uint64_t *signal,
                                            uint64_t value, int how, int pe)
{
    return ferry_gpu_put_signal_by<FERRY_GPU_BLOCK>(g, dest, src, length, signal, value, how, pe, FERRY_COMMAND_ANNOUNCE);
}

FERRY_GPU_FN int ferry_gpu_put_signal_nbi_block(struct ferry_gpu &g, void *dest, const void *src, uint64_t length,
                                                uint64_t *signal, uint64_t value, int how, int pe)
{
    return ferry_gpu_put_signal_by<FERRY_GPU_BLOCK>(g, dest, src, length, signal, value, how, pe, 0);
}

FERRY_GPU_FN int ferry_gpu_signal_block(struct ferry_gpu &g, uint64_t *signal, uint64_t value, int how, int pe)
{
    return ferry_gpu_signal_by<FERRY_GPU_BLOCK>(g, signal, value, how, pe);
}

FERRY_GPU_FN int ferry_gpu_fence_block(struct ferry_gpu &g)
{
    return ferry_gpu_fence_by<FERRY_GPU_BLOCK>(g);
}

FERRY_GPU_FN int ferry_gpu_quiet_block(struct ferry_gpu &g)
{
    return ferry_gpu_quiet_by<FERRY_GPU_BLOCK>(g, FERRY_COMMAND_QUIET, 0);
}

FERRY_GPU_FN int ferry_gpu_quiet_pe_block(struct ferry_gpu &g, int pe)
{
    return ferry_gpu_quiet_by<FERRY_GPU_BLOCK>(g, FERRY_COMMAND_QUIET_PE, pe);
}

#include <ferry/device_sync.cuh>

#endif
