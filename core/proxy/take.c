/* SPDX-License-Identifier: Apache-2.0
 * One command: carried out at once where a peer's memory is mapped, else made an operation to be posted. What might have to wait
 * (first contact, mailboxes, memory to be registered, bad addresses, too) is left to the helper, before anything was done.
 * Called by the proxy thread that owns the ring, under the channel's lock if it has one. */
#include "internal.h"

#include "../order/direct.h"
#include "../order/post.h"
#include "../order/quick.h"

static void *pointer(uint64_t address)
{
    return (void *)(uintptr_t)address;
}

static enum fy_taken refuse(struct ferry_ring *ring, const struct ferry_command *c, int status, const char *why)
{
    struct ferry_error record;
    fy_error_set(&record, status, NULL, "ring of channel %u: command %u to pe %u: %s", ring->ctx->id, c->kind, c->pe, why);
    fy_ring_failed(ring, c, status, &record);
    return FY_TAKE_FAIL;
}

/* Where a symmetric address leads, if that is known already. */
static bool place_known(struct ferry_ctx *ctx, uint64_t address, uint64_t length, uint32_t pe, struct fy_place *place)
{
    struct fy_heap *heap = ctx->heap;
    uint64_t at = address - (uint64_t)(uintptr_t)heap->base;
    struct fy_segment *segment;
    if (fy_likely(at < atomic_load_explicit(&heap->backed, memory_order_acquire)))
        segment = atomic_load_explicit(&heap->granules[at >> FY_GRANULE_SHIFT], memory_order_acquire);
    else
        segment = fy_heap_find(heap, pointer(address)); /* a symmetric buffer, or nothing */
    if (fy_unlikely(!segment))
        return false;
    const struct fy_target *target = atomic_load_explicit(&segment->targets[pe], memory_order_acquire);
    uint64_t inside = at - segment->start, end;
    if (fy_unlikely(__builtin_add_overflow(inside, length, &end) || end > target->length))
        return false;
    place->key = target->key;
    place->offset = inside;
    place->target = target;
    return true;
}

/* Room in the batch, for one more of this lane. */
static bool room(struct ferry_ring *ring, const struct fy_lane *lane)
{
    if (ring->n == 0)
        ring->lane = lane;
    return ring->n < FY_BATCH && ring->lane == lane;
}

/* The flow, if it is ready for an operation of that kind: connected, and ordered by what the transport itself does. FY_TAKEN, or
 * what has to come before. */
static enum fy_taken ready(struct ferry_ring *ring, uint32_t pe, uint32_t kind, bool strong)
{
    struct ferry_ctx *ctx = ring->ctx;
    struct fy_flow *flow = &ctx->flows[pe];
    const struct fy_lane *lane = flow->lane;
    if (fy_unlikely(!flow->connected || ctx->limited))
        return FY_TAKE_SLOW;
    if (fy_unlikely(!room(ring, lane)))
        return FY_TAKE_POST;
    if (fy_unlikely(flow->epoch != ctx->epoch) && fy_flow_enter(ctx, flow, pe) != FERRY_OK)
        return FY_TAKE_SLOW;
    uint32_t mask = 0;
    if (kind == FY_DID_PUT)
        mask = strong ? lane->strong_put : lane->unordered_put;
    else if (kind == FY_DID_AMO)
        mask = strong ? lane->strong_amo : lane->unordered_amo;
    mask &= flow->did;
    if (fy_likely(!mask))
        return FY_TAKEN;
    if (mask & FY_DID_ANY(FY_DID_MAIL | FY_DID_FAR))
        return FY_TAKE_SLOW;
    if (lane->caps->flags & FERRY_CAP_FENCED)
        return FY_TAKEN;
    if (!(lane->caps->flags & FERRY_CAP_FENCE_CALL))
        return FY_TAKE_SLOW;
    return ring->n ? FY_TAKE_POST : FY_TAKEN; /* the call of the border must come behind them */
}

