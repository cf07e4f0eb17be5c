/* SPDX-License-Identifier: Apache-2.0
 * The short way, for small puts, on their own or in a batch, and puts with signal on their own: everything else goes to
 * post.c. Channel thread. Each function passes its queue pair on, and keeps nothing else over the call into the device.
 */
#include "ibrc.h"

#include <string.h>

#define likely(x) __builtin_expect(!!(x), 1)

/* Inline data, no flag, nothing waiting, no border, memory that the CPU reads and that lies in one chunk, n requests
 * without a completion are allowed. The completion queue has entries for those beyond the channel's room. */
static inline int quick(const struct fy_ib_channel *c, const struct fy_ib_qp *q, const struct ferry_op *op, uint32_t n)
{
    return !(op->flags & (FERRY_OP_MORE | FERRY_OP_FENCED)) && op->length - 1 < q->inline_max &&
           !(__atomic_load_n(&c->special, __ATOMIC_RELAXED) | q->border) && q->posted + (n - 1) < q->quick;
}

static inline uint64_t next_id(struct fy_ib_channel *c, struct fy_ib_qp *q)
{
    uint64_t at = q->posted;

    q->posted = at + 1;
    q->epoch[at & q->mask] = c->epoch;
    return q->tag | (uint32_t)(at + 1);
}

static inline void quick_data(struct fy_ib_channel *c, struct fy_ib_qp *q, const struct ferry_op *op,
                              struct ibv_send_wr *wr)
{
    const struct ferry_rkey *key = op->key;
    uint64_t at = key->address + op->offset;
    uint32_t rkey = key->at[0].bulk[q->target];

    q->data.addr = (uintptr_t)op->local;
    q->data.length = (uint32_t)op->length;
    wr->wr_id = next_id(c, q);
    wr->wr.rdma.remote_addr = at;
    wr->wr.rdma.rkey = rkey;
}

/* Always: the compiler takes the probe for longer than the no-operation that it is. */
static inline __attribute__((always_inline)) int quick_post(struct fy_ib_channel *c, struct fy_ib_qp *q, struct ibv_send_wr *wr, uint32_t n)
{
    struct ibv_send_wr *bad = NULL;

    c->outstanding += n;
    c->doorbells++;
    fy_ib_probe_doorbell(c->id, n);
    int error = ibv_post_send(q->qp, wr, &bad);
    return likely(!error) ? FERRY_DONE : fy_ib_post_failed(q, NULL, n, error);
}

static __attribute__((noinline)) int quick_put(struct fy_ib_channel *c, struct fy_ib_qp *q, const struct ferry_op *op)
{
    quick_data(c, q, op, &q->put);
    return quick_post(c, q, &q->put, 1);
}

static __attribute__((noinline)) int quick_signal(struct fy_ib_channel *c, struct fy_ib_qp *q,
                                                  const struct ferry_op *op)
{
    struct ibv_send_wr *wr = op->amo == FERRY_AMO_ADD ? q->put_add : q->put_set;
    uint64_t at = op->signal_key->address + op->signal_offset, value = op->operand;
    uint32_t rkey = op->signal_key->at[0].strict[q->target];

    quick_data(c, q, op, wr);
    wr[1].wr_id = next_id(c, q) | FY_IB_FOR(FERRY_OP_PUT_SIGNAL);
    if (wr == q->put_add) {
        q->atomics = q->posted;
        wr[1].wr.atomic.remote_addr = at;
        wr[1].wr.atomic.compare_add = value;
        wr[1].wr.atomic.rkey = rkey;
    } else {
        q->value = value;
        wr[1].wr.rdma.remote_addr = at;
        wr[1].wr.rdma.rkey = rkey;
    }
    return quick_post(c, q, wr, 2);
}

/* The same by ibv_wr_...: straight into the device's queue. */
static inline void wr_data(struct fy_ib_channel *c, struct fy_ib_qp *q, struct ibv_qp_ex *ex, const struct ferry_op *op)
{
    ibv_wr_start(ex);
    ex->wr_id = next_id(c, q);
    ex->wr_flags = IBV_SEND_INLINE;
    ibv_wr_rdma_write(ex, op->key->at[0].bulk[q->target], op->key->address + op->offset);
    ibv_wr_set_inline_data(ex, op->local, op->length);
}

static inline __attribute__((always_inline)) int wr_post(struct fy_ib_channel *c, struct fy_ib_qp *q, struct ibv_qp_ex *ex, uint32_t n)
{
    c->outstanding += n;
    c->doorbells++;
    fy_ib_probe_doorbell(c->id, n);
    int error = ibv_wr_complete(ex);
    return likely(!error) ? FERRY_DONE : fy_ib_post_failed(q, NULL, n, error);
}

