/* SPDX-License-Identifier: Apache-2.0
 * Quiet for a caller that must not wait: tickets are drawn, and asked about later, while more is posted.
 * Called by the channel's thread, or under its lock. */
#ifndef FY_ORDER_QUIET_H
#define FY_ORDER_QUIET_H

#include "channel.h"

struct fy_quiet {
    uint32_t lanes;  /* by bit: those whose ticket is open */
    bool posted;     /* set by the caller: something was posted after the tickets were drawn */
    uint64_t tickets[FY_MAX_TRANSPORTS];
};

/* Covers everything posted so far. FERRY_OK: all of it is complete; FERRY_AGAIN: to be continued with fy_quiet_continue;
 * FERRY_ERR_UNSUPPORTED: it takes what may have to be waited for: fy_quiet_all does it. */
int fy_quiet_start(struct ferry_ctx *ctx, struct fy_quiet *quiet);
/* FERRY_OK, FERRY_AGAIN; FERRY_ERR_UNSUPPORTED: a peer died meanwhile, fy_quiet_all knows what is left; another failure is
 * recorded. */
int fy_quiet_continue(struct ferry_ctx *ctx, struct fy_quiet *quiet);

#endif
