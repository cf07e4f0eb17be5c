/* SPDX-License-Identifier: Apache-2.0
 * How tests steer the stand-in libibverbs.so.1, and what it counts. Any thread, under the stand-in's one lock.
 * Its devices live in the process: queue pairs of all PEs that are threads of it reach each other. With
 * FAKEVERBS_SHARED=PATH in the environment, they are the devices of the host: queue pairs of all processes with the
 * same PATH reach each other, through a file that is made there and removed by the last of them. */
#ifndef TESTS_FAKEVERBS_H
#define TESTS_FAKEVERBS_H

#include <infiniband/verbs.h>

/* The nth next call (1: the next, 0: each from now on) of `call` fails with `error`. Names: get_device_list,
 * open_device, query_device, query_port, query_gid, alloc_pd, create_cq, reg_mr, create_qp, create_ah, modify_init,
 * modify_rtr, modify_rts, query_pkey, post_send, poll_cq, alloc_td, alloc_parent_domain, reg_dmabuf_mr, query_qp. error 0: none
 * fails. */
void fakeverbs_fail(const char *call, int nth, int error);
int fakeverbs_unused(void); /* 1: that call has not come yet */
/* The nth next request completes with this status, and its queue pair goes into the error state. */
void fakeverbs_complete(int nth, enum ibv_wc_status status, uint32_t vendor);
/* From now on, these kinds of requests of a queue pair (0: of all) take effect later: after so many polls of their
 * completion queue, or after a time, whichever comes later. What a device may let pass them, passes. Kinds 0: all at
 * once again. The start: FAKEVERBS_DELAY=KIND[+KIND...]:N for polls, or :Nus, with kinds writes, reads, atomics. */
enum { FAKEVERBS_WRITES = 1, FAKEVERBS_READS = 2, FAKEVERBS_ATOMICS = 4 };
void fakeverbs_delay(uint32_t qp_num, unsigned kinds, int polls, long microseconds);
/* Sends an asynchronous event to all contexts of the device; port 0: it concerns one of the context's queue pairs, or
 * the completion queue of that. */
void fakeverbs_event(const char *device, enum ibv_event_type type, int port);
/* Sends it to the context of the queue pair, about this one or its completion queue. */
void fakeverbs_qp_event(uint32_t qp_num, enum ibv_event_type type);
uint32_t fakeverbs_newest_qp(int back); /* the number of the living queue pair that was made last, or so many before */
void fakeverbs_address(uint8_t add);    /* to the last byte of all GIDs, and to the LID; the start: 0 */
void fakeverbs_ports(enum ibv_port_state state); /* of all ports */
void fakeverbs_pkey(uint16_t key);               /* the only partition key of all ports; the start: 0xffff */
void fakeverbs_devices(int n);                   /* how many there are, 0 to 4; the start: 1, or FAKEVERBS_DEVICES */
void fakeverbs_inline(uint32_t most);            /* what queue pairs grant */
void fakeverbs_entries(int most);                /* of completion queues; 0: many */
void fakeverbs_atomics(enum ibv_atomic_cap cap);
void fakeverbs_big_endian(int replies); /* 1: the old value of an atomic comes in big-endian order */
void fakeverbs_memory(uint64_t max_mr); /* longest registration; the start: any, or FAKEVERBS_MAX_MR */

/* What one device and its only port are; zeros are as at the start. Addresses: those of the table, in its order. */
enum { FAKEVERBS_GIDS = 6 };
struct fakeverbs_shape {
    int other_kind; /* 1: neither InfiniBand nor RoCE */
    int state, phys_state, link_layer, active_mtu, max_mtu, lid;
    int n_gids;
    struct {
        uint8_t raw[16];
        int type;           /* enum ibv_gid_type */
        int silent;         /* 1: an address handle to it cannot be made */
        uint32_t interface; /* index */
    } gids[FAKEVERBS_GIDS];
};
void fakeverbs_shape(int device, const struct fakeverbs_shape *shape); /* NULL: as at the start */

/* Which of the newer verbs there are; the start: all, or FAKEVERBS_OFFERS. */
enum {
    FAKEVERBS_WR = 1,     /* ibv_create_qp_ex with ibv_wr_... */
    FAKEVERBS_TD = 2,     /* thread and parent domains */
    FAKEVERBS_CQ_EX = 4,  /* ibv_create_cq_ex */
    FAKEVERBS_CQ_PD = 8,  /* ... in a parent domain */
    FAKEVERBS_DMABUF = 16 /* ibv_reg_dmabuf_mr */
};
void fakeverbs_offers(unsigned mask);

struct fakeverbs_counts {
    long contexts, pds, tds, cqs, mrs, qps, ahs, lists,
        events;                                           /* made and not yet destroyed; events not acknowledged */
    long doorbells, requests, signalled, fenced, inlined; /* since the start */
    long built, alone; /* requests by ibv_wr_..., completion queues made for one thread */
    long overflows;    /* requests beyond a send queue, completions beyond their queue */
};
struct fakeverbs_counts fakeverbs_counts(void);
/* What was set of the queue pairs of this process that can send; how many these are, at most `most`. */
int fakeverbs_senders(struct ibv_qp_attr *attr, int most);
long fakeverbs_live(void); /* the sum of what is made and not yet destroyed */

#endif
