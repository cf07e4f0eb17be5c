/* SPDX-License-Identifier: Apache-2.0
 * The control thread: one epoll over all of a PE's bootstrap sockets and watched descriptors; hands each event to the
 * part it belongs to, and never blocks. fy_loop_start and fy_loop_wake are for other threads. */
#include "boot_internal.h"
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#define EVENTS   64
#define LEAVE_NS 1000000000u /* most that closing waits for neighbours to take notice */

struct fy_conn *fy_loop_find(const struct fy_boot *boot, int role, uint32_t pe)
{
    for (struct fy_conn *conn = boot->hub.conns; conn; conn = conn->next)
        if (conn->role == role && conn->pe == pe && conn->state != FY_CONN_CLOSED)
            return conn;
    return NULL;
}

void fy_loop_flood(struct fy_boot *boot, const struct fy_conn *except, uint16_t type, const void *data, size_t size)
{
    for (struct fy_conn *conn = boot->hub.conns; conn; conn = conn->next)
        if (conn != except && fy_tree_link(conn))
            fy_conn_send1(conn, type, boot->rank, data, size);
}

void fy_loop_lost(struct fy_boot *boot, struct fy_conn *conn)
{
    bool ready = conn->state == FY_CONN_READY;
    bool tree = conn->role == FY_ROLE_PARENT || conn->role == FY_ROLE_CHILD;
    if (conn->state == FY_CONN_CLOSED)
        return;
    if (conn->role == FY_ROLE_STRANGER)
        fy_log(boot->log, FERRY_LOG_DEBUG, "dropped a stranger's connection to the control port: %s", conn->why);
    fy_hub_drop(&boot->hub, conn);
    if (boot->leaving && ready)
        fy_place_settle(boot, conn->pe);
    if (tree && ready) {
        char why[128];
        bool plain = strcmp(conn->why, "connection closed") == 0 || strstr(conn->why, "reset");
        snprintf(why, sizeof(why), plain ? "connection lost" : "connection lost: %s", conn->why);
        fy_live_dead(boot, conn->pe, why, NULL);
        if (boot->peer_timeout <= 0)
            fy_fail_lost(boot, conn->pe);
    } else if (conn->role == FY_ROLE_PARENT || conn->role == FY_ROLE_PROBE_OUT) {
        fy_place_failed(boot, conn);
    } else if (conn->role == FY_ROLE_CALL_OUT) {
        fy_call_lost(boot, conn);
    }
}

void fy_loop_nonsense(struct fy_boot *boot, struct fy_conn *conn)
{
    snprintf(conn->why, sizeof(conn->why), "a frame that makes no sense");
    fy_loop_lost(boot, conn);
}

static void conn_refuse(struct fy_conn *conn, int status, const char *text)
{
    conn->role = FY_ROLE_REFUSED;
    conn->deadline = fy_now_ns() + LEAVE_NS;
    fy_auth_refuse(conn, status, -1, text);
}

/* A PE of the job has connected and proven itself. */
static void conn_proven(struct fy_boot *boot, struct fy_conn *conn)
{
    const struct fy_identity *who = &conn->identity;
    uint32_t limit = FY_WIRE_SMALL;
    if (who->size != boot->n || who->rank >= boot->n || who->rank == boot->rank ||
        (who->purpose == FY_PURPOSE_TREE && who->rank < boot->rank)) {
        conn_refuse(conn, FERRY_ERR_MISMATCH, "no such PE belongs here");
        return;
    }
    if ((boot->leaving && who->purpose != FY_PURPOSE_TREE) || (boot->state[who->rank] & FY_PE_LEFT)) {
        conn_refuse(conn, FERRY_ERR_STATE, "it is closing its job");
        return;
    }
    if (!fy_live(boot, who->rank)) {
        conn_refuse(conn, FERRY_ERR_PEER, "it was silent for too long");
        return;
    }
    struct fy_conn *old = fy_loop_find(boot, FY_ROLE_CHILD, who->rank);
    conn->pe = who->rank;
    if (who->purpose == FY_PURPOSE_TREE) {
        conn->role = FY_ROLE_CHILD;
        limit = FY_WIRE_BIG;
        if (old) /* it has given that one up */
            fy_hub_drop(&boot->hub, old);
    } else if (who->purpose == FY_PURPOSE_CALL) {
        conn->role = FY_ROLE_CALL_IN;
        limit = sizeof(struct fy_message) + FY_BOOT_MESSAGE_MAX;
    } else {
        conn->role = FY_ROLE_PROBE_IN;
    }
    conn->deadline = UINT64_MAX;
    fy_auth_welcome(conn, limit);
    if (conn->role == FY_ROLE_CHILD)
        fy_place_ready(boot, conn);
}

/* A connection that we made is up. */
static void conn_welcome(struct fy_boot *boot, struct fy_conn *conn)
{
    conn->deadline = UINT64_MAX;
    if (conn->role == FY_ROLE_PARENT)
        conn->limit = FY_WIRE_BIG;
    else if (conn->role == FY_ROLE_CALL_OUT)
        conn->limit = sizeof(struct fy_message) + FY_BOOT_MESSAGE_MAX;
    if (conn->role != FY_ROLE_CALL_OUT)
        fy_place_ready(boot, conn);
}

