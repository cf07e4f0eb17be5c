/* SPDX-License-Identifier: Apache-2.0
 * Completion queues, registrations, queue pairs and address handles of the stand-in: made, changed, destroyed.
 * Any thread. */
#include "internal.h"
#include "reach.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#undef ibv_reg_mr

static int device_of(struct ibv_context *context)
{
    return ((struct context *)((char *)context - offsetof(struct context, v.context)))->device;
}

void *fv_begin(const char *call, size_t size)
{
    void *object = calloc(1, size);
    int error;

    pthread_mutex_lock(&fv.lock);
    error = object ? fv_failing(call) : ENOMEM;
    if (!error)
        return object;
    pthread_mutex_unlock(&fv.lock);
    free(object);
    errno = error;
    return NULL;
}

int fv_end(long *count, void *object)
{
    pthread_mutex_lock(&fv.lock);
    --*count;
    pthread_mutex_unlock(&fv.lock);
    free(object);
    return 0;
}

struct ibv_ah *ibv_create_ah(struct ibv_pd *pd, struct ibv_ah_attr *attr)
{
    struct ibv_ah *ah = fv_begin("create_ah", sizeof *ah);
    const struct context *c = (struct context *)((char *)pd->context - offsetof(struct context, v.context));

    if (!ah)
        return NULL;
    if (fv_shape_silent(c->device, attr->grh.sgid_index)) {
        pthread_mutex_unlock(&fv.lock);
        free(ah);
        errno = ETIMEDOUT;
        return NULL;
    }
    ah->context = pd->context;
    fv.counts.ahs++;
    pthread_mutex_unlock(&fv.lock);
    return ah;
}

int ibv_destroy_ah(struct ibv_ah *ah)
{
    return fv_end(&fv.counts.ahs, ah);
}

static struct cq *make_cq(struct ibv_context *context, const char *call, uint32_t entries)
{
    struct ibv_wc *ring = entries ? calloc(entries, sizeof *ring) : NULL;
    struct cq *cq = ring ? fv_begin(call, sizeof *cq) : NULL;

    if (!cq) {
        int error = ring ? errno : EINVAL;
        free(ring);
        errno = error;
        return NULL;
    }
    cq->v.context = context;
    cq->v.cqe = (int)entries;
    cq->ring = ring;
    cq->size = entries;
    fv.counts.cqs++;
    return cq;
}

struct ibv_cq *ibv_create_cq(struct ibv_context *context, int cqe, void *cq_context, struct ibv_comp_channel *channel,
                             int vector)
{
    struct cq *cq = make_cq(context, "create_cq", cqe > 0 ? (uint32_t)cqe : 0);

    (void)cq_context, (void)channel, (void)vector;
    if (!cq)
        return NULL;
    pthread_mutex_unlock(&fv.lock);
    return &cq->v;
}

struct ibv_cq_ex *fv_create_cq_ex(struct ibv_context *context, struct ibv_cq_init_attr_ex *attr)
{
    struct pd *pd = attr->comp_mask & IBV_CQ_INIT_ATTR_MASK_PD ? (struct pd *)attr->parent_domain : NULL;
    int takes = fv.offers & FAKEVERBS_CQ_EX && (!pd || fv.offers & FAKEVERBS_CQ_PD);
    struct cq *cq = takes ? make_cq(context, "create_cq", attr->cqe) : NULL;

    if (!cq) {
        errno = takes ? errno : EOPNOTSUPP;
        return NULL;
    }
    cq->pd = pd;
    cq->td = pd ? pd->td : NULL;
    if (pd)
        pd->users++;
    fv.counts.alone +=
        attr->comp_mask & IBV_CQ_INIT_ATTR_MASK_FLAGS && attr->flags & IBV_CREATE_CQ_ATTR_SINGLE_THREADED;
    pthread_mutex_unlock(&fv.lock);
    return &cq->ex;
}

int ibv_destroy_cq(struct ibv_cq *v)
{
    struct cq *cq = (struct cq *)v;

    pthread_mutex_lock(&fv.lock);
    if (cq->pd)
        cq->pd->users--;
    pthread_mutex_unlock(&fv.lock);
    free(cq->ring);
    return fv_end(&fv.counts.cqs, cq);
}

