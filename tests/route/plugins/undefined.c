/* SPDX-License-Identifier: Apache-2.0
 * Calls a function that nothing defines. Bound lazily, that would show in the call, and end the process. */
#include <ferry/transport.h>

int nobody_defines_this(void);

static int undefined_open(const struct ferry_core *core, const struct ferry_open *how, struct ferry_transport **t)
{
    (void)core, (void)how, (void)t;
    return nobody_defines_this();
}

FERRY_PLUGIN_EXPORT const struct ferry_plugin ferry_plugin_v1 = {
    .abi = FERRY_TRANSPORT_ABI,
    .size = sizeof(struct ferry_plugin),
    .name = "undefined",
    .open = undefined_open,
};
