/* SPDX-License-Identifier: Apache-2.0
 * A plugin of another major, which has another symbol. Leaves a mark when it is loaded. */
#include "plain.h"

__attribute__((constructor)) static void loaded(void)
{
    plain_mark("loaded ");
}

__attribute__((visibility("default"))) const uint32_t ferry_plugin_v2[16] = {2u << 16, 64};
