/* SPDX-License-Identifier: Apache-2.0
 * Posting: operations become calls of libfabric, and flushes make them report.
 * Channel thread. No lock, no allocation, no system call of ours. */
#include "libfabric.h"

#include <stdio.h>
#include <string.h>

int fy_lf_post_failed(struct fy_lf_peer *p, ssize_t rc, const char *what)
{
    if (likely(rc == -FI_EAGAIN)) {
        p->channel->looked = 0; /* whoever tries again makes progress before */
        return FERRY_AGAIN;
    }
    fy_lf_peer_error(p, FERRY_OK, (int)-rc, what, NULL);
    return fy_lf_status(p);
}

static inline int covering(const struct fy_lf_channel *c)
{
    return c->t->provider.quiet != FY_LF_QUIET_DC;
}

/* The slot of the next operation. */
static inline struct fy_lf_slot *next_slot(struct fy_lf_peer *p, unsigned kind, unsigned covers, int told)
{
    struct fy_lf_slot *s = &p->slots[p->posted & p->mask];

    s->seq = p->posted + 1;
    s->kind = kind;
    s->covers = (uint8_t)covers;
    s->told = (uint8_t)told;
    return s;
}

/* The next operation was taken. */
static inline void taken(struct fy_lf_channel *c, struct fy_lf_peer *p, const struct fy_lf_slot *s)
{
    p->epoch[p->posted & p->mask] = c->epoch;
    p->posted++;
    c->outstanding++;
    if (s && s->told) {
        p->told++;
        c->told++;
    }
}

/* Behind a flush, or with each operation reporting, a ticket needs no flush of its own. */
static inline void vouched(struct fy_lf_peer *p)
{
    p->flushed = p->posted;
    fy_lf_window(p);
}

static ssize_t post_read(struct fy_lf_peer *p, struct fy_lf_slot *s, void *to, size_t length,
                         void *desc, uint64_t at, uint64_t key, uint64_t flags)
{
    struct iovec iov = {to, length};
    struct fi_rma_iov rma = {at, length, key};
    struct fi_msg_rma msg = {.msg_iov = &iov,
                             .desc = &desc,
                             .iov_count = 1,
                             .addr = p->address,
                             .rma_iov = &rma,
                             .rma_iov_count = 1,
                             .context = s};

    return fi_readmsg(p->ep, &msg, flags);
}

static ssize_t post_write(struct fy_lf_peer *p, struct fy_lf_slot *s, const void *from,
                          size_t length, void *desc, uint64_t at, uint64_t key, uint64_t data, uint64_t flags)
{
    struct iovec iov = {(void *)(uintptr_t)from, length};
    struct fi_rma_iov rma = {at, length, key};
    struct fi_msg_rma msg = {.msg_iov = &iov,
                             .desc = &desc,
                             .iov_count = 1,
                             .addr = p->address,
                             .rma_iov = &rma,
                             .rma_iov_count = 1,
                             .context = s,
                             .data = data};

    return fi_writemsg(p->ep, &msg, flags);
}

struct amo {
    enum fi_op op;
    enum fi_datatype type;
    void *operand, *compare, *result, *result_desc;
    uint64_t at, key, flags;
};

static ssize_t post_atomic(struct fy_lf_peer *p, struct fy_lf_slot *s, const struct amo *a)
{
    struct fi_ioc ioc = {a->operand, 1}, compare = {a->compare, 1}, result = {a->result, 1};
    struct fi_rma_ioc rma = {a->at, 1, a->key};
    void *desc = p->desc, *result_desc = a->result_desc;
    struct fi_msg_atomic msg = {.msg_iov = &ioc,
                                .desc = &desc,
                                .iov_count = 1,
                                .addr = p->address,
                                .rma_iov = &rma,
                                .rma_iov_count = 1,
                                .datatype = a->type,
                                .op = a->op,
                                .context = s};

    if (a->compare)
        return fi_compare_atomicmsg(p->ep, &msg, &compare, &desc, 1, &result, &result_desc, 1, a->flags);
    if (a->result)
        return fi_fetch_atomicmsg(p->ep, &msg, &result, &result_desc, 1, a->flags);
    return fi_atomicmsg(p->ep, &msg, a->flags);
}

