/* SPDX-License-Identifier: Apache-2.0
 * hello.c from a CUDA kernel: the kernel of every PE puts a text into the memory of its right neighbour, with a signal, and
 * waits for the one from the left. Works on any machine with a GPU; what carries the bytes is Ferry's choice.
 *
 *     nvcc -std=c++17 -arch=native ring_gpu.cu -o ring_gpu $(pkg-config --cflags --libs ferry)
 *     ferry-run -n 2 ./ring_gpu
 */
#include <ferry/device.cuh>
#include <stdio.h>

struct page { /* symmetric: the same address names that of every PE */
    char out[64], in[64];
    uint64_t arrived;
    char rest[4096 - 136];
};

__global__ void greet(struct ferry_gpu g, struct page *page, int *status)
{
    int me = ferry_gpu_my_pe(g), right = (me + 1) % ferry_gpu_n_pes(g);
    const char text[] = "hello from the kernel of pe 0";
    for (unsigned i = threadIdx.x; i < sizeof text; i += 32)
        page->out[i] = text[i];
    if (threadIdx.x == 0)
        page->out[sizeof text - 2] = (char)('0' + me % 10);
    int rc = ferry_gpu_put_signal_nbi_warp(g, page->in, page->out, 64, &page->arrived, 1, FERRY_SIGNAL_ADD, right);
    if (rc == FERRY_OK)
        rc = ferry_gpu_wait_until(g, &page->arrived, FERRY_CMP_GE, 1, 0);
    if (rc == FERRY_OK)
        rc = ferry_gpu_quiet_warp(g);
    if (threadIdx.x == 0)
        *status = rc;
}

static int failed(const char *what, int rc)
{
    fprintf(stderr, "%s: %s; cuda: %s\n", what, ferry_status_string(rc), cudaGetErrorString(cudaGetLastError()));
    return 1;
}

int main()
{
    ferry_job_t *job;
    ferry_ring_t *ring;
    struct ferry_gpu gpu;
    int *status, rc = ferry_init(NULL, &job);
    if (rc != FERRY_OK)
        return 1;
    struct page *page = (struct page *)ferry_align(job, 4096, sizeof *page);
    if (!page || cudaHostAlloc((void **)&status, sizeof *status, cudaHostAllocMapped) != cudaSuccess)
        return failed("memory", FERRY_ERR_NOMEM);
    if ((rc = ferry_gpu_pin(page, sizeof *page)) != FERRY_OK || (rc = ferry_ring_create(job, 0, 0, &ring)) != FERRY_OK ||
        (rc = ferry_gpu_open(ring, &gpu)) != FERRY_OK)
        return failed("ring", rc);
    greet<<<1, 32>>>(gpu, page, status);
    if (cudaDeviceSynchronize() != cudaSuccess || *status != FERRY_OK)
        return failed("kernel", *status);
    printf("pe %d got: %s\n", ferry_my_pe(job), page->in);
    if (ferry_gpu_close(&gpu) != FERRY_OK || ferry_ring_destroy(ring) != FERRY_OK || ferry_gpu_unpin(page) != FERRY_OK)
        return failed("end", FERRY_ERR_DEVICE);
    return ferry_finalize(job) == FERRY_OK ? 0 : 1;
}
