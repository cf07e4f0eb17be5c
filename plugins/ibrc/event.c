/* SPDX-License-Identifier: Apache-2.0
 * Asynchronous events of the devices: what they mean, and what follows.
 * Control thread; start and stop: setup thread. */
#include "ibrc.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>

static void report(struct fy_ib_device *d, int status, const char *message, const char *hint)
{
    struct ferry_error e = {.size = sizeof e, .status = status, .peer = -1, .channel = -1, .operation = -1};

    snprintf(e.device, sizeof e.device, "%.63s", d->name);
    snprintf(e.message, sizeof e.message, "RDMA device %s: %s", d->name, message);
    snprintf(e.hint, sizeof e.hint, "%s", hint);
    d->t->core->error(d->t->core, &e);
}

/* ------------------------------------------------------------------ ports */

struct fy_ib_address fy_ib_address(struct ferry_transport *t, const struct fy_ib_rail *rail)
{
    struct fy_ib_address a;

    pthread_mutex_lock(&t->lock);
    a = (struct fy_ib_address){
        .gid = rail->gid, .gid_index = rail->gid_index, .lid = rail->attr.lid, .mtu = rail->attr.active_mtu};
    pthread_mutex_unlock(&t->lock);
    return a;
}

/* Connections made from now on use what the port has now; those that exist keep what they were made with. */
static void look_again(struct fy_ib_device *d, struct fy_ib_rail *rail, const char *what)
{
    struct ferry_transport *t = d->t;
    struct fy_ib_rail now = *rail; /* only this thread writes it */
    char why[200] = "the port cannot be queried";
    int same, failed = ibv_query_port(d->context, rail->port, &now.attr) ||
                       fy_ib_gid(d->context, d->pd, &t->options, &now, why, sizeof why);

    if (!failed && (now.gid_type != rail->gid_type || now.family != rail->family)) {
        snprintf(why, sizeof why, "its addresses are of another kind now");
        failed = 1;
    }
    if (failed) {
        t->core->log(t->core, FERRY_LOG_WARN, "port %s:%u %s, but %s: connections are made with its old address",
                     d->name, rail->port, what, why);
        return;
    }
    same = now.attr.lid == rail->attr.lid && now.gid_index == rail->gid_index &&
           memcmp(&now.gid, &rail->gid, sizeof now.gid) == 0;
    pthread_mutex_lock(&t->lock); /* the setup thread connects */
    rail->attr.lid = now.attr.lid;
    rail->attr.active_mtu = now.attr.active_mtu;
    rail->gid = now.gid;
    rail->gid_index = now.gid_index;
    pthread_mutex_unlock(&t->lock);
    if (same)
        t->core->log(t->core, FERRY_LOG_INFO, "port %s:%u %s: its address is the same", d->name, rail->port, what);
    else
        t->core->log(t->core, FERRY_LOG_WARN,
                     "port %s:%u %s: from now on connections use lid %u and gid index %u; those to the old address are "
                     "lost",
                     d->name, rail->port, what, now.attr.lid, now.gid_index);
}

static void went_down(struct fy_ib_device *d, struct fy_ib_rail *rail)
{
    __atomic_store_n(&rail->down, 1, __ATOMIC_RELEASE); /* for the records of what fails now */
    d->t->core->log(d->t->core, FERRY_LOG_WARN,
                    "port %s:%u went down: operations through it fail unless it comes back in time", d->name,
                    rail->port);
}

static void came_up(struct fy_ib_device *d, struct fy_ib_rail *rail)
{
    __atomic_store_n(&rail->down, 0, __ATOMIC_RELEASE);
    d->t->core->log(d->t->core, FERRY_LOG_WARN, "port %s:%u is up", d->name, rail->port);
    look_again(d, rail, "is up");
}