static void on_tree_frame(struct fy_boot *boot, struct fy_conn *conn, const struct fy_frame *frame, void *body)
{
    switch (frame->type) {
    case FY_FRAME_UP:
    case FY_FRAME_DOWN:
        fy_tree_frame(boot, conn, frame, body);
        return;
    case FY_FRAME_FAIL:
    case FY_FRAME_ASK:
    case FY_FRAME_QUERY:
    case FY_FRAME_HERE:
        fy_fail_frame(boot, conn, frame, body);
        return;
    case FY_FRAME_DEAD:
    case FY_FRAME_LEFT:
    case FY_FRAME_ABORT:
    case FY_FRAME_BEAT:
        fy_live_frame(boot, conn, frame, body);
        return;
    default:
        fy_loop_nonsense(boot, conn);
    }
}

static void on_frame(void *arg, struct fy_conn *conn, const struct fy_frame *frame, void *body)
{
    struct fy_boot *boot = arg;
    if (conn->role == FY_ROLE_REFUSED)
        return;
    if (conn->state != FY_CONN_READY) {
        enum fy_auth auth = fy_auth_frame(conn, frame, body, boot->secret);
        if (auth == FY_AUTH_DONE && conn->client)
            conn_welcome(boot, conn);
        else if (auth == FY_AUTH_DONE)
            conn_proven(boot, conn);
        else if (auth == FY_AUTH_FAIL)
            fy_loop_lost(boot, conn);
    } else if (conn->role == FY_ROLE_PARENT || conn->role == FY_ROLE_CHILD) {
        on_tree_frame(boot, conn, frame, body);
    } else if (conn->role == FY_ROLE_PROBE_IN && frame->type >= FY_FRAME_DEAD && frame->type <= FY_FRAME_ABORT) {
        fy_live_frame(boot, conn, frame, body);
    } else if (conn->role == FY_ROLE_CALL_IN || conn->role == FY_ROLE_CALL_OUT) {
        fy_call_frame(boot, conn, frame, body);
    } else {
        fy_loop_nonsense(boot, conn);
    }
}

static void on_connected(struct fy_boot *boot, struct fy_conn *conn)
{
    int code = conn->error;
    socklen_t size = sizeof(code);
    if (code == 0)
        getsockopt(conn->fd, SOL_SOCKET, SO_ERROR, &code, &size);
    if (code == 0) {
        fy_auth_begin(conn);
        return;
    }
    conn->absent = code == ECONNREFUSED;
    snprintf(conn->why, sizeof(conn->why), "%s", code == ECONNREFUSED ? "connection refused" : strerror(code));
    fy_loop_lost(boot, conn);
}

static void on_conn(struct fy_boot *boot, struct fy_conn *conn, uint32_t events)
{
    if (conn->state == FY_CONN_CONNECTING)
        on_connected(boot, conn);
    else if (events & EPOLLOUT)
        fy_conn_flush(conn);
    if (conn->state == FY_CONN_CLOSED || !(events & ~(uint32_t)EPOLLOUT))
        return;
    if (!fy_conn_read(conn, on_frame, boot))
        fy_loop_lost(boot, conn);
}

static void on_event(struct fy_boot *boot, const struct epoll_event *event)
{
    struct fy_conn *conn = event->data.ptr;
    uint64_t count;
    if (event->data.u64 & 1) {
        fy_watch_ready(boot, event->data.u64);
    } else if (event->data.ptr == &boot->wake) {
        while (read(boot->wake, &count, sizeof(count)) < 0 && errno == EINTR)
            ;
    } else if (event->data.ptr == &boot->hub.listener) {
        fy_hub_accept(&boot->hub, boot->rank, boot->log);
        if (boot->hub.full)
            fy_place_exhausted(boot, boot->hub.full);
    } else if (conn->state != FY_CONN_CLOSED) {
        on_conn(boot, conn, event->events);
    }
}

/* Connections that did not come up in time. */
static uint64_t conns_tick(struct fy_boot *boot, uint64_t now)
{
    uint64_t due = fy_hub_tick(&boot->hub, now);
    for (struct fy_conn *conn = boot->hub.conns; conn; conn = conn->next) {
        if (conn->state == FY_CONN_CLOSED)
            continue;
        if (conn->error != 0) {
            on_connected(boot, conn);
        } else if (now >= conn->deadline) {
            snprintf(conn->why, sizeof(conn->why), "it took too long to prove itself");
            fy_loop_lost(boot, conn);
        } else if (conn->deadline < due) {
            due = conn->deadline;
        }
    }
    return due;
}

/* What other threads asked for. */
static void take_orders(struct fy_boot *boot)
{
    pthread_mutex_lock(&boot->lock);
    bool abort = boot->abort_asked && !boot->aborted;
    int code = boot->abort_code;
    pthread_mutex_unlock(&boot->lock);
    if (abort)
        fy_live_abort(boot, boot->rank, code, NULL);
    fy_tree_poll(boot);
    fy_call_poll(boot);
}

