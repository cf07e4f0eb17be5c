/* SPDX-License-Identifier: Apache-2.0
 * The balance at the end: a warning for each thing that was opened and not closed, and one line that sums up.
 * Setup thread, when nobody else uses the instance. */
#include "count.h"

#define WARN(t, ...) (t)->base.core->log((t)->base.core, FERRY_LOG_WARN, __VA_ARGS__)

static unsigned check_set(const struct ferry_transport *t, const struct count_set *set, const char *what,
                          const char *made, const char *ended)
{
    unsigned bad = 0;

    if (set->n) {
        WARN(t, "out of balance: %llu %s (%llu bytes) were %s and not %s", (unsigned long long)set->n, what,
             (unsigned long long)(set->bytes_made - set->bytes_ended), made, ended);
        bad++;
    }
    if (set->strange) {
        WARN(t, "out of balance: %llu %s were %s that were not %s, or not any more", (unsigned long long)set->strange,
             what, ended, made);
        bad++;
    }
    return bad;
}

static unsigned check_stream(const struct ferry_transport *t, uint32_t channel, uint32_t peer)
{
    const struct count_channel *c = t->channels[channel];
    const struct count_stream *s = &c->streams[peer];

    if (s->posted.ops == s->covered.ops)
        return 0;
    WARN(t, "out of balance: no finished ticket covers the last %llu operations (%llu bytes) on channel %u to pe %u%s",
         (unsigned long long)(s->posted.ops - s->covered.ops), (unsigned long long)(s->posted.bytes - s->covered.bytes),
         channel, peer, c->errors ? "; the channel had failures" : "");
    return 1;
}

/* Is all that this ticket covers covered by finished ones? Then nobody need ask for it any more. */
static bool covered(const struct ferry_transport *t, const struct count_channel *c, const struct count_ticket *ticket)
{
    if (ticket->peer != FERRY_PEER_ALL)
        return ticket->covers[0].ops <= c->streams[ticket->peer].covered.ops;
    for (uint32_t pe = 0; pe < t->n_pes; pe++)
        if (ticket->covers[pe].ops > c->streams[pe].covered.ops)
            return false;
    return true;
}

static unsigned check_channel(const struct ferry_transport *t, uint32_t channel)
{
    const struct count_channel *c = t->channels[channel];
    unsigned bad = 0;
    size_t open = 0;

    for (uint32_t pe = 0; pe < t->n_pes; pe++)
        bad += check_stream(t, channel, pe);
    for (size_t i = 0; i < c->n_tickets; i++)
        open += !covered(t, c, &c->tickets[i]);
    if (!open)
        return bad;
    WARN(t, "out of balance: %zu tickets of channel %u were drawn and not finished", open, channel);
    return bad + 1;
}

static void add(struct count_channel *sum, const struct count_channel *c)
{
    for (int k = 0; k < COUNT_KINDS; k++) {
        sum->kinds[k].ops += c->kinds[k].ops;
        sum->kinds[k].bytes += c->kinds[k].bytes;
    }
    sum->drawn += c->drawn;
    sum->nameless += c->nameless;
    sum->again += c->again;
    sum->errors += c->errors;
}

static void sum_up(const struct ferry_transport *t, const struct count_channel *sum, unsigned bad)
{
    const struct count_sum *k = sum->kinds;

    t->base.core->log(
        t->base.core, FERRY_LOG_INFO,
        "%s: %llu puts (%llu bytes), %llu gets (%llu bytes), %llu atomics, %llu put_signals (%llu bytes), "
        "%llu tickets (%llu calls without a number), %llu times again, %llu errors, %llu regions, "
        "%llu allocations, %llu keys, %llu channels",
        bad ? "out of balance" : "in balance", (unsigned long long)k[COUNT_PUT].ops,
        (unsigned long long)k[COUNT_PUT].bytes, (unsigned long long)k[COUNT_GET].ops,
        (unsigned long long)k[COUNT_GET].bytes, (unsigned long long)k[COUNT_AMO].ops,
        (unsigned long long)k[COUNT_SIGNAL].ops, (unsigned long long)k[COUNT_SIGNAL].bytes,
        (unsigned long long)sum->drawn, (unsigned long long)sum->nameless, (unsigned long long)sum->again,
        (unsigned long long)sum->errors, (unsigned long long)t->regions.made, (unsigned long long)t->allocations.made,
        (unsigned long long)t->keys.made, (unsigned long long)t->opened);
}

void count_report(const struct ferry_transport *t)
{
    struct count_channel sum = {0};
    unsigned bad = 0;

    if (t->lost) {
        WARN(t, "no verdict: %llu things could not be noted for lack of memory", (unsigned long long)t->lost);
        return;
    }
    bad += check_set(t, &t->regions, "regions", "registered", "deregistered");
    bad += check_set(t, &t->allocations, "allocations", "made", "freed");
    bad += check_set(t, &t->keys, "keys", "imported", "released");
    if (t->opened != t->closed) {
        WARN(t, "out of balance: channels were opened %llu times and closed %llu times", (unsigned long long)t->opened,
             (unsigned long long)t->closed);
        bad++;
    }
    for (uint32_t i = 0; i < t->max_channels; i++) {
        if (!t->channels[i])
            continue;
        bad += check_channel(t, i);
        add(&sum, t->channels[i]);
    }
    sum_up(t, &sum, bad);
}
