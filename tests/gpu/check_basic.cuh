/* SPDX-License-Identifier: Apache-2.0
 * Checks of test_gpu: every kind of operation, many threads at once, and the order of data and signals, over each way.
 * Included by test_gpu.cu alone. */
#ifndef TEST_GPU_CHECK_BASIC_CUH
#define TEST_GPU_CHECK_BASIC_CUH

#include "harness.cuh"

/* Every operation once, to the other PE; own = words[0..63], theirs = words[64..]. */
__global__ void every_kind(struct ferry_gpu g, uint64_t *words, uint64_t *bad)
{
    const int me = ferry_gpu_my_pe(g), to = (me + 1) % ferry_gpu_n_pes(g);
    uint64_t old = 0;
    for (int i = 0; i < 16; i++)
        words[i] = stamp(me, 1, i);
    KERNEL_CHECK(ferry_gpu_put(g, words + 64, words, 128, to) == FERRY_OK);
    KERNEL_CHECK(ferry_gpu_get(g, words + 32, words + 64, 128, to) == FERRY_OK);
    for (int i = 0; i < 16; i++)
        KERNEL_CHECK(words[32 + i] == words[i]);
    KERNEL_CHECK(ferry_gpu_p(g, words + 80, ~0ull, to) == FERRY_OK && ferry_gpu_p32(g, (uint32_t *)(words + 81), 5, to) == FERRY_OK);
    KERNEL_CHECK(ferry_gpu_quiet(g) == FERRY_OK);
    KERNEL_CHECK(ferry_gpu_g(g, words + 80, &old, to) == FERRY_OK && old == ~0ull);
    KERNEL_CHECK(ferry_gpu_g(g, words + 81, &old, to) == FERRY_OK && old == 5);
    KERNEL_CHECK(ferry_gpu_atomic_fetch_add(g, words + 82, 3, &old, to) == FERRY_OK && old == 0);
    KERNEL_CHECK(ferry_gpu_atomic_add(g, words + 82, 4, to) == FERRY_OK && ferry_gpu_quiet(g) == FERRY_OK);
    KERNEL_CHECK(ferry_gpu_atomic_swap(g, words + 82, 100, &old, to) == FERRY_OK && old == 7);
    KERNEL_CHECK(ferry_gpu_atomic_compare_swap(g, words + 82, 99, 1, &old, to) == FERRY_OK && old == 100);
    KERNEL_CHECK(ferry_gpu_atomic_compare_swap(g, words + 82, 100, ~0ull, &old, to) == FERRY_OK && old == 100);
    KERNEL_CHECK(ferry_gpu_g(g, words + 82, &old, to) == FERRY_OK && old == ~0ull);
    KERNEL_CHECK(ferry_gpu_atomic_fetch(g, FERRY_COMMAND_AMO_OR, 4, words + 83, 6, 0, &old, to) == FERRY_OK && old == 0);
    KERNEL_CHECK(ferry_gpu_atomic_fetch(g, FERRY_COMMAND_AMO_FETCH, 4, words + 83, 0, 0, &old, to) == FERRY_OK && old == 6);
    KERNEL_CHECK(ferry_gpu_fence(g) == FERRY_OK);
    KERNEL_CHECK(ferry_gpu_put_signal_nbi(g, words + 84, words, 8, words + 85, 9, FERRY_SIGNAL_SET, to) == FERRY_OK);
    KERNEL_CHECK(ferry_gpu_wait_until(g, words + 85, FERRY_CMP_EQ, 9, 10000000000ull) == FERRY_OK);
    KERNEL_CHECK(words[84] == stamp((me + ferry_gpu_n_pes(g) - 1) % ferry_gpu_n_pes(g), 1, 0));
    KERNEL_CHECK(ferry_gpu_wait_until(g, words + 85, FERRY_CMP_EQ, 10, 1000000) == FERRY_ERR_TIMEOUT);
}

/* Many threads of many blocks: a value each, and a sum; full rings and many laps. */
__global__ void flood(struct ferry_gpu g, uint64_t *words, uint64_t *sum, unsigned rounds, uint64_t *bad)
{
    const unsigned id = blockIdx.x * blockDim.x + threadIdx.x;
    const int to = (ferry_gpu_my_pe(g) + 1) % ferry_gpu_n_pes(g);
    for (unsigned r = 1; r <= rounds; r++) {
        KERNEL_CHECK(ferry_gpu_p(g, words + id, (uint64_t)r << 32 | id, to) == FERRY_OK);
        if ((id + r) % 3) /* warps that are not whole */
            KERNEL_CHECK(ferry_gpu_signal(g, sum, 1, FERRY_SIGNAL_ADD, to) == FERRY_OK);
    }
    KERNEL_CHECK(ferry_gpu_quiet(g) == FERRY_OK);
}

/* Tickets: each thread draws some; all differ. */
__global__ void tickets(struct ferry_gpu g, uint64_t *counter, unsigned *drawn, unsigned each, uint64_t *bad)
{
    for (unsigned i = 0; i < each; i++) {
        uint64_t ticket = 0;
        KERNEL_CHECK(ferry_gpu_atomic_fetch_add(g, counter, 1, &ticket, 0) == FERRY_OK);
        if (ticket < (uint64_t)N_PES * gridDim.x * blockDim.x * each)
            atomicAdd(drawn + ticket, 1u);
    }
}

#define LITMUS_WORDS 192 /* 6 for each thread of a warp */

/* Data, then its signal, to the other PE, which looks at the data; then credit back. Both PEs do both at once. Slots of a ring of 4 are
 * used again and again; the counters are cumulative. Data and counters may lie in memory of different kinds. */
