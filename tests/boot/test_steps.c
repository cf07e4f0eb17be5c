/* SPDX-License-Identifier: Apache-2.0
 * Collective steps: small, large and in-place exchanges, PEs that do not come, PEs in different steps, closing, abort.
 */
#include "kit.h"

static void fill(uint8_t *bytes, size_t length, uint32_t pe, uint32_t step)
{
    for (size_t i = 0; i < length; i++)
        bytes[i] = (uint8_t)(pe * 31 + i * 7 + (i >> 8) + step);
}

static void exchange(struct kit_pe *pe, size_t length, uint32_t step, bool in_place)
{
    uint8_t *all = malloc(pe->n * length + 1), *mine = malloc(length + 1);
    uint8_t *from = in_place ? all + pe->rank * length : mine;
    fill(from, length, pe->rank, step);
    int rc = fy_boot_allgather(pe->boot, from, all, length, "exchange", 60, &pe->error);
    kit_expect(pe, rc == FERRY_OK, "step %u: %s", step, pe->error.message);
    for (uint32_t other = 0; rc == FERRY_OK && other < pe->n; other++) {
        fill(mine, length, other, step);
        kit_expect(pe, memcmp(all + other * length, mine, length) == 0, "step %u: bytes of PE %u differ", step, other);
    }
    free(all);
    free(mine);
}

static void body_exchange(struct kit_pe *pe)
{
    static const size_t lengths[] = {0, 1, 8, 100, 4096, 70000};
    for (uint32_t step = 0; step < 30; step++)
        exchange(pe, lengths[step % 6], step, step & 1);
    int rc = fy_boot_barrier(pe->boot, "barrier", 20, &pe->error);
    kit_expect(pe, rc == FERRY_OK, "barrier: %s", pe->error.message);
}

static void test_exchange(void **state)
{
    (void)state;
    static const uint32_t sizes[] = {1, 2, 3, 7, 16};
    for (size_t i = 0; i < 5; i++) {
        struct kit_job *job = kit_new(sizes[i], body_exchange, false);
        kit_run(job);
        kit_free(job);
    }
}

static void body_large(struct kit_pe *pe)
{
    exchange(pe, 3 << 20, 0, false);
    exchange(pe, 1 << 20, 1, true);
}

static void test_large(void **state)
{
    (void)state;
    struct kit_job *job = kit_new(5, body_large, true);
    double start = kit_now();
    kit_run(job);
    print_message("20 MB gathered by 5 PEs: %.0f ms\n", (kit_now() - start) * 1e3);
    kit_free(job);
}

/* What all have: the sum, the lowest, the highest; in a length that no header has. */
struct reduced {
    uint64_t sum, low, high, filler[40];
};

static void reduce_two(void *into, const void *other)
{
    struct reduced *a = into;
    const struct reduced *b = other;
    a->sum += b->sum;
    a->low = b->low < a->low ? b->low : a->low;
    a->high = b->high > a->high ? b->high : a->high;
}

static void body_reduce(struct kit_pe *pe)
{
    uint64_t n = pe->n;
    for (uint64_t step = 0; step < 20; step++) {
        struct reduced all = {pe->rank + step, pe->rank + 7, pe->rank * step, {0}};
        int rc = fy_boot_reduce(pe->boot, &all, sizeof(all), reduce_two, "reduction", 60, &pe->error);
        kit_expect(pe, rc == FERRY_OK, "step %u: %s", (unsigned)step, pe->error.message);
        kit_expect(pe, all.sum == n * (n - 1) / 2 + n * step && all.low == 7 && all.high == (n - 1) * step,
                   "step %u: sum %llu, low %llu, high %llu", (unsigned)step, (unsigned long long)all.sum,
                   (unsigned long long)all.low, (unsigned long long)all.high);
        if (step % 3 == 0) /* they do not mix with the others */
            exchange(pe, 100, (uint32_t)step, false);
    }
}

static void test_reduce(void **state)
{
    (void)state;
    static const uint32_t sizes[] = {1, 2, 3, 6, 17};
    for (size_t i = 0; i < 5; i++) {
        struct kit_job *job = kit_new(sizes[i], body_reduce, false);
        kit_run(job);
        kit_free(job);
    }
}

/* The same name and length, but one PE gathers where the others reduce. */
static void body_reduce_or_gather(struct kit_pe *pe)
{
    struct reduced mine = {0}, all[4];
    int rc = pe->rank == 2 ? fy_boot_allgather(pe->boot, &mine, all, sizeof(mine), "either", 30, &pe->error)
                           : fy_boot_reduce(pe->boot, &mine, sizeof(mine), reduce_two, "either", 30, &pe->error);
    kit_expect(pe, rc == FERRY_ERR_MISMATCH, "status %d: %s", rc, pe->error.message);
}

