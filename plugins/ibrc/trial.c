/* SPDX-License-Identifier: Apache-2.0
 * What only a trial tells of a device: how much it inlines, and whether the old value of an atomic comes back as this
 * machine reads it. No attribute of verbs has the byte order of replies.
 * Setup thread, once, in open. */
#include "ibrc.h"

#include <errno.h>
#include <sched.h>
#include <string.h>
#include <time.h>

#define PATTERN   UINT64_C(0x0102030405060708)
#define TRIAL_MAX 2.0 /* seconds */

static double now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* NULL, or what went wrong. */
static const char *wait_for(struct ibv_cq *cq)
{
    double end = now() + TRIAL_MAX;
    struct ibv_wc wc;
    int n;

    do {
        n = ibv_poll_cq(cq, 1, &wc);
        if (n == 0)
            sched_yield();
    } while (n == 0 && now() < end);
    if (n < 0)
        return "the completion queue cannot be polled";
    if (n == 0)
        return "no completion within 2 s";
    return wc.status == IBV_WC_SUCCESS ? NULL : ibv_wc_status_str(wc.status);
}

/* Connects the queue pair to itself. */
static int to_itself(struct ferry_transport *t, struct fy_ib_rail *rail, struct ibv_qp *qp)
{
    struct fy_ib_hello h;
    int rc = fy_ib_qp_init(t, rail, qp);

    fy_ib_greet(t, (uint32_t)(rail - t->rails), qp, 0, &h);
    if (!rc)
        rc = fy_ib_qp_ready(t, rail, qp, &h, 0);
    return rc ? rc : fy_ib_qp_send(t, qp, 0, 1);
}

/* Adds 1 to a word of our own through the device. NULL, or what went wrong. */
static const char *add_one(const struct fy_ib_device *d, const struct fy_ib_made *made, const struct ibv_mr *mr,
                           uint64_t *word, uint64_t *old)
{
    struct ibv_sge data = {.addr = (uintptr_t)old, .length = 8, .lkey = mr->lkey};
    struct ibv_send_wr *bad, wr = {.sg_list = &data,
                                   .num_sge = 1,
                                   .opcode = IBV_WR_ATOMIC_FETCH_AND_ADD,
                                   .send_flags = IBV_SEND_SIGNALED,
                                   .wr.atomic = {.remote_addr = (uintptr_t)word, .compare_add = 1, .rkey = mr->rkey}};
    int error;

    __atomic_store_n(word, PATTERN, __ATOMIC_RELEASE);
    error = made->ex ? fy_ib_wr_list(made->ex, &wr) : ibv_post_send(made->qp, &wr, &bad);
    return error ? strerror(error) : wait_for(d->idle_cq);
}

/* Where replies come in the other byte order, nothing is native: the additions that ask for no reply would be, but
 * words are shared with those that do. */
static void try_atomics(struct ferry_transport *t, struct fy_ib_rail *rail, const struct fy_ib_made *made)
{
    const struct fy_ib_device *d = &t->devices[rail->device];
    uint64_t *word = t->scratch + 16, *old = t->scratch + 24, got = 0;
    struct ibv_mr *mr = ibv_reg_mr(d->pd, t->scratch, 4096, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_ATOMIC);
    const char *why = mr ? NULL : strerror(errno);

    if (!why && to_itself(t, rail, made->qp))
        why = t->failure.message;
    if (!why)
        why = add_one(d, made, mr, word, old);
    if (!why) {
        got = __atomic_load_n(old, __ATOMIC_ACQUIRE);
        t->atomics = got == PATTERN && __atomic_load_n(word, __ATOMIC_ACQUIRE) == PATTERN + 1;
    }
    if (why) {
        t->atomics = 0;
        t->core->log(t->core, FERRY_LOG_WARN,
                     "%s:%u: atomics by the targets' CPUs, since one that was tried failed: %s", d->name, rail->port,
                     why);
    } else if (!t->atomics) {
        t->core->log(t->core, FERRY_LOG_WARN, "%s:%u: atomics by the targets' CPUs, since the device's replies are %s",
                     d->name, rail->port, got == __builtin_bswap64(PATTERN) ? "of the other byte order" : "wrong");
    }
    if (mr)
        ibv_dereg_mr(mr);
    memset(&t->failure, 0, sizeof t->failure); /* told, and no failure of the instance */
}

/* What devices grant as inline data is known once they have made a queue pair. */
static int try_rail(struct ferry_transport *t, struct fy_ib_rail *rail, int first)
{
    const struct fy_ib_device *d = &t->devices[rail->device];
    struct fy_ib_made made;
    int rc = fy_ib_qp_make(t, rail, d->pd, d->idle_cq, &made);

    if (rc)
        return rc;
    if (made.inline_max < t->inline_max)
        t->inline_max = made.inline_max;
    if (first && t->atomics)
        try_atomics(t, rail, &made);
    ibv_destroy_qp(made.qp);
    return FERRY_OK;
}

int fy_ib_try(struct ferry_transport *t)
{
    t->inline_max = t->options.inline_size;
    for (uint32_t i = 0; i < t->n_rails; i++) {
        int rc = try_rail(t, &t->rails[i], i == 0);
        if (rc)
            return rc;
    }
    if (t->inline_max < 8)
        return fy_ib_fail(t, -1, FERRY_ERR_DEVICE, 0, "", "RDMA device %s inlines %u bytes; 8 are needed",
                          t->devices[0].name, t->inline_max);
    return FERRY_OK;
}
