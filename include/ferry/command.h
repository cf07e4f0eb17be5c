/* SPDX-License-Identifier: Apache-2.0
 * Commands of a ring (ferry/ring.h) and the bits that they are written as: the one place that knows them, for the producers, CPU
 * or CUDA threads, and for the library. docs/gpu.md has the table. Pure functions, C11 and CUDA C++; any thread. */
#ifndef FERRY_COMMAND_H
#define FERRY_COMMAND_H

#include <ferry/status.h>
#include <stdint.h>

#if defined(__CUDACC__)
#define FERRY_RING_FN static __host__ __device__ inline
#else
#define FERRY_RING_FN static inline
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* Changes with every change of the bits, of the handle, or of the protocol. A producer that was built for another one refuses
 * the handle (FERRY_ERR_ABI); its first member never moves. */
#define FERRY_RING_LAYOUT 0x46520001u

#define FERRY_RING_WORDS 6u            /* of the longest command: 3 slots of 2 words */
#define FERRY_RING_SLOTS_MIN 256u      /* room for the longest commands of a warp, twice */
#define FERRY_RING_SLOTS_MAX (1u << 20)

/* Limits of a command; beyond them it is reported as bad, and nothing is done. */
#define FERRY_RING_PE_LIMIT (1u << 24)
#define FERRY_RING_ADDRESS_LIMIT ((uint64_t)1 << 57)
#define FERRY_RING_LENGTH_LIMIT ((uint64_t)1 << 48)

enum ferry_command_kind {
    FERRY_COMMAND_NOP = 0,
    FERRY_COMMAND_PUT = 1,
    FERRY_COMMAND_GET = 2,
    FERRY_COMMAND_P64 = 3, /* a put of `value`, 8 bytes */
    FERRY_COMMAND_P32 = 4, /* a put of the low 4 bytes of `value` */
    FERRY_COMMAND_SIGNAL_SET = 5,
    FERRY_COMMAND_SIGNAL_ADD = 6,
    FERRY_COMMAND_SIGNAL_SET_WEAK = 7,
    FERRY_COMMAND_SIGNAL_ADD_WEAK = 8,
    FERRY_COMMAND_PUT_SIGNAL = 9,
    FERRY_COMMAND_AMO = 10,
    FERRY_COMMAND_FENCE = 11,
    FERRY_COMMAND_QUIET = 12,
    FERRY_COMMAND_QUIET_PE = 13,
    FERRY_COMMAND_BAD = 14 /* made by the encoder: `kind` of what could not be encoded in `amo`, the status in `value` */
};

/* Kinds of atomics; the numbers are those of enum ferry_amo. */
enum ferry_command_amo {
    FERRY_COMMAND_AMO_SET = 0,
    FERRY_COMMAND_AMO_ADD = 1,
    FERRY_COMMAND_AMO_AND = 2,
    FERRY_COMMAND_AMO_OR = 3,
    FERRY_COMMAND_AMO_XOR = 4,
    FERRY_COMMAND_AMO_SWAP = 5,
    FERRY_COMMAND_AMO_CSWAP = 6,
    FERRY_COMMAND_AMO_FETCH = 7
};

#define FERRY_COMMAND_ANNOUNCE 1u /* `completed` of the ring passes the command once it, and all before it, are complete */
#define FERRY_COMMAND_FETCH 2u    /* AMO: the old value goes to `local` */
#define FERRY_COMMAND_ADD 4u      /* PUT_SIGNAL: ADD, not SET */
#define FERRY_COMMAND_WEAK 8u     /* PUT_SIGNAL: covers its own data only */

/* A command in full. Addresses are this PE's: symmetric ones name the counterpart on `pe`. Members that a kind does not use are 0. */
struct ferry_command {
    uint8_t kind;  /* enum ferry_command_kind */
    uint8_t amo;   /* AMO: enum ferry_command_amo */
    uint8_t width; /* AMO: 4 or 8 */
    uint8_t flags; /* FERRY_COMMAND_ANNOUNCE, … */
    uint32_t pe;
    uint64_t remote;  /* symmetric */
    uint64_t local;   /* PUT, PUT_SIGNAL: source; GET, AMO that fetches: destination */
    uint64_t length;  /* PUT, GET, PUT_SIGNAL */
    uint64_t signal;  /* PUT_SIGNAL: symmetric word */
    uint64_t value;   /* P64, P32, signals, AMO */
    uint64_t compare; /* AMO: compare and swap */
};

/* ------------------------------------------------------------------ the bits */

/* Widths of the short form. */
#define FERRY_RING_SHORT_PE 20
#define FERRY_RING_SHORT_OFFSET 36
#define FERRY_RING_SHORT_LENGTH 27

#define FERRY_RING_BITS(n) (((uint64_t)1 << (n)) - 1)