/* The next operation of the batch, after `ready`; NULL: the border failed, which is told. */
static struct ferry_op *begin(struct ferry_ring *ring, const struct ferry_command *c, uint32_t kind, bool strong)
{
    struct ferry_ctx *ctx = ring->ctx;
    struct ferry_op *op = &ring->ops[ring->n];
    op->flags = 0;
    int rc = fy_flow_begin(ctx, &ctx->flows[c->pe], c->pe, kind, &op->flags, strong);
    if (fy_unlikely(rc != FERRY_OK)) {
        fy_ring_failed_here(ring, c, rc);
        return NULL;
    }
    op->peer = c->pe;
    op->region = NULL;
    ring->n++;
    return op;
}

/* Registration of local memory for a transport that wants it. FY_TAKEN: *region is right. */
static enum fy_taken local_region(struct ferry_ctx *ctx, const struct fy_lane *lane, const struct ferry_command *c, size_t plain,
                                  struct ferry_region **region)
{
    *region = NULL;
    if (fy_likely(c->length <= plain))
        return FY_TAKEN;
    if (c->length > lane->caps->message_max || lane->counted || !(lane->must_register || lane->finds_local))
        return FY_TAKE_SLOW;
    *region = fy_heap_region(ctx->heap, lane->index, pointer(c->local), c->length);
    return *region || !lane->must_register ? FY_TAKEN : FY_TAKE_SLOW;
}

/* Stores and loads of the proxy itself, in the order of what is to be posted. */
static inline bool direct(const struct ferry_ring *ring)
{
    return ring->ctx->direct && ring->n == 0;
}

static enum fy_taken take_put(struct ferry_ring *ring, const struct ferry_command *c)
{
    struct ferry_ctx *ctx = ring->ctx;
    struct fy_place place;
    struct ferry_region *region;
    if (direct(ring)) {
        void *dest = pointer(c->remote), *src = pointer(c->local);
        if (fy_direct_put(ctx, dest, src, c->length, c->pe) || fy_direct_put_long(ctx, dest, src, c->length, c->pe))
            return FY_TAKEN;
    }
    if (fy_unlikely(!c->length))
        return FY_TAKEN;
    enum fy_taken way = ready(ring, c->pe, FY_DID_PUT, false);
    if (fy_unlikely(way != FY_TAKEN))
        return way;
    const struct fy_lane *lane = ctx->flows[c->pe].lane;
    if (!c->local || local_region(ctx, lane, c, lane->simple_max, &region) != FY_TAKEN ||
        !place_known(ctx, c->remote, c->length, c->pe, &place))
        return FY_TAKE_SLOW;
    struct ferry_op *op = begin(ring, c, FY_DID_PUT, false);
    if (!op)
        return FY_TAKE_FAIL;
    op->kind = FERRY_OP_PUT;
    op->local = pointer(c->local);
    op->region = region;
    op->key = place.key;
    op->offset = place.offset;
    op->length = c->length;
    if (c->length <= lane->small_max)
        op->flags |= FERRY_OP_COPY;
    fy_count(&ctx->counters.puts, 1);
    fy_count(&ctx->counters.bytes_put, c->length);
    return FY_TAKEN;
}

/* The short way of a put: the flow is in order and its books say already what follows (fy_quick_flow), the source needs neither
 * copy nor registration. False: nothing was done. */