static struct ibv_mr *reg(struct ibv_pd *pd, const char *call, void *addr, size_t length, unsigned access)
{
    bool writes = access & (IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC);
    struct ibv_mr *mr = fv_begin(call, sizeof *mr);
    struct entry_mr *e = NULL;
    int error = EINVAL;

    if (!mr)
        return NULL;
    fv_table_lock();
    if (length <= fv.max_mr && (!writes || access & IBV_ACCESS_LOCAL_WRITE)) {
        e = fv_table_new_mr();
        error = ENOMEM;
    }
    if (e) {
        e->address = (uintptr_t)addr;
        e->length = length;
        e->access = access;
        e->device = device_of(pd->context);
        if (access & (IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC))
            fv_reach_open(e);
        *mr = (struct ibv_mr){.context = pd->context, .pd = pd, .addr = addr, .length = length};
        mr->lkey = mr->rkey = e->number;
        ((struct pd *)pd)->users++;
        fv.counts.mrs++;
    }
    fv_table_unlock();
    pthread_mutex_unlock(&fv.lock);
    if (e)
        return mr;
    free(mr);
    errno = error;
    return NULL;
}

struct ibv_mr *ibv_reg_mr(struct ibv_pd *pd, void *addr, size_t length, int access)
{
    return reg(pd, "reg_mr", addr, length, (unsigned)access);
}

struct ibv_mr *ibv_reg_mr_iova2(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova, unsigned int access)
{
    (void)iova;
    return reg(pd, "reg_mr", addr, length, access);
}

/* The memory behind the file is the test's own, mapped where iova says. */
struct ibv_mr *ibv_reg_dmabuf_mr(struct ibv_pd *pd, uint64_t offset, size_t length, uint64_t iova, int fd, int access)
{
    (void)offset;
    if (!(fv.offers & FAKEVERBS_DMABUF) || fcntl(fd, F_GETFD) < 0) {
        errno = fv.offers & FAKEVERBS_DMABUF ? EBADF : EOPNOTSUPP;
        return NULL;
    }
    return reg(pd, "reg_dmabuf_mr", (void *)(uintptr_t)iova, length, (unsigned)access);
}

int ibv_dereg_mr(struct ibv_mr *mr)
{
    pthread_mutex_lock(&fv.lock);
    ((struct pd *)mr->pd)->users--;
    fv_table_lock();
    struct entry_mr *e = fv_table_mr(mr->rkey);
    fv_reach_close(e);
    e->number = 0;
    fv_table_unlock();
    pthread_mutex_unlock(&fv.lock);
    return fv_end(&fv.counts.mrs, mr);
}

/* A number for a queue pair; 0: there is none left. */
static uint32_t number_of(int device)
{
    struct entry_qp *e;
    uint32_t number = 0;

    fv_table_lock();
    e = fv_table_new_qp();
    if (e) {
        e->state = IBV_QPS_RESET;
        e->device = device;
        number = e->number;
    }
    fv_table_unlock();
    return number;
}

struct ibv_qp *ibv_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *attr)
{
    struct qp *qp = fv_begin("create_qp", sizeof *qp);
    uint32_t number = 0;

    if (!qp)
        return NULL;
    if (attr->cap.max_inline_data <= fv.inline_max && attr->cap.max_send_wr <= 1024)
        number = number_of(device_of(pd->context));
    if (!number) {
        pthread_mutex_unlock(&fv.lock);
        free(qp);
        errno = EINVAL;
        return NULL;
    }
    qp->v.context = pd->context;
    qp->v.pd = pd;
    qp->v.send_cq = attr->send_cq;
    qp->v.recv_cq = attr->recv_cq;
    qp->v.qp_num = number;
    qp->v.state = IBV_QPS_RESET;
    qp->cap = attr->cap;
    qp->device = device_of(pd->context);
    qp->td = ((struct pd *)pd)->td;
    ((struct pd *)pd)->users++;
    qp->serial = ++fv.serial;
    fv.qps[fv_place_qp(number)] = qp;
    fv.counts.qps++;
    pthread_mutex_unlock(&fv.lock);
    return &qp->v;
}

