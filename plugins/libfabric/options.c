/* SPDX-License-Identifier: Apache-2.0
 * The options of the plugin: their table and their bounds.
 * Setup thread. */
#include "libfabric.h"

#include <stdio.h>

const struct ferry_option fy_lf_option_rows[] = {
    {.name = "provider",
     .type = FERRY_OPTION_STRING,
     .initial = "",
     .doc = "libfabric provider to use, as fi_info names it: tcp;ofi_rxm, shm, sockets, cxi, efa and others; empty: the "
            "best that is there."},
    {.name = "domain",
     .type = FERRY_OPTION_STRING,
     .initial = "",
     .doc = "Domain of the provider to use, as fi_info names it; empty: its first."},
    {.name = "interface",
     .type = FERRY_OPTION_STRING,
     .initial = "",
     .doc = "Network interface whose address is used, for providers over IP; empty: the provider's first."},
    {.name = "mr_virt_addr",
     .type = FERRY_OPTION_CHOICE,
     .initial = "auto",
     .choices = "auto|0|1",
     .doc = "Whether virtual addressing of memory is offered to the provider (FI_MR_VIRT_ADDR). shm: 0 gives the engine "
            "of queues, 1 that of direct copies; auto: 0 for shm, 1 for others."},
    {.name = "quiet",
     .type = FERRY_OPTION_CHOICE,
     .initial = "auto",
     .choices = "auto|dc|fence_dc|raw_read",
     .doc = "How delivery is known. dc: each operation reports it; fence_dc: a fenced write behind them does; raw_read: "
            "a read behind them returns; auto: by provider."},
    {.name = "order",
     .type = FERRY_OPTION_CHOICE,
     .initial = "auto",
     .choices = "auto|none",
     .doc = "Order that the provider is trusted to keep. auto: what it was seen to keep and says itself; none: nothing."},
    {.name = "inject_size",
     .type = FERRY_OPTION_INT,
     .initial = "-1",
     .doc = "Bytes of the largest put that is copied by the provider (fi_inject_write), 0 to 65536; -1: by provider; never "
            "more than the provider takes."},
    {.name = "queue_depth",
     .type = FERRY_OPTION_INT,
     .initial = "256",
     .doc = "Operations in flight per channel and peer, 16 to 32768; shm of libfabric 1.17 has room for 1022."},
    {.name = "use_refused",
     .type = FERRY_OPTION_BOOL,
     .initial = "no",
     .doc = "Lets providers be used that are known to lie or to crash; `provider` has to name one."},
    {.name = NULL},
};

static const char *text_of(const struct ferry_core *core, const char *name)
{
    struct ferry_value v;

    return core->option(core, name, &v) || !v.string ? "" : v.string;
}

int fy_lf_options(const struct ferry_core *core, struct fy_lf_options *o, char *why, size_t why_size)
{
    const struct fy_plugin_bound bounds[] = {
        {"mr_virt_addr", 0, 2, &o->virt},          {"quiet", 0, 3, &o->quiet},
        {"order", 0, 1, &o->unordered},            {"inject_size", -1, 65536, &o->inject},
        {"queue_depth", 16, 32768, &o->depth},     {"use_refused", 0, 1, &o->refused},
        {NULL, 0, 0, NULL},
    };

    o->provider = text_of(core, "provider");
    o->domain = text_of(core, "domain");
    o->interface = text_of(core, "interface");
    return fy_plugin_bounds(core, "FERRY_LIBFABRIC_", bounds, why, why_size);
}