static inline __attribute__((always_inline)) bool quick_put(struct ferry_ring *ring, const struct ferry_command *c)
{
    struct ferry_ctx *ctx = ring->ctx;
    struct fy_flow *flow = &ctx->flows[c->pe];
    const struct fy_lane *lane = flow->lane;
    uint64_t at;
    const struct fy_target *target = fy_quick_target(ctx, pointer(c->remote), c->pe, &at);
    if (fy_unlikely(flow->epoch != ctx->epoch || ctx->limited || ctx->direct))
        return false;
    if (fy_unlikely((flow->did & lane->quick_put) != FY_DID(FY_DID_PUT) || c->length - 1 >= lane->simple_max ||
                    at + c->length > target->length || !c->local || ring->n == FY_BATCH || (ring->n && ring->lane != lane)))
        return false;
    struct ferry_op *op = &ring->ops[ring->n++];
    ring->lane = lane;
    op->kind = FERRY_OP_PUT;
    op->flags = c->length <= lane->small_max ? FERRY_OP_COPY : 0;
    op->peer = c->pe;
    op->local = pointer(c->local);
    op->region = NULL;
    op->key = target->key;
    op->offset = at;
    op->length = c->length;
    fy_count(&ctx->counters.puts, 1);
    fy_count(&ctx->counters.bytes_put, c->length);
    return true;
}

/* The short way of a signal, as of a put. which: of the kinds of signals; bit 0: ADD, bit 1: weak. */
static inline __attribute__((always_inline)) bool quick_signal(struct ferry_ring *ring, const struct ferry_command *c, unsigned which)
{
    struct ferry_ctx *ctx = ring->ctx;
    struct fy_flow *flow = &ctx->flows[c->pe];
    const struct fy_lane *lane = flow->lane;
    uint64_t at;
    const struct fy_target *target = fy_quick_target(ctx, pointer(c->remote), c->pe, &at);
    if (fy_unlikely(flow->epoch != ctx->epoch || ctx->limited || ctx->direct))
        return false;
    uint32_t native = which & 1 ? FERRY_AMO_BIT(FERRY_AMO_ADD) : FERRY_AMO_BIT(FERRY_AMO_SET);
    uint32_t behind = which & 2 ? lane->unordered_amo : lane->strong_amo; /* not this amo: behind it lies a border */
    if (fy_unlikely(!(flow->did & FY_DID(FY_DID_AMO)) || flow->did & behind || c->remote & 7 || at + 8 > target->length ||
                    !(target->amo64 & native) || lane->counted || ring->n == FY_BATCH || (ring->n && ring->lane != lane)))
        return false;
    struct ferry_op *op = &ring->ops[ring->n++];
    ring->lane = lane;
    op->kind = FERRY_OP_AMO;
    op->amo = which & 1 ? FERRY_AMO_ADD : FERRY_AMO_SET;
    op->width = 8;
    op->flags = 0;
    op->peer = c->pe;
    op->local = NULL;
    op->region = NULL;
    op->key = target->key;
    op->offset = at;
    op->length = 8;
    op->operand = c->value;
    fy_count(&ctx->counters.atomics, 1);
    fy_count(&ctx->counters.signals, 1);
    __asm__("" : "+m"(ctx->counters.signals)); /* see fy_quick_put_signal */
    return true;
}

static enum fy_taken take_get(struct ferry_ring *ring, const struct ferry_command *c)
{
    struct ferry_ctx *ctx = ring->ctx;
    struct fy_place place;
    struct ferry_region *region;
    if (direct(ring)) {
        void *dest = pointer(c->local), *src = pointer(c->remote);
        if (fy_direct_get(ctx, dest, src, c->length, c->pe) || fy_direct_get_long(ctx, dest, src, c->length, c->pe))
            return FY_TAKEN;
    }
    if (fy_unlikely(!c->length))
        return FY_TAKEN;
    enum fy_taken way = ready(ring, c->pe, FY_DID_GET, false);
    if (fy_unlikely(way != FY_TAKEN))
        return way;
    const struct fy_lane *lane = ctx->flows[c->pe].lane;
    if (!c->local || !(lane->caps->flags & FERRY_CAP_GET) || local_region(ctx, lane, c, lane->get_max, &region) != FY_TAKEN ||
        !place_known(ctx, c->remote, c->length, c->pe, &place))
        return FY_TAKE_SLOW;
    struct ferry_op *op = begin(ring, c, FY_DID_GET, false);
    if (!op)
        return FY_TAKE_FAIL;
    op->kind = FERRY_OP_GET;
    op->local = pointer(c->local);
    op->region = region;
    op->key = place.key;
    op->offset = place.offset;
    op->length = c->length;
    fy_count(&ctx->counters.gets, 1);
    fy_count(&ctx->counters.bytes_got, c->length);
    return FY_TAKEN;
}

