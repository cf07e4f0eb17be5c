/* SPDX-License-Identifier: Apache-2.0
 * The channel's bounce area, and sources registered until quiet. The area has two halves: while one is filled, tickets cover
 * what was posted out of the other. The channel's thread, or under its lock. */
#include "bounce.h"

#include <stdlib.h>
#include <sys/mman.h>

struct fy_bounce {
    struct ferry_buffer *buffer;
    char *base;
    size_t half, used; /* of the half in use */
    uint32_t which;
    struct {
        uint32_t lanes;     /* by bit: something was posted there */
        uint64_t tickets[FY_MAX_TRANSPORTS];
    } halves[2];
};

size_t fy_bounce_piece(const struct ferry_ctx *ctx)
{
    return ctx->world->bounce / 2;
}

static int bounce_make(struct ferry_ctx *ctx)
{
    struct fy_world *world = ctx->world;
    struct ferry_error error;
    struct fy_bounce *bounce = calloc(1, sizeof(*bounce));
    char *base = mmap(NULL, world->bounce, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (!bounce || base == MAP_FAILED) {
        free(bounce);
        if (base != MAP_FAILED)
            munmap(base, world->bounce);
        return fy_fail(world, FERRY_ERR_NOMEM, -1, (int)ctx->id, -1, "lower FERRY_BOUNCE_SIZE",
                       "no memory for the bounce area of channel %u, %zu bytes", ctx->id, world->bounce);
    }
    int rc = fy_buffer_register(world->heap, base, world->bounce, &bounce->buffer, &error);
    if (rc != FERRY_OK) {
        munmap(base, world->bounce);
        free(bounce);
        return fy_errors_thread(world->errors, &error);
    }
    bounce->base = base;
    bounce->half = world->bounce / 2;
    ctx->bounce = bounce;
    return FERRY_OK;
}

void fy_bounce_release(struct ferry_ctx *ctx)
{
    struct fy_bounce *bounce = ctx->bounce;
    if (!bounce)
        return;
    fy_buffer_deregister(bounce->buffer);
    munmap(bounce->base, 2 * bounce->half);
    free(bounce);
    ctx->bounce = NULL;
}

/* Starts tickets on what was posted out of the half in use, and waits for those of the other. */
static int change_halves(struct ferry_ctx *ctx)
{
    struct fy_bounce *bounce = ctx->bounce;
    struct fy_world *world = ctx->world;
    int rc = FERRY_OK;
    for (uint32_t i = 0; i < world->n_lanes; i++) {
        const struct fy_lane *lane = &world->lanes[i];
        uint64_t *ticket = &bounce->halves[bounce->which].tickets[i];
        *ticket = 0;
        if (!(bounce->halves[bounce->which].lanes & 1u << i))
            continue;
        if (lane->ops->quiet(lane->handle, ctx->id, FERRY_PEER_ALL, ticket) == FERRY_OK)
            bounce->halves[bounce->which].lanes &= ~(1u << i);
    }
    bounce->which ^= 1;
    bounce->used = 0;
    for (uint32_t i = 0; i < world->n_lanes && rc == FERRY_OK; i++)
        if (bounce->halves[bounce->which].lanes & 1u << i)
            rc = fy_lane_wait(ctx, &world->lanes[i], FERRY_PEER_ALL, &bounce->halves[bounce->which].tickets[i],
                              "room in the bounce area");
    bounce->halves[bounce->which].lanes = 0;
    if (rc == FERRY_ERR_PEER) { /* the living still have to be waited for, one by one; of the dead the caller hears anyway */
        fy_quiet_all(ctx);
        rc = FERRY_OK;
    }
    return rc;
}

char *fy_bounce_take(struct ferry_ctx *ctx, const struct fy_lane *lane, size_t length, struct ferry_region **region, int *status)
{
    *status = ctx->bounce ? FERRY_OK : bounce_make(ctx);
    if (*status != FERRY_OK)
        return NULL;
    struct fy_bounce *bounce = ctx->bounce;
    length = (length + 7) & ~(size_t)7;
    if (length > bounce->half - bounce->used) {
        *status = change_halves(ctx);
        if (*status != FERRY_OK)
            return NULL;
    }
    char *at = bounce->base + bounce->which * bounce->half + bounce->used;
    bounce->used += length;
    bounce->halves[bounce->which].lanes |= 1u << lane->index;
    *region = bounce->buffer->regions[lane->index];
    return at;
}

/* ------------------------------------------------------------------ loans */

struct fy_loan {
    struct fy_loan *next;
    struct ferry_buffer *buffer;
    uint32_t pe;
};

int fy_loan(struct ferry_ctx *ctx, const struct fy_lane *lane, const void *address, size_t length, uint32_t pe,
            struct ferry_region **region)
{
    struct fy_world *world = ctx->world;
    struct ferry_error error;
    struct fy_loan *loan = calloc(1, sizeof(*loan));
    if (!loan)
        return fy_fail(world, FERRY_ERR_NOMEM, (int)pe, (int)ctx->id, -1, NULL, "no memory to note a registration");
    int rc = fy_buffer_register(world->heap, (void *)(uintptr_t)address, length, &loan->buffer, &error);
    if (rc != FERRY_OK) {
        free(loan);
        return fy_errors_thread(world->errors, &error);
    }
    loan->pe = pe;
    loan->next = ctx->loans;
    ctx->loans = loan;
    *region = loan->buffer->regions[lane->index];
    return FERRY_OK;
}

void fy_loans_return(struct ferry_ctx *ctx, uint32_t pe)
{
    struct fy_loan **at = &ctx->loans;
    while (*at) {
        struct fy_loan *loan = *at;
        if (pe != FERRY_PEER_ALL && loan->pe != pe) {
            at = &loan->next;
            continue;
        }
        *at = loan->next;
        fy_buffer_deregister(loan->buffer);
        free(loan);
    }
}
