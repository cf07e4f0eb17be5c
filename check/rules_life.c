/* SPDX-License-Identifier: Apache-2.0
 * Items 52 and 54 to 57: bad calls, starts that fail, jobs one after another and at once, children, PEs that differ. On
 * every PE of a job, or in charge of jobs. */
#include "jobs.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define BYTES 3000u

static int right(const struct pe *pe)
{
    return (pe->rank + 1) % pe->n;
}

/* ------------------------------------------------------------------ 52: bad arguments */

/* The i-th bad call; a status that is not negative is a mistake of the library. 1: there are no more. */
static int bad_call(struct pe *pe, int i, uint64_t *words, const uint8_t *local)
{
    uint8_t *odd = (uint8_t *)words + 1;
    uint64_t outside = 0, old;
    ferry_ctx_t *ctx;
    int to = right(pe);
    uint32_t *narrow = (uint32_t *)(void *)(odd + 1), old32;
    size_t far = (size_t)1 << 46;

    switch (i) {
    case 0:
        return ferry_put(pe->ctx, words, local, 8, -1);
    case 1:
        return ferry_put_nbi(pe->ctx, words, local, 8, pe->n);
    case 2:
        return ferry_put(pe->ctx, &outside, local, 8, to);
    case 3:
        return ferry_put(pe->ctx, words, local, far, to);
    case 4:
        return ferry_put(pe->ctx, words, NULL, 8, to);
    case 5:
        return ferry_put(pe->ctx, NULL, local, 8, to);
    case 6:
        return ferry_get(pe->ctx, NULL, words, 8, to);
    case 7:
        return ferry_get(pe->ctx, &old, &outside, 8, to);
    case 8:
        return ferry_get_nbi(pe->ctx, &old, words, 8, 1 << 30);
    case 9:
        return ferry_put_signal(pe->ctx, words, local, 8, (uint64_t *)(void *)odd, 1, FERRY_SIGNAL_SET, to);
    case 10:
        return ferry_put_signal_nbi(pe->ctx, words, local, 8, &outside, 1, FERRY_SIGNAL_ADD, to);
    case 11:
        return ferry_put_signal(pe->ctx, words, local, 8, words, 1, 7, to);
    case 12:
        return ferry_put_signal(pe->ctx, &outside, local, 8, words, 1, FERRY_SIGNAL_SET, to);
    case 13:
        return ferry_signal(pe->ctx, words, 1, 2, to);
    case 14:
        return ferry_signal(pe->ctx, words, 1, FERRY_SIGNAL_SET, pe->n + 5);
    case 15:
        return ferry_atomic_add(pe->ctx, (uint64_t *)(void *)(odd + 3), 1, to);
    case 16:
        return ferry_atomic_set(pe->ctx, &outside, 1, to);
    case 17:
        return ferry_atomic_fetch_add(pe->ctx, words, 1, &old, -7);
    case 18:
        return ferry_atomic_compare_swap(pe->ctx, NULL, 0, 1, &old, to);
    case 19:
        return ferry_atomic32_add(pe->ctx, narrow, 1, to);
    case 20:
        return ferry_atomic32_fetch(pe->ctx, (uint32_t *)(void *)&outside, &old32, to);
    case 21:
        return ferry_p(pe->ctx, &outside, 1, to);
    case 22:
        return ferry_g(pe->ctx, words, &old, pe->n);
    case 23:
        return ferry_iput(pe->ctx, words, local, 1 << 20, 1, 8, (size_t)1 << 30, to);
    case 24:
        return ferry_quiet_pe(pe->ctx, pe->n);
    case 25:
        return ferry_quiet_pe(pe->ctx, -1);
    case 26:
        return ferry_wait_until(pe->job, words, 17, 0);
    case 27:
        return ferry_wait_until(pe->job, NULL, FERRY_CMP_EQ, 0);
    case 28:
        return ferry_ctx_create(pe->job, 0xffu, &ctx);
    case 29:
        return ferry_ctx_destroy(pe->ctx);
    case 30:
        return ferry_pe_alive(pe->job, pe->n);
    default:
        return 1;
    }
}

static void told(struct pe *pe, int i, int rc)
{
    struct ferry_error record = {.size = sizeof(record)};

    if (!EXPECT(pe, rc == FERRY_ERR_ARG))
        fprintf(stderr, "  bad call %d gave %s\n", i, ferry_status_string(rc));
    if (i == 30)
        return; /* its answer is its status */
    EXPECT_OK(pe, ferry_last_error(pe->job, &record));
    if (!EXPECT(pe, record.status == rc && record.message[0]))
        fprintf(stderr, "  bad call %d is not described: %s\n", i, record.message);
}

