/* SPDX-License-Identifier: Apache-2.0
 * A shared object that is no plugin. Leaves a mark when it is loaded. */
#include "plain.h"

__attribute__((constructor)) static void loaded(void)
{
    plain_mark("loaded ");
}

__attribute__((visibility("default"))) const int somebody_elses_symbol = 1;
