/* SPDX-License-Identifier: Apache-2.0
 * How a step went on all PEs, in one record: well, or the failure of the lowest PE that has one.
 * Pure functions over the caller's records; any thread. */
#ifndef FY_BASE_FATE_H
#define FY_BASE_FATE_H

#include <ferry/status.h>
#include <stdint.h>

struct fy_fate {
    uint32_t pe; /* who failed; of no meaning if status is FERRY_OK */
    int32_t status;
    int64_t library_status;
    char message[sizeof(((struct ferry_error *)0)->message)];
    char hint[sizeof(((struct ferry_error *)0)->hint)];
};

/* `error` is read only if status is not FERRY_OK. */
void fy_fate_set(struct fy_fate *fate, uint32_t pe, int status, const struct ferry_error *error);
/* In any order and grouping the result is the same. */
void fy_fate_combine(void *a, const void *b); /* into a; struct fy_fate, both; a fy_combine_fn */
/* The record of it, "pe 3<what>: message", for those that did not fail. Returns the status. */
int fy_fate_tell(struct fy_fate *fate, const char *what, struct ferry_error *error);

#endif
