/* SPDX-License-Identifier: Apache-2.0
 * Public start and end, errors, unique ids, statistics.
 * init and finalize: one thread per PE; the rest: any thread. */
#include "api.h"

#include <string.h>
#include <unistd.h>

/* For failures before there is a job, with its log, to speak of. */
static void log_alone(const struct ferry_error *error)
{
    struct fy_log log;
    fy_log_init(&log);
    fy_log_record(&log, FERRY_LOG_ERROR, "", error);
}

int ferry_init(const ferry_attr_t *attr, ferry_job_t **job)
{
    ferry_attr_t all = {.size = sizeof(all)};
    struct ferry_job *made = NULL;
    if (job)
        *job = NULL;
    if (attr) {
        if (attr->size < sizeof(size_t) || attr->size > 4096) {
            struct ferry_error error;
            fy_error_set(&error, FERRY_ERR_ARG, "set it to sizeof(ferry_attr_t)", "attribute size is %zu", attr->size);
            log_alone(&error);
            return FERRY_ERR_ARG;
        }
        memcpy(&all, attr, attr->size < sizeof(all) ? attr->size : sizeof(all));
    }
    int rc = fy_job_init(&all, &made);
    if (rc != FERRY_OK)
        return rc;
    if (job)
        *job = made;
    else
        fy_api_default_set(made);
    return FERRY_OK;
}

int ferry_finalize(ferry_job_t *job)
{
    job = fy_api_job(job);
    if (!job)
        return FERRY_ERR_STATE;
    fy_api_default_drop(job);
    return fy_job_finalize(job);
}

int ferry_my_pe(ferry_job_t *job)
{
    job = fy_api_job(job);
    return job ? (int)job->world.my_pe : -1;
}

int ferry_n_pes(ferry_job_t *job)
{
    job = fy_api_job(job);
    return job ? (int)job->world.n_pes : -1;
}

int ferry_abort(ferry_job_t *job, int code)
{
    job = fy_api_job(job);
    if (!job)
        return FERRY_ERR_STATE;
    fy_job_aborted(job, job->world.my_pe, code);
    fy_boot_abort(job->boot, code);
    return FERRY_OK;
}

int ferry_last_error(ferry_job_t *job, struct ferry_error *record)
{
    if (!record)
        return FERRY_ERR_ARG;
    job = fy_api_job(job);
    if (job) {
        fy_errors_last(job->errors, record);
        return FERRY_OK;
    }
    struct ferry_error none;
    fy_error_set(&none, FERRY_ERR_STATE, "call ferry_init first", "there is no job");
    uint32_t size = record->size && record->size < sizeof(none) ? record->size : (uint32_t)sizeof(none);
    none.size = size;
    memcpy(record, &none, size);
    return FERRY_OK;
}

int ferry_acknowledge_failures(ferry_job_t *job)
{
    job = fy_api_job(job);
    if (!job)
        return FERRY_ERR_STATE;
    atomic_store(&job->world.acknowledged, atomic_load(&job->world.deaths));
    return FERRY_OK;
}

int ferry_pe_alive(ferry_job_t *job, int pe)
{
    job = fy_api_job(job);
    if (!job)
        return FERRY_ERR_STATE;
    if ((uint32_t)pe >= job->world.n_pes)
        return fy_usage(job, "ferry_pe_alive: pe %d is out of range, the job has 0 to %u", pe, job->world.n_pes - 1);
    return !atomic_load(&job->world.peers[pe].dead);
}

static void add_counters(ferry_stats_t *out, const struct ferry_counters *c)
{
    const struct {
        uint64_t *to;
        const uint64_t *from;
    } pairs[] = {{&out->puts, &c->puts}, {&out->gets, &c->gets}, {&out->atomics, &c->atomics}, {&out->signals, &c->signals},
                 {&out->bytes_put, &c->bytes_put}, {&out->bytes_got, &c->bytes_got}, {&out->fences, &c->fences},
                 {&out->fenced_operations, &c->fenced_operations}, {&out->drains, &c->drains}, {&out->quiets, &c->quiets},
                 {&out->again, &c->again}, {&out->mailed, &c->mailed}};
    for (size_t i = 0; i < sizeof(pairs) / sizeof(*pairs); i++)
        *pairs[i].to += __atomic_load_n(pairs[i].from, __ATOMIC_RELAXED);
}

