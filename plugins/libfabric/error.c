/* SPDX-License-Identifier: Apache-2.0
 * What went wrong: failures of calls, and the first failure of each (channel, peer), with what to do about it.
 * Any thread; records lie under the lock of the instance. */
#include "libfabric.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int fy_lf_fail(struct ferry_transport *t, int64_t peer, int status, int error, const char *hint, const char *format,
               ...)
{
    va_list args;

    va_start(args, format);
    fy_plugin_fail(&t->lock, &t->failure, peer, status, error, hint, format, args);
    va_end(args);
    return status;
}

static struct fy_lf_peer *find(struct ferry_transport *t, uint32_t channel, uint32_t peer)
{
    struct fy_lf_channel *c = NULL;

    if (channel < t->max_channels && peer < t->n_pes)
        c = __atomic_load_n(&t->channels[channel], __ATOMIC_ACQUIRE);
    return c ? __atomic_load_n(&c->peers[peer], __ATOMIC_ACQUIRE) : NULL;
}

int fy_lf_query_error(struct ferry_transport *t, uint32_t channel, uint32_t peer, struct ferry_error *record)
{
    struct ferry_error e;
    struct fy_lf_peer *p;

    pthread_mutex_lock(&t->lock); /* a channel is closed under it */
    p = find(t, channel, peer);
    e = p && p->error.status ? p->error : t->failure;
    pthread_mutex_unlock(&t->lock);
    return fy_plugin_give(record, e, peer);
}

/* Readers of what the channel's thread writes plainly: a moment late is good enough. */
__attribute__((no_sanitize("thread"))) static void counts(const struct fy_lf_peer *p, unsigned long long *posted, unsigned long long *retired)
{
    *posted = p->posted;
    *retired = p->retired;
}

int fy_lf_describe(struct ferry_transport *t, uint32_t channel, uint32_t peer, char *text, size_t size)
{
    unsigned long long posted, retired;
    struct fy_lf_peer *p;

    if (size)
        text[0] = '\0';
    pthread_mutex_lock(&t->lock); /* a channel is closed under it */
    p = find(t, channel, peer);
    if (p) {
        counts(p, &posted, &retired);
        snprintf(text, size, "%s%s, %llu operations posted, %llu complete%s", t->name, p->own ? ", an endpoint of its own" : "", posted,
                 retired, p->error.status ? ", failed" : "");
    }
    pthread_mutex_unlock(&t->lock);
    return FERRY_OK;
}

/* What an error of the library means for the caller. */
static const struct meaning {
    int error, status;
    const char *hint;
} meanings[] = {
    {FI_ECONNREFUSED, FERRY_ERR_PEER, "the peer is dead, or a firewall lies between"},
    {FI_ECONNRESET, FERRY_ERR_PEER, "the peer is dead, or the connection was cut"},
    {FI_ECONNABORTED, FERRY_ERR_PEER, "the peer is dead, or the connection was cut"},
    {FI_ECANCELED, FERRY_ERR_PEER, "the peer is dead, or the connection was cut"}, /* what was queued behind what failed */
    {FI_ENOTCONN, FERRY_ERR_PEER, "the peer is dead, or the connection was cut"},
    {FI_ESHUTDOWN, FERRY_ERR_PEER, "the peer is dead, or has closed its job"},
    {EPIPE, FERRY_ERR_PEER, "the peer is dead, or has closed its job"},
    {FI_EIO, FERRY_ERR_PEER, "the peer is dead, or the connection was cut; FI_LOG_LEVEL=warn shows what the provider says"},
    {FI_ETIMEDOUT, FERRY_ERR_PEER, "the peer, or the network to it, does not answer"},
    {FI_EHOSTUNREACH, FERRY_ERR_PEER, "there is no route to the peer: see FERRY_LIBFABRIC_INTERFACE"},
    {FI_EHOSTDOWN, FERRY_ERR_PEER, "the peer's host does not answer"},
    {FI_ENETUNREACH, FERRY_ERR_PEER, "there is no route to the peer: see FERRY_LIBFABRIC_INTERFACE"},
    {FI_ENETDOWN, FERRY_ERR_PEER, "the network interface is down"},
    {ESRCH, FERRY_ERR_PEER, "the peer is dead"},
    {FI_EACCES, FERRY_ERR_ACCESS, "the target refused key or bounds: the memory was freed, or lies outside what it registered"},
    {FI_ENOKEY, FERRY_ERR_ACCESS, "the target refused the key: the memory was freed"},
    {FI_EKEYREJECTED, FERRY_ERR_ACCESS, "the target refused the key: the memory was freed"},
    {FI_EPERM, FERRY_ERR_ACCESS, "the kernel forbids the copy between processes: see kernel.yama.ptrace_scope, or set "
                                 "FERRY_LIBFABRIC_MR_VIRT_ADDR=0"},
    {FI_ENOMEM, FERRY_ERR_NOMEM, "memory, or what may be locked of it, is exhausted"},
};

