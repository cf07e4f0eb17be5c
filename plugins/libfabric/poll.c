/* SPDX-License-Identifier: Apache-2.0
 * Completions, tickets, and progress.
 * Channel thread; progress(SERVICE): service thread. */
#include "libfabric.h"

#include <poll.h>
#include <string.h>
#include <time.h>

void fy_lf_window(struct fy_lf_peer *p)
{
    uint64_t slots = p->retired + p->depth, flush = p->flushed + p->depth / 2;

    p->quick = slots < flush ? slots : flush;
}

/* Everything up to `seq`, and what had already completed behind it. */
static void retire(struct fy_lf_channel *c, struct fy_lf_peer *p, uint64_t seq)
{
    uint64_t before = p->retired;

    if (seq > p->retired)
        p->retired = seq;
    while (p->retired < p->posted && !p->epoch[p->retired & p->mask])
        p->retired++;
    c->outstanding -= p->retired - before;
    c->bulky &= c->outstanding != 0;
    fy_lf_window(p);
}

static void complete(struct fy_lf_channel *c, struct fy_lf_slot *s)
{
    struct fy_lf_peer *p = s->peer;

    if (p->dropped || !s->told)
        return;
    s->told = 0;
    p->told--;
    c->told--;
    if (s->covers == FY_LF_COVERS_ALL || (s->covers == FY_LF_COVERS_PUTS && s->amos <= p->retired)) {
        retire(c, p, s->seq);
    } else if (s->seq > p->retired) {
        p->epoch[(s->seq - 1) & p->mask] = 0;
        retire(c, p, p->retired);
    }
}

/* Nothing says whose it was. If some peer is no more, or has failed already, it was that one's, though it may have been given up
 * with all that it was owed: the provider reports when it comes to it. Else all that have something under way are taken for failed,
 * but for this PE, if there are others: it would not be here to see it. */
static void orphan(struct fy_lf_channel *c, const struct fi_cq_err_entry *entry)
{
    int others = 0, found = 0;

    for (struct fy_lf_peer *p = fy_lf_connected(c); p; p = p->next) {
        int busy = p->posted != p->retired;
        others += busy && p->pe != c->t->my_pe;
        if (!fy_lf_status(p) && !fy_lf_ended(c->t, p->pe))
            continue;
        found = 1;
        if (busy)
            fy_lf_completion_error(c, p, entry, FERRY_OP_PUT);
    }
    for (struct fy_lf_peer *p = fy_lf_connected(c); p && !found; p = p->next)
        if (p->posted != p->retired && (!others || p->pe != c->t->my_pe))
            fy_lf_completion_error(c, p, entry, FERRY_OP_PUT);
}

static int failed(struct fy_lf_channel *c)
{
    struct fi_cq_err_entry entry = {0};
    struct fy_lf_slot *s;
    unsigned kind;

    if (fi_cq_readerr(c->cq, &entry, 0) < 1)
        return 0;
    s = entry.op_context;
    if (!s) {
        orphan(c, &entry);
        return 1;
    }
    kind = s->kind;
    fy_lf_completion_error(c, s->peer, &entry, kind);
    if (s->told && !s->peer->dropped) {
        s->told = 0;
        s->peer->told--;
        c->told--;
    }
    return 1;
}

int fy_lf_poll(struct fy_lf_channel *c)
{
    struct fi_cq_data_entry entries[FY_LF_POLL];
    int total = 0;
    ssize_t n;

    do {
        n = fi_cq_read(c->cq, entries, FY_LF_POLL);
        for (ssize_t i = 0; i < n; i++)
            if (entries[i].op_context)
                complete(c, entries[i].op_context);
        if (n == -FI_EAVAIL)
            n = failed(c) ? FY_LF_POLL : 0;
        total += n > 0 ? (int)n : 0;
    } while (n == FY_LF_POLL);
    return total;
}

static int quiet_peer(struct fy_lf_channel *c, struct fy_lf_peer *p, uint64_t *ticket)
{
    int rc = FERRY_OK;

    if (!*ticket) {
        if (p->posted == p->retired)
            return fy_lf_status(p);
        *ticket = p->posted;
    }
    if (p->flushed < *ticket && p->retired < *ticket && !fy_lf_status(p))
        rc = fy_lf_flush(c, p);
    if (rc >= 0 && p->retired < *ticket)
        fy_lf_poll(c);
    if (fy_lf_status(p))
        return fy_lf_status(p);
    return p->retired >= *ticket ? FERRY_OK : FERRY_AGAIN;
}

/* Is everything retired that was posted up to this epoch? */
static int passed(const struct fy_lf_peer *p, uint32_t epoch)
{
    return p->posted == p->retired || (int32_t)(p->epoch[p->retired & p->mask] - epoch) > 0;
}

/* What failed is reported once the others are through. */
static int all_passed(const struct fy_lf_channel *c, uint32_t epoch)
{
    int bad = FERRY_OK;

    for (struct fy_lf_peer *p = fy_lf_connected(c); p; p = p->next) {
        int status = fy_lf_status(p);
        if (status)
            bad = status;
        else if (!passed(p, epoch))
            return FERRY_AGAIN;
    }
    return bad;
}

