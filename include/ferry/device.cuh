/* SPDX-License-Identifier: Apache-2.0
 * Ferry's interface for CUDA kernels: operations become commands in a ring, which the library's proxy carries out. Header only, no
 * relocatable device code; kernels take `struct ferry_gpu` by value. CUDA C++17, sm_80 and later; docs/gpu.md.
 * Device functions: any thread; the names say whether a thread, a warp or a block calls together. */
#ifndef FERRY_DEVICE_CUH
#define FERRY_DEVICE_CUH

#include <ferry/gpu.cuh>

#define FERRY_GPU_FN __device__ __forceinline__

#define FERRY_GPU_POLLS 1024u /* looks at memory between looks at alarm and clock */

/* ------------------------------------------------------------------ memory */

FERRY_GPU_FN void ferry_gpu_store_slot(uint64_t *slot, uint64_t first, uint64_t second)
{
    asm volatile("st.relaxed.sys.global.v2.u64 [%0], {%1, %2};" ::"l"(slot), "l"(first), "l"(second) : "memory");
}

FERRY_GPU_FN uint64_t ferry_gpu_load(const uint64_t *word)
{
    uint64_t v;
    asm volatile("ld.acquire.sys.global.u64 %0, [%1];" : "=l"(v) : "l"(word) : "memory");
    return v;
}

/* PTX memory model, 8.8 (causality order): what this thread wrote, and what was made known to it by a barrier, is
 * visible in the whole system before what it writes next. */
FERRY_GPU_FN void ferry_gpu_release(void)
{
    asm volatile("fence.acq_rel.sys;" ::: "memory");
}

FERRY_GPU_FN uint64_t ferry_gpu_clock(void)
{
    uint64_t t;
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(t));
    return t;
}

FERRY_GPU_FN unsigned ferry_gpu_lane(void)
{
    unsigned lane;
    asm("mov.u32 %0, %laneid;" : "=r"(lane));
    return lane;
}

/* Nobody will read the ring any more. */
FERRY_GPU_FN bool ferry_gpu_closed(const struct ferry_gpu &g)
{
    return ferry_gpu_load(g.ring.state) == FERRY_RING_CLOSED;
}

/* ------------------------------------------------------------------ the ring */

/* Looks whether the slots below `end` may be written. `polls` counts the looks: few threads look at host memory, one at a time, the
 * others at its copy in GPU memory. */
FERRY_GPU_FN bool ferry_gpu_room(struct ferry_gpu &g, uint64_t end, unsigned *polls)
{
    const uint64_t capacity = (uint64_t)1 << g.ring.slot_bits;
    if (end - g.ring.seen <= capacity)
        return true;
    g.ring.seen = *(volatile unsigned long long *)&g.state->consumed;
    if (end - g.ring.seen > capacity) {
        const bool mine = end % 32 == 0 || *polls % 16 == 15; /* every 32nd; and whoever waits for long, as it may be alone */
        if (mine && *(volatile unsigned *)&g.state->poller == 0 && atomicExch(&g.state->poller, 1u) == 0) {
            const uint64_t now = ferry_gpu_load(g.ring.consumed);
            atomicMax(&g.state->consumed, (unsigned long long)now);
            atomicExch(&g.state->poller, 0u);
            g.ring.seen = now;
        } else {
            __nanosleep(100);
        }
        ++*polls;
    }
    /* what is written into the slots comes after the look that found them read (PTX memory model, 8.8): the fence makes an
     * acquire pattern of a look at the copy, too */
    __threadfence();
    return end - g.ring.seen <= capacity;
}

FERRY_GPU_FN void ferry_gpu_store(const struct ferry_gpu &g, uint64_t position, const uint64_t *words, unsigned slots)
{
    const uint64_t mask = ((uint64_t)1 << g.ring.slot_bits) - 1;
#pragma unroll
    for (unsigned i = 0; i < 3; i++)
        if (i < slots) {
            const uint64_t lap = ferry_ring_lap(position + i, g.ring.slot_bits);
            ferry_gpu_store_slot(g.ring.slots + 2 * ((position + i) & mask), words[2 * i] | lap, words[2 * i + 1] | lap);
        }
}

