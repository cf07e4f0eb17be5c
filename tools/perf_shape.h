/* SPDX-License-Identifier: Apache-2.0
 * ferry-perf: the shapes of traffic that CPUs and kernels make alike. Constants. */
#ifndef FERRY_TOOLS_PERF_SHAPE_H
#define FERRY_TOOLS_PERF_SHAPE_H

#define PERF_RINGS 64 /* channels, at most */

/* moe_ht: rings of slots per (channel, peer). */
#define PERF_HT_RECORD   7472 /* bytes: a token of 7168 values in FP8 with its scales and routes */
#define PERF_HT_CHUNK    20   /* tokens of a put */
#define PERF_HT_RING     140  /* tokens */
#define PERF_HT_CHUNKS   21   /* per (channel, peer) and iteration */
#define PERF_HT_CHANNELS 10
/* moe_ll: a put for each (token, expert). */
#define PERF_LL_RECORD   7408
#define PERF_LL_TOKENS   128
#define PERF_LL_TOP      8   /* experts of a token */
#define PERF_LL_EXPERTS  288 /* of all PEs */
#define PERF_LL_CHANNELS 36

#endif
