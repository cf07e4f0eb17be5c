/* SPDX-License-Identifier: Apache-2.0
 * Checks of test_gpu: operations in the order of a stream, launched one by one and again and again as a graph.
 * Included by test_gpu.cu alone. */
#ifndef TEST_GPU_CHECK_STREAM_CUH
#define TEST_GPU_CHECK_STREAM_CUH

#include "harness.cuh"

#define STREAM_WORDS 4096

/* The round lies in memory: a graph is launched with the same arguments each time. */
__global__ void stream_fill(uint64_t *out, const uint64_t *round, int me)
{
    for (unsigned i = threadIdx.x; i < STREAM_WORDS; i += blockDim.x)
        out[i] = stamp(me, *round, i);
}

__global__ void stream_check(const uint64_t *in, uint64_t *round, int peer, uint64_t *bad)
{
    for (unsigned i = threadIdx.x; i < STREAM_WORDS; i += blockDim.x)
        KERNEL_CHECK(*(const volatile uint64_t *)(in + i) == stamp(peer, *round, i));
    __syncthreads();
    if (threadIdx.x == 0)
        ++*round;
}

static int stream_round(struct pe *pe, int way, char *memory)
{
    const int peer = (pe->rank + 1) % N_PES;
    uint64_t *word = (uint64_t *)memory, *out = word + 512, *in = out + STREAM_WORDS, *round = (uint64_t *)pe->scratch, *counted = round + 1;
    int *status = (int *)pe->status;
    const struct ferry_gpu *g = &pe->gpu[way];
    stream_fill<<<1, 256, 0, pe->stream>>>(out, round, pe->rank);
    int rc = ferry_put_signal_on_stream(g, in, out, STREAM_WORDS * 8, word, 1, FERRY_SIGNAL_ADD, peer, status, pe->stream);
    if (rc == FERRY_OK)
        rc = ferry_signal_next_on_stream(g, word, 1, counted, status, pe->stream);
    stream_check<<<1, 256, 0, pe->stream>>>(in, round, peer, pe->bad);
    if (rc == FERRY_OK)
        rc = ferry_quiet_on_stream(g, status, pe->stream);
    if (rc == FERRY_OK)
        rc = ferry_barrier_on_stream(g, status, pe->stream);
    return rc;
}

static void check_stream(struct pe *pe, int way)
{
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    char *memory = fresh(pe, way == DIRECT);
    *pe->status = 0;
    cuda_ok(pe, cudaMemsetAsync(pe->scratch, 0, 16, pe->stream), "memset");
    for (int i = 0; i < 20; i++)
        expect(pe, stream_round(pe, way, memory) == FERRY_OK, "operations on a stream");
    finished(pe, "a stream", way);
    cuda_ok(pe, cudaStreamBeginCapture(pe->stream, cudaStreamCaptureModeThreadLocal), "capture");
    expect(pe, stream_round(pe, way, memory) == FERRY_OK, "operations that are captured");
    cuda_ok(pe, cudaStreamEndCapture(pe->stream, &graph), "capture");
    cuda_ok(pe, cudaGraphInstantiate(&exec, graph, 0), "instantiate");
    barrier(pe);
    for (int i = 0; i < 200; i++)
        cuda_ok(pe, cudaGraphLaunch(exec, pe->stream), "launch");
    finished(pe, "a graph, launched 200 times", way);
    expect(pe, look(pe, pe->scratch, 1)[0] == 220, "rounds of the stream");
    expect(pe, *(int *)pe->status == FERRY_OK, "status of the stream");
    barrier(pe);
    cudaGraphExecDestroy(exec);
    cudaGraphDestroy(graph);
}

#endif
