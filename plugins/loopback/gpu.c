/* SPDX-License-Identifier: Apache-2.0
 * GPU memory, where the core has it (ferry_core.gpu_ops): puts and gets by the GPU's engines, a queue of copies for
 * each channel. Copies: channel threads. Queues are made at a channel's first copy, and end with the channel. */
#include "guise.h"

#include <errno.h>
#include <stdlib.h>

#define WHY 200

/* A failure of the core's, with its words. */
static int failed(struct ferry_transport *t, int64_t peer, int status, const char *doing)
{
    char why[WHY];

    t->gpu->why(t->core, why, sizeof why);
    return fy_lb_fail(t, peer, status, 0, "", "%s: %s", doing, why);
}

void fy_lb_gpu_open(struct ferry_transport *t)
{
    const struct ferry_core *core = t->core;

    if (core->size >= offsetof(struct ferry_core, gpu_ops) + sizeof core->gpu_ops)
        t->gpu = core->gpu_ops;
}

/* Copies run beside the CPU's stores and loads: no order, and no atomics. */
void fy_lb_gpu_caps(const struct ferry_caps *host, struct ferry_caps *gpu)
{
    *gpu = *host;
    gpu->flags &= ~(FERRY_CAP_PUT_SIGNAL | FERRY_CAP_SIGNAL_STRONG | FERRY_CAP_FENCED | FERRY_CAP_DIRECT);
    gpu->order = 0;
    gpu->domain = FERRY_DOMAIN_NONE;
    gpu->amo32 = gpu->amo64 = 0;
    gpu->copy_max = gpu->inline_max = 0;
}

int fy_lb_gpu_moves(const struct ferry_op *op)
{
    return op->kind <= FERRY_OP_GET &&
           (op->key->kind == FERRY_MEMORY_GPU || (op->region && op->region->kind == FERRY_MEMORY_GPU));
}

int fy_lb_gpu_rma(struct ferry_transport *t, uint32_t channel, const struct ferry_op *op)
{
    struct ferry_gpu_queue **queue = &t->guise->queues[channel];
    char *there = op->key->base + op->offset;
    int status;

    if (!op->length)
        return FERRY_DONE;
    if (!*queue && (status = t->gpu->open_queue(t->core, queue)))
        return failed(t, op->peer, status, "loopback cannot start to copy");
    if (op->kind == FERRY_OP_PUT)
        status = t->gpu->copy(t->core, *queue, there, op->local, op->length);
    else
        status = t->gpu->copy(t->core, *queue, op->local, there, op->length);
    return status < 0 ? failed(t, op->peer, status, "loopback cannot copy") : status;
}

int fy_lb_gpu_quiet(struct ferry_transport *t, uint32_t channel, uint32_t peer, uint64_t *ticket)
{
    struct ferry_gpu_queue *queue = t->guise->queues[channel];
    int status;

    if (!queue) {
        *ticket = 1;
        return FERRY_OK;
    }
    status = t->gpu->copied(t->core, queue, ticket);
    return status < 0 ? failed(t, peer == FERRY_PEER_ALL ? -1 : (int64_t)peer, status, "copies of loopback failed")
                      : status;
}

int fy_lb_close_channel(struct ferry_transport *t, uint32_t channel)
{
    struct fy_lb_guise *g = t->guise;

    if (t->gpu && g && channel < g->max_channels && g->queues[channel]) {
        t->gpu->close_queue(t->core, g->queues[channel]);
        g->queues[channel] = NULL;
    }
    return FERRY_OK;
}

/* Memory of another PE of this process. */
int fy_lb_gpu_share(struct ferry_transport *t, const struct fy_lb_key *in)
{
    int status =
        in->head.pe == t->my_pe ? FERRY_OK : t->gpu->share(t->core, (void *)(uintptr_t)in->address, in->length);

    return status < 0 ? failed(t, in->head.pe, status, "GPU memory of a PE of this process") : FERRY_OK;
}

int fy_lb_gpu_import(struct ferry_transport *t, uint32_t peer, int fd, size_t length, struct ferry_rkey *key)
{
    int status = t->gpu->import_fd(t->core, fd, length, &key->map);

    if (status < 0)
        return failed(t, peer, status, "GPU memory of another process");
    key->map_length = key->length = length;
    key->base = key->map;
    return FERRY_OK;
}
