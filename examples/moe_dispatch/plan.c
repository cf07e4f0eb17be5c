/* SPDX-License-Identifier: Apache-2.0
 * Who holds which expert, which PE sends to which, and the queue of tokens for each (channel, lane). A token is queued
 * once for each PE that holds at least one of its experts. Main thread, before the phases. */
#include "moe.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

uint32_t expert_owner(const struct moe *moe, uint32_t expert)
{
    return (uint32_t)((uint64_t)expert * moe->n_pes / moe->args->experts);
}

int lane_between(const struct moe *moe, uint32_t from, uint32_t to)
{
    uint32_t distance = (to + moe->n_pes - from) % moe->n_pes;
    if (distance % moe->stride != 0 || distance / moe->stride >= moe->lanes)
        return -1;
    return (int)(distance / moe->stride);
}

uint32_t lane_peer(const struct moe *moe, uint32_t lane, int direction)
{
    uint32_t distance = lane * moe->stride;
    return (moe->me + (direction > 0 ? distance : moe->n_pes - distance)) % moe->n_pes;
}

/* Experts of one PE: those that expert_owner gives it. */
static uint32_t experts_of(const struct moe *moe, uint32_t pe)
{
    uint64_t experts = moe->args->experts, n = moe->n_pes;
    return (uint32_t)(((pe + 1) * experts + n - 1) / n - (pe * experts + n - 1) / n);
}

/* The fewest experts that any PE may use. */
static uint32_t fewest_allowed(const struct moe *moe)
{
    if (moe->lanes == moe->n_pes)
        return moe->args->experts;
    uint32_t fewest = UINT32_MAX;
    for (uint32_t pe = 0; pe < moe->n_pes; pe++) {
        uint32_t n = 0;
        for (uint32_t lane = 0; lane < moe->lanes; lane++)
            n += experts_of(moe, (pe + lane * moe->stride) % moe->n_pes);
        fewest = n < fewest ? n : fewest;
    }
    return fewest;
}

int plan_lanes(struct moe *moe, char *why, size_t why_size)
{
    moe->lanes = moe->args->max_dest && moe->args->max_dest < moe->n_pes ? moe->args->max_dest : moe->n_pes;
    moe->stride = moe->n_pes / moe->lanes;
    uint32_t fewest = fewest_allowed(moe);
    if (fewest < moe->args->topk) {
        snprintf(why, why_size,
                 "--max-dest '%" PRIu32 "': leaves some pe %" PRIu32 " of %" PRIu32
                 " experts, fewer than --topk %" PRIu32,
                 moe->args->max_dest, fewest, moe->args->experts, moe->args->topk);
        return -1;
    }
    if (moe->args->inject == INJECT_LATE && moe->lanes < 2) {
        snprintf(why, why_size, "--inject 'late': there is no second pe to send to");
        return -1;
    }
    return 0;
}

static int allow(struct moe *moe)
{
    moe->allowed = malloc(moe->args->experts);
    if (!moe->allowed)
        return fail(moe, FERRY_ERR_NOMEM, "no memory for the table of experts");
    for (uint32_t e = 0; e < moe->args->experts; e++)
        moe->allowed[e] = lane_between(moe, moe->me, expert_owner(moe, e)) >= 0;
    return FERRY_OK;
}

static int route_all(struct moe *moe)
{
    uint32_t hidden = moe->args->hidden, topk = moe->args->topk;
    int8_t *components = malloc(hidden);
    moe->routes = calloc((size_t)moe->own * topk + 1, sizeof *moe->routes);
    moe->vectors = calloc((size_t)moe->own * hidden + 1, sizeof *moe->vectors);
    moe->combined = calloc((size_t)moe->own * hidden + 1, sizeof *moe->combined);
    if (!components || !moe->routes || !moe->vectors || !moe->combined) {
        free(components);
        return fail(moe, FERRY_ERR_NOMEM, "no memory for %" PRIu32 " tokens", moe->own);
    }
    for (uint32_t t = 0; t < moe->own; t++) {
        model_components(&moe->model, moe->first_token + t, components);
        model_to_bf16(components, moe->vectors + (size_t)t * hidden, hidden);
        model_route(&moe->model, components, moe->allowed, moe->routes + (size_t)t * topk);
    }
    free(components);
    return FERRY_OK;
}

