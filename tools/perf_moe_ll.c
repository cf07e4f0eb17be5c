/* SPDX-License-Identifier: Apache-2.0
 * ferry-perf: the traffic of a low-latency MoE dispatch: a put for each of a token's experts, scattered over the
 * others' memory and over as many channels as a PE has experts, then for each expert a signal that adds what was sent
 * to it. Two sets of buffers take turns. The stamp of every record is looked at. Main thread of each PE. */
#include "perf.h"

#include <stdio.h>
#include <stdlib.h>

#define PUTS     (PERF_LL_TOKENS * PERF_LL_TOP)
#define ONE_TURN (UINT64_C(1) << 32) /* in a counter: iterations, and in the lower half records */

/* An expert of another PE. */
struct expert {
    ferry_ctx_t *ctx;
    uint64_t *counter[2]; /* what its PE counts of this PE's records, by set */
    uint32_t records;     /* sent to it in an iteration */
    int peer;
};

struct route {
    uint8_t *slot[2]; /* at its PE, by set */
    const uint8_t *record;
    ferry_ctx_t *ctx;
    int peer;
};

struct ll {
    uint8_t *records, *in; /* symmetric; `in` by (set, expert of this PE, sender, slot) */
    uint64_t *counters;    /* symmetric, by (set, expert of this PE, sender) */
    uint32_t *taken;       /* the lower halves of the counters as of the last look */
    struct expert *experts;
    size_t n_experts, slots;
    struct route routes[PUTS];
    uint64_t turn;
};

int perf_moe_ll_local(const struct perf *perf)
{
    int local = PERF_LL_EXPERTS / perf->n_pes;
    return local > 0 ? local : 1;
}

/* Index of a counter, and, times the slots, of a slot. */
static size_t index_of(const struct perf *perf, unsigned set, size_t expert, int sender)
{
    return ((size_t)set * (size_t)perf_moe_ll_local(perf) + expert) * (size_t)perf->n_pes + (size_t)sender;
}

static uint8_t *slot_at(const struct perf *perf, unsigned set, size_t expert, int sender, size_t slot)
{
    const struct ll *moe = perf->moe;
    return moe->in + (index_of(perf, set, expert, sender) * moe->slots + slot) * PERF_LL_RECORD;
}

static uint64_t stamp_of(int sender, uint64_t token)
{
    return (uint64_t)(sender + 1) << 32 | (token + 1);
}

