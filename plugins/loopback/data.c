/* SPDX-License-Identifier: Apache-2.0
 * The data path: puts, gets, atomics, signals, quiet. Channel threads; no lock, no allocation, no system call.
 * Everything is complete when its function returns, but for the store buffer, which quiet empties; so the order of
 * a (channel, peer) is the program order of the thread. Which rule makes that visible order: copy.h. */
#include "guise.h"

#include "copy.h"

#define FY_LB_COLD __attribute__((noinline))

static inline int is_fenced(const struct ferry_op *op)
{
    return !FY_LB_TSO && (op->flags & FERRY_OP_FENCED);
}

/* Any size but the word that fy_lb_rma handles itself. Aligned 1, 2, 4 and 8 bytes are never seen in part. */
static void put_bytes(const struct ferry_transport *t, char *to, const char *from, size_t n)
{
    if (n > FY_LB_SMALL) {
        if (n >= t->nt_threshold)
            fy_lb_stream(to, from, n);
        else
            memmove(to, from, n); /* TSO, or LIBC: in order with what follows */
    } else if (n == 8 && fy_lb_aligned(to, 8)) {
        fy_lb_store8(to, from);
    } else if (n == 4 && fy_lb_aligned(to, 4)) {
        fy_lb_store4(to, from);
    } else if (n == 2 && fy_lb_aligned(to, 2)) {
        fy_lb_store2(to, from);
    } else if (n == 1) {
        fy_lb_store1(to, from);
    } else if (n) {
        fy_lb_move(to, from, n);
    }
}

/* Each seen whole. */
static void put_words(char *to, const char *from, size_t n)
{
    for (size_t at = 0; at < n; at += 8)
        fy_lb_store8(to + at, from + at);
}

static void get_bytes(char *to, const char *from, size_t n)
{
    if (n == 8 && fy_lb_aligned(from, 8)) {
        fy_lb_load8(to, from);
    } else if (n > FY_LB_SMALL) {
        memmove(to, from, n);
    } else if (n == 4 && fy_lb_aligned(from, 4)) {
        fy_lb_load4(to, from);
    } else if (n == 2 && fy_lb_aligned(from, 2)) {
        fy_lb_load2(to, from);
    } else if (n == 1) {
        fy_lb_load1(to, from);
    } else if (n) {
        fy_lb_move(to, from, n);
    }
}

FY_LB_COLD int fy_lb_put_any(const struct ferry_transport *t, const struct ferry_op *op)
{
    if (is_fenced(op))
        fy_lb_fenced();
    if (op->flags & FERRY_OP_WORD)
        put_words(op->key->base + op->offset, op->local, op->length);
    else
        put_bytes(t, op->key->base + op->offset, op->local, op->length);
    return FERRY_DONE;
}

FY_LB_COLD int fy_lb_get_any(const struct ferry_op *op)
{
    get_bytes(op->local, op->key->base + op->offset, op->length);
    fy_lb_got();
    return FERRY_DONE;
}

int fy_lb_rma(struct ferry_transport *t, uint32_t channel, const struct ferry_op *op)
{
    char *there = op->key->base + op->offset;

    if (!FY_LB_LIKELY(!t->guise))
        return fy_lb_guise_rma(t, channel, op);
    if (op->kind != FERRY_OP_PUT)
        return fy_lb_get_any(op);
    if (!FY_LB_LIKELY(op->length == 8 && fy_lb_aligned(there, 8)))
        return fy_lb_put_any(t, op);
    fy_lb_store8(there, op->local); /* a release: also what FERRY_OP_WORD and FERRY_OP_FENCED ask for */
    return FERRY_DONE;
}

/* The atomics: one locked instruction each (TSO), or release and acquire (C11), so that an atomic covers the puts
 * before it and a fetched value what was put before the value. Plain SET is a release store, FETCH an acquire load:
 * that they are atomic towards the others is enough. Not fetching and/or/xor is one instruction, fetching a loop.
 * The kind is masked: an unknown one, which the core never passes, must not leave the table. */
static inline uint64_t amo8(uint64_t *word, const struct ferry_op *op, unsigned fetch)
{
    uint64_t v = op->operand, old = op->compare;

    switch (op->amo & (FERRY_AMO_KINDS - 1)) {
    case FERRY_AMO_SET:
        if (fetch)
            return __atomic_exchange_n(word, v, __ATOMIC_ACQ_REL);
        __atomic_store_n(word, v, __ATOMIC_RELEASE);
        return 0;
    case FERRY_AMO_ADD:
        return __atomic_fetch_add(word, v, __ATOMIC_ACQ_REL);
    case FERRY_AMO_AND:
        if (fetch)
            return __atomic_fetch_and(word, v, __ATOMIC_ACQ_REL);
        __atomic_fetch_and(word, v, __ATOMIC_ACQ_REL);
        return 0;
    case FERRY_AMO_OR:
        if (fetch)
            return __atomic_fetch_or(word, v, __ATOMIC_ACQ_REL);
        __atomic_fetch_or(word, v, __ATOMIC_ACQ_REL);
        return 0;
    case FERRY_AMO_XOR:
        if (fetch)
            return __atomic_fetch_xor(word, v, __ATOMIC_ACQ_REL);
        __atomic_fetch_xor(word, v, __ATOMIC_ACQ_REL);
        return 0;
    case FERRY_AMO_SWAP:
        return __atomic_exchange_n(word, v, __ATOMIC_ACQ_REL);
    case FERRY_AMO_CSWAP:
        __atomic_compare_exchange_n(word, &old, v, 0, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE);
        return old;
    default:
        return __atomic_load_n(word, __ATOMIC_ACQUIRE);
    }
}