/* Looks through the completion queue, so it counts as in that queue's thread domain. */
int ibv_destroy_qp(struct ibv_qp *v)
{
    struct qp *qp = (struct qp *)v;
    struct td *td = ((struct cq *)v->send_cq)->td;

    fv_enter(td);
    pthread_mutex_lock(&fv.lock);
    ((struct pd *)v->pd)->users--;
    fv_delay_drop(qp);
    fv.qps[fv_place_qp(v->qp_num)] = NULL;
    fv_table_lock();
    fv_table_qp(v->qp_num)->number = 0;
    fv_table_unlock();
    pthread_mutex_unlock(&fv.lock);
    fv_leave(td);
    free(qp->stage);
    return fv_end(&fv.counts.qps, qp);
}

void fv_qp_state(struct qp *qp, enum ibv_qp_state state)
{
    qp->v.state = state;
    fv_table_lock();
    fv_table_qp(qp->v.qp_num)->state = (int)state;
    fv_table_unlock();
}

static void allow(struct qp *qp, unsigned access)
{
    fv_table_lock();
    fv_table_qp(qp->v.qp_num)->access = access;
    fv_table_unlock();
}

/* Is it the address of one of the devices, as these are now? */
static bool known(const union ibv_gid *gid)
{
    uint8_t device = (uint8_t)(gid->raw[15] - 1 - fv.address);

    return device < DEVICES_MAX;
}

int ibv_query_qp(struct ibv_qp *v, struct ibv_qp_attr *attr, int mask, struct ibv_qp_init_attr *made)
{
    int error;

    (void)mask;
    memset(made, 0, sizeof *made);
    pthread_mutex_lock(&fv.lock);
    error = fv_failing("query_qp");
    *attr = ((struct qp *)v)->attr;
    attr->qp_state = v->state;
    pthread_mutex_unlock(&fv.lock);
    return error;
}

int ibv_modify_qp(struct ibv_qp *v, struct ibv_qp_attr *attr, int mask)
{
    struct qp *qp = (struct qp *)v;
    static const struct step {
        enum ibv_qp_state from, to;
        int mask;
        const char *name;
    } steps[] = {
        {IBV_QPS_RESET, IBV_QPS_INIT, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS,
         "modify_init"},
        {IBV_QPS_INIT, IBV_QPS_RTR,
         IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
             IBV_QP_MIN_RNR_TIMER,
         "modify_rtr"},
        {IBV_QPS_RTR, IBV_QPS_RTS,
         IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC,
         "modify_rts"},
    };
    int error = EINVAL;

    pthread_mutex_lock(&fv.lock);
    if (attr->qp_state == IBV_QPS_ERR)
        error = 0;
    for (int i = 0; i < 3; i++)
        if (v->state == steps[i].from && attr->qp_state == steps[i].to && mask == steps[i].mask)
            error = fv_failing(steps[i].name);
    if (!error && attr->qp_state == IBV_QPS_INIT && attr->pkey_index)
        error = EINVAL;
    if (!error && attr->qp_state == IBV_QPS_RTR && attr->ah_attr.is_global && !known(&attr->ah_attr.grh.dgid))
        error = EHOSTUNREACH;
    if (!error && attr->qp_state == IBV_QPS_RTR)
        qp->dest = attr->dest_qp_num;
    if (!error && attr->qp_state == IBV_QPS_RTR)
        qp->attr = *attr;
    if (!error && attr->qp_state == IBV_QPS_RTS) {
        qp->attr.timeout = attr->timeout;
        qp->attr.retry_cnt = attr->retry_cnt;
        qp->attr.rnr_retry = attr->rnr_retry;
        qp->attr.max_rd_atomic = attr->max_rd_atomic;
        qp->attr.sq_psn = attr->sq_psn;
    }
    if (!error && attr->qp_state == IBV_QPS_INIT)
        allow(qp, (unsigned)attr->qp_access_flags);
    if (!error)
        fv_qp_state(qp, attr->qp_state);
    pthread_mutex_unlock(&fv.lock);
    return error;
}
