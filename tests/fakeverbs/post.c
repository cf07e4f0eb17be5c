/* SPDX-License-Identifier: Apache-2.0
 * Requests of the stand-in, carried out at once with the checks that a device makes, and their completions.
 * Any thread. Atomics are a load and a store under the lock: atomic among themselves only, as a NIC's are. */
#include "internal.h"

#include <errno.h>
#include <stdbool.h>

/* Words as a whole where both sides are aligned; the reader may be looking. */
static void copy(void *to, const void *from, size_t length)
{
    char *t = to;
    const char *f = from;

    if (!(((uintptr_t)t | (uintptr_t)f) & 7))
        for (; length >= 8; length -= 8, t += 8, f += 8)
            __atomic_store_n((uint64_t *)t, __atomic_load_n((const uint64_t *)f, __ATOMIC_RELAXED), __ATOMIC_RELEASE);
    for (; length; length--, t++, f++)
        __atomic_store_n(t, __atomic_load_n(f, __ATOMIC_RELAXED), __ATOMIC_RELEASE);
}

static bool covers(const struct mr *mr, uint64_t at, uint64_t length)
{
    uint64_t start = (uintptr_t)mr->v.addr;
    return at >= start && length <= mr->v.length && at - start <= mr->v.length - length;
}

static struct mr *find(uint32_t key, int device)
{
    struct mr *mr = key >> 12 < fv.n_mrs ? fv.mrs[key >> 12] : NULL;
    return mr && mr->v.rkey == key && mr->device == device ? mr : NULL;
}

static bool remote_good(const struct qp *peer, uint32_t key, uint64_t at, uint64_t length, unsigned need)
{
    const struct mr *mr = find(key, peer->device);
    return mr && covers(mr, at, length) && (mr->access & need) && (peer->access & need);
}

static enum ibv_wc_status atomic(const struct qp *peer, const struct ibv_send_wr *wr, void *old_to)
{
    uint64_t at = wr->wr.atomic.remote_addr, old;

    if (at & 7)
        return IBV_WC_REM_INV_REQ_ERR;
    if (!remote_good(peer, wr->wr.atomic.rkey, at, 8, IBV_ACCESS_REMOTE_ATOMIC))
        return IBV_WC_REM_ACCESS_ERR;
    uint64_t *word = (uint64_t *)(uintptr_t)at;
    old = __atomic_load_n(word, __ATOMIC_ACQUIRE);
    if (wr->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD)
        __atomic_store_n(word, old + wr->wr.atomic.compare_add, __ATOMIC_RELEASE);
    else if (old == wr->wr.atomic.compare_add)
        __atomic_store_n(word, wr->wr.atomic.swap, __ATOMIC_RELEASE);
    if (fv.big_endian)
        old = __builtin_bswap64(old);
    copy(old_to, &old, 8);
    return IBV_WC_SUCCESS;
}

static enum ibv_wc_status execute(const struct qp *qp, const struct ibv_send_wr *wr)
{
    const struct qp *peer = qp->dest - 0x100 < fv.n_qps ? fv.qps[qp->dest - 0x100] : NULL;
    const struct ibv_sge *sge = wr->num_sge ? wr->sg_list : NULL;
    void *local = sge ? (void *)(uintptr_t)sge->addr : NULL;
    uint32_t length = sge ? sge->length : 0;
    const struct mr *mine;

    if (!peer || peer->v.state < IBV_QPS_RTR || peer->v.state > IBV_QPS_RTS)
        return IBV_WC_RETRY_EXC_ERR;
    if (sge && !(wr->send_flags & IBV_SEND_INLINE)) {
        mine = find(sge->lkey, qp->device);
        if (!mine || !covers(mine, sge->addr, length) ||
            (wr->opcode != IBV_WR_RDMA_WRITE && !(mine->access & IBV_ACCESS_LOCAL_WRITE)))
            return IBV_WC_LOC_PROT_ERR;
    }
    if (wr->opcode == IBV_WR_RDMA_WRITE || wr->opcode == IBV_WR_RDMA_READ) {
        unsigned need = wr->opcode == IBV_WR_RDMA_WRITE ? IBV_ACCESS_REMOTE_WRITE : IBV_ACCESS_REMOTE_READ;
        void *remote = (void *)(uintptr_t)wr->wr.rdma.remote_addr;
        if (!remote_good(peer, wr->wr.rdma.rkey, wr->wr.rdma.remote_addr, length, need))
            return IBV_WC_REM_ACCESS_ERR;
        if (need == IBV_ACCESS_REMOTE_WRITE)
            copy(remote, local, length);
        else
            copy(local, remote, length);
        return IBV_WC_SUCCESS;
    }
    return atomic(peer, wr, local);
}

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

void fv_carry_out(struct qp *qp, const struct ibv_send_wr *wr)
{
    enum ibv_wc_status status = IBV_WC_WR_FLUSH_ERR;
    uint32_t vendor = 0;

    fv.counts.requests++;
    fv.counts.signalled += (wr->send_flags & IBV_SEND_SIGNALED) != 0;
    fv.counts.fenced += (wr->send_flags & IBV_SEND_FENCE) != 0;
    fv.counts.inlined += (wr->send_flags & IBV_SEND_INLINE) != 0;
    qp->held++;
    qp->since++;
    fv.counts.overflows += qp->held > qp->cap.max_send_wr;
    if (qp->v.state == IBV_QPS_RTS) {
        status = execute(qp, wr);
        if (fv.bad_nth && !--fv.bad_nth) {
            status = fv.bad_status;
            vendor = fv.bad_vendor;
        }
        if (status != IBV_WC_SUCCESS)
            qp->v.state = IBV_QPS_ERR;
    }
    if (status != IBV_WC_SUCCESS || wr->send_flags & IBV_SEND_SIGNALED)
        complete(qp, wr, status, vendor);
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

    fv_enter(qp->td);
    pthread_mutex_lock(&fv.lock);
    fv.counts.doorbells++;
    for (; wr && !error; wr = error ? wr : wr->next) {
        error = fv_refuses(qp, wr);
        if (!error)
            fv_carry_out(qp, wr);
    }
    if (error)
        *bad = wr;
    pthread_mutex_unlock(&fv.lock);
    fv_leave(qp->td);
    return error;
}

/* What a completion retires leaves the send queue when it is polled; byte_len carries how many these are. */
static void free_places(const struct ibv_wc *wc)
{
    uint32_t at = wc->qp_num - 0x100;

    if (at < fv.n_qps && fv.qps[at])
        fv.qps[at]->held -= wc->byte_len;
}

int fv_poll_cq(struct ibv_cq *v, int n, struct ibv_wc *wc)
{
    struct cq *cq = (struct cq *)v;
    int taken = 0;

    fv_enter(cq->td);
    pthread_mutex_lock(&fv.lock);
    if (fv_failing("poll_cq"))
        taken = -1;
    for (; taken >= 0 && taken < n && cq->head != cq->tail; taken++) {
        wc[taken] = cq->ring[cq->head++ % cq->size];
        free_places(&wc[taken]);
    }
    pthread_mutex_unlock(&fv.lock);
    fv_leave(cq->td);
    return taken;
}
