/* SPDX-License-Identifier: Apache-2.0
 * Liveness: heartbeats between neighbours of the tree, verdicts, and the spreading of news (who died, who left, that
 * the job was aborted). Control thread. */
#include "boot_internal.h"
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

static struct fy_news news_of(uint32_t pe, int code, const char *why)
{
    struct fy_news news = {.pe = pe, .code = code};
    snprintf(news.why, sizeof(news.why), "%s", why);
    return news;
}

static void state_set(struct fy_boot *boot, uint32_t pe, uint8_t flag, const char *why)
{
    pthread_mutex_lock(&boot->lock);
    boot->state[pe] |= flag;
    if (flag == FY_PE_DEAD && boot->n_dead++ == 0) {
        boot->first_dead = pe;
        snprintf(boot->first_why, sizeof(boot->first_why), "%s", why);
    } else if (flag == FY_PE_LEFT && boot->n_left++ == 0) {
        boot->first_left = pe;
    }
    pthread_mutex_unlock(&boot->lock);
}

/* Every connection with this PE; `farewell` goes first where somebody may still read it. */
static void connections_drop(struct fy_boot *boot, uint32_t pe, const struct fy_news *farewell)
{
    for (struct fy_conn *conn = boot->hub.conns; conn; conn = conn->next) {
        if (conn->state == FY_CONN_CLOSED || conn->pe != pe)
            continue;
        if (farewell && fy_tree_link(conn))
            fy_conn_send1(conn, FY_FRAME_DEAD, boot->rank, farewell, sizeof(*farewell));
        fy_hub_drop(&boot->hub, conn);
    }
}

static void event_dead(struct fy_boot *boot, uint32_t pe, const char *why)
{
    if (boot->events.dead)
        boot->events.dead(boot->events.arg, pe, why);
}

/* The others have taken this PE for dead, because it was stopped for too long. To them it does not exist any more. */
static void isolate(struct fy_boot *boot, const char *reason)
{
    char why[96];
    snprintf(why, sizeof(why), "this PE was taken for dead by the others: %.50s", reason);
    boot->isolated = true;
    for (uint32_t pe = 0; pe < boot->n; pe++) {
        if (pe == boot->rank || !fy_live(boot, pe))
            continue;
        state_set(boot, pe, FY_PE_DEAD, why);
        connections_drop(boot, pe, NULL);
        event_dead(boot, pe, why);
        fy_call_end(boot, pe, FERRY_ERR_PEER, why);
        fy_place_settle(boot, pe);
    }
    fy_tree_check(boot);
}

void fy_live_dead(struct fy_boot *boot, uint32_t pe, const char *why, const struct fy_conn *from)
{
    if (pe >= boot->n || !fy_live(boot, pe) || boot->closed || boot->leaving || boot->peer_timeout <= 0)
        return;
    if (pe == boot->rank) {
        if (!boot->isolated)
            isolate(boot, why);
        return;
    }
    struct fy_news news = news_of(pe, 0, why);
    fy_log(boot->log, FERRY_LOG_INFO, "PE %u is dead: %s", pe, news.why);
    state_set(boot, pe, FY_PE_DEAD, news.why);
    connections_drop(boot, pe, &news);
    fy_loop_flood(boot, from, FY_FRAME_DEAD, &news, sizeof(news));
    event_dead(boot, pe, news.why);
    fy_call_end(boot, pe, FERRY_ERR_PEER, news.why);
    fy_tree_check(boot);
    fy_place_settle(boot, pe);
    fy_place_update(boot);
}

void fy_live_left(struct fy_boot *boot, uint32_t pe, const struct fy_conn *from)
{
    if (pe >= boot->n || pe == boot->rank || !fy_live(boot, pe))
        return;
    struct fy_news news = news_of(pe, 0, "");
    state_set(boot, pe, FY_PE_LEFT, "");
    connections_drop(boot, pe, NULL);
    fy_place_settle(boot, pe);
    if (boot->closed || boot->leaving)
        return;
    fy_loop_flood(boot, from, FY_FRAME_LEFT, &news, sizeof(news));
    if (boot->events.left)
        boot->events.left(boot->events.arg, pe);
    fy_call_end(boot, pe, FERRY_ERR_PEER, "it has closed its job");
    fy_tree_check(boot);
    fy_place_update(boot);
}

