/* SPDX-License-Identifier: Apache-2.0
 * Completion: tickets of the inner transport, telling late, handing over what was fetched, failures; quiet and
 * progress. Channel thread. */
#include "chaos.h"

#include <string.h>

static bool in_flight(const struct chaos_held *h)
{
    return h->gone && !h->tell;
}

/* One more operation that did not arrive. */
static void note_lost(struct chaos_stream *s, int status, const struct chaos_held *h)
{
    if (!s->failed) {
        s->failed = status;
        s->failed_from = s->failed_to = h->number;
    }
    s->failed_from = h->number < s->failed_from ? h->number : s->failed_from;
    s->failed_to = h->number > s->failed_to ? h->number : s->failed_to;
}

/* What has not gone never goes: behind a failure, a signal would tell of data that did not arrive. */
void chaos_fail(struct chaos_channel *c, struct chaos_stream *s, int status)
{
    for (uint32_t i = s->n; i-- > 0;) {
        struct chaos_held *h = s->held[i];

        if (h->post)
            continue;
        note_lost(s, status, h);
        if (h->gone)
            h->post = s->posts; /* the inner transport still has the source of a part */
        else
            chaos_drop(c, s, i, false);
    }
}

void chaos_give_up(struct chaos_channel *c, struct chaos_stream *s)
{
    s->ticket_open = false;
    while (s->n) {
        struct chaos_held *h = s->held[s->n - 1];

        note_lost(s, FERRY_ERR_PEER, h);
        chaos_drop(c, s, s->n - 1, in_flight(h));
    }
}

/* The inner transport gave up on what a ticket covers: nothing of it is in place. */
static void lose(struct chaos_channel *c, struct chaos_stream *s, int status)
{
    for (uint32_t i = s->n; i-- > 0;) {
        if (!in_flight(s->held[i]))
            continue;
        note_lost(s, status, s->held[i]);
        chaos_drop(c, s, i, true);
    }
    chaos_fail(c, s, status);
}

static bool anything_out(const struct chaos_stream *s)
{
    for (uint32_t i = 0; i < s->n; i++)
        if (in_flight(s->held[i]))
            return true;
    return false;
}

void chaos_collect(struct ferry_transport *t, uint32_t channel, struct chaos_stream *s)
{
    const struct hook_base *in = &t->base;
    uint32_t peer = t->inner.flags & FERRY_CAP_QUIET_PEER ? s->peer : FERRY_PEER_ALL;

    if (!s->ticket_open) {
        if (!anything_out(s))
            return;
        s->ticket = 0;
        s->covers = s->posts;
        s->ticket_open = true;
    }
    int rc = in->ops->quiet(in->inner, channel, peer, &s->ticket);
    if (rc == FERRY_AGAIN)
        return;
    s->ticket_open = false;
    if (rc == FERRY_ERR_PEER && peer == FERRY_PEER_ALL && !__atomic_load_n(&t->gone[s->peer], __ATOMIC_ACQUIRE))
        return; /* it was another peer's, from which the inner transport cannot tell this one: asked again */
    if (rc < 0) {
        lose(t->channels[channel], s, rc);
        return;
    }
    for (uint32_t i = 0; i < s->n; i++) {
        struct chaos_held *h = s->held[i];

        if (h->post && h->post <= s->covers && !h->tell)
            h->tell = s->turn + h->late;
    }
}

bool chaos_tell(struct chaos_channel *c, struct chaos_stream *s)
{
    bool told = false;

    for (uint32_t i = s->n; i-- > 0;) {
        struct chaos_held *h = s->held[i];

        if (!h->tell || h->tell > s->turn)
            continue;
        if (h->place)
            memcpy(h->place, h->op.local, h->op.length);
        chaos_drop(c, s, i, false);
        told = true;
    }
    return told;
}

/* FERRY_OK: all that the ticket covers was told. */
static int stream_quiet(struct ferry_transport *t, uint32_t channel, struct chaos_stream *s, uint64_t ticket)
{
    chaos_turn(t, channel, s);
    if (s->failed && s->failed_from <= ticket) {
        int rc = s->failed;

        if (s->failed_to <= ticket)
            s->failed = FERRY_OK;
        return rc;
    }
    for (uint32_t i = 0; i < s->n; i++)
        if (s->held[i]->number <= ticket)
            return FERRY_AGAIN;
    return FERRY_OK;
}

/* A ticket is the number of the channel's latest operation, whoever it went to. */
int chaos_quiet(struct ferry_transport *t, uint32_t channel, uint32_t peer, uint64_t *ticket)
{
    struct chaos_channel *c = t->channels[channel];
    int result = FERRY_OK;

    if (*ticket == 0)
        *ticket = c->number;
    if (peer != FERRY_PEER_ALL)
        return c->streams[peer] ? stream_quiet(t, channel, c->streams[peer], *ticket) : FERRY_OK;
    for (struct chaos_stream *s = c->first; s; s = s->next) {
        int rc = stream_quiet(t, channel, s, *ticket);

        if (rc < 0)
            return rc;
        if (rc == FERRY_AGAIN)
            result = rc;
    }
    return result;
}

int chaos_progress(struct ferry_transport *t, uint32_t channel)
{
    const struct hook_base *in = &t->base;
    bool moved = false;

    for (struct chaos_stream *s = channel == FERRY_CHANNEL_SERVICE ? NULL : t->channels[channel]->first; s; s = s->next)
        moved |= chaos_turn(t, channel, s);
    int rc = in->ops->progress(in->inner, channel);
    return rc == FERRY_AGAIN && moved ? FERRY_OK : rc;
}
