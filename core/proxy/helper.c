/* SPDX-License-Identifier: Apache-2.0
 * A ring's helper: a thread that carries out what may wait, so that the proxy thread goes on with other rings. While it is at
 * work the channel is its; the proxy thread leaves the ring alone. Each function says who calls it. */
#include "internal.h"

#include "../order/post.h"

static void *pointer(uint64_t address)
{
    return (void *)(uintptr_t)address;
}

static int carry_out_amo(struct ferry_ctx *ctx, const struct ferry_command *c)
{
    void *old = c->flags & FERRY_COMMAND_FETCH ? pointer(c->local) : NULL;
    if (c->width == 8)
        return fy_amo(ctx, pointer(c->remote), c->amo, c->value, c->compare, old, c->pe, 0);
    return fy_amo32(ctx, pointer(c->remote), c->amo, (uint32_t)c->value, (uint32_t)c->compare, old, c->pe);
}

static int carry_out(struct ferry_ctx *ctx, const struct ferry_command *c)
{
    unsigned how = 0;
    if (c->kind == FERRY_COMMAND_PUT_SIGNAL)
        how = (c->flags & FERRY_COMMAND_ADD ? FERRY_SIGNAL_ADD : 0) | (c->flags & FERRY_COMMAND_WEAK ? FY_SIGNAL_WEAK : 0);
    switch (c->kind) {
    case FERRY_COMMAND_PUT: return fy_put(ctx, pointer(c->remote), pointer(c->local), c->length, c->pe, false);
    case FERRY_COMMAND_GET: return fy_get(ctx, pointer(c->local), pointer(c->remote), c->length, c->pe, false);
    case FERRY_COMMAND_P64: return fy_put(ctx, pointer(c->remote), &c->value, 8, c->pe, true);
    case FERRY_COMMAND_P32: return fy_put(ctx, pointer(c->remote), &c->value, 4, c->pe, true);
    case FERRY_COMMAND_SIGNAL_SET: return fy_signal(ctx, pointer(c->remote), c->value, FERRY_SIGNAL_SET, c->pe);
    case FERRY_COMMAND_SIGNAL_ADD: return fy_signal(ctx, pointer(c->remote), c->value, FERRY_SIGNAL_ADD, c->pe);
    case FERRY_COMMAND_SIGNAL_SET_WEAK:
        return fy_signal(ctx, pointer(c->remote), c->value, FERRY_SIGNAL_SET | FY_SIGNAL_WEAK, c->pe);
    case FERRY_COMMAND_SIGNAL_ADD_WEAK:
        return fy_signal(ctx, pointer(c->remote), c->value, FERRY_SIGNAL_ADD | FY_SIGNAL_WEAK, c->pe);
    case FERRY_COMMAND_PUT_SIGNAL:
        return fy_put_signal(ctx, pointer(c->remote), pointer(c->local), c->length, pointer(c->signal), c->value, how, c->pe,
                             false);
    case FERRY_COMMAND_AMO: return carry_out_amo(ctx, c);
    default: return fy_quiet_all(ctx);
    }
}

/* The helper. */
static void work(struct ferry_ring *ring)
{
    struct fy_helper *helper = &ring->helper;
    struct ferry_ctx *ctx = ring->ctx;
    fy_channel_lock(ctx);
    helper->status = carry_out(ctx, &helper->command);
    fy_channel_unlock(ctx);
    if (helper->status == FERRY_OK)
        return;
    helper->record.size = sizeof(helper->record);
    fy_errors_last(ctx->world->errors, &helper->record);
}

static void *helper_main(void *arg)
{
    struct ferry_ring *ring = arg;
    struct fy_helper *helper = &ring->helper;
    pthread_mutex_lock(&helper->lock);
    for (;;) {
        int state = atomic_load(&helper->state);
        if (state == FY_HELPER_STOP)
            break;
        if (state != FY_HELPER_ASKED) {
            pthread_cond_wait(&helper->changed, &helper->lock);
            continue;
        }
        pthread_mutex_unlock(&helper->lock);
        work(ring);
        pthread_mutex_lock(&helper->lock);
        atomic_store(&helper->state, FY_HELPER_DONE); /* releases what it did to the channel; fy_helper_collect acquires */
    }
    pthread_mutex_unlock(&helper->lock);
    return NULL;
}

static void turn_to(struct fy_helper *helper, int state)
{
    pthread_mutex_lock(&helper->lock);
    atomic_store(&helper->state, state);
    pthread_cond_signal(&helper->changed);
    pthread_mutex_unlock(&helper->lock);
}

/* Proxy thread. False: there is no thread to be had. */
bool fy_helper_ask(struct ferry_ring *ring, const struct ferry_command *command)
{
    struct fy_helper *helper = &ring->helper;
    if (!helper->running && pthread_create(&helper->thread, NULL, helper_main, ring) != 0)
        return false;
    helper->running = true;
    helper->command = *command;
    turn_to(helper, FY_HELPER_ASKED);
    return true;
}

/* Proxy thread. */
int fy_helper_collect(struct ferry_ring *ring, struct ferry_error *record)
{
    struct fy_helper *helper = &ring->helper;
    *record = helper->record;
    atomic_store(&helper->state, FY_HELPER_IDLE);
    return helper->status;
}

/* Whoever releases the ring; the helper is idle. */
void fy_helper_end(struct ferry_ring *ring)
{
    struct fy_helper *helper = &ring->helper;
    if (!helper->running)
        return;
    turn_to(helper, FY_HELPER_STOP);
    pthread_join(helper->thread, NULL);
    helper->running = false;
}