/* A fetching atomic is behind atomics and puts, a read behind puts; a fenced write that asks for delivery, behind all. */
int fy_lf_flush(struct fy_lf_channel *c, struct fy_lf_peer *p)
{
    int how = c->t->provider.quiet, word = how == FY_LF_QUIET_RAW_READ && p->amos > p->retired;
    unsigned covers = how == FY_LF_QUIET_DC    ? FY_LF_COVERS_NOTHING
                      : how == FY_LF_QUIET_RAW_READ && !word ? FY_LF_COVERS_PUTS
                                                             : FY_LF_COVERS_ALL;
    struct fy_lf_slot *s;
    ssize_t rc;

    if (p->posted - p->retired > p->depth || c->told > c->room) /* the last slot is kept for this */
        return FERRY_AGAIN;
    s = next_slot(p, FY_LF_FLUSH, covers, 1);
    s->amos = p->amos;
    s->value[0] = 0;
    if (word) {
        struct amo a = {.op = (enum fi_op)c->t->peek,
                        .type = FI_UINT64,
                        .operand = s->value,
                        .result = &s->result,
                        .result_desc = p->desc,
                        .at = p->scratch,
                        .key = p->scratch_key,
                        .flags = FI_COMPLETION};
        rc = post_atomic(p, s, &a);
    } else if (how == FY_LF_QUIET_RAW_READ) {
        rc = post_read(p, s, &s->result, 8, p->desc, p->scratch, p->scratch_key, FI_COMPLETION);
    } else {
        rc = post_write(p, s, s->value, 8, p->desc, p->scratch, p->scratch_key, 0,
                        FI_COMPLETION | FI_DELIVERY_COMPLETE | (how == FY_LF_QUIET_FENCE_DC ? FI_FENCE : 0));
    }
    if (unlikely(rc))
        return fy_lf_post_failed(p, rc, "flush");
    taken(c, p, s);
    c->more = NULL;
    vouched(p);
    return FERRY_OK;
}

/* Takes completions, and has those report that hold the slots. FERRY_OK: there is room now. */
static __attribute__((noinline)) int make_room(struct fy_lf_channel *c, struct fy_lf_peer *p)
{
    int rc;

    if (__atomic_load_n(&c->careful, __ATOMIC_ACQUIRE))
        fy_lf_leave(c);
    if (fy_lf_status(p))
        return fy_lf_status(p);
    if (covering(c) && p->posted - p->flushed >= p->depth / 2) {
        rc = fy_lf_flush(c, p);
        if (rc < 0)
            return rc;
    }
    if (p->posted - p->retired < p->depth && c->told < c->room)
        return FERRY_OK;
    if (c->more)
        fy_lf_flush(c, c->more);
    fy_lf_poll(c);
    if (fy_lf_status(p))
        return fy_lf_status(p);
    return p->posted - p->retired < p->depth && c->told < c->room ? FERRY_OK : FERRY_AGAIN;
}

static inline int room(struct fy_lf_channel *c, struct fy_lf_peer *p)
{
    if (likely(p->posted < p->quick && c->told < c->room && !__atomic_load_n(&c->careful, __ATOMIC_RELAXED)))
        return FERRY_OK;
    return make_room(c, p);
}

/* What the flags of an operation are to libfabric. */
static inline uint64_t flags_of(struct fy_lf_channel *c, struct fy_lf_peer *p, const struct ferry_op *op, int told)
{
    uint64_t flags = told ? FI_COMPLETION : 0;

    if (told && !covering(c))
        flags |= FI_DELIVERY_COMPLETE;
    if (op->flags & FERRY_OP_FENCED)
        flags |= FI_FENCE;
    if (op->flags & FERRY_OP_MORE && c->slow_flags & FERRY_OP_MORE)
        flags |= FI_MORE;
    c->more = flags & FI_MORE ? p : NULL;
    return flags;
}

static void *desc_of(const struct ferry_op *op)
{
    return op->region ? op->region->desc : NULL;
}

