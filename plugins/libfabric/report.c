/* SPDX-License-Identifier: Apache-2.0
 * What ferry-info --doctor and --explain ask: which providers are here and what they can do, what stands in their way, and which
 * one PEs would use. Setup thread; nothing is kept open. */
#include "select.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>

struct report {
    const struct ferry_report *ask;
    struct fy_lf_options o;
};

static void tell(const struct report *r, uint32_t level, const char *object, const char *advice, const char *format, ...)
    __attribute__((format(printf, 5, 6)));
static void tell(const struct report *r, uint32_t level, const char *object, const char *advice, const char *format, ...)
{
    char text[512];
    struct ferry_finding finding = {
        .size = sizeof finding, .level = level, .object = object, .text = text, .advice = advice};
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    r->ask->tell(r->ask->arg, &finding);
}

/* What the core will make of it. */
static void abilities(const struct fi_info *info, const struct fy_lf_options *o, char *text, size_t size)
{
    static const char *const quiet[] = {"", "by delivery of each operation", "by a fenced write", "by a read behind them"};
    struct fy_lf_provider p;

    fy_lf_found(info, o, &p);
    snprintf(text, size, "on %s: puts in order %s, atomics behind puts %s, atomics %s; completion is known %s",
             info->domain_attr->name ? info->domain_attr->name : "?",
             p.order & FERRY_ORDER_PUT_PUT ? "kept"
             : p.fence                     ? "by FI_FENCE"
                                           : "made by waiting or counting",
             p.order & FERRY_ORDER_PUT_AMO ? "kept" : "made",
             !(info->caps & FI_ATOMIC)         ? "made by the mailbox"
             : p.domain == FERRY_DOMAIN_CPU ? "by the target's CPU"
                                                : "by the NIC",
             quiet[p.quiet]);
}

static void provider(const struct report *r, const char *name)
{
    struct fy_lf_options o = r->o;
    struct fi_info *info = NULL;
    char text[400] = "";
    int rc;

    o.provider = name;
    o.domain = o.interface = "";
    rc = fy_lf_select(&o, &info, text, sizeof text);
    if (rc) { /* the message names it */
        tell(r, FERRY_FINDING_OK, name, "", "not used: %s", text);
        return;
    }
    abilities(info, &o, text, sizeof text);
    tell(r, FERRY_FINDING_OK, info->fabric_attr->prov_name, "", "%s", text);
    fi_freeinfo(info);
}

/* Utility providers and hooks are not chosen by themselves. */
static void providers(const struct report *r)
{
    struct fi_info *all = NULL;

    tell(r, FERRY_FINDING_OK, "library", "", "libfabric %u.%u", FI_MAJOR(fi_version()), FI_MINOR(fi_version()));
    if (fi_getinfo(FY_LF_API, NULL, NULL, FI_PROV_ATTR_ONLY, NULL, &all))
        return;
    for (struct fi_info *i = all; i; i = i->next)
        if (strncmp(i->fabric_attr->prov_name, "ofi_", 4) != 0)
            provider(r, i->fabric_attr->prov_name);
    fi_freeinfo(all);
}

static void choice(const struct report *r)
{
    struct fi_info *info = NULL;
    char why[400] = "";
    int rc = fy_lf_select(&r->o, &info, why, sizeof why);

    if (rc) {
        tell(r, FERRY_FINDING_PROBLEM, "choice", "correct FERRY_LIBFABRIC_…, or see the findings above", "%s", why);
        return;
    }
    tell(r, FERRY_FINDING_OK, "choice", "", "provider %s on %s", info->fabric_attr->prov_name,
         info->domain_attr->name ? info->domain_attr->name : "?");
    fi_freeinfo(info);
}

static void shared_memory(const struct report *r)
{
    struct statvfs shm;
    FILE *file = fopen("/proc/sys/kernel/yama/ptrace_scope", "re");
    int scope = 0;

    if (statvfs("/dev/shm", &shm))
        tell(r, FERRY_FINDING_WARNING, "/dev/shm", "mount a tmpfs there", "not there: provider shm cannot be used");
    else if (((unsigned long long)shm.f_bavail * shm.f_bsize >> 20) < 128)
        tell(r, FERRY_FINDING_WARNING, "/dev/shm", "mount it larger (in a container: --shm-size)",
             "%llu MiB free: provider shm takes about 4 MiB per PE and 2 MiB per context and peer",
             (unsigned long long)shm.f_bavail * shm.f_bsize >> 20);
    if (file && fscanf(file, "%d", &scope) == 1 && scope > 0)
        tell(r, FERRY_FINDING_WARNING, "kernel.yama.ptrace_scope", "set it to 0, or stay with FERRY_LIBFABRIC_MR_VIRT_ADDR=0",
             "%d: the direct copies of provider shm are forbidden, it falls back to queues", scope);
    if (file)
        fclose(file);
}

static void plan(const struct report *r)
{
    struct fi_info *info = NULL;
    char why[400] = "", object[32], text[128];
    int rc = fy_lf_select(&r->o, &info, why, sizeof why);

    if (rc) {
        tell(r, FERRY_FINDING_PROBLEM, "no plan", why, "none");
        return;
    }
    abilities(info, &r->o, why, sizeof why);
    snprintf(text, sizeof text, "provider %s", info->fabric_attr->prov_name);
    for (uint32_t i = 0; i < r->ask->n_places; i++) {
        const struct ferry_place *place =
            (const struct ferry_place *)(const void *)((const char *)r->ask->places + i * r->ask->places->size);
        snprintf(object, sizeof object, "pe %u", place->pe);
        tell(r, FERRY_FINDING_OK, object, why, "%s", text);
    }
    fi_freeinfo(info);
}

int fy_lf_report(const struct ferry_core *core, const struct ferry_report *ask)
{
    struct report r = {.ask = ask};
    char why[256] = "";
    int rc;

    if (ask->kind != FERRY_REPORT_HEALTH && ask->kind != FERRY_REPORT_PLAN)
        return FERRY_ERR_UNSUPPORTED;
    rc = fy_lf_options(core, &r.o, why, sizeof why);
    if (rc && ask->kind == FERRY_REPORT_HEALTH)
        tell(&r, FERRY_FINDING_PROBLEM, "options", "docs/configuration.md has the bounds", "%s", why);
    if (rc)
        return FERRY_OK;
    if (ask->kind == FERRY_REPORT_PLAN) {
        plan(&r);
        return FERRY_OK;
    }
    providers(&r);
    shared_memory(&r);
    choice(&r);
    return FERRY_OK;
}
