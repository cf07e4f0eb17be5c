/* SPDX-License-Identifier: Apache-2.0
 * The bits of commands: round trips at every field's extremes, the shortest form, limits, words that no encoder writes, and
 * the table in docs/gpu.md. No library, no thread. */
#include <ferry/ring.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#define BASE ((uint64_t)0x7e0000000000)

static uint64_t seed = 1;

static uint64_t draw(void)
{
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    return seed;
}

static const uint64_t addresses[] = {0, 1, BASE - 1, BASE, BASE + 8, BASE + ((uint64_t)1 << 36) - 1, BASE + ((uint64_t)1 << 36),
                                     ((uint64_t)1 << 57) - 1};
static const uint64_t lengths[] = {0, 1, ((uint64_t)1 << 27) - 1, (uint64_t)1 << 27, ((uint64_t)1 << 48) - 1};
static const uint64_t values[] = {0, 1, ((uint64_t)1 << 63) - 1, (uint64_t)1 << 63, UINT64_MAX};
static const uint32_t pes[] = {0, 1, (1u << 20) - 1, 1u << 20, (1u << 24) - 1};

#define PICK(from) from[draw() % (sizeof(from) / sizeof((from)[0]))]

/* A command whose fields are at their extremes, or drawn; those that the kind does not use are 0. */
static struct ferry_command any_command(unsigned kind)
{
    struct ferry_command c = {.kind = (uint8_t)kind};
    c.flags = draw() & 1 ? FERRY_COMMAND_ANNOUNCE : 0;
    if (kind == FERRY_COMMAND_NOP || kind == FERRY_COMMAND_FENCE || kind == FERRY_COMMAND_QUIET)
        return c;
    c.pe = draw() % 4 ? PICK(pes) : (uint32_t)draw() & 0xffffff;
    if (kind == FERRY_COMMAND_QUIET_PE)
        return c;
    c.remote = draw() % 4 ? PICK(addresses) : draw() >> 7;
    if (ferry_ring_has_data(kind)) {
        c.local = draw() % 4 ? PICK(addresses) : draw() >> 7;
        c.length = draw() % 4 ? PICK(lengths) : draw() >> 16;
    }
    if (ferry_ring_has_value(kind) || kind == FERRY_COMMAND_PUT_SIGNAL || kind == FERRY_COMMAND_AMO)
        c.value = draw() % 4 ? PICK(values) : draw();
    if (kind == FERRY_COMMAND_PUT_SIGNAL) {
        c.signal = draw() % 4 ? PICK(addresses) : draw() >> 7;
        c.flags |= (uint8_t)(draw() & (FERRY_COMMAND_ADD | FERRY_COMMAND_WEAK));
    }
    if (kind == FERRY_COMMAND_AMO) {
        c.amo = (uint8_t)(draw() % 8);
        c.width = draw() & 1 ? 8 : 4;
        c.flags |= (uint8_t)(draw() & FERRY_COMMAND_FETCH);
        c.local = draw() % 4 ? PICK(addresses) : draw() >> 7;
        c.compare = c.amo == FERRY_COMMAND_AMO_CSWAP ? PICK(values) : 0;
    }
    return c;
}

static bool fits(const struct ferry_command *c)
{
    const uint64_t window = (uint64_t)1 << 36;
    bool data = ferry_ring_has_data(c->kind);
    return c->remote - BASE < window && (!data || c->local - BASE < window) &&
           (c->kind != FERRY_COMMAND_PUT_SIGNAL || c->signal - BASE < window) && c->pe < 1u << 20 && c->length < 1u << 27 &&
           c->value < (uint64_t)1 << 63;
}

static unsigned shortest(const struct ferry_command *c)
{
    if (c->kind == FERRY_COMMAND_AMO)
        return c->amo == FERRY_COMMAND_AMO_CSWAP ? 3 : 2;
    if (c->kind == FERRY_COMMAND_PUT_SIGNAL)
        return fits(c) ? 2 : 3;
    if (ferry_ring_has_data(c->kind) || ferry_ring_has_value(c->kind))
        return fits(c) ? 1 : 2;
    return 1;
}

