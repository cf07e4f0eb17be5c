/* SPDX-License-Identifier: Apache-2.0
 * Stands between the plugin and libfabric: the program's own fi_getinfo and fi_fabric are found first, and pass on what they are
 * not told to withhold. Any thread. */
#include "pair.h"

#include <dlfcn.h>
#include <rdma/fabric.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <stdio.h>
#include <stdlib.h>

struct lack lack;

typedef int getinfo_fn(uint32_t version, const char *node, const char *service, uint64_t flags, const struct fi_info *hints,
                       struct fi_info **info);
typedef int fabric_fn(struct fi_fabric_attr *attr, struct fid_fabric **fabric, void *context);

/* The library's own, which the program's hides. */
static void *real_one(const char *name)
{
    void *library = dlopen("libfabric.so.1", RTLD_NOW), *function = library ? dlsym(library, name) : NULL;

    if (!function) {
        fprintf(stderr, "%s\n", dlerror());
        exit(1);
    }
    return function;
}

int fi_getinfo(uint32_t version, const char *node, const char *service, uint64_t flags, const struct fi_info *hints,
               struct fi_info **info)
{
    getinfo_fn *real = (getinfo_fn *)real_one("fi_getinfo");
    int rc;

    if (lack.getinfo)
        return lack.getinfo;
    if (hints && (hints->caps & lack.caps || (lack.rdm && hints->ep_attr->type == FI_EP_RDM)))
        return -FI_ENODATA;
    rc = real(version, node, service, flags, hints, info);
    for (struct fi_info *i = rc ? NULL : *info; i && lack.order; i = i->next)
        if (i->tx_attr)
            i->tx_attr->msg_order = 0;
    return rc;
}

static int (*real_reg)(struct fid *fid, const void *buf, size_t len, uint64_t access, uint64_t offset, uint64_t key,
                       uint64_t flags, struct fid_mr **mr, void *context);

static int reg(struct fid *fid, const void *buf, size_t len, uint64_t access, uint64_t offset, uint64_t key, uint64_t flags,
               struct fid_mr **mr, void *context)
{
    return lack.mr_reg ? lack.mr_reg : real_reg(fid, buf, len, access, offset, key, flags, mr, context);
}

static struct fi_ops_cq real_cq;

static ssize_t cq_read(struct fid_cq *cq, void *buf, size_t count)
{
    return lack.strays > 0 ? -FI_EAVAIL : real_cq.read(cq, buf, count);
}

static ssize_t cq_readerr(struct fid_cq *cq, struct fi_cq_err_entry *entry, uint64_t flags)
{
    if (lack.strays <= 0)
        return real_cq.readerr(cq, entry, flags);
    lack.strays--;
    entry->op_context = NULL;
    entry->err = FI_ECONNRESET;
    return 1;
}

static int (*real_cq_open)(struct fid_domain *domain, struct fi_cq_attr *attr, struct fid_cq **cq, void *context);

static int cq_open(struct fid_domain *domain, struct fi_cq_attr *attr, struct fid_cq **cq, void *context)
{
    static struct fi_ops_cq own;
    int rc = real_cq_open(domain, attr, cq, context);

    if (rc)
        return rc;
    real_cq = own = *(*cq)->ops;
    own.read = cq_read;
    own.readerr = cq_readerr;
    (*cq)->ops = &own;
    return rc;
}

static void intercept_queues(struct fid_domain *domain)
{
    static struct fi_ops_domain own;

    own = *domain->ops;
    real_cq_open = own.cq_open;
    own.cq_open = cq_open;
    domain->ops = &own;
}

static int (*real_domain)(struct fid_fabric *fabric, struct fi_info *info, struct fid_domain **domain, void *context);

static int domain_open(struct fid_fabric *fabric, struct fi_info *info, struct fid_domain **domain, void *context)
{
    static struct fi_ops_mr mr;
    int rc = real_domain(fabric, info, domain, context);

    if (!rc && lack.strays)
        intercept_queues(*domain);
    if (rc || !lack.mr_reg)
        return rc;
    mr = *(*domain)->mr;
    real_reg = mr.reg;
    mr.reg = reg;
    (*domain)->mr = &mr;
    return rc;
}

int fi_fabric(struct fi_fabric_attr *attr, struct fid_fabric **fabric, void *context)
{
    static struct fi_ops_fabric own;
    static int depth; /* a layered provider opens the fabric below by the same call: that one is left alone */
    fabric_fn *real = (fabric_fn *)real_one("fi_fabric");
    int rc;

    depth++;
    rc = real(attr, fabric, context);
    if (--depth || rc || !(lack.mr_reg || lack.strays))
        return rc;
    own = *(*fabric)->ops;
    real_domain = own.domain;
    own.domain = domain_open;
    (*fabric)->ops = &own;
    return rc;
}
