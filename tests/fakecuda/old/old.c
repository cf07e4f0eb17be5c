/* SPDX-License-Identifier: Apache-2.0
 * A libcuda.so.1 of a driver from before virtual memory management (10.1 and older): it answers, and has no
 * cuMemCreate. */
#include "../driver.h"

__attribute__((visibility("default"))) int cuInit(unsigned flags)
{
    (void)flags;
    return 0;
}

__attribute__((visibility("default"))) int cuDriverGetVersion(int *version)
{
    *version = 10010;
    return 0;
}