/* Each is refused with a reason and writes nothing; good ones before and after are as if it had not been. */
static void bad_calls(struct pe *pe)
{
    unsigned long rounds = rule_times(pe, "rounds of all bad calls", 200);
    uint64_t *words = rule_calloc(pe, 64), *flag = rule_calloc(pe, 8);
    uint8_t *data = rule_calloc(pe, BYTES), source[BYTES];

    if (!words || !flag || !data)
        return;
    for (uint64_t r = 1; r <= rounds; r++) {
        int rc = FERRY_OK;

        rule_fill(source, BYTES, r * 64 + (uint64_t)pe->rank);
        for (int i = 0; (rc = bad_call(pe, i, words, source)) != 1; i++) {
            told(pe, i, rc);
            EXPECT_OK(pe, ferry_put_nbi(pe->ctx, data + i * 50, source + i * 50, i ? 50 : BYTES, right(pe)));
        }
        EXPECT_OK(pe, ferry_fence(pe->ctx));
        EXPECT(pe, ferry_put(pe->ctx, data, source, 8, pe->n) == FERRY_ERR_ARG);
        EXPECT_OK(pe, ferry_atomic_inc(pe->ctx, flag, right(pe)));
        EXPECT_OK(pe, ferry_wait_until(pe->job, flag, FERRY_CMP_EQ, r));
        EXPECT(pe, rule_wrong(data, BYTES, r * 64 + (uint64_t)((pe->rank + pe->n - 1) % pe->n)) == 0);
        EXPECT(pe, rule_all(words, 64, 0));
        EXPECT_OK(pe, ferry_barrier(pe->job));
    }
}

/* ------------------------------------------------------------------ 54, 57: starts that fail */

static void never_called(struct pe *pe)
{
    EXPECT(pe, false);
}

/* A job of all PEs that must not start; PE 1 has an option more. */
static void start_job(struct pe *pe, struct job *job, const char *option, const char *only_one)
{
    const char *options[] = {option, NULL};

    *job = (struct job){.n = pe->n, .body = never_called, .options = options, .only_one = only_one};
    job_run(pe, job);
    job->options = NULL;
}

/* All PEs are told, with the name or the value that is at fault; nothing stays; and the next start is as good as ever.
 */
static void failed_starts(struct pe *pe)
{
    static const struct {
        const char *all, *one, *named;
    } faults[] = {
        {"FERRY_TRANSPORT=no-such", NULL, "no-such"},
        {NULL, "FERRY_TRANSPORT=no-such", "no-such"},
        {"FERRY_HEAP_SIZE=much", NULL, "much"},
        {NULL, "FERRY_HOOKS=no-such-hook", "no-such-hook"},
    };
    unsigned long rounds = rule_times(pe, "rounds of 4 faults", 100);
    struct pes_usage before;
    struct job job;

    job_good(pe, pe->n);
    job_good(pe, pe->n);
    before = pes_usage();
    for (unsigned long r = 0; r < rounds; r++)
        for (size_t f = 0; f < sizeof(faults) / sizeof(*faults); f++) {
            start_job(pe, &job, faults[f].all ? faults[f].all : "FERRY_LOG=error", faults[f].one);
            for (int i = 0; i < pe->n; i++) {
                EXPECT(pe, job.pes[i].began < 0);
                if (!EXPECT(pe, strstr(job.pes[i].error.message, faults[f].named) != NULL))
                    fprintf(stderr, "  pe %d was told: %s\n", i, job.pes[i].error.message);
            }
        }
    job_same_usage(pe, &before);
    job_good(pe, pe->n);
}

/* Both PEs and both values are in what every PE is told. */
static void different(struct pe *pe)
{
    const char *hooks = getenv("FERRY_HOOKS");
    const struct {
        const char *all, *one, *first, *second;
    } rows[] = {
        {"FERRY_CHANNELS=20", "FERRY_CHANNELS=24", "20", "24"},
        {"FERRY_HEAP_SIZE=1G", "FERRY_HEAP_SIZE=2G", "1073741824", "2147483648"},
        {"FERRY_LOG=error", hooks && strcmp(hooks, "count") == 0 ? "FERRY_HOOKS=" : "FERRY_HOOKS=count",
         hooks ? hooks : "''", hooks && strcmp(hooks, "count") == 0 ? "''" : "count"},
        {"FERRY_LOG=error", "FERRY_TRANSPORT=loopback", "holdback", "loopback"},
    };
    size_t n = strstr(pes_transport(), "holdback") ? 4 : 3;
    struct job job;

    for (size_t r = 0; r < n; r++) {
        start_job(pe, &job, rows[r].all, rows[r].one);
        for (int i = 0; i < pe->n; i++) {
            const char *text = job.pes[i].error.message;

            EXPECT(pe, job.pes[i].began == FERRY_ERR_MISMATCH);
            if (!EXPECT(pe, strstr(text, "pe 0") && strstr(text, "pe 1") && strstr(text, rows[r].first) &&
                                strstr(text, rows[r].second)))
                fprintf(stderr, "  pe %d was told: %s\n", i, text);
        }
    }
    job_good(pe, pe->n);
}

