/* SPDX-License-Identifier: Apache-2.0
 * What the files of the stand-in share. Everything lies under one lock: this is a test's device, not a fast one.
 * Any thread. */
#ifndef TESTS_FAKEVERBS_INTERNAL_H
#define TESTS_FAKEVERBS_INTERNAL_H

#include "fakeverbs.h"

#include <pthread.h>

#define DEVICES_MAX 4

struct context {
    struct context *next;
    struct verbs_context v; /* last member is the ibv_context */
    int write_fd;           /* the other end of its async_fd */
    int device;
};

struct mr {
    struct ibv_mr v;
    unsigned access;
    int device;
};

struct cq {
    struct ibv_cq v;
    struct ibv_wc *ring;
    uint32_t size, head, tail;
};

struct qp {
    struct ibv_qp v;
    struct ibv_qp_cap cap;
    uint32_t dest;
    unsigned access;
    uint32_t held;  /* places of the send queue that no polled completion has freed */
    uint32_t since; /* requests since the last completion, itself included */
    int device;
};

struct state {
    pthread_mutex_t lock;
    struct fakeverbs_counts counts;
    struct context *contexts;
    struct mr **mrs;
    struct qp **qps;
    uint32_t n_mrs, n_qps;
    int devices;
    enum ibv_port_state port_state;
    uint32_t inline_max;
    enum ibv_atomic_cap atomics;
    char fail_call[32];
    int fail_nth, fail_error;
    int bad_nth;
    enum ibv_wc_status bad_status;
    uint32_t bad_vendor;
};
extern struct state fv;

/* Under the lock: the errno that this call is to fail with, or 0. */
int fv_failing(const char *call);
int fv_post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad);
int fv_poll_cq(struct ibv_cq *cq, int n, struct ibv_wc *wc);
int fv_query_port(struct ibv_context *context, uint8_t port, struct ibv_port_attr *attr, size_t size);

#endif
