/* SPDX-License-Identifier: Apache-2.0
 * Joining a meeting: connects to the address in the id, proves to know its secret, waits for the table of all PEs.
 * Called by the setup thread, which blocks here until the deadline at most. */
#include "boot_wire.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#define RETRY_FIRST_NS 10000000u
#define RETRY_MOST_NS  200000000u
#define GRACE_NS       1000000000u /* beyond the deadline, for the meeting to say who is missing */

struct visit {
    const struct fy_join *join;
    struct fy_addr *table;
    uint64_t *job_id;
    struct ferry_error *error;
    char at[FY_ADDR_TEXT];
    bool seated, gave_up;
    int status; /* > 0: not decided yet */
};

int fy_id_read(const ferry_uniqueid_t *bytes, struct fy_id *id, struct ferry_error *error)
{
    memcpy(id, bytes->bytes, sizeof(*id));
    if (memcmp(id->magic, FY_ID_MAGIC, sizeof(id->magic)) != 0) {
        fy_error_set(error, FERRY_ERR_ARG, "use what ferry_uniqueid_create made, all 128 bytes of it",
                     "these bytes are no unique id");
        return FERRY_ERR_ARG;
    }
    if (id->protocol == FY_WIRE_PROTOCOL)
        return FERRY_OK;
    id->version[sizeof(id->version) - 1] = 0;
    fy_error_set(error, FERRY_ERR_MISMATCH, "use one version of ferry in a job",
                 "the id was made by ferry %s, which speaks protocol %u; this is ferry %s, protocol %u", id->version,
                 id->protocol, FERRY_VERSION_STRING, FY_WIRE_PROTOCOL);
    return FERRY_ERR_MISMATCH;
}

static void visit_fail(struct visit *v, int status, const char *hint, const char *text)
{
    fy_error_set(v->error, status, hint, "meeting at %s: %s", v->at, text);
    v->status = status;
}

static void on_table(struct visit *v, const struct fy_frame *frame, const void *body)
{
    if (frame->size != sizeof(*v->job_id) + v->join->self.size * sizeof(*v->table)) {
        visit_fail(v, FERRY_ERR_BOOTSTRAP, NULL, "a table of the wrong size");
        return;
    }
    memcpy(v->job_id, body, sizeof(*v->job_id));
    memcpy(v->table, (const uint8_t *)body + sizeof(*v->job_id), frame->size - sizeof(*v->job_id));
    v->status = FERRY_OK;
}

static void on_refusal(struct visit *v, const struct fy_conn *conn)
{
    static const char hint[] = "start every PE of a job with its own rank, one size, one version and a fresh id";
    bool mismatch = conn->refusal.status == FERRY_ERR_MISMATCH;
    bool late = conn->refusal.status == FERRY_ERR_TIMEOUT;
    visit_fail(v, conn->refusal.status,
               mismatch ? hint
               : late   ? "see whether those PEs were started, and with this id"
                        : NULL,
               conn->refusal.text);
    v->error->peer = conn->refusal.peer;
}

static void on_frame(void *arg, struct fy_conn *conn, const struct fy_frame *frame, void *body)
{
    struct visit *v = arg;
    if (v->status <= 0)
        return;
    if (v->seated && frame->type == FY_FRAME_TABLE) {
        on_table(v, frame, body);
        return;
    }
    enum fy_auth auth = fy_auth_frame(conn, frame, body, v->join->id->secret);
    if (auth == FY_AUTH_DONE) {
        v->seated = true;
        conn->limit = v->join->self.size * (uint32_t)sizeof(*v->table) + FY_WIRE_SMALL;
    } else if (auth == FY_AUTH_FAIL && conn->refusal.status != 0) {
        on_refusal(v, conn);
    } else if (auth == FY_AUTH_FAIL && conn->absent) {
        visit_fail(v, FERRY_ERR_BOOTSTRAP, "make a new id", "another program answers there, it does not know the id");
    } else if (auth == FY_AUTH_FAIL) {
        visit_fail(v, FERRY_ERR_BOOTSTRAP, NULL, conn->why);
    }
}

