/* SPDX-License-Identifier: Apache-2.0
 * Operations and tickets: what was accepted on each (channel, peer), and which finished ticket covers it.
 * Channel thread. */
#include "count.h"

#include <stdlib.h>
#include <string.h>

static void note_lost(struct ferry_transport *t)
{
    pthread_mutex_lock(&t->lock);
    t->lost++;
    pthread_mutex_unlock(&t->lock);
}

static void add(struct count_sum *sum, uint64_t bytes)
{
    sum->ops++;
    sum->bytes += bytes;
}

static void accepted(struct count_channel *c, const struct ferry_op *op)
{
    static const enum count_kind kinds[] = {[FERRY_OP_PUT] = COUNT_PUT,
                                            [FERRY_OP_GET] = COUNT_GET,
                                            [FERRY_OP_AMO] = COUNT_AMO,
                                            [FERRY_OP_PUT_SIGNAL] = COUNT_SIGNAL};
    uint64_t bytes = op->kind == FERRY_OP_AMO ? op->width : op->length;

    add(&c->kinds[kinds[op->kind & 3]], bytes);
    add(&c->streams[op->peer].posted, bytes);
}

static int counted(struct ferry_transport *t, uint32_t channel, const struct ferry_op *op, int rc)
{
    struct count_channel *c = t->channels[channel];

    if (rc == FERRY_OK || rc == FERRY_DONE)
        accepted(c, op);
    else if (rc == FERRY_AGAIN)
        c->again++;
    else
        c->errors++;
    return rc;
}

int count_rma(struct ferry_transport *t, uint32_t channel, const struct ferry_op *op)
{
    return counted(t, channel, op, t->base.ops->rma(t->base.inner, channel, op));
}

int count_amo(struct ferry_transport *t, uint32_t channel, const struct ferry_op *op)
{
    return counted(t, channel, op, t->base.ops->amo(t->base.inner, channel, op));
}

int count_put_signal(struct ferry_transport *t, uint32_t channel, const struct ferry_op *op)
{
    return counted(t, channel, op, t->base.ops->put_signal(t->base.inner, channel, op));
}

static int post_one(struct ferry_transport *t, uint32_t channel, const struct ferry_op *op)
{
    if (op->kind == FERRY_OP_AMO)
        return count_amo(t, channel, op);
    if (op->kind == FERRY_OP_PUT_SIGNAL)
        return count_put_signal(t, channel, op);
    return count_rma(t, channel, op);
}

/* As the inner transport takes it; one by one where it takes no batches. */
int count_post(struct ferry_transport *t, uint32_t channel, const struct ferry_op *ops, size_t n, size_t *done)
{
    int rc = t->base.ops->post(t->base.inner, channel, ops, n, done);

    if (rc != FERRY_ERR_UNSUPPORTED || *done > 0) {
        for (size_t i = 0; i < *done; i++)
            accepted(t->channels[channel], &ops[i]);
        if (rc != FERRY_OK && rc != FERRY_DONE && *done < n)
            counted(t, channel, &ops[*done], rc);
        return rc;
    }
    for (*done = 0; *done < n; ++*done) {
        rc = post_one(t, channel, &ops[*done]);
        if (rc != FERRY_OK && rc != FERRY_DONE)
            return rc;
    }
    return FERRY_OK;
}

/* What a ticket drawn now would cover, into covers[]: one entry, or one per peer. */
static size_t covered_now(const struct ferry_transport *t, const struct count_channel *c, uint32_t peer,
                          struct count_sum *covers)
{
    if (peer != FERRY_PEER_ALL) {
        covers[0] = c->streams[peer].posted;
        return 1;
    }
    for (uint32_t i = 0; i < t->n_pes; i++)
        covers[i] = c->streams[i].posted;
    return t->n_pes;
}

static void cover(struct count_stream *s, const struct count_sum *to)
{
    if (to->ops > s->covered.ops)
        s->covered = *to;
}

static void forget(struct count_channel *c, size_t i)
{
    free(c->tickets[i].covers);
    memmove(&c->tickets[i], &c->tickets[i + 1], (c->n_tickets - i - 1) * sizeof c->tickets[0]);
    c->n_tickets--;
}

/* Drawn, and not finished by the same call. */
static void ticket_opened(struct ferry_transport *t, struct count_channel *c, uint32_t peer, uint64_t value)
{
    struct count_sum *covers = calloc(peer == FERRY_PEER_ALL ? t->n_pes : 1, sizeof *covers);

    if (c->n_tickets == c->room) {
        size_t room = c->room ? c->room * 2 : 8;
        struct count_ticket *tickets = realloc(c->tickets, room * sizeof *tickets);

        if (tickets) {
            c->tickets = tickets;
            c->room = room;
        }
    }
    if (!covers || c->n_tickets == c->room) {
        free(covers);
        note_lost(t);
        return;
    }
    covered_now(t, c, peer, covers);
    c->tickets[c->n_tickets++] = (struct count_ticket){value, peer, covers};
}

/* Tickets drawn before number `end`, of streams that `peer` includes, need not be asked for any more. */
static void imply(struct count_channel *c, size_t end, uint32_t peer)
{
    for (size_t i = end; i-- > 0;)
        if (peer == FERRY_PEER_ALL || c->tickets[i].peer == peer) {
            forget(c, i);
            c->implied++;
        }
}

static void ticket_finished(struct ferry_transport *t, struct count_channel *c, size_t i)
{
    struct count_ticket *ticket = &c->tickets[i];
    uint32_t peer = ticket->peer;

    if (peer != FERRY_PEER_ALL)
        cover(&c->streams[peer], ticket->covers);
    for (uint32_t pe = 0; peer == FERRY_PEER_ALL && pe < t->n_pes; pe++)
        cover(&c->streams[pe], &ticket->covers[pe]);
    forget(c, i);
    c->finished++;
    imply(c, i, peer);
}

/* Drawn and finished by one call: it covers everything. */
static void finished_at_once(struct ferry_transport *t, struct count_channel *c, uint32_t peer)
{
    c->drawn++;
    c->finished++;
    for (uint32_t pe = 0; pe < t->n_pes; pe++)
        if (peer == FERRY_PEER_ALL || peer == pe)
            cover(&c->streams[pe], &c->streams[pe].posted);
    imply(c, c->n_tickets, peer);
}

static size_t find_ticket(const struct count_channel *c, uint32_t peer, uint64_t value)
{
    size_t i = 0;

    while (i < c->n_tickets && (c->tickets[i].value != value || c->tickets[i].peer != peer))
        i++;
    return i;
}

/* A ticket that failed is finished too: it will not be asked for again. */
int count_quiet(struct ferry_transport *t, uint32_t channel, uint32_t peer, uint64_t *ticket)
{
    struct count_channel *c = t->channels[channel];
    uint64_t asked = *ticket;
    int rc = t->base.ops->quiet(t->base.inner, channel, peer, ticket);
    size_t i = asked ? find_ticket(c, peer, asked) : c->n_tickets;

    if (rc < 0)
        c->errors++;
    if (rc == FERRY_AGAIN && !asked && *ticket) {
        c->drawn++;
        ticket_opened(t, c, peer, *ticket);
    } else if (rc == FERRY_AGAIN && !*ticket) {
        c->nameless++;
    } else if (rc == FERRY_OK && !asked) {
        finished_at_once(t, c, peer);
    } else if (rc == FERRY_OK && i < c->n_tickets) {
        ticket_finished(t, c, i);
    } else if (rc < 0 && i < c->n_tickets) {
        forget(c, i);
        c->finished++;
    }
    return rc;
}
