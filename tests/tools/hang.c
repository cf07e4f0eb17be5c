/* SPDX-License-Identifier: Apache-2.0
 * A job for the tests of ferry-top: PEs that work, and wait as they are told. Its one argument says how.
 *   barrier  PE 2 stops itself, the others are in a barrier
 *   busy     PE 1 computes, the others wait for a word that it never sets
 *   count    PE 0 does 100000 puts of 64 bytes and 1000 gets of 8, then waits for the file
 *   puts     PE 0 puts until a file appears (second argument) */
#include <ferry/ferry.h>

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static void work_until(const char *path)
{
    while (access(path, F_OK) != 0)
        nanosleep(&(struct timespec){0, 10000000}, NULL);
}

static int put_until(ferry_job_t *job, void *box, const char *path)
{
    ferry_ctx_t *ctx;
    char source[64] = {1};
    int rc = ferry_ctx_create(job, 0, &ctx);
    for (unsigned i = 0; rc == FERRY_OK; i++) {
        if (i % 1024 == 0 && access(path, F_OK) == 0)
            break;
        rc = ferry_put(ctx, box, source, sizeof source, (ferry_my_pe(job) + 1) % ferry_n_pes(job));
    }
    return rc == FERRY_OK ? ferry_ctx_destroy(ctx) : rc;
}

static int count(ferry_job_t *job, void *box, const char *path)
{
    ferry_ctx_t *ctx;
    char bytes[64] = {1};
    int rc = ferry_ctx_create(job, 0, &ctx);
    for (unsigned i = 0; rc == FERRY_OK && i < 100000; i++)
        rc = ferry_put(ctx, box, bytes, sizeof bytes, 1);
    for (unsigned i = 0; rc == FERRY_OK && i < 1000; i++)
        rc = ferry_get(ctx, bytes, box, 8, 1);
    if (rc == FERRY_OK)
        work_until(path);
    return rc == FERRY_OK ? ferry_ctx_destroy(ctx) : rc;
}

int main(int argc, char **argv)
{
    ferry_job_t *job;
    int rc = argc == 3 ? ferry_init(NULL, &job) : FERRY_ERR_ARG;
    if (rc != FERRY_OK)
        return 1;
    int me = ferry_my_pe(job);
    uint64_t *word = ferry_calloc(job, 1, sizeof *word);
    void *box = ferry_calloc(job, 1, 4096);
    if (!word || !box)
        return 1;
    printf("ready\n");
    fflush(stdout);
    if (strcmp(argv[1], "barrier") == 0) {
        if (me == 2)
            raise(SIGSTOP);
        rc = ferry_barrier(job);
    } else if (strcmp(argv[1], "busy") == 0) {
        if (me == 1)
            work_until(argv[2]);
        for (int pe = 0; me == 1 && pe < ferry_n_pes(job); pe++)
            ferry_signal(ferry_ctx_default(job), word, 1, FERRY_SIGNAL_SET, pe);
        rc = ferry_wait_until(job, word, FERRY_CMP_EQ, 1);
    } else if (strcmp(argv[1], "count") == 0) {
        rc = me == 0 ? count(job, box, argv[2]) : FERRY_OK;
        if (rc == FERRY_OK)
            rc = ferry_barrier(job);
    } else if (strcmp(argv[1], "puts") == 0) {
        rc = me == 0 ? put_until(job, box, argv[2]) : FERRY_OK;
        if (rc == FERRY_OK)
            rc = ferry_barrier(job);
    }
    return rc == FERRY_OK && ferry_finalize(job) == FERRY_OK ? 0 : 1;
}