/* A value as the put of a word. flags: those of an operation, beside COPY. */
static enum fy_taken take_word(struct ferry_ring *ring, const struct ferry_command *c, size_t width, uint32_t flags, bool strong)
{
    struct ferry_ctx *ctx = ring->ctx;
    struct fy_place place;
    enum fy_taken way = ready(ring, c->pe, FY_DID_PUT, strong);
    if (fy_unlikely(way != FY_TAKEN))
        return way;
    const struct fy_lane *lane = ctx->flows[c->pe].lane;
    if (lane->copy_max < width || lane->counted || lane->caps->message_max < width ||
        !place_known(ctx, c->remote, width, c->pe, &place))
        return FY_TAKE_SLOW;
    uint64_t *value = &ring->values[ring->n];
    struct ferry_op *op = begin(ring, c, FY_DID_PUT, strong);
    if (!op)
        return FY_TAKE_FAIL;
    *value = c->value;
    op->kind = FERRY_OP_PUT;
    op->flags |= FERRY_OP_COPY | flags;
    op->local = value;
    op->key = place.key;
    op->offset = place.offset;
    op->length = width;
    return FY_TAKEN;
}

static enum fy_taken take_value(struct ferry_ring *ring, const struct ferry_command *c, size_t width)
{
    struct ferry_ctx *ctx = ring->ctx;
    if (direct(ring) && fy_direct_put(ctx, pointer(c->remote), &c->value, width, c->pe))
        return FY_TAKEN;
    enum fy_taken way = take_word(ring, c, width, 0, false);
    if (fy_unlikely(way != FY_TAKEN))
        return way;
    fy_count(&ctx->counters.puts, 1);
    fy_count(&ctx->counters.bytes_put, width);
    return FY_TAKEN;
}

/* An atomic that the transport does itself. */
static enum fy_taken take_update(struct ferry_ring *ring, const struct ferry_command *c, unsigned kind, unsigned width, bool fetch,
                                 bool strong)
{
    struct ferry_ctx *ctx = ring->ctx;
    struct fy_place place;
    enum fy_taken way = ready(ring, c->pe, FY_DID_AMO, strong);
    if (fy_unlikely(way != FY_TAKEN))
        return way;
    const struct fy_lane *lane = ctx->flows[c->pe].lane;
    if (c->remote & (width - 1) || (fetch ? lane->made_fetch : lane->counted) ||
        !place_known(ctx, c->remote, width, c->pe, &place))
        return FY_TAKE_SLOW;
    uint32_t native = width == 8 ? place.target->amo64 : place.target->amo32;
    if (!(native & (fetch ? FERRY_AMO_FETCH_BIT(kind) : FERRY_AMO_BIT(kind))))
        return FY_TAKE_SLOW;
    struct ferry_op *op = begin(ring, c, FY_DID_AMO, strong);
    if (!op)
        return FY_TAKE_FAIL;
    op->kind = FERRY_OP_AMO;
    op->amo = (uint8_t)kind;
    op->width = (uint8_t)width;
    op->flags |= fetch ? FERRY_OP_FETCH : 0;
    op->local = fetch ? pointer(c->local) : NULL;
    op->key = place.key;
    op->offset = place.offset;
    op->length = width;
    op->operand = c->value;
    op->compare = c->compare;
    fy_count(&ctx->counters.atomics, 1);
    return FY_TAKEN;
}

/* Signals that set are puts where no transport sets by atomics: fy_amo_made does the same. */
static bool sets_by_put(const struct fy_flow *flow, unsigned how)
{
    return !how && flow->connected && !(flow->lane->caps->amo64 & FERRY_AMO_BIT(FERRY_AMO_SET));
}

