/* SPDX-License-Identifier: Apache-2.0
 * The order of events that the contract promises for a program: a graph, and what follows from it. PE 0. */
#include "random.h"

#include <stdlib.h>
#include <string.h>

#define NODES (RANDOM_OPS * EVENTS)
#define LANES (NODES / 64)

struct random_order {
    const struct random_program *program;
    uint64_t after[NODES][LANES]; /* bit b of a: a comes before b */
};

static int node(int index, enum random_event event)
{
    return index * EVENTS + (int)event;
}

void random_order_add(struct random_order *order, int a, enum random_event ea, int b, enum random_event eb)
{
    int from = node(a, ea), to = node(b, eb);

    order->after[from][to / 64] |= (uint64_t)1 << (to % 64);
}

bool random_before(const struct random_order *order, int a, enum random_event ea, int b, enum random_event eb)
{
    int to = node(b, eb);

    return order->after[node(a, ea)][to / 64] >> (to % 64) & 1;
}

bool random_order_close(struct random_order *order, int *index)
{
    int n = order->program->n * EVENTS;

    for (int k = 0; k < n; k++)
        for (int i = 0; i < n; i++)
            if (order->after[i][k / 64] >> (k % 64) & 1)
                for (int l = 0; l < LANES; l++)
                    order->after[i][l] |= order->after[k][l];
    for (int i = 0; i < n; i++) {
        *index = i / EVENTS;
        if (order->after[i][i / 64] >> (i % 64) & 1)
            return false;
    }
    return true;
}

/* Everything about one operation. */
static void add_own(struct random_order *order, int i, const struct random_op *op)
{
    random_order_add(order, i, EVENT_ISSUE, i, EVENT_RETURN);
    random_order_add(order, i, EVENT_ISSUE, i, EVENT_START);
    random_order_add(order, i, EVENT_START, i, EVENT_END);
    random_order_add(order, i, EVENT_ISSUE, i, EVENT_UPDATE);
    if (random_signals(op) && op->kind != RANDOM_SIGNAL)
        random_order_add(order, i, EVENT_END, i, EVENT_UPDATE);
    if (op->kind == RANDOM_GET || op->kind == RANDOM_LOOK)
        random_order_add(order, i, EVENT_END, i, EVENT_RETURN);
    if (random_fetches(op))
        random_order_add(order, i, EVENT_UPDATE, i, EVENT_RETURN);
}

/* What is complete when `b` returns. */
static void add_completion(struct random_order *order, int a, int b)
{
    random_order_add(order, a, EVENT_END, b, EVENT_RETURN);
    random_order_add(order, a, EVENT_UPDATE, b, EVENT_RETURN);
}

/* A failed compare-and-swap changes nothing, so that nothing of it is ordered. */
static bool ordered_behind(const struct random_op *op)
{
    return random_signals(op) || (op->kind == RANDOM_AMO && op->amo.kind != AMO_FETCH && op->amo.kind != AMO_CSWAP);
}

static void add_fenced(struct random_order *order, int a, int b)
{
    const struct random_op *from = &order->program->op[a], *to = &order->program->op[b];

    for (int e = EVENT_END; e <= EVENT_UPDATE; e++) {
        if (e == EVENT_END ? !random_puts(from) : !random_updates(from))
            continue;
        if (random_puts(to))
            random_order_add(order, a, (enum random_event)e, b, EVENT_START);
        if (ordered_behind(to))
            random_order_add(order, a, (enum random_event)e, b, EVENT_UPDATE);
    }
}

static bool barrier(const struct random_op *op)
{
    return op->kind == RANDOM_BARRIER || op->kind == RANDOM_SYNC;
}

/* b is the operation that returns later, in the order of the program; fences: on a's context since then. */
static void add_pair(struct random_order *order, int a, int b, bool fenced)
{
    const struct random_op *from = &order->program->op[a], *to = &order->program->op[b];
    bool stream = from->ctx == to->ctx;

    if ((to->kind == RANDOM_QUIET && stream) || (to->kind == RANDOM_QUIET_PE && stream && from->target == to->target))
        add_completion(order, a, b);
    if (stream && from->target == to->target && random_signals(to) && !to->weak && random_puts(from))
        random_order_add(order, a, EVENT_END, b, EVENT_UPDATE);
    if (stream && from->target == to->target && fenced)
        add_fenced(order, a, b);
}

static void add_after(struct random_order *order, int a)
{
    const struct random_program *p = order->program;
    bool fenced = false, next = true;

    for (int b = a + 1; b < p->n; b++) {
        const struct random_op *to = &p->op[b];
        if (to->off || to->pe != p->op[a].pe)
            continue;
        if (next)
            random_order_add(order, a, EVENT_RETURN, b, EVENT_ISSUE);
        next = false;
        add_pair(order, a, b, fenced);
        fenced |= to->kind == RANDOM_FENCE && to->ctx == p->op[a].ctx;
    }
}

/* Between PEs: a signal and who waits for it; a barrier. */
static void add_between(struct random_order *order, int a, int b)
{
    const struct random_op *from = &order->program->op[a], *to = &order->program->op[b];

    if (to->kind == RANDOM_WAIT && a < b && random_signals(from) && from->target == to->pe && from->word == to->word)
        random_order_add(order, a, EVENT_UPDATE, b, EVENT_RETURN);
    if (barrier(from) && from->group == to->group)
        random_order_add(order, a, EVENT_ISSUE, b, EVENT_RETURN);
    if (from->ctx != 0 || to->kind != RANDOM_BARRIER)
        return;
    for (int own = a + 1; own < order->program->n; own++) /* the barrier of a's PE completes its default context */
        if (order->program->op[own].pe == from->pe && order->program->op[own].group == to->group)
            add_completion(order, a, b);
}

struct random_order *random_order_new(const struct random_program *program)
{
    struct random_order *order = calloc(1, sizeof *order);

    if (!order)
        return NULL;
    order->program = program;
    for (int a = 0; a < program->n; a++) {
        if (program->op[a].off)
            continue;
        add_own(order, a, &program->op[a]);
        add_after(order, a);
        for (int b = 0; b < program->n; b++)
            if (!program->op[b].off)
                add_between(order, a, b);
    }
    return order;
}

void random_order_free(struct random_order *order)
{
    free(order);
}
