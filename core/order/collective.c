/* SPDX-License-Identifier: Apache-2.0
 * Collective operations over a team, made of puts and signals alone: sync, broadcast, allgather, alltoall, reduce.
 * One thread per PE and team at a time.
 *
 * Each goes in steps, numbered alike on all members; a step moves as much as fits into a half of the scratch memory,
 * and even and odd steps use different halves. Two rules keep a fast member from overwriting what a slow one still
 * needs: a step ends, on any member, only after every member has entered it (so a member in step s knows that all are
 * done with step s - 2, whose half it is about to use); and every flag that is sent in a step is waited for in it (so
 * no late flag of step s - 2 can come after one of step s). The signals are strong, so this holds on unordered
 * transports too. */
#include "team.h"

#include "fence.h"
#include "post.h"
#include "wait.h"
#include <string.h>

struct step {
    struct ferry_team *team;
    const char *call;
    uint64_t number, tag; /* the tag tells apart what was called */
    char *half;
};

static uint64_t tag_of(unsigned kind, uint64_t size, uint64_t detail)
{
    uint64_t h = (size * 8 + kind) * 0x9e3779b97f4a7c15u;
    h = (h ^ h >> 29 ^ detail) * 0xd6e8feb86659fd93u;
    return h >> (64 - FY_TAG_BITS);
}

static struct step step_begin(struct ferry_team *team, const char *call, uint64_t tag)
{
    struct step step = {team, call, ++team->steps, tag, NULL};
    step.half = team->area + (step.number & 1) * team->scratch.half;
    return step;
}

/* What others put here, and what is put from here. */
static char *incoming(const struct step *step)
{
    return step->half + step->team->scratch.flags;
}

static char *outgoing(const struct step *step)
{
    return incoming(step) + step->team->scratch.room;
}

static uint64_t *flag_at(const struct step *step, uint32_t flag)
{
    return (uint64_t *)(void *)step->half + (size_t)flag * FY_FLAG_STRIDE;
}

/* By distance between the members, for what has more rounds than there are flags. */
static uint64_t *dense_flag(const struct step *step, uint32_t distance)
{
    return flag_at(step, FY_FLAGS) + distance;
}

/* Puts `length` bytes from this PE's scratch to the same place + `at` of the member's incoming memory, and sets its
 * flag. */
static int send(const struct step *step, uint32_t to, const char *from, size_t at, size_t length, uint64_t *flag)
{
    struct ferry_ctx *ctx = step->team->teams->ctx;
    uint32_t pe = step->team->pes[to];
    fy_channel_lock(ctx);
    int rc = length ? fy_put(ctx, incoming(step) + at, from, length, pe, false) : FERRY_OK;
    if (rc == FERRY_OK)
        rc = fy_signal(ctx, flag, step->number << FY_TAG_BITS | step->tag, FERRY_SIGNAL_SET, pe);
    fy_channel_unlock(ctx);
    return rc;
}

static int same_call(const struct step *step, uint64_t seen, uint32_t from)
{
    struct ferry_team *team = step->team;
    if (fy_likely(seen == (step->number << FY_TAG_BITS | step->tag)))
        return FERRY_OK;
    return fy_fail(team->teams->world, FERRY_ERR_MISMATCH, (int)team->pes[from], -1, -1,
                   "make the same collective calls, with the same sizes, in the same order, on every member",
                   "%s: pe %u of the job called another collective of this team, or the same with other arguments",
                   step->call, team->pes[from]);
}

/* Waits for the flag that member `from` sets. */
static int await(const struct step *step, uint32_t from, const uint64_t *flag)
{
    struct ferry_team *team = step->team;
    struct fy_waiter waiter = {.world = team->teams->world, .ctx = team->teams->ctx, .doing = step->call, .from = 1 + team->pes[from]};
    struct fy_backoff backoff = fy_wait_start(team->teams->world);
    int rc = FERRY_OK;
    uint64_t seen;
    /* once more after the verdict: what the dead had sent counts */
    while ((seen = fy_look(flag)) >> FY_TAG_BITS < step->number && rc == FERRY_OK) {
        waiter.check = fy_team_watched(team); /* who died since */
        rc = fy_wait_turn(&waiter, &backoff);
    }
    fy_wait_over(waiter.world, &backoff);
    if (seen >> FY_TAG_BITS < step->number)
        return rc;
    fy_fence_seen(&team->teams->world->applied);
    return same_call(step, seen, from);
}

