/* SPDX-License-Identifier: Apache-2.0
 * The state of this PE, for the report of a job that hangs: who waits for whom, and what is outstanding on which channel.
 * Any thread. It looks at channels that others use, without their locks: numbers may be a moment old. */
#include "job.h"
#include "report.h"

#include "../order/mail.h"

#include <string.h>
#include <unistd.h>

_Static_assert(sizeof(struct fy_state) <= FY_BOOT_MESSAGE_MAX, "a reply");

/* Readers of what the channel's thread writes plainly: a moment late is good enough. */
#define LOOKS_ON __attribute__((no_sanitize("thread")))

static void state_waits(const struct ferry_job *job, struct fy_state *state, uint64_t now)
{
    for (unsigned i = 0; i < FERRY_PAGE_WAITS; i++) {
        struct ferry_page_wait wait;
        if (!fy_page_wait_read(&job->world.page, i, &wait))
            continue;
        struct fy_state_wait *out = &state->waits[state->n_waits++];
        memcpy(out->doing, wait.doing, sizeof(out->doing));
        out->doing[sizeof(out->doing) - 1] = '\0';
        out->peer = wait.peer;
        out->channel = wait.channel;
        out->age = now > wait.since ? now - wait.since : 0;
    }
}

uint32_t fy_job_kind(const struct ferry_job *job, const struct ferry_ctx *ctx)
{
    if (ctx == job->default_ctx)
        return FERRY_PAGE_DEFAULT;
    if (ctx == job->barrier.ctx)
        return FERRY_PAGE_BARRIER;
    if (ctx == fy_mail_ctx(&job->world))
        return FERRY_PAGE_MAILBOX;
    return ctx->ring ? FERRY_PAGE_RING : FERRY_PAGE_CONTEXT;
}

LOOKS_ON static void state_peers(const struct ferry_ctx *ctx, uint32_t n_pes, struct fy_state_channel *out)
{
    uint32_t n = ctx->n_listed < n_pes ? ctx->n_listed : n_pes;
    out->busy = ctx->n_busy;
    for (uint32_t i = 0; i < n && out->n_peers < FY_STATE_PEERS; i++) {
        uint32_t pe = ctx->listed[i];
        uint32_t kinds = pe < n_pes ? ctx->flows[pe].did >> FY_DID_OUT & FY_DID_SET(FY_DID_SINCE) : 0;
        if (!kinds)
            continue;
        out->peers[out->n_peers].pe = pe;
        out->peers[out->n_peers++].kinds = kinds;
    }
}

static uint64_t word(const uint64_t *counter)
{
    return __atomic_load_n(counter, __ATOMIC_RELAXED);
}

static void state_channel(const struct ferry_job *job, const struct ferry_ctx *ctx, struct fy_state_channel *out, uint64_t now)
{
    const struct ferry_counters *c = &ctx->counters;
    uint64_t since = word(&job->look.channels[ctx->id].since);
    out->id = ctx->id;
    out->kind = fy_job_kind(job, ctx);
    out->posted = word(&c->puts) + word(&c->gets) + word(&c->atomics) + word(&c->signals);
    out->completed = word(&c->completed);
    out->again = word(&c->again);
    state_peers(ctx, job->world.n_pes, out);
    if (!out->busy)
        out->completed = out->posted;
    else if (since)
        out->age = now > since ? now - since : 0;
    if (ctx->ring)
        fy_ring_look(ctx->ring, &out->ring_head, &out->ring_consumed, &out->ring_completed);
}

LOOKS_ON static const struct fy_lane *lane_of(const struct ferry_ctx *ctx, uint32_t pe)
{
    const struct fy_flow *flow = &ctx->flows[pe];
    return flow->connected ? flow->lane : NULL;
}

/* What the transports say of what is outstanding. Under world.lock: the channel stays. */
static void state_lanes(const struct ferry_ctx *ctx, const struct fy_state_channel *c, struct fy_state *state)
{
    for (uint32_t i = 0; i < c->n_peers && state->n_lanes < FY_STATE_LANES; i++) {
        struct fy_state_lane *out = &state->lanes[state->n_lanes];
        const struct fy_lane *lane = lane_of(ctx, c->peers[i].pe);
        if (!lane || lane->ops->describe(lane->handle, ctx->id, c->peers[i].pe, out->text, sizeof(out->text)) != FERRY_OK)
            continue;
        out->text[sizeof(out->text) - 1] = '\0';
        out->channel = ctx->id;
        out->pe = c->peers[i].pe;
        state->n_lanes += out->text[0] != '\0';
    }
}

static void state_of(const struct ferry_job *job, const struct ferry_ctx *ctx, struct fy_state *state, uint64_t now)
{
    struct fy_state_channel *out = &state->channels[state->n_channels++];
    state_channel(job, ctx, out, now);
    state_lanes(ctx, out, state);
}

void fy_job_state(struct ferry_job *job, struct fy_state *state)
{
    struct fy_world *world = &job->world;
    uint64_t now = fy_now_ns();
    *state = (struct fy_state){.size = sizeof(*state), .pe = world->my_pe, .pid = (uint32_t)getpid()};
    gethostname(state->host, sizeof(state->host) - 1);
    state_waits(job, state, now);
    pthread_mutex_lock(&world->lock);
    for (uint32_t i = 0; i < world->max_channels; i++) {
        if (!world->channels[i])
            continue;
        if (state->n_channels < FY_STATE_CHANNELS)
            state_of(job, world->channels[i], state, now);
        else
            state->more_channels++;
    }
    pthread_mutex_unlock(&world->lock);
}

bool fy_state_good(const struct fy_state *state, size_t size, uint32_t n_pes)
{
    if (size != sizeof(*state) || state->size != sizeof(*state) || state->n_waits > FERRY_PAGE_WAITS ||
        state->n_channels > FY_STATE_CHANNELS || state->n_lanes > FY_STATE_LANES || !memchr(state->host, 0, sizeof(state->host)))
        return false;
    for (uint32_t i = 0; i < state->n_waits; i++)
        if (!memchr(state->waits[i].doing, 0, sizeof(state->waits[i].doing)) || state->waits[i].peer < -1 ||
            (state->waits[i].peer >= 0 && (uint32_t)state->waits[i].peer >= n_pes))
            return false;
    for (uint32_t i = 0; i < state->n_channels; i++)
        if (state->channels[i].n_peers > FY_STATE_PEERS)
            return false;
    for (uint32_t i = 0; i < state->n_lanes; i++)
        if (!memchr(state->lanes[i].text, 0, sizeof(state->lanes[i].text)))
            return false;
    return true;
}
