/* SPDX-License-Identifier: Apache-2.0
 * The service thread: progress for targets while their threads compute, and for posted operations that need a push.
 * Started only if some transport declares that need, or if the job has a mailbox. */
#include "job.h"

#include <string.h>

static void *service_main(void *arg)
{
    struct ferry_job *job = arg;
    struct fy_backoff backoff = fy_wait_start(&job->world);
    while (!atomic_load(&job->service_stop)) {
        bool moved = fy_world_serve(&job->world);
        moved |= fy_world_progress(&job->world);
        if (moved)
            backoff = fy_wait_start(&job->world);
        else
            fy_backoff(&backoff);
    }
    return NULL;
}

int fy_job_service_start(struct ferry_job *job, struct ferry_error *error)
{
    if (!job->world.serves && !job->world.locked)
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
