/* SPDX-License-Identifier: Apache-2.0
 * Public wait for one word of this PE's own memory, barrier and sync. vector_wait.c has the tests and the waits for several.
 * Waits: any thread. Barrier and sync: one thread per PE at a time. */
#include "api.h"

int ferry_wait_until(ferry_job_t *job, const uint64_t *word, int cmp, uint64_t value)
{
    job = fy_api_job(job);
    if (!job)
        return FERRY_ERR_STATE;
    int rc = fy_api_words(job, word, 1, cmp, "ferry_wait_until");
    const struct fy_waiter waiter = {&job->world, NULL, -1, "ferry_wait_until", 0};
    return rc == FERRY_OK ? fy_wait_word(&waiter, word, cmp, value) : rc;
}

int ferry_sync(ferry_job_t *job)
{
    job = fy_api_job(job);
    if (!job)
        return FERRY_ERR_STATE;
    int rc = fy_world_check(&job->world, -2, "ferry_sync");
    return rc == FERRY_OK ? fy_barrier_pass(&job->barrier, "barrier") : rc;
}

int ferry_barrier(ferry_job_t *job)
{
    job = fy_api_job(job);
    if (!job)
        return FERRY_ERR_STATE;
    int rc = ferry_quiet(job->default_ctx);
    if (rc == FERRY_OK)
        rc = fy_world_check(&job->world, -2, "ferry_barrier");
    return rc == FERRY_OK ? fy_barrier_pass(&job->barrier, "barrier") : rc;
}
