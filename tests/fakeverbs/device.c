/* SPDX-License-Identifier: Apache-2.0
 * Devices, ports, addresses and events of the stand-in.
 * Any thread. */
#include "internal.h"

#include <endian.h>
#include <errno.h>
#include <stddef.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#undef ibv_get_device_list
#undef ibv_query_port

#define DEVICE(n)                                                                                                      \
    {                                                                                                                  \
        .name = "fake" #n, .node_type = IBV_NODE_CA, .transport_type = IBV_TRANSPORT_IB                                \
    }

static struct ibv_device table[DEVICES_MAX] = {DEVICE(0), DEVICE(1), DEVICE(2), DEVICE(3)};

struct ibv_device **ibv_get_device_list(int *n)
{
    struct ibv_device **list = calloc(DEVICES_MAX + 1, sizeof(struct ibv_device *));

    pthread_mutex_lock(&fv.lock);
    errno = fv_failing("get_device_list");
    if (errno) {
        pthread_mutex_unlock(&fv.lock);
        free(list);
        return NULL;
    }
    for (int i = 0; list && i < fv.devices; i++) {
        fv_shape_device(i, &table[i]);
        list[i] = &table[i];
    }
    if (n)
        *n = fv.devices;
    fv.counts.lists += list != NULL;
    pthread_mutex_unlock(&fv.lock);
    return list;
}

void ibv_free_device_list(struct ibv_device **list)
{
    pthread_mutex_lock(&fv.lock);
    fv.counts.lists--;
    pthread_mutex_unlock(&fv.lock);
    free(list);
}

const char *ibv_get_device_name(struct ibv_device *device)
{
    return device->name;
}

struct ibv_context *ibv_open_device(struct ibv_device *device)
{
    struct context *c = calloc(1, sizeof *c);
    int ends[2], error;

    pthread_mutex_lock(&fv.lock);
    error = !c ? ENOMEM : fv_failing("open_device");
    if (!error && pipe2(ends, O_CLOEXEC) != 0)
        error = errno;
    if (error) {
        pthread_mutex_unlock(&fv.lock);
        free(c);
        errno = error;
        return NULL;
    }
    c->device = (int)(device - table);
    c->write_fd = ends[1];
    c->v.context.device = device;
    c->v.context.async_fd = ends[0];
    c->v.context.abi_compat = (void *)(uintptr_t)UINTPTR_MAX; /* marks a verbs_context around it */
    c->v.sz = sizeof c->v;
    c->v.query_port = fv_query_port;
    c->v.create_qp_ex = fv_create_qp_ex;
    c->v.create_cq_ex = fv_create_cq_ex;
    c->v.alloc_td = fv_alloc_td;
    c->v.dealloc_td = fv_dealloc_td;
    c->v.alloc_parent_domain = fv_alloc_parent_domain;
    c->v.context.ops.post_send = fv_post_send;
    c->v.context.ops.poll_cq = fv_poll_cq;
    c->next = fv.contexts;
    fv.contexts = c;
    fv.counts.contexts++;
    pthread_mutex_unlock(&fv.lock);
    return &c->v.context;
}

int ibv_close_device(struct ibv_context *context)
{
    struct context *c = (struct context *)((char *)context - offsetof(struct context, v.context));

    pthread_mutex_lock(&fv.lock);
    for (struct context **at = &fv.contexts; *at; at = &(*at)->next)
        if (*at == c) {
            *at = c->next;
            break;
        }
    fv.counts.contexts--;
    pthread_mutex_unlock(&fv.lock);
    close(context->async_fd);
    close(c->write_fd);
    free(c);
    return 0;
}

int ibv_query_device(struct ibv_context *context, struct ibv_device_attr *attr)
{
    int error;

    (void)context;
    memset(attr, 0, sizeof *attr);
    pthread_mutex_lock(&fv.lock);
    error = fv_failing("query_device");
    attr->atomic_cap = fv.atomics;
    attr->max_mr_size = fv.max_mr;
    pthread_mutex_unlock(&fv.lock);
    attr->phys_port_cnt = 1;
    attr->max_qp_wr = 1024;
    attr->max_cqe = fv.entries ? fv.entries : 32767;
    attr->max_qp_rd_atom = attr->max_qp_init_rd_atom = 16;
    return error;
}

