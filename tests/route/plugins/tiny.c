/* SPDX-License-Identifier: Apache-2.0
 * A symbol of the right name that is too small to be a plugin. */
#include <stdint.h>

__attribute__((visibility("default"))) const uint32_t ferry_plugin_v1 = 1u << 16;
