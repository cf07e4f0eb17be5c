/* SPDX-License-Identifier: Apache-2.0
 * Which bytes a get, a look, or the end of a program may show: for each stretch that is written by the same puts, the
 * puts that may be the last. PE 0. */
#include "random.h"

#include <stdlib.h>

#define EDGES (2 * RANDOM_OPS + 2)

/* Bytes that are looked at: by operation `reader`, or at the end (-1). */
struct view {
    const struct random_program *program;
    const struct random_order *order;
    int reader, pe;
    size_t offset, length;
    const uint8_t *seen;
    int n, put[RANDOM_OPS]; /* those that touch it */
};

static bool covers(const struct random_op *op, size_t at)
{
    return at >= op->offset && at < op->offset + op->length;
}

static struct view view_of(const struct random_program *p, const struct random_order *order, int reader, int pe)
{
    const struct random_op *op = reader >= 0 ? &p->op[reader] : NULL;
    struct view v = {.program = p, .order = order, .reader = reader, .pe = pe, .length = RANDOM_AREA};

    v.seen = op ? op->buffer : p->after[pe]->data;
    if (op) {
        v.offset = op->offset;
        v.length = op->length;
    }
    for (int i = 0; i < p->n; i++)
        if (!p->op[i].off && random_puts(&p->op[i]) && p->op[i].target == pe)
            v.put[v.n++] = i;
    return v;
}

static int by_size(const void *a, const void *b)
{
    size_t x = *(const size_t *)a, y = *(const size_t *)b;

    return x < y ? -1 : x > y;
}

/* Where the set of puts may change, from the start of the view to its end. */
static int stretches(const struct view *v, size_t edges[EDGES])
{
    int n = 0;

    edges[n++] = v->offset;
    edges[n++] = v->offset + v->length;
    for (int i = 0; i < v->n; i++) {
        const struct random_op *op = &v->program->op[v->put[i]];
        if (op->offset > v->offset && op->offset < v->offset + v->length)
            edges[n++] = op->offset;
        if (op->offset + op->length > v->offset && op->offset + op->length < v->offset + v->length)
            edges[n++] = op->offset + op->length;
    }
    qsort(edges, (size_t)n, sizeof *edges, by_size);
    return n;
}

/* Put w (-1: what was there) was certainly replaced before the view was taken. */
static bool replaced(const struct view *v, int w, size_t at)
{
    for (int i = 0; i < v->n; i++) {
        int other = v->put[i];
        if (other == w || !covers(&v->program->op[other], at))
            continue;
        if (w >= 0 && !random_before(v->order, w, EVENT_END, other, EVENT_START))
            continue;
        if (v->reader < 0 || random_before(v->order, other, EVENT_END, v->reader, EVENT_START))
            return true;
    }
    return false;
}

static int candidates(const struct view *v, size_t at, int out[RANDOM_OPS + 1])
{
    int n = 0;

    for (int i = 0; i < v->n; i++) {
        int w = v->put[i];
        if (!covers(&v->program->op[w], at) || replaced(v, w, at))
            continue;
        if (v->reader < 0 || !random_before(v->order, v->reader, EVENT_END, w, EVENT_START))
            out[n++] = w;
    }
    if (!replaced(v, -1, at))
        out[n++] = -1;
    return n;
}

static uint8_t value_of(const struct view *v, int w, size_t at)
{
    return w < 0 ? v->program->before[v->pe]->data[at] : random_byte(v->program, w, at);
}

static bool wrong(const struct view *v, size_t at, const int *list, int n, char *why, size_t size)
{
    int used = snprintf(why, size, "byte %zu of pe %d, seen by %s %d, is 0x%02x; allowed:", at, v->pe,
                        v->reader < 0 ? "the end" : "operation", v->reader, v->seen[at - v->offset]);

    for (int i = 0; i < n && used >= 0 && (size_t)used < size; i++)
        used += list[i] < 0
                    ? snprintf(why + used, size - (size_t)used, " what was there (0x%02x)", value_of(v, -1, at))
                    : snprintf(why + used, size - (size_t)used, " put %d (0x%02x)", list[i], value_of(v, list[i], at));
    return false;
}

static bool stretch_allowed(const struct view *v, size_t from, size_t to, char *why, size_t size)
{
    int list[RANDOM_OPS + 1], n = candidates(v, from, list), last = 0;

    for (size_t at = from; at < to; at++) {
        uint8_t seen = v->seen[at - v->offset];
        int tried = 0;
        while (tried < n && value_of(v, list[last], at) != seen) {
            last = (last + 1) % n;
            tried++;
        }
        if (tried == n)
            return wrong(v, at, list, n, why, size);
    }
    return true;
}

static bool view_allowed(const struct view *v, char *why, size_t size)
{
    size_t edges[EDGES];
    int n = stretches(v, edges);

    for (int i = 0; i + 1 < n; i++)
        if (edges[i] < edges[i + 1] && !stretch_allowed(v, edges[i], edges[i + 1], why, size))
            return false;
    return true;
}

bool random_data_allowed(const struct random_program *program, const struct random_order *order, char *why, size_t size)
{
    for (int i = 0; i < program->n; i++) {
        if (program->op[i].off || !random_reads(&program->op[i]))
            continue;
        struct view v = view_of(program, order, i, program->op[i].target);
        if (!view_allowed(&v, why, size))
            return false;
    }
    for (int pe = 0; pe < program->pes; pe++) {
        struct view v = view_of(program, order, -1, pe);
        if (!view_allowed(&v, why, size))
            return false;
    }
    return true;
}

/* The byte at the start of a stretch tells which put was seen, if only one could have left that value. */
static void order_of_byte(const struct view *v, struct random_order *order, size_t at)
{
    uint8_t seen = v->seen[at - v->offset];
    int from = -2, writers = 0;

    for (int i = -1; i < v->n; i++) {
        int w = i < 0 ? -1 : v->put[i];
        if ((w < 0 || covers(&v->program->op[w], at)) && value_of(v, w, at) == seen) {
            from = w;
            writers++;
        }
    }
    if (writers != 1)
        return;
    if (from >= 0) {
        random_order_add(order, from, EVENT_START, v->reader, EVENT_END);
        return;
    }
    for (int i = 0; i < v->n; i++) /* it came before all of them */
        if (covers(&v->program->op[v->put[i]], at))
            random_order_add(order, v->reader, EVENT_START, v->put[i], EVENT_END);
}

void random_data_order(const struct random_program *program, struct random_order *order)
{
    for (int r = 0; r < program->n; r++) {
        size_t edges[EDGES];
        if (program->op[r].off || !random_reads(&program->op[r]))
            continue;
        struct view v = view_of(program, order, r, program->op[r].target);
        int n = stretches(&v, edges);
        for (int i = 0; i + 1 < n; i++)
            if (edges[i] < edges[i + 1])
                order_of_byte(&v, order, edges[i]);
    }
}
