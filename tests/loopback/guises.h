/* SPDX-License-Identifier: Apache-2.0
 * Two instances of loopback that wear a guise, and operations from the first on the second's memory.
 * Main thread of a test. */
#ifndef FY_TESTS_LOOPBACK_GUISES_H
#define FY_TESTS_LOOPBACK_GUISES_H

#include "harness.h"

#define ALL_PLAIN    0x1fu     /* set, add, and, or, xor */
#define ALL_FETCHING 0xff0000u /* every kind */
#define ARRAY(a)     (sizeof(a) / sizeof((a)[0]))

struct duo {
    struct pe a, b;
    struct ferry_rkey *key; /* of b's memory, in a */
};

void duo_open(struct duo *d, const char *guise);
void duo_close(struct duo *d);
struct ferry_caps duo_caps(struct duo *d);
struct ferry_op put_op(const struct duo *d, const void *from, uint64_t offset, size_t length, uint32_t flags);
struct ferry_op get_op(const struct duo *d, void *to, uint64_t offset, size_t length);
struct ferry_op add_op(const struct duo *d, uint64_t offset, uint64_t operand, uint64_t *old); /* old NULL: plain */
struct ferry_op signal_op(const struct duo *d, const void *from, size_t length, uint64_t signal_offset, uint64_t value);
/* From a, by the member of the table that its kind belongs to. */
int post(struct duo *d, uint32_t channel, const struct ferry_op *op);
int try_quiet(struct duo *d, uint32_t channel, uint32_t peer, uint64_t *ticket);
/* Refused with that status, and a record that contains the words. */
void refused(struct duo *d, const struct ferry_op *op, int status, const char *words);
/* The service of b runs once. */
int serve(struct duo *d);

#endif