/* What is short is copied, so that its source is free at once: by the provider, or, where it takes less, to the stash. */
static int put(struct fy_lf_channel *c, struct fy_lf_peer *p, const struct ferry_op *op)
{
    int told = !covering(c), inject = c->inject && op->length <= c->inject;
    int stash = !inject && op->length <= FY_LF_STASH && (!c->inject || op->flags & FERRY_OP_COPY);
    uint64_t flags = flags_of(c, p, op, told), data = 0;
    struct fy_lf_slot *s = next_slot(p, FERRY_OP_PUT, FY_LF_COVERS_NOTHING, told);
    uint64_t at = op->key->base + op->offset, key = op->key->key;
    const void *from = op->local;
    size_t length = op->length;
    void *desc = desc_of(op);
    ssize_t rc;

    if (!length) { /* data alone: shm chokes on a write of nothing */
        from = s->value;
        length = sizeof s->value[0];
        desc = p->desc;
        at = p->scratch;
        key = p->scratch_key;
    }
    if (op->flags & FERRY_OP_DATA) {
        flags |= FI_REMOTE_CQ_DATA;
        data = (uint64_t)c->t->my_pe << 32 | op->remote_data;
    }
    if (stash) {
        from = memcpy(p->stash + (p->posted & p->mask) * FY_LF_STASH, from, length);
        desc = p->desc;
    } else if (inject) {
        flags |= FI_INJECT;
    }
    rc = post_write(p, s, from, length, desc, at, key, data, flags);
    if (unlikely(rc))
        return fy_lf_post_failed(p, rc, "fi_writemsg");
    taken(c, p, s);
    c->bulky |= !inject;
    if (op->flags & FERRY_OP_DATA && c->t->provider.data_queued)
        p->amos = p->posted;
    if (told)
        vouched(p);
    return inject || stash ? FERRY_DONE : FERRY_OK;
}

static int get(struct fy_lf_channel *c, struct fy_lf_peer *p, const struct ferry_op *op)
{
    int vouches = c->t->provider.quiet == FY_LF_QUIET_RAW_READ;
    struct fy_lf_slot *s = next_slot(p, FERRY_OP_GET, vouches ? FY_LF_COVERS_PUTS : FY_LF_COVERS_NOTHING, 1);
    ssize_t rc;

    s->amos = p->amos;
    rc = post_read(p, s, op->local, op->length, desc_of(op), op->key->base + op->offset, op->key->key,
                   FI_COMPLETION);
    if (unlikely(rc))
        return fy_lf_post_failed(p, rc, "fi_readmsg");
    c->more = NULL;
    taken(c, p, s);
    if (!covering(c) || (vouches && p->amos <= p->retired))
        vouched(p);
    return FERRY_OK;
}

int fy_lf_rma_slow(struct fy_lf_channel *c, struct fy_lf_peer *p, const struct ferry_op *op)
{
    int rc;

    if (!op->length && !(op->flags & FERRY_OP_DATA))
        return FERRY_DONE;
    rc = room(c, p);
    if (rc)
        return rc;
    return op->kind == FERRY_OP_GET ? get(c, p, op) : put(c, p, op);
}

/* By enum ferry_amo. */
static const enum fi_op ops_of[FERRY_AMO_KINDS] = {FI_ATOMIC_WRITE, FI_SUM,          FI_BAND,  FI_BOR,
                                                   FI_BXOR,         FI_ATOMIC_WRITE, FI_CSWAP, FI_ATOMIC_READ};

static void operand(uint64_t *place, uint64_t value, unsigned width)
{
    uint32_t half = (uint32_t)value;

    if (width == 4)
        memcpy(place, &half, 4);
    else
        *place = value;
}

/* Without a result, and with nothing to be said to libfabric: it keeps the operand. */
static int amo_short(struct fy_lf_channel *c, struct fy_lf_peer *p, const struct ferry_op *op)
{
    uint64_t value;
    ssize_t rc;

    operand(&value, op->operand, op->width);
    rc = fi_inject_atomic(p->ep, &value, 1, p->address, op->key->base + op->offset, op->key->key,
                          op->width == 4 ? FI_UINT32 : FI_UINT64, ops_of[op->amo]);
    if (unlikely(rc))
        return fy_lf_post_failed(p, rc, "fi_inject_atomic");
    c->more = NULL;
    taken(c, p, NULL);
    p->amos = p->posted;
    return FERRY_DONE;
}

