/* SPDX-License-Identifier: Apache-2.0
 * Operations that fail or are lost, and tickets that are never good afterwards. Channel thread; quiet and progress of
 * the service thread, too. */
#include "fault.h"

static uint64_t stream(const struct ferry_transport *t, uint32_t channel, uint32_t peer)
{
    return 1 + (uint64_t)channel * t->n_pes + peer;
}

/* What a call that fires answers. */
static int answer(struct ferry_transport *t, uint32_t channel, uint32_t peer)
{
    if (t->how != FAULT_LOST)
        return FERRY_ERR_TRANSPORT;
    atomic_store(&t->lost, stream(t, channel, peer));
    return FERRY_OK;
}

int fault_rma(struct ferry_transport *t, uint32_t channel, const struct ferry_op *op)
{
    if (fault_fires_on(t, FAULT_RMA, channel))
        return answer(t, channel, op->peer);
    return t->base.ops->rma(t->base.inner, channel, op);
}

int fault_amo(struct ferry_transport *t, uint32_t channel, const struct ferry_op *op)
{
    if (fault_fires_on(t, FAULT_AMO, channel))
        return answer(t, channel, op->peer);
    return t->base.ops->amo(t->base.inner, channel, op);
}

int fault_put_signal(struct ferry_transport *t, uint32_t channel, const struct ferry_op *op)
{
    if (fault_fires_on(t, FAULT_PUT_SIGNAL, channel))
        return answer(t, channel, op->peer);
    return t->base.ops->put_signal(t->base.inner, channel, op);
}

static int post_one(struct ferry_transport *t, uint32_t channel, const struct ferry_op *op)
{
    if (op->kind == FERRY_OP_AMO)
        return fault_amo(t, channel, op);
    if (op->kind == FERRY_OP_PUT_SIGNAL)
        return fault_put_signal(t, channel, op);
    return fault_rma(t, channel, op);
}

static bool of_one_operation(enum fault_call call)
{
    return call == FAULT_RMA || call == FAULT_AMO || call == FAULT_PUT_SIGNAL;
}

/* A batch that fails has its first operation fail; where single ones are meant, or the inner takes none, one by one. */
int fault_post(struct ferry_transport *t, uint32_t channel, const struct ferry_op *ops, size_t n, size_t *done)
{
    int rc;

    *done = 0;
    if (n > 0 && fault_fires_on(t, FAULT_POST, channel)) {
        rc = answer(t, channel, ops[0].peer);
        *done = rc == FERRY_OK ? n : 0;
        return rc;
    }
    if (!of_one_operation(t->call)) {
        rc = t->base.ops->post(t->base.inner, channel, ops, n, done);
        if (rc != FERRY_ERR_UNSUPPORTED || *done > 0)
            return rc;
    }
    for (*done = 0; *done < n; ++*done) {
        rc = post_one(t, channel, &ops[*done]);
        if (rc != FERRY_OK && rc != FERRY_DONE)
            return rc;
    }
    return FERRY_OK;
}

int fault_fence(struct ferry_transport *t, uint32_t channel, uint32_t peer)
{
    if (fault_fires_on(t, FAULT_FENCE, channel))
        return FERRY_ERR_TRANSPORT;
    return t->base.ops->fence(t->base.inner, channel, peer);
}

/* All later tickets cover what was lost. */
static bool covers_lost(const struct ferry_transport *t, uint32_t channel, uint32_t peer)
{
    uint64_t lost = atomic_load(&t->lost);

    if (!lost || channel == FERRY_CHANNEL_SERVICE)
        return false;
    if (peer == FERRY_PEER_ALL)
        return (lost - 1) / t->n_pes == channel;
    return lost == stream(t, channel, peer);
}

int fault_quiet(struct ferry_transport *t, uint32_t channel, uint32_t peer, uint64_t *ticket)
{
    if (fault_fires_on(t, FAULT_QUIET, channel))
        return t->how == FAULT_LOST ? answer(t, channel, peer == FERRY_PEER_ALL ? 0 : peer) : FERRY_ERR_TRANSPORT;
    if (!covers_lost(t, channel, peer))
        return t->base.ops->quiet(t->base.inner, channel, peer, ticket);
    if (*ticket == 0)
        *ticket = 1;
    return FERRY_AGAIN;
}

int fault_progress(struct ferry_transport *t, uint32_t channel)
{
    if (fault_fires_on(t, FAULT_PROGRESS, channel))
        return FERRY_ERR_TRANSPORT;
    return t->base.ops->progress(t->base.inner, channel);
}
