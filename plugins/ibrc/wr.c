/* SPDX-License-Identifier: Apache-2.0
 * A list of requests by ibv_wr_start ... ibv_wr_complete, for queue pairs that have it.
 * Channel thread. A single small put has a shorter way, in post.c. */
#include "ibrc.h"

static void build(struct ibv_qp_ex *ex, const struct ibv_send_wr *wr)
{
    ex->wr_id = wr->wr_id;
    ex->wr_flags = wr->send_flags; /* with IBV_SEND_INLINE, by which rdma_rxe knows that data are */
    if (wr->opcode == IBV_WR_RDMA_WRITE)
        ibv_wr_rdma_write(ex, wr->wr.rdma.rkey, wr->wr.rdma.remote_addr);
    else if (wr->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD)
        ibv_wr_atomic_fetch_add(ex, wr->wr.atomic.rkey, wr->wr.atomic.remote_addr, wr->wr.atomic.compare_add);
    else if (wr->opcode == IBV_WR_RDMA_READ)
        ibv_wr_rdma_read(ex, wr->wr.rdma.rkey, wr->wr.rdma.remote_addr);
    else
        ibv_wr_atomic_cmp_swp(ex, wr->wr.atomic.rkey, wr->wr.atomic.remote_addr, wr->wr.atomic.compare_add,
                              wr->wr.atomic.swap);
}

int fy_ib_wr_list(struct ibv_qp_ex *ex, const struct ibv_send_wr *wr)
{
    ibv_wr_start(ex);
    for (; wr; wr = wr->next) {
        const struct ibv_sge *data = wr->sg_list;
        build(ex, wr);
        if (wr->send_flags & IBV_SEND_INLINE)
            ibv_wr_set_inline_data(ex, (void *)(uintptr_t)data->addr, data->length);
        else if (wr->num_sge)
            ibv_wr_set_sge(ex, data->lkey, data->addr, data->length);
        else
            ibv_wr_set_sge(ex, 0, 0, 0); /* every request takes its data, also when there are none */
    }
    return ibv_wr_complete(ex);
}
