/* SPDX-License-Identifier: Apache-2.0
 * Every option type: what is taken, what is refused, and what the refusal says. */
#include "base/option.h"
#include "cmocka_headers.h"
#include <locale.h>
#include <stdio.h>
#include <string.h>

#define SIZE_FORM    "a number of bytes below 8E, alone or with one of K M G T P E, as in 4096, 64M or 2G"
#define INT_FORM     "a whole number of 64 bits, as in 12, -1 or 0x1f"
#define SECONDS_FORM "a time from 0 to 1000000000 seconds, as in 10, 2.5s or 500ms"
#define BOOL_FORM    "one of 0, 1, no, yes, off, on, false, true"

static const struct ferry_option row_bool = {"b", FERRY_OPTION_BOOL, 0, "no", NULL, ""};
static const struct ferry_option row_int = {"i", FERRY_OPTION_INT, 0, "7", NULL, ""};
static const struct ferry_option row_size = {"heap_size", FERRY_OPTION_SIZE, 0, "64G", NULL, ""};
static const struct ferry_option row_seconds = {"s", FERRY_OPTION_SECONDS, 0, "1", NULL, ""};
static const struct ferry_option row_string = {"t", FERRY_OPTION_STRING, 0, "", NULL, ""};
static const struct ferry_option row_choice = {"c", FERRY_OPTION_CHOICE, 0, "warn", "error|warn|info", ""};
static const struct ferry_option row_set = {"m", FERRY_OPTION_SET, 0, "", "delay|drop|seed=|rate=", ""};

static void takes(const struct ferry_option *row, const char *text, struct ferry_value *value)
{
    struct ferry_error error = {.status = 12345};

    memset(value, 0xa5, sizeof(*value));
    if (fy_option_parse(row, "FERRY_X", text, value, &error) != FERRY_OK)
        fail_msg("'%s' was refused: %s", text, error.message);
    assert_int_equal(error.status, 12345); /* success leaves the record alone */
}

static void takes_number(const struct ferry_option *row, const char *text, int64_t number)
{
    struct ferry_value value;

    takes(row, text, &value);
    if (value.number != number)
        fail_msg("'%s' is %lld, not %lld", text, (long long)value.number, (long long)number);
}

static void takes_seconds(const char *text, double seconds)
{
    struct ferry_value value;

    takes(&row_seconds, text, &value);
    if (value.seconds < seconds * (1 - 1e-12) || value.seconds > seconds * (1 + 1e-12))
        fail_msg("'%s' is %.17g, not %.17g", text, value.seconds, seconds);
}

/* Refused, with this very message. */
static void refuses(const struct ferry_option *row, const char *variable, const char *text, const char *form)
{
    struct ferry_error error;
    struct ferry_value value;
    char message[400];

    if (fy_option_parse(row, variable, text, &value, &error) != FERRY_ERR_CONFIG)
        fail_msg("'%s' was taken for %s", text, row->name);
    snprintf(message, sizeof(message), "%s is '%s', which is not %s", variable, text, form);
    assert_string_equal(error.message, message);
    assert_int_equal(error.status, FERRY_ERR_CONFIG);
    assert_int_equal(error.size, sizeof(error));
    assert_int_equal(error.peer, -1);
    assert_non_null(strstr(error.hint, row->initial));
    assert_non_null(strstr(error.hint, variable));
    assert_int_equal(value.number, 0);
    assert_null(value.string);
}

static void test_bool(void **state)
{
    static const char *const no[] = {"0", "no", "off", "false"}, *const yes[] = {"1", "yes", "on", "true"};
    static const char *const bad[] = {"", "2", "Yes", "yes ", " 1", "tru", "truee", "-1", "01"};

    (void)state;
    for (size_t i = 0; i < 4; i++) {
        takes_number(&row_bool, no[i], 0);
        takes_number(&row_bool, yes[i], 1);
    }
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        refuses(&row_bool, "FERRY_B", bad[i], BOOL_FORM);
}

