/* SPDX-License-Identifier: Apache-2.0
 * Bootstrap calls: a request to one PE over a connection of its own, answered by that PE's control thread.
 * fy_boot_call: any thread but the control thread; the rest is the control thread's. */
#include "boot_internal.h"
#include <stdio.h>
#include <string.h>
#include <time.h>

#define IDLE_NS   5000000000u /* a connection without calls is closed after that */
#define RETRY_NS  20000000u
#define REPLY_MAX (16u << 20) /* unread replies of one peer; beyond, it is cut off */

/* --- the caller */

static bool call_hopeless(struct fy_boot *boot, uint32_t pe, struct ferry_error *error)
{
    if (boot->aborted)
        fy_error_set(error, FERRY_ERR_ABORTED, NULL, "PE %u aborted the job with code %d", boot->abort_by,
                     boot->abort_code);
    else if (boot->state[pe] != 0)
        fy_error_set(error, FERRY_ERR_PEER, NULL, boot->state[pe] & FY_PE_DEAD ? "PE %u is dead" : "PE %u has left",
                     pe);
    else
        return false;
    error->peer = (int32_t)pe;
    return true;
}

static void call_unlink(struct fy_boot *boot, struct fy_call *call)
{
    struct fy_call **at = &boot->calls;
    while (*at && *at != call)
        at = &(*at)->next;
    if (*at)
        *at = call->next;
}

/* Under the lock. */
static void call_wait(struct fy_boot *boot, struct fy_call *call, double timeout)
{
    uint64_t deadline = fy_deadline(timeout);
    struct timespec until = {.tv_sec = (time_t)(deadline / 1000000000u), .tv_nsec = (long)(deadline % 1000000000u)};
    int rc = 0;
    while (!call->done && rc == 0)
        rc = deadline == UINT64_MAX ? pthread_cond_wait(&boot->changed, &boot->lock)
                                    : pthread_cond_timedwait(&boot->changed, &boot->lock, &until);
    if (!call->done) {
        fy_error_set(&call->error, FERRY_ERR_TIMEOUT, NULL, "PE %u did not answer request %u within %g s", call->pe,
                     call->type, timeout);
        call->error.peer = (int32_t)call->pe;
    }
    call_unlink(boot, call);
}

static bool call_bad(const struct fy_boot *boot, const struct fy_call *call, struct ferry_error *error)
{
    if (call->pe < boot->n && call->size <= FY_BOOT_MESSAGE_MAX)
        return false;
    fy_error_set(error, FERRY_ERR_ARG, NULL, "request %u of %zu bytes to PE %u: at most %u bytes, to a PE below %u",
                 call->type, call->size, call->pe, FY_BOOT_MESSAGE_MAX, boot->n);
    return true;
}

int fy_boot_call(struct fy_boot *boot, uint32_t pe, uint32_t type, const void *request, size_t size, void *reply,
                 size_t capacity, size_t *reply_size, double timeout, struct ferry_error *error)
{
    struct fy_call call = {.pe = pe,
                           .type = type,
                           .request = request,
                           .size = size,
                           .reply = reply,
                           .capacity = capacity,
                           .error.size = sizeof(call.error)};
    struct ferry_error unread = {.size = sizeof(unread)};
    error = error ? error : &unread;
    if (call_bad(boot, &call, error))
        return FERRY_ERR_ARG;
    int rc = fy_loop_start(boot, error);
    if (rc != FERRY_OK)
        return rc;
    pthread_mutex_lock(&boot->lock);
    if (!call_hopeless(boot, pe, &call.error)) {
        call.id = ++boot->call_id;
        call.next = boot->calls;
        boot->calls = &call;
        fy_loop_wake(boot);
        call_wait(boot, &call, timeout);
    }
    pthread_mutex_unlock(&boot->lock);
    if (reply_size)
        *reply_size = call.reply_size;
    if (call.error.status != FERRY_OK)
        *error = call.error;
    return call.error.status;
}

/* --- the control thread: asking */

/* Under the lock. */
static void call_done(struct fy_boot *boot, struct fy_call *call)
{
    call->done = true;
    call_unlink(boot, call);
    pthread_cond_broadcast(&boot->changed);
}

