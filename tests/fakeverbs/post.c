/* SPDX-License-Identifier: Apache-2.0
 * Posting and polling of the stand-in: requests are carried out at once, or delayed by script; completions in their
 * order. Any thread. */
#include "internal.h"

#include <errno.h>

static void complete(struct qp *qp, const struct ibv_send_wr *wr, enum ibv_wc_status status, uint32_t vendor)
{
    struct cq *cq = (struct cq *)qp->v.send_cq;

    if (cq->tail - cq->head >= cq->size) {
        fv.counts.overflows++;
        return;
    }
    cq->ring[cq->tail++ % cq->size] = (struct ibv_wc){
        .wr_id = wr->wr_id, .status = status, .vendor_err = vendor, .qp_num = qp->v.qp_num, .byte_len = qp->since};
    qp->since = 0;
}

void fv_finish(struct qp *qp, const struct ibv_send_wr *wr, enum ibv_wc_status status, uint32_t vendor)
{
    qp->since++;
    if (qp->v.state != IBV_QPS_RTS) {
        status = IBV_WC_WR_FLUSH_ERR;
        vendor = 0;
    } else if (status != IBV_WC_SUCCESS) {
        fv_qp_state(qp, IBV_QPS_ERR);
    }
    if (status != IBV_WC_SUCCESS || wr->send_flags & IBV_SEND_SIGNALED)
        complete(qp, wr, status, vendor);
}

static void count(struct qp *qp, const struct ibv_send_wr *wr)
{
    fv.counts.requests++;
    fv.counts.signalled += (wr->send_flags & IBV_SEND_SIGNALED) != 0;
    fv.counts.fenced += (wr->send_flags & IBV_SEND_FENCE) != 0;
    fv.counts.inlined += (wr->send_flags & IBV_SEND_INLINE) != 0;
    qp->held++;
    fv.counts.overflows += qp->held > qp->cap.max_send_wr;
}

void fv_carry_out(struct qp *qp, const struct ibv_send_wr *wr)
{
    struct fv_bad bad = {0};
    enum ibv_wc_status status = IBV_WC_SUCCESS;
    uint32_t vendor = 0;

    if (fv.fast) {
        qp->held++;
        if (qp->v.state == IBV_QPS_RTS)
            status = fv_execute(qp, wr, &vendor);
        fv_finish(qp, wr, status, vendor);
        return;
    }
    count(qp, wr);
    if (qp->v.state == IBV_QPS_RTS && fv.bad_nth && !--fv.bad_nth)
        bad = fv.bad;
    if (qp->v.state == IBV_QPS_RTS && fv_delayed(qp, wr)) {
        if (fv_delay(qp, wr, &bad) == 0)
            return;
        status = IBV_WC_GENERAL_ERR;                                         /* no memory */
    } else if (qp->v.state == IBV_QPS_RTS && bad.status == IBV_WC_SUCCESS) { /* else it never arrived */
        status = fv_execute(qp, wr, &vendor);
    }
    if (bad.status != IBV_WC_SUCCESS) {
        status = bad.status;
        vendor = bad.vendor;
    }
    fv_finish(qp, wr, status, vendor);
}

int fv_refuses(struct qp *qp, const struct ibv_send_wr *wr)
{
    int error = fv_failing("post_send");

    if (error)
        return error;
    if (qp->v.state != IBV_QPS_RTS && qp->v.state != IBV_QPS_ERR)
        return EINVAL;
    return wr->send_flags & IBV_SEND_INLINE && wr->num_sge && wr->sg_list->length > qp->cap.max_inline_data ? ENOMEM
                                                                                                            : 0;
}

int fv_post_send(struct ibv_qp *v, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
    struct qp *qp = (struct qp *)v;
    int error = 0;

    fv_enter_post(qp->td);
    if (!fv.fast)
        fv.counts.doorbells++;
    for (; wr && !error; wr = error ? wr : wr->next) {
        error = fv_refuses(qp, wr);
        if (!error)
            fv_carry_out(qp, wr);
    }
    if (error)
        *bad = wr;
    fv_leave_post(qp->td);
    return error;
}

/* What a completion retires leaves the send queue when it is polled; byte_len carries how many these are. */
static void free_places(const struct ibv_wc *wc)
{
    struct qp *qp = fv.qps[fv_place_qp(wc->qp_num)];

    if (qp && qp->v.qp_num == wc->qp_num)
        qp->held -= wc->byte_len;
}

int fv_poll_cq(struct ibv_cq *v, int n, struct ibv_wc *wc)
{
    struct cq *cq = (struct cq *)v;
    int taken = 0;

    fv_enter_post(cq->td);
    if (!fv.fast)
        fv_delay_polled(v);
    if (fv_failing("poll_cq"))
        taken = -1;
    for (; taken >= 0 && taken < n && cq->head != cq->tail; taken++) {
        wc[taken] = cq->ring[cq->head++ % cq->size];
        free_places(&wc[taken]);
    }
    fv_leave_post(cq->td);
    return taken;
}
