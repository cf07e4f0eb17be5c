/* SPDX-License-Identifier: Apache-2.0
 * How tests steer the stand-in libibverbs.so.1, and what it counts. Any thread, under the stand-in's one lock.
 * Its devices live in the process: queue pairs of all PEs that are threads of it reach each other. */
#ifndef TESTS_FAKEVERBS_H
#define TESTS_FAKEVERBS_H

#include <infiniband/verbs.h>

/* The nth next call (1: the next) of `call` fails with `error`. Names: open_device, query_device, query_port,
 * query_gid, alloc_pd, create_cq, reg_mr, create_qp, create_ah, modify_init, modify_rtr, modify_rts, post_send,
 * poll_cq. error 0: none fails. */
void fakeverbs_fail(const char *call, int nth, int error);
/* The nth next request completes with this status, and its queue pair goes into the error state. */
void fakeverbs_complete(int nth, enum ibv_wc_status status, uint32_t vendor);
/* Sends an asynchronous event to all contexts of the device. */
void fakeverbs_event(const char *device, enum ibv_event_type type, int port);
void fakeverbs_ports(enum ibv_port_state state); /* of all ports */
void fakeverbs_devices(int n);                   /* how many there are, 0 to 4; the start: 1, or FAKEVERBS_DEVICES */
void fakeverbs_inline(uint32_t most);            /* what queue pairs grant */
void fakeverbs_atomics(enum ibv_atomic_cap cap);

struct fakeverbs_counts {
    long contexts, pds, cqs, mrs, qps, ahs, lists, events; /* made and not yet destroyed; events not acknowledged */
    long doorbells, requests, signalled, fenced, inlined;  /* since the start */
    long overflows; /* requests beyond a send queue, completions beyond their queue */
};
struct fakeverbs_counts fakeverbs_counts(void);
long fakeverbs_live(void); /* the sum of what is made and not yet destroyed */

#endif
