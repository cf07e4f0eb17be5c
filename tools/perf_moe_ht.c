/* SPDX-License-Identifier: Apache-2.0
 * ferry-perf: the traffic of a high-throughput MoE dispatch. Each (channel, peer) has a ring of token slots: chunks are
 * put, a strong signal adds to the ring's tail, and the receiver gives credit by a signal to the sender's head. Every
 * slot's stamp is looked at once the tail covers it, so that a signal that overtakes data is found. Main thread of each
 * PE. */
#include "perf.h"

#include <stdio.h>
#include <stdlib.h>

#define RING_BYTES  ((size_t)PERF_HT_RING * PERF_HT_RECORD)
#define CHUNK_BYTES ((size_t)PERF_HT_CHUNK * PERF_HT_RECORD)
#define WORD_STRIDE 16u /* words: counters of different rings share no pair of cache lines */

/* One (channel, peer), both directions. Counters are in tokens since the start. */
struct ring {
    uint8_t *from, *into; /* this PE's slots to send; the peer's, by their address here */
    uint8_t *arrived;     /* this PE's slots that the peer writes */
    uint64_t *tail;       /* what has arrived: the peer adds to it */
    uint64_t *head;       /* what the peer has taken: it adds to it */
    uint64_t *peer_tail, *peer_head;
    uint64_t sent, taken;
    ferry_ctx_t *ctx;
    int peer, channel;
};

struct ht {
    uint8_t *out, *in; /* symmetric: rings by (channel, peer) */
    uint64_t *words;   /* symmetric: tails, then heads, by (channel, peer) */
    struct ring *rings;
    size_t n_rings;
    uint64_t goal;
};

void perf_stamp(uint8_t *record, size_t bytes, uint64_t stamp)
{
    *(uint64_t *)(void *)record = stamp;
    *(uint64_t *)(void *)(record + bytes - sizeof stamp) = stamp;
}

/* What PE `from` writes on that slot of its ring to `to`. */
static uint64_t stamp_of(int from, int to, int channel, uint64_t slot)
{
    return (uint64_t)(from + 1) << 48 | (uint64_t)(to + 1) << 32 | (uint64_t)channel << 16 | (slot + 1);
}

/* Order in which a channel turns to the peers: not the same one for all at a time. */
static int nth_peer(const struct perf *perf, int channel, int nth)
{
    int others = perf->n_pes - 1;
    return (perf->me + 1 + (nth + channel) % others) % perf->n_pes;
}

static void make_ring(struct perf *perf, struct ring *ring, int channel, int peer)
{
    struct ht *moe = perf->moe;
    size_t channels = moe->n_rings / (size_t)(perf->n_pes - 1), base = (size_t)channel * (size_t)perf->n_pes;
    size_t to_me = base + (size_t)peer, to_peer = base + (size_t)perf->me, heads = channels * (size_t)perf->n_pes;
    *ring = (struct ring){.from = moe->out + to_me * RING_BYTES,
                          .into = moe->in + to_peer * RING_BYTES,
                          .arrived = moe->in + to_me * RING_BYTES,
                          .tail = moe->words + to_me * WORD_STRIDE,
                          .head = moe->words + (heads + to_me) * WORD_STRIDE,
                          .peer_tail = moe->words + to_peer * WORD_STRIDE,
                          .peer_head = moe->words + (heads + to_peer) * WORD_STRIDE,
                          .ctx = perf->channels[channel].ctx,
                          .peer = peer,
                          .channel = channel};
    for (uint64_t slot = 0; slot < PERF_HT_RING; slot++)
        perf_stamp(ring->from + slot * PERF_HT_RECORD, PERF_HT_RECORD, stamp_of(perf->me, peer, channel, slot));
}

int perf_moe_ht_begin(struct perf *perf)
{
    int channels = PERF_HT_CHANNELS, others = perf->n_pes - 1;
    for (const struct perf_test *test = perf_tests; test->name; test++)
        if (test->begin == perf_moe_ht_begin)
            channels = perf_channels(perf, test);
    size_t all = (size_t)channels * (size_t)perf->n_pes;
    struct ht *moe = perf->moe = calloc(1, sizeof *moe);
    if (!moe)
        return FERRY_ERR_NOMEM;
    moe->n_rings = (size_t)channels * (size_t)others;
    moe->rings = calloc(moe->n_rings, sizeof *moe->rings);
    moe->out = ferry_malloc(perf->job, all * RING_BYTES);
    moe->in = moe->out ? ferry_calloc(perf->job, all, RING_BYTES) : NULL;
    moe->words = moe->in ? ferry_calloc(perf->job, 2 * all * WORD_STRIDE, sizeof *moe->words) : NULL;
    if (!moe->words || !moe->rings)
        return FERRY_ERR_NOMEM;
    for (int c = 0; c < channels; c++)
        for (int i = 0; i < others; i++)
            make_ring(perf, &moe->rings[c * others + i], c, nth_peer(perf, c, i));
    return ferry_barrier(perf->job);
}

