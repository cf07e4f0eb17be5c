/* SPDX-License-Identifier: Apache-2.0
 * Kernels that use ferry/device.cuh, on one GPU: the PEs are threads of this process, each with rings and kernels of its own, all
 * resident at once, and one that spins. usage: test_gpu [ROUNDS of the litmus tests [few]]; few: only what a
 * memory checker should look at. tests/gpu/run builds and runs it; it needs a GPU. Prints a line for each check, and totals. */
#include "check_basic.cuh"
#include "check_faults.cuh"
#include "check_scopes.cuh"
#include "check_stream.cuh"

/* For compute-sanitizer, under which all is slow. */
static void few(struct pe *pe)
{
    for (int way = 0; way < N_WAYS; way++) {
        check_kinds(pe, way);
        check_flood(pe, way, 2, 64, 20);
        check_tickets(pe, way);
        check_litmus(pe, way, way == DIRECT, way == DIRECT);
        check_scope<FERRY_GPU_WARP>(pe, way, 32, "warp");
        check_bad(pe, way);
    }
}

static void body(struct pe *pe, int *phase)
{
    for (int way = 0; way < N_WAYS; way++) {
        check_kinds(pe, way);
        check_flood(pe, way, 1, 32, 2000);
        check_flood(pe, way, 1, 1, 500);
        check_flood(pe, way, 8, 250, 50);
        check_flood(pe, way, 64, 256, 10);
        check_tickets(pe, way);
        check_scopes(pe, way);
        check_stream(pe, way);
    }
    check_litmus(pe, RING, false, false);
    check_litmus(pe, DIRECT, true, true);
    check_litmus(pe, DIRECT, true, false);
    check_litmus(pe, DIRECT, false, true);
    check_litmus(pe, BOTH, false, false);
    for (int way = 0; way < N_WAYS; way++)
        check_bad(pe, way);
    check_abort(pe, phase); /* the last: it breaks the job */
}

/* Until told to end. */
__global__ void spin(const uint64_t *end)
{
    while (ferry_gpu_load(end) == 0)
        __nanosleep(1000);
}

static bool join(struct pe *pe, const ferry_uniqueid_t *id)
{
    ferry_attr_t attr = {};
    attr.size = sizeof(attr);
    attr.bootstrap = FERRY_BOOTSTRAP_UNIQUEID;
    attr.rank = pe->rank;
    attr.n_pes = N_PES;
    attr.id = id;
    expect(pe, ferry_init(&attr, &pe->job) == FERRY_OK, "ferry_init");
    pe->block = pe->job ? (char *)ferry_align(pe->job, 4096, BLOCK_BYTES) : nullptr;
    if (!pe->block)
        return false;
    cuda_ok(pe, cudaStreamCreateWithFlags(&pe->stream, cudaStreamNonBlocking), "stream");
    for (int i = 0; i < N_STREAMS; i++)
        cuda_ok(pe, cudaStreamCreateWithFlags(&pe->more[i], cudaStreamNonBlocking), "stream");
    cuda_ok(pe, cudaMalloc((void **)&pe->memory, BLOCK_BYTES), "cudaMalloc");
    cuda_ok(pe, cudaMalloc((void **)&pe->scratch, BLOCK_BYTES), "cudaMalloc");
    cuda_ok(pe, cudaHostAlloc((void **)&pe->bad, 4096, cudaHostAllocMapped | cudaHostAllocPortable), "cudaHostAlloc");
    memset(pe->bad, 0, 4096);
    pe->status = pe->bad + 8;
    memset(pe->block, 0, BLOCK_BYTES);
    expect(pe, ferry_gpu_pin(pe->block, BLOCK_BYTES) == FERRY_OK, "pin");
    return failures == 0;
}

/* Rings, windows and words for barriers. All PEs' memory must be there. */
static void open_ways(struct pe *pe)
{
    uint64_t memory[N_PES], block[N_PES];
    for (int i = 0; i < N_PES; i++) {
        memory[i] = (uint64_t)(uintptr_t)all_pes[i]->memory;
        block[i] = (uint64_t)(uintptr_t)all_pes[i]->block;
    }
    expect(pe, ferry_gpu_open_all(pe->job, N_WAYS, 512, pe->ring, pe->gpu) == FERRY_OK, "rings");
    for (int way = DIRECT; way <= BOTH; way++)
        expect(pe, ferry_gpu_window_at(&pe->gpu[way], pe->memory, BLOCK_BYTES, memory, FERRY_WINDOW_ATOMICS) == FERRY_OK, "window");
    expect(pe, ferry_gpu_window_at(&pe->gpu[BOTH], pe->block, BLOCK_BYTES, block, 0) == FERRY_OK, "window of host memory");
    for (int way = 0; way < N_WAYS; way++)
        expect(pe, ferry_gpu_barrier_open(pe->job, &pe->gpu[way], (way == DIRECT ? pe->memory : pe->block) + 256 * way) == FERRY_OK,
               "barrier words");
}

static void leave(struct pe *pe)
{
    expect(pe, ferry_gpu_close_all(N_WAYS, pe->ring, pe->gpu) != FERRY_ERR_DEVICE, "ferry_gpu_close_all");
    expect(pe, ferry_gpu_unpin(pe->block) == FERRY_OK, "unpin");
    cudaFree(pe->memory);
    cudaFree(pe->scratch);
    cudaFreeHost(pe->bad);
    cudaStreamDestroy(pe->stream);
    for (int i = 0; i < N_STREAMS; i++)
        cudaStreamDestroy(pe->more[i]);
    ferry_finalize(pe->job);
}

/* With a kernel that spins in the background. */
static void spin_and_check(struct pe *pe, int *phase)
{
    cudaStream_t spinning;
    cuda_ok(pe, cudaStreamCreateWithFlags(&spinning, cudaStreamNonBlocking), "stream");
    barrier(pe);
    spin<<<1, 1, 0, spinning>>>(pe->bad + 256);
    body(pe, phase);
    expect(pe, cudaStreamQuery(spinning) == cudaErrorNotReady, "the kernel in the background spun throughout");
    __atomic_store_n(pe->bad + 256, 1, __ATOMIC_RELEASE);
    together(phase);
    await(pe, spinning, "spin");
    together(phase);
    cudaStreamDestroy(spinning);
}

static void pe_main(int rank, const ferry_uniqueid_t *id, unsigned long rounds, bool only_few)
{
    struct pe pe = {};
    int phase = 0;
    pe.rank = rank;
    pe.rounds = rounds;
    all_pes[rank] = &pe;
    if (!join(&pe, id))
        exit(1); /* nothing can be tested */
    together(&phase);
    open_ways(&pe);
    check_left_over(&pe);
    check_windows(&pe);
    if (only_few)
        few(&pe);
    else
        spin_and_check(&pe, &phase);
    leave(&pe);
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
        threads.emplace_back(pe_main, rank, &id, rounds, argc > 2);
    for (auto &t : threads)
        t.join();
    printf("%d checks, %d failed\n", checks.load(), failures.load());
    return failures ? 1 : 0;
}
