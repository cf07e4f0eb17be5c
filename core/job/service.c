/* SPDX-License-Identifier: Apache-2.0
 * The service thread: progress for targets while their threads compute, and for posted operations that need a push.
 * Started only if some transport declares that need. */
#include "job.h"

#include <string.h>

static bool serve_once(struct ferry_job *job)
{
    bool moved = false;
    for (uint32_t i = 0; i < job->world.n_lanes; i++) {
        const struct fy_lane *lane = &job->world.lanes[i];
        if (lane->caps->flags & FERRY_CAP_TARGET_PROGRESS)
            moved |= lane->ops->progress(lane->handle, FERRY_CHANNEL_SERVICE) == FERRY_OK;
    }
    return moved | fy_world_progress(&job->world);
}

static void *service_main(void *arg)
{
    struct ferry_job *job = arg;
    struct fy_backoff backoff = fy_wait_start(&job->world);
    while (!atomic_load(&job->service_stop)) {
        if (serve_once(job))
            backoff = fy_wait_start(&job->world);
        else
            fy_backoff(&backoff);
    }
    return NULL;
}

int fy_job_service_start(struct ferry_job *job, struct ferry_error *error)
{
    if (!job->world.target_progress && !job->world.locked)
        return FERRY_OK;
    int rc = pthread_create(&job->service, NULL, service_main, job);
    if (rc != 0) {
        fy_error_set(error, FERRY_ERR_SYSTEM, "raise the limit on threads (ulimit -u)", "cannot start the service thread: %s",
                     strerror(rc));
        return FERRY_ERR_SYSTEM;
    }
    job->service_running = true;
    return FERRY_OK;
}

void fy_job_service_stop(struct ferry_job *job)
{
    if (!job->service_running)
        return;
    atomic_store(&job->service_stop, true);
    pthread_join(job->service, NULL);
    job->service_running = false;
}
