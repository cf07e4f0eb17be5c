/* SPDX-License-Identifier: Apache-2.0
 * Requests and replies of the mailbox as words: what goes in comes out, and nothing is taken for there before every word is.
 * Pure functions; one thread. */
#include "../../core/order/mail.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <cmocka.h>
#include <string.h>

static uint64_t next_random(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

static struct fy_mail_request any_request(uint64_t *seed)
{
    struct fy_mail_request r;
    memset(&r, 0, sizeof(r)); /* padding, too: requests are compared as bytes */
    r.kind = next_random(seed) & 1 ? FY_MAIL_AMO : FY_MAIL_GET;
    r.amo = next_random(seed) % FERRY_AMO_KINDS;
    r.width = next_random(seed) & 1 ? 8 : 4;
    r.covered = next_random(seed) & 1;
    r.epoch = (uint8_t)next_random(seed);
    r.channel = next_random(seed) & 0xffffff;
    r.cover = (uint32_t)next_random(seed);
    r.segment = next_random(seed) % FY_SEGMENTS_MAX;
    r.to_segment = next_random(seed) % FY_SEGMENTS_MAX;
    r.offset = next_random(seed) >> 13;
    r.to_offset = next_random(seed) >> 13;
    r.operand = next_random(seed);
    r.compare = next_random(seed);
    r.length = next_random(seed) >> 1;
    return r;
}

static void expect_same(const struct fy_mail_request *a, const struct fy_mail_request *b)
{
    assert_int_equal(a->kind, b->kind);
    assert_int_equal(a->amo, b->amo);
    assert_int_equal(a->width, b->width);
    assert_int_equal(a->covered, b->covered);
    assert_int_equal(a->epoch, b->epoch);
    assert_int_equal(a->channel, b->channel);
    assert_int_equal(a->cover, b->cover);
    assert_int_equal(a->segment, b->segment);
    assert_int_equal(a->to_segment, b->to_segment);
    assert_true(a->offset == b->offset && a->to_offset == b->to_offset);
    assert_true(a->operand == b->operand && a->compare == b->compare && a->length == b->length);
}

static void requests_come_out_as_they_went_in(void **state)
{
    (void)state;
    uint64_t seed = 1;
    for (uint64_t i = 0; i < 10000; i++) {
        uint64_t words[FY_MAIL_WORDS];
        struct fy_mail_request in = any_request(&seed), out;
        fy_mail_pack(&in, i & 1, words);
        assert_true(fy_mail_unpack(words, i & 1, &out));
        expect_same(&in, &out);
        assert_false(fy_mail_unpack(words, !(i & 1), &out));
    }
}

/* Words arrive in any order: with one of the lap before still in its place, the request is not there. */
static void one_word_is_missing(void **state)
{
    (void)state;
    uint64_t seed = 2;
    for (unsigned i = 0; i < 1000; i++) {
        uint64_t before[FY_MAIL_WORDS], words[FY_MAIL_WORDS];
        struct fy_mail_request old = any_request(&seed), request = any_request(&seed), out;
        fy_mail_pack(&old, 0, before);
        for (unsigned missing = 0; missing < FY_MAIL_WORDS; missing++) {
            fy_mail_pack(&request, 1, words);
            words[missing] = before[missing];
            assert_false(fy_mail_unpack(words, 1, &out));
        }
    }
}

static void replies_come_out_as_they_went_in(void **state)
{
    (void)state;
    static const uint64_t values[] = {0, 1, UINT64_MAX, INT64_MAX, (uint64_t)INT64_MIN, 0x123456789abcdef0};
    for (size_t i = 0; i < sizeof(values) / sizeof(*values); i++) {
        uint64_t words[2], value;
        int status;
        fy_mail_pack_reply(values[i], FERRY_OK, 1, words);
        assert_true(fy_mail_unpack_reply(words, 1, &value, &status));
        assert_true(value == values[i] && status == FERRY_OK);
        fy_mail_pack_reply(values[i], FERRY_ERR_ARG, 0, words);
        assert_true(fy_mail_unpack_reply(words, 0, &value, &status));
        assert_true(value == values[i] && status == FERRY_ERR_ARG);
        assert_false(fy_mail_unpack_reply(words, 1, &value, &status));
        words[i % 2] |= (uint64_t)1 << 63;
        assert_false(fy_mail_unpack_reply(words, 0, &value, &status));
        assert_false(fy_mail_unpack_reply(words, 1, &value, &status));
    }
}

/* Fresh memory is zero, and must not look like a request or a reply of the first lap. */
static void nothing_is_nothing(void **state)
{
    (void)state;
    uint64_t words[FY_MAIL_WORDS] = {0}, value;
    struct fy_mail_request out;
    int status;
    for (uint64_t number = 0; number < FY_MAIL_SLOTS; number++) {
        assert_false(fy_mail_unpack(words, fy_mail_lap(number), &out));
        assert_false(fy_mail_unpack_reply(words, fy_mail_lap(number), &value, &status));
    }
    assert_int_equal(fy_mail_lap(0), fy_mail_lap(FY_MAIL_SLOTS - 1));
    assert_int_not_equal(fy_mail_lap(0), fy_mail_lap(FY_MAIL_SLOTS));
    assert_int_equal(fy_mail_lap(0), fy_mail_lap(2 * FY_MAIL_SLOTS));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(requests_come_out_as_they_went_in),
        cmocka_unit_test(one_word_is_missing),
        cmocka_unit_test(replies_come_out_as_they_went_in),
        cmocka_unit_test(nothing_is_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
