/* SPDX-License-Identifier: Apache-2.0
 * Which provider is used: what libfabric is asked for, and which of its answers is taken. explain.c says why there is none.
 * Setup thread. */
#include "select.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

struct fi_info *fy_lf_hints(const struct fy_lf_options *o, const char *provider, uint64_t caps)
{
    struct fi_info *h = fi_allocinfo();
    int virt = o->virt == FY_LF_VIRT_AUTO ? strcmp(provider, "shm") != 0 : o->virt == FY_LF_VIRT_YES;

    if (!h)
        return NULL;
    h->ep_attr->type = FI_EP_RDM;
    h->caps = caps;
    h->mode = FI_CONTEXT | FI_CONTEXT2;
    /* All that can be obeyed; what comes back is. */
    h->domain_attr->mr_mode =
        FI_MR_ALLOCATED | FI_MR_PROV_KEY | FI_MR_LOCAL | FI_MR_ENDPOINT | (virt ? FI_MR_VIRT_ADDR : 0);
    h->domain_attr->threading = FI_THREAD_SAFE; /* peers' operations look up memory while more is registered */
    h->domain_attr->resource_mgmt = FI_RM_ENABLED;
    if (*provider)
        h->fabric_attr->prov_name = strdup(provider);
    if (*o->domain)
        h->domain_attr->name = strdup(o->domain);
    return h;
}

/* Atomics, counts of what peers do, and a fence where the provider is known for it; without them if it has none. */
int fy_lf_ask(const struct fy_lf_options *o, const char *provider, struct fi_info **list)
{
    uint64_t fence = fy_lf_row(provider, FY_LF_VIRT_AUTO)->fence ? FI_FENCE : 0;
    const uint64_t caps[] = {FI_RMA | FI_ATOMIC | FI_RMA_EVENT | fence, FI_RMA | FI_ATOMIC | fence, FI_RMA | FI_ATOMIC, FI_RMA};
    int rc = -FI_ENOMEM;

    for (size_t i = *provider ? 0 : 2; i < sizeof caps / sizeof caps[0]; i++) {
        struct fi_info *h = fy_lf_hints(o, provider, caps[i]);
        if (!h)
            return -FI_ENOMEM;
        rc = fi_getinfo(FY_LF_API, NULL, NULL, 0, h, list);
        fi_freeinfo(h);
        if (rc != -FI_ENODATA)
            break;
    }
    return rc;
}

/* "tcp" stands for "tcp;ofi_rxm", too: whoever names a core provider takes what lies over it. */
int fy_lf_named(const struct fi_info *info, const char *provider)
{
    const char *name = info->fabric_attr->prov_name;
    size_t length = strlen(provider);

    return !length || !strcmp(name, provider) || (!strncmp(name, provider, length) && name[length] == ';');
}

static int same_address(const struct sockaddr *a, const void *b, size_t size)
{
    struct sockaddr_in in;
    struct sockaddr_in6 in6;

    if (a->sa_family == AF_INET && size >= sizeof in) {
        memcpy(&in, b, sizeof in);
        return in.sin_family == AF_INET &&
               in.sin_addr.s_addr == ((const struct sockaddr_in *)(const void *)a)->sin_addr.s_addr;
    }
    if (a->sa_family == AF_INET6 && size >= sizeof in6) {
        memcpy(&in6, b, sizeof in6);
        return in6.sin6_family == AF_INET6 &&
               !memcmp(&in6.sin6_addr, &((const struct sockaddr_in6 *)(const void *)a)->sin6_addr, 16);
    }
    return 0;
}

/* By the name of its domain, or by an address of the interface. */
int fy_lf_on_interface(const struct fi_info *info, const char *interface)
{
    struct ifaddrs *all = NULL;
    int found = 0;

    if (!*interface || (info->domain_attr->name && !strcmp(info->domain_attr->name, interface)))
        return 1;
    if (!info->src_addr || getifaddrs(&all))
        return 0;
    for (struct ifaddrs *a = all; a && !found; a = a->ifa_next)
        found = a->ifa_addr && !strcmp(a->ifa_name, interface) &&
                same_address(a->ifa_addr, info->src_addr, info->src_addrlen);
    freeifaddrs(all);
    return found;
}

