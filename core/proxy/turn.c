/* SPDX-License-Identifier: Apache-2.0
 * A turn of a ring: read commands, post what they became, move quiets along, tell producers how far it is. Nothing here waits.
 * Called by the proxy thread that owns the ring. */
#include "internal.h"

#include "../base/clock.h"

static struct fy_world *world_of(const struct ferry_ring *ring)
{
    return ring->ctx->world;
}

void fy_ring_failed(struct ferry_ring *ring, const struct ferry_command *command, int status, const struct ferry_error *record)
{
    const struct ferry_ring_failure failure = {status, command->kind, command->pe, ring->ctx->id};
    struct ferry_error told = *record;
    told.status = status;
    told.channel = (int32_t)ring->ctx->id;
    if (command->kind != FERRY_COMMAND_QUIET)
        told.peer = (int32_t)command->pe;
    pthread_mutex_lock(&ring->lock);
    bool first = ring->failure.status == FERRY_OK;
    if (first) {
        ring->failure = told;
        __atomic_store_n(&ring->memory->error, ferry_ring_failure_word(&failure), __ATOMIC_RELEASE);
    }
    pthread_mutex_unlock(&ring->lock);
    if (first)
        ring->proxy->config.tell(ring->proxy->config.arg, &told);
}

void fy_ring_failed_here(struct ferry_ring *ring, const struct ferry_command *command, int status)
{
    struct ferry_error record = {.size = sizeof(record)};
    fy_errors_last(world_of(ring)->errors, &record);
    fy_ring_failed(ring, command, status, &record);
}

/* The command of an operation, as far as an error word names it. */
static struct ferry_command command_of(const struct ferry_op *op)
{
    static const uint8_t kinds[] = {[FERRY_OP_PUT] = FERRY_COMMAND_PUT,
                                    [FERRY_OP_GET] = FERRY_COMMAND_GET,
                                    [FERRY_OP_AMO] = FERRY_COMMAND_AMO,
                                    [FERRY_OP_PUT_SIGNAL] = FERRY_COMMAND_PUT_SIGNAL};
    return (struct ferry_command){.kind = kinds[op->kind], .pe = op->peer};
}

/* The first operation failed: it is left out. */
static void drop_failed(struct ferry_ring *ring, int rc)
{
    const struct ferry_op *op = &ring->ops[ring->from++];
    const struct ferry_command command = command_of(op);
    fy_ring_failed_here(ring, &command, rc);
    ring->stalled_since = 0;
    if (ring->from < ring->n)
        return;
    ring->n = ring->from = 0;
    ring->lane->ops->progress(ring->lane->handle, ring->ctx->id); /* rings the doorbell of those before it */
}

/* No room: until when is it worth while to come back? */
static void stalled(struct ferry_ring *ring)
{
    struct fy_world *world = world_of(ring);
    const struct ferry_op *op = &ring->ops[ring->from];
    fy_count(&ring->ctx->counters.again, 1);
    if (!ring->stalled_since) {
        ring->stalled_since = fy_now_ns();
        ring->stalls = 0;
    }
    if (++ring->stalls % 256)
        return;
    int rc = fy_world_check(world, (int)op->peer, "an operation waiting for room in the queue");
    if (rc == FERRY_OK && world->timeout > 0 &&
        (double)(fy_now_ns() - ring->stalled_since) > world->timeout * 1e9)
        rc = fy_fail(world, FERRY_ERR_TIMEOUT, (int)op->peer, (int)ring->ctx->id, op->kind,
                     "raise FERRY_TIMEOUT if the peer may be that slow", "no room in the queue of channel %u to pe %u for %g s",
                     ring->ctx->id, op->peer, world->timeout);
    if (rc != FERRY_OK)
        drop_failed(ring, rc);
}

/* Hands the batch over, with one doorbell. True: nothing is left of it. */
static bool post(struct ferry_ring *ring)
{
    if (!ring->n)
        return true;
    const struct fy_lane *lane = ring->lane;
    struct fy_transport *transport = world_of(ring)->transports[lane->index];
    size_t done = 0;
    if (lane->caps->flags & FERRY_CAP_MORE)
        for (uint32_t i = ring->from; i + 1 < ring->n; i++)
            ring->ops[i].flags |= FERRY_OP_MORE;
    ring->quiet.posted = true;
    int rc = fy_transport_post(transport, ring->ctx->id, ring->ops + ring->from, ring->n - ring->from, &done);
    ring->from += (uint32_t)done;
    if (done)
        ring->stalled_since = 0;
    if (fy_likely(ring->from == ring->n)) {
        ring->n = ring->from = 0;
        return true;
    }
    if (rc < 0) {
        const struct ferry_op *op = &ring->ops[ring->from];
        drop_failed(ring, fy_lane_failed(ring->ctx, lane, op->peer, op->kind, rc));
        return ring->n == 0;
    }
    lane->ops->progress(lane->handle, ring->ctx->id);
    stalled(ring);
    return ring->n == 0;
}

