/* SPDX-License-Identifier: Apache-2.0
 * Pages from the system, not from malloc, which would keep what was freed and hand it out again touched.
 * Any thread. */
#include "reserve.h"
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>

#ifdef __SANITIZE_ADDRESS__
#define FROM_PAGES SIZE_MAX /* it watches over the ends of what malloc gives */
#else
#define FROM_PAGES ((size_t)4096)
#endif

/* In front of the bytes. */
struct head {
    _Alignas(16) size_t length; /* of all */
};

/* To the end of the last page: for the thread sanitizer only whole pages are gone with what was written to them. */
static size_t whole(size_t length)
{
    return (length + 4095) & ~(size_t)4095;
}

void *fy_pages_get(size_t length)
{
    void *pages = MAP_FAILED;

    if (length <= SIZE_MAX - 4095)
        pages = mmap(NULL, whole(length), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return pages == MAP_FAILED ? NULL : pages;
}

void fy_pages_put(void *pages, size_t length)
{
    if (pages)
        munmap(pages, whole(length));
}

void *fy_bytes_get(size_t size)
{
    size_t length = size + sizeof(struct head);
    struct head *head = NULL;

    if (length > size)
        head = length < FROM_PAGES ? malloc(length) : fy_pages_get(length);
    if (!head)
        return NULL;
    head->length = length;
    return head + 1;
}

void fy_bytes_put(void *bytes)
{
    struct head *head = bytes;

    if (!bytes)
        return;
    head--;
    if (head->length < FROM_PAGES)
        free(head);
    else
        fy_pages_put(head, head->length);
}
