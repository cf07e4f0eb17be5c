/* SPDX-License-Identifier: Apache-2.0
 * Channels: an endpoint, its completion queue and address vector, and the table of peers.
 * Setup thread; nothing else uses a channel while it is opened or closed. */
#include "libfabric.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define PEERS_AT_FULL_DEPTH 16 /* for more peers at once, the channel's room is the limit */
#define ROOM_MAX            16384u

static int lacks(struct ferry_transport *t, const struct fy_lf_channel *c, const char *call, int rc)
{
    const char *hint = "run with FI_LOG_LEVEL=warn to see what the provider says";

    if (rc == -FI_ENOMEM)
        hint = "free memory, or lower FERRY_LIBFABRIC_QUEUE_DEPTH; shm needs room in /dev/shm";
    if (rc == -FI_EMFILE || rc == -FI_ENOSPC)
        hint = rc == -FI_EMFILE ? "raise the limit on open files (ulimit -n)" : "free memory in /dev/shm";
    return fy_lf_fail(t, -1, rc == -FI_ENOMEM ? FERRY_ERR_NOMEM : FERRY_ERR_TRANSPORT, -rc, hint,
                      "provider %s: %s for %s: %s", t->name, call,
                      c == &t->service ? "the service endpoint" : "a channel", fi_strerror(-rc));
}

int fy_lf_queue_open(struct ferry_transport *t, struct fy_lf_channel *c, size_t entries, enum fi_wait_obj wait)
{
    struct fi_cq_attr cq = {.size = entries, .format = FI_CQ_FORMAT_DATA, .wait_obj = wait};
    int rc;

    c->t = t;
    rc = fi_cq_open(t->domain, &cq, &c->cq, NULL);
    return rc ? lacks(t, c, "fi_cq_open", rc) : FERRY_OK;
}

int fy_lf_endpoint_open(struct fy_lf_channel *c, struct fi_info *info, struct fid_ep **ep, struct fid_av **av)
{
    struct ferry_transport *t = c->t;
    struct fi_av_attr attr = {.type = FI_AV_TABLE, .count = t->n_pes};
    int rc;

    if ((rc = fi_endpoint(t->domain, info, ep, NULL)))
        return lacks(t, c, "fi_endpoint", rc);
    if ((rc = fi_av_open(t->domain, &attr, av, NULL)))
        return lacks(t, c, "fi_av_open", rc);
    if ((rc = fi_ep_bind(*ep, &c->cq->fid, FI_TRANSMIT | FI_SELECTIVE_COMPLETION)))
        return lacks(t, c, "fi_ep_bind", rc);
    if ((rc = fi_ep_bind(*ep, &c->cq->fid, FI_RECV))) /* data of peers' puts are told without being asked for */
        return lacks(t, c, "fi_ep_bind", rc);
    if ((rc = fi_ep_bind(*ep, &(*av)->fid, 0)))
        return lacks(t, c, "fi_ep_bind", rc);
    if (c->count && (rc = fi_ep_bind(*ep, &c->count->fid, FI_REMOTE_READ | FI_REMOTE_WRITE)))
        return lacks(t, c, "fi_ep_bind of a counter", rc);
    if ((rc = fi_enable(*ep)))
        return lacks(t, c, "fi_enable", rc);
    return FERRY_OK;
}

void fy_lf_endpoint_close(struct fid_ep **ep, struct fid_av **av)
{
    if (*ep)
        fi_close(&(*ep)->fid);
    if (*av)
        fi_close(&(*av)->fid);
    *ep = NULL;
    *av = NULL;
}

void fy_lf_queue_close(struct fy_lf_channel *c)
{
    fy_lf_endpoint_close(&c->ep, &c->av);
    if (c->cq)
        fi_close(&c->cq->fid);
    c->cq = NULL;
}

void fy_lf_peer_drop(struct fy_lf_peer *p)
{
    fy_lf_endpoint_close(&p->own, &p->own_av);
    if (p->mr)
        fi_close(&p->mr->fid);
    free(p->epoch);
    free(p->slots);
    free(p);
}

static void drop_all(struct fy_lf_peer *p)
{
    while (p) {
        struct fy_lf_peer *next = p->next;
        fy_lf_peer_drop(p);
        p = next;
    }
}

static uint32_t power_of_two(uint32_t n)
{
    uint32_t p = 1;

    while (p < n)
        p *= 2;
    return p;
}

