/* SPDX-License-Identifier: Apache-2.0
 * Gathers what each PE measured on PE 0, which prints it. The verdict goes back to all, so that all end alike.
 * Main thread. */
#include "moe.h"
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

struct result {
    uint64_t tokens, mismatched;
    struct tally dispatch, combine;
    uint64_t dispatch_sum, combine_sum;
};

static double gigabytes(uint64_t bytes, uint64_t ns)
{
    return ns ? (double)bytes / (double)ns : 0;
}

static void print_tally(const char *name, const struct tally *t)
{
    printf("  %s %.1f MB in %.2f ms, %.2f GB/s (to others %.2f)", name, (double)t->bytes / 1e6, (double)t->ns / 1e6,
           gigabytes(t->bytes, t->ns), gigabytes(t->remote_bytes, t->ns));
}

static void print_line(const char *who, const struct result *r)
{
    uint64_t ns = r->dispatch.ns + r->combine.ns;
    printf("%s: %" PRIu64 " tokens", who, r->tokens);
    print_tally("dispatch", &r->dispatch);
    print_tally("combine", &r->combine);
    printf("  %.0f tokens/s\n", ns ? (double)r->tokens * 1e9 / (double)ns : 0);
}

/* Bytes add up; the slowest PE tells the time. */
static void add_tally(struct tally *sum, const struct tally *t)
{
    sum->bytes += t->bytes;
    sum->remote_bytes += t->remote_bytes;
    sum->ns = t->ns > sum->ns ? t->ns : sum->ns;
}

static uint64_t print_all(const struct moe *moe, const struct result *results)
{
    struct result sum = {0};
    for (uint32_t pe = 0; pe < moe->n_pes; pe++) {
        char who[32];
        snprintf(who, sizeof who, "pe %" PRIu32, pe);
        print_line(who, &results[pe]);
        sum.tokens += results[pe].tokens;
        sum.mismatched += results[pe].mismatched;
        sum.dispatch_sum += results[pe].dispatch_sum;
        sum.combine_sum += results[pe].combine_sum;
        add_tally(&sum.dispatch, &results[pe].dispatch);
        add_tally(&sum.combine, &results[pe].combine);
    }
    print_line("total", &sum);
    printf("verified %" PRIu64 " tokens of %" PRIu32 ", every byte: %" PRIu64 " mismatched\n", sum.tokens,
           moe->n_tokens, sum.mismatched);
    printf("checksum dispatch %016" PRIX64 " combine %016" PRIX64 "\n", sum.dispatch_sum, sum.combine_sum);
    fflush(stdout);
    return sum.mismatched + (sum.tokens != moe->n_tokens);
}

/* The verdict is 1 + what went wrong, since 0 means that it has not come yet. */
static int share_verdict(struct moe *moe, uint64_t *verdict, uint64_t *bad)
{
    for (uint32_t pe = 0; moe->me == 0 && pe < moe->n_pes; pe++) {
        int rc = ferry_signal(ferry_ctx_default(moe->job), verdict, 1 + *bad, FERRY_SIGNAL_SET, (int)pe);
        if (rc != FERRY_OK)
            return fail_call(moe, rc, "telling pe %" PRIu32 " the verdict", pe);
    }
    int rc = ferry_quiet(ferry_ctx_default(moe->job));
    if (rc == FERRY_OK)
        rc = ferry_wait_until(moe->job, verdict, FERRY_CMP_NE, 0);
    if (rc != FERRY_OK)
        return fail_call(moe, rc, "waiting for the verdict");
    *bad = *verdict - 1;
    return FERRY_OK;
}

/* Symmetric, for CPUs to read whatever FERRY_HEAP_KIND says; zeroed here: peers may write after a barrier. */
static void *host_memory(struct moe *moe, size_t bytes)
{
    const ferry_alloc_attr_t attr = {.size = sizeof attr, .bytes = bytes, .kind = FERRY_MEMORY_HOST};
    void *memory = ferry_alloc(moe->job, &attr);
    return memory ? memset(memory, 0, bytes) : NULL;
}

int report_run(struct moe *moe, uint64_t mismatched, uint64_t combine_sum, uint64_t *bad)
{
    struct result *results = host_memory(moe, moe->n_pes * sizeof *results);
    uint64_t *verdict = results ? host_memory(moe, sizeof *verdict) : NULL;
    if (!verdict)
        return fail_call(moe, FERRY_OK, "memory for the results of %" PRIu32 " pes", moe->n_pes);
    struct result mine = {.tokens = moe->own,
                          .mismatched = mismatched,
                          .dispatch = moe->dispatch,
                          .combine = moe->combine,
                          .combine_sum = combine_sum};
    for (uint32_t c = 0; c < moe->args->channels; c++)
        mine.dispatch_sum += moe->channels[c].dispatch_sum;
    int rc = ferry_barrier(moe->job);
    if (rc == FERRY_OK)
        rc = ferry_put(ferry_ctx_default(moe->job), &results[moe->me], &mine, sizeof mine, 0);
    if (rc == FERRY_OK)
        rc = ferry_barrier(moe->job);
    if (rc != FERRY_OK)
        return fail_call(moe, rc, "gathering the results on pe 0");
    *bad = moe->me == 0 ? print_all(moe, results) : 0;
    return share_verdict(moe, verdict, bad);
}
