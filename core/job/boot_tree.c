/* SPDX-License-Identifier: Apache-2.0
 * Bootstrap collectives: contributions are gathered, or combined, up a binary tree and the result is sent down. The tree of a step
 * never changes: once a PE is gone no step can succeed. Control thread, except fy_tree_run (setup thread). */
#include "boot_internal.h"

#include "../base/reserve.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LEVELS 21 /* of a tree of FY_PES_MAX */

struct level {
    uint32_t from, to; /* ranks [from, to) */
};

/* The subtree below and with `pe`: on each level its ranks are consecutive. */
static int subtree_levels(uint32_t pe, uint32_t n, struct level levels[LEVELS])
{
    uint64_t from = pe, to = (uint64_t)pe + 1;
    int count = 0;
    while (from < n && count < LEVELS) {
        levels[count++] = (struct level){(uint32_t)from, to < n ? (uint32_t)to : n};
        from = 2 * from + 1;
        to = 2 * to + 1;
    }
    return count;
}

static uint32_t subtree_size(uint32_t pe, uint32_t n)
{
    struct level levels[LEVELS];
    uint32_t size = 0;
    for (int i = subtree_levels(pe, n, levels) - 1; i >= 0; i--)
        size += levels[i].to - levels[i].from;
    return size;
}

static void op_end(struct fy_boot *boot, struct fy_op *op)
{
    if (op->error.status == FERRY_OK && op->closing)
        boot->closed = true;
    else if (op->error.status == FERRY_OK)
        boot->joined = true;
    pthread_mutex_lock(&boot->lock);
    op->done = true;
    boot->op = NULL;
    pthread_cond_broadcast(&boot->changed);
    pthread_mutex_unlock(&boot->lock);
}

/* The op under way here, or NULL. */
static struct fy_op *op_current(struct fy_boot *boot)
{
    pthread_mutex_lock(&boot->lock);
    struct fy_op *op = boot->op && boot->op->started ? boot->op : NULL;
    pthread_mutex_unlock(&boot->lock);
    return op;
}

static struct fy_up op_header(const struct fy_op *op, uint32_t count)
{
    struct fy_up up = {.seq = op->seq, .count = count, .length = op->length, .closing = op->closing, .reduced = op->combine != NULL};
    memcpy(up.step, op->step, sizeof(up.step));
    return up;
}

/* Bytes of the result. */
static size_t op_bytes(const struct fy_boot *boot, const struct fy_op *op)
{
    return (op->combine ? 1 : boot->n) * op->length;
}

static void op_send_down(struct fy_boot *boot, const struct fy_op *op)
{
    struct fy_up down = op_header(op, boot->n);
    struct iovec parts[2] = {{&down, sizeof(down)}, {op->all, op_bytes(boot, op)}};
    for (struct fy_conn *conn = boot->hub.conns; conn; conn = conn->next)
        if (conn->role == FY_ROLE_CHILD && conn->state == FY_CONN_READY)
            fy_conn_send(conn, FY_FRAME_DOWN, boot->rank, parts, op->length ? 2 : 1);
}

static void op_send_up(struct fy_boot *boot, struct fy_op *op, struct fy_conn *parent)
{
    struct level levels[LEVELS];
    struct iovec parts[LEVELS + 1];
    struct fy_up up = op_header(op, op->n_subtree);
    int n = 0, runs = op->length && !op->combine ? subtree_levels(boot->rank, boot->n, levels) : 0;
    parts[n++] = (struct iovec){&up, sizeof(up)};
    if (op->combine)
        parts[n++] = (struct iovec){op->all, op->length};
    for (int i = 0; i < runs; i++)
        parts[n++] = (struct iovec){op->all + levels[i].from * op->length, (levels[i].to - levels[i].from) * op->length};
    fy_conn_send(parent, FY_FRAME_UP, boot->rank, parts, n);
    op->sent_up = true;
}

/* Passes the subtree on when it is complete. */
static void op_advance(struct fy_boot *boot, struct fy_op *op)
{
    if (op->n_have < op->n_subtree || op->sent_up)
        return;
    if (boot->rank == 0) {
        op_send_down(boot, op);
        op_end(boot, op);
        return;
    }
    struct fy_conn *parent = fy_loop_find(boot, FY_ROLE_PARENT, (boot->rank - 1) / 2);
    if (parent && parent->state == FY_CONN_READY)
        op_send_up(boot, op, parent);
}

