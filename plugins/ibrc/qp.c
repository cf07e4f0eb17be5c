/* SPDX-License-Identifier: Apache-2.0
 * The steps of one queue pair: made, INIT, ready to receive, ready to send.
 * Setup thread, and the control thread for those that serve. */
#include "ibrc.h"

#include <errno.h>
#include <string.h>

static int step_failed(struct ferry_transport *t, const struct fy_ib_rail *rail, const struct ibv_qp *qp,
                       const char *step, int error, const char *hint)
{
    return fy_ib_fail(t, -1, FERRY_ERR_TRANSPORT, error, hint, "queue pair 0x%x on %s:%u cannot go to %s: %s",
                      qp->qp_num, t->devices[rail->device].name, rail->port, step, strerror(error));
}

/* By ibv_create_qp_ex, so that ibv_wr_... can be used; where the device does not have it, or is not to, by
 * ibv_create_qp. */
static struct ibv_qp *create(struct ferry_transport *t, struct ibv_pd *pd, const struct ibv_qp_init_attr *want,
                             struct fy_ib_made *made)
{
    struct ibv_qp_init_attr_ex ex = {.send_cq = want->send_cq,
                                     .recv_cq = want->recv_cq,
                                     .qp_type = want->qp_type,
                                     .cap = want->cap,
                                     .comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
                                     .pd = pd,
                                     .send_ops_flags = IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_READ};
    struct ibv_qp_init_attr plain = *want;
    struct ibv_qp *qp = NULL;

    if (t->atomics)
        ex.send_ops_flags |= IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP | IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD;
    if (t->options.posting != FY_IB_POST_LIST) {
        qp = ibv_create_qp_ex(pd->context, &ex);
        made->ex = qp ? ibv_qp_to_qp_ex(qp) : NULL;
        made->inline_max = ex.cap.max_inline_data;
        if (qp || t->options.posting == FY_IB_POST_WR ||
            (errno != EOPNOTSUPP && errno != ENOTSUP && errno != ENOSYS && errno != EINVAL))
            return qp;
    }
    qp = ibv_create_qp(pd, &plain);
    made->inline_max = plain.cap.max_inline_data;
    return qp;
}

static void cannot_make(struct ferry_transport *t, const struct fy_ib_rail *rail, int error)
{
    const char *hint = "lower FERRY_IBRC_QUEUE_DEPTH, or see the limits in ibv_devinfo -v";
    char text[192];

    if (error == ENOMEM) /* queues are pinned, too */
        hint = fy_ib_memlock_hint(text, sizeof text);
    if (t->options.posting == FY_IB_POST_WR && (error == EOPNOTSUPP || error == ENOSYS))
        hint = "the device has no ibv_wr_...: leave FERRY_IBRC_POSTING at auto";
    fy_ib_fail(t, -1, FERRY_ERR_TRANSPORT, error, hint, "cannot create a queue pair on %s:%u: %s",
               t->devices[rail->device].name, rail->port, strerror(error));
}

/* A device that cannot inline as much as was asked for says EINVAL or ENOMEM: half, until it can. */
int fy_ib_qp_make(struct ferry_transport *t, struct fy_ib_rail *rail, struct ibv_pd *pd, struct ibv_cq *cq,
                  struct fy_ib_made *made)
{
    struct ibv_qp_init_attr attr = {.send_cq = cq,
                                    .recv_cq = cq,
                                    .qp_type = IBV_QPT_RC,
                                    .cap = {.max_send_wr = t->depth + 1,
                                            .max_recv_wr = 1,
                                            .max_send_sge = 1,
                                            .max_recv_sge = 1,
                                            .max_inline_data = t->options.inline_size}};

    memset(made, 0, sizeof *made);
    for (;;) {
        made->qp = create(t, pd, &attr, made);
        if (made->qp)
            return FERRY_OK;
        if (attr.cap.max_inline_data <= 8 || (errno != EINVAL && errno != ENOMEM))
            break;
        attr.cap.max_inline_data /= 2;
    }
    cannot_make(t, rail, errno);
    return FERRY_ERR_TRANSPORT;
}

/* One that posts nothing. */
struct ibv_qp *fy_ib_qp_make_serving(struct ferry_transport *t, struct fy_ib_rail *rail)
{
    const struct fy_ib_device *d = &t->devices[rail->device];
    struct ibv_qp_init_attr attr = {.send_cq = d->idle_cq,
                                    .recv_cq = d->idle_cq,
                                    .qp_type = IBV_QPT_RC,
                                    .cap = {.max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1}};
    struct ibv_qp *qp = ibv_create_qp(d->pd, &attr);

