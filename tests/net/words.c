/* SPDX-License-Identifier: Apache-2.0
 * Every PE owns words that all PEs update, the owner too, by all the ways there are: nothing may get lost. Adds, fetching adds,
 * compare-and-swap, swap, and single bits; 8 and 4 bytes; signals that ADD. One thread. usage: net_words [rounds] */
#include <ferry/ferry.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

enum { MAX = 64 };

struct words {
    uint64_t sum, swapped, bits, hand;
    uint32_t narrow, narrow_swapped, narrow_bits, spare;
};

static int add_by_swaps(ferry_ctx_t *ctx, struct words *words, int pe)
{
    uint64_t seen, guess = 0;
    uint32_t seen32, guess32 = 0;
    int rc;
    for (;; guess = seen) {
        rc = ferry_atomic_compare_swap(ctx, &words->swapped, guess, guess + 1, &seen, pe);
        if (rc != FERRY_OK || seen == guess)
            break;
    }
    for (; rc == FERRY_OK; guess32 = seen32) {
        rc = ferry_atomic32_compare_swap(ctx, &words->narrow_swapped, guess32, guess32 + 1, &seen32, pe);
        if (rc != FERRY_OK || seen32 == guess32)
            break;
    }
    return rc;
}

/* One round at one owner: 4 to the sum, 3 to the narrow one, the own bit turned over, a value passed on. */
static int touch(ferry_ctx_t *ctx, struct words *words, int pe, unsigned bit, uint64_t *fetched, uint64_t *in_hand)
{
    uint64_t old;
    uint32_t old32;
    int rc = ferry_atomic_add(ctx, &words->sum, 1, pe);
    rc = rc == FERRY_OK ? ferry_atomic_inc(ctx, &words->sum, pe) : rc;
    rc = rc == FERRY_OK ? ferry_signal(ctx, &words->sum, 1, FERRY_SIGNAL_ADD, pe) : rc;
    rc = rc == FERRY_OK ? ferry_atomic_fetch_add(ctx, &words->sum, 1, &old, pe) : rc;
    rc = rc == FERRY_OK && old < *fetched ? FERRY_ERR_MISMATCH : rc; /* what one PE fetches only grows */
    if (rc != FERRY_OK)
        return rc;
    *fetched = old + 1;
    rc = ferry_atomic32_add(ctx, &words->narrow, 1, pe);
    rc = rc == FERRY_OK ? ferry_atomic32_inc(ctx, &words->narrow, pe) : rc;
    rc = rc == FERRY_OK ? ferry_atomic32_fetch_add(ctx, &words->narrow, 1, &old32, pe) : rc;
    rc = rc == FERRY_OK ? ferry_atomic_xor(ctx, &words->bits, UINT64_C(1) << bit, pe) : rc;
    rc = rc == FERRY_OK ? ferry_atomic32_xor(ctx, &words->narrow_bits, UINT32_C(1) << (bit % 32), pe) : rc;
    rc = rc == FERRY_OK ? ferry_atomic_swap(ctx, &words->hand, *in_hand, in_hand, pe) : rc;
    return rc == FERRY_OK ? add_by_swaps(ctx, words, pe) : rc;
}

static uint64_t bits_of(int n, uint64_t rounds)
{
    return rounds % 2 == 0 ? 0 : n >= 64 ? UINT64_MAX : (UINT64_C(1) << n) - 1;
}

static bool judge(const struct words *words, int me, int n, uint64_t rounds)
{
    uint64_t all = rounds * (uint64_t)n, bits = bits_of(n, rounds);
    bool good = words->sum == 4 * all && words->narrow == (uint32_t)(3 * all) && words->swapped == all &&
                words->narrow_swapped == (uint32_t)all && words->bits == bits && words->narrow_bits == (uint32_t)bits;
    if (!good)
        printf("words: pe %d: sum %llu of %llu, narrow %u of %llu, swapped %llu and %u of %llu, bits %llx and %x of %llx\n", me,
               (unsigned long long)words->sum, (unsigned long long)(4 * all), words->narrow, (unsigned long long)(3 * all),
               (unsigned long long)words->swapped, words->narrow_swapped, (unsigned long long)all,
               (unsigned long long)words->bits, words->narrow_bits, (unsigned long long)bits);
    return good;
}

/* The values that were passed on, one brought by each PE to each owner, are all there: in a hand or in the word. */
static bool hands_balance(ferry_job_t *job, struct words *words, const uint64_t *hands, int n)
{
    uint64_t mine = 0, total = 0;
    for (int pe = 0; pe < n; pe++)
        mine += hands[pe];
    mine += words->hand;
    if (ferry_reduce(ferry_team_world(job), &total, &mine, 1, FERRY_TYPE_UINT64, FERRY_REDUCE_SUM) != FERRY_OK)
        return false;
    uint64_t expected = 0;
    for (int pe = 0; pe < n; pe++)
        for (int owner = 0; owner < n; owner++)
            expected += UINT64_C(1) << (8 * (pe % 4)) | (uint64_t)(owner + 1) << 40;
    if (total != expected)
        printf("words: pe %d: swaps lost or doubled a value: %llx instead of %llx\n", ferry_my_pe(job),
               (unsigned long long)total, (unsigned long long)expected);
    return total == expected;
}

int main(int argc, char **argv)
{
    uint64_t rounds = argc > 1 ? strtoull(argv[1], NULL, 10) : 100, fetched[MAX] = {0}, hands[MAX];
    ferry_job_t *job;
    if (ferry_init(NULL, &job) != FERRY_OK)
        return 1;
    ferry_ctx_t *ctx = ferry_ctx_default(job);
    int me = ferry_my_pe(job), n = ferry_n_pes(job);
    struct words *words = ferry_calloc(job, 1, sizeof *words);
    if (!words || n > MAX)
        return 1;
    int rc = FERRY_OK;
    for (int pe = 0; pe < n; pe++)
        hands[pe] = UINT64_C(1) << (8 * (me % 4)) | (uint64_t)(pe + 1) << 40;
    for (uint64_t i = 0; rc == FERRY_OK && i < rounds; i++)
        for (int k = 0; rc == FERRY_OK && k < n; k++) {
            int pe = (me + k) % n;
            rc = touch(ctx, words, pe, (unsigned)me, &fetched[pe], &hands[pe]);
        }
    if (rc != FERRY_OK) {
        struct ferry_error why = {.size = sizeof why};
        ferry_last_error(job, &why);
        printf("words: pe %d: %s: %s\n", me, ferry_status_string(rc), why.message);
    }
    rc = rc == FERRY_OK ? ferry_barrier(job) : rc;
    bool good = rc == FERRY_OK && judge(words, me, n, rounds);
    good = rc == FERRY_OK && hands_balance(job, words, hands, n) && good;
    if (good && me == 0)
        printf("words: %llu rounds by %d PEs at %d owners, nothing lost\n", (unsigned long long)rounds, n, n);
    return ferry_finalize(job) == FERRY_OK && good ? 0 : 1;
}
