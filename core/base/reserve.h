/* SPDX-License-Identifier: Apache-2.0
 * Memory by whole pages: zero, and address space only until it is touched; given back to the system at once.
 * For what grows with the size of the job. Any thread. */
#ifndef FY_BASE_RESERVE_H
#define FY_BASE_RESERVE_H

#include <stddef.h>

/* NULL if there is none. */
void *fy_pages_get(size_t length);
/* What fy_pages_get gave, whole; NULL is allowed. */
void fy_pages_put(void *pages, size_t length);

#endif
