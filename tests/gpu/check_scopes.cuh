/* SPDX-License-Identifier: Apache-2.0
 * Checks of test_gpu: copies of every alignment, puts with signals, and barriers, by a thread, a warp, a block and a grid, over each
 * way. Included by test_gpu.cu alone. */
#ifndef TEST_GPU_CHECK_SCOPES_CUH
#define TEST_GPU_CHECK_SCOPES_CUH

#include "harness.cuh"

#define COPY_BYTES 8192
#define MARGIN 32

__device__ __forceinline__ char pattern(uint64_t i, uint64_t salt)
{
    return (char)(i * 31 + salt * 17 + 5);
}

/* One copy there and back: the bytes around it stay. `out`, `back`: own memory; `in`: the peer's. */
template <int scope>
__device__ void one_copy(struct ferry_gpu &g, char *out, char *in, char *back, unsigned to, unsigned from, unsigned n, uint64_t salt,
                         uint64_t *bad)
{
    const int peer = (ferry_gpu_my_pe(g) + 1) % ferry_gpu_n_pes(g);
    const unsigned all = MARGIN + 32 + n + MARGIN, rank = ferry_gpu_rank<scope>(), size = ferry_gpu_size<scope>();
    for (unsigned i = rank; i < all; i += size) {
        out[i] = pattern(i, salt);
        back[i] = 0x77;
        out[COPY_BYTES + i] = (char)0xee;
    }
    KERNEL_CHECK(put<scope>(g, in, out + COPY_BYTES, all, peer, true) == FERRY_OK);
    KERNEL_CHECK(quiet<scope>(g, -1) == FERRY_OK); /* two puts to a place have no order of their own */
    KERNEL_CHECK(put<scope>(g, in + MARGIN + to, out + from, n, peer, salt % 2) == FERRY_OK);
    KERNEL_CHECK(quiet<scope>(g, salt % 3 ? peer : -1) == FERRY_OK);
    KERNEL_CHECK(get<scope>(g, back, in, all, peer, salt % 2) == FERRY_OK);
    if (salt % 2)
        KERNEL_CHECK(quiet<scope>(g, -1) == FERRY_OK);
    for (unsigned i = rank; i < all; i += size) {
        const bool inside = i >= MARGIN + to && i < MARGIN + to + n;
        KERNEL_CHECK(*(volatile char *)(back + i) == (inside ? pattern(i - MARGIN - to + from, salt) : (char)0xee));
    }
    ferry_gpu_together<scope>();
}

template <int scope> __global__ void copies(struct ferry_gpu g, char *memory, uint64_t *bad)
{
    char *out = memory, *in = memory + 3 * COPY_BYTES, *back = memory + 5 * COPY_BYTES;
    const unsigned lengths[] = {0, 1, 3, 4, 7, 8, 15, 16, 17, 31, 33, 64, 100, 1023, 4096, 7168};
    uint64_t salt = 0;
    for (unsigned to = 0; to < 32; to += 1 + to % 3)
        for (unsigned from = 0; from < 16; from += scope == FERRY_GPU_THREAD ? 5 : 3)
            for (unsigned i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++)
                if (scope != FERRY_GPU_THREAD || lengths[i] < 1000 || to == 0)
                    one_copy<scope>(g, out, in, back, to, from, lengths[i], ++salt, bad);
}

/* Data in slots of their own with signals, both ways at once, and both kinds of signals. */
template <int scope> __global__ void told(struct ferry_gpu g, uint64_t *memory, uint64_t *bad)
{
    const int me = ferry_gpu_my_pe(g), peer = (me + 1) % ferry_gpu_n_pes(g);
    const unsigned rank = ferry_gpu_rank<scope>(), size = ferry_gpu_size<scope>(), words = 100;
    uint64_t *count = memory, *flags = memory + 8, *out = memory + 512, *in = out + 64 * words;
    for (unsigned r = 0; r < 64; r++) {
        uint64_t *from = out + r * words, *to = in + r * words;
        for (unsigned i = rank; i < words; i += size)
            from[i] = stamp(me, r, i);
        const bool adds = r % 4 < 2;
        uint64_t *word = adds ? count : flags + r;
        int how = adds ? FERRY_SIGNAL_ADD : FERRY_SIGNAL_SET;
        if (!adds && r % 3 == 0) /* a weak one that adds may come before an earlier one's data */
            how |= FERRY_SIGNAL_WEAK;
        KERNEL_CHECK(put_signal<scope>(g, to, from, words * 8, word, how, peer, r % 2) == FERRY_OK);
        KERNEL_CHECK(wait<scope>(g, word, adds ? r / 4 * 2 + r % 4 + 1 : 1) == FERRY_OK);
        for (unsigned i = rank; i < words; i += size)
            KERNEL_CHECK(to[i] == stamp(peer, r, i));
    }
    KERNEL_CHECK(quiet<scope>(g, -1) == FERRY_OK);
}

