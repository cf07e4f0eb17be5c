/* SPDX-License-Identifier: Apache-2.0
 * The meeting: serves a unique id from a detached thread of the process that made it, until every PE has the table of
 * all addresses or the time is over. fy_meeting_create may be called by any thread; the rest is the meeting's thread.
 */
#include "boot.h"
#include "boot_wire.h"
#include <errno.h>
#include <netinet/in.h>
#include <pthread.h>
#include <signal.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#define LINGER_S 2.0 /* after the end: answers those who come late, and lets the last bytes out */

/* Roles of connections. */
enum { GUEST = 0, SEATED = 1, REFUSED = 2 };

struct fy_meeting {
    struct fy_log log;
    struct fy_hub hub;
    uint8_t secret[FERRY_SECRET_BYTES];
    double timeout;
    uint64_t deadline;
    uint32_t size, arrived; /* size 0: nobody has said it yet */
    uint32_t said_by;       /* who said it first */
    struct fy_addr *table;
    uint8_t *here;
    bool over;
    char why[320];  /* over without a table: what late ones are told */
    char note[160]; /* what else went wrong, to explain a missing PE */
};

static void seats_clear(struct fy_meeting *m)
{
    free(m->table);
    free(m->here);
    m->table = NULL;
    m->here = NULL;
    m->size = 0;
}

static void conn_lost(struct fy_meeting *m, struct fy_conn *conn)
{
    if (conn->role == SEATED && !m->over) {
        m->here[conn->pe] = 0;
        snprintf(m->note, sizeof(m->note), "; PE %u came and left", conn->pe);
        if (--m->arrived == 0)
            seats_clear(m); /* what the size is, the next one says */
    } else if (conn->role == GUEST) {
        fy_log(&m->log, FERRY_LOG_DEBUG, "meeting: dropped a connection: %s", conn->why);
    }
    fy_hub_drop(&m->hub, conn);
}

static void conn_refuse(struct fy_conn *conn, int status, const char *text)
{
    conn->role = REFUSED;
    conn->deadline = fy_deadline(LINGER_S); /* it closes when it has read why; or we do */
    fy_auth_refuse(conn, status, -1, text);
}

/* NULL: good; else why this PE cannot take part. */
static const char *identity_wrong(struct fy_meeting *m, const struct fy_identity *who, char *text, size_t size)
{
    char addr[FY_ADDR_TEXT];
    if (who->purpose != FY_PURPOSE_JOIN || who->size == 0 || who->size > FY_PES_MAX || who->rank >= who->size)
        snprintf(text, size, "PE %u of a job of %u PEs is out of range", who->rank, who->size);
    else if (strcmp(who->version, FERRY_VERSION_STRING) != 0)
        snprintf(text, size, "PE %u runs ferry %s, the id was made by ferry %s", who->rank, who->version,
                 FERRY_VERSION_STRING);
    else if (m->over && !m->why[0])
        snprintf(text, size, "this id was already used by a job of %u PEs; an id is for one job and one use", m->size);
    else if (m->over)
        snprintf(text, size, "this meeting is over: %.220s", m->why);
    else if (m->size != 0 && m->size != who->size)
        snprintf(text, size, "PE %u says that the job has %u PEs, PE %u said %u", who->rank, who->size, m->said_by,
                 m->size);
    else if (m->size != 0 && m->here[who->rank])
        snprintf(text, size, "PE %u has already arrived, it listens on %s: two PEs were given the same rank", who->rank,
                 fy_addr_text(&m->table[who->rank], addr));
    else
        return NULL;
    return text;
}

/* The first PE says how many there are. */
static bool seats_make(struct fy_meeting *m, const struct fy_identity *who)
{
    if (m->size != 0)
        return true;
    m->table = calloc(who->size, sizeof(*m->table));
    m->here = calloc(who->size, 1);
    if (!m->table || !m->here) {
        seats_clear(m);
        return false;
    }
    m->size = who->size;
    m->said_by = who->rank;
    return true;
}

static void meeting_end(struct fy_meeting *m)
{
    m->over = true;
    m->deadline = fy_deadline(LINGER_S);
}

