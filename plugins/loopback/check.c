/* SPDX-License-Identifier: Apache-2.0
 * Refusals: an operation that the declared capabilities do not allow is answered with an error, as a fabric so weak
 * would, so that a core that breaks the contract is caught. Channel thread. */
#include "guise.h"

static int refuse(struct ferry_transport *t, const struct ferry_op *op, int status, const char *why)
{
    static const char *const kinds[] = {"put", "get", "atomic", "put_signal"};

    return fy_lb_fail(t, op->peer < t->n_pes ? (int64_t)op->peer : -1, status, 0,
                      "the capabilities that loopback declares under its guise say so",
                      "loopback refuses a %s of %zu bytes to PE %u: %s", kinds[op->kind & 3], op->length, op->peer,
                      why);
}

/* Of the two memories that are touched, the weaker one's. */
static const struct ferry_caps *caps_of(const struct fy_lb_guise *g, const struct ferry_op *op)
{
    uint32_t kind = op->key->kind;

    if (op->kind == FERRY_OP_PUT_SIGNAL)
        kind |= op->signal_key->kind;
    return &g->caps[kind & 1];
}

static const char *wrong_flags(const struct ferry_caps *caps, const struct ferry_op *op)
{
    if (op->flags & FERRY_OP_FENCED && !(caps->flags & FERRY_CAP_FENCED))
        return "it is fenced, but FERRY_CAP_FENCED is not declared";
    if (op->flags & FERRY_OP_DATA && !(caps->flags & FERRY_CAP_REMOTE_DATA))
        return "it carries remote data, but FERRY_CAP_REMOTE_DATA is not declared";
    if (op->flags & FERRY_OP_DATA && op->kind != FERRY_OP_PUT)
        return "only a put carries remote data";
    if (op->kind == FERRY_OP_GET && !(caps->flags & FERRY_CAP_GET))
        return "FERRY_CAP_GET is not declared";
    if (op->kind == FERRY_OP_PUT_SIGNAL && !(caps->flags & FERRY_CAP_PUT_SIGNAL))
        return "FERRY_CAP_PUT_SIGNAL is not declared";
    return NULL;
}

static const char *wrong_atomic(const struct ferry_caps *caps, const struct ferry_op *op)
{
    int fetches = (op->flags & FERRY_OP_FETCH) || op->amo >= FERRY_AMO_SWAP;
    uint32_t kinds = op->width == 8 ? caps->amo64 : op->width == 4 ? caps->amo32 : 0;

    if (op->amo >= FERRY_AMO_KINDS)
        return "there is no such kind of atomic";
    if (!(kinds & (fetches ? FERRY_AMO_FETCH_BIT(op->amo) : FERRY_AMO_BIT(op->amo))))
        return "this kind, of this width, is not declared";
    if (op->offset % op->width)
        return "its word is not aligned";
    return NULL;
}

static const char *wrong_size(const struct ferry_caps *caps, const struct ferry_op *op)
{
    if (op->length > caps->message_max)
        return "it is longer than message_max";
    if (op->kind != FERRY_OP_GET && op->flags & FERRY_OP_COPY && op->length > caps->copy_max)
        return "it is to be copied and longer than copy_max";
    if (op->kind == FERRY_OP_PUT && op->flags & FERRY_OP_WORD && (op->offset | op->length) % 8)
        return "it is of words, but not aligned to words";
    return NULL;
}

static int covers(const struct ferry_rkey *key, uint64_t offset, size_t length)
{
    return offset <= key->length && length <= key->length - offset;
}

static const char *wrong_place(const struct ferry_op *op)
{
    size_t length = op->kind == FERRY_OP_AMO ? op->width : op->length;

    if (op->key->peer != op->peer)
        return "its key is another PE's";
    if (!covers(op->key, op->offset, length))
        return "it reaches beyond what its key covers";
    if (op->kind != FERRY_OP_PUT_SIGNAL)
        return NULL;
    if (op->signal_key->peer != op->peer)
        return "the key of its signal is another PE's";
    if (op->signal_offset % 8 || !covers(op->signal_key, op->signal_offset, 8))
        return "its signal is not a word that its key covers";
    return NULL;
}

/* Whether `local` is used, and whether it has to be registered. */
static const char *wrong_local(const struct ferry_caps *caps, const struct ferry_op *op)
{
    const struct ferry_region *r = op->region;
    size_t length = op->kind == FERRY_OP_AMO ? op->width : op->length;
    uintptr_t at = (uintptr_t)op->local;

    if (!length || (op->kind == FERRY_OP_AMO && !(op->flags & FERRY_OP_FETCH)))
        return NULL;
    if (op->kind != FERRY_OP_AMO && op->kind != FERRY_OP_GET && op->flags & FERRY_OP_COPY)
        return NULL;
    if (!r)
        return caps->flags & FERRY_CAP_UNREGISTERED_LOCAL ? NULL : "its local memory is not registered";
    if (at < (uintptr_t)r->address || at - (uintptr_t)r->address > r->length ||
        length > r->length - (at - (uintptr_t)r->address))
        return "its region does not cover its local memory";
    return NULL;
}

int fy_lb_guise_check(struct ferry_transport *t, uint32_t channel, const struct ferry_op *op)
{
    const struct fy_lb_guise *g = t->guise;
    const struct ferry_caps *caps = caps_of(g, op);
    const char *wrong;

    if (op->peer >= t->n_pes || channel >= g->max_channels)
        return refuse(t, op, FERRY_ERR_ARG, "there is no such PE or channel");
    wrong = wrong_flags(caps, op);
    if (!wrong && op->kind == FERRY_OP_AMO)
        wrong = wrong_atomic(caps, op);
    if (wrong)
        return refuse(t, op, FERRY_ERR_UNSUPPORTED, wrong);
    wrong = op->kind == FERRY_OP_AMO ? NULL : wrong_size(caps, op);
    if (!wrong)
        wrong = wrong_place(op);
    if (!wrong)
        wrong = wrong_local(&g->caps[FERRY_MEMORY_HOST], op);
    return wrong ? refuse(t, op, FERRY_ERR_ARG, wrong) : FERRY_OK;
}
