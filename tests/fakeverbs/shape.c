/* SPDX-License-Identifier: Apache-2.0
 * What tests make of single devices of the stand-in: link layer, state, packet sizes, addresses.
 * Any thread, under the stand-in's lock. */
#include "internal.h"

#include <string.h>

static struct {
    int used;
    struct fakeverbs_shape s;
} shapes[DEVICES_MAX];

void fakeverbs_shape(int device, const struct fakeverbs_shape *shape)
{
    pthread_mutex_lock(&fv.lock);
    shapes[device].used = shape != NULL;
    if (shape)
        shapes[device].s = *shape;
    pthread_mutex_unlock(&fv.lock);
}

static const struct fakeverbs_shape *shape_of(int device)
{
    return device >= 0 && device < DEVICES_MAX && shapes[device].used ? &shapes[device].s : NULL;
}

void fv_shape_device(int device, struct ibv_device *v)
{
    const struct fakeverbs_shape *s = shape_of(device);

    enum ibv_transport_type type = s && s->other_kind ? IBV_TRANSPORT_IWARP : IBV_TRANSPORT_IB;

    if (v->transport_type != type)
        v->transport_type = type;
}

void fv_shape_port(int device, struct ibv_port_attr *attr)
{
    const struct fakeverbs_shape *s = shape_of(device);

    if (!s)
        return;
    if (s->state)
        attr->state = (enum ibv_port_state)s->state;
    if (s->link_layer)
        attr->link_layer = (uint8_t)s->link_layer;
    if (s->active_mtu)
        attr->active_mtu = (enum ibv_mtu)s->active_mtu;
    if (s->max_mtu)
        attr->max_mtu = (enum ibv_mtu)s->max_mtu;
    if (s->n_gids)
        attr->gid_tbl_len = FAKEVERBS_GIDS;
    attr->phys_state = (uint8_t)s->phys_state;
    attr->lid = (uint16_t)s->lid;
}

int fv_shape_gid(int device, uint32_t index, struct ibv_gid_entry *e)
{
    const struct fakeverbs_shape *s = shape_of(device);

    if (!s || !s->n_gids)
        return -1;
    if (index >= (uint32_t)s->n_gids)
        return 0;
    memcpy(e->gid.raw, s->gids[index].raw, 16);
    e->gid_type = (uint32_t)s->gids[index].type;
    e->ndev_ifindex = s->gids[index].interface;
    return 1;
}

int fv_shape_silent(int device, uint32_t index)
{
    const struct fakeverbs_shape *s = shape_of(device);

    return s && index < (uint32_t)s->n_gids && s->gids[index].silent;
}
