/* SPDX-License-Identifier: Apache-2.0
 * Latency and rate of what kernels do through the proxy: one PE, one GPU, host memory. Measurements, not a test; tests/gpu/table
 * makes the table of docs/performance.md from them.
 * usage: gpu_rate [-n ROUNDS] [-r RINGS] lat|threads|warps|long|ll|copy|idle...; a line per measurement, "name value unit".
 * FERRY_TRANSPORT: loopback, ibrc over a stand-in, or the null transport of the tests; FERRY_PROXY_THREADS. Main thread. */
#include <ferry/device.cuh>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <sys/resource.h>
#include <thread>
#include <unistd.h>
#include <vector>

#define RINGS_MAX  8
#define SLOTS      256 /* places that warps put from and to */
#define SLOT       8192
#define LL_PUTS    1024
#define LL_BYTES   7408
#define LL_SIGNALS 270
#define LL_BLOCKS  30
#define HALF       ((size_t)LL_PUTS * SLOT) /* of the block: sources; behind them, destinations */

struct rings {
    struct ferry_gpu ring[RINGS_MAX];
    int n;
};

/* What the program has. */
struct bench {
    ferry_job_t *job;
    ferry_ring_t *ring[RINGS_MAX];
    struct rings rings;
    char *block;     /* symmetric, pinned */
    uint64_t *words; /* the same, a page */
    uint64_t *ns;    /* mapped: of kernels of a thread */
};

enum kind { PUT_QUIET, PUT, SIGNAL_WAIT, PUT_THREADS, SIGNAL_THREADS, PUT_WARPS };

__global__ void latency(struct ferry_gpu g, uint64_t *words, char *block, int kind, int n, uint64_t pause, uint64_t *ns)
{
    uint64_t sum = 0;
    for (int i = 1; i <= n; i++) {
        for (const uint64_t begun = ferry_gpu_clock(); ferry_gpu_clock() - begun < pause;)
            ;
        const uint64_t start = ferry_gpu_clock();
        *(volatile uint64_t *)block = i;
        if (kind == PUT_QUIET)
            ferry_gpu_put_nbi(g, block + HALF, block, 8, 0), ferry_gpu_quiet(g);
        else if (kind == PUT)
            ferry_gpu_put(g, block + HALF, block, 8, 0);
        else
            ferry_gpu_signal(g, words, i, FERRY_SIGNAL_SET, 0), ferry_gpu_wait_until(g, words, FERRY_CMP_EQ, i, 0);
        sum += ferry_gpu_clock() - start;
    }
    *ns = sum;
}

/* Each thread, or with PUT_WARPS each warp, posts `each` commands to the ring of its warp. */
__global__ void rate(struct rings rings, uint64_t *words, char *block, int kind, unsigned bytes, int each)
{
    const int thread = blockIdx.x * blockDim.x + threadIdx.x, warp = thread / 32;
    struct ferry_gpu g = rings.ring[warp % rings.n];
    char *from = block + (size_t)(warp % SLOTS) * SLOT, *to = from + HALF;
    const size_t own = kind == PUT_THREADS ? threadIdx.x % 32 * 8 : 0;
    for (int i = 0; i < each; i++) {
        if (kind != SIGNAL_THREADS)
            *(volatile uint64_t *)(from + threadIdx.x % 32 * 8) = i;
        if (kind == PUT_THREADS)
            ferry_gpu_put_nbi(g, to + own, from + own, 8, 0);
        else if (kind == SIGNAL_THREADS)
            ferry_gpu_signal(g, words + warp % 64 * 8, 1, FERRY_SIGNAL_ADD, 0);
        else
            ferry_gpu_put_nbi_warp(g, to, from, bytes, 0);
    }
    ferry_gpu_quiet_warp(g);
}

/* A dispatch that aims at latency: scattered puts by warps, then a signal for each expert that covers its puts: both go through the
 * ring of the expert's block. */
__global__ void low_latency(struct rings rings, uint64_t *words, char *block, int n, uint64_t *ns)
{
    struct ferry_gpu g = rings.ring[blockIdx.x % rings.n];
    const uint64_t start = ferry_gpu_clock();
    for (int i = 0; i < n; i++) {
        for (unsigned expert = blockIdx.x; expert < LL_SIGNALS; expert += gridDim.x)
            for (unsigned p = expert + threadIdx.x / 32 * LL_SIGNALS; p < LL_PUTS; p += blockDim.x / 32 * LL_SIGNALS)
                ferry_gpu_put_nbi_warp(g, block + HALF + (size_t)p * SLOT, block + (size_t)p * SLOT, LL_BYTES, 0);
        __syncthreads();
        for (unsigned expert = blockIdx.x + threadIdx.x * gridDim.x; expert < LL_SIGNALS; expert += gridDim.x * blockDim.x)
            ferry_gpu_signal(g, words + expert, 1, FERRY_SIGNAL_ADD, 0);
        ferry_gpu_quiet_block(g);
    }
    if (threadIdx.x == 0)
        atomicMax((unsigned long long *)ns, (unsigned long long)(ferry_gpu_clock() - start));
}