/* What happened to a port, NULL: it is no event of ports. */
static const char *port_change(enum ibv_event_type type)
{
    switch (type) {
    case IBV_EVENT_PORT_ERR:
        return "went down";
    case IBV_EVENT_PORT_ACTIVE:
        return "is up";
    case IBV_EVENT_LID_CHANGE:
        return "has another lid";
    case IBV_EVENT_GID_CHANGE:
        return "has another table of gids";
    case IBV_EVENT_PKEY_CHANGE:
        return "has another table of partition keys";
    case IBV_EVENT_SM_CHANGE:
        return "has another subnet manager";
    case IBV_EVENT_CLIENT_REREGISTER:
        return "was asked by the subnet manager to register again";
    default:
        return NULL;
    }
}

static void pkeys_changed(struct fy_ib_device *d, struct fy_ib_rail *rail, const char *what)
{
    int index = d->t->options.pkey_index;

    if (fy_ib_no_pkey(d->context, rail->port, index))
        d->t->core->log(
            d->t->core, FERRY_LOG_WARN,
            "port %s:%u %s, and none at index %d (FERRY_IBRC_PKEY_INDEX): what goes through it will be lost, "
            "ask the subnet manager for the partition",
            d->name, rail->port, what, index);
    else
        look_again(d, rail, what);
}

static void port_event(struct fy_ib_device *d, enum ibv_event_type type, int port, const char *what)
{
    int used = 0;

    for (uint32_t i = 0; i < d->t->n_rails; i++) {
        struct fy_ib_rail *rail = &d->t->rails[i];
        if (&d->t->devices[rail->device] != d || rail->port != port)
            continue;
        used = 1;
        if (type == IBV_EVENT_PORT_ERR)
            went_down(d, rail);
        else if (type == IBV_EVENT_PORT_ACTIVE)
            came_up(d, rail);
        else if (type == IBV_EVENT_PKEY_CHANGE)
            pkeys_changed(d, rail, what);
        else
            look_again(d, rail, what);
    }
    if (!used)
        d->t->core->log(d->t->core, FERRY_LOG_DEBUG, "port %s:%d, which is not in use, %s", d->name, port, what);
}

/* ------------------------------------------------------------------ queues, and the whole device */

/* Those that concern only one queue pair. */
static const struct trouble {
    enum ibv_event_type type;
    int status;
    const char *what, *hint; /* of the half that serves a peer */
} troubles[] = {
    {IBV_EVENT_QP_FATAL, FERRY_ERR_TRANSPORT, "failed in the device", "look at the kernel log"},
    {IBV_EVENT_QP_REQ_ERR, FERRY_ERR_TRANSPORT, "got a request that it does not allow",
     "is the peer of the same build? look at the kernel log"},
    {IBV_EVENT_QP_ACCESS_ERR, FERRY_ERR_ACCESS, "was to reach memory that it may not",
     "was memory freed while a peer used it? the peer's record says which operation it was"},
};

static int is_qp(const struct fy_ib_qp *q, const void *qp)
{
    return q->qp == qp;
}

static int has_cq(const struct fy_ib_qp *q, const void *cq)
{
    return q->qp->send_cq == cq;
}

static int on_device(const struct fy_ib_qp *q, const void *device)
{
    return &q->owner->t->devices[q->device] == device;
}

/* The peer that it serves; -1: none that is known. */
static int64_t served(struct ferry_transport *t, const struct ibv_qp *qp)
{
    int64_t peer = -1;

    pthread_mutex_lock(&t->lock);
    for (struct fy_ib_passive *p = t->passive; p; p = p->next)
        if (p->qp == qp)
            peer = p->peer;
    pthread_mutex_unlock(&t->lock);
    return peer;
}

static void qp_event(struct fy_ib_device *d, const struct trouble *m, const struct ibv_qp *qp)
{
    struct ferry_transport *t = d->t;
    struct ferry_error e;
    int64_t peer;

    if (fy_ib_lost(t, is_qp, qp, m->status, m->what, "look at the kernel log", &e)) {
        t->core->error(t->core, &e);
        return;
    }
    peer = served(t, qp);
    e = (struct ferry_error){
        .size = sizeof e, .status = m->status, .peer = (int32_t)peer, .channel = -1, .operation = -1};
    snprintf(e.device, sizeof e.device, "%.63s", d->name);
    if (peer >= 0)
        snprintf(e.message, sizeof e.message, "RDMA device %s: queue pair 0x%x, which serves pe %u, %s", d->name,
                 qp->qp_num, (unsigned)peer, m->what);
    else
        snprintf(e.message, sizeof e.message, "RDMA device %s: queue pair 0x%x %s", d->name, qp->qp_num, m->what);
    snprintf(e.hint, sizeof e.hint, "%s", m->hint);
    t->core->error(t->core, &e);
}