int ferry_stats_get(ferry_job_t *job, ferry_stats_t *stats)
{
    job = fy_api_job(job);
    if (!job)
        return FERRY_ERR_STATE;
    if (!stats || stats->size < 8 || stats->size > 4096)
        return fy_usage(job, "ferry_stats_get: stats is null, or its size is not set");
    ferry_stats_t sum = {.size = stats->size};
    pthread_mutex_lock(&job->world.lock);
    add_counters(&sum, &job->retired);
    for (uint32_t i = 0; i < job->world.max_channels; i++) {
        const struct ferry_ctx *ctx = job->world.channels[i];
        if (!ctx || ctx == job->barrier.ctx || ctx == fy_mail_ctx(&job->world))
            continue;
        sum.channels++;
        add_counters(&sum, &ctx->counters);
    }
    pthread_mutex_unlock(&job->world.lock);
    uint32_t size = stats->size < sizeof(sum) ? stats->size : (uint32_t)sizeof(sum);
    memcpy(stats, &sum, size);
    return FERRY_OK;
}

/* meeting NULL: for one job. */
static int meeting_make(ferry_uniqueid_t *id, ferry_meeting_t **meeting)
{
    struct fy_log log;
    struct fy_source source = {NULL, environ};
    struct fy_options options;
    struct ferry_error error;
    fy_log_init(&log);
    int rc = fy_options_load(&options, fy_core_options, NULL, &source, &error);
    if (rc == FERRY_OK) {
        const char *interface_ = fy_options_string(&options, "interface");
        double timeout = fy_options_seconds(&options, "timeout");
        log.level = (int)fy_options_number(&options, "log");
        rc = meeting ? fy_meeting_open(&log, interface_, timeout, id, meeting, &error)
                     : fy_meeting_create(&log, interface_, timeout, id, &error);
        fy_options_free(&options);
    }
    if (rc != FERRY_OK)
        fy_log_record(&log, FERRY_LOG_ERROR, "", &error);
    return rc;
}

int ferry_uniqueid_create(ferry_uniqueid_t *id)
{
    return id ? meeting_make(id, NULL) : FERRY_ERR_ARG;
}

int ferry_meeting_open(ferry_uniqueid_t *id, ferry_meeting_t **meeting)
{
    if (!meeting)
        return FERRY_ERR_ARG;
    *meeting = NULL;
    return id ? meeting_make(id, meeting) : FERRY_ERR_ARG;
}

int ferry_meeting_lost(ferry_meeting_t *meeting, int rank)
{
    return meeting ? fy_meeting_lost(meeting, rank) : FERRY_ERR_ARG;
}

int ferry_meeting_close(ferry_meeting_t *meeting)
{
    if (!meeting)
        return FERRY_ERR_ARG;
    fy_meeting_close(meeting);
    return FERRY_OK;
}

int ferry_uniqueid_to_text(const ferry_uniqueid_t *id, char *text)
{
    static const char digits[] = "0123456789abcdef";
    if (!id || !text)
        return FERRY_ERR_ARG;
    for (size_t i = 0; i < FERRY_UNIQUEID_BYTES; i++) {
        text[2 * i] = digits[id->bytes[i] >> 4];
        text[2 * i + 1] = digits[id->bytes[i] & 15];
    }
    text[2 * FERRY_UNIQUEID_BYTES] = '\0';
    return FERRY_OK;
}

static int digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

int ferry_uniqueid_from_text(const char *text, ferry_uniqueid_t *id)
{
    if (!text || !id || strlen(text) != 2 * FERRY_UNIQUEID_BYTES)
        return FERRY_ERR_ARG;
    for (size_t i = 0; i < FERRY_UNIQUEID_BYTES; i++) {
        int high = digit(text[2 * i]), low = digit(text[2 * i + 1]);
        if (high < 0 || low < 0)
            return FERRY_ERR_ARG;
        id->bytes[i] = (uint8_t)(high << 4 | low);
    }
    return FERRY_OK;
}