static void assert_same(const struct ferry_command *a, const struct ferry_command *b)
{
    assert_int_equal(a->kind, b->kind);
    assert_int_equal(a->amo, b->amo);
    assert_int_equal(a->width, b->width);
    assert_int_equal(a->flags, b->flags);
    assert_int_equal(a->pe, b->pe);
    assert_true(a->remote == b->remote && a->local == b->local && a->length == b->length);
    assert_true(a->signal == b->signal && a->value == b->value && a->compare == b->compare);
}

static void round_trip(const struct ferry_command *c)
{
    uint64_t words[FERRY_RING_WORDS];
    struct ferry_command back;
    int status = 1;
    memset(words, 0, sizeof(words));
    unsigned slots = ferry_ring_encode(c, BASE, words, &status);
    assert_int_equal(status, FERRY_OK);
    assert_int_equal(slots, shortest(c));
    assert_int_equal(ferry_ring_slots(words[0]), slots);
    for (unsigned i = 0; i < 2 * slots; i++) {
        assert_int_equal(words[i] & 1, 0);
        words[i] |= draw() & 1; /* a lap bit changes nothing */
    }
    for (unsigned i = 2 * slots; i < FERRY_RING_WORDS; i++)
        words[i] = draw(); /* nor does what lies behind */
    assert_int_equal(ferry_ring_decode(words, BASE, &back), FERRY_OK);
    assert_same(c, &back);
}

static void test_round_trips(void **state)
{
    (void)state;
    for (unsigned kind = 0; kind <= FERRY_COMMAND_QUIET_PE; kind++)
        for (int i = 0; i < 20000; i++) {
            struct ferry_command c = any_command(kind);
            round_trip(&c);
        }
}

static void refused(struct ferry_command c, int why)
{
    uint64_t words[FERRY_RING_WORDS];
    struct ferry_command back;
    int status = 0;
    assert_int_equal(ferry_ring_encode(&c, BASE, words, &status), 1);
    assert_int_equal(status, why);
    assert_int_equal(ferry_ring_decode(words, BASE, &back), FERRY_OK);
    assert_int_equal(back.kind, FERRY_COMMAND_BAD);
    assert_int_equal(back.amo, c.kind);
    assert_int_equal(back.value, -why);
    assert_int_equal(back.pe, c.pe);
}

static void test_limits(void **state)
{
    (void)state;
    const struct ferry_command put = {.kind = FERRY_COMMAND_PUT, .pe = 3, .remote = BASE, .local = BASE, .length = 8};
    struct ferry_command c = put;
    c.pe = 1u << 24;
    refused(c, FERRY_ERR_LIMIT);
    c.pe = UINT32_MAX;
    refused(c, FERRY_ERR_LIMIT);
    c = put;
    c.remote = (uint64_t)1 << 57;
    refused(c, FERRY_ERR_LIMIT);
    c = put;
    c.local = UINT64_MAX;
    refused(c, FERRY_ERR_LIMIT);
    c = put;
    c.length = (uint64_t)1 << 48;
    refused(c, FERRY_ERR_LIMIT);
    c = put;
    c.kind = FERRY_COMMAND_PUT_SIGNAL;
    c.signal = (uint64_t)1 << 57;
    refused(c, FERRY_ERR_LIMIT);
    c = put;
    c.kind = FERRY_COMMAND_BAD;
    refused(c, FERRY_ERR_ARG);
    c = put;
    c.kind = FERRY_COMMAND_AMO;
    c.width = 2;
    refused(c, FERRY_ERR_ARG);
    c.width = 8;
    c.amo = 8;
    refused(c, FERRY_ERR_ARG);
}

