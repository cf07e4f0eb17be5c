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

static void port_event(struct fy_ib_device *d, const struct ibv_async_event *event, const char *what)
{
    d->t->core->log(d->t->core, FERRY_LOG_WARN, "port %s:%d %s", d->name, event->element.port_num, what);
}

static void handle(struct fy_ib_device *d, const struct ibv_async_event *event)
{
    char text[160];

    switch (event->event_type) {
    case IBV_EVENT_PORT_ERR:
        port_event(d, event, "went down: operations through it fail unless it comes back in time");
        break;
    case IBV_EVENT_PORT_ACTIVE:
        port_event(d, event, "is up");
        break;
    case IBV_EVENT_LID_CHANGE:
    case IBV_EVENT_GID_CHANGE:
    case IBV_EVENT_PKEY_CHANGE:
    case IBV_EVENT_SM_CHANGE:
        port_event(d, event, "has new addresses: connections made before may be stale");
        break;
    case IBV_EVENT_QP_FATAL:
    case IBV_EVENT_QP_REQ_ERR:
    case IBV_EVENT_QP_ACCESS_ERR:
        snprintf(text, sizeof text, "queue pair 0x%x failed (%s)", event->element.qp->qp_num,
                 ibv_event_type_str(event->event_type));
        report(d, FERRY_ERR_TRANSPORT, text,
               "a peer sent what this PE may not serve, or the device failed; see the kernel log");
        break;
    case IBV_EVENT_CQ_ERR:
        report(d, FERRY_ERR_TRANSPORT, "a completion queue overflowed or failed", "report this as a fault of ferry");
        break;
    case IBV_EVENT_DEVICE_FATAL:
        __atomic_store_n(&d->failed, 1, __ATOMIC_RELEASE);
        report(d, FERRY_ERR_DEVICE, "fatal error: the device is lost",
               "look at the kernel log; the job cannot use it any more");
        break;
    default:
        d->t->core->log(d->t->core, FERRY_LOG_DEBUG, "%s: %s", d->name, ibv_event_type_str(event->event_type));
    }
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
