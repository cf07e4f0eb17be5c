/* SPDX-License-Identifier: Apache-2.0
 * What the files of the stand-in share. Everything of the process lies under one lock: this is a test's device, not a
 * fast one. Any thread. */
#ifndef TESTS_FAKEVERBS_INTERNAL_H
#define TESTS_FAKEVERBS_INTERNAL_H

#include "fakeverbs.h"
#include "table.h"

#include <pthread.h>

#define DEVICES_MAX 4
#define STAGED_MAX  64

struct context {
    struct context *next;
    struct verbs_context v; /* last member is the ibv_context */
    int write_fd;           /* the other end of its async_fd */
    int device;
};

struct td {
    struct ibv_td v;
    int users, inside;
};

struct pd {
    struct ibv_pd v;
    struct pd *of; /* of a parent domain */
    struct td *td;
    int users; /* what was made in it */
};

struct cq {
    union {
        struct ibv_cq v;
        struct ibv_cq_ex ex;
    };
    struct pd *pd; /* its parent domain */
    struct td *td;
    struct ibv_wc *ring;
    uint32_t size, head, tail;
};

/* A request between ibv_wr_start and ibv_wr_complete. */
struct staged {
    struct ibv_send_wr wr;
    struct ibv_sge sge;
    int set; /* it has its data */
    char data[512];
};

/* Fast: a write between ibv_wr_rdma_write and its data. */
struct fv_write {
    uint32_t rkey;
    unsigned flags;
    uint64_t at, wr_id;
    bool open;
};

struct qp {
    union {
        struct ibv_qp v;
        struct ibv_qp_ex ex;
    };
    struct td *td;
    struct staged *stage; /* NULL: made without ibv_wr_... */
    uint32_t staged;
    int bad;
    struct fv_write write;
    struct ibv_qp_cap cap;
    uint64_t serial;
    uint32_t dest;
    struct ibv_qp_attr attr; /* what the steps to RTR and RTS said */
    struct qp *next;         /* of those with delayed requests */
    struct request *first;   /* delayed, and what has to wait behind them */
    uint32_t held;           /* places of the send queue that no polled completion has freed */
    uint32_t since;          /* finished requests since the last completion, itself included */
    int device;
};

/* How a request is to end, by script; IBV_WC_SUCCESS: as it does. */
struct fv_bad {
    enum ibv_wc_status status;
    uint32_t vendor;
};

/* What a context's pipe carries. */
struct fv_event {
    enum ibv_event_type type;
    int port;        /* 0: it concerns a queue pair, or its completion queue */
    uint32_t qp_num; /* 0: any */
};

struct fv_delay {
    uint32_t qp_num; /* 0: any */
    unsigned kinds;
    int polls;
    uint64_t ns;
};

struct state {
    pthread_mutex_t lock;
    struct fakeverbs_counts counts;
    struct context *contexts;
    struct qp *qps[TABLE_QPS]; /* of this process, by their place in the table */
    struct qp *delayed;        /* list */
    struct fv_delay delay;
    uint64_t serial; /* queue pairs made so far */
    int devices;
    enum ibv_port_state port_state;
    uint16_t pkey;
    uint32_t inline_max;
    uint8_t address;
    int entries; /* of completion queues; 0: many */
    enum ibv_atomic_cap atomics;
    int big_endian;
    uint64_t max_mr;
    unsigned offers;
    bool fast; /* set at the start: posting and polling take no lock, count nothing and follow no script */
    char fail_call[32];
    int fail_nth, fail_error;
    int bad_nth;
    struct fv_bad bad;
};
extern struct state fv;

/* Under the lock: the errno that this call is to fail with, or 0. */
int fv_failing(const char *call);
/* Memory for an object, unless the call is to fail; leaves the lock held if it succeeds. */
void *fv_begin(const char *call, size_t size);
int fv_end(long *count, void *object);
/* Around what touches an object of a thread domain. */
void fv_enter(struct td *td);
void fv_leave(struct td *td);
/* Around posting and polling. Fast: the caller serialises what touches a queue pair and its completion queue. */
static inline void fv_enter_post(struct td *td)
{
    if (fv.fast)
        return;
    fv_enter(td);
    pthread_mutex_lock(&fv.lock);
}
static inline void fv_leave_post(struct td *td)
{
    if (fv.fast)
        return;
    pthread_mutex_unlock(&fv.lock);
    fv_leave(td);
}
/* fast.c. _data: carries the open write out, unless it is for the usual way. */
void fv_fast_write(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t at);
bool fv_fast_data(struct qp *qp, const void *from, size_t length);
/* Under the lock: the errno with which a request is not taken; carries it out. */
int fv_refuses(struct qp *qp, const struct ibv_send_wr *wr);
void fv_carry_out(struct qp *qp, const struct ibv_send_wr *wr);
void fv_finish(struct qp *qp, const struct ibv_send_wr *wr, enum ibv_wc_status status, uint32_t vendor);
enum ibv_wc_status fv_execute(const struct qp *qp, const struct ibv_send_wr *wr, uint32_t *vendor);
void fv_qp_state(struct qp *qp, enum ibv_qp_state state);
/* Under the lock: does the request have to wait, or stand behind one that does? Takes it, or says ENOMEM. */
bool fv_delayed(const struct qp *qp, const struct ibv_send_wr *wr);
int fv_delay(struct qp *qp, const struct ibv_send_wr *wr, const struct fv_bad *bad);
void fv_delay_polled(const struct ibv_cq *cq);
void fv_delay_drop(struct qp *qp);
/* Not under the lock: ends the thread that carries them out. */
void fv_delay_stop(void);
struct ibv_qp *fv_create_qp_ex(struct ibv_context *context, struct ibv_qp_init_attr_ex *attr);
struct ibv_cq_ex *fv_create_cq_ex(struct ibv_context *context, struct ibv_cq_init_attr_ex *attr);
struct ibv_td *fv_alloc_td(struct ibv_context *context, struct ibv_td_init_attr *attr);
int fv_dealloc_td(struct ibv_td *td);
struct ibv_pd *fv_alloc_parent_domain(struct ibv_context *context, struct ibv_parent_domain_init_attr *attr);
int fv_post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad);
int fv_poll_cq(struct ibv_cq *cq, int n, struct ibv_wc *wc);
/* shape.c, under the lock: what a test made of the device, over what it was. */
void fv_shape_device(int device, struct ibv_device *v);
void fv_shape_port(int device, struct ibv_port_attr *attr);
/* 1: the entry is filled in, 0: the table has no such place, -1: the device was not shaped. */
int fv_shape_gid(int device, uint32_t index, struct ibv_gid_entry *e);
int fv_shape_silent(int device, uint32_t index);
int fv_query_port(struct ibv_context *context, uint8_t port, struct ibv_port_attr *attr, size_t size);

#endif
