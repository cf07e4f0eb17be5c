/* SPDX-License-Identifier: Apache-2.0
 * Wiring: each (channel, peer) is one initiating queue pair here and one that serves it at the peer.
 * START and FINISH: setup thread. SERVE: control thread. */
#include "ibrc.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

struct endpoint {
    uint32_t magic, n_rails, atomics;
    struct {
        uint8_t link_layer, global, gid_type, family;
    } rails[FY_IB_RAILS];
};
_Static_assert(sizeof(struct endpoint) <= FERRY_ENDPOINT_MAX, "an endpoint is too long");
_Static_assert(sizeof(struct fy_ib_hello) <= FERRY_ENDPOINT_MAX, "a request is too long");

int fy_ib_export_endpoint(struct ferry_transport *t, void *blob, size_t *size)
{
    struct endpoint e = {.magic = FY_IB_MAGIC, .n_rails = t->n_rails, .atomics = t->atomics != 0};
    int rc = fy_ib_events_start(t); /* not in open: a look at the capabilities has no control thread */

    if (rc)
        return rc;
    for (uint32_t i = 0; i < t->n_rails; i++) {
        const struct fy_ib_rail *r = &t->rails[i];
        e.rails[i].link_layer = r->attr.link_layer;
        e.rails[i].global = (uint8_t)r->global;
        e.rails[i].gid_type = r->gid_type;
        e.rails[i].family = r->family;
    }
    memcpy(blob, &e, sizeof e);
    *size = sizeof e;
    return FERRY_OK;
}

/* NULL, or why two ports cannot talk. */
static const char *differ(const struct fy_ib_rail *r, int link_layer, int global, int gid_type, int family)
{
    if (r->attr.link_layer != link_layer)
        return "one port is Ethernet (RoCE), the other InfiniBand";
    if (r->global != global)
        return "one side addresses by GID, the other by LID; set FERRY_IBRC_GID_INDEX alike";
    if (r->global && r->gid_type != gid_type)
        return "the GIDs are of different types (RoCE v1, v2); set FERRY_IBRC_GID_INDEX";
    if (link_layer == IBV_LINK_LAYER_ETHERNET && r->family != family)
        return "one GID is IPv4, the other IPv6; set FERRY_IBRC_ADDRESS_FAMILY";
    return NULL;
}

int fy_ib_reach(struct ferry_transport *t, uint32_t peer, const void *blob, size_t size, char *why, size_t why_size)
{
    struct endpoint e;

    (void)peer;
    if (size == sizeof e)
        memcpy(&e, blob, sizeof e);
    if (size != sizeof e || e.magic != FY_IB_MAGIC || !e.n_rails || e.n_rails > FY_IB_RAILS) {
        snprintf(why, why_size, "its address is not of this ibrc: run the same build on all hosts");
        return FERRY_ERR_UNREACHABLE;
    }
    if (e.atomics != (uint32_t)(t->atomics != 0)) { /* the device's and the CPU's do not see each other */
        snprintf(why, why_size,
                 "atomics are done by the %s of that PE and by the %s of this one; use devices of one kind, and "
                 "FERRY_IBRC_RAILS alike",
                 e.atomics ? "device" : "CPU", e.atomics ? "CPU" : "device");
        return FERRY_ERR_UNREACHABLE;
    }
    for (uint32_t i = 0; i < t->n_rails; i++) {
        uint32_t j = i % e.n_rails;
        const char *bad =
            differ(&t->rails[i], e.rails[j].link_layer, e.rails[j].global, e.rails[j].gid_type, e.rails[j].family);
        if (!bad)
            continue;
        snprintf(why, why_size, "rail %u: %s", i, bad);
        return FERRY_ERR_UNREACHABLE;
    }
    return FERRY_OK;
}

void fy_ib_greet(struct ferry_transport *t, uint32_t rail, const struct ibv_qp *qp, uint32_t psn, struct fy_ib_hello *h)
{
    const struct fy_ib_rail *r = &t->rails[rail];
    const struct fy_ib_device *d = &t->devices[r->device];
    struct fy_ib_address own = fy_ib_address(t, r);

    memset(h, 0, sizeof *h);
    h->magic = FY_IB_MAGIC;
    h->qpn = qp->qp_num;
    h->psn = psn;
    h->device = r->device;
    h->scratch = (uintptr_t)t->scratch;
    h->scratch_key = d->scratch_mr->rkey;
    h->lid = own.lid;
    h->rail = (uint8_t)rail;
    h->one_device = t->n_devices == 1;
    h->global = (uint8_t)r->global;
    h->gid_type = r->gid_type;
    h->family = r->family;
    h->link_layer = r->attr.link_layer;
    h->mtu = (uint8_t)(t->options.mtu ? t->options.mtu : (int)own.mtu);
    h->rd_atomic = (uint8_t)(d->attr.max_qp_rd_atom > 128 ? 128 : d->attr.max_qp_rd_atom);
    memcpy(h->gid, own.gid.raw, 16);
}