static void cq_event(struct fy_ib_device *d, const struct ibv_cq *cq)
{
    struct ferry_error e;

    if (fy_ib_lost(d->t, has_cq, cq, FERRY_ERR_DEVICE, "its completion queue overflowed or failed",
                   "look at the kernel log; if that says nothing, it is a fault of ferry", &e))
        d->t->core->error(d->t->core, &e);
    else
        report(d, FERRY_ERR_DEVICE, "a completion queue that serves peers failed", "look at the kernel log");
}

static void device_event(struct fy_ib_device *d)
{
    struct ferry_error e;

    __atomic_store_n(&d->failed, 1, __ATOMIC_RELEASE); /* no more connections by it */
    fy_ib_lost(d->t, on_device, d, FERRY_ERR_DEVICE, "the device is lost",
               "look at the kernel log; the job cannot use the device any more", &e);
    report(d, FERRY_ERR_DEVICE, "fatal error: the device is lost",
           "look at the kernel log; the job cannot use the device any more");
}

static void handle(struct fy_ib_device *d, const struct ibv_async_event *event)
{
    const char *port = port_change(event->event_type);

    if (port) {
        port_event(d, event->event_type, event->element.port_num, port);
        return;
    }
    for (size_t i = 0; i < sizeof troubles / sizeof troubles[0]; i++)
        if (troubles[i].type == event->event_type) {
            qp_event(d, &troubles[i], event->element.qp);
            return;
        }
    if (event->event_type == IBV_EVENT_CQ_ERR)
        cq_event(d, event->element.cq);
    else if (event->event_type == IBV_EVENT_DEVICE_FATAL)
        device_event(d);
    else if (event->event_type == IBV_EVENT_PATH_MIG || event->event_type == IBV_EVENT_PATH_MIG_ERR)
        d->t->core->log(d->t->core, FERRY_LOG_WARN,
                        "RDMA device %s: %s for queue pair 0x%x, though ferry gives it one path only", d->name,
                        ibv_event_type_str(event->event_type), event->element.qp->qp_num);
    else
        d->t->core->log(d->t->core, FERRY_LOG_DEBUG, "RDMA device %s: %s, which needs no answer", d->name,
                        ibv_event_type_str(event->event_type));
}

static void readable(void *arg)
{
    struct fy_ib_device *d = arg;
    struct ibv_async_event event;

    while (ibv_get_async_event(d->context, &event) == 0) {
        handle(d, &event);
        ibv_ack_async_event(&event);
    }
}

int fy_ib_events_start(struct ferry_transport *t)
{
    for (uint32_t i = 0; i < t->n_devices; i++) {
        struct fy_ib_device *d = &t->devices[i];
        int flags = fcntl(d->context->async_fd, F_GETFL);
        if (d->watched)
            continue;
        if (flags < 0 || fcntl(d->context->async_fd, F_SETFL, flags | O_NONBLOCK) != 0 ||
            t->core->watch_fd(t->core, d->context->async_fd, readable, d) != FERRY_OK)
            return fy_ib_fail(t, -1, FERRY_ERR_SYSTEM, 0, "", "cannot watch the events of RDMA device %s", d->name);
        d->watched = 1;
    }
    return FERRY_OK;
}

void fy_ib_events_stop(struct ferry_transport *t)
{
    for (uint32_t i = 0; i < t->n_devices; i++) {
        struct fy_ib_device *d = &t->devices[i];
        if (d->watched)
            t->core->unwatch_fd(t->core, d->context->async_fd);
        d->watched = 0;
    }
}
