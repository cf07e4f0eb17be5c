/* SPDX-License-Identifier: Apache-2.0
 * Envelopes: the round trip, every reason to refuse, unaligned and hostile bytes. */
#include "base/blob.h"
#include "cmocka_headers.h"
#include "random.h"
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define ROOM 512

/* The checksum, bit by bit from its definition. */
static uint32_t reference_crc(const uint8_t *bytes, size_t n)
{
    uint32_t crc = ~0u;

    for (size_t i = 0; i < n; i++) {
        crc ^= bytes[i];
        for (int bit = 0; bit < 8; bit++)
            crc = crc & 1 ? crc >> 1 ^ 0x82f63b78u : crc >> 1;
    }
    return ~crc;
}

/* A blob with a random payload; returns its whole size. */
static size_t make(uint8_t *out, uint16_t type, uint32_t sender, uint16_t size, uint64_t *random)
{
    struct {
        struct fy_blob head;
        uint8_t payload[ROOM];
    } made;

    for (size_t i = 0; i < size; i++)
        made.payload[i] = (uint8_t)random_next(random);
    fy_blob_seal(&made.head, type, sender, size);
    memcpy(out, &made, sizeof(made.head) + size);
    return sizeof(made.head) + size;
}

static void refused(const void *bytes, size_t n, uint16_t type, uint32_t sender, const char *expected)
{
    const void *payload;
    size_t size;
    const char *reason = fy_blob_open(bytes, n, type, sender, &payload, &size);

    assert_non_null(reason);
    assert_string_equal(reason, expected);
}

static void test_reference(void **state)
{
    (void)state;
    assert_int_equal(reference_crc((const uint8_t *)"123456789", 9), 0xe3069283u); /* the catalogue's check value */
}

static void test_round_trip(void **state)
{
    uint64_t random = 1;
    uint8_t bytes[sizeof(struct fy_blob) + ROOM + 1];

    (void)state;
    for (uint32_t round = 0; round < 2000; round++) {
        uint16_t size = (uint16_t)random_below(&random, ROOM + 1);
        size_t shift = round & 1; /* every second one lies unaligned */
        size_t total = make(bytes + shift, FY_BLOB_KEY, round, size, &random);
        struct fy_blob head;
        uint8_t covered[8 + ROOM];
        const void *payload = NULL;
        size_t got = 0;

        assert_null(fy_blob_open(bytes + shift, total, FY_BLOB_KEY, round, &payload, &got));
        assert_int_equal(got, size);
        assert_ptr_equal(payload, bytes + shift + sizeof(head));
        memcpy(&head, bytes + shift, sizeof(head));
        memcpy(covered, &head.type, 2);
        memcpy(covered + 2, &head.size, 2);
        memcpy(covered + 4, &head.sender, 4);
        memcpy(covered + 8, payload, size);
        assert_int_equal(head.check, reference_crc(covered, 8u + size));
    }
}

static void test_reasons(void **state)
{
    uint64_t random = 2;
    uint8_t bytes[sizeof(struct fy_blob) + ROOM];
    size_t total = make(bytes, FY_BLOB_ENDPOINT, 7, 100, &random);
    const void *payload;
    size_t size;

    (void)state;
    refused(bytes, total, FY_BLOB_KEY, 7, "type");
    refused(bytes, total, FY_BLOB_ENDPOINT, 8, "sender");
    for (size_t n = 0; n < total; n++)
        refused(bytes, n, FY_BLOB_ENDPOINT, 7, "size");
    assert_null(fy_blob_open(bytes, sizeof(bytes), FY_BLOB_ENDPOINT, 7, &payload, &size)); /* a slot may be larger */
    bytes[0] ^= 1;
    refused(bytes, total, FY_BLOB_ENDPOINT, 7, "magic");
    bytes[0] ^= 1;
    bytes[total - 1] ^= 0x80;
    refused(bytes, total, FY_BLOB_ENDPOINT, 7, "checksum");
    memset(bytes, 0, sizeof(bytes));
    refused(bytes, sizeof(bytes), FY_BLOB_ENDPOINT, 0, "magic");
    refused(NULL, 0, FY_BLOB_ENDPOINT, 7, "size");
}

/* Damage of up to 32 bits in a row never passes a 32-bit CRC; in the header, other checks come first. */
static void test_every_bit_counts(void **state)
{
    uint64_t random = 3;
    uint8_t bytes[sizeof(struct fy_blob) + ROOM];
    size_t total = make(bytes, FY_BLOB_CONNECT, 3, 64, &random);
    const void *payload;
    size_t size;

    (void)state;
    for (size_t bit = 0; bit < total * 8; bit++) {
        bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
        assert_non_null(fy_blob_open(bytes, total, FY_BLOB_CONNECT, 3, &payload, &size));
        bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
    }
    assert_null(fy_blob_open(bytes, total, FY_BLOB_CONNECT, 3, &payload, &size));
}

/* In a heap block of exactly the size that open is told, so that a sanitizer sees a read past the end. */
static void test_mutations(void **state)
{
    uint64_t random = 4;
    uint8_t bytes[sizeof(struct fy_blob) + ROOM];
    int accepted = 0;

    (void)state;
    for (int round = 0; round < 20000; round++) {
        size_t total = make(bytes, FY_BLOB_JOB, 5, (uint16_t)random_below(&random, 200), &random);
        size_t cut = random_below(&random, 4) ? total : random_below(&random, (uint32_t)total + 1);
        uint8_t *block = malloc(cut ? cut : 1);
        uint32_t changes = random_below(&random, 4);
        const void *payload = NULL;
        size_t size = 0;

        assert_non_null(block);
        memcpy(block, bytes, cut);
        for (uint32_t i = 0; i < changes && cut > 0; i++)
            block[random_below(&random, random_below(&random, 2) && cut > 16 ? 16 : (uint32_t)cut)] ^=
                (uint8_t)random_next(&random);
        bool same = cut == total && memcmp(block, bytes, total) == 0;
        const char *reason = fy_blob_open(block, cut, FY_BLOB_JOB, 5, &payload, &size);
        if (same != (reason == NULL))
            fail_msg("round %d: %s", round, reason ? reason : "a damaged blob was taken");
        if (!reason) {
            assert_int_equal(size, total - sizeof(struct fy_blob));
            accepted++;
        }
        free(block);
    }
    assert_in_range(accepted, 2000, 18000); /* both sides were met */
}

static void test_noise(void **state)
{
    uint64_t random = 5;
    const void *payload;
    size_t size;

    (void)state;
    for (int round = 0; round < 20000; round++) {
        size_t n = random_below(&random, 100);
        uint8_t *block = malloc(n + 1);

        assert_non_null(block);
        for (size_t i = 0; i < n; i++)
            block[i] = (uint8_t)random_next(&random);
        if (n >= sizeof(struct fy_blob) && round % 2) {
            struct fy_blob seal = {0}; /* the right magic opens the way to the deeper checks */
            fy_blob_seal(&seal, 0, 0, 0);
            memcpy(block, &seal.magic, sizeof(seal.magic));
        }
        assert_non_null(fy_blob_open(block, n, FY_BLOB_JOB, 0, &payload, &size));
        free(block);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_reference),        cmocka_unit_test(test_round_trip), cmocka_unit_test(test_reasons),
        cmocka_unit_test(test_every_bit_counts), cmocka_unit_test(test_mutations),  cmocka_unit_test(test_noise),
    };

    return cmocka_run_group_tests_name("base blob", tests, NULL, NULL);
}
