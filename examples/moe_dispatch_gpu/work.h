/* SPDX-License-Identifier: Apache-2.0
 * What the host and the kernels of this example tell each other: the shape of a phase, the state of each (channel, lane), and what
 * went wrong. Types only. */
#ifndef MOE_GPU_WORK_H
#define MOE_GPU_WORK_H

#include "../moe_dispatch/moe.h"
#include <ferry/gpu.cuh>

enum { BLOCK_THREADS = 256, BLOCK_WARPS = BLOCK_THREADS / 32 };
enum { PHASE_DISPATCH = 1, PHASE_COMBINE = 2 };

/* One (channel, lane) of a phase, in GPU memory. Thread 0 of the block that drives the channel writes it. */
struct lane_state {
    uint64_t sends, posted, reusable;  /* tokens; `reusable`: positions below it, whose slots nobody reads any more */
    uint64_t comes, taken, credited;
    uint64_t queue_at, arrival_at;     /* where its own tokens, and what it got in dispatch, begin */
    uint32_t to, from;                 /* PEs */
};

/* What of the library a call was for. */
enum call { CALL_ANNOUNCE, CALL_CREDITS, CALL_COMPLETE, CALL_SEND, CALL_TOKENS, CALL_RELEASE, CALL_TELL, CALL_QUIET };

enum trouble_kind { TROUBLE_NONE, TROUBLE_CALL, TROUBLE_TAIL, TROUBLE_SLOT, TROUBLE_TOKEN, TROUBLE_EXPERT };

/* The first thing that went wrong, in host memory; read when the kernel has ended. */
struct trouble {
    int kind;   /* enum trouble_kind */
    int status; /* CALL */
    int call;   /* CALL: enum call */
    uint32_t channel, pe;
    uint64_t sequence;          /* SLOT */
    uint64_t expected, seen;    /* TAIL: at most, and the tail; TOKEN; EXPERT: `seen` */
    struct stamp stamp;         /* SLOT: as it was first seen, and the hash of its body */
    uint64_t body;
    uint64_t late_ns;           /* SLOT: became right after that time; 0: did not */
};

/* What a kernel works on, by value. Pointers lead to GPU memory, if not said otherwise. */
struct work {
    uint32_t me, n_pes, hidden, topk, experts, channels, lanes, ring, chunk, first_token;
    uint32_t phase, inject;
    uint32_t slot_bytes, payload_offset; /* of this phase; of dispatch */
    const struct ferry_gpu *rings;       /* of commands, by channel */
    char *out, *in;                      /* symmetric, as in the CPU's example */
    struct lane_words *words;            /* symmetric */
    struct lane_state *states;
    const uint32_t *queue;
    const uint16_t *vectors;
    const struct choice *routes;
    char *arrivals;  /* slots of dispatch */
    uint64_t n_arrivals;
    uint32_t arrival_bytes;
    float *results;  /* by arrival */
    float *combined; /* by own token */
    char *scratch;   /* a chunk of slots for each block */
    unsigned long long *dispatch_sum;
    unsigned *stop;  /* 1: `trouble` is taken */
    struct trouble *trouble; /* in host memory */
};

/* kernels.cu. They begin the work in the stream and do not wait for it. */
cudaError_t announce_start(const struct work *work, cudaStream_t stream);
cudaError_t exchange_start(const struct work *work, unsigned blocks, cudaStream_t stream);
cudaError_t experts_start(const struct work *work, cudaStream_t stream);
/* Blocks of exchange_start that fit on the GPU at once. */
cudaError_t exchange_blocks(unsigned *blocks);

#endif