/* Hands a command over; `payload`: memory that this thread wrote, or knows of, belongs to it. FERRY_OK, or why not, as
 * ferry_ring_post. No thread waits here for another one of its warp: which of them are together is not known to a program. */
FERRY_GPU_FN int ferry_gpu_post(struct ferry_gpu &g, const struct ferry_command &command, bool payload, uint64_t *end)
{
    uint64_t words[FERRY_RING_WORDS];
    int told;
    unsigned polls = 0;
    if (g.ring.layout != FERRY_RING_LAYOUT)
        return FERRY_ERR_ABI;
    const unsigned slots = ferry_ring_encode(&command, g.ring.base, words, &told);
    const uint64_t position = atomicAdd(&g.state->head, (unsigned long long)slots);
    if (payload) /* takes as long as the reservation: both go together */
        ferry_gpu_release();
    *end = position + slots;
    for (bool stored = false; !stored;) {
        stored = ferry_gpu_room(g, *end, &polls);
        if (stored) /* in the loop: others of the warp may wait for room that this command makes */
            ferry_gpu_store(g, position, words, slots);
        else if (polls % FERRY_GPU_POLLS == 0 && ferry_gpu_closed(g))
            return FERRY_ERR_STATE;
    }
    return told;
}

/* Until what was announced up to `end` is complete; then the ring's status. */
FERRY_GPU_FN int ferry_gpu_wait(struct ferry_gpu &g, uint64_t end)
{
    unsigned polls = 0;
    while (ferry_gpu_load(g.ring.completed) < end)
        if (++polls % FERRY_GPU_POLLS == 0 && ferry_gpu_closed(g) && ferry_gpu_load(g.ring.completed) < end)
            return FERRY_ERR_STATE;
    return ferry_ring_failure_of(ferry_gpu_load(g.ring.error)).status;
}

/* Status of the first command of the ring that failed, FERRY_OK if none did. */
FERRY_GPU_FN int ferry_gpu_status(const struct ferry_gpu &g)
{
    return ferry_ring_failure_of(ferry_gpu_load(g.ring.error)).status;
}

FERRY_GPU_FN struct ferry_command ferry_gpu_command(unsigned kind, unsigned flags, int pe, const void *remote, const void *local,
                                                    uint64_t length, const void *signal, uint64_t value)
{
    struct ferry_command c;
    c.kind = (uint8_t)kind;
    c.amo = c.width = 0;
    c.flags = (uint8_t)flags;
    c.pe = (uint32_t)pe;
    c.remote = (uint64_t)(uintptr_t)remote;
    c.local = (uint64_t)(uintptr_t)local;
    c.length = length;
    c.signal = (uint64_t)(uintptr_t)signal;
    c.value = value;
    c.compare = 0;
    return c;
}

/* ------------------------------------------------------------------ operations of a thread
 * Rules and arguments of the host's functions of the same name. `_nbi`: the source belongs to the library until quiet. */

FERRY_GPU_FN int ferry_gpu_my_pe(const struct ferry_gpu &g)
{
    return (int)g.ring.my_pe;
}

FERRY_GPU_FN int ferry_gpu_n_pes(const struct ferry_gpu &g)
{
    return (int)g.ring.n_pes;
}

FERRY_GPU_FN int ferry_gpu_put_nbi(struct ferry_gpu &g, void *dest, const void *src, uint64_t length, int pe)
{
    uint64_t end;
    return ferry_gpu_post(g, ferry_gpu_command(FERRY_COMMAND_PUT, 0, pe, dest, src, length, nullptr, 0), true, &end);
}

FERRY_GPU_FN int ferry_gpu_put(struct ferry_gpu &g, void *dest, const void *src, uint64_t length, int pe)
{
    uint64_t end;
    const struct ferry_command c = ferry_gpu_command(FERRY_COMMAND_PUT, FERRY_COMMAND_ANNOUNCE, pe, dest, src, length, nullptr, 0);
    const int rc = ferry_gpu_post(g, c, true, &end);
    return rc == FERRY_OK ? ferry_gpu_wait(g, end) : rc;
}

