/* SPDX-License-Identifier: Apache-2.0
 * Kernels that use ferry/device.cuh, on one GPU: the PEs are threads of this process, each with a ring and kernels of its own, all
 * resident at once. usage: test_gpu [ROUNDS of the litmus tests]. tests/gpu/run builds and runs it; it needs a GPU.
 * Prints a line for each check, and totals. */
#include <ferry/device.cuh>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <thread>
#include <vector>

#define N_PES 2
#define BLOCK_BYTES ((size_t)1 << 20)

struct pe {
    int rank;
    ferry_job_t *job;
    ferry_ring_t *ring;
    struct ferry_gpu gpu;
    cudaStream_t stream;
    char *block;           /* symmetric, pinned, zeroed */
    uint64_t *words;       /* its first page */
    unsigned long rounds;
};

static std::atomic<int> failures{0}, checks{0};
static std::atomic<int> arrived{0};

static void expect(const struct pe *pe, bool good, const char *what)
{
    checks++;
    if (good)
        return;
    failures++;
    printf("pe %d: failed: %s\n", pe->rank, what);
}

static void cuda_ok(const struct pe *pe, cudaError_t rc, const char *what)
{
    if (rc != cudaSuccess)
        printf("pe %d: %s: %s\n", pe->rank, what, cudaGetErrorString(rc));
    expect(pe, rc == cudaSuccess, what);
}

/* All threads of the test; the job's barrier is not used, since jobs are broken on purpose. */
static void together(int *phase)
{
    arrived++;
    ++*phase;
    while (arrived < N_PES * *phase)
        std::this_thread::yield();
}

/* ------------------------------------------------------------------ kernels */

#define KERNEL_CHECK(good) \
    if (!(good))           \
    atomicAdd((unsigned long long *)bad, 1ull)

__device__ uint64_t stamp(int pe, uint64_t round, uint64_t i)
{
    return round * 1000003 + (uint64_t)pe * 7919 + i;
}

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
 * used again and again; the counters are cumulative. */
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

__global__ void bad_commands(struct ferry_gpu g, uint64_t *words, uint64_t *gpu_memory, int which, uint64_t *status)
{
    if (which == 0)
        ferry_gpu_put_nbi(g, gpu_memory, words, 8, 1);
    if (which == 1)
        ferry_gpu_p(g, words, 1, N_PES);
    if (which == 2)
        ferry_gpu_p(g, words, 1, -1);
    if (which == 3)
        g.ring.layout++;
    *status = (uint64_t)(int64_t)ferry_gpu_quiet(g);
}

__global__ void wait_for_ever(struct ferry_gpu g, uint64_t *word, uint64_t *status)
{
    *status = (uint64_t)(int64_t)ferry_gpu_wait_until(g, word, FERRY_CMP_EQ, 77, 0);
}

/* ------------------------------------------------------------------ checks */

struct counter {
    uint64_t *word;
    counter() { cudaHostAlloc((void **)&word, 4096, cudaHostAllocMapped | cudaHostAllocPortable), memset(word, 0, 4096); }
    ~counter() { cudaFreeHost(word); }
};

static double now(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (double)ts.tv_sec + (double)ts.tv_nsec * 1e-9;
}

/* A kernel that never ends would keep the test for ever: it is told where it stood. */
static void await(struct pe *pe, const char *what)
{
    const double end = now() + 15 + 0.001 * (double)pe->rounds;
    cudaError_t rc;
    cuda_ok(pe, cudaGetLastError(), what);
    while ((rc = cudaStreamQuery(pe->stream)) == cudaErrorNotReady && now() < end)
        std::this_thread::yield();
    if (rc == cudaSuccess)
        return;
    printf("pe %d: %s: %s; ring: consumed %llu, completed %llu, error 0x%llx\n", pe->rank, what, cudaGetErrorString(rc),
           (unsigned long long)*pe->gpu.ring.consumed, (unsigned long long)*pe->gpu.ring.completed,
           (unsigned long long)*pe->gpu.ring.error);
    fflush(stdout);
    _Exit(1);
}

