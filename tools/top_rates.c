/* SPDX-License-Identifier: Apache-2.0
 * ferry-top: what happened between two readings of a page. Pure functions, but for the clock that a reading came with. */
#include "top.h"

const char *top_kind(uint32_t kind)
{
    static const char *const names[] = {"free", "default", "context", "ring", "barrier", "mailbox"};
    return kind < sizeof names / sizeof *names ? names[kind] : "unknown";
}

bool top_internal(uint32_t kind)
{
    return kind == FERRY_PAGE_BARRIER || kind == FERRY_PAGE_MAILBOX;
}

const struct top_page *top_before(const struct top_pages *before, const struct top_page *page)
{
    for (size_t i = 0; i < before->n; i++) {
        const struct top_page *other = &before->pages[i];
        if (other->head.job == page->head.job && other->head.pe == page->head.pe && other->pid == page->pid)
            return other;
    }
    return NULL;
}

/* A channel that was destroyed, and made again, has counted less. */
static double rate(uint64_t before, uint64_t after, double seconds)
{
    return seconds > 0 && after >= before ? (double)(after - before) / seconds : 0;
}

static uint64_t posted(const struct ferry_counters *c)
{
    return c->puts + c->gets + c->atomics + c->signals;
}

static const struct ferry_counters *channel_before(const struct top_page *before, uint32_t number)
{
    static const struct ferry_counters none;
    for (size_t i = 0; before && i < before->n_channels; i++)
        if (before->channels[i].number == number)
            return &before->channels[i].is.counters;
    return &none;
}

void top_rates(const struct top_page *before, const struct top_page *after, const struct top_channel *channel, struct top_rates *rates)
{
    const struct ferry_counters *new = &channel->is.counters, *old = channel_before(before, channel->number);
    double seconds = before ? after->at - before->at : 0;
    *rates = (struct top_rates){.seconds = seconds, .oldest = -1};
    rates->puts = rate(old->puts, new->puts, seconds);
    rates->gets = rate(old->gets, new->gets, seconds);
    rates->atomics = rate(old->atomics, new->atomics, seconds);
    rates->signals = rate(old->signals, new->signals, seconds);
    rates->operations = rates->puts + rates->gets + rates->atomics + rates->signals;
    rates->bytes_put = rate(old->bytes_put, new->bytes_put, seconds);
    rates->bytes_got = rate(old->bytes_got, new->bytes_got, seconds);
    rates->retries = rate(old->again, new->again, seconds);
    if (!channel->is.outstanding)
        return;
    if (posted(new) >= new->completed)
        rates->outstanding = posted(new) - new->completed;
    rates->oldest = after->at - (double)channel->is.busy_since * 1e-9;
    if (new->completed != old->completed && rates->oldest > seconds)
        rates->oldest = seconds; /* all was complete in between */
    if (rates->oldest < 0)
        rates->oldest = 0;
}

double top_proxy_load(const struct top_page *before, const struct top_page *after)
{
    uint64_t looks = 0, worked = 0;
    for (int i = 0; before && i < FERRY_PAGE_WORKERS; i++) {
        const struct ferry_page_worker *old = &before->head.workers[i], *new = &after->head.workers[i];
        if (new->looks < old->looks || new->worked < old->worked)
            continue;
        looks += new->looks - old->looks;
        worked += new->worked - old->worked;
    }
    return looks ? (double)worked / (double)looks : -1;
}

bool top_longest_wait(const struct top_page *page, struct ferry_page_wait *longest)
{
    bool found = false;
    for (int i = 0; i < FERRY_PAGE_WAITS; i++) {
        const struct ferry_page_wait *wait = &page->head.waits[i];
        if (wait->state != 2 || (found && wait->since >= longest->since))
            continue;
        *longest = *wait;
        found = true;
    }
    return found;
}
