/* SPDX-License-Identifier: Apache-2.0
 * What the public functions share: the default job, and the careful way into a context.
 * Any thread. The default job pointer is the only state of the library outside a job object. */
#ifndef FY_API_API_H
#define FY_API_API_H

#include "../job/job.h"
#include "../order/fence.h"
#include "../order/post.h"

/* `job`, or the default job if it is NULL; NULL if there is none. */
struct ferry_job *fy_api_job(ferry_job_t *job);
void fy_api_default_set(struct ferry_job *job);
void fy_api_default_drop(struct ferry_job *job);

/* Words that a wait or a test looks at: there, aligned, in the heap; and a comparison that exists. */
int fy_api_words(struct ferry_job *job, const uint64_t *words, size_t n, int cmp, const char *call);

#define FY_NO_PE INT32_MIN
/* The way in for calls that the gate stops: a null context, a PE out of range, a shared context, a job in trouble. Replaces *ctx by
 * the context to use and takes its lock; FERRY_OK must be followed by fy_api_leave. pe FY_NO_PE: the call names none. */
int fy_api_enter(ferry_ctx_t **ctx, int pe, const char *call);
static inline void fy_api_leave(struct ferry_ctx *ctx)
{
    fy_channel_unlock(ctx);
}

/* True when the call may go straight on: a private context of a healthy job, and a PE of it. */
static inline bool fy_api_open(const struct ferry_ctx *ctx, int pe)
{
    return fy_likely(ctx && (uint32_t)pe < atomic_load_explicit(&ctx->gate, memory_order_relaxed));
}

/* Records a usage error of the calling thread. */
#define fy_usage(job, ...) fy_fail(&(job)->world, FERRY_ERR_ARG, -1, -1, -1, NULL, __VA_ARGS__)

#endif