/* Two PEs that are not in the same step: nothing can repair that, everybody is told. */
static void op_mismatch(struct fy_boot *boot, const struct fy_op *op, uint32_t pe, const struct fy_up *up)
{
    struct fy_fail fail = {.seq = up->seq, .final = 1, .status = FERRY_ERR_MISMATCH, .peer = (int32_t)pe};
    if (op->closing != (up->closing != 0)) {
        uint32_t closer = op->closing ? boot->rank : pe, other = op->closing ? pe : boot->rank;
        fail.status = FERRY_ERR_PEER;
        fail.peer = (int32_t)closer;
        snprintf(fail.text, sizeof(fail.text), "PE %u closes its job while PE %u is in '%s'", closer, other,
                 op->closing ? up->step : op->step);
    } else {
        snprintf(fail.text, sizeof(fail.text),
                 "PE %u is in '%s' (step %u, %llu bytes) while PE %u is in '%s' (step %u, %llu bytes)", pe, up->step,
                 up->seq, (unsigned long long)up->length, boot->rank, op->step, op->seq,
                 (unsigned long long)op->length);
    }
    fy_fail_spread(boot, &fail, NULL);
}

static bool same_step(const struct fy_op *op, const struct fy_up *up)
{
    if (op->closing || up->closing)
        return op->closing && up->closing;
    return op->seq == up->seq && op->length == up->length && (op->combine != NULL) == (up->reduced != 0) &&
           strncmp(op->step, up->step, sizeof(op->step)) == 0;
}

static void take_data(const struct fy_boot *boot, struct fy_op *op, uint32_t pe, const uint8_t *data)
{
    struct level levels[LEVELS];
    int n = subtree_levels(pe, boot->n, levels);
    for (int i = 0; i < n; i++) {
        uint32_t count = levels[i].to - levels[i].from;
        memset(op->have + levels[i].from, 1, count);
        op->n_have += count;
        if (op->length == 0 || op->combine)
            continue;
        memcpy(op->all + levels[i].from * op->length, data, count * op->length);
        data += count * op->length;
    }
    if (op->combine)
        op->combine(op->all, data);
}

/* Takes in what the subtree of `pe` contributed. False: it is for a later step, and to be kept. */
static bool op_take(struct fy_boot *boot, struct fy_op *op, uint32_t pe, const struct fy_up *up)
{
    if (!up->closing && up->seq <= boot->fail.seq)
        return true; /* from a step that was given up */
    if (!same_step(op, up)) {
        op_mismatch(boot, op, pe, up);
        return !up->closing; /* this PE will close too, now that its step has failed */
    }
    if (op->have[pe])
        return true;
    take_data(boot, op, pe, (const uint8_t *)(up + 1));
    op_advance(boot, op);
    return true;
}

static void op_begin(struct fy_boot *boot, struct fy_op *op)
{
    if (!op->closing)
        boot->entered = op->seq;
    op->n_subtree = subtree_size(boot->rank, boot->n);
    op->n_have = 1;
    op->have[boot->rank] = 1;
    if (op->length && !op->combine)
        memmove(op->all + boot->rank * op->length, op->mine, op->length); /* mine may be in place */
    fy_tree_check(boot);
    for (uint32_t i = 0; i < 2 && op_current(boot) == op; i++) {
        if (!boot->up[i] || !op_take(boot, op, 2 * boot->rank + 1 + i, boot->up[i]))
            continue;
        fy_bytes_put(boot->up[i]);
        boot->up[i] = NULL;
    }
}

void fy_tree_poll(struct fy_boot *boot)
{
    pthread_mutex_lock(&boot->lock);
    struct fy_op *op = boot->op;
    bool fresh = op && !op->started;
    if (fresh)
        op->started = true;
    pthread_mutex_unlock(&boot->lock);
    if (fresh)
        op_begin(boot, op);
    op = op_current(boot);
    if (op)
        op_advance(boot, op);
}

