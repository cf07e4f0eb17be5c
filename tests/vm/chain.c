/* SPDX-License-Identifier: Apache-2.0
 * Atomic, fence, put, fence, atomic, fence, flag: PEs of even rank send such chains to the next one as fast as they
 * can, on several contexts by turns, and who sees a flag must see what was fenced before it on that context. Run by
 * tests/vm under ferry-run with an even number of PEs, one process per PE, each of one thread.
 * usage: vm_chain [chains [contexts]] */
#include <ferry/ferry.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

enum { CONTEXTS = 16, WORDS = 64, SOURCES = 16 };

struct heap {
    uint64_t first, put[WORDS], second, flag;
};

/* The k-th chain. A blocking put leaves its source alone when it returns. */
static int send_chain(ferry_ctx_t *ctx, struct heap *heap, uint64_t k, int pe)
{
    static uint64_t source[SOURCES][WORDS];
    uint64_t *words = source[k % SOURCES];
    for (int i = 0; i < WORDS; i++)
        words[i] = k;
    int rc = ferry_atomic_add(ctx, &heap->first, 1, pe);
    rc = rc == FERRY_OK ? ferry_fence(ctx) : rc;
    rc = rc == FERRY_OK ? ferry_put(ctx, heap->put, words, sizeof heap->put, pe) : rc;
    rc = rc == FERRY_OK ? ferry_fence(ctx) : rc;
    rc = rc == FERRY_OK ? ferry_atomic_add(ctx, &heap->second, 1, pe) : rc;
    rc = rc == FERRY_OK ? ferry_fence(ctx) : rc;
    return rc == FERRY_OK ? ferry_p(ctx, &heap->flag, k, pe) : rc;
}

static int send_chains(ferry_job_t *job, struct heap *heap, uint64_t chains, int contexts)
{
    ferry_ctx_t *ctx[CONTEXTS];
    int rc = FERRY_OK;
    for (int c = 0; rc == FERRY_OK && c < contexts; c++)
        rc = ferry_ctx_create(job, 0, &ctx[c]);
    for (uint64_t k = 1; k <= chains; k++)
        for (int c = 0; rc == FERRY_OK && c < contexts; c++)
            rc = send_chain(ctx[c], &heap[c], k, ferry_my_pe(job) + 1);
    for (int c = 0; rc == FERRY_OK && c < contexts; c++)
        rc = ferry_quiet(ctx[c]);
    return rc;
}

/* Looks at the last link of the chain first. True if what was fenced before it is there. */
static bool in_order(ferry_job_t *job, struct heap *heap, uint64_t *seen)
{
    *seen = __atomic_load_n(&heap->flag, __ATOMIC_ACQUIRE);
    uint64_t second = __atomic_load_n(&heap->second, __ATOMIC_ACQUIRE);
    uint64_t data = __atomic_load_n(&heap->put[WORDS - 1], __ATOMIC_ACQUIRE);
    uint64_t first = __atomic_load_n(&heap->first, __ATOMIC_ACQUIRE);
    if (second >= *seen && data >= second && first >= data)
        return true;
    printf("chain: pe %d: flag %llu, second %llu, data %llu, first %llu\n", ferry_my_pe(job), (unsigned long long)*seen,
           (unsigned long long)second, (unsigned long long)data, (unsigned long long)first);
    return false;
}

/* Watches all contexts until each has seen its last chain. Returns the number of chains that were seen in the wrong
 * order. */
static uint64_t watch(ferry_job_t *job, struct heap *heap, uint64_t chains, int contexts)
{
    uint64_t wrong = 0, seen[CONTEXTS] = {0};
    for (int left = contexts; left > 0;) {
        left = contexts;
        for (int c = 0; c < contexts; c++) {
            if (seen[c] < chains && ferry_wait_until(job, &heap[c].flag, FERRY_CMP_GT, seen[c]) != FERRY_OK)
                return wrong + 1;
            wrong += seen[c] < chains && !in_order(job, &heap[c], &seen[c]);
            left -= seen[c] >= chains;
        }
    }
    return wrong;
}

int main(int argc, char **argv)
{
    uint64_t chains = argc > 1 ? strtoull(argv[1], NULL, 10) : 1000, wrong = 0;
    int contexts = argc > 2 ? atoi(argv[2]) : 1;
    ferry_job_t *job;
    if (contexts < 1 || contexts > CONTEXTS || ferry_init(NULL, &job) != FERRY_OK)
        return 1;
    struct heap *heap = ferry_calloc(job, (size_t)contexts, sizeof *heap);
    if (!heap || ferry_n_pes(job) % 2)
        return 1;
    int rc = FERRY_OK;
    if (ferry_my_pe(job) % 2 == 0)
        rc = send_chains(job, heap, chains, contexts);
    else
        wrong = watch(job, heap, chains, contexts);
    if (rc != FERRY_OK || wrong)
        printf("chain: pe %d: %s, %llu out of order\n", ferry_my_pe(job), ferry_status_string(rc),
               (unsigned long long)wrong);
    int last = ferry_finalize(job);
    return rc == FERRY_OK && last == FERRY_OK && wrong == 0 ? 0 : 1;
}
