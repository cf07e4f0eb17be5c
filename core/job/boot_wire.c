/* SPDX-License-Identifier: Apache-2.0
 * Bootstrap frames: reads and writes them on sockets that never block, with every size checked first.
 * Called by the thread that owns the connection. */
#include "boot_wire.h"

#include "../base/reserve.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define READ_BUDGET (1u << 20) /* bytes per call, so that one peer does not keep the thread from the others */
#define FIRST_ROOM  4096u

static void conn_end(struct fy_conn *conn, const char *why)
{
    if (conn->why[0] == 0)
        snprintf(conn->why, sizeof(conn->why), "%s", why);
}

/* > 0: bytes, 0: nothing there now, < 0: ended. */
static ssize_t conn_receive(struct fy_conn *conn, void *to, size_t size)
{
    ssize_t got;
    do {
        got = recv(conn->fd, to, size, MSG_DONTWAIT);
    } while (got < 0 && errno == EINTR);
    if (got > 0)
        return got;
    if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
        return 0;
    conn_end(conn, got == 0 ? "connection closed" : strerror(errno));
    return -1;
}

/* Room for more of the body. Grows with what has really arrived, whatever size the frame claims. */
static bool body_reserve(struct fy_conn *conn, size_t size, size_t got)
{
    if (got < conn->room)
        return true;
    size_t room = conn->room * 2 > FIRST_ROOM ? conn->room * 2 : FIRST_ROOM;
    if (room > size)
        room = size;
    uint8_t *body = fy_bytes_get(room);
    if (!body)
        return false;
    if (got)
        memcpy(body, conn->body, got);
    fy_bytes_put(conn->body);
    conn->body = body;
    conn->room = room;
    return true;
}

static bool frame_good(struct fy_conn *conn, const struct fy_frame *frame)
{
    if (frame->magic == FY_WIRE_MAGIC && frame->size <= conn->limit && frame->zero == 0)
        return true;
    conn_end(conn, frame->magic == FY_WIRE_MAGIC ? "a frame of impossible size" : "bytes that are no frame");
    return false;
}

static void frame_deliver(struct fy_conn *conn, const struct fy_frame *frame, fy_frame_fn *fn, void *arg)
{
    conn->have = 0;
    fn(arg, conn, frame, conn->body);
    if (conn->body == NULL || conn->room > FY_WIRE_SMALL) {
        fy_bytes_put(conn->body);
        conn->body = NULL;
        conn->room = 0;
    }
}

/* One recv. 1: go on, 0: nothing there now, -1: ended. */
static int read_step(struct fy_conn *conn, size_t *budget, fy_frame_fn *fn, void *arg)
{
    struct fy_frame frame;
    if (conn->have < sizeof(frame)) {
        ssize_t got = conn_receive(conn, conn->head + conn->have, sizeof(frame) - conn->have);
        if (got <= 0)
            return (int)got;
        conn->have += (size_t)got;
        if (conn->have < sizeof(frame))
            return 1;
        memcpy(&frame, conn->head, sizeof(frame));
        if (!frame_good(conn, &frame))
            return -1;
    }
    memcpy(&frame, conn->head, sizeof(frame));
    size_t body = conn->have - sizeof(frame);
    if (body < frame.size) {
        if (!body_reserve(conn, frame.size, body)) {
            conn_end(conn, "out of memory");
            return -1;
        }
        size_t end = conn->room < frame.size ? conn->room : frame.size;
        ssize_t got = conn_receive(conn, conn->body + body, end - body);
        if (got <= 0)
            return (int)got;
        conn->have += (size_t)got;
        *budget -= (size_t)got < *budget ? (size_t)got : *budget;
        body += (size_t)got;
    }
    if (body == frame.size)
        frame_deliver(conn, &frame, fn, arg);
    return 1;
}

bool fy_conn_read(struct fy_conn *conn, fy_frame_fn *fn, void *arg)
{
    size_t budget = READ_BUDGET;
    conn->heard = fy_now_ns();
    while (budget > 0 && conn->state != FY_CONN_CLOSED) {
        int rc = read_step(conn, &budget, fn, arg);
        if (rc < 0)
            return false;
        if (rc == 0)
            break;
        budget -= budget > 0; /* frames without a body count too */
    }
    return true;
}

static void out_clear(struct fy_conn *conn)
{
    while (conn->out) {
        struct fy_chunk *chunk = conn->out;
        conn->out = chunk->next;
        fy_bytes_put(chunk);
    }
    conn->out_end = &conn->out;
    conn->out_bytes = 0;
}

/* What the peer sent before it went may still be read, its goodbye for instance: so this only stops sending. */
static void conn_mute(struct fy_conn *conn)
{
    conn->mute = true;
    out_clear(conn);
}

static bool out_step(struct fy_conn *conn)
{
    struct fy_chunk *chunk = conn->out;
    ssize_t sent = send(conn->fd, chunk->data + chunk->sent, chunk->size - chunk->sent, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0 && errno == EINTR)
        return true;
    if (sent < 0) {
        if (errno != EAGAIN && errno != EWOULDBLOCK)
            conn_mute(conn);
        return false;
    }
    chunk->sent += (size_t)sent;
    conn->out_bytes -= (size_t)sent;
    if (chunk->sent < chunk->size)
        return true;
    conn->out = chunk->next;
    if (!conn->out)
        conn->out_end = &conn->out;
    fy_bytes_put(chunk);
    return true;
}

void fy_conn_flush(struct fy_conn *conn)
{
    if (conn->state == FY_CONN_CONNECTING || conn->state == FY_CONN_CLOSED)
        return;
    while (conn->out && out_step(conn))
        ;
    if (conn->hub)
        fy_hub_rearm(conn->hub, conn);
}

void fy_conn_send(struct fy_conn *conn, uint16_t type, uint32_t sender, const struct iovec *parts, int n)
{
    if (conn->state == FY_CONN_CLOSED || conn->mute || conn->shut)
        return;
    struct fy_frame frame = {.magic = FY_WIRE_MAGIC, .type = type, .sender = sender};
    size_t size = 0;
    for (int i = 0; i < n; i++)
        size += parts[i].iov_len;
    struct fy_chunk *chunk = size <= FY_WIRE_BIG ? fy_bytes_get(sizeof(*chunk) + sizeof(frame) + size) : NULL;
    if (!chunk) {
        conn_mute(conn);
        shutdown(conn->fd, SHUT_WR); /* the peer notices, and so do we */
        return;
    }
    frame.size = (uint32_t)size;
    *chunk = (struct fy_chunk){.size = sizeof(frame) + size};
    memcpy(chunk->data, &frame, sizeof(frame));
    uint8_t *at = chunk->data + sizeof(frame);
    for (int i = 0; i < n; i++) {
        if (parts[i].iov_len)
            memcpy(at, parts[i].iov_base, parts[i].iov_len);
        at += parts[i].iov_len;
    }
    *conn->out_end = chunk;
    conn->out_end = &chunk->next;
    conn->out_bytes += chunk->size;
    conn->sent = fy_now_ns();
    fy_conn_flush(conn);
}

void fy_conn_send1(struct fy_conn *conn, uint16_t type, uint32_t sender, const void *data, size_t size)
{
    /* iovec knows no const; the bytes are only read */
    struct iovec part = {.iov_base = (void *)(uintptr_t)data, .iov_len = size};
    fy_conn_send(conn, type, sender, &part, 1);
}

void fy_conn_free(struct fy_conn *conn)
{
    if (conn->fd >= 0)
        close(conn->fd);
    out_clear(conn);
    fy_bytes_put(conn->body);
    free(conn);
}
