/* SPDX-License-Identifier: Apache-2.0
 * Channels: a completion queue, the table of queue pairs by peer, and prebuilt requests.
 * Setup thread; nothing else uses a channel while it is opened or closed. */
#include "ibrc.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define PEERS_AT_FULL_DEPTH 16 /* for more peers at once, the channel's room is the limit */

static void prebuild(struct fy_ib_channel *c)
{
    for (int i = 0; i < FY_IB_BATCH; i++) {
        c->wr[i].next = i + 1 < FY_IB_BATCH ? &c->wr[i + 1] : NULL;
        c->wr[i].sg_list = &c->sge[i];
        c->wr[i].num_sge = 1;
    }
}

/* A channel is used by one thread at a time, so its queues need no locks. Where the device has no thread domain, or
 * none left, its objects have locks like any other. */
static void make_domain(struct ferry_transport *t, struct fy_ib_channel *c)
{
    struct fy_ib_device *d = &t->devices[c->device];
    struct ibv_td_init_attr none = {.comp_mask = 0};
    struct ibv_parent_domain_init_attr attr = {.pd = d->pd};

    c->td = ibv_alloc_td(d->context, &none);
    attr.td = c->td;
    if (c->td)
        c->pd = ibv_alloc_parent_domain(d->context, &attr);
    if (c->pd)
        return;
    t->core->log(t->core, FERRY_LOG_DEBUG, "channel %u: no thread domain on %s: %s", c->id, d->name, strerror(errno));
    if (c->td)
        ibv_dealloc_td(c->td);
    c->td = NULL;
}

static int lacks(int error)
{
    return error == EOPNOTSUPP || error == ENOTSUP || error == ENOSYS || error == EINVAL;
}

/* In the parent domain, else without a lock, else plain: what the device has. */
static struct ibv_cq *create_queue(const struct fy_ib_device *d, const struct fy_ib_channel *c, uint32_t entries)
{
    struct ibv_cq_init_attr_ex attr = {.cqe = entries,
                                       .comp_mask = IBV_CQ_INIT_ATTR_MASK_FLAGS | IBV_CQ_INIT_ATTR_MASK_PD,
                                       .flags = IBV_CREATE_CQ_ATTR_SINGLE_THREADED,
                                       .parent_domain = c->pd};
    struct ibv_cq_ex *cq = NULL;

    if (!c->pd)
        return ibv_create_cq(d->context, (int)entries, NULL, NULL, 0);
    cq = ibv_create_cq_ex(d->context, &attr);
    attr.comp_mask = IBV_CQ_INIT_ATTR_MASK_FLAGS;
    attr.parent_domain = NULL;
    if (!cq && lacks(errno))
        cq = ibv_create_cq_ex(d->context, &attr);
    if (!cq && lacks(errno))
        return ibv_create_cq(d->context, (int)entries, NULL, NULL, 0);
    return cq ? ibv_cq_ex_to_cq(cq) : NULL;
}

static int no_queue(struct ferry_transport *t, const struct fy_ib_device *d, int entries, int error)
{
    const char *hint = "lower FERRY_IBRC_QUEUE_DEPTH, or see the limits in ibv_devinfo -v";
    char text[192];

    if (error == ENOMEM) /* queues are pinned, too */
        hint = fy_ib_memlock_hint(text, sizeof text);
    return fy_ib_fail(t, -1, FERRY_ERR_TRANSPORT, error, hint,
                      "cannot create a completion queue of %d entries on %s: %s", entries, d->name, strerror(error));
}

/* An error flushes every request with a completion of its own, so there is an entry for each, for one flush per peer,
 * and for what the short way posts to each peer between two looks at the room. */
static int make_queue(struct ferry_transport *t, struct fy_ib_channel *c)
{
    struct fy_ib_device *d = &t->devices[c->device];
    uint64_t peers = t->n_pes < PEERS_AT_FULL_DEPTH ? t->n_pes : PEERS_AT_FULL_DEPTH;
    uint64_t unseen = (uint64_t)t->n_pes * (FY_IB_SIGNAL - 1);
    uint64_t entries = (peers * t->depth > FY_IB_BATCH ? peers * t->depth : FY_IB_BATCH) + t->n_pes + unseen;

    if (d->attr.max_cqe > 0 && entries > (uint64_t)d->attr.max_cqe)
        entries = (uint64_t)d->attr.max_cqe;
    if (entries < (uint64_t)t->n_pes + FY_IB_BATCH)
        return fy_ib_fail(t, -1, FERRY_ERR_LIMIT, 0, "use fewer PEs per job on this device",
                          "RDMA device %s has completion queues of %d entries, too few for %u PEs", d->name,
                          d->attr.max_cqe, t->n_pes);
    c->cq = create_queue(d, c, (uint32_t)entries);
    if (!c->cq)
        return no_queue(t, d, (int)entries, errno);
    c->room = (uint32_t)(entries - t->n_pes);
    if (c->room >= unseen + FY_IB_BATCH)
        c->room -= (uint32_t)unseen;
    else
        c->careful = 1; /* too small for the short way */
    return FERRY_OK;
}