static void test_int(void **state)
{
    static const char *const bad[] = {"",
                                      "-",
                                      "--1",
                                      "+1",
                                      " 1",
                                      "1 ",
                                      "1.5",
                                      "0x",
                                      "0xg",
                                      "x1",
                                      "1K",
                                      "1e3",
                                      "١",
                                      "- 1",
                                      "9223372036854775808",
                                      "-9223372036854775809",
                                      "0x8000000000000000",
                                      "99999999999999999999999999999999999999999999"};

    (void)state;
    takes_number(&row_int, "0", 0);
    takes_number(&row_int, "-0", 0);
    takes_number(&row_int, "42", 42);
    takes_number(&row_int, "-5", -5);
    takes_number(&row_int, "010", 10); /* decimal, not octal */
    takes_number(&row_int, "0x1f", 31);
    takes_number(&row_int, "0XfF", 255);
    takes_number(&row_int, "-0x10", -16);
    takes_number(&row_int, "9223372036854775807", INT64_MAX);
    takes_number(&row_int, "-9223372036854775808", INT64_MIN);
    takes_number(&row_int, "0x7fffffffffffffff", INT64_MAX);
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        refuses(&row_int, "FERRY_I", bad[i], INT_FORM);
}

static void test_size(void **state)
{
    static const char *const bad[] = {"",
                                      "12Q",
                                      "-5",
                                      "-0",
                                      "M",
                                      "64MB",
                                      "64 M",
                                      " 64M",
                                      "64M ",
                                      "1.5G",
                                      "0x",
                                      "8E",
                                      "16384P",
                                      "9223372036854775808",
                                      "9007199254740992K",
                                      "1KK",
                                      "1\xc2\xb5"};

    (void)state;
    takes_number(&row_size, "0", 0);
    takes_number(&row_size, "4096", 4096);
    takes_number(&row_size, "1K", 1024);
    takes_number(&row_size, "64M", 64ll << 20);
    takes_number(&row_size, "64m", 64ll << 20);
    takes_number(&row_size, "2G", 2ll << 30);
    takes_number(&row_size, "3T", 3ll << 40);
    takes_number(&row_size, "1P", 1ll << 50);
    takes_number(&row_size, "1E", 1ll << 60); /* well formed; the machine refuses it */
    takes_number(&row_size, "7E", 7ll << 60);
    takes_number(&row_size, "0x1E", 30); /* a digit, not a unit */
    takes_number(&row_size, "0x10K", 16384);
    takes_number(&row_size, "9223372036854775807", INT64_MAX);
    takes_number(&row_size, "9007199254740991K", 9007199254740991ll << 10);
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        refuses(&row_size, "FERRY_HEAP_SIZE", bad[i], SIZE_FORM);
}

static void test_seconds(void **state)
{
    static const char *const bad[] = {"",    ".",   "s",   "ms",   "-1",  "+1",    " 1",         "1 ",  "1m",  "1sec",
                                      "1e3", "nan", "inf", "0x10", "1,5", "1.5.1", "1000000001", "1us", "1mx", "1ss"};
    char digits[400];

    (void)state;
    takes_seconds("0", 0);
    takes_seconds("60", 60);
    takes_seconds("2.5", 2.5);
    takes_seconds("2.5s", 2.5);
    takes_seconds("500ms", 0.5);
    takes_seconds("0.25ms", 0.00025);
    takes_seconds(".5", 0.5);
    takes_seconds("5.", 5);
    takes_seconds("1000000000", 1e9);
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        refuses(&row_seconds, "FERRY_S", bad[i], SECONDS_FORM);
    memset(digits, '9', sizeof(digits) - 1); /* as a double: infinite */
    digits[sizeof(digits) - 1] = '\0';
    struct ferry_value value;
    struct ferry_error error;
    assert_int_equal(fy_option_parse(&row_seconds, "FERRY_S", digits, &value, &error), FERRY_ERR_CONFIG);
}

static void test_seconds_in_another_locale(void **state)
{
    (void)state;
    /* Where such a locale is installed, its decimal comma must change nothing. */
    setlocale(LC_ALL, "de_DE.UTF-8");
    takes_seconds("1.25", 1.25);
    refuses(&row_seconds, "FERRY_S", "1,25", SECONDS_FORM);
    setlocale(LC_ALL, "C");
}

