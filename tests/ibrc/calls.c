/* SPDX-License-Identifier: Apache-2.0
 * What a call of the application costs over ibrc: PE 0 posts N small operations and waits for them, PE 1 is not
 * running. usage: calls put|signal N. calls.sh counts what is executed below measured(). PEs are threads. */
#include "pes.h"

#include <semaphore.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct scene {
    bool signal;
    long n;
    sem_t done;
};

/* What is counted: entered once for all N. */
__attribute__((noinline)) void measured(ferry_ctx_t *ctx, uint64_t *words, const struct scene *scene, int *status);
__attribute__((noinline)) void measured(ferry_ctx_t *ctx, uint64_t *words, const struct scene *scene, int *status)
{
    uint64_t value = 1;
    int rc = FERRY_OK;
    for (long i = 0; i < scene->n && rc == FERRY_OK; i++)
        rc = scene->signal ? ferry_put_signal_nbi(ctx, words, &value, sizeof value, words + 8, 1, FERRY_SIGNAL_ADD, 1)
                           : ferry_put_nbi(ctx, words, &value, sizeof value, 1);
    *status = rc == FERRY_OK ? ferry_quiet(ctx) : rc;
}

static void body(struct pe *pe)
{
    struct scene *scene = pe->arg;
    uint64_t *words = ferry_calloc(pe->job, 16, sizeof *words), value = 1;
    ferry_ctx_t *ctx;
    int status = FERRY_OK;
    if (!EXPECT(pe, words) || !EXPECT_OK(pe, ferry_barrier(pe->job)))
        return;
    if (pe->rank == 0 && EXPECT_OK(pe, ferry_ctx_create(pe->job, 0, &ctx))) {
        EXPECT_OK(pe, ferry_put(ctx, words, &value, sizeof value, 1)); /* connects */
        EXPECT_OK(pe, ferry_quiet(ctx));
        measured(ctx, words, scene, &status);
        EXPECT_OK(pe, status);
        EXPECT_OK(pe, ferry_ctx_destroy(ctx));
        sem_post(&scene->done);
    } else if (pe->rank == 1) {
        sem_wait(&scene->done);
        EXPECT(pe, words[0] == 1 && words[8] == (scene->signal ? (uint64_t)scene->n : 0));
    }
}

int main(int argc, char **argv)
{
    static const char *const options[] = {"FERRY_TRANSPORT=ibrc", "FERRY_HEAP_SIZE=1G", "FERRY_PEER_TIMEOUT=0", NULL};
    struct scene scene = {.signal = argc > 1 && strcmp(argv[1], "signal") == 0, .n = argc > 2 ? atol(argv[2]) : 0};
    struct run run = {.n = 2, .body = body, .arg = &scene, .options = options};
    sem_init(&scene.done, 0, 0);
    return pes_run(&run) == 0 ? 0 : 1;
}
