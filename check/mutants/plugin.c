/* SPDX-License-Identifier: Apache-2.0
 * The plugin around it: opens loopback, says what the queue leaves of its capabilities, and hands the rest through.
 * FERRY_MUTANT_BREAK names what is broken. Threads: transport.h. */
#include "mutant.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define ROWS 16

extern const struct ferry_plugin mutant_loopback; /* loopback's own table, under another name */

static struct ferry_option rows[ROWS] = {
    {"break", FERRY_OPTION_STRING, 0, "none", NULL, "What is broken; none: nothing."},
    {"gap", FERRY_OPTION_BOOL, 0, "yes", NULL, "Whether what was overtaken stays behind for a while."},
};

/* Loopback asks for its own options: they follow. */
__attribute__((constructor)) static void join_rows(void)
{
    for (int i = 0; i + 3 < ROWS && mutant_loopback.options[i].name; i++)
        rows[i + 2] = mutant_loopback.options[i];
}

static int find(const struct ferry_core *core, struct ferry_transport *t)
{
    struct ferry_value value;

    core->option(core, "gap", &value);
    t->gaps = value.number != 0;
    core->option(core, "break", &value);
    for (int i = 0; i < MUTANTS; i++)
        if (strcmp(mutants[i].name, value.string) == 0) {
            t->broken = (enum mutant_kind)i;
            return FERRY_OK;
        }
    return hook_open_failed(core, FERRY_ERR_CONFIG, "ferry-check --mutants lists them", "there is no mutant %s",
                            value.string);
}

static void *linger(void *arg)
{
    (void)arg;
    for (;;)
        pause();
    return NULL;
}

static int open_inner(const struct ferry_core *core, const struct ferry_open *how, struct ferry_transport *t)
{
    static int opened; /* instances that were closed; just what a plugin must not have */
    pthread_t thread;

    if (t->broken == SECOND_OPEN_CRASHES && __atomic_fetch_add(&opened, 1, __ATOMIC_RELAXED) >= (int)how->n_pes)
        abort();
    if (t->broken == THREAD_LEFT && pthread_create(&thread, NULL, linger, NULL) == 0)
        pthread_detach(thread);
    t->base.core = core;
    t->base.ops = mutant_loopback.ops;
    return mutant_loopback.open(core, how, &t->base.inner);
}

static int mutant_open(const struct ferry_core *core, const struct ferry_open *how, struct ferry_transport **out)
{
    struct ferry_transport *t = calloc(1, sizeof(*t));
    int rc = t ? find(core, t) : FERRY_ERR_NOMEM;

    if (rc == FERRY_OK) {
        t->owner = pthread_self();
        t->my_pe = how->my_pe;
        t->n_pes = how->n_pes;
        t->max_channels = how->max_channels;
        t->streams = calloc((size_t)t->n_pes * t->max_channels, sizeof(*t->streams));
        rc = t->streams ? open_inner(core, how, t) : FERRY_ERR_NOMEM;
    }
    if (rc == FERRY_OK) {
        *out = t;
        return FERRY_OK;
    }
    if (t)
        free(t->streams);
    free(t);
    return rc;
}

static int mutant_close(struct ferry_transport *t)
{
    int rc;

    for (size_t i = 0; i < (size_t)t->n_pes * t->max_channels; i++) {
        for (uint32_t k = 0; t->streams[i] && k < t->streams[i]->n; k++)
            free(t->streams[i]->held[k]);
        free(t->streams[i]);
    }
    if (t->stale)
        t->base.ops->release_key(t->base.inner, t->stale);
    rc = t->base.ops->close(t->base.inner);
    free(t->streams);
    free(t);
    return rc;
}

static void leak(void)
{
    int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);

    (void)fd; /* just so */
}

static int mutant_open_channel(struct ferry_transport *t, uint32_t channel)
{
    if (t->broken == LEAK_BY_CHANNEL)
        leak();
    (void)channel; /* loopback has nothing to do for one */
    return FERRY_OK;
}

static int mutant_disconnect(struct ferry_transport *t, uint32_t peer)
{
    return t->base.ops->disconnect(t->base.inner, peer);
}

