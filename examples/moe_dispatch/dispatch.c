/* SPDX-License-Identifier: Apache-2.0
 * Dispatch: each token goes once to each PE that holds at least one of its experts, with the list of those experts.
 * The experts then work on what arrived. dispatch_run, experts_run: main thread; the callbacks: the thread of the
 * channel. */
#include "moe.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* Body of a slot: the number of choices, the choices, the hidden vector. */
static size_t payload_offset(const struct moe *moe)
{
    return sizeof(struct stamp) + sizeof(uint32_t) + moe->args->topk * sizeof(struct choice);
}

size_t dispatch_slot_bytes(const struct moe *moe)
{
    return (payload_offset(moe) + moe->args->hidden * sizeof(uint16_t) + 63) / 64 * 64;
}

const struct choice *dispatch_choices(const void *slot, uint32_t *n)
{
    const char *body = (const char *)slot + sizeof(struct stamp);
    memcpy(n, body, sizeof *n);
    return (const struct choice *)(body + sizeof *n);
}

const uint16_t *dispatch_payload(const struct moe *moe, const void *slot)
{
    return (const uint16_t *)((const char *)slot + payload_offset(moe));
}

static uint64_t total_out(const struct channel *channel, uint32_t lane)
{
    return channel->start[lane + 1] - channel->start[lane];
}

static int begin(struct channel *channel, uint32_t lane, uint64_t total)
{
    struct arrivals *a = &channel->arrivals[lane];
    if (total > channel->moe->n_tokens)
        return fail(channel->moe, FERRY_ERR_TRANSPORT,
                    "dispatch: pe %" PRIu32 " channel %" PRIu32 " from pe %" PRIu32 ": announced %" PRIu64
                    " tokens, there are %" PRIu32 ": data was not visible when its signal was",
                    channel->moe->me, channel->index, channel->receivers[lane].pe, total, channel->moe->n_tokens);
    a->n = total;
    a->slots = total ? malloc(total * dispatch_slot_bytes(channel->moe)) : NULL;
    a->tokens = total ? malloc(total * sizeof *a->tokens) : NULL;
    if (total && (!a->slots || !a->tokens))
        return fail(channel->moe, FERRY_ERR_NOMEM, "no memory for %" PRIu64 " tokens that arrive", total);
    return FERRY_OK;
}

static uint32_t fill(struct channel *channel, uint32_t lane, uint64_t sequence, void *body)
{
    const struct moe *moe = channel->moe;
    uint32_t own = channel->queue[channel->start[lane] + sequence];
    uint32_t token = moe->first_token + own;
    uint32_t owner = lane_peer(moe, lane, 1);
    const struct choice *all = moe->routes + (size_t)own * moe->args->topk;
    struct choice *mine = (struct choice *)((char *)body + sizeof(uint32_t));
    uint32_t n = 0;
    memset(mine, 0, moe->args->topk * sizeof *mine);
    for (uint32_t i = 0; i < moe->args->topk; i++) {
        if (expert_owner(moe, all[i].expert) == owner)
            mine[n++] = all[i];
    }
    memcpy(body, &n, sizeof n);
    char *payload = (char *)body + payload_offset(moe) - sizeof(struct stamp);
    size_t bytes = moe->args->hidden * sizeof(uint16_t);
    memcpy(payload, moe->vectors + (size_t)own * moe->args->hidden, bytes);
    memset(payload + bytes, 0, dispatch_slot_bytes(moe) - payload_offset(moe) - bytes);
    return token;
}

static int take(struct channel *channel, uint32_t lane, uint64_t sequence, const void *slot)
{
    size_t bytes = dispatch_slot_bytes(channel->moe);
    struct arrivals *a = &channel->arrivals[lane];
    struct stamp stamp;
    memcpy(&stamp, slot, sizeof stamp);
    memcpy(a->slots + sequence * bytes, slot, bytes);
    a->tokens[sequence] = stamp.token;
    return FERRY_OK;
}

int dispatch_run(struct moe *moe)
{
    struct exchange x = {.phase = 1,
                         .name = "dispatch",
                         .direction = 1,
                         .announce = 1,
                         .total_out = total_out,
                         .begin = begin,
                         .fill = fill,
                         .take = take};
    int rc = rings_open(moe, &x.rings, dispatch_slot_bytes(moe));
    if (rc == FERRY_OK)
        rc = exchange_run(moe, &x);
    return rc == FERRY_OK ? rings_close(moe, &x.rings) : rc;
}

/* The contribution of one arrival to the checksum: the same for an expert, wherever it lives. */
static uint64_t arrival_sum(const struct moe *moe, const char *slot)
{
    struct stamp stamp;
    memcpy(&stamp, slot, sizeof stamp);
    const uint16_t *payload = dispatch_payload(moe, slot);
    uint64_t vector = stamp.token;
    for (uint32_t i = 0; i < moe->args->hidden; i++)
        vector = (vector ^ payload[i]) * UINT64_C(0x9fb21c651e98df25) + 1;
    uint32_t n = 0;
    const struct choice *choices = dispatch_choices(slot, &n);
    uint64_t sum = 0;
    for (uint32_t i = 0; i < n; i++)
        sum += mix64(vector ^ ((uint64_t)choices[i].expert << 16 | choices[i].weight));
    return sum;
}

static int run_experts(struct channel *channel, uint32_t lane)
{
    const struct moe *moe = channel->moe;
    struct arrivals *a = &channel->arrivals[lane];
    size_t bytes = dispatch_slot_bytes(moe);
    a->results = a->n ? calloc(a->n * moe->args->hidden, sizeof *a->results) : NULL;
    if (a->n && !a->results)
        return fail(channel->moe, FERRY_ERR_NOMEM, "no memory for the results of %" PRIu64 " tokens", a->n);
    for (uint64_t i = 0; i < a->n; i++) {
        const char *slot = a->slots + i * bytes;
        uint32_t n = 0;
        const struct choice *choices = dispatch_choices(slot, &n);
        for (uint32_t j = 0; j < n; j++) {
            if (expert_owner(moe, choices[j].expert) != moe->me)
                return fail(channel->moe, FERRY_ERR_TRANSPORT,
                            "pe %" PRIu32 " got a token for expert %u, which it does not have", moe->me,
                            choices[j].expert);
            model_expert(&moe->model, choices[j], dispatch_payload(moe, slot), a->results + i * moe->args->hidden);
        }
        channel->dispatch_sum += arrival_sum(moe, slot);
    }
    free(a->slots);
    a->slots = NULL;
    return FERRY_OK;
}

int experts_run(struct moe *moe)
{
    int rc = FERRY_OK;
    for (uint32_t c = 0; c < moe->args->channels; c++) {
        for (uint32_t k = 0; k < moe->lanes && rc == FERRY_OK; k++)
            rc = run_experts(&moe->channels[c], k);
    }
    return rc;
}