/* The short commands, which most are; members that their kinds do not use keep what they had. */
static inline bool decode_short(const uint64_t *words, uint64_t base, struct ferry_command *c)
{
    unsigned kind = (unsigned)ferry_ring_bits(words[0], 3, 4);
    if (fy_unlikely(ferry_ring_slots(words[0]) != 1 || kind - FERRY_COMMAND_PUT > FERRY_COMMAND_SIGNAL_ADD_WEAK - FERRY_COMMAND_PUT))
        return false;
    c->kind = (uint8_t)kind;
    c->flags = (uint8_t)ferry_ring_bits(words[0], 7, 1);
    ferry_ring_decode_near(words, base, c);
    return true;
}

/* Reads the next command, unless one is left. */
static bool next(struct ferry_ring *ring)
{
    uint64_t words[FERRY_RING_WORDS];
    if (ring->have)
        return true;
    unsigned slots = fy_feed_look(&ring->handle, ring->position, words);
    if (!slots)
        return false;
    ring->position += slots;
    if (fy_likely(decode_short(words, ring->handle.base, &ring->command))) {
        ring->have = true;
        return true;
    }
    int rc = ferry_ring_decode(words, ring->handle.base, &ring->command);
    ring->have = true;
    if (fy_likely(rc == FERRY_OK))
        return true;
    struct ferry_error record;
    fy_error_set(&record, rc, "build the program with the headers of this library", "ring of channel %u: a command that no "
                 "encoder writes, 0x%llx", ring->ctx->id, (unsigned long long)words[0]);
    fy_ring_failed(ring, &ring->command, rc, &record);
    ring->command.kind = FERRY_COMMAND_NOP;
    ring->command.flags = 0;
    return true;
}

static void done_with(struct ferry_ring *ring)
{
    ring->have = false;
    if (ring->command.flags & FERRY_COMMAND_ANNOUNCE)
        ring->wanted = ring->position;
}

static void ask_helper(struct ferry_ring *ring)
{
    if (fy_helper_ask(ring, &ring->command)) {
        ring->asked_helper = true;
        ring->quiet.posted = true;
        return;
    }
    struct ferry_error record;
    fy_error_set(&record, FERRY_ERR_SYSTEM, "raise the limit on threads (ulimit -u)", "cannot start the helper of channel %u",
                 ring->ctx->id);
    fy_ring_failed(ring, &ring->command, FERRY_ERR_SYSTEM, &record);
}

/* Commands become operations, until the ring is empty, the batch full, or one needs the helper. */
static bool read_commands(struct ferry_ring *ring)
{
    uint64_t before = ring->position;
    bool moved = false;
    for (uint32_t i = 0; i < FY_BATCH && next(ring); i++) {
        enum fy_taken taken = fy_ring_take(ring);
        if (fy_unlikely(taken == FY_TAKE_POST || taken == FY_TAKE_SLOW)) {
            if (!post(ring))
                break;
            if (taken == FY_TAKE_POST)
                continue;
            ask_helper(ring);
        }
        moved = true;
        done_with(ring);
        if (ring->asked_helper)
            break;
    }
    if (ring->position != before) /* what was read is copied out: its slots may be written again (C11 5.1.2.4) */
        __atomic_store_n(&ring->memory->consumed.word, ring->position, __ATOMIC_RELEASE);
    return moved;
}

static void announce(struct ferry_ring *ring, uint64_t up_to)
{
    ring->quieting = false;
    __atomic_store_n(&ring->memory->completed.word, up_to, __ATOMIC_RELEASE); /* with it, all that it announces */
}

static const struct ferry_command quiet_command = {.kind = FERRY_COMMAND_QUIET};

/* The result of a step of a quiet. */
static bool quiet_result(struct ferry_ring *ring, int rc)
{
    if (rc == FERRY_AGAIN)
        return false;
    if (rc == FERRY_ERR_UNSUPPORTED) {
        ring->quieting = true;
        if (fy_helper_ask(ring, &quiet_command)) {
            ring->asked_helper = true;
            return true;
        }
        rc = fy_fail(world_of(ring), FERRY_ERR_SYSTEM, -1, (int)ring->ctx->id, -1, "raise the limit on threads (ulimit -u)",
                     "cannot start the helper of channel %u", ring->ctx->id);
    }
    if (rc < 0)
        fy_ring_failed_here(ring, &quiet_command, rc);
    announce(ring, ring->covered);
    return true;
}

static bool quiet_late(struct ferry_ring *ring)
{
    struct fy_world *world = world_of(ring);
    if (++ring->quiet_turns % 256)
        return false;
    int rc = fy_world_check(world, (int)world->my_pe, "quiet");
    if (rc == FERRY_OK && world->timeout > 0 && (double)(fy_now_ns() - ring->quiet_since) > world->timeout * 1e9)
        rc = fy_fail(world, FERRY_ERR_TIMEOUT, -1, (int)ring->ctx->id, -1, "raise FERRY_TIMEOUT if a peer may be that slow",
                     "quiet: not complete on channel %u after %g s", ring->ctx->id, world->timeout);
    return rc != FERRY_OK && quiet_result(ring, rc);
}

