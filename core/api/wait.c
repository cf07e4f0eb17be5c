/* SPDX-License-Identifier: Apache-2.0
 * Public waits and tests on words of this PE's own memory, barrier and sync.
 * Waits: any thread. Barrier and sync: one thread per PE at a time. */
#include "api.h"

/* How many words there are to look at, and which of them holds. */
struct seen {
    size_t wanted, holding, which;
};

static struct seen look(const uint64_t *words, size_t n, const int *mask, int cmp, uint64_t value)
{
    struct seen seen = {0, 0, SIZE_MAX};
    for (size_t i = 0; i < n; i++) {
        if (mask && mask[i])
            continue;
        seen.wanted++;
        if (!fy_compare(fy_look(&words[i]), cmp, value))
            continue;
        seen.holding++;
        if (seen.which == SIZE_MAX)
            seen.which = i;
    }
    return seen;
}

static bool enough(const struct seen *seen, bool all)
{
    return all ? seen->holding == seen->wanted : seen->holding > 0 || seen->wanted == 0;
}

static int wait_words(struct ferry_job *job, const uint64_t *words, size_t n, const int *mask, int cmp, uint64_t value, bool all,
                      size_t *index, const char *call)
{
    struct fy_backoff backoff = fy_wait_start(&job->world);
    int rc = FERRY_OK;
    for (;;) {
        struct seen seen = look(words, n, mask, cmp, value);
        if (index)
            *index = seen.which;
        if (enough(&seen, all))
            return FERRY_OK;
        if (rc != FERRY_OK)
            return rc; /* looked once more after the verdict: what the dead had sent counts */
        rc = fy_wait_turn(&job->world, &backoff, -1, call);
    }
}

int ferry_wait_until(ferry_job_t *job, const uint64_t *word, int cmp, uint64_t value)
{
    job = fy_api_job(job);
    if (!job)
        return FERRY_ERR_STATE;
    int rc = fy_api_words(job, word, 1, cmp, "ferry_wait_until");
    return rc == FERRY_OK ? fy_wait_word(&job->world, word, cmp, value, -1, "ferry_wait_until") : rc;
}

int ferry_wait_until_any(ferry_job_t *job, const uint64_t *words, size_t n, const int *mask, int cmp, uint64_t value,
                         size_t *index)
{
    job = fy_api_job(job);
    if (!job)
        return FERRY_ERR_STATE;
    int rc = fy_api_words(job, words, n, cmp, "ferry_wait_until_any");
    if (rc == FERRY_OK && !index)
        rc = fy_usage(job, "ferry_wait_until_any: index is null");
    return rc == FERRY_OK ? wait_words(job, words, n, mask, cmp, value, false, index, "ferry_wait_until_any") : rc;
}

int ferry_wait_until_all(ferry_job_t *job, const uint64_t *words, size_t n, const int *mask, int cmp, uint64_t value)
{
    job = fy_api_job(job);
    if (!job)
        return FERRY_ERR_STATE;
    int rc = fy_api_words(job, words, n, cmp, "ferry_wait_until_all");
    return rc == FERRY_OK ? wait_words(job, words, n, mask, cmp, value, true, NULL, "ferry_wait_until_all") : rc;
}

static int test_words(ferry_job_t *job, const uint64_t *words, size_t n, const int *mask, int cmp, uint64_t value, bool all,
                      size_t *index, const char *call)
{
    job = fy_api_job(job);
    if (!job)
        return FERRY_ERR_STATE;
    int rc = fy_api_words(job, words, n, cmp, call);
    if (rc != FERRY_OK)
        return rc;
    if (job->world.locked)
        fy_world_progress(&job->world);
    struct seen seen = look(words, n, mask, cmp, value);
    if (index)
        *index = seen.which;
    if (enough(&seen, all))
        return 1;
    /* nobody may be left to make it true: say so, rather than have the caller test for ever */
    rc = fy_world_check(&job->world, -1, call);
    return rc == FERRY_OK ? 0 : rc;
}

int ferry_test(ferry_job_t *job, const uint64_t *word, int cmp, uint64_t value)
{
    return test_words(job, word, 1, NULL, cmp, value, true, NULL, "ferry_test");
}

int ferry_test_any(ferry_job_t *job, const uint64_t *words, size_t n, const int *mask, int cmp, uint64_t value, size_t *index)
{
    size_t unused;
    return test_words(job, words, n, mask, cmp, value, false, index ? index : &unused, "ferry_test_any");
}

int ferry_test_all(ferry_job_t *job, const uint64_t *words, size_t n, const int *mask, int cmp, uint64_t value)
{
    return test_words(job, words, n, mask, cmp, value, true, NULL, "ferry_test_all");
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
