/* SPDX-License-Identifier: Apache-2.0
 * Steps that fail for everybody: a PE whose time is over asks the root, the root asks all control threads who has
 * arrived and tells everybody the same verdict. Control thread, except fy_fail_known. */
#include "boot_internal.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MS          1000000u
#define ANSWER_NS   (500 * MS)  /* the root waits that long for answers */
#define ASK_NS      (250 * MS)  /* beyond its own deadline a PE asks: the root's comes first */
#define ALONE_NS    (3000 * MS) /* beyond its deadline, without any verdict, a PE gives up alone */
#define LEVEL_NS    (50 * MS)   /* and so much later per level of the tree */
#define STRAGGLE_NS (1000 * MS) /* everybody arrived while the root asked */

bool fy_fail_known(const struct fy_boot *boot, const struct fy_op *op, struct ferry_error *error)
{
    /* closing together works, whatever has failed, as long as everybody lives */
    bool step = !op->closing, concerned = step || boot->fail.final == 2;
    if (boot->aborted && step) {
        fy_error_set(error, FERRY_ERR_ABORTED, NULL, "'%s': PE %u aborted the job with code %d", op->step,
                     boot->abort_by, boot->abort_code);
        error->peer = (int32_t)boot->abort_by;
    } else if (boot->n_dead > 0) {
        fy_error_set(error, FERRY_ERR_PEER, NULL, "'%s' needs every PE, and PE %u is dead: %s", op->step,
                     boot->first_dead, boot->first_why);
        error->peer = (int32_t)boot->first_dead;
    } else if (concerned && boot->fail.status != FERRY_OK && (boot->fail.final || op->seq <= boot->fail.seq)) {
        bool late = boot->fail.status == FERRY_ERR_TIMEOUT;
        fy_error_set(error, boot->fail.status, late ? "see what those PEs do; FERRY_TIMEOUT sets the time" : NULL, "%s",
                     boot->fail.text);
        error->peer = boot->fail.peer;
    } else if (boot->n_left > 0) {
        fy_error_set(error, FERRY_ERR_PEER, NULL, "'%s' needs every PE, and PE %u has closed its job", op->step,
                     boot->first_left);
        error->peer = (int32_t)boot->first_left;
    } else {
        return false;
    }
    return true;
}

void fy_fail_spread(struct fy_boot *boot, const struct fy_fail *fail, const struct fy_conn *from)
{
    if (boot->fail.final || (!fail->final && fail->seq <= boot->fail.seq))
        return;
    pthread_mutex_lock(&boot->lock);
    boot->fail = *fail;
    pthread_mutex_unlock(&boot->lock);
    fy_loop_flood(boot, from, FY_FRAME_FAIL, fail, sizeof(*fail));
    fy_tree_check(boot);
}

void fy_fail_lost(struct fy_boot *boot, uint32_t pe)
{
    struct fy_fail fail = {.seq = boot->entered, .final = 2, .status = FERRY_ERR_PEER, .peer = (int32_t)pe};
    if (boot->closed || boot->leaving || !fy_live(boot, pe))
        return;
    snprintf(fail.text, sizeof(fail.text),
             "a step of all PEs needs PE %u, and PE %u has lost the connection with it; nobody counts as dead (FERRY_PEER_TIMEOUT is 0)",
             pe, boot->rank);
    fy_fail_spread(boot, &fail, NULL);
}

static void inquiry_note(struct fy_boot *boot, const struct fy_here *here)
{
    struct fy_inquiry *q = &boot->inquiry;
    if (!q->active || here->seq != q->query.seq || here->rank >= boot->n || q->answered[here->rank])
        return;
    q->answered[here->rank] = 1;
    q->in[here->rank] = here->in != 0;
    if (++q->n_answered == boot->n)
        q->until = 0; /* nothing more to wait for; the next tick decides */
}

static struct fy_here own_answer(const struct fy_boot *boot, uint32_t seq)
{
    return (struct fy_here){.seq = seq, .rank = boot->rank, .in = boot->entered >= seq};
}

static void inquiry_end(struct fy_boot *boot)
{
    free(boot->inquiry.answered);
    boot->inquiry = (struct fy_inquiry){.active = false};
}

static void inquiry_start(struct fy_boot *boot, const struct fy_query *query, uint64_t now)
{
    struct fy_inquiry *q = &boot->inquiry;
    if (q->active || query->seq <= boot->fail.seq)
        return;
    q->answered = calloc(2, boot->n);
    if (!q->answered)
        return; /* PEs give up alone, a little later */
    q->in = q->answered + boot->n;
    q->active = true;
    q->query = *query;
    q->until = now + ANSWER_NS;
    fy_loop_flood(boot, NULL, FY_FRAME_QUERY, query, sizeof(*query));
    struct fy_here here = own_answer(boot, query->seq);
    inquiry_note(boot, &here);
}