static void call_fail(struct fy_boot *boot, struct fy_call *call, int status, const char *why)
{
    fy_error_set(&call->error, status, NULL, "request %u to PE %u: %s", call->type, call->pe, why);
    call->error.peer = (int32_t)call->pe;
    call_done(boot, call);
}

/* Under the lock. */
static void call_answer(struct fy_boot *boot, struct fy_call *call, int status, const void *reply, size_t size)
{
    if (status != FERRY_OK) {
        char why[64];
        snprintf(why, sizeof(why), "refused with %s", ferry_status_string(status));
        call_fail(boot, call, status < 0 ? status : FERRY_ERR_PEER, why);
    } else if (size > call->capacity) {
        call_fail(boot, call, FERRY_ERR_LIMIT, "the reply is larger than the room for it");
    } else {
        if (size)
            memcpy(call->reply, reply, size);
        call->reply_size = size;
        call_done(boot, call);
    }
}

static int serve(struct fy_boot *boot, uint32_t from, uint32_t type, const void *request, size_t size, void *reply,
                 size_t *reply_size)
{
    *reply_size = 0;
    if (!boot->events.serve)
        return FERRY_ERR_UNSUPPORTED;
    int status =
        boot->events.serve(boot->events.arg, from, type, request, size, reply, FY_BOOT_MESSAGE_MAX, reply_size);
    if (*reply_size > FY_BOOT_MESSAGE_MAX || status != FERRY_OK)
        *reply_size = 0;
    return status;
}

/* A call of this PE to itself: served here, without a socket. False: there is none. */
static bool serve_self(struct fy_boot *boot)
{
    _Alignas(16) uint8_t request[FY_BOOT_MESSAGE_MAX], reply[FY_BOOT_MESSAGE_MAX];
    pthread_mutex_lock(&boot->lock);
    struct fy_call *call = boot->calls;
    while (call && (call->sent || call->pe != boot->rank))
        call = call->next;
    if (!call) {
        pthread_mutex_unlock(&boot->lock);
        return false;
    }
    uint64_t id = call->id;
    uint32_t type = call->type;
    size_t size = call->size, reply_size;
    call->sent = true;
    if (size)
        memcpy(request, call->request, size);
    pthread_mutex_unlock(&boot->lock);
    int status = serve(boot, boot->rank, type, request, size, reply, &reply_size);
    pthread_mutex_lock(&boot->lock);
    for (call = boot->calls; call && call->id != id;) /* unless its time was over */
        call = call->next;
    if (call)
        call_answer(boot, call, status, reply, reply_size);
    pthread_mutex_unlock(&boot->lock);
    return true;
}

static void call_send(struct fy_boot *boot, struct fy_call *call, struct fy_conn *conn)
{
    struct fy_message message = {.id = call->id, .type = call->type};
    /* iovec knows no const; the bytes are only read */
    struct iovec parts[2] = {{&message, sizeof(message)}, {(void *)(uintptr_t)call->request, call->size}};
    fy_conn_send(conn, FY_FRAME_REQUEST, boot->rank, parts, 2);
    call->sent = true;
}

static void call_connect(struct fy_boot *boot, uint32_t pe)
{
    struct fy_identity self = boot->self;
    self.purpose = FY_PURPOSE_CALL;
    struct fy_conn *conn = fy_hub_connect(&boot->hub, &boot->table[pe], pe, &self, fy_deadline(FY_HUB_PROVE_TIME));
    if (!conn) {
        boot->call_retry = fy_now_ns() + RETRY_NS;
        return;
    }
    conn->role = FY_ROLE_CALL_OUT;
    conn->pe = pe;
}

void fy_call_poll(struct fy_boot *boot)
{
    while (serve_self(boot))
        ;
    pthread_mutex_lock(&boot->lock);
    for (struct fy_call *call = boot->calls; call; call = call->next) {
        if (call->sent)
            continue;
        struct fy_conn *conn = fy_loop_find(boot, FY_ROLE_CALL_OUT, call->pe);
        if (!conn && fy_now_ns() >= boot->call_retry)
            call_connect(boot, call->pe);
        else if (conn && conn->state == FY_CONN_READY)
            call_send(boot, call, conn);
    }
    pthread_mutex_unlock(&boot->lock);
}

