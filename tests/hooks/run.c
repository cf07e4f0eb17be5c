/* SPDX-License-Identifier: Apache-2.0
 * Starts and ends runs of chaos. See run.h. One thread. */
#include "run.h"

static void start_on(struct run *run, const char *const *options, struct stub *stub)
{
    run->stub = stub;
    assert_int_equal(above_open(&run->above, CHAOS, options, (void *)run->stub, stub_ops()), FERRY_OK);
    run->program = program_new(&run->above, 99);
}

void start_over(struct run *run, const char *const *options, uint32_t flags, uint32_t order)
{
    struct stub *stub = stub_new();

    stub->caps.flags = flags;
    stub->caps.order = order;
    start_on(run, options, stub);
}

void start_gpu(struct run *run, const char *const *options)
{
    struct stub *stub = stub_new();

    stub->gpu = true;
    start_on(run, options, stub);
}

void start(struct run *run, const char *const *options)
{
    start_over(run, options, BASIC | FERRY_CAP_FENCED, 0);
}

void finish(struct run *run)
{
    program_free(run->program);
    assert_int_equal(run->stub->closed, 0);
    assert_int_equal(run->above.ops.close(run->above.handle), FERRY_OK);
    assert_int_equal(run->stub->closed, 1); /* a hook closes what it wraps */
    assert_int_equal(run->stub->regions, 0);
    assert_int_equal(run->stub->keys, 0);
    assert_int_equal(run->stub->channels, 0);
    stub_free(run->stub);
}

const char *const still[] = {"gap=0", NULL};
