/* SPDX-License-Identifier: Apache-2.0
 * Guises: loopback pretending to be a weaker fabric, so that what a transport lacks can be tested without one.
 * An instance without a guise has none of this (struct ferry_transport.guise is NULL) and pays one test per operation. One that
 * carries GPU memory has it, too, with nothing worn.
 * Who may touch a field is said at the field. */
#ifndef FY_LOOPBACK_GUISE_H
#define FY_LOOPBACK_GUISE_H

#include "loopback.h"

#define FY_LB_RING 256u /* remote data on the way from one PE to another; a power of two */

/* bits of fy_lb_choice.worn */
enum fy_lb_worn {
    FY_LB_NO_AMO = 1 << 0,
    FY_LB_NO_FETCH = 1 << 1,
    FY_LB_NO_GET = 1 << 2,
    FY_LB_NO_SIGNAL = 1 << 3,
    FY_LB_UNORDERED = 1 << 4,
    FY_LB_NO_FENCED = 1 << 5,
    FY_LB_CQ_DATA = 1 << 6,
    FY_LB_WEAK_SIGNAL = 1 << 7,
    FY_LB_MAX_MSG = 1 << 8,
    FY_LB_INLINE = 1 << 9,
    FY_LB_COPY = 1 << 10,
    FY_LB_NO_UNREG = 1 << 11,
    FY_LB_TARGET_PROGRESS = 1 << 12,
    FY_LB_CHANNEL_SCOPE = 1 << 13,
    FY_LB_DEPTH = 1 << 14,
    FY_LB_MUST_ALLOC = 1 << 15,
    FY_LB_GPU_LIKE = 1 << 16,
    FY_LB_NIC = 1 << 17,
    FY_LB_HOSTS = 1 << 18
};

/* The option, read. */
struct fy_lb_choice {
    uint32_t worn;
    uint32_t depth, hosts;
    size_t message_max, inline_max, copy_max;
};

/* Remote data from one PE to another. One process writes, one reads, so that a PE that dies on the way stops nobody
 * else's. */
struct fy_lb_ring {
    _Alignas(64) uint64_t taken; /* the target's progress(SERVICE) */
    _Alignas(64) uint64_t given; /* the initiator, under its ring_lock */
    uint32_t data[FY_LB_RING];
};

/* What a PE shares with its peers beside its memory. All members are atomic. */
struct fy_lb_page {
    _Alignas(64) uint64_t begun; /* calls of progress(SERVICE) that have begun */
    uint64_t ended;              /* the latest of them that has ended */
    _Alignas(64) uint32_t nic;   /* the NIC does one atomic at a time: process that it does it for, or 0 */
    struct fy_lb_ring rings[];   /* by source */
};

/* An operation whose completion waits for something. Channel thread. */
struct fy_lb_record {
    struct ferry_op op;
    uint64_t number;  /* counts the channel's operations: what a ticket compares */
    uint64_t service; /* complete when the target's call of this number has ended; 0: at once */
    uint64_t value;   /* fetched */
};

/* One (channel, peer): records in the order of posting. Channel thread. */
struct fy_lb_flow {
    struct fy_lb_record *records;
    size_t n, room;
};

struct fy_lb_channel {
    uint64_t number;           /* of the latest operation; starts at 1, since a ticket is not 0 */
    struct fy_lb_flow flows[]; /* by peer */
};

struct fy_lb_guise {
    struct fy_lb_choice choice; /* constant after open, like all down to page_region */
    struct ferry_caps caps[2];  /* by memory kind; message_max 0: none of this kind */
    int deferred;               /* operations are complete only later: they are recorded */
    uint32_t max_channels;
    struct fy_lb_page *page; /* our own, or NULL: nothing that is worn needs one */
    struct ferry_region *page_region;
    struct fy_lb_page **pages;       /* by peer; setup thread. Operations find theirs in the key */
    struct fy_lb_channel **channels; /* by number, made by the thread of the first operation */
    struct ferry_gpu_queue **queues; /* by channel number, each its channel's: copies of GPU memory (gpu.c) */
    uint8_t *gone;                   /* by peer, atomic: it was disconnected */
    pthread_mutex_t ring_lock; /* over `reserved` and this PE's end of the peers' rings; never held while waiting */
    uint32_t *reserved;        /* by peer: places in its ring that are promised to a put under way */
};

/* guise.c: setup thread. open: nothing worn leaves t->guise NULL. close undoes open in any state. */
int fy_lb_guise_open(struct ferry_transport *t, const struct ferry_open *how);
void fy_lb_guise_close(struct ferry_transport *t);

/* check.c: FERRY_OK, or the failure that a fabric so weak would answer the operation with. Channel thread. */
int fy_lb_guise_check(struct ferry_transport *t, uint32_t channel, const struct ferry_op *op);

/* flow.c: channel thread. room: FERRY_OK, FERRY_AGAIN at the depth, or an error. record: after room said OK. */
int fy_lb_flow_room(struct ferry_transport *t, uint32_t channel, uint32_t peer, struct fy_lb_flow **flow);
void fy_lb_flow_record(struct fy_lb_guise *g, uint32_t channel, struct fy_lb_flow *flow, const struct ferry_op *op,
                       uint64_t service, uint64_t value);
int fy_lb_flow_quiet(struct ferry_transport *t, uint32_t channel, uint32_t peer, uint64_t *ticket);
int fy_lb_flow_progress(struct ferry_transport *t, uint32_t channel);

/* page.c. make, import: setup thread; import: FERRY_OK, FERRY_AGAIN or an error. data_…, nic_…: channel thread.
 * serve: the service thread. */
int fy_lb_page_make(struct ferry_transport *t);
int fy_lb_page_import(struct ferry_transport *t, const struct fy_lb_key *key);
/* FERRY_OK: a place in the target's ring is ours; give fills it. FERRY_AGAIN: all are taken. */
int fy_lb_data_reserve(const struct ferry_transport *t, const struct ferry_op *op);
void fy_lb_data_give(const struct ferry_transport *t, const struct ferry_op *op);
/* 0: another one holds it. */
int fy_lb_nic_lock(struct fy_lb_page *page);
void fy_lb_nic_unlock(struct fy_lb_page *page);
int fy_lb_page_serve(struct ferry_transport *t);

/* alloc.c: setup thread. map_file: memory->length bytes of a new file, at memory->address unless that is NULL; sets
 * both and the fd. */
int fy_lb_map_file(struct ferry_transport *t, const char *name, struct ferry_memory *memory);
int fy_lb_allocate(struct ferry_transport *t, struct ferry_memory *memory, struct ferry_region **region);
int fy_lb_free(struct ferry_transport *t, struct ferry_region *region);
int fy_lb_register_gpu(struct ferry_transport *t, const struct ferry_memory *memory, struct ferry_region **region);
void fy_lb_region_unmap(struct ferry_region *region);

/* disguised.c: the data path of an instance with a guise. Channel threads; progress also the service thread */
int fy_lb_guise_rma(struct ferry_transport *t, uint32_t channel, const struct ferry_op *op);
int fy_lb_guise_amo(struct ferry_transport *t, uint32_t channel, const struct ferry_op *op);
int fy_lb_guise_put_signal(struct ferry_transport *t, uint32_t channel, const struct ferry_op *op);
int fy_lb_guise_quiet(struct ferry_transport *t, uint32_t channel, uint32_t peer, uint64_t *ticket);
int fy_lb_guise_progress(struct ferry_transport *t, uint32_t channel);

#endif
