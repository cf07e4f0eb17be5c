/* SPDX-License-Identifier: Apache-2.0
 * PE 0 writes batches of 32 words to PE 1 by ferry_iput, with fences between, on a context of its own; batches.sh looks
 * at what the plugin says it cost. Main thread, under ferry-run -n 2.
 * usage: ibrc_batches BATCHES */
#include <ferry/ferry.h>
#include <stdio.h>
#include <stdlib.h>

enum { BATCH = 32, STRIDE = 2 };

static int send_batches(ferry_job_t *job, uint64_t *words, long batches)
{
    uint64_t source[BATCH];
    ferry_ctx_t *ctx;
    int rc = ferry_ctx_create(job, 0, &ctx);

    for (long b = 1; b <= batches && rc == FERRY_OK; b++) {
        for (int i = 0; i < BATCH; i++)
            source[i] = (uint64_t)b;
        rc = ferry_iput(ctx, words, source, STRIDE, 1, sizeof *words, BATCH, 1);
        if (rc == FERRY_OK)
            rc = ferry_fence(ctx);
    }
    if (rc == FERRY_OK)
        rc = ferry_quiet(ctx);
    return rc;
}

static int arrived(const uint64_t *words, long batches)
{
    for (int i = 0; i < BATCH * STRIDE; i++)
        if (words[i] != (i % STRIDE ? 0 : (uint64_t)batches))
            return 0;
    return 1;
}

int main(int argc, char **argv)
{
    long batches = argc == 2 ? strtol(argv[1], NULL, 10) : 10;
    ferry_stats_t stats = {.size = sizeof stats};
    ferry_job_t *job;
    uint64_t *words;
    int rc = ferry_init(NULL, &job);

    if (rc != FERRY_OK)
        return 1;
    words = ferry_calloc(job, BATCH * STRIDE, sizeof *words);
    if (words && ferry_my_pe(job) == 0)
        rc = send_batches(job, words, batches);
    rc = rc == FERRY_OK && words ? ferry_barrier(job) : FERRY_ERR_STATE;
    if (rc == FERRY_OK && ferry_my_pe(job) == 1 && !arrived(words, batches))
        rc = FERRY_ERR_STATE;
    if (rc == FERRY_OK && ferry_my_pe(job) == 0 && ferry_stats_get(job, &stats) == FERRY_OK)
        printf("batches: %llu puts, %llu drains\n", (unsigned long long)stats.puts, (unsigned long long)stats.drains);
    ferry_finalize(job);
    return rc != FERRY_OK;
}
