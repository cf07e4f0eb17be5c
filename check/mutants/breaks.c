/* SPDX-License-Identifier: Apache-2.0
 * What is broken of a single operation, a few lines for each. Channel threads, under the core's lock. */
#include "mutant.h"

#include <pthread.h>
#include <sched.h>
#include <string.h>
#include <unistd.h>

#define CALLED_PES 64

/* Shared by the PEs of this process, and by channels: just what a plugin must not have. */
static uint64_t called[CALLED_PES];
static uint8_t shared[MUTANT_COPY];

/* The library's own threads do not count. */
void mutant_called(struct ferry_transport *t)
{
    if (t->my_pe < CALLED_PES && pthread_equal(t->owner, pthread_self()))
        __atomic_fetch_add(&called[t->my_pe], 1, __ATOMIC_RELAXED);
}

/* Looks whether the target calls at all, for a moment. */
bool mutant_may(struct ferry_transport *t, uint32_t peer)
{
    static __thread uint64_t seen[CALLED_PES];
    uint64_t now;

    if (t->broken != TARGET_PROGRESS_HIDDEN || peer == t->my_pe || peer >= CALLED_PES)
        return true;
    now = __atomic_load_n(&called[peer], __ATOMIC_RELAXED);
    if (seen[peer] == now)
        return false;
    seen[peer] = now;
    return true;
}

static bool signal_like(const struct ferry_op *op)
{
    return op->kind == FERRY_OP_PUT_SIGNAL || (op->kind == FERRY_OP_AMO && op->amo == FERRY_AMO_ADD);
}

static void signal_now(struct ferry_transport *t, uint32_t channel, struct ferry_op *op)
{
    struct ferry_op alone = *op;

    alone.length = 0;
    t->base.ops->put_signal(t->base.inner, channel, &alone);
    usleep(1000);
    op->kind = FERRY_OP_PUT;
}

/* Sleeps, or computes for a while. */
static void take_time(struct ferry_transport *t, const struct ferry_op *op)
{
    volatile unsigned turns = 0;

    if (t->broken == BLOCKS)
        usleep(20);
    while (t->broken == SLOW_PATH && op->length > MUTANT_INLINE && turns < 200000)
        turns++;
}

bool mutant_taken(struct ferry_transport *t, struct stream *s, uint32_t channel, struct held *held)
{
    struct ferry_op *op = &held->op;

    take_time(t, op);
    switch (t->broken) {
    case SIGNAL_BEFORE_DATA:
        if (op->kind == FERRY_OP_PUT_SIGNAL && op->length)
            signal_now(t, channel, op);
        return true;
    case SIGNAL_LOST:
        return !signal_like(op) || ++s->signals % 50 != 0;
    case SELF_DROPPED:
        return op->peer != t->my_pe || op->kind != FERRY_OP_PUT;
    case AGAIN_LOSES:
        return s->posted % 61 != 0;
    case DEPTH_EXCEEDED:
        return s->n < MUTANT_QUEUE / 2;
    case CHANNELS_RACE:
        if (op->kind == FERRY_OP_PUT && op->length <= sizeof(shared)) {
            memcpy(shared, op->local, op->length);
            sched_yield();
            memcpy(held->copy, shared, op->length);
            op->local = held->copy;
        }
        return true;
    default:
        return true;
    }
}

/* As by a get, a change, and a put. */
static void by_halves(struct ferry_transport *t, uint32_t channel, struct ferry_op *op)
{
    const struct ferry_host_ops *ops = t->base.ops;
    struct ferry_op part = *op;
    uint64_t old = 0, value = op->operand;

    part.kind = FERRY_OP_GET;
    part.flags = 0;
    part.region = NULL;
    part.local = &old;
    ops->rma(t->base.inner, channel, &part);
    if (op->amo == FERRY_AMO_ADD)
        value += old;
    sched_yield();
    if (op->flags & FERRY_OP_FETCH)
        memcpy(op->local, &old, op->width);
    part.kind = FERRY_OP_PUT;
    part.local = &value;
    ops->rma(t->base.inner, channel, &part);
}

