/* SPDX-License-Identifier: Apache-2.0
 * Hands descriptors of registered memory to peers, over an abstract socket, while this PE computes.
 * Opened and closed by the setup thread; between watch_fd and unwatch_fd all of it belongs to the control thread, which
 * must never wait here. Strangers cost a slot for FY_LB_SERVE_SECONDS at most, those of another user none. */
#include "loopback.h"

#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

enum { EVENT_LISTEN = FY_LB_CONNECTIONS, EVENT_TIMER };

#define TICK_NS 250000000

static double now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int add_event(const struct fy_lb_server *s, int fd, uint64_t number)
{
    struct epoll_event event = {.events = EPOLLIN, .data.u64 = number};

    return epoll_ctl(s->poll_fd, EPOLL_CTL_ADD, fd, &event);
}

static void set_paused(struct fy_lb_server *s, int paused)
{
    struct epoll_event event = {.events = paused ? 0 : EPOLLIN, .data.u64 = EVENT_LISTEN};

    if (s->paused != paused && !epoll_ctl(s->poll_fd, EPOLL_CTL_MOD, s->listen_fd, &event))
        s->paused = paused;
}

static void set_ticking(struct fy_lb_server *s, int ticking)
{
    struct itimerspec spec = {.it_interval.tv_nsec = ticking ? TICK_NS : 0, .it_value.tv_nsec = ticking ? TICK_NS : 0};

    if (s->ticking != ticking && !timerfd_settime(s->timer_fd, 0, &spec, NULL))
        s->ticking = ticking;
}

/* why NULL: served. */
static void drop(struct ferry_transport *t, struct fy_lb_connection *c, const char *why)
{
    if (why)
        t->core->log(t->core, FERRY_LOG_DEBUG, "loopback: dropped a connection from pid %d: %s", c->pid, why);
    close(c->fd);
    c->fd = -1;
    t->server.used--;
}

/* NULL: welcome. */
static const char *examine(int fd, int *pid)
{
    struct ucred credentials;
    socklen_t size = sizeof credentials;

    *pid = -1;
    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &credentials, &size))
        return "the kernel does not say whose it is";
    *pid = credentials.pid;
    return credentials.uid == geteuid() ? NULL : "it belongs to another user";
}

static const char *greet(struct ferry_transport *t, struct fy_lb_connection *c)
{
    struct fy_lb_challenge challenge = {
        .head = {.magic = FY_LB_MAGIC, .format = FY_LB_FORMAT, .kind = FY_LB_CHALLENGE, .pe = t->my_pe}};
    const char *wrong = examine(c->fd, &c->pid);

    if (wrong)
        return wrong;
    if (fy_lb_random(c->nonce, sizeof c->nonce))
        return "no random numbers";
    memcpy(challenge.nonce, c->nonce, sizeof challenge.nonce);
    if (send(c->fd, &challenge, sizeof challenge, MSG_DONTWAIT | MSG_NOSIGNAL) != (ssize_t)sizeof challenge)
        return "it cannot be sent to";
    if (add_event(&t->server, c->fd, (uint64_t)(c - t->server.connections)))
        return "it cannot be watched";
    return NULL;
}

static struct fy_lb_connection *free_slot(struct fy_lb_server *s)
{
    for (size_t i = 0; i < FY_LB_CONNECTIONS; i++)
        if (s->connections[i].fd < 0)
            return &s->connections[i];
    return NULL;
}

/* Takes one connection. 0: there is none, or no room: then the timer comes back to it. */
static int accept_one(struct ferry_transport *t)
{
    struct fy_lb_server *s = &t->server;
    struct fy_lb_connection *c = free_slot(s);
    const char *wrong;
    int fd;

    if (!c) {
        set_paused(s, 1);
        return 0;
    }
    fd = accept4(s->listen_fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd < 0) {
        if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM)
            set_paused(s, 1); /* it stays readable: without a pause this would spin */
        return 0;
    }
    c->fd = fd;
    c->deadline = now() + FY_LB_SERVE_SECONDS;
    s->used++;
    wrong = greet(t, c);
    if (wrong)
        drop(t, c, wrong);
    return 1;
}

/* One message with the descriptor beside it. */
static int send_reply(int to, const struct fy_lb_reply *reply, int fd)
{
    union {
        struct cmsghdr head;
        char space[CMSG_SPACE(sizeof(int))];
    } control = {.space = {0}};
    struct fy_lb_reply copy = *reply;
    struct iovec part = {.iov_base = &copy, .iov_len = sizeof copy};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};

    if (fd >= 0) {
        message.msg_control = &control;
        message.msg_controllen = sizeof control;
        control.head.cmsg_level = SOL_SOCKET;
        control.head.cmsg_type = SCM_RIGHTS;
        control.head.cmsg_len = CMSG_LEN(sizeof fd);
        memcpy(CMSG_DATA(&control.head), &fd, sizeof fd);
    }
    return sendmsg(to, &message, MSG_DONTWAIT | MSG_NOSIGNAL) == (ssize_t)sizeof copy;
}