static int read_hello(struct ferry_transport *t, uint32_t peer, const struct ferry_connect *io, struct fy_ib_hello *h)
{
    if (io->in_size == sizeof *h)
        memcpy(h, io->in, sizeof *h);
    if (io->in_size == sizeof *h && h->magic == FY_IB_MAGIC && h->device < FY_IB_RAILS)
        return FERRY_OK;
    return fy_ib_fail(t, peer, FERRY_ERR_MISMATCH, 0, "run the same build on all hosts",
                      "what pe %u sent to connect cannot be read", peer);
}

static uint32_t start_psn(void)
{
    uint32_t psn = 0;

    if (getrandom(&psn, sizeof psn, GRND_NONBLOCK) != (ssize_t)sizeof psn)
        psn = 0x5a5a5a; /* any number does; it only should not repeat */
    return psn & 0xffffff;
}

/* ------------------------------------------------------------------ initiator */

/* A queue pair that came to nothing is not destroyed here: that looks through the completion queue, and in a thread
 * domain the channel's thread may be there without a lock. */
static void give_up(struct fy_ib_channel *c, struct fy_ib_qp *q)
{
    if (q->qp) {
        q->next = c->parked;
        c->parked = q;
        return;
    }
    free(q->epoch);
    free(q);
}

/* One that was given up before it was bound to a peer serves for another. */
static struct fy_ib_qp *take_parked(struct fy_ib_channel *c)
{
    for (struct fy_ib_qp **at = &c->parked; *at; at = &(*at)->next)
        if ((*at)->qp->state == IBV_QPS_RESET || (*at)->qp->state == IBV_QPS_INIT) {
            struct fy_ib_qp *q = *at;
            *at = q->next;
            return q;
        }
    return NULL;
}

/* Takes the one that is being connected to the peer out of the list. */
static struct fy_ib_qp *take_starting(struct fy_ib_channel *c, uint32_t peer)
{
    for (struct fy_ib_qp **at = &c->starting; *at; at = &(*at)->next)
        if ((*at)->peer == peer) {
            struct fy_ib_qp *q = *at;
            *at = q->next;
            return q;
        }
    return NULL;
}

static int make(struct ferry_transport *t, struct fy_ib_channel *c, struct fy_ib_qp *q)
{
    uint32_t places = 1;
    struct fy_ib_made made;
    int rc;

    while (places < t->depth + 1)
        places *= 2;
    q->rail = &t->rails[c->rail];
    q->owner = c;
    q->channel = c->id;
    q->device = c->device;
    q->room = t->depth;
    q->mask = places - 1;
    q->epoch = calloc(places, sizeof *q->epoch);
    if (!q->epoch)
        return fy_ib_fail(t, q->peer, FERRY_ERR_NOMEM, ENOMEM, "", "no memory for a queue pair to pe %u", q->peer);
    rc = fy_ib_qp_make(t, q->rail, c->pd ? c->pd : t->devices[c->device].pd, c->cq, &made);
    if (rc)
        return rc;
    q->qp = made.qp;
    q->ex = made.ex;
    q->inline_max = made.inline_max;
    return FERRY_OK;
}

/* New ones, and those that were parked: what the device grants may differ from one to the next. */
static int inlines(struct ferry_transport *t, struct fy_ib_qp *q)
{
    if (q->inline_max < t->inline_max)
        return fy_ib_fail(t, q->peer, FERRY_ERR_TRANSPORT, 0, "set FERRY_IBRC_INLINE_SIZE lower",
                          "queue pair 0x%x inlines %u bytes, others of this PE %u", q->qp->qp_num, q->inline_max,
                          t->inline_max);
    q->inline_max = t->inline_max;
    return FERRY_OK;
}

