/* SPDX-License-Identifier: Apache-2.0
 * Devices and ports: looking for usable ones, choosing, opening and closing them.
 * Setup thread. Probing opens each device for a moment and keeps none. */
#include "ibrc.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FOUND_MAX 64

struct found {
    struct ibv_device *device;
    uint8_t port;
};

struct scan {
    const struct ferry_core *core;
    const char *list;
    uint32_t n;
    struct found ports[FOUND_MAX];
    char skipped[192]; /* the first reasons */
};

static void skip(struct scan *s, const char *device, unsigned port, const char *reason)
{
    size_t used = strlen(s->skipped);

    snprintf(s->skipped + used, sizeof s->skipped - used, "%s%s:%u %s", used ? ", " : "", device, port, reason);
    s->core->log(s->core, FERRY_LOG_DEBUG, "skips %s:%u: %s", device, port, reason);
}

/* NULL: the port can be used. */
static const char *port_refused(struct ibv_context *context, uint8_t port)
{
    struct ibv_port_attr attr;

    if (ibv_query_port(context, port, &attr))
        return "cannot be queried";
    if (attr.state != IBV_PORT_ACTIVE)
        return "is down";
    if (attr.link_layer != IBV_LINK_LAYER_ETHERNET && attr.link_layer != IBV_LINK_LAYER_INFINIBAND &&
        attr.link_layer != IBV_LINK_LAYER_UNSPECIFIED)
        return "has a link layer that is not known";
    return NULL;
}

static void scan_device(struct scan *s, struct ibv_device *device)
{
    const char *name = ibv_get_device_name(device);
    struct ibv_context *context;
    struct ibv_device_attr attr;

    if (device->transport_type != IBV_TRANSPORT_IB) {
        skip(s, name, 1, "is no InfiniBand or RoCE device");
        return;
    }
    context = ibv_open_device(device);
    if (!context) {
        skip(s, name, 1,
             errno == EACCES || errno == EPERM ? "may not be opened: check /dev/infiniband and cgroups"
                                               : "cannot be opened");
        return;
    }
    if (ibv_query_device(context, &attr)) {
        skip(s, name, 1, "cannot be queried");
        attr.phys_port_cnt = 0;
    }
    for (uint8_t port = 1; port <= attr.phys_port_cnt; port++) {
        int listed = fy_ib_listed(s->list, name, port);
        const char *refused = listed == 1 ? port_refused(context, port) : "is not in FERRY_IBRC_DEVICES";
        if (refused)
            skip(s, name, port, refused);
        else if (s->n < FOUND_MAX)
            s->ports[s->n++] = (struct found){device, port};
    }
    ibv_close_device(context);
}

static void scan(struct scan *s, struct ibv_device **devices, int n)
{
    for (int i = 0; i < n; i++)
        scan_device(s, devices[i]);
}

static void say_none(const struct scan *s, int n, char *out, size_t size)
{
    if (n <= 0)
        snprintf(
            out, size,
            "no RDMA device: ibv_get_device_list and /sys/class/infiniband name none; load the NIC's driver (mlx5_ib, "
            "bnxt_re, rdma_rxe ...), install ibverbs-providers, or pass /dev/infiniband into the container");
    else
        snprintf(out, size, "no usable RDMA device: %s; see ibv_devinfo and FERRY_IBRC_DEVICES", s->skipped);
}

int fy_ib_probe(const struct ferry_core *core, struct ferry_probe *out)
{
    struct fy_ib_options o = {0};
    struct scan s = {.core = core};
    struct ibv_device **devices;
    int n = 0, rc = fy_ib_options(core, &o, out->detail, sizeof out->detail);

    out->score = 60;
    if (rc)
        return rc;
    s.list = o.devices;
    devices = ibv_get_device_list(&n);
    if (devices) {
        scan(&s, devices, n);
        out->devices = s.n;
        if (s.n)
            snprintf(out->detail, sizeof out->detail, "%u active port%s, first %.60s:%u", s.n, s.n > 1 ? "s" : "",
                     ibv_get_device_name(s.ports[0].device), s.ports[0].port);
        ibv_free_device_list(devices);
    }
    if (s.n)
        return FERRY_OK;
    say_none(&s, devices ? n : 0, out->detail, sizeof out->detail);
    return FERRY_ERR_DEVICE;
}

/* ------------------------------------------------------------------ opening */

