/* SPDX-License-Identifier: Apache-2.0
 * random_programs: many random programs against the model of allowed states; one of them again; one of them smaller.
 * Main thread. */
#include "random_shrink.h"

#include <argp.h>
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>
#include <stdlib.h>

#define BATCH 32 /* programs of one job; random_pes_of depends on it */

struct choice {
    uint64_t seed, first;
    int programs, times;
    bool one, shrink;
};

static const struct argp_option options[] = {
    {"programs", 'p', "N", 0, "how many (TEST_SCALE percent of 1000)", 0},
    {"first", 'f', "SEED", 0, "seed of the first (1)", 0},
    {"seed", 's', "SEED", 0, "only this one, many times", 0},
    {"times", 't', "N", 0, "how many times (500)", 0},
    {"shrink", 'k', NULL, 0, "with --seed: drop operations while it still fails", 0},
    {0},
};

static error_t parse(int key, char *arg, struct argp_state *state)
{
    struct choice *c = state->input;

    switch (key) {
    case 'p':
        c->programs = atoi(arg);
        return 0;
    case 'f':
        c->first = strtoull(arg, NULL, 10);
        return 0;
    case 's':
        c->seed = strtoull(arg, NULL, 10);
        c->one = true;
        return 0;
    case 't':
        c->times = atoi(arg);
        return 0;
    case 'k':
        c->shrink = true;
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static int shrink(const struct choice *c)
{
    struct random_shrunk shrunk = {.seed = c->seed, .times = c->times};
    struct random_batch batch;

    random_shrink(&shrunk);
    if (!shrunk.failed) {
        printf("seed %" PRIu64 " was right %d times\n", c->seed, c->times);
        return 1;
    }
    printf("%d operations are left\n", shrunk.left);
    batch = (struct random_batch){.first = c->seed, .programs = 10 * c->times, .same = true, .off = shrunk.off};
    random_batch_run(&batch);
    random_print_c(&shrunk, stdout);
    return 0;
}

static int replay(const struct choice *c)
{
    struct random_batch batch = {.first = c->seed, .programs = c->times, .same = true};

    random_batch_run(&batch);
    printf("seed %" PRIu64 ": right %d times, then %s\n", c->seed, batch.done, batch.failed ? "wrong" : "ended");
    return batch.failed;
}

static void test_random_programs(void **state)
{
    const struct choice *c = *state;
    unsigned long operations = 0;
    int done = 0;

    while (done < c->programs) {
        uint64_t first = c->first + (uint64_t)done;
        struct random_batch batch = {.first = first, .programs = (int)(BATCH - first % BATCH)};
        if (batch.programs > c->programs - done)
            batch.programs = c->programs - done;
        random_batch_run(&batch);
        done += batch.done;
        operations += batch.operations;
        if (batch.failed)
            fail_msg("program %d, seed %" PRIu64 ": %s", done + 1, batch.seed, batch.why);
    }
    printf("%d programs with %lu operations, seeds from %" PRIu64 " on\n", done, operations, c->first);
}

int main(int argc, char **argv)
{
    static const struct argp parser = {options,
                                       parse,
                                       NULL,
                                       "Random programs over FERRY's transport of the tests "
                                       "(TEST_TRANSPORT), against a model of what the contract allows.",
                                       NULL,
                                       NULL,
                                       NULL};
    struct choice c = {.first = 1, .programs = (int)pes_scaled(1000), .times = 500};

    if (argp_parse(&parser, argc, argv, 0, NULL, &c))
        return 64;
    if (c.one)
        return c.shrink ? shrink(&c) : replay(&c);
    const struct CMUnitTest tests[] = {cmocka_unit_test_prestate(test_random_programs, &c)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