static void on_connected(struct visit *v, struct fy_conn *conn)
{
    int code = conn->error;
    socklen_t size = sizeof(code);
    if (code == 0)
        getsockopt(conn->fd, SOL_SOCKET, SO_ERROR, &code, &size);
    if (code == 0) {
        fy_auth_begin(conn);
        return;
    }
    if (code == ECONNREFUSED && fy_net_is_loopback(v->join->id->addr.ip))
        visit_fail(v, FERRY_ERR_BOOTSTRAP,
                   "make a new id, an id is for one job and one use; for a job across hosts, with FERRY_INTERFACE set",
                   "nobody serves this id on this host: it was already used, its time is over, or the process that "
                   "made it has ended or runs on another host");
    else if (code == ECONNREFUSED)
        visit_fail(v, FERRY_ERR_BOOTSTRAP, "make a new id; an id is for one job and one use",
                   "nobody serves this id: it was already used, its time is over, or the process that made it has "
                   "ended");
    else
        visit_fail(v, FERRY_ERR_BOOTSTRAP, "check FERRY_INTERFACE and the network", strerror(code));
}

/* Asks the meeting who is missing, then, without an answer, says what is known here. */
static uint64_t on_deadline(struct visit *v, struct fy_conn *conn, uint64_t now)
{
    double seconds = v->join->timeout;
    if (v->seated && !v->gave_up) {
        v->gave_up = true;
        fy_conn_send1(conn, FY_FRAME_GIVE_UP, v->join->self.rank, &seconds, sizeof(seconds));
        return now + GRACE_NS;
    }
    char text[96];
    snprintf(text, sizeof(text), "no answer within %g s", seconds);
    visit_fail(v, FERRY_ERR_TIMEOUT, "see whether the process that made the id is alive", text);
    return now;
}

/* True: the connection ended before anything was decided, and it is worth another try. */
static bool visit_once(struct visit *v, struct fy_hub *hub, struct fy_conn *conn)
{
    uint64_t due = v->join->deadline;
    while (v->status > 0) {
        if (conn->state == FY_CONN_CONNECTING && conn->error != 0) {
            on_connected(v, conn);
            continue;
        }
        struct epoll_event event;
        uint64_t now = fy_now_ns();
        int n = epoll_wait(hub->epoll, &event, 1, fy_hub_wait_ms(due, now));
        if (n == 0 && fy_now_ns() >= due) {
            due = on_deadline(v, conn, fy_now_ns());
            continue;
        }
        if (n <= 0)
            continue;
        if (conn->state == FY_CONN_CONNECTING)
            on_connected(v, conn);
        else if (event.events & EPOLLOUT)
            fy_conn_flush(conn);
        if (v->status > 0 && conn->state != FY_CONN_CONNECTING && !fy_conn_read(conn, on_frame, v))
            break;
    }
    return v->status > 0;
}

static void visit_all(struct visit *v, struct fy_hub *hub)
{
    char reason[FY_CODE_TEXT];
    uint64_t pause = RETRY_FIRST_NS;
    while (v->status > 0) {
        struct fy_conn *conn = fy_hub_connect(hub, &v->join->id->addr, FY_NOBODY, &v->join->self, v->join->deadline);
        if (!conn) {
            visit_fail(v, FERRY_ERR_SYSTEM, NULL, fy_code_text(errno, reason));
            return;
        }
        v->seated = false;
        if (visit_once(v, hub, conn) && (v->gave_up || fy_now_ns() + pause >= v->join->deadline))
            visit_fail(v, FERRY_ERR_TIMEOUT, NULL, "the connection was lost, and the time is over");
        fy_hub_drop(hub, conn);
        fy_hub_reap(hub);
        if (v->status <= 0)
            return;
        struct timespec nap = {.tv_nsec = (long)pause};
        nanosleep(&nap, NULL); /* the meeting made room for others: come back a little later */
        pause = pause * 2 < RETRY_MOST_NS ? pause * 2 : RETRY_MOST_NS;
    }
}

int fy_meeting_join(const struct fy_join *join, struct fy_addr *table, uint64_t *job_id, struct ferry_error *error)
{
    struct visit v = {.join = join, .table = table, .job_id = job_id, .error = error, .status = FERRY_AGAIN};
    struct fy_hub hub;
    char reason[FY_CODE_TEXT];
    fy_addr_text(&join->id->addr, v.at);
    int code = fy_hub_open(&hub, -1);
    if (code != 0) {
        fy_error_set(error, FERRY_ERR_SYSTEM, NULL, "cannot join the meeting at %s: %s", v.at,
                     fy_code_text(code, reason));
        return FERRY_ERR_SYSTEM;
    }
    visit_all(&v, &hub);
    fy_hub_close(&hub);
    return v.status;
}
