/* SPDX-License-Identifier: Apache-2.0
 * Wiring: the address of the service worker travels in the endpoint, and in the answer to a connect what had no room there.
 * UCX wires the way back itself, when it needs one. Setup thread; SERVE: control thread. */
#include "ucx.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The bytes of the address follow. */
struct endpoint {
    uint32_t magic, address_size;
    uint64_t host;
    char tls[FY_UX_TLS];
};
#ifndef FY_UX_ROOM /* a test makes it small */
#define FY_UX_ROOM (FERRY_ENDPOINT_MAX - sizeof(struct endpoint))
#endif

size_t fy_ux_address_room(void)
{
    return FY_UX_ROOM;
}

/* The kernel's id of this boot, as a number: hosts differ in it. */
static uint64_t host_id(void)
{
    FILE *file = fopen("/proc/sys/kernel/random/boot_id", "re");
    char text[64] = "";
    uint64_t hash = 14695981039346656037u; /* FNV-1a */

    if (!file)
        return 0;
    if (!fgets(text, sizeof text, file))
        text[0] = '\0';
    fclose(file);
    for (const char *s = text; *s; s++)
        hash = (hash ^ (uint8_t)*s) * 1099511628211u;
    return hash;
}

int fy_ux_export_endpoint(struct ferry_transport *t, void *blob, size_t *size)
{
    struct endpoint e = {.magic = FY_UX_MAGIC, .address_size = (uint32_t)t->address_size, .host = host_id()};
    size_t n = t->address_size < FY_UX_ROOM ? t->address_size : FY_UX_ROOM;

    if (t->address_size > FY_UX_ROOM + FERRY_ENDPOINT_MAX)
        return fy_ux_fail(t, -1, FERRY_ERR_LIMIT, UCS_OK, "name fewer devices in UCX_NET_DEVICES, or fewer transports in UCX_TLS",
                          "UCX's address over %s takes %zu bytes, and there is room for %zu", t->context.tls,
                          t->address_size, FY_UX_ROOM + FERRY_ENDPOINT_MAX);
    snprintf(e.tls, sizeof e.tls, "%s", t->context.tls);
    memcpy(blob, &e, sizeof e);
    memcpy((char *)blob + sizeof e, t->address, n);
    *size = sizeof e + n;
    return FERRY_OK;
}

/* 0: it is not one of ours. */
static int read_endpoint(const void *blob, size_t size, struct endpoint *e)
{
    if (size < sizeof *e)
        return 0;
    memcpy(e, blob, sizeof *e);
    e->tls[sizeof e->tls - 1] = '\0';
    return e->magic == FY_UX_MAGIC && e->address_size && e->address_size <= FY_UX_ROOM + FERRY_ENDPOINT_MAX &&
           size - sizeof *e == (e->address_size < FY_UX_ROOM ? e->address_size : FY_UX_ROOM);
}

/* Does a transport of one list stand in the other, too, that is of the wanted sort: in the host, or across? */
static int in_common(const char *mine, const char *theirs, int in_host)
{
    while (*mine) {
        size_t n = strcspn(mine, ",");
        int local = fy_ux_listed("posix,sysv,xpmem", mine, n), no_lane = fy_ux_listed("self,cma,knem", mine, n);
        if (!no_lane && local == in_host && fy_ux_listed(theirs, mine, n))
            return 1;
        mine += n + (mine[n] == ',');
    }
    return 0;
}

static int remember(struct ferry_transport *t, uint32_t peer, const void *address, size_t size)
{
    if (!t->maps || t->addresses[peer])
        return FERRY_OK;
    t->addresses[peer] = malloc(size);
    if (!t->addresses[peer])
        return fy_ux_fail(t, peer, FERRY_ERR_NOMEM, UCS_OK, "", "no memory for the address of pe %u", peer);
    memcpy(t->addresses[peer], address, size);
    return FERRY_OK;
}

