/* SPDX-License-Identifier: Apache-2.0
 * The mailbox comes and goes: its symmetric memory, its channel, the records of peers and sources made on first use.
 * Creation and destruction by the setup thread; peers and sources by any thread, under the mailbox's lock. */
#include "mail.h"
#include "mail_source.h"

#include <stdlib.h>

size_t fy_mail_bytes(uint32_t n_pes, bool gets)
{
    return (sizeof(struct fy_mail_area) + (gets ? (size_t)FY_MAIL_SLOTS * FY_MAIL_PIECE : 0)) * n_pes;
}

static bool tables(struct fy_mail *mail, uint32_t n_pes)
{
    mail->peers = calloc(n_pes, sizeof(*mail->peers));
    mail->sources = calloc(n_pes, sizeof(*mail->sources));
    mail->active = calloc(n_pes, sizeof(*mail->active));
    return mail->peers && mail->sources && mail->active;
}

static void release(struct fy_mail *mail)
{
    pthread_mutex_destroy(&mail->lock);
    free(mail->peers);
    free(mail->sources);
    free(mail->active);
    free(mail);
}

int fy_mail_create(struct fy_world *world, void *memory, bool gets, struct ferry_error *error)
{
    struct fy_mail *mail = calloc(1, sizeof(*mail));
    if (!mail || !tables(mail, world->n_pes)) {
        if (mail)
            release(mail);
        fy_error_set(error, FERRY_ERR_NOMEM, NULL, "no memory for the mailbox of %u pes", world->n_pes);
        return FERRY_ERR_NOMEM;
    }
    pthread_mutex_init(&mail->lock, NULL);
    mail->areas = memory;
    mail->landing = gets ? (char *)(mail->areas + world->n_pes) : NULL;
    int rc = fy_channel_create(world, true, true, &mail->ctx, error);
    if (rc != FERRY_OK) {
        release(mail);
        return rc;
    }
    world->mail = mail;
    return FERRY_OK;
}

struct ferry_ctx *fy_mail_ctx(const struct fy_world *world)
{
    return world->mail ? world->mail->ctx : NULL;
}

static void source_free(struct fy_mail_source *source, uint32_t max_channels)
{
    for (uint32_t i = 0; source->counts && i < max_channels; i++)
        free(source->counts[i]);
    free(source->counts);
    free(source);
}

/* Its channel is closed with the others. */
void fy_mail_destroy(struct fy_world *world)
{
    struct fy_mail *mail = world->mail;
    if (!mail)
        return;
    for (uint32_t pe = 0; pe < world->n_pes; pe++) {
        struct fy_mail_peer *peer = atomic_load(&mail->peers[pe]);
        struct fy_mail_source *source = atomic_load(&mail->sources[pe]);
        if (peer)
            pthread_mutex_destroy(&peer->lock);
        free(peer);
        if (source)
            source_free(source, world->max_channels);
    }
    release(mail);
    world->mail = NULL;
}

/* Tells the target that its ring is about to be used, so that it looks at the rings of those only who use them. */
static int announce(struct ferry_ctx *ctx, uint32_t pe)
{
    struct fy_world *world = ctx->world;
    struct ferry_error error = {.size = sizeof(error)};
    int rc = pe == world->my_pe ? fy_mail_open(world, pe) : world->announce(world->arg, pe, &error);
    if (rc == FERRY_OK)
        return rc;
    if (pe == world->my_pe)
        return fy_fail(world, rc, (int)pe, (int)ctx->id, -1, NULL, "no memory for the mailbox of this pe");
    return fy_errors_thread(world->errors, &error);
}

static struct fy_mail_peer *make_peer(struct ferry_ctx *ctx, uint32_t pe, int *status)
{
    struct fy_world *world = ctx->world;
    struct fy_mail_peer *peer = calloc(1, sizeof(*peer) + world->max_channels * sizeof(peer->cover[0]));
    if (!peer) {
        *status = fy_fail(world, FERRY_ERR_NOMEM, (int)pe, (int)ctx->id, -1, NULL, "no memory for the mailbox to pe %u", pe);
        return NULL;
    }
    *status = announce(ctx, pe);
    if (*status != FERRY_OK) {
        free(peer);
        return NULL;
    }
    pthread_mutex_init(&peer->lock, NULL);
    atomic_store(&world->mail->peers[pe], peer);
    return peer;
}

struct fy_mail_peer *fy_mail_peer_of(struct ferry_ctx *ctx, uint32_t pe, int *status)
{
    struct fy_mail *mail = ctx->world->mail;
    struct fy_mail_peer *peer = atomic_load_explicit(&mail->peers[pe], memory_order_acquire);
    *status = FERRY_OK;
    if (fy_likely(peer != NULL))
        return peer;
    pthread_mutex_lock(&mail->lock);
    peer = atomic_load(&mail->peers[pe]); /* another thread may have been faster */
    if (!peer)
        peer = make_peer(ctx, pe, status);
    pthread_mutex_unlock(&mail->lock);
    return peer;
}

struct fy_mail_source *fy_mail_source_of(struct fy_mail *mail, uint32_t from)
{
    return atomic_load_explicit(&mail->sources[from], memory_order_acquire);
}

/* Called with mail->lock held by the announcing thread of this very PE, or by the control thread: sources[from] has one
 * writer. */
int fy_mail_open(struct fy_world *world, uint32_t from)
{
    struct fy_mail *mail = world->mail;
    if (!mail)
        return FERRY_ERR_STATE;
    if (atomic_load(&mail->sources[from]))
        return FERRY_OK; /* it asked before, and did not wait for the answer */
    struct fy_mail_source *source = calloc(1, sizeof(*source));
    if (source)
        source->counts = calloc(world->max_channels, sizeof(*source->counts));
    if (!source || !source->counts) {
        free(source);
        return FERRY_ERR_NOMEM;
    }
    source->pe = from;
    atomic_store_explicit(&mail->sources[from], source, memory_order_release);
    /* the control thread and the announcing thread may both be here, for different peers */
    uint32_t at = atomic_fetch_add(&mail->n_active, 1);
    atomic_store_explicit(&mail->active[at], source, memory_order_release);
    return FERRY_OK;
}

uint32_t *fy_mail_counts(struct fy_mail_source *source, uint32_t channel)
{
    if (!source->counts[channel])
        source->counts[channel] = calloc(256, sizeof(uint32_t));
    return source->counts[channel];
}
