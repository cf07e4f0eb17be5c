/* SPDX-License-Identifier: Apache-2.0
 * The sending side of the mailbox: ordering a request, its slot, putting it, and what comes back.
 * The channel's thread, or under its lock; slots are shared by all channels and under the peer's lock. */
#include "mail.h"

#include "fence.h"
#include "wait.h"

#include <string.h>

/* What one of this PE's slots is waiting for, and where it goes. Called under the peer's lock. */
static void finish(struct fy_mail_peer *peer, struct fy_mail_slot *slot, uint64_t value, int status, const char *landed)
{
    slot->busy = false;
    if (status != FERRY_OK && peer->refused == FERRY_OK) {
        peer->refused = status;
        peer->refused_channel = slot->channel;
    }
    if (slot->old && slot->width == 4)
        *(uint32_t *)slot->old = (uint32_t)value;
    else if (slot->old)
        *(uint64_t *)slot->old = value;
    if (slot->to)
        memcpy(slot->to, landed, slot->length);
}

static char *landing_of(const struct fy_mail *mail, uint32_t pe, uint64_t number)
{
    if (!mail->landing)
        return NULL;
    return mail->landing + ((size_t)pe * FY_MAIL_SLOTS + number % FY_MAIL_SLOTS) * FY_MAIL_PIECE;
}

/* Takes in the replies that are there. Under the peer's lock. */
static void collect(struct fy_mail *mail, struct fy_mail_peer *peer, uint32_t pe)
{
    for (unsigned i = 0; i < FY_MAIL_SLOTS; i++) {
        struct fy_mail_slot *slot = &peer->slots[i];
        uint64_t value;
        int status;
        if (slot->busy && fy_mail_unpack_reply(mail->areas[pe].replies[i], fy_mail_lap(slot->number), &value, &status))
            finish(peer, slot, value, status, landing_of(mail, pe, slot->number));
    }
}

static bool any_of(const struct fy_mail_peer *peer, uint32_t channel)
{
    for (unsigned i = 0; i < FY_MAIL_SLOTS; i++)
        if (peer->slots[i].busy && peer->slots[i].channel == channel)
            return true;
    return false;
}

/* What a thread waits for: a free slot, one reply, or all replies to a channel. */
enum goal { GOAL_SLOT, GOAL_REPLY, GOAL_CHANNEL };

static bool reached(struct ferry_ctx *ctx, struct fy_mail_peer *peer, enum goal goal, uint64_t number)
{
    const struct fy_mail_slot *slot = &peer->slots[number % FY_MAIL_SLOTS];
    switch (goal) {
    case GOAL_SLOT: return !peer->slots[peer->sent % FY_MAIL_SLOTS].busy;
    case GOAL_REPLY: return !slot->busy || slot->number != number;
    default: return !any_of(peer, ctx->id);
    }
}

static int refused(struct ferry_ctx *ctx, struct fy_mail_peer *peer, uint32_t pe)
{
    int status = peer->refused;
    if (status == FERRY_OK || peer->refused_channel != ctx->id)
        return FERRY_OK;
    peer->refused = FERRY_OK;
    return fy_fail(ctx->world, status, (int)pe, (int)ctx->id, FERRY_OP_AMO, "see the messages of that pe",
                   "pe %u could not carry out a request of channel %u: %s", pe, ctx->id, ferry_status_string(status));
}

static int late(struct ferry_ctx *ctx, uint32_t pe)
{
    return fy_fail(ctx->world, FERRY_ERR_TIMEOUT, (int)pe, (int)ctx->id, FERRY_OP_AMO,
                   "raise FERRY_TIMEOUT if the peer may be that slow", "no reply to a request of channel %u from pe %u within %g s",
                   ctx->id, pe, ctx->world->timeout);
}

/* Returns with the peer's lock held if FERRY_OK. */
static int wait_turns(struct ferry_ctx *ctx, struct fy_mail_peer *peer, uint32_t pe, enum goal goal, uint64_t number,
                      struct fy_backoff *backoff)
{
    struct fy_world *world = ctx->world;
    const struct fy_lane *lane = ctx->flows[pe].lane;
    const struct fy_waiter waiter = {world, NULL, (int)pe, "an operation that pe does for us", pe + 1};
    uint64_t deadline = fy_deadline(world->timeout);
    for (;;) {
        pthread_mutex_lock(&peer->lock);
        collect(world->mail, peer, pe);
        if (reached(ctx, peer, goal, number)) {
            fy_fence_seen(&world->applied);
            return FERRY_OK;
        }
        int rc = peer->broken;
        pthread_mutex_unlock(&peer->lock);
        if (rc != FERRY_OK)
            return fy_fail(world, rc, (int)pe, (int)ctx->id, FERRY_OP_AMO, NULL,
                           "an earlier request to pe %u could not be put: no more can be made of it", pe);
        int moved = lane->ops->progress(lane->handle, ctx->id);
        if (moved == FERRY_OK)
            fy_wait_moved(world, backoff);
        rc = moved < 0 ? fy_lane_heard(ctx, lane, true) : FERRY_OK;
        if (rc == FERRY_OK)
            rc = fy_wait_turn(&waiter, backoff);
        if (rc != FERRY_OK)
            return rc;
        if ((backoff->rounds > FY_SPIN || backoff->rounds % FY_LOOK == 0) && fy_now_ns() > deadline)
            return late(ctx, pe);
    }
}

