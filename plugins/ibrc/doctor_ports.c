/* SPDX-License-Identifier: Apache-2.0
 * ferry-info --doctor, port by port: state, address, packet size against the interface's, atomics; and what GPU memory
 * needs. Setup thread; opens devices for a moment and keeps none open. */
#include "doctor.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ROCE_OVERHEAD 96   /* headers of a RoCE v2 packet, as the kernel reckons them */
#define MTU_FOR_4096  4200 /* what vendors and the kernel's documents name */

/* ------------------------------------------------------------------ ports that cannot be used */

static const char *down_advice(const struct ibv_port_attr *a)
{
    if (a->link_layer == IBV_LINK_LAYER_ETHERNET)
        return "ip link set the interface up; check the cable and the switch";
    if (a->phys_state == 5) /* LinkUp */
        return "the link is up but no subnet manager has configured it: start opensm, or the switch's";
    return "check the cable and the switch; ibstat shows the physical state";
}

static void unusable(const struct fy_ib_doctor *d, const struct fy_ib_port *p, const char *object)
{
    struct ibv_context *context = ibv_open_device(p->device);
    struct ibv_port_attr attr = {0};
    int listed = fy_ib_listed(d->s.o->devices, p->name, p->port);

    if (listed != 1)
        fy_ib_tell(d, FERRY_FINDING_OK, object, "", "left out: it %s", p->refused);
    else if (context && !ibv_query_port(context, p->port, &attr) && attr.state != IBV_PORT_ACTIVE)
        fy_ib_tell(d, FERRY_FINDING_WARNING, object, down_advice(&attr),
                   "skipped: it %s (port state %d, physical state %d)", p->refused, attr.state, attr.phys_state);
    else
        fy_ib_tell(d, FERRY_FINDING_WARNING, object, "see ibv_devinfo -v and the kernel log", "skipped: it %s",
                   p->refused);
    if (context)
        ibv_close_device(context);
}

/* ------------------------------------------------------------------ addresses and packet sizes */

static void check_address(const struct fy_ib_doctor *d, const struct fy_ib_rail *rail, const char *object)
{
    char text[128];

    fy_ib_address_text(rail, text, sizeof text);
    if (rail->attr.link_layer == IBV_LINK_LAYER_ETHERNET && rail->gid_type == IBV_GID_TYPE_ROCE_V1)
        fy_ib_tell(d, FERRY_FINDING_WARNING, object, "give the interface an IP address, or set the NIC to RoCE v2",
                   "active; %s: version 1 is not routed", text);
    else if (rail->attr.link_layer == IBV_LINK_LAYER_ETHERNET && rail->gid.raw[0] == 0xfe)
        fy_ib_tell(d, FERRY_FINDING_WARNING, object, "give the interface an IP address",
                   "active; %s: a link-local address, which no router forwards", text);
    else if (rail->attr.link_layer == IBV_LINK_LAYER_INFINIBAND && !rail->attr.lid)
        fy_ib_tell(d, FERRY_FINDING_PROBLEM, object, "start a subnet manager: opensm, or the switch's",
                   "active, but has no LID");
    else
        fy_ib_tell(d, FERRY_FINDING_OK, object, "", "active; %s", text);
}

static int interface_mtu(const struct fy_ib_doctor *d, const struct fy_ib_port *p, const struct fy_ib_rail *rail,
                         char *name, size_t size)
{
    char line[32];

    if (!fy_ib_read(d, name, size, "/sys/class/infiniband/%s/ports/%u/gid_attrs/ndevs/%u", p->name, p->port,
                    rail->gid_index))
        return 0;
    return fy_ib_read(d, line, sizeof line, "/sys/class/net/%s/mtu", name) ? atoi(line) : 0;
}

