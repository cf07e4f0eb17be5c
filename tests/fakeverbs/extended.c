/* SPDX-License-Identifier: Apache-2.0
 * Queue pairs of the stand-in that take requests by ibv_wr_start ... ibv_wr_complete: gathered, then carried out as a
 * list. Any thread, under the stand-in's lock between start and complete. */
#include "internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static struct qp *of(struct ibv_qp_ex *ex)
{
    return (struct qp *)ex;
}

static void start(struct ibv_qp_ex *ex)
{
    struct qp *qp = of(ex);

    fv_enter_post(qp->td);
    qp->staged = 0;
    qp->bad = 0;
    qp->write.open = false;
}

/* The next request; NULL: there are too many, which complete says. */
static struct staged *build(struct ibv_qp_ex *ex, enum ibv_wr_opcode opcode)
{
    struct qp *qp = of(ex);
    struct staged *s = qp->staged < STAGED_MAX ? &qp->stage[qp->staged] : NULL;

    if (!s || (qp->staged && !qp->stage[qp->staged - 1].set))
        qp->bad = s ? EINVAL : ENOMEM;
    if (!s)
        return NULL;
    qp->staged++;
    s->wr = (struct ibv_send_wr){
        .wr_id = ex->wr_id, .opcode = opcode, .send_flags = ex->wr_flags & ~(unsigned)IBV_SEND_INLINE};
    s->set = 0;
    return s;
}

static void rdma(struct ibv_qp_ex *ex, enum ibv_wr_opcode opcode, uint32_t rkey, uint64_t at)
{
    struct staged *s = build(ex, opcode);

    if (!s)
        return;
    s->wr.wr.rdma.remote_addr = at;
    s->wr.wr.rdma.rkey = rkey;
}

static void wr_write(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t at)
{
    rdma(ex, IBV_WR_RDMA_WRITE, rkey, at);
}

static void wr_read(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t at)
{
    rdma(ex, IBV_WR_RDMA_READ, rkey, at);
}

static void atomic(struct ibv_qp_ex *ex, enum ibv_wr_opcode opcode, uint32_t rkey, uint64_t at, uint64_t first,
                   uint64_t swap)
{
    struct staged *s = build(ex, opcode);

    if (!s)
        return;
    s->wr.wr.atomic.remote_addr = at;
    s->wr.wr.atomic.rkey = rkey;
    s->wr.wr.atomic.compare_add = first;
    s->wr.wr.atomic.swap = swap;
}

static void wr_add(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t at, uint64_t add)
{
    atomic(ex, IBV_WR_ATOMIC_FETCH_AND_ADD, rkey, at, add, 0);
}

static void wr_cas(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t at, uint64_t compare, uint64_t swap)
{
    atomic(ex, IBV_WR_ATOMIC_CMP_AND_SWP, rkey, at, compare, swap);
}

/* Data of the request that was built last, once. */
static struct staged *data(struct qp *qp)
{
    struct staged *s = qp->staged ? &qp->stage[qp->staged - 1] : NULL;

    if (!s || s->set)
        qp->bad = EINVAL;
    else
        s->set = 1;
    return qp->bad ? NULL : s;
}

/* Fast: carried out at once, so that the place is free again and stays in the cache. */
static void ready(struct qp *qp, struct staged *s)
{
    if (!fv.fast)
        return;
    qp->bad = fv_refuses(qp, &s->wr);
    if (!qp->bad)
        fv_carry_out(qp, &s->wr);
    qp->staged = 0;
}

static void set_sge(struct ibv_qp_ex *ex, uint32_t lkey, uint64_t addr, uint32_t length)
{
    struct staged *s = data(of(ex));

    if (!s)
        return;
    if (length) {
        s->sge = (struct ibv_sge){.addr = addr, .length = length, .lkey = lkey};
        s->wr.sg_list = &s->sge;
        s->wr.num_sge = 1;
    }
    ready(of(ex), s);
}

