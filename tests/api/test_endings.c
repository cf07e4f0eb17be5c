/* SPDX-License-Identifier: Apache-2.0
 * What a call says that waits for a PE which does not come: one that stands still, and one that has closed its job.
 * PEs are processes, over loopback under a guise in which the target takes part. */
#include "pes.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

struct scene {
    _Atomic int pid[3];
    _Atomic int over;
};

static void until(struct pe *pe, _Atomic int *what)
{
    double end = pes_now() + 60;
    while (!atomic_load(what) && EXPECT(pe, pes_now() < end))
        usleep(1000);
}

/* PE 2 stands still. The others have put to all, and quiet waits for all at once. */
static void still_body(struct pe *pe)
{
    struct scene *scene = pe->arg;
    uint64_t *words = ferry_calloc(pe->job, 4, sizeof(*words)), value = 1;
    struct ferry_error why = {.size = sizeof(why)};
    atomic_store(&scene->pid[pe->rank], (int)getpid());
    if (!EXPECT(pe, words) || !EXPECT_OK(pe, ferry_barrier(pe->job)))
        return;
    if (pe->rank == 2)
        raise(SIGSTOP);
    if (pe->rank == 0) {
        int rc = FERRY_OK;
        for (double end = pes_now() + 60; rc == FERRY_OK && pes_now() < end;) {
            rc = ferry_put_nbi(pe->ctx, words, &value, 8, 1);
            rc = rc == FERRY_OK ? ferry_put_nbi(pe->ctx, words, &value, 8, 2) : rc;
            rc = rc == FERRY_OK ? ferry_quiet(pe->ctx) : rc;
        }
        ferry_last_error(pe->job, &why);
        EXPECT(pe, rc == FERRY_ERR_TIMEOUT);
        EXPECT(pe, strstr(why.message, "quiet: not complete on channel 0 after 2 s, at pe 2"));
        EXPECT(pe, why.peer == 2);
        atomic_store(&scene->over, 1);
        kill(atomic_load(&scene->pid[2]), SIGCONT);
    }
    until(pe, &scene->over);
}

static void test_quiet_names_the_late(void **state)
{
    static const char *const options[] = {"FERRY_TRANSPORT=loopback", "FERRY_LOOPBACK_GUISE=target-progress", "FERRY_TIMEOUT=2",
                                          "FERRY_PEER_TIMEOUT=0", NULL};
    struct scene *scene = pes_shared(sizeof(*scene));
    struct run run = {.n = 3, .body = still_body, .arg = scene, .options = options};
    (void)state;
    assert_non_null(scene);
    pes_fork(&run); /* finalize may fail, after such a quiet */
    assert_int_equal(run.failures, 0);
    assert_int_equal(scene->over, 1);
}

/* PE 2 dies, PE 1 has had enough, and PE 0 still wants something of it. */
static void left_body(struct pe *pe)
{
    uint64_t *words = ferry_calloc(pe->job, 4, sizeof(*words)), old;
    struct ferry_error why = {.size = sizeof(why)};
    if (!EXPECT(pe, words) || !EXPECT_OK(pe, ferry_barrier(pe->job)))
        return;
    if (pe->rank == 2) {
        ferry_wait_until_all(pe->job, words + 2, 2, NULL, FERRY_CMP_EQ, 1);
        raise(SIGKILL); /* nobody is in the barrier any more */
    }
    EXPECT_OK(pe, ferry_atomic_fetch_add(pe->ctx, words + 1, 1, &old, 1)); /* so that PE 1's mailbox is open */
    EXPECT_OK(pe, ferry_p(pe->ctx, words + 2 + pe->rank, 1, 2));
    EXPECT(pe, ferry_wait_until(pe->job, words, FERRY_CMP_EQ, 99) == FERRY_ERR_PEER);
    if (pe->rank == 1)
        return;
    EXPECT_OK(pe, ferry_acknowledge_failures(pe->job));
    int rc = FERRY_OK;
    for (double end = pes_now() + 60; rc == FERRY_OK && pes_now() < end;)
        rc = ferry_atomic_fetch_add(pe->ctx, words + 1, 1, &old, 1);
    ferry_last_error(pe->job, &why);
    EXPECT(pe, rc == FERRY_ERR_PEER);
    EXPECT(pe, why.peer == 1);
    if (!EXPECT(pe, strstr(why.message, "pe 1 has closed its job")))
        fprintf(stderr, "it says: %s\n", why.message);
}

static void test_who_left_is_named(void **state)
{
    static const char *const options[] = {"FERRY_TRANSPORT=loopback", "FERRY_LOOPBACK_GUISE=no-amo", NULL};
    struct run run = {.n = 3, .body = left_body, .options = options};
    (void)state;
    pes_fork(&run);
    assert_int_equal(run.failures, 0);
    assert_int_equal(run.init_status[0], FERRY_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_quiet_names_the_late),
        cmocka_unit_test(test_who_left_is_named),
    };
    return cmocka_run_group_tests_name("api_endings", tests, NULL, NULL);
}
