/* SPDX-License-Identifier: Apache-2.0
 * Peers' memory: by pointer within a process, else mapped from a descriptor that the peer's socket hands over.
 * Setup thread, which must not wait: an import advances as far as the peer's control thread has answered, keeps its
 * state in fy_lb_pending and returns FERRY_AGAIN. */
#include "guise.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#define CONNECTIONS_LOST_MAX 3 /* a live peer drops a connection only if this process was stopped for long */

static int add_key(struct ferry_transport *t, const struct ferry_rkey *filled, struct ferry_rkey **key)
{
    struct ferry_rkey *k = malloc(sizeof *k);

    if (!k)
        return FERRY_ERR_NOMEM;
    *k = *filled;
    k->next = t->keys;
    t->keys = k;
    *key = k;
    return FERRY_OK;
}

static int import_pointer(struct ferry_transport *t, const struct fy_lb_key *in, struct ferry_rkey **key)
{
    struct ferry_rkey k = {.base = (char *)(uintptr_t)in->address, .length = in->length};
    int status = in->kind == FERRY_MEMORY_GPU && t->gpu ? fy_lb_gpu_share(t, in) : FERRY_OK;

    if (status)
        return status;
    status = add_key(t, &k, key);
    if (status)
        return fy_lb_fail(t, in->head.pe, status, ENOMEM, "", "no memory for a key of PE %u", in->head.pe);
    return FERRY_OK;
}

/* Files on huge pages are mapped in whole pages of theirs. */
static size_t granularity(const struct stat *st)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE), block = (size_t)st->st_blksize;

    return block > page && (block & (block - 1)) == 0 ? block : page;
}

static int import_file(struct ferry_transport *t, uint32_t peer, int fd, const struct fy_lb_reply *reply,
                       struct ferry_rkey **key)
{
    struct ferry_rkey k = {0};
    uint64_t end = 0;
    struct stat st;
    size_t unit, delta;
    void *map;

    if (fstat(fd, &st))
        return fy_lb_fail(t, peer, FERRY_ERR_SYSTEM, errno, "", "cannot look at the memory of PE %u", peer);
    if (__builtin_add_overflow(reply->offset, reply->length, &end) || end > (uint64_t)st.st_size)
        return fy_lb_fail(t, peer, FERRY_ERR_ACCESS, 0, "",
                          "the file behind the memory of PE %u has %lld bytes, its key needs %llu", peer,
                          (long long)st.st_size, (unsigned long long)end);
    unit = granularity(&st);
    delta = reply->offset & (unit - 1);
    k.map_length = (reply->length + delta + unit - 1) & ~(unit - 1);
    map = mmap(NULL, k.map_length, PROT_READ | PROT_WRITE, MAP_SHARED, fd, (off_t)(reply->offset - delta));
    if (map == MAP_FAILED)
        return fy_lb_fail(t, peer, FERRY_ERR_SYSTEM, errno, "look at ulimit -v and vm.max_map_count",
                          "cannot map %zu bytes of PE %u: %s", k.map_length, peer, strerror(errno));
    k.map = map;
    k.base = (char *)map + delta;
    k.length = reply->length;
    if (add_key(t, &k, key)) {
        munmap(map, k.map_length);
        return fy_lb_fail(t, peer, FERRY_ERR_NOMEM, ENOMEM, "", "no memory for a key of PE %u", peer);
    }
    return FERRY_OK;
}

static void unmap(struct ferry_transport *t, const struct ferry_rkey *key)
{
    if (key->map && key->kind == FERRY_MEMORY_GPU && t->gpu)
        t->gpu->unmap(t->core, key->map, key->map_length);
    else if (key->map)
        munmap(key->map, key->map_length);
}

static int import_gpu(struct ferry_transport *t, uint32_t peer, int fd, const struct fy_lb_reply *reply, struct ferry_rkey **key)
{
    struct ferry_rkey k = {.kind = FERRY_MEMORY_GPU};
    int status = fy_lb_gpu_import(t, peer, fd, reply->length, &k);

    if (!status && add_key(t, &k, key)) {
        unmap(t, &k);
        return fy_lb_fail(t, peer, FERRY_ERR_NOMEM, ENOMEM, "", "no memory for a key of PE %u", peer);
    }
    return status;
}