/* ------------------------------------------------------------------ 55: again and again */

static void jobs_in_a_row(struct pe *pe)
{
    unsigned long rounds = rule_times(pe, "jobs", 100);
    struct pes_usage before;

    job_good(pe, pe->n);
    job_good(pe, pe->n);
    before = pes_usage();
    for (unsigned long i = 0; i < rounds; i++)
        job_good(pe, 1 + (int)(i + 1) % pe->n);
    job_same_usage(pe, &before);
}

static void *jobs_beside(void *arg)
{
    struct pe *pe = arg;

    for (int i = 0; i < 3; i++)
        job_good(pe, 2);
    return NULL;
}

/* Two jobs of one process at once, of different sizes, one after another. */
static void jobs_at_once(struct pe *pe)
{
    pthread_t thread;

    if (!EXPECT(pe, pthread_create(&thread, NULL, jobs_beside, pe) == 0))
        return;
    for (int i = 0; i < 3; i++)
        job_good(pe, pe->n);
    pthread_join(thread, NULL);
}

/* ------------------------------------------------------------------ 56: children */

enum child { CHILD_QUICK, CHILD_EXITS, CHILD_EXECUTES, CHILDREN };

static void child_main(enum child how, int gate)
{
    char none;

    if (read(gate, &none, 1) < 0)
        _exit(9);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
    if (how == CHILD_EXITS)
        exit(0); /* a leak checker would look for what the threads left behind knew */
#endif
    if (how == CHILD_EXECUTES)
        execl("/bin/true", "true", (char *)NULL);
    _exit(how == CHILD_EXECUTES ? 8 : 0);
}

/* A child of PE 0 lives on while its parent works, and then ends in one of three ways. */
static void children(struct pe *pe)
{
    unsigned long rounds = rule_times(pe, "rounds of 3 children", 100);
    uint64_t *count = rule_calloc(pe, 8);
    uint8_t *data = rule_calloc(pe, BYTES), source[BYTES];

    if (!count || !data)
        return;
    for (uint64_t r = 1; r <= rounds * CHILDREN; r++) {
        int gate[2] = {-1, -1}, status = -1;
        pid_t pid = -1;

        EXPECT_OK(pe, ferry_barrier(pe->job));
        if (pe->rank == 0 && EXPECT(pe, pipe(gate) == 0)) {
            fflush(NULL);
            pid = fork();
            if (pid == 0) {
                close(gate[1]);
                child_main(r % CHILDREN, gate[0]);
            }
            close(gate[0]);
        }
        rule_fill(source, BYTES, r * 64 + (uint64_t)pe->rank);
        EXPECT_OK(pe, ferry_put_nbi(pe->ctx, data, source, BYTES, right(pe)));
        EXPECT_OK(pe, ferry_atomic_inc(pe->ctx, count, 0));
        EXPECT_OK(pe, ferry_barrier(pe->job));
        EXPECT(pe, rule_wrong(data, BYTES, r * 64 + (uint64_t)((pe->rank + pe->n - 1) % pe->n)) == 0);
        if (pe->rank != 0)
            continue;
        EXPECT(pe, ferry_test(pe->job, count, FERRY_CMP_EQ, r * (uint64_t)pe->n) == 1);
        close(gate[1]);
        EXPECT(pe, pid > 0 && waitpid(pid, &status, 0) == pid && status == 0);
    }
}

const struct rule fy_rules_life[] = {
    {"R52.1", "a bad call is refused with a reason, writes nothing and harms none beside it", 1, 0, bad_calls, NULL},
    {"R54.1", "a start that fails tells all PEs why, and leaves nothing behind", 2, RULE_ALONE, failed_starts, NULL},
    {"R55.1", "jobs one after another, ended with operations on their way, leave nothing behind", 1, RULE_ALONE,
     jobs_in_a_row, NULL},
    {"R55.2", "several jobs of one process at once", 2, RULE_ALONE, jobs_at_once, NULL},
    {"R56.1", "children of a PE end in any way, and it goes on", 1, 0, children, NULL},
    {"R57.1", "PEs with different settings are told which, and both values", 2, RULE_ALONE, different, NULL},
    {NULL, NULL, 0, 0, NULL, NULL},
};