    if (!qp)
        cannot_make(t, rail, errno);
    return qp;
}

int fy_ib_qp_init(struct ferry_transport *t, struct fy_ib_rail *rail, struct ibv_qp *qp)
{
    struct ibv_qp_attr attr;
    int error;

    memset(&attr, 0, sizeof attr);
    attr.qp_state = IBV_QPS_INIT;
    attr.pkey_index = (uint16_t)t->options.pkey_index;
    attr.port_num = rail->port;
    attr.qp_access_flags =
        IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | (t->atomics ? IBV_ACCESS_REMOTE_ATOMIC : 0);
    error = ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
    if (!error)
        return FERRY_OK;
    return step_failed(t, rail, qp, "INIT", error, "is there a partition key at FERRY_IBRC_PKEY_INDEX?");
}

static uint32_t label(const struct ferry_transport *t, uint32_t channel, uint32_t qpn)
{
    uint32_t mixed = (qpn * 2654435761u) ^ (channel * 0x9e3779b1u); /* any two channels are to differ */

    return t->options.flow_label >= 0 ? (uint32_t)t->options.flow_label : (mixed >> 12 ^ mixed) & 0xfffff;
}

static void path(const struct ferry_transport *t, const struct fy_ib_rail *rail, const struct fy_ib_address *own,
                 const struct fy_ib_hello *peer, struct ibv_ah_attr *ah, uint32_t flow)
{
    ah->port_num = rail->port;
    ah->sl = (uint8_t)t->options.sl;
    ah->dlid = peer->lid;
    if (!rail->global)
        return;
    ah->is_global = 1;
    memcpy(ah->grh.dgid.raw, peer->gid, 16);
    ah->grh.sgid_index = own->gid_index;
    ah->grh.hop_limit = (uint8_t)t->options.hop_limit;
    ah->grh.traffic_class = (uint8_t)t->options.traffic_class;
    ah->grh.flow_label = flow;
}

int fy_ib_qp_ready(struct ferry_transport *t, struct fy_ib_rail *rail, struct ibv_qp *qp,
                   const struct fy_ib_hello *peer, uint32_t channel)
{
    const struct ibv_device_attr *d = &t->devices[rail->device].attr;
    struct ibv_qp_attr attr;
    struct fy_ib_address own = fy_ib_address(t, rail);
    int mtu = t->options.mtu ? t->options.mtu : (int)own.mtu;
    int error;

    memset(&attr, 0, sizeof attr);
    attr.qp_state = IBV_QPS_RTR;
    attr.path_mtu = (enum ibv_mtu)(mtu < peer->mtu ? mtu : peer->mtu);
    attr.dest_qp_num = peer->qpn;
    attr.rq_psn = peer->psn;
    attr.max_dest_rd_atomic = (uint8_t)(d->max_qp_rd_atom > 128 ? 128 : d->max_qp_rd_atom);
    attr.min_rnr_timer = (uint8_t)t->options.rnr_timer;
    path(t, rail, &own, peer, &attr.ah_attr, label(t, channel, qp->qp_num));
    error = ibv_modify_qp(qp, &attr,
                          IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                              IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
    if (!error)
        return FERRY_OK;
    return step_failed(
        t, rail, qp, "RTR", error,
        "is there a route between the two ports' addresses? FERRY_IBRC_GID_INDEX picks another, FERRY_IBRC_MTU "
        "a smaller packet");
}

int fy_ib_qp_send(struct ferry_transport *t, struct ibv_qp *qp, uint32_t psn, uint32_t rd_atomic)
{
    struct ibv_qp_attr attr;
    int error;

    memset(&attr, 0, sizeof attr);
    attr.qp_state = IBV_QPS_RTS;
    attr.timeout = (uint8_t)t->options.timeout;
    attr.retry_cnt = (uint8_t)t->options.retry_count;
    attr.rnr_retry = (uint8_t)t->options.rnr_retry;
    attr.sq_psn = psn;
    attr.max_rd_atomic = (uint8_t)rd_atomic;
    error = ibv_modify_qp(qp, &attr,
                          IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
                              IBV_QP_MAX_QP_RD_ATOMIC);
    if (!error)
        return FERRY_OK;
    return fy_ib_fail(t, -1, FERRY_ERR_TRANSPORT, error, "see the limits in ibv_devinfo -v",
                      "queue pair 0x%x cannot go to RTS: %s", qp->qp_num, strerror(error));
}
