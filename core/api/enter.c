/* SPDX-License-Identifier: Apache-2.0
 * The default job, and the careful way into a context. The pointer below is the library's only process-wide state;
 * it is changed by init and finalize and read by calls that name no job. */
#include "api.h"

static _Atomic(struct ferry_job *) default_job;

struct ferry_job *fy_api_job(ferry_job_t *job)
{
    return job ? job : atomic_load(&default_job);
}

void fy_api_default_set(struct ferry_job *job)
{
    atomic_store(&default_job, job);
}

void fy_api_default_drop(struct ferry_job *job)
{
    struct ferry_job *expected = job;
    atomic_compare_exchange_strong(&default_job, &expected, NULL);
}

int fy_api_enter(ferry_ctx_t **ctx, int pe, const char *call)
{
    if (!*ctx) {
        struct ferry_job *job = fy_api_job(NULL);
        if (!job)
            return FERRY_ERR_STATE;
        *ctx = job->default_ctx;
    }
    struct fy_world *world = (*ctx)->world;
    if (pe != FY_NO_PE && (uint32_t)pe >= world->n_pes)
        return fy_fail(world, FERRY_ERR_ARG, -1, (int)(*ctx)->id, -1, NULL, "%s: pe %d is out of range, the job has 0 to %u",
                       call, pe, world->n_pes - 1);
    int rc = fy_world_check(world, pe == FY_NO_PE ? (int)world->my_pe : pe, call);
    if (rc != FERRY_OK)
        return rc;
    fy_channel_lock(*ctx);
    return FERRY_OK;
}

int fy_api_words(struct ferry_job *job, const uint64_t *words, size_t n, int cmp, const char *call)
{
    if (cmp < FERRY_CMP_EQ || cmp > FERRY_CMP_LE)
        return fy_usage(job, "%s: comparison %d is none of enum ferry_cmp", call, cmp);
    if (n == 0)
        return FERRY_OK;
    if (!words)
        return fy_usage(job, "%s: the word is null", call);
    if ((uintptr_t)words & 7)
        return fy_usage(job, "%s: word %p is not aligned to 8 bytes", call, (const void *)words);
    const struct fy_segment *segment = fy_heap_find(job->heap, words);
    if (!segment)
        return fy_usage(job, "%s: word %p is not in the symmetric heap", call, (const void *)words);
    if (segment->kind != FERRY_MEMORY_HOST)
        return fy_usage(job, "%s: word %p is in GPU memory, which the CPU may not read", call, (const void *)words);
    if (n > (segment->length - (size_t)((const char *)words - segment->address)) / 8)
        return fy_usage(job, "%s: %zu words at %p go past the end of the symmetric heap", call, n, (const void *)words);
    return FERRY_OK;
}