/* Utility providers do not look at the name that was asked for. */
int fy_lf_in_domain(const struct fi_info *info, const char *domain)
{
    return !*domain || (info->domain_attr->name && !strcmp(info->domain_attr->name, domain));
}

static const char *refusal(const struct fy_lf_options *o, const struct fi_info *info)
{
    if (o->refused && *o->provider)
        return NULL;
    return fy_lf_row(info->fabric_attr->prov_name, FY_LF_VIRT_AUTO)->refused;
}

/* The best by score, and of that the first: libfabric puts the better interfaces in front. */
static struct fi_info *best(const struct fy_lf_options *o, struct fi_info *list)
{
    struct fi_info *found = NULL;
    int most = -1;

    for (struct fi_info *i = list; i; i = i->next) {
        int score = fy_lf_row(i->fabric_attr->prov_name, FY_LF_VIRT_AUTO)->score;
        if (!fy_lf_named(i, o->provider) || !fy_lf_in_domain(i, o->domain) || !fy_lf_on_interface(i, o->interface) ||
            refusal(o, i) || score <= most)
            continue;
        found = i;
        most = score;
    }
    return found;
}

static int take(struct fi_info *list, const struct fi_info *chosen, struct fi_info **info)
{
    *info = fi_dupinfo(chosen);
    fi_freeinfo(list);
    return *info ? FERRY_OK : FERRY_ERR_NOMEM;
}

int fy_lf_select(const struct fy_lf_options *o, struct fi_info **info, char *why, size_t why_size)
{
    struct fi_info *list = NULL, *chosen = NULL;
    struct fy_lf_options by_name = *o;
    char name[64];
    int rc = fy_lf_ask(o, o->provider, &list);

    if (!rc)
        chosen = best(o, list);
    if (!chosen) {
        rc = fy_lf_why_none(o, list, rc, why, why_size);
        fi_freeinfo(list);
        return rc;
    }
    if (!strcmp(o->provider, chosen->fabric_attr->prov_name))
        return take(list, chosen, info);
    /* What is asked depends on the name. */
    snprintf(name, sizeof name, "%s", chosen->fabric_attr->prov_name);
    fi_freeinfo(list);
    list = NULL;
    by_name.provider = name;
    rc = fy_lf_ask(&by_name, name, &list);
    chosen = rc ? NULL : best(&by_name, list);
    if (chosen)
        return take(list, chosen, info);
    fi_freeinfo(list);
    snprintf(why, why_size, "provider %s was offered, and is not there when it is asked for by name: %s", name,
             fi_strerror(-rc));
    return FERRY_ERR_DEVICE;
}

int fy_lf_probe(const struct ferry_core *core, struct ferry_probe *probe)
{
    struct fy_lf_options o = {0};
    struct fi_info *info = NULL;
    char why[sizeof probe->detail] = "";
    int rc = fy_lf_options(core, &o, why, sizeof why);

    if (!rc)
        rc = fy_lf_select(&o, &info, why, sizeof why);
    if (rc) {
        snprintf(probe->detail, sizeof probe->detail, "%s", why);
        return rc == FERRY_ERR_CONFIG ? rc : FERRY_ERR_DEVICE;
    }
    probe->score = fy_lf_row(info->fabric_attr->prov_name, FY_LF_VIRT_AUTO)->score;
    probe->devices = 1;
    snprintf(probe->detail, sizeof probe->detail, "provider %s on %s", info->fabric_attr->prov_name,
             info->domain_attr->name ? info->domain_attr->name : "a domain without a name");
    fi_freeinfo(info);
    return FERRY_OK;
}