static void test_reduce_or_gather(void **state)
{
    (void)state;
    struct kit_job *job = kit_new(4, body_reduce_or_gather, true);
    kit_run(job);
    kit_free(job);
}

static void body_too_large(struct kit_pe *pe)
{
    int rc = fy_boot_allgather(pe->boot, NULL, NULL, (size_t)1 << 40, "too much", 5, &pe->error);
    kit_expect(pe, rc == FERRY_ERR_LIMIT, "status %d", rc);
}

static void test_too_large(void **state)
{
    (void)state;
    struct kit_job *job = kit_new(2, body_too_large, true);
    kit_run(job);
    kit_free(job);
}

/* No PE leaves a barrier before the last has come. */
static void body_barrier(struct kit_pe *pe)
{
    for (unsigned round = 1; round <= 50; round++) {
        atomic_fetch_add(&pe->job->gate, 1);
        int rc = fy_boot_barrier(pe->boot, "round", 30, &pe->error);
        unsigned seen = atomic_load(&pe->job->gate);
        if (!kit_expect(pe, rc == FERRY_OK && seen >= round * pe->n, "round %u: %u came (%s)", round, seen,
                        pe->error.message))
            return;
    }
}

static void test_barrier(void **state)
{
    (void)state;
    struct kit_job *job = kit_new(9, body_barrier, true);
    kit_run(job);
    kit_free(job);
}

/* Some are late: all others are told who, the late ones too, and the next step works for all. */
struct late {
    uint32_t pe[2];
    const char *text;
    double most; /* seconds until everybody knows */
};

static void body_late(struct kit_pe *pe)
{
    const struct late *late = pe->job->arg;
    bool is_late = pe->rank == late->pe[0] || pe->rank == late->pe[1];
    if (is_late)
        kit_expect(pe, kit_wait_count(&pe->job->gate, pe->n - 2, 30), "the others are still in the step");
    double start = kit_now();
    int rc = fy_boot_barrier(pe->boot, "the late step", 0.4, &pe->error);
    double took = kit_now() - start;
    kit_expect(pe, rc == FERRY_ERR_TIMEOUT, "status %d: %s", rc, pe->error.message);
    kit_expect(pe, strstr(pe->error.message, late->text) && strstr(pe->error.message, "the late step"), "not '%s': %s",
               late->text, pe->error.message);
    kit_expect(pe, took < late->most, "it took %.2f s", took);
    kit_expect(pe, pe->error.peer == (int32_t)late->pe[0], "peer %d", pe->error.peer);
    if (!is_late)
        atomic_fetch_add(&pe->job->gate, 1);
    rc = fy_boot_barrier(pe->boot, "the next step", 30, &pe->error);
    kit_expect(pe, rc == FERRY_OK, "next step: %s", pe->error.message);
}

static void test_late(void **state)
{
    (void)state;
    static const struct late cases[] = {
        {{5, 11}, "PEs 5, 11 did not arrive within 0.4 s", 3},
        {{0, 1}, "PEs 0-1 did not arrive within 0.4 s", 3},
        {{14, 15}, "PEs 14-15 did not arrive within 0.4 s", 3},
    };
    for (size_t i = 0; i < 3; i++) {
        struct kit_job *job = kit_new(16, body_late, true);
        struct late late = cases[i];
        job->arg = &late;
        kit_run(job);
        kit_free(job);
    }
}

/* A PE in another step, or with another length: everybody learns both. */
struct differ {
    uint32_t pe;
    const char *step;
    size_t length;
};

static void body_differ(struct kit_pe *pe)
{
    const struct differ *differ = pe->job->arg;
    uint8_t mine[16] = {0}, all[16 * KIT_PES];
    bool other = pe->rank == differ->pe;
    int rc = fy_boot_allgather(pe->boot, mine, all, other ? differ->length : 8, other ? differ->step : "keys", 30,
                               &pe->error);
    kit_expect(pe, rc == FERRY_ERR_MISMATCH, "status %d: %s", rc, pe->error.message);
    kit_expect(pe, strstr(pe->error.message, "'keys'") && strstr(pe->error.message, differ->step), "not both: %s",
               pe->error.message);
    rc = fy_boot_barrier(pe->boot, "afterwards", 30, &pe->error);
    kit_expect(pe, rc == FERRY_ERR_MISMATCH, "afterwards: status %d", rc);
}