static int amo_long(struct fy_lf_channel *c, struct fy_lf_peer *p, const struct ferry_op *op)
{
    int returns = op->flags & FERRY_OP_FETCH || op->amo >= FERRY_AMO_CSWAP, told = returns || !covering(c);
    struct fy_lf_slot *s = next_slot(p, FERRY_OP_AMO, returns && covering(c) && c->t->provider.quiet == FY_LF_QUIET_RAW_READ ?
                                     FY_LF_COVERS_ALL : FY_LF_COVERS_NOTHING, told);
    struct amo a = {.op = ops_of[op->amo],
                    .type = op->width == 4 ? FI_UINT32 : FI_UINT64,
                    .operand = &s->value[0],
                    .at = op->key->base + op->offset,
                    .key = op->key->key,
                    .flags = flags_of(c, p, op, told)};
    ssize_t rc;

    operand(&s->value[0], op->operand, op->width);
    if (op->amo == FERRY_AMO_CSWAP) {
        operand(&s->value[1], op->compare, op->width);
        a.compare = &s->value[1];
    }
    if (returns) {
        a.result = op->flags & FERRY_OP_FETCH ? op->local : &s->result;
        a.result_desc = op->flags & FERRY_OP_FETCH ? desc_of(op) : p->desc;
    }
    rc = post_atomic(p, s, &a);
    if (unlikely(rc))
        return fy_lf_post_failed(p, rc, "atomic");
    taken(c, p, s);
    c->bulky |= !told; /* the provider has not copied it */
    if (covering(c))
        p->amos = p->posted;
    if (!covering(c) || s->covers)
        vouched(p);
    return FERRY_OK;
}

int fy_lf_amo(struct ferry_transport *t, uint32_t channel, const struct ferry_op *op)
{
    struct fy_lf_channel *c = t->channels[channel];
    struct fy_lf_peer *p = c->peers[op->peer];
    int rc = room(c, p);

    if (unlikely(rc))
        return rc;
    if (!(op->flags & (FERRY_OP_FETCH | FERRY_OP_FENCED)) && op->amo <= FERRY_AMO_SWAP && c->inject >= 8)
        return amo_short(c, p, op);
    return amo_long(c, p, op);
}

static int valid(struct fid_ep *ep, unsigned kind, enum fi_datatype type, int fetching)
{
    size_t count = 0;

    if (kind == FERRY_AMO_CSWAP)
        return fetching && !fi_compare_atomicvalid(ep, type, FI_CSWAP, &count) && count;
    if (fetching)
        return !fi_fetch_atomicvalid(ep, type, ops_of[kind], &count) && count;
    return kind < FERRY_AMO_SWAP && !fi_atomicvalid(ep, type, ops_of[kind], &count) && count;
}

static uint32_t kinds_of(struct fid_ep *ep, enum fi_datatype type)
{
    uint32_t kinds = 0;

    for (unsigned kind = 0; kind < FERRY_AMO_KINDS; kind++) {
        kinds |= valid(ep, kind, type, 0) ? FERRY_AMO_BIT(kind) : 0;
        kinds |= valid(ep, kind, type, 1) ? FERRY_AMO_FETCH_BIT(kind) : 0;
    }
    return kinds;
}

void fy_lf_atomics(struct ferry_transport *t, struct fid_ep *ep)
{
    t->amo32 = kinds_of(ep, FI_UINT32);
    t->amo64 = kinds_of(ep, FI_UINT64);
    t->peek = t->amo64 & FERRY_AMO_FETCH_BIT(FERRY_AMO_FETCH) ? FI_ATOMIC_READ
              : t->amo64 & FERRY_AMO_FETCH_BIT(FERRY_AMO_ADD) ? FI_SUM
                                                              : -1;
    if (t->peek < 0 && t->provider.quiet == FY_LF_QUIET_RAW_READ && (t->amo32 || t->amo64))
        t->provider.quiet = FY_LF_QUIET_DC; /* nothing would cover an atomic */
}
