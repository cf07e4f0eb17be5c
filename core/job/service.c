/* SPDX-License-Identifier: Apache-2.0
 * The service thread: progress for targets while their threads compute, and for posted operations that need a push.
 * Started only if some transport declares that need, or if the job has a mailbox. */
#include "job.h"

#include <string.h>
#include <time.h>

#define NAP_FIRST_NS 50000u
#define NAP_LAST_NS  800000u
#define TURN_NS      16000u /* a thread that waits all the time has at least one turn in this */

static void *service_main(void *arg)
{
    struct ferry_job *job = arg;
    /* It never spins: on a core that it shares with a thread that looks for what it is to bring, that would be for nothing. */
    struct fy_backoff backoff = {.rounds = FY_SPIN};
    uint64_t seen = 0;
    uint32_t nap = NAP_FIRST_NS;
    while (!atomic_load(&job->service_stop)) {
        /* A thread that waits serves itself. On one core this one would be stopped in the middle, as a rule with the transport
         * in its hands, and the other would turn round idly until its time is up. */
        uint64_t attended = atomic_load_explicit(&job->world.attended, memory_order_relaxed);
        bool held = fy_world_served(&job->world); /* by such a thread, perhaps in one long turn: copies are made in it */
        if (attended != seen || held) {
            bool always = held || attended - seen > nap / TURN_NS; /* and not in between, when others wait for this thread */
            nap = !always ? NAP_FIRST_NS : nap < NAP_LAST_NS ? 2 * nap : nap;
            seen = attended;
            nanosleep(&(struct timespec){0, (long)nap}, NULL);
            continue;
        }
        nap = NAP_FIRST_NS;
        bool moved = fy_world_serve(&job->world);
        moved |= fy_world_progress(&job->world);
        if (moved)
            backoff.rounds = FY_SPIN;
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
