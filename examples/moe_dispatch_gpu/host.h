/* SPDX-License-Identifier: Apache-2.0
 * The host's side of this example: one struct for each PE. Each PE's main thread. */
#ifndef MOE_GPU_HOST_H
#define MOE_GPU_HOST_H

#include "work.h"

enum { PES_OF_A_GPU = 32 }; /* whose kernels run at once, each in a stream of its own */

struct moe_gpu {
    struct moe *moe;
    cudaStream_t stream;
    unsigned blocks; /* of the exchange */
    ferry_ring_t **rings;
    struct ferry_gpu *handles; /* as `work.rings`, in host memory */
    uint32_t n_rings;
    struct lane_state *states; /* as `work.states`, in host memory */
    size_t out_bytes, in_bytes, words_bytes;
    uint64_t dispatch_sum;
    struct work work;
};

/* setup.cpp. A negative status was reported. */
int gpu_failed(struct moe *moe, cudaError_t rc, const char *what);
int gpu_copy_in(struct moe *moe, const void **to, const void *from, size_t bytes, const char *what);
int gpu_memory(struct moe *moe, void **memory, size_t bytes, const char *what);
/* Waits for what the stream does, and says what went wrong in it. */
int gpu_await(struct moe *moe, const char *phase);
/* trouble.cpp */
int trouble_report(struct moe *moe, const char *phase);

#endif