static void check_roce_mtu(const struct fy_ib_doctor *d, const struct fy_ib_port *p, const struct fy_ib_rail *rail,
                           const char *object)
{
    int mtu = d->s.o->mtu ? d->s.o->mtu : (int)rail->attr.active_mtu;
    int bytes = 128 << mtu, most = 128 << rail->attr.max_mtu, whole;
    char name[64], advice[160];

    whole = interface_mtu(d, p, rail, name, sizeof name);
    if (!whole) {
        fy_ib_tell(d, FERRY_FINDING_OK, object, "", "packets carry %d bytes; its interface is not known", bytes);
        return;
    }
    snprintf(advice, sizeof advice,
             "ip link set dev %.20s mtu %d, on every host, and as much on the switches; 4096 bytes need 4200", name,
             MTU_FOR_4096);
    if (bytes + ROCE_OVERHEAD > whole)
        fy_ib_tell(d, FERRY_FINDING_PROBLEM, object, advice,
                   "packets carry %d bytes, which with their headers exceed the %d of interface %s: they are lost",
                   bytes, whole, name);
    else if (bytes < most && whole < MTU_FOR_4096)
        fy_ib_tell(d, FERRY_FINDING_WARNING, object, advice,
                   "packets carry %d of at most %d bytes, since interface %s has an MTU of %d", bytes, most, name,
                   whole);
    else
        fy_ib_tell(d, FERRY_FINDING_OK, object, "", "packets carry %d bytes, interface %s has an MTU of %d", bytes,
                   name, whole);
}

static void check_mtu(const struct fy_ib_doctor *d, const struct fy_ib_port *p, const struct fy_ib_rail *rail,
                      const char *object)
{
    if (rail->attr.link_layer == IBV_LINK_LAYER_ETHERNET)
        check_roce_mtu(d, p, rail, object);
    else if (rail->attr.active_mtu < rail->attr.max_mtu)
        fy_ib_tell(d, FERRY_FINDING_WARNING, object, "raise the MTU of the partition in the subnet manager",
                   "packets carry %d of at most %d bytes", 128 << rail->attr.active_mtu, 128 << rail->attr.max_mtu);
    else
        fy_ib_tell(d, FERRY_FINDING_OK, object, "", "packets carry %d bytes", 128 << rail->attr.active_mtu);
}

/* The key as the kernel shows it: 0x7fff, or 0x0000 of a place that is empty. */
static void check_pkey(const struct fy_ib_doctor *d, const struct fy_ib_port *p, const struct fy_ib_rail *rail,
                       const char *object)
{
    int index = d->s.o->pkey_index, places = rail->attr.pkey_tbl_len, empty;
    char line[32];

    empty = fy_ib_read(d, line, sizeof line, "/sys/class/infiniband/%s/ports/%u/pkeys/%d", p->name, p->port, index) &&
            (strtoul(line, NULL, 16) & 0x7fff) == 0;
    if (index >= places || empty)
        fy_ib_tell(d, FERRY_FINDING_PROBLEM, object, "see /sys/class/infiniband/*/ports/*/pkeys",
                   "there is no partition key at index %d (FERRY_IBRC_PKEY_INDEX), the table has %d places%s", index,
                   places, index < places ? " and this one is empty" : "");
}

static void usable(const struct fy_ib_doctor *d, const struct fy_ib_port *p, const char *object)
{
    struct fy_ib_rail rail;
    char why[200] = "", mtu[96];
    int rc = fy_ib_look(&d->s, p, &rail, why, sizeof why);

    if (rc) {
        fy_ib_tell(d, FERRY_FINDING_PROBLEM, object,
                   rc == FERRY_ERR_SYSTEM
                       ? "see the kernel log, rdma.max of the cgroup and ulimit -n, or leave the port out: "
                         "FERRY_IBRC_DEVICES"
                       : "give the interface an address and set it up, or leave the port out: FERRY_IBRC_DEVICES; "
                         "FERRY_IBRC_GID_INDEX names an entry",
                   "active, but %s", why);
        return;
    }
    check_address(d, &rail, object);
    check_pkey(d, p, &rail, object);
    snprintf(mtu, sizeof mtu, "%s MTU", object);
    check_mtu(d, p, &rail, mtu);
}

static void check_atomics(const struct fy_ib_doctor *d, const struct fy_ib_port *p)
{
    struct ibv_context *context = ibv_open_device(p->device);
    struct ibv_device_attr attr;

    if (context && !ibv_query_device(context, &attr)) {
        if (attr.atomic_cap == IBV_ATOMIC_NONE)
            fy_ib_tell(d, FERRY_FINDING_WARNING, p->name, "nothing to do; atomics and signals are slower",
                       "the device has no atomics: the targets' CPUs do them");
        else
            fy_ib_tell(d, FERRY_FINDING_OK, p->name, "", "has atomics of 8 bytes");
    }
    if (context)
        ibv_close_device(context);
}