FERRY_GPU_FN int ferry_gpu_get_nbi(struct ferry_gpu &g, void *dest, const void *src, uint64_t length, int pe)
{
    uint64_t end;
    return ferry_gpu_post(g, ferry_gpu_command(FERRY_COMMAND_GET, 0, pe, src, dest, length, nullptr, 0), true, &end);
}

FERRY_GPU_FN int ferry_gpu_get(struct ferry_gpu &g, void *dest, const void *src, uint64_t length, int pe)
{
    uint64_t end;
    const struct ferry_command c = ferry_gpu_command(FERRY_COMMAND_GET, FERRY_COMMAND_ANNOUNCE, pe, src, dest, length, nullptr, 0);
    const int rc = ferry_gpu_post(g, c, true, &end);
    return rc == FERRY_OK ? ferry_gpu_wait(g, end) : rc;
}

/* One value, which travels in the command. */
FERRY_GPU_FN int ferry_gpu_p(struct ferry_gpu &g, uint64_t *dest, uint64_t value, int pe)
{
    uint64_t end;
    return ferry_gpu_post(g, ferry_gpu_command(FERRY_COMMAND_P64, 0, pe, dest, nullptr, 0, nullptr, value), false, &end);
}

FERRY_GPU_FN int ferry_gpu_p32(struct ferry_gpu &g, uint32_t *dest, uint32_t value, int pe)
{
    uint64_t end;
    return ferry_gpu_post(g, ferry_gpu_command(FERRY_COMMAND_P32, 0, pe, dest, nullptr, 0, nullptr, value), false, &end);
}

FERRY_GPU_FN unsigned ferry_gpu_signal_kind(int how)
{
    return how & ~(FERRY_SIGNAL_ADD | FERRY_SIGNAL_WEAK)
               ? (unsigned)FERRY_COMMAND_BAD
               : (unsigned)FERRY_COMMAND_SIGNAL_SET + (how & FERRY_SIGNAL_ADD ? 1 : 0) + (how & FERRY_SIGNAL_WEAK ? 2 : 0);
}

/* how: FERRY_SIGNAL_SET or FERRY_SIGNAL_ADD, perhaps | FERRY_SIGNAL_WEAK. The signal carries no data of its own, so it releases
 * nothing: what it covers was put by commands, which did. */
FERRY_GPU_FN int ferry_gpu_signal(struct ferry_gpu &g, uint64_t *signal, uint64_t value, int how, int pe)
{
    uint64_t end;
    return ferry_gpu_post(g, ferry_gpu_command(ferry_gpu_signal_kind(how), 0, pe, signal, nullptr, 0, nullptr, value), false, &end);
}

FERRY_GPU_FN int ferry_gpu_put_signal_nbi(struct ferry_gpu &g, void *dest, const void *src, uint64_t length, uint64_t *signal,
                                          uint64_t value, int how, int pe)
{
    uint64_t end;
    const unsigned kind = ferry_gpu_signal_kind(how) == FERRY_COMMAND_BAD ? FERRY_COMMAND_BAD : FERRY_COMMAND_PUT_SIGNAL;
    const unsigned flags = (how & FERRY_SIGNAL_ADD ? FERRY_COMMAND_ADD : 0) | (how & FERRY_SIGNAL_WEAK ? FERRY_COMMAND_WEAK : 0);
    return ferry_gpu_post(g, ferry_gpu_command(kind, flags, pe, dest, src, length, signal, value), true, &end);
}

/* An atomic without a result. amo: FERRY_COMMAND_AMO_SET to _XOR; width: 8 or 4 bytes. */
FERRY_GPU_FN int ferry_gpu_atomic(struct ferry_gpu &g, unsigned amo, unsigned width, void *word, uint64_t value, int pe)
{
    uint64_t end;
    struct ferry_command c = ferry_gpu_command(FERRY_COMMAND_AMO, 0, pe, word, nullptr, 0, nullptr, value);
    c.amo = (uint8_t)amo;
    c.width = (uint8_t)width;
    return ferry_gpu_post(g, c, false, &end);
}

