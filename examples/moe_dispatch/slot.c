/* SPDX-License-Identifier: Apache-2.0
 * Stamps. The sender stamps a slot after it filled it; the receiver knows which stamp must be there once it has seen
 * the tail, so data that is not visible when its signal is cannot go unnoticed. Called by the thread of the channel. */
#include "moe.h"
#include <inttypes.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>

static const uint64_t second_look_ns = 1000000000u;

/* Four independent chains, so that hashing keeps up with copying. */
uint64_t slot_hash(const void *bytes, size_t n)
{
    const char *at = bytes;
    uint64_t h[4] = {1, 2, 3, 4};
    for (size_t i = 0; i < n / 8; i++) {
        uint64_t word;
        memcpy(&word, at + 8 * i, sizeof word);
        uint64_t x = (h[i % 4] ^ word) * UINT64_C(0x9fb21c651e98df25);
        h[i % 4] = x ^ (x >> 29);
    }
    return mix64(h[0] ^ mix64(h[1] ^ mix64(h[2] ^ mix64(h[3]))));
}

static uint64_t body_hash(const struct channel *channel, const void *slot)
{
    size_t bytes = channel->moe->exchange->rings.slot_bytes - sizeof(struct stamp);
    return slot_hash((const char *)slot + sizeof(struct stamp), bytes);
}

void slot_stamp(const struct channel *channel, void *slot, uint32_t token, uint64_t sequence)
{
    struct stamp stamp = {
        .phase = channel->moe->exchange->phase,
        .source = channel->moe->me,
        .channel = channel->index,
        .token = token,
        .sequence = sequence,
        .checksum = body_hash(channel, slot),
    };
    memcpy(slot, &stamp, sizeof stamp);
}

/* 1: the slot is what its position says, and its body is whole. */
static int right(const struct channel *channel, const struct receiver *r, const void *slot, struct stamp *seen,
                 uint64_t *body)
{
    memcpy(seen, slot, sizeof *seen);
    *body = body_hash(channel, slot);
    return seen->phase == channel->moe->exchange->phase && seen->source == r->pe && seen->channel == channel->index &&
           seen->sequence == r->taken && seen->checksum == *body;
}

/* Looks again for a while: what becomes right was late, what stays wrong was lost or changed. */
static int becomes_right(const struct channel *channel, const struct receiver *r, const void *slot, double *after_ms)
{
    uint64_t start = now_ns(), elapsed = 0;
    while (elapsed < second_look_ns) {
        struct stamp seen;
        uint64_t body;
        /* A load that others may race with: it also keeps the compiler from reusing what it read before. */
        (void)__atomic_load_n((const uint64_t *)slot, __ATOMIC_ACQUIRE);
        if (right(channel, r, slot, &seen, &body)) {
            *after_ms = (double)(now_ns() - start) / 1e6;
            return 1;
        }
        sched_yield();
        elapsed = now_ns() - start;
    }
    return 0;
}

int slot_check(struct channel *channel, struct receiver *r, const void *slot)
{
    struct moe *moe = channel->moe;
    struct stamp seen;
    uint64_t body;
    if (right(channel, r, slot, &seen, &body))
        return 0;

    /* Tells the sender, which may be holding the data back on purpose (--inject late). */
    int rc = ferry_signal(channel->ctx, &r->words->suspect, 1, FERRY_SIGNAL_ADD | FERRY_SIGNAL_WEAK, (int)r->pe);
    if (rc == FERRY_OK)
        rc = ferry_quiet(channel->ctx);
    if (rc != FERRY_OK)
        return fail_call(moe, rc, "channel %" PRIu32 ": telling pe %" PRIu32 " about a bad slot", channel->index,
                         r->pe);

    char verdict[160];
    double after_ms = 0;
    if (becomes_right(channel, r, slot, &after_ms))
        snprintf(verdict, sizeof verdict, "right %.3f ms later: data was not visible when its signal was", after_ms);
    else
        snprintf(verdict, sizeof verdict, "still wrong 1 s later: data was lost or changed");
    return fail(
        moe, FERRY_ERR_TRANSPORT,
        "%s: pe %" PRIu32 " channel %" PRIu32 " from pe %" PRIu32 " slot %" PRIu64 ": expected stamp phase %" PRIu32
        " source %" PRIu32 " channel %" PRIu32 " sequence %" PRIu64 ", saw phase %" PRIu32 " source %" PRIu32
        " channel %" PRIu32 " sequence %" PRIu64 ", checksum %016" PRIx64 " for a body with %016" PRIx64 "; %s",
        moe->exchange->name, moe->me, channel->index, r->pe, r->taken % moe->ring, moe->exchange->phase, r->pe,
        channel->index, r->taken, seen.phase, seen.source, seen.channel, seen.sequence, seen.checksum, body, verdict);
}
