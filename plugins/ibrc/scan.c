/* SPDX-License-Identifier: Apache-2.0
 * Looks for devices and ports that can be used, whatever their names; keeps the reason for those that cannot.
 * Setup thread. Opens each device for a moment and keeps none open. */
#include "devices.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static void keep(struct fy_ib_scan *s, struct ibv_device *device, unsigned port, const char *refused,
                 uint8_t link_layer, uint64_t subnet)
{
    struct fy_ib_port *p = &s->ports[s->n];

    if (refused)
        s->core->log(s->core, s->level, "skips %s:%u: %s", ibv_get_device_name(device), port, refused);
    if (s->n == FY_IB_PORTS) {
        s->core->log(s->core, s->level, "skips %s:%u: there are more than %d ports", ibv_get_device_name(device), port,
                     FY_IB_PORTS);
        return;
    }
    *p = (struct fy_ib_port){
        .device = device, .port = (uint8_t)port, .refused = refused, .link_layer = link_layer, .subnet = subnet};
    snprintf(p->name, sizeof p->name, "%.63s", ibv_get_device_name(device));
    s->n++;
    s->n_usable += !refused;
}

/* NULL: the port can be used. */
static const char *port_refused(struct ibv_context *context, uint8_t port, struct ibv_port_attr *attr)
{
    if (ibv_query_port(context, port, attr))
        return "cannot be queried";
    if (attr->state != IBV_PORT_ACTIVE)
        return "is down";
    if (attr->link_layer != IBV_LINK_LAYER_ETHERNET && attr->link_layer != IBV_LINK_LAYER_INFINIBAND &&
        attr->link_layer != IBV_LINK_LAYER_UNSPECIFIED)
        return "has a link layer that is not known";
    return NULL;
}

static void scan_ports(struct fy_ib_scan *s, struct ibv_device *device, struct ibv_context *context, unsigned n)
{
    for (unsigned port = 1; port <= n; port++) {
        struct ibv_port_attr attr = {0};
        const char *refused = "is not in FERRY_IBRC_DEVICES";
        uint64_t subnet = 0;
        if (fy_ib_listed(s->o->devices, ibv_get_device_name(device), port) == 1)
            refused = port_refused(context, (uint8_t)port, &attr);
        if (!refused)
            subnet = fy_ib_subnet(context, (uint8_t)port, &attr, s->o);
        keep(s, device, port, refused, attr.link_layer, subnet);
    }
}

static const char *not_opened(int error)
{
    if (error == EACCES || error == EPERM)
        return "may not be opened: check /dev/infiniband and cgroups";
    if (error == ENOENT || error == ENODEV || error == ENXIO)
        return "has no node in /dev/infiniband: load ib_uverbs, or pass the folder into the container";
    return "cannot be opened";
}

static void scan_device(struct fy_ib_scan *s, struct ibv_device *device)
{
    struct ibv_context *context;
    struct ibv_device_attr attr;

    if (device->transport_type != IBV_TRANSPORT_IB) {
        keep(s, device, 1, "is no InfiniBand or RoCE device", 0, 0);
        return;
    }
    context = ibv_open_device(device);
    if (!context) {
        keep(s, device, 1, not_opened(errno), 0, 0);
        return;
    }
    if (ibv_query_device(context, &attr))
        keep(s, device, 1, "cannot be queried", 0, 0);
    else
        scan_ports(s, device, context, attr.phys_port_cnt);
    ibv_close_device(context);
}

void fy_ib_scan(struct fy_ib_scan *s, const struct ferry_core *core, const struct fy_ib_options *o, int level)
{
    memset(s, 0, sizeof *s);
    s->core = core;
    s->o = o;
    s->level = level;
    s->list = ibv_get_device_list(&s->n_devices);
    for (int i = 0; s->list && i < s->n_devices; i++)
        scan_device(s, s->list[i]);
}

void fy_ib_scan_end(struct fy_ib_scan *s)
{
    if (s->list)
        ibv_free_device_list(s->list);
    s->list = NULL;
}

void fy_ib_scan_none(const struct fy_ib_scan *s, char *why, size_t why_size)
{
    char first[160] = "";
    size_t used;

    if (!s->list || s->n_devices <= 0) {
        snprintf(
            why, why_size,
            "no RDMA device: ibv_get_device_list and /sys/class/infiniband name none; load the NIC's driver (mlx5_ib, "
            "bnxt_re, rdma_rxe ...), install ibverbs-providers, or pass /dev/infiniband into the container");
        return;
    }
    if (fy_ib_list_missing(s, why, why_size))
        return;
    for (uint32_t i = 0; i < s->n; i++) {
        used = strlen(first);
        snprintf(first + used, sizeof first - used, "%s%s:%u %s", used ? ", " : "", s->ports[i].name, s->ports[i].port,
                 s->ports[i].refused);
    }
    snprintf(why, why_size, "no usable RDMA device: %s; see ferry-info --doctor and FERRY_IBRC_DEVICES", first);
}

int fy_ib_probe(const struct ferry_core *core, struct ferry_probe *out)
{
    struct fy_ib_options o = {0};
    struct fy_ib_scan s;
    int rc = fy_ib_options(core, &o, out->detail, sizeof out->detail);

    out->score = 60;
    if (rc)
        return rc;
    fy_ib_scan(&s, core, &o, FERRY_LOG_DEBUG);
    out->devices = s.n_usable;
    if (!s.n_usable)
        fy_ib_scan_none(&s, out->detail, sizeof out->detail);
    for (uint32_t i = 0; i < s.n && s.n_usable; i++) {
        if (s.ports[i].refused)
            continue;
        snprintf(out->detail, sizeof out->detail, "%u active port%s, first %.60s:%u", s.n_usable,
                 s.n_usable > 1 ? "s" : "", s.ports[i].name, s.ports[i].port);
        break;
    }
    fy_ib_scan_end(&s);
    return s.n_usable ? FERRY_OK : FERRY_ERR_DEVICE;
}
