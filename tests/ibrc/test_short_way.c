/* SPDX-License-Identifier: Apache-2.0
 * Small puts and puts with signal on a context of the program take a short way through the core. What stands between
 * them must send them the long way: an atomic that the stand-in holds back must not be overtaken across a fence. PEs
 * are threads; PE 0 posts, PE 1 looks while the atomic is held back. */
#include "../fakeverbs/fakeverbs.h"
#include "pes.h"

#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <cmocka.h>

enum { COUNTER, DATA, SIGNAL, WARM, WORDS };

struct scene {
    bool signal, fence;
    _Atomic int ready, posted, looked;
    bool early; /* PE 1 saw what is behind the fence, and not the atomic */
};

static void await(_Atomic int *flag, int value)
{
    while (*flag < value)
        sched_yield();
}

static int post(ferry_ctx_t *ctx, const struct scene *scene, uint64_t *words, int where)
{
    uint64_t value = 1;
    if (scene->signal)
        return ferry_put_signal_nbi(ctx, words + where, &value, sizeof value, words + SIGNAL, 1, FERRY_SIGNAL_ADD, 1);
    return ferry_put_nbi(ctx, words + where, &value, sizeof value, 1);
}

static void send(struct pe *pe, struct scene *scene, uint64_t *words)
{
    ferry_ctx_t *ctx;
    if (!EXPECT_OK(pe, ferry_ctx_create(pe->job, 0, &ctx)))
        return;
    for (int i = 0; i < 3; i++) /* the first connects, the next take the short way */
        EXPECT_OK(pe, post(ctx, scene, words, WARM));
    EXPECT_OK(pe, ferry_quiet(ctx));
    EXPECT_OK(pe, post(ctx, scene, words, WARM));
    fakeverbs_delay(0, FAKEVERBS_ATOMICS, 200, 0);
    EXPECT_OK(pe, ferry_atomic_add(ctx, words + COUNTER, 1, 1));
    if (scene->fence)
        EXPECT_OK(pe, ferry_fence(ctx));
    EXPECT_OK(pe, post(ctx, scene, words, DATA));
    scene->posted = 1;
    await(&scene->looked, 1);
    fakeverbs_delay(0, 0, 0, 0);
    EXPECT_OK(pe, ferry_quiet(ctx));
    EXPECT_OK(pe, ferry_ctx_destroy(ctx));
}

static void body(struct pe *pe)
{
    struct scene *scene = pe->arg;
    uint64_t *words = ferry_calloc(pe->job, WORDS, sizeof *words);
    if (!EXPECT(pe, words) || !EXPECT_OK(pe, ferry_barrier(pe->job)))
        return;
    if (pe->rank == 0) {
        send(pe, scene, words);
    } else {
        await(&scene->posted, 1);
        uint64_t data = __atomic_load_n(words + DATA, __ATOMIC_ACQUIRE);
        scene->early = data && !__atomic_load_n(words + COUNTER, __ATOMIC_ACQUIRE);
        scene->looked = 1;
    }
    EXPECT_OK(pe, ferry_barrier(pe->job));
    EXPECT(pe, pe->rank == 0 || (words[COUNTER] == 1 && words[DATA] == 1));
}

static bool early(bool signal, bool fence)
{
    struct scene scene = {.signal = signal, .fence = fence};
    pes_check(2, body, &scene);
    return scene.early;
}

static void test_fences_hold(void **state)
{
    (void)state;
    for (int i = 0; i < 5; i++) {
        assert_false(early(false, true));
        assert_false(early(true, true));
    }
}

/* Otherwise the test above could not fail. */
static void test_without_a_fence_it_is_early(void **state)
{
    (void)state;
    assert_true(early(false, false));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_fences_hold),
        cmocka_unit_test(test_without_a_fence_it_is_early),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