/* The lock keeps the setup thread from closing the region's descriptor meanwhile. */
static const char *answer(struct ferry_transport *t, struct fy_lb_connection *c, const struct fy_lb_request *request)
{
    struct fy_lb_reply reply;
    const struct ferry_region *r;
    int sent;

    memset(&reply, 0, sizeof reply);
    memcpy(reply.nonce, request->nonce, sizeof reply.nonce);
    reply.region = request->region;
    pthread_mutex_lock(&t->lock);
    for (r = t->regions; r && r->number != request->region; r = r->next)
        ;
    if (r && r->fd >= 0) {
        reply.offset = r->offset;
        reply.length = r->length;
    } else {
        reply.status = FERRY_ERR_NOT_FOUND;
    }
    fy_lb_seal(t->secret, FY_LB_REPLY, t->my_pe, &reply, sizeof reply);
    sent = send_reply(c->fd, &reply, reply.status ? -1 : r->fd);
    pthread_mutex_unlock(&t->lock);
    return sent ? NULL : "it cannot be sent to";
}

static void serve_connection(struct ferry_transport *t, struct fy_lb_connection *c)
{
    struct fy_lb_request request;
    const char *wrong;
    ssize_t n;

    if (c->fd < 0) /* dropped earlier in this round */
        return;
    n = recv(c->fd, &request, sizeof request, MSG_DONTWAIT | MSG_TRUNC);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (n <= 0) {
        drop(t, c, "it was closed before it made a request");
        return;
    }
    wrong = fy_lb_check(t->secret, FY_LB_REQUEST, &request, (size_t)n, sizeof request);
    if (!wrong && memcmp(request.server_nonce, c->nonce, sizeof c->nonce))
        wrong = "it answers another challenge";
    if (!wrong && memcmp(request.server_token, t->token, sizeof t->token))
        wrong = "it is meant for another instance";
    drop(t, c, wrong ? wrong : answer(t, c, &request));
}

static void tick(struct ferry_transport *t)
{
    struct fy_lb_server *s = &t->server;
    uint64_t count;
    double time = now();

    if (read(s->timer_fd, &count, sizeof count) < 0 && errno != EAGAIN)
        t->core->log(t->core, FERRY_LOG_DEBUG, "loopback: timer: %s", strerror(errno));
    for (size_t i = 0; i < FY_LB_CONNECTIONS; i++)
        if (s->connections[i].fd >= 0 && time > s->connections[i].deadline)
            drop(t, &s->connections[i], "it made no request in time");
    set_paused(s, 0);
}

/* Given to watch_fd: control thread. */
static void serve(void *arg)
{
    struct ferry_transport *t = arg;
    struct fy_lb_server *s = &t->server;
    struct epoll_event events[16];
    int n = epoll_wait(s->poll_fd, events, 16, 0);

    for (int i = 0; i < n; i++) {
        if (events[i].data.u64 == EVENT_TIMER)
            tick(t);
        else if (events[i].data.u64 == EVENT_LISTEN)
            for (int k = 0; k < FY_LB_CONNECTIONS && accept_one(t); k++)
                ;
        else
            serve_connection(t, &s->connections[events[i].data.u64]);
    }
    set_ticking(s, s->used || s->paused);
}

/* FERRY_OK, or FERRY_ERR_SYSTEM with errno. On failure fy_lb_server_close tidies up. */
static int create(struct ferry_transport *t)
{
    struct fy_lb_server *s = &t->server;
    struct sockaddr_un name;
    socklen_t length;

    s->poll_fd = epoll_create1(EPOLL_CLOEXEC);
    s->timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
    s->listen_fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (s->poll_fd < 0 || s->timer_fd < 0 || s->listen_fd < 0)
        return FERRY_ERR_SYSTEM;
    fy_lb_socket_name(t->token, &name, &length);
    if (bind(s->listen_fd, (struct sockaddr *)&name, length) || listen(s->listen_fd, SOMAXCONN))
        return FERRY_ERR_SYSTEM;
    if (add_event(s, s->timer_fd, EVENT_TIMER) || add_event(s, s->listen_fd, EVENT_LISTEN))
        return FERRY_ERR_SYSTEM;
    return FERRY_OK;
}

void fy_lb_server_init(struct fy_lb_server *s)
{
    s->poll_fd = s->timer_fd = s->listen_fd = -1;
    for (size_t i = 0; i < FY_LB_CONNECTIONS; i++)
        s->connections[i].fd = -1;
}

int fy_lb_server_open(struct ferry_transport *t)
{
    if (t->n_pes < 2) /* nobody to serve */
        return FERRY_OK;
    if (create(t))
        return fy_lb_fail(t, -1, FERRY_ERR_SYSTEM, errno, "raise the limit on open files (ulimit -n)",
                          "no socket to hand memory to other processes: %s", strerror(errno));
    return FERRY_OK;
}

int fy_lb_server_start(struct ferry_transport *t)
{
    int status;

    if (t->server.poll_fd < 0 || t->server.watched)
        return FERRY_OK;
    status = t->core->watch_fd(t->core, t->server.poll_fd, serve, t);
    if (status)
        return fy_lb_fail(t, -1, status, 0, "", "the control thread does not watch the socket of loopback");
    t->server.watched = 1;
    return FERRY_OK;
}

static void close_fd(int fd)
{
    if (fd >= 0)
        close(fd);
}

void fy_lb_server_close(struct ferry_transport *t)
{
    struct fy_lb_server *s = &t->server;

    if (s->watched)
        t->core->unwatch_fd(t->core, s->poll_fd);
    for (size_t i = 0; i < FY_LB_CONNECTIONS; i++)
        close_fd(s->connections[i].fd);
    close_fd(s->listen_fd);
    close_fd(s->timer_fd);
    close_fd(s->poll_fd);
}