/* An atomic with its old value, of any kind but SET; compare: of FERRY_COMMAND_AMO_CSWAP. */
FERRY_GPU_FN int ferry_gpu_atomic_fetch(struct ferry_gpu &g, unsigned amo, unsigned width, void *word, uint64_t value, uint64_t compare,
                                        uint64_t *old, int pe)
{
    uint64_t end;
    unsigned slot = (blockIdx.x * blockDim.x + threadIdx.x) % FERRY_GPU_FETCH_SLOTS;
    while (atomicCAS(&g.state->busy[slot], 0u, 1u) != 0)
        slot = (slot + 1) % FERRY_GPU_FETCH_SLOTS;
    struct ferry_command c = ferry_gpu_command(FERRY_COMMAND_AMO, FERRY_COMMAND_FETCH | FERRY_COMMAND_ANNOUNCE, pe, word,
                                               g.fetched + slot, 0, nullptr, value);
    c.amo = (uint8_t)amo;
    c.width = (uint8_t)width;
    c.compare = compare;
    int rc = ferry_gpu_post(g, c, false, &end);
    if (rc == FERRY_OK)
        rc = ferry_gpu_wait(g, end);
    *old = width == 4 ? (uint32_t)ferry_gpu_load(g.fetched + slot) : ferry_gpu_load(g.fetched + slot);
    __threadfence();
    atomicExch(&g.state->busy[slot], 0u);
    return rc;
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
    return ferry_gpu_atomic_fetch(g, FERRY_COMMAND_AMO_FETCH, 8, (void *)src, 0, 0, value, pe);
}

/* Nothing where the transport keeps order by itself. */
FERRY_GPU_FN int ferry_gpu_fence(struct ferry_gpu &g)
{
    uint64_t end;
    if (g.ring.ordered)
        return FERRY_OK;
    return ferry_gpu_post(g, ferry_gpu_command(FERRY_COMMAND_FENCE, 0, 0, nullptr, nullptr, 0, nullptr, 0), false, &end);
}

/* All that this thread posted before, and others of which it knows, is complete, and what they got is in place. */
FERRY_GPU_FN int ferry_gpu_quiet(struct ferry_gpu &g)
{
    uint64_t end;
    const struct ferry_command c = ferry_gpu_command(FERRY_COMMAND_QUIET, FERRY_COMMAND_ANNOUNCE, 0, nullptr, nullptr, 0, nullptr, 0);
    const int rc = ferry_gpu_post(g, c, false, &end);
    return rc == FERRY_OK ? ferry_gpu_wait(g, end) : rc;
}

/* ------------------------------------------------------------------ waiting for this PE's own memory */

FERRY_GPU_FN bool ferry_gpu_compare(uint64_t a, int cmp, uint64_t b)
{
    switch (cmp) {
    case FERRY_CMP_EQ: return a == b;
    case FERRY_CMP_NE: return a != b;
    case FERRY_CMP_GT: return a > b;
    case FERRY_CMP_GE: return a >= b;
    case FERRY_CMP_LT: return a < b;
    default: return a <= b;
    }
}

/* 1: holds, 0: does not. What the writer had put before is there for later loads. */
FERRY_GPU_FN int ferry_gpu_test(const uint64_t *word, int cmp, uint64_t value)
{
    return ferry_gpu_compare(ferry_gpu_load(word), cmp, value);
}

/* Ends with FERRY_ERR_ABORTED after an abort, FERRY_ERR_PEER when a PE died that the program has not acknowledged,
 * FERRY_ERR_STATE when the ring was closed, FERRY_ERR_TIMEOUT after `nanoseconds`; 0: no bound. */
