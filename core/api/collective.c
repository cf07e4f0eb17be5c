/* SPDX-License-Identifier: Apache-2.0
 * Public collective operations over a team: arguments, then core/order/collective.c.
 * One thread per PE and team at a time. */
#include "api.h"

static int check_team(ferry_team_t *team, const char *call)
{
    if (team)
        return FERRY_OK;
    struct ferry_job *job = fy_api_job(NULL);
    return job ? fy_usage(job, "%s: the team is null", call) : FERRY_ERR_ARG;
}

/* `blocks` is how many pieces of `length` bytes the larger buffer has. */
static int check_buffers(ferry_team_t *team, const void *dest, const void *src, size_t length, size_t blocks,
                         const char *call)
{
    struct ferry_job *job = team->teams->job;
    size_t all;
    if (length && !dest)
        return fy_usage(job, "%s: dest is null, the length %zu", call, length);
    if (length && !src)
        return fy_usage(job, "%s: src is null, the length %zu", call, length);
    if (__builtin_mul_overflow(length, blocks, &all))
        return fy_usage(job, "%s: %zu times length %zu is more than a size can say", call, blocks, length);
    return FERRY_OK;
}

int ferry_team_sync(ferry_team_t *team)
{
    int rc = check_team(team, "ferry_team_sync");
    return rc == FERRY_OK ? fy_team_sync(team, "ferry_team_sync") : rc;
}

int ferry_team_barrier(ferry_team_t *team)
{
    int rc = check_team(team, "ferry_team_barrier");
    if (rc == FERRY_OK)
        rc = ferry_quiet(((struct ferry_job *)team->teams->job)->default_ctx);
    return rc == FERRY_OK ? fy_team_sync(team, "ferry_team_barrier") : rc;
}

int ferry_broadcast(ferry_team_t *team, void *dest, const void *src, size_t length, int root)
{
    static const char call[] = "ferry_broadcast";
    int rc = check_team(team, call);
    if (rc != FERRY_OK)
        return rc;
    if ((uint32_t)root >= team->n)
        return fy_usage((struct ferry_job *)team->teams->job, "%s: root %d is out of range, the team has 0 to %u", call,
                        root, team->n - 1);
    rc = check_buffers(team, dest, team->me == (uint32_t)root ? src : dest, length, 1, call);
    return rc == FERRY_OK ? fy_team_broadcast(team, dest, src, length, (uint32_t)root, call) : rc;
}

int ferry_allgather(ferry_team_t *team, void *dest, const void *src, size_t length)
{
    static const char call[] = "ferry_allgather";
    int rc = check_team(team, call);
    if (rc == FERRY_OK)
        rc = check_buffers(team, dest, src, length, team->n, call);
    return rc == FERRY_OK ? fy_team_allgather(team, dest, src, length, call) : rc;
}

int ferry_alltoall(ferry_team_t *team, void *dest, const void *src, size_t length)
{
    static const char call[] = "ferry_alltoall";
    int rc = check_team(team, call);
    if (rc == FERRY_OK)
        rc = check_buffers(team, dest, src, length, team->n, call);
    return rc == FERRY_OK ? fy_team_alltoall(team, dest, src, length, call) : rc;
}

int ferry_reduce(ferry_team_t *team, void *dest, const void *src, size_t count, int type, int op)
{
    static const char call[] = "ferry_reduce";
    int rc = check_team(team, call);
    if (rc != FERRY_OK)
        return rc;
    const struct fy_reduction *reduction = fy_reduction(type, op);
    if (!reduction)
        return fy_usage((struct ferry_job *)team->teams->job,
                        "%s: type %d or operation %d is none of enum ferry_type, ferry_reduce_op", call, type, op);
    rc = check_buffers(team, dest, src, count, reduction->width, call);
    return rc == FERRY_OK ? fy_team_reduce(team, dest, src, count, reduction, call) : rc;
}
