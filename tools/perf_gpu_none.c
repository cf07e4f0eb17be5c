/* SPDX-License-Identifier: Apache-2.0
 * ferry-perf built without CUDA: there are no kernels. Main thread of each PE. */
#include "perf_gpu.h"

const char *perf_gpu_reason(void)
{
    return "built without CUDA (nvcc was not found)";
}

int perf_gpu_open(ferry_job_t *job, int pe, int rings, struct perf_gpu **gpu, const char **why)
{
    (void)job;
    (void)pe;
    (void)rings;
    (void)gpu;
    *why = "";
    return FERRY_ERR_UNSUPPORTED;
}

void perf_gpu_close(struct perf_gpu *gpu)
{
    (void)gpu;
}

int perf_gpu_pin(void *address, size_t bytes, const char **why)
{
    (void)address;
    (void)bytes;
    *why = "";
    return FERRY_ERR_UNSUPPORTED;
}

void perf_gpu_unpin(void *address)
{
    (void)address;
}

int perf_gpu_run(struct perf_gpu *gpu, const struct perf_gpu_launch *launch, double *ns, const char **why)
{
    (void)gpu;
    (void)launch;
    (void)ns;
    *why = "";
    return FERRY_ERR_UNSUPPORTED;
}