/* What was put to the member may be overwritten on this side. */
static int sent(const struct step *step, uint32_t to)
{
    struct ferry_ctx *ctx = step->team->teams->ctx;
    fy_channel_lock(ctx);
    int rc = fy_quiet_pe(ctx, step->team->pes[to]);
    fy_channel_unlock(ctx);
    return rc;
}

static int enter(struct ferry_team *team, const char *call)
{
    struct fy_world *world = team->teams->world;
    int rc = fy_world_check(world, fy_team_watched(team), call);
    if (rc == FERRY_OK && team->failed)
        rc = fy_fail(world, FERRY_ERR_STATE, -1, -1, -1, "destroy the team, and make another",
                     "%s: an earlier collective call of this team failed half-way", call);
    return rc;
}

/* A transport may notice a death before the job does, and in its own words. */
static int leave(struct ferry_team *team, int rc, const char *call)
{
    if (rc == FERRY_OK)
        return rc;
    team->failed = true;
    int why = fy_world_check(team->teams->world, fy_team_watched(team), call);
    return why != FERRY_OK ? why : rc;
}

static uint32_t member_at(const struct ferry_team *team, uint32_t distance)
{
    return (uint32_t)(((uint64_t)team->me + distance) % team->n);
}

/* Dissemination (Hensgen, Finkel, Manber 1988). */
static int sync_rounds(const struct step *step)
{
    struct ferry_team *team = step->team;
    int rc = FERRY_OK;
    for (uint32_t r = 0, d = 1; d < team->n && rc == FERRY_OK; r++, d <<= 1) {
        rc = send(step, member_at(team, d), NULL, 0, 0, flag_at(step, r));
        if (rc == FERRY_OK)
            rc = await(step, member_at(team, team->n - d), flag_at(step, r));
    }
    return rc;
}

int fy_team_sync(struct ferry_team *team, const char *call)
{
    int rc = enter(team, call);
    if (rc != FERRY_OK)
        return rc;
    struct step step = step_begin(team, call, tag_of(0, 0, 0));
    return leave(team, sync_rounds(&step), call);
}

/* ------------------------------------------------------------------ broadcast: a binomial tree
 * Nothing comes back from the leaves, so a sync makes sure that all have entered the step. */

static int to_children(const struct step *step, uint32_t v, uint32_t root, size_t length, bool finish)
{
    uint32_t n = step->team->n, reach = v ? v & -v : 1u << 31;
    int rc = FERRY_OK;
    for (uint32_t d = reach >> 1; d && rc == FERRY_OK; d >>= 1) {
        if (d >= n - v)
            continue;
        uint32_t child = (uint32_t)(((uint64_t)v + d + root) % n);
        rc = finish ? sent(step, child) : send(step, child, incoming(step), 0, length, flag_at(step, FY_FLAG_DATA));
    }
    return rc;
}

static int broadcast_step(const struct step *step, char *dest, const char *src, size_t length, uint32_t root)
{
    struct ferry_team *team = step->team;
    uint32_t v = member_at(team, team->n - root); /* number in the tree, whose root is 0 */
    int rc = sync_rounds(step);
    if (rc != FERRY_OK)
        return rc;
    if (v == 0) {
        memcpy(incoming(step), src, length);
    } else {
        uint32_t parent = (uint32_t)(((uint64_t)(v & (v - 1)) + root) % team->n);
        rc = await(step, parent, flag_at(step, FY_FLAG_DATA));
    }
    if (rc == FERRY_OK)
        rc = to_children(step, v, root, length, false);
    if (rc == FERRY_OK && dest != src)
        memcpy(dest, incoming(step), length);
    return rc == FERRY_OK ? to_children(step, v, root, length, true) : rc;
}

