/* SPDX-License-Identifier: Apache-2.0
 * GPU memory in the symmetric heap, by the real driver: allocated, grown, moved both ways, with signals and atomics, reached by kernels
 * of the peer, and given back. PEs are processes (ferry-run -n 2 memory), or with the argument "threads" two threads. */
#include <ferry/ferry.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <cuda_runtime.h>
#include <thread>
#include <vector>

#define MIB ((size_t)1 << 20)

__global__ void add(unsigned *words, size_t n, unsigned value)
{
    for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < n; i += (size_t)gridDim.x * blockDim.x)
        words[i] += value;
}

struct pe {
    ferry_job_t *job;
    ferry_ctx_t *ctx;
    int rank, n, failures;
};

static void expect(struct pe *pe, bool good, const char *what)
{
    struct ferry_error error = {};
    if (good)
        return;
    error.size = sizeof error;
    ferry_last_error(pe->job, &error);
    printf("pe %d failed: %s (%s)\n", pe->rank, what, error.message);
    pe->failures++;
}
#define EXPECT(condition) expect(pe, (condition), #condition)
#define OK(call) expect(pe, (call) == FERRY_OK, #call)

static void *take(struct pe *pe, size_t bytes, int kind)
{
    ferry_alloc_attr_t attr = {};
    attr.size = sizeof attr;
    attr.bytes = bytes;
    attr.alignment = 4096;
    attr.kind = kind;
    void *block = ferry_alloc(pe->job, &attr);
    expect(pe, block, "ferry_alloc");
    return block;
}

static double now()
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void moves(struct pe *pe, unsigned *gpu, unsigned *host, size_t n)
{
    int next = (pe->rank + 1) % pe->n, before = (pe->rank + pe->n - 1) % pe->n, bad = 0;
    std::vector<unsigned> back(n, 1);
    OK(ferry_get(pe->ctx, back.data(), gpu, n * 4, next));
    for (size_t i = 0; i < n; i++)
        bad += back[i] != 0;
    EXPECT(bad == 0); /* fresh memory is zero */
    OK(ferry_barrier(pe->job));
    for (size_t i = 0; i < n; i++)
        host[i] = (unsigned)i * 7 + (unsigned)pe->rank;
    OK(ferry_put_nbi(pe->ctx, gpu, host, n * 4, next));
    OK(ferry_barrier(pe->job));
    OK(ferry_get(pe->ctx, back.data(), gpu, n * 4, pe->rank));
    for (size_t i = 0; i < n; i++)
        bad += back[i] != (unsigned)i * 7 + (unsigned)before;
    EXPECT(bad == 0);
    OK(ferry_barrier(pe->job));
}

static void counts(struct pe *pe, uint64_t *words, uint64_t *signal)
{
    int next = (pe->rank + 1) % pe->n;
    uint64_t old, seen[2];
    for (int i = 0; i < 100; i++) {
        OK(ferry_atomic_fetch_add(pe->ctx, &words[0], 3, &old, 0));
        OK(ferry_signal(pe->ctx, &words[1], 1, FERRY_SIGNAL_ADD, 0));
    }
    OK(ferry_barrier(pe->job));
    OK(ferry_get(pe->ctx, seen, words, sizeof seen, 0));
    EXPECT(seen[0] == 300ull * (uint64_t)pe->n && seen[1] == 100ull * (uint64_t)pe->n);
    for (uint64_t i = 1; i <= 100; i++) {
        uint64_t value = i * 5;
        OK(ferry_put_signal(pe->ctx, &words[8], &value, 8, signal, i, FERRY_SIGNAL_SET, next));
        OK(ferry_wait_until(pe->job, signal, FERRY_CMP_GE, i));
        OK(ferry_get(pe->ctx, &value, &words[8], 8, pe->rank));
        EXPECT(value == i * 5);
        OK(ferry_barrier(pe->job));
    }
}

/* Kernels load and store the peer's GPU memory, and its host memory. */
static void kernels(struct pe *pe, unsigned *gpu, unsigned *host, size_t n)
{
    int next = (pe->rank + 1) % pe->n, before = (pe->rank + pe->n - 1) % pe->n;
    size_t bad = 0;
    std::vector<unsigned> back(n);
    unsigned *there[2] = {(unsigned *)ferry_device_ptr(pe->job, gpu, next), (unsigned *)ferry_device_ptr(pe->job, host, next)};
    cudaStream_t stream;
    const char *hooks = getenv("FERRY_HOOKS");
    if (hooks && *hooks) { /* a hook sees all that goes to a peer, so none is mapped */
        EXPECT(!there[0] && !there[1]);
        return;
    }
    EXPECT(there[0] && there[1]);
    EXPECT(ferry_device_ptr(pe->job, gpu, pe->rank) == gpu && ferry_device_ptr(pe->job, host, pe->rank));
    EXPECT(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking) == cudaSuccess);
    for (int i = 0; i < 2 && there[i]; i++)
        add<<<8, 256, 0, stream>>>(there[i], n, 1000u + (unsigned)pe->rank);
    EXPECT(cudaStreamSynchronize(stream) == cudaSuccess);
    cudaStreamDestroy(stream);
    OK(ferry_barrier(pe->job));
    OK(ferry_get(pe->ctx, back.data(), gpu, n * 4, pe->rank));
    for (size_t i = 0; i < n; i++)
        bad += back[i] != (unsigned)i * 7 + 1000u + 2u * (unsigned)before;
    for (size_t i = 0; i < n; i++)
        bad += host[i] != (unsigned)i * 7 + 1000u + (unsigned)before + (unsigned)pe->rank;
    EXPECT(bad == 0);
}

