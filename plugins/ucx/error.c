/* SPDX-License-Identifier: Apache-2.0
 * What went wrong: failures of calls, and the first failure of each peer on each channel, in UCX's words.
 * Any thread; the instance's record lies under its lock. */
#include "ucx.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

int fy_ux_fail(struct ferry_transport *t, int64_t peer, int status, ucs_status_t ucs, const char *hint, const char *format,
               ...)
{
    va_list args;

    va_start(args, format);
    fy_plugin_fail(&t->lock, &t->failure, peer, status, ucs, hint, format, args);
    va_end(args);
    return status;
}

int fy_ux_status(ucs_status_t ucs)
{
    switch (ucs) {
    case UCS_ERR_NO_MEMORY: return FERRY_ERR_NOMEM;
    case UCS_ERR_UNREACHABLE: return FERRY_ERR_UNREACHABLE;
    case UCS_ERR_REJECTED:
    case UCS_ERR_NOT_CONNECTED:
    case UCS_ERR_CONNECTION_RESET:
    case UCS_ERR_ENDPOINT_TIMEOUT:
    case UCS_ERR_TIMED_OUT:
    case UCS_ERR_CANCELED: return FERRY_ERR_PEER;
    default: return FERRY_ERR_TRANSPORT;
    }
}

const char *fy_ux_reason(const struct fy_ux_heard *heard, ucs_status_t ucs)
{
    return heard->text[0] ? heard->text : ucs_status_string(ucs);
}

int fy_ux_peer_failed(struct fy_ux_peer *p, int status, ucs_status_t ucs)
{
    struct fy_ux_channel *c = p->channel;
    int none = 0;

    if (__atomic_load_n(&p->status, __ATOMIC_ACQUIRE))
        return p->status;
    __atomic_store_n(&p->ucs, ucs, __ATOMIC_RELAXED); /* the status below vouches for it */
    if (!__atomic_compare_exchange_n(&p->status, &none, status, 0, __ATOMIC_RELEASE, __ATOMIC_ACQUIRE))
        return none;
    if (!__atomic_load_n(&c->status, __ATOMIC_ACQUIRE)) {
        __atomic_store_n(&c->failed, p->pe, __ATOMIC_RELAXED);
        __atomic_store_n(&c->status, status, __ATOMIC_RELEASE);
    }
    return status;
}

static const char *advice(ucs_status_t ucs)
{
    switch (ucs) {
    case UCS_ERR_CONNECTION_RESET: return "see the messages of that pe for why it ended";
    case UCS_ERR_ENDPOINT_TIMEOUT:
    case UCS_ERR_TIMED_OUT: return "is its host up, and the network between? UCX_LOG_LEVEL=debug has more";
    default: return "UCX_LOG_LEVEL=debug has more";
    }
}

/* 0: this peer has not failed. */
static int of_peer(const struct fy_ux_channel *c, uint32_t pe, struct ferry_error *e)
{
    const struct fy_ux_peer *p = &c->peers[pe];
    int status = __atomic_load_n(&p->status, __ATOMIC_ACQUIRE);
    ucs_status_t ucs = (ucs_status_t)__atomic_load_n(&p->ucs, __ATOMIC_RELAXED);

    if (!status)
        return 0;
    fy_plugin_record(e, pe, status, ucs, ucs ? advice(ucs) : "");
    e->channel = (int32_t)c->id;
    snprintf(e->message, sizeof e->message, "ucx: channel %u to pe %u: %s%s", c->id, pe,
             ucs ? ucs_status_string(ucs) : "the peer is gone", ucs ? " (UCX)" : "");
    return 1;
}

int fy_ux_query_error(struct ferry_transport *t, uint32_t channel, uint32_t peer, struct ferry_error *record)
{
    const struct fy_ux_channel *c;
    struct ferry_error e;
    int found = 0;

    pthread_mutex_lock(&t->lock); /* a channel is closed under it */
    c = channel < t->max_channels ? t->channels[channel] : NULL;
    if (c && peer < t->n_pes)
        found = of_peer(c, peer, &e);
    else if (c && peer == FERRY_PEER_ALL && __atomic_load_n(&c->status, __ATOMIC_ACQUIRE))
        found = of_peer(c, __atomic_load_n(&c->failed, __ATOMIC_RELAXED), &e);
    if (!found)
        e = t->failure;
    pthread_mutex_unlock(&t->lock);
    return fy_plugin_give(record, e, peer);
}

/* Readers of what the channel's thread writes plainly: a moment late is good enough. */
__attribute__((no_sanitize("thread"))) static void account(const struct fy_ux_channel *c, char *text, size_t size)
{
    snprintf(text, size, "channel: %llu operations posted, %llu flushed; %llu answers awaited of %llu", (unsigned long long)c->posted,
             (unsigned long long)c->flushed, (unsigned long long)c->awaited, (unsigned long long)c->asked);
}

/* UCX counts by channel. The status is the peer's. */
int fy_ux_describe(struct ferry_transport *t, uint32_t channel, uint32_t peer, char *text, size_t size)
{
    const struct fy_ux_channel *c;
    struct ferry_error e;

    if (size)
        text[0] = '\0';
    pthread_mutex_lock(&t->lock); /* a channel is closed under it */
    c = channel < t->max_channels && peer < t->n_pes ? t->channels[channel] : NULL;
    if (c && of_peer(c, peer, &e))
        snprintf(text, size, "%s", e.message);
    else if (c)
        account(c, text, size);
    pthread_mutex_unlock(&t->lock);
    return FERRY_OK;
}
