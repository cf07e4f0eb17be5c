/* SPDX-License-Identifier: Apache-2.0
 * What providers do, as data: seen on libfabric 1.17, or said by their manuals; and the check of it against what one says
 * of itself when it is opened. Setup thread. */
#include "libfabric.h"

#include <string.h>

/* Put after put, put after atomic, atomic after atomic. */
#define NOT_PUT_AFTER_AMO (FERRY_ORDER_PUT_PUT | FERRY_ORDER_PUT_AMO | FERRY_ORDER_AMO_AMO)

/* Scores are for `auto`: a fast NIC beats loopback (10), which on one host beats all that goes through sockets or copies
 * twice; those are still better than no transport at all. ibrc has 50 and more: it drives the same NICs without a layer
 * between. */
static const struct fy_lf_provider rows[] = {
    /* Puts lie on one TCP connection, and are placed in the order of its bytes. Atomics are messages above it, which the
     * target carries out when it looks: a put may overtake them. */
    {.name = "tcp;ofi_rxm",
      .order = NOT_PUT_AFTER_AMO,
      .quiet = FY_LF_QUIET_RAW_READ,
      .domain = FERRY_DOMAIN_CPU,
      .inject = 64,
      .score = 5,
      .seen = FERRY_ORDER_PUT_PUT | FERRY_ORDER_PUT_AMO},
    /* One queue per target, read by it. */
    {.name = "shm",
      .virt = FY_LF_VIRT_NO,
      .order = FERRY_ORDER_ALL,
      .quiet = FY_LF_QUIET_RAW_READ,
      .one_host = 1,
      .apart = 1,
      .domain = FERRY_DOMAIN_CPU,
      .inject = 4096,
      .score = 4},
    /* Puts and gets are copies by the initiator (process_vm_writev), done when the call returns; atomics and puts with
     * data go through the queue. Where such copies are forbidden all goes through the queue, without a word. */
    {.name = "shm",
      .virt = FY_LF_VIRT_YES,
      .order = NOT_PUT_AFTER_AMO,
      .quiet = FY_LF_QUIET_RAW_READ,
      .one_host = 1,
      .apart = 1,
      .data_queued = 1,
      .domain = FERRY_DOMAIN_CPU,
      .inject = 4096,
      .score = 4,
      .seen = NOT_PUT_AFTER_AMO,
      .raw_seen = 1},
    /* What it reports of an injected operation that failed does not say whose it was. */
    {.name = "sockets",
      .order = FERRY_ORDER_ALL,
      .quiet = FY_LF_QUIET_RAW_READ,
      .fence = 1,
      .domain = FERRY_DOMAIN_CPU,
      .score = 2},
    /* The following are written from manuals: nothing of them was run. Their atomics are the NIC's unless software is known
     * to do them, and no order is claimed but what the NIC says and its manual confirms. */
    {.name = "verbs;ofi_rxm",
      .order = FERRY_ORDER_PUT_PUT | FERRY_ORDER_AMO_AMO,
      .quiet = FY_LF_QUIET_RAW_READ,
      .domain = FERRY_DOMAIN_CPU,
      .inject = 64,
      .score = 40},
    {.name = "cxi",
      .order = FERRY_ORDER_PUT_PUT | FERRY_ORDER_AMO_AMO,
      .quiet = FY_LF_QUIET_FENCE_DC,
      .fence = 1,
      .more = 1,
      .domain = FERRY_DOMAIN_NIC,
      .inject = 192,
      .score = 45},
    {.name = "efa", .quiet = FY_LF_QUIET_DC, .more = 1, .domain = FERRY_DOMAIN_CPU, .score = 40},
    {.name = "psm2", .quiet = FY_LF_QUIET_DC, .domain = FERRY_DOMAIN_CPU, .score = 35},
    {.name = "opx", .quiet = FY_LF_QUIET_DC, .domain = FERRY_DOMAIN_CPU, .score = 35},
    {.name = "psm3", .quiet = FY_LF_QUIET_DC, .domain = FERRY_DOMAIN_CPU, .score = 30},
    {.name = "net",
      .refused = "it grants FI_ATOMIC and has no atomics, and counts puts as delivered that are not"},
    {.name = "net;ofi_rxm", .refused = "it lies over net, which counts puts as delivered that are not"},
    {.name = "udp;ofi_rxd", .refused = "a fetching atomic kills the target"},
};

/* Nothing is taken for granted. NIC, so that nothing else may touch the words that its atomics update. */
static const struct fy_lf_provider unknown = {.quiet = FY_LF_QUIET_DC, .domain = FERRY_DOMAIN_NIC, .score = 3};

static const struct fy_lf_provider *find(const char *name, int virt)
{
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (!strcmp(rows[i].name, name) && (!rows[i].virt || !virt || rows[i].virt == virt))
            return &rows[i];
    return &unknown;
}

const struct fy_lf_provider *fy_lf_row(const char *name, int virt)
{
    return find(name, virt);
}

/* What msg_order says of pairs of writes and atomics, in Ferry's words. */
static uint32_t promised(uint64_t msg_order)
{
    uint32_t order = 0;

    if (msg_order & (FI_ORDER_WAW | FI_ORDER_RMA_WAW))
        order |= FERRY_ORDER_PUT_PUT;
    if (msg_order & (FI_ORDER_WAW | FI_ORDER_ATOMIC_WAW))
        order |= FERRY_ORDER_AMO_AMO;
    if (msg_order & FI_ORDER_WAW) /* across the two */
        order |= FERRY_ORDER_PUT_AMO | FERRY_ORDER_AMO_PUT;
    return order;
}

static int quiet_of(const struct fy_lf_provider *row, const struct fi_info *info, const struct fy_lf_provider *p)
{
    int raw = (info->tx_attr->msg_order & (FI_ORDER_RAW | FI_ORDER_RMA_RAW)) != 0 || row->raw_seen;

    if (p->quiet == FY_LF_QUIET_RAW_READ && !raw)
        return FY_LF_QUIET_DC;
    if (p->quiet == FY_LF_QUIET_FENCE_DC && !p->fence)
        return FY_LF_QUIET_DC;
    return p->quiet;
}

void fy_lf_found(const struct fi_info *info, const struct fy_lf_options *o, struct fy_lf_provider *p)
{
    int virt = info->domain_attr->mr_mode & FI_MR_VIRT_ADDR ? FY_LF_VIRT_YES : FY_LF_VIRT_NO;
    const struct fy_lf_provider *row = find(info->fabric_attr->prov_name, virt);

    *p = *row;
    p->order &= promised(info->tx_attr->msg_order) | row->seen;
    p->fence = p->fence && info->caps & FI_FENCE;
    if (info->ep_attr->max_order_waw_size < info->ep_attr->max_msg_size && !(row->seen & FERRY_ORDER_PUT_PUT))
        p->order &= ~(uint32_t)(FERRY_ORDER_PUT_PUT | FERRY_ORDER_PUT_AMO);
    p->quiet = quiet_of(row, info, p);
    if (o->quiet) /* whoever asks knows the provider better */
        p->quiet = o->quiet == FY_LF_QUIET_FENCE_DC && !p->fence ? FY_LF_QUIET_DC : o->quiet;
    if (o->unordered)
        p->order = 0;
    if (o->inject >= 0)
        p->inject = (size_t)o->inject;
    if (p->inject > info->tx_attr->inject_size)
        p->inject = info->tx_attr->inject_size;
    if (p->quiet == FY_LF_QUIET_DC) /* an injected operation cannot ask for delivery */
        p->inject = 0;
}
