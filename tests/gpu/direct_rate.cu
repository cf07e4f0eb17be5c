/* SPDX-License-Identifier: Apache-2.0
 * Latency and rate of loads and stores of kernels through a window: from one place in the memory of a GPU to another one of the same
 * GPU, as if that were a peer's. Measurements, not a test (docs/performance.md). usage: direct_rate [ROUNDS]; a line per measurement,
 * "name value unit". Main thread. */
#include <ferry/device.cuh>

#include <cstdio>
#include <cstdlib>
#include <ctime>

enum direct { DIRECT_PUT_QUIET, DIRECT_P_QUIET, DIRECT_FETCH_ADD, DIRECT_PUT_SIGNAL };

__global__ void direct_latency(struct ferry_gpu g, uint64_t *words, int kind, int n, uint64_t *ns)
{
    uint64_t old;
    const uint64_t start = ferry_gpu_clock();
    for (int i = 1; i <= n; i++) {
        if (kind == DIRECT_PUT_QUIET)
            ferry_gpu_put_nbi(g, words, words + 64, 8, 0), ferry_gpu_quiet(g);
        else if (kind == DIRECT_P_QUIET)
            ferry_gpu_p(g, words, i, 0), ferry_gpu_quiet(g);
        else if (kind == DIRECT_PUT_SIGNAL)
            ferry_gpu_put_signal_nbi(g, words, words + 64, 8, words + 32, 1, FERRY_SIGNAL_SET, 0);
        else
            ferry_gpu_atomic_fetch_add(g, words, 1, &old, 0);
    }
    *ns = ferry_gpu_clock() - start;
}

/* Two blocks: each tells the other one, whose memory is its window's other end. */
__global__ void direct_ping_pong(struct ferry_gpu a, struct ferry_gpu b, uint64_t *mine, uint64_t *theirs, int how, int n, uint64_t *ns)
{
    const uint64_t start = ferry_gpu_clock();
    for (int i = 1; i <= n; i++) {
        if (blockIdx.x == 0) {
            ferry_gpu_signal(a, mine, i, how, 0);
            ferry_gpu_wait_until(a, mine, FERRY_CMP_EQ, i, 0);
        } else {
            ferry_gpu_wait_until(b, theirs, FERRY_CMP_EQ, i, 0);
            ferry_gpu_signal(b, theirs, i, how, 0);
        }
    }
    if (blockIdx.x == 0)
        *ns = ferry_gpu_clock() - start;
}

/* 8 warps a block; each puts to a place of its own. */
__global__ void direct_rate(struct ferry_gpu g, char *memory, unsigned bytes, int each)
{
    const unsigned warp = (blockIdx.x * blockDim.x + threadIdx.x) / 32;
    char *to = memory + warp * 8192, *from = to + ((size_t)2 << 20);
    for (int i = 0; i < each; i++)
        ferry_gpu_put_nbi_warp(g, to, from, bytes, 0);
    ferry_gpu_quiet_warp(g);
}

static double now(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (double)ts.tv_sec + (double)ts.tv_nsec * 1e-9;
}

static void finish(void)
{
    if (cudaDeviceSynchronize() == cudaSuccess)
        return;
    printf("cuda: %s\n", cudaGetErrorString(cudaGetLastError()));
    exit(1);
}

static void direct_latencies(const struct ferry_gpu *g, uint64_t *mine, uint64_t *ns)
{
    static const char *const name[] = {"put_quiet", "p_quiet", "fetch_add", "put_signal"};
    for (int kind = DIRECT_PUT_QUIET; kind <= DIRECT_PUT_SIGNAL; kind++) {
        direct_latency<<<1, 1>>>(*g, mine, kind, 10000, ns);
        finish();
        printf("direct_%s %.3f us\n", name[kind], (double)*ns / 10000 * 1e-3);
    }
}

static void direct_rates(const struct ferry_gpu *g, char *mine)
{
    for (int warps = 8; warps <= 256; warps = warps == 8 ? 64 : warps * 4)
        for (unsigned bytes = 8; bytes <= 7168; bytes += 7160) {
            const int each = 20000;
            const double start = now();
            direct_rate<<<warps / 8, 256>>>(*g, mine, bytes, each);
            finish();
            const double puts = (double)warps * each, seconds = now() - start;
            printf("direct_put_%u_warps_%d %.1f %s\n", bytes, warps, bytes == 8 ? puts / seconds * 1e-6 : puts * bytes / seconds * 1e-9,
                   bytes == 8 ? "M/s" : "GB/s");
        }
}

/* From one place in GPU memory to another one of the same GPU, as if that were the peer's. */
static void run_direct(struct ferry_gpu *gpu, uint64_t *ns, int rounds)
{
    const size_t bytes = 4 << 20;
    char *mine, *theirs;
    if (cudaMalloc((void **)&mine, bytes) != cudaSuccess || cudaMalloc((void **)&theirs, bytes) != cudaSuccess)
        exit(1);
    cudaMemset(mine, 0, bytes);
    cudaMemset(theirs, 0, bytes);
    const uint64_t at = (uint64_t)(uintptr_t)mine, there = (uint64_t)(uintptr_t)theirs;
    if (ferry_gpu_window_at(&gpu[0], mine, bytes, &there, FERRY_WINDOW_ATOMICS) != FERRY_OK ||
        ferry_gpu_window_at(&gpu[1], theirs, bytes, &at, FERRY_WINDOW_ATOMICS) != FERRY_OK)
        exit(1);
    for (int r = 0; r < rounds; r++) {
        const int n = 10000;
        direct_latencies(&gpu[0], (uint64_t *)mine, ns);
        for (int weak = 0; weak < 2; weak++) {
            cudaMemset(mine + 2048, 0, 8);
            cudaMemset(theirs + 2048, 0, 8);
            direct_ping_pong<<<2, 1>>>(gpu[0], gpu[1], (uint64_t *)(mine + 2048), (uint64_t *)(theirs + 2048),
                                       FERRY_SIGNAL_SET | (weak ? FERRY_SIGNAL_WEAK : 0), n, ns);
            finish();
            printf("direct_signal_%s_one_way %.3f us\n", weak ? "weak" : "strong", (double)*ns / n / 2 * 1e-3);
        }
        direct_rates(&gpu[0], mine);
    }
    cudaFree(mine);
    cudaFree(theirs);
}

int main(int argc, char **argv)
{
    ferry_job_t *job;
    ferry_ring_t *ring[2];
    struct ferry_gpu gpu[2];
    uint64_t *ns;
    setenv("CUDA_MODULE_LOADING", "EAGER", 1);
    if (ferry_init(NULL, &job) != FERRY_OK || cudaHostAlloc((void **)&ns, 64, cudaHostAllocMapped) != cudaSuccess ||
        ferry_gpu_open_all(job, 2, 0, ring, gpu) != FERRY_OK)
        return 1;
    run_direct(gpu, ns, argc > 1 ? atoi(argv[1]) : 5);
    return ferry_gpu_close_all(2, ring, gpu) == FERRY_OK && ferry_finalize(job) == FERRY_OK ? 0 : 1;
}
