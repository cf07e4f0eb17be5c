/* SPDX-License-Identifier: Apache-2.0
 * Public contexts, fence and quiet.
 * Any thread, one at a time for a context of its own. */
#include "api.h"

/* Stores of direct.h, and those through ferry_ptr, which are the application's own: a full fence completes them. */
static inline void complete_stores(struct ferry_ctx *ctx)
{
    if (!ctx->stored && fy_likely(!atomic_load_explicit(&ctx->world->pointers_out, memory_order_relaxed)))
        return;
    ctx->stored = 0;
    fy_fence_full(&ctx->fence_word);
}

static int quiet_checked(struct ferry_ctx *ctx)
{
    if (!ctx->stored && !ctx->n_busy && fy_likely(!atomic_load_explicit(&ctx->world->pointers_out, memory_order_relaxed)))
        return FERRY_OK;
    fy_count(&ctx->counters.quiets, 1);
    complete_stores(ctx);
    return ctx->n_busy ? fy_quiet_all(ctx) : FERRY_OK;
}

static void fence_open(struct ferry_ctx *ctx)
{
    fy_count(&ctx->counters.fences, 1);
    fy_fence_release(&ctx->fence_word); /* stores through ferry_ptr (C11 7.17.4) */
    ctx->epoch++;
    fy_probe_fence(ctx->id, ctx->epoch);
}

int ferry_fence(ferry_ctx_t *ctx)
{
    if (fy_api_open(ctx, 0)) {
        fence_open(ctx);
        return FERRY_OK;
    }
    int rc = fy_api_enter(&ctx, FY_NO_PE, "ferry_fence");
    if (rc != FERRY_OK)
        return rc;
    fence_open(ctx);
    fy_api_leave(ctx);
    return FERRY_OK;
}

int ferry_quiet(ferry_ctx_t *ctx)
{
    if (fy_api_open(ctx, 0))
        return quiet_checked(ctx);
    int rc = fy_api_enter(&ctx, FY_NO_PE, "ferry_quiet");
    if (rc != FERRY_OK)
        return rc;
    rc = quiet_checked(ctx);
    fy_api_leave(ctx);
    return rc;
}

int ferry_quiet_pe(ferry_ctx_t *ctx, int pe)
{
    int rc = fy_api_enter(&ctx, pe, "ferry_quiet_pe");
    if (rc != FERRY_OK)
        return rc;
    fy_count(&ctx->counters.quiets, 1);
    complete_stores(ctx);
    rc = fy_quiet_pe(ctx, (uint32_t)pe);
    fy_api_leave(ctx);
    return rc;
}

ferry_ctx_t *ferry_ctx_default(ferry_job_t *job)
{
    job = fy_api_job(job);
    return job ? job->default_ctx : NULL;
}

int ferry_ctx_create(ferry_job_t *job, unsigned flags, ferry_ctx_t **ctx)
{
    job = fy_api_job(job);
    if (!job)
        return FERRY_ERR_STATE;
    if (!ctx)
        return fy_usage(job, "ferry_ctx_create: ctx is null");
    *ctx = NULL;
    if (flags != 0)
        return fy_usage(job, "ferry_ctx_create: flags 0x%x, only 0 is defined", flags);
    struct ferry_error error;
    int rc = fy_channel_create(&job->world, false, false, ctx, &error);
    if (rc != FERRY_OK)
        return fy_errors_thread(job->errors, &error);
    (*ctx)->job = job;
    return FERRY_OK;
}

int ferry_ctx_destroy(ferry_ctx_t *ctx)
{
    if (!ctx) {
        struct ferry_job *job = fy_api_job(NULL);
        return job ? fy_usage(job, "ferry_ctx_destroy: ctx is null, and the default context stays") : FERRY_ERR_STATE;
    }
    struct ferry_job *job = ctx->job;
    if (ctx->internal)
        return fy_usage(job, "ferry_ctx_destroy: the default context stays until ferry_finalize");
    fy_job_retire(job, &ctx->counters);
    return fy_channel_destroy(ctx);
}