/* The same numbers each time, different ones for each PE (Marsaglia's xorshift). */
static uint64_t next_random(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

static void make_experts(struct perf *perf, int channels)
{
    struct ll *moe = perf->moe;
    size_t local = (size_t)perf_moe_ll_local(perf), i = 0;
    for (int nth = 1; nth < perf->n_pes; nth++) {
        int peer = (perf->me + nth) % perf->n_pes;
        for (size_t e = 0; e < local; e++, i++)
            moe->experts[i] = (struct expert){.ctx = perf->channels[e % (size_t)channels].ctx,
                                              .counter = {&moe->counters[index_of(perf, 0, e, perf->me)],
                                                          &moe->counters[index_of(perf, 1, e, perf->me)]},
                                              .peer = peer};
    }
}

/* Any expert for each choice of each token, the next one if it is full. */
static void make_routes(struct perf *perf)
{
    struct ll *moe = perf->moe;
    uint64_t state = (uint64_t)perf->me + 88172645463325252;
    size_t local = (size_t)perf_moe_ll_local(perf);
    for (size_t i = 0; i < PUTS; i++) {
        size_t chosen = (size_t)(next_random(&state) % moe->n_experts);
        while (moe->experts[chosen].records == moe->slots)
            chosen = (chosen + 1) % moe->n_experts;
        struct expert *expert = &moe->experts[chosen];
        uint32_t slot = expert->records++;
        moe->routes[i] = (struct route){.slot = {slot_at(perf, 0, chosen % local, perf->me, slot),
                                                 slot_at(perf, 1, chosen % local, perf->me, slot)},
                                        .record = moe->records + i / PERF_LL_TOP * PERF_LL_RECORD,
                                        .ctx = expert->ctx,
                                        .peer = expert->peer};
    }
    for (size_t token = 0; token < PERF_LL_TOKENS; token++)
        perf_stamp(moe->records + token * PERF_LL_RECORD, PERF_LL_RECORD, stamp_of(perf->me, token));
}

int perf_moe_ll_begin(struct perf *perf)
{
    int channels = PERF_LL_CHANNELS, local = perf_moe_ll_local(perf);
    for (const struct perf_test *test = perf_tests; test->name; test++)
        if (test->begin == perf_moe_ll_begin)
            channels = perf_channels(perf, test);
    struct ll *moe = perf->moe = calloc(1, sizeof *moe);
    if (!moe)
        return FERRY_ERR_NOMEM;
    moe->n_experts = (size_t)local * (size_t)(perf->n_pes - 1);
    moe->slots = 2 * (PUTS / moe->n_experts + 1); /* twice what each gets when all get the same */
    size_t cells = index_of(perf, 2, 0, 0);
    moe->experts = calloc(moe->n_experts, sizeof *moe->experts);
    moe->taken = calloc(cells, sizeof *moe->taken);
    moe->records = ferry_calloc(perf->job, PERF_LL_TOKENS, PERF_LL_RECORD);
    moe->in = moe->records ? ferry_calloc(perf->job, cells, moe->slots * PERF_LL_RECORD) : NULL;
    moe->counters = moe->in ? ferry_calloc(perf->job, cells, sizeof *moe->counters) : NULL;
    if (!moe->counters || !moe->experts || !moe->taken)
        return FERRY_ERR_NOMEM;
    make_experts(perf, channels);
    make_routes(perf);
    return ferry_barrier(perf->job);
}

void perf_moe_ll_end(struct perf *perf)
{
    struct ll *moe = perf->moe;
    for (size_t i = 0; i < moe->n_experts; i++)
        ferry_quiet(moe->experts[i].ctx);
    ferry_free(perf->job, moe->counters);
    ferry_free(perf->job, moe->in);
    ferry_free(perf->job, moe->records);
    free(moe->taken);
    free(moe->experts);
    free(moe);
    perf->moe = NULL;
}

static int send_all(const struct ll *moe, unsigned set)
{
    int status = FERRY_OK;
    for (size_t i = 0; i < PUTS && status == FERRY_OK; i++) {
        const struct route *route = &moe->routes[i];
        status = ferry_put_nbi(route->ctx, route->slot[set], route->record, PERF_LL_RECORD, route->peer);
    }
    for (size_t i = 0; i < moe->n_experts && status == FERRY_OK; i++) {
        const struct expert *expert = &moe->experts[i];
        status = ferry_signal(expert->ctx, expert->counter[set], ONE_TURN + expert->records,
                              FERRY_SIGNAL_ADD | PERF_COVER, expert->peer);
    }
    return status;
}

/* Looks at the stamp, and takes it away, so that the next one is missed if it does not come. */
static int take_record(struct perf *perf, uint8_t *record, int sender, size_t expert)
{
    const uint64_t first = *(uint64_t *)(void *)record;
    const uint64_t last = *(uint64_t *)(void *)(record + PERF_LL_RECORD - sizeof last);
    const uint64_t token = first - stamp_of(sender, 0);
    if (first == last && token < PERF_LL_TOKENS) {
        perf_stamp(record, PERF_LL_RECORD, 0);
        return FERRY_OK;
    }
    snprintf(perf->wrong, sizeof perf->wrong,
             "a record from PE %d for expert %zu is not there, though its signal is: stamp %llx and %llx", sender,
             expert, (unsigned long long)first, (unsigned long long)last);
    return PERF_WRONG;
}

/* Waits for what a sender has for an expert of this PE. `turns`: of this set, with this one. */
static int take_from(struct perf *perf, unsigned set, size_t expert, int sender, uint64_t turns)
{
    struct ll *moe = perf->moe;
    const size_t index = index_of(perf, set, expert, sender);
    const uint64_t *counter = &moe->counters[index];
    int status = ferry_wait_until(perf->job, counter, FERRY_CMP_GE, turns * ONE_TURN);
    if (status != FERRY_OK)
        return status;
    /* Its next addition to this set comes only after this PE's next one, which it waits for. */
    const uint32_t now = (uint32_t)__atomic_load_n(counter, __ATOMIC_ACQUIRE);
    for (uint32_t slot = 0; slot < now - moe->taken[index] && status == FERRY_OK; slot++)
        status = take_record(perf, slot_at(perf, set, expert, sender, slot), sender, expert);
    moe->taken[index] = now;
    return status;
}

static int take_all(struct perf *perf, unsigned set, uint64_t turns)
{
    const size_t local = (size_t)perf_moe_ll_local(perf);
    int status = FERRY_OK;
    for (size_t expert = 0; expert < local; expert++)
        for (int nth = 1; nth < perf->n_pes && status == FERRY_OK; nth++)
            status = take_from(perf, set, expert, (perf->me + nth) % perf->n_pes, turns);
    return status;
}

int perf_moe_ll(struct perf_channel *channel, uint64_t n)
{
    struct perf *perf = channel->perf;
    struct ll *moe = perf->moe;
    int status = FERRY_OK;
    for (uint64_t i = 0; i < n && status == FERRY_OK; i++) {
        const unsigned set = (unsigned)(moe->turn % 2);
        const uint64_t turns = moe->turn++ / 2 + 1;
        status = send_all(moe, set);
        if (status == FERRY_OK)
            status = take_all(perf, set, turns);
    }
    return status;
}