static int quiet_all(struct fy_lf_channel *c, uint64_t *ticket)
{
    if (!*ticket) {
        for (struct fy_lf_peer *p = fy_lf_connected(c); p && c->outstanding; p = p->next)
            p->mark = p->posted;
        *ticket = c->epoch;
        c->epoch += c->epoch == UINT32_MAX ? 2 : 1; /* never 0 */
    }
    for (struct fy_lf_peer *p = fy_lf_connected(c); p && c->outstanding; p = p->next)
        if (p->flushed < p->mark && p->retired < p->mark && !fy_lf_status(p))
            fy_lf_flush(c, p); /* a failure is the peer's status */
    if (c->outstanding)
        fy_lf_poll(c);
    return all_passed(c, (uint32_t)*ticket);
}

int fy_lf_quiet(struct ferry_transport *t, uint32_t channel, uint32_t peer, uint64_t *ticket)
{
    struct fy_lf_channel *c = t->channels[channel];

    if (!c)
        return FERRY_OK;
    if (unlikely(__atomic_load_n(&c->careful, __ATOMIC_ACQUIRE)))
        fy_lf_leave(c);
    if (peer == FERRY_PEER_ALL)
        return quiet_all(c, ticket);
    return c->peers[peer] ? quiet_peer(c, c->peers[peer], ticket) : FERRY_OK;
}

/* Is it time for the next look? A thread that spins is told no most of the time, one that naps in between always yes. */
static int due(uint64_t *last, uint64_t after)
{
    struct timespec ts;
    uint64_t now;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    now = (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
    if (now - *last < after)
        return 0;
    *last = now;
    return 1;
}

/* It may ring for nothing, and does for ever once a connection has ended; but not to hear it costs each operation a nap. */
static int rung(const struct ferry_transport *t)
{
    struct pollfd bell = {.fd = t->bell, .events = POLLIN};

    return t->bell >= 0 && poll(&bell, 1, 0) > 0;
}

/* Has the counter of peers' operations grown? Where it has by two or more in two looks in a row, they come one behind the other. */
static int counted(struct ferry_transport *t)
{
    uint64_t count = fi_cntr_read(t->count), more = count - t->counted;

    t->counted = count;
    if (more < 2)
        t->streak = 0;
    else if (t->streak < FY_LF_STREAK)
        t->streak++;
    return more != 0;
}

/* Peers' data, which their puts carry. A local completion of sockets has FI_REMOTE_CQ_DATA, too. */
static int take_data(struct ferry_transport *t)
{
    struct fi_cq_data_entry entries[FY_LF_POLL];
    struct fi_cq_err_entry lost = {0};
    ssize_t n = fi_cq_read(t->service.cq, entries, FY_LF_POLL);

    for (ssize_t i = 0; i < n; i++)
        if (entries[i].flags & FI_REMOTE_CQ_DATA && !(entries[i].flags & FI_WRITE))
            t->core->deliver(t->core, (uint32_t)(entries[i].data >> 32), (uint32_t)entries[i].data);
    if (n == -FI_EAVAIL) /* a peer's operation that was cut off: the peer hears of it */
        n = fi_cq_readerr(t->service.cq, &lost, 0);
    return n > 0;
}

/* Reading the queue and reading the counter both carry out what peers ask for; where that takes a call, every other turn reads
 * the one, every other the other. While operations come one behind the other, looks are rarer: over shm both ends
 * take one lock, and the sender gets on between them. */
static int serve(struct ferry_transport *t)
{
    int listen = due(&t->listened, FY_LF_HEAR), moved = 0;

    if (unlikely(listen)) {
        moved = rung(t); /* before the queue is read: that silences it */
        moved |= t->count && counted(t);
    } else if (t->alternate) {
        if (t->streak == FY_LF_STREAK && !due(&t->paused, FY_LF_PAUSE))
            return FERRY_OK;
        if ((t->turn ^= 1))
            return counted(t) ? FERRY_OK : FERRY_AGAIN;
    }
    return take_data(t) | moved ? FERRY_OK : FERRY_AGAIN;
}

int fy_lf_progress(struct ferry_transport *t, uint32_t channel)
{
    struct fy_lf_channel *c;
    int moved;

    if (channel == FERRY_CHANNEL_SERVICE)
        return serve(t);
    c = channel < t->max_channels ? t->channels[channel] : NULL;
    if (!c)
        return FERRY_AGAIN;
    if (unlikely(__atomic_load_n(&c->careful, __ATOMIC_ACQUIRE)))
        fy_lf_leave(c);
    moved = c->more != NULL;
    if (moved)
        fy_lf_flush(c, c->more);
    if (!c->told && !c->bulky && !due(&c->looked, FY_LF_PUSH)) /* a small put may have stayed in the provider: seldom */
        return c->outstanding && __atomic_load_n(&c->status, __ATOMIC_ACQUIRE) ? c->status : FERRY_AGAIN;
    if (fy_lf_poll(c) || moved)
        return FERRY_OK;
    return c->outstanding && __atomic_load_n(&c->status, __ATOMIC_ACQUIRE) ? c->status : FERRY_AGAIN;
}