void fy_tree_check(struct fy_boot *boot)
{
    struct fy_op *op = op_current(boot);
    if (!op)
        return;
    pthread_mutex_lock(&boot->lock);
    bool known = fy_fail_known(boot, op, &op->error);
    pthread_mutex_unlock(&boot->lock);
    if (known)
        op_end(boot, op);
}

static bool up_good(const struct fy_frame *frame, struct fy_up *up, uint32_t count)
{
    if (frame->size < sizeof(*up) || up->count != count || up->length > FY_WIRE_BIG)
        return false;
    up->step[sizeof(up->step) - 1] = 0;
    return (up->reduced ? 1 : up->count) * up->length == frame->size - sizeof(*up);
}

static void on_up(struct fy_boot *boot, struct fy_conn *conn, const struct fy_frame *frame, struct fy_up *up)
{
    uint32_t pe = conn->pe;
    if (conn->role != FY_ROLE_CHILD || (pe - 1) / 2 != boot->rank || !up_good(frame, up, subtree_size(pe, boot->n))) {
        fy_loop_nonsense(boot, conn);
        return;
    }
    struct fy_op *op = op_current(boot);
    if (op && op_take(boot, op, pe, up))
        return;
    void **kept = &boot->up[pe - 2 * boot->rank - 1];
    fy_bytes_put(*kept); /* one per child, whatever it sends */
    *kept = up;
    conn->body = NULL;
}

static void on_down(struct fy_boot *boot, struct fy_conn *conn, const struct fy_frame *frame, struct fy_up *down)
{
    if (conn->role != FY_ROLE_PARENT || !up_good(frame, down, boot->n)) {
        fy_loop_nonsense(boot, conn);
        return;
    }
    fy_loop_flood(boot, conn, FY_FRAME_DOWN, down, frame->size);
    struct fy_op *op = op_current(boot);
    if (!op || !op->sent_up || !same_step(op, down))
        return; /* given up here */
    if (op->length)
        memcpy(op->all, down + 1, op_bytes(boot, op));
    op_end(boot, op);
}

void fy_tree_frame(struct fy_boot *boot, struct fy_conn *conn, const struct fy_frame *frame, void *body)
{
    if (frame->type == FY_FRAME_UP)
        on_up(boot, conn, frame, body);
    else
        on_down(boot, conn, frame, body);
}

uint64_t fy_tree_tick(struct fy_boot *boot, uint64_t now)
{
    struct fy_op *op = op_current(boot);
    if (!op || op->deadline == UINT64_MAX)
        return UINT64_MAX;
    if (now < op->deadline)
        return op->deadline;
    if (!op->closing)
        return fy_fail_late(boot, op, now);
    fy_error_set(&op->error, FERRY_ERR_TIMEOUT, NULL, "not every PE closes the job");
    op_end(boot, op);
    return UINT64_MAX;
}

void fy_tree_free(struct fy_boot *boot)
{
    fy_bytes_put(boot->up[0]);
    fy_bytes_put(boot->up[1]);
}

/* Hands the op to the control thread and waits. */
static bool op_hand_over(struct fy_boot *boot, struct fy_op *op)
{
    pthread_mutex_lock(&boot->lock);
    bool refused = boot->op != NULL;
    if (refused)
        fy_error_set(&op->error, FERRY_ERR_STATE, NULL, "'%s' while another thread is in a step", op->step);
    else
        op->seq = op->closing ? UINT32_MAX : ++boot->seq;
    refused = refused || fy_fail_known(boot, op, &op->error);
    if (!refused)
        boot->op = op;
    pthread_mutex_unlock(&boot->lock);
    return !refused;
}

int fy_tree_run(struct fy_boot *boot, struct fy_op *op, struct ferry_error *error)
{
    op->error.size = sizeof(op->error);
    op->have = calloc(boot->n, 1);
    if (!op->have) {
        fy_error_set(error, FERRY_ERR_NOMEM, NULL, "no memory for '%s'", op->step);
        return FERRY_ERR_NOMEM;
    }
    if (op_hand_over(boot, op)) {
        fy_loop_wake(boot);
        pthread_mutex_lock(&boot->lock);
        while (!op->done)
            pthread_cond_wait(&boot->changed, &boot->lock);
        pthread_mutex_unlock(&boot->lock);
    }
    free(op->have);
    if (op->error.status != FERRY_OK)
        *error = op->error;
    return op->error.status;
}