/* --- the control thread: answering, and what comes back */

static void on_request(struct fy_boot *boot, struct fy_conn *conn, const struct fy_message *message, size_t size)
{
    _Alignas(16) uint8_t reply[FY_BOOT_MESSAGE_MAX];
    size_t reply_size;
    struct fy_message answer = {.id = message->id, .type = message->type};
    answer.status = serve(boot, conn->pe, message->type, message + 1, size, reply, &reply_size);
    struct iovec parts[2] = {{&answer, sizeof(answer)}, {reply, reply_size}};
    fy_conn_send(conn, FY_FRAME_REPLY, boot->rank, parts, 2);
    if (conn->out_bytes > REPLY_MAX)
        fy_loop_nonsense(boot, conn);
}

static void on_reply(struct fy_boot *boot, struct fy_conn *conn, const struct fy_message *message, size_t size)
{
    pthread_mutex_lock(&boot->lock);
    struct fy_call *call = boot->calls;
    while (call && !(call->id == message->id && call->pe == conn->pe && call->sent))
        call = call->next;
    if (call)
        call_answer(boot, call, message->status, message + 1, size);
    pthread_mutex_unlock(&boot->lock);
}

void fy_call_frame(struct fy_boot *boot, struct fy_conn *conn, const struct fy_frame *frame, const void *body)
{
    uint16_t wanted = conn->role == FY_ROLE_CALL_IN ? FY_FRAME_REQUEST : FY_FRAME_REPLY;
    if (frame->type != wanted || frame->size < sizeof(struct fy_message) ||
        frame->size > sizeof(struct fy_message) + FY_BOOT_MESSAGE_MAX) {
        fy_loop_nonsense(boot, conn);
        return;
    }
    size_t size = frame->size - sizeof(struct fy_message);
    if (wanted == FY_FRAME_REQUEST)
        on_request(boot, conn, body, size);
    else
        on_reply(boot, conn, body, size);
}

/* The connection is no longer there; a request that was not sent yet may take another one. */
void fy_call_lost(struct fy_boot *boot, struct fy_conn *conn)
{
    bool gone = conn->absent || conn->refusal.status == FERRY_ERR_PEER || conn->refusal.status == FERRY_ERR_STATE;
    const char *why = conn->refusal.status != 0 && !conn->absent ? conn->refusal.text : conn->why;
    if (conn->deadline != UINT64_MAX)
        boot->call_retry = fy_now_ns() + RETRY_NS;
    pthread_mutex_lock(&boot->lock);
    for (struct fy_call *call = boot->calls, *next; call; call = next) {
        next = call->next;
        if (call->pe == conn->pe && (call->sent || gone))
            call_fail(boot, call, FERRY_ERR_PEER, why);
    }
    pthread_mutex_unlock(&boot->lock);
}

void fy_call_end(struct fy_boot *boot, uint32_t pe, int status, const char *why)
{
    pthread_mutex_lock(&boot->lock);
    for (struct fy_call *call = boot->calls, *next; call; call = next) {
        next = call->next;
        if (pe == FY_NOBODY || call->pe == pe)
            call_fail(boot, call, status, why);
    }
    pthread_mutex_unlock(&boot->lock);
}

/* Under the lock. */
static bool call_pending(const struct fy_boot *boot, uint32_t pe)
{
    const struct fy_call *call = boot->calls;
    while (call && call->pe != pe)
        call = call->next;
    return call != NULL;
}

uint64_t fy_call_tick(struct fy_boot *boot, uint64_t now)
{
    pthread_mutex_lock(&boot->lock);
    uint64_t due = boot->calls && boot->call_retry > now ? boot->call_retry : UINT64_MAX;
    for (struct fy_conn *conn = boot->hub.conns; conn; conn = conn->next) {
        if (conn->role != FY_ROLE_CALL_OUT || conn->state != FY_CONN_READY || call_pending(boot, conn->pe))
            continue;
        uint64_t used = conn->heard > conn->sent ? conn->heard : conn->sent;
        if (now >= used + IDLE_NS)
            fy_hub_drop(&boot->hub, conn);
        else
            due = used + IDLE_NS < due ? used + IDLE_NS : due;
    }
    pthread_mutex_unlock(&boot->lock);
    return due;
}