/* Any words: an error, or a command that says the same when it is encoded again. */
static void test_fuzz(void **state)
{
    (void)state;
    unsigned long good = 0, bad = 0;
    for (long i = 0; i < 2000000; i++) {
        uint64_t words[FERRY_RING_WORDS], again[FERRY_RING_WORDS];
        struct ferry_command c, back;
        int status;
        for (unsigned w = 0; w < FERRY_RING_WORDS; w++)
            words[w] = draw() >> draw() % 64;
        if (ferry_ring_decode(words, BASE, &c) != FERRY_OK) {
            bad++;
            continue;
        }
        good++;
        if (c.kind == FERRY_COMMAND_BAD)
            continue;
        if (c.remote >= FERRY_RING_ADDRESS_LIMIT || c.signal >= FERRY_RING_ADDRESS_LIMIT || c.local >= FERRY_RING_ADDRESS_LIMIT)
            fail_msg("decoded an address beyond the limit");
        ferry_ring_encode(&c, BASE, again, &status);
        assert_int_equal(status, FERRY_OK);
        assert_int_equal(ferry_ring_decode(again, BASE, &back), FERRY_OK);
        assert_same(&c, &back);
    }
    assert_true(good > 1000 && bad > 1000);
}

static void test_lap(void **state)
{
    (void)state;
    for (unsigned bits = 8; bits <= 20; bits += 4) {
        uint64_t n = (uint64_t)1 << bits;
        assert_int_equal(ferry_ring_lap(0, bits), 1);
        assert_int_equal(ferry_ring_lap(n - 1, bits), 1);
        assert_int_equal(ferry_ring_lap(n, bits), 0);
        assert_int_equal(ferry_ring_lap(2 * n, bits), 1);
        assert_int_equal(ferry_ring_lap(UINT64_MAX, bits), 0);
    }
}

static void test_error_word(void **state)
{
    (void)state;
    const struct ferry_ring_failure in = {FERRY_ERR_BOOTSTRAP, FERRY_COMMAND_BAD, UINT32_MAX, 0xffff};
    struct ferry_ring_failure out = ferry_ring_failure_of(ferry_ring_failure_word(&in));
    assert_int_equal(out.status, in.status);
    assert_int_equal(out.kind, in.kind);
    assert_int_equal(out.pe, in.pe);
    assert_int_equal(out.channel, in.channel);
    assert_int_equal(ferry_ring_failure_of(0).status, FERRY_OK);
}

/* ------------------------------------------------------------------ the table of docs/gpu.md */

struct row {
    char form[64], field[32];
    unsigned slots, word, from, bits;
};

/* A command of that form. Its fields are 0, or what makes the form long. */
static struct ferry_command plain(const char *form)
{
    struct ferry_command c = {.remote = BASE, .local = BASE, .signal = BASE};
    bool is_long = strstr(form, "long") != NULL;
    if (strstr(form, "`PUT_SIGNAL`"))
        c.kind = FERRY_COMMAND_PUT_SIGNAL;
    else if (strstr(form, "`PUT`"))
        c.kind = FERRY_COMMAND_PUT;
    else if (strstr(form, "`P64`"))
        c.kind = FERRY_COMMAND_SIGNAL_ADD;
    else if (strstr(form, "`AMO`"))
        c.kind = FERRY_COMMAND_AMO;
    else if (strstr(form, "`QUIET_PE`"))
        c.kind = FERRY_COMMAND_QUIET_PE;
    if (is_long || c.kind == FERRY_COMMAND_AMO)
        c.remote = 0;
    if (c.kind == FERRY_COMMAND_AMO) {
        c.width = 8;
        c.amo = strstr(form, "compare") ? FERRY_COMMAND_AMO_CSWAP : 0;
        c.local = 0;
    }
    if (is_long)
        c.local = c.signal = 0;
    return c;
}

