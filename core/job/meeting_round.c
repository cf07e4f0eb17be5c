/* SPDX-License-Identifier: Apache-2.0
 * The meeting's rounds: who may sit down, when a job is complete, and how it fails for all of its PEs.
 * The meeting's thread. */
#include "meeting.h"
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void fy_round_free(struct ferry_meeting *m)
{
    free(m->round.table);
    free(m->round.here);
    m->round = (struct fy_round){.size = 0};
}

static void round_next(struct ferry_meeting *m)
{
    fy_round_free(m);
    randombytes_buf(&m->round.job_id, sizeof(m->round.job_id));
    m->deadline = UINT64_MAX; /* until somebody comes */
}

static void conn_refuse(struct fy_conn *conn, int status, int peer, const char *text)
{
    conn->role = FY_REFUSED;
    conn->deadline = fy_deadline(FY_LINGER_S); /* it closes when it has read why; or we do */
    fy_auth_refuse(conn, status, peer, text);
}

static void refuse_newcomer(struct ferry_meeting *m, struct fy_conn *conn, int status, const char *text)
{
    fy_log(&m->log, FERRY_LOG_DEBUG, "meeting: refused a PE: %s", text);
    if (m->round.status == FERRY_OK)
        snprintf(m->round.note, sizeof(m->round.note), "; refused: %.140s", text);
    conn_refuse(conn, status, -1, text);
}

/* The first PE says how many there are. */
static bool seats_make(struct ferry_meeting *m, const struct fy_identity *who)
{
    struct fy_round *round = &m->round;
    if (round->size != 0)
        return true;
    round->table = calloc(who->size, sizeof(*round->table));
    round->here = calloc(who->size, 1);
    if (!round->table || !round->here) {
        free(round->table);
        free(round->here);
        round->table = NULL;
        round->here = NULL;
        return false;
    }
    round->size = who->size;
    round->said_by = who->rank;
    if (m->lasting)
        m->deadline = fy_deadline(m->timeout);
    return true;
}

static void here_note(struct fy_round *round, uint32_t rank)
{
    if (rank >= round->size || round->here[rank])
        return;
    round->here[rank] = 1;
    round->arrived++;
}

/* Nobody is left who has to be told of the failure. */
static void told_check(struct ferry_meeting *m)
{
    if (m->round.status == FERRY_OK || m->round.arrived < m->round.size)
        return;
    uint64_t soon = fy_deadline(FY_LINGER_S);
    if (m->lasting)
        round_next(m);
    else if (soon < m->deadline)
        m->deadline = soon;
}

void fy_round_fail(struct ferry_meeting *m, int status, int peer, const char *why)
{
    struct fy_round *round = &m->round;
    if (round->status != FERRY_OK || m->over)
        return;
    fy_log(&m->log, FERRY_LOG_DEBUG, "meeting: the job fails: %s", why);
    round->status = status;
    round->peer = peer;
    snprintf(round->why, sizeof(round->why), "%s", why);
    m->over = !m->lasting;
    if (m->lasting)
        m->deadline = UINT64_MAX;
    for (struct fy_conn *conn = m->hub.conns; conn; conn = conn->next)
        if (conn->role == FY_SEATED)
            conn_refuse(conn, status, peer, round->why);
    told_check(m);
}

void fy_round_late(struct ferry_meeting *m, double timeout)
{
    struct fy_round *round = &m->round;
    char text[400], list[160] = "nobody"; /* the tail may be cut off */
    uint32_t first;
    if (round->size > 0) {
        fy_text_missing(list, sizeof(list), round->here, round->size, &first);
        snprintf(text, sizeof(text), "%s of %u did not arrive within %g s%.100s", list, round->size, timeout,
                 round->note);
    } else {
        snprintf(text, sizeof(text), "nobody arrived within %g s", timeout);
    }
    fy_round_fail(m, FERRY_ERR_TIMEOUT, -1, text);
    if (!m->lasting)
        m->deadline = fy_deadline(FY_LINGER_S);
}

void fy_round_lost(struct ferry_meeting *m, struct fy_conn *conn)
{
    int role = conn->role;
    uint32_t pe = conn->pe;
    if (role == FY_GUEST)
        fy_log(&m->log, FERRY_LOG_DEBUG, "meeting: dropped a connection: %s", conn->why);
    fy_hub_drop(&m->hub, conn);
    if (role != FY_SEATED)
        return;
    char text[96];
    snprintf(text, sizeof(text), "PE %u left while the job was starting", pe);
    m->round.here[pe] = 0; /* should it come back, it is told */
    m->round.arrived--;
    fy_round_fail(m, FERRY_ERR_PEER, (int)pe, text);
}

static void fail_for_process(struct ferry_meeting *m, uint32_t rank)
{
    char text[96];
    snprintf(text, sizeof(text), "PE %u of %u is needed, and its process has ended", rank, m->round.size);
    fy_round_fail(m, FERRY_ERR_PEER, (int)rank, text);
}

