/* SPDX-License-Identifier: Apache-2.0
 * All PEs, the owner too, add to the same two words of PE 0: nothing may get lost, whichever ways their additions take.
 * Run by tests/vm under ferry-run, one process per PE, each of one thread. usage: vm_adders [additions] */
#include <ferry/ferry.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

struct words {
    uint64_t wide;
    uint32_t narrow;
};

/* Half of the additions fetch. *fetched: the last value that the wide word had. */
static int add_all(ferry_ctx_t *ctx, struct words *words, uint64_t count, uint64_t *fetched)
{
    int rc = FERRY_OK;
    for (uint64_t i = 0; rc == FERRY_OK && i < count; i++) {
        uint64_t old = 0;
        if (i % 2) {
            rc = ferry_atomic_fetch_add(ctx, &words->wide, 1, &old, 0);
            /* what one PE fetches can only grow */
            if (rc == FERRY_OK && i > 1 && old <= *fetched)
                return FERRY_ERR_MISMATCH;
            *fetched = old;
        } else {
            rc = ferry_atomic_add(ctx, &words->wide, 1, 0);
        }
        if (rc == FERRY_OK)
            rc = ferry_atomic32_add(ctx, &words->narrow, 1, 0);
    }
    return rc == FERRY_OK ? ferry_quiet(ctx) : rc;
}

int main(int argc, char **argv)
{
    uint64_t count = argc > 1 ? strtoull(argv[1], NULL, 10) : 1000, fetched = 0;
    ferry_job_t *job;
    if (ferry_init(NULL, &job) != FERRY_OK)
        return 1;
    struct words *words = ferry_calloc(job, 1, sizeof *words);
    int rc = words ? add_all(ferry_ctx_default(job), words, count, &fetched) : FERRY_ERR_NOMEM;
    if (rc != FERRY_OK)
        printf("adders: pe %d: %s\n", ferry_my_pe(job), ferry_status_string(rc));
    if (rc == FERRY_OK)
        rc = ferry_barrier(job);
    uint64_t expected = count * (uint64_t)ferry_n_pes(job);
    bool good = rc == FERRY_OK;
    if (good && ferry_my_pe(job) == 0) {
        printf("adders: %llu of %llu additions to the wide word, %u to the narrow one\n",
               (unsigned long long)words->wide, (unsigned long long)expected, words->narrow);
        good = words->wide == expected && words->narrow == expected;
    }
    return ferry_finalize(job) == FERRY_OK && good ? 0 : 1;
}