static const struct meaning *meaning_of(int error)
{
    static const struct meaning other = {0, FERRY_ERR_TRANSPORT, "run with FI_LOG_LEVEL=warn to see what the provider says"};

    for (size_t i = 0; i < sizeof meanings / sizeof meanings[0]; i++)
        if (meanings[i].error == error)
            return &meanings[i];
    return &other;
}

/* The first one stays. */
static void keep(struct fy_lf_peer *p, const struct ferry_error *e)
{
    struct fy_lf_channel *c = p->channel;
    int none = 0;

    pthread_mutex_lock(&c->t->lock);
    if (!p->error.status)
        p->error = *e;
    __atomic_compare_exchange_n(&c->status, &none, e->status, 0, __ATOMIC_RELEASE, __ATOMIC_RELAXED);
    none = 0;
    __atomic_compare_exchange_n(&p->status, &none, e->status, 0, __ATOMIC_RELEASE, __ATOMIC_RELAXED);
    __atomic_store_n(&c->careful, 1, __ATOMIC_RELEASE);
    pthread_mutex_unlock(&c->t->lock);
}

static void fill(struct fy_lf_peer *p, struct ferry_error *e, int status, int error, const char *hint)
{
    fy_plugin_record(e, p->pe, status, error, hint);
    e->channel = (int32_t)p->channel->id;
    snprintf(e->device, sizeof e->device, "%.48s", p->channel->t->name);
}

void fy_lf_completion_error(struct fy_lf_channel *c, struct fy_lf_peer *p, const struct fi_cq_err_entry *entry,
                            unsigned kind)
{
    static const char *const kinds[] = {"put", "get", "atomic", "signal", "flush"};
    int error = abs(entry->err); /* shm of 1.17 reports it negative where a copy between processes failed */
    const struct meaning *m = meaning_of(error);
    char text[128] = "";
    struct ferry_error e;

    if (fy_lf_status(p))
        return;
    fill(p, &e, m->status, error, m->hint);
    e.operation = kind < FY_LF_FLUSH ? (int32_t)kind : -1;
    e.vendor = (uint32_t)entry->prov_errno;
    fi_cq_strerror(c->cq, entry->prov_errno, entry->err_data, text, sizeof text);
    snprintf(e.message, sizeof e.message, "%s: %s of channel %u to pe %u ended with %s (%d); the provider says %s (%d)",
             e.device, kinds[kind < 5 ? kind : 4], c->id, p->pe, fi_strerror(error), error,
             text[0] ? text : "nothing", entry->prov_errno);
    keep(p, &e);
}

void fy_lf_peer_error(struct fy_lf_peer *p, int status, int error, const char *what, const char *hint)
{
    const struct meaning *m = meaning_of(error);
    struct ferry_error e;

    fill(p, &e, status ? status : m->status, error, hint ? hint : m->hint);
    snprintf(e.message, sizeof e.message, "%s: channel %u to pe %u: %s%s%s", e.device, p->channel->id, p->pe, what,
             error ? ": " : "", error ? fi_strerror(error) : "");
    keep(p, &e);
}
