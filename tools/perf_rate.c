/* SPDX-License-Identifier: Apache-2.0
 * ferry-perf: batches of operations that are posted in windows, each completed by a quiet, spread over the channels.
 * Called by the measuring thread of PE 0. */
#include "perf.h"

static int quiet_all(struct perf *perf)
{
    for (int i = 0; i < perf->options.channels; i++) {
        int status = ferry_quiet(perf->ctx[i]);
        if (status != FERRY_OK)
            return status;
    }
    return FERRY_OK;
}

/* Windows are per channel, so that more channels have more in flight. */
static inline __attribute__((always_inline)) int in_windows(struct perf *perf, uint64_t n,
                                                            int (*post)(struct perf *, ferry_ctx_t *))
{
    const int channels = perf->options.channels;
    const uint64_t window = (uint64_t)PERF_WINDOW * (uint64_t)channels;
    int channel = 0;
    for (uint64_t posted = 0; posted < n; posted += window) {
        uint64_t these = n - posted < window ? n - posted : window;
        for (uint64_t i = 0; i < these; i++) {
            int status = post(perf, perf->ctx[channel]);
            if (status != FERRY_OK)
                return status;
            channel = channel + 1 < channels ? channel + 1 : 0;
        }
        int status = quiet_all(perf);
        if (status != FERRY_OK)
            return status;
    }
    return FERRY_OK;
}

static int put(struct perf *perf, ferry_ctx_t *ctx)
{
    return ferry_put_nbi(ctx, perf->inbox, perf->outbox, perf->bytes, perf->peer);
}

static int get(struct perf *perf, ferry_ctx_t *ctx)
{
    return ferry_get_nbi(ctx, perf->outbox, perf->inbox, perf->bytes, perf->peer);
}

static int add(struct perf *perf, ferry_ctx_t *ctx)
{
    return ferry_atomic_add(ctx, perf_word(perf, PERF_COUNTER), 1, perf->peer);
}

int perf_put_window(struct perf *perf, uint64_t n)
{
    return in_windows(perf, n, put);
}

int perf_get_window(struct perf *perf, uint64_t n)
{
    return in_windows(perf, n, get);
}

int perf_add_window(struct perf *perf, uint64_t n)
{
    return in_windows(perf, n, add);
}
