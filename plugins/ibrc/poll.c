/* SPDX-License-Identifier: Apache-2.0
 * Completions: one retires all requests before it on its queue pair. Tickets, and progress.
 * Channel thread. */
#include "ibrc.h"

#include <errno.h>

#define unlikely(x) __builtin_expect(!!(x), 0)

/* The queue itself failed: nothing on the channel will complete. */
static int queue_lost(struct ferry_transport *t, struct fy_ib_channel *c)
{
    for (struct fy_ib_qp *q = fy_ib_connected(c); q; q = q->next) {
        q->quick = 0;
        fy_ib_qp_error(t, q, FERRY_ERR_DEVICE, EIO, "the completion queue cannot be polled", "look at the kernel log");
    }
    return 0;
}

int fy_ib_poll(struct ferry_transport *t, struct fy_ib_channel *c)
{
    struct ibv_wc wc[FY_IB_POLL];
    int total = 0, n;

    do {
        n = ibv_poll_cq(c->cq, FY_IB_POLL, wc);
        if (unlikely(n < 0))
            return queue_lost(t, c);
        for (int i = 0; i < n; i++) {
            struct fy_ib_qp *q = c->qps[fy_ib_id_peer(wc[i].wr_id)];
            uint32_t more =
                (uint32_t)wc[i].wr_id - (uint32_t)q->retired; /* all before it, since a queue pair is in order */
            q->retired += more;
            c->outstanding -= more;
            if (unlikely(wc[i].status != IBV_WC_SUCCESS)) {
                q->quick = 0; /* from now on each operation looks at the status */
                fy_ib_completion_error(t, q, &wc[i]);
            } else {
                fy_ib_window(q);
            }
        }
        total += n;
    } while (n == FY_IB_POLL);
    return total;
}

static int status_of(struct fy_ib_qp *q)
{
    return __atomic_load_n(&q->status, __ATOMIC_ACQUIRE);
}

static int quiet_peer(struct ferry_transport *t, struct fy_ib_channel *c, struct fy_ib_qp *q, uint64_t *ticket)
{
    int rc = FERRY_OK;

    if (!*ticket) {
        if (q->posted == q->retired)
            return status_of(q);
        rc = fy_ib_flush(c, q);
        *ticket = q->posted;
    }
    if (rc == FERRY_OK && q->retired < *ticket)
        fy_ib_poll(t, c);
    if (status_of(q))
        return status_of(q);
    return q->retired >= *ticket ? FERRY_OK : FERRY_AGAIN;
}

/* Is everything retired that was posted up to this epoch? */
static int passed(const struct fy_ib_qp *q, uint32_t epoch)
{
    return q->posted == q->retired || (int32_t)(q->epoch[q->retired & q->mask] - epoch) > 0;
}

/* What failed is reported once the others are through. */
static int all_passed(const struct fy_ib_channel *c, uint32_t epoch)
{
    int bad = FERRY_OK;

    for (struct fy_ib_qp *q = fy_ib_connected(c); q; q = q->next) {
        int status = status_of(q);
        if (status)
            bad = status;
        else if (!passed(q, epoch))
            return FERRY_AGAIN;
    }
    return bad;
}

static int quiet_all(struct ferry_transport *t, struct fy_ib_channel *c, uint64_t *ticket)
{
    if (!*ticket) {
        for (struct fy_ib_qp *q = fy_ib_connected(c); q && c->outstanding; q = q->next)
            fy_ib_flush(c, q); /* a failure is the queue pair's status */
        *ticket = c->epoch;
        c->epoch += c->epoch == UINT32_MAX ? 2 : 1; /* never 0 */
    }
    if (c->outstanding)
        fy_ib_poll(t, c);
    return all_passed(c, (uint32_t)*ticket);
}

int fy_ib_quiet(struct ferry_transport *t, uint32_t channel, uint32_t peer, uint64_t *ticket)
{
    struct fy_ib_channel *c = t->channels[channel];

    if (!c)
        return FERRY_OK;
    if (c->waiting)
        fy_ib_ring(c); /* a failure is the queue pair's status */
    if (peer == FERRY_PEER_ALL)
        return quiet_all(t, c, ticket);
    return c->qps[peer] ? quiet_peer(t, c, c->qps[peer], ticket) : FERRY_OK;
}

int fy_ib_progress(struct ferry_transport *t, uint32_t channel)
{
    struct fy_ib_channel *c = channel < t->max_channels ? t->channels[channel] : NULL;
    int rang, moved;

    if (!c)
        return FERRY_AGAIN;
    rang = c->waiting != 0;
    if (rang)
        fy_ib_ring(c);
    moved = (c->outstanding && fy_ib_poll(t, c)) || rang;
    if (moved)
        return FERRY_OK;
    return __atomic_load_n(&c->status, __ATOMIC_ACQUIRE) ? c->status : FERRY_AGAIN;
}
