/* SPDX-License-Identifier: Apache-2.0
 * The meeting: serves a unique id from a thread of the process that made it. For one job the thread is detached, and
 * ends when every PE has the table of all addresses or the time is over; a launcher's lasts until it is closed.
 * fy_meeting_… may be called by any thread; the rest is the meeting's thread. */
#include "meeting.h"
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

static void on_frame(void *arg, struct fy_conn *conn, const struct fy_frame *frame, void *body)
{
    struct ferry_meeting *m = arg;
    if (conn->role == FY_REFUSED || conn->role == FY_SERVED)
        return;
    if (conn->role == FY_SEATED) {
        double seconds;
        if (frame->type != FY_FRAME_GIVE_UP || frame->size != sizeof(seconds))
            return;
        memcpy(&seconds, body, sizeof(seconds));
        fy_round_late(m, seconds); /* for all: the job cannot become complete without this PE */
        return;
    }
    enum fy_auth auth = fy_auth_frame(conn, frame, body, m->secret);
    if (auth == FY_AUTH_DONE)
        fy_round_proven(m, conn);
    else if (auth == FY_AUTH_FAIL)
        fy_round_lost(m, conn);
}

/* Those who wait in vain for a connection cannot be told; those who have one are, and their going makes room. */
static void on_full(struct ferry_meeting *m)
{
    char reason[FY_CODE_TEXT], text[200];
    snprintf(text, sizeof(text), "the process that made the id cannot take another connection: %s",
             fy_code_text(m->hub.full, reason));
    m->hub.full = 0;
    if (m->round.status != FERRY_OK || m->over)
        return;
    fy_log(&m->log, FERRY_LOG_ERROR, "meeting: %s", text);
    fy_round_fail(m, FERRY_ERR_SYSTEM, -1, text);
}

/* False: the end. A rank is written at once, and so read whole. */
static bool on_orders(struct ferry_meeting *m)
{
    uint32_t rank;
    while (read(m->orders[0], &rank, sizeof(rank)) == sizeof(rank)) {
        if (rank == FY_NOBODY)
            return false;
        fy_round_ended(m, rank);
    }
    return true;
}

/* False: the end. */
static bool on_event(struct ferry_meeting *m, const struct epoll_event *event)
{
    if (event->data.ptr == &m->hub.listener) {
        fy_hub_accept(&m->hub, FY_NOBODY, &m->log);
        if (m->hub.full)
            on_full(m);
        return true;
    }
    if (event->data.ptr == &m->orders)
        return on_orders(m);
    struct fy_conn *conn = event->data.ptr;
    if (conn->state == FY_CONN_CLOSED)
        return true;
    if (event->events & EPOLLOUT)
        fy_conn_flush(conn);
    if ((event->events & ~(uint32_t)EPOLLOUT) && !fy_conn_read(conn, on_frame, m))
        fy_round_lost(m, conn);
    return true;
}

/* Drops those who took too long; returns when to look again. */
static uint64_t expire(struct ferry_meeting *m, uint64_t now)
{
    uint64_t due = fy_hub_tick(&m->hub, now);
    for (struct fy_conn *conn = m->hub.conns; conn; conn = conn->next) {
        if (conn->role == FY_SEATED || conn->state == FY_CONN_CLOSED)
            continue;
        if (now >= conn->deadline) {
            snprintf(conn->why, sizeof(conn->why), "it did not prove in time that it belongs to the job");
            fy_round_lost(m, conn);
        } else if (conn->deadline < due) {
            due = conn->deadline;
        }
    }
    return due;
}

static void meeting_serve(struct ferry_meeting *m)
{
    struct epoll_event events[64];
    for (;;) {
        uint64_t now = fy_now_ns();
        if (now >= m->deadline && m->over)
            return;
        if (now >= m->deadline)
            fy_round_late(m, m->timeout);
        uint64_t due = expire(m, now);
        if (m->deadline < due)
            due = m->deadline;
        int n = epoll_wait(m->hub.epoll, events, 64, fy_hub_wait_ms(due, now));
        if (n < 0 && errno != EINTR)
            return;
        for (int i = 0; i < n; i++)
            if (!on_event(m, &events[i]))
                return;
        fy_hub_reap(&m->hub);
    }
}

static void meeting_free(struct ferry_meeting *m)
{
    fy_hub_close(&m->hub);
    for (int i = 0; i < 2; i++)
        if (m->orders[i] >= 0)
            close(m->orders[i]);
    sodium_memzero(m->secret, sizeof(m->secret));
    fy_round_free(m);
    free(m->lost);
    free(m);
}

static void *meeting_main(void *arg)
{
    struct ferry_meeting *m = arg;
    bool lasting = m->lasting;
    pthread_setname_np(pthread_self(), "ferry-meeting");
    meeting_serve(m);
    if (!lasting)
        meeting_free(m); /* else fy_meeting_close does */
    return NULL;
}

/* With all signals blocked: they are the application's. */
static int meeting_thread(struct ferry_meeting *m)
{
    sigset_t all, before;
    pthread_attr_t attr;
    pthread_t thread;
    int rc = pthread_attr_init(&attr);
    if (rc != 0)
        return rc;
    if (!m->lasting)
        pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    rc = pthread_create(m->lasting ? &m->thread : &thread, &attr, meeting_main, m);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attr);
    return rc;
}

