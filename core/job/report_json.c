/* SPDX-License-Identifier: Apache-2.0
 * The report of a job as one JSON object on one line. Strings come from this library and from host names.
 * The report thread. */
#include "report.h"

static void quoted(struct fy_text *out, const char *text)
{
    fy_text_add(out, "\"");
    for (; *text; text++) {
        unsigned char c = (unsigned char)*text;
        if (c < ' ' || c > '~')
            fy_text_add(out, "?"); /* nor halves of UTF-8 */
        else
            fy_text_add(out, c == '"' || c == '\\' ? "\\%c" : "%c", c);
    }
    fy_text_add(out, "\"");
}

static void json_wait(struct fy_text *out, const struct fy_state_wait *wait)
{
    fy_text_add(out, "{\"doing\":");
    quoted(out, wait->doing);
    fy_text_add(out, ",\"peer\":");
    fy_text_add(out, wait->peer < 0 ? "null" : "%d", wait->peer);
    fy_text_add(out, ",\"channel\":");
    fy_text_add(out, wait->channel < 0 ? "null" : "%d", wait->channel);
    fy_text_add(out, ",\"seconds\":%.3f}", (double)wait->age * 1e-9);
}

static void json_peer(struct fy_text *out, const struct fy_state *state, const struct fy_state_channel *c, uint32_t i)
{
    char kinds[64];
    fy_text_add(out, "%s{\"pe\":%u,\"kinds\":\"%s\",\"transport\":", i ? "," : "", c->peers[i].pe,
                fy_state_kinds(c->peers[i].kinds, kinds, sizeof(kinds)));
    for (uint32_t j = 0; j < state->n_lanes; j++)
        if (state->lanes[j].channel == c->id && state->lanes[j].pe == c->peers[i].pe) {
            quoted(out, state->lanes[j].text);
            fy_text_add(out, "}");
            return;
        }
    fy_text_add(out, "null}");
}

static void json_channel(struct fy_text *out, const struct fy_state *state, const struct fy_state_channel *c)
{
    fy_text_add(out, "{\"channel\":%u,\"kind\":\"%s\",\"posted\":%llu,\"completed\":%llu,\"retries\":%llu,\"oldest_seconds\":%.3f", c->id,
                fy_state_channel_kind(c->kind), (unsigned long long)c->posted, (unsigned long long)c->completed,
                (unsigned long long)c->again, (double)c->age * 1e-9);
    fy_text_add(out, ",\"outstanding_peers\":%u,\"peers\":[", c->busy);
    for (uint32_t i = 0; i < c->n_peers; i++)
        json_peer(out, state, c, i);
    fy_text_add(out, "]");
    if (c->kind == FERRY_PAGE_RING)
        fy_text_add(out, ",\"ring\":{\"reserved\":%llu,\"taken\":%llu,\"completed\":%llu}", (unsigned long long)c->ring_head,
                    (unsigned long long)c->ring_consumed, (unsigned long long)c->ring_completed);
    fy_text_add(out, "}");
}

static void json_state(struct fy_text *out, const struct fy_state *state)
{
    fy_text_add(out, ",\"pid\":%u,\"host\":", state->pid);
    quoted(out, state->host);
    fy_text_add(out, ",\"waits\":[");
    for (uint32_t i = 0; i < state->n_waits; i++) {
        fy_text_add(out, i ? "," : "");
        json_wait(out, &state->waits[i]);
    }
    fy_text_add(out, "],\"channels\":[");
    for (uint32_t i = 0; i < state->n_channels; i++) {
        fy_text_add(out, i ? "," : "");
        json_channel(out, state, &state->channels[i]);
    }
    fy_text_add(out, "],\"more_channels\":%u", state->more_channels);
}

void fy_report_json(struct fy_text *out, const struct fy_account *account)
{
    static const char *const words[] = {[FY_NOT_ASKED] = "not asked", [FY_ANSWERED] = "answered", [FY_SILENT] = "silent",
                                        [FY_DEAD] = "dead", [FY_GONE] = "gone"};
    fy_text_add(out, "{\"job\":\"%016llx\",\"n_pes\":%u,\"reason\":", (unsigned long long)account->job, account->n);
    quoted(out, account->reason);
    fy_text_add(out, ",\"culprit\":");
    fy_text_add(out, account->culprit < 0 ? "null" : "%d", account->culprit);
    fy_text_add(out, ",\"why\":");
    quoted(out, account->why);
    fy_text_add(out, ",\"pes\":[");
    for (uint32_t i = 0; i < account->n; i++) {
        fy_text_add(out, "%s{\"pe\":%u,\"state\":\"%s\"", i ? "," : "", i, words[account->answers[i].how]);
        if (account->answers[i].how == FY_ANSWERED)
            json_state(out, account->answers[i].state);
        fy_text_add(out, "}");
    }
    fy_text_add(out, "]}\n");
}
