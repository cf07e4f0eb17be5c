/* SPDX-License-Identifier: Apache-2.0
 * News that no call asked for: a PE died, somebody aborted, a transport lost something.
 * Control thread, or a thread of a transport; blocks on nothing but short locks. */
#include "job.h"

#include "../order/mail.h"

#include <string.h>

/* Tells the application, whoever it was that asked to be told. */
static void tell(struct ferry_job *job, const struct ferry_error *record)
{
    pthread_mutex_lock(&job->handler_lock);
    if (job->handler)
        job->handler(job->handler_arg, record);
    pthread_mutex_unlock(&job->handler_lock);
}

void fy_job_dead(void *arg, uint32_t pe, const char *why)
{
    struct ferry_job *job = arg;
    struct fy_world *world = &job->world;
    if (pe >= world->n_pes || atomic_exchange(&world->peers[pe].dead, 1))
        return;
    atomic_store(&world->last_dead, (int32_t)pe);
    atomic_fetch_add(&world->deaths, 1);
    struct ferry_error record;
    fy_error_set(&record, FERRY_ERR_PEER, "see the messages of that pe, or of the launcher, for why it died",
                 "pe %u is dead: %s", pe, why);
    record.peer = (int32_t)pe;
    fy_errors_job(job->errors, &record);
    fy_log(&job->log, FERRY_LOG_WARN, "%s", record.message);
    fy_world_alarm(world);
    tell(job, &record);
}

/* No failure by itself: only who waits for that PE has to know. */
void fy_job_left(void *arg, uint32_t pe)
{
    struct fy_world *world = &((struct ferry_job *)arg)->world;
    if (pe < world->n_pes)
        atomic_store(&world->peers[pe].gone, 1);
}

void fy_job_aborted(void *arg, uint32_t by, int code)
{
    struct ferry_job *job = arg;
    struct fy_world *world = &job->world;
    if (atomic_load(&world->aborted))
        return;
    atomic_store(&world->abort_by, (int32_t)by);
    atomic_store(&world->abort_code, code);
    atomic_store(&world->aborted, 1);
    struct ferry_error record;
    fy_error_set(&record, FERRY_ERR_ABORTED, NULL, "pe %u aborted the job with code %d", by, code);
    record.peer = (int32_t)by;
    fy_errors_job(job->errors, &record);
    if (by != world->my_pe)
        fy_log(&job->log, FERRY_LOG_WARN, "%s", record.message);
    fy_world_alarm(world);
    if (by != world->my_pe)
        tell(job, &record);
}

void fy_job_transport_error(void *arg, const struct ferry_error *record)
{
    struct ferry_job *job = arg;
    fy_errors_job(job->errors, record);
    fy_log_record(&job->log, FERRY_LOG_ERROR, "", record);
    tell(job, record);
}

void fy_job_retire(void *arg, const struct ferry_counters *counters)
{
    struct ferry_job *job = arg;
    uint64_t *sum = (uint64_t *)&job->retired;
    const uint64_t *add = (const uint64_t *)counters;
    pthread_mutex_lock(&job->world.lock);
    for (size_t i = 0; i < sizeof(*counters) / sizeof(*sum); i++)
        sum[i] += add[i];
    pthread_mutex_unlock(&job->world.lock);
}

void fy_job_deliver(void *arg, uint32_t from, uint64_t data)
{
    struct ferry_job *job = arg;
    fy_cover_arrived(&job->world, from, data);
}
