/* SPDX-License-Identifier: Apache-2.0
 * Runs one phase: every (channel, lane) sends a stream of slots and receives one. Sending never waits for a peer while
 * something could be received, so credits cannot deadlock. The main thread drives all channels, or a thread each. */
#include "moe.h"
#include <inttypes.h>
#include <pthread.h>
#include <stdlib.h>
#include <time.h>

static const uint32_t spins_before_sleep = 64, doublings_of_sleep = 6;
static const long first_sleep_ns = 20000;

uint64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* 1: a chunk was sent, 0: there was nothing to send or no room. */
static int send_step(struct channel *channel, uint32_t lane)
{
    struct moe *moe = channel->moe;
    struct sender *s = &channel->senders[lane];
    uint64_t left = s->total - s->posted;
    if (left == 0)
        return 0;
    uint32_t n = left < moe->args->chunk ? (uint32_t)left : moe->args->chunk;
    int rc = sender_room(channel, s, n);
    if (rc <= 0)
        return rc;
    for (uint32_t i = 0; i < n; i++) {
        uint64_t sequence = s->posted + i;
        char *slot = s->slots + (size_t)(sequence % moe->ring) * moe->exchange->rings.slot_bytes;
        uint32_t token = moe->exchange->fill(channel, lane, sequence, slot + sizeof(struct stamp));
        slot_stamp(channel, slot, token, sequence);
    }
    rc = sender_ship(channel, s, n);
    return rc < 0 ? rc : 1;
}

/* 1: the total of the lane is known now, 0: not yet. */
static int learn_total(struct channel *channel, uint32_t lane)
{
    const struct exchange *x = channel->moe->exchange;
    struct receiver *r = &channel->receivers[lane];
    if (x->announce) {
        int rc = receiver_announced(channel, r);
        if (rc <= 0)
            return rc;
    } else {
        r->total = x->total_in(channel, lane);
    }
    int rc = x->begin ? x->begin(channel, lane, r->total) : FERRY_OK;
    return rc < 0 ? rc : 1;
}

/* 1: something was received. */
static int receive_step(struct channel *channel, uint32_t lane)
{
    struct moe *moe = channel->moe;
    struct receiver *r = &channel->receivers[lane];
    if (r->total == UINT64_MAX) {
        int rc = learn_total(channel, lane);
        if (rc <= 0)
            return rc;
    }
    uint64_t upto = 0;
    int rc = r->taken < r->total ? receiver_ready(channel, r, &upto) : 0;
    if (rc <= 0)
        return rc;
    while (r->taken < upto) {
        const char *slot = r->slots + (size_t)(r->taken % moe->ring) * moe->exchange->rings.slot_bytes;
        rc = slot_check(channel, r, slot);
        if (rc == FERRY_OK)
            rc = moe->exchange->take(channel, lane, r->taken, slot);
        if (rc == FERRY_OK) {
            r->taken++;
            rc = receiver_release(channel, r);
        }
        if (rc < 0)
            return rc;
    }
    return 1;
}

static int complete(const struct channel *channel)
{
    for (uint32_t k = 0; k < channel->moe->lanes; k++) {
        if (channel->senders[k].posted < channel->senders[k].total ||
            channel->receivers[k].taken < channel->receivers[k].total)
            return 0;
    }
    return 1;
}

static int quiet(struct channel *channel)
{
    int rc = ferry_quiet(channel->ctx);
    return rc == FERRY_OK ? rc : fail_call(channel->moe, rc, "channel %" PRIu32 ": quiet", channel->index);
}

/* One turn over all lanes. Each channel begins at another lane, so that not all of them hit one PE at once. */
static int turn(struct channel *channel, int *active)
{
    uint32_t lanes = channel->moe->lanes;
    for (uint32_t i = 0; i < lanes; i++) {
        uint32_t lane = (i + channel->index) % lanes;
        int sent = send_step(channel, lane);
        if (sent < 0)
            return sent;
        int received = receive_step(channel, lane);
        if (received < 0)
            return received;
        *active |= sent | received;
    }
    return FERRY_OK;
}

/* Nothing to do: sleep, longer each time. It costs some latency, and gives the core to a PE that has work, since PEs may
 * outnumber cores. The tests that found nothing would have said if the job were broken. */
static void rest(const struct moe *moe, uint32_t rests)
{
    uint32_t most = doublings_of_sleep;
    for (uint32_t pes = moe->args->pes / 16; pes > 0; pes /= 2) /* hundreds that look every millisecond would fill the cores */
        most++;
    uint32_t doublings = rests < most ? rests : most;
    const struct timespec t = {.tv_nsec = first_sleep_ns << doublings};
    nanosleep(&t, NULL);
}