/* At most one quiet is open; what is wanted meanwhile is covered by the next. */
static bool complete(struct ferry_ring *ring)
{
    const struct fy_world *world = world_of(ring);
    if (ring->quieting) {
        int rc = fy_quiet_continue(ring->ctx, &ring->quiet);
        if (rc != FERRY_AGAIN)
            return quiet_result(ring, rc);
        for (uint32_t i = 0; i < world->n_lanes; i++)
            if (ring->quiet.lanes & 1u << i)
                world->lanes[i].ops->progress(world->lanes[i].handle, ring->ctx->id);
        return quiet_late(ring);
    }
    if (ring->wanted <= ring->covered || ring->n)
        return false;
    ring->covered = ring->wanted;
    ring->quieting = true;
    ring->quiet_since = fy_now_ns();
    ring->quiet_turns = 0;
    quiet_result(ring, fy_quiet_start(ring->ctx, &ring->quiet));
    return true;
}

/* What the helper has done. */
static bool collect(struct ferry_ring *ring)
{
    struct ferry_error record;
    if (atomic_load(&ring->helper.state) != FY_HELPER_DONE)
        return false;
    int rc = fy_helper_collect(ring, &record);
    ring->asked_helper = false;
    if (rc < 0)
        fy_ring_failed(ring, &ring->helper.command, rc, &record);
    if (ring->helper.command.kind == FERRY_COMMAND_QUIET)
        announce(ring, ring->covered);
    return true;
}

/* Devices that wait for memory look at it now and then. */
static void sound_alarm(struct ferry_ring *ring)
{
    struct fy_world *world = world_of(ring);
    uint64_t alarm = 0;
    if (atomic_load_explicit(&world->aborted, memory_order_relaxed))
        alarm = -FERRY_ERR_ABORTED;
    else if (atomic_load_explicit(&world->deaths, memory_order_relaxed) != atomic_load_explicit(&world->acknowledged, memory_order_relaxed))
        alarm = -FERRY_ERR_PEER;
    if (fy_unlikely(ring->memory->alarm != alarm)) /* its only writer */
        __atomic_store_n(&ring->memory->alarm, alarm, __ATOMIC_RELEASE);
}

static bool idle(const struct ferry_ring *ring)
{
    return !ring->have && !ring->n && !ring->quieting && !ring->asked_helper;
}

/* Steps of the end. The look at the head follows the closing, both sequentially consistent: see ferry_ring_reserve. */
static void close_ring(struct ferry_ring *ring)
{
    struct fy_world *world = world_of(ring);
    struct fy_ring_memory *memory = ring->memory;
    if (memory->state == FERRY_RING_OPEN) {
        __atomic_store_n(&memory->state, FERRY_RING_CLOSING, __ATOMIC_SEQ_CST);
        ring->end = __atomic_load_n(ring->handle.head, __ATOMIC_SEQ_CST);
        ring->close_deadline = fy_deadline(world->timeout);
    }
    bool drain = atomic_load(&ring->closing) == FY_CLOSE_DRAIN;
    if (drain && !idle(ring))
        return;
    if (drain && ring->position < ring->end && ring->close_status == FERRY_OK) {
        if (fy_now_ns() <= ring->close_deadline)
            return;
        ring->close_status = FERRY_ERR_TIMEOUT;
        fy_log(world->log, FERRY_LOG_ERROR, "ring of channel %u: slots %llu to %llu were reserved by a producer that never wrote them",
               ring->ctx->id, (unsigned long long)ring->position, (unsigned long long)ring->end);
    }
    if (drain && ring->covered < ring->position) {
        ring->wanted = ring->position; /* a last quiet */
        return;
    }
    __atomic_store_n(&memory->state, FERRY_RING_CLOSED, __ATOMIC_RELEASE);
    fy_worker_detach(ring, ring->close_status);
}

/* With the channel in hand. */
static bool work(struct ferry_ring *ring)
{
    bool moved = false;
    if (ring->n) {
        uint32_t before = ring->from;
        if (!post(ring))
            return complete(ring) || ring->from != before;
        moved = true;
    }
    moved |= read_commands(ring);
    if (!ring->asked_helper)
        post(ring);
    if (!ring->asked_helper)
        moved |= complete(ring);
    return moved;
}

bool fy_ring_turn(struct ferry_ring *ring)
{
    struct ferry_ctx *ctx = ring->ctx;
    bool moved = false;
    sound_alarm(ring);
    if (ring->asked_helper && !collect(ring))
        return false;
    if (!ctx->shared || pthread_mutex_trylock(&ctx->lock) == 0) {
        moved = work(ring);
        fy_channel_unlock(ctx);
    }
    if (fy_unlikely(atomic_load_explicit(&ring->closing, memory_order_acquire)))
        close_ring(ring);
    return moved;
}
