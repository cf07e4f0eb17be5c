/* SPDX-License-Identifier: Apache-2.0
 * Every function of ferry/device.cuh, ferry/stream.cuh and ferry/gpu.cuh once, so that a compiler sees it. Not run. */
#include <ferry/stream.cuh>

__global__ void thread_scope(struct ferry_gpu g, uint64_t *words, uint64_t *out)
{
    const int pe = (ferry_gpu_my_pe(g) + 1) % ferry_gpu_n_pes(g);
    uint32_t *narrow = (uint32_t *)words;
    uint64_t old = 0;
    int rc = ferry_gpu_put_nbi(g, words, words + 8, 64, pe);
    rc |= ferry_gpu_put(g, words, words + 8, 64, pe) | ferry_gpu_get(g, words, words + 8, 64, pe);
    rc |= ferry_gpu_get_nbi(g, words, words + 8, 64, pe) | ferry_gpu_p(g, words, 1, pe) | ferry_gpu_p32(g, narrow, 1, pe);
    rc |= ferry_gpu_signal(g, words, 1, FERRY_SIGNAL_ADD | FERRY_SIGNAL_WEAK, pe);
    rc |= ferry_gpu_put_signal_nbi(g, words, words + 8, 64, words + 16, 1, FERRY_SIGNAL_SET, pe);
    rc |= ferry_gpu_put_signal(g, words, words + 8, 64, words + 16, 1, FERRY_SIGNAL_SET, pe);
    rc |= ferry_gpu_atomic(g, FERRY_COMMAND_AMO_XOR, 4, words, 1, pe) | ferry_gpu_atomic_add(g, words, 1, pe);
    rc |= ferry_gpu_atomic_fetch_add(g, words, 1, &old, pe) | ferry_gpu_atomic_swap(g, words, 1, &old, pe);
    rc |= ferry_gpu_atomic_compare_swap(g, words, 1, 2, &old, pe) | ferry_gpu_g(g, words, &old, pe);
    rc |= ferry_gpu_fence(g) | ferry_gpu_quiet(g) | ferry_gpu_quiet_pe(g, pe) | ferry_gpu_status(g);
    rc |= ferry_gpu_wait_until(g, words, FERRY_CMP_GE, 1, 1000000) | ferry_gpu_signal_wait(g, words, FERRY_CMP_GE, 1, 0, &old);
    rc |= ferry_gpu_test(words, FERRY_CMP_NE, 0) | ferry_gpu_sync(g) | ferry_gpu_barrier(g);
    out[threadIdx.x] = (uint64_t)rc + old + (uint64_t)(uintptr_t)ferry_gpu_ptr(g, words, pe);
}

__global__ void warp_scope(struct ferry_gpu g, uint64_t *words, uint64_t *out)
{
    int rc = ferry_gpu_fence_warp(g) | ferry_gpu_quiet_warp(g) | ferry_gpu_quiet_pe_warp(g, 0);
    rc |= ferry_gpu_put_nbi_warp(g, words, words + 8, 64, 0) | ferry_gpu_put_warp(g, words, words + 8, 64, 0);
    rc |= ferry_gpu_get_nbi_warp(g, words, words + 8, 64, 0) | ferry_gpu_get_warp(g, words, words + 8, 64, 0);
    rc |= ferry_gpu_put_signal_nbi_warp(g, words, words + 8, 64, words + 16, 1, FERRY_SIGNAL_SET, 0);
    rc |= ferry_gpu_put_signal_warp(g, words, words + 8, 64, words + 16, 1, FERRY_SIGNAL_SET, 0);
    rc |= ferry_gpu_signal_warp(g, words, 1, FERRY_SIGNAL_ADD, 0) | ferry_gpu_wait_until_warp(g, words, FERRY_CMP_GE, 1, 0);
    rc |= ferry_gpu_sync_warp(g) | ferry_gpu_barrier_warp(g);
    out[threadIdx.x] = (uint64_t)rc;
}

__global__ void block_scope(struct ferry_gpu g, uint64_t *words, uint64_t *out)
{
    int rc = ferry_gpu_fence_block(g) | ferry_gpu_quiet_block(g) | ferry_gpu_quiet_pe_block(g, 0);
    rc |= ferry_gpu_put_nbi_block(g, words, words + 8, 64, 0) | ferry_gpu_put_block(g, words, words + 8, 64, 0);
    rc |= ferry_gpu_get_nbi_block(g, words, words + 8, 64, 0) | ferry_gpu_get_block(g, words, words + 8, 64, 0);
    rc |= ferry_gpu_put_signal_nbi_block(g, words, words + 8, 64, words + 16, 1, FERRY_SIGNAL_SET, 0);
    rc |= ferry_gpu_put_signal_block(g, words, words + 8, 64, words + 16, 1, FERRY_SIGNAL_SET, 0);
    rc |= ferry_gpu_signal_block(g, words, 1, FERRY_SIGNAL_ADD, 0) | ferry_gpu_wait_until_block(g, words, FERRY_CMP_GE, 1, 0);
    rc |= ferry_gpu_sync_block(g) | ferry_gpu_barrier_block(g) | ferry_gpu_sync_grid(g) | ferry_gpu_barrier_grid(g);
    out[threadIdx.x] = (uint64_t)rc;
}

int main()
{
    struct ferry_gpu g;
    ferry_ring_t *ring = nullptr;
    uint64_t peers[1] = {0};
    int rc = ferry_gpu_open(ring, &g) | ferry_gpu_pin(nullptr, 0) | ferry_gpu_unpin(nullptr);
    rc |= ferry_gpu_open_all(nullptr, 1, 0, &ring, &g) | ferry_gpu_window(nullptr, &g, nullptr, 0, 0);
    rc |= ferry_gpu_window_at(&g, nullptr, 0, peers, 0) | ferry_gpu_barrier_open(nullptr, &g, nullptr);
    thread_scope<<<1, 32>>>(g, nullptr, nullptr);
    warp_scope<<<1, 32>>>(g, nullptr, nullptr);
    block_scope<<<1, 32>>>(g, nullptr, nullptr);
    rc |= ferry_put_signal_on_stream(&g, nullptr, nullptr, 0, nullptr, 0, 0, 0, nullptr, 0) | ferry_quiet_on_stream(&g, nullptr, 0);
    rc |= ferry_signal_wait_on_stream(&g, nullptr, 0, 0, nullptr, 0) | ferry_signal_next_on_stream(&g, nullptr, 1, nullptr, nullptr, 0);
    rc |= ferry_barrier_on_stream(&g, nullptr, 0) | (ferry_gpu_array(1, &g) == nullptr);
    return rc | ferry_gpu_close(&g) | ferry_gpu_close_all(1, &ring, &g);
}