/* The same, told of in the page. */
static int wait_for(struct ferry_ctx *ctx, struct fy_mail_peer *peer, uint32_t pe, enum goal goal, uint64_t number)
{
    struct fy_backoff backoff = fy_wait_start(ctx->world);
    int rc = wait_turns(ctx, peer, pe, goal, number, &backoff);
    fy_wait_over(ctx->world, &backoff);
    return rc;
}

int fy_mail_wait(struct ferry_ctx *ctx, uint32_t pe)
{
    struct fy_mail_peer *peer = atomic_load_explicit(&ctx->world->mail->peers[pe], memory_order_acquire);
    if (!peer)
        return FERRY_OK;
    int rc = wait_for(ctx, peer, pe, GOAL_CHANNEL, 0);
    if (rc != FERRY_OK)
        return rc;
    rc = refused(ctx, peer, pe);
    pthread_mutex_unlock(&peer->lock);
    return rc;
}

void fy_mail_forget(struct ferry_ctx *ctx, uint32_t pe)
{
    struct fy_mail_peer *peer = atomic_load_explicit(&ctx->world->mail->peers[pe], memory_order_acquire);
    if (!peer)
        return;
    pthread_mutex_lock(&peer->lock);
    for (unsigned i = 0; i < FY_MAIL_SLOTS; i++)
        if (peer->slots[i].channel == ctx->id)
            peer->slots[i] = (struct fy_mail_slot){.number = peer->slots[i].number, .busy = peer->slots[i].busy};
    pthread_mutex_unlock(&peer->lock);
}

/* put → fence → request: the request itself is fenced, or waits at the target until what it follows was counted; where the
 * transport can do neither, it waits here. request → fence → request needs nothing: the target reads them in order. */
static int order_request(struct ferry_ctx *ctx, struct fy_flow *flow, uint32_t pe, bool strong, struct fy_mail_peer *peer,
                         struct fy_mail_request *request, uint32_t *flags)
{
    const struct fy_lane *lane = flow->lane;
    uint32_t mask = strong ? lane->strong_request : lane->unordered_request;
    if (!(flow->did & mask))
        return FERRY_OK;
    if (lane->counted && !(flow->did & mask & ~FY_DID_ANY(FY_DID_PUT))) {
        fy_cover_request(ctx, peer, request);
        return FERRY_OK;
    }
    return fy_flow_seal(ctx, flow, pe, mask, flags);
}

static struct fy_mail_slot *take_slot(struct fy_mail_peer *peer, uint64_t *number)
{
    *number = peer->sent++;
    struct fy_mail_slot *slot = &peer->slots[*number % FY_MAIL_SLOTS];
    *slot = (struct fy_mail_slot){.number = *number, .busy = true};
    return slot;
}

/* Puts the words into the peer's ring, on the user's channel, so that the channel's order holds for them. */
static int put_request(struct ferry_ctx *ctx, struct fy_flow *flow, uint32_t pe, const struct fy_mail_request *request,
                       uint64_t number, uint32_t flags)
{
    uint64_t words[FY_MAIL_WORDS];
    struct fy_place place;
    struct fy_mail *mail = ctx->world->mail;
    fy_mail_pack(request, fy_mail_lap(number), words);
    int rc = fy_locate(ctx, mail->areas[ctx->world->my_pe].ring[number % FY_MAIL_SLOTS], sizeof(words), pe, &place);
    if (rc != FERRY_OK)
        return rc;
    struct ferry_op op = {.kind = FERRY_OP_PUT, .flags = flags | FERRY_OP_WORD, .peer = pe, .local = words, .key = place.key,
                          .offset = place.offset, .length = sizeof(words)};
    fy_fence_applied(&ctx->world->applied); /* this PE may be the one that serves it */
    rc = fy_words_put(ctx, flow, &op);
    return rc < 0 ? rc : FERRY_OK;
}