void fy_round_ended(struct ferry_meeting *m, uint32_t rank)
{
    if (rank >= m->n_lost) {
        uint8_t *lost = realloc(m->lost, (size_t)rank + 1);
        if (!lost)
            return; /* the others wait for their time to pass */
        memset(lost + m->n_lost, 0, rank + 1 - m->n_lost);
        m->lost = lost;
        m->n_lost = rank + 1;
    }
    m->lost[rank] = 1;
    if (rank < m->round.size)
        fail_for_process(m, rank);
}

/* A job needs everybody: those who come after an end need not wait for it. */
static void lost_check(struct ferry_meeting *m)
{
    for (uint32_t rank = 0; rank < m->n_lost && rank < m->round.size; rank++)
        if (m->lost[rank] && !m->round.here[rank]) {
            fail_for_process(m, rank);
            return;
        }
}

static void table_send(struct ferry_meeting *m)
{
    struct fy_round *round = &m->round;
    struct iovec parts[] = {{&round->job_id, sizeof(round->job_id)},
                            {round->table, round->size * sizeof(*round->table)}};
    for (struct fy_conn *conn = m->hub.conns; conn; conn = conn->next) {
        if (conn->role != FY_SEATED)
            continue;
        conn->role = FY_SERVED;
        conn->deadline = fy_deadline(m->timeout);
        fy_conn_send(conn, FY_FRAME_TABLE, FY_NOBODY, parts, 2);
    }
    if (m->lasting) {
        round_next(m);
        return;
    }
    m->over = true;
    m->deadline = fy_deadline(FY_LINGER_S);
}

/* True: this PE belongs to the job that failed, and now knows it. One that knew already has begun again. */
static bool told_late(struct ferry_meeting *m, struct fy_conn *conn)
{
    struct fy_round *round = &m->round;
    uint32_t rank = conn->identity.rank;
    if (round->status == FERRY_OK)
        return false;
    if (m->lasting && rank < round->size && round->here[rank]) {
        round_next(m);
        return false;
    }
    conn_refuse(conn, round->status, round->peer, round->why);
    here_note(round, rank);
    told_check(m);
    return true;
}

/* Two PEs that cannot be of one job: there will be none. True: so it is. */
static bool disagrees(struct ferry_meeting *m, struct fy_conn *conn)
{
    const struct fy_identity *who = &conn->identity;
    struct fy_round *round = &m->round;
    char text[sizeof(round->why)];
    if (strcmp(who->version, FERRY_VERSION_STRING) != 0)
        snprintf(text, sizeof(text), "PE %u runs ferry %s, the id was made by ferry %s", who->rank, who->version,
                 FERRY_VERSION_STRING);
    else if (round->size != who->size)
        snprintf(text, sizeof(text), "PE %u says that the job has %u PEs, PE %u said %u", who->rank, who->size,
                 round->said_by, round->size);
    else
        return false;
    conn_refuse(conn, FERRY_ERR_MISMATCH, (int)who->rank, text);
    here_note(round, who->rank);
    fy_round_fail(m, FERRY_ERR_MISMATCH, (int)who->rank, text);
    return true;
}

static void take_seat(struct ferry_meeting *m, struct fy_conn *conn)
{
    struct fy_round *round = &m->round;
    conn->role = FY_SEATED;
    conn->pe = conn->identity.rank;
    round->table[conn->pe] = conn->identity.addr;
    here_note(round, conn->pe);
    fy_auth_welcome(conn, FY_WIRE_SMALL);
    if (round->arrived == round->size)
        table_send(m);
    else
        lost_check(m);
}

void fy_round_proven(struct ferry_meeting *m, struct fy_conn *conn)
{
    char text[200], addr[FY_ADDR_TEXT];
    const struct fy_identity *who = &conn->identity;
    if (who->purpose != FY_PURPOSE_JOIN || who->size == 0 || who->size > FY_PES_MAX || who->rank >= who->size) {
        snprintf(text, sizeof(text), "PE %u of a job of %u PEs is out of range", who->rank, who->size);
        refuse_newcomer(m, conn, FERRY_ERR_MISMATCH, text);
    } else if (told_late(m, conn)) {
        return;
    } else if (m->over) {
        snprintf(text, sizeof(text), "this id was already used by a job of %u PEs; an id is for one job and one use",
                 m->round.size);
        refuse_newcomer(m, conn, FERRY_ERR_MISMATCH, text);
    } else if (!seats_make(m, who)) {
        refuse_newcomer(m, conn, FERRY_ERR_NOMEM, "the meeting is out of memory");
    } else if (disagrees(m, conn)) {
        return;
    } else if (m->round.here[who->rank]) {
        snprintf(text, sizeof(text), "PE %u has already arrived, it listens on %s: two PEs were given the same rank",
                 who->rank, fy_addr_text(&m->round.table[who->rank], addr));
        refuse_newcomer(m, conn, FERRY_ERR_MISMATCH, text);
    } else {
        take_seat(m, conn);
    }
}
