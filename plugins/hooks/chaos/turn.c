/* SPDX-License-Identifier: Apache-2.0
 * One step of a stream: which piece goes next, what a border needs before anything behind it goes, and gaps.
 * Channel thread. */
#include "chaos.h"

#include <time.h>

#define BURST      4u  /* most pieces that go in one turn */
#define GAP_ONE_IN 32u /* reversals after which the stream pauses */

static uint64_t now_ns(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

/* A piece of h goes, although an older operation of the stream has not gone entirely. */
static bool overtakes(const struct chaos_stream *s, const struct chaos_held *h)
{
    for (uint32_t i = 0; i < s->n; i++)
        if (!s->held[i]->post && s->held[i]->number < h->number)
            return true;
    return false;
}

/* The oldest group of which something has not gone. */
static uint32_t oldest_group(const struct chaos_stream *s)
{
    uint32_t group = UINT32_MAX;

    for (uint32_t i = 0; i < s->n; i++)
        if (s->held[i]->ordered && !s->held[i]->post && s->held[i]->group < group)
            group = s->held[i]->group;
    return group;
}

static bool complete_before(const struct chaos_stream *s, uint32_t group)
{
    for (uint32_t i = 0; i < s->n; i++)
        if (s->held[i]->ordered && s->held[i]->group < group && !s->held[i]->tell)
            return false;
    return true;
}

/* How the border before `group` is made: by the inner transport's own means, if it has some and the dice say so; else
 * by waiting until all before it is complete there. True: what lies behind it may go, with *flags. */
static bool cross(struct ferry_transport *t, uint32_t channel, struct chaos_stream *s, uint32_t group, uint32_t *flags)
{
    const struct hook_base *in = &t->base;
    bool call = t->inner.flags & FERRY_CAP_FENCE_CALL, flag = t->inner.flags & FERRY_CAP_FENCED;
    bool ordered = t->inner.order == FERRY_ORDER_ALL;

    *flags = 0;
    if (group <= s->open_group)
        return true;
    if ((call || flag || ordered) && chaos_draw(s, group, DRAW_BORDER) % 2 == 0) {
        if (flag) {
            *flags = FERRY_OP_FENCED;
            return true;
        }
        if (call && !ordered && in->ops->fence(in->inner, channel, s->peer) != FERRY_OK)
            return false;
        s->open_group = group;
        return true;
    }
    if (!complete_before(s, group))
        return false;
    t->channels[channel]->counts.waited++;
    s->open_group = group;
    return true;
}

/* Of the pieces that may go, the one of the smallest rank. */
static struct chaos_held *pick(const struct chaos_stream *s, uint32_t group, bool crossed)
{
    struct chaos_held *best = NULL;

    for (uint32_t i = 0; i < s->n; i++) {
        struct chaos_held *h = s->held[i];

        if (h->post || h->ready > s->turn || (h->ordered && (!crossed || h->group != group)))
            continue;
        if (!best || h->pieces[h->gone].rank < best->pieces[best->gone].rank)
            best = h;
    }
    return best;
}

static int post_piece(struct ferry_transport *t, uint32_t channel, const struct chaos_held *h, uint32_t flags)
{
    const struct hook_base *in = &t->base;
    const struct chaos_piece *piece = &h->pieces[h->gone];
    struct ferry_op op = h->op;

    op.flags |= flags;
    if (op.kind == FERRY_OP_AMO)
        return in->ops->amo(in->inner, channel, &op);
    op.offset += piece->offset;
    op.length = piece->length;
    if (op.local)
        op.local = (char *)op.local + piece->offset;
    return in->ops->rma(in->inner, channel, &op);
}

static void note_reversal(struct ferry_transport *t, struct chaos_channel *c, struct chaos_stream *s,
                          const struct chaos_held *h)
{
    c->counts.reversals++;
    if (t->knobs.gap_ns && chaos_draw(s, h->index, DRAW_GAP) % GAP_ONE_IN == 0)
        s->gap_end = now_ns() + t->knobs.gap_ns;
}

/* False: nothing goes in this turn any more. */
static bool let_go(struct ferry_transport *t, uint32_t channel, struct chaos_stream *s)
{
    struct chaos_channel *c = t->channels[channel];
    uint32_t group = oldest_group(s), flags = 0;
    bool crossed = group != UINT32_MAX && cross(t, channel, s, group, &flags);
    struct chaos_held *h = pick(s, group, crossed);

    if (!h)
        return false;
    bool reversal = h->gone == 0 && overtakes(s, h);
    int rc = post_piece(t, channel, h, h->ordered ? flags : 0);
    if (rc < 0) {
        chaos_fail(c, s, rc);
        return false;
    }
    if (rc == FERRY_AGAIN)
        return false;
    if (h->ordered)
        s->open_group = group;
    s->posts++;
    if (++h->gone == h->n_pieces)
        h->post = s->posts;
    if (reversal)
        note_reversal(t, c, s, h);
    return s->gap_end == 0;
}

bool chaos_turn(struct ferry_transport *t, uint32_t channel, struct chaos_stream *s)
{
    struct chaos_channel *c = t->channels[channel];
    uint32_t burst = 1 + chaos_draw(s, s->turn, DRAW_BURST) % BURST;
    bool waiting = false;

    if (__atomic_load_n(&t->gone[s->peer], __ATOMIC_ACQUIRE)) {
        chaos_give_up(c, s);
        return false;
    }
    if (!s->n)
        return false;
    s->turn++;
    chaos_collect(t, channel, s);
    if (s->gap_end && now_ns() >= s->gap_end)
        s->gap_end = 0;
    bool moved = false;
    while (!s->gap_end && burst-- > 0 && let_go(t, channel, s))
        moved = true;
    moved |= chaos_tell(c, s);
    for (uint32_t i = 0; i < s->n; i++)
        waiting |= s->held[i]->ready > s->turn || s->held[i]->tell > s->turn;
    return moved || (waiting && !s->gap_end);
}