static void finished(struct pe *pe, const counter &bad, const char *what)
{
    await(pe, what);
    printf("pe %d: %s: done\n", pe->rank, what);
    expect(pe, *bad.word == 0, what);
    if (*bad.word)
        printf("pe %d: %s: %llu wrong\n", pe->rank, what, (unsigned long long)*bad.word);
}

static void barrier(struct pe *pe)
{
    expect(pe, ferry_barrier(pe->job) == FERRY_OK, "barrier");
}

static void check_kinds(struct pe *pe)
{
    counter bad;
    barrier(pe); /* what allocates may wait for kernels: not while one runs that waits for another */
    every_kind<<<1, 1, 0, pe->stream>>>(pe->gpu, pe->words, bad.word);
    finished(pe, bad, "every kind");
    barrier(pe);
}

static void check_flood(struct pe *pe, unsigned blocks, unsigned threads, unsigned rounds)
{
    counter bad;
    uint64_t *values = (uint64_t *)(pe->block + 4096), *sum = values + blocks * threads, expected = 0;
    memset(values, 0, (blocks * threads + 1) * 8);
    barrier(pe);
    flood<<<blocks, threads, 0, pe->stream>>>(pe->gpu, values, sum, rounds, bad.word);
    finished(pe, bad, "flood");
    barrier(pe);
    bool good = true;
    for (unsigned id = 0; id < blocks * threads; id++)
        good &= (uint32_t)values[id] == id && /* without order any of them may be the last */
                (pe->gpu.ring.ordered ? values[id] >> 32 == rounds : values[id] >> 32 >= 1 && values[id] >> 32 <= rounds);
    expect(pe, good, "flood: values");
    for (unsigned id = 0; id < blocks * threads; id++)
        for (unsigned r = 1; r <= rounds; r++)
            expected += (id + r) % 3 != 0;
    expect(pe, *sum == expected, "flood: sum");
    barrier(pe);
}

static unsigned *drawn;

static void check_tickets(struct pe *pe)
{
    counter bad;
    const unsigned blocks = 8, threads = 128, each = 10, n = N_PES * blocks * threads * each;
    uint64_t *number = pe->words + 100;
    if (pe->rank == 0)
        cudaHostAlloc((void **)&drawn, n * sizeof(unsigned), cudaHostAllocMapped | cudaHostAllocPortable),
            memset(drawn, 0, n * sizeof(unsigned));
    barrier(pe);
    tickets<<<blocks, threads, 0, pe->stream>>>(pe->gpu, number, drawn, each, bad.word);
    finished(pe, bad, "tickets");
    barrier(pe);
    if (pe->rank == 0) {
        bool good = true;
        cuda_ok(pe, cudaDeviceSynchronize(), "tickets");
        for (unsigned i = 0; i < n; i++)
            good &= drawn[i] == 1;
        expect(pe, good, "tickets are a permutation");
        cudaFreeHost(drawn);
    }
    barrier(pe);
}

static void check_litmus(struct pe *pe)
{
    counter bad;
    uint64_t *area = (uint64_t *)(pe->block + 8192);
    memset(pe->block + 4096, 0, BLOCK_BYTES - 4096);
    barrier(pe);
    litmus<<<1, 32, 0, pe->stream>>>(pe->gpu, area, area + 4 * LITMUS_WORDS, pe->words + 110, pe->words + 120, pe->rounds, bad.word);
    finished(pe, bad, "data, then signal; slots used again; cumulative counters");
    expect(pe, pe->words[110] == pe->rounds, "litmus: count");
    barrier(pe);
}

