/* SPDX-License-Identifier: Apache-2.0
 * Teams: ordered sets of PEs with a piece of symmetric scratch memory, and the steps that collective operations are
 * made of. Made, used and unmade by one thread per PE at a time; different teams may be in use by different threads. */
#ifndef FY_ORDER_TEAM_H
#define FY_ORDER_TEAM_H

#include "channel.h"

/* Pieces of scratch memory of a job: so many teams of one PE exist at once, the world and the shared one included. */
#define FY_TEAM_SLOTS 24u
/* Flags that lie a cache line apart: rounds of a tree or a butterfly, then those with a meaning of their own. */
#define FY_FLAG_FOLD   32u /* reduce: a PE beyond the power of two hands its part in, */
#define FY_FLAG_UNFOLD 33u /* and gets the result */
#define FY_FLAG_DATA   34u /* broadcast */
#define FY_FLAGS       40u
#define FY_FLAG_STRIDE 8u

/* A flag holds the number of the step that set it, above a digest of what was called. */
#define FY_TAG_BITS 20u

/* One piece of scratch, the same on every PE. Two halves, for even and odd steps, each: flags (far apart), flags by
 * distance (dense), what others put here, what is put from here. */
struct fy_scratch {
    size_t flags; /* bytes of both kinds of flags */
    size_t room;  /* bytes for what others put; as many again for what is put from here */
    size_t half;  /* bytes of a half */
};

struct fy_teams {
    struct fy_world *world;
    struct ferry_ctx *ctx; /* the barrier's */
    void *job;
    char *area;
    uint32_t free_slots; /* bit per slot */
    struct ferry_team *by_slot[FY_TEAM_SLOTS];
};

struct ferry_team {
    struct fy_teams *teams;
    char *area;                /* its piece of scratch, */
    struct fy_scratch scratch; /* and how that is laid out */
    uint32_t slot;
    uint32_t n, me;
    uint64_t steps; /* that it has taken; the same on every member between calls */
    bool failed;    /* a step broke off: members disagree from then on */
    uint32_t pes[]; /* numbers in the job, by number in the team */
};

/* Bytes of symmetric memory for all slots, zeroed, that a job of n_pes needs. */
size_t fy_teams_bytes(uint32_t n_pes);
/* Makes the table, with the world in slot 0 and the PEs of this host in slot 1. Setup thread. */
int fy_teams_create(struct fy_world *world, struct ferry_ctx *ctx, void *job, void *area, struct fy_teams **teams,
                    struct ferry_error *error);
void fy_teams_destroy(struct fy_teams *teams);

/* Collective over `parent`: the team of its members start, start + stride, … (size of them). *team NULL for a PE that
 * is not in it. The arguments have been checked. */
int fy_team_split(struct ferry_team *parent, uint32_t start, int64_t stride, uint32_t size, struct ferry_team **team);
/* Collective over the team. Releases it in any case. */
int fy_team_release(struct ferry_team *team);
/* Number in the team of a PE of the job; -1: no member. */
int fy_team_rank(const struct ferry_team *team, uint32_t pe);
/* A member that died, or this PE (which did not) if there is none: what a wait of the team has to look at. */
int fy_team_watched(const struct ferry_team *team);

/* One element-wise operation. `low` comes from the lower numbers of the team, so that all PEs compute the same bits;
 * `to` may be one of the two. Called with aligned memory. */
struct fy_reduction {
    size_t width;
    uint32_t id; /* the same on all PEs, and no other's */
    void (*combine)(void *to, const void *low, const void *high, size_t n);
};
/* NULL: no such type or operation. */
const struct fy_reduction *fy_reduction(int type, int op);

/* Collective over the team; lengths in bytes; `call` names the caller in messages. In place where ferry.h allows it. */
int fy_team_sync(struct ferry_team *team, const char *call);
int fy_team_broadcast(struct ferry_team *team, void *dest, const void *src, size_t length, uint32_t root,
                      const char *call);
int fy_team_allgather(struct ferry_team *team, void *dest, const void *src, size_t length, const char *call);
int fy_team_alltoall(struct ferry_team *team, void *dest, const void *src, size_t length, const char *call);
int fy_team_reduce(struct ferry_team *team, void *dest, const void *src, size_t count,
                   const struct fy_reduction *reduction, const char *call);

#endif
