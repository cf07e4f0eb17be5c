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

/* For what is short-lived and grows with the job, as frames do: from a page on such pages, so that nothing of it stays when it
 * is put back, below that malloc's. Contents are not set. NULL if there is none. */
void *fy_bytes_get(size_t size);
/* What fy_bytes_get gave; NULL is allowed. */
void fy_bytes_put(void *bytes);

#endif
