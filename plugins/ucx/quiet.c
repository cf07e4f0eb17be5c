/* SPDX-License-Identifier: Apache-2.0
 * Completion: tickets are flushes, begun when a ticket is drawn; and progress.
 * Channel thread; progress of the service worker: service thread. */
#include "ucx.h"

#define unlikely(x) __builtin_expect(!!(x), 0)

#define SERVE_TURNS 32 /* calls of UCX's progress in one of ours, while they move something */
#define ANSWERS (1ull << 63) /* a ticket that only answers complete: the rest is how many had been asked for */

static void settle(struct fy_ux_flush *f, int status)
{
    uint64_t *flushed = f->peer ? &f->peer->flushed : &f->channel->flushed;

    f->status = status;
    f->done = 1;
    if (!status && f->covers > *flushed)
        *flushed = f->covers;
}

static void flushed(void *request, ucs_status_t status, void *arg)
{
    settle(arg, status == UCS_OK ? FERRY_OK : fy_ux_status(status));
    ucp_request_free(request);
}

/* UCX 1.13 says that a flush over shared memory is complete as soon as its queue has room again, though what had been kept back
 * when it was full may still be (uct_mm_ep_flush): so a flush begins only when all is sent. */
static int sent(struct fy_ux_channel *c, uint32_t peer)
{
    const uint64_t *unsent = peer == FERRY_PEER_ALL ? &c->unsent : &c->peers[peer].unsent;

    while (*unsent && ucp_worker_progress(c->worker))
        ;
    return !*unsent;
}

/* Starts a flush. OK: it is complete; AGAIN, with *ticket set or, where it cannot begin yet, 0; or an error. */
static int begin(struct fy_ux_channel *c, uint32_t peer, uint64_t *ticket)
{
    ucp_request_param_t param = {.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA};
    struct fy_ux_flush *f = &c->flushes[(c->tickets + 1) % FY_UX_TICKETS];
    ucs_status_ptr_t answer;

    if ((f->ticket && !f->done) || !sent(c, peer))
        return FERRY_AGAIN;
    f->ticket = ++c->tickets;
    f->covers = c->posted;
    f->channel = c;
    f->peer = peer == FERRY_PEER_ALL ? NULL : &c->peers[peer];
    f->done = 0;
    param.cb.send = flushed;
    param.user_data = f;
    answer = peer == FERRY_PEER_ALL ? ucp_worker_flush_nbx(c->worker, &param)
                                    : ucp_ep_flush_nbx(c->peers[peer].ep, &param);
    if (UCS_PTR_IS_PTR(answer)) {
        *ticket = f->ticket;
        return FERRY_AGAIN;
    }
    settle(f, UCS_PTR_IS_ERR(answer) ? fy_ux_status(UCS_PTR_STATUS(answer)) : FERRY_OK);
    if (f->status && peer != FERRY_PEER_ALL)
        return fy_ux_peer_failed(&c->peers[peer], f->status, UCS_PTR_STATUS(answer));
    return f->status;
}

static int look(const struct fy_ux_channel *c, uint64_t ticket)
{
    const struct fy_ux_flush *f = &c->flushes[ticket % FY_UX_TICKETS];

    if (f->ticket != ticket) /* complete so long ago that its place was given away */
        return FERRY_OK;
    return f->done ? f->status : FERRY_AGAIN;
}

/* Has something been posted that no flush has covered? */
static int open_posts(const struct fy_ux_channel *c, uint32_t peer)
{
    const struct fy_ux_peer *p;

    if (peer == FERRY_PEER_ALL)
        return c->posted != c->flushed;
    p = &c->peers[peer];
    return p->last > c->flushed && p->last > p->flushed;
}

/* A flush would tell no more than the answers do, and takes another turn round to the peer. But answers to what was asked
 * since are not to be waited for: then it is a flush after all. */
static int answers(struct fy_ux_channel *c, uint32_t peer, uint64_t *ticket)
{
    uint64_t awaited = peer == FERRY_PEER_ALL ? c->awaited : c->peers[peer].awaited;
    uint64_t asked = (peer == FERRY_PEER_ALL ? c->asked : c->peers[peer].asked) | ANSWERS;

    if (!awaited)
        return FERRY_OK;
    if (*ticket && *ticket != asked) {
        *ticket = 0;
        return begin(c, peer, ticket);
    }
    *ticket = asked;
    return FERRY_AGAIN;
}

static int proceed(struct fy_ux_channel *c, uint32_t peer, uint64_t *ticket)
{
    if (!*ticket && open_posts(c, peer))
        return begin(c, peer, ticket);
    return *ticket && !(*ticket & ANSWERS) ? look(c, *ticket) : answers(c, peer, ticket);
}

static int failed(const struct fy_ux_channel *c, uint32_t peer)
{
    return __atomic_load_n(peer == FERRY_PEER_ALL ? &c->status : &c->peers[peer].status, __ATOMIC_ACQUIRE);
}

/* What lanes of this host did at once are stores: the fence makes them visible (C11 7.17.4, seq_cst). */
static inline void make_visible(void)
{
#if defined(__SANITIZE_THREAD__) /* it knows no fences, and would not see through one: what it looks at are the loads of others */
    int word = 0;

    __atomic_fetch_add(&word, 0, __ATOMIC_SEQ_CST);
#else
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
#endif
}

int fy_ux_quiet(struct ferry_transport *t, uint32_t channel, uint32_t peer, uint64_t *ticket)
{
    struct fy_ux_channel *c = t->channels[channel];
    int rc = FERRY_OK;

    if (unlikely(*ticket || c->posted != c->flushed || c->awaited)) {
        rc = failed(c, peer);
        if (!rc)
            rc = proceed(c, peer, ticket);
        if (rc)
            return rc;
    }
    make_visible();
    return FERRY_OK;
}

/* A flush of our own begins when half the window is used, so that the other half hides it. */
int fy_ux_window(struct fy_ux_channel *c)
{
    uint64_t out = c->posted - c->flushed;

    if (out + c->awaited < FY_UX_WINDOW / 2)
        return FERRY_OK;
    if (c->own && look(c, c->own) != FERRY_AGAIN)
        c->own = 0;
    if (!c->own)
        begin(c, FERRY_PEER_ALL, &c->own); /* a failure is the peer's, and comes out there */
    if (out + c->awaited < FY_UX_WINDOW)
        return FERRY_OK;
    ucp_worker_progress(c->worker);
    return c->posted - c->flushed + c->awaited < FY_UX_WINDOW ? FERRY_OK : FERRY_AGAIN;
}

static int serve(struct ferry_transport *t)
{
    int moved = 0;

    for (int i = 0; i < SERVE_TURNS && ucp_worker_progress(t->service); i++)
        moved = 1;
    return moved ? FERRY_OK : FERRY_AGAIN;
}

int fy_ux_progress(struct ferry_transport *t, uint32_t channel)
{
    struct fy_ux_channel *c;

    if (channel == FERRY_CHANNEL_SERVICE)
        return serve(t);
    c = t->channels[channel];
    if (__atomic_load_n(&c->old_keys, __ATOMIC_RELAXED))
        fy_ux_key_sweep(c);
    if (ucp_worker_progress(c->worker))
        return FERRY_OK;
    return unlikely(__atomic_load_n(&c->status, __ATOMIC_ACQUIRE)) ? c->status : FERRY_AGAIN;
}