/* Each round, a value to the peer, a barrier, a look at the peer's. */
template <int scope> __global__ void meetings(struct ferry_gpu g, uint64_t *memory, unsigned rounds, uint64_t *bad)
{
    const int me = ferry_gpu_my_pe(g), peer = (me + 1) % ferry_gpu_n_pes(g);
    const unsigned rank = ferry_gpu_rank<scope>();
    for (unsigned r = 1; r <= rounds; r++) {
        KERNEL_CHECK(ferry_gpu_p(g, memory + rank, stamp(me, r, rank), peer) == FERRY_OK);
        KERNEL_CHECK(meet<scope>(g, true) == FERRY_OK);
        KERNEL_CHECK(*(volatile uint64_t *)(memory + rank) == stamp(peer, r, rank));
        KERNEL_CHECK(meet<scope>(g, false) == FERRY_OK);
    }
}

/* The same by a grid: each thread looks at what the peer's thread with the opposite number has put. */
__global__ void grid_meetings(struct ferry_gpu g, uint64_t *memory, unsigned rounds, uint64_t *bad)
{
    const int me = ferry_gpu_my_pe(g), peer = (me + 1) % ferry_gpu_n_pes(g);
    const unsigned n = gridDim.x * blockDim.x, id = blockIdx.x * blockDim.x + threadIdx.x;
    for (unsigned r = 1; r <= rounds; r++) {
        KERNEL_CHECK(ferry_gpu_p(g, memory + id, stamp(me, r, id), peer) == FERRY_OK);
        KERNEL_CHECK(ferry_gpu_barrier_grid(g) == FERRY_OK);
        KERNEL_CHECK(*(volatile uint64_t *)(memory + n - 1 - id) == stamp(peer, r, n - 1 - id));
        KERNEL_CHECK(ferry_gpu_sync_grid(g) == FERRY_OK);
    }
}

template <int scope> static void check_scope(struct pe *pe, int way, unsigned threads, const char *name)
{
    char what[64];
    char *memory = fresh(pe, way == DIRECT);
    snprintf(what, sizeof(what), "copies by a %s", name);
    copies<scope><<<1, threads, 0, pe->stream>>>(pe->gpu[way], memory, pe->bad);
    finished(pe, what, way);
    memory = fresh(pe, way == DIRECT);
    snprintf(what, sizeof(what), "data with signals by a %s", name);
    told<scope><<<1, threads, 0, pe->stream>>>(pe->gpu[way], (uint64_t *)memory, pe->bad);
    finished(pe, what, way);
    memory = fresh(pe, way == DIRECT);
    snprintf(what, sizeof(what), "barriers by a %s", name);
    meetings<scope><<<1, threads, 0, pe->stream>>>(pe->gpu[way], (uint64_t *)memory, 500, pe->bad);
    finished(pe, what, way);
}

static void check_scopes(struct pe *pe, int way)
{
    check_scope<FERRY_GPU_THREAD>(pe, way, 1, "thread");
    check_scope<FERRY_GPU_WARP>(pe, way, 32, "warp");
    check_scope<FERRY_GPU_BLOCK>(pe, way, 200, "block");
    char *memory = fresh(pe, way == DIRECT);
    grid_meetings<<<8, 96, 0, pe->stream>>>(pe->gpu[way], (uint64_t *)memory, 500, pe->bad);
    finished(pe, "barriers by a grid", way);
}

#endif
