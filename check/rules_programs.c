/* SPDX-License-Identifier: Apache-2.0
 * Item 59: random programs against the model of what the contract allows. One that fails is made smaller, and printed
 * in C. Called once, without a job; the programs' PEs are threads. */
#include "programs/random_shrink.h"

#include <stdlib.h>
#include <string.h>

#define BATCH 32 /* programs of one job; random_pes_of depends on it */

static void report(struct pe *pe, const struct random_batch *batch)
{
    struct random_shrunk shrunk = {.seed = batch->seed, .times = 200, .seconds = 20};

    snprintf(pe->run->seen, sizeof(pe->run->seen), "program %llu: %.200s", (unsigned long long)batch->seed, batch->why);
    if (!batch->n) /* not one was made: the job did not start */
        return;
    random_shrink(&shrunk);
    if (!shrunk.failed) {
        snprintf(shrunk.why, sizeof(shrunk.why), "%.*s (right %d times when played again, so this is all of it)", 300,
                 batch->why, shrunk.times);
        memset(shrunk.off, 0, sizeof(shrunk.off));
    }
    random_print_c(&shrunk, stderr);
}

static void programs(struct pe *pe)
{
    const char *seed = getenv("FERRY_CHAOS_SEED");
    uint64_t first = 1 + 10 * BATCH * (seed ? strtoull(seed, NULL, 10) : 0);
    unsigned long n = rule_times(pe, "random programs", 3000);

    for (uint64_t at = first; at < first + n;) {
        struct random_batch batch = {.first = at, .programs = (int)(BATCH - at % BATCH), .quiet = true};

        if (at + (uint64_t)batch.programs > first + n)
            batch.programs = (int)(first + n - at);
        at += (uint64_t)batch.programs;
        random_batch_run(&batch);
        if (batch.failed)
            report(pe, &batch);
        if (!EXPECT(pe, !batch.failed))
            return;
    }
}

const struct rule fy_rules_programs[] = {
    {"R59.1", "random programs end in a state that the contract allows", 2, RULE_ALONE | RULE_RACES, programs, NULL},
    {NULL, NULL, 0, 0, NULL, NULL},
};
