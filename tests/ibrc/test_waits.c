/* SPDX-License-Identifier: Apache-2.0
 * Waits on memory while a posted operation fails: no call is made on the channel, and the wait has to hear of it.
 * Over the stand-in, whose completions fail by script; PEs are threads, and PE 1 does nothing on the network when PE 0
 * does. */
#include "../fakeverbs/fakeverbs.h"
#include "pes.h"

#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <cmocka.h>
#include <string.h>

enum { VENDOR = 0x81 };

struct scene {
    int (*wait)(struct pe *pe, uint64_t *words);
    _Atomic int ready, told; /* PEs that have connected; PE 0 has heard */
};

static int wait_one(struct pe *pe, uint64_t *words)
{
    return ferry_wait_until(pe->job, words, FERRY_CMP_EQ, 1);
}

static int wait_several(struct pe *pe, uint64_t *words)
{
    size_t which;
    return ferry_wait_until_any(pe->job, words, 2, NULL, FERRY_CMP_EQ, 1, &which);
}

static int barrier(struct pe *pe, uint64_t *words)
{
    (void)words;
    return ferry_sync(pe->job);
}

static int fetch4(struct pe *pe, uint64_t *words)
{
    uint32_t old;
    return ferry_atomic32_swap(pe->ctx, (uint32_t *)(words + 3), 1, &old, 1);
}

static void await(_Atomic int *flag, int value)
{
    while (*flag < value)
        sched_yield();
}

/* The next request to complete is PE 0's: PE 1 holds still. A wait of the application hears of a failed put before it;
 * the others fail by a request of their own. */
static void hear(struct pe *pe, struct scene *scene, uint64_t *words)
{
    struct ferry_error error = {.size = sizeof error};
    uint64_t value = 1;
    bool own = scene->wait == barrier || scene->wait == fetch4;
    fakeverbs_complete(1, IBV_WC_RETRY_EXC_ERR, VENDOR);
    if (!own)
        EXPECT_OK(pe, ferry_put_nbi(pe->ctx, words + 2, &value, sizeof value, 1));
    EXPECT(pe, scene->wait(pe, words) == FERRY_ERR_PEER);
    ferry_last_error(pe->job, &error);
    EXPECT(pe, error.status == FERRY_ERR_PEER && error.peer == 1);
    EXPECT(pe, error.library_status == IBV_WC_RETRY_EXC_ERR && error.vendor == VENDOR);
    EXPECT(pe, strstr(error.message, "transport retry counter exceeded") != NULL);
}

static void body(struct pe *pe)
{
    struct scene *scene = pe->arg;
    uint64_t *words = ferry_calloc(pe->job, 4, sizeof *words), value = 1;
    uint32_t old;
    if (!EXPECT(pe, words))
        return;
    EXPECT_OK(pe, ferry_atomic32_swap(pe->ctx, (uint32_t *)(words + 3), 1, &old, !pe->rank)); /* all is connected */
    EXPECT_OK(pe, ferry_put(pe->ctx, words + 2, &value, sizeof value, !pe->rank));
    EXPECT_OK(pe, ferry_barrier(pe->job));
    scene->ready++;
    await(&scene->ready, 2);
    if (pe->rank == 1) {
        await(&scene->told, 1);
        EXPECT_OK(pe, ferry_put(pe->ctx, words, &value, sizeof value, 0));
        return;
    }
    hear(pe, scene, words);
    scene->told = 1;
    if (scene->wait == wait_one || scene->wait == wait_several)
        EXPECT_OK(pe, scene->wait(pe, words)); /* what was told is not told again, and what others put arrives */
}

static void check(int (*wait)(struct pe *pe, uint64_t *words))
{
    struct scene scene = {.wait = wait};
    static const char *const options[] = {"FERRY_TRANSPORT=ibrc", "FERRY_LOG=error", NULL};
    struct run run = {.n = 2, .body = body, .arg = &scene, .options = options};
    assert_int_equal(pes_run_tolerant(&run), 0);
    assert_int_equal(run.final_status[1], FERRY_OK);
}

static void test_wait_until(void **state)
{
    (void)state, check(wait_one);
}
static void test_vector_wait(void **state)
{
    (void)state, check(wait_several);
}
static void test_barrier(void **state)
{
    (void)state, check(barrier);
}
static void test_mailbox(void **state)
{
    (void)state, check(fetch4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_wait_until),
        cmocka_unit_test(test_vector_wait),
        cmocka_unit_test(test_barrier),
        cmocka_unit_test(test_mailbox),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