/* Both ends check: whoever guessed or took over the name must run as the same user. */
static int connect_peer(struct ferry_transport *t, struct fy_lb_pending *p)
{
    struct sockaddr_un name;
    socklen_t length, credentials_size = sizeof(struct ucred);
    struct ucred credentials;
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

    if (fd < 0)
        return fy_lb_fail(t, p->peer, FERRY_ERR_SYSTEM, errno, "raise the limit on open files (ulimit -n)",
                          "no socket to ask PE %u for its memory: %s", p->peer, strerror(errno));
    fy_lb_socket_name(p->key.token, &name, &length);
    if (connect(fd, (struct sockaddr *)&name, length)) {
        int error = errno;

        close(fd);
        if (error == EAGAIN || error == EINTR) /* its backlog is full */
            return FERRY_AGAIN;
        return fy_lb_fail(t, p->peer, FERRY_ERR_PEER, error, "",
                          "PE %u (pid %llu) does not hand over its memory: its socket is gone (%s)", p->peer,
                          (unsigned long long)p->key.process.pid, strerror(error));
    }
    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &credentials, &credentials_size) || credentials.uid != geteuid()) {
        close(fd);
        return fy_lb_fail(t, p->peer, FERRY_ERR_ACCESS, 0, "", "the socket of PE %u belongs to another user", p->peer);
    }
    p->fd = fd;
    p->asked = 0;
    return FERRY_OK;
}

static int connection_lost(struct ferry_transport *t, struct fy_lb_pending *p)
{
    close(p->fd);
    p->fd = -1;
    if (++p->lost < CONNECTIONS_LOST_MAX)
        return FERRY_AGAIN;
    return fy_lb_fail(t, p->peer, FERRY_ERR_PEER, 0, "FERRY_LOG=debug on that PE shows why it dropped the connections",
                      "PE %u (pid %llu) closed the connection %d times instead of handing over its memory", p->peer,
                      (unsigned long long)p->key.process.pid, p->lost);
}

/* Answers the peer's challenge. The secret itself is not sent. */
static int send_request(struct ferry_transport *t, struct fy_lb_pending *p)
{
    struct fy_lb_challenge challenge;
    struct fy_lb_request request;
    ssize_t n = recv(p->fd, &challenge, sizeof challenge, MSG_DONTWAIT | MSG_TRUNC);

    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return FERRY_AGAIN;
    if (n <= 0)
        return connection_lost(t, p);
    if (fy_lb_check_head(FY_LB_CHALLENGE, &challenge, (size_t)n, sizeof challenge))
        return fy_lb_fail(t, p->peer, FERRY_ERR_ACCESS, 0, "", "the socket of PE %u is not answered by ferry", p->peer);
    memset(&request, 0, sizeof request);
    memcpy(request.server_nonce, challenge.nonce, sizeof request.server_nonce);
    memcpy(request.server_token, p->key.token, sizeof request.server_token);
    memcpy(request.nonce, p->nonce, sizeof request.nonce);
    request.region = p->key.region;
    fy_lb_seal(t->secret, FY_LB_REQUEST, t->my_pe, &request, sizeof request);
    if (send(p->fd, &request, sizeof request, MSG_DONTWAIT | MSG_NOSIGNAL) != (ssize_t)sizeof request)
        return connection_lost(t, p);
    p->asked = 1;
    return FERRY_OK;
}

