/* SPDX-License-Identifier: Apache-2.0
 * Taking operations in: refusing some, copying sources, cutting, and deciding how long each is held.
 * Channel thread. */
#include "chaos.h"

#include <stdlib.h>
#include <string.h>

struct chaos_stream *chaos_stream(struct ferry_transport *t, uint32_t channel, uint32_t peer)
{
    struct chaos_channel *c = t->channels[channel];
    struct chaos_stream *s = c->streams[peer];

    if (s)
        return s;
    s = calloc(1, sizeof *s + t->knobs.queue * sizeof(s->held[0]));
    if (!s)
        return NULL;
    s->peer = peer;
    s->key = chaos_key(t->knobs.seed, t->my_pe, channel, peer);
    s->next = c->first;
    c->first = s;
    c->streams[peer] = s;
    return s;
}

/* The place of operation i is free again; a private place that something may still write to is not. */
void chaos_drop(struct chaos_channel *c, struct chaos_stream *s, uint32_t i, bool in_flight)
{
    struct chaos_held *h = s->held[i];

    if (h->place && !in_flight)
        c->free[c->n_free++] = (uint8_t)(((uint8_t *)h->op.local - c->slots[0]) / CHAOS_SLOT_BYTES);
    s->held[i] = s->held[--s->n];
    free(h);
}

/* Some operations are refused once or more before they are taken. */
static bool refuse(const struct ferry_transport *t, struct chaos_stream *s)
{
    if (!s->refused) {
        s->refused = true;
        if (chaos_chance(s, s->index, DRAW_AGAIN, t->knobs.again))
            s->refusals = 1 + chaos_draw(s, s->index, DRAW_AGAIN) / 100 % 3;
    }
    if (!s->refusals)
        return false;
    s->refusals--;
    return true;
}

/* What is never seen in part. */
static size_t unit_of(const struct ferry_op *op)
{
    return op->kind == FERRY_OP_PUT && (op->flags & FERRY_OP_WORD) ? 8 : 1;
}

/* Remote data tells of all the bytes of its put: they stay together. */
static bool may_cut(const struct ferry_op *op)
{
    if (op->kind == FERRY_OP_PUT)
        return !(op->flags & FERRY_OP_DATA) && op->length > unit_of(op);
    return op->kind == FERRY_OP_GET && op->length > 1;
}

/* Edges lie somewhere in each n-th of the length. Pieces are sorted by rank: they go in the order they lie. */
static void cut(struct chaos_stream *s, struct chaos_held *h, uint32_t n)
{
    size_t unit = unit_of(&h->op), share = h->op.length / unit / n, from = 0;

    h->n_pieces = n;
    for (uint32_t i = 0; i < n; i++) {
        size_t to =
            i + 1 == n ? h->op.length : (share * (i + 1) + chaos_draw(s, s->index, DRAW_EDGE + i) % share) * unit;
        struct chaos_piece piece = {from, to - from, chaos_draw(s, s->index, DRAW_RANK + i)};
        uint32_t at = i;

        for (; at > 0 && h->pieces[at - 1].rank > piece.rank; at--)
            h->pieces[at] = h->pieces[at - 1];
        h->pieces[at] = piece;
        from = to;
    }
}

static void decide(struct ferry_transport *t, struct chaos_channel *c, struct chaos_stream *s, struct chaos_held *h)
{
    const struct chaos_knobs *knobs = &t->knobs;
    uint32_t n = 1;

    if (may_cut(&h->op) && chaos_chance(s, s->index, DRAW_CUT, knobs->split)) {
        n = 2 + chaos_draw(s, s->index, DRAW_CUT) / 100 % (CHAOS_PIECES - 1);
        n = n > h->op.length / unit_of(&h->op) ? (uint32_t)(h->op.length / unit_of(&h->op)) : n;
        c->counts.cut++;
    }
    cut(s, h, n);
    h->ready = s->turn;
    if (knobs->hold && chaos_chance(s, s->index, DRAW_DELAY, knobs->delay)) {
        h->ready += 1 + chaos_draw(s, s->index, DRAW_TURNS) % knobs->hold;
        c->counts.delayed++;
    }
    if (knobs->hold && chaos_chance(s, s->index, DRAW_LATE, knobs->late)) {
        h->late = 1 + chaos_draw(s, s->index, DRAW_LATE) / 100 % knobs->hold;
        c->counts.late++;
    }
}

/* What arrives goes to a private place first, so that nobody sees it before its ticket is good. Memory of a GPU cannot
 * be written from here; it always has a region. */
static void divert(const struct ferry_transport *t, struct chaos_channel *c, struct chaos_held *h)
{
    bool fetches = h->op.kind == FERRY_OP_GET || (h->op.kind == FERRY_OP_AMO && (h->op.flags & FERRY_OP_FETCH));

    if (!fetches || (t->gpu && h->op.region) || h->op.length > CHAOS_SLOT_BYTES || !c->n_free)
        return;
    h->place = h->op.local;
    h->op.local = c->slots[c->free[--c->n_free]];
    h->op.region = c->region;
    c->counts.handed++;
}

int chaos_hold(struct ferry_transport *t, uint32_t channel, const struct ferry_op *op)
{
    struct chaos_channel *c = t->channels[channel];
    struct chaos_stream *s = chaos_stream(t, channel, op->peer);
    size_t extra = op->kind == FERRY_OP_PUT && (op->flags & FERRY_OP_COPY) ? op->length : 0;

    if (!s)
        return FERRY_ERR_NOMEM;
    if (__atomic_load_n(&t->gone[op->peer], __ATOMIC_ACQUIRE))
        return FERRY_ERR_PEER;
    chaos_turn(t, channel, s);
    if (s->failed)
        return s->failed;
    if (s->n == t->knobs.queue) {
        c->counts.full++;
        return FERRY_AGAIN;
    }
    if (refuse(t, s)) {
        c->counts.refused++;
        return FERRY_AGAIN;
    }
    struct chaos_held *h = malloc(sizeof *h + extra);
    if (!h)
        return FERRY_ERR_NOMEM;
    memset(h, 0, sizeof *h);
    h->op = *op;
    h->op.flags &= ~(FERRY_OP_MORE | FERRY_OP_FENCED);
    h->ordered = op->kind != FERRY_OP_GET || (op->flags & FERRY_OP_FENCED);
    if (op->kind == FERRY_OP_AMO)
        h->op.length = op->width;
    if (op->kind == FERRY_OP_PUT && (op->flags & FERRY_OP_COPY)) {
        memcpy(h->copy, op->local, extra);
        h->op.local = h->copy;
        h->op.region = NULL;
    }
    divert(t, c, h);
    if (op->flags & FERRY_OP_FENCED)
        s->group++;
    h->group = s->group;
    h->number = ++c->number;
    h->index = s->index;
    decide(t, c, s, h);
    s->index++;
    s->refused = false;
    s->held[s->n++] = h;
    c->counts.operations++;
    return FERRY_OK;
}
