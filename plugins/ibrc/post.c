/* SPDX-License-Identifier: Apache-2.0
 * Posting: operations become requests on the queue pair of (channel, peer), several behind one doorbell.
 * Channel thread. No lock, no allocation, no system call of ours; what is unlikely is out of line. */
#include "ibrc.h"

#include <string.h>

#define likely(x)   __builtin_expect(!!(x), 1)
#define unlikely(x) __builtin_expect(!!(x), 0)

/* The requests from the bad one on were not taken: they count as never posted. */
static __attribute__((noinline)) int post_failed(struct fy_ib_qp *q, const struct ibv_send_wr *bad, uint32_t n,
                                                 int error)
{
    struct fy_ib_channel *c = q->owner;
    uint32_t lost = bad >= c->wr && bad < c->wr + n ? n - (uint32_t)(bad - c->wr) : n;

    q->quick = 0;
    q->posted -= lost;
    c->outstanding -= lost;
    fy_ib_qp_error(c->t, q, FERRY_ERR_TRANSPORT, error, "the device refuses to take a request",
                   "look at the kernel log");
    return FERRY_ERR_TRANSPORT;
}

int fy_ib_ring(struct fy_ib_channel *c)
{
    struct fy_ib_qp *q = c->waiting_for;
    uint32_t n = c->waiting;
    struct ibv_send_wr *last = &c->wr[n - 1], *after = last->next, *bad = NULL;
    int error;

    c->waiting = 0;
    c->doorbells++;
    last->next = NULL;
    error = q->ex ? fy_ib_wr_list(q->ex, c->wr) : ibv_post_send(q->qp, c->wr, &bad);
    last->next = after;
    return likely(!error) ? FERRY_OK : post_failed(q, bad, n, error);
}

/* One more request in the batch. The caller made sure of room. */
static inline struct ibv_send_wr *add(struct fy_ib_channel *c, struct fy_ib_qp *q, enum ibv_wr_opcode opcode,
                                      unsigned flags)
{
    struct ibv_send_wr *wr = &c->wr[c->waiting++];

    q->epoch[q->posted & q->mask] = c->epoch;
    q->posted++;
    c->outstanding++;
    c->waiting_for = q;
    wr->wr_id = q->tag | (uint32_t)q->posted;
    wr->opcode = opcode;
    if (unlikely(flags & IBV_SEND_SIGNALED || q->posted - q->signalled >= FY_IB_SIGNAL ||
                 q->posted - q->signalled > q->room / 2)) {
        flags |= IBV_SEND_SIGNALED;
        q->signalled = q->posted;
        c->signals++;
        fy_ib_window(q);
    }
    wr->send_flags = flags;
    return wr;
}

int fy_ib_flush(struct fy_ib_channel *c, struct fy_ib_qp *q)
{
    struct ibv_send_wr *wr;

    if (c->waiting)
        fy_ib_ring(c);
    if (q->signalled == q->posted || __atomic_load_n(&q->status, __ATOMIC_ACQUIRE))
        return FERRY_OK;
    wr = add(c, q, IBV_WR_RDMA_WRITE, IBV_SEND_SIGNALED);
    wr->num_sge = 0;
    wr->wr.rdma.remote_addr = q->scratch; /* a key that is good: not every device leaves it unread at length 0 */
    wr->wr.rdma.rkey = q->scratch_key;
    return fy_ib_ring(c);
}

/* Polls, and makes tails report that hold the channel's room. FERRY_OK: there is room for n now. */
static __attribute__((noinline)) int make_room(struct ferry_transport *t, struct fy_ib_channel *c, struct fy_ib_qp *q,
                                               uint32_t n)
{
    int status = __atomic_load_n(&q->status, __ATOMIC_ACQUIRE);

    if (status)
        return status;
    if (c->waiting)
        fy_ib_ring(c); /* a failure is that queue pair's status */
    fy_ib_poll(t, c);
    status = __atomic_load_n(&q->status, __ATOMIC_ACQUIRE);
    if (status)
        return status;
    if (q->posted - q->retired + n <= q->room && c->outstanding + n <= c->room)
        return FERRY_OK;
    if (c->outstanding + n > c->room)
        for (struct fy_ib_qp *other = c->connected; other; other = other->next)
            fy_ib_flush(c, other);
    return FERRY_AGAIN;
}