static enum fy_taken take_signal(struct ferry_ring *ring, const struct ferry_command *c)
{
    unsigned which = c->kind - FERRY_COMMAND_SIGNAL_SET; /* bit 0: ADD, bit 1: weak */
    unsigned how = which & 1;
    if (direct(ring) && fy_direct_signal(ring->ctx, pointer(c->remote), c->value, how, c->pe))
        return FY_TAKEN;
    enum fy_taken way;
    if (!(c->remote & 7) && sets_by_put(&ring->ctx->flows[c->pe], how))
        way = take_word(ring, c, 8, FERRY_OP_WORD, !(which & 2));
    else
        way = take_update(ring, c, how ? FERRY_AMO_ADD : FERRY_AMO_SET, 8, false, !(which & 2));
    if (way == FY_TAKEN)
        fy_count(&ring->ctx->counters.signals, 1);
    return way;
}

static enum fy_taken take_amo(struct ferry_ring *ring, const struct ferry_command *c)
{
    bool fetch = c->flags & FERRY_COMMAND_FETCH;
    if (fetch ? !c->local : c->amo >= FERRY_COMMAND_AMO_SWAP)
        return refuse(ring, c, FERRY_ERR_ARG, fetch ? "no place for the fetched value" : "an atomic that fetches by nature");
    if (direct(ring) && c->width == 8 &&
        fy_direct_amo(ring->ctx, pointer(c->remote), c->amo, c->value, c->compare, fetch ? pointer(c->local) : NULL, c->pe))
        return FY_TAKEN;
    return take_update(ring, c, c->amo, c->width, fetch, false);
}

/* As one operation of the transport, if it is one there. */
static enum fy_taken take_put_signal_native(struct ferry_ring *ring, const struct ferry_command *c, const struct fy_lane *lane)
{
    struct ferry_ctx *ctx = ring->ctx;
    struct fy_place place, mark;
    struct ferry_region *region;
    bool weak = c->flags & FERRY_COMMAND_WEAK, add = c->flags & FERRY_COMMAND_ADD;
    if (!c->local || !lane->signal_native || !(lane->signal_strong || weak) || c->signal & 7 ||
        local_region(ctx, lane, c, lane->simple_max, &region) != FY_TAKEN ||
        !place_known(ctx, c->remote, c->length, c->pe, &place) || !place_known(ctx, c->signal, 8, c->pe, &mark) ||
        (add && !(mark.target->amo64 & FERRY_AMO_BIT(FERRY_AMO_ADD))))
        return FY_TAKE_SLOW;
    struct ferry_op *op = begin(ring, c, FY_DID_PUT, false);
    if (!op)
        return FY_TAKE_FAIL;
    ctx->flows[c->pe].did |= FY_DID(FY_DID_AMO);
    op->kind = FERRY_OP_PUT_SIGNAL;
    op->amo = add ? FERRY_AMO_ADD : FERRY_AMO_SET;
    op->width = 8;
    op->flags |= (c->length <= lane->small_max ? FERRY_OP_COPY : 0) | (weak ? FERRY_OP_WEAK : 0);
    op->local = pointer(c->local);
    op->region = region;
    op->key = place.key;
    op->offset = place.offset;
    op->length = c->length;
    op->operand = c->value;
    op->signal_key = mark.key;
    op->signal_offset = mark.offset;
    fy_count(&ctx->counters.puts, 1);
    fy_count(&ctx->counters.signals, 1);
    fy_count(&ctx->counters.bytes_put, c->length);
    return FY_TAKEN;
}

/* What a put with signal is that is no operation of its own: its signal, behind the put. */
static void make_signal(struct ferry_command *c)
{
    bool weak = c->flags & FERRY_COMMAND_WEAK && !c->length; /* even a weak one covers its own data */
    c->kind = (uint8_t)(FERRY_COMMAND_SIGNAL_SET + (c->flags & FERRY_COMMAND_ADD ? 1 : 0) + (weak ? 2 : 0));
    c->flags &= FERRY_COMMAND_ANNOUNCE;
    c->remote = c->signal;
    c->length = 0;
}

