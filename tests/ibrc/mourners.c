/* SPDX-License-Identifier: Apache-2.0
 * The last PE dies with a put to it on its way. The others acknowledge the death; when the put fails after that, it is
 * old news, and must not end a wait for the living. Run over the stand-in with slow writes under ferry-run, 3 PEs, one
 * thread each. */
#include <ferry/ferry.h>
#include <signal.h>
#include <stdio.h>

enum { PUTTER, LIVING, VICTIM, PES };

struct heap {
    uint64_t data, go, never, alive, ready;
};

/* Until the job, and not only the device, knows of the death. */
static int hear(ferry_job_t *job, struct heap *heap)
{
    struct ferry_error record;
    int rc;
    do {
        rc = ferry_wait_until(job, &heap->never, FERRY_CMP_NE, 0);
        record.size = sizeof record;
        ferry_last_error(job, &record);
    } while (rc == FERRY_ERR_PEER && record.library_status != 0);
    return rc == FERRY_ERR_PEER ? ferry_acknowledge_failures(job) : rc;
}

static int putter(ferry_job_t *job, struct heap *heap, ferry_ctx_t *fast)
{
    static uint64_t source = 7;
    int rc = ferry_wait_until(job, &heap->ready, FERRY_CMP_EQ, 1); /* the living one has left the allocation */
    if (rc == FERRY_OK)
        rc = ferry_put_nbi(ferry_ctx_default(job), &heap->data, &source, sizeof source, VICTIM);
    if (rc == FERRY_OK) /* an atomic on another channel does not wait for the put */
        rc = ferry_atomic_add(fast, &heap->go, 1, VICTIM);
    rc = rc == FERRY_OK ? hear(job, heap) : rc;
    return rc == FERRY_OK ? ferry_wait_until(job, &heap->alive, FERRY_CMP_EQ, 1) : rc;
}

static int living(ferry_job_t *job, struct heap *heap)
{
    int rc = ferry_signal(ferry_ctx_default(job), &heap->ready, 1, FERRY_SIGNAL_SET, PUTTER);
    rc = rc == FERRY_OK ? ferry_quiet(ferry_ctx_default(job)) : rc;
    rc = rc == FERRY_OK ? hear(job, heap) : rc;
    if (rc == FERRY_OK) /* slow, so it comes after the put has failed */
        rc = ferry_signal(ferry_ctx_default(job), &heap->alive, 1, FERRY_SIGNAL_SET, PUTTER);
    return rc == FERRY_OK ? ferry_quiet(ferry_ctx_default(job)) : rc;
}

int main(void)
{
    ferry_job_t *job;
    ferry_ctx_t *fast;
    if (ferry_init(NULL, &job) != FERRY_OK)
        return 1;
    struct heap *heap = ferry_calloc(job, 1, sizeof *heap);
    int me = ferry_my_pe(job), rc = FERRY_ERR_NOMEM;
    if (!heap || ferry_n_pes(job) != PES || ferry_ctx_create(job, 0, &fast) != FERRY_OK)
        return 1;
    if (me == VICTIM && ferry_wait_until(job, &heap->go, FERRY_CMP_EQ, 1) == FERRY_OK)
        raise(SIGKILL);
    rc = me == PUTTER ? putter(job, heap, fast) : living(job, heap);
    printf("mourners: pe %d: %s\n", me, ferry_status_string(rc));
    fflush(stdout);
    ferry_finalize(job); /* fails: a peer is dead */
    return rc == FERRY_OK ? 0 : 1;
}
