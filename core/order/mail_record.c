/* SPDX-License-Identifier: Apache-2.0
 * Requests and replies of the mailbox as 8-byte words, each with a lap bit: a word is there when its bit is that of the lap.
 * Pure functions over memory that a peer writes; any thread. */
#include "mail.h"

#define LAP_SHIFT 63
#define VALUE_MASK (((uint64_t)1 << LAP_SHIFT) - 1)
#define OFFSET_BITS 51
#define OFFSET_MASK (((uint64_t)1 << OFFSET_BITS) - 1)
_Static_assert(FY_SEGMENTS_MAX <= 1u << (LAP_SHIFT - OFFSET_BITS), "a segment's index does not fit beside an offset");

/* Word 0: what is to be done, and the top bits of values that the lap bit displaced. */
enum {
    KIND_AT = 0,     /* 4 bits */
    AMO_AT = 4,      /* 4 */
    WIDE_AT = 8,     /* 1: 8 bytes */
    COVERED_AT = 9,  /* 1 */
    OPERAND_AT = 10, /* 1: bit 63 of the operand */
    COMPARE_AT = 11, /* 1 */
    EPOCH_AT = 12,   /* 8 */
    CHANNEL_AT = 20, /* 24 */
};
enum { HEAD, OPERAND, COMPARE, PLACE, TO, LENGTH, COVER, SPARE };

static uint64_t place_word(uint32_t segment, uint64_t offset)
{
    return (uint64_t)segment << OFFSET_BITS | (offset & OFFSET_MASK);
}

void fy_mail_pack(const struct fy_mail_request *r, uint64_t lap, uint64_t words[FY_MAIL_WORDS])
{
    words[HEAD] = (uint64_t)r->kind << KIND_AT | (uint64_t)r->amo << AMO_AT | (uint64_t)(r->width == 8) << WIDE_AT |
                  (uint64_t)r->covered << COVERED_AT | r->operand >> 63 << OPERAND_AT | r->compare >> 63 << COMPARE_AT |
                  (uint64_t)r->epoch << EPOCH_AT | (uint64_t)r->channel << CHANNEL_AT;
    words[OPERAND] = r->operand & VALUE_MASK;
    words[COMPARE] = r->compare & VALUE_MASK;
    words[PLACE] = place_word(r->segment, r->offset);
    words[TO] = place_word(r->to_segment, r->to_offset);
    words[LENGTH] = r->length & VALUE_MASK;
    words[COVER] = r->cover;
    words[SPARE] = 0;
    for (unsigned i = 0; i < FY_MAIL_WORDS; i++)
        words[i] |= lap << LAP_SHIFT;
}

/* Acquire (C11 5.1.2.4): what the sender's transport made visible before the words is seen behind them. */
static bool load_words(const uint64_t *from, uint64_t *to, unsigned n, uint64_t lap)
{
    for (unsigned i = 0; i < n; i++) {
        to[i] = __atomic_load_n(&from[i], __ATOMIC_ACQUIRE);
        if (to[i] >> LAP_SHIFT != lap)
            return false;
        to[i] &= VALUE_MASK;
    }
    return true;
}

bool fy_mail_unpack(const uint64_t *words, uint64_t lap, struct fy_mail_request *r)
{
    uint64_t w[FY_MAIL_WORDS];
    if (!load_words(words, w, FY_MAIL_WORDS, lap))
        return false;
    uint64_t head = w[HEAD];
    *r = (struct fy_mail_request){
        .kind = head >> KIND_AT & 15,
        .amo = head >> AMO_AT & 15,
        .width = head >> WIDE_AT & 1 ? 8 : 4,
        .covered = head >> COVERED_AT & 1,
        .epoch = (uint8_t)(head >> EPOCH_AT),
        .channel = head >> CHANNEL_AT & 0xffffff,
        .cover = (uint32_t)w[COVER],
        .segment = (uint32_t)(w[PLACE] >> OFFSET_BITS),
        .offset = w[PLACE] & OFFSET_MASK,
        .to_segment = (uint32_t)(w[TO] >> OFFSET_BITS),
        .to_offset = w[TO] & OFFSET_MASK,
        .operand = w[OPERAND] | (head >> OPERAND_AT & 1) << 63,
        .compare = w[COMPARE] | (head >> COMPARE_AT & 1) << 63,
        .length = w[LENGTH],
    };
    return true;
}

/* Second word of a reply: bit 62 is the value's bit 63, the low ones the negated status. */
void fy_mail_pack_reply(uint64_t value, int status, uint64_t lap, uint64_t words[2])
{
    words[0] = (value & VALUE_MASK) | lap << LAP_SHIFT;
    words[1] = value >> 63 << 62 | (uint64_t)(uint32_t)-status | lap << LAP_SHIFT;
}

bool fy_mail_unpack_reply(const uint64_t *words, uint64_t lap, uint64_t *value, int *status)
{
    uint64_t w[2];
    if (!load_words(words, w, 2, lap))
        return false;
    *value = w[0] | (w[1] >> 62 & 1) << 63;
    *status = -(int)(uint32_t)w[1];
    return true;
}
