/* SPDX-License-Identifier: Apache-2.0
 * The serving side of the mailbox: reads requests, carries them out with this PE's CPU, puts the replies. It never waits: what
 * cannot go on now is looked at again in the next round. Whoever holds world->serving. */
#include "mail.h"
#include "mail_source.h"

#include "direct.h"
#include "fence.h"

/* What fy_direct_update is for 8 bytes. */
static uint32_t update4(uint32_t *word, unsigned kind, uint32_t operand, uint32_t compare)
{
    uint32_t seen = __atomic_load_n(word, __ATOMIC_ACQUIRE);
    while (!__atomic_compare_exchange_n(word, &seen, (uint32_t)fy_amo_result(kind, seen, operand, compare), false,
                                        __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
        ;
    return seen;
}

/* The memory that a request names, or NULL: peers may send anything. */
static char *named(struct fy_heap *heap, uint32_t segment, uint64_t offset, uint64_t length)
{
    const struct fy_segment *s = fy_heap_segment(heap, segment);
    if (!s || length > s->length || offset > s->length - length)
        return NULL;
    return s->address + offset;
}

static void apply_amo(struct fy_world *world, struct fy_reply *reply, const struct fy_mail_request *r)
{
    char *at = named(world->heap, r->segment, r->offset, r->width);
    bool host = at && fy_heap_segment(world->heap, r->segment)->kind == FERRY_MEMORY_HOST;
    reply->state = FY_REPLY_READY;
    reply->value = 0;
    if (!at || (uintptr_t)at & (r->width - 1u) || r->amo >= FERRY_AMO_KINDS)
        reply->status = FERRY_ERR_ARG;
    else if (!host)
        reply->state = FY_REPLY_UPDATE;
    else if (r->width == 8)
        reply->value = fy_direct_update((uint64_t *)(void *)at, r->amo, r->operand, r->compare);
    else
        reply->value = update4((uint32_t *)(void *)at, r->amo, (uint32_t)r->operand, (uint32_t)r->compare);
}

static void carry_out(struct fy_world *world, struct fy_mail_source *source, const struct fy_mail_request *r, uint64_t number)
{
    struct fy_reply *reply = &source->replies[number % FY_MAIL_SLOTS];
    *reply = (struct fy_reply){.number = number, .request = *r, .wave = reply->wave};
    source->n_replies++;
    if (r->kind == FY_MAIL_AMO) {
        apply_amo(world, reply, r);
        return;
    }
    bool good = r->kind == FY_MAIL_GET && named(world->heap, r->segment, r->offset, r->length) != NULL;
    reply->state = good ? FY_REPLY_DATA : FY_REPLY_READY;
    reply->status = good ? FERRY_OK : FERRY_ERR_ARG;
}

/* ------------------------------------------------------------------ requests that have to wait */

static bool counted_in(struct fy_mail_source *source, const struct fy_mail_request *r)
{
    if (!r->covered || r->cover == 0)
        return true;
    uint32_t *counts = fy_mail_counts(source, r->channel);
    if (!counts || counts[r->epoch] != r->cover)
        return false;
    counts[r->epoch] = 0; /* the epoch's number is free for a later one */
    return true;
}

/* Held ones are tried in the order they came; behind one that stays, all of its channel stay. */
static bool try_held(struct fy_world *world, struct fy_mail_source *source)
{
    uint32_t kept = 0, n = source->n_held;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t before = 0;
        while (before < kept && source->held[before].request.channel != source->held[i].request.channel)
            before++;
        if (before == kept && counted_in(source, &source->held[i].request))
            carry_out(world, source, &source->held[i].request, source->held[i].number);
        else
            source->held[kept++] = source->held[i];
    }
    source->n_held = kept;
    return kept < n;
}

static bool read_ring(struct fy_world *world, struct fy_mail_source *source)
{
    const struct fy_mail_area *area = &world->mail->areas[source->pe];
    struct fy_mail_request request;
    bool moved = false;
    while (source->n_held < FY_MAIL_SLOTS &&
           source->replies[source->next % FY_MAIL_SLOTS].state == FY_REPLY_NONE &&
           fy_mail_unpack(area->ring[source->next % FY_MAIL_SLOTS], fy_mail_lap(source->next), &request)) {
        fy_fence_seen(&world->applied);
        if (request.channel >= world->max_channels)
            request.covered = false; /* not from us: refused below, or harmless */
        source->held[source->n_held].request = request;
        source->held[source->n_held++].number = source->next++;
        moved = true;
        try_held(world, source);
    }
    return moved;
}

/* ------------------------------------------------------------------ replies */

/* First contact may take a while: once per peer. */
static struct fy_flow *flow_to(struct ferry_ctx *ctx, uint32_t pe)
{
    struct fy_flow *flow = &ctx->flows[pe];
    if (flow->epoch != ctx->epoch && fy_flow_enter(ctx, flow, pe) != FERRY_OK)
        return NULL;
    return flow;
}

/* What was put so far is covered by the wave to be drawn next. */
static uint64_t coming_wave(const struct fy_mail_source *source)
{
    return source->waves + 1;
}

/* Draws a ticket if none is open and somebody waits for it, or continues the open one. True: it is good. */
static bool move_wave(struct ferry_ctx *ctx, struct fy_mail_source *source, const struct fy_lane *lane, uint64_t wanted)
{
    if (source->landed >= wanted)
        return true;
    if (source->landed == source->waves) {
        source->waves++;
        source->ticket = 0;
    }
    uint32_t ask = fy_lane_ask(lane, source->pe);
    int rc = lane->ops->quiet(lane->handle, ctx->id, ask, &source->ticket);
    if (rc == FERRY_OK)
        source->landed = source->waves;
    else if (rc == FERRY_ERR_PEER && ask == FERRY_PEER_ALL)
        source->ticket = 0; /* perhaps of another, which was let go: asked again */
    else if (rc < 0)
        source->gone = true;
    return source->landed >= wanted;
}

/* Puts what is behind the first *done bytes, without waiting; false: later, from *done on, or never (source->gone). */
static bool put_now(struct ferry_ctx *ctx, struct fy_mail_source *source, struct ferry_op *op, uint64_t *done)
{
    struct fy_flow *flow = &ctx->flows[source->pe];
    const struct fy_lane *lane = flow->lane;
    struct ferry_op part = *op;
    size_t most = op->flags & FERRY_OP_WORD ? lane->caps->message_max & ~(size_t)7 : lane->caps->message_max;
    part.local = (char *)part.local + *done;
    part.offset += *done;
    if (*done)
        part.flags &= ~FERRY_OP_FENCED;
    while (*done < op->length) {
        part.length = op->length - *done < most ? op->length - *done : most;
        int rc = lane->ops->rma(lane->handle, ctx->id, &part);
        if (rc == FERRY_AGAIN) {
            lane->ops->progress(lane->handle, ctx->id);
            return false; /* goes on from here: a queue may be too short for all of it */
        }
        if (rc < 0) {
            source->gone = true;
            return false;
        }
        part.flags &= ~FERRY_OP_FENCED;
        part.local = (char *)part.local + part.length;
        part.offset += part.length;
        *done += part.length;
    }
    if (!(flow->did & FY_DID_SET(FY_DID_OUT)))
        fy_flow_list(ctx, flow, source->pe);
    flow->did |= FY_DID(FY_DID_PUT);
    return true;
}

static bool put_data(struct ferry_ctx *ctx, struct fy_mail_source *source, struct fy_reply *reply)
{
    const struct fy_mail_request *r = &reply->request;
    const struct fy_lane *lane = ctx->flows[source->pe].lane;
    struct fy_place place;
    char *from = named(ctx->heap, r->segment, r->offset, r->length);
    char *to = named(ctx->heap, r->to_segment, r->to_offset, r->length);
    if (!to || fy_locate(ctx, to, r->length, source->pe, &place) != FERRY_OK) {
        reply->status = FERRY_ERR_ARG;
        reply->state = FY_REPLY_READY;
        return true;
    }
    struct ferry_op op = {.kind = FERRY_OP_PUT, .peer = source->pe, .local = from, .key = place.key, .offset = place.offset,
                          .length = r->length, .region = fy_heap_region(ctx->heap, lane->index, from, r->length)};
    if (r->length && !put_now(ctx, source, &op, &reply->done))
        return false;
    reply->wave = coming_wave(source);
    bool orders = lane->caps->order & FERRY_ORDER_PUT_PUT || lane->caps->flags & (FERRY_CAP_FENCED | FERRY_CAP_FENCE_CALL);
    reply->behind = !(lane->caps->order & FERRY_ORDER_PUT_PUT);
    reply->state = orders ? FY_REPLY_READY : FY_REPLY_WAIT;
    return true;
}

/* The words lie in `answers`, unless the transport copies; then what was put from there before must have left. */
static bool put_reply(struct ferry_ctx *ctx, struct fy_mail_source *source, struct fy_reply *reply, uint32_t slot)
{
    struct fy_mail *mail = ctx->world->mail;
    const struct fy_lane *lane = ctx->flows[source->pe].lane;
    uint64_t *words = mail->areas[source->pe].answers[slot];
    struct fy_place place;
    bool copies = lane->copy_max >= 16;
    if (!copies && !move_wave(ctx, source, lane, reply->wave))
        return false;
    fy_mail_pack_reply(reply->value, reply->status, fy_mail_lap(reply->number), words);
    if (fy_locate(ctx, mail->areas[ctx->world->my_pe].replies[slot], 16, source->pe, &place) != FERRY_OK) {
        source->gone = true;
        return false;
    }
    struct ferry_op op = {.kind = FERRY_OP_PUT, .flags = FERRY_OP_WORD | (copies ? FERRY_OP_COPY : 0), .peer = source->pe,
                          .local = words, .key = place.key, .offset = place.offset, .length = 16,
                          .region = fy_heap_region(ctx->heap, lane->index, words, 16)};
    if (reply->behind && lane->caps->flags & FERRY_CAP_FENCED)
        op.flags |= FERRY_OP_FENCED;
    else if (reply->behind && lane->caps->flags & FERRY_CAP_FENCE_CALL)
        lane->ops->fence(lane->handle, ctx->id, source->pe);
    fy_fence_applied(&ctx->world->applied);
    uint64_t done = 0; /* two words: one part, or as good as that where a word is the most */
    if (!put_now(ctx, source, &op, &done))
        return false;
    if (!copies)
        reply->wave = coming_wave(source);
    reply->state = FY_REPLY_NONE;
    source->n_replies--;
    return true;
}

static bool move_reply(struct ferry_ctx *ctx, struct fy_mail_source *source, uint32_t slot)
{
    struct fy_reply *reply = &source->replies[slot];
    bool moved = false;
    if (reply->state == FY_REPLY_UPDATE)
        moved |= fy_mail_update(ctx, reply);
    if (reply->state == FY_REPLY_DATA)
        moved |= put_data(ctx, source, reply);
    if (reply->state == FY_REPLY_WAIT && move_wave(ctx, source, ctx->flows[source->pe].lane, reply->wave)) {
        reply->state = FY_REPLY_READY;
        reply->behind = false;
        moved = true;
    }
    if (reply->state == FY_REPLY_READY)
        moved |= put_reply(ctx, source, reply, slot);
    return moved;
}

static bool move_replies(struct ferry_ctx *ctx, struct fy_mail_source *source)
{
    if (source->n_replies == 0)
        return false;
    if (!flow_to(ctx, source->pe)) {
        source->gone = true;
        return false;
    }
    bool moved = false;
    for (uint32_t slot = 0; slot < FY_MAIL_SLOTS && !source->gone; slot++)
        if (source->replies[slot].state != FY_REPLY_NONE)
            moved |= move_reply(ctx, source, slot);
    const struct fy_lane *lane = ctx->flows[source->pe].lane;
    if (moved || source->n_replies)
        lane->ops->progress(lane->handle, ctx->id);
    return moved;
}

static bool serve(struct fy_world *world, struct fy_mail_source *source)
{
    struct fy_update *update = &world->mail->update;
    if (fy_unlikely(atomic_load(&world->peers[source->pe].dead)) && !source->gone) {
        source->gone = true;
        fy_let_go(world, source->pe);
    }
    if (source->gone) {
        if (update->reply >= source->replies && update->reply < source->replies + FY_MAIL_SLOTS)
            *update = (struct fy_update){0}; /* nobody waits for it; others do for their turn */
        return false;
    }
    bool moved = try_held(world, source);
    moved |= read_ring(world, source);
    moved |= move_replies(world->mail->ctx, source);
    return moved;
}

bool fy_mail_serve(struct fy_world *world)
{
    struct fy_mail *mail = world->mail;
    uint32_t n = atomic_load_explicit(&mail->n_active, memory_order_acquire);
    bool moved = false;
    if (n == 0 || pthread_mutex_trylock(&mail->ctx->lock) != 0)
        return false;
    for (uint32_t i = 0; i < n; i++) {
        struct fy_mail_source *source = atomic_load_explicit(&mail->active[i], memory_order_acquire);
        if (source)
            moved |= serve(world, source);
    }
    pthread_mutex_unlock(&mail->ctx->lock);
    return moved;
}