int fy_team_broadcast(struct ferry_team *team, void *dest, const void *src, size_t length, uint32_t root,
                      const char *call)
{
    int rc = enter(team, call);
    bool is_root = team->me == root;
    for (size_t at = 0, part; at < length && rc == FERRY_OK; at += part) {
        part = length - at < team->scratch.room ? length - at : team->scratch.room;
        struct step step = step_begin(team, call, tag_of(1, length, root));
        const char *from = is_root ? (const char *)src + at : NULL;
        rc = leave(team, broadcast_step(&step, (char *)dest + at, from, part, root), call);
    }
    return rc;
}

/* ------------------------------------------------------------------ allgather
 * Block i of the incoming memory belongs to the member i further on. Each round doubles how many are known (Bruck et
 * al. 1997); blocks are sent on from where they arrived. */

static int allgather_step(const struct step *step, char *dest, const char *src, size_t stride, size_t length)
{
    struct ferry_team *team = step->team;
    char *blocks = incoming(step);
    int rc = FERRY_OK;
    memcpy(blocks, src, length);
    for (uint32_t r = 0, d = 1; d < team->n && rc == FERRY_OK; r++, d <<= 1) {
        uint32_t count = d < team->n - d ? d : team->n - d;
        rc = send(step, member_at(team, team->n - d), blocks, d * length, count * length, flag_at(step, r));
        if (rc == FERRY_OK)
            rc = await(step, member_at(team, d), flag_at(step, r));
    }
    for (uint32_t i = 0; i < team->n && rc == FERRY_OK; i++)
        memcpy(dest + member_at(team, i) * stride, blocks + i * length, length);
    for (uint32_t d = 1; d < team->n && rc == FERRY_OK; d <<= 1)
        rc = sent(step, member_at(team, team->n - d));
    return rc;
}

static size_t room_each(const struct ferry_team *team)
{
    return team->scratch.room / team->n & ~(size_t)7;
}

int fy_team_allgather(struct ferry_team *team, void *dest, const void *src, size_t length, const char *call)
{
    int rc = enter(team, call);
    for (size_t at = 0, part, most = room_each(team); at < length && rc == FERRY_OK; at += part) {
        part = length - at < most ? length - at : most;
        struct step step = step_begin(team, call, tag_of(2, length, 0));
        rc = leave(team, allgather_step(&step, (char *)dest + at, (const char *)src + at, length, part), call);
    }
    return rc;
}

/* ------------------------------------------------------------------ alltoall: to each in turn, starting with the next
 */

static int alltoall_step(const struct step *step, char *dest, const char *src, size_t stride, size_t length)
{
    struct ferry_team *team = step->team;
    char *in = incoming(step), *out = outgoing(step);
    int rc = FERRY_OK;
    for (uint32_t i = 0; i < team->n; i++)
        memcpy(out + i * length, src + i * stride, length);
    memcpy(dest + team->me * stride, out + team->me * length, length);
    for (uint32_t d = 1; d < team->n && rc == FERRY_OK; d++) {
        uint32_t to = member_at(team, d);
        rc = send(step, to, out + to * length, team->me * length, length, dense_flag(step, d));
    }
    for (uint32_t d = 1; d < team->n && rc == FERRY_OK; d++) {
        uint32_t from = member_at(team, team->n - d);
        rc = await(step, from, dense_flag(step, d));
        if (rc == FERRY_OK)
            memcpy(dest + from * stride, in + from * length, length);
    }
    for (uint32_t d = 1; d < team->n && rc == FERRY_OK; d++)
        rc = sent(step, member_at(team, d));
    return rc;
}

int fy_team_alltoall(struct ferry_team *team, void *dest, const void *src, size_t length, const char *call)
{
    int rc = enter(team, call);
    for (size_t at = 0, part, most = room_each(team); at < length && rc == FERRY_OK; at += part) {
        part = length - at < most ? length - at : most;
        struct step step = step_begin(team, call, tag_of(3, length, 0));
        rc = leave(team, alltoall_step(&step, (char *)dest + at, (const char *)src + at, length, part), call);
    }
    return rc;
}

/* ------------------------------------------------------------------ reduce: recursive doubling
 * Members beyond the largest power of two hand their part to one below it, and get the result from there. */