static uint64_t tick_all(struct fy_boot *boot, uint64_t now)
{
    uint64_t due[] = {conns_tick(boot, now),   fy_tree_tick(boot, now),  fy_fail_tick(boot, now),
                      fy_live_tick(boot, now), fy_place_tick(boot, now), fy_call_tick(boot, now)};
    uint64_t first = boot->leaving ? boot->leave_until : UINT64_MAX;
    if (boot->events.tick && !boot->leaving) {
        uint64_t next = boot->events.tick(boot->events.arg, now);
        first = next < first ? next : first;
    }
    for (size_t i = 0; i < sizeof(due) / sizeof(due[0]); i++)
        first = due[i] < first ? due[i] : first;
    return first;
}

/* Says goodbye. Each neighbour closes in turn, which shows that it has read it. */
static void leave_begin(struct fy_boot *boot)
{
    struct fy_news news = {.pe = boot->rank};
    boot->leaving = true;
    boot->leave_until = fy_now_ns() + LEAVE_NS;
    fy_loop_flood(boot, NULL, FY_FRAME_LEFT, &news, sizeof(news));
}

/* True: nobody is left who has to be told. Those who are about to attach are waited for: later they would find nobody
 * here, and take that for a death. */
static bool leave_step(struct fy_boot *boot)
{
    bool waiting = !fy_place_complete(boot);
    for (struct fy_conn *conn = boot->hub.conns; conn; conn = conn->next) {
        if (!fy_tree_link(conn) || conn->mute)
            continue;
        waiting = true;
        if (!conn->out && !conn->shut) {
            shutdown(conn->fd, SHUT_WR);
            conn->shut = true;
        }
    }
    return !waiting || fy_now_ns() >= boot->leave_until;
}

static bool stop_asked(struct fy_boot *boot)
{
    pthread_mutex_lock(&boot->lock);
    bool stop = boot->stop;
    pthread_mutex_unlock(&boot->lock);
    return stop;
}

/* Stopped, or starved, for longer than it meant to sleep: then this thread cannot judge the silence of others. */
static void notice_absence(struct fy_boot *boot, uint64_t meant, uint64_t now)
{
    uint64_t half = (uint64_t)(boot->peer_timeout * 5e8);
    if (half > 0 && now > meant && now - meant > half)
        fy_live_forgive(boot, now);
}

/* One round: what is due, then what has happened. False: the end. */
static bool loop_round(struct fy_boot *boot, uint64_t *awake)
{
    struct epoll_event events[EVENTS];
    take_orders(boot);
    if (!boot->leaving && stop_asked(boot))
        leave_begin(boot);
    if (boot->leaving && leave_step(boot))
        return false;
    uint64_t now = fy_now_ns();
    notice_absence(boot, *awake, now);
    uint64_t due = tick_all(boot, now);
    fy_hub_reap(&boot->hub);
    int n = epoll_wait(boot->hub.epoll, events, EVENTS, fy_hub_wait_ms(due, now));
    *awake = fy_now_ns();
    notice_absence(boot, due > now ? due : now, *awake); /* UINT64_MAX, without anything due, is never exceeded */
    for (int i = 0; i < n; i++)
        on_event(boot, &events[i]);
    fy_hub_reap(&boot->hub);
    return true;
}

static void *loop_main(void *arg)
{
    struct fy_boot *boot = arg;
    uint64_t awake = fy_now_ns();
    pthread_setname_np(pthread_self(), "ferry-control");
    fy_place_update(boot);
    while (loop_round(boot, &awake))
        ;
    return NULL;
}

void fy_loop_wake(struct fy_boot *boot)
{
    uint64_t one = 1;
    while (write(boot->wake, &one, sizeof(one)) < 0 && errno == EINTR)
        ;
}

/* All signals are blocked in the thread: they are the application's. */
static int loop_thread(struct fy_boot *boot)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int rc = pthread_create(&boot->thread, NULL, loop_main, boot);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return rc;
}

static int loop_open(struct fy_boot *boot)
{
    int rc = fy_hub_open(&boot->hub, boot->hub.listener);
    if (rc != 0)
        return rc;
    boot->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = &boot->wake};
    if (boot->wake < 0 || epoll_ctl(boot->hub.epoll, EPOLL_CTL_ADD, boot->wake, &event) != 0)
        return errno;
    return loop_thread(boot);
}

int fy_loop_start(struct fy_boot *boot, struct ferry_error *error)
{
    char reason[FY_CODE_TEXT];
    pthread_mutex_lock(&boot->lock);
    int rc = boot->running ? 0 : loop_open(boot);
    if (rc == 0)
        boot->running = true;
    pthread_mutex_unlock(&boot->lock);
    if (rc == 0)
        return FERRY_OK;
    fy_error_set(error, FERRY_ERR_SYSTEM, "raise the limits on threads (ulimit -u) and on open files (ulimit -n)",
                 "cannot start the control thread: %s", fy_code_text(rc, reason));
    error->library_status = rc;
    return FERRY_ERR_SYSTEM;
}
