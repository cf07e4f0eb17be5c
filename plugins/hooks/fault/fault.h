/* SPDX-License-Identifier: Apache-2.0
 * The fault hook: which call fails, how many of each kind there were, and what was lost.
 * Threads: counts are atomic, since each kind of thread calls; what is lost is written once and then only read. */
#ifndef FAULT_H
#define FAULT_H

#include "../common/pass.h"
#include <stdatomic.h>
#include <stdbool.h>

/* In the order of the choices of the option "call". */
enum fault_call {
    FAULT_NONE,
    FAULT_OPEN,
    FAULT_EXPORT_ENDPOINT,
    FAULT_REACH,
    FAULT_OPEN_CHANNEL,
    FAULT_CLOSE_CHANNEL,
    FAULT_CONNECT,
    FAULT_DISCONNECT,
    FAULT_ALLOCATE_MEMORY,
    FAULT_FREE_MEMORY,
    FAULT_REGISTER_MEMORY,
    FAULT_DEREGISTER_MEMORY,
    FAULT_EXPORT_KEY,
    FAULT_IMPORT_KEY,
    FAULT_RELEASE_KEY,
    FAULT_MAP_KEY,
    FAULT_RMA,
    FAULT_AMO,
    FAULT_PUT_SIGNAL,
    FAULT_POST,
    FAULT_FENCE,
    FAULT_QUIET,
    FAULT_PROGRESS,
    FAULT_QUERY,
    FAULT_CLOSE,
    FAULT_CALLS
};

/* ONCE: that call; ALWAYS: that one and all later ones; LOST: an operation is taken, not done, and never complete. */
enum fault_how { FAULT_ONCE, FAULT_ALWAYS, FAULT_LOST };

struct ferry_transport {
    struct hook_base base;
    enum fault_call call;
    enum fault_how how;
    uint64_t nth;
    bool here;       /* this PE is meant */
    int64_t channel; /* that is meant; -1: any */
    uint32_t n_pes;
    _Atomic uint64_t calls;    /* of the kind that is meant */
    _Atomic uint64_t fired_at; /* number of the call that failed first; 0: none yet */
    _Atomic uint64_t lost;     /* 1 + channel * n_pes + peer of the operation that was lost; 0: none */
};

/* fire.c: counts a call; whether it is to fail, of which the log then has a line. Of a call on a channel, where that
 * counts. */
bool fault_fires(struct ferry_transport *t, enum fault_call call);
bool fault_fires_on(struct ferry_transport *t, enum fault_call call, uint32_t channel);
/* Fills in the record about the call that failed. */
void fault_describe(const struct ferry_transport *t, struct ferry_error *record);
/* data.c */
int fault_rma(struct ferry_transport *t, uint32_t channel, const struct ferry_op *op);
int fault_amo(struct ferry_transport *t, uint32_t channel, const struct ferry_op *op);
int fault_put_signal(struct ferry_transport *t, uint32_t channel, const struct ferry_op *op);
int fault_post(struct ferry_transport *t, uint32_t channel, const struct ferry_op *ops, size_t n, size_t *done);
int fault_fence(struct ferry_transport *t, uint32_t channel, uint32_t peer);
int fault_quiet(struct ferry_transport *t, uint32_t channel, uint32_t peer, uint64_t *ticket);
int fault_progress(struct ferry_transport *t, uint32_t channel);

#endif