static inline int room(struct ferry_transport *t, struct fy_ib_channel *c, struct fy_ib_qp *q, uint32_t n)
{
    int foreign = c->waiting && (c->waiting_for != q || c->waiting + n > FY_IB_BATCH);
    int full = q->posted - q->retired + n > q->room || c->outstanding + n > c->room;

    if (likely(!(foreign | full) && !__atomic_load_n(&q->status, __ATOMIC_RELAXED)))
        return FERRY_OK;
    return make_room(t, c, q, n);
}

/* Reads and writes overtake atomics whose answer is out; a put behind a border waits at the device for those before it.
 */
static inline unsigned border(struct fy_ib_channel *c, struct fy_ib_qp *q, unsigned fenced)
{
    if (unlikely(fenced))
        q->border = q->atomics;
    if (likely(q->border <= q->retired))
        return 0;
    q->border = 0; /* what follows is ordered behind this put */
    c->fences++;
    return IBV_SEND_FENCE;
}

/* Inline data that leave later than the call returns. */
static inline const void *keep(struct fy_ib_channel *c, const void *data, size_t length)
{
    return memcpy(c->stash + (size_t)c->waiting * c->stash_size, data, length);
}

/* The data of a put. `later`: the doorbell is not rung before the caller may change the source. */
static inline int put(struct fy_ib_channel *c, struct fy_ib_qp *q, const struct ferry_op *op, int later)
{
    unsigned flags = border(c, q, op->flags & FERRY_OP_FENCED);
    const void *from = op->local;
    struct ibv_send_wr *wr;
    uint32_t lkey = 0;
    int rc = FERRY_DONE;

    if (likely(op->length <= q->inline_max)) {
        flags |= op->length ? IBV_SEND_INLINE : 0;
        if (unlikely(later))
            from = keep(c, from, op->length);
    } else {
        lkey = op->region->lkey[q->device];
        flags |= op->length >= FY_IB_BULK ? IBV_SEND_SIGNALED : 0;
        rc = FERRY_OK;
    }
    wr = add(c, q, IBV_WR_RDMA_WRITE, flags);
    wr->num_sge = op->length != 0;
    wr->sg_list->addr = (uintptr_t)from;
    wr->sg_list->length = (uint32_t)op->length;
    wr->sg_list->lkey = lkey;
    wr->wr.rdma.remote_addr = op->key->address + op->offset;
    wr->wr.rdma.rkey = op->key->bulk[q->target];
    return rc;
}

static inline int get(struct fy_ib_channel *c, struct fy_ib_qp *q, const struct ferry_op *op)
{
    struct ibv_send_wr *wr;

    if (!op->length)
        return FERRY_DONE;
    wr = add(c, q, IBV_WR_RDMA_READ, op->flags & FERRY_OP_MORE ? 0 : IBV_SEND_SIGNALED);
    wr->num_sge = 1;
    wr->sg_list->addr = (uintptr_t)op->local;
    wr->sg_list->length = (uint32_t)op->length;
    wr->sg_list->lkey = op->region->lkey[q->device];
    wr->wr.rdma.remote_addr = op->key->address + op->offset;
    wr->wr.rdma.rkey = op->key->bulk[q->target];
    return FERRY_OK;
}

/* An 8-byte atomic; the old value goes to `to`. */
static inline void atomic(struct fy_ib_channel *c, struct fy_ib_qp *q, enum ibv_wr_opcode opcode,
                          const struct ferry_rkey *key, uint64_t offset, uint64_t add_or_compare, uint64_t swap,
                          void *to, uint32_t lkey, unsigned flags)
{
    struct ibv_send_wr *wr = add(c, q, opcode, flags);

    q->atomics = q->posted;
    wr->num_sge = 1;
    wr->sg_list->addr = (uintptr_t)to;
    wr->sg_list->length = 8;
    wr->sg_list->lkey = lkey;
    wr->wr.atomic.remote_addr = key->address + offset;
    wr->wr.atomic.compare_add = add_or_compare;
    wr->wr.atomic.swap = swap;
    wr->wr.atomic.rkey = key->strict[q->target];
}

