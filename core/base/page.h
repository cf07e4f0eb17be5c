/* SPDX-License-Identifier: Apache-2.0
 * The page of <ferry/page.h>: made, shared with whoever may look at this process, and filled with who waits for what.
 * Made and unmade by the setup thread; waits are told by any thread. */
#ifndef FY_BASE_PAGE_H
#define FY_BASE_PAGE_H

#include "clock.h"
#include <ferry/page.h>
#include <stddef.h>

struct fy_page {
    struct ferry_page *head; /* never NULL */
    int fd;                  /* -1: nobody else sees it */
    size_t head_bytes, unit; /* mapped; the system's page size */
};

#define FY_PAGE_REPORT_ROOM ((size_t)1 << 20)

/* shared false, or no such file to be had: the same without readers. False: no memory. */
bool fy_page_create(struct fy_page *page, uint32_t n_channels, bool shared);
void fy_page_destroy(struct fy_page *page);

/* Memory for an object whose last member, at `counters`, becomes the block of a channel; zeroed. NULL: there is none. */
void *fy_page_object(const struct fy_page *page, size_t counters);
/* The block of channel `id` from now on; what it had counted is lost. */
void fy_page_share(const struct fy_page *page, void *object, size_t counters, uint32_t id);
void fy_page_release(const struct fy_page *page, void *object, size_t counters);
/* The block of channel `id` as the control thread writes it: mapped by fy_page_create. NULL: nobody would read it. */
struct ferry_page_channel *fy_page_channel(const struct fy_page *page, uint32_t id);

/* A wait that takes longer. Returns 1 + the slot taken, 0: none is free. */
uint32_t fy_page_wait(struct fy_page *page, int peer, int channel, const char *doing);
void fy_page_wait_over(struct fy_page *page, uint32_t slot);
/* Copies slot i; false: nobody waits there. */
bool fy_page_wait_read(const struct fy_page *page, unsigned i, struct ferry_page_wait *wait);

/* Text, then JSON, for whoever asked. The report thread. */
void fy_page_report(struct fy_page *page, const char *text, size_t text_size, const char *json, size_t json_size);

#endif
