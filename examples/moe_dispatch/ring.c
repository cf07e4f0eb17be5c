/* SPDX-License-Identifier: Apache-2.0
 * Rings of token slots in the symmetric heap, with cumulative counters: the sender adds to `tail` at the receiver, the
 * receiver adds to `head` at the sender. A slot has the same offset in the sender's staging ring and in the receiver's.
 * rings_open and rings_close: main thread, on all PEs. The rest: the thread of the channel. */
#include "moe.h"
#include <inttypes.h>

int rings_open(struct moe *moe, struct rings *rings, size_t slot_bytes)
{
    size_t lanes = (size_t)moe->args->channels * moe->lanes;
    size_t slots = lanes * moe->ring;
    rings->slot_bytes = slot_bytes;
    rings->out = ferry_malloc(moe->job, slots * slot_bytes);
    rings->in = rings->out ? ferry_malloc(moe->job, slots * slot_bytes) : NULL;
    rings->words = rings->in ? ferry_calloc(moe->job, lanes, sizeof(struct lane_words)) : NULL;
    if (!rings->words)
        return fail_call(moe, FERRY_OK, "two sets of rings of %zu slots of %zu bytes", slots, slot_bytes);
    return FERRY_OK;
}

int rings_close(struct moe *moe, struct rings *rings)
{
    int rc = ferry_free(moe->job, rings->words);
    if (rc == FERRY_OK)
        rc = ferry_free(moe->job, rings->in);
    if (rc == FERRY_OK)
        rc = ferry_free(moe->job, rings->out);
    return rc == FERRY_OK ? rc : fail_call(moe, rc, "freeing the rings");
}

static int post_failed(struct channel *channel, int rc, const char *what, uint32_t pe)
{
    return fail_call(channel->moe, rc, "channel %" PRIu32 ": %s pe %" PRIu32, channel->index, what, pe);
}

/* Tells the receiver how many tokens will come: a small put and its own signal. */
int sender_announce(struct channel *channel, struct sender *s)
{
    s->words->announcement = s->total;
    int rc = ferry_put_signal_nbi(channel->ctx, &s->words->tokens, &s->words->announcement, sizeof(uint64_t),
                                  &s->words->announced, 1, FERRY_SIGNAL_SET | FERRY_SIGNAL_WEAK, (int)s->pe);
    return rc == FERRY_OK ? rc : post_failed(channel, rc, "announcing tokens to", s->pe);
}

int sender_room(struct channel *channel, struct sender *s, uint32_t n)
{
    uint64_t end = s->posted + n;
    if (end > channel->moe->ring) {
        /* The receiver has taken what lies in these slots of its ring ... */
        int rc = ferry_test(channel->moe->job, &s->words->head, FERRY_CMP_GE, end - channel->moe->ring);
        if (rc < 0)
            return post_failed(channel, rc, "waiting for credits of", s->pe);
        if (rc == 0)
            return 0;
    }
    if (end > s->reusable) {
        /* ... and the transport has let go of them in ours: that is what quiet says, and a credit does not. */
        int rc = ferry_quiet_pe(channel->ctx, (int)s->pe);
        if (rc != FERRY_OK)
            return post_failed(channel, rc, "completing puts to", s->pe);
        s->reusable = s->posted + channel->moe->ring;
    }
    return 1;
}

/* --inject late: the tail moves first, the data follows once the receiver has noticed. */
static int ship_late(struct channel *channel, struct sender *s, char *place, const char *source, size_t bytes,
                     uint32_t n)
{
    int rc = ferry_signal(channel->ctx, &s->words->tail, n, FERRY_SIGNAL_ADD, (int)s->pe);
    if (rc == FERRY_OK)
        rc = ferry_quiet(channel->ctx);
    if (rc == FERRY_OK)
        rc = ferry_wait_until(channel->moe->job, &s->words->suspect, FERRY_CMP_NE, 0);
    if (rc == FERRY_OK)
        rc = ferry_put(channel->ctx, place, source, bytes, (int)s->pe);
    return rc == FERRY_OK ? ferry_quiet(channel->ctx) : rc;
}

