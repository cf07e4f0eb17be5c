/* SPDX-License-Identifier: Apache-2.0
 * A PE dies while chaos holds puts for it: once quiet has said so, their sources are the application's again.
 * PEs are processes. */
#include "pes.h"

#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <cmocka.h>
#include <string.h>
#include <sys/mman.h>

#define BYTES 65536u
#define DEAD  2

static void swallow(void *arg, int level, const char *line)
{
    (void)arg, (void)level, (void)line;
}

/* What the PEs tell each other beside the job: the death may reach a PE before the last signal of a barrier. */
struct beside {
    _Atomic int here, posted, done;
};

static bool reaches(struct pe *pe, _Atomic int *what, int value)
{
    for (double end = pes_now() + 60; atomic_load(what) < value && pes_now() < end;)
        sched_yield();
    return EXPECT(pe, atomic_load(what) >= value);
}

/* Puts until the job knows of the death: chaos then holds the latest of them, for up to 20000 turns. */
static void put_to_the_dying(struct pe *pe, struct beside *beside, uint8_t *data, const uint8_t *source)
{
    double end = pes_now() + 30;
    int rc = FERRY_OK;

    while (rc == FERRY_OK && pes_now() < end) {
        rc = ferry_put_nbi(pe->ctx, data, source, BYTES, DEAD);
        atomic_store(&beside->posted, 1);
    }
    EXPECT(pe, rc == FERRY_ERR_PEER);
    EXPECT(pe, ferry_quiet(pe->ctx) == FERRY_ERR_PEER);
}

static void survive(struct pe *pe, struct beside *beside, uint8_t *data)
{
    uint8_t *source = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    uint64_t old;

    if (!EXPECT(pe, source != MAP_FAILED))
        return;
    put_to_the_dying(pe, beside, data, source);
    EXPECT(pe, munmap(source, BYTES) == 0);
    EXPECT_OK(pe, ferry_acknowledge_failures(pe->job));
    for (uint64_t i = 0; i < 10; i++) { /* many turns of the channel */
        EXPECT_OK(pe, ferry_atomic_fetch_add(pe->ctx, (uint64_t *)(void *)data, 1, &old, 1));
        EXPECT(pe, old == i);
    }
    atomic_store(&beside->done, 1);
}

static void death_body(struct pe *pe)
{
    struct beside *beside = pe->arg;
    uint8_t *data = ferry_calloc(pe->job, 1, BYTES);

    if (!EXPECT(pe, data))
        return;
    atomic_fetch_add(&beside->here, 1);
    if (!reaches(pe, &beside->here, 3))
        return;
    if (pe->rank == DEAD && reaches(pe, &beside->posted, 1))
        raise(SIGKILL);
    if (pe->rank == 0)
        survive(pe, beside, data);
    else /* stays, to be added to */
        reaches(pe, &beside->done, 1);
}

static void test_sources_are_free_after_a_death(void **state)
{
    static const char *const options[] = {"FERRY_HOOKS=chaos", "FERRY_CHAOS_DELAY=100", "FERRY_CHAOS_HOLD=20000",
                                          "FERRY_CHAOS_AGAIN=0", NULL};
    struct beside *beside = pes_shared(sizeof *beside);
    struct run run = {.n = 3, .body = death_body, .arg = beside, .options = options, .log = swallow};

    (void)state;
    assert_non_null(beside);
    pes_fork(&run);
    assert_int_equal(atomic_load(&run.failures), 0);
    assert_int_equal(atomic_load(&beside->done), 1);
    munmap(beside, sizeof *beside);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_sources_are_free_after_a_death)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