static void test_differ(void **state)
{
    (void)state;
    static const struct differ cases[] = {{0, "endpoints", 8}, {3, "endpoints", 8}, {6, "keys", 16}};
    for (size_t i = 0; i < 3; i++) {
        struct kit_job *job = kit_new(7, body_differ, true);
        struct differ differ = cases[i];
        job->arg = &differ;
        kit_run(job);
        kit_free(job);
    }
}

/* One PE closes while the others wait for it in a step. */
static void body_leaver(struct kit_pe *pe)
{
    if (pe->rank == 3)
        return;
    double start = kit_now();
    int rc = fy_boot_barrier(pe->boot, "without 3", 0, &pe->error);
    kit_expect(pe, rc == FERRY_ERR_PEER && pe->error.peer == 3, "status %d: %s", rc, pe->error.message);
    kit_expect(pe, kit_now() - start < 3, "it took %.1f s", kit_now() - start);
    kit_expect(pe, strstr(pe->error.message, "PE 3") != NULL, "PE 3 is not in: %s", pe->error.message);
}

static void test_leaver(void **state)
{
    (void)state;
    struct kit_job *job = kit_new(8, body_leaver, true);
    kit_run(job);
    for (uint32_t i = 0; i < job->n; i++)
        assert_int_equal(job->pes[i].deaths, 0);
    kit_free(job);
}

/* One after another closes, from the root on or from the leaves; those who stay can still talk, and nobody died. */
static int serve_echo(void *arg, uint32_t from, uint32_t type, const void *request, size_t size, void *reply,
                      size_t capacity, size_t *reply_size)
{
    (void)arg, (void)from, (void)type, (void)capacity;
    memcpy(reply, request, size);
    *reply_size = size;
    return FERRY_OK;
}

static bool has_gone(void *arg)
{
    struct kit_pe *pe = arg;
    const struct kit_job *job = pe->job;
    const uint32_t *order = job->arg;
    uint32_t gone = 0;
    while (order[gone] != pe->rank)
        gone++;
    pthread_mutex_lock(&pe->boot->lock);
    bool all = pe->boot->n_left >= gone;
    pthread_mutex_unlock(&pe->boot->lock);
    return all;
}

static void body_one_by_one(struct kit_pe *pe)
{
    const uint32_t *order = pe->job->arg;
    kit_expect(pe, kit_wait(has_gone, pe, 40), "it does not hear who has closed");
    for (uint32_t i = pe->n - 1; order[i] != pe->rank; i--) {
        uint64_t mine = i, echo = 0;
        size_t size = 0;
        int rc = fy_boot_call(pe->boot, order[i], 1, &mine, sizeof(mine), &echo, sizeof(echo), &size, 20, &pe->error);
        kit_expect(pe, rc == FERRY_OK && echo == mine && size == sizeof(echo), "call to PE %u: %s", order[i],
                   pe->error.message);
    }
}

static void test_one_by_one(void **state)
{
    (void)state;
    static uint32_t orders[2][7] = {{0, 1, 2, 3, 4, 5, 6}, {6, 2, 5, 0, 4, 1, 3}};
    for (int i = 0; i < 2; i++) {
        struct kit_job *job = kit_new(7, body_one_by_one, true);
        job->arg = orders[i];
        job->timeout = 0.5; /* bounds the wait for those who do not close */
        job->serve = serve_echo;
        kit_run(job);
        for (uint32_t pe = 0; pe < job->n; pe++)
            assert_int_equal(job->pes[pe].deaths, 0);
        kit_free(job);
    }
}

/* Abort: once on each PE, by and code right, blocked and later steps end. */
static void body_abort(struct kit_pe *pe)
{
    uint32_t by = *(uint32_t *)pe->job->arg;
    if (pe->rank == by) {
        fy_boot_abort(pe->boot, 42);
        fy_boot_abort(pe->boot, 43); /* the first counts */
    }
    int rc = fy_boot_barrier(pe->boot, "blocked", 0, &pe->error);
    kit_expect(pe, rc == FERRY_ERR_ABORTED, "status %d: %s", rc, pe->error.message);
    kit_expect(pe, pe->error.peer == (int32_t)by, "by %d", pe->error.peer);
    rc = fy_boot_barrier(pe->boot, "later", 0, &pe->error);
    kit_expect(pe, rc == FERRY_ERR_ABORTED, "later: status %d", rc);
    size_t size;
    rc = fy_boot_call(pe->boot, 0, 1, NULL, 0, NULL, 0, &size, 5, &pe->error);
    kit_expect(pe, rc == FERRY_ERR_ABORTED, "call: status %d", rc);
}

