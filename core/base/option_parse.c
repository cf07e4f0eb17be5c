/* SPDX-License-Identifier: Apache-2.0
 * Turns the text of one option into its value, or into a message that says what is accepted.
 * Pure functions, independent of the locale; any thread. */
#include "option.h"
#include <stdio.h>
#include <string.h>

#define SECONDS_MAX 1000000000.0 /* 31 years; as nanoseconds it still fits 64 bits */
#define QUOTED_MAX  64           /* bytes of a bad value that a message repeats */

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static int digit_value(char c)
{
    if (is_digit(c))
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    if (c >= 'A' && c <= 'F')
        return c - 'A' + 10;
    return 16;
}

/* Decimal or 0x…; *text moves behind what was read. False: no digit, or more than `max`. */
static bool read_natural(const char **text, const char *end, uint64_t max, uint64_t *number)
{
    const char *p = *text;
    unsigned base = 10;
    uint64_t n = 0;

    if (end - p > 2 && p[0] == '0' && (p[1] == 'x' || p[1] == 'X')) {
        base = 16;
        p += 2;
    }
    const char *first = p;
    for (; p < end && (unsigned)digit_value(*p) < base; p++) {
        uint64_t digit = (uint64_t)digit_value(*p);

        if (n > (max - digit) / base)
            return false;
        n = n * base + digit;
    }
    *text = p;
    *number = n;
    return p > first;
}

static bool parse_integer(const char *text, const char *end, int64_t *number)
{
    bool negative = text < end && *text == '-';
    uint64_t n;

    text += negative;
    if (!read_natural(&text, end, (uint64_t)INT64_MAX + negative, &n) || text != end)
        return false;
    *number = (int64_t)(negative ? 0 - n : n);
    return true;
}

static bool parse_size(const char *text, const char *end, int64_t *number)
{
    static const char units[] = "KMGTPE";
    unsigned shift = 0;
    uint64_t n;

    if (!read_natural(&text, end, INT64_MAX, &n))
        return false;
    if (text < end) {
        const char upper[2] = {(char)(*text >= 'a' && *text <= 'z' ? *text - 'a' + 'A' : *text), '\0'};
        const char *unit = strpbrk(units, upper);

        if (!unit)
            return false;
        shift = 10 * (unsigned)(unit - units + 1);
        text++;
    }
    if (text != end || n > (uint64_t)INT64_MAX >> shift)
        return false;
    *number = (int64_t)(n << shift);
    return true;
}

/* By hand: strtod would follow the locale, and take nan and 1e9. */
static bool parse_seconds(const char *text, const char *end, double *seconds)
{
    double value = 0, place = 1;
    bool any = false;

    for (; text < end && is_digit(*text); text++, any = true)
        value = value * 10 + (*text - '0');
    if (text < end && *text == '.')
        for (text++; text < end && is_digit(*text); text++, any = true)
            value += (*text - '0') * (place /= 10);
    if (!any)
        return false;
    if (end - text == 2 && text[0] == 'm' && text[1] == 's') {
        value /= 1000;
        text = end;
    } else if (end - text == 1 && *text == 's') {
        text = end;
    }
    *seconds = value;
    return text == end && value <= SECONDS_MAX;
}

static bool parse_bool(const char *text, int64_t *number)
{
    static const char *const words[] = {"0", "1", "no", "yes", "off", "on", "false", "true"};

    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        if (strcmp(text, words[i]) == 0) {
            *number = i % 2;
            return true;
        }
    }
    return false;
}

/* Index of [name, +n) in "a|b|c=", or -1. With `numbered`, only choices written NAME=, else only the others. */
static int64_t find_choice(const char *choices, const char *name, size_t n, bool numbered)
{
    int64_t index = 0;

    for (const char *p = choices; p; index++) {
        size_t length = strcspn(p, "|");
        bool has_number = length > 0 && p[length - 1] == '=';

        if (has_number == numbered && length - has_number == n && n > 0 && memcmp(p, name, n) == 0)
            return index;
        p = p[length] ? p + length + 1 : NULL;
    }
    return -1;
}

