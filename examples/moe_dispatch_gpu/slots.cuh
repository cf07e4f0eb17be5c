/* SPDX-License-Identifier: Apache-2.0
 * Slots on the GPU: the same bytes, stamps and hashes as in the CPU's example. Each function is called by a whole warp. */
#ifndef MOE_GPU_SLOTS_CUH
#define MOE_GPU_SLOTS_CUH

#include "work.h"
#include <ferry/device.cuh>

__device__ inline uint64_t gpu_mix64(uint64_t x)
{
    x += 0x9e3779b97f4a7c15ull;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
    return x ^ (x >> 31);
}

__device__ inline uint32_t gpu_expert_owner(const struct work &w, uint32_t expert)
{
    return (uint32_t)((uint64_t)expert * w.n_pes / w.experts);
}

/* Slots are whole lines of 64 bytes. The loads are not kept in a cache: who looks twice sees what came between. */
__device__ inline void slot_copy(char *to, const char *from, uint32_t bytes)
{
    for (uint32_t at = threadIdx.x % 32 * 16; at < bytes; at += 2048) {
        uint64_t a[4], b[4];
#pragma unroll
        for (int i = 0; i < 4; i++)
            if (at + i * 512 < bytes)
                asm volatile("ld.relaxed.sys.global.v2.u64 {%0, %1}, [%2];" : "=l"(a[i]), "=l"(b[i]) : "l"(from + at + i * 512) : "memory");
#pragma unroll
        for (int i = 0; i < 4; i++)
            if (at + i * 512 < bytes)
                *(ulonglong2 *)(to + at + i * 512) = make_ulonglong2(a[i], b[i]);
    }
    __syncwarp();
}

/* Four chains, a thread each. */
__device__ inline uint64_t slot_body_hash(const char *slot, uint32_t slot_bytes)
{
    const uint64_t *words = (const uint64_t *)(slot + sizeof(struct stamp));
    const uint32_t n = (slot_bytes - (uint32_t)sizeof(struct stamp)) / 8, lane = threadIdx.x % 32;
    uint64_t h = lane + 1;
    if (lane < 4) {
#pragma unroll 8
        for (uint32_t i = lane; i < n; i += 4) {
            const uint64_t x = (h ^ words[i]) * 0x9fb21c651e98df25ull;
            h = x ^ (x >> 29);
        }
    }
    const uint64_t h0 = __shfl_sync(~0u, h, 0), h1 = __shfl_sync(~0u, h, 1), h2 = __shfl_sync(~0u, h, 2), h3 = __shfl_sync(~0u, h, 3);
    return gpu_mix64(h0 ^ gpu_mix64(h1 ^ gpu_mix64(h2 ^ gpu_mix64(h3))));
}

__device__ inline void slot_put_stamp(const struct work &w, char *slot, uint32_t channel, uint32_t token, uint64_t sequence)
{
    const uint64_t body = slot_body_hash(slot, w.slot_bytes);
    if (threadIdx.x % 32 == 0)
        *(struct stamp *)slot = {w.phase, w.me, channel, token, sequence, body};
    __syncwarp();
}

__device__ inline bool slot_right(const struct work &w, const char *slot, uint32_t channel, uint32_t from, uint64_t sequence,
                                  struct stamp *seen, uint64_t *body)
{
    *seen = *(const struct stamp *)slot;
    *body = slot_body_hash(slot, w.slot_bytes);
    return seen->phase == w.phase && seen->source == from && seen->channel == channel && seen->sequence == sequence &&
           seen->checksum == *body;
}

/* Dispatch: the choices of the token that the target holds, and the hidden vector. Gives the token. */
__device__ inline uint32_t slot_fill_dispatch(const struct work &w, const struct lane_state *state, uint64_t sequence, char *slot)
{
    const uint32_t own = w.queue[state->queue_at + sequence], lane = threadIdx.x % 32;
    const uint32_t *all = (const uint32_t *)(w.routes + (size_t)own * w.topk); /* struct choice: expert, then weight */
    uint32_t *count = (uint32_t *)(slot + sizeof(struct stamp)), *mine = count + 1, n = 0;
    for (uint32_t base = 0; base < w.topk; base += 32) {
        const uint32_t i = base + lane, choice = i < w.topk ? all[i] : 0;
        const bool his = i < w.topk && gpu_expert_owner(w, choice & 0xffff) == state->to;
        const unsigned votes = __ballot_sync(~0u, his);
        if (his)
            mine[n + __popc(votes & ((1u << lane) - 1))] = choice;
        n += __popc(votes);
    }
    for (uint32_t i = n + lane; i < w.topk; i += 32)
        mine[i] = 0;
    if (lane == 0)
        *count = n;
    const uint16_t *from = w.vectors + (size_t)own * w.hidden;
    uint16_t *payload = (uint16_t *)(slot + w.payload_offset);
    for (uint32_t i = lane; i < (w.slot_bytes - w.payload_offset) / 2; i += 32)
        payload[i] = i < w.hidden ? from[i] : 0;
    __syncwarp();
    return w.first_token + own;
}

/* Combine: the partial sum of a token that came in dispatch. */
__device__ inline uint32_t slot_fill_combine(const struct work &w, const struct lane_state *state, uint64_t sequence, char *slot)
{
    const uint64_t arrival = state->arrival_at + sequence;
    const float *from = w.results + arrival * w.hidden;
    float *payload = (float *)(slot + sizeof(struct stamp));
    for (uint32_t i = threadIdx.x % 32; i < (w.slot_bytes - sizeof(struct stamp)) / 4; i += 32)
        payload[i] = i < w.hidden ? from[i] : 0.0f;
    __syncwarp();
    return ((const struct stamp *)(w.arrivals + arrival * w.arrival_bytes))->token;
}

__device__ inline void slot_add(const struct work &w, const struct lane_state *state, uint64_t sequence, const char *slot)
{
    const float *partial = (const float *)(slot + sizeof(struct stamp));
    float *sum = w.combined + (size_t)w.queue[state->queue_at + sequence] * w.hidden;
    for (uint32_t i = threadIdx.x % 32; i < w.hidden; i += 32)
        sum[i] += partial[i];
}

#endif
