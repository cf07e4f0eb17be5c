/* SPDX-License-Identifier: Apache-2.0
 * Queue pairs come with the first operation to a peer, over the stand-in: PEs that never meet have none. PEs are
 * threads. */
#include "../fakeverbs/fakeverbs.h"
#include "pes.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <cmocka.h>

enum { PES = 16 };

static void body(struct pe *pe)
{
    static const int far = 9; /* no PE that a barrier of 16 has PE 0 write to: these are 1, 2, 4, 8 */
    uint64_t *words = ferry_calloc(pe->job, PES, sizeof *words), value = 7;
    long before, after;
    ferry_ctx_t *ctx;

    if (!EXPECT(pe, words))
        return;
    EXPECT_OK(pe, ferry_barrier(pe->job));
    EXPECT_OK(pe, ferry_barrier(pe->job)); /* whoever is through has ended the one before: nobody connects for it */
    if (pe->rank == 0) {
        before = fakeverbs_counts().qps;
        EXPECT(pe, before > 0 && before < PES * (PES - 1));
        EXPECT_OK(pe, ferry_ctx_create(pe->job, 0, &ctx));
        EXPECT(pe, fakeverbs_counts().qps == before); /* nor does a context of its own connect */
        for (int i = 0; i < 3; i++) {
            EXPECT_OK(pe, ferry_put_nbi(ctx, words, &value, sizeof value, far));
            EXPECT_OK(pe, ferry_put_signal(ctx, words, &value, sizeof value, words + 1, 1, FERRY_SIGNAL_ADD, far));
            EXPECT_OK(pe, ferry_quiet(ctx));
        }
        after = fakeverbs_counts().qps;
        EXPECT(pe, after == before + 2); /* one here, one there */
        EXPECT_OK(pe, ferry_ctx_destroy(ctx));
    }
    EXPECT_OK(pe, ferry_barrier(pe->job));
}

static void test_never_met(void **state)
{
    static const char *const options[] = {"FERRY_TRANSPORT=ibrc", NULL};

    (void)state;
    pes_check_options(PES, body, NULL, options);
    assert_int_equal(fakeverbs_live(), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_never_met)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
