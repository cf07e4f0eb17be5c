/* SPDX-License-Identifier: Apache-2.0
 * Requests that take effect later, by script. Others overtake them as far as a reliable queue pair lets them: a write
 * stays behind writes, an atomic or a read behind everything, a fenced request behind atomics and reads; a write passes
 * atomics and reads that are on their way. Completions keep the order of posting.
 * Any thread, under the stand-in's lock. Where the delay is a time, a thread of its own carries them out, as a device
 * would with nobody polling. */
#include "internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define TICK 20000 /* ns between two looks of the thread */

struct request {
    struct request *next;
    struct ibv_send_wr wr;
    struct ibv_sge sge;
    int polls;
    uint64_t due; /* ns */
    bool done;
    struct fv_bad bad; /* by script */
    enum ibv_wc_status status;
    uint32_t vendor;
    char data[]; /* inline */
};

static struct {
    pthread_t thread;
    pthread_cond_t wake;
    bool running, stop;
} worker = {.wake = PTHREAD_COND_INITIALIZER};

static uint64_t now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static bool chosen(const struct qp *qp, const struct ibv_send_wr *wr)
{
    const struct fv_delay *d = &fv.delay;
    unsigned kind = wr->opcode == IBV_WR_RDMA_WRITE  ? FAKEVERBS_WRITES
                    : wr->opcode == IBV_WR_RDMA_READ ? FAKEVERBS_READS
                                                     : FAKEVERBS_ATOMICS;

    return d->kinds & kind && (!d->qp_num || d->qp_num == qp->v.qp_num);
}

bool fv_delayed(const struct qp *qp, const struct ibv_send_wr *wr)
{
    return qp->first || chosen(qp, wr);
}

/* ------------------------------------------------------------------ in order, as far as it has to be */

struct open {
    bool writes, reads, atomics; /* not yet done, of those before */
};

static bool held_back(const struct request *r, const struct open *o)
{
    if (r->wr.opcode == IBV_WR_RDMA_WRITE)
        return o->writes;
    return o->writes || o->reads || o->atomics;
}

static void note(struct open *o, const struct request *r)
{
    o->writes |= r->wr.opcode == IBV_WR_RDMA_WRITE;
    o->reads |= r->wr.opcode == IBV_WR_RDMA_READ;
    o->atomics |= r->wr.opcode != IBV_WR_RDMA_WRITE && r->wr.opcode != IBV_WR_RDMA_READ;
}

/* Carries out what may go; what stands behind a failure or a closed fence may not. */
static void start(struct qp *qp, uint64_t time)
{
    struct open o = {0};

    for (struct request *r = qp->first; r; r = r->next) {
        if (r->done && r->status != IBV_WC_SUCCESS)
            return;
        if (r->done)
            continue;
        if (r->wr.send_flags & IBV_SEND_FENCE && (o.reads || o.atomics))
            return;
        if (r->polls > 0 || r->due > time || held_back(r, &o)) {
            note(&o, r);
            continue;
        }
        r->status = fv_execute(qp, &r->wr, &r->vendor);
        if (r->bad.status != IBV_WC_SUCCESS) {
            r->status = r->bad.status;
            r->vendor = r->bad.vendor;
        }
        r->done = true;
    }
}

static void advance(struct qp *qp, uint64_t time)
{
    if (qp->v.state == IBV_QPS_RTS)
        start(qp, time);
    while (qp->first && (qp->first->done || qp->v.state != IBV_QPS_RTS)) {
        struct request *r = qp->first;
        qp->first = r->next;
        fv_finish(qp, &r->wr, r->status, r->vendor);
        free(r);
    }
}

static void advance_all(const struct ibv_cq *polled)
{
    uint64_t time = now();

    for (struct qp **at = &fv.delayed; *at;) {
        struct qp *qp = *at;
        for (struct request *r = qp->first; r && polled == qp->v.send_cq; r = r->next)
            r->polls -= r->polls > 0;
        advance(qp, time);
        if (qp->first)
            at = &qp->next;
        else
            *at = qp->next;
    }
}

void fv_delay_polled(const struct ibv_cq *cq)
{
    if (fv.delayed)
        advance_all(cq);
}

/* ------------------------------------------------------------------ the device's own thread */

static void *work(void *arg)
{
    (void)arg;
    pthread_mutex_lock(&fv.lock);
    while (!worker.stop) {
        struct timespec until;
        advance_all(NULL);
        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_nsec += TICK;
        if (until.tv_nsec >= 1000000000) {
            until.tv_sec++;
            until.tv_nsec -= 1000000000;
        }
        if (fv.delayed)
            pthread_cond_timedwait(&worker.wake, &fv.lock, &until);
        else
            pthread_cond_wait(&worker.wake, &fv.lock);
    }
    pthread_mutex_unlock(&fv.lock);
    return NULL;
}

static void wake(void)
{
    if (!worker.running)
        worker.running = pthread_create(&worker.thread, NULL, work, NULL) == 0;
    pthread_cond_signal(&worker.wake);
}

void fv_delay_stop(void)
{
    pthread_mutex_lock(&fv.lock);
    bool running = worker.running;
    worker.stop = true;
    worker.running = false;
    pthread_cond_signal(&worker.wake);
    pthread_mutex_unlock(&fv.lock);
    if (running)
        pthread_join(worker.thread, NULL);
    worker.stop = false;
}

/* ------------------------------------------------------------------ taking and giving up */

int fv_delay(struct qp *qp, const struct ibv_send_wr *wr, const struct fv_bad *bad)
{
    const struct ibv_sge *sge = wr->num_sge ? wr->sg_list : NULL;
    size_t inlined = sge && wr->send_flags & IBV_SEND_INLINE ? sge->length : 0;
    struct request *r = calloc(1, sizeof *r + inlined), **at;

    if (!r)
        return ENOMEM;
    r->wr = *wr;
    r->wr.next = NULL;
    r->bad = *bad;
    if (sge) {
        r->sge = *sge;
        r->wr.sg_list = &r->sge;
    }
    if (inlined) {
        memcpy(r->data, (const void *)(uintptr_t)sge->addr, inlined);
        r->sge.addr = (uintptr_t)r->data;
    }
    if (chosen(qp, wr)) {
        r->polls = fv.delay.polls;
        r->due = fv.delay.ns ? now() + fv.delay.ns : 0;
    }
    if (!qp->first) {
        qp->next = fv.delayed;
        fv.delayed = qp;
    }
    for (at = &qp->first; *at; at = &(*at)->next)
        ;
    *at = r;
    start(qp, now());
    if (r->due)
        wake();
    return 0;
}

void fv_delay_drop(struct qp *qp)
{
    for (struct qp **at = &fv.delayed; *at; at = &(*at)->next)
        if (*at == qp) {
            *at = qp->next;
            break;
        }
    while (qp->first) {
        struct request *r = qp->first;
        qp->first = r->next;
        free(r);
    }
}
