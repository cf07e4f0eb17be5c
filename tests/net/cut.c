/* SPDX-License-Identifier: Apache-2.0
 * A PE, or the host of one, goes away while each of the others is in another call: all these calls have to end, in bounded
 * time, with FERRY_ERR_PEER. Then it stays until its input ends. One thread. usage: net_cut CALL (put, get, fetch, signal, wait,
 * barrier, reduce, alloc). Prints "running" when the traffic has begun, and at the end: cut: pe N: CALL ended with STATUS, peer P, MESSAGE */
#include <ferry/ferry.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { PIECE = 256 << 10 };

struct scene {
    ferry_job_t *job;
    ferry_ctx_t *ctx;
    int me, n;
    char *box;       /* a piece for each PE */
    uint64_t *words; /* one for each PE, then one that nobody sets */
    char *local;
    bool told;
};

/* Once a round, until something fails. */
static int put(struct scene *s)
{
    int rc = FERRY_OK;
    for (int pe = 0; rc == FERRY_OK && pe < s->n; pe++)
        rc = ferry_put_signal_nbi(s->ctx, s->box + (size_t)s->me * PIECE, s->local, PIECE, &s->words[s->me], 1, FERRY_SIGNAL_ADD,
                                  pe);
    return rc == FERRY_OK ? ferry_quiet(s->ctx) : rc;
}

static int get(struct scene *s)
{
    int rc = FERRY_OK;
    for (int pe = 0; rc == FERRY_OK && pe < s->n; pe++)
        rc = ferry_get(s->ctx, s->local, s->box, PIECE, pe);
    return rc;
}

static int fetch(struct scene *s)
{
    uint64_t old;
    int rc = FERRY_OK;
    for (int pe = 0; rc == FERRY_OK && pe < s->n; pe++)
        rc = ferry_atomic_fetch_add(s->ctx, &s->words[s->me], 1, &old, pe);
    return rc;
}

static int signal_all(struct scene *s)
{
    int rc = FERRY_OK;
    for (int pe = 0; rc == FERRY_OK && pe < s->n; pe++)
        rc = ferry_signal(s->ctx, &s->words[s->me], 1, FERRY_SIGNAL_ADD, pe);
    return rc == FERRY_OK ? ferry_quiet(s->ctx) : rc;
}

static int wait_forever(struct scene *s)
{
    return ferry_wait_until(s->job, &s->words[s->n], FERRY_CMP_EQ, 1);
}

static int barrier(struct scene *s)
{
    return ferry_barrier(s->job);
}

static int reduce(struct scene *s)
{
    uint64_t in = 1, out;
    return ferry_reduce(ferry_team_world(s->job), &out, &in, 1, FERRY_TYPE_UINT64, FERRY_REDUCE_SUM);
}

static int alloc(struct scene *s)
{
    struct ferry_error why = {.size = sizeof why};
    if (ferry_malloc(s->job, 64))
        return FERRY_OK;
    ferry_last_error(s->job, &why);
    return why.status;
}

static const struct {
    const char *name;
    int (*call)(struct scene *s);
} calls[] = {{"put", put}, {"get", get}, {"fetch", fetch}, {"signal", signal_all}, {"wait", wait_forever}, {"barrier", barrier},
             {"reduce", reduce}, {"alloc", alloc}};

static int until_failure(struct scene *s, int (*call)(struct scene *s))
{
    int rc;
    do {
        if (!s->told) {
            printf("running\n");
            fflush(stdout);
            s->told = true;
        }
        rc = call(s);
    } while (rc == FERRY_OK);
    return rc;
}

int main(int argc, char **argv)
{
    struct scene s = {0};
    int (*call)(struct scene *s) = NULL;
    for (size_t i = 0; argc > 1 && i < sizeof calls / sizeof *calls; i++)
        if (strcmp(argv[1], calls[i].name) == 0)
            call = calls[i].call;
    if (!call || ferry_init(NULL, &s.job) != FERRY_OK)
        return 1;
    s.me = ferry_my_pe(s.job);
    s.n = ferry_n_pes(s.job);
    s.ctx = ferry_ctx_default(s.job);
    s.box = ferry_calloc(s.job, (size_t)s.n, PIECE);
    s.words = ferry_calloc(s.job, (size_t)s.n + 1, sizeof *s.words);
    s.local = calloc(1, PIECE);
    if (!s.box || !s.words || !s.local || put(&s) != FERRY_OK || ferry_barrier(s.job) != FERRY_OK)
        return 1;
    int rc = until_failure(&s, call);
    struct ferry_error why = {.size = sizeof why};
    ferry_last_error(s.job, &why);
    printf("cut: pe %d: %s ended with %s, peer %d, %s\n", s.me, argv[1], ferry_status_string(rc), why.peer, why.message);
    fflush(stdout);
    while (getchar() != EOF) /* till the others have ended their calls: nobody is to hear that this PE left */
        ;
    ferry_finalize(s.job); /* fails: a peer is dead */
    free(s.local);
    return rc == FERRY_ERR_PEER ? 0 : 1;
}
