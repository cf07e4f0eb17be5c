/* SPDX-License-Identifier: Apache-2.0
 * Atomics on memory of this PE that its CPU may not touch: the transport gets the word, and puts it back. One at a time, and
 * by nobody else, so that no update is lost. Whoever holds world->serving. */
#include "mail.h"
#include "mail_source.h"

static int post(struct ferry_ctx *ctx, struct fy_reply *reply, uint8_t kind)
{
    const struct fy_mail_request *r = &reply->request;
    uint32_t self = ctx->world->my_pe;
    const struct fy_lane *lane = ctx->flows[self].lane;
    uint64_t *word = ctx->world->mail->areas[0].scratch;
    struct fy_place place;
    int rc = fy_locate(ctx, fy_heap_segment(ctx->heap, r->segment)->address + r->offset, r->width, self, &place);
    if (rc != FERRY_OK)
        return rc;
    struct ferry_op op = {.kind = kind, .peer = self, .local = word, .key = place.key, .offset = place.offset, .length = r->width,
                          .region = fy_heap_region(ctx->heap, lane->index, word, r->width)};
    if (kind == FERRY_OP_PUT && r->width == 8)
        op.flags |= FERRY_OP_WORD;
    return lane->ops->rma(lane->handle, ctx->id, &op);
}

static bool finish(struct fy_update *update, int status)
{
    update->reply->status = status < 0 ? status : FERRY_OK;
    update->reply->state = FY_REPLY_READY;
    *update = (struct fy_update){0};
    return true;
}

/* The word has come: what becomes of it goes back. */
static int store(struct ferry_ctx *ctx, struct fy_update *update)
{
    const struct fy_mail_request *r = &update->reply->request;
    uint64_t *word = ctx->world->mail->areas[0].scratch, before = r->width == 8 ? *word : *(uint32_t *)word;
    uint64_t compare = r->width == 8 ? r->compare : (uint32_t)r->compare;
    update->reply->value = before;
    uint64_t after = fy_amo_result(r->amo, before, r->operand, compare);
    if (r->width == 8)
        *word = after;
    else
        *(uint32_t *)word = (uint32_t)after;
    int rc = post(ctx, update->reply, FERRY_OP_PUT);
    if (rc == FERRY_AGAIN) { /* the word stays what it was until the put is taken */
        if (r->width == 8)
            *word = before;
        else
            *(uint32_t *)word = (uint32_t)before;
        return rc;
    }
    update->stored = rc >= 0;
    update->ticket = 0;
    return rc;
}

static int begin(struct ferry_ctx *ctx, struct fy_update *update, struct fy_reply *reply)
{
    struct fy_flow *flow = &ctx->flows[ctx->world->my_pe];
    if (flow->epoch != ctx->epoch) {
        int rc = fy_flow_enter(ctx, flow, ctx->world->my_pe);
        if (rc != FERRY_OK)
            return rc;
    }
    if (!(flow->lane->caps->flags & FERRY_CAP_GET))
        return FERRY_ERR_UNSUPPORTED;
    int rc = post(ctx, reply, FERRY_OP_GET);
    if (rc < 0 || rc == FERRY_AGAIN)
        return rc;
    if (!(flow->did & FY_DID_SET(FY_DID_OUT)))
        fy_flow_list(ctx, flow, ctx->world->my_pe);
    flow->did |= FY_DID(FY_DID_GET) | FY_DID(FY_DID_PUT);
    *update = (struct fy_update){.reply = reply};
    return FERRY_OK;
}

bool fy_mail_update(struct ferry_ctx *ctx, struct fy_reply *reply)
{
    struct fy_update *update = &ctx->world->mail->update;
    uint32_t self = ctx->world->my_pe;
    int rc = FERRY_OK;
    if (update->reply && update->reply != reply)
        return false;
    if (!update->reply) {
        rc = begin(ctx, update, reply);
        if (rc == FERRY_AGAIN)
            return false;
        update->reply = reply;
        if (rc < 0)
            return finish(update, rc);
    }
    const struct fy_lane *lane = ctx->flows[self].lane;
    lane->ops->progress(lane->handle, ctx->id);
    rc = lane->ops->quiet(lane->handle, ctx->id, fy_lane_ask(lane, self), &update->ticket);
    if (rc == FERRY_AGAIN)
        return false;
    if (rc >= 0 && update->stored)
        return finish(update, FERRY_OK);
    if (rc >= 0)
        rc = store(ctx, update);
    return rc < 0 ? finish(update, rc) : rc != FERRY_AGAIN;
}
