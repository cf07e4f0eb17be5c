/* SPDX-License-Identifier: Apache-2.0
 * A plugin of another major, which has another symbol. */
#include <stdint.h>

__attribute__((visibility("default"))) const uint32_t ferry_plugin_v2[16] = {2u << 16, 64};
