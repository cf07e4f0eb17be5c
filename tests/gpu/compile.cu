/* SPDX-License-Identifier: Apache-2.0
 * Every function of ferry/device.cuh and ferry/gpu.cuh once, so that a compiler sees it. Not run. */
#include <ferry/device.cuh>

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
    rc |= ferry_gpu_atomic(g, FERRY_COMMAND_AMO_XOR, 4, words, 1, pe) | ferry_gpu_atomic_add(g, words, 1, pe);
    rc |= ferry_gpu_atomic_fetch_add(g, words, 1, &old, pe) | ferry_gpu_atomic_swap(g, words, 1, &old, pe);
    rc |= ferry_gpu_atomic_compare_swap(g, words, 1, 2, &old, pe) | ferry_gpu_g(g, words, &old, pe);
    rc |= ferry_gpu_fence(g) | ferry_gpu_quiet(g) | ferry_gpu_status(g);
    rc |= ferry_gpu_wait_until(g, words, FERRY_CMP_GE, 1, 1000000);
    out[threadIdx.x] = (uint64_t)rc + old;
}

__global__ void group_scope(struct ferry_gpu g, uint64_t *words, uint64_t *out)
{
    int rc = ferry_gpu_fence_warp(g) | ferry_gpu_quiet_warp(g);
    rc |= ferry_gpu_put_nbi_warp(g, words, words + 8, 64, 0);
    rc |= ferry_gpu_put_signal_nbi_warp(g, words, words + 8, 64, words + 16, 1, FERRY_SIGNAL_SET, 0);
    rc |= ferry_gpu_put_nbi_block(g, words, words + 8, 64, 0) | ferry_gpu_quiet_block(g);
    rc |= ferry_gpu_put_signal_nbi_block(g, words, words + 8, 64, words + 16, 1, FERRY_SIGNAL_SET, 0);
    out[threadIdx.x] = (uint64_t)rc;
}

int main()
{
    struct ferry_gpu g;
    ferry_ring_t *ring = nullptr;
    int rc = ferry_gpu_open(ring, &g) | ferry_gpu_pin(nullptr, 0) | ferry_gpu_unpin(nullptr);
    thread_scope<<<1, 32>>>(g, nullptr, nullptr);
    group_scope<<<1, 32>>>(g, nullptr, nullptr);
    return rc | ferry_gpu_close(&g);
}
