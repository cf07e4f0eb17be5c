/* SPDX-License-Identifier: Apache-2.0
 * The tree after losses: whose child a PE is once others are gone, how it attaches there, and how a parent looks after
 * those that should attach but do not. A parent's number is always lower, so there are no cycles. Control thread. */
#include "boot_internal.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MS            1000000u
#define RETRY_NS      (20 * MS)
#define RETRY_MOST_NS (1000 * MS)
#define PROBE_NS      (50 * MS) /* a child that attaches by itself needs no look */
#define PROBE_MORE_NS (250 * MS)
#define LOOKS_FIRST   16u

static uint32_t lowest_live(const struct fy_boot *boot)
{
    uint32_t pe = 0;
    while (pe < boot->n && !fy_live(boot, pe))
        pe++;
    return pe;
}

/* The nearest living ancestor, else the lowest living PE; FY_NOBODY: pe itself is that. */
static uint32_t parent_of(const struct fy_boot *boot, uint32_t pe, uint32_t lowest)
{
    for (uint32_t up = pe; up > 0;) {
        up = (up - 1) / 2;
        if (fy_live(boot, up))
            return up;
    }
    return lowest == pe ? FY_NOBODY : lowest;
}

/* How long a PE may take to attach. While the job comes together, slowness is the business of the start's deadline. */
static uint64_t patience(const struct fy_boot *boot, uint64_t now)
{
    double seconds = boot->peer_timeout;
    if (!boot->joined && (boot->timeout <= 0 || boot->timeout > seconds))
        return boot->timeout > 0 ? now + (uint64_t)(boot->timeout * 1e9) : UINT64_MAX;
    return seconds > 0 ? now + (uint64_t)(seconds * 1e9) : UINT64_MAX;
}

void fy_place_exhausted(struct fy_boot *boot, int code)
{
    char reason[FY_CODE_TEXT];
    struct fy_fail fail = {.seq = UINT32_MAX, .final = 1, .status = FERRY_ERR_SYSTEM, .peer = (int32_t)boot->rank};
    if (boot->joined || boot->leaving || !fy_code_exhausted(code))
        return;
    snprintf(fail.text, sizeof(fail.text), "PE %u cannot connect to the others: %s", boot->rank,
             fy_code_text(code, reason));
    fy_fail_spread(boot, &fail, NULL);
}

static struct fy_conn *connect_to(struct fy_boot *boot, uint32_t pe, int role, uint32_t purpose)
{
    struct fy_identity self = boot->self;
    self.purpose = purpose;
    struct fy_conn *conn = fy_hub_connect(&boot->hub, &boot->table[pe], pe, &self, fy_deadline(FY_HUB_PROVE_TIME));
    if (!conn) {
        fy_place_exhausted(boot, errno);
        return NULL;
    }
    conn->role = role;
    conn->pe = pe;
    return conn;
}

static void parent_set(struct fy_boot *boot, uint32_t parent, uint64_t now)
{
    struct fy_conn *old = boot->parent == FY_NOBODY ? NULL : fy_loop_find(boot, FY_ROLE_PARENT, boot->parent);
    if (old)
        fy_hub_drop(&boot->hub, old);
    boot->parent = parent;
    boot->parent_retry = now;
    boot->parent_pause = RETRY_NS;
    boot->parent_verdict = patience(boot, now);
}

static struct fy_orphan *orphan_find(const struct fy_boot *boot, uint32_t pe)
{
    struct fy_orphan *orphan = boot->orphans;
    while (orphan && orphan->pe != pe)
        orphan = orphan->next;
    return orphan;
}

static struct fy_orphan *orphan_add(struct fy_boot *boot, uint32_t pe, uint64_t now)
{
    struct fy_orphan *orphan = calloc(1, sizeof(*orphan));
    if (!orphan)
        return NULL;
    orphan->pe = pe;
    orphan->verdict = patience(boot, now);
    orphan->probe = now + PROBE_NS;
    orphan->next = boot->orphans;
    boot->orphans = orphan;
    return orphan;
}

static void orphan_expect(struct fy_boot *boot, uint32_t pe, uint64_t now)
{
    struct fy_orphan *orphan = orphan_find(boot, pe);
    if (orphan)
        orphan->elsewhere = false;
    else if (!fy_loop_find(boot, FY_ROLE_CHILD, pe))
        orphan_add(boot, pe, now);
}

