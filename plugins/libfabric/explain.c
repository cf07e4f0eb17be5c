/* SPDX-License-Identifier: Apache-2.0
 * Why there is no provider to use: a name that is not known, one that is refused, an interface that is not there, or which
 * of the things that were asked for excludes the provider. Setup thread. */
#include "select.h"

#include <errno.h>
#include <net/if.h>
#include <stdio.h>
#include <string.h>
#include <stdlib.h>
#include <sys/statvfs.h>

static const char *provider_names(struct fy_lf_names *names)
{
    struct fi_info *all = NULL;

    if (fi_getinfo(FY_LF_API, NULL, NULL, FI_PROV_ATTR_ONLY, NULL, &all))
        return NULL;
    for (struct fi_info *i = all; i; i = i->next)
        if (strncmp(i->fabric_attr->prov_name, "ofi_hook_", 9) != 0) /* they wrap others */
            fy_lf_names_add(names, i->fabric_attr->prov_name);
    fi_freeinfo(all);
    return names->text;
}

/* A name is one provider, or several that lie above each other: "tcp;ofi_rxm". 0: all are known. */
static int unknown_name(const char *provider, char *why, size_t why_size)
{
    char hint[96], part[64];

    while (*provider) {
        size_t length = strcspn(provider, ";");
        struct fy_lf_names names = {.wanted = part};
        snprintf(part, sizeof part, "%.*s", (int)length, provider);
        if (provider_names(&names) && !fy_lf_names_has(&names, part, strlen(part))) {
            snprintf(why, why_size, "libfabric %u.%u has no provider %s%s: it has %s", FI_MAJOR(fi_version()),
                     FI_MINOR(fi_version()), part, fy_lf_names_hint(&names, hint, sizeof hint), names.text);
            return 1;
        }
        provider += length + (provider[length] == ';');
    }
    return 0;
}

static int no_interface(const char *interface, char *why, size_t why_size)
{
    struct if_nameindex *all;
    struct fy_lf_names names = {.wanted = interface};
    char hint[96];

    if (!*interface || if_nametoindex(interface))
        return 0;
    all = if_nameindex();
    for (struct if_nameindex *i = all; i && i->if_index; i++)
        fy_lf_names_add(&names, i->if_name);
    if_freenameindex(all);
    snprintf(why, why_size, "FERRY_LIBFABRIC_INTERFACE=%s: there is no such interface%s: there are %s", interface,
             fy_lf_names_hint(&names, hint, sizeof hint), names.text);
    return 1;
}

static void called(const struct fy_lf_options *o, char *text, size_t size)
{
    snprintf(text, size, "%s%s", *o->provider ? "provider " : "libfabric", o->provider);
}

static void no_domain(const struct fy_lf_options *o, const struct fi_info *list, char *why, size_t why_size)
{
    struct fy_lf_names domains = {.wanted = o->domain};
    char who[96], hint[96];

    called(o, who, sizeof who);
    for (const struct fi_info *i = list; i; i = i->next)
        if (fy_lf_named(i, o->provider))
            fy_lf_names_add(&domains, i->domain_attr->name);
    snprintf(why, why_size, "%s has no domain %s%s: it has %s", who, o->domain,
             fy_lf_names_hint(&domains, hint, sizeof hint), domains.text);
}

/* There are answers, and none is taken. */
static int none_fits(const struct fy_lf_options *o, const struct fi_info *list, char *why, size_t why_size)
{
    struct fy_lf_names domains = {.wanted = o->interface};
    const char *refused = NULL, *name = "";
    int in_domain = 0;
    char who[96];

    called(o, who, sizeof who);
    for (const struct fi_info *i = list; i; i = i->next) {
        if (!fy_lf_named(i, o->provider))
            continue;
        if (fy_lf_row(i->fabric_attr->prov_name, FY_LF_VIRT_AUTO)->refused && !o->refused) {
            name = i->fabric_attr->prov_name;
            refused = fy_lf_row(name, FY_LF_VIRT_AUTO)->refused;
        } else {
            fy_lf_names_add(&domains, i->domain_attr->name);
            in_domain |= fy_lf_in_domain(i, o->domain);
        }
    }
    if (*domains.text && !in_domain) {
        no_domain(o, list, why, why_size);
        return FERRY_ERR_CONFIG;
    }
    if (*domains.text) {
        snprintf(why, why_size, "%s has nothing on interface %s (is it up, has it an address?): it has %s", who, o->interface,
                 domains.text);
        return FERRY_ERR_CONFIG;
    }
    if (refused)
        snprintf(why, why_size, "provider %s is refused: %s; FERRY_LIBFABRIC_USE_REFUSED=yes lets it be used", name,
                 refused);
    else
        snprintf(why, why_size, "libfabric offers another provider than %s where that is asked for", o->provider);
    return *o->provider ? FERRY_ERR_CONFIG : FERRY_ERR_DEVICE;
}

/* What is asked for, one thing each. */
enum asked { ASKED_DOMAIN, ASKED_RMA, ASKED_RDM, ASKED_MR, ASKED_THREADS, ASKED_KINDS };

