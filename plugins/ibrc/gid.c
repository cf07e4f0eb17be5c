/* SPDX-License-Identifier: Apache-2.0
 * Addresses: which GID of a port is used. Entries are scored, and tried by making an address handle.
 * Setup thread. */
#include "devices.h"

#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#define ENTRIES_MAX 256
#define HOLES_MAX   16 /* empty places in a row after which a table counts as over */

static int is_ipv4(const union ibv_gid *gid)
{
    static const uint8_t prefix[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
    return memcmp(gid->raw, prefix, sizeof prefix) == 0;
}

static int is_null(const union ibv_gid *gid)
{
    static const uint8_t none[8];
    return memcmp(gid->raw + 8, none, sizeof none) == 0;
}

static int link_local(const union ibv_gid *gid)
{
    return gid->raw[0] == 0xfe && (gid->raw[1] & 0xc0) == 0x80;
}

/* An interface that is down answers nobody. Unknown counts as up. */
static int interface_up(uint32_t index)
{
    struct ifreq request;
    int fd, up = 1;

    memset(&request, 0, sizeof request);
    if (!index || !if_indextoname(index, request.ifr_name))
        return 1;
    fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return 1;
    if (ioctl(fd, SIOCGIFFLAGS, &request) == 0)
        up = (request.ifr_flags & IFF_UP) != 0;
    close(fd);
    return up;
}

/* 0: cannot be used. The version weighs most, then family, scope and interface. */
static int score(const struct ibv_gid_entry *e, int family, int strict)
{
    int v4 = is_ipv4(&e->gid), wanted = family == 2 ? !v4 : v4;

    if (is_null(&e->gid) || (strict && family && !wanted))
        return 0;
    return 1 + 16 * (e->gid_type == IBV_GID_TYPE_ROCE_V2) + 8 * interface_up(e->ndev_ifindex) +
           4 * !link_local(&e->gid) + 2 * wanted;
}

/* Does the kernel resolve this address? A handle to the port's own address needs the same steps as one to a peer's. */
static int answers(struct ibv_pd *pd, const struct fy_ib_rail *rail, const struct ibv_gid_entry *e)
{
    struct ibv_ah_attr attr = {.is_global = 1, .port_num = rail->port};
    struct ibv_ah *ah;

    attr.grh.dgid = e->gid;
    attr.grh.sgid_index = (uint8_t)e->gid_index;
    attr.grh.hop_limit = 64;
    ah = ibv_create_ah(pd, &attr);
    if (!ah)
        return errno == EOPNOTSUPP || errno == ENOSYS; /* a device without handles: nothing is known against it */
    ibv_destroy_ah(ah);
    return 1;
}

static void take(struct fy_ib_rail *rail, const struct ibv_gid_entry *e)
{
    rail->gid = e->gid;
    rail->gid_index = (uint8_t)e->gid_index;
    rail->gid_type = (uint8_t)e->gid_type;
    rail->family = is_ipv4(&e->gid) ? 4 : 6;
}

/* The best entry that answers; 0: none. */
static int best(struct ibv_context *context, struct ibv_pd *pd, struct fy_ib_rail *rail, int family, int strict)
{
    int top = 0, n = rail->attr.gid_tbl_len < ENTRIES_MAX ? rail->attr.gid_tbl_len : ENTRIES_MAX, holes = 0;

    for (int i = 0; i < n && holes < HOLES_MAX; i++) {
        struct ibv_gid_entry e;
        int points;
        if (ibv_query_gid_ex(context, rail->port, (uint32_t)i, &e, 0)) {
            holes++;
            continue;
        }
        holes = 0;
        points = score(&e, family, strict);
        if (points > top && answers(pd, rail, &e)) {
            top = points;
            take(rail, &e);
        }
    }
    return top;
}

/* ------------------------------------------------------------------ subnets */

static uint64_t mix(uint64_t prefix, unsigned bits)
{
    return (prefix ^ (uint64_t)bits << 56) * 0x9e3779b97f4a7c15u | 1; /* never 0 */
}

/* The IPv4 network of the interface that has this address; 0: there is none. */
static uint64_t network_of(const union ibv_gid *gid)
{
    struct ifaddrs *all = NULL;
    uint64_t number = 0;
    uint32_t address;

    memcpy(&address, gid->raw + 12, 4);
    if (getifaddrs(&all))
        return 0;
    for (const struct ifaddrs *i = all; i && !number; i = i->ifa_next) {
        struct sockaddr_in own, mask;
        if (!i->ifa_addr || i->ifa_addr->sa_family != AF_INET || !i->ifa_netmask)
            continue;
        memcpy(&own, i->ifa_addr, sizeof own);
        memcpy(&mask, i->ifa_netmask, sizeof mask);
        if (own.sin_addr.s_addr == address)
            number = mix(address & mask.sin_addr.s_addr, (unsigned)__builtin_popcount(mask.sin_addr.s_addr));
    }
    freeifaddrs(all);
    return number;
}

/* The entry that will be taken, unless its handle fails; 0: none. */
static int likely(struct ibv_context *context, uint8_t port, int n, int family, int strict, struct ibv_gid_entry *out)
{
    int top = 0;

    for (int i = 0, holes = 0; i < n && i < ENTRIES_MAX && holes < HOLES_MAX; i++) {
        struct ibv_gid_entry e;
        int points;
        if (ibv_query_gid_ex(context, port, (uint32_t)i, &e, 0)) {
            holes++;
            continue;
        }
        holes = 0;
        points = score(&e, family, strict);
        if (points > top) {
            top = points;
            *out = e;
        }
    }
    return top;
}

uint64_t fy_ib_subnet(struct ibv_context *context, uint8_t port, const struct ibv_port_attr *attr,
                      const struct fy_ib_options *o)
{
    struct ibv_gid_entry e;
    uint64_t prefix;

    if (attr->link_layer != IBV_LINK_LAYER_ETHERNET) {
        if (ibv_query_gid_ex(context, port, 0, &e, 0))
            return 0;
        memcpy(&prefix, e.gid.raw, 8);
        return mix(prefix, 64);
    }
    if (o->gid_index >= 0 && ibv_query_gid_ex(context, port, (uint32_t)o->gid_index, &e, 0))
        return 0;
    if (o->gid_index < 0 && !likely(context, port, attr->gid_tbl_len, o->family, 1, &e) &&
        !likely(context, port, attr->gid_tbl_len, o->family, 0, &e))
        return 0;
    if (is_ipv4(&e.gid))
        return network_of(&e.gid);
    memcpy(&prefix, e.gid.raw, 8);
    return link_local(&e.gid) ? 0 : mix(prefix, 64);
}

int fy_ib_gid(struct ibv_context *context, struct ibv_pd *pd, const struct fy_ib_options *o, struct fy_ib_rail *rail,
              char *why, size_t why_size)
{
    struct ibv_gid_entry e;

    rail->global = rail->attr.link_layer == IBV_LINK_LAYER_ETHERNET || (rail->attr.flags & IBV_QPF_GRH_REQUIRED) ||
                   o->gid_index >= 0;
    if (o->gid_index >= 0) {
        if (ibv_query_gid_ex(context, rail->port, (uint32_t)o->gid_index, &e, 0) || is_null(&e.gid)) {
            snprintf(why, why_size, "there is no GID at index %d (FERRY_IBRC_GID_INDEX), the table has %d places",
                     o->gid_index, rail->attr.gid_tbl_len);
            return FERRY_ERR_CONFIG;
        }
        take(rail, &e);
        return FERRY_OK;
    }
    if (rail->attr.link_layer != IBV_LINK_LAYER_ETHERNET) {
        if (ibv_query_gid_ex(context, rail->port, 0, &e, 0) == 0)
            take(rail, &e);
        return FERRY_OK;
    }
    if (best(context, pd, rail, o->family, 1) || best(context, pd, rail, o->family, 0))
        return FERRY_OK;
    snprintf(why, why_size,
             "none of the %d places of the GID table can be used: has the interface an address, is it up?",
             rail->attr.gid_tbl_len);
    return FERRY_ERR_DEVICE;
}
