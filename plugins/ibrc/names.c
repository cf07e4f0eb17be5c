/* SPDX-License-Identifier: Apache-2.0
 * What users write about devices: the list of FERRY_IBRC_DEVICES, the map of FERRY_IBRC_MAP, and the nearest name.
 * Setup thread; texts only. */
#include "devices.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ------------------------------------------------------------------ the list: A:1,B,^C */

/* One item of the list against one port. */
static int item_names(const char *item, size_t length, const char *device, unsigned port)
{
    const char *colon = memchr(item, ':', length);
    size_t name = colon ? (size_t)(colon - item) : length;

    if (name != strlen(device) || memcmp(item, device, name) != 0)
        return 0;
    return !colon || strtoul(colon + 1, NULL, 10) == port;
}

int fy_ib_listed(const char *list, const char *device, unsigned port)
{
    int named = 0, includes = 0;

    while (*list) {
        size_t length = strcspn(list, ",");
        int out = *list == '^';
        int hit = item_names(list + out, length - (size_t)out, device, port);
        if (hit && out)
            return -1;
        if (!out && length) {
            includes = 1;
            named |= hit;
        }
        list += length + (list[length] == ',');
    }
    return named || !includes;
}

/* NAME or NAME:PORT. */
static int port_ok(const char *text, size_t length)
{
    const char *colon = memchr(text, ':', length);
    size_t name = colon ? (size_t)(colon - text) : length, digits = colon ? length - name - 1 : 0;
    unsigned long port = digits && digits <= 3 ? strtoul(colon + 1, NULL, 10) : 0;

    if (!name || name >= IBV_SYSFS_NAME_MAX)
        return 0;
    return !colon || (port >= 1 && port <= 255 && strspn(colon + 1, "0123456789") >= digits);
}

int fy_ib_list_check(const char *list, char *why, size_t why_size)
{
    while (*list) {
        size_t length = strcspn(list, ",");
        int out = *list == '^';
        if (length && !port_ok(list + out, length - (size_t)out)) {
            snprintf(why, why_size, "FERRY_IBRC_DEVICES: '%.*s' is not NAME, NAME:PORT or one of them behind ^",
                     (int)(length < 80 ? length : 80), list);
            return FERRY_ERR_CONFIG;
        }
        list += length + (list[length] == ',');
    }
    return FERRY_OK;
}

/* ------------------------------------------------------------------ the map: 0=A:1+B;1-3=C;*=A */

/* Key of an entry: a number, a range, or a star. 0: none. */
static int read_key(const char *text, size_t length, uint32_t *first, uint32_t *last)
{
    unsigned long from, to;
    char *end;

    *first = 0;
    *last = UINT32_MAX;
    if (length == 1 && *text == '*')
        return 1;
    if (!length || *text < '0' || *text > '9')
        return 0;
    from = to = strtoul(text, &end, 10);
    if (*end == '-' && end[1] >= '0' && end[1] <= '9')
        to = strtoul(end + 1, &end, 10);
    *first = (uint32_t)from;
    *last = (uint32_t)to;
    return end == text + length && from <= to && to < UINT32_MAX;
}

static int entry_ok(const char *text, size_t length)
{
    const char *equals = memchr(text, '=', length), *end = text + length, *at;
    uint32_t first, last, n = 0;

    if (!equals || !read_key(text, (size_t)(equals - text), &first, &last))
        return 0;
    for (at = equals + 1; at <= end; n++) {
        size_t item = strcspn(at, "+;");
        if (!port_ok(at, item) || n == FY_IB_RAILS)
            return 0;
        at += item + 1;
    }
    return n > 0;
}

/* Whether an entry before `entry` says something of the same PE. */
static int named_before(const char *map, const char *entry, uint32_t *pe)
{
    uint32_t first, last, from, to;

    read_key(entry, strcspn(entry, "="), &first, &last);
    while (map < entry) {
        size_t length = strcspn(map, ";");
        if (length && (*map == '*') == (*entry == '*') && read_key(map, strcspn(map, "="), &from, &to) && from <= last &&
            to >= first) {
            *pe = from > first ? from : first;
            return 1;
        }
        map += length + (map[length] == ';');
    }
    return 0;
}

