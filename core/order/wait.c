/* SPDX-License-Identifier: Apache-2.0
 * Waits that look at memory and at the state of the job, and the dissemination barrier.
 * Waits: any thread. Barrier: one thread per PE at a time. */
#include "wait.h"

#include "direct.h"
#include "fence.h"
#include "post.h"

#define TURNS 4u /* of a thread that spins, to one in which it also sees to what it has posted: what it waits for is a peer's */

static bool own_turn(const struct fy_backoff *backoff)
{
    return backoff->rounds >= FY_SPIN || backoff->rounds % TURNS == TURNS - 1;
}

int fy_wait_turn(const struct fy_waiter *waiter, struct fy_backoff *backoff)
{
    struct fy_world *world = waiter->world;
    if (world->locked && own_turn(backoff) && fy_world_progress(world))
        fy_wait_moved(world, backoff);
    if (world->serves)
        fy_wait_serve(world, backoff);
    if (!fy_backoff(backoff))
        return FERRY_OK;
    fy_wait_tell(world, backoff, (int)waiter->from - 1, waiter->ctx ? (int)waiter->ctx->id : -1, waiter->doing);
    int rc = fy_world_check(world, waiter->check, waiter->doing);
    if (rc != FERRY_OK)
        return rc;
    return waiter->ctx ? fy_channel_heard(waiter->ctx, true) : fy_channel_heard(world->waiters, false);
}

int fy_wait_word(const struct fy_waiter *waiter, const uint64_t *word, int cmp, uint64_t value)
{
    struct fy_backoff backoff = fy_wait_start(waiter->world);
    int rc = FERRY_OK;
    while (rc == FERRY_OK && !fy_compare(fy_look(word), cmp, value))
        rc = fy_wait_turn(waiter, &backoff);
    fy_wait_over(waiter->world, &backoff);
    /* what the dead had sent may have arrived between the look and the verdict */
    if (fy_unlikely(rc != FERRY_OK) && !fy_compare(fy_look(word), cmp, value))
        return rc;
    fy_fence_seen(&waiter->world->applied);
    return FERRY_OK;
}

/* Dissemination: in round r, tell the PE 2^r further, wait for the one 2^r before. Words only grow, and have one writer
 * each, so a barrier that runs ahead by one does no harm (Hensgen, Finkel, Manber 1988). They grow only if the signal of
 * one barrier is not overtaken by that of the next: the signals are strong, which an ordered transport gives away. */
int fy_barrier_pass(struct fy_barrier *barrier, const char *doing)
{
    struct ferry_ctx *ctx = barrier->ctx;
    struct fy_world *world = ctx->world;
    struct fy_waiter waiter = {world, ctx, -2, doing, 0};
    uint64_t number = ++barrier->number;
    int rc = FERRY_OK;
    fy_fence_applied(&world->applied); /* a request that follows at a peer is carried out by another thread here */
    for (uint32_t r = 0, step = 1; step < world->n_pes; r++, step <<= 1) {
        uint64_t *word = barrier->words + r * FY_BARRIER_STRIDE;
        uint32_t next = (uint32_t)(((uint64_t)world->my_pe + step) % world->n_pes);
        rc = FERRY_OK;
        if (!fy_direct_signal(ctx, word, number, FERRY_SIGNAL_SET, next)) {
            fy_channel_lock(ctx);
            rc = fy_signal(ctx, word, number, FERRY_SIGNAL_SET, next);
            fy_channel_unlock(ctx);
        }
        waiter.from = 1 + (uint32_t)(((uint64_t)world->my_pe + world->n_pes - step) % world->n_pes);
        if (rc == FERRY_OK)
            rc = fy_wait_word(&waiter, word, FERRY_CMP_GE, number);
        if (rc != FERRY_OK)
            return rc;
    }
    return FERRY_OK;
}
