/* SPDX-License-Identifier: Apache-2.0
 * Completion: waiting for tickets, quiet for one peer and for all, and what quiet means once a peer is dead.
 * Called by the channel's thread, or under its lock. Cost follows what is outstanding, not the size of the job. */
#include "channel.h"

#include "bounce.h"
#include "fence.h"
#include "mail.h"
#include "post.h"
#include "quiet.h"

#define TURNS 8u /* of a wait in which something moves, to one in which peers are served */

static void flow_clear(struct ferry_ctx *ctx, struct fy_flow *flow)
{
    if (flow->did & FY_DID_SET(FY_DID_OUT) && --ctx->n_busy == 0)
        fy_channel_idle(ctx);
    flow->did = 0;
    flow->ops = 0;
    flow->bytes = 0;
    flow->ticket = 0;
}

void fy_let_go(struct fy_world *world, uint32_t pe)
{
    struct fy_peer *peer = &world->peers[pe];
    if ((!atomic_load(&peer->dead) && !atomic_load(&peer->gone)) || atomic_exchange(&peer->left, 1))
        return;
    pthread_mutex_lock(&world->setup);
    for (uint32_t i = 0; i < world->n_lanes; i++) /* any channel may have used any of them */
        world->lanes[i].ops->disconnect(world->lanes[i].handle, pe);
    pthread_mutex_unlock(&world->setup);
}

/* A lane that cannot tell peers apart never gets done while it holds something for the dead. */
static void let_go_of_all(struct ferry_ctx *ctx)
{
    for (uint32_t i = 0; i < ctx->n_listed; i++)
        fy_let_go(ctx->world, ctx->listed[i]);
}

/* Among those that the lane owes something, where it was asked for all at once: one that is late, if it can tell them apart. */
static int late(struct ferry_ctx *ctx, const struct fy_lane *lane)
{
    int first = -1;
    for (uint32_t i = 0; i < ctx->n_listed; i++) {
        uint32_t pe = ctx->listed[i];
        const struct fy_flow *flow = &ctx->flows[pe];
        uint64_t ticket = 0;
        if ((flow->lane != lane && !(flow->far & 1u << lane->index)) || !(flow->did & FY_DID_SET(FY_DID_OUT)))
            continue;
        if (first < 0)
            first = (int)pe;
        if (lane->caps->flags & FERRY_CAP_QUIET_PEER && lane->ops->quiet(lane->handle, ctx->id, pe, &ticket) != FERRY_OK)
            return (int)pe;
    }
    return first;
}

static int not_complete(struct ferry_ctx *ctx, const struct fy_lane *lane, uint32_t pe, const char *doing)
{
    int who = pe == FERRY_PEER_ALL ? late(ctx, lane) : (int)pe;
    bool sure = pe != FERRY_PEER_ALL || lane->caps->flags & FERRY_CAP_QUIET_PEER || ctx->n_listed == 1;
    return fy_fail(ctx->world, FERRY_ERR_TIMEOUT, who, (int)ctx->id, -1, "raise FERRY_TIMEOUT if a peer may be that slow",
                   "%s: not complete on channel %u after %g s, at pe %d%s", doing, ctx->id, ctx->world->timeout, who,
                   sure ? "" : " or others");
}

/* For the page, once. */
static void tell(struct ferry_ctx *ctx, const struct fy_lane *lane, uint32_t pe, const char *doing, struct fy_backoff *backoff)
{
    bool now = backoff->looks == FY_TELL_AFTER;
    int who = pe != FERRY_PEER_ALL ? (int)pe : now ? late(ctx, lane) : -1;
    fy_wait_tell(ctx->world, backoff, who, (int)ctx->id, doing);
}

static int wait_for_ticket(struct ferry_ctx *ctx, const struct fy_lane *lane, uint32_t pe, uint64_t *ticket, const char *doing,
                           struct fy_backoff *at)
{
    struct fy_world *world = ctx->world;
    uint64_t deadline = 0;
    uint32_t ask = fy_lane_ask(lane, pe), turns = 0;
    for (;;) {
        int rc = lane->ops->quiet(lane->handle, ctx->id, ask, ticket);
        if (rc == FERRY_OK)
            break;
        if (rc == FERRY_ERR_PEER && ask == FERRY_PEER_ALL && atomic_load(&world->deaths))
            return fy_world_check(world, -2, doing); /* of whom this was */
        if (rc < 0)
            return fy_lane_failed(ctx, lane, pe == FERRY_PEER_ALL ? ctx->listed[0] : pe, -1, rc);
        bool moved = lane->ops->progress(lane->handle, ctx->id) == FERRY_OK;
        if (moved)
            fy_wait_moved(world, at);
        if (moved && ++turns % TURNS) /* it may be what is waited for: before peers are served */
            continue;
        if (world->target_progress) /* the peer's progress is in nobody else's hands either */
            fy_wait_serve(world, at);
        if (!fy_backoff(at))
            continue;
        tell(ctx, lane, pe, doing, at);
        if (fy_world_serve(world)) /* the peer may be waiting for us as we do for it */
            fy_wait_moved(world, at);
        rc = fy_world_check(world, pe == FERRY_PEER_ALL ? -2 : (int)pe, doing);
        if (rc != FERRY_OK)
            return rc;
        if (ask == FERRY_PEER_ALL && fy_unlikely(atomic_load(&world->deaths)))
            let_go_of_all(ctx);
        if (deadline == 0)
            deadline = fy_deadline(world->timeout);
        if (fy_now_ns() > deadline)
            return not_complete(ctx, lane, pe, doing);
    }
    *ticket = 0;
    fy_probe_completion(ctx->id, pe == FERRY_PEER_ALL ? -1 : (int)pe);
    return FERRY_OK;
}

