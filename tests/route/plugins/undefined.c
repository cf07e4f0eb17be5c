/* SPDX-License-Identifier: Apache-2.0
 * Needs a function that nothing defines: RTLD_NOW finds out at once. */
#include <ferry/transport.h>

int nobody_defines_this(const struct ferry_core *core, const struct ferry_open *how, struct ferry_transport **t);

FERRY_PLUGIN_EXPORT const struct ferry_plugin ferry_plugin_v1 = {
    .abi = FERRY_TRANSPORT_ABI,
    .size = sizeof(struct ferry_plugin),
    .name = "undefined",
    .open = nobody_defines_this,
};