static inline int done(struct fy_ib_channel *c, const struct ferry_op *op, int rc)
{
    if (unlikely(op->flags & FERRY_OP_MORE) || unlikely(!c->waiting))
        return rc;
    int failed = fy_ib_ring(c);
    return likely(!failed) ? rc : failed;
}

static __attribute__((noinline)) int no_region(struct ferry_transport *t, const struct ferry_op *op)
{
    return fy_ib_fail(t, op->peer, FERRY_ERR_ARG, 0, "register the memory",
                      "%zu bytes at %p are not registered with ibrc", op->length, op->local);
}

/* ------------------------------------------------------------------ the short way, for small puts on their own */

/* Inline data, no flag, nothing waiting, no border, room for n requests without a completion. */
static inline int quick(const struct fy_ib_channel *c, const struct fy_ib_qp *q, const struct ferry_op *op, uint32_t n)
{
    return !(op->flags & (FERRY_OP_MORE | FERRY_OP_FENCED)) && op->length - 1 < q->inline_max &&
           !(c->waiting | q->border) && q->posted + n <= q->quick && c->outstanding + n <= c->room;
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
    uint32_t rkey = key->bulk[q->target];

    q->data.addr = (uintptr_t)op->local;
    q->data.length = (uint32_t)op->length;
    wr->wr_id = next_id(c, q);
    wr->wr.rdma.remote_addr = at;
    wr->wr.rdma.rkey = rkey;
}

