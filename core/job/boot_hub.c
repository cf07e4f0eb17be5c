/* SPDX-License-Identifier: Apache-2.0
 * Bootstrap hub: the connections of one thread under one epoll. Strangers are capped, and never keep others out.
 * Called by the thread that owns the hub. */
#include "boot_wire.h"
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#define ACCEPT_BURST 64
#define ACCEPT_PAUSE 50000000u /* ns without accepting when descriptors are used up */

static void hub_listen(struct fy_hub *hub, bool on)
{
    if (hub->listener < 0)
        return;
    struct epoll_event event = {.events = on ? EPOLLIN : 0, .data.ptr = &hub->listener};
    epoll_ctl(hub->epoll, EPOLL_CTL_MOD, hub->listener, &event);
}

int fy_hub_open(struct fy_hub *hub, int listener)
{
    *hub = (struct fy_hub){.epoll = epoll_create1(EPOLL_CLOEXEC), .listener = listener, .listen_again = UINT64_MAX};
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = &hub->listener};
    if (hub->epoll >= 0 && (listener < 0 || epoll_ctl(hub->epoll, EPOLL_CTL_ADD, listener, &event) == 0))
        return 0;
    int error = errno;
    fy_hub_close(hub);
    return error;
}

void fy_hub_close(struct fy_hub *hub)
{
    while (hub->conns)
        fy_hub_drop(hub, hub->conns);
    fy_hub_reap(hub);
    if (hub->listener >= 0)
        close(hub->listener);
    if (hub->epoll >= 0)
        close(hub->epoll);
    hub->epoll = hub->listener = -1;
}

/* NULL: fd is closed. */
static struct fy_conn *hub_add(struct fy_hub *hub, int fd, enum fy_conn_state state)
{
    struct fy_conn *conn = calloc(1, sizeof(*conn));
    uint32_t events = state == FY_CONN_CONNECTING ? EPOLLIN | EPOLLOUT : EPOLLIN;
    struct epoll_event event = {.events = events, .data.ptr = conn};
    if (!conn || epoll_ctl(hub->epoll, EPOLL_CTL_ADD, fd, &event) != 0) {
        int code = errno;
        close(fd);
        free(conn);
        errno = code;
        return NULL;
    }
    conn->hub = hub;
    conn->fd = fd;
    conn->state = state;
    conn->writing = state == FY_CONN_CONNECTING;
    conn->limit = FY_WIRE_SMALL;
    conn->out_end = &conn->out;
    conn->heard = conn->sent = fy_now_ns();
    conn->deadline = fy_deadline(FY_HUB_PROVE_TIME);
    conn->pe = FY_NOBODY;
    conn->next = hub->conns;
    if (hub->conns)
        hub->conns->prev = conn;
    hub->conns = conn;
    fy_net_tune(fd);
    return conn;
}

struct fy_conn *fy_hub_connect(struct fy_hub *hub, const struct fy_addr *addr, uint32_t server,
                               const struct fy_identity *self, uint64_t deadline)
{
    int on = 1, fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return NULL;
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = addr->port, .sin_addr.s_addr = addr->ip};
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)); /* once closed, it keeps its port from no listener */
    int rc = connect(fd, (struct sockaddr *)&to, sizeof(to));
    if (rc != 0 && errno == EADDRNOTAVAIL && fy_net_bind_any(fd, INADDR_ANY) == 0)
        rc = connect(fd, (struct sockaddr *)&to, sizeof(to));
    int error = rc != 0 && errno != EINPROGRESS ? errno : 0;
    struct fy_conn *conn = hub_add(hub, fd, FY_CONN_CONNECTING);
    if (!conn)
        return NULL;
    conn->client = true;
    conn->server = server;
    conn->identity = *self;
    conn->error = error;
    conn->deadline = deadline;
    return conn;
}