static bool fetched_by(struct ferry_transport *t, struct held *held)
{
    struct ferry_op *op = &held->op;
    uint64_t value = 0;

    if (!(op->flags & FERRY_OP_FETCH))
        return false;
    memcpy(&value, op->local, op->width);
    if (t->broken == FETCHED_BYTES_SWAPPED)
        value = op->width == 8 ? __builtin_bswap64(value) : __builtin_bswap32((uint32_t)value);
    else if (t->broken == CSWAP_GUESSES && op->amo == FERRY_AMO_CSWAP)
        value = op->compare;
    memcpy(op->local, &value, op->width);
    return true;
}

/* A word as two halves, with a pause. */
static bool torn(struct ferry_transport *t, uint32_t channel, const struct ferry_op *op)
{
    struct ferry_op half = *op;
    uint64_t value = op->operand;

    if (t->broken != SIGNAL_TORN || op->amo != FERRY_AMO_SET || op->width != 8 || op->flags & FERRY_OP_FETCH)
        return false;
    half.kind = FERRY_OP_PUT;
    half.flags = 0;
    half.region = NULL;
    half.length = 4;
    half.local = &value;
    t->base.ops->rma(t->base.inner, channel, &half);
    sched_yield();
    half.local = (char *)&value + 4;
    half.offset += 4;
    t->base.ops->rma(t->base.inner, channel, &half);
    return true;
}

static void write_behind(struct ferry_transport *t, uint32_t channel, const struct ferry_op *op)
{
    struct ferry_op more = *op;
    uint32_t zero = 0;

    more.kind = FERRY_OP_PUT;
    more.flags = 0;
    more.region = NULL;
    more.local = &zero;
    more.offset += 4;
    t->base.ops->rma(t->base.inner, channel, &more);
}

static void perform_amo(struct ferry_transport *t, uint32_t channel, struct held *held)
{
    struct ferry_op *op = &held->op;

    if ((t->broken == ADD_NOT_ATOMIC && op->amo == FERRY_AMO_ADD) ||
        (t->broken == SWAP_NOT_ATOMIC && op->amo == FERRY_AMO_SWAP)) {
        by_halves(t, channel, op);
        return;
    }
    if (t->broken == XOR_IS_OR && op->amo == FERRY_AMO_XOR)
        op->amo = FERRY_AMO_OR;
    if (t->broken == SIGNAL_NARROW && op->width == 8 && op->amo == FERRY_AMO_ADD)
        op->operand = (uint32_t)op->operand;
    if (torn(t, channel, op))
        return;
    t->base.ops->amo(t->base.inner, channel, op);
    fetched_by(t, held);
    if (t->broken == ATOMIC_TOO_WIDE && op->width == 4 && op->offset % 8 == 4)
        write_behind(t, channel, op);
}

static void change_length(struct ferry_transport *t, struct ferry_op *op)
{
    const bool put = op->kind == FERRY_OP_PUT;

    if (t->broken == LENGTH_16_BITS)
        op->length = (uint16_t)op->length;
    else if (t->broken == LENGTH_32_BITS)
        op->length = (uint32_t)op->length;
    else if (t->broken == FRAGMENT_TOO_SHORT && put && op->length == MUTANT_MESSAGE)
        op->length--;
    else if (t->broken == ONE_BYTE_MORE && put && op->length % 8 == 5)
        op->length++;
    else if (t->broken == GET_TOO_SHORT && !put && op->length > 2000)
        op->length--;
    else if (t->broken == MISALIGNED && put && op->offset % 2 && op->length < 64)
        op->offset--;
}

void mutant_perform(struct ferry_transport *t, uint32_t channel, struct held *held)
{
    struct ferry_op *op = &held->op;

    __atomic_fetch_add(&t->completions, 1, __ATOMIC_RELAXED);
    if (op->kind == FERRY_OP_AMO) {
        perform_amo(t, channel, held);
        return;
    }
    if (op->kind == FERRY_OP_PUT_SIGNAL) {
        if (t->broken == SIGNAL_NARROW)
            op->operand = (uint32_t)op->operand;
        t->base.ops->put_signal(t->base.inner, channel, op);
        return;
    }
    if (t->broken == SOURCE_WRITTEN && op->kind == FERRY_OP_PUT && op->length && op->local != held->copy)
        *(volatile uint8_t *)op->local = *(volatile uint8_t *)op->local;
    change_length(t, op);
    t->base.ops->rma(t->base.inner, channel, op);
}