FERRY_GPU_FN int ferry_gpu_wait_until(const struct ferry_gpu &g, const uint64_t *word, int cmp, uint64_t value, uint64_t nanoseconds)
{
    const uint64_t start = nanoseconds ? ferry_gpu_clock() : 0;
    for (unsigned polls = 1; !ferry_gpu_test(word, cmp, value); polls++) {
        if (polls % FERRY_GPU_POLLS)
            continue;
        int rc = -(int)ferry_gpu_load(g.ring.alarm);
        if (rc == FERRY_OK && ferry_gpu_closed(g))
            rc = FERRY_ERR_STATE;
        if (rc == FERRY_OK && nanoseconds && ferry_gpu_clock() - start > nanoseconds)
            rc = FERRY_ERR_TIMEOUT;
        if (rc != FERRY_OK) /* it may have come between the look and the verdict */
            return ferry_gpu_test(word, cmp, value) ? FERRY_OK : rc;
    }
    return FERRY_OK;
}

/* ------------------------------------------------------------------ operations of a warp, of a block
 * All threads call, with the same arguments; what any of them wrote before belongs to the operation. One command. */

FERRY_GPU_FN int ferry_gpu_put_nbi_warp(struct ferry_gpu &g, void *dest, const void *src, uint64_t length, int pe)
{
    int rc = FERRY_OK;
    __syncwarp();
    if (ferry_gpu_lane() == 0)
        rc = ferry_gpu_put_nbi(g, dest, src, length, pe);
    return __shfl_sync(~0u, rc, 0);
}

FERRY_GPU_FN int ferry_gpu_put_signal_nbi_warp(struct ferry_gpu &g, void *dest, const void *src, uint64_t length, uint64_t *signal,
                                               uint64_t value, int how, int pe)
{
    int rc = FERRY_OK;
    __syncwarp();
    if (ferry_gpu_lane() == 0)
        rc = ferry_gpu_put_signal_nbi(g, dest, src, length, signal, value, how, pe);
    return __shfl_sync(~0u, rc, 0);
}

/* One fence, one quiet, for what all threads of the warp posted before. */
FERRY_GPU_FN int ferry_gpu_fence_warp(struct ferry_gpu &g)
{
    int rc = FERRY_OK;
    __syncwarp();
    if (ferry_gpu_lane() == 0)
        rc = ferry_gpu_fence(g);
    return __shfl_sync(~0u, rc, 0);
}

FERRY_GPU_FN int ferry_gpu_quiet_warp(struct ferry_gpu &g)
{
    int rc = FERRY_OK;
    __syncwarp();
    if (ferry_gpu_lane() == 0)
        rc = ferry_gpu_quiet(g);
    return __shfl_sync(~0u, rc, 0);
}

/* 1 in the thread that posts, after all have come. */
FERRY_GPU_FN bool ferry_gpu_block_leader(void)
{
    __syncthreads();
    return threadIdx.x == 0 && threadIdx.y == 0 && threadIdx.z == 0;
}

/* Its result, for all. */
FERRY_GPU_FN int ferry_gpu_block_result(bool leader, int rc)
{
    __shared__ int result;
    if (leader)
        result = rc;
    __syncthreads();
    rc = result;
    __syncthreads(); /* before the next call writes it */
    return rc;
}

FERRY_GPU_FN int ferry_gpu_put_nbi_block(struct ferry_gpu &g, void *dest, const void *src, uint64_t length, int pe)
{
    const bool leader = ferry_gpu_block_leader();
    int rc = FERRY_OK;
    if (leader)
        rc = ferry_gpu_put_nbi(g, dest, src, length, pe);
    return ferry_gpu_block_result(leader, rc);
}

FERRY_GPU_FN int ferry_gpu_put_signal_nbi_block(struct ferry_gpu &g, void *dest, const void *src, uint64_t length, uint64_t *signal,
                                                uint64_t value, int how, int pe)
{
    const bool leader = ferry_gpu_block_leader();
    int rc = FERRY_OK;
    if (leader)
        rc = ferry_gpu_put_signal_nbi(g, dest, src, length, signal, value, how, pe);
    return ferry_gpu_block_result(leader, rc);
}

FERRY_GPU_FN int ferry_gpu_quiet_block(struct ferry_gpu &g)
{
    const bool leader = ferry_gpu_block_leader();
    int rc = FERRY_OK;
    if (leader)
        rc = ferry_gpu_quiet(g);
    return ferry_gpu_block_result(leader, rc);
}

#endif