/* Takes one message and the descriptor beside it; *fd -1: none. As recv, but never leaves a descriptor open. */
static ssize_t receive_reply(int from, struct fy_lb_reply *reply, int *fd)
{
    union {
        struct cmsghdr head;
        char space[CMSG_SPACE(sizeof(int))]; /* room for one: the kernel closes what does not fit */
    } control;
    struct iovec part = {.iov_base = reply, .iov_len = sizeof *reply};
    struct msghdr message = {
        .msg_iov = &part, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control};
    ssize_t n = recvmsg(from, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC | MSG_TRUNC);
    const struct cmsghdr *c;

    *fd = -1;
    if (n < 0)
        return n;
    c = CMSG_FIRSTHDR(&message);
    if (c && c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS && c->cmsg_len >= CMSG_LEN(sizeof(int)))
        memcpy(fd, CMSG_DATA(c), sizeof *fd);
    return n;
}

static int judge_reply(struct ferry_transport *t, struct fy_lb_pending *p, const struct fy_lb_reply *reply, size_t size,
                       int fd, struct ferry_rkey **key)
{
    const char *wrong = fy_lb_check(t->secret, FY_LB_REPLY, reply, size, sizeof *reply);

    if (wrong)
        return fy_lb_fail(t, p->peer, FERRY_ERR_ACCESS, 0, "", "the answer of PE %u cannot be used: %s", p->peer,
                          wrong);
    if (memcmp(reply->nonce, p->nonce, sizeof p->nonce) || reply->region != p->key.region || reply->head.pe != p->peer)
        return fy_lb_fail(t, p->peer, FERRY_ERR_ACCESS, 0, "", "PE %u answered another request", p->peer);
    if (reply->status != FERRY_OK || fd < 0 || reply->length != p->key.length)
        return fy_lb_fail(t, p->peer, FERRY_ERR_ACCESS, 0, "", "PE %u no longer has the %llu bytes that its key is for",
                          p->peer, (unsigned long long)p->key.length);
    if (p->key.kind == FERRY_MEMORY_GPU && t->gpu)
        return import_gpu(t, p->peer, fd, reply, key);
    return import_file(t, p->peer, fd, reply, key);
}

static int take_reply(struct ferry_transport *t, struct fy_lb_pending *p, struct ferry_rkey **key)
{
    struct fy_lb_reply reply;
    int fd, status;
    ssize_t n = receive_reply(p->fd, &reply, &fd);

    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return FERRY_AGAIN;
    if (n <= 0)
        return connection_lost(t, p);
    status = judge_reply(t, p, &reply, (size_t)n, fd, key);
    if (fd >= 0)
        close(fd); /* the mapping holds the file */
    return status;
}

static int advance(struct ferry_transport *t, struct fy_lb_pending *p, struct ferry_rkey **key)
{
    int status = p->fd < 0 ? connect_peer(t, p) : FERRY_OK;

    if (!status && !p->asked)
        status = send_request(t, p);
    if (!status)
        status = take_reply(t, p, key);
    return status;
}

static struct fy_lb_pending **find_pending(struct ferry_transport *t, uint32_t peer, const struct fy_lb_key *key)
{
    struct fy_lb_pending **at = &t->pending;

    while (*at && ((*at)->peer != peer || memcmp(&(*at)->key, key, sizeof *key)))
        at = &(*at)->next;
    return at;
}

static void drop_pending(struct fy_lb_pending **at)
{
    struct fy_lb_pending *p = *at;

    *at = p->next;
    if (p->fd >= 0)
        close(p->fd);
    free(p);
}

static int new_pending(struct ferry_transport *t, uint32_t peer, const struct fy_lb_key *key)
{
    struct fy_lb_pending *p = calloc(1, sizeof *p);

    if (!p)
        return fy_lb_fail(t, peer, FERRY_ERR_NOMEM, ENOMEM, "", "no memory to import a key of PE %u", peer);
    p->peer = peer;
    p->key = *key;
    p->fd = -1;
    if (fy_lb_random(p->nonce, sizeof p->nonce)) {
        free(p);
        return fy_lb_fail(t, peer, FERRY_ERR_SYSTEM, errno, "", "no random numbers: %s", strerror(errno));
    }
    p->next = t->pending;
    t->pending = p;
    return FERRY_OK;
}

