/* SPDX-License-Identifier: Apache-2.0
 * Pages from the system, not from malloc, which would keep what was freed and hand it out again touched.
 * Any thread. */
#include "reserve.h"
#include <sys/mman.h>

void *fy_pages_get(size_t length)
{
    void *pages = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    return pages == MAP_FAILED ? NULL : pages;
}

void fy_pages_put(void *pages, size_t length)
{
    if (pages)
        munmap(pages, length);
}
