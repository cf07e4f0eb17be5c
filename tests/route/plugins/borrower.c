/* SPDX-License-Identifier: Apache-2.0
 * No plugin itself, but linked to one: dlsym would find the other's symbol. */
#include <ferry/transport.h>

extern const struct ferry_plugin *const borrower_uses;
__attribute__((visibility("default"))) const struct ferry_plugin *const borrower_uses = &ferry_plugin_v1;
