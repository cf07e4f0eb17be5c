/* SPDX-License-Identifier: Apache-2.0
 * A channel is a worker of UCX, with an endpoint per peer, and what its operations need prepared.
 * Setup thread. */
#include "ucx.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

int fy_ux_worker_make(struct ferry_transport *t, const char *what, ucp_worker_h *worker)
{
    /* Several threads may use it, one at a time; requests that are out when it is closed are not leaks. */
    ucp_worker_params_t params = {.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE | UCP_WORKER_PARAM_FIELD_FLAGS,
                                  .thread_mode = UCS_THREAD_MODE_SERIALIZED,
                                  .flags = UCP_WORKER_FLAG_IGNORE_REQUEST_LEAK};
    struct fy_ux_heard heard;
    ucs_status_t status;

    *worker = NULL;
    if (!fy_ux_descriptors(FY_UX_FEW / 2))
        return fy_ux_fail(t, -1, FERRY_ERR_LIMIT, UCS_OK, "raise ulimit -n", "too few file descriptors are left for %s of UCX", what);
    fy_ux_listen(&heard);
    status = ucp_worker_create(t->context.ucp, &params, worker);
    fy_ux_listened();
    if (status == UCS_OK)
        return FERRY_OK;
    *worker = NULL;
    return fy_ux_fail(t, -1, status == UCS_ERR_NO_MEMORY ? FERRY_ERR_NOMEM : FERRY_ERR_TRANSPORT, status,
                      "look at UCX_TLS and UCX_NET_DEVICES, ulimit -n, and df /dev/shm", "UCX cannot make a worker for %s: %s",
                      what, fy_ux_reason(&heard, status));
}

static void prepare_params(struct fy_ux_channel *c)
{
    for (int wide = 0; wide < 2; wide++) {
        c->no_reply[wide].op_attr_mask = UCP_OP_ATTR_FIELD_DATATYPE;
        c->no_reply[wide].datatype = ucp_dt_make_contig(wide ? 8 : 4);
        c->kept[wide] = c->no_reply[wide];
        c->kept[wide].op_attr_mask |= UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA;
        c->kept[wide].cb.send = fy_ux_far_done;
        c->reply[wide].op_attr_mask = UCP_OP_ATTR_FIELD_DATATYPE | UCP_OP_ATTR_FIELD_REPLY_BUFFER |
                                      UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA;
        c->reply[wide].datatype = c->no_reply[wide].datatype;
        c->reply[wide].cb.send = fy_ux_far_replied;
    }
    c->with_memh.op_attr_mask = UCP_OP_ATTR_FIELD_MEMH;
}

/* Slots are only touched when used. */
static int make_slots(struct fy_ux_channel *c)
{
    c->slots = calloc(FY_UX_SLOTS, sizeof *c->slots);
    if (!c->slots)
        return 0;
    for (uint32_t i = FY_UX_SLOTS; i-- > 0;) {
        c->slots[i].next = c->free;
        c->free = &c->slots[i];
    }
    return 1;
}

static int make_parts(struct fy_ux_channel *c)
{
    struct ferry_transport *t = c->t;

    c->peers = calloc(t->n_pes, sizeof *c->peers);
    if (!c->peers || (!t->at_once && !make_slots(c)))
        return fy_ux_fail(t, -1, FERRY_ERR_NOMEM, UCS_OK, "", "no memory for channel %u", c->id);
    for (uint32_t i = 0; i < t->n_pes; i++) {
        c->peers[i].channel = c;
        c->peers[i].pe = i;
    }
    prepare_params(c);
    return fy_ux_worker_make(t, "a channel", &c->worker);
}

/* UCX 1.13 ends the process when a worker goes that waits for a peer's answer, or still has something to send to one that
 * is silent, and has no way to give that up. */
static int stuck(const struct fy_ux_channel *c)
{
    return c->awaited || (c->unsent && c->t->context.shm) || (c->posted != c->flushed && __atomic_load_n(&c->status, __ATOMIC_ACQUIRE));
}

#define DRAIN_MS 500

static int64_t now_ms(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* Over shared memory what UCX itself still has to send, an acknowledgement for instance, ends the process, too. A flush waits for
 * it; but one that finds room in a queue again says that it is complete while something is kept back (quiet.c), which progress
 * sends: so both, and again. A peer that does not read any more gets half a second. 1: nothing is left. */
static int drained(const struct fy_ux_channel *c)
{
    ucp_worker_h worker = c->worker;
    ucp_request_param_t param = {.op_attr_mask = 0};
    int64_t end = now_ms() + DRAIN_MS;

    if (!worker || !c->t->context.shm)
        return 1;
    for (int i = 0; i < 3; i++) {
        ucs_status_ptr_t answer;
        while (ucp_worker_progress(worker) && now_ms() < end)
            ;
        answer = ucp_worker_flush_nbx(worker, &param);
        if (!UCS_PTR_IS_PTR(answer))
            continue;
        while (ucp_request_check_status(answer) == UCS_INPROGRESS && now_ms() < end)
            ucp_worker_progress(worker);
        if (ucp_request_check_status(answer) == UCS_INPROGRESS)
            return 0;
        ucp_request_free(answer);
    }
    return 1;
}

static void drop(struct fy_ux_channel *c)
{
    struct fy_ux_heard heard;
    int stays = stuck(c) || !drained(c);

    if (c->worker)
        fy_ux_keys_leave(c, !stays);
    if (c->worker && !stays) {
        fy_ux_listen(&heard); /* of what is still out: it is given up, and that is meant */
        ucp_worker_destroy(c->worker);
        fy_ux_listened();
    }
    c->t->abandoned |= stays; /* for nobody, and its context with it */
    for (uint32_t i = 0; c->peers && i < c->t->n_pes; i++)
        free(c->peers[i].endpoint);
    free(c->slots);
    free(c->peers);
    free(c);
}

int fy_ux_open_channel(struct ferry_transport *t, uint32_t channel)
{
    struct fy_ux_channel *c;
    int rc;

    if (channel >= t->max_channels)
        return FERRY_ERR_LIMIT;
    if (t->channels[channel])
        return FERRY_OK;
    c = calloc(1, sizeof *c);
    if (!c)
        return FERRY_ERR_NOMEM;
    c->t = t;
    c->id = channel;
    rc = make_parts(c);
    if (rc) {
        drop(c);
        return rc;
    }
    __atomic_store_n(&t->channels[channel], c, __ATOMIC_RELEASE); /* query_error looks from any thread */
    return FERRY_OK;
}

int fy_ux_close_channel(struct ferry_transport *t, uint32_t channel)
{
    struct fy_ux_channel *c = channel < t->max_channels ? t->channels[channel] : NULL;

    if (!c)
        return FERRY_OK;
    pthread_mutex_lock(&t->lock); /* query_error looks from any thread */
    __atomic_store_n(&t->channels[channel], NULL, __ATOMIC_RELEASE);
    pthread_mutex_unlock(&t->lock);
    drop(c);
    return FERRY_OK;
}

void fy_ux_channels_close(struct ferry_transport *t)
{
    for (uint32_t i = 0; t->channels && i < t->max_channels; i++)
        fy_ux_close_channel(t, i);
    free(t->channels);
}