static inline uint32_t amo4(uint32_t *word, const struct ferry_op *op, unsigned fetch)
{
    uint32_t v = (uint32_t)op->operand, old = (uint32_t)op->compare;

    switch (op->amo & (FERRY_AMO_KINDS - 1)) {
    case FERRY_AMO_SET:
        if (fetch)
            return __atomic_exchange_n(word, v, __ATOMIC_ACQ_REL);
        __atomic_store_n(word, v, __ATOMIC_RELEASE);
        return 0;
    case FERRY_AMO_ADD:
        return __atomic_fetch_add(word, v, __ATOMIC_ACQ_REL);
    case FERRY_AMO_AND:
        return __atomic_fetch_and(word, v, __ATOMIC_ACQ_REL);
    case FERRY_AMO_OR:
        return __atomic_fetch_or(word, v, __ATOMIC_ACQ_REL);
    case FERRY_AMO_XOR:
        return __atomic_fetch_xor(word, v, __ATOMIC_ACQ_REL);
    case FERRY_AMO_SWAP:
        return __atomic_exchange_n(word, v, __ATOMIC_ACQ_REL);
    case FERRY_AMO_CSWAP:
        __atomic_compare_exchange_n(word, &old, v, 0, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE);
        return old;
    default:
        return __atomic_load_n(word, __ATOMIC_ACQUIRE);
    }
}

FY_LB_COLD int fy_lb_amo_any(const struct ferry_op *op)
{
    unsigned fetch = op->flags & FERRY_OP_FETCH;
    void *word = op->key->base + op->offset;
    uint64_t old8;
    uint32_t old4;

    if (op->width == 8) {
        old8 = amo8(word, op, fetch);
        if (fetch)
            memcpy(op->local, &old8, sizeof old8);
    } else {
        old4 = amo4(word, op, fetch);
        if (fetch)
            memcpy(op->local, &old4, sizeof old4);
    }
    return FERRY_DONE;
}

/* Counters are what atomics are mostly used for: 8-byte ADD does not go through the switch. */
int fy_lb_amo(struct ferry_transport *t, uint32_t channel, const struct ferry_op *op)
{
    uint64_t old;

    if (!FY_LB_LIKELY(!t->guise))
        return fy_lb_guise_amo(t, channel, op);
    if (!FY_LB_LIKELY(op->amo == FERRY_AMO_ADD && op->width == 8))
        return fy_lb_amo_any(op);
    old = __atomic_fetch_add((uint64_t *)(void *)(op->key->base + op->offset), op->operand, __ATOMIC_ACQ_REL);
    if (op->flags & FERRY_OP_FETCH)
        memcpy(op->local, &old, sizeof old);
    return FERRY_DONE;
}

static inline int signal_any(const struct ferry_op *op)
{
    uint64_t *signal = (uint64_t *)(void *)(op->signal_key->base + op->signal_offset);

    if (op->amo == FERRY_AMO_SET)
        __atomic_store_n(signal, op->operand, __ATOMIC_RELEASE);
    else
        __atomic_fetch_add(signal, op->operand, __ATOMIC_RELEASE);
    return FERRY_DONE;
}

FY_LB_COLD int fy_lb_signal_any(const struct ferry_op *op)
{
    return signal_any(op);
}

/* Data, then the signal as a release: it covers the data and every earlier put of this thread (C11; on x86-64 TSO
 * and, for streamed data, the sfence). Hence FERRY_CAP_SIGNAL_STRONG. */
int fy_lb_put_signal(struct ferry_transport *t, uint32_t channel, const struct ferry_op *op)
{
    if (!FY_LB_LIKELY(!t->guise))
        return fy_lb_guise_put_signal(t, channel, op);
    if (op->length)
        fy_lb_put_any(t, op);
    return signal_any(op);
}

int fy_lb_quiet(struct ferry_transport *t, uint32_t channel, uint32_t peer, uint64_t *ticket)
{
    fy_lb_drain();
    if (!FY_LB_LIKELY(!t->guise))
        return fy_lb_guise_quiet(t, channel, peer, ticket);
    *ticket = 1;
    return FERRY_OK;
}

int fy_lb_progress(struct ferry_transport *t, uint32_t channel)
{
    if (!FY_LB_LIKELY(!t->guise))
        return fy_lb_guise_progress(t, channel);
    return FERRY_AGAIN; /* nothing is ever outstanding */
}
