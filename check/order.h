/* SPDX-License-Identifier: Apache-2.0
 * What the group "order" is made of: a message and the flag behind it, and the matrix of pairs of operations over a
 * fence. Any PE. */
#ifndef CHECK_ORDER_H
#define CHECK_ORDER_H

#include "rules.h"

/* The matrix: operations of one family, a fence, and one of each family. */
void order_after_put(struct pe *pe);
void order_after_atomic(struct pe *pe);
void order_after_put_signal(struct pe *pe);
void order_after_signal(struct pe *pe);

/* Usual lengths of messages, and those around what the transport reports as limits. */
#define ORDER_LENGTHS 24
#define ORDER_LONGEST 100001u
size_t order_lengths(struct pe *pe, size_t lengths[ORDER_LENGTHS]);

/* Whether a put may serve as a flag that is watched. The thread sanitizer knows no word that arrives byte by byte. */
#ifdef __SANITIZE_THREAD__
#define ORDER_WATCHES_PUTS 0
#else
#define ORDER_WATCHES_PUTS 1
#endif

/* A value of which each byte differs from that of the round before. */
static inline uint64_t order_value(uint64_t round)
{
    return 0x0101010101010101u * (round % 255 + 1);
}

#endif
