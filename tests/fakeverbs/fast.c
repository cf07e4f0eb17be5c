/* SPDX-License-Identifier: Apache-2.0
 * Writes of the device that costs nothing (FAKEVERBS_FAST), by ibv_wr_...: carried out where they get their data, in
 * this process. Whatever is not plainly right takes the way of all other requests, which says what is wrong with it.
 * The thread that posts. */
#include "internal.h"
#include "reach.h"

#include <string.h>

void fv_fast_write(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t at)
{
    struct qp *qp = (struct qp *)ex;

    qp->write = (struct fv_write){.rkey = rkey, .at = at, .wr_id = ex->wr_id, .flags = ex->wr_flags, .open = true};
}

/* Where the bytes go; NULL: look at it more closely. */
static char *target(const struct qp *qp, uint32_t length)
{
    const struct fv_write *w = &qp->write;
    const struct entry_qp *peer = fv_table_qp(qp->dest);
    const struct entry_mr *mr = fv_table_mr(w->rkey);

    if (!peer || !mr || qp->v.state != IBV_QPS_RTS || peer->state < IBV_QPS_RTR || peer->state > IBV_QPS_RTS)
        return NULL;
    if (mr->slot != peer->slot || mr->slot != fv_table_slot() || mr->device != peer->device)
        return NULL;
    if (!(mr->access & peer->access & IBV_ACCESS_REMOTE_WRITE))
        return NULL;
    if (w->at < mr->address || length > mr->length || w->at - mr->address > mr->length - length)
        return NULL;
    return (char *)(uintptr_t)w->at;
}

bool fv_fast_data(struct qp *qp, const void *from, size_t length)
{
    const struct fv_write *w = &qp->write;
    char *to = w->open && length <= UINT32_MAX ? target(qp, (uint32_t)length) : NULL;

    if (!to)
        return false;
    if (length <= 64) /* perhaps a word that somebody waits for */
        fv_copy(to, from, length);
    else
        memcpy(to, from, length);
    qp->held++;
    if (w->flags & IBV_SEND_SIGNALED)
        fv_finish(qp, &(struct ibv_send_wr){.wr_id = w->wr_id, .send_flags = w->flags}, IBV_WC_SUCCESS, 0);
    else
        qp->since++;
    qp->write.open = false;
    return true;
}