/* Sends a request. *number: of its slot, for waiting. */
static int send(struct ferry_ctx *ctx, uint32_t pe, struct fy_mail_request *request, bool strong, struct fy_mail_slot *how,
                uint64_t *number)
{
    struct fy_flow *flow = &ctx->flows[pe];
    uint32_t flags = 0;
    int rc;
    struct fy_mail_peer *peer = fy_mail_peer_of(ctx, pe, &rc);
    if (!peer)
        return rc;
    request->channel = ctx->id;
    rc = order_request(ctx, flow, pe, strong, peer, request, &flags); /* before a slot is taken: it may wait for replies */
    if (rc == FERRY_OK)
        rc = wait_for(ctx, peer, pe, GOAL_SLOT, 0);
    if (rc != FERRY_OK)
        return rc;
    struct fy_mail_slot *slot = take_slot(peer, number);
    slot->channel = ctx->id;
    slot->width = how->width;
    slot->old = how->old;
    slot->to = how->to;
    slot->length = how->length;
    if (request->kind == FY_MAIL_GET && slot->to)
        fy_heap_name(ctx->heap, landing_of(ctx->world->mail, pe, *number), &request->to_segment, &request->to_offset);
    pthread_mutex_unlock(&peer->lock);
    rc = put_request(ctx, flow, pe, request, *number, flags);
    if (rc != FERRY_OK) {
        pthread_mutex_lock(&peer->lock);
        peer->broken = rc;
        slot->old = slot->to = NULL;
        pthread_mutex_unlock(&peer->lock);
        return rc;
    }
    fy_count(&ctx->counters.mailed, 1);
    if (!(flow->did & FY_DID_SET(FY_DID_OUT)))
        fy_flow_list(ctx, flow, pe);
    flow->did |= FY_DID(FY_DID_MAIL) | FY_DID_REQUEST << FY_DID_OUT;
    return FERRY_OK;
}

static int wait_reply(struct ferry_ctx *ctx, uint32_t pe, uint64_t number)
{
    struct fy_mail_peer *peer = atomic_load_explicit(&ctx->world->mail->peers[pe], memory_order_acquire);
    int rc = wait_for(ctx, peer, pe, GOAL_REPLY, number);
    if (rc != FERRY_OK) {
        fy_mail_forget(ctx, pe); /* the caller's memory is its own again */
        return rc;
    }
    rc = refused(ctx, peer, pe);
    pthread_mutex_unlock(&peer->lock);
    return rc;
}

static int no_mailbox(struct ferry_ctx *ctx, uint32_t pe, int operation)
{
    return fy_fail(ctx->world, FERRY_ERR_UNSUPPORTED, (int)pe, (int)ctx->id, operation, "report this: init should have seen it coming",
                   "transport %s lacks the operation, and the job has no mailbox",
                   ctx->world->transports[ctx->flows[pe].lane->index]->name);
}

int fy_mail_amo(struct ferry_ctx *ctx, const struct fy_amo_call *call, uint32_t pe)
{
    if (!ctx->world->mail)
        return no_mailbox(ctx, pe, FERRY_OP_AMO);
    struct fy_mail_request request = {.kind = FY_MAIL_AMO, .amo = (uint8_t)call->kind, .width = (uint8_t)call->width,
                                      .segment = call->place.target->segment, .offset = call->place.offset,
                                      .operand = call->operand, .compare = call->compare};
    struct fy_mail_slot how = {.width = (uint8_t)call->width, .old = call->old};
    uint64_t number;
    int rc = send(ctx, pe, &request, call->how & FY_AMO_STRONG, &how, &number);
    return rc == FERRY_OK && call->old ? wait_reply(ctx, pe, number) : rc;
}

/* One request; `dest` takes the data at once where the peer can put it there. */
static int get_piece(struct ferry_ctx *ctx, char *dest, const struct fy_place *place, uint64_t at, size_t length, bool lands,
                     uint32_t pe, uint64_t *number)
{
    struct fy_mail_request request = {.kind = FY_MAIL_GET, .width = 8, .segment = place->target->segment,
                                      .offset = place->offset + at, .length = length};
    struct fy_mail_slot how = {.width = 8, .to = lands ? dest : NULL, .length = length};
    if (!lands)
        fy_heap_name(ctx->heap, dest, &request.to_segment, &request.to_offset);
    return send(ctx, pe, &request, false, &how, number);
}

int fy_get_made(struct ferry_ctx *ctx, void *dest, const struct fy_place *place, size_t length, uint32_t pe, bool blocking)
{
    struct fy_world *world = ctx->world;
    if (!world->mail || !world->mail->landing)
        return no_mailbox(ctx, pe, FERRY_OP_GET);
    uint32_t segment;
    uint64_t offset, number = 0;
    bool lands = !fy_heap_name(ctx->heap, dest, &segment, &offset) || offset + length > ctx->heap->segments[segment]->length;
    size_t piece = lands ? FY_MAIL_PIECE : length;
    int rc = FERRY_OK;
    for (size_t at = 0; at < length && rc == FERRY_OK; at += piece) {
        size_t n = length - at < piece ? length - at : piece;
        rc = get_piece(ctx, (char *)dest + at, place, at, n, lands, pe, &number);
    }
    if (rc == FERRY_OK && blocking) /* the replies need not come in order */
        rc = fy_mail_wait(ctx, pe);
    return rc;
}
