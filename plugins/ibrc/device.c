/* SPDX-License-Identifier: Apache-2.0
 * Opens and closes the devices whose ports this PE uses. scan.c finds them, choose.c picks.
 * Setup thread. */
#include "devices.h"

#include <endian.h>
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The objects that every queue pair and region of a device need. NULL, or what failed, with errno. */
static const char *prepare(struct ferry_transport *t, struct fy_ib_device *d)
{
    errno = ibv_query_device(d->context, &d->attr); /* unlike the others it returns it */
    if (errno)
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
    char hint[192] = "look at the kernel log";
    int error;

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
    error = errno;
    if (error == ENOMEM)
        fy_ib_memlock_hint(hint, sizeof hint);
    return fy_ib_fail(t, -1, FERRY_ERR_DEVICE, error, hint, "RDMA device %s: cannot %s: %s", name, failed,
                      strerror(error));
}

int fy_ib_no_pkey(struct ibv_context *context, uint8_t port, int index)
{
    __be16 key;

    return ibv_query_pkey(context, port, index, &key) == 0 && (be16toh(key) & 0x7fff) == 0;
}

/* rdma_rxe would take any index, and devices take one whose place is empty. */
static int check_pkey(struct ferry_transport *t, const struct fy_ib_device *d, const struct fy_ib_rail *rail)
{
    int index = t->options.pkey_index, places = rail->attr.pkey_tbl_len;

    if (index < places && !fy_ib_no_pkey(d->context, rail->port, index))
        return FERRY_OK;
    return fy_ib_fail(t, -1, FERRY_ERR_CONFIG, 0, "see /sys/class/infiniband/*/ports/*/pkeys",
                      "port %s:%u: there is no partition key at index %d (FERRY_IBRC_PKEY_INDEX), the table has %d "
                      "places%s",
                      d->name, rail->port, index, places, index < places ? " and this one is empty" : "");
}

static int open_rail(struct ferry_transport *t, const struct fy_ib_port *f)
{
    struct fy_ib_rail *rail = &t->rails[t->n_rails];
    struct fy_ib_device *d;
    char why[200] = "";
    int rc = open_device(t, f->device, &rail->device);

    if (rc)
        return rc;
    d = &t->devices[rail->device];
    rail->port = f->port;
    rc = ibv_query_port(d->context, f->port, &rail->attr);
    if (rc)
        return fy_ib_fail(t, -1, FERRY_ERR_DEVICE, rc, "look at the kernel log", "cannot query port %s:%u: %s", d->name,
                          f->port, strerror(rc));
    rc = check_pkey(t, d, rail);
    if (rc)
        return rc;
    rc = fy_ib_gid(d->context, d->pd, &t->options, rail, why, sizeof why);
    if (rc)
        return fy_ib_fail(t, -1, rc, 0, "see ibv_devinfo -v for the GID table; FERRY_IBRC_GID_INDEX picks an entry",
                          "port %s:%u: %s", d->name, f->port, why);
    t->n_rails++;
    return FERRY_OK;
}

/* PEs before this one choose first: all compute the same. A core that does not know places has one PE here. */
static int open_rails(struct ferry_transport *t, const struct fy_ib_scan *s, const struct ferry_open *how)
{
    struct ferry_place alone = {.size = sizeof alone, .pe = t->my_pe};
    int known = how->size >= offsetof(struct ferry_open, my_place) + sizeof how->my_place && how->n_places;
    uint32_t me = known ? how->my_place : 0;
    struct fy_ib_choice *choices = calloc(me + 1, sizeof *choices), mine = {0};
    char why[256] = "";
    int rc;

    if (!choices)
        return fy_ib_fail(t, -1, FERRY_ERR_NOMEM, ENOMEM, "", "no memory for the ports of %u PEs", me + 1);
    rc = fy_ib_choose(s, known ? how->places : &alone, me + 1, choices, why, sizeof why);
    mine = choices[me];
    free(choices);
    if (rc)
        return fy_ib_fail(t, -1, rc, 0, "ferry-info --explain -n N shows the ports of N PEs", "%s", why);
    fy_ib_choice_text(&mine, t->why, sizeof t->why);
    for (uint32_t i = 0; i < mine.n && !rc; i++)
        rc = open_rail(t, &s->ports[mine.ports[i]]);
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

int fy_ib_devices_open(struct ferry_transport *t, const struct ferry_open *how)
{
    struct fy_ib_scan s;
    char why[256];
    int rc;

    fy_ib_scan(&s, t->core, &t->options, FERRY_LOG_INFO);
    if (!s.n_usable) {
        fy_ib_scan_none(&s, why, sizeof why);
        rc = fy_ib_fail(t, -1, FERRY_ERR_DEVICE, 0, "ferry-info --doctor says more", "%s", why);
    } else {
        if (t->my_pe == 0 && fy_ib_list_missing(&s, why, sizeof why)) /* once is enough */
            t->core->log(t->core, FERRY_LOG_WARN, "%s", why);
        rc = open_rails(t, &s, how);
    }
    fy_ib_scan_end(&s);
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