static void test_string(void **state)
{
    static const char *const any[] = {"", " ", "a=b", "\n", "x,y|z"};
    struct ferry_value value;

    (void)state;
    for (size_t i = 0; i < sizeof(any) / sizeof(any[0]); i++) {
        takes(&row_string, any[i], &value);
        assert_ptr_equal(value.string, any[i]);
    }
}

static void test_choice(void **state)
{
    static const char *const bad[] = {"", "war", "warning", "error|warn", "|", "WARN", "info ", "error|"};
    static const char *const good[] = {"error", "warn", "info"};
    struct ferry_value value;

    (void)state;
    for (size_t i = 0; i < 3; i++) {
        takes(&row_choice, good[i], &value);
        assert_int_equal(value.number, i);
        assert_string_equal(value.string, good[i]);
    }
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        refuses(&row_choice, "FERRY_C", bad[i], "one of error|warn|info");
}

static void test_set(void **state)
{
    static const char *const good[] = {"", "delay", "drop,delay", "seed=1", "delay,seed=-7,rate=0x10"};
    static const char *const bad[] = {",",         "delay,",     ",delay",      "delay,,drop",
                                      "dela",      "delay drop", "delay=1",     "seed",
                                      "seed=",     "seed=x",     "seed=1=2",    "seed=1.5",
                                      "=",         "=1",         "delay, drop", "seed=99999999999999999999",
                                      "delay|drop"};
    struct ferry_value value;

    (void)state;
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        takes(&row_set, good[i], &value);
        assert_ptr_equal(value.string, good[i]);
    }
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        refuses(&row_set, "FERRY_M", bad[i],
                "a list, separated by commas, out of delay|drop|seed=|rate= (a number behind =)");
}

static void test_long_and_dirty_values_are_tamed(void **state)
{
    char text[1001];
    struct ferry_value value;
    struct ferry_error error;

    (void)state;
    memset(text, 'x', 1000);
    text[1000] = '\0';
    assert_int_equal(fy_option_parse(&row_size, "FERRY_HEAP_SIZE", text, &value, &error), FERRY_ERR_CONFIG);
    assert_non_null(strstr(error.message, "xxx...', which is not " SIZE_FORM));
    assert_int_equal(fy_option_parse(&row_int, "FERRY_I", "1\x1b[2J\n\x7f", &value, &error), FERRY_ERR_CONFIG);
    assert_string_equal(error.message, "FERRY_I is '1?[2J?"
                                       "?', which is not " INT_FORM);
}

/* Rows come from plugins too. */
static void test_malformed_rows(void **state)
{
    static const struct ferry_option choice = {"c", FERRY_OPTION_CHOICE, 0, "a", NULL, ""};
    static const struct ferry_option set = {"c", FERRY_OPTION_SET, 0, "a", NULL, ""};
    static const struct ferry_option type = {"c", 77, 0, NULL, NULL, ""};
    struct ferry_value value;
    struct ferry_error error;

    (void)state;
    assert_int_equal(fy_option_parse(&choice, "FERRY_C", "a", &value, &error), FERRY_ERR_CONFIG);
    assert_non_null(strstr(error.message, "FERRY_C"));
    assert_int_equal(fy_option_parse(&set, "FERRY_C", "", &value, &error), FERRY_ERR_CONFIG);
    assert_int_equal(fy_option_parse(&type, "FERRY_C", "a", &value, &error), FERRY_ERR_CONFIG);
    assert_non_null(strstr(error.message, "type 77"));
    assert_int_equal(fy_option_parse(&row_int, "FERRY_I", "x", &value, NULL),
                     FERRY_ERR_CONFIG); /* no record asked for */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bool),
        cmocka_unit_test(test_int),
        cmocka_unit_test(test_size),
        cmocka_unit_test(test_seconds),
        cmocka_unit_test(test_seconds_in_another_locale),
        cmocka_unit_test(test_string),
        cmocka_unit_test(test_choice),
        cmocka_unit_test(test_set),
        cmocka_unit_test(test_long_and_dirty_values_are_tamed),
        cmocka_unit_test(test_malformed_rows),
    };

    return cmocka_run_group_tests_name("base option values", tests, NULL, NULL);
}