int fy_ib_map_check(const char *map, char *why, size_t why_size)
{
    const char *whole = map;
    uint32_t pe;

    while (*map) {
        size_t length = strcspn(map, ";");
        if (length && !entry_ok(map, length)) {
            snprintf(why, why_size,
                     "FERRY_IBRC_MAP: '%.*s' is not PE=PORT+PORT, where PE is a number on its host, a range 0-3, or *, "
                     "and at "
                     "most %d ports are NAME or NAME:PORT",
                     (int)(length < 60 ? length : 60), map, FY_IB_RAILS);
            return FERRY_ERR_CONFIG;
        }
        if (length && named_before(whole, map, &pe)) {
            if (*map == '*')
                snprintf(why, why_size, "FERRY_IBRC_MAP has * twice");
            else
                snprintf(why, why_size, "FERRY_IBRC_MAP names PE %u twice", pe);
            return FERRY_ERR_CONFIG;
        }
        map += length + (map[length] == ';');
    }
    return FERRY_OK;
}

/* An entry with numbers counts before *, wherever it stands. */
size_t fy_ib_map_find(const char *map, uint32_t local, const char **ports)
{
    size_t others = 0;

    while (*map) {
        size_t length = strcspn(map, ";");
        const char *equals = memchr(map, '=', length);
        uint32_t first, last;
        if (equals && read_key(map, (size_t)(equals - map), &first, &last) && local >= first && local <= last &&
            (*map != '*' || !others)) {
            *ports = equals + 1;
            others = length - (size_t)(equals + 1 - map);
            if (*map != '*')
                return others;
        }
        map += length + (map[length] == ';');
    }
    return others;
}

int fy_ib_map_next(const char **at, const char *end, char *name, unsigned *port)
{
    const char *text = *at, *colon;
    size_t length;

    if (text >= end)
        return 0;
    length = strcspn(text, "+;");
    colon = memchr(text, ':', length);
    *port = colon ? (unsigned)strtoul(colon + 1, NULL, 10) : 0;
    snprintf(name, IBV_SYSFS_NAME_MAX, "%.*s", (int)(colon ? colon - text : (long)length), text);
    *at = text + length + 1;
    return 1;
}

/* ------------------------------------------------------------------ the nearest name */

void fy_ib_suggest(const struct fy_ib_scan *s, const char *name, char *out, size_t size)
{
    unsigned length = (unsigned)strlen(name), near = length / 3 > 2 ? length / 3 : 2;
    const char *best = NULL;

    for (uint32_t i = 0; i < s->n; i++) {
        unsigned far = fy_plugin_edits(name, s->ports[i].name);
        if (far <= near && far < length) {
            best = s->ports[i].name;
            near = far ? far - 1 : 0;
        }
    }
    out[0] = '\0';
    if (best)
        snprintf(out, size, ", did you mean %.63s?", best);
}

static int here(const struct fy_ib_scan *s, const char *item, size_t length)
{
    const char *colon = memchr(item, ':', length);
    size_t name = colon ? (size_t)(colon - item) : length;

    for (uint32_t i = 0; i < s->n; i++)
        if (strlen(s->ports[i].name) == name && memcmp(s->ports[i].name, item, name) == 0)
            return 1;
    return 0;
}

int fy_ib_list_missing(const struct fy_ib_scan *s, char *why, size_t why_size)
{
    for (const char *list = s->o->devices; *list;) {
        size_t length = strcspn(list, ",");
        int out = *list == '^';
        if (length && !here(s, list + out, length - (size_t)out)) {
            char name[IBV_SYSFS_NAME_MAX], hint[96];
            snprintf(name, sizeof name, "%.*s", (int)strcspn(list + out, ",:"), list + out);
            fy_ib_suggest(s, name, hint, sizeof hint);
            snprintf(why, why_size, "FERRY_IBRC_DEVICES names %s, which is no device here%s", name, hint);
            return 1;
        }
        list += length + (list[length] == ',');
    }
    return 0;
}
