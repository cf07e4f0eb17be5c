/* SPDX-License-Identifier: Apache-2.0
 * One request carried out, with the checks that a device makes. Atomics are a load and a store under the table's lock:
 * atomic among themselves only, as a NIC's are, in all processes that share the table.
 * Any thread, under the stand-in's lock. */
#include "internal.h"
#include "reach.h"

#include <errno.h>

static bool covers(const struct entry_mr *mr, uint64_t at, uint64_t length)
{
    return at >= mr->address && length <= mr->length && at - mr->address <= mr->length - length;
}

static const struct entry_mr *local(const struct qp *qp, const struct ibv_sge *sge, bool write)
{
    const struct entry_mr *mr = fv_table_mr(sge->lkey);
    bool good = mr && mr->slot == fv_table_slot() && mr->device == qp->device && covers(mr, sge->addr, sge->length);

    return good && (!write || mr->access & IBV_ACCESS_LOCAL_WRITE) ? mr : NULL;
}

static const struct entry_mr *remote(const struct entry_qp *peer, uint32_t key, uint64_t at, uint64_t length,
                                     unsigned need)
{
    const struct entry_mr *mr = fv_table_mr(key);
    bool good = mr && mr->slot == peer->slot && mr->device == peer->device && covers(mr, at, length);

    return good && mr->access & need && peer->access & need ? mr : NULL;
}

/* What became of reaching the memory; the errno is the vendor's code. */
static enum ibv_wc_status outcome(int error, uint32_t *vendor)
{
    *vendor = (uint32_t)error;
    if (!error)
        return IBV_WC_SUCCESS;
    return error == ESRCH ? IBV_WC_RETRY_EXC_ERR : error == EFAULT ? IBV_WC_REM_ACCESS_ERR : IBV_WC_REM_OP_ERR;
}

static enum ibv_wc_status atomic(const struct entry_qp *peer, const struct ibv_send_wr *wr, void *old_to,
                                 uint32_t *vendor)
{
    uint64_t at = wr->wr.atomic.remote_addr, old, new;
    const struct entry_mr *mr;
    int error;

    if (at & 7)
        return IBV_WC_REM_INV_REQ_ERR;
    mr = remote(peer, wr->wr.atomic.rkey, at, 8, IBV_ACCESS_REMOTE_ATOMIC);
    if (!mr)
        return IBV_WC_REM_ACCESS_ERR;
    error = fv_reach_read(mr, at, &old, 8);
    if (wr->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD)
        new = old + wr->wr.atomic.compare_add;
    else
        new = old == wr->wr.atomic.compare_add ? wr->wr.atomic.swap : old;
    if (!error && (new != old || wr->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD))
        error = fv_reach_write(mr, at, &new, 8);
    if (!error && fv.big_endian)
        old = __builtin_bswap64(old);
    if (!error)
        fv_copy(old_to, &old, 8);
    return outcome(error, vendor);
}

static enum ibv_wc_status rdma(const struct entry_qp *peer, const struct ibv_send_wr *wr, void *here, uint32_t length,
                               uint32_t *vendor)
{
    bool write = wr->opcode == IBV_WR_RDMA_WRITE;
    uint64_t at = wr->wr.rdma.remote_addr;
    const struct entry_mr *mr =
        remote(peer, wr->wr.rdma.rkey, at, length, write ? IBV_ACCESS_REMOTE_WRITE : IBV_ACCESS_REMOTE_READ);

    if (!mr)
        return IBV_WC_REM_ACCESS_ERR;
    return outcome(write ? fv_reach_write(mr, at, here, length) : fv_reach_read(mr, at, here, length), vendor);
}

static enum ibv_wc_status run(const struct qp *qp, const struct ibv_send_wr *wr, uint32_t *vendor)
{
    const struct entry_qp *peer = fv_table_qp(qp->dest);
    const struct ibv_sge *sge = wr->num_sge ? wr->sg_list : NULL;
    void *here = sge ? (void *)(uintptr_t)sge->addr : NULL;

    if (!peer || peer->state < IBV_QPS_RTR || peer->state > IBV_QPS_RTS || (!fv.fast && !fv_table_alive(peer->slot)))
        return IBV_WC_RETRY_EXC_ERR;
    if (sge && !(wr->send_flags & IBV_SEND_INLINE) && !local(qp, sge, wr->opcode != IBV_WR_RDMA_WRITE))
        return IBV_WC_LOC_PROT_ERR;
    if (wr->opcode == IBV_WR_RDMA_WRITE || wr->opcode == IBV_WR_RDMA_READ)
        return rdma(peer, wr, here, sge ? sge->length : 0, vendor);
    return atomic(peer, wr, here, vendor);
}

enum ibv_wc_status fv_execute(const struct qp *qp, const struct ibv_send_wr *wr, uint32_t *vendor)
{
    /* Fast: numbers of what is in use do not change, and only atomics, and views of others' memory, need the lock. */
    const bool alone =
        fv.fast && !fv_table_shared() && (wr->opcode == IBV_WR_RDMA_WRITE || wr->opcode == IBV_WR_RDMA_READ);
    enum ibv_wc_status status;

    *vendor = 0;
    if (!alone)
        fv_table_lock();
    status = run(qp, wr, vendor);
    if (!alone)
        fv_table_unlock();
    return status;
}