static int start(struct ferry_transport *t, struct fy_ib_channel *c, uint32_t peer, struct ferry_connect *io)
{
    struct fy_ib_qp *q = take_starting(c, peer); /* of an attempt that the peer did not answer */
    int made = q || (q = take_parked(c));
    struct fy_ib_hello h;
    int rc = FERRY_OK;

    if (!q)
        q = calloc(1, sizeof *q);
    if (!q)
        return fy_ib_fail(t, peer, FERRY_ERR_NOMEM, ENOMEM, "", "no memory for a queue pair to pe %u", peer);
    q->peer = peer;
    if (!made)
        rc = make(t, c, q);
    if (!rc)
        rc = inlines(t, q);
    if (!rc && q->qp->state == IBV_QPS_RESET)
        rc = fy_ib_qp_init(t, q->rail, q->qp);
    if (rc) {
        give_up(c, q);
        return rc;
    }
    q->scratch_key = start_psn(); /* until FINISH has the peer's key for it */
    fy_ib_greet(t, c->rail, q->qp, q->scratch_key, &h);
    memcpy(io->out, &h, sizeof h);
    io->out_size = sizeof h;
    q->next = c->starting;
    c->starting = q;
    return FERRY_OK;
}

/* What is the same in each of the commonest requests. */
static void prebuild(struct fy_ib_channel *c, struct fy_ib_qp *q)
{
    q->tag = (uint64_t)q->peer << 32;
    q->put = (struct ibv_send_wr){
        .sg_list = &q->data, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE, .send_flags = IBV_SEND_INLINE};
    q->put_set[0] = q->put_set[1] = q->put_add[0] = q->put;
    q->put_set[0].next = &q->put_set[1];
    q->put_set[1].sg_list = &q->set_data;
    q->set_data = (struct ibv_sge){.addr = (uintptr_t)&q->value, .length = 8};
    q->put_add[0].next = &q->put_add[1];
    q->put_add[1] = (struct ibv_send_wr){.sg_list = &q->add_data, .num_sge = 1, .opcode = IBV_WR_ATOMIC_FETCH_AND_ADD};
    q->add_data = (struct ibv_sge){.addr = (uintptr_t)c->dummy, .length = 8, .lkey = c->dummy_key};
    fy_ib_window(q);
}

static int finish(struct ferry_transport *t, struct fy_ib_channel *c, uint32_t peer, struct ferry_connect *io)
{
    struct fy_ib_qp *q = take_starting(c, peer);
    struct fy_ib_hello h;
    uint32_t reads;
    int rc = q ? read_hello(t, peer, io, &h) : FERRY_ERR_STATE;

    if (!rc)
        rc = fy_ib_qp_ready(t, q->rail, q->qp, &h, c->id);
    if (!rc) {
        int own = t->devices[q->device].attr.max_qp_init_rd_atom;
        if (t->options.rd_atomic && t->options.rd_atomic < own)
            own = t->options.rd_atomic;
        reads = h.rd_atomic < own ? h.rd_atomic : (uint32_t)own;
        rc = fy_ib_qp_send(t, q->qp, q->scratch_key, reads);
    }
    if (rc) {
        if (q)
            give_up(c, q);
        return rc;
    }
    q->target = h.device;
    q->scratch = h.scratch;
    q->scratch_key = h.scratch_key;
    prebuild(c, q);
    q->next = c->connected;
    __atomic_store_n(&c->connected, q, __ATOMIC_RELEASE); /* the channel's thread may be going through the list */
    __atomic_store_n(&c->qps[peer], q, __ATOMIC_RELEASE); /* query_error looks from any thread */
    t->core->log(t->core, FERRY_LOG_INFO, "channel %u to pe %u: %s:%u, queue pair 0x%x to 0x%x", c->id, peer,
                 t->devices[q->device].name, q->rail->port, q->qp->qp_num, h.qpn);
    return FERRY_OK;
}

/* ------------------------------------------------------------------ target */

/* An initiator with one device does native atomics: these must meet in one device of ours. */
static uint32_t serving_rail(const struct ferry_transport *t, const struct fy_ib_hello *h)
{
    uint32_t rail = h->rail % t->n_rails;

    return h->one_device && t->rails[rail].device != t->rails[0].device ? 0 : rail;
}

static void forget(struct ferry_transport *t, uint32_t peer, uint32_t channel, int all)
{
    struct fy_ib_passive *gone = NULL;

    pthread_mutex_lock(&t->lock);
    for (struct fy_ib_passive **at = &t->passive; *at;) {
        struct fy_ib_passive *p = *at;
        if (p->peer != peer || (!all && p->channel != channel)) {
            at = &p->next;
            continue;
        }
        *at = p->next;
        p->next = gone;
        gone = p;
    }
    pthread_mutex_unlock(&t->lock);
    while (gone) {
        struct fy_ib_passive *next = gone->next;
        ibv_destroy_qp(gone->qp);
        free(gone);
        gone = next;
    }
}

