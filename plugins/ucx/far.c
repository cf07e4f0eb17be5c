/* SPDX-License-Identifier: Apache-2.0
 * Posting where an operation takes time: over a network, and by messages that the target's worker carries out.
 * Channel thread. No lock, no allocation, no system call of ours. */
#include "ucx.h"

#include <string.h>

int fy_ux_far_ready(struct fy_ux_channel *c, const struct ferry_op *op, int answered, ucp_rkey_h *rkey)
{
    struct ferry_rkey *key = (struct ferry_rkey *)(uintptr_t)op->key; /* the channel's part of it is the channel's */
    struct fy_ux_peer *p = &c->peers[op->peer];
    int rc = __atomic_load_n(&p->status, __ATOMIC_ACQUIRE);

    if (rc)
        return rc;
    if (!key->at[c->id].near && !key->at[c->id].far) {
        rc = fy_ux_key_unpack(c, key);
        if (rc)
            return rc;
    }
    *rkey = key->at[c->id].far;
    if (!*rkey) {
        *rkey = key->at[c->id].near;
        return FERRY_OK;
    }
    rc = fy_ux_window(c);
    if (!rc && !answered)
        fy_ux_posted(c, p);
    return rc;
}

int fy_ux_far_answer(struct fy_ux_peer *p, ucs_status_ptr_t answer)
{
    if (UCS_PTR_IS_ERR(answer))
        return fy_ux_peer_failed(p, fy_ux_status(UCS_PTR_STATUS(answer)), UCS_PTR_STATUS(answer));
    return answer ? FERRY_OK : FERRY_DONE;
}

static void done(void *request, ucs_status_t status, struct fy_ux_peer *peer)
{
    if (status != UCS_OK)
        fy_ux_peer_failed(peer, fy_ux_status(status), status);
    ucp_request_free(request);
}

void fy_ux_far_done(void *request, ucs_status_t status, void *peer)
{
    struct fy_ux_peer *p = peer;

    p->unsent--;
    p->channel->unsent--;
    done(request, status, p);
}

void fy_ux_far_replied(void *request, ucs_status_t status, void *peer)
{
    ((struct fy_ux_peer *)peer)->awaited--;
    ((struct fy_ux_peer *)peer)->channel->awaited--;
    done(request, status, peer);
}

/* ------------------------------------------------------------------ copied sources */

static void slot_free(struct fy_ux_slot *s)
{
    struct fy_ux_channel *c = s->peer->channel;

    s->next = c->free;
    c->free = s;
}

static void slot_done(void *request, ucs_status_t status, void *arg)
{
    struct fy_ux_slot *s = arg;

    fy_ux_far_done(request, status, s->peer);
    slot_free(s);
}

/* UCX may need the source longer than the caller leaves it to us, and it cannot be asked in advance. */
static int put_copy(struct fy_ux_channel *c, struct fy_ux_peer *p, const struct ferry_op *op, ucp_rkey_h rkey)
{
    ucp_request_param_t param = {.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA};
    struct fy_ux_slot *s = c->free;
    ucs_status_ptr_t answer;

    c->free = s->next;
    s->peer = p;
    memcpy(s->data, op->local, op->length);
    param.cb.send = slot_done;
    param.user_data = s;
    answer = ucp_put_nbx(p->ep, s->data, op->length, op->key->address + op->offset, rkey, &param);
    if (UCS_PTR_IS_PTR(answer))
        fy_ux_kept(c, p);
    else
        slot_free(s);
    return UCS_PTR_IS_ERR(answer) ? fy_ux_far_answer(p, answer) : FERRY_DONE;
}

/* ------------------------------------------------------------------ puts and gets */

static int move(struct fy_ux_channel *c, struct fy_ux_peer *p, const struct ferry_op *op, ucp_rkey_h rkey)
{
    ucp_request_param_t param = {.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA};
    uint64_t at = op->key->address + op->offset;
    ucs_status_ptr_t answer;

    param.cb.send = fy_ux_far_done;
    param.user_data = p;
    if (op->region) {
        param.op_attr_mask |= UCP_OP_ATTR_FIELD_MEMH;
        param.memh = op->region->memh;
    }
    if (op->kind == FERRY_OP_GET) {
        param.cb.send = fy_ux_far_replied;
        answer = ucp_get_nbx(p->ep, op->local, op->length, at, rkey, &param);
        if (UCS_PTR_IS_PTR(answer))
            fy_ux_asked(c, p);
        return fy_ux_far_answer(p, answer);
    }
    answer = ucp_put_nbx(p->ep, op->local, op->length, at, rkey, &param);
    if (UCS_PTR_IS_PTR(answer))
        fy_ux_kept(c, p);
    return fy_ux_far_answer(p, answer);
}

/* Each piece is one message, which the target copies at once to where it belongs. */
static int move_words(struct fy_ux_channel *c, struct fy_ux_peer *p, const struct ferry_op *op, ucp_rkey_h rkey)
{
    struct ferry_op part = *op;
    int rc = FERRY_DONE, one;

    for (size_t at = 0; at < op->length; at += part.length) {
        part.length = op->length - at < FY_UX_WORDS ? op->length - at : FY_UX_WORDS;
        part.local = (char *)op->local + at;
        part.offset = op->offset + at;
        one = move(c, p, &part, rkey);
        if (one < 0)
            return one;
        rc = one == FERRY_OK ? FERRY_OK : rc;
    }
    return rc;
}

int fy_ux_rma_far(struct fy_ux_channel *c, const struct ferry_op *op)
{
    struct fy_ux_peer *p = &c->peers[op->peer];
    int copies = op->kind == FERRY_OP_PUT && op->flags & FERRY_OP_COPY;
    int words = op->kind == FERRY_OP_PUT && op->flags & FERRY_OP_WORD && op->length > FY_UX_WORDS;
    ucp_rkey_h rkey;
    int rc;

    if (!op->length)
        return FERRY_DONE;
    if (copies && c->slots && !c->free) {
        ucp_worker_progress(c->worker);
        if (!c->free)
            return FERRY_AGAIN;
    }
    rc = fy_ux_far_ready(c, op, op->kind == FERRY_OP_GET, &rkey);
    if (rc)
        return rc;
    if (op->key->at[c->id].near) /* only now unpacked */
        return fy_ux_rma(c->t, c->id, op);
    if (copies)
        return put_copy(c, p, op, rkey);
    return words ? move_words(c, p, op, rkey) : move(c, p, op, rkey);
}