static __attribute__((noinline)) int wr_put(struct fy_ib_channel *c, struct fy_ib_qp *q, const struct ferry_op *op)
{
    struct ibv_qp_ex *ex = q->ex;

    wr_data(c, q, ex, op);
    return wr_post(c, q, ex, 1);
}

static __attribute__((noinline)) int wr_signal(struct fy_ib_channel *c, struct fy_ib_qp *q, const struct ferry_op *op)
{
    uint64_t at = op->signal_key->address + op->signal_offset;
    uint32_t rkey = op->signal_key->at[0].strict[q->target];
    struct ibv_qp_ex *ex = q->ex;

    wr_data(c, q, ex, op);
    ex->wr_id = next_id(c, q) | FY_IB_FOR(FERRY_OP_PUT_SIGNAL);
    if (op->amo == FERRY_AMO_ADD) {
        q->atomics = q->posted;
        ex->wr_flags = 0;
        ibv_wr_atomic_fetch_add(ex, rkey, at, op->operand);
        ibv_wr_set_sge(ex, c->dummy_key, (uintptr_t)c->dummy, 8);
    } else {
        ibv_wr_rdma_write(ex, rkey, at);
        ibv_wr_set_inline_data(ex, (void *)(uintptr_t)&op->operand, 8);
    }
    return wr_post(c, q, ex, 2);
}

/* A small put of a batch: it joins what waits for the same queue pair, or begins; the last one rings. */
static inline int joins(const struct fy_ib_channel *c, const struct fy_ib_qp *q, const struct ferry_op *op)
{
    return !(op->flags & FERRY_OP_FENCED) && op->length - 1 < q->inline_max &&
           !(__atomic_load_n(&c->careful, __ATOMIC_RELAXED) | q->border) && c->waiting < FY_IB_BATCH &&
           (!c->waiting || c->waiting_for == q) && q->posted < q->quick && c->outstanding < c->room;
}

static inline void add(struct fy_ib_channel *c, struct fy_ib_qp *q, const struct ferry_op *op, const void *from)
{
    const struct ferry_rkey *key = op->key;
    uint64_t at = key->address + op->offset;
    uint32_t rkey = key->at[0].bulk[q->target], i = c->waiting, length = (uint32_t)op->length;
    struct ibv_send_wr *wr = &c->wr[i];

    c->sge[i].addr = (uintptr_t)from;
    c->sge[i].length = length;
    wr->wr_id = next_id(c, q);
    wr->num_sge = 1;
    wr->opcode = IBV_WR_RDMA_WRITE;
    wr->send_flags = IBV_SEND_INLINE;
    wr->wr.rdma.remote_addr = at;
    wr->wr.rdma.rkey = rkey;
    c->waiting_for = q;
    c->waiting = i + 1;
    c->outstanding++;
}

/* The source may change before the doorbell. */
static __attribute__((noinline)) int join(struct fy_ib_channel *c, struct fy_ib_qp *q, const struct ferry_op *op)
{
    char *place = c->stash + (size_t)c->waiting * c->stash_size;

    add(c, q, op, memcpy(place, op->local, op->length));
    return FERRY_DONE;
}

static __attribute__((noinline)) int join_word(struct fy_ib_channel *c, struct fy_ib_qp *q, const struct ferry_op *op)
{
    char *place = c->stash + (size_t)c->waiting * c->stash_size;

    add(c, q, op, memcpy(place, op->local, 8));
    return FERRY_DONE;
}

static __attribute__((noinline)) int join_last(struct fy_ib_channel *c, struct fy_ib_qp *q, const struct ferry_op *op)
{
    add(c, q, op, op->local);
    int failed = fy_ib_ring(c);
    return likely(!failed) ? FERRY_DONE : failed;
}

int fy_ib_rma(struct ferry_transport *t, uint32_t channel, const struct ferry_op *op)
{
    struct fy_ib_channel *c = t->channels[channel];
    struct fy_ib_qp *q = c->qps[op->peer];

    if (likely(op->kind == FERRY_OP_PUT && quick(c, q, op, 1)))
        return q->ex ? wr_put(c, q, op) : quick_put(c, q, op);
    if (op->kind == FERRY_OP_PUT && joins(c, q, op)) {
        if (!(op->flags & FERRY_OP_MORE))
            return join_last(c, q, op);
        return op->length == 8 ? join_word(c, q, op) : join(c, q, op);
    }
    return fy_ib_rma_slow(c, q, op);
}

int fy_ib_put_signal(struct ferry_transport *t, uint32_t channel, const struct ferry_op *op)
{
    struct fy_ib_channel *c = t->channels[channel];
    struct fy_ib_qp *q = c->qps[op->peer];

    if (likely(quick(c, q, op, 2)))
        return q->ex ? wr_signal(c, q, op) : quick_signal(c, q, op);
    return fy_ib_put_signal_slow(c, q, op);
}
