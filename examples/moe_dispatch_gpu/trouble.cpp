/* SPDX-License-Identifier: Apache-2.0
 * Says what a kernel found wrong, in the words of the CPU's example. Each PE's main thread, when the kernel has ended. */
#include "host.h"
#include <cinttypes>
#include <cstdio>

static const char *call_text(int call)
{
    switch (call) {
    case CALL_ANNOUNCE: return "announcing tokens to";
    case CALL_CREDITS: return "waiting for credits of";
    case CALL_COMPLETE: return "completing puts to";
    case CALL_SEND: return "sending tokens to";
    case CALL_TOKENS: return "waiting for tokens of";
    case CALL_RELEASE: return "giving credits to";
    default: return "telling about a bad slot";
    }
}

/* The library knows why: of a command by the ring's record, of a wait by the same wait of a CPU. */
static int call_failed(struct moe *moe, const struct trouble *t)
{
    struct ferry_error record = {};
    char what[96];
    record.size = sizeof record;
    if (t->call == CALL_QUIET)
        snprintf(what, sizeof what, "channel %" PRIu32 ": quiet", t->channel);
    else
        snprintf(what, sizeof what, "channel %" PRIu32 ": %s pe %" PRIu32, t->channel, call_text(t->call), t->pe);
    if (t->channel < moe->gpu->n_rings)
        ferry_ring_error(moe->gpu->rings[t->channel], &record);
    if (record.status != FERRY_OK)
        return fail(moe, t->status, "%s: %s: %s%s%s", what, ferry_status_string(t->status), record.message, record.hint[0] ? "; " : "",
                    record.hint);
    const int rc = ferry_test(moe->job, &moe->gpu->work.words->head, FERRY_CMP_EQ, UINT64_MAX);
    return rc < 0 ? fail_call(moe, rc, "%s", what) : fail(moe, t->status, "%s: %s", what, ferry_status_string(t->status));
}

static int slot_wrong(struct moe *moe, const struct trouble *t, const char *phase)
{
    const struct work *w = &moe->gpu->work;
    char verdict[160];
    if (t->late_ns)
        snprintf(verdict, sizeof verdict, "right %.3f ms later: data was not visible when its signal was", (double)t->late_ns / 1e6);
    else
        snprintf(verdict, sizeof verdict, "still wrong 1 s later: data was lost or changed");
    return fail(moe, FERRY_ERR_TRANSPORT,
                "%s: pe %" PRIu32 " channel %" PRIu32 " from pe %" PRIu32 " slot %" PRIu64 ": expected stamp phase %" PRIu32
                " source %" PRIu32 " channel %" PRIu32 " sequence %" PRIu64 ", saw phase %" PRIu32 " source %" PRIu32
                " channel %" PRIu32 " sequence %" PRIu64 ", checksum %016" PRIx64 " for a body with %016" PRIx64 "; %s",
                phase, moe->me, t->channel, t->pe, t->sequence % w->ring, w->phase, t->pe, t->channel, t->sequence, t->stamp.phase,
                t->stamp.source, t->stamp.channel, t->stamp.sequence, t->stamp.checksum, t->body, verdict);
}

int trouble_report(struct moe *moe, const char *phase)
{
    const struct trouble *t = moe->gpu->work.trouble;
    switch (t->kind) {
    case TROUBLE_NONE:
        return FERRY_OK;
    case TROUBLE_CALL:
        return call_failed(moe, t);
    case TROUBLE_SLOT:
        return slot_wrong(moe, t, phase);
    case TROUBLE_TAIL:
        return fail(moe, FERRY_ERR_TRANSPORT,
                    "%s: pe %" PRIu32 " channel %" PRIu32 " from pe %" PRIu32 ": tail is %" PRIu64 ", but at most %" PRIu64
                    " tokens can have come: a signal was applied twice or in the wrong place",
                    phase, moe->me, t->channel, t->pe, t->seen, t->expected);
    case TROUBLE_TOKEN:
        return fail(moe, FERRY_ERR_TRANSPORT, "combine: pe %u channel %u from pe %u: expected token %u, saw token %u", moe->me, t->channel,
                    t->pe, (unsigned)t->expected, (unsigned)t->seen);
    default:
        return fail(moe, FERRY_ERR_TRANSPORT, "pe %" PRIu32 " got a token for expert %u, which it does not have", moe->me,
                    (unsigned)t->seen);
    }
}
