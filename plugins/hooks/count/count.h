/* SPDX-License-Identifier: Apache-2.0
 * The count hook: what it remembers of regions, keys, channels, operations and tickets.
 * Threads: what belongs to a channel, by the channel's thread; sets under their lock; the rest by the setup thread. */
#ifndef COUNT_H
#define COUNT_H

#include "../common/pass.h"
#include <pthread.h>
#include <stdbool.h>

/* Pointers that the inner transport handed out and has not taken back, each with a length; in no order. */
struct count_set {
    struct count_item {
        const void *item;
        size_t length;
    } * items;
    size_t n, room;
    uint64_t made, ended, strange; /* strange: taken back without having been handed out */
    uint64_t bytes_made, bytes_ended;
};

/* Operations and their bytes, up to some moment. */
struct count_sum {
    uint64_t ops, bytes;
};

/* A ticket that is not finished: what it covers of one stream, or of each (peer FERRY_PEER_ALL). */
struct count_ticket {
    uint64_t value;
    uint32_t peer;
    struct count_sum *covers;
};

/* One (channel, peer). */
struct count_stream {
    struct count_sum posted, covered;
};

enum count_kind { COUNT_PUT, COUNT_GET, COUNT_AMO, COUNT_SIGNAL, COUNT_KINDS };

struct count_channel {
    struct count_stream *streams; /* by peer */
    struct count_ticket *tickets; /* open, the oldest first */
    size_t n_tickets, room;
    uint64_t drawn, finished, implied, nameless; /* implied: a later ticket covered it; nameless: AGAIN and no number */
    uint64_t again, errors;
    struct count_sum kinds[COUNT_KINDS];
};

struct ferry_transport {
    struct hook_base base; /* first */
    uint32_t n_pes, max_channels;
    pthread_mutex_t lock; /* guards the sets and `lost` */
    struct count_set regions, allocations, keys;
    uint64_t lost;                   /* things that could not be noted, for lack of memory */
    struct count_channel **channels; /* by number, made when first opened and kept */
    uint64_t opened, closed;
};

/* set.c; under the lock. False: no memory. */
bool count_made(struct count_set *set, const void *item, size_t length);
void count_ended(struct count_set *set, const void *item);

/* data.c; channel thread. */
int count_rma(struct ferry_transport *t, uint32_t channel, const struct ferry_op *op);
int count_amo(struct ferry_transport *t, uint32_t channel, const struct ferry_op *op);
int count_put_signal(struct ferry_transport *t, uint32_t channel, const struct ferry_op *op);
int count_post(struct ferry_transport *t, uint32_t channel, const struct ferry_op *ops, size_t n, size_t *done);
int count_quiet(struct ferry_transport *t, uint32_t channel, uint32_t peer, uint64_t *ticket);

/* report.c; setup thread, at the end. Warns of each imbalance, and sums up. */
void count_report(const struct ferry_transport *t);

#endif
