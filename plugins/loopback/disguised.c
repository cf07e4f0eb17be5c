/* SPDX-License-Identifier: Apache-2.0
 * The data path of an instance with a guise: operations are checked, carried out as a weaker fabric would, and where
 * that is pretended, complete only later. Channel threads; progress also the service thread. */
#include "guise.h"

#include <sched.h>
#include <string.h>

#define NIC_SPINS 200 /* between a NIC's load and its store: enough for a CPU's atomic to get lost in */

/* An operation as the plugin can carry it out: `local` where the CPU may touch it. */
static struct ferry_op placed(const struct ferry_op *op)
{
    struct ferry_op own = *op;

    if (op->kind == FERRY_OP_AMO && !(op->flags & FERRY_OP_FETCH))
        return own;
    if (op->local && op->length && op->region)
        own.local = op->region->place + ((char *)op->local - (char *)op->region->address);
    return own;
}

/* Without order, the bytes of a put do not come in order either: the second half is there first. */
static void carry_put(const struct ferry_transport *t, const struct ferry_op *op)
{
    struct ferry_op half = *op;

    if (!(t->guise->choice.worn & (FY_LB_UNORDERED | FY_LB_CQ_DATA)) || op->flags & FERRY_OP_WORD || op->length < 2) {
        fy_lb_put_any(t, op);
        return;
    }
    half.length = op->length - op->length / 2;
    half.offset = op->offset + op->length / 2;
    half.local = (char *)op->local + op->length / 2;
    fy_lb_put_any(t, &half);
    half.length = op->length / 2;
    half.offset = op->offset;
    half.local = op->local;
    fy_lb_put_any(t, &half);
}

/* The number of the target's next call of its service: every one up to the last that has begun may have passed the
 * operation by. */
static uint64_t next_service(const struct ferry_transport *t, const struct ferry_op *op)
{
    if (!(t->guise->choice.worn & FY_LB_TARGET_PROGRESS))
        return 0;
    return __atomic_load_n(&op->key->page->begun, __ATOMIC_ACQUIRE) + 1;
}

/* After the operation was carried out: FERRY_DONE, or FERRY_OK where it is to look incomplete. */
static int finish(struct ferry_transport *t, uint32_t channel, struct fy_lb_flow *flow, const struct ferry_op *op,
                  uint64_t value)
{
    if (!flow)
        return FERRY_DONE;
    fy_lb_flow_record(t->guise, channel, flow, op, next_service(t, op), value);
    return FERRY_OK;
}

static int admit(struct ferry_transport *t, uint32_t channel, const struct ferry_op *op, struct fy_lb_flow **flow)
{
    int status = fy_lb_guise_check(t, channel, op);

    *flow = NULL;
    if (!status && t->guise->deferred)
        status = fy_lb_flow_room(t, channel, op->peer, flow);
    return status;
}

int fy_lb_guise_rma(struct ferry_transport *t, uint32_t channel, const struct ferry_op *op)
{
    struct fy_lb_flow *flow;
    int status = admit(t, channel, op, &flow);

    if (!status && op->kind == FERRY_OP_PUT && op->flags & FERRY_OP_DATA)
        status = fy_lb_data_reserve(t, op);
    if (status)
        return status;
    if (t->gpu && fy_lb_gpu_moves(op))
        return fy_lb_gpu_rma(t, channel, op);
    struct ferry_op own = placed(op);
    if (op->kind == FERRY_OP_PUT) {
        carry_put(t, &own);
        if (op->flags & FERRY_OP_DATA)
            fy_lb_data_give(t, op);
    } else if (!flow) {
        fy_lb_get_any(&own);
    }
    return finish(t, channel, flow, &own, 0);
}

int fy_lb_guise_put_signal(struct ferry_transport *t, uint32_t channel, const struct ferry_op *op)
{
    struct fy_lb_flow *flow;
    int status = admit(t, channel, op, &flow);

    if (status)
        return status;
    struct ferry_op own = placed(op);
    if (op->length)
        carry_put(t, &own);
    fy_lb_signal_any(&own);
    return finish(t, channel, flow, &own, 0);
}

/* As a NIC does it: alone among those of the NIC, but a load, a moment, and a store to everybody else. */
static int nic_atomic(const struct ferry_op *op, uint64_t *old)
{
    uint64_t *word = (uint64_t *)(void *)(op->key->base + op->offset);
    uint64_t now;

    if (!fy_lb_nic_lock(op->key->page))
        return FERRY_AGAIN;
    *old = now = __atomic_load_n(word, __ATOMIC_ACQUIRE);
    for (int i = 0; i < NIC_SPINS; i++)
        __asm__ volatile("" ::: "memory");
    if (now % 64 == 63) /* on a busy machine nobody would come in between */
        sched_yield();
    if (op->amo == FERRY_AMO_ADD)
        now += op->operand;
    else if (now == op->compare)
        now = op->operand;
    __atomic_store_n(word, now, __ATOMIC_RELEASE);
    fy_lb_nic_unlock(op->key->page);
    return FERRY_OK;
}

int fy_lb_guise_amo(struct ferry_transport *t, uint32_t channel, const struct ferry_op *op)
{
    struct fy_lb_flow *flow;
    uint64_t value = 0;
    int status = admit(t, channel, op, &flow);

    if (status)
        return status;
    struct ferry_op own = placed(op), aside = own;
    aside.local = &value;
    if (t->guise->choice.worn & FY_LB_NIC)
        status = nic_atomic(&aside, &value);
    else
        fy_lb_amo_any(&aside);
    if (status)
        return status;
    if (!flow && op->flags & FERRY_OP_FETCH)
        memcpy(own.local, &value, op->width);
    return finish(t, channel, flow, &own, value);
}

int fy_lb_guise_quiet(struct ferry_transport *t, uint32_t channel, uint32_t peer, uint64_t *ticket)
{
    if (channel >= t->guise->max_channels || (peer != FERRY_PEER_ALL && peer >= t->n_pes))
        return fy_lb_fail(t, -1, FERRY_ERR_ARG, 0, "", "quiet of channel %u and PE %u: there is no such PE or channel",
                          channel, peer);
    if (peer != FERRY_PEER_ALL && t->guise->choice.worn & FY_LB_CHANNEL_SCOPE)
        return fy_lb_fail(t, peer, FERRY_ERR_ARG, 0, "ask for FERRY_PEER_ALL",
                          "loopback refuses a quiet of PE %u alone: FERRY_CAP_QUIET_PEER is not declared", peer);
    if (t->gpu)
        return fy_lb_gpu_quiet(t, channel, peer, ticket);
    if (t->guise->deferred)
        return fy_lb_flow_quiet(t, channel, peer, ticket);
    *ticket = 1;
    return FERRY_OK;
}

int fy_lb_guise_progress(struct ferry_transport *t, uint32_t channel)
{
    if (channel == FERRY_CHANNEL_SERVICE)
        return t->guise->page ? fy_lb_page_serve(t) : FERRY_AGAIN;
    if (channel >= t->guise->max_channels || !t->guise->deferred)
        return FERRY_AGAIN;
    return fy_lb_flow_progress(t, channel);
}