int fy_ux_reach(struct ferry_transport *t, uint32_t peer, const void *blob, size_t size, char *why, size_t why_size)
{
    int same_host;
    struct endpoint e;

    if (!read_endpoint(blob, size, &e)) {
        snprintf(why, why_size, "its address is not of this ucx: run the same build on all hosts");
        return FERRY_ERR_UNREACHABLE;
    }
    same_host = e.host == host_id();
    if (same_host && e.address_size <= FY_UX_ROOM && remember(t, peer, (const char *)blob + sizeof e, e.address_size))
        return FERRY_ERR_NOMEM;
    if (peer == t->my_pe || in_common(t->context.tls, e.tls, 0) || (same_host && in_common(t->context.tls, e.tls, 1)))
        return FERRY_OK;
    if (in_common(t->context.tls, e.tls, 1))
        snprintf(why, why_size, "it is on another host, and UCX's %s here and %s there have only shared memory in common",
                 t->context.tls, e.tls);
    else
        snprintf(why, why_size, "UCX has %s here and %s there, which do not reach each other; set UCX_TLS alike",
                 t->context.tls, e.tls);
    return FERRY_ERR_UNREACHABLE;
}

/* ------------------------------------------------------------------ endpoints */

static void lost(void *arg, ucp_ep_h ep, ucs_status_t status)
{
    (void)ep;
    fy_ux_peer_failed(arg, fy_ux_status(status) == FERRY_ERR_TRANSPORT ? FERRY_ERR_PEER : fy_ux_status(status), status);
}

static ucs_status_t make_ep(ucp_worker_h worker, const void *address, struct fy_ux_peer *watcher, ucp_ep_h *ep,
                            struct fy_ux_heard *heard)
{
    ucp_ep_params_t params = {.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS, .address = address};
    ucs_status_t status;

    if (watcher) {
        params.field_mask |= UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE | UCP_EP_PARAM_FIELD_ERR_HANDLER;
        params.err_mode = UCP_ERR_HANDLING_MODE_PEER;
        params.err_handler.cb = lost;
        params.err_handler.arg = watcher;
    }
    fy_ux_listen(heard);
    status = ucp_ep_create(worker, &params, ep);
    fy_ux_listened();
    return status;
}

static int no_ep(struct ferry_transport *t, uint32_t peer, const struct fy_ux_heard *heard, ucs_status_t status)
{
    return fy_ux_fail(t, peer, fy_ux_status(status), status, "set UCX_TLS and UCX_NET_DEVICES so that both reach each other",
                      "UCX cannot connect to pe %u: %s", peer, fy_ux_reason(heard, status));
}

ucp_ep_h fy_ux_setup_peer(struct ferry_transport *t, uint32_t peer)
{
    ucp_address_t *own = NULL;
    const void *address = t->addresses[peer];
    struct fy_ux_heard heard;
    size_t size;

    if (t->setup_peers[peer] || (!address && peer != t->my_pe))
        return t->setup_peers[peer];
    if (peer == t->my_pe) {
        if (ucp_worker_get_address(t->setup, &own, &size) != UCS_OK)
            return NULL;
        address = own;
    }
    if (make_ep(t->setup, address, NULL, &t->setup_peers[peer], &heard) != UCS_OK)
        t->setup_peers[peer] = NULL;
    if (own)
        ucp_worker_release_address(t->setup, own);
    return t->setup_peers[peer];
}

/* The lane to the own process reaches no other worker than the one that it starts from. */
static int connect_self(struct ferry_transport *t, struct fy_ux_channel *c, struct fy_ux_peer *p)
{
    struct fy_ux_heard heard;
    ucp_address_t *own;
    ucs_status_t status;
    size_t size;

    status = ucp_worker_get_address(c->worker, &own, &size);
    if (status != UCS_OK)
        return fy_ux_fail(t, p->pe, FERRY_ERR_TRANSPORT, status, "", "UCX has no address for channel %u: %s", c->id,
                          ucs_status_string(status));
    status = make_ep(c->worker, own, NULL, &p->ep, &heard);
    ucp_worker_release_address(c->worker, own);
    p->loops = t->context.self;
    return status == UCS_OK ? FERRY_OK : no_ep(t, p->pe, &heard, status);
}

static int connect_peer(struct ferry_transport *t, struct fy_ux_channel *c, struct fy_ux_peer *p, const struct endpoint *e,
                        const void *address)
{
    int same_memory = e->host == host_id() && in_common(t->context.tls, e->tls, 1);
    int watched = t->options.watch == FY_UX_WATCH_YES || (t->options.watch == FY_UX_WATCH_AUTO && !same_memory);
    struct fy_ux_heard heard;
    ucs_status_t status = make_ep(c->worker, address, watched ? p : NULL, &p->ep, &heard);

    if (status == UCS_OK) {
        char lanes[128];
        fy_ux_lanes(p->ep, lanes, sizeof lanes);
        t->core->log(t->core, FERRY_LOG_INFO, "channel %u to pe %u: %s%s", c->id, p->pe, lanes, watched ? ", watched" : "");
        return FERRY_OK;
    }
    p->ep = NULL;
    return no_ep(t, p->pe, &heard, status);
}