static void set_inline(struct ibv_qp_ex *ex, void *addr, size_t length)
{
    struct qp *qp = of(ex);
    struct staged *s = data(qp);

    if (!s)
        return;
    if (length > qp->cap.max_inline_data || length > sizeof s->data || s->wr.opcode != IBV_WR_RDMA_WRITE) {
        qp->bad = ENOMEM;
        return;
    }
    memcpy(s->data, addr, length);
    s->sge = (struct ibv_sge){.addr = (uintptr_t)s->data, .length = (uint32_t)length};
    s->wr.sg_list = &s->sge;
    s->wr.num_sge = 1;
    s->wr.send_flags |= IBV_SEND_INLINE;
    ready(qp, s);
}

/* Fast: a write that is for the usual way after all. */
static void reopen(struct ibv_qp_ex *ex)
{
    struct qp *qp = of(ex);

    if (qp->write.open)
        wr_write(ex, qp->write.rkey, qp->write.at);
    qp->write.open = false;
}

/* Fast: the write that was left open comes here. */
static void fast_set_sge(struct ibv_qp_ex *ex, uint32_t lkey, uint64_t addr, uint32_t length)
{
    struct qp *qp = of(ex);

    if (fv_fast_data(qp, (const void *)(uintptr_t)addr, length))
        return;
    reopen(ex);
    set_sge(ex, lkey, addr, length);
}

static void fast_set_inline(struct ibv_qp_ex *ex, void *addr, size_t length)
{
    struct qp *qp = of(ex);

    if (length <= qp->cap.max_inline_data && fv_fast_data(qp, addr, length))
        return;
    reopen(ex);
    set_inline(ex, addr, length);
}

/* All, or none of them. */
static int complete(struct ibv_qp_ex *ex)
{
    struct qp *qp = of(ex);
    int error = qp->bad;

    if (!error && qp->staged && !qp->stage[qp->staged - 1].set)
        error = EINVAL;
    if (!fv.fast) /* threads that post side by side share nothing then, not even a count */
        fv.counts.doorbells++;
    for (uint32_t i = 0; i < qp->staged && !error; i++)
        error = fv_refuses(qp, &qp->stage[i].wr);
    for (uint32_t i = 0; i < qp->staged && !error; i++)
        fv_carry_out(qp, &qp->stage[i].wr);
    if (!fv.fast)
        fv.counts.built += error ? 0 : qp->staged;
    fv_leave_post(qp->td);
    return error;
}

static void abandon(struct ibv_qp_ex *ex)
{
    fv_leave_post(of(ex)->td);
}

struct ibv_qp *fv_create_qp_ex(struct ibv_context *context, struct ibv_qp_init_attr_ex *attr)
{
    const uint64_t can = IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_READ | IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP |
                         IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD;
    uint64_t want = attr->send_ops_flags;
    struct ibv_qp *v;
    struct qp *qp;

    (void)context;
    if (attr->comp_mask != (IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS) || want & ~can ||
        !(fv.offers & FAKEVERBS_WR)) {
        errno = EOPNOTSUPP;
        return NULL;
    }
    v = ibv_create_qp(attr->pd, (struct ibv_qp_init_attr *)(void *)attr);
    qp = (struct qp *)v;
    if (!v)
        return NULL;
    qp->stage = calloc(STAGED_MAX, sizeof *qp->stage);
    if (!qp->stage) {
        ibv_destroy_qp(v);
        errno = ENOMEM;
        return NULL;
    }
    qp->ex.wr_start = start;
    qp->ex.wr_complete = complete;
    qp->ex.wr_abort = abandon;
    qp->ex.wr_set_sge = fv.fast ? fast_set_sge : set_sge;
    qp->ex.wr_set_inline_data = fv.fast ? fast_set_inline : set_inline;
    qp->ex.wr_rdma_write = !(want & IBV_QP_EX_WITH_RDMA_WRITE) ? NULL : fv.fast ? fv_fast_write : wr_write;
    qp->ex.wr_rdma_read = want & IBV_QP_EX_WITH_RDMA_READ ? wr_read : NULL;
    qp->ex.wr_atomic_fetch_add = want & IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD ? wr_add : NULL;
    qp->ex.wr_atomic_cmp_swp = want & IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP ? wr_cas : NULL;
    return v;
}

struct ibv_qp_ex *ibv_qp_to_qp_ex(struct ibv_qp *v)
{
    struct qp *qp = (struct qp *)v;

    return qp->stage ? &qp->ex : NULL;
}