/* Drives channels [first, first + n) until their streams have ended. */
static int drive(struct moe *moe, uint32_t first, uint32_t n)
{
    uint32_t open = n, idle = 0;
    while (open > 0) {
        int active = 0;
        open = 0;
        for (uint32_t c = first; c < first + n; c++) {
            int rc = complete(&moe->channels[c]) ? FERRY_OK : turn(&moe->channels[c], &active);
            if (rc < 0)
                return rc;
            open += !complete(&moe->channels[c]);
        }
        idle = active ? 0 : idle + 1;
        if (idle > spins_before_sleep)
            rest(moe, idle - spins_before_sleep);
    }
    for (uint32_t c = first; c < first + n; c++) {
        int rc = quiet(&moe->channels[c]);
        if (rc < 0)
            return rc;
    }
    return FERRY_OK;
}

struct worker {
    struct moe *moe;
    uint32_t channel;
    pthread_t thread;
    int rc;
};

static void *worker_main(void *arg)
{
    struct worker *worker = arg;
    worker->rc = drive(worker->moe, worker->channel, 1);
    return NULL;
}

static int drive_threads(struct moe *moe)
{
    struct worker *workers = calloc(moe->args->channels, sizeof *workers);
    if (!workers)
        return fail(moe, FERRY_ERR_NOMEM, "no memory for %" PRIu32 " threads", moe->args->channels);
    int rc = FERRY_OK;
    uint32_t started = 0;
    for (; started < moe->args->channels; started++) {
        struct worker *worker = &workers[started];
        worker->moe = moe;
        worker->channel = started;
        if (pthread_create(&worker->thread, NULL, worker_main, worker) != 0) {
            rc = fail(moe, FERRY_ERR_SYSTEM, "thread %" PRIu32 " of --channels cannot be started", started);
            break;
        }
    }
    for (uint32_t i = 0; i < started; i++) {
        pthread_join(workers[i].thread, NULL);
        rc = rc == FERRY_OK ? workers[i].rc : rc;
    }
    free(workers);
    return rc;
}

static int prepare(struct channel *channel)
{
    struct moe *moe = channel->moe;
    struct exchange *x = moe->exchange;
    channel->tally = (struct tally){0};
    for (uint32_t k = 0; k < moe->lanes; k++) {
        size_t lane = (size_t)channel->index * moe->lanes + k;
        size_t offset = lane * moe->ring * x->rings.slot_bytes;
        channel->senders[k] = (struct sender){.slots = x->rings.out + offset,
                                              .words = &x->rings.words[lane],
                                              .pe = lane_peer(moe, k, x->direction),
                                              .total = x->total_out(channel, k),
                                              .reusable = moe->ring};
        channel->receivers[k] = (struct receiver){.slots = x->rings.in + offset,
                                                  .words = &x->rings.words[lane],
                                                  .pe = lane_peer(moe, k, -x->direction),
                                                  .total = UINT64_MAX};
        int rc = x->announce ? sender_announce(channel, &channel->senders[k]) : FERRY_OK;
        if (rc < 0)
            return rc;
    }
    return FERRY_OK;
}

int exchange_prepare(const struct moe_args *args)
{
    (void)args;
    return 0;
}

int exchange_open(struct moe *moe)
{
    int rc = FERRY_OK;
    for (uint32_t c = 0; c < moe->args->channels && rc == FERRY_OK; c++) {
        rc = ferry_ctx_create(moe->job, 0, &moe->channels[c].ctx);
        if (rc != FERRY_OK)
            fail_call(moe, rc, "--channels '%" PRIu32 "': context %" PRIu32, moe->args->channels, c);
    }
    return rc;
}

/* ferry_finalize releases the contexts. */
void exchange_close(struct moe *moe)
{
    (void)moe;
}

int exchange_run(struct moe *moe, struct exchange *exchange)
{
    moe->exchange = exchange;
    int rc = FERRY_OK;
    for (uint32_t c = 0; c < moe->args->channels; c++) {
        rc = prepare(&moe->channels[c]);
        if (rc == FERRY_OK)
            rc = quiet(&moe->channels[c]);
        if (rc < 0)
            return rc;
    }
    /* The clock starts when all have announced what they will send: that made the connections, too. */
    rc = ferry_barrier(moe->job);
    if (rc != FERRY_OK)
        return fail_call(moe, rc, "%s: barrier before the start", exchange->name);
    uint64_t start = now_ns();
    rc = moe->args->threads ? drive_threads(moe) : drive(moe, 0, moe->args->channels);
    if (rc < 0)
        return rc;
    uint64_t ns = now_ns() - start;
    /* All channels are quiet, so after this nobody touches anybody's rings any more. */
    rc = ferry_barrier(moe->job);
    if (rc != FERRY_OK)
        return fail_call(moe, rc, "%s: barrier at the end", exchange->name);
    struct tally sum = {.ns = ns};
    for (uint32_t c = 0; c < moe->args->channels; c++) {
        sum.bytes += moe->channels[c].tally.bytes;
        sum.remote_bytes += moe->channels[c].tally.remote_bytes;
    }
    *(exchange->direction > 0 ? &moe->dispatch : &moe->combine) = sum;
    return FERRY_OK;
}
