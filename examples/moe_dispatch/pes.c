/* SPDX-License-Identifier: Apache-2.0
 * Several PEs in one process, a thread each (--pes): how a large job fits on a small machine. The library keeps nothing
 * per process, so each thread begins and ends a job of its own. Main thread; pe_main is each PE's. */
#include "moe.h"
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct pe {
    const struct moe_args *args;
    const struct model *model;
    uint32_t n_tokens;
    ferry_attr_t attr;
    pthread_t thread;
    int status;
};

static void *pe_main(void *arg)
{
    struct pe *pe = arg;
    pe->status = run_pe(pe->args, pe->model, pe->n_tokens, &pe->attr);
    return NULL;
}

/* A process that ferry-run started is PEs rank * n and following. One by itself makes the id. */
static int place_of(uint32_t n, ferry_uniqueid_t *id, uint32_t *first, uint32_t *n_pes)
{
    const char *rank = getenv("FERRY_RANK"), *size = getenv("FERRY_SIZE"), *text = getenv("FERRY_ID");
    *first = 0;
    *n_pes = n;
    if (!rank && !size && !text)
        return ferry_uniqueid_create(id);
    unsigned long long processes = size ? strtoull(size, NULL, 10) : 0, number = rank ? strtoull(rank, NULL, 10) : 0;
    if (!rank || !text || number >= processes || processes > INT32_MAX / n)
        return FERRY_ERR_ARG;
    *first = (uint32_t)number * n;
    *n_pes = (uint32_t)processes * n;
    return ferry_uniqueid_from_text(text, id);
}

static uint32_t start(struct pe *pes, uint32_t n)
{
    uint32_t started = 0;
    while (started < n && pthread_create(&pes[started].thread, NULL, pe_main, &pes[started]) == 0)
        started++;
    return started;
}

int run_pes(const struct moe_args *args, const struct model *model, uint32_t n_tokens)
{
    ferry_uniqueid_t id;
    uint32_t n = args->pes, first, n_pes;
    int rc = place_of(n, &id, &first, &n_pes);
    struct pe *pes = rc == FERRY_OK ? calloc(n, sizeof *pes) : NULL;
    if (!pes) {
        fprintf(stderr, MOE_NAME ": --pes '%" PRIu32 "': %s; alone it needs none of FERRY_RANK, FERRY_SIZE and FERRY_ID, "
                        "under ferry-run all of them\n",
                n, rc == FERRY_OK ? "no memory" : ferry_status_string(rc));
        return EXIT_FAILED;
    }
    for (uint32_t i = 0; i < n; i++)
        pes[i] = (struct pe){args, model, n_tokens, {.size = sizeof pes[i].attr, .bootstrap = FERRY_BOOTSTRAP_UNIQUEID,
                             .rank = (int)(first + i), .n_pes = (int)n_pes, .id = &id}, 0, EXIT_FAILED};
    uint32_t started = start(pes, n);
    int status = 0;
    if (started < n) { /* the others find out when FERRY_TIMEOUT is over */
        fprintf(stderr, MOE_NAME ": --pes '%" PRIu32 "': thread %" PRIu32 " cannot be started; raise ulimit -u\n", n, started);
        status = EXIT_FAILED;
    }
    for (uint32_t i = 0; i < started; i++) {
        pthread_join(pes[i].thread, NULL);
        status = status ? status : pes[i].status;
    }
    free(pes);
    return status;
}