/* All ones in the field, as wide as the table says. */
static void set_field(struct ferry_command *c, const struct row *row)
{
    uint64_t ones = FERRY_RING_BITS(row->bits);
    const char *f = row->field;
    if (strcmp(f, "pe") == 0)
        c->pe = (uint32_t)ones;
    else if (strcmp(f, "remote") == 0)
        c->remote += ones;
    else if (strcmp(f, "local") == 0)
        c->local += ones;
    else if (strcmp(f, "signal") == 0)
        c->signal += ones;
    else if (strcmp(f, "length") == 0)
        c->length = ones;
    else if (strcmp(f, "value") == 0 || strcmp(f, "value low") == 0)
        c->value = ones;
    else if (strcmp(f, "value top") == 0)
        c->value = ones << 63;
    else if (strcmp(f, "compare low") == 0)
        c->compare = ones;
    else if (strcmp(f, "compare top") == 0)
        c->compare = ones << 63;
    else if (strcmp(f, "add") == 0)
        c->flags |= FERRY_COMMAND_ADD;
    else if (strcmp(f, "weak") == 0)
        c->flags |= FERRY_COMMAND_WEAK;
    else if (strcmp(f, "fetch") == 0)
        c->flags |= FERRY_COMMAND_FETCH;
    else if (strcmp(f, "narrow") == 0)
        c->width = 4;
    else if (strcmp(f, "amo") == 0)
        c->amo = 5; /* the widest that keeps the form; compared below */
    else
        fail_msg("docs/gpu.md: field %s is none of a command", f);
}

static void check_row(const struct row *row)
{
    uint64_t without[FERRY_RING_WORDS] = {0}, with[FERRY_RING_WORDS] = {0};
    struct ferry_command c = plain(row->form);
    int status;
    assert_int_equal(ferry_ring_encode(&c, BASE, without, &status), row->slots);
    set_field(&c, row);
    assert_int_equal(ferry_ring_encode(&c, BASE, with, &status), row->slots);
    assert_int_equal(status, FERRY_OK);
    uint64_t ones = strcmp(row->field, "amo") == 0 ? 5 : FERRY_RING_BITS(row->bits);
    for (unsigned w = 0; w < 2 * row->slots; w++) {
        uint64_t expected = w == row->word ? ones << row->from : 0;
        if ((without[w] ^ with[w]) != expected)
            fail_msg("docs/gpu.md: %s, %s: word %u is 0x%llx, not 0x%llx", row->form, row->field, w,
                     (unsigned long long)(without[w] ^ with[w]), (unsigned long long)expected);
    }
}

/* `BAD` is made by the encoder of what it refuses. */
static void check_bad(const struct row *row)
{
    uint64_t words[FERRY_RING_WORDS];
    struct ferry_command c = {.kind = 15, .pe = UINT32_MAX};
    int status;
    ferry_ring_encode(&c, BASE, words, &status);
    uint64_t expected = strcmp(row->field, "status") == 0 ? (uint64_t)-status : FERRY_RING_BITS(row->bits);
    assert_int_equal(ferry_ring_bits(words[row->word], row->from, row->bits), expected);
}

static void test_table(void **state)
{
    FILE *file = fopen(*state, "r");
    char line[256];
    unsigned rows = 0;
    assert_non_null(file);
    while (fgets(line, sizeof(line), file)) {
        struct row row;
        if (sscanf(line, "| %63[^|] | %u | %31[^|] | %u | %u | %u |", row.form, &row.slots, row.field, &row.word, &row.from,
                   &row.bits) != 6)
            continue;
        row.field[strcspn(row.field, "\n")] = '\0';
        while (row.field[0] && row.field[strlen(row.field) - 1] == ' ')
            row.field[strlen(row.field) - 1] = '\0';
        rows++;
        if (strstr(row.form, "`BAD`"))
            check_bad(&row);
        else
            check_row(&row);
    }
    fclose(file);
    assert_int_equal(rows, 46);
}

int main(int argc, char **argv)
{
    if (argc != 2)
        return 2;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_round_trips),
        cmocka_unit_test(test_limits),
        cmocka_unit_test(test_fuzz),
        cmocka_unit_test(test_lap),
        cmocka_unit_test(test_error_word),
        cmocka_unit_test_prestate(test_table, argv[1]),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
