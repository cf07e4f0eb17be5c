/* SPDX-License-Identifier: Apache-2.0
 * Teams come and go; who is in them; which piece of scratch memory they use.
 * One thread per PE at a time makes and unmakes teams; the table is otherwise read only. */
#include "team.h"

#include "wait.h"
#include <stdlib.h>
#include <string.h>

#define ROOM_MIN       ((size_t)16384)
#define ROOM_MIN_WORLD ((size_t)65536)
#define ROOM_PER_PE    ((size_t)16)

static struct fy_scratch scratch_of(uint32_t n_pes, size_t room)
{
    size_t dense = ((size_t)n_pes + 7) / 8 * 8;
    if (room < n_pes * ROOM_PER_PE)
        room = (n_pes * ROOM_PER_PE + 63) & ~(size_t)63;
    struct fy_scratch s = {.flags = (FY_FLAGS * FY_FLAG_STRIDE + dense) * sizeof(uint64_t), .room = room};
    s.half = s.flags + 2 * room;
    return s;
}

/* The world's piece is larger: it is the one that is used most. */
static struct fy_scratch scratch_of_slot(uint32_t n_pes, uint32_t slot)
{
    return scratch_of(n_pes, slot == 0 ? ROOM_MIN_WORLD : ROOM_MIN);
}

size_t fy_teams_bytes(uint32_t n_pes)
{
    return 2 * (scratch_of_slot(n_pes, 0).half + (FY_TEAM_SLOTS - 1) * scratch_of_slot(n_pes, 1).half);
}

static struct ferry_team *team_new(struct fy_teams *teams, uint32_t n)
{
    struct ferry_team *team = calloc(1, sizeof(*team) + n * sizeof(*team->pes));
    if (!team)
        return NULL;
    team->teams = teams;
    team->n = n;
    return team;
}

/* Gives the team its piece of scratch, and its place in the table. */
static void team_settle(struct ferry_team *team, uint32_t slot)
{
    struct fy_teams *teams = team->teams;
    uint32_t n_pes = teams->world->n_pes;
    size_t before = slot ? 2 * (scratch_of_slot(n_pes, 0).half + (slot - 1) * scratch_of_slot(n_pes, 1).half) : 0;
    team->slot = slot;
    team->area = teams->area + before;
    team->scratch = scratch_of_slot(n_pes, slot);
    teams->free_slots &= ~(1u << slot);
    teams->by_slot[slot] = team;
}

static int table_fill(struct fy_teams *teams)
{
    struct fy_world *world = teams->world;
    uint32_t here = 0;
    for (uint32_t pe = 0; pe < world->n_pes; pe++)
        here += world->peers[pe].same_host;
    struct ferry_team *all = team_new(teams, world->n_pes), *shared = team_new(teams, here);
    if (!all || !shared) {
        free(all);
        free(shared);
        return FERRY_ERR_NOMEM;
    }
    for (uint32_t pe = 0, i = 0; pe < world->n_pes; pe++) {
        all->pes[pe] = pe;
        if (pe == world->my_pe)
            shared->me = i;
        if (world->peers[pe].same_host)
            shared->pes[i++] = pe;
    }
    all->me = world->my_pe;
    team_settle(all, 0);
    team_settle(shared, 1);
    return FERRY_OK;
}

int fy_teams_create(struct fy_world *world, struct ferry_ctx *ctx, void *job, void *area, struct fy_teams **out,
                    struct ferry_error *error)
{
    struct fy_teams *teams = calloc(1, sizeof(*teams));
    *out = teams;
    if (teams) {
        teams->world = world;
        teams->ctx = ctx;
        teams->job = job;
        teams->area = area;
        teams->free_slots = (uint32_t)((1ull << FY_TEAM_SLOTS) - 1);
        if (table_fill(teams) == FERRY_OK)
            return FERRY_OK;
    }
    fy_error_set(error, FERRY_ERR_NOMEM, NULL, "no memory for the teams of %u pes", world->n_pes);
    return FERRY_ERR_NOMEM;
}

void fy_teams_destroy(struct fy_teams *teams)
{
    for (uint32_t i = 0; i < FY_TEAM_SLOTS; i++)
        free(teams->by_slot[i]);
    free(teams);
}

int fy_team_rank(const struct ferry_team *team, uint32_t pe)
{
    if (team->slot == 0)
        return (int)pe;
    for (uint32_t i = 0; i < team->n; i++)
        if (team->pes[i] == pe)
            return (int)i;
    return -1;
}

int fy_team_watched(const struct ferry_team *team)
{
    struct fy_world *world = team->teams->world;
    if (atomic_load(&world->deaths) == 0)
        return (int)world->my_pe;
    for (uint32_t i = 0; i < team->n; i++)
        if (atomic_load(&world->peers[team->pes[i]].dead))
            return (int)team->pes[i];
    return (int)world->my_pe;
}

static void combine_and(void *to, const void *low, const void *high, size_t n)
{
    uint32_t *t = to;
    const uint32_t *a = low, *b = high;
    for (size_t i = 0; i < n; i++)
        t[i] = a[i] & b[i];
}

static struct ferry_team *pick_members(struct ferry_team *parent, uint32_t start, int64_t stride, uint32_t size,
                                       bool *member)
{
    struct ferry_team *team = team_new(parent->teams, size);
    *member = false;
    for (uint32_t i = 0; team && i < size; i++) {
        uint32_t rank = (uint32_t)((int64_t)start + (int64_t)i * stride);
        team->pes[i] = parent->pes[rank];
        if (rank != parent->me)
            continue;
        team->me = i;
        *member = true;
    }
    return team;
}

/* The slot is the first that is free on every PE of the parent. Each comes here after it has released what it released,
 * so flags of a free slot are zero, and stay so until the new team uses it. */
int fy_team_split(struct ferry_team *parent, uint32_t start, int64_t stride, uint32_t size, struct ferry_team **out)
{
    static const struct fy_reduction both = {sizeof(uint32_t), 100, combine_and};
    struct fy_teams *teams = parent->teams;
    bool member;
    *out = NULL;
    struct ferry_team *team = pick_members(parent, start, stride, size, &member);
    uint32_t free_slots = team ? teams->free_slots : 0;
    int rc = fy_team_reduce(parent, &free_slots, &free_slots, 1, &both, "ferry_team_split_strided");
    if (rc == FERRY_OK && !free_slots)
        rc = fy_fail(teams->world, FERRY_ERR_LIMIT, -1, -1, -1, "destroy teams that are no longer used",
                     "ferry_team_split_strided: no place for another team on every pe of the parent (%u at once)",
                     FY_TEAM_SLOTS - 2);
    if (rc != FERRY_OK || !member) {
        free(team);
        return rc;
    }
    team_settle(team, (uint32_t)__builtin_ctz(free_slots));
    *out = team;
    return FERRY_OK;
}

/* After the sync nobody sends anything any more: every flag that was sent has been waited for. */
int fy_team_release(struct ferry_team *team)
{
    struct fy_teams *teams = team->teams;
    int rc = fy_team_sync(team, "ferry_team_destroy");
    if (rc == FERRY_OK) {
        for (uint32_t half = 0; half < 2; half++) {
            uint64_t *flags = (uint64_t *)(void *)(team->area + half * team->scratch.half);
            for (size_t i = 0; i < team->scratch.flags / sizeof(*flags); i++)
                __atomic_store_n(&flags[i], 0, __ATOMIC_RELEASE);
        }
        teams->free_slots |= 1u << team->slot;
    }
    teams->by_slot[team->slot] = NULL; /* after a failure the slot is lost: late flags may still come */
    free(team);
    return rc;
}
