/* SPDX-License-Identifier: Apache-2.0
 * Public teams, and the handler of failures that belong to no call.
 * Making and destroying: one thread per PE at a time; asking: any thread. */
#include "api.h"

#include <inttypes.h>

/* Without a team there is no job to record the failure in, unless there is a default one. */
static int no_team(const char *call)
{
    struct ferry_job *job = fy_api_job(NULL);
    return job ? fy_usage(job, "%s: the team is null", call) : FERRY_ERR_ARG;
}

ferry_team_t *ferry_team_world(ferry_job_t *job)
{
    job = fy_api_job(job);
    return job ? job->teams->by_slot[0] : NULL;
}

ferry_team_t *ferry_team_shared(ferry_job_t *job)
{
    job = fy_api_job(job);
    return job ? job->teams->by_slot[1] : NULL;
}

int ferry_team_my_pe(ferry_team_t *team)
{
    return team ? (int)team->me : -1;
}

int ferry_team_n_pes(ferry_team_t *team)
{
    return team ? (int)team->n : -1;
}

int ferry_team_translate(ferry_team_t *from, int pe, ferry_team_t *to)
{
    if (!from || !to || (uint32_t)pe >= from->n)
        return -1;
    return fy_team_rank(to, from->pes[pe]);
}

int ferry_team_split_strided(ferry_team_t *parent, int start, int stride, int size, ferry_team_t **team)
{
    static const char call[] = "ferry_team_split_strided";
    if (!parent)
        return no_team(call);
    struct ferry_job *job = parent->teams->job;
    if (!team)
        return fy_usage(job, "%s: the place for the team is null", call);
    *team = NULL;
    if (size < 1)
        return fy_usage(job, "%s: size %d, a team has one member at least", call, size);
    if (stride == 0 && size > 1)
        return fy_usage(job, "%s: stride 0 would make one pe a member twice", call);
    int64_t last = (int64_t)start + (int64_t)stride * (size - 1);
    if (start < 0 || (uint32_t)start >= parent->n || last < 0 || last >= (int64_t)parent->n)
        return fy_usage(job, "%s: members %d to %" PRId64 " are not all in the parent, which has 0 to %u", call, start,
                        last, parent->n - 1);
    return fy_team_split(parent, (uint32_t)start, stride, (uint32_t)size, team);
}

int ferry_team_destroy(ferry_team_t *team)
{
    if (!team)
        return no_team("ferry_team_destroy");
    if (team->slot < 2)
        return fy_usage((struct ferry_job *)team->teams->job,
                        "ferry_team_destroy: the %s team stays until ferry_finalize",
                        team->slot == 0 ? "world" : "shared");
    return fy_team_release(team);
}

int ferry_set_error_handler(ferry_job_t *job, ferry_error_handler_t handler, void *arg)
{
    job = fy_api_job(job);
    if (!job)
        return FERRY_ERR_STATE;
    pthread_mutex_lock(&job->handler_lock);
    job->handler = handler;
    job->handler_arg = arg;
    pthread_mutex_unlock(&job->handler_lock);
    return FERRY_OK;
}