int fy_lane_wait(struct ferry_ctx *ctx, const struct fy_lane *lane, uint32_t pe, uint64_t *ticket, const char *doing)
{
    struct fy_backoff backoff = fy_wait_start(ctx->world);
    int rc = wait_for_ticket(ctx, lane, pe, ticket, doing, &backoff);
    fy_wait_over(ctx->world, &backoff);
    return rc;
}

int fy_far_wait(struct ferry_ctx *ctx, struct fy_flow *flow, uint32_t pe)
{
    int rc = FERRY_OK;
    for (uint32_t i = 0; i < ctx->world->n_lanes && rc == FERRY_OK; i++) {
        uint64_t ticket = 0;
        if (flow->far & 1u << i)
            rc = fy_lane_wait(ctx, &ctx->world->lanes[i], pe, &ticket, "atomics of another transport");
    }
    return rc;
}

int fy_quiet_pe(struct ferry_ctx *ctx, uint32_t pe)
{
    struct fy_flow *flow = &ctx->flows[pe];
    uint32_t out = flow->did >> FY_DID_OUT & FY_DID_SET(FY_DID_SINCE);
    if (!out)
        return FERRY_OK;
    uint64_t ticket = 0;
    int rc = out & FY_DID_MAIL ? fy_mail_wait(ctx, pe) : FERRY_OK;
    if (rc == FERRY_OK && out & FY_DID_FAR)
        rc = fy_far_wait(ctx, flow, pe);
    if (rc == FERRY_OK && out & FY_DID_OWN)
        rc = fy_lane_wait(ctx, flow->lane, pe, &ticket, "quiet");
    if (rc != FERRY_OK)
        return rc;
    flow_clear(ctx, flow);
    fy_loans_return(ctx, pe);
    return FERRY_OK;
}

int fy_complete_local(struct ferry_ctx *ctx, uint32_t pe)
{
    return fy_quiet_pe(ctx, pe);
}

static void give_up(struct ferry_ctx *ctx, uint32_t pe)
{
    struct fy_flow *flow = &ctx->flows[pe];
    fy_let_go(ctx->world, pe);
    if (ctx->world->mail)
        fy_mail_forget(ctx, pe);
    flow_clear(ctx, flow);
    fy_loans_return(ctx, pe);
}

/* What was let go of for the dead may come out as a failure of the first that is asked: then once more. */
static int quiet_living(struct ferry_ctx *ctx, uint32_t pe)
{
    int rc = fy_quiet_pe(ctx, pe);
    if (rc != FERRY_ERR_PEER || fy_world_check(ctx->world, (int)pe, "quiet") != FERRY_OK)
        return rc;
    return fy_quiet_pe(ctx, pe);
}

/* After a death: flows to the dead are given up before the others are waited for, since some transports cannot tell one peer
 * from another; then the living one by one. */
static int quiet_survivors(struct ferry_ctx *ctx)
{
    int result = FERRY_OK;
    for (uint32_t i = 0; i < 2 * ctx->n_listed; i++) {
        uint32_t pe = ctx->listed[i % ctx->n_listed];
        bool living = i >= ctx->n_listed;
        if (!(ctx->flows[pe].did & FY_DID_SET(FY_DID_OUT)))
            continue;
        int rc = fy_world_check(ctx->world, (int)pe, "quiet");
        if (rc == FERRY_OK && living)
            rc = quiet_living(ctx, pe);
        if (rc == FERRY_OK)
            continue;
        result = rc;
        give_up(ctx, pe);
    }
    return result;
}

static void forget_all(struct ferry_ctx *ctx)
{
    for (uint32_t i = 0; i < ctx->n_listed; i++) {
        struct fy_flow *flow = &ctx->flows[ctx->listed[i]];
        flow->listed = 0;
        if (flow->did & FY_DID_SET(FY_DID_OUT))
            flow_clear(ctx, flow);
    }
    ctx->n_listed = 0;
}

