/* SPDX-License-Identifier: Apache-2.0
 * Latency and rate of commands from a kernel, one PE, one GPU: measurements, not a test (docs/performance.md).
 * usage: gpu_rate [ROUNDS]; FERRY_TRANSPORT: loopback, or the null transport of the tests; FERRY_PROXY_THREADS */
#include <ferry/device.cuh>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>

#define RINGS_MAX 8

struct rings {
    struct ferry_gpu ring[RINGS_MAX];
};

enum kind { PUT_QUIET, PUT, SIGNAL_WAIT, RATE_PUT, RATE_SIGNAL, RATE_BULK };

__global__ void latency(struct ferry_gpu g, uint64_t *words, int kind, int n, uint64_t *ns)
{
    const uint64_t start = ferry_gpu_clock();
    for (int i = 1; i <= n; i++) {
        words[64] = i;
        if (kind == PUT_QUIET)
            ferry_gpu_put_nbi(g, words, words + 64, 8, 0), ferry_gpu_quiet(g);
        else if (kind == PUT)
            ferry_gpu_put(g, words, words + 64, 8, 0);
        else
            ferry_gpu_signal(g, words, i, FERRY_SIGNAL_SET, 0), ferry_gpu_wait_until(g, words, FERRY_CMP_EQ, i, 0);
    }
    *ns = ferry_gpu_clock() - start;
}

/* Each thread, or with RATE_BULK each warp, posts `each` commands to the ring of its warp. */
__global__ void rate(struct rings rings, int n_rings, char *data, int kind, unsigned bytes, int each)
{
    const int thread = blockIdx.x * blockDim.x + threadIdx.x, warp = thread / 32;
    struct ferry_gpu g = rings.ring[warp % n_rings];
    uint64_t *word = (uint64_t *)data + 8 * (warp % 64);
    char *from = data + 65536 + (size_t)(warp % 64) * 8192;
    for (int i = 0; i < each; i++) {
        if (kind == RATE_PUT) {
            ((uint64_t *)from)[threadIdx.x % 32] = i;
            ferry_gpu_put_nbi(g, data + 4096 + thread % 1024 * 8, from + threadIdx.x % 32 * 8, 8, 0);
        } else if (kind == RATE_SIGNAL) {
            ferry_gpu_signal(g, word, 1, FERRY_SIGNAL_ADD, 0);
        } else {
            ferry_gpu_put_nbi_warp(g, data + 655360 + (size_t)(warp % 64) * 8192, from, bytes, 0);
        }
    }
    ferry_gpu_quiet(g);
}

static double now(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (double)ts.tv_sec + (double)ts.tv_nsec * 1e-9;
}

static void run_latency(struct rings *rings, char *block, uint64_t *ns, int kind, const char *name)
{
    const int n = 10000;
    latency<<<1, 1>>>(rings->ring[0], (uint64_t *)block, kind, n, ns);
    if (cudaDeviceSynchronize() != cudaSuccess)
        exit(1);
    printf("%-24s %8.2f us\n", name, (double)*ns / n * 1e-3);
}

static void run_rate(struct rings *rings, char *block, int kind, const char *name, int n_rings, int blocks, int threads, unsigned bytes,
                     long total)
{
    const long posters = kind == RATE_BULK ? (long)blocks * threads / 32 : (long)blocks * threads;
    const int each = (int)(total / posters) + 1;
    const double start = now();
    rate<<<blocks, threads>>>(*rings, n_rings, block, kind, bytes, each);
    if (cudaDeviceSynchronize() != cudaSuccess)
        exit(1);
    const double seconds = now() - start, commands = (double)posters * each;
    printf("%-24s %d rings, %3d x %3d threads: %8.2f M/s", name, n_rings, blocks, threads, commands / seconds * 1e-6);
    printf(kind == RATE_BULK ? ", %.2f GB/s\n" : "\n", commands * bytes / seconds * 1e-9);
}

int main(int argc, char **argv)
{
    const int rounds = argc > 1 ? atoi(argv[1]) : 5;
    const size_t bytes = 2 << 20;
    ferry_job_t *job;
    ferry_ring_t *ring[RINGS_MAX];
    struct rings rings;
    uint64_t *ns;
    setenv("CUDA_MODULE_LOADING", "EAGER", 1);
    if (ferry_init(NULL, &job) != FERRY_OK || cudaHostAlloc((void **)&ns, 64, cudaHostAllocMapped) != cudaSuccess)
        return 1;
    char *block = (char *)ferry_align(job, 4096, bytes);
    if (!block || ferry_gpu_pin(block, bytes) != FERRY_OK)
        return 1;
    for (int i = 0; i < RINGS_MAX; i++)
        if (ferry_ring_create(job, 4096, 0, &ring[i]) != FERRY_OK || ferry_gpu_open(ring[i], &rings.ring[i]) != FERRY_OK)
            return 1;
    const bool moves = !getenv("FERRY_TRANSPORT") || !strstr(getenv("FERRY_TRANSPORT"), "null");
    for (int r = 0; r < rounds; r++) {
        run_latency(&rings, block, ns, PUT_QUIET, "put 8 B, quiet");
        run_latency(&rings, block, ns, PUT, "put 8 B, announced");
        if (moves)
            run_latency(&rings, block, ns, SIGNAL_WAIT, "signal to itself");
        for (int n = 1; n <= RINGS_MAX; n *= 8) {
            run_rate(&rings, block, RATE_PUT, "put 8 B", n, n, 32, 8, 2000000);
            run_rate(&rings, block, RATE_PUT, "put 8 B", n, 64, 256, 8, 4000000);
            run_rate(&rings, block, RATE_SIGNAL, "signal", n, 64, 256, 0, 4000000);
        }
        run_rate(&rings, block, RATE_BULK, "put 7168 B by warps", 1, 8, 256, 7168, 100000);
        run_rate(&rings, block, RATE_BULK, "put 7168 B by warps", 8, 8, 256, 7168, 100000);
    }
    for (int i = 0; i < RINGS_MAX; i++)
        if (ferry_gpu_close(&rings.ring[i]) != FERRY_OK || ferry_ring_destroy(ring[i]) != FERRY_OK)
            return 1;
    ferry_gpu_unpin(block);
    return ferry_finalize(job) == FERRY_OK ? 0 : 1;
}
