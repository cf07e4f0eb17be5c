/* SPDX-License-Identifier: Apache-2.0
 * Local memory for transports that want theirs registered: a small area of the channel's own for short operations, and
 * registrations that last until quiet for long ones. The channel's thread, or under its lock. */
#ifndef FY_ORDER_BOUNCE_H
#define FY_ORDER_BOUNCE_H

#include "channel.h"

/* Longest piece that fy_bounce_take gives. */
size_t fy_bounce_piece(const struct ferry_ctx *ctx);
/* `length` bytes of registered memory, the caller's to fill and to use in one operation on the lane; *region is its
 * registration. NULL: *status says why, recorded. */
char *fy_bounce_take(struct ferry_ctx *ctx, const struct fy_lane *lane, size_t length, struct ferry_region **region,
                     int *status);
void fy_bounce_release(struct ferry_ctx *ctx);

/* Registers the caller's memory until everything on the channel to `pe` is complete. */
int fy_loan(struct ferry_ctx *ctx, const struct fy_lane *lane, const void *address, size_t length, uint32_t pe,
            struct ferry_region **region);
/* pe or FERRY_PEER_ALL. */
void fy_loans_return(struct ferry_ctx *ctx, uint32_t pe);

#endif