static void drop_all(struct fy_ib_qp *q)
{
    while (q) {
        struct fy_ib_qp *next = q->next;
        ibv_destroy_qp(q->qp);
        free(q->epoch);
        free(q);
        q = next;
    }
}

static void drop_channel(struct fy_ib_channel *c)
{
    drop_all(c->connected);
    drop_all(c->starting);
    drop_all(c->parked);
    if (c->cq)
        ibv_destroy_cq(c->cq);
    if (c->pd)
        ibv_dealloc_pd(c->pd);
    if (c->td)
        ibv_dealloc_td(c->td);
    free(c->qps);
    free(c->stash);
    free(c);
}

int fy_ib_open_channel(struct ferry_transport *t, uint32_t channel)
{
    struct fy_ib_channel *c;
    int rc;

    if (channel >= t->max_channels)
        return FERRY_ERR_LIMIT;
    if (t->channels[channel])
        return FERRY_OK;
    c = calloc(1, sizeof *c);
    if (!c)
        return FERRY_ERR_NOMEM;
    c->t = t;
    c->id = channel;
    c->rail = channel % t->n_rails;
    c->device = t->rails[c->rail].device;
    c->epoch = 1;
    c->careful = t->careful;
    c->dummy = t->scratch + 8; /* a line of its own: peers' flushes name the first word */
    c->dummy_key = t->devices[c->device].scratch_mr->lkey;
    c->stash_size = t->inline_max;
    c->qps = calloc(t->n_pes, sizeof(struct fy_ib_qp *));
    c->stash = malloc((size_t)FY_IB_BATCH * c->stash_size);
    prebuild(c);
    make_domain(t, c);
    rc = c->qps && c->stash ? make_queue(t, c)
                            : fy_ib_fail(t, -1, FERRY_ERR_NOMEM, ENOMEM, "", "no memory for channel %u", channel);
    if (rc) {
        drop_channel(c);
        return rc;
    }
    __atomic_store_n(&t->channels[channel], c, __ATOMIC_RELEASE); /* query_error looks from any thread */
    return FERRY_OK;
}

/* What an operation costs the device: for whoever tunes, and exact. */
static void log_counts(struct ferry_transport *t, const struct fy_ib_channel *c)
{
    unsigned long long requests = 0;

    for (const struct fy_ib_qp *q = c->connected; q; q = q->next)
        requests += q->posted;
    if (!requests)
        return;
    t->core->log(t->core, FERRY_LOG_INFO, "channel %u: %llu requests, %llu doorbells, %llu signalled, %llu fenced",
                 c->id, requests, (unsigned long long)c->doorbells, (unsigned long long)c->signals,
                 (unsigned long long)c->fences);
}

int fy_ib_close_channel(struct ferry_transport *t, uint32_t channel)
{
    struct fy_ib_channel *c = channel < t->max_channels ? t->channels[channel] : NULL;

    if (!c)
        return FERRY_OK;
    log_counts(t, c);
    pthread_mutex_lock(&t->lock); /* query_error looks from any thread */
    __atomic_store_n(&t->channels[channel], NULL, __ATOMIC_RELEASE);
    pthread_mutex_unlock(&t->lock);
    drop_channel(c);
    return FERRY_OK;
}

void fy_ib_be_careful(struct ferry_transport *t)
{
    t->careful = 1;
    for (uint32_t i = 0; i < t->max_channels; i++)
        if (t->channels[i])
            __atomic_store_n(&t->channels[i]->careful, 1, __ATOMIC_RELAXED);
}

void fy_ib_channels_close(struct ferry_transport *t)
{
    for (uint32_t i = 0; t->channels && i < t->max_channels; i++)
        fy_ib_close_channel(t, i);
    free(t->channels);
}