FERRY_RING_FN uint64_t ferry_ring_bits(uint64_t word, unsigned from, unsigned width)
{
    return word >> from & FERRY_RING_BITS(width);
}

/* The first word's head: lap (left 0), slots, kind, announce. */
FERRY_RING_FN uint64_t ferry_ring_first(unsigned slots, unsigned kind, unsigned flags)
{
    return (uint64_t)slots << 1 | (uint64_t)kind << 3 | (uint64_t)(flags & FERRY_COMMAND_ANNOUNCE) << 7;
}

FERRY_RING_FN unsigned ferry_ring_encode_bad(const struct ferry_command *c, int status, uint64_t words[FERRY_RING_WORDS])
{
    words[0] = ferry_ring_first(1, FERRY_COMMAND_BAD, c->flags) | (uint64_t)(c->kind & 15) << 8 |
               (uint64_t)(-status & 255) << 12 | (uint64_t)c->pe << 20;
    words[1] = 0;
    return 1;
}

FERRY_RING_FN int ferry_ring_has_data(unsigned kind)
{
    return kind == FERRY_COMMAND_PUT || kind == FERRY_COMMAND_GET || kind == FERRY_COMMAND_PUT_SIGNAL;
}

FERRY_RING_FN int ferry_ring_has_value(unsigned kind)
{
    return kind >= FERRY_COMMAND_P64 && kind <= FERRY_COMMAND_SIGNAL_ADD_WEAK;
}

/* FERRY_OK, or why the command cannot be told. */
FERRY_RING_FN int ferry_ring_check(const struct ferry_command *c)
{
    if (c->kind > FERRY_COMMAND_QUIET_PE)
        return FERRY_ERR_ARG;
    if (c->kind == FERRY_COMMAND_AMO && ((c->width != 4 && c->width != 8) || c->amo > FERRY_COMMAND_AMO_FETCH))
        return FERRY_ERR_ARG;
    if (c->pe >= FERRY_RING_PE_LIMIT || c->length >= FERRY_RING_LENGTH_LIMIT)
        return FERRY_ERR_LIMIT;
    if (c->remote >= FERRY_RING_ADDRESS_LIMIT || c->local >= FERRY_RING_ADDRESS_LIMIT || c->signal >= FERRY_RING_ADDRESS_LIMIT)
        return FERRY_ERR_LIMIT;
    return FERRY_OK;
}

FERRY_RING_FN unsigned ferry_ring_encode_short(const struct ferry_command *c, uint64_t remote, uint64_t local, uint64_t signal,
                                               uint64_t words[FERRY_RING_WORDS])
{
    unsigned slots = c->kind == FERRY_COMMAND_PUT_SIGNAL ? 2 : 1;
    words[0] = ferry_ring_first(slots, c->kind, c->flags) | (uint64_t)c->pe << 8 | remote << 28;
    words[1] = ferry_ring_has_data(c->kind) ? local << 1 | c->length << 37 : c->value << 1;
    if (slots == 1)
        return 1;
    words[2] = signal << 1 | (uint64_t)(c->flags & FERRY_COMMAND_ADD ? 1 : 0) << 37 |
               (uint64_t)(c->flags & FERRY_COMMAND_WEAK ? 1 : 0) << 38;
    words[3] = c->value << 1;
    return 2;
}

/* 1 or 2 slots if everything lies in the first 64 GiB of the heap, and is small enough; else 0. */
FERRY_RING_FN unsigned ferry_ring_encode_near(const struct ferry_command *c, uint64_t base, uint64_t words[FERRY_RING_WORDS])
{
    uint64_t remote = c->remote - base, local = 0, signal = 0;
    if (ferry_ring_has_data(c->kind))
        local = c->local - base;
    else if (!ferry_ring_has_value(c->kind))
        return 0;
    if (c->kind == FERRY_COMMAND_PUT_SIGNAL)
        signal = c->signal - base;
    if ((remote | local | signal) >> FERRY_RING_SHORT_OFFSET || c->pe >> FERRY_RING_SHORT_PE ||
        c->length >> FERRY_RING_SHORT_LENGTH || c->value >> 63)
        return 0;
    return ferry_ring_encode_short(c, remote, local, signal, words);
}

FERRY_RING_FN unsigned ferry_ring_encode_amo(const struct ferry_command *c, uint64_t words[FERRY_RING_WORDS])
{
    unsigned slots = c->amo == FERRY_COMMAND_AMO_CSWAP ? 3 : 2;
    words[0] = ferry_ring_first(slots, c->kind, c->flags) | (uint64_t)c->pe << 8 | (uint64_t)c->amo << 32 |
               (uint64_t)(c->width == 4 ? 1 : 0) << 36 | (uint64_t)(c->flags & FERRY_COMMAND_FETCH ? 1 : 0) << 37;
    words[1] = c->remote << 1;
    words[2] = c->value << 1;
    words[3] = c->value >> 63 << 1 | c->local << 2;
    words[4] = c->compare << 1;
    words[5] = c->compare >> 63 << 1;
    return slots;
}