static bool parse_set(const char *choices, const char *text)
{
    if (*text == '\0')
        return true;
    for (const char *p = text; p;) {
        size_t length = strcspn(p, ",");
        const char *equals = memchr(p, '=', length);
        size_t name = equals ? (size_t)(equals - p) : length;
        int64_t number;

        if (find_choice(choices, p, name, equals != NULL) < 0)
            return false;
        if (equals && !parse_integer(equals + 1, p + length, &number))
            return false;
        p = p[length] ? p + length + 1 : NULL;
    }
    return true;
}

static bool parse(const struct ferry_option *row, const char *text, struct ferry_value *value)
{
    const char *end = text + strlen(text);

    switch (row->type) {
    case FERRY_OPTION_BOOL:
        return parse_bool(text, &value->number);
    case FERRY_OPTION_INT:
        return parse_integer(text, end, &value->number);
    case FERRY_OPTION_SIZE:
        return parse_size(text, end, &value->number);
    case FERRY_OPTION_SECONDS:
        return parse_seconds(text, end, &value->seconds);
    case FERRY_OPTION_STRING:
        value->string = text;
        return true;
    case FERRY_OPTION_CHOICE:
        value->string = text;
        value->number = find_choice(row->choices, text, strlen(text), false);
        return value->number >= 0;
    case FERRY_OPTION_SET:
        value->string = text;
        return parse_set(row->choices, text);
    default:
        return false;
    }
}

static void describe(const struct ferry_option *row, char *out, size_t size)
{
    switch (row->type) {
    case FERRY_OPTION_BOOL:
        snprintf(out, size, "one of 0, 1, no, yes, off, on, false, true");
        break;
    case FERRY_OPTION_INT:
        snprintf(out, size, "a whole number of 64 bits, as in 12, -1 or 0x1f");
        break;
    case FERRY_OPTION_SIZE:
        snprintf(out, size, "a number of bytes below 8E, alone or with one of K M G T P E, as in 4096, 64M or 2G");
        break;
    case FERRY_OPTION_SECONDS:
        snprintf(out, size, "a time from 0 to 1000000000 seconds, as in 10, 2.5s or 500ms");
        break;
    case FERRY_OPTION_CHOICE:
        snprintf(out, size, "one of %s", row->choices);
        break;
    case FERRY_OPTION_SET:
        snprintf(out, size, "a list, separated by commas, out of %s%s", row->choices,
                 strchr(row->choices, '=') ? " (a number behind =)" : "");
        break;
    default:
        snprintf(out, size, "a type that this library knows, not type %u", row->type);
        break;
    }
}

/* The value as a message may repeat it: short, on one line, nothing that a terminal would act on. */
static void quote(const char *text, char out[QUOTED_MAX + 4])
{
    size_t n = strnlen(text, QUOTED_MAX + 1);
    size_t shown = n > QUOTED_MAX ? QUOTED_MAX : n;

    for (size_t i = 0; i < shown; i++)
        out[i] = (unsigned char)text[i] < ' ' || text[i] == 127 ? '?' : text[i];
    memcpy(out + shown, "...", 4);
    if (n == shown)
        out[shown] = '\0';
}

int fy_option_parse(const struct ferry_option *row, const char *variable, const char *text, struct ferry_value *value,
                    struct ferry_error *error)
{
    bool listed = row->type == FERRY_OPTION_CHOICE || row->type == FERRY_OPTION_SET;
    char quoted[QUOTED_MAX + 4], form[160], hint[128];

    memset(value, 0, sizeof(*value));
    if (listed && !row->choices) {
        fy_error_set(error, FERRY_ERR_CONFIG, NULL, "%s: the row that describes this option lists no choices",
                     variable);
        return FERRY_ERR_CONFIG;
    }
    if (parse(row, text, value))
        return FERRY_OK;
    memset(value, 0, sizeof(*value));
    quote(text, quoted);
    describe(row, form, sizeof(form));
    snprintf(hint, sizeof(hint), "unset %s to have the default, %s", variable, row->initial ? row->initial : "");
    fy_error_set(error, FERRY_ERR_CONFIG, hint, "%s is '%s', which is not %s", variable, quoted, form);
    return FERRY_ERR_CONFIG;
}
