/* SPDX-License-Identifier: Apache-2.0
 * Two PEs as processes, whose kernels take turns on a GPU if they share it: each round, data and a signal go to the other, and what
 * came is compared. usage: ferry-run -n 2 two_processes ROUNDS. Main thread. */
#include <ferry/device.cuh>

#include <cstdio>
#include <cstdlib>

#define WORDS 64

struct page { /* symmetric */
    uint64_t out[WORDS], in[2][WORDS]; /* `in`: by round, as a peer may be one round ahead */
    uint64_t arrived;
    uint64_t rest[4096 / 8 - 3 * WORDS - 1];
};

__global__ void rounds(struct ferry_gpu g, struct page *page, uint64_t n, int *status, uint64_t *wrong)
{
    const int me = ferry_gpu_my_pe(g), peer = me ^ 1, lane = threadIdx.x;
    int rc = FERRY_OK;
    for (uint64_t r = 1; r <= n && rc == FERRY_OK; r++) {
        for (int i = lane; i < WORDS; i += 32)
            page->out[i] = r << 32 | (uint64_t)me << 16 | i;
        rc = ferry_gpu_put_signal_nbi_warp(g, page->in[r % 2], page->out, sizeof page->out, &page->arrived, 1, FERRY_SIGNAL_ADD, peer);
        if (rc == FERRY_OK)
            rc = ferry_gpu_wait_until(g, &page->arrived, FERRY_CMP_GE, r, 0);
        for (int i = lane; i < WORDS && rc == FERRY_OK; i += 32)
            if (*(volatile uint64_t *)&page->in[r % 2][i] != (r << 32 | (uint64_t)peer << 16 | i))
                atomicAdd((unsigned long long *)wrong, 1ull);
        if (rc == FERRY_OK)
            rc = ferry_gpu_quiet_warp(g);
    }
    if (lane == 0)
        *status = rc;
}

static int failed(const char *what, int rc)
{
    printf("failed: %s: %s; cuda: %s\n", what, ferry_status_string(rc), cudaGetErrorString(cudaGetLastError()));
    return 1;
}

int main(int argc, char **argv)
{
    const uint64_t n = argc > 1 ? strtoull(argv[1], nullptr, 10) : 1000;
    ferry_job_t *job;
    ferry_ring_t *ring;
    struct ferry_gpu gpu;
    int *status, devices = 0, rc = ferry_init(NULL, &job);
    if (rc != FERRY_OK)
        return 1;
    if (cudaGetDeviceCount(&devices) != cudaSuccess || cudaSetDevice(ferry_my_pe(job) % devices) != cudaSuccess)
        return failed("GPU", FERRY_ERR_DEVICE);
    struct page *page = (struct page *)ferry_align(job, 4096, sizeof *page);
    if (!page || ferry_n_pes(job) != 2 || cudaHostAlloc((void **)&status, 64, cudaHostAllocMapped) != cudaSuccess)
        return failed("memory for two PEs", FERRY_ERR_NOMEM);
    uint64_t *wrong = (uint64_t *)(status + 2);
    *wrong = 0;
    if ((rc = ferry_gpu_pin(page, sizeof *page)) != FERRY_OK || (rc = ferry_ring_create(job, 0, 0, &ring)) != FERRY_OK ||
        (rc = ferry_gpu_open(ring, &gpu)) != FERRY_OK || (rc = ferry_barrier(job)) != FERRY_OK)
        return failed("ring", rc);
    rounds<<<1, 32>>>(gpu, page, n, status, wrong);
    if (cudaDeviceSynchronize() != cudaSuccess || *status != FERRY_OK)
        return failed("kernel", *status);
    printf("pe %d: %llu rounds, %llu words wrong\n", ferry_my_pe(job), (unsigned long long)n, (unsigned long long)*wrong);
    const int bad = *wrong != 0;
    if (ferry_gpu_close(&gpu) != FERRY_OK || ferry_ring_destroy(ring) != FERRY_OK || ferry_gpu_unpin(page) != FERRY_OK)
        return failed("end", FERRY_ERR_DEVICE);
    return ferry_finalize(job) == FERRY_OK ? bad : 1;
}
