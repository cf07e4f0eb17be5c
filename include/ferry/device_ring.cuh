/* SPDX-License-Identifier: Apache-2.0
 * Part of ferry/device.cuh: how a thread of a kernel hands commands to a ring, and waits for them.
 * Device functions: any thread, alone; no thread waits here for another one of its warp. */
#ifndef FERRY_DEVICE_RING_CUH
#define FERRY_DEVICE_RING_CUH

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

/* Some operations are loads and stores of the kernel. */
FERRY_GPU_FN bool ferry_gpu_direct(const struct ferry_gpu &g)
{
    return g.n_windows != 0;
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
    if (ferry_gpu_direct(g)) /* signals that are stores look there */
        atomicMax(&g.state->settled, (unsigned long long)end);
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

/* A release; true: commands were posted that are not known to be complete. The look is under way while the fence is. */
FERRY_GPU_FN bool ferry_gpu_release_behind(const struct ferry_gpu &g)
{
    uint64_t head, settled;
    asm volatile("ld.volatile.global.v2.u64 {%0, %1}, [%2];\n\t"
                 "fence.acq_rel.sys;"
                 : "=l"(head), "=l"(settled)
                 : "l"(&g.state->head)
                 : "memory");
    return head > settled;
}

/* Until all that was posted before is complete; FERRY_COMMAND_QUIET, or _QUIET_PE. */
FERRY_GPU_FN int ferry_gpu_drain(struct ferry_gpu &g, unsigned kind, int pe)
{
    uint64_t end;
    const struct ferry_command c = ferry_gpu_command(kind, FERRY_COMMAND_ANNOUNCE, pe, nullptr, nullptr, 0, nullptr, 0);
    const int rc = ferry_gpu_post(g, c, false, &end);
    return rc == FERRY_OK ? ferry_gpu_wait(g, end) : rc;
}

#endif