static void without(struct fi_info *h, unsigned which)
{
    if (which & 1u << ASKED_DOMAIN) {
        free(h->domain_attr->name);
        h->domain_attr->name = NULL;
    }
    if (which & 1u << ASKED_RMA)
        h->caps = 0;
    if (which & 1u << ASKED_RDM)
        h->ep_attr->type = FI_EP_UNSPEC;
    if (which & 1u << ASKED_MR)
        h->domain_attr->mr_mode = FI_MR_BASIC | FI_MR_SCALABLE | FI_MR_LOCAL | FI_MR_RAW | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED |
                                  FI_MR_PROV_KEY | FI_MR_MMU_NOTIFY | FI_MR_RMA_EVENT | FI_MR_ENDPOINT | FI_MR_HMEM;
    if (which & 1u << ASKED_THREADS) {
        h->domain_attr->threading = FI_THREAD_UNSPEC;
        h->domain_attr->resource_mgmt = FI_RM_UNSPEC;
    }
}

/* What is there if that is not asked for. */
static struct fi_info *relaxed(const struct fy_lf_options *o, unsigned which)
{
    struct fi_info *h = fy_lf_hints(o, o->provider, FI_RMA), *list = NULL;

    if (!h)
        return NULL;
    without(h, which);
    if (fi_getinfo(FY_LF_API, NULL, NULL, 0, h, &list))
        list = NULL;
    fi_freeinfo(h);
    return list;
}

static void tell_excluded(const struct fy_lf_options *o, unsigned which, const struct fi_info *list, char *why,
                          size_t why_size)
{
    static const char *const texts[ASKED_KINDS] = {
        "", "FI_RMA: it has no puts and gets", "FI_EP_RDM: it has no reliable endpoints without connections",
        "domain_attr.mr_mode: it wants memory registered in a way that Ferry does not know",
        "FI_THREAD_SAFE, FI_RM_ENABLED: it leaves locks or queue limits to its user"};
    char who[96];
    size_t used;

    if (which == 1u << ASKED_DOMAIN) {
        no_domain(o, list, why, why_size);
        return;
    }
    called(o, who, sizeof who);
    snprintf(why, why_size, "%s is there, but excluded by", who);
    for (unsigned i = 0; i < ASKED_KINDS; i++) {
        used = strlen(why);
        if (which & 1u << i)
            snprintf(why + used, why_size - used, "%s %s", i && which & ((1u << i) - 1) ? ";" : "",
                     i == ASKED_DOMAIN ? "the name of the domain" : texts[i]);
    }
}

/* Each thing alone, then more and more of them: the first that makes the provider appear is the reason. */
static int excluded(const struct fy_lf_options *o, char *why, size_t why_size)
{
    unsigned all = 0;

    for (unsigned step = 0; step < 2 * ASKED_KINDS; step++) {
        unsigned which = 1u << step % ASKED_KINDS;
        struct fi_info *list;
        if (step >= ASKED_KINDS)
            which = all |= which;
        if (which == 1u << ASKED_DOMAIN && !*o->domain)
            continue;
        list = relaxed(o, which);
        if (!list)
            continue;
        tell_excluded(o, *o->domain ? which : which & ~(1u << ASKED_DOMAIN), list, why, why_size);
        fi_freeinfo(list);
        return 1;
    }
    return 0;
}

static void nothing_there(const struct fy_lf_options *o, char *why, size_t why_size)
{
    struct statvfs shm;

    if (!strncmp(o->provider, "shm", 3) && !statvfs("/dev/shm", &shm))
        snprintf(why, why_size, "provider shm does not start: it wants more than the %llu MiB that are free in /dev/shm, or may "
                 "not write there; mount it larger (in a container: --shm-size)",
                 (unsigned long long)shm.f_bavail * shm.f_bsize >> 20);
    else if (*o->provider)
        snprintf(why, why_size, "provider %s finds no device or network interface here; fi_info -p '%s' shows what it finds",
                 o->provider, o->provider);
    else
        snprintf(why, why_size, "libfabric finds no provider with puts and gets here: is a network interface up? fi_info "
                 "shows what it finds");
}

int fy_lf_why_none(const struct fy_lf_options *o, const struct fi_info *list, int rc, char *why, size_t why_size)
{
    const char *refused = fy_lf_row(o->provider, FY_LF_VIRT_AUTO)->refused;

    if (no_interface(o->interface, why, why_size))
        return FERRY_ERR_CONFIG;
    if (list)
        return none_fits(o, list, why, why_size);
    if (refused && !o->refused) { /* also where it would not even start */
        snprintf(why, why_size, "provider %s is refused: %s; FERRY_LIBFABRIC_USE_REFUSED=yes lets it be used", o->provider,
                 refused);
        return FERRY_ERR_CONFIG;
    }
    if (rc != -FI_ENODATA && rc != -FI_ENOENT && rc != -FI_ENOSYS) {
        snprintf(why, why_size, "libfabric cannot say which providers there are: %s (%d)", fi_strerror(-rc), -rc);
        return FERRY_ERR_DEVICE;
    }
    if (unknown_name(o->provider, why, why_size))
        return FERRY_ERR_CONFIG;
    if (excluded(o, why, why_size))
        return *o->provider || *o->domain ? FERRY_ERR_CONFIG : FERRY_ERR_DEVICE;
    nothing_there(o, why, why_size);
    return FERRY_ERR_DEVICE;
}
