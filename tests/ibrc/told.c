/* SPDX-License-Identifier: Apache-2.0
 * See told.h.
 * Main thread of a test. */
#include "told.h"

#include <stdio.h>
#include <string.h>

static void keep(void *arg, const struct ferry_finding *f)
{
    struct told *t = arg;

    assert_true(t->n < TOLD_MAX);
    t->rows[t->n].level = f->level;
    snprintf(t->rows[t->n].object, sizeof t->rows[0].object, "%s", f->object);
    snprintf(t->rows[t->n].text, sizeof t->rows[0].text, "%s", f->text);
    snprintf(t->rows[t->n].advice, sizeof t->rows[0].advice, "%s", f->advice);
    t->n++;
}

static uint32_t place_all(const struct host *host, struct ferry_place *places)
{
    uint32_t n = 0;

    for (; host->nodes[n]; n++) {
        places[n] = (struct ferry_place){.size = sizeof places[0], .pe = n};
        if (host->nodes[n] != '-')
            places[n].nodes = UINT64_C(1) << (host->nodes[n] - '0');
        if (host->gpu)
            snprintf(places[n].gpu, sizeof places[n].gpu, "%s", host->gpu);
    }
    return n;
}

void told_ask(struct told *told, uint32_t kind, const struct host *host, const char *const *set)
{
    struct ferry_place places[TOLD_MAX];
    struct ferry_report ask = {.size = sizeof ask, .kind = kind, .n_channels = 64, .tell = keep, .arg = told};

    memset(told, 0, sizeof *told);
    stub_init(&told->stub, set);
    ask.places = places;
    ask.n_places = place_all(host, places);
    assert_int_equal(plugin()->report(&told->stub.core, &ask), FERRY_OK);
    assert_int_equal(fakeverbs_live(), 0);
}

int told_has(const struct told *told, const char *object)
{
    for (size_t i = 0; i < told->n; i++)
        if (strcmp(told->rows[i].object, object) == 0)
            return 1;
    return 0;
}

size_t told_find(const struct told *told, const char *object)
{
    for (size_t i = 0; i < told->n; i++)
        if (strcmp(told->rows[i].object, object) == 0)
            return i;
    for (size_t i = 0; i < told->n; i++)
        print_message("%u %s: %s\n", told->rows[i].level, told->rows[i].object, told->rows[i].text);
    fail_msg("nothing about %s", object);
    return 0;
}

void told_is(const struct told *told, const char *object, uint32_t level, const char *text, const char *advice)
{
    size_t i = told_find(told, object);

    if (told->rows[i].level != level || !strstr(told->rows[i].text, text) || !strstr(told->rows[i].advice, advice))
        fail_msg("%s: level %u, '%s', '%s'", object, told->rows[i].level, told->rows[i].text, told->rows[i].advice);
    if (level != FERRY_FINDING_OK && !told->rows[i].advice[0])
        fail_msg("%s: no advice", object);
}

static char *lines; /* of told_open, while it runs */
static size_t lines_size;

static void keep_line(const struct ferry_core *core, int level, const char *format, ...)
{
    size_t used = strlen(lines);
    va_list args;

    (void)core;
    if (level > FERRY_LOG_INFO || used + 2 > lines_size)
        return;
    va_start(args, format);
    vsnprintf(lines + used, lines_size - used - 1, format, args);
    va_end(args);
    strcat(lines, "\n");
}

int told_open(struct told *told, const struct host *host, uint32_t me, const char *const *set, char *log, size_t size)
{
    struct ferry_place places[TOLD_MAX];
    struct ferry_open how = {.size = sizeof how, .my_pe = me, .max_channels = 8, .my_place = me};
    struct ferry_transport *t = NULL;
    int rc;

    memset(told, 0, sizeof *told);
    stub_init(&told->stub, set);
    told->stub.core.log = keep_line;
    lines = log;
    lines_size = size;
    log[0] = '\0';
    how.places = places;
    how.n_pes = how.n_places = place_all(host, places);
    rc = plugin()->open(&told->stub.core, &how, &t);
    if (!rc)
        ops()->close(t);
    assert_int_equal(fakeverbs_live(), 0);
    return rc;
}
