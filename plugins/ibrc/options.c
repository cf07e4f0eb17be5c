/* SPDX-License-Identifier: Apache-2.0
 * The options of the plugin: their table and their bounds. names.c reads the lists in them.
 * Setup thread. */
#include "devices.h"

#include <stdio.h>

const struct ferry_option fy_ib_option_rows[] = {
    {.name = "devices",
     .type = FERRY_OPTION_STRING,
     .initial = "",
     .doc = "Ports to use, as NAME or NAME:PORT, separated by commas; ^NAME:PORT excludes; empty: any active port."},
    {.name = "rails",
     .type = FERRY_OPTION_INT,
     .initial = "1",
     .doc =
         "Ports that one PE uses, 1 to 8, channels take turns; 0: all that `devices` names. On several devices atomics "
         "are done by the target's CPU."},
    {.name = "spread",
     .type = FERRY_OPTION_CHOICE,
     .initial = "auto",
     .choices = "auto|no|yes",
     .doc =
         "Whether PEs of a host that are equally near to several ports share these out among themselves. auto: among "
         "ports of one subnet; no: each takes the first of the nearest; yes: among all, which must reach one another."},
    {.name = "map",
     .type = FERRY_OPTION_STRING,
     .initial = "",
     .doc = "Ports of each PE of a host, in place of distance, rails and spread: "
            "0=mlx5_0:1+mlx5_1;1-3=mlx5_2;*=mlx5_3, by "
            "the PE's number among those of its host; channels take turns over a PE's ports."},
    {.name = "gid_index",
     .type = FERRY_OPTION_INT,
     .initial = "-1",
     .doc = "Index in the GID table of the port; -1: the best by version, family, scope and interface."},
    {.name = "address_family",
     .type = FERRY_OPTION_CHOICE,
     .initial = "auto",
     .choices = "auto|ipv4|ipv6",
     .doc = "Family of RoCE addresses; auto prefers IPv4."},
    {.name = "pkey_index",
     .type = FERRY_OPTION_INT,
     .initial = "0",
     .doc = "Index in the partition key table of the port."},
    {.name = "sl", .type = FERRY_OPTION_INT, .initial = "0", .doc = "Service level, 0 to 15."},
    {.name = "traffic_class",
     .type = FERRY_OPTION_INT,
     .initial = "0",
     .doc = "Traffic class of the GRH, 0 to 255; on RoCE the upper 6 bits are the DSCP."},
    {.name = "mtu",
     .type = FERRY_OPTION_CHOICE,
     .initial = "auto",
     .choices = "auto|256|512|1024|2048|4096",
     .doc = "Path MTU in bytes; auto: the smaller of both ports' active one."},
    {.name = "timeout",
     .type = FERRY_OPTION_INT,
     .initial = "16",
     .doc = "Local ACK timeout, 1 to 31: 4.096 us times 2 to this power before a request is sent again."},
    {.name = "retry_count",
     .type = FERRY_OPTION_INT,
     .initial = "6",
     .doc = "Retries before a peer counts as gone, 0 to 7; rdma_rxe takes 7 as for ever."},
    {.name = "rnr_timer",
     .type = FERRY_OPTION_INT,
     .initial = "12",
     .doc = "Least wait after \"receiver not ready\", as a code of 0 to 31: 1 is 10 us, 12 640 us, 20 10.24 ms, 31 "
            "491.52 ms, 0 "
            "655.36 ms."},
    {.name = "hop_limit", .type = FERRY_OPTION_INT, .initial = "64", .doc = "Hop limit of routed packets, 1 to 255."},
    {.name = "flow_label",
     .type = FERRY_OPTION_INT,
     .initial = "-1",
     .doc = "Flow label, 20 bits, of which a RoCE v2 device makes the UDP source port; -1: one per channel and peer, "
            "so that "
            "channels take different paths."},
    {.name = "queue_depth",
     .type = FERRY_OPTION_INT,
     .initial = "256",
     .doc = "Requests in flight per channel and peer, 8 to 32768; the device's limit caps it."},
    {.name = "inline_size",
     .type = FERRY_OPTION_SIZE,
     .initial = "220",
     .doc = "Bytes to ask for as inline data; the device grants its own number; at least 8 are needed for signals by "
            "SET."},
    {.name = "relaxed_ordering",
     .type = FERRY_OPTION_BOOL,
     .initial = "no",
     .doc =
         "Lets puts of one channel be written out of order at the target (PCIe relaxed ordering); fences then wait."},
    {.name = "posting",
     .type = FERRY_OPTION_CHOICE,
     .initial = "auto",
     .choices = "auto|wr|list",
     .doc = "How requests reach the device: wr by ibv_wr_start and what follows, list by ibv_post_send; auto: wr where "
            "the device has it."},
    {.name = "rnr_retry",
     .type = FERRY_OPTION_INT,
     .initial = "6",
     .doc = "Retries after \"receiver not ready\", 0 to 7; 7: for ever."},
    {.name = "rd_atomic",
     .type = FERRY_OPTION_INT,
     .initial = "0",
     .doc = "Gets and atomics under way at once per channel and peer, 1 to 128; 0: as many as both devices take."},
    {.name = "root",
     .type = FERRY_OPTION_STRING,
     .initial = "",
     .doc = "Folder that stands for / where ferry-info --doctor reads /sys, /proc and /dev: for a container that has "
            "those of "
            "the host below another name."},
    {.name = NULL},
};

int fy_ib_options(const struct ferry_core *core, struct fy_ib_options *o, char *why, size_t why_size)
{
    int depth = 0, inline_size = 0;
    const struct fy_plugin_bound bounds[] = {
        {"rails", 0, FY_IB_RAILS, &o->rails},
        {"spread", 0, 2, &o->spread},
        {"gid_index", -1, 255, &o->gid_index},
        {"address_family", 0, 2, &o->family},
        {"pkey_index", 0, 65535, &o->pkey_index},
        {"sl", 0, 15, &o->sl},
        {"traffic_class", 0, 255, &o->traffic_class},
        {"mtu", 0, 5, &o->mtu}, /* the index is the enum ibv_mtu */
        {"timeout", 1, 31, &o->timeout},
        {"retry_count", 0, 7, &o->retry_count},
        {"rnr_timer", 0, 31, &o->rnr_timer},
        {"rnr_retry", 0, 7, &o->rnr_retry},
        {"rd_atomic", 0, 128, &o->rd_atomic},
        {"hop_limit", 1, 255, &o->hop_limit},
        {"flow_label", -1, 0xfffff, &o->flow_label},
        {"queue_depth", 8, 32768, &depth},
        {"inline_size", 8, 4096, &inline_size},
        {"relaxed_ordering", 0, 1, &o->relaxed},
        {"posting", 0, 2, &o->posting}, /* the index is the enum fy_ib_posting */
        {NULL, 0, 0, NULL},
    };
    struct ferry_value v;
    int rc = fy_plugin_bounds(core, "FERRY_IBRC_", bounds, why, why_size);

    if (rc)
        return rc;
    rc = core->option(core, "devices", &v);
    o->devices = rc || !v.string ? "" : v.string;
    if (!rc)
        rc = core->option(core, "map", &v);
    o->map = rc || !v.string ? "" : v.string;
    o->depth = (uint32_t)depth;
    o->inline_size = (uint32_t)inline_size;
    if (!rc)
        rc = fy_ib_list_check(o->devices, why, why_size);
    return rc ? rc : fy_ib_map_check(o->map, why, why_size);
}