static void table_send(struct fy_meeting *m)
{
    meeting_end(m);
    for (struct fy_conn *conn = m->hub.conns; conn; conn = conn->next)
        if (conn->role == SEATED)
            fy_conn_send1(conn, FY_FRAME_TABLE, FY_NOBODY, m->table, m->size * sizeof(*m->table));
}

static void guest_proven(struct fy_meeting *m, struct fy_conn *conn)
{
    char text[256];
    const struct fy_identity *who = &conn->identity;
    const char *wrong = identity_wrong(m, who, text, sizeof(text));
    if (!wrong && !seats_make(m, who))
        wrong = "the meeting is out of memory";
    if (wrong) {
        if (!m->over)
            snprintf(m->note, sizeof(m->note), "; refused: %.140s", wrong);
        fy_log(&m->log, FERRY_LOG_DEBUG, "meeting: refused a PE: %s", wrong);
        conn_refuse(conn, FERRY_ERR_MISMATCH, wrong);
        return;
    }
    conn->role = SEATED;
    conn->pe = who->rank;
    m->table[who->rank] = who->addr;
    m->here[who->rank] = 1;
    m->arrived++;
    fy_auth_welcome(conn, FY_WIRE_SMALL);
    if (m->arrived == m->size)
        table_send(m);
}

static void missing_text(const struct fy_meeting *m, char *text, size_t size, double timeout)
{
    char list[160];
    uint32_t first;
    uint32_t n = fy_text_missing(list, sizeof(list), m->here, m->size, &first);
    snprintf(text, size, "%s of %u did not arrive within %g s%.100s", n ? list : "nobody", m->size, timeout, m->note);
}

static void time_over(struct fy_meeting *m, double timeout)
{
    if (m->size > 0) {
        missing_text(m, m->why, sizeof(m->why), timeout);
        m->over = true; /* first: refusing frees no seats now */
        for (struct fy_conn *conn = m->hub.conns; conn; conn = conn->next)
            if (conn->role == SEATED)
                conn_refuse(conn, FERRY_ERR_TIMEOUT, m->why);
    } else {
        snprintf(m->why, sizeof(m->why), "nobody arrived within %g s", timeout);
    }
    meeting_end(m);
}

static void on_frame(void *arg, struct fy_conn *conn, const struct fy_frame *frame, void *body)
{
    struct fy_meeting *m = arg;
    if (conn->role == REFUSED)
        return;
    if (conn->role == SEATED) {
        double seconds;
        if (frame->type != FY_FRAME_GIVE_UP || frame->size != sizeof(seconds) || m->over)
            return;
        memcpy(&seconds, body, sizeof(seconds));
        time_over(m, seconds); /* for all: the job cannot become complete without this PE */
        return;
    }
    enum fy_auth auth = fy_auth_frame(conn, frame, body, m->secret);
    if (auth == FY_AUTH_DONE)
        guest_proven(m, conn);
    else if (auth == FY_AUTH_FAIL)
        conn_lost(m, conn);
}

static void on_event(struct fy_meeting *m, const struct epoll_event *event)
{
    if (event->data.ptr == &m->hub.listener) {
        fy_hub_accept(&m->hub, FY_NOBODY, &m->log);
        return;
    }
    struct fy_conn *conn = event->data.ptr;
    if (conn->state == FY_CONN_CLOSED)
        return;
    if (event->events & EPOLLOUT)
        fy_conn_flush(conn);
    if ((event->events & ~(uint32_t)EPOLLOUT) && !fy_conn_read(conn, on_frame, m))
        conn_lost(m, conn);
}

/* Drops those who took too long; returns when to look again. */
static uint64_t expire(struct fy_meeting *m, uint64_t now)
{
    uint64_t due = fy_hub_tick(&m->hub, now);
    for (struct fy_conn *conn = m->hub.conns; conn; conn = conn->next) {
        if (conn->role == SEATED || conn->state == FY_CONN_CLOSED)
            continue;
        if (now >= conn->deadline) {
            snprintf(conn->why, sizeof(conn->why), "it did not prove in time that it belongs to the job");
            conn_lost(m, conn);
        } else if (conn->deadline < due) {
            due = conn->deadline;
        }
    }
    return due;
}