static void inquiry_decide(struct fy_boot *boot, uint64_t now)
{
    char list[160];
    uint32_t first;
    struct fy_query query = boot->inquiry.query;
    uint32_t missing = fy_text_missing(list, sizeof(list), boot->inquiry.in, boot->n, &first);
    inquiry_end(boot);
    if (missing == 0) {
        pthread_mutex_lock(&boot->lock);
        if (boot->op && boot->op->seq == query.seq)
            boot->op->deadline = now + STRAGGLE_NS;
        pthread_mutex_unlock(&boot->lock);
        return;
    }
    struct fy_fail fail = {.seq = query.seq, .status = FERRY_ERR_TIMEOUT, .peer = (int32_t)first};
    snprintf(fail.text, sizeof(fail.text), "'%s': %s did not arrive within %g s", query.step, list, query.timeout);
    fy_fail_spread(boot, &fail, NULL);
}

uint64_t fy_fail_tick(struct fy_boot *boot, uint64_t now)
{
    if (!boot->inquiry.active)
        return UINT64_MAX;
    if (now < boot->inquiry.until)
        return boot->inquiry.until;
    inquiry_decide(boot, now);
    return UINT64_MAX;
}

/* Without the root nobody knows the whole list: says what is known here. */
static void give_up_alone(struct fy_boot *boot, const struct fy_op *op, bool connected)
{
    uint32_t parent = (boot->rank - 1) / 2;
    struct fy_fail fail = {.seq = op->seq, .status = FERRY_ERR_TIMEOUT, .peer = (int32_t)parent};
    const char *above = parent > 0 ? ", or one above it," : "";
    if (connected)
        snprintf(fail.text, sizeof(fail.text), "'%s': PE %u%s did not answer within %g s", op->step, parent, above,
                 op->timeout);
    else
        snprintf(fail.text, sizeof(fail.text), "'%s': no connection to PE %u within %g s", op->step, parent,
                 op->timeout);
    fy_fail_spread(boot, &fail, NULL);
}

/* Those nearer to the root give up first: they know better what is wrong, and tell those below. */
static uint64_t alone_after(const struct fy_boot *boot)
{
    uint64_t after = ALONE_NS;
    for (uint32_t pe = boot->rank; pe > 0; pe = (pe - 1) / 2)
        after += LEVEL_NS;
    return after;
}

uint64_t fy_fail_late(struct fy_boot *boot, struct fy_op *op, uint64_t now)
{
    struct fy_query query = {.seq = op->seq, .timeout = op->timeout};
    memcpy(query.step, op->step, sizeof(query.step));
    if (boot->rank == 0) {
        inquiry_start(boot, &query, now);
        return boot->inquiry.active ? boot->inquiry.until : now + ASK_NS;
    }
    struct fy_conn *parent = fy_loop_find(boot, FY_ROLE_PARENT, (boot->rank - 1) / 2);
    bool connected = parent && parent->state == FY_CONN_READY;
    uint64_t ask = op->deadline + ASK_NS, alone = op->deadline + alone_after(boot);
    if (now >= alone || (now >= ask && !connected)) {
        give_up_alone(boot, op, connected);
        return UINT64_MAX;
    }
    if (op->asked || now < ask)
        return op->asked ? alone : ask;
    op->asked = true;
    fy_conn_send1(parent, FY_FRAME_ASK, boot->rank, &query, sizeof(query));
    return alone;
}

static void to_parent(struct fy_boot *boot, uint16_t type, const void *data, size_t size)
{
    struct fy_conn *parent = fy_loop_find(boot, FY_ROLE_PARENT, boot->parent);
    if (parent && parent->state == FY_CONN_READY)
        fy_conn_send1(parent, type, boot->rank, data, size);
}

static void on_query(struct fy_boot *boot, struct fy_conn *conn, const struct fy_query *query)
{
    struct fy_here here = own_answer(boot, query->seq);
    fy_loop_flood(boot, conn, FY_FRAME_QUERY, query, sizeof(*query));
    fy_conn_send1(conn, FY_FRAME_HERE, boot->rank, &here, sizeof(here));
}

void fy_fail_frame(struct fy_boot *boot, struct fy_conn *conn, const struct fy_frame *frame, const void *body)
{
    bool up = conn->role == FY_ROLE_CHILD;
    if (frame->type == FY_FRAME_FAIL && frame->size == sizeof(struct fy_fail)) {
        struct fy_fail fail = *(const struct fy_fail *)body;
        fail.text[sizeof(fail.text) - 1] = 0;
        if (fail.status >= 0) /* a failure, whatever they say */
            fail.status = FERRY_ERR_BOOTSTRAP;
        fy_fail_spread(boot, &fail, conn);
    } else if (frame->type == FY_FRAME_HERE && frame->size == sizeof(struct fy_here) && up) {
        if (boot->rank == 0)
            inquiry_note(boot, body);
        else
            to_parent(boot, FY_FRAME_HERE, body, frame->size);
    } else if (frame->type != FY_FRAME_HERE && frame->size == sizeof(struct fy_query) &&
               up == (frame->type == FY_FRAME_ASK)) {
        struct fy_query query = *(const struct fy_query *)body;
        query.step[sizeof(query.step) - 1] = 0;
        if (!up)
            on_query(boot, conn, &query);
        else if (boot->rank == 0)
            inquiry_start(boot, &query, fy_now_ns());
        else
            to_parent(boot, FY_FRAME_ASK, &query, sizeof(query));
    } else {
        fy_loop_nonsense(boot, conn);
    }
}