static enum fy_taken take_put_signal(struct ferry_ring *ring, struct ferry_command *c)
{
    struct ferry_ctx *ctx = ring->ctx;
    if (!c->length) {
        make_signal(c);
        return take_signal(ring, c);
    }
    unsigned how = (c->flags & FERRY_COMMAND_ADD ? FERRY_SIGNAL_ADD : FERRY_SIGNAL_SET);
    if (direct(ring) &&
        fy_direct_put_signal(ctx, pointer(c->remote), pointer(c->local), c->length, pointer(c->signal), c->value, how, c->pe))
        return FY_TAKEN;
    enum fy_taken way = ready(ring, c->pe, FY_DID_PUT, false);
    if (way != FY_TAKEN)
        return way;
    return take_put_signal_native(ring, c, ctx->flows[c->pe].lane);
}

static enum fy_taken take_fence(struct ferry_ring *ring)
{
    struct ferry_ctx *ctx = ring->ctx;
    fy_count(&ctx->counters.fences, 1);
    fy_fence_release(&ctx->fence_word); /* stores through ferry_ptr (C11 7.17.4) */
    ctx->epoch++;
    return FY_TAKEN;
}

static enum fy_taken take_bad(struct ferry_ring *ring, const struct ferry_command *c)
{
    struct ferry_command told = *c;
    told.kind = c->amo;
    return refuse(ring, &told, -(int)c->value, "its arguments are beyond what a command can say");
}

enum fy_taken fy_ring_take(struct ferry_ring *ring)
{
    struct ferry_command *c = &ring->command;
    struct fy_world *world = ring->ctx->world;
    bool alarmed = atomic_load_explicit(&world->aborted, memory_order_relaxed) ||
                   atomic_load_explicit(&world->deaths, memory_order_relaxed);
    if (fy_likely(c->pe < world->n_pes && !alarmed)) {
        if (c->kind == FERRY_COMMAND_PUT && fy_likely(quick_put(ring, c)))
            return FY_TAKEN;
        unsigned which = c->kind - (unsigned)FERRY_COMMAND_SIGNAL_SET;
        if (which <= FERRY_COMMAND_SIGNAL_ADD_WEAK - FERRY_COMMAND_SIGNAL_SET)
            return fy_likely(quick_signal(ring, c, which)) ? FY_TAKEN : take_signal(ring, c);
    }
    if (c->kind == FERRY_COMMAND_NOP || c->kind == FERRY_COMMAND_QUIET)
        return FY_TAKEN;
    if (c->kind == FERRY_COMMAND_FENCE)
        return take_fence(ring);
    if (c->kind == FERRY_COMMAND_BAD)
        return take_bad(ring, c);
    if (fy_unlikely(c->pe >= world->n_pes))
        return refuse(ring, c, FERRY_ERR_ARG, "there is no such pe");
    if (fy_unlikely(alarmed)) {
        int rc = fy_world_check(world, (int)c->pe, "a command of a ring");
        if (rc != FERRY_OK) {
            fy_ring_failed_here(ring, c, rc);
            return FY_TAKE_FAIL;
        }
    }
    switch (c->kind) {
    case FERRY_COMMAND_PUT: return take_put(ring, c);
    case FERRY_COMMAND_GET: return take_get(ring, c);
    case FERRY_COMMAND_P64: return take_value(ring, c, 8);
    case FERRY_COMMAND_P32: return take_value(ring, c, 4);
    case FERRY_COMMAND_PUT_SIGNAL: return take_put_signal(ring, c);
    case FERRY_COMMAND_AMO: return take_amo(ring, c);
    case FERRY_COMMAND_QUIET_PE: return FY_TAKEN;
    default: return take_signal(ring, c);
    }
}
