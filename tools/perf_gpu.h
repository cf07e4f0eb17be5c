/* SPDX-License-Identifier: Apache-2.0
 * ferry-perf: what its C part and its CUDA part tell each other. Where there is no CUDA compiler, perf_gpu_none.c
 * stands for the latter. Main thread of each PE. */
#ifndef FERRY_TOOLS_PERF_GPU_H
#define FERRY_TOOLS_PERF_GPU_H

#include <ferry/ferry.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define PERF_GPU_WORD_STRIDE 16u /* 8-byte words: counters of different rings share no pair of cache lines */
#define PERF_GPU_WARPS_MAX   1024u

enum perf_gpu_kind {
    PERF_GPU_PUT_LAT,
    PERF_GPU_SIGNAL_LAT,
    PERF_GPU_FETCH_ADD_LAT,
    PERF_GPU_PUTS,     /* by warps */
    PERF_GPU_COMMANDS, /* 8-byte puts, by threads */
    PERF_GPU_HT,
    PERF_GPU_LL
};

/* What a kernel does, n times. Addresses hold for kernels, and name symmetric memory of the peers. */
struct perf_gpu_launch {
    enum perf_gpu_kind kind;
    int peer;
    uint64_t n, sequence; /* sequence: iterations of earlier kernels */
    unsigned warps;       /* PUTS */
    size_t bytes, stride; /* of a message; from one place of a box to the next */
    uint32_t places;      /* in a box; HT: slots of a ring */
    char *inbox, *outbox;
    uint64_t *words; /* zeroed at first */
};

struct perf_gpu;

/* Why this process cannot run kernels; NULL: it can. */
const char *perf_gpu_reason(void);
/* Opens that many rings of the job, of the device that is PE `pe`'s. *why: a CUDA error or "". A status. */
int perf_gpu_open(ferry_job_t *job, int pe, int rings, struct perf_gpu **gpu, const char **why);
void perf_gpu_close(struct perf_gpu *gpu);
/* Lets kernels reach whole pages of host memory; a status. */
int perf_gpu_pin(void *address, size_t bytes, const char **why);
void perf_gpu_unpin(void *address);
/* Runs a kernel; *ns: from its first operation to the end of its last. The status of the first operation that failed.
 */
int perf_gpu_run(struct perf_gpu *gpu, const struct perf_gpu_launch *launch, double *ns, const char **why);

#ifdef __cplusplus
}
#endif

#endif