/* The fault goes into the first chunk that PE 0 sends on channel 0: to another PE if there is one. */
static int faulty(const struct channel *channel, const struct sender *s, enum inject kind)
{
    const struct moe *moe = channel->moe;
    if (moe->args->inject != kind || moe->me != 0 || channel->index != 0 || moe->exchange->phase != 1 || s->posted != 0)
        return 0;
    const struct sender *chosen = NULL;
    for (uint32_t k = 0; k < moe->lanes; k++)
        chosen = channel->senders[k].total > 0 ? &channel->senders[k] : chosen;
    return chosen == s && (kind != INJECT_LATE || s->pe != moe->me);
}

/* One put for the chunk, which never wraps, then a strong signal: whoever sees the tail sees the chunk. */
int sender_ship(struct channel *channel, struct sender *s, uint32_t n)
{
    size_t slot_bytes = channel->moe->exchange->rings.slot_bytes;
    size_t offset = (size_t)(s->posted % channel->moe->ring) * slot_bytes;
    /* The peer's incoming ring has the place that ours has: symmetric addresses. */
    char *place = channel->moe->exchange->rings.in + (s->slots - channel->moe->exchange->rings.out) + offset;
    char *source = s->slots + offset;
    size_t bytes = n * slot_bytes;
    if (faulty(channel, s, INJECT_CORRUPT))
        source[slot_bytes - 64] ^= 1;

    int rc;
    if (faulty(channel, s, INJECT_LATE)) {
        rc = ship_late(channel, s, place, source, bytes, n);
    } else {
        rc = ferry_put_nbi(channel->ctx, place, source, bytes, (int)s->pe);
        int strength = channel->moe->args->inject == INJECT_WEAK ? FERRY_SIGNAL_WEAK : 0;
        if (rc == FERRY_OK)
            rc = ferry_signal(channel->ctx, &s->words->tail, n, FERRY_SIGNAL_ADD | strength, (int)s->pe);
    }
    if (rc != FERRY_OK)
        return post_failed(channel, rc, "sending tokens to", s->pe);
    s->posted += n;
    channel->tally.bytes += bytes;
    channel->tally.remote_bytes += s->pe != channel->moe->me ? bytes : 0;
    return FERRY_OK;
}

int receiver_announced(struct channel *channel, struct receiver *r)
{
    int rc = ferry_test(channel->moe->job, &r->words->announced, FERRY_CMP_NE, 0);
    if (rc < 0)
        return post_failed(channel, rc, "waiting for the announcement of", r->pe);
    if (rc == 1)
        r->total = r->words->tokens;
    return rc;
}

/* *upto: the position behind the last slot that may be read. */
int receiver_ready(struct channel *channel, struct receiver *r, uint64_t *upto)
{
    int rc = ferry_test(channel->moe->job, &r->words->tail, FERRY_CMP_GT, r->taken);
    if (rc < 0)
        return post_failed(channel, rc, "waiting for tokens of", r->pe);
    if (rc == 0)
        return 0;
    *upto = __atomic_load_n(&r->words->tail, __ATOMIC_ACQUIRE);
    uint64_t most = r->credited + channel->moe->ring;
    if (*upto > r->total || *upto > most)
        return fail(channel->moe, FERRY_ERR_TRANSPORT,
                    "%s: pe %" PRIu32 " channel %" PRIu32 " from pe %" PRIu32 ": tail is %" PRIu64
                    ", but at most %" PRIu64 " tokens can have come: a signal was applied twice or in the wrong place",
                    channel->moe->exchange->name, channel->moe->me, channel->index, r->pe, *upto,
                    r->total < most ? r->total : most);
    return 1;
}

/* Gives credits back, but not for every token: a signal per chunk is enough. What is left goes back at the end. */
int receiver_release(struct channel *channel, struct receiver *r)
{
    uint64_t owed = r->taken - r->credited;
    if (owed == 0 || (owed < channel->moe->args->chunk && r->taken < r->total))
        return FERRY_OK;
    /* Weak: it covers no data, so it need not wait for any. */
    int rc = ferry_signal(channel->ctx, &r->words->head, owed, FERRY_SIGNAL_ADD | FERRY_SIGNAL_WEAK, (int)r->pe);
    if (rc != FERRY_OK)
        return post_failed(channel, rc, "giving credits to", r->pe);
    r->credited = r->taken;
    return FERRY_OK;
}
