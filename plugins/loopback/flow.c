/* SPDX-License-Identifier: Apache-2.0
 * Operations that are not complete when they were posted (depth, target-progress): records, their retirement, tickets.
 * Channel thread; all state is of one channel. */
#include "guise.h"

#include <stdlib.h>
#include <string.h>

#define FIRST_ROOM 64

static struct fy_lb_channel *channel_of(struct ferry_transport *t, uint32_t channel)
{
    struct fy_lb_guise *g = t->guise;
    struct fy_lb_channel *c = g->channels[channel];

    if (c)
        return c;
    c = calloc(1, sizeof *c + (t->n_pes ? t->n_pes : 1) * sizeof c->flows[0]);
    if (c)
        c->number = 1;
    g->channels[channel] = c;
    return c;
}

static int grow(struct fy_lb_flow *flow)
{
    size_t room = flow->room ? 2 * flow->room : FIRST_ROOM;
    struct fy_lb_record *records = realloc(flow->records, room * sizeof *records);

    if (!records)
        return FERRY_ERR_NOMEM;
    flow->records = records;
    flow->room = room;
    return FERRY_OK;
}

int fy_lb_flow_room(struct ferry_transport *t, uint32_t channel, uint32_t peer, struct fy_lb_flow **flow)
{
    struct fy_lb_guise *g = t->guise;
    struct fy_lb_channel *c = channel_of(t, channel);

    if (__atomic_load_n(&g->gone[peer], __ATOMIC_ACQUIRE))
        return fy_lb_fail(t, peer, FERRY_ERR_PEER, 0, "", "PE %u was disconnected", peer);
    if (!c)
        return fy_lb_fail(t, peer, FERRY_ERR_NOMEM, 0, "", "no memory for channel %u", channel);
    *flow = &c->flows[peer];
    if (g->choice.depth && (*flow)->n == g->choice.depth)
        return FERRY_AGAIN;
    if ((*flow)->n == (*flow)->room && grow(*flow))
        return fy_lb_fail(t, peer, FERRY_ERR_NOMEM, 0, "", "no memory for one more operation on channel %u", channel);
    return FERRY_OK;
}

void fy_lb_flow_record(struct fy_lb_guise *g, uint32_t channel, struct fy_lb_flow *flow, const struct ferry_op *op,
                       uint64_t service, uint64_t value)
{
    flow->records[flow->n++] =
        (struct fy_lb_record){.op = *op, .number = ++g->channels[channel]->number, .service = service, .value = value};
}

/* What was fetched or got comes now, not before: whoever looks too early finds what was there. */
static void complete(const struct fy_lb_record *r)
{
    if (r->op.kind == FERRY_OP_GET)
        fy_lb_get_any(&r->op);
    else if (r->op.kind == FERRY_OP_AMO && r->op.flags & FERRY_OP_FETCH)
        memcpy(r->op.local, &r->value, r->op.width);
}

static int is_complete(const struct fy_lb_record *r)
{
    return !r->service || __atomic_load_n(&r->op.key->page->ended, __ATOMIC_ACQUIRE) >= r->service;
}

/* How many were retired. */
static size_t retire(struct fy_lb_flow *flow)
{
    size_t done = 0;

    while (done < flow->n && is_complete(&flow->records[done]))
        complete(&flow->records[done++]);
    flow->n -= done;
    if (done)
        memmove(flow->records, flow->records + done, flow->n * sizeof *flow->records);
    return done;
}

static int flow_quiet(struct ferry_transport *t, struct fy_lb_channel *c, uint32_t peer, uint64_t ticket)
{
    struct fy_lb_flow *flow = &c->flows[peer];

    if (!__atomic_load_n(&t->guise->gone[peer], __ATOMIC_ACQUIRE)) {
        retire(flow);
        return flow->n && flow->records[0].number <= ticket ? FERRY_AGAIN : FERRY_OK;
    }
    if (!flow->n)
        return FERRY_OK;
    flow->n = 0;
    return fy_lb_fail(t, peer, FERRY_ERR_PEER, 0, "", "PE %u was disconnected before operations to it were complete",
                      peer);
}

int fy_lb_flow_quiet(struct ferry_transport *t, uint32_t channel, uint32_t peer, uint64_t *ticket)
{
    struct fy_lb_channel *c = t->guise->channels[channel];
    int result = FERRY_OK;

    if (!*ticket)
        *ticket = c ? c->number : 1;
    if (!c)
        return FERRY_OK;
    if (peer != FERRY_PEER_ALL)
        return flow_quiet(t, c, peer, *ticket);
    for (uint32_t pe = 0; pe < t->n_pes; pe++) {
        int status = flow_quiet(t, c, pe, *ticket);

        if (status < 0)
            return status;
        if (status == FERRY_AGAIN)
            result = status;
    }
    return result;
}

int fy_lb_flow_progress(struct ferry_transport *t, uint32_t channel)
{
    struct fy_lb_channel *c = t->guise->channels[channel];
    size_t done = 0;

    for (uint32_t pe = 0; c && pe < t->n_pes; pe++)
        if (!__atomic_load_n(&t->guise->gone[pe], __ATOMIC_ACQUIRE))
            done += retire(&c->flows[pe]);
    return done ? FERRY_OK : FERRY_AGAIN;
}
