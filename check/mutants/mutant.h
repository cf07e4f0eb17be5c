/* SPDX-License-Identifier: Apache-2.0
 * A transport for the check of the kit: loopback, behind a queue that reorders whatever the contract lets it, and one
 * promise that is broken. Threads: transport.h; calls on one channel come under the core's lock (INITIATOR_PROGRESS).
 */
#ifndef CHECK_MUTANT_H
#define CHECK_MUTANT_H

#include "mutants.h"
#include "pass.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#define MUTANT_QUEUE   256u /* operations held per (channel, peer) */
#define MUTANT_COPY    256u
#define MUTANT_INLINE  64u
#define MUTANT_MESSAGE 4096u

/* One held operation; group: number of borders before it. */
struct held {
    struct ferry_op op;
    uint64_t sequence;
    uint32_t group;
    uint8_t copy[MUTANT_COPY];
};

/* One (channel, peer). */
struct stream {
    struct held *held[MUTANT_QUEUE];
    uint32_t n, group, idle;
    uint64_t posted; /* sequence number of the latest */
    uint64_t overtakings, gap_end;
    uint64_t refused, signals;
};

struct ferry_transport {
    struct hook_base base; /* loopback's instance */
    enum mutant_kind broken;
    bool gaps;       /* what was overtaken stays behind for a while */
    pthread_t owner; /* the thread in init */
    uint32_t my_pe, n_pes, max_channels;
    struct stream **streams; /* [channel * n_pes + peer] */
    struct ferry_rkey *stale;
    uint64_t completions;
};

/* hold.c */
struct stream *mutant_stream(struct ferry_transport *t, uint32_t channel, uint32_t peer);
int mutant_hold(struct ferry_transport *t, uint32_t channel, const struct ferry_op *op);
int mutant_quiet(struct ferry_transport *t, uint32_t channel, uint32_t peer, uint64_t *ticket);
int mutant_progress(struct ferry_transport *t, uint32_t channel);
/* breaks.c: what is broken of an operation when it is taken (false: drop it), and when it is carried out. */
bool mutant_taken(struct ferry_transport *t, struct stream *s, uint32_t channel, struct held *held);
void mutant_perform(struct ferry_transport *t, uint32_t channel, struct held *held);
/* Whether an operation to this peer may be carried out by now. */
bool mutant_may(struct ferry_transport *t, uint32_t peer);
/* This PE's program has called. */
void mutant_called(struct ferry_transport *t);

#endif