void fy_live_abort(struct fy_boot *boot, uint32_t by, int code, const struct fy_conn *from)
{
    if (by >= boot->n)
        return;
    struct fy_news news = news_of(by, code, "");
    pthread_mutex_lock(&boot->lock);
    bool known = boot->aborted;
    if (!known) {
        boot->aborted = true;
        boot->abort_by = by;
        boot->abort_code = code;
    }
    pthread_mutex_unlock(&boot->lock);
    if (known)
        return;
    fy_loop_flood(boot, from, FY_FRAME_ABORT, &news, sizeof(news));
    if (boot->events.aborted)
        boot->events.aborted(boot->events.arg, by, code);
    fy_call_end(boot, FY_NOBODY, FERRY_ERR_ABORTED, "the job was aborted");
    fy_tree_check(boot);
}

void fy_live_frame(struct fy_boot *boot, struct fy_conn *conn, const struct fy_frame *frame, const void *body)
{
    if (frame->type == FY_FRAME_BEAT && frame->size == 0)
        return;
    if (frame->type == FY_FRAME_BEAT || frame->size != sizeof(struct fy_news)) {
        fy_loop_nonsense(boot, conn);
        return;
    }
    struct fy_news news = *(const struct fy_news *)body;
    news.why[sizeof(news.why) - 1] = 0;
    if (frame->type == FY_FRAME_DEAD)
        fy_live_dead(boot, news.pe, news.why, conn);
    else if (frame->type == FY_FRAME_LEFT)
        fy_live_left(boot, news.pe, conn);
    else
        fy_live_abort(boot, news.pe, news.code, conn);
}

void fy_live_forgive(struct fy_boot *boot, uint64_t now)
{
    for (struct fy_conn *conn = boot->hub.conns; conn; conn = conn->next)
        conn->heard = now;
    fy_place_forgive(boot, now);
}

/* Something has arrived that this thread has not come to read. */
static bool has_spoken(const struct fy_conn *conn)
{
    char byte;
    return recv(conn->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) > 0;
}

/* Returns when to look at this neighbour again. */
static uint64_t neighbour_tick(struct fy_boot *boot, struct fy_conn *conn, uint64_t now)
{
    uint64_t silence = (uint64_t)(boot->peer_timeout * 1e9), beat = silence / 4;
    if (now >= conn->heard + silence && has_spoken(conn)) {
        conn->heard = now;
    } else if (now >= conn->heard + silence) {
        char why[64];
        snprintf(why, sizeof(why), "no sign of life for %g s", boot->peer_timeout);
        if (conn->role == FY_ROLE_PARENT)
            fy_place_silent(boot, now);
        fy_live_dead(boot, conn->pe, why, NULL);
        return now;
    }
    if (now >= conn->sent + beat && conn->out_bytes == 0)
        fy_conn_send(conn, FY_FRAME_BEAT, boot->rank, NULL, 0);
    uint64_t due = conn->out_bytes ? now + beat : conn->sent + beat;
    return due < conn->heard + silence ? due : conn->heard + silence;
}

uint64_t fy_live_tick(struct fy_boot *boot, uint64_t now)
{
    uint64_t due = UINT64_MAX;
    if (boot->peer_timeout <= 0 || boot->closed || boot->leaving)
        return due;
    for (struct fy_conn *conn = boot->hub.conns; conn; conn = conn->next) {
        if (!fy_tree_link(conn))
            continue;
        uint64_t next = neighbour_tick(boot, conn, now);
        due = next < due ? next : due;
    }
    return due;
}
