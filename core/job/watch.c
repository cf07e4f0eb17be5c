/* SPDX-License-Identifier: Apache-2.0
 * Once a second: what the page tells of channels, whether somebody asks for a report, and whether a thread has waited too long
 * (FERRY_STALL_SECONDS). Control thread. */
#include "job.h"
#include "report.h"

#include <stdio.h>

#define EVERY_NS 1000000000u

static void store(uint64_t *to, uint64_t value)
{
    __atomic_store_n(to, value, __ATOMIC_RELAXED);
}

static void store32(uint32_t *to, uint32_t value)
{
    __atomic_store_n(to, value, __ATOMIC_RELAXED);
}

/* Written plainly by the channel's thread: a moment late is good enough. */
__attribute__((no_sanitize("thread"))) static uint32_t busy_peers(const struct ferry_ctx *ctx)
{
    return *(const volatile uint32_t *)&ctx->n_busy;
}

static void look_at(struct ferry_job *job, uint32_t id, uint64_t now)
{
    const struct ferry_ctx *ctx = job->world.channels[id];
    struct ferry_page_channel *out = fy_page_channel(&job->world.page, id);
    uint32_t busy = ctx ? busy_peers(ctx) : 0;
    uint64_t completed = ctx ? __atomic_load_n(&ctx->counters.completed, __ATOMIC_RELAXED) : 0;
    uint64_t since = job->look.channels[id].since;
    if (!busy)
        since = 0;
    else if (!since || completed != job->look.channels[id].completed)
        since = now;
    job->look.channels[id].completed = completed;
    store(&job->look.channels[id].since, since);
    job->look.channels[id].told = ctx != NULL;
    if (!out)
        return;
    store32(&out->kind, ctx ? fy_job_kind(job, ctx) : FERRY_PAGE_FREE);
    store32(&out->outstanding, busy);
    store(&out->busy_since, since);
}

static void look_at_all(struct ferry_job *job, uint64_t now)
{
    struct fy_world *world = &job->world;
    struct ferry_page *head = world->page.head;
    pthread_mutex_lock(&world->lock);
    for (uint32_t i = 0; i < world->max_channels; i++)
        if (world->channels[i] || job->look.channels[i].told)
            look_at(job, i, now);
    pthread_mutex_unlock(&world->lock);
    store(&head->errors, fy_errors_count(job->errors));
    store32(&head->dead, atomic_load(&world->deaths));
    store32(&head->aborted, atomic_load(&world->aborted));
    store(&head->looked, now);
}

static void look_for_requests(struct ferry_job *job)
{
    uint32_t asked = __atomic_load_n(&job->world.page.head->asked, __ATOMIC_RELAXED);
    if (asked != job->look.asked && fy_report_begin(job, false, "somebody asked for it"))
        job->look.asked = asked;
}

/* The longest wait of this PE; false: nobody waits. */
static bool longest_wait(const struct ferry_job *job, struct ferry_page_wait *longest)
{
    bool found = false;
    for (unsigned i = 0; i < FERRY_PAGE_WAITS; i++) {
        struct ferry_page_wait wait;
        if (!fy_page_wait_read(&job->world.page, i, &wait) || (found && wait.since >= longest->since))
            continue;
        *longest = wait;
        found = true;
    }
    return found;
}

static void look_for_stalls(struct ferry_job *job, uint64_t now)
{
    struct ferry_page_wait wait = {0};
    char reason[96];
    if (job->look.stall <= 0 || !longest_wait(job, &wait) || wait.since == job->look.reported)
        return;
    if (now < wait.since || (double)(now - wait.since) < job->look.stall * 1e9)
        return;
    snprintf(reason, sizeof(reason), "a call of pe %u waits for more than %g s (FERRY_STALL_SECONDS)", job->world.my_pe, job->look.stall);
    if (fy_report_begin(job, true, reason))
        job->look.reported = wait.since;
}

uint64_t fy_job_tick(void *arg, uint64_t now)
{
    struct ferry_job *job = arg;
    if (now < job->look.next)
        return job->look.next;
    double every = job->look.stall > 0 && job->look.stall < 2 ? job->look.stall * 5e8 : EVERY_NS;
    job->look.next = now + (uint64_t)every;
    if (!atomic_load(&job->look.on)) /* acquires what init has made */
        return job->look.next;
    look_at_all(job, now);
    look_for_requests(job);
    look_for_stalls(job, now);
    return job->look.next;
}
