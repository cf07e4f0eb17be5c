/* SPDX-License-Identifier: Apache-2.0
 * What the files of the proxy share. A ring belongs to its proxy thread, which lends it to the ring's helper for one command at
 * a time; what others touch is atomic, or under a lock that is named. */
#ifndef FY_PROXY_INTERNAL_H
#define FY_PROXY_INTERNAL_H

#include "../order/quiet.h"
#include "feed.h"
#include "proxy.h"

#define FY_BATCH 64u /* commands read, and operations handed to the transport, at a time */

/* What became of a command. */
enum fy_taken {
    FY_TAKEN,     /* done, or among the operations to be posted */
    FY_TAKE_POST, /* what is to be posted has to be, first */
    FY_TAKE_SLOW, /* it may have to wait: for the helper */
    FY_TAKE_FAIL  /* it failed, and ring->failed has been told */
};

/* How a ring ends: carry out what is there, then detach; detach as soon as nobody works on it. */
enum fy_close { FY_CLOSE_NOT, FY_CLOSE_DRAIN, FY_CLOSE_NOW };

enum fy_helper_state { FY_HELPER_IDLE, FY_HELPER_ASKED, FY_HELPER_DONE, FY_HELPER_STOP };

/* A thread for what may block, made when a ring first needs it. */
struct fy_helper {
    pthread_t thread;
    bool running;
    pthread_mutex_t lock; /* guards `state` for the condition; the proxy thread looks at it without */
    pthread_cond_t changed;
    _Atomic int state;
    struct ferry_command command;
    int status;                /* of the command, with its record */
    struct ferry_error record;
};

struct ferry_ring {
    /* constant */
    struct ferry_ring_handle handle; /* as the reader sees it */
    struct fy_ring_memory *memory;
    struct ferry_ctx *ctx;
    struct fy_proxy *proxy;
    struct fy_worker *worker;
    uint32_t slot;           /* in its worker's table */
    struct ferry_ring *next; /* the proxy's lock */

    /* the proxy thread's */
    uint64_t position;            /* next slot to read */
    struct ferry_command command; /* read, not taken yet, if `have` */
    bool have;
    bool asked_helper;            /* the helper has the channel */
    uint64_t wanted;              /* end of the last command that is to be announced */
    uint64_t covered;             /* what the open quiet, or the helper's, is about to complete */
    bool quieting;
    struct fy_quiet quiet;
    uint64_t stalled_since;       /* the transport has no room since then; 0: it has */
    uint64_t quiet_since;
    uint32_t stalls, quiet_turns; /* turns since then */
    uint64_t end, close_deadline; /* while closing */
    int close_status;
    const struct fy_lane *lane;   /* of the operations below */
    uint32_t from, n;             /* those in ops[from .. n) are to be posted */
    struct ferry_op ops[FY_BATCH];
    uint64_t values[FY_BATCH];    /* sources of those that put a value */
    struct fy_helper helper;

    /* the application's threads, too */
    _Atomic uint32_t closing;     /* FY_CLOSE_… */
    pthread_mutex_t lock;         /* guards `failure` and the word that says that there is one */
    struct ferry_error failure;
    int closed;                   /* how it ended; the proxy's lock */
    bool detached;
};

/* A proxy thread. */
struct fy_worker {
    struct fy_proxy *proxy;
    pthread_t thread;
    bool running;
    uint32_t n_rings;                        /* the proxy's lock */
    _Atomic uint32_t end;                    /* entries in use are below */
    _Atomic(struct ferry_ring *) *rings;     /* max_channels of them */
    _Atomic bool stop;
    struct ferry_page_worker *load;          /* in the page, or `unseen` */
    struct ferry_page_worker unseen;
};

struct fy_proxy {
    struct fy_proxy_config config;
    pthread_mutex_t lock;
    pthread_cond_t changed; /* a ring came, or went; or all shall end */
    uint32_t n_workers, most_workers;
    struct fy_worker *workers; /* most_workers of them */
    struct ferry_ring *rings;  /* all that were not destroyed */
};

/* take.c: one command, without waiting. */
enum fy_taken fy_ring_take(struct ferry_ring *ring);
/* helper.c */
bool fy_helper_ask(struct ferry_ring *ring, const struct ferry_command *command);
/* The helper has finished: gives its status, with *record, and the channel back. Only if its state is FY_HELPER_DONE. */
int fy_helper_collect(struct ferry_ring *ring, struct ferry_error *record);
void fy_helper_end(struct ferry_ring *ring);
/* turn.c: whatever can be done for the ring now. True: something was. */
bool fy_ring_turn(struct ferry_ring *ring);
void fy_ring_failed(struct ferry_ring *ring, const struct ferry_command *command, int status, const struct ferry_error *record);
/* The same, where the record is the calling thread's latest. */
void fy_ring_failed_here(struct ferry_ring *ring, const struct ferry_command *command, int status);
/* worker.c */
/* Threads at most: as many as there are cores to run on. */
uint32_t fy_worker_most(const struct fy_proxy_config *config);
int fy_worker_attach(struct fy_proxy *proxy, struct ferry_ring *ring, struct ferry_error *error);
void fy_worker_detach(struct ferry_ring *ring, int status);

#endif