int fv_query_port(struct ibv_context *context, uint8_t port, struct ibv_port_attr *attr, size_t size)
{
    struct context *c = (struct context *)((char *)context - offsetof(struct context, v.context));
    int error;

    memset(attr, 0, size);
    pthread_mutex_lock(&fv.lock);
    error = port == 1 ? fv_failing("query_port") : EINVAL;
    attr->state = fv.port_state;
    attr->lid = (uint16_t)(1 + fv.address);
    attr->active_mtu = attr->max_mtu = IBV_MTU_4096;
    attr->gid_tbl_len = 4;
    attr->pkey_tbl_len = 1;
    attr->max_msg_sz = 1u << 23;
    attr->link_layer = IBV_LINK_LAYER_ETHERNET;
    fv_shape_port(c->device, attr);
    pthread_mutex_unlock(&fv.lock);
    return error;
}

int ibv_query_pkey(struct ibv_context *context, uint8_t port, int index, __be16 *pkey)
{
    int error;

    (void)context;
    pthread_mutex_lock(&fv.lock);
    error = port == 1 && index == 0 ? fv_failing("query_pkey") : EINVAL;
    *pkey = htobe16(fv.pkey);
    pthread_mutex_unlock(&fv.lock);
    errno = error;
    return error ? -1 : 0;
}

/* The old entry point, for callers without the macro. */
int ibv_query_port(struct ibv_context *context, uint8_t port, struct _compat_ibv_port_attr *attr);
int ibv_query_port(struct ibv_context *context, uint8_t port, struct _compat_ibv_port_attr *attr)
{
    struct ibv_port_attr whole;
    int error = fv_query_port(context, port, &whole, sizeof whole);

    memcpy(attr, &whole, offsetof(struct ibv_port_attr, port_cap_flags2));
    return error;
}

/* Places 0: link-local, 1: IPv4 as RoCE v2, 2: the same as v1. */
int _ibv_query_gid_ex(struct ibv_context *context, uint32_t port, uint32_t index, struct ibv_gid_entry *e,
                      uint32_t flags, size_t size)
{
    struct context *c = (struct context *)((char *)context - offsetof(struct context, v.context));
    int error, shaped;

    (void)flags;
    memset(e, 0, size);
    pthread_mutex_lock(&fv.lock);
    shaped = fv_shape_gid(c->device, index, e);
    error = shaped > 0 || (shaped < 0 && index < 3) ? fv_failing("query_gid") : ENODATA;
    pthread_mutex_unlock(&fv.lock);
    e->gid_index = index;
    e->port_num = port;
    if (shaped >= 0)
        return error;
    e->gid_type = index == 2 ? IBV_GID_TYPE_ROCE_V1 : IBV_GID_TYPE_ROCE_V2;
    if (index == 0) {
        e->gid.raw[0] = 0xfe;
        e->gid.raw[1] = 0x80;
    } else {
        e->gid.raw[10] = e->gid.raw[11] = 0xff;
        e->gid.raw[12] = 10;
    }
    e->gid.raw[15] = (uint8_t)(c->device + 1 + fv.address);
    return error;
}

/* Something of the context for the event to concern. */
static void concern(struct ibv_context *context, uint32_t qp_num, struct ibv_async_event *event)
{
    struct qp *found = NULL;

    for (uint32_t i = 0; i < TABLE_QPS; i++)
        if (fv.qps[i] && fv.qps[i]->v.context == context && (!qp_num || fv.qps[i]->v.qp_num == qp_num))
            found = fv.qps[i];
    if (event->event_type == IBV_EVENT_CQ_ERR)
        event->element.cq = found ? found->v.send_cq : NULL;
    else
        event->element.qp = found ? &found->v : NULL;
}

int ibv_get_async_event(struct ibv_context *context, struct ibv_async_event *event)
{
    struct fv_event message;

    if (read(context->async_fd, &message, sizeof message) != (ssize_t)sizeof message)
        return -1;
    memset(event, 0, sizeof *event);
    event->event_type = message.type;
    pthread_mutex_lock(&fv.lock);
    if (message.port)
        event->element.port_num = message.port;
    else
        concern(context, message.qp_num, event);
    fv.counts.events++;
    pthread_mutex_unlock(&fv.lock);
    return 0;
}

void ibv_ack_async_event(struct ibv_async_event *event)
{
    (void)event;
    pthread_mutex_lock(&fv.lock);
    fv.counts.events--;
    pthread_mutex_unlock(&fv.lock);
}