/* Whose host is cut off finds nobody at any place of the tree. One by one that would take as many times FERRY_PEER_TIMEOUT as
 * there are PEs; so each time twice as many are asked, beside the one that is next. */
void fy_place_silent(struct fy_boot *boot, uint64_t now)
{
    uint32_t more = boot->looks = boot->looks ? boot->looks * 2 : LOOKS_FIRST;
    for (uint32_t pe = 0; pe < boot->n && more > 0; pe++) {
        if (pe == boot->rank || pe == boot->parent || !fy_live(boot, pe) || orphan_find(boot, pe) ||
            fy_loop_find(boot, FY_ROLE_CHILD, pe))
            continue;
        struct fy_orphan *orphan = orphan_add(boot, pe, now);
        if (orphan)
            orphan->elsewhere = true;
        more--;
    }
}

void fy_place_settle(struct fy_boot *boot, uint32_t pe)
{
    struct fy_orphan **at = &boot->orphans;
    while (*at && (*at)->pe != pe)
        at = &(*at)->next;
    struct fy_orphan *orphan = *at;
    if (orphan)
        *at = orphan->next;
    free(orphan);
    if (boot->leaving && boot->parent == pe)
        boot->parent = FY_NOBODY; /* nobody above is left to be told */
}

bool fy_place_complete(const struct fy_boot *boot)
{
    if (boot->closed || boot->isolated)
        return true;
    for (const struct fy_orphan *orphan = boot->orphans; orphan; orphan = orphan->next)
        if (!orphan->elsewhere)
            return false;
    struct fy_conn *parent = boot->parent == FY_NOBODY ? NULL : fy_loop_find(boot, FY_ROLE_PARENT, boot->parent);
    return boot->parent == FY_NOBODY || (parent && parent->state == FY_CONN_READY);
}

void fy_place_update(struct fy_boot *boot)
{
    if (boot->closed || boot->leaving || boot->isolated)
        return;
    uint64_t now = fy_now_ns();
    uint32_t lowest = lowest_live(boot), parent = parent_of(boot, boot->rank, lowest);
    if (parent != boot->parent)
        parent_set(boot, parent, now);
    for (uint32_t pe = boot->rank + 1; pe < boot->n; pe++)
        if (fy_live(boot, pe) && parent_of(boot, pe, lowest) == boot->rank)
            orphan_expect(boot, pe, now);
}

static void say_gone(struct fy_boot *boot, struct fy_conn *conn, uint32_t pe)
{
    bool dead = (boot->state[pe] & FY_PE_DEAD) != 0;
    struct fy_news news = {.pe = pe};
    if (dead && pe == boot->first_dead)
        memcpy(news.why, boot->first_why, sizeof(news.why));
    else
        snprintf(news.why, sizeof(news.why), "connection lost, as PE %u says", boot->rank);
    fy_conn_send1(conn, dead ? FY_FRAME_DEAD : FY_FRAME_LEFT, boot->rank, &news, sizeof(news));
}

static void say_all_news(struct fy_boot *boot, struct fy_conn *conn)
{
    for (uint32_t pe = 0; pe < boot->n; pe++)
        if (!fy_live(boot, pe))
            say_gone(boot, conn, pe);
    pthread_mutex_lock(&boot->lock);
    bool aborted = boot->aborted;
    struct fy_news news = {.pe = boot->abort_by, .code = boot->abort_code};
    pthread_mutex_unlock(&boot->lock);
    if (aborted)
        fy_conn_send1(conn, FY_FRAME_ABORT, boot->rank, &news, sizeof(news));
}

void fy_place_ready(struct fy_boot *boot, struct fy_conn *conn)
{
    struct fy_orphan *orphan = orphan_find(boot, conn->pe);
    say_all_news(boot, conn);
    if (conn->role == FY_ROLE_PROBE_OUT) {
        uint64_t now = fy_now_ns();
        fy_hub_drop(&boot->hub, conn);
        boot->looks = 0; /* somebody answers */
        if (orphan && orphan->elsewhere) {
            fy_place_settle(boot, orphan->pe);
        } else if (orphan) { /* it lives, and now it knows whose child it is */
            orphan->verdict = patience(boot, now);
            orphan->probe = now + PROBE_MORE_NS;
        }
        return;
    }
    if (boot->fail.status != FERRY_OK)
        fy_conn_send1(conn, FY_FRAME_FAIL, boot->rank, &boot->fail, sizeof(boot->fail));
    if (conn->role == FY_ROLE_CHILD)
        fy_place_settle(boot, conn->pe);
    if (boot->leaving) { /* the last to hear of it */
        struct fy_news news = {.pe = boot->rank};
        fy_conn_send1(conn, FY_FRAME_LEFT, boot->rank, &news, sizeof(news));
    }
}