static void meeting_serve(struct fy_meeting *m)
{
    struct epoll_event events[64];
    for (;;) {
        uint64_t now = fy_now_ns();
        if (now >= m->deadline && m->over)
            return;
        if (now >= m->deadline)
            time_over(m, m->timeout);
        uint64_t due = expire(m, now);
        if (m->deadline < due)
            due = m->deadline;
        int n = epoll_wait(m->hub.epoll, events, 64, fy_hub_wait_ms(due, now));
        if (n < 0 && errno != EINTR)
            return;
        for (int i = 0; i < n; i++)
            on_event(m, &events[i]);
        fy_hub_reap(&m->hub);
    }
}

static void meeting_free(struct fy_meeting *m)
{
    fy_hub_close(&m->hub);
    sodium_memzero(m->secret, sizeof(m->secret));
    free(m->table);
    free(m->here);
    free(m);
}

static void *meeting_main(void *arg)
{
    pthread_setname_np(pthread_self(), "ferry-meeting");
    meeting_serve(arg);
    meeting_free(arg);
    return NULL;
}

/* Detached, with all signals blocked: they are the application's. */
static int meeting_thread(struct fy_meeting *m)
{
    sigset_t all, before;
    pthread_attr_t attr;
    pthread_t thread;
    int rc = pthread_attr_init(&attr);
    if (rc != 0)
        return rc;
    pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    rc = pthread_create(&thread, &attr, meeting_main, m);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attr);
    return rc;
}

static int meeting_open(struct fy_meeting *m, const char *interface_, struct fy_addr *addr, struct ferry_error *error)
{
    uint32_t ip;
    int listener;
    m->hub.epoll = m->hub.listener = -1;
    int rc = fy_net_address(interface_, &ip, error);
    if (rc == FERRY_OK)
        rc = fy_net_listen(ip, addr, &listener, error);
    if (rc != FERRY_OK)
        return rc;
    int code = fy_hub_open(&m->hub, listener);
    if (code == 0)
        return FERRY_OK;
    fy_error_set(error, FERRY_ERR_SYSTEM, NULL, "cannot serve the meeting of the PEs: %s", strerror(code));
    error->library_status = code;
    return FERRY_ERR_SYSTEM;
}

int fy_meeting_create(const char *interface_, double timeout, ferry_uniqueid_t *id, struct ferry_error *error)
{
    _Static_assert(sizeof(struct fy_id) == FERRY_UNIQUEID_BYTES, "an id fills its bytes");
    struct ferry_error unread = {.size = sizeof(unread)};
    error = error ? error : &unread;
    struct fy_id made = {.magic = FY_ID_MAGIC, .protocol = FY_WIRE_PROTOCOL, .version = FERRY_VERSION_STRING};
    struct fy_meeting *m = sodium_init() >= 0 ? calloc(1, sizeof(*m)) : NULL;
    if (!m) {
        fy_error_set(error, FERRY_ERR_NOMEM, NULL, "no memory for the meeting of the PEs");
        return FERRY_ERR_NOMEM;
    }
    fy_log_init(&m->log);
    int rc = meeting_open(m, interface_, &made.addr, error);
    if (rc != FERRY_OK) {
        meeting_free(m);
        return rc;
    }
    randombytes_buf(made.secret, sizeof(made.secret));
    randombytes_buf(made.job_id, sizeof(made.job_id));
    memcpy(m->secret, made.secret, sizeof(m->secret));
    m->timeout = timeout;
    m->deadline = fy_deadline(timeout);
    int code = meeting_thread(m);
    if (code != 0) {
        meeting_free(m);
        fy_error_set(error, FERRY_ERR_SYSTEM, NULL, "cannot start the meeting's thread: %s", strerror(code));
        return FERRY_ERR_SYSTEM;
    }
    memcpy(id->bytes, &made, sizeof(made));
    sodium_memzero(&made, sizeof(made));
    return FERRY_OK;
}
