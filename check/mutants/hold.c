/* SPDX-License-Identifier: Apache-2.0
 * The queue in front of loopback: holds operations back, lets the newest go first between borders, completes late.
 * Without it most of what is broken would not show. Channel threads, under the core's lock. */
#include "mutant.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

/* What was overtaken stays behind for a while, so that an observer has time to notice: long for the first few times of
 * a stream, then now and then, since floods must end. */
#define GAP_LONG_NS 10000000u
#define GAP_NS      200000u
#define GAP_LONGS   20u
#define GAP_EVERY   50u
#define HOLD_TURNS  40u /* turns of progress that a stream is left alone after the latest post */

static uint64_t now_ns(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

struct stream *mutant_stream(struct ferry_transport *t, uint32_t channel, uint32_t peer)
{
    struct stream **slot = &t->streams[(size_t)channel * t->n_pes + peer];

    if (!*slot)
        *slot = calloc(1, sizeof(**slot));
    return *slot;
}

static bool heeds_borders(const struct ferry_transport *t, const struct ferry_op *op)
{
    if (t->broken == NO_FENCE || t->broken == ORDER_CLAIMED)
        return false;
    return t->broken != FENCE_FORGETS_ATOMICS || op->kind != FERRY_OP_AMO;
}

/* A native signal is a border of its own, as it covers what was put before. */
static bool is_border(const struct ferry_transport *t, const struct ferry_op *op)
{
    return op->flags & FERRY_OP_FENCED || (op->kind == FERRY_OP_PUT_SIGNAL && t->broken != STRONG_IS_WEAK);
}

static bool full(const struct ferry_transport *t, struct stream *s)
{
    if (s->n == MUTANT_QUEUE)
        return true;
    return t->broken == AGAIN_LOSES && s->posted % 61 == 60 && s->refused++ % 2 == 0;
}

int mutant_hold(struct ferry_transport *t, uint32_t channel, const struct ferry_op *op)
{
    struct stream *s = mutant_stream(t, channel, op->peer);
    struct held *held;

    mutant_called(t);
    if (!s)
        return FERRY_ERR_NOMEM;
    if (full(t, s))
        return FERRY_AGAIN;
    held = malloc(sizeof(*held));
    if (!held)
        return FERRY_ERR_NOMEM;
    if (is_border(t, op) && heeds_borders(t, op))
        s->group++;
    held->op = *op;
    held->group = t->broken == FENCE_FORGETS_ATOMICS && op->kind == FERRY_OP_AMO ? 0 : s->group;
    held->sequence = ++s->posted;
    if (op->flags & FERRY_OP_COPY && t->broken != SOURCE_READ_LATE) {
        memcpy(held->copy, op->local, op->length);
        held->op.local = held->copy;
    }
    held->op.flags &= ~(FERRY_OP_FENCED | FERRY_OP_MORE);
    s->idle = 0;
    if (!mutant_taken(t, s, channel, held)) {
        free(held);
        return FERRY_OK;
    }
    s->held[s->n++] = held;
    return FERRY_OK;
}

static bool overtakes(struct stream *s, uint64_t sequence)
{
    for (uint32_t i = 0; i < s->n; i++)
        if (s->held[i]->sequence < sequence)
            return true;
    return false;
}

static void keep_gap(struct stream *s)
{
    s->overtakings++;
    if (s->overtakings <= GAP_LONGS)
        s->gap_end = now_ns() + GAP_LONG_NS;
    else if (s->overtakings % GAP_EVERY == 0)
        s->gap_end = now_ns() + GAP_NS;
}

/* The newest of the oldest group, unless a gap is kept. */
static void release_one(struct ferry_transport *t, uint32_t channel, struct stream *s)
{
    uint32_t pick = 0;
    struct held *held;

    if (s->gap_end && now_ns() < s->gap_end)
        return;
    s->gap_end = 0;
    for (uint32_t i = 1; i < s->n; i++) {
        const struct held *a = s->held[i], *b = s->held[pick];

        if (a->group < b->group || (a->group == b->group && a->sequence > b->sequence))
            pick = i;
    }
    held = s->held[pick];
    if (!mutant_may(t, held->op.peer))
        return;
    s->held[pick] = s->held[--s->n];
    if (t->gaps && overtakes(s, held->sequence))
        keep_gap(s);
    mutant_perform(t, channel, held);
    free(held);
}

/* Is something held that the ticket covers? */
static bool covers(const struct ferry_transport *t, const struct stream *s, uint64_t ticket)
{
    for (uint32_t i = 0; i < s->n; i++)
        if (s->held[i]->sequence <= ticket && !(t->broken == QUIET_FORGETS_GETS && s->held[i]->op.kind == FERRY_OP_GET))
            return true;
    return false;
}

static uint32_t watched(const struct ferry_transport *t, uint32_t peer)
{
    return t->broken == QUIET_WRONG_PEER && (peer ^ 1) < t->n_pes ? peer ^ 1 : peer;
}

static bool never(struct ferry_transport *t)
{
    return t->broken == COMPLETION_NEVER && __atomic_load_n(&t->completions, __ATOMIC_RELAXED) >= 100;
}

/* A ticket is a sequence number of the stream; each call moves one operation along. Of all peers: whatever is held. */
int mutant_quiet(struct ferry_transport *t, uint32_t channel, uint32_t peer, uint64_t *ticket)
{
    uint32_t first = peer == FERRY_PEER_ALL ? 0 : watched(t, peer);
    uint32_t last = peer == FERRY_PEER_ALL ? t->n_pes - 1 : first;
    int rc = FERRY_OK;

    mutant_called(t);
    if (t->broken == QUIET_AT_ONCE)
        return FERRY_OK;
    if (t->broken == CHANNEL_CROSS_TALK && channel > 0)
        channel--;
    for (uint32_t pe = first; pe <= last; pe++) {
        struct stream *s = t->streams[(size_t)channel * t->n_pes + pe];

        if (!s || !s->n)
            continue;
        if (peer != FERRY_PEER_ALL && *ticket == 0)
            *ticket = s->posted - (t->broken == TICKET_TOO_LITTLE);
        if (!covers(t, s, peer == FERRY_PEER_ALL ? UINT64_MAX : *ticket))
            continue;
        if (t->broken != CHANNEL_CROSS_TALK)
            release_one(t, channel, s);
        rc = FERRY_AGAIN;
    }
    return never(t) ? FERRY_AGAIN : rc;
}

int mutant_progress(struct ferry_transport *t, uint32_t channel)
{
    uint32_t last = t->broken == PEER_STARVED ? 0 : t->n_pes - 1;
    int rc = FERRY_AGAIN;

    if (channel == FERRY_CHANNEL_SERVICE)
        return t->base.ops->progress(t->base.inner, channel);
    mutant_called(t);
    for (uint32_t pe = 0; pe <= last; pe++) {
        struct stream *s = t->streams[(size_t)channel * t->n_pes + pe];

        if (!s || !s->n)
            continue;
        rc = FERRY_OK;
        if (s->idle++ >= HOLD_TURNS || s->n == MUTANT_QUEUE)
            release_one(t, channel, s);
    }
    return rc;
}