__global__ void litmus(struct ferry_gpu g, uint64_t *out, uint64_t *in, uint64_t *tail, uint64_t *head, unsigned long rounds, uint64_t *bad)
{
    const int me = ferry_gpu_my_pe(g), peer = (me + 1) % ferry_gpu_n_pes(g);
    const unsigned lane = threadIdx.x;
    for (uint64_t round = 1; round <= rounds; round++) {
        uint64_t *from = out + round % 4 * LITMUS_WORDS, *to = in + round % 4 * LITMUS_WORDS;
        int rc = round > 4 ? ferry_gpu_wait_until(g, head, FERRY_CMP_GE, round - 4, 0) : FERRY_OK;
        __syncwarp();
        for (unsigned i = lane; i < LITMUS_WORDS; i += 32)
            from[i] = stamp(me, round, i);
        if (round % 2) {
            rc |= ferry_gpu_put_signal_nbi_warp(g, to, from, LITMUS_WORDS * 8, tail, 1, FERRY_SIGNAL_ADD, peer);
        } else {
            rc |= ferry_gpu_put_nbi_warp(g, to, from, LITMUS_WORDS * 4, peer);
            rc |= ferry_gpu_put_nbi_warp(g, to + LITMUS_WORDS / 2, from + LITMUS_WORDS / 2, LITMUS_WORDS * 4, peer);
            if (lane == 0)
                rc |= ferry_gpu_signal(g, tail, 1, FERRY_SIGNAL_ADD, peer);
            __syncwarp();
        }
        rc |= ferry_gpu_wait_until(g, tail, FERRY_CMP_GE, round, 0);
        for (unsigned i = lane; i < LITMUS_WORDS; i += 32)
            if (*(volatile uint64_t *)(to + i) != stamp(peer, round, i))
                rc |= 1;
        __syncwarp();
        if (lane == 0)
            rc |= ferry_gpu_signal(g, head, 1, FERRY_SIGNAL_ADD, peer);
        KERNEL_CHECK(rc == FERRY_OK);
        if (__any_sync(~0u, rc != FERRY_OK))
            return;
    }
    ferry_gpu_quiet_warp(g);
}

/* ------------------------------------------------------------------ the host's side */

static void check_kinds(struct pe *pe, int way)
{
    uint64_t *words = (uint64_t *)fresh(pe, way == DIRECT);
    every_kind<<<1, 1, 0, pe->stream>>>(pe->gpu[way], words, pe->bad);
    finished(pe, "every kind", way);
}

static void check_flood(struct pe *pe, int way, unsigned blocks, unsigned threads, unsigned rounds)
{
    const unsigned n = blocks * threads;
    uint64_t *values = (uint64_t *)fresh(pe, way == DIRECT), *sum = values + n, expected = 0;
    flood<<<blocks, threads, 0, pe->stream>>>(pe->gpu[way], values, sum, rounds, pe->bad);
    finished(pe, "flood", way);
    barrier(pe);
    const std::vector<uint64_t> got = look(pe, values, n + 1);
    bool good = true;
    for (unsigned id = 0; id < n; id++)
        good &= (uint32_t)got[id] == id && /* without order any of them may be the last */
                (pe->gpu[way].ring.ordered ? got[id] >> 32 == rounds : got[id] >> 32 >= 1 && got[id] >> 32 <= rounds);
    expect(pe, good, "flood: values");
    for (unsigned id = 0; id < n; id++)
        for (unsigned r = 1; r <= rounds; r++)
            expected += (id + r) % 3 != 0;
    expect(pe, got[n] == expected, "flood: sum");
}

static void check_tickets(struct pe *pe, int way)
{
    const unsigned blocks = 8, threads = 128, each = 10, n = N_PES * blocks * threads * each;
    uint64_t *number = (uint64_t *)fresh(pe, way == DIRECT);
    unsigned *drawn = (unsigned *)all_pes[0]->scratch;
    if (pe->rank == 0)
        cuda_ok(pe, cudaMemsetAsync(drawn, 0, n * sizeof(unsigned), pe->stream), "tickets");
    await(pe, pe->stream, "tickets");
    barrier(pe);
    tickets<<<blocks, threads, 0, pe->stream>>>(pe->gpu[way], number, drawn, each, pe->bad);
    finished(pe, "tickets", way);
    barrier(pe);
    const std::vector<uint64_t> got = look(pe, drawn, n / 2);
    bool good = true;
    for (unsigned i = 0; i < n / 2; i++)
        good &= got[i] == (1ull << 32 | 1);
    expect(pe, good, "tickets are a permutation");
}

/* Data in GPU memory or not, counters likewise. */
static void check_litmus(struct pe *pe, int way, bool data_gpu, bool counters_gpu)
{
    char what[96];
    fresh(pe, true);
    fresh(pe, false);
    uint64_t *area = (uint64_t *)((data_gpu ? pe->memory : pe->block) + 8192);
    uint64_t *tail = (uint64_t *)((counters_gpu ? pe->memory : pe->block) + 4096), *head = tail + 16;
    const double start = now();
    snprintf(what, sizeof(what), "litmus: data in %s, counters in %s memory", data_gpu ? "GPU" : "host", counters_gpu ? "GPU" : "host");
    litmus<<<1, 32, 0, pe->stream>>>(pe->gpu[way], area, area + 4 * LITMUS_WORDS, tail, head, pe->rounds, pe->bad);
    finished(pe, what, way);
    if (pe->rank == 0)
        printf("    %lu rounds, %.2f us each\n", pe->rounds, (now() - start) / (double)pe->rounds * 1e6);
    expect(pe, look(pe, tail, 1)[0] == pe->rounds, "litmus: count");
    barrier(pe);
}

#endif