/* The objects that every queue pair and region of a device need. NULL, or what failed, with errno. */
static const char *prepare(struct ferry_transport *t, struct fy_ib_device *d)
{
    if (ibv_query_device(d->context, &d->attr))
        return "query the device";
    d->pd = ibv_alloc_pd(d->context);
    if (!d->pd)
        return "allocate a protection domain";
    d->idle_cq = ibv_create_cq(d->context, 16, NULL, NULL, 0);
    if (!d->idle_cq)
        return "create a completion queue";
    d->scratch_mr = ibv_reg_mr(d->pd, t->scratch, 4096, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
    return d->scratch_mr ? NULL : "register a page of memory";
}

static int open_device(struct ferry_transport *t, struct ibv_device *device, uint32_t *index)
{
    const char *name = ibv_get_device_name(device), *failed;
    struct fy_ib_device *d;

    for (uint32_t i = 0; i < t->n_devices; i++)
        if (strcmp(t->devices[i].name, name) == 0)
            return *index = i, FERRY_OK;
    d = &t->devices[t->n_devices];
    d->context = ibv_open_device(device);
    if (!d->context)
        return fy_ib_fail(t, -1, FERRY_ERR_DEVICE, errno, "check the rights on /dev/infiniband and the device cgroup",
                          "cannot open RDMA device %s: %s", name, strerror(errno));
    *index = t->n_devices++;
    snprintf(d->name, sizeof d->name, "%.63s", name);
    d->t = t;
    failed = prepare(t, d);
    if (!failed)
        return FERRY_OK;
    return fy_ib_fail(t, -1, FERRY_ERR_DEVICE, errno,
                      errno == ENOMEM ? "raise RLIMIT_MEMLOCK: ulimit -l unlimited" : "look at the kernel log",
                      "RDMA device %s: cannot %s: %s", name, failed, strerror(errno));
}

static int open_rail(struct ferry_transport *t, const struct found *f)
{
    struct fy_ib_rail *rail = &t->rails[t->n_rails];
    struct fy_ib_device *d;
    char why[200] = "";
    int rc = open_device(t, f->device, &rail->device);

    if (rc)
        return rc;
    d = &t->devices[rail->device];
    rail->port = f->port;
    if (ibv_query_port(d->context, f->port, &rail->attr))
        return fy_ib_fail(t, -1, FERRY_ERR_DEVICE, errno, "look at the kernel log", "cannot query port %s:%u", d->name,
                          f->port);
    if (t->options.pkey_index >= rail->attr.pkey_tbl_len) /* rdma_rxe would take any */
        return fy_ib_fail(
            t, -1, FERRY_ERR_CONFIG, 0, "see /sys/class/infiniband/*/ports/*/pkeys",
            "port %s:%u: there is no partition key at index %d (FERRY_IBRC_PKEY_INDEX), the table has %u places",
            d->name, f->port, t->options.pkey_index, rail->attr.pkey_tbl_len);
    rc = fy_ib_gid(d->context, d->pd, &t->options, rail, why, sizeof why);
    if (rc)
        return fy_ib_fail(t, -1, rc, 0, "see ibv_devinfo -v for the GID table; FERRY_IBRC_GID_INDEX picks an entry",
                          "port %s:%u: %s", d->name, f->port, why);
    t->n_rails++;
    return FERRY_OK;
}

/* Ports in turn, from one that depends on the PE where PEs are to spread. */
static int open_rails(struct ferry_transport *t, const struct scan *s)
{
    uint32_t want = t->options.rails ? (uint32_t)t->options.rails : s->n;
    uint32_t first = t->options.spread ? t->my_pe * want : 0;
    int rc = FERRY_OK;

    if (want > s->n)
        want = s->n;
    if (want > FY_IB_RAILS)
        want = FY_IB_RAILS;
    if (want == s->n)
        first = 0; /* rail i of one PE meets rail i of another */
    for (uint32_t i = 0; i < want && !rc; i++)
        rc = open_rail(t, &s->ports[(first + i) % s->n]);
    return rc;
}

static void limits(struct ferry_transport *t)
{
    t->depth = t->options.depth;
    t->message_max = (size_t)1 << 30;
    t->atomics = t->n_devices == 1 && t->devices[0].attr.atomic_cap != IBV_ATOMIC_NONE;
    for (uint32_t i = 0; i < t->n_rails; i++) {
        const struct fy_ib_rail *r = &t->rails[i];
        const struct ibv_device_attr *a = &t->devices[r->device].attr;
        if (a->max_qp_wr > 2 && t->depth > (uint32_t)a->max_qp_wr - 1)
            t->depth = (uint32_t)a->max_qp_wr - 1;
        if (r->attr.max_msg_sz && t->message_max > r->attr.max_msg_sz)
            t->message_max = r->attr.max_msg_sz;
    }
    fy_ib_chunks(t);
}

int fy_ib_devices_open(struct ferry_transport *t)
{
    struct scan s = {.core = t->core, .list = t->options.devices};
    int n = 0, rc;
    struct ibv_device **devices = ibv_get_device_list(&n);

    if (devices)
        scan(&s, devices, n);
    if (!s.n) {
        char why[256];
        say_none(&s, devices ? n : 0, why, sizeof why);
        rc = fy_ib_fail(t, -1, FERRY_ERR_DEVICE, 0, "", "%s", why);
    } else {
        rc = open_rails(t, &s);
    }
    if (devices)
        ibv_free_device_list(devices);
    if (!rc)
        limits(t);
    return rc;
}

void fy_ib_devices_close(struct ferry_transport *t)
{
    for (uint32_t i = 0; i < t->n_devices; i++) {
        struct fy_ib_device *d = &t->devices[i];
        if (d->scratch_mr)
            ibv_dereg_mr(d->scratch_mr);
        if (d->idle_cq)
            ibv_destroy_cq(d->idle_cq);
        if (d->pd)
            ibv_dealloc_pd(d->pd);
        ibv_close_device(d->context);
    }
    t->n_devices = 0;
}
