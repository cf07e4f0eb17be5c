/* SPDX-License-Identifier: Apache-2.0
 * ferry-perf: batches whose operations are waited for one by one. Called by the measuring thread of each PE. */
#include "perf.h"

#include <sched.h>

#define SPINS_PER_LOOK 4096u

/* While a byte does not come: lets the library move things along, and notices a peer that is gone. */
static int look_around(struct perf *perf)
{
    int status = ferry_quiet(perf->ctx[0]);
    if (status != FERRY_OK)
        return status;
    sched_yield();
    return ferry_pe_alive(perf->job, perf->peer) == 1 ? FERRY_OK : FERRY_ERR_PEER;
}

static int await_byte(struct perf *perf, const uint8_t *byte, uint8_t expected)
{
    for (unsigned spins = 1; __atomic_load_n(byte, __ATOMIC_ACQUIRE) != expected; spins++) {
        if (spins % SPINS_PER_LOOK != 0)
            continue;
        int status = look_around(perf);
        if (status != FERRY_OK)
            return status;
    }
    return FERRY_OK;
}

static int await_word(struct perf *perf, enum perf_word which)
{
    return ferry_wait_until(perf->job, perf_word(perf, which), FERRY_CMP_EQ, perf->sequence);
}

/* One way of each exchange: `send` posts with the present sequence, `await` returns when the peer's has come. */
static inline __attribute__((always_inline)) int exchange(struct perf *perf, uint64_t n, int (*send)(struct perf *),
                                                          int (*await)(struct perf *))
{
    for (uint64_t i = 0; i < n; i++) {
        perf->sequence++;
        int status = perf->me == 0 ? send(perf) : await(perf);
        if (status == FERRY_OK)
            status = perf->me == 0 ? await(perf) : send(perf);
        if (status != FERRY_OK)
            return status;
    }
    return FERRY_OK;
}

/* The payload's last byte tells that it has come: never 0, and not the one before. */
static uint8_t mark(const struct perf *perf)
{
    return (uint8_t)(1 + perf->sequence % 255);
}

static int send_payload(struct perf *perf)
{
    perf->outbox[perf->bytes - 1] = mark(perf);
    return ferry_put(perf->ctx[0], perf->inbox, perf->outbox, perf->bytes, perf->peer);
}

static int await_payload(struct perf *perf)
{
    return await_byte(perf, &perf->inbox[perf->bytes - 1], mark(perf));
}

int perf_put_lat(struct perf *perf, uint64_t n)
{
    return exchange(perf, n, send_payload, await_payload);
}

static int send_flagged(struct perf *perf)
{
    int status = ferry_put_nbi(perf->ctx[0], perf->inbox, perf->outbox, perf->bytes, perf->peer);
    if (status == FERRY_OK)
        status = ferry_fence(perf->ctx[0]);
    if (status == FERRY_OK)
        status =
            ferry_put(perf->ctx[0], perf_word(perf, PERF_FLAG), &perf->sequence, sizeof perf->sequence, perf->peer);
    return status;
}

static int await_flag(struct perf *perf)
{
    return await_word(perf, PERF_FLAG);
}

int perf_put_flag_lat(struct perf *perf, uint64_t n)
{
    return exchange(perf, n, send_flagged, await_flag);
}

static int send_with_signal(struct perf *perf)
{
    return ferry_put_signal(perf->ctx[0], perf->inbox, perf->outbox, perf->bytes, perf_word(perf, PERF_SIGNAL),
                            perf->sequence, FERRY_SIGNAL_SET, perf->peer);
}

static int send_signal(struct perf *perf)
{
    return ferry_signal(perf->ctx[0], perf_word(perf, PERF_SIGNAL), perf->sequence, FERRY_SIGNAL_SET, perf->peer);
}

static int await_signal(struct perf *perf)
{
    return await_word(perf, PERF_SIGNAL);
}

int perf_put_signal_lat(struct perf *perf, uint64_t n)
{
    return exchange(perf, n, send_with_signal, await_signal);
}

int perf_signal_lat(struct perf *perf, uint64_t n)
{
    return exchange(perf, n, send_signal, await_signal);
}

/* n times the same, by one PE. */
static inline __attribute__((always_inline)) int repeat(struct perf *perf, uint64_t n, int (*once)(struct perf *))
{
    for (uint64_t i = 0; i < n; i++) {
        int status = once(perf);
        if (status != FERRY_OK)
            return status;
    }
    return FERRY_OK;
}

static int put_quiet(struct perf *perf)
{
    int status = ferry_put_nbi(perf->ctx[0], perf->inbox, perf->outbox, perf->bytes, perf->peer);
    return status == FERRY_OK ? ferry_quiet(perf->ctx[0]) : status;
}

static int get(struct perf *perf)
{
    return ferry_get(perf->ctx[0], perf->outbox, perf->inbox, perf->bytes, perf->peer);
}

static int fetch_add(struct perf *perf)
{
    uint64_t old;
    return ferry_atomic_fetch_add(perf->ctx[0], perf_word(perf, PERF_COUNTER), 1, &old, perf->peer);
}

/* Always succeeds: each replaces what the one before stored. */
static int compare_swap(struct perf *perf)
{
    uint64_t old, next = perf->sequence + 1;
    int status =
        ferry_atomic_compare_swap(perf->ctx[0], perf_word(perf, PERF_COUNTER), perf->sequence, next, &old, perf->peer);
    perf->sequence = next;
    return status;
}

static int quiet(struct perf *perf)
{
    return ferry_quiet(perf->ctx[0]);
}

static int barrier(struct perf *perf)
{
    return ferry_barrier(perf->job);
}

int perf_put_quiet_lat(struct perf *perf, uint64_t n)
{
    return repeat(perf, n, put_quiet);
}

int perf_get_lat(struct perf *perf, uint64_t n)
{
    return repeat(perf, n, get);
}

int perf_fetch_add_lat(struct perf *perf, uint64_t n)
{
    return repeat(perf, n, fetch_add);
}

int perf_cswap_lat(struct perf *perf, uint64_t n)
{
    return repeat(perf, n, compare_swap);
}

int perf_quiet_idle(struct perf *perf, uint64_t n)
{
    return repeat(perf, n, quiet);
}

int perf_barrier_lat(struct perf *perf, uint64_t n)
{
    return repeat(perf, n, barrier);
}