static void check_bad(struct pe *pe)
{
    const int expected[] = {FERRY_ERR_ARG, FERRY_ERR_ARG, FERRY_ERR_LIMIT, FERRY_ERR_ABI};
    const int pes[] = {1, N_PES, -1, 0};
    uint64_t *gpu_memory;
    cuda_ok(pe, cudaMalloc((void **)&gpu_memory, 64), "cudaMalloc");
    for (int which = 0; which < 4; which++) {
        counter status;
        struct ferry_error record;
        memset(&record, 0, sizeof(record));
        record.size = sizeof(record);
        bad_commands<<<1, 1, 0, pe->stream>>>(pe->gpu, pe->words, gpu_memory, which, status.word);
        await(pe, "bad command");
        expect(pe, (int)(int64_t)*status.word == expected[which], "bad command: status in the kernel");
        ferry_ring_error(pe->ring, &record);
        expect(pe, which == 3 ? record.status == FERRY_OK : record.status == expected[which], "bad command: record");
        expect(pe, which == 3 || (record.peer == pes[which] && record.channel == (int)pe->gpu.ring.channel), "bad command: pe, channel");
    }
    cudaFree(gpu_memory);
    barrier(pe);
}

/* Waits of kernels end when the job is aborted. The last check: it breaks the job. */
static void check_abort(struct pe *pe, int *phase)
{
    counter status;
    barrier(pe);
    wait_for_ever<<<1, 1, 0, pe->stream>>>(pe->gpu, pe->words + 200, status.word);
    together(phase);
    if (pe->rank == 0)
        ferry_abort(pe->job, 1);
    await(pe, "abort");
    expect(pe, (int)(int64_t)*status.word == FERRY_ERR_ABORTED, "abort: the kernel's wait ends with it");
}

static void body(struct pe *pe, int *phase)
{
    check_kinds(pe);
    check_flood(pe, 1, 32, 2000);
    check_flood(pe, 1, 1, 500);
    check_flood(pe, 8, 250, 50);
    check_flood(pe, 64, 256, 10);
    check_tickets(pe);
    check_litmus(pe);
    check_bad(pe);
    check_abort(pe, phase);
}

static void pe_main(int rank, const ferry_uniqueid_t *id, unsigned long rounds)
{
    struct pe pe = {};
    ferry_attr_t attr = {};
    int phase = 0;
    pe.rank = rank;
    pe.rounds = rounds;
    attr.size = sizeof(attr);
    attr.bootstrap = FERRY_BOOTSTRAP_UNIQUEID;
    attr.rank = rank;
    attr.n_pes = N_PES;
    attr.id = id;
    expect(&pe, ferry_init(&attr, &pe.job) == FERRY_OK, "ferry_init");
    printf("pe %d: there\n", rank);
    cuda_ok(&pe, cudaStreamCreateWithFlags(&pe.stream, cudaStreamNonBlocking), "stream");
    pe.block = pe.job ? (char *)ferry_align(pe.job, 4096, BLOCK_BYTES) : NULL;
    if (!pe.block || failures)
        exit(1); /* nothing can be tested */
    memset(pe.block, 0, BLOCK_BYTES);
    pe.words = (uint64_t *)pe.block;
    expect(&pe, ferry_gpu_pin(pe.block, BLOCK_BYTES) == FERRY_OK, "pin");
    expect(&pe, ferry_ring_create(pe.job, 512, 0, &pe.ring) == FERRY_OK && ferry_gpu_open(pe.ring, &pe.gpu) == FERRY_OK, "ring");
    body(&pe, &phase);
    expect(&pe, ferry_gpu_close(&pe.gpu) == FERRY_OK, "ferry_gpu_close");
    ferry_ring_destroy(pe.ring);
    expect(&pe, ferry_gpu_unpin(pe.block) == FERRY_OK, "unpin");
    cudaStreamDestroy(pe.stream);
    ferry_finalize(pe.job);
}

int main(int argc, char **argv)
{
    unsigned long rounds = argc > 1 ? strtoul(argv[1], NULL, 10) : 100000;
    ferry_uniqueid_t id;
    std::vector<std::thread> threads;
    setenv("CUDA_MODULE_LOADING", "EAGER", 1); /* loading a kernel late may wait for those that run */
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (cudaFree(0) != cudaSuccess || ferry_uniqueid_create(&id) != FERRY_OK) {
        printf("no GPU, or no meeting\n");
        return 1;
    }
    for (int rank = 0; rank < N_PES; rank++)
        threads.emplace_back(pe_main, rank, &id, rounds);
    for (auto &t : threads)
        t.join();
    printf("%d checks, %d failed\n", checks.load(), failures.load());
    return failures ? 1 : 0;
}