struct reducing {
    const struct step *step;
    const struct fy_reduction *reduction;
    size_t count, bytes; /* of this step */
    size_t slot;         /* bytes of a slot; slot 0 of the outgoing memory has the result so far */
    uint32_t rounds;
    uint32_t power; /* 1 << rounds */
};

/* Each message has slots and a flag of its own: nothing has to wait for what was sent before. */
static int reduce_send(const struct reducing *r, uint32_t to, uint32_t slot, uint32_t flag)
{
    char *result = outgoing(r->step), *copy = result + (1 + slot) * r->slot;
    memcpy(copy, result, r->bytes);
    return send(r->step, to, copy, slot * r->slot, r->bytes, flag_at(r->step, flag));
}

/* `from` stands for it and members with higher numbers, or lower ones, than this PE and those it stands for. */
static int reduce_take(const struct reducing *r, uint32_t from, uint32_t slot, uint32_t flag)
{
    char *result = outgoing(r->step);
    const char *other = incoming(r->step) + slot * r->slot;
    int rc = await(r->step, from, flag_at(r->step, flag));
    if (rc != FERRY_OK)
        return rc;
    if (flag == FY_FLAG_UNFOLD)
        memcpy(result, other, r->bytes);
    else if (from < r->step->team->me)
        r->reduction->combine(result, other, result, r->count);
    else
        r->reduction->combine(result, result, other, r->count);
    return FERRY_OK;
}

static int reduce_rounds(const struct reducing *r)
{
    uint32_t me = r->step->team->me, n = r->step->team->n;
    bool paired = me + r->power < n;
    int rc = paired ? reduce_take(r, me + r->power, r->rounds, FY_FLAG_FOLD) : FERRY_OK;
    for (uint32_t i = 0; i < r->rounds && rc == FERRY_OK; i++) {
        rc = reduce_send(r, me ^ 1u << i, i, i);
        if (rc == FERRY_OK)
            rc = reduce_take(r, me ^ 1u << i, i, i);
    }
    if (rc == FERRY_OK && paired)
        rc = reduce_send(r, me + r->power, r->rounds + 1, FY_FLAG_UNFOLD);
    for (uint32_t i = 0; i < r->rounds && rc == FERRY_OK; i++)
        rc = sent(r->step, me ^ 1u << i);
    return rc == FERRY_OK && paired ? sent(r->step, me + r->power) : rc;
}

static int reduce_beyond(const struct reducing *r)
{
    uint32_t twin = r->step->team->me - r->power;
    int rc = reduce_send(r, twin, r->rounds, FY_FLAG_FOLD);
    if (rc == FERRY_OK)
        rc = reduce_take(r, twin, r->rounds + 1, FY_FLAG_UNFOLD);
    return rc == FERRY_OK ? sent(r->step, twin) : rc;
}

static int reduce_step(const struct reducing *r, char *dest, const char *src)
{
    memcpy(outgoing(r->step), src, r->bytes);
    int rc = r->step->team->me < r->power ? reduce_rounds(r) : reduce_beyond(r);
    if (rc == FERRY_OK)
        memcpy(dest, outgoing(r->step), r->bytes);
    return rc;
}

int fy_team_reduce(struct ferry_team *team, void *dest, const void *src, size_t count,
                   const struct fy_reduction *reduction, const char *call)
{
    struct reducing r = {.reduction = reduction};
    while (2ull << r.rounds <= team->n)
        r.rounds++;
    r.power = 1u << r.rounds;
    r.slot = team->scratch.room / (r.rounds + 3) & ~(size_t)63;
    int rc = enter(team, call);
    for (size_t at = 0, most = r.slot / reduction->width; at < count && rc == FERRY_OK; at += r.count) {
        size_t before = at * reduction->width;
        r.count = count - at < most ? count - at : most;
        r.bytes = r.count * reduction->width;
        struct step step = step_begin(team, call, tag_of(4, count, reduction->id));
        r.step = &step;
        rc = leave(team, reduce_step(&r, (char *)dest + before, (const char *)src + before), call);
    }
    return rc;
}