static void test_abort(void **state)
{
    (void)state;
    static const uint32_t cases[][2] = {{1, 0}, {5, 0}, {16, 7}, {16, 15}};
    for (size_t i = 0; i < 4; i++) {
        struct kit_job *job = kit_new(cases[i][0], body_abort, true);
        uint32_t by = cases[i][1];
        job->arg = &by;
        kit_run(job);
        for (uint32_t pe = 0; pe < job->n; pe++) {
            assert_int_equal(job->pes[pe].aborts, 1);
            assert_int_equal(job->pes[pe].abort_by, by);
            assert_int_equal(job->pes[pe].abort_code, 42);
        }
        kit_free(job);
    }
}

/* Nobody passes fy_boot_settle before the last PE closes, after an abort and after a mismatch too. */
static bool never(void *arg)
{
    (void)arg;
    return false;
}

static void body_settle(struct kit_pe *pe)
{
    const char *trouble = pe->job->arg;
    uint32_t all[KIT_PES];
    if (trouble[0] == 'a' && pe->rank == 3)
        fy_boot_abort(pe->boot, 1);
    if (trouble[0] == 'm')
        fy_boot_allgather(pe->boot, &pe->rank, all, 4, pe->rank == 5 ? "this" : "that", 0, &pe->error);
    if (trouble[0] == 'l' && pe->rank != 1)
        fy_boot_barrier(pe->boot, "without 1", 0, &pe->error);
    if (pe->rank == 1)
        kit_wait(never, NULL, 0.2); /* the last; too early would show with the others */
    atomic_fetch_add(&pe->job->gate, 1);
    fy_boot_settle(pe->boot);
    kit_expect(pe, atomic_load(&pe->job->gate) == pe->n, "%s: only %u of %u close", trouble,
               atomic_load(&pe->job->gate), pe->n);
}

static void test_settle(void **state)
{
    (void)state;
    static char troubles[4][12] = {"none", "abort", "mismatch", "leaver"};
    for (int i = 0; i < 4; i++) {
        struct kit_job *job = kit_new(7, body_settle, true);
        job->arg = troubles[i];
        kit_run(job);
        for (uint32_t pe = 0; pe < job->n; pe++)
            assert_int_equal(job->pes[pe].deaths, 0);
        kit_free(job);
    }
}

/* All abort at once: one event each, whichever was first. */
static void body_abort_all(struct kit_pe *pe)
{
    fy_boot_abort(pe->boot, (int)pe->rank);
    kit_expect(pe, kit_wait_count(&pe->aborts, 1, 20), "no event");
}

static void test_abort_all(void **state)
{
    (void)state;
    struct kit_job *job = kit_new(12, body_abort_all, true);
    kit_run(job);
    for (uint32_t pe = 0; pe < job->n; pe++)
        assert_int_equal(job->pes[pe].aborts, 1);
    kit_free(job);
}

/* Several jobs at once in one process. */
static void test_jobs(void **state)
{
    (void)state;
    struct kit_job *jobs[4];
    for (int i = 0; i < 4; i++) {
        jobs[i] = kit_new(4, body_exchange, i & 1);
        kit_start(jobs[i]);
    }
    for (int i = 0; i < 4; i++) {
        kit_join(jobs[i]);
        kit_assert_good(jobs[i]);
        kit_free(jobs[i]);
    }
}

static void body_timing(struct kit_pe *pe)
{
    enum { ROUNDS = 100 };
    double start = kit_now();
    for (int i = 0; i < ROUNDS; i++)
        kit_expect(pe, fy_boot_barrier(pe->boot, "timing", 60, &pe->error) == FERRY_OK, "%s", pe->error.message);
    if (pe->rank == 0)
        print_message("%u PEs as threads: barrier %.0f us\n", pe->n, (kit_now() - start) / ROUNDS * 1e6);
}

static void test_timing(void **state)
{
    (void)state;
    static const uint32_t sizes[] = {2, 16, 64};
    for (int i = 0; i < 3; i++) {
        struct kit_job *job = kit_new(sizes[i], body_timing, true);
        kit_run(job);
        kit_free(job);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_exchange),  cmocka_unit_test(test_large),      cmocka_unit_test(test_too_large),
        cmocka_unit_test(test_reduce),    cmocka_unit_test(test_reduce_or_gather),
        cmocka_unit_test(test_barrier),   cmocka_unit_test(test_late),       cmocka_unit_test(test_differ),
        cmocka_unit_test(test_leaver),    cmocka_unit_test(test_one_by_one), cmocka_unit_test(test_abort),
        cmocka_unit_test(test_abort_all), cmocka_unit_test(test_settle),     cmocka_unit_test(test_jobs),
        cmocka_unit_test(test_timing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