void perf_moe_ht_end(struct perf *perf)
{
    struct ht *moe = perf->moe;
    for (size_t i = 0; i < moe->n_rings; i++)
        ferry_quiet(moe->rings[i].ctx);
    ferry_free(perf->job, moe->words);
    ferry_free(perf->job, moe->in);
    ferry_free(perf->job, moe->out);
    free(moe->rings);
    free(moe);
    perf->moe = NULL;
}

/* Puts the next chunk, if there is credit. 1: did, 0: did not, negative: a status. */
static int send_chunk(const struct perf *perf, struct ring *ring)
{
    const uint64_t after = ring->sent + PERF_HT_CHUNK;
    if (after > PERF_HT_RING) {
        int room = ferry_test(perf->job, ring->head, FERRY_CMP_GE, after - PERF_HT_RING);
        if (room != 1)
            return room;
    }
    const size_t at = (size_t)(ring->sent % PERF_HT_RING) * PERF_HT_RECORD;
    int status = ferry_put_nbi(ring->ctx, ring->into + at, ring->from + at, CHUNK_BYTES, ring->peer);
    if (status == FERRY_OK)
        status = ferry_signal(ring->ctx, ring->peer_tail, PERF_HT_CHUNK, FERRY_SIGNAL_ADD | PERF_COVER, ring->peer);
    ring->sent = after;
    return status == FERRY_OK ? 1 : status;
}

/* Looks at the stamp, and takes it away, so that the next lap's is missed if it does not come. */
static int take_slot(struct perf *perf, const struct ring *ring, uint64_t token)
{
    const uint64_t slot = token % PERF_HT_RING;
    const uint64_t expected = stamp_of(ring->peer, perf->me, ring->channel, slot);
    uint8_t *record = ring->arrived + slot * PERF_HT_RECORD;
    const uint64_t first = *(uint64_t *)(void *)record;
    const uint64_t last = *(uint64_t *)(void *)(record + PERF_HT_RECORD - sizeof last);
    if (first == expected && last == expected) {
        perf_stamp(record, PERF_HT_RECORD, 0);
        return FERRY_OK;
    }
    snprintf(perf->wrong, sizeof perf->wrong,
             "token %llu from PE %d on channel %d is not there, though its signal is: stamp %llx and %llx, not %llx",
             (unsigned long long)token, ring->peer, ring->channel, (unsigned long long)first, (unsigned long long)last,
             (unsigned long long)expected);
    return PERF_WRONG;
}

/* Takes the next chunk, if it has come, and gives credit for it. *moved: whether it did. */
static int take_chunk(struct perf *perf, struct ring *ring, bool *moved)
{
    int come = ferry_test(perf->job, ring->tail, FERRY_CMP_GE, ring->taken + PERF_HT_CHUNK);
    if (come != 1)
        return come;
    for (uint64_t i = 0; i < PERF_HT_CHUNK; i++)
        if (take_slot(perf, ring, ring->taken + i) != FERRY_OK)
            return PERF_WRONG;
    ring->taken += PERF_HT_CHUNK;
    *moved = true;
    /* Nothing of this channel has to be there before the credit. */
    return ferry_signal(ring->ctx, ring->peer_head, PERF_HT_CHUNK, FERRY_SIGNAL_ADD | FERRY_SIGNAL_WEAK, ring->peer);
}

/* One look at every ring. *left: rings that have not reached the goal. */
static int sweep(struct perf *perf, size_t *left, bool *moved)
{
    struct ht *moe = perf->moe;
    *left = 0;
    for (size_t i = 0; i < moe->n_rings; i++) {
        struct ring *ring = &moe->rings[i];
        int status = ring->sent < moe->goal ? send_chunk(perf, ring) : 0;
        *moved |= status == 1;
        if (status >= 0)
            status = ring->taken < moe->goal ? take_chunk(perf, ring, moved) : FERRY_OK;
        if (status != FERRY_OK)
            return status;
        *left += ring->sent < moe->goal || ring->taken < moe->goal;
    }
    return FERRY_OK;
}

int perf_moe_ht(struct perf_channel *channel, uint64_t n)
{
    struct perf *perf = channel->perf;
    struct ht *moe = perf->moe;
    unsigned idle = 0;
    size_t left = 1;
    moe->goal += n * PERF_HT_CHUNKS * PERF_HT_CHUNK;
    while (left > 0) {
        bool moved = false;
        int status = sweep(perf, &left, &moved);
        if (status != FERRY_OK)
            return status;
        idle = moved ? 0 : idle + 1;
        if (idle > 64)
            sched_yield();
    }
    return FERRY_OK;
}
