/* SPDX-License-Identifier: Apache-2.0
 * ferry_finalize: completes, waits for the others, releases in the reverse order of making.
 * Setup thread; no other thread uses the job any more. */
#include "job.h"

#include "../order/mail.h"

#include <sodium.h>
#include <stdlib.h>

void fy_job_release(struct ferry_job *job)
{
    fy_report_close(&job->report); /* its thread looks at everything, and asks others */
    if (job->proxy) /* before anything that it uses */
        fy_proxy_destroy(job->proxy, false);
    fy_job_service_stop(job);
    for (uint32_t i = 0; job->world.channels && i < job->world.max_channels; i++)
        if (job->world.channels[i])
            fy_channel_destroy(job->world.channels[i]);
    if (job->gpu)
        fy_gpu_unpin_all(job->gpu); /* memory of PEs of this process among it, so before they release theirs */
    /* PEs of one process reach each other's memory by plain pointers: nobody may be in a call when it goes */
    if (job->boot)
        fy_boot_settle(job->boot);
    fy_mail_destroy(&job->world);
    if (job->heap)
        fy_heap_destroy(job->heap);
    if (job->route)
        fy_route_close(job->route);
    fy_gpu_destroy(job->gpu);
    if (job->boot)
        fy_boot_close(job->boot);
    fy_options_free(&job->options);
    for (char **o = job->overrides; o && *o; o++)
        free(*o);
    free(job->overrides);
    fy_page_destroy(&job->world.page);
    free(job->look.channels);
    free(job->world.channels);
    free(job->world.peers);
    fy_job_endpoints_free(job);
    free(job->places);
    if (job->teams)
        fy_teams_destroy(job->teams);
    if (job->errors)
        fy_errors_destroy(job->errors);
    pthread_mutex_destroy(&job->world.lock);
    pthread_mutex_destroy(&job->world.setup);
    pthread_mutex_destroy(&job->world.serving);
    pthread_mutex_destroy(&job->handler_lock);
    pthread_mutex_destroy(&job->report.lock);
    sodium_memzero(job->secret, sizeof(job->secret));
    free(job);
}

static int quiet_everything(struct ferry_job *job)
{
    int result = FERRY_OK;
    for (uint32_t i = 0; i < job->world.max_channels; i++) {
        struct ferry_ctx *ctx = job->world.channels[i];
        if (!ctx)
            continue;
        fy_channel_lock(ctx);
        int rc = fy_quiet_all(ctx);
        fy_channel_unlock(ctx);
        if (result == FERRY_OK)
            result = rc;
    }
    return result;
}

/* Nobody asks any more, but the last replies may need the peers' service threads to become complete: all stay until then. */
static int quiet_service(struct ferry_job *job, struct ferry_error *error)
{
    int rc = quiet_everything(job);
    return rc == FERRY_OK ? fy_boot_barrier(job->boot, "end of service", 0, error) : rc;
}

int fy_job_finalize(struct ferry_job *job)
{
    int result = fy_proxy_destroy(job->proxy, true);
    job->proxy = NULL;
    int quiet = quiet_everything(job);
    if (result == FERRY_OK)
        result = quiet;
    struct ferry_error error;
    int rc = fy_world_check(&job->world, -2, "finalize");
    uint32_t told = fy_page_wait(&job->world.page, -1, -1, "finalize");
    if (rc == FERRY_OK)
        rc = fy_boot_barrier(job->boot, "finalize", 0, &error);
    if (rc == FERRY_OK && job->world.serves)
        rc = quiet_service(job, &error);
    fy_page_wait_over(&job->world.page, told);
    if (result == FERRY_OK)
        result = rc;
    fy_job_release(job);
    return result;
}
