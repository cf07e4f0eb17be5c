/* SPDX-License-Identifier: Apache-2.0
 * Atomic, fence, put, fence, atomic, fence, flag: PEs of even rank send such chains to the next one as fast as they
 * can, and who sees a flag must see what was fenced before it. Run by tests/vm under ferry-run with an even number of
 * PEs, one process per PE, each of one thread. usage: vm_chain [chains] */
#include <ferry/ferry.h>
#include <stdio.h>
#include <stdlib.h>

struct heap {
    uint64_t first, put[64], second, flag;
};

static int send_chains(ferry_job_t *job, struct heap *heap, uint64_t chains)
{
    static uint64_t source[16][64]; /* a blocking put leaves its source alone when it returns */
    ferry_ctx_t *ctx = ferry_ctx_default(job);
    int rc = FERRY_OK, pe = ferry_my_pe(job) + 1;
    for (uint64_t k = 1; rc == FERRY_OK && k <= chains; k++) {
        uint64_t *words = source[k % 16];
        for (int i = 0; i < 64; i++)
            words[i] = k;
        rc = ferry_atomic_add(ctx, &heap->first, 1, pe);
        rc = rc == FERRY_OK ? ferry_fence(ctx) : rc;
        rc = rc == FERRY_OK ? ferry_put(ctx, heap->put, words, sizeof heap->put, pe) : rc;
        rc = rc == FERRY_OK ? ferry_fence(ctx) : rc;
        rc = rc == FERRY_OK ? ferry_atomic_add(ctx, &heap->second, 1, pe) : rc;
        rc = rc == FERRY_OK ? ferry_fence(ctx) : rc;
        rc = rc == FERRY_OK ? ferry_p(ctx, &heap->flag, k, pe) : rc;
    }
    return rc == FERRY_OK ? ferry_quiet(ctx) : rc;
}

/* Looks at the last link of the chain first. Returns the number of chains that were seen in the wrong order. */
static uint64_t watch(ferry_job_t *job, struct heap *heap, uint64_t chains)
{
    uint64_t wrong = 0, seen = 0;
    while (seen < chains) {
        if (ferry_wait_until(job, &heap->flag, FERRY_CMP_GT, seen) != FERRY_OK)
            return wrong + 1;
        seen = __atomic_load_n(&heap->flag, __ATOMIC_ACQUIRE);
        uint64_t second = __atomic_load_n(&heap->second, __ATOMIC_ACQUIRE);
        uint64_t data = __atomic_load_n(&heap->put[63], __ATOMIC_ACQUIRE);
        uint64_t first = __atomic_load_n(&heap->first, __ATOMIC_ACQUIRE);
        if (second >= seen && data >= second && first >= data)
            continue;
        if (wrong++ == 0)
            printf("chain: pe %d: flag %llu, second %llu, data %llu, first %llu\n", ferry_my_pe(job),
                   (unsigned long long)seen, (unsigned long long)second, (unsigned long long)data,
                   (unsigned long long)first);
    }
    return wrong;
}

int main(int argc, char **argv)
{
    uint64_t chains = argc > 1 ? strtoull(argv[1], NULL, 10) : 1000, wrong = 0;
    ferry_job_t *job;
    if (ferry_init(NULL, &job) != FERRY_OK)
        return 1;
    struct heap *heap = ferry_calloc(job, 1, sizeof *heap);
    if (!heap || ferry_n_pes(job) % 2)
        return 1;
    int rc = FERRY_OK;
    if (ferry_my_pe(job) % 2 == 0)
        rc = send_chains(job, heap, chains);
    else
        wrong = watch(job, heap, chains);
    if (rc != FERRY_OK || wrong)
        printf("chain: pe %d: %s, %llu out of order\n", ferry_my_pe(job), ferry_status_string(rc),
               (unsigned long long)wrong);
    int last = ferry_finalize(job);
    return rc == FERRY_OK && last == FERRY_OK && wrong == 0 ? 0 : 1;
}
