/* SPDX-License-Identifier: Apache-2.0
 * ferry-perf: batches whose operations are waited for one by one. Called by the main thread of each PE.
 * Loops work on a copy of the channel, which the compiler knows that no call changes. */
#include "perf.h"

#define SPINS_PER_LOOK  4096u
#define LOOKS_PER_QUIET 64u /* it waits for the network, and whoever waits there does not see the byte come */

/* While a byte does not come: lets others have the core, and notices a peer that is gone, or an own put that failed. */
static int look_around(const struct perf_channel *at, unsigned looks)
{
    int status = looks % LOOKS_PER_QUIET == 0 ? ferry_quiet(at->ctx) : FERRY_OK;
    if (status != FERRY_OK)
        return status;
    sched_yield();
    return ferry_pe_alive(at->perf->job, at->peer) == 1 ? FERRY_OK : FERRY_ERR_PEER;
}

static int await_byte(const struct perf_channel *at, const uint8_t *byte, uint8_t expected)
{
    for (unsigned spins = 1; __atomic_load_n(byte, __ATOMIC_ACQUIRE) != expected; spins++) {
        if (spins % SPINS_PER_LOOK != 0)
            continue;
        int status = look_around(at, spins / SPINS_PER_LOOK);
        if (status != FERRY_OK)
            return status;
    }
    return FERRY_OK;
}

/* One way of each exchange: `send` posts with a number of the sequence, `await` returns when the peer's has come. */
static inline __attribute__((always_inline)) int exchange(struct perf_channel *channel, uint64_t n,
                                                          int (*send)(const struct perf_channel *, uint64_t),
                                                          int (*await)(const struct perf_channel *, uint64_t))
{
    const struct perf_channel at = *channel;
    const uint64_t end = at.sequence + n;
    int status = FERRY_OK;
    for (uint64_t number = at.sequence + 1; number <= end && status == FERRY_OK; number++) {
        status = at.first ? send(&at, number) : await(&at, number);
        if (status == FERRY_OK)
            status = at.first ? await(&at, number) : send(&at, number);
    }
    channel->sequence = end;
    return status;
}

/* The payload's last byte tells that it has come: never 0, and not the one before. */
static uint8_t mark(uint64_t number)
{
    return (uint8_t)(number | 0x80);
}

static int send_payload(const struct perf_channel *at, uint64_t number)
{
    at->outbox[at->bytes - 1] = mark(number);
    return ferry_put(at->ctx, at->inbox, at->outbox, at->bytes, at->peer);
}

static int await_payload(const struct perf_channel *at, uint64_t number)
{
    return await_byte(at, &at->inbox[at->bytes - 1], mark(number));
}

int perf_put_lat(struct perf_channel *channel, uint64_t n)
{
    return exchange(channel, n, send_payload, await_payload);
}

static int send_flagged(const struct perf_channel *at, uint64_t number)
{
    int status = ferry_put_nbi(at->ctx, at->inbox, at->outbox, at->bytes, at->peer);
    if (status == FERRY_OK)
        status = ferry_fence(at->ctx);
    if (status == FERRY_OK)
        status = ferry_put(at->ctx, perf_word(at, PERF_FLAG), &number, sizeof number, at->peer);
    return status;
}

static int await_flag(const struct perf_channel *at, uint64_t number)
{
    return ferry_wait_until(at->perf->job, perf_word(at, PERF_FLAG), FERRY_CMP_EQ, number);
}

int perf_put_flag_lat(struct perf_channel *channel, uint64_t n)
{
    return exchange(channel, n, send_flagged, await_flag);
}

static int send_with_signal(const struct perf_channel *at, uint64_t number)
{
    return ferry_put_signal(at->ctx, at->inbox, at->outbox, at->bytes, perf_word(at, PERF_SIGNAL), number,
                            FERRY_SIGNAL_SET, at->peer);
}

static int send_signal(const struct perf_channel *at, uint64_t number)
{
    return ferry_signal(at->ctx, perf_word(at, PERF_SIGNAL), number, FERRY_SIGNAL_SET, at->peer);
}

static int await_signal(const struct perf_channel *at, uint64_t number)
{
    return ferry_wait_until(at->perf->job, perf_word(at, PERF_SIGNAL), FERRY_CMP_EQ, number);
}

int perf_put_signal_lat(struct perf_channel *channel, uint64_t n)
{
    return exchange(channel, n, send_with_signal, await_signal);
}

int perf_signal_lat(struct perf_channel *channel, uint64_t n)
{
    return exchange(channel, n, send_signal, await_signal);
}

int perf_put_quiet_lat(struct perf_channel *channel, uint64_t n)
{
    const struct perf_channel at = *channel;
    int status = FERRY_OK;
    for (uint64_t i = 0; i < n && status == FERRY_OK; i++) {
        status = ferry_put_nbi(at.ctx, at.inbox, at.outbox, at.bytes, at.peer);
        if (status == FERRY_OK)
            status = ferry_quiet(at.ctx);
    }
    return status;
}

int perf_get_lat(struct perf_channel *channel, uint64_t n)
{
    const struct perf_channel at = *channel;
    int status = FERRY_OK;
    for (uint64_t i = 0; i < n && status == FERRY_OK; i++)
        status = ferry_get(at.ctx, at.outbox, at.inbox, at.bytes, at.peer);
    return status;
}

int perf_fetch_add_lat(struct perf_channel *channel, uint64_t n)
{
    const struct perf_channel at = *channel;
    uint64_t *word = perf_word(&at, PERF_COUNTER), old;
    int status = FERRY_OK;
    for (uint64_t i = 0; i < n && status == FERRY_OK; i++)
        status = ferry_atomic_fetch_add(at.ctx, word, 1, &old, at.peer);
    return status;
}

/* Always succeeds: each replaces what the one before stored. */
int perf_cswap_lat(struct perf_channel *channel, uint64_t n)
{
    const struct perf_channel at = *channel;
    const uint64_t end = at.sequence + n;
    uint64_t *word = perf_word(&at, PERF_COUNTER), old;
    int status = FERRY_OK;
    for (uint64_t now = at.sequence; now < end && status == FERRY_OK; now++)
        status = ferry_atomic_compare_swap(at.ctx, word, now, now + 1, &old, at.peer);
    channel->sequence = end;
    return status;
}

int perf_quiet_idle(struct perf_channel *channel, uint64_t n)
{
    ferry_ctx_t *const ctx = channel->ctx;
    int status = FERRY_OK;
    for (uint64_t i = 0; i < n && status == FERRY_OK; i++)
        status = ferry_quiet(ctx);
    return status;
}

int perf_barrier_lat(struct perf_channel *channel, uint64_t n)
{
    ferry_job_t *const job = channel->perf->job;
    int status = FERRY_OK;
    for (uint64_t i = 0; i < n && status == FERRY_OK; i++)
        status = ferry_barrier(job);
    return status;
}
