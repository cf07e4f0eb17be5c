/* SPDX-License-Identifier: Apache-2.0
 * All PEs put to all, on every one of several contexts, for so many seconds or until something fails; what failed is
 * printed. Run by tests/vm under ferry-run, one process per PE, each of one thread. usage: vm_steady SECONDS [contexts]
 * Status: 0 if nothing failed, 3 if an operation did, 1 if the job could not start or end. */
#include <ferry/ferry.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { CONTEXTS = 16, LENGTH = 4096 };

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* One put to every other PE on every context, then quiet. */
static int round_of_puts(ferry_job_t *job, ferry_ctx_t **contexts, int count, char *heap)
{
    static char source[LENGTH];
    int rc = FERRY_OK, me = ferry_my_pe(job), n = ferry_n_pes(job);
    for (int c = 0; c < count; c++)
        for (int pe = 0; rc == FERRY_OK && pe < n; pe++)
            if (pe != me)
                rc = ferry_put_nbi(contexts[c], heap + (size_t)me * LENGTH, source, LENGTH, pe);
    for (int c = 0; rc == FERRY_OK && c < count; c++)
        rc = ferry_quiet(contexts[c]);
    return rc;
}

static void say_why(ferry_job_t *job, double after)
{
    struct ferry_error record = {.size = sizeof record};
    ferry_last_error(job, &record);
    printf("steady: pe %d: after %.2f s: %s: %s (%s) [peer %d, %s, library status %lld]\n", ferry_my_pe(job), after,
           ferry_status_string(record.status), record.message, record.hint, record.peer, record.device,
           (long long)record.library_status);
    fflush(stdout);
}

int main(int argc, char **argv)
{
    ferry_ctx_t *contexts[CONTEXTS];
    double seconds = argc > 1 ? atof(argv[1]) : 1;
    int count = argc > 2 ? atoi(argv[2]) : 1;
    ferry_job_t *job;
    if (count < 1 || count > CONTEXTS || ferry_init(NULL, &job) != FERRY_OK)
        return 1;
    char *heap = ferry_malloc(job, (size_t)ferry_n_pes(job) * LENGTH);
    int rc = heap ? FERRY_OK : FERRY_ERR_NOMEM;
    for (int c = 0; rc == FERRY_OK && c < count; c++)
        rc = ferry_ctx_create(job, 0, &contexts[c]);
    unsigned long rounds = 0;
    double begin = now();
    for (; rc == FERRY_OK && now() - begin < seconds; rounds++)
        rc = round_of_puts(job, contexts, count, heap);
    if (rc != FERRY_OK)
        say_why(job, now() - begin);
    else
        printf("steady: pe %d: %lu rounds\n", ferry_my_pe(job), rounds);
    bool ended = ferry_finalize(job) == FERRY_OK;
    return rc != FERRY_OK ? 3 : ended ? 0 : 1;
}
