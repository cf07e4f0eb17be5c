/* SPDX-License-Identifier: Apache-2.0
 * Seeded random text through the option parser and the search for near names: no crash, and what comes out holds. */
#include "base/option.h"
#include "cmocka_headers.h"
#include "random.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define STRINGS 100000

static const struct ferry_option rows[] = {
    {"b", FERRY_OPTION_BOOL, 0, "no", NULL, ""},
    {"i", FERRY_OPTION_INT, 0, "7", NULL, ""},
    {"s", FERRY_OPTION_SIZE, 0, "64G", NULL, ""},
    {"t", FERRY_OPTION_SECONDS, 0, "1", NULL, ""},
    {"c", FERRY_OPTION_CHOICE, 0, "warn", "error|warn|info", ""},
    {"m", FERRY_OPTION_SET, 0, "", "delay|drop|seed=", ""},
};
#define ROWS (sizeof(rows) / sizeof(rows[0]))

/* Pieces that make sense, some of the time, so that the deeper branches are met. */
static void random_text(uint64_t *random, char *out, size_t size)
{
    static const char *const pieces[] = {"0x",
                                         "9223372036854775807",
                                         "9223372036854775808",
                                         "-",
                                         "1",
                                         "64",
                                         "K",
                                         "M",
                                         "E",
                                         "ms",
                                         "s",
                                         ".",
                                         "warn",
                                         "info",
                                         "delay",
                                         ",",
                                         "seed",
                                         "=",
                                         "yes",
                                         "off",
                                         "0",
                                         "f",
                                         "|",
                                         " "};
    size_t n = 0, pieces_left = random_below(random, 7);

    for (; pieces_left > 0 && n + 24 < size; pieces_left--) {
        const char *piece = pieces[random_below(random, sizeof(pieces) / sizeof(pieces[0]))];

        if (random_below(random, 4) > 0)
            n += (size_t)sprintf(out + n, "%s", piece);
        else
            out[n++] = (char)(1 + random_below(random, 255));
    }
    out[n] = '\0';
}

/* The C library's reading of the same grammar. */
static bool reference_int(const char *text, long long *number)
{
    const char *digits = text + (*text == '-');
    bool hex = digits[0] == '0' && (digits[1] == 'x' || digits[1] == 'X');
    const char *set = hex ? "0123456789abcdefABCDEF" : "0123456789";

    digits += hex ? 2 : 0;
    if (*digits == '\0' || digits[strspn(digits, set)] != '\0')
        return false;
    errno = 0;
    *number = strtoll(text, NULL, hex ? 16 : 10);
    return errno == 0;
}

static void check_value(const struct ferry_option *row, const char *text, const struct ferry_value *value)
{
    switch (row->type) {
    case FERRY_OPTION_BOOL:
        assert_in_range(value->number, 0, 1);
        break;
    case FERRY_OPTION_SIZE:
        assert_true(value->number >= 0);
        break;
    case FERRY_OPTION_SECONDS:
        assert_true(value->seconds >= 0 && value->seconds <= 1e9);
        break;
    case FERRY_OPTION_CHOICE:
        assert_in_range(value->number, 0, 2);
        assert_ptr_equal(value->string, text);
        break;
    default:
        break;
    }
}

static void check_refusal(const struct ferry_error *error)
{
    assert_int_equal(error->status, FERRY_ERR_CONFIG);
    assert_non_null(strstr(error->message, "FERRY_X is '"));
    assert_non_null(strstr(error->message, "', which is not "));
    for (const char *p = error->message; *p; p++)
        if ((unsigned char)*p < ' ' || *p == 127)
            fail_msg("a message holds byte %d", *p);
}

static void test_parser(void **state)
{
    uint64_t random = 20240501;
    int taken[ROWS] = {0};

    (void)state;
    for (int i = 0; i < STRINGS; i++) {
        char buffer[200];

        random_text(&random, buffer, sizeof(buffer));
        char *text = strdup(buffer); /* a block of its own: a sanitizer sees a read past the end */
        assert_non_null(text);
        for (size_t r = (size_t)i % 3; r < ROWS; r += 3) {
            struct ferry_value value;
            struct ferry_error error;
            long long number = 0;
            int status = fy_option_parse(&rows[r], "FERRY_X", text, &value, &error);

            if (status == FERRY_OK) {
                taken[r]++;
                check_value(&rows[r], text, &value);
            } else {
                check_refusal(&error);
            }
            if (rows[r].type == FERRY_OPTION_INT) {
                bool ok = reference_int(text, &number);
                if (ok != (status == FERRY_OK) || (ok && number != value.number))
                    fail_msg("'%s' is %lld here and %lld by strtoll", text, (long long)value.number, number);
            }
        }
        free(text);
    }
    for (size_t r = 0; r < ROWS; r++)
        assert_in_range(taken[r], 100, STRINGS / 4); /* both outcomes were met */
}

static void count_line(void *arg, int level, const char *line)
{
    (void)level;
    assert_null(strstr(line, "s3cret"));
    ++*(int *)arg;
}

static void test_names(void **state)
{
    uint64_t random = 77;
    struct fy_options core;
    struct ferry_error error;
    const struct fy_options *const known[] = {&core, NULL};
    int lines = 0;
    struct fy_log log = {.level = FERRY_LOG_WARN, .pe = -1, .sink = count_line, .sink_arg = &lines};
    struct fy_source none = {NULL, NULL};

    (void)state;
    assert_int_equal(fy_options_load(&core, fy_core_options, NULL, &none, &error), FERRY_OK);
    for (int i = 0; i < 5000; i++) {
        char name[400] = "FERRY_", *copies[2] = {NULL, NULL};
        size_t n = 6, length = random_below(&random, 80);

        for (size_t k = 0; k < length; k++) {
            char c = (char)(1 + random_below(&random, 255));
            name[n++] = c == '=' ? 'A' : c;
        }
        snprintf(name + n, sizeof(name) - n, "=s3cret");
        copies[0] = strdup(name);
        struct fy_source source = {NULL, copies};
        fy_options_warn_unknown(&source, known, NULL, &log);
        free(copies[0]);
    }
    assert_true(lines >= 4900);
    fy_options_free(&core);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_parser), cmocka_unit_test(test_names)};

    return cmocka_run_group_tests_name("base option fuzz", tests, NULL, NULL);
}
