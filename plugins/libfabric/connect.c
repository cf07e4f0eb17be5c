/* SPDX-License-Identifier: Apache-2.0
 * Wiring: addresses of peers, first contact, and letting go of those that are dead or leave.
 * Setup thread, but for fy_lf_leave: channel thread. */
#include "libfabric.h"

#include <dirent.h>
#include <fcntl.h>
#include <rdma/fi_cm.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

struct endpoint {
    uint32_t magic, size, virt, name_size;
    uint64_t host;
    uint64_t scratch, scratch_key;
    char provider[64];
    unsigned char name[FY_LF_NAME]; /* what fi_getname gives of the service endpoint */
};
_Static_assert(sizeof(struct endpoint) <= FERRY_ENDPOINT_MAX, "an endpoint is too long");

int fy_lf_export_endpoint(struct ferry_transport *t, void *blob, size_t *size)
{
    struct endpoint e = {.magic = FY_LF_MAGIC,
                         .size = sizeof e,
                         .virt = (uint32_t)t->virt,
                         .host = t->host,
                         .scratch = fy_lf_base(t, t->scratch_region),
                         .scratch_key = fi_mr_key(t->scratch_region->mr)};
    size_t length = sizeof e.name;
    int rc = fi_getname(&t->service.ep->fid, e.name, &length);

    if (rc)
        return fy_lf_fail(t, -1, FERRY_ERR_TRANSPORT, -rc, "use another provider",
                          "provider %s: the address of its endpoint, %zu bytes, cannot be had: %s", t->name, length,
                          fi_strerror(-rc));
    e.name_size = (uint32_t)length;
    snprintf(e.provider, sizeof e.provider, "%s", t->name);
    memcpy(blob, &e, sizeof e);
    *size = sizeof e;
    return FERRY_OK;
}

static int readable(const void *blob, size_t size, struct endpoint *e)
{
    if (size != sizeof *e)
        return 0;
    memcpy(e, blob, sizeof *e);
    return e->magic == FY_LF_MAGIC && e->size == sizeof *e && e->name_size <= sizeof e->name &&
           memchr(e->provider, 0, sizeof e->provider);
}

/* 127.0.0.1 and its like are addresses of their own host only. */
static int own_host_only(const struct endpoint *e)
{
    struct sockaddr head;

    if (e->name_size < sizeof head)
        return 0;
    memcpy(&head, e->name, sizeof head);
    return head.sa_family == AF_INET && e->name[4] == 127;
}

/* shm: fi_shm://PID:UID:NUMBER is an endpoint, and PID:UID:NUMBER its file in /dev/shm. */
static int32_t process_of(const struct endpoint *e)
{
    char name[sizeof e->name + 1] = "";
    const char *number;

    memcpy(name, e->name, e->name_size);
    number = strstr(name, "://");
    return number ? (int32_t)strtol(number + 3, NULL, 10) : 0;
}

#define EXITING 4u /* PF_EXITING of the kernel: files are closed before the memory goes, and peers notice that first */

static int ended(int32_t process)
{
    char path[64], text[512] = "", state = 0;
    const char *after;
    unsigned flags = 0;
    ssize_t n = -1;
    int fd;

    snprintf(path, sizeof path, "/proc/%d/stat", process);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd >= 0) {
        n = read(fd, text, sizeof text - 1);
        close(fd);
    }
    after = strrchr(text, ')');
    if (n <= 0 || !after || sscanf(after + 1, " %c %*d %*d %*d %*d %*d %u", &state, &flags) != 2)
        return n <= 0;
    return state == 'Z' || state == 'X' || flags & EXITING;
}

/* A killed process cannot remove its files. */
static void clean_after(int32_t process)
{
    char prefix[16];
    struct dirent *file;
    DIR *folder;

    if (process <= 0 || !ended(process))
        return;
    folder = opendir("/dev/shm");
    snprintf(prefix, sizeof prefix, "%d:", process);
    while (folder && (file = readdir(folder)))
        if (!strncmp(file->d_name, prefix, strlen(prefix)))
            unlinkat(dirfd(folder), file->d_name, 0);
    if (folder)
        closedir(folder);
}

int fy_lf_ended(const struct ferry_transport *t, uint32_t peer)
{
    return t->processes && t->processes[peer] > 0 && ended(t->processes[peer]);
}

void fy_lf_clean(struct ferry_transport *t)
{
    for (uint32_t peer = 0; t->processes && peer < t->n_pes; peer++)
        clean_after(t->processes[peer]);
}