static inline int quick_post(struct fy_ib_channel *c, struct fy_ib_qp *q, struct ibv_send_wr *wr, uint32_t n)
{
    struct ibv_send_wr *bad = NULL;

    c->outstanding += n;
    c->doorbells++;
    int error = ibv_post_send(q->qp, wr, &bad);
    return likely(!error) ? FERRY_DONE : post_failed(q, NULL, n, error);
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
    uint32_t rkey = op->signal_key->strict[q->target];

    quick_data(c, q, op, wr);
    wr[1].wr_id = next_id(c, q);
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
static inline void wr_data(struct fy_ib_channel *c, struct fy_ib_qp *q, const struct ferry_op *op)
{
    struct ibv_qp_ex *ex = q->ex;

    ibv_wr_start(ex);
    ex->wr_id = next_id(c, q);
    ex->wr_flags = IBV_SEND_INLINE;
    ibv_wr_rdma_write(ex, op->key->bulk[q->target], op->key->address + op->offset);
    ibv_wr_set_inline_data(ex, op->local, op->length);
}

static inline int wr_post(struct fy_ib_channel *c, struct fy_ib_qp *q, uint32_t n)
{
    c->outstanding += n;
    c->doorbells++;
    int error = ibv_wr_complete(q->ex);
    return likely(!error) ? FERRY_DONE : post_failed(q, NULL, n, error);
}

static __attribute__((noinline)) int wr_put(struct fy_ib_channel *c, struct fy_ib_qp *q, const struct ferry_op *op)
{
    wr_data(c, q, op);
    return wr_post(c, q, 1);
}

static __attribute__((noinline)) int wr_signal(struct fy_ib_channel *c, struct fy_ib_qp *q, const struct ferry_op *op)
{
    uint64_t at = op->signal_key->address + op->signal_offset;
    uint32_t rkey = op->signal_key->strict[q->target];
    struct ibv_qp_ex *ex = q->ex;

    wr_data(c, q, op);
    ex->wr_id = next_id(c, q);
    if (op->amo == FERRY_AMO_ADD) {
        q->atomics = q->posted;
        ex->wr_flags = 0;
        ibv_wr_atomic_fetch_add(ex, rkey, at, op->operand);
        ibv_wr_set_sge(ex, c->dummy_key, (uintptr_t)c->dummy, 8);
    } else {
        ibv_wr_rdma_write(ex, rkey, at);
        ibv_wr_set_inline_data(ex, (void *)(uintptr_t)&op->operand, 8);
    }
    return wr_post(c, q, 2);
}

/* ------------------------------------------------------------------ the table's */

static __attribute__((noinline)) int rma(struct ferry_transport *t, struct fy_ib_channel *c, struct fy_ib_qp *q,
                                         const struct ferry_op *op)
{
    int rc = room(t, c, q, 1);

    if (unlikely(rc))
        return rc;
    if (op->kind == FERRY_OP_PUT) {
        if (unlikely(op->length > q->inline_max && !op->region))
            return no_region(t, op);
        rc = put(c, q, op, op->flags & FERRY_OP_MORE);
    } else {
        if (unlikely(op->length && !op->region))
            return no_region(t, op);
        rc = get(c, q, op);
    }
    return done(c, op, rc);
}

int fy_ib_rma(struct ferry_transport *t, uint32_t channel, const struct ferry_op *op)
{
    struct fy_ib_channel *c = t->channels[channel];
    struct fy_ib_qp *q = c->qps[op->peer];

    if (likely(op->kind == FERRY_OP_PUT && quick(c, q, op, 1)))
        return q->ex ? wr_put(c, q, op) : quick_put(c, q, op);
    return rma(t, c, q, op);
}

int fy_ib_amo(struct ferry_transport *t, uint32_t channel, const struct ferry_op *op)
{
    struct fy_ib_channel *c = t->channels[channel];
    struct fy_ib_qp *q = c->qps[op->peer];
    int fetch = op->flags & FERRY_OP_FETCH || op->amo == FERRY_AMO_FETCH || op->amo == FERRY_AMO_CSWAP;
    void *to = fetch ? op->local : c->dummy;
    uint32_t lkey = c->dummy_key;
    unsigned flags = fetch && !(op->flags & FERRY_OP_MORE) ? IBV_SEND_SIGNALED : 0;
    int rc = room(t, c, q, 1);

    if (unlikely(rc))
        return rc;
    if (fetch) {
        if (unlikely(!op->region))
            return no_region(t, op);
        lkey = op->region->lkey[q->device];
    }
    if (unlikely(op->flags & FERRY_OP_FENCED))
        q->border = q->atomics; /* atomics keep their order; a later put does not go before those */
    if (op->amo == FERRY_AMO_ADD)
        atomic(c, q, IBV_WR_ATOMIC_FETCH_AND_ADD, op->key, op->offset, op->operand, 0, to, lkey, flags);
    else if (op->amo == FERRY_AMO_CSWAP)
        atomic(c, q, IBV_WR_ATOMIC_CMP_AND_SWP, op->key, op->offset, op->compare, op->operand, to, lkey, flags);
    else if (op->amo == FERRY_AMO_FETCH)
        atomic(c, q, IBV_WR_ATOMIC_FETCH_AND_ADD, op->key, op->offset, 0, 0, to, lkey, flags);
    else
        return FERRY_ERR_UNSUPPORTED;
    return done(c, op, fetch ? FERRY_OK : FERRY_DONE);
}

static __attribute__((noinline)) int put_signal(struct ferry_transport *t, struct fy_ib_channel *c, struct fy_ib_qp *q,
                                                const struct ferry_op *op)
{
    int rc = room(t, c, q, 2);
    struct ibv_send_wr *wr;

    if (unlikely(rc))
        return rc;
    if (unlikely(op->length > q->inline_max && !op->region))
        return no_region(t, op);
    rc = put(c, q, op, op->flags & FERRY_OP_MORE);
    if (op->amo == FERRY_AMO_ADD) {
        atomic(c, q, IBV_WR_ATOMIC_FETCH_AND_ADD, op->signal_key, op->signal_offset, op->operand, 0, c->dummy,
               c->dummy_key, 0);
        return done(c, op, rc);
    }
    uint64_t *value = &c->operands[c->waiting];
    *value = op->operand;
    wr = add(c, q, IBV_WR_RDMA_WRITE, IBV_SEND_INLINE);
    wr->num_sge = 1;
    wr->sg_list->addr = (uintptr_t)value;
    wr->sg_list->length = 8;
    wr->wr.rdma.remote_addr = op->signal_key->address + op->signal_offset;
    wr->wr.rdma.rkey = op->signal_key->strict[q->target];
    return done(c, op, rc);
}

int fy_ib_put_signal(struct ferry_transport *t, uint32_t channel, const struct ferry_op *op)
{
    struct fy_ib_channel *c = t->channels[channel];
    struct fy_ib_qp *q = c->qps[op->peer];

    if (likely(quick(c, q, op, 2)))
        return q->ex ? wr_signal(c, q, op) : quick_signal(c, q, op);
    return put_signal(t, c, q, op);
}