FERRY_RING_FN unsigned ferry_ring_encode_far(const struct ferry_command *c, uint64_t words[FERRY_RING_WORDS])
{
    words[1] = c->remote << 1;
    if (ferry_ring_has_value(c->kind)) {
        words[0] = ferry_ring_first(2, c->kind, c->flags) | (uint64_t)c->pe << 8;
        words[2] = c->value << 1;
        words[3] = c->value >> 63 << 1;
        return 2;
    }
    words[2] = c->local << 1;
    words[3] = c->length << 1;
    if (c->kind != FERRY_COMMAND_PUT_SIGNAL) {
        words[0] = ferry_ring_first(2, c->kind, c->flags) | (uint64_t)c->pe << 8;
        return 2;
    }
    words[0] = ferry_ring_first(3, c->kind, c->flags) | (uint64_t)c->pe << 8 |
               (uint64_t)(c->flags & FERRY_COMMAND_ADD ? 1 : 0) << 32 | (uint64_t)(c->flags & FERRY_COMMAND_WEAK ? 1 : 0) << 33;
    words[3] |= c->value >> 63 << 49;
    words[4] = c->signal << 1;
    words[5] = c->value << 1;
    return 3;
}

/* Writes the shortest form, with lap bits 0. Returns its slots. What cannot be told becomes FERRY_COMMAND_BAD, and
 * *status, FERRY_OK otherwise, says why. */
FERRY_RING_FN unsigned ferry_ring_encode(const struct ferry_command *c, uint64_t base, uint64_t words[FERRY_RING_WORDS], int *status)
{
    *status = ferry_ring_check(c);
    if (*status != FERRY_OK)
        return ferry_ring_encode_bad(c, *status, words);
    if (ferry_ring_has_data(c->kind) || ferry_ring_has_value(c->kind)) {
        unsigned slots = ferry_ring_encode_near(c, base, words);
        return slots ? slots : ferry_ring_encode_far(c, words);
    }
    if (c->kind == FERRY_COMMAND_AMO)
        return ferry_ring_encode_amo(c, words);
    words[0] = ferry_ring_first(1, c->kind, c->flags) | (uint64_t)c->pe << 8;
    words[1] = 0;
    return 1;
}

/* Slots of the command that begins with this word; 0: no encoder writes that. */
FERRY_RING_FN unsigned ferry_ring_slots(uint64_t first)
{
    return (unsigned)ferry_ring_bits(first, 1, 2);
}

FERRY_RING_FN void ferry_ring_decode_near(const uint64_t *words, uint64_t base, struct ferry_command *c)
{
    c->pe = (uint32_t)ferry_ring_bits(words[0], 8, FERRY_RING_SHORT_PE);
    c->remote = base + (words[0] >> 28);
    if (!ferry_ring_has_data(c->kind)) {
        c->value = words[1] >> 1;
        return;
    }
    c->local = base + ferry_ring_bits(words[1], 1, FERRY_RING_SHORT_OFFSET);
    c->length = words[1] >> 37;
    if (c->kind != FERRY_COMMAND_PUT_SIGNAL)
        return;
    c->signal = base + ferry_ring_bits(words[2], 1, FERRY_RING_SHORT_OFFSET);
    c->flags |= (uint8_t)(ferry_ring_bits(words[2], 37, 1) * FERRY_COMMAND_ADD | ferry_ring_bits(words[2], 38, 1) * FERRY_COMMAND_WEAK);
    c->value = words[3] >> 1;
}

FERRY_RING_FN void ferry_ring_decode_amo(const uint64_t *words, struct ferry_command *c)
{
    c->amo = (uint8_t)ferry_ring_bits(words[0], 32, 4);
    c->width = ferry_ring_bits(words[0], 36, 1) ? 4 : 8;
    c->flags |= (uint8_t)(ferry_ring_bits(words[0], 37, 1) * FERRY_COMMAND_FETCH);
    c->remote = ferry_ring_bits(words[1], 1, 57);
    c->value = words[2] >> 1 | ferry_ring_bits(words[3], 1, 1) << 63;
    c->local = ferry_ring_bits(words[3], 2, 57);
    if (c->amo == FERRY_COMMAND_AMO_CSWAP)
        c->compare = words[4] >> 1 | ferry_ring_bits(words[5], 1, 1) << 63;
}

