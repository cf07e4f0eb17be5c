/* SPDX-License-Identifier: Apache-2.0
 * ferry-top: the form for programs, one JSON object on one line. One thread. */
#include "top.h"

#include <jansson.h>

static json_t *whole(uint64_t value)
{
    return json_integer((json_int_t)value);
}

static json_t *optional(double value)
{
    return value < 0 ? json_null() : json_real(value);
}

static json_t *totals(const struct ferry_counters *c)
{
    return json_pack("{s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "puts", whole(c->puts), "gets", whole(c->gets),
                     "atomics", whole(c->atomics), "signals", whole(c->signals), "bytes_put", whole(c->bytes_put), "bytes_got",
                     whole(c->bytes_got), "fences", whole(c->fences), "fenced_operations", whole(c->fenced_operations), "drains",
                     whole(c->drains), "quiets", whole(c->quiets), "retries", whole(c->again), "mailed", whole(c->mailed));
}

static json_t *channel_object(const struct top_page *before, const struct top_page *page, const struct top_channel *channel)
{
    struct top_rates r;
    top_rates(before, page, channel, &r);
    json_t *rates = json_pack("{s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f}", "operations", r.operations, "puts", r.puts, "gets", r.gets,
                              "atomics", r.atomics, "signals", r.signals, "bytes_put", r.bytes_put, "bytes_got", r.bytes_got,
                              "retries", r.retries);
    return json_pack("{s:i, s:s, s:o, s:o, s:i, s:o, s:o}", "channel", (int)channel->number, "kind", top_kind(channel->is.kind),
                     "per_second", rates, "outstanding", whole(r.outstanding), "outstanding_peers", (int)channel->is.outstanding,
                     "oldest_seconds", optional(r.oldest), "totals", totals(&channel->is.counters));
}

static json_t *waits(const struct top_page *page)
{
    json_t *array = json_array();
    for (int i = 0; i < FERRY_PAGE_WAITS; i++) {
        const struct ferry_page_wait *wait = &page->head.waits[i];
        double age = page->at - (double)wait->since * 1e-9;
        if (wait->state != 2)
            continue;
        json_array_append_new(array, json_pack("{s:s, s:o, s:o, s:i, s:f}", "doing", (const char *)wait->doing, "peer",
                                               wait->peer < 0 ? json_null() : json_integer(wait->peer), "channel",
                                               wait->channel < 0 ? json_null() : json_integer(wait->channel), "thread",
                                               (int)wait->thread, "seconds", age > 0 ? age : 0.0));
    }
    return array;
}

static json_t *process_object(const struct top_pages *before, const struct top_page *page)
{
    const struct top_page *old = top_before(before, page);
    const char state[] = {page->state, '\0'};
    json_t *channels = json_array();
    for (size_t i = 0; i < page->n_channels; i++)
        json_array_append_new(channels, channel_object(old, page, &page->channels[i]));
    return json_pack("{s:i, s:i, s:s, s:s, s:s, s:f, s:o, s:o, s:i, s:b, s:o, s:o}", "pe", (int)page->head.pe, "pid", (int)page->pid,
                     "program", page->program, "state", state, "transports", page->head.transports, "seconds",
                     old ? page->at - old->at : 0.0, "proxy_load", optional(top_proxy_load(old, page)), "errors",
                     whole(page->head.errors), "dead_pes", (int)page->head.dead, "aborted", page->head.aborted != 0, "waits",
                     waits(page), "channels", channels);
}

void top_json(const struct top_pages *before, const struct top_pages *after)
{
    json_t *jobs = json_array(), *pes = NULL;
    for (size_t i = 0; i < after->n; i++) {
        const struct top_page *page = &after->pages[i];
        if (i == 0 || after->pages[i - 1].head.job != page->head.job) {
            char name[32];
            snprintf(name, sizeof name, "%016llx", (unsigned long long)page->head.job);
            pes = json_array();
            json_array_append_new(jobs, json_pack("{s:s, s:i, s:o}", "job", name, "n_pes", (int)page->head.n_pes, "pes", pes));
        }
        json_array_append_new(pes, process_object(before, page));
    }
    json_t *all = json_pack("{s:o}", "jobs", jobs);
    json_dumpf(all, stdout, JSON_COMPACT | JSON_REAL_PRECISION(9));
    json_decref(all);
    printf("\n");
}