static void rate(struct pe *pe, const char *what, void *to, const void *from, size_t bytes, bool get)
{
    const int next = (pe->rank + 1) % pe->n, times = bytes > 4096 ? 64 : 1000;
    OK(ferry_barrier(pe->job));
    double start = now();
    for (int i = 0; i < times && pe->rank == 0; i++) {
        int rc = get ? ferry_get_nbi(pe->ctx, to, from, bytes, next) : ferry_put_nbi(pe->ctx, to, from, bytes, next);
        if (bytes <= 4096)
            rc = ferry_quiet(pe->ctx);
        expect(pe, rc == FERRY_OK, what);
    }
    OK(ferry_quiet(pe->ctx));
    double took = (now() - start) / times;
    if (pe->rank == 0)
        printf("  %-28s %9zu bytes %9.2f us %8.2f GB/s\n", what, bytes, took * 1e6, (double)bytes / took * 1e-9);
    OK(ferry_barrier(pe->job));
}

static void body(struct pe *pe)
{
    const size_t n = 4 * MIB;
    unsigned *gpu = (unsigned *)take(pe, 16 * MIB, FERRY_MEMORY_GPU), *host = (unsigned *)take(pe, 16 * MIB, FERRY_MEMORY_HOST);
    unsigned *more = (unsigned *)take(pe, 40 * MIB, FERRY_MEMORY_GPU); /* another chunk */
    uint64_t *words = (uint64_t *)take(pe, 4096, FERRY_MEMORY_GPU), *signal = (uint64_t *)take(pe, 4096, FERRY_MEMORY_HOST);
    if (!gpu || !host || !more || !words || !signal)
        return;
    moves(pe, gpu, host, n);
    counts(pe, words, signal);
    kernels(pe, gpu, host, n);
    OK(ferry_barrier(pe->job));
    rate(pe, "put host to GPU and quiet", words, host, 8, false);
    rate(pe, "put GPU to GPU and quiet", words, gpu, 8, false);
    rate(pe, "put pinned host to GPU", more, host, 16 * MIB, false);
    rate(pe, "get GPU to pinned host", host, more, 16 * MIB, true);
    rate(pe, "put GPU to GPU", more, gpu, 16 * MIB, false);
}

static int one(struct pe *pe, const ferry_attr_t *attr)
{
    cudaFree(0);
    if (ferry_init(attr, &pe->job) != FERRY_OK) {
        printf("pe %d cannot start\n", pe->rank);
        return 1;
    }
    pe->ctx = ferry_ctx_default(pe->job);
    pe->rank = ferry_my_pe(pe->job);
    pe->n = ferry_n_pes(pe->job);
    body(pe);
    int rc = ferry_finalize(pe->job);
    if (rc != FERRY_OK)
        printf("finalize: %s\n", ferry_status_string(rc));
    return pe->failures + (rc != FERRY_OK);
}

static size_t left()
{
    size_t available = 0, total = 0;
    cudaMemGetInfo(&available, &total);
    return available >> 20;
}

int main(int argc, char **argv)
{
    struct pe pes[2] = {};
    int failures[2] = {};
    ferry_uniqueid_t id;
    cudaFree(0);
    const size_t before = left();
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (argc > 1 && !strcmp(argv[1], "threads")) {
        std::vector<std::thread> threads;
        if (ferry_uniqueid_create(&id) != FERRY_OK)
            return 1;
        for (int i = 0; i < 2; i++)
            threads.emplace_back([&, i] {
                ferry_attr_t attr = {};
                attr.size = sizeof(attr);
                attr.bootstrap = FERRY_BOOTSTRAP_UNIQUEID;
                attr.rank = i;
                attr.n_pes = 2;
                attr.id = &id;
                failures[i] = one(&pes[i], &attr);
            });
        for (auto &t : threads)
            t.join();
        printf("GPU memory free: %zu MiB before, %zu MiB after\n", before, left());
    } else {
        failures[0] = one(&pes[0], NULL);
    }
    printf("%s\n", failures[0] + failures[1] ? "FAILED" : "passed");
    return failures[0] + failures[1] != 0;
}
