/* SPDX-License-Identifier: Apache-2.0
 * Public tests, and waits for several words: any, all or some of them, compared with one value or with one each.
 * Any thread. */
#include "api.h"

enum want { WANT_ANY, WANT_ALL, WANT_SOME };

/* One call. values NULL: all words are compared with `value`. */
struct look {
    const uint64_t *words;
    size_t n;
    const int *mask;
    int cmp;
    uint64_t value;
    const uint64_t *values;
    enum want want;
    size_t *indices; /* ANY: one place, SOME: n of them */
    size_t *count;   /* SOME */
};

static int check(struct ferry_job *job, const struct look *look, bool vector, const char *call)
{
    int rc = fy_api_words(job, look->words, look->n, look->cmp, call);
    if (rc != FERRY_OK)
        return rc;
    if (look->n && vector && !look->values)
        return fy_usage(job, "%s: the values are null", call);
    if (look->want == WANT_SOME && (!look->count || (look->n && !look->indices)))
        return fy_usage(job, "%s: the place for indices or count is null", call);
    if (look->want == WANT_ANY && !look->indices)
        return fy_usage(job, "%s: index is null", call);
    return FERRY_OK;
}

/* True: the call has what it wants, and has told which. */
static bool satisfied(const struct look *look)
{
    size_t wanted = 0, holding = 0, first = SIZE_MAX;
    for (size_t i = 0; i < look->n; i++) {
        if (look->mask && look->mask[i])
            continue;
        wanted++;
        if (!fy_compare(fy_look(&look->words[i]), look->cmp, look->values ? look->values[i] : look->value))
            continue;
        if (look->want == WANT_SOME)
            look->indices[holding] = i;
        if (holding++ == 0)
            first = i;
    }
    if (look->want == WANT_SOME)
        *look->count = holding;
    if (look->want == WANT_ANY)
        *look->indices = first;
    return look->want == WANT_ALL ? holding == wanted : holding > 0 || wanted == 0;
}

static int wait_for(ferry_job_t *job, const struct look *look, bool vector, const char *call)
{
    job = fy_api_job(job);
    if (!job)
        return FERRY_ERR_STATE;
    int rc = check(job, look, vector, call);
    if (rc != FERRY_OK)
        return rc;
    const struct fy_waiter waiter = {&job->world, NULL, -1, call, 0};
    struct fy_backoff backoff = fy_wait_start(&job->world);
    bool there;
    while (!(there = satisfied(look)) && rc == FERRY_OK) /* once more after the verdict: what the dead had sent counts */
        rc = fy_wait_turn(&waiter, &backoff);
    fy_wait_over(&job->world, &backoff);
    if (!there)
        return rc;
    fy_fence_seen(&job->world.applied);
    return FERRY_OK;
}

static int test_for(ferry_job_t *job, const struct look *look, bool vector, const char *call)
{
    job = fy_api_job(job);
    if (!job)
        return FERRY_ERR_STATE;
    int rc = check(job, look, vector, call);
    if (rc != FERRY_OK)
        return rc;
    if (job->world.locked)
        fy_world_progress(&job->world);
    if (satisfied(look))
        return 1;
    return fy_world_check(&job->world, -1, call);
}

int ferry_wait_until_any(ferry_job_t *job, const uint64_t *words, size_t n, const int *mask, int cmp, uint64_t value,
                         size_t *index)
{
    return wait_for(job, &(struct look){words, n, mask, cmp, value, NULL, WANT_ANY, index, NULL}, false,
                    "ferry_wait_until_any");
}

int ferry_wait_until_all(ferry_job_t *job, const uint64_t *words, size_t n, const int *mask, int cmp, uint64_t value)
{
    return wait_for(job, &(struct look){words, n, mask, cmp, value, NULL, WANT_ALL, NULL, NULL}, false,
                    "ferry_wait_until_all");
}

int ferry_test(ferry_job_t *job, const uint64_t *word, int cmp, uint64_t value)
{
    return test_for(job, &(struct look){word, 1, NULL, cmp, value, NULL, WANT_ALL, NULL, NULL}, false, "ferry_test");
}

int ferry_test_any(ferry_job_t *job, const uint64_t *words, size_t n, const int *mask, int cmp, uint64_t value, size_t *index)
{
    size_t unwanted;
    return test_for(job, &(struct look){words, n, mask, cmp, value, NULL, WANT_ANY, index ? index : &unwanted, NULL}, false,
                    "ferry_test_any");
}

int ferry_test_all(ferry_job_t *job, const uint64_t *words, size_t n, const int *mask, int cmp, uint64_t value)
{
    return test_for(job, &(struct look){words, n, mask, cmp, value, NULL, WANT_ALL, NULL, NULL}, false, "ferry_test_all");
}

int ferry_wait_until_some(ferry_job_t *job, const uint64_t *words, size_t n, const int *mask, int cmp, uint64_t value,
                          size_t *indices, size_t *count)
{
    return wait_for(job, &(struct look){words, n, mask, cmp, value, NULL, WANT_SOME, indices, count}, false,
                    "ferry_wait_until_some");
}

int ferry_test_some(ferry_job_t *job, const uint64_t *words, size_t n, const int *mask, int cmp, uint64_t value,
                    size_t *indices, size_t *count)
{
    return test_for(job, &(struct look){words, n, mask, cmp, value, NULL, WANT_SOME, indices, count}, false,
                    "ferry_test_some");
}

int ferry_wait_until_any_vector(ferry_job_t *job, const uint64_t *words, size_t n, const int *mask, int cmp,
                                const uint64_t *values, size_t *index)
{
    return wait_for(job, &(struct look){words, n, mask, cmp, 0, values, WANT_ANY, index, NULL}, true,
                    "ferry_wait_until_any_vector");
}

int ferry_wait_until_all_vector(ferry_job_t *job, const uint64_t *words, size_t n, const int *mask, int cmp,
                                const uint64_t *values)
{
    return wait_for(job, &(struct look){words, n, mask, cmp, 0, values, WANT_ALL, NULL, NULL}, true,
                    "ferry_wait_until_all_vector");
}

int ferry_wait_until_some_vector(ferry_job_t *job, const uint64_t *words, size_t n, const int *mask, int cmp,
                                 const uint64_t *values, size_t *indices, size_t *count)
{
    return wait_for(job, &(struct look){words, n, mask, cmp, 0, values, WANT_SOME, indices, count}, true,
                    "ferry_wait_until_some_vector");
}

int ferry_test_any_vector(ferry_job_t *job, const uint64_t *words, size_t n, const int *mask, int cmp,
                          const uint64_t *values, size_t *index)
{
    return test_for(job, &(struct look){words, n, mask, cmp, 0, values, WANT_ANY, index, NULL}, true,
                    "ferry_test_any_vector");
}

int ferry_test_all_vector(ferry_job_t *job, const uint64_t *words, size_t n, const int *mask, int cmp,
                          const uint64_t *values)
{
    return test_for(job, &(struct look){words, n, mask, cmp, 0, values, WANT_ALL, NULL, NULL}, true,
                    "ferry_test_all_vector");
}

int ferry_test_some_vector(ferry_job_t *job, const uint64_t *words, size_t n, const int *mask, int cmp,
                           const uint64_t *values, size_t *indices, size_t *count)
{
    return test_for(job, &(struct look){words, n, mask, cmp, 0, values, WANT_SOME, indices, count}, true,
                    "ferry_test_some_vector");
}