static int serve_steps(struct ferry_transport *t, uint32_t peer, uint32_t channel, struct fy_ib_rail *rail,
                       struct ibv_qp *qp, const struct fy_ib_hello *h)
{
    const char *bad = differ(rail, h->link_layer, h->global, h->gid_type, h->family);
    int rc;

    if (bad)
        return fy_ib_fail(t, peer, FERRY_ERR_UNREACHABLE, 0, "", "channel %u of pe %u cannot be served by %s:%u: %s",
                          channel, peer, t->devices[rail->device].name, rail->port, bad);
    rc = fy_ib_qp_init(t, rail, qp);
    return rc ? rc : fy_ib_qp_ready(t, rail, qp, h, channel);
}

static int serve(struct ferry_transport *t, uint32_t channel, uint32_t peer, struct ferry_connect *io)
{
    struct fy_ib_passive *p;
    struct fy_ib_hello h, mine;
    struct fy_ib_rail *rail;
    int rc = read_hello(t, peer, io, &h);

    if (rc)
        return rc;
    forget(t, peer, channel, 0); /* a second request replaces the first */
    rail = &t->rails[serving_rail(t, &h)];
    p = calloc(1, sizeof *p);
    if (!p)
        return fy_ib_fail(t, peer, FERRY_ERR_NOMEM, ENOMEM, "", "no memory to serve pe %u", peer);
    p->peer = peer;
    p->channel = channel;
    p->qp = fy_ib_qp_make_serving(t, rail);
    rc = p->qp ? serve_steps(t, peer, channel, rail, p->qp, &h) : FERRY_ERR_TRANSPORT;
    if (rc) {
        if (p->qp)
            ibv_destroy_qp(p->qp);
        free(p);
        return rc;
    }
    fy_ib_greet(t, (uint32_t)(rail - t->rails), p->qp, start_psn(), &mine);
    memcpy(io->out, &mine, sizeof mine);
    io->out_size = sizeof mine;
    pthread_mutex_lock(&t->lock);
    p->next = t->passive;
    t->passive = p;
    pthread_mutex_unlock(&t->lock);
    return FERRY_OK;
}

int fy_ib_connect(struct ferry_transport *t, uint32_t channel, uint32_t peer, struct ferry_connect *io)
{
    struct fy_ib_channel *c;
    int rc;

    io->out_size = 0;
    if (io->phase == FERRY_CONNECT_SERVE)
        return serve(t, channel, peer, io);
    rc = fy_ib_open_channel(t, channel);
    if (rc || peer >= t->n_pes)
        return rc ? rc : FERRY_ERR_ARG;
    c = t->channels[channel];
    if (c->qps[peer])
        return FERRY_OK;
    if (__atomic_load_n(&t->devices[c->device].failed, __ATOMIC_ACQUIRE))
        return fy_ib_fail(t, peer, FERRY_ERR_DEVICE, 0, "look at the kernel log", "RDMA device %s is lost",
                          t->devices[c->device].name);
    return io->phase == FERRY_CONNECT_START ? start(t, c, peer, io) : finish(t, c, peer, io);
}

/* The channel threads may be using the queue pairs: they are only put into the error state here, and go with the
 * channel. */
static void kill_initiators(struct ferry_transport *t, uint32_t peer)
{
    struct ibv_qp_attr attr;

    memset(&attr, 0, sizeof attr);
    attr.qp_state = IBV_QPS_ERR;
    for (uint32_t i = 0; i < t->max_channels; i++) {
        struct fy_ib_channel *c = t->channels[i];
        struct fy_ib_qp *q = c ? __atomic_load_n(&c->qps[peer], __ATOMIC_ACQUIRE) : NULL;
        if (!q)
            continue;
        fy_ib_qp_error(t, q, FERRY_ERR_PEER, 0, "the peer is gone", "");
        ibv_modify_qp(q->qp, &attr, IBV_QP_STATE);
    }
}

int fy_ib_disconnect(struct ferry_transport *t, uint32_t peer)
{
    if (peer >= t->n_pes)
        return FERRY_ERR_ARG;
    kill_initiators(t, peer);
    forget(t, peer, 0, 1);
    return FERRY_OK;
}

void fy_ib_passive_close(struct ferry_transport *t)
{
    while (t->passive)
        forget(t, t->passive->peer, 0, 1);
}
