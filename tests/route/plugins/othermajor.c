/* SPDX-License-Identifier: Apache-2.0
 * A plugin of ABI 2.3 under the symbol of ABI 1. Whoever reads more of it than `abi` follows a wild pointer; whoever
 * calls it, or so much as loads it, leaves a mark. */
#include "plain.h"

__attribute__((constructor)) static void loaded(void)
{
    plain_mark("loaded ");
}

static int marked_probe(const struct ferry_core *core, struct ferry_probe *probe)
{
    (void)core, (void)probe;
    plain_mark("probe ");
    return FERRY_OK;
}

FERRY_PLUGIN_EXPORT const struct ferry_plugin ferry_plugin_v1 = {
    .abi = (2u << 16) | 3u,
    .size = 0xffffffff,
    .name = (const char *)16,
    .summary = (const char *)16,
    .version = (const char *)16,
    .options = (const struct ferry_option *)16,
    .ops = (const struct ferry_host_ops *)16,
    .probe = marked_probe,
    .open = plain_open,
};

const struct ferry_host_ops othermajor_ops = {PLAIN_OPS};