/* Slots and stash lie in one block, so that one registration covers them. */
static int make_slots(struct ferry_transport *t, struct fy_lf_peer *p)
{
    size_t n = p->mask + 1, stash = t->provider.inject < FY_LF_STASH ? n * FY_LF_STASH : 0;
    size_t size = (n * sizeof(struct fy_lf_slot) + stash + 4095) & ~(size_t)4095;
    int rc = 0;

    p->slots = aligned_alloc(4096, size);
    p->epoch = calloc(n, sizeof *p->epoch);
    if (!p->slots || !p->epoch)
        return -FI_ENOMEM;
    memset(p->slots, 0, n * sizeof(struct fy_lf_slot));
    for (size_t i = 0; i < n; i++)
        p->slots[i].peer = p;
    p->stash = stash ? (char *)(p->slots + n) : NULL;
    if (t->local)
        rc = fi_mr_reg(t->domain, p->slots, size, FI_READ | FI_WRITE, 0, t->next_key++, 0, &p->mr, NULL);
    p->desc = p->mr ? fi_mr_desc(p->mr) : NULL;
    return rc;
}

struct fy_lf_peer *fy_lf_peer_make(struct fy_lf_channel *c, uint32_t pe)
{
    struct fy_lf_peer *p = calloc(1, sizeof *p);
    int rc = -FI_ENOMEM;

    if (p) {
        p->channel = c;
        p->pe = pe;
        p->address = FI_ADDR_UNSPEC;
        p->depth = (uint32_t)c->t->options.depth;
        p->mask = power_of_two(p->depth) - 1;
        rc = make_slots(c->t, p);
    }
    if (!rc)
        return p;
    if (p)
        fy_lf_peer_drop(p);
    fy_lf_fail(c->t, pe, FERRY_ERR_NOMEM, -rc, "lower FERRY_LIBFABRIC_QUEUE_DEPTH",
               "cannot make what channel %u needs for pe %u: %s", c->id, pe, fi_strerror(-rc));
    return NULL;
}

static void drop_channel(struct fy_lf_channel *c)
{
    fy_lf_endpoint_close(&c->ep, &c->av); /* first: the slots are the provider's until then */
    drop_all(c->connected);
    fy_lf_queue_close(c);
    free(c->peers);
    free(c);
}

int fy_lf_open_channel(struct ferry_transport *t, uint32_t channel)
{
    struct fy_lf_channel *c;
    uint32_t peers = t->n_pes < PEERS_AT_FULL_DEPTH ? t->n_pes : PEERS_AT_FULL_DEPTH;
    int rc;

    if (channel >= t->max_channels)
        return FERRY_ERR_LIMIT;
    if (t->channels[channel])
        return FERRY_OK;
    c = calloc(1, sizeof *c);
    if (!c)
        return FERRY_ERR_NOMEM;
    c->id = channel;
    c->epoch = 1;
    c->room = (uint32_t)t->options.depth * peers;
    c->room = c->room < ROOM_MAX ? c->room : ROOM_MAX;
    c->inject = t->provider.inject;
    c->slow_flags = FERRY_OP_FENCED | FERRY_OP_DATA | (t->provider.more ? FERRY_OP_MORE : 0);
    c->peers = calloc(t->n_pes, sizeof(struct fy_lf_peer *));
    rc = c->peers ? fy_lf_queue_open(t, c, c->room, FI_WAIT_NONE)
                  : fy_lf_fail(t, -1, FERRY_ERR_NOMEM, ENOMEM, "", "no memory for channel %u", channel);
    if (!rc && !t->each)
        rc = fy_lf_endpoint_open(c, t->info, &c->ep, &c->av);
    if (rc) {
        drop_channel(c);
        return rc;
    }
    __atomic_store_n(&t->channels[channel], c, __ATOMIC_RELEASE); /* query_error looks from any thread */
    return FERRY_OK;
}

int fy_lf_close_channel(struct ferry_transport *t, uint32_t channel)
{
    struct fy_lf_channel *c = channel < t->max_channels ? t->channels[channel] : NULL;

    if (!c)
        return FERRY_OK;
    pthread_mutex_lock(&t->lock); /* query_error looks from any thread */
    __atomic_store_n(&t->channels[channel], NULL, __ATOMIC_RELEASE);
    pthread_mutex_unlock(&t->lock);
    drop_channel(c);
    return FERRY_OK;
}

void fy_lf_channels_close(struct ferry_transport *t)
{
    for (uint32_t i = 0; t->channels && i < t->max_channels; i++)
        fy_lf_close_channel(t, i);
    free(t->channels);
}