/* Nobody listens where this PE did. When PEs have begun to leave, the news that it left may just not have come here. */
static void vanished(struct fy_boot *boot, uint32_t pe, const char *why)
{
    if (boot->n_left > 0)
        fy_live_left(boot, pe, NULL);
    else
        fy_live_dead(boot, pe, why, NULL);
}

void fy_place_failed(struct fy_boot *boot, struct fy_conn *conn)
{
    uint64_t now = fy_now_ns();
    struct fy_orphan *orphan = conn->role == FY_ROLE_PROBE_OUT ? orphan_find(boot, conn->pe) : NULL;
    if (conn->role == FY_ROLE_PARENT) {
        boot->parent_retry = now + boot->parent_pause;
        boot->parent_pause = boot->parent_pause * 2 < RETRY_MOST_NS ? boot->parent_pause * 2 : RETRY_MOST_NS;
    }
    if (orphan)
        orphan->probe = now + PROBE_MORE_NS;
    if (boot->leaving && (conn->absent || conn->refusal.status != 0))
        fy_place_settle(boot, conn->pe);
    else if (conn->absent)
        vanished(boot, conn->pe, conn->why);
    else if (conn->refusal.status == FERRY_ERR_PEER)
        fy_live_dead(boot, boot->rank, conn->refusal.text, NULL);
    else if (conn->refusal.status == FERRY_ERR_STATE)
        fy_live_left(boot, conn->pe, NULL);
}

static uint64_t parent_tick(struct fy_boot *boot, uint64_t now)
{
    if (boot->parent == FY_NOBODY)
        return UINT64_MAX;
    struct fy_conn *conn = fy_loop_find(boot, FY_ROLE_PARENT, boot->parent);
    if (conn && conn->state == FY_CONN_READY)
        return UINT64_MAX;
    if (now >= boot->parent_verdict) {
        boot->parent_verdict = UINT64_MAX;
        fy_place_silent(boot, now);
        fy_live_dead(boot, boot->parent, "it does not answer", NULL);
        return now;
    }
    if (conn)
        return boot->parent_verdict;
    if (now >= boot->parent_retry && !connect_to(boot, boot->parent, FY_ROLE_PARENT, FY_PURPOSE_TREE))
        boot->parent_retry = now + RETRY_MOST_NS;
    return boot->parent_retry > now ? boot->parent_retry : boot->parent_verdict;
}

/* The list may change under a verdict: one at a time, then from the start. */
static uint64_t orphans_tick(struct fy_boot *boot, uint64_t now)
{
    uint64_t due = UINT64_MAX;
    for (struct fy_orphan *orphan = boot->orphans; orphan; orphan = orphan->next) {
        if (now >= orphan->verdict) {
            orphan->verdict = UINT64_MAX;
            fy_live_dead(boot, orphan->pe, "it does not answer", NULL);
            return now;
        }
        if (now >= orphan->probe) {
            orphan->probe = now + PROBE_MORE_NS;
            if (!fy_loop_find(boot, FY_ROLE_PROBE_OUT, orphan->pe))
                connect_to(boot, orphan->pe, FY_ROLE_PROBE_OUT, FY_PURPOSE_PROBE);
        }
        due = orphan->verdict < due ? orphan->verdict : due;
        due = orphan->probe < due ? orphan->probe : due;
    }
    return due;
}

uint64_t fy_place_tick(struct fy_boot *boot, uint64_t now)
{
    if (boot->closed || boot->isolated)
        return UINT64_MAX;
    uint64_t a = parent_tick(boot, now), b = orphans_tick(boot, now);
    return a < b ? a : b;
}

void fy_place_forgive(struct fy_boot *boot, uint64_t now)
{
    boot->parent_verdict = patience(boot, now);
    for (struct fy_orphan *orphan = boot->orphans; orphan; orphan = orphan->next)
        orphan->verdict = patience(boot, now);
}

void fy_place_free(struct fy_boot *boot)
{
    while (boot->orphans)
        fy_place_settle(boot, boot->orphans->pe);
}
