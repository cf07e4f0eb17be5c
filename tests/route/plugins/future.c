/* SPDX-License-Identifier: Apache-2.0
 * A plugin of a later minor: larger structs, members that this core does not know. */
#include "plain.h"

struct future_ops {
    struct ferry_host_ops known;
    int (*unknown)(struct ferry_transport *t);
};

struct future_plugin {
    struct ferry_plugin known;
    const char *unknown;
};

static int never(struct ferry_transport *t)
{
    (void)t;
    plain_mark("unknown ");
    return FERRY_OK;
}

#pragma GCC diagnostic ignored "-Woverride-init"
static const struct future_ops ops = {{PLAIN_OPS, .size = sizeof(struct future_ops)}, never};

FERRY_PLUGIN_EXPORT const struct future_plugin future_plugin __asm__("ferry_plugin_v1") = {
    {
        .abi = (FERRY_TRANSPORT_ABI_MAJOR << 16) | 7u,
        .size = sizeof(struct future_plugin),
        .name = "future",
        .summary = "a transport for tests",
        .version = "9.9",
        .ops = &ops.known,
        .open = plain_open,
    },
    "unknown",
};