void fy_ib_doctor_ports(const struct fy_ib_doctor *d)
{
    const char *last = "";

    for (uint32_t i = 0; i < d->s.n; i++) {
        const struct fy_ib_port *p = &d->s.ports[i];
        char object[80];
        snprintf(object, sizeof object, "%.63s:%u", p->name, p->port);
        if (p->refused)
            unusable(d, p, object);
        else
            usable(d, p, object);
        if (!p->refused && strcmp(last, p->name) != 0) {
            check_atomics(d, p);
            last = p->name;
        }
    }
    if (d->s.n && !d->s.n_usable)
        fy_ib_tell(d, FERRY_FINDING_PROBLEM, "ports", "see the findings on each", "none of %u can be used", d->s.n);
}

/* ------------------------------------------------------------------ GPU memory */

/* A driver that knows dmabufs finds the descriptor bad; one that does not says so first. */
static int takes_dmabuf(const struct fy_ib_port *p)
{
    struct ibv_context *context = ibv_open_device(p->device);
    struct ibv_pd *pd = context ? ibv_alloc_pd(context) : NULL;
    fy_ib_reg_dmabuf_fn *reg_dmabuf = fy_ib_reg_dmabuf();
    struct ibv_mr *mr;
    int known = 0;

    errno = 0;
    mr = pd && reg_dmabuf ? reg_dmabuf(pd, 0, 4096, 0, -1, IBV_ACCESS_LOCAL_WRITE) : NULL;
    if (mr)
        ibv_dereg_mr(mr);
    known = mr || errno == EBADF;
    if (pd)
        ibv_dealloc_pd(pd);
    if (context)
        ibv_close_device(context);
    return known;
}

static const char *peer_module(const struct fy_ib_doctor *d)
{
    static const char *const modules[] = {"nvidia_peermem", "nv_peer_mem"};
    char line[16];

    for (size_t i = 0; i < sizeof modules / sizeof modules[0]; i++)
        if (fy_ib_read(d, line, sizeof line, "/sys/module/%s/refcnt", modules[i]))
            return modules[i];
    return NULL;
}

static int has_gpu(const struct fy_ib_doctor *d)
{
    static const char *const signs[] = {"/proc/driver/nvidia/version", "/sys/module/amdgpu/refcnt"};
    char line[16];

    for (size_t i = 0; i < sizeof signs / sizeof signs[0]; i++)
        if (fy_ib_read(d, line, sizeof line, "%s", signs[i]))
            return 1;
    return 0;
}

void fy_ib_doctor_gpu(const struct fy_ib_doctor *d)
{
    const char *module = peer_module(d), *last = "";
    int gpu = has_gpu(d);

    for (uint32_t i = 0; i < d->s.n; i++) {
        const struct fy_ib_port *p = &d->s.ports[i];
        char object[96];
        if (p->refused || strcmp(last, p->name) == 0)
            continue;
        last = p->name;
        snprintf(object, sizeof object, "%.63s GPU memory", p->name);
        if (takes_dmabuf(p))
            fy_ib_tell(d, FERRY_FINDING_OK, object, "", "registers dmabufs%s%s",
                       module ? "; also by peer memory, " : "", module ? module : "");
        else if (module)
            fy_ib_tell(d, FERRY_FINDING_OK, object, "", "no dmabufs, but peer memory: %s is loaded", module);
        else if (!gpu)
            fy_ib_tell(d, FERRY_FINDING_OK, object, "",
                       "neither dmabufs nor a peer memory module; no GPU's driver is here either");
        else
            fy_ib_tell(
                d, FERRY_FINDING_WARNING, object,
                "only if GPU memory is to be reached: a kernel from 5.12 on with a driver that takes dmabufs, or "
                "modprobe nvidia_peermem",
                "neither dmabufs nor a peer memory module");
    }
}
