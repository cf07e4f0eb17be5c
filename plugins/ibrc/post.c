/* SPDX-License-Identifier: Apache-2.0
 * Posting: operations become requests on the queue pair of (channel, peer), several behind one doorbell.
 * Channel thread. No lock, no allocation, no system call of ours; what is unlikely is out of line. */
#include "ibrc.h"

#include <string.h>

#define likely(x)   __builtin_expect(!!(x), 1)
#define unlikely(x) __builtin_expect(!!(x), 0)

/* The requests from the bad one on were not taken: they count as never posted. */
int fy_ib_post_failed(struct fy_ib_qp *q, const struct ibv_send_wr *bad, uint32_t n, int error)
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
    fy_ib_probe_doorbell(c->id, n);
    last->next = NULL;
    error = q->ex ? fy_ib_wr_list(q->ex, c->wr) : ibv_post_send(q->qp, c->wr, &bad);
    last->next = after;
    return likely(!error) ? FERRY_OK : fy_ib_post_failed(q, bad, n, error);
}

/* One more request in the batch. The caller made sure of room. */
static inline struct ibv_send_wr *add(struct fy_ib_channel *c, struct fy_ib_qp *q, enum ibv_wr_opcode opcode,
                                      unsigned flags, unsigned kind)
{
    struct ibv_send_wr *wr = &c->wr[c->waiting++];

    q->epoch[q->posted & q->mask] = c->epoch;
    q->posted++;
    c->outstanding++;
    c->waiting_for = q;
    wr->wr_id = q->tag | FY_IB_FOR(kind) | (uint32_t)q->posted;
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
    wr = add(c, q, IBV_WR_RDMA_WRITE, IBV_SEND_SIGNALED, FY_IB_FLUSH);
    wr->num_sge = 0;
    wr->wr.rdma.remote_addr = q->scratch; /* a key that is good: not every device leaves it unread at length 0 */
    wr->wr.rdma.rkey = q->scratch_key;
    return fy_ib_ring(c);
}

/* Polls, and makes tails report that hold the channel's room. FERRY_OK: there is room for n now. */
static __attribute__((noinline)) int make_room(struct fy_ib_channel *c, struct fy_ib_qp *q, uint32_t n)
{
    int status = __atomic_load_n(&q->status, __ATOMIC_ACQUIRE);

    if (status)
        return status;
    if (c->waiting)
        fy_ib_ring(c); /* a failure is that queue pair's status */
    fy_ib_poll(c->t, c);
    status = __atomic_load_n(&q->status, __ATOMIC_ACQUIRE);
    if (status)
        return status;
    if (q->posted - q->retired + n <= q->room && c->outstanding + n <= c->room)
        return FERRY_OK;
    if (c->outstanding + n > c->room)
        for (struct fy_ib_qp *other = fy_ib_connected(c); other; other = other->next)
            fy_ib_flush(c, other);
    return FERRY_AGAIN;
}