static int finish_after_death(struct ferry_ctx *ctx)
{
    int rc = quiet_survivors(ctx);
    forget_all(ctx);
    return rc;
}

/* Requests that were replied to, and the lanes that have something to complete. */
static int quiet_requests(struct ferry_ctx *ctx, uint32_t *lanes)
{
    int rc = FERRY_OK;
    *lanes = 0;
    for (uint32_t i = 0; i < ctx->n_listed && rc == FERRY_OK; i++) {
        struct fy_flow *flow = &ctx->flows[ctx->listed[i]];
        uint32_t out = flow->did >> FY_DID_OUT & FY_DID_SET(FY_DID_SINCE);
        if (out & FY_DID_OWN)
            *lanes |= 1u << flow->lane->index;
        if (out & FY_DID_FAR)
            *lanes |= flow->far;
        if (out & FY_DID_MAIL)
            rc = fy_mail_wait(ctx, ctx->listed[i]);
    }
    return rc;
}

static int complete_all(struct ferry_ctx *ctx)
{
    struct fy_world *world = ctx->world;
    uint32_t lanes;
    if (atomic_load(&world->deaths))
        return finish_after_death(ctx);
    int rc = quiet_requests(ctx, &lanes);
    for (uint32_t i = 0; i < world->n_lanes && rc == FERRY_OK; i++) {
        uint64_t ticket = 0;
        if (lanes & 1u << i)
            rc = fy_lane_wait(ctx, &world->lanes[i], FERRY_PEER_ALL, &ticket, "quiet");
    }
    if (rc == FERRY_ERR_PEER)
        return finish_after_death(ctx);
    forget_all(ctx);
    if (rc == FERRY_OK)
        fy_loans_return(ctx, FERRY_PEER_ALL);
    return rc;
}

int fy_quiet_all(struct ferry_ctx *ctx)
{
    if (ctx->n_busy == 0)
        return FERRY_OK;
    fy_probe_quiet(ctx->id, ctx->n_busy);
    int rc = complete_all(ctx);
    fy_probe_quiet_end(ctx->id, rc);
    return rc;
}

/* What only waiting completes: requests to mailboxes, atomics by other lanes, sources that were registered for now. */
static bool needs_waiting(const struct ferry_ctx *ctx)
{
    if (ctx->loans || atomic_load(&ctx->world->deaths))
        return true;
    for (uint32_t i = 0; i < ctx->n_listed; i++)
        if (ctx->flows[ctx->listed[i]].did >> FY_DID_OUT & FY_DID_SET(FY_DID_SINCE) & ~FY_DID_OWN)
            return true;
    return false;
}

int fy_quiet_start(struct ferry_ctx *ctx, struct fy_quiet *quiet)
{
    if (ctx->stored || atomic_load_explicit(&ctx->world->pointers_out, memory_order_relaxed)) {
        ctx->stored = 0;
        fy_fence_full(&ctx->fence_word); /* completes stores of direct.h, and through ferry_ptr (C11 7.17.4) */
    }
    if (ctx->n_busy == 0)
        return FERRY_OK;
    if (needs_waiting(ctx))
        return FERRY_ERR_UNSUPPORTED;
    *quiet = (struct fy_quiet){.posted = false};
    for (uint32_t i = 0; i < ctx->n_listed; i++) {
        const struct fy_flow *flow = &ctx->flows[ctx->listed[i]];
        if (flow->did & FY_DID_SET(FY_DID_OUT))
            quiet->lanes |= 1u << flow->lane->index;
    }
    return fy_quiet_continue(ctx, quiet);
}

int fy_quiet_continue(struct ferry_ctx *ctx, struct fy_quiet *quiet)
{
    struct fy_world *world = ctx->world;
    int result = FERRY_OK;
    if (fy_unlikely(atomic_load(&world->deaths)))
        return FERRY_ERR_UNSUPPORTED;
    for (uint32_t i = 0; i < world->n_lanes; i++) {
        const struct fy_lane *lane = &world->lanes[i];
        if (!(quiet->lanes & 1u << i))
            continue;
        int rc = lane->ops->quiet(lane->handle, ctx->id, FERRY_PEER_ALL, &quiet->tickets[i]);
        if (rc == FERRY_ERR_PEER)
            return FERRY_ERR_UNSUPPORTED; /* whoever else is concerned is seen to there */
        if (rc < 0) {
            rc = fy_lane_failed(ctx, lane, ctx->listed[0], -1, rc);
            forget_all(ctx);
            return rc;
        }
        if (rc == FERRY_AGAIN)
            result = FERRY_AGAIN;
        else
            quiet->lanes &= ~(1u << i);
    }
    if (result == FERRY_OK && !quiet->posted)
        forget_all(ctx);
    return result;
}
