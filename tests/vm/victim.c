/* SPDX-License-Identifier: Apache-2.0
 * A PE is killed while all put to all: each of the others has to hear which one it was, and the living go on with each
 * other. Run by tests/vm under ferry-run, one process per PE, each of one thread. usage: vm_victim [seconds [device]]
 * `device`: the record must hold the status of the device's library. Prints one line per survivor. */
#include <ferry/ferry.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { LENGTH = 4096 };

struct heap {
    uint64_t beats[64]; /* by PE: grows with each of its rounds */
    char data[64][LENGTH];
};

struct survivor {
    ferry_job_t *job;
    struct heap *heap;
    int me, n, victim; /* numbers of PEs, and how many there are */
    struct ferry_error record;
};

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* One round to `pe`: data, and the beat that tells that this PE lives. */
static int touch(struct survivor *s, int pe, uint64_t round)
{
    static char source[LENGTH];
    ferry_ctx_t *ctx = ferry_ctx_default(s->job);
    int rc = ferry_put_signal_nbi(ctx, s->heap->data[s->me], source, LENGTH, &s->heap->beats[s->me], round,
                                  FERRY_SIGNAL_SET, pe);
    return rc == FERRY_OK ? ferry_quiet_pe(ctx, pe) : rc;
}

/* Rounds until one fails, or `seconds` after the victim's last beat. Returns the seconds from that beat to the failure;
 * -1 if none came. */
static double run_until_failure(struct survivor *s, double seconds)
{
    const volatile uint64_t *beat = &s->heap->beats[s->victim];
    double begin = now(), last = begin;
    uint64_t seen = 0;
    for (uint64_t round = 1; now() - last < seconds; round++) {
        if (s->me == s->victim && now() - begin > 1)
            raise(SIGKILL);
        if (*beat != seen) {
            seen = *beat;
            last = now();
        }
        for (int pe = 0; pe < s->n; pe++)
            if (pe != s->me && touch(s, pe, round) != FERRY_OK)
                return now() - last;
    }
    return -1;
}

static int touch_the_living(struct survivor *s)
{
    int rc = FERRY_OK;
    for (int pe = 0; rc == FERRY_OK && pe < s->n; pe++)
        if (pe != s->me && pe != s->victim)
            rc = touch(s, pe, UINT64_MAX);
    for (int pe = 0; rc == FERRY_OK && pe < s->n; pe++)
        if (pe != s->me && pe != s->victim)
            rc = ferry_wait_until(s->job, &s->heap->beats[pe], FERRY_CMP_EQ, UINT64_MAX);
    return rc;
}

/* The living: nothing of theirs may fail now. The device, or a request that the victim did not answer, may have told of
 * the death before the job did, which then tells, too. */
static bool living_go_on(struct survivor *s)
{
    int rc = ferry_acknowledge_failures(s->job);
    for (double begin = now(); s->me == 0 && now() - begin < 0.05;) /* the others wait long enough to look around */
        ;
    rc = rc == FERRY_OK ? touch_the_living(s) : rc;
    if (rc == FERRY_ERR_PEER && !strstr(s->record.message, "is dead") && ferry_acknowledge_failures(s->job) == FERRY_OK)
        rc = touch_the_living(s);
    if (rc != FERRY_OK) {
        struct ferry_error why = {.size = sizeof why};
        ferry_last_error(s->job, &why);
        printf("victim: pe %d: the living: %s: pe %d: %s\n", s->me, ferry_status_string(rc), why.peer, why.message);
    }
    return rc == FERRY_OK;
}

static bool judge(struct survivor *s, double took, bool device)
{
    if (took < 0) {
        printf("victim: pe %d heard nothing\n", s->me);
        return false;
    }
    s->record.size = sizeof s->record;
    ferry_last_error(s->job, &s->record);
    printf("victim: pe %d heard of pe %d after %.2f s: %s: %s (%s) [%s, library status %lld]\n", s->me, s->record.peer,
           took, ferry_status_string(s->record.status), s->record.message, s->record.hint, s->record.device,
           (long long)s->record.library_status);
    return s->record.peer == s->victim && (!device || s->record.library_status != 0);
}

int main(int argc, char **argv)
{
    struct survivor s = {0};
    double seconds = argc > 1 ? atof(argv[1]) : 10;
    bool device = argc > 2 && strcmp(argv[2], "device") == 0;
    if (ferry_init(NULL, &s.job) != FERRY_OK)
        return 1;
    s.heap = ferry_calloc(s.job, 1, sizeof *s.heap);
    s.me = ferry_my_pe(s.job);
    s.n = ferry_n_pes(s.job);
    s.victim = s.n - 1;
    if (!s.heap || s.n < 2 || s.n > 64)
        return 1;
    double took = run_until_failure(&s, seconds);
    bool good = judge(&s, took, device) && living_go_on(&s);
    fflush(stdout);
    ferry_finalize(s.job); /* fails: a peer is dead */
    return good ? 0 : 1;
}
