/* SPDX-License-Identifier: Apache-2.0
 * ferry-perf: batches of operations that are posted in windows, each completed by a quiet. Called by the channel's
 * thread. Loops work on a copy of the channel, which the compiler knows that no call changes. */
#include "perf.h"

/* `place`: offset of the operation in both boxes; 0 where memory is the same each time. */
typedef int post_fn(const struct perf_channel *at, size_t place);

static inline __attribute__((always_inline)) int in_windows(struct perf_channel *channel, uint64_t n, post_fn *post)
{
    const struct perf_channel at = *channel;
    int status = FERRY_OK;
    for (uint64_t left = n; left > 0 && status == FERRY_OK;) {
        const uint64_t these = left < at.window ? left : at.window;
        for (uint64_t i = 0; i < these && status == FERRY_OK; i++)
            status = post(&at, 0);
        if (status == FERRY_OK)
            status = ferry_quiet(at.ctx);
        left -= these;
    }
    return status;
}

/* The same, from one place of the boxes to the next, and from the last to the first. */
static inline __attribute__((always_inline)) int in_walking_windows(struct perf_channel *channel, uint64_t n,
                                                                    post_fn *post)
{
    const struct perf_channel at = *channel;
    size_t place = at.place;
    int status = FERRY_OK;
    for (uint64_t left = n; left > 0 && status == FERRY_OK;) {
        const uint64_t these = left < at.window ? left : at.window;
        for (uint64_t i = 0; i < these && status == FERRY_OK; i++) {
            status = post(&at, place);
            place = place + at.stride + at.bytes <= at.span ? place + at.stride : 0;
        }
        if (status == FERRY_OK)
            status = ferry_quiet(at.ctx);
        left -= these;
    }
    channel->place = place;
    return status;
}

static int put(const struct perf_channel *at, size_t place)
{
    return ferry_put_nbi(at->ctx, at->inbox + place, at->outbox + place, at->bytes, at->peer);
}

static int get(const struct perf_channel *at, size_t place)
{
    return ferry_get_nbi(at->ctx, at->outbox + place, at->inbox + place, at->bytes, at->peer);
}

static int add(const struct perf_channel *at, size_t place)
{
    (void)place;
    return ferry_atomic_add(at->ctx, perf_word(at, PERF_COUNTER), 1, at->peer);
}

static int put_and_signal(const struct perf_channel *at, size_t place)
{
    return ferry_put_signal_nbi(at->ctx, at->inbox + place, at->outbox + place, at->bytes, perf_word(at, PERF_SIGNAL),
                                1, FERRY_SIGNAL_ADD, at->peer);
}

int perf_put_signal_rate(struct perf_channel *channel, uint64_t n)
{
    return in_windows(channel, n, put_and_signal);
}

int perf_put_rate(struct perf_channel *channel, uint64_t n)
{
    return in_windows(channel, n, put);
}

/* Each window is one batch, which a transport may pass on behind fewer doorbells. */
int perf_iput_rate(struct perf_channel *channel, uint64_t n)
{
    const struct perf_channel at = *channel;
    int status = FERRY_OK;
    for (uint64_t left = n; left > 0 && status == FERRY_OK;) {
        const uint64_t these = left < at.window ? left : at.window;
        status = ferry_iput(at.ctx, at.inbox, at.outbox, 0, 0, at.bytes, these, at.peer);
        if (status == FERRY_OK)
            status = ferry_quiet(at.ctx);
        left -= these;
    }
    return status;
}

static int put_value(const struct perf_channel *at, size_t place)
{
    (void)place;
    return ferry_p(at->ctx, perf_word(at, PERF_FLAG), 1, at->peer);
}

int perf_p_rate(struct perf_channel *channel, uint64_t n)
{
    return in_windows(channel, n, put_value);
}

int perf_add_rate(struct perf_channel *channel, uint64_t n)
{
    return in_windows(channel, n, add);
}

int perf_put_bw(struct perf_channel *channel, uint64_t n)
{
    return in_walking_windows(channel, n, put);
}

int perf_get_bw(struct perf_channel *channel, uint64_t n)
{
    return in_walking_windows(channel, n, get);
}