static int mutant_register(struct ferry_transport *t, const struct ferry_memory *memory, struct ferry_region **region)
{
    if (t->broken == LEAK_BY_REGISTRATION)
        leak();
    if (hook_register_memory(t, memory, region) >= 0)
        return FERRY_OK;
    *region = NULL;
    return t->broken == ERROR_SWALLOWED ? FERRY_OK : FERRY_ERR_SYSTEM;
}

/* The key that was released last stands in for the next one. */
static int mutant_import(struct ferry_transport *t, uint32_t peer, const void *blob, size_t size,
                         struct ferry_rkey **key)
{
    static char anything; /* no key at all */
    int rc;

    if (t->broken != STALE_KEY || !t->stale) {
        rc = hook_import_key(t, peer, blob, size, key);
        if (rc >= 0 || t->broken != GARBAGE_ACCEPTED)
            return rc;
        *key = (struct ferry_rkey *)(void *)&anything;
        return FERRY_OK;
    }
    *key = t->stale;
    t->stale = NULL;
    return FERRY_OK;
}

static int mutant_release(struct ferry_transport *t, struct ferry_rkey *key)
{
    if (t->broken != STALE_KEY || t->stale)
        return hook_release_key(t, key);
    t->stale = key;
    return FERRY_OK;
}

static bool native_signals(enum mutant_kind broken)
{
    return broken == SIGNAL_BEFORE_DATA || broken == STRONG_IS_WEAK || broken == SIGNAL_LOST || broken == SIGNAL_NARROW;
}

static int mutant_query(struct ferry_transport *t, uint32_t memory_kind, struct ferry_caps *caps)
{
    int rc = t->base.ops->query(t->base.inner, memory_kind, caps);

    caps->flags = FERRY_CAP_GET | FERRY_CAP_UNREGISTERED_LOCAL | FERRY_CAP_QUIET_PEER | FERRY_CAP_INITIATOR_PROGRESS |
                  FERRY_CAP_FENCED;
    if (native_signals(t->broken))
        caps->flags |= FERRY_CAP_PUT_SIGNAL | FERRY_CAP_SIGNAL_STRONG;
    if (t->broken == MORE_NEVER_RUNG)
        caps->flags |= FERRY_CAP_MORE;
    caps->order = t->broken == ORDER_CLAIMED ? FERRY_ORDER_ALL : 0;
    caps->copy_max = MUTANT_COPY;
    caps->inline_max = MUTANT_INLINE;
    caps->message_max = MUTANT_MESSAGE;
    if (t->broken == LENGTH_16_BITS || t->broken == LENGTH_32_BITS || t->broken == GET_TOO_SHORT ||
        native_signals(t->broken))
        caps->message_max = SIZE_MAX;
    if (t->broken == CLAIM_UNKNOWN)
        caps->flags |= 1u << 31;
    caps->queue_depth = MUTANT_QUEUE;
    return rc;
}

static int mutant_rma(struct ferry_transport *t, uint32_t channel, const struct ferry_op *op)
{
    if (t->broken == MORE_NEVER_RUNG && op->flags & FERRY_OP_MORE)
        return FERRY_OK;
    return mutant_hold(t, channel, op);
}

static const struct ferry_host_ops ops = {
    .size = sizeof(ops),
    .export_endpoint = hook_export_endpoint,
    .reach = hook_reach,
    .open_channel = mutant_open_channel,
    .disconnect = mutant_disconnect,
    .register_memory = mutant_register,
    .deregister_memory = hook_deregister_memory,
    .export_key = hook_export_key,
    .import_key = mutant_import,
    .release_key = mutant_release,
    .rma = mutant_rma,
    .amo = mutant_hold,
    .put_signal = mutant_hold,
    .quiet = mutant_quiet,
    .progress = mutant_progress,
    .query = mutant_query,
    .query_error = hook_query_error,
    .describe = hook_describe,
    .close = mutant_close,
};

static int mutant_probe(const struct ferry_core *core, struct ferry_probe *probe)
{
    int rc = mutant_loopback.probe(core, probe);

    probe->score = 1;
    return rc;
}

const struct ferry_plugin ferry_plugin_v1 = {
    .abi = FERRY_TRANSPORT_ABI,
    .size = sizeof(ferry_plugin_v1),
    .name = "mutant",
    .summary = "loopback with one promise broken, to check the kit",
    .version = "0.1.0",
    .options = rows,
    .ops = &ops,
    .probe = mutant_probe,
    .open = mutant_open,
};
