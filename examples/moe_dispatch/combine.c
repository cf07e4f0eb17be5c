/* SPDX-License-Identifier: Apache-2.0
 * Combine: the way back. A PE returns one partial sum per token that it received, in the order of arrival; the token's
 * PE adds them up. Sums are exact (model.c), so their order does not matter. Same threads as dispatch.c. */
#include "moe.h"
#include <string.h>

static uint64_t total_out(const struct channel *channel, uint32_t lane)
{
    return channel->arrivals[lane].n;
}

/* What was sent on a lane comes back on it. */
static uint64_t total_in(const struct channel *channel, uint32_t lane)
{
    return channel->start[lane + 1] - channel->start[lane];
}

static size_t slot_bytes(const struct moe *moe)
{
    return (sizeof(struct stamp) + moe->args->hidden * sizeof(float) + 63) / 64 * 64;
}

static uint32_t fill(struct channel *channel, uint32_t lane, uint64_t sequence, void *body)
{
    const struct moe *moe = channel->moe;
    size_t bytes = moe->args->hidden * sizeof(float);
    memcpy(body, channel->arrivals[lane].results + sequence * moe->args->hidden, bytes);
    memset((char *)body + bytes, 0, slot_bytes(moe) - sizeof(struct stamp) - bytes);
    return channel->arrivals[lane].tokens[sequence];
}

static int take(struct channel *channel, uint32_t lane, uint64_t sequence, const void *slot)
{
    const struct moe *moe = channel->moe;
    uint32_t own = channel->queue[channel->start[lane] + sequence];
    struct stamp stamp;
    memcpy(&stamp, slot, sizeof stamp);
    if (stamp.token != moe->first_token + own)
        return fail(channel->moe, FERRY_ERR_TRANSPORT,
                    "combine: pe %u channel %u from pe %u: expected token %u, saw token %u", moe->me, channel->index,
                    channel->receivers[lane].pe, moe->first_token + own, stamp.token);
    const float *partial = (const float *)((const char *)slot + sizeof stamp);
    float *sum = moe->combined + (size_t)own * moe->args->hidden;
    for (uint32_t i = 0; i < moe->args->hidden; i++)
        sum[i] += partial[i];
    return FERRY_OK;
}

int combine_run(struct moe *moe)
{
    struct exchange x = {.phase = 2,
                         .name = "combine",
                         .direction = -1,
                         .total_out = total_out,
                         .total_in = total_in,
                         .fill = fill,
                         .take = take};
    int rc = rings_open(moe, &x.rings, slot_bytes(moe));
    if (rc == FERRY_OK)
        rc = exchange_run(moe, &x);
    return rc == FERRY_OK ? rings_close(moe, &x.rings) : rc;
}
