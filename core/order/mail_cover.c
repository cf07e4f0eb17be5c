/* SPDX-License-Identifier: Apache-2.0
 * Order by remote completion data: puts carry channel and epoch, the target counts what arrived, and a request that closes
 * an epoch says how many there were. Sending: the channel's thread, or under its lock. Arrivals: under world->serving. */
#include "mail.h"
#include "mail_source.h"

/* The 32 bits: a mark, so that foreign data is told from ours; the epoch; the channel. */
#define MARK 0xf5u
#define DATA(channel, epoch) (MARK << 24 | (uint32_t)(epoch) << 16 | (channel))

int fy_cover_put(struct ferry_ctx *ctx, uint32_t pe, struct ferry_op *op)
{
    int rc;
    struct fy_mail_peer *peer = fy_mail_peer_of(ctx, pe, &rc);
    if (!peer)
        return rc;
    op->flags |= FERRY_OP_DATA;
    op->remote_data = DATA(ctx->id, peer->cover[ctx->id].epoch);
    return FERRY_OK;
}

void fy_cover_posted(struct ferry_ctx *ctx, uint32_t pe)
{
    atomic_load(&ctx->world->mail->peers[pe])->cover[ctx->id].count++;
}

/* At most FY_MAIL_SLOTS epochs are open, since each has a request in flight: 8 bits tell them apart. */
void fy_cover_request(struct ferry_ctx *ctx, struct fy_mail_peer *peer, struct fy_mail_request *request)
{
    struct fy_mail_cover *cover = &peer->cover[ctx->id];
    request->covered = true;
    request->cover = cover->count;
    request->epoch = cover->epoch;
    cover->count = 0;
    cover->epoch++;
}

void fy_cover_arrived(struct fy_world *world, uint32_t from, uint64_t data)
{
    uint32_t channel = data & 0xffff, epoch = data >> 16 & 0xff;
    struct fy_mail_source *source = world->mail && from < world->n_pes ? fy_mail_source_of(world->mail, from) : NULL;
    if (!source || data >> 24 != MARK || channel >= world->max_channels) {
        fy_log(world->log, FERRY_LOG_ERROR, "remote completion data 0x%llx from pe %u belongs to no put of ours: the transport "
               "mixes up jobs, or damages data", (unsigned long long)data, from);
        return;
    }
    uint32_t *counts = fy_mail_counts(source, channel);
    if (counts)
        counts[epoch]++;
    else
        fy_log(world->log, FERRY_LOG_ERROR, "no memory to count the puts of pe %u on channel %u: its signals there will not come",
               from, channel);
}