int fy_lf_reach(struct ferry_transport *t, uint32_t peer, const void *blob, size_t size, char *why, size_t why_size)
{
    struct endpoint e;

    if (!readable(blob, size, &e)) {
        snprintf(why, why_size, "its address is not of this libfabric transport: run the same build on all hosts");
        return FERRY_ERR_UNREACHABLE;
    }
    if (strcmp(e.provider, t->name)) {
        snprintf(why, why_size, "it uses provider %s and this PE %s: set FERRY_LIBFABRIC_PROVIDER alike", e.provider, t->name);
        return FERRY_ERR_UNREACHABLE;
    }
    if (t->provider.one_host && e.virt != (uint32_t)t->virt) {
        snprintf(why, why_size, "it uses the other engine of shm: set FERRY_LIBFABRIC_MR_VIRT_ADDR alike");
        return FERRY_ERR_UNREACHABLE;
    }
    if (t->processes)
        t->processes[peer] = process_of(&e);
    if (e.host == t->host)
        return FERRY_OK;
    if (t->provider.one_host) {
        snprintf(why, why_size, "provider %s reaches PEs of one host, with one /dev/shm, only", t->name);
        return FERRY_ERR_UNREACHABLE;
    }
    if (own_host_only(&e)) {
        snprintf(why, why_size, "its address is one of its own host only: set FERRY_LIBFABRIC_INTERFACE there");
        return FERRY_ERR_UNREACHABLE;
    }
    return FERRY_OK;
}

static int insert(struct ferry_transport *t, struct fy_lf_channel *c, uint32_t peer, const struct endpoint *e)
{
    struct fy_lf_peer *p = fy_lf_peer_make(c, peer);
    int n;

    if (!p)
        return FERRY_ERR_NOMEM;
    p->scratch = e->scratch;
    p->scratch_key = e->scratch_key;
    if (t->each) {
        n = fy_lf_endpoint_open(c, t->each, &p->own, &p->own_av);
        if (n) {
            fy_lf_peer_drop(p);
            return n;
        }
    }
    p->ep = p->own ? p->own : c->ep;
    n = fi_av_insert(p->own ? p->own_av : c->av, e->name, 1, &p->address, 0, NULL);
    if (n != 1) {
        fy_lf_peer_drop(p);
        return fy_lf_fail(t, peer, FERRY_ERR_UNREACHABLE, n < 0 ? -n : 0, "run with FI_LOG_LEVEL=warn",
                          "provider %s does not take the address of pe %u", t->name, peer);
    }
    fy_lf_window(p);
    p->next = c->connected;
    __atomic_store_n(&c->connected, p, __ATOMIC_RELEASE);
    __atomic_store_n(&c->peers[peer], p, __ATOMIC_RELEASE); /* query_error looks from any thread */
    return FERRY_OK;
}

/* The first operation makes the connection, which may take 30 ms, and needs the target's service thread. That may be waiting
 * in a call like this one, so there is no waiting here: a flush sets it going, taken or not. */
int fy_lf_connect(struct ferry_transport *t, uint32_t channel, uint32_t peer, struct ferry_connect *io)
{
    struct fy_lf_channel *c = channel < t->max_channels ? t->channels[channel] : NULL;
    struct endpoint e;
    int rc;

    io->out_size = 0;
    if (!c || io->phase != FERRY_CONNECT_START)
        return FERRY_ERR_ARG;
    if (c->peers[peer])
        return FERRY_OK;
    if (!readable(io->in, io->in_size, &e))
        return fy_lf_fail(t, peer, FERRY_ERR_MISMATCH, 0, "run the same build on all hosts",
                          "the address of pe %u cannot be read", peer);
    rc = insert(t, c, peer, &e);
    if (rc == FERRY_OK)
        rc = fy_lf_flush(c, c->peers[peer]);
    return rc < 0 ? rc : FERRY_OK;
}

/* The provider may be using the address at this moment, so the channel's thread gives it up. From now on everything to
 * this peer fails. */
int fy_lf_disconnect(struct ferry_transport *t, uint32_t peer)
{
    for (uint32_t i = 0; i < t->max_channels; i++) {
        struct fy_lf_channel *c = t->channels[i];
        struct fy_lf_peer *p = c ? c->peers[peer] : NULL;
        if (!p)
            continue;
        fy_lf_peer_error(p, FERRY_ERR_PEER, 0, "the peer is dead, or has left", "");
        __atomic_store_n(&p->leave, 1, __ATOMIC_RELEASE);
    }
    if (t->processes)
        clean_after(t->processes[peer]);
    return FERRY_OK;
}

/* What was posted to it is nobody's any more. */
void fy_lf_leave(struct fy_lf_channel *c)
{
    for (struct fy_lf_peer *p = fy_lf_connected(c); p; p = p->next) {
        if (p->dropped || !__atomic_load_n(&p->leave, __ATOMIC_ACQUIRE))
            continue;
        if (p->own)
            fy_lf_endpoint_close(&p->own, &p->own_av);
        else
            fi_av_remove(c->av, &p->address, 1, 0);
        p->dropped = 1;
        c->outstanding -= p->posted - p->retired;
        p->retired = p->posted;
        c->told -= p->told;
        p->told = 0;
    }
}