FERRY_RING_FN void ferry_ring_decode_far(const uint64_t *words, struct ferry_command *c)
{
    c->remote = ferry_ring_bits(words[1], 1, 57);
    if (ferry_ring_has_value(c->kind)) {
        c->value = words[2] >> 1 | ferry_ring_bits(words[3], 1, 1) << 63;
        return;
    }
    c->local = ferry_ring_bits(words[2], 1, 57);
    c->length = ferry_ring_bits(words[3], 1, 48);
    if (c->kind != FERRY_COMMAND_PUT_SIGNAL)
        return;
    c->flags |= (uint8_t)(ferry_ring_bits(words[0], 32, 1) * FERRY_COMMAND_ADD | ferry_ring_bits(words[0], 33, 1) * FERRY_COMMAND_WEAK);
    c->signal = ferry_ring_bits(words[4], 1, 57);
    c->value = words[5] >> 1 | ferry_ring_bits(words[3], 49, 1) << 63;
}

/* Slots that a command of this kind takes in its short and long form; false if `slots` is neither. */
FERRY_RING_FN int ferry_ring_shape(unsigned kind, unsigned amo, unsigned slots)
{
    if (kind == FERRY_COMMAND_PUT_SIGNAL)
        return slots == 2 || slots == 3;
    if (ferry_ring_has_data(kind) || ferry_ring_has_value(kind))
        return slots == 1 || slots == 2;
    if (kind == FERRY_COMMAND_AMO)
        return amo <= FERRY_COMMAND_AMO_FETCH && slots == (amo == FERRY_COMMAND_AMO_CSWAP ? 3u : 2u);
    return kind <= FERRY_COMMAND_BAD && slots == 1;
}

/* The reverse, for the words of one command; lap bits are ignored. FERRY_OK, or FERRY_ERR_ABI: no encoder writes that. */
FERRY_RING_FN int ferry_ring_decode(const uint64_t *words, uint64_t base, struct ferry_command *c)
{
    unsigned slots = ferry_ring_slots(words[0]);
    c->kind = (uint8_t)ferry_ring_bits(words[0], 3, 4);
    c->flags = (uint8_t)ferry_ring_bits(words[0], 7, 1);
    c->amo = c->width = 0;
    c->pe = (uint32_t)ferry_ring_bits(words[0], 8, 24);
    c->remote = c->local = c->length = c->signal = c->value = c->compare = 0;
    if (slots == 1 && c->kind >= FERRY_COMMAND_PUT && c->kind <= FERRY_COMMAND_SIGNAL_ADD_WEAK) { /* most are */
        ferry_ring_decode_near(words, base, c);
        return FERRY_OK;
    }
    if (!ferry_ring_shape(c->kind, (unsigned)ferry_ring_bits(words[0], 32, 4), slots))
        return FERRY_ERR_ABI;
    if (c->kind == FERRY_COMMAND_AMO) {
        ferry_ring_decode_amo(words, c);
    } else if (c->kind == FERRY_COMMAND_BAD) {
        c->amo = (uint8_t)ferry_ring_bits(words[0], 8, 4);
        c->value = ferry_ring_bits(words[0], 12, 8);
        c->pe = (uint32_t)ferry_ring_bits(words[0], 20, 32);
    } else if (ferry_ring_has_data(c->kind) || ferry_ring_has_value(c->kind)) {
        if (slots == (c->kind == FERRY_COMMAND_PUT_SIGNAL ? 2u : 1u))
            ferry_ring_decode_near(words, base, c);
        else
            ferry_ring_decode_far(words, c);
    }
    return FERRY_OK;
}

/* The lap bit of the words of the slot at this position: memory begins as zeros, so that of the first lap is 1. */
FERRY_RING_FN uint64_t ferry_ring_lap(uint64_t position, unsigned slot_bits)
{
    return ~(position >> slot_bits) & 1;
}

/* What an error word says. */
struct ferry_ring_failure {
    int status;       /* enum ferry_status */
    uint32_t kind;    /* enum ferry_command_kind */
    uint32_t pe;
    uint32_t channel;
};

FERRY_RING_FN uint64_t ferry_ring_failure_word(const struct ferry_ring_failure *f)
{
    return (uint64_t)(-f->status & 255) | (uint64_t)(f->kind & 15) << 8 | (uint64_t)f->pe << 12 | (uint64_t)(f->channel & 0xffff) << 44;
}

FERRY_RING_FN struct ferry_ring_failure ferry_ring_failure_of(uint64_t word)
{
    struct ferry_ring_failure f;
    f.status = -(int)ferry_ring_bits(word, 0, 8);
    f.kind = (uint32_t)ferry_ring_bits(word, 8, 4);
    f.pe = (uint32_t)ferry_ring_bits(word, 12, 32);
    f.channel = (uint32_t)ferry_ring_bits(word, 44, 16);
    return f;
}

#ifdef __cplusplus
}
#endif
#endif