static double now(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (double)ts.tv_sec + (double)ts.tv_nsec * 1e-9;
}

static void finish(void)
{
    const cudaError_t rc = cudaDeviceSynchronize();
    if (rc == cudaSuccess)
        return;
    fprintf(stderr, "gpu_rate: %s\n", cudaGetErrorString(rc));
    exit(1);
}

static double latency_us(struct bench *b, int kind, int n, uint64_t pause)
{
    latency<<<1, 1>>>(b->rings.ring[0], b->words, b->block, kind, n, pause, b->ns);
    finish();
    return (double)*b->ns / n * 1e-3;
}

/* Commands per second; `total` of them, about. */
static double rate_of(struct bench *b, int kind, int blocks, int threads, unsigned bytes, long total)
{
    const long posters = kind == PUT_WARPS ? (long)blocks * threads / 32 : (long)blocks * threads;
    const int each = (int)(total / posters) + 1;
    const double start = now();
    rate<<<blocks, threads>>>(b->rings, b->words, b->block, kind, bytes, each);
    finish();
    return (double)posters * each / (now() - start);
}

/* ------------------------------------------------------------------ what is measured */

static void measure_lat(struct bench *b)
{
    printf("put_quiet %.3f us\n", latency_us(b, PUT_QUIET, 10000, 0));
    printf("put_announced %.3f us\n", latency_us(b, PUT, 10000, 0));
    const char *transport = getenv("FERRY_TRANSPORT");
    if (!transport || !strstr(transport, "null"))
        printf("signal_self %.3f us\n", latency_us(b, SIGNAL_WAIT, 10000, 0));
}

static void measure_threads(struct bench *b)
{
    printf("put_one_warp %.2f M/s\n", rate_of(b, PUT_THREADS, 1, 32, 8, 1000000) * 1e-6);
    printf("put_64x256 %.2f M/s\n", rate_of(b, PUT_THREADS, 64, 256, 8, 4000000) * 1e-6);
    printf("signal_64x256 %.2f M/s\n", rate_of(b, SIGNAL_THREADS, 64, 256, 0, 4000000) * 1e-6);
}

/* put_nbi of each thread, and of each warp. */
static void measure_warps(struct bench *b)
{
    printf("put8_threads_64 %.2f M/s\n", rate_of(b, PUT_THREADS, 8, 256, 8, 2000000) * 1e-6);
    printf("put8_threads_256 %.2f M/s\n", rate_of(b, PUT_THREADS, 32, 256, 8, 2000000) * 1e-6);
    printf("put8_warps_64 %.2f M/s\n", rate_of(b, PUT_WARPS, 8, 256, 8, 1000000) * 1e-6);
    printf("put8_warps_256 %.2f M/s\n", rate_of(b, PUT_WARPS, 32, 256, 8, 1000000) * 1e-6);
}

static void measure_long(struct bench *b)
{
    printf("put7168_64 %.2f GB/s\n", rate_of(b, PUT_WARPS, 8, 256, 7168, 100000) * 7168e-9);
    printf("put7168_256 %.2f GB/s\n", rate_of(b, PUT_WARPS, 32, 256, 7168, 100000) * 7168e-9);
}

static void measure_ll(struct bench *b)
{
    *b->ns = 0;
    low_latency<<<LL_BLOCKS, 256>>>(b->rings, b->words, b->block, 200, b->ns);
    finish();
    printf("ll %.2f us\n", (double)*b->ns / 200 * 1e-3);
}

/* The same bytes by memcpy: `places` of them, `n` times, of `threads`. GB/s. */
static double copy_rate(struct bench *b, int threads, int places, size_t bytes, int n)
{
    std::vector<std::thread> all;
    const double start = now();
    for (int t = 0; t < threads; t++)
        all.emplace_back([=] {
            for (int i = 0; i < n; i++)
                for (int p = t; p < places; p += threads)
                    memcpy(b->block + HALF + (size_t)p * SLOT, b->block + (size_t)p * SLOT, bytes);
        });
    for (auto &t : all)
        t.join();
    return (double)places * n * (double)bytes / (now() - start) * 1e-9;
}