/* 0 or errno. */
static int orders_open(struct ferry_meeting *m)
{
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = &m->orders};
    if (pipe2(m->orders, O_CLOEXEC) != 0)
        return errno;
    if (fcntl(m->orders[0], F_SETFL, O_NONBLOCK) != 0)
        return errno;
    return epoll_ctl(m->hub.epoll, EPOLL_CTL_ADD, m->orders[0], &event) == 0 ? 0 : errno;
}

static int meeting_listen(struct ferry_meeting *m, const char *interface_, struct fy_addr *addr,
                          struct ferry_error *error)
{
    char reason[FY_CODE_TEXT];
    uint32_t ip;
    int listener;
    int rc = fy_net_address(interface_, &ip, error);
    if (rc == FERRY_OK)
        rc = fy_net_listen(ip, addr, &listener, error);
    if (rc != FERRY_OK)
        return rc;
    int code = fy_hub_open(&m->hub, listener);
    if (code == 0 && m->lasting)
        code = orders_open(m);
    if (code == 0)
        return FERRY_OK;
    fy_error_set(error, FERRY_ERR_SYSTEM, NULL, "cannot serve the meeting of the PEs: %s", fy_code_text(code, reason));
    error->library_status = code;
    return FERRY_ERR_SYSTEM;
}

static int meeting_begin(struct ferry_meeting *m, const char *interface_, ferry_uniqueid_t *id,
                         struct ferry_error *error)
{
    _Static_assert(sizeof(struct fy_id) == FERRY_UNIQUEID_BYTES, "an id fills its bytes");
    struct fy_id made = {.magic = FY_ID_MAGIC, .protocol = FY_WIRE_PROTOCOL, .version = FERRY_VERSION_STRING};
    int rc = meeting_listen(m, interface_, &made.addr, error);
    if (rc != FERRY_OK)
        return rc;
    randombytes_buf(made.secret, sizeof(made.secret));
    randombytes_buf(&m->round.job_id, sizeof(m->round.job_id));
    memcpy(m->secret, made.secret, sizeof(m->secret));
    int code = meeting_thread(m);
    if (code != 0) {
        fy_error_set(error, FERRY_ERR_SYSTEM, "raise the limit on threads (ulimit -u)",
                     "cannot start the meeting's thread: %s", strerror(code));
        rc = FERRY_ERR_SYSTEM;
    } else {
        memcpy(id->bytes, &made, sizeof(made));
    }
    sodium_memzero(&made, sizeof(made));
    return rc;
}

static struct ferry_meeting *meeting_new(const struct fy_log *log, double timeout, bool lasting)
{
    struct ferry_meeting *m = sodium_init() >= 0 ? calloc(1, sizeof(*m)) : NULL;
    if (!m)
        return NULL;
    fy_log_init(&m->log);
    if (log)
        m->log = *log;
    m->hub.epoll = m->hub.listener = m->orders[0] = m->orders[1] = -1;
    m->timeout = timeout;
    m->lasting = lasting;
    m->deadline = lasting ? UINT64_MAX : fy_deadline(timeout);
    return m;
}

static int meeting_make(const struct fy_log *log, const char *interface_, double timeout, ferry_uniqueid_t *id,
                        struct ferry_meeting **out, struct ferry_error *error)
{
    struct ferry_error unread = {.size = sizeof(unread)};
    error = error ? error : &unread;
    struct ferry_meeting *m = meeting_new(log, timeout, out != NULL);
    if (!m) {
        fy_error_set(error, FERRY_ERR_NOMEM, NULL, "no memory for the meeting of the PEs");
        return FERRY_ERR_NOMEM;
    }
    int rc = meeting_begin(m, interface_, id, error);
    if (rc != FERRY_OK)
        meeting_free(m);
    else if (out)
        *out = m;
    return rc;
}

int fy_meeting_create(const struct fy_log *log, const char *interface_, double timeout, ferry_uniqueid_t *id,
                      struct ferry_error *error)
{
    return meeting_make(log, interface_, timeout, id, NULL, error);
}

int fy_meeting_open(const struct fy_log *log, const char *interface_, double timeout, ferry_uniqueid_t *id,
                    struct ferry_meeting **meeting, struct ferry_error *error)
{
    return meeting_make(log, interface_, timeout, id, meeting, error);
}

static bool order_give(struct ferry_meeting *m, uint32_t rank)
{
    ssize_t n;
    do
        n = write(m->orders[1], &rank, sizeof(rank));
    while (n < 0 && errno == EINTR);
    return n == sizeof(rank);
}

int fy_meeting_lost(struct ferry_meeting *m, int rank)
{
    if (rank < 0 || (uint32_t)rank >= FY_PES_MAX)
        return FERRY_ERR_ARG;
    return order_give(m, (uint32_t)rank) ? FERRY_OK : FERRY_ERR_SYSTEM;
}

void fy_meeting_close(struct ferry_meeting *m)
{
    order_give(m, FY_NOBODY);
    pthread_join(m->thread, NULL);
    meeting_free(m);
}