static int start(struct ferry_transport *t, struct fy_ux_channel *c, struct fy_ux_peer *p, struct ferry_connect *io)
{
    struct endpoint e;

    if (p->pe == t->my_pe)
        return connect_self(t, c, p);
    if (!read_endpoint(io->in, io->in_size, &e))
        return fy_ux_fail(t, p->pe, FERRY_ERR_MISMATCH, UCS_OK, "run the same build on all hosts",
                          "the address of pe %u cannot be read", p->pe);
    if (e.address_size <= FY_UX_ROOM)
        return connect_peer(t, c, p, &e, (const char *)io->in + sizeof e);
    free(p->endpoint);
    p->endpoint = malloc(io->in_size);
    if (!p->endpoint)
        return fy_ux_fail(t, p->pe, FERRY_ERR_NOMEM, UCS_OK, "", "no memory for the address of pe %u", p->pe);
    memcpy(p->endpoint, io->in, io->in_size);
    memcpy(io->out, &e.magic, sizeof e.magic); /* the rest of the address is asked for */
    io->out_size = sizeof e.magic;
    return FERRY_OK;
}

/* The rest of a long address has come. */
static int finish(struct ferry_transport *t, struct fy_ux_channel *c, struct fy_ux_peer *p, const struct ferry_connect *io)
{
    char whole[FY_UX_ROOM + FERRY_ENDPOINT_MAX];
    struct endpoint e;

    if (!p->endpoint || !read_endpoint(p->endpoint, sizeof e + FY_UX_ROOM, &e) || io->in_size != e.address_size - FY_UX_ROOM)
        return fy_ux_fail(t, p->pe, FERRY_ERR_MISMATCH, UCS_OK, "run the same build on all hosts",
                          "the rest of the address of pe %u cannot be read", p->pe);
    memcpy(whole, p->endpoint + sizeof e, FY_UX_ROOM);
    memcpy(whole + FY_UX_ROOM, io->in, io->in_size);
    return connect_peer(t, c, p, &e, whole);
}

static int serve(struct ferry_transport *t, struct ferry_connect *io)
{
    if (t->address_size <= FY_UX_ROOM)
        return FERRY_ERR_MISMATCH;
    io->out_size = t->address_size - FY_UX_ROOM;
    memcpy(io->out, (const char *)t->address + FY_UX_ROOM, io->out_size);
    return FERRY_OK;
}

int fy_ux_connect(struct ferry_transport *t, uint32_t channel, uint32_t peer, struct ferry_connect *io)
{
    struct fy_ux_channel *c;
    int rc;

    io->out_size = 0;
    if (io->phase == FERRY_CONNECT_SERVE)
        return serve(t, io);
    rc = fy_ux_open_channel(t, channel);
    if (rc || peer >= t->n_pes)
        return rc ? rc : FERRY_ERR_ARG;
    c = t->channels[channel];
    if (c->peers[peer].ep)
        return FERRY_OK;
    return io->phase == FERRY_CONNECT_START ? start(t, c, &c->peers[peer], io) : finish(t, c, &c->peers[peer], io);
}

/* The channels' threads may be using their endpoints: those go with the channel. */
int fy_ux_disconnect(struct ferry_transport *t, uint32_t peer)
{
    if (peer >= t->n_pes)
        return FERRY_ERR_ARG;
    for (uint32_t i = 0; i < t->max_channels; i++)
        if (t->channels[i] && t->channels[i]->peers[peer].ep)
            fy_ux_peer_failed(&t->channels[i]->peers[peer], FERRY_ERR_PEER, UCS_OK);
    return FERRY_OK;
}

void fy_ux_connect_close(struct ferry_transport *t)
{
    for (uint32_t i = 0; t->addresses && i < t->n_pes; i++)
        free(t->addresses[i]);
    free(t->addresses);
    free(t->setup_peers);
}
