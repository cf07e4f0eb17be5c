/* SPDX-License-Identifier: Apache-2.0
 * The name of a plugin's symbol, given to a function. */

void ferry_plugin_v1(void);
__attribute__((visibility("default"))) void ferry_plugin_v1(void)
{
}