static inline int room(struct fy_ib_channel *c, struct fy_ib_qp *q, uint32_t n)
{
    int foreign = c->waiting && (c->waiting_for != q || c->waiting + n > FY_IB_BATCH);
    int full = q->posted - q->retired + n > q->room || c->outstanding + n > c->room;

    if (likely(!(foreign | full) && !__atomic_load_n(&q->status, __ATOMIC_RELAXED)))
        return FERRY_OK;
    return make_room(c, q, n);
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

static inline uint32_t lkey_of(const struct ferry_region *region, const struct fy_ib_qp *q, const void *at)
{
    return region->lkey[(uint64_t)((const char *)at - region->address) >> region->shift][q->device];
}

/* Data in GPU memory are for the device to read. */
static inline int goes_inline(const struct fy_ib_qp *q, const struct ferry_op *op)
{
    return op->length <= q->inline_max && !(op->region && op->region->gpu);
}

/* The data of a put. `later`: the doorbell is not rung before the caller may change the source. */
static inline int put(struct fy_ib_channel *c, struct fy_ib_qp *q, const struct ferry_op *op, int later)
{
    unsigned flags = border(c, q, op->flags & FERRY_OP_FENCED);
    const void *from = op->local;
    struct ibv_send_wr *wr;
    uint32_t lkey = 0;
    int rc = FERRY_DONE;

    if (likely(goes_inline(q, op))) {
        flags |= op->length ? IBV_SEND_INLINE : 0;
        if (unlikely(later))
            from = keep(c, from, op->length);
    } else {
        lkey = lkey_of(op->region, q, from);
        flags |= op->length >= FY_IB_BULK ? IBV_SEND_SIGNALED : 0;
        rc = FERRY_OK;
    }
    wr = add(c, q, IBV_WR_RDMA_WRITE, flags, FERRY_OP_PUT);
    wr->num_sge = op->length != 0;
    wr->sg_list->addr = (uintptr_t)from;
    wr->sg_list->length = (uint32_t)op->length;
    wr->sg_list->lkey = lkey;
    wr->wr.rdma.remote_addr = op->key->address + op->offset;
    wr->wr.rdma.rkey = op->key->at[op->offset >> op->key->shift].bulk[q->target];
    return rc;
}

static inline int get(struct fy_ib_channel *c, struct fy_ib_qp *q, const struct ferry_op *op)
{
    struct ibv_send_wr *wr;

    if (!op->length)
        return FERRY_DONE;
    wr = add(c, q, IBV_WR_RDMA_READ, op->flags & FERRY_OP_MORE ? 0 : IBV_SEND_SIGNALED, FERRY_OP_GET);
    wr->num_sge = 1;
    wr->sg_list->addr = (uintptr_t)op->local;
    wr->sg_list->length = (uint32_t)op->length;
    wr->sg_list->lkey = lkey_of(op->region, q, op->local);
    wr->wr.rdma.remote_addr = op->key->address + op->offset;
    wr->wr.rdma.rkey = op->key->at[op->offset >> op->key->shift].bulk[q->target];
    return FERRY_OK;
}

/* An 8-byte atomic; the old value goes to `to`. */
static inline void atomic(struct fy_ib_channel *c, struct fy_ib_qp *q, enum ibv_wr_opcode opcode,
                          const struct ferry_rkey *key, uint64_t offset, uint64_t add_or_compare, uint64_t swap,
                          void *to, uint32_t lkey, unsigned flags, unsigned kind)
{
    struct ibv_send_wr *wr = add(c, q, opcode, flags, kind);

    q->atomics = q->posted;
    wr->num_sge = 1;
    wr->sg_list->addr = (uintptr_t)to;
    wr->sg_list->length = 8;
    wr->sg_list->lkey = lkey;
    wr->wr.atomic.remote_addr = key->address + offset;
    wr->wr.atomic.compare_add = add_or_compare;
    wr->wr.atomic.swap = swap;
    wr->wr.atomic.rkey = key->at[offset >> key->shift].strict[q->target];
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

/* ------------------------------------------------------------------ borders of chunks */

/* Bytes until the chunk ends; the last chunk has no end. */
static size_t until_border(uint64_t at, uint32_t shift)
{
    uint64_t size = (uint64_t)1 << shift;

    return size - (at & (size - 1));
}

/* How much from `from` on lies in one chunk at both ends. */
static size_t piece(const struct ferry_op *op, size_t from)
{
    size_t n = op->length - from, most = until_border(op->offset + from, op->key->shift);

    n = n < most ? n : most;
    if (!op->region)
        return n;
    most = until_border((uint64_t)((char *)op->local - op->region->address) + from, op->region->shift);
    return n < most ? n : most;
}

static __attribute__((noinline)) uint32_t count_pieces(const struct ferry_op *op)
{
    uint32_t n = 0;

    for (size_t at = 0; at < op->length; at += piece(op, at))
        n++;
    return n;
}

/* Requests that an operation's data become: 1, but at borders of chunks. */
static inline uint32_t pieces(const struct fy_ib_channel *c, const struct ferry_op *op)
{
    if (likely(!__atomic_load_n(&c->careful, __ATOMIC_RELAXED)) || !op->length)
        return 1;
    return count_pieces(op);
}

/* Only the first is behind the border that the operation makes; of a get, only the last reports. */
static __attribute__((noinline)) int move_pieces(struct fy_ib_channel *c, struct fy_ib_qp *q, const struct ferry_op *op)
{
    struct ferry_op part = *op;
    int rc = FERRY_DONE;

    for (size_t at = 0; at < op->length; at += part.length) {
        part.length = piece(op, at);
        part.local = (char *)op->local + at;
        part.offset = op->offset + at;
        if (at)
            part.flags &= ~FERRY_OP_FENCED;
        if (op->kind != FERRY_OP_GET)
            rc = put(c, q, &part, op->flags & FERRY_OP_MORE) == FERRY_OK ? FERRY_OK : rc;
        else {
            part.flags = at + part.length < op->length ? op->flags | FERRY_OP_MORE : op->flags;
            rc = get(c, q, &part);
        }
    }
    return rc;
}

static inline int move(struct fy_ib_channel *c, struct fy_ib_qp *q, const struct ferry_op *op, uint32_t n)
{
    if (unlikely(n != 1))
        return move_pieces(c, q, op);
    return op->kind == FERRY_OP_GET ? get(c, q, op) : put(c, q, op, op->flags & FERRY_OP_MORE);
}

/* ------------------------------------------------------------------ the table's, where quick.c has no short way */

int fy_ib_rma_slow(struct fy_ib_channel *c, struct fy_ib_qp *q, const struct ferry_op *op)
{
    uint32_t n = pieces(c, op);
    int rc = room(c, q, n);

    if (unlikely(rc))
        return rc;
    if (unlikely(!op->region && op->length > (op->kind == FERRY_OP_PUT ? q->inline_max : 0)))
        return no_region(c->t, op);
    return done(c, op, move(c, q, op, n));
}

int fy_ib_amo(struct ferry_transport *t, uint32_t channel, const struct ferry_op *op)
{
    struct fy_ib_channel *c = t->channels[channel];
    struct fy_ib_qp *q = c->qps[op->peer];
    int fetch = op->flags & FERRY_OP_FETCH || op->amo == FERRY_AMO_FETCH || op->amo == FERRY_AMO_CSWAP;
    void *to = fetch ? op->local : c->dummy;
    uint32_t lkey = c->dummy_key;
    unsigned flags = fetch && !(op->flags & FERRY_OP_MORE) ? IBV_SEND_SIGNALED : 0;
    int rc = room(c, q, 1);

    if (unlikely(rc))
        return rc;
    if (fetch) {
        if (unlikely(!op->region))
            return no_region(c->t, op);
        lkey = lkey_of(op->region, q, op->local);
    }
    if (unlikely(op->flags & FERRY_OP_FENCED))
        q->border = q->atomics; /* atomics keep their order; a later put does not go before those */
    if (op->amo == FERRY_AMO_ADD)
        atomic(c, q, IBV_WR_ATOMIC_FETCH_AND_ADD, op->key, op->offset, op->operand, 0, to, lkey, flags, FERRY_OP_AMO);
    else if (op->amo == FERRY_AMO_CSWAP)
        atomic(c, q, IBV_WR_ATOMIC_CMP_AND_SWP, op->key, op->offset, op->compare, op->operand, to, lkey, flags,
               FERRY_OP_AMO);
    else if (op->amo == FERRY_AMO_FETCH)
        atomic(c, q, IBV_WR_ATOMIC_FETCH_AND_ADD, op->key, op->offset, 0, 0, to, lkey, flags, FERRY_OP_AMO);
    else
        return FERRY_ERR_UNSUPPORTED;
    return done(c, op, fetch ? FERRY_OK : FERRY_DONE);
}

int fy_ib_put_signal_slow(struct fy_ib_channel *c, struct fy_ib_qp *q, const struct ferry_op *op)
{
    uint32_t n = pieces(c, op);
    int rc = room(c, q, n + 1);
    struct ibv_send_wr *wr;

    if (unlikely(rc))
        return rc;
    if (unlikely(!op->region && op->length > q->inline_max))
        return no_region(c->t, op);
    rc = move(c, q, op, n);
    if (op->amo == FERRY_AMO_ADD) {
        atomic(c, q, IBV_WR_ATOMIC_FETCH_AND_ADD, op->signal_key, op->signal_offset, op->operand, 0, c->dummy,
               c->dummy_key, 0, FERRY_OP_PUT_SIGNAL);
        return done(c, op, rc);
    }
    uint64_t *value = &c->operands[c->waiting];
    *value = op->operand;
    wr = add(c, q, IBV_WR_RDMA_WRITE, IBV_SEND_INLINE, FERRY_OP_PUT_SIGNAL);
    wr->num_sge = 1;
    wr->sg_list->addr = (uintptr_t)value;
    wr->sg_list->length = 8;
    wr->wr.rdma.remote_addr = op->signal_key->address + op->signal_offset;
    wr->wr.rdma.rkey = op->signal_key->at[op->signal_offset >> op->signal_key->shift].strict[q->target];
    return done(c, op, rc);
}
