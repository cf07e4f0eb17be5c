/* SPDX-License-Identifier: Apache-2.0
 * Every PE sends the next one many puts of different lengths, and an addition with each, without waiting in between:
 * more than any queue holds. All must be there in the end. Run by tests/vm under ferry-run, one process per PE, each of
 * one thread. usage: vm_flood [puts] */
#include <ferry/ferry.h>
#include <stdio.h>
#include <stdlib.h>

enum { LONGEST = 64 };

/* The words of the i-th put, which all hold `value(pe, i)`: 1 word mostly, which goes inline, 64 at times. */
static uint64_t words_of(uint64_t i)
{
    return i % 7 ? 1 : LONGEST;
}
static uint64_t value(int pe, uint64_t i)
{
    return (uint64_t)pe << 32 | (i + 1);
}

static int send_all(ferry_job_t *job, uint64_t *counter, uint64_t (*slots)[LONGEST], uint64_t puts)
{
    ferry_ctx_t *ctx = ferry_ctx_default(job);
    int rc = FERRY_OK, me = ferry_my_pe(job), to = (me + 1) % ferry_n_pes(job);
    uint64_t(*source)[LONGEST] = calloc(puts, sizeof *source);
    if (!source)
        return FERRY_ERR_NOMEM;
    for (uint64_t i = 0; rc == FERRY_OK && i < puts; i++) {
        for (uint64_t w = 0; w < words_of(i); w++)
            source[i][w] = value(me, i);
        rc = ferry_put_nbi(ctx, slots[i], source[i], words_of(i) * sizeof(uint64_t), to);
        if (rc == FERRY_OK)
            rc = ferry_atomic_add(ctx, counter, 1, to);
    }
    if (rc == FERRY_OK)
        rc = ferry_quiet(ctx);
    if (rc == FERRY_OK)
        free(source); /* else the transport may still read it */
    return rc;
}

/* Returns how many words are not what they should be. */
static uint64_t missing(ferry_job_t *job, uint64_t (*slots)[LONGEST], uint64_t puts)
{
    uint64_t wrong = 0;
    int from = (ferry_my_pe(job) + ferry_n_pes(job) - 1) % ferry_n_pes(job);
    for (uint64_t i = 0; i < puts; i++)
        for (uint64_t w = 0; w < LONGEST; w++)
            wrong += slots[i][w] != (w < words_of(i) ? value(from, i) : 0);
    return wrong;
}

int main(int argc, char **argv)
{
    uint64_t puts = argc > 1 ? strtoull(argv[1], NULL, 10) : 2000;
    ferry_job_t *job;
    if (ferry_init(NULL, &job) != FERRY_OK)
        return 1;
    uint64_t *counter = ferry_calloc(job, 1, sizeof *counter);
    uint64_t(*slots)[LONGEST] = ferry_calloc(job, puts, sizeof *slots);
    int rc = counter && slots ? send_all(job, counter, slots, puts) : FERRY_ERR_NOMEM;
    if (rc == FERRY_OK)
        rc = ferry_barrier(job);
    uint64_t wrong = rc == FERRY_OK ? missing(job, slots, puts) : 0, count = rc == FERRY_OK ? *counter : 0;
    printf("flood: pe %d: %s, %llu words wrong, %llu of %llu additions\n", ferry_my_pe(job), ferry_status_string(rc),
           (unsigned long long)wrong, (unsigned long long)count, (unsigned long long)puts);
    int last = ferry_finalize(job);
    return rc == FERRY_OK && last == FERRY_OK && wrong == 0 && count == puts ? 0 : 1;
}
