/* SPDX-License-Identifier: Apache-2.0
 * The report of a job in words, and the names that it shares with the one in JSON.
 * The report thread. */
#include "report.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void fy_text_add(struct fy_text *text, const char *format, ...)
{
    va_list args, again;
    va_start(args, format);
    va_copy(again, args);
    int n = vsnprintf(NULL, 0, format, args);
    va_end(args);
    size_t need = text->n + (size_t)(n < 0 ? 0 : n) + 1;
    if (need > text->room) {
        char *more = realloc(text->data, 2 * need);
        if (more) {
            text->data = more;
            text->room = 2 * need;
        }
    }
    if (n < 0 || need > text->room)
        text->failed = true;
    else
        text->n += (size_t)vsnprintf(text->data + text->n, text->room - text->n, format, again);
    va_end(again);
}

const char *fy_state_kinds(uint32_t kinds, char *out, size_t size)
{
    static const struct {
        uint32_t bits;
        const char *name;
    } names[] = {{FY_DID_PUT, "put"}, {FY_DID_GET, "get"}, {FY_DID_AMO | FY_DID_FAR, "atomic"}, {FY_DID_MAIL | FY_DID_REQUEST, "request"}};
    size_t n = 0;
    out[0] = '\0';
    for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
        if (kinds & names[i].bits && n < size)
            n += (size_t)snprintf(out + n, size - n, "%s%s", n ? ", " : "", names[i].name);
    return out;
}

const char *fy_state_channel_kind(uint32_t kind)
{
    static const char *const names[] = {"free", "default", "context", "ring", "barrier", "mailbox"};
    return kind < sizeof(names) / sizeof(*names) ? names[kind] : "unknown";
}

static double seconds(uint64_t ns)
{
    return (double)ns * 1e-9;
}

static void text_channel(struct fy_text *out, const struct fy_state_channel *c)
{
    char kinds[64];
    if (!c->posted && c->kind != FERRY_PAGE_RING)
        return;
    fy_text_add(out, "  channel %u (%s): posted %llu, complete %llu", c->id, fy_state_channel_kind(c->kind),
                (unsigned long long)c->posted, (unsigned long long)c->completed);
    if (c->busy)
        fy_text_add(out, ", the oldest for %.1f s", seconds(c->age));
    if (c->again)
        fy_text_add(out, ", repeated %llu times", (unsigned long long)c->again);
    for (uint32_t i = 0; i < c->n_peers; i++)
        fy_text_add(out, "%s pe %u (%s)", i ? "," : ", outstanding at", c->peers[i].pe,
                    fy_state_kinds(c->peers[i].kinds, kinds, sizeof(kinds)));
    if (c->busy > c->n_peers)
        fy_text_add(out, " and %u more", c->busy - c->n_peers);
    if (c->kind == FERRY_PAGE_RING)
        fy_text_add(out, "; ring: reserved up to %llu, taken %llu, complete %llu", (unsigned long long)c->ring_head,
                    (unsigned long long)c->ring_consumed, (unsigned long long)c->ring_completed);
    fy_text_add(out, "\n");
}

static void text_lanes(struct fy_text *out, const struct fy_state *state, uint32_t channel)
{
    for (uint32_t i = 0; i < state->n_lanes; i++)
        if (state->lanes[i].channel == channel)
            fy_text_add(out, "    to pe %u: %s\n", state->lanes[i].pe, state->lanes[i].text);
}

static void text_state(struct fy_text *out, const struct fy_state *state)
{
    fy_text_add(out, "pe %u (pid %u on %s): %s\n", state->pe, state->pid, state->host,
                state->n_waits ? "waits" : "in no call of ferry that waits");
    for (uint32_t i = 0; i < state->n_waits; i++) {
        const struct fy_state_wait *wait = &state->waits[i];
        fy_text_add(out, "  %s: for %.1f s", wait->doing, seconds(wait->age));
        if (wait->peer >= 0)
            fy_text_add(out, ", waiting for pe %d", wait->peer);
        if (wait->channel >= 0)
            fy_text_add(out, ", channel %d", wait->channel);
        fy_text_add(out, "\n");
    }
    for (uint32_t i = 0; i < state->n_channels; i++) {
        text_channel(out, &state->channels[i]);
        text_lanes(out, state, state->channels[i].id);
    }
    if (state->more_channels)
        fy_text_add(out, "  and %u more channels\n", state->more_channels);
}

void fy_report_text(struct fy_text *out, const struct fy_account *account)
{
    static const char *const words[] = {[FY_NOT_ASKED] = "was not asked", [FY_SILENT] = "does not answer",
                                        [FY_DEAD] = "is dead", [FY_GONE] = "has closed its job"};
    fy_text_add(out, "report of job %016llx, %u pes: %s\n", (unsigned long long)account->job, account->n, account->reason);
    for (uint32_t i = 0; i < account->n; i++) {
        if (account->answers[i].how == FY_ANSWERED)
            text_state(out, account->answers[i].state);
        else
            fy_text_add(out, "pe %u: %s\n", i, words[account->answers[i].how]);
    }
    if (account->culprit >= 0)
        fy_text_add(out, "culprit: pe %d: %s\n", account->culprit, account->why);
    else
        fy_text_add(out, "culprit: none: %s\n", account->why);
}