/* The oldest that has proven nothing; additions are at the front. */
static struct fy_conn *oldest_unproven(const struct fy_hub *hub, unsigned *count)
{
    struct fy_conn *oldest = NULL;
    *count = 0;
    for (struct fy_conn *conn = hub->conns; conn; conn = conn->next) {
        if (conn->client || conn->state >= FY_CONN_VERDICT)
            continue;
        oldest = conn;
        ++*count;
    }
    return oldest;
}

/* accept says that descriptors are used up before it looks whether one is needed. */
static bool somebody_waits(int listener)
{
    struct pollfd fd = {.fd = listener, .events = POLLIN};
    return poll(&fd, 1, 0) > 0;
}

/* False: stop for now. */
static bool accept_one(struct fy_hub *hub, uint32_t self, const struct fy_log *log)
{
    int fd = accept4(hub->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
        return false;
    int code = errno;
    bool full = fd < 0 && fy_code_exhausted(code);
    if (fd < 0 && !full)
        return true; /* a connection that ended while it waited */
    if (full && !somebody_waits(hub->listener))
        return false;
    unsigned unproven;
    struct fy_conn *oldest = oldest_unproven(hub, &unproven);
    if (oldest && (full || unproven >= FY_HUB_UNPROVEN)) {
        fy_log(log, FERRY_LOG_DEBUG, "dropped a connection that has proven nothing, to make room");
        fy_hub_drop(hub, oldest);
    } else if (full) {
        hub->full = code;
        hub->listen_again = fy_now_ns() + ACCEPT_PAUSE;
        hub_listen(hub, false);
        return false;
    }
    struct fy_conn *conn = fd >= 0 ? hub_add(hub, fd, FY_CONN_HELLO) : NULL;
    if (!conn)
        return true;
    conn->server = self;
    hub->full = 0;
    return true;
}

void fy_hub_accept(struct fy_hub *hub, uint32_t self, const struct fy_log *log)
{
    for (int i = 0; i < ACCEPT_BURST && accept_one(hub, self, log); i++)
        ;
}

void fy_hub_drop(struct fy_hub *hub, struct fy_conn *conn)
{
    if (conn->state == FY_CONN_CLOSED)
        return;
    conn->state = FY_CONN_CLOSED;
    close(conn->fd); /* leaves epoll by itself */
    conn->fd = -1;
    if (conn->prev)
        conn->prev->next = conn->next;
    else
        hub->conns = conn->next;
    if (conn->next)
        conn->next->prev = conn->prev;
    /* conn->next stays: whoever walks the list goes on from here */
    conn->next_grave = hub->graves;
    hub->graves = conn;
}

void fy_hub_reap(struct fy_hub *hub)
{
    while (hub->graves) {
        struct fy_conn *conn = hub->graves;
        hub->graves = conn->next_grave;
        fy_conn_free(conn);
    }
}

void fy_hub_rearm(struct fy_hub *hub, struct fy_conn *conn)
{
    bool writing = conn->out != NULL || conn->state == FY_CONN_CONNECTING;
    if (conn->state == FY_CONN_CLOSED || writing == conn->writing)
        return;
    struct epoll_event event = {.events = writing ? EPOLLIN | EPOLLOUT : EPOLLIN, .data.ptr = conn};
    if (epoll_ctl(hub->epoll, EPOLL_CTL_MOD, conn->fd, &event) == 0)
        conn->writing = writing;
}

uint64_t fy_hub_tick(struct fy_hub *hub, uint64_t now)
{
    if (now >= hub->listen_again) {
        hub->listen_again = UINT64_MAX;
        hub_listen(hub, true);
    }
    return hub->listen_again;
}

int fy_hub_wait_ms(uint64_t due, uint64_t now)
{
    if (due == UINT64_MAX)
        return -1;
    if (due <= now)
        return 0;
    uint64_t ms = (due - now) / 1000000u + 1;
    return ms > 60000u ? 60000 : (int)ms;
}