/* The experts of a token ascend, and each PE holds a range of them: equal owners are neighbours. */
static void visit(struct channel *channel, void (*each)(struct channel *channel, uint32_t lane, uint32_t token))
{
    const struct moe *moe = channel->moe;
    uint32_t topk = moe->args->topk;
    for (uint32_t t = channel->first; t < channel->last; t++) {
        const struct choice *choices = moe->routes + (size_t)t * topk;
        for (uint32_t i = 0; i < topk; i++) {
            uint32_t owner = expert_owner(moe, choices[i].expert);
            if (i == 0 || owner != expert_owner(moe, choices[i - 1].expert))
                each(channel, (uint32_t)lane_between(moe, moe->me, owner), t);
        }
    }
}

static void count(struct channel *channel, uint32_t lane, uint32_t token)
{
    (void)token;
    channel->start[lane + 2]++;
}

static void enqueue(struct channel *channel, uint32_t lane, uint32_t token)
{
    channel->queue[channel->start[lane + 1]++] = token;
}

/* Counting sort: start[] is filled two places ahead, so that after `enqueue` start[lane] is where lane begins. */
static int fill_queue(struct channel *channel)
{
    uint32_t lanes = channel->moe->lanes;
    channel->start = calloc((size_t)lanes + 2, sizeof *channel->start);
    if (!channel->start)
        return -1;
    visit(channel, count);
    for (uint32_t k = 2; k < lanes + 2; k++)
        channel->start[k] += channel->start[k - 1];
    channel->queue = malloc(((size_t)channel->start[lanes + 1] + 1) * sizeof *channel->queue);
    if (!channel->queue)
        return -1;
    visit(channel, enqueue);
    return 0;
}

static int channel_open(struct moe *moe, uint32_t index)
{
    struct channel *channel = &moe->channels[index];
    channel->moe = moe;
    channel->index = index;
    channel->first = (uint32_t)((uint64_t)moe->own * index / moe->args->channels);
    channel->last = (uint32_t)((uint64_t)moe->own * (index + 1) / moe->args->channels);
    channel->arrivals = calloc(moe->lanes, sizeof *channel->arrivals);
    channel->senders = calloc(moe->lanes, sizeof *channel->senders);
    channel->receivers = calloc(moe->lanes, sizeof *channel->receivers);
    if (!channel->arrivals || !channel->senders || !channel->receivers || fill_queue(channel) != 0)
        return fail(moe, FERRY_ERR_NOMEM, "no memory for channel %" PRIu32, index);
    return FERRY_OK;
}

/* Rings hold real memory, so none is longer than the most tokens that any channel of any PE can have. */
static uint32_t ring_slots(const struct moe *moe)
{
    uint32_t chunk = moe->args->chunk;
    uint32_t per_pe = (moe->n_tokens + moe->n_pes - 1) / moe->n_pes;
    uint32_t per_channel = (per_pe + moe->args->channels - 1) / moe->args->channels;
    uint32_t enough = (per_channel / chunk + 2) * chunk;
    return enough < moe->args->ring ? enough : moe->args->ring;
}

int plan_create(struct moe *moe)
{
    moe->first_token = (uint32_t)((uint64_t)moe->n_tokens * moe->me / moe->n_pes);
    moe->own = (uint32_t)((uint64_t)moe->n_tokens * (moe->me + 1) / moe->n_pes) - moe->first_token;
    moe->ring = ring_slots(moe);
    int rc = allow(moe);
    if (rc == FERRY_OK)
        rc = route_all(moe);
    if (rc != FERRY_OK)
        return rc;
    moe->channels = calloc(moe->args->channels, sizeof *moe->channels);
    if (!moe->channels)
        return fail(moe, FERRY_ERR_NOMEM, "no memory for %" PRIu32 " channels", moe->args->channels);
    for (uint32_t c = 0; c < moe->args->channels && rc == FERRY_OK; c++)
        rc = channel_open(moe, c);
    return rc;
}

static void channel_close(struct channel *channel)
{
    for (uint32_t k = 0; channel->arrivals && k < channel->moe->lanes; k++) {
        free(channel->arrivals[k].slots);
        free(channel->arrivals[k].tokens);
        free(channel->arrivals[k].results);
    }
    free(channel->arrivals);
    free(channel->senders);
    free(channel->receivers);
    free(channel->start);
    free(channel->queue);
}

void plan_destroy(struct moe *moe)
{
    for (uint32_t c = 0; moe->channels && c < moe->args->channels; c++)
        channel_close(&moe->channels[c]);
    free(moe->channels);
    free(moe->routes);
    free(moe->vectors);
    free(moe->combined);
    free(moe->allowed);
}
