/* SPDX-License-Identifier: Apache-2.0
 * What waits need from the world: is the job alive, and is there something to move along; and how failures are recorded.
 * Any thread. */
#include "mail.h"

#include <stdio.h>

int fy_fail(struct fy_world *world, int status, int pe, int channel, int operation, const char *hint, const char *format, ...)
{
    struct ferry_error record;
    char text[sizeof(record.message)];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    fy_error_set(&record, status, hint, "%s", text);
    record.peer = pe;
    record.channel = channel;
    record.operation = operation;
    return fy_errors_thread(world->errors, &record);
}

static int report_abort(struct fy_world *world, const char *doing)
{
    int by = atomic_load(&world->abort_by);
    return fy_fail(world, FERRY_ERR_ABORTED, by, -1, -1, NULL, "%s: pe %d aborted the job with code %d", doing, by,
                   atomic_load(&world->abort_code));
}

static int report_death(struct fy_world *world, int pe, const char *doing)
{
    return fy_fail(world, FERRY_ERR_PEER, pe, -1, -1, "see the messages of that pe, or of the launcher, for why it died",
                   "%s: pe %d is dead", doing, pe);
}

static int report_departure(struct fy_world *world, int pe, const char *doing)
{
    return fy_fail(world, FERRY_ERR_PEER, pe, -1, -1, "let PEs finalize together, or see why that one did not wait",
                   "%s: pe %d has closed its job", doing, pe);
}

int fy_world_check(struct fy_world *world, int pe, const char *doing)
{
    if (atomic_load(&world->aborted))
        return report_abort(world, doing);
    uint32_t deaths = atomic_load(&world->deaths);
    if (pe >= 0 && deaths && atomic_load(&world->peers[pe].dead))
        return report_death(world, pe, doing);
    if (pe >= 0)
        return atomic_load(&world->peers[pe].gone) ? report_departure(world, pe, doing) : FERRY_OK;
    if (deaths == 0)
        return FERRY_OK;
    if (pe == -1 && deaths == atomic_load(&world->acknowledged))
        return FERRY_OK;
    return report_death(world, atomic_load(&world->last_dead), doing);
}

/* True if something moved, or is about to: whoever waits should not sleep then. */
static bool progress_channel(struct fy_world *world, struct ferry_ctx *ctx)
{
    if (!fy_channel_try(ctx))
        return false;
    bool moved = false;
    for (uint32_t i = 0; ctx->n_busy && i < world->n_lanes; i++)
        moved |= world->lanes[i].ops->progress(world->lanes[i].handle, ctx->id) == FERRY_OK;
    fy_channel_leave(ctx);
    return moved;
}

bool fy_world_progress(struct fy_world *world)
{
    bool moved = false;
    if (!world->locked || pthread_mutex_trylock(&world->lock) != 0)
        return false;
    for (uint32_t i = 0; i < world->max_channels; i++)
        if (world->channels[i])
            moved |= progress_channel(world, world->channels[i]);
    pthread_mutex_unlock(&world->lock);
    return moved;
}

bool fy_world_serve(struct fy_world *world)
{
    bool moved = false;
    if (!world->serves || pthread_mutex_trylock(&world->serving) != 0)
        return false;
    for (uint32_t i = 0; world->target_progress && i < world->n_lanes; i++) {
        const struct fy_lane *lane = &world->lanes[i];
        if (lane->caps->flags & FERRY_CAP_TARGET_PROGRESS)
            moved |= lane->ops->progress(lane->handle, FERRY_CHANNEL_SERVICE) == FERRY_OK;
    }
    if (world->mail)
        moved |= fy_mail_serve(world);
    pthread_mutex_unlock(&world->serving);
    return moved;
}

bool fy_world_served(struct fy_world *world)
{
    if (!world->serves)
        return false;
    if (pthread_mutex_trylock(&world->serving) != 0)
        return true;
    pthread_mutex_unlock(&world->serving);
    return false;
}

void fy_wait_serve(struct fy_world *world, struct fy_backoff *backoff)
{
    atomic_fetch_add_explicit(&world->attended, 1, memory_order_relaxed);
    if (fy_world_serve(world))
        fy_wait_moved(world, backoff);
}