static int import_remote(struct ferry_transport *t, uint32_t peer, const struct fy_lb_key *in, struct ferry_rkey **key)
{
    struct fy_lb_pending **at = find_pending(t, peer, in);
    int status;

    if (!*at) {
        status = new_pending(t, peer, in);
        if (status)
            return status;
        at = &t->pending;
    }
    status = advance(t, *at, key);
    if (status != FERRY_AGAIN)
        drop_pending(at);
    return status;
}

int fy_lb_import_memory(struct ferry_transport *t, const struct fy_lb_key *in, struct ferry_rkey **key)
{
    int status;

    if (fy_lb_same_process(&in->process, &t->self.process))
        status = import_pointer(t, in, key);
    else if (in->has_file)
        status = import_remote(t, in->head.pe, in, key);
    else
        status = fy_lb_fail(t, in->head.pe, FERRY_ERR_UNSUPPORTED, 0, "use memory of the symmetric heap",
                            "%llu bytes of PE %u have no file behind them, so another process cannot map them",
                            (unsigned long long)in->length, in->head.pe);
    if (status == FERRY_OK) {
        (*key)->peer = in->head.pe;
        (*key)->kind = (uint32_t)in->kind;
    }
    return status;
}

int fy_lb_import_key(struct ferry_transport *t, uint32_t peer, const void *blob, size_t size, struct ferry_rkey **key)
{
    struct fy_lb_key in = {.length = 0};
    const char *wrong = NULL;
    int status;

    if (size == sizeof in)
        memcpy(&in, blob, sizeof in);
    if (size != sizeof in || !*find_pending(t, peer, &in)) /* who waits asks often, with what was good the first time */
        wrong = fy_lb_check(t->secret, FY_LB_KEY, blob, size, sizeof in);
    if (wrong)
        return fy_lb_fail(t, peer, FERRY_ERR_ARG, 0, "", "the key of PE %u cannot be used: %s", peer, wrong);
    if (in.head.pe != peer)
        return fy_lb_fail(t, peer, FERRY_ERR_ARG, 0, "", "the key given for PE %u is of PE %u", peer, in.head.pe);
    status = t->guise ? fy_lb_page_import(t, &in) : FERRY_OK;
    if (status)
        return status;
    status = fy_lb_import_memory(t, &in, key);
    if (status == FERRY_OK && t->guise)
        (*key)->page = t->guise->pages[peer];
    return status;
}

static void key_free(struct ferry_transport *t, struct ferry_rkey *key)
{
    unmap(t, key);
    free(key);
}

int fy_lb_release_key(struct ferry_transport *t, struct ferry_rkey *key)
{
    struct ferry_rkey **at;

    for (at = &t->keys; *at && *at != key; at = &(*at)->next)
        ;
    if (*at)
        *at = key->next;
    key_free(t, key);
    return FERRY_OK;
}

int fy_lb_map_key(struct ferry_transport *t, const struct ferry_rkey *key, void **address)
{
    if (key->kind != FERRY_MEMORY_HOST && !t->gpu)
        return fy_lb_fail(t, key->peer, FERRY_ERR_UNSUPPORTED, 0, "",
                          "memory of kind %u of PE %u cannot be touched by this process", key->kind, key->peer);
    *address = key->base;
    return FERRY_OK;
}

/* Imports that wait for the peer end, operations that wait for it fail. Its keys stay until they are released: the
 * memory outlives its owner, and other threads may be writing to it. */
int fy_lb_disconnect(struct ferry_transport *t, uint32_t peer)
{
    struct fy_lb_pending **at = &t->pending;

    if (t->guise && peer < t->n_pes)
        __atomic_store_n(&t->guise->gone[peer], 1, __ATOMIC_RELEASE);
    while (*at) {
        if ((*at)->peer == peer)
            drop_pending(at);
        else
            at = &(*at)->next;
    }
    return FERRY_OK;
}

void fy_lb_imports_close(struct ferry_transport *t)
{
    while (t->pending)
        drop_pending(&t->pending);
    while (t->keys) {
        struct ferry_rkey *k = t->keys;

        t->keys = k->next;
        key_free(t, k);
    }
}