static void measure_copy(struct bench *b)
{
    for (int threads = 1; threads <= 4; threads *= 4) {
        printf("copy7168_64_by_%d %.2f GB/s\n", threads, copy_rate(b, threads, 64, 7168, 4000));
        printf("copy7168_256_by_%d %.2f GB/s\n", threads, copy_rate(b, threads, 256, 7168, 1000));
    }
    printf("copy_ll_by_4 %.2f us\n", LL_PUTS * (double)LL_BYTES / copy_rate(b, 4, LL_PUTS, LL_BYTES, 400) * 1e-3);
}

static double cpu_seconds(void)
{
    struct rusage u;
    getrusage(RUSAGE_SELF, &u);
    return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) + (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) * 1e-6;
}

/* What the proxy takes of a core, and adds to an operation that meets it asleep. */
static void measure_idle(struct bench *b)
{
    sleep(1);
    const double start = now(), used = cpu_seconds();
    sleep(2);
    printf("idle_cpu %.2f %%\n", (cpu_seconds() - used) / (now() - start) * 100);
    const double busy = latency_us(b, PUT_QUIET, 1000, 0);
    printf("idle_adds %.1f us\n", latency_us(b, PUT_QUIET, 100, 10000000) - busy);
}

static const struct {
    const char *name;
    void (*measure)(struct bench *);
} measurements[] = {{"lat", measure_lat}, {"threads", measure_threads}, {"warps", measure_warps}, {"long", measure_long},
                    {"ll", measure_ll},   {"copy", measure_copy},       {"idle", measure_idle}};

static int failed(const char *what, int rc)
{
    fprintf(stderr, "gpu_rate: %s: %s; cuda: %s\n", what, ferry_status_string(rc), cudaGetErrorString(cudaGetLastError()));
    return 1;
}

static int open_bench(struct bench *b, int n_rings)
{
    setenv("CUDA_MODULE_LOADING", "EAGER", 1);
    int rc = ferry_init(NULL, &b->job);
    if (rc != FERRY_OK)
        return rc;
    b->block = (char *)ferry_align(b->job, 4096, 2 * HALF);
    b->words = (uint64_t *)ferry_align(b->job, 4096, 4096);
    if (!b->block || !b->words || cudaHostAlloc((void **)&b->ns, 64, cudaHostAllocMapped) != cudaSuccess)
        return FERRY_ERR_NOMEM;
    memset(b->block, 1, 2 * HALF);
    rc = ferry_gpu_pin(b->block, 2 * HALF);
    if (rc == FERRY_OK)
        rc = ferry_gpu_pin(b->words, 4096);
    for (; b->rings.n < n_rings && rc == FERRY_OK; b->rings.n += rc == FERRY_OK) {
        rc = ferry_ring_create(b->job, 4096, 0, &b->ring[b->rings.n]);
        rc = rc == FERRY_OK ? ferry_gpu_open(b->ring[b->rings.n], &b->rings.ring[b->rings.n]) : rc;
    }
    return rc;
}

static int close_bench(struct bench *b)
{
    int rc = FERRY_OK;
    for (int i = 0; i < b->rings.n; i++)
        if (ferry_gpu_close(&b->rings.ring[i]) != FERRY_OK || ferry_ring_destroy(b->ring[i]) != FERRY_OK)
            rc = FERRY_ERR_DEVICE; /* a command failed, or the GPU */
    ferry_gpu_unpin(b->words);
    ferry_gpu_unpin(b->block);
    return ferry_finalize(b->job) == FERRY_OK ? rc : FERRY_ERR_TRANSPORT;
}

int main(int argc, char **argv)
{
    struct bench b = {};
    int rounds = 1, rings = RINGS_MAX, option;
    while ((option = getopt(argc, argv, "n:r:")) != -1) {
        if (option == '?')
            return 64;
        *(option == 'n' ? &rounds : &rings) = atoi(optarg);
    }
    int rc = open_bench(&b, rings < 1 ? 1 : rings > RINGS_MAX ? RINGS_MAX : rings);
    if (rc != FERRY_OK)
        return failed("begin", rc);
    for (int r = 0; r < rounds; r++)
        for (int i = optind; i < argc; i++)
            for (const auto &m : measurements)
                if (strcmp(m.name, argv[i]) == 0)
                    m.measure(&b);
    rc = close_bench(&b);
    return rc == FERRY_OK ? 0 : failed("end", rc);
}
