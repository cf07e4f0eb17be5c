/* SPDX-License-Identifier: Apache-2.0
 * Posting through lanes that do at once what they are given: shared memory, and the own process. All else is far.c's.
 * Channel thread. No lock, no allocation, no system call of ours; what is unlikely is out of line. */
#include "ucx.h"

#define likely(x)   __builtin_expect(!!(x), 1)
#define unlikely(x) __builtin_expect(!!(x), 0)

/* Several words that each have to be seen whole: stored one by one where they lie. Order among them is not asked for. */
static __attribute__((noinline)) int store_words(const struct ferry_op *op)
{
    uint64_t *to = (uint64_t *)(void *)(op->key->map + op->offset);
    const char *from = op->local;
    uint64_t word;

    for (size_t i = 0; i < op->length / 8; i++) {
        __builtin_memcpy(&word, from + 8 * i, 8);
        __atomic_store_n(&to[i], word, __ATOMIC_RELAXED);
    }
    return FERRY_DONE;
}

/* A lane of this kind leaves nothing unfinished; should a version do so, the source is freed as far was promised, and a
 * flush covers the rest. */
static __attribute__((noinline)) int unfinished(struct fy_ux_channel *c, const struct ferry_op *op, ucs_status_ptr_t answer)
{
    ucs_status_t status;

    fy_ux_posted(c, &c->peers[op->peer]);
    if (UCS_PTR_IS_ERR(answer) || !(op->flags & FERRY_OP_COPY)) {
        status = UCS_PTR_IS_ERR(answer) ? UCS_PTR_STATUS(answer) : UCS_OK;
        if (!UCS_PTR_IS_ERR(answer))
            ucp_request_free(answer);
        return status == UCS_OK ? FERRY_OK
                                : fy_ux_peer_failed(&c->peers[op->peer], fy_ux_status(status), status);
    }
    while (ucp_request_check_status(answer) == UCS_INPROGRESS)
        ucp_worker_progress(c->worker); /* copies within this host */
    status = ucp_request_check_status(answer);
    ucp_request_free(answer);
    return status == UCS_OK ? FERRY_DONE : fy_ux_peer_failed(&c->peers[op->peer], fy_ux_status(status), status);
}

int fy_ux_rma(struct ferry_transport *t, uint32_t channel, const struct ferry_op *op)
{
    struct fy_ux_channel *c = t->channels[channel];
    const struct ferry_rkey *key = op->key;
    ucp_rkey_h rkey = key->at[channel].near;
    ucp_ep_h ep = c->peers[op->peer].ep;
    ucs_status_ptr_t answer;

    if (unlikely(!rkey))
        return fy_ux_rma_far(c, op);
    if (op->kind == FERRY_OP_PUT) {
        if (unlikely(op->flags & FERRY_OP_WORD) && op->length > 8)
            return store_words(op);
        answer = ucp_put_nbx(ep, op->local, op->length, key->address + op->offset, rkey, &c->plain);
    } else {
        answer = ucp_get_nbx(ep, op->local, op->length, key->address + op->offset, rkey, &c->plain);
    }
    return likely(!answer) ? FERRY_DONE : unfinished(c, op, answer);
}

static const uint8_t codes[FERRY_AMO_KINDS] = {
    [FERRY_AMO_SET] = UCP_ATOMIC_OP_SWAP, /* that fetches */
    [FERRY_AMO_ADD] = UCP_ATOMIC_OP_ADD,     [FERRY_AMO_AND] = UCP_ATOMIC_OP_AND,
    [FERRY_AMO_OR] = UCP_ATOMIC_OP_OR,       [FERRY_AMO_XOR] = UCP_ATOMIC_OP_XOR,
    [FERRY_AMO_SWAP] = UCP_ATOMIC_OP_SWAP,   [FERRY_AMO_CSWAP] = UCP_ATOMIC_OP_CSWAP,
    [FERRY_AMO_FETCH] = UCP_ATOMIC_OP_ADD, /* of 0 */
};

/* Words of 8 and of 4 bytes. */
union word {
    uint64_t wide;
    uint32_t narrow;
};

static inline union word word(unsigned wide, uint64_t value)
{
    return wide ? (union word){.wide = value} : (union word){.narrow = (uint32_t)value};
}

/* The operand of a swap by comparison is what to compare with; what to store lies where the old value is to come. */
static void load_swap(void *reply, unsigned wide, uint64_t value)
{
    union word w = word(wide, value);

    __builtin_memcpy(reply, &w, wide ? 8 : 4);
}

/* UCX 1.13.1's lanes of this host compute these with the old value in place of the operand, so they are done here: on the
 * same memory, by the same CPU (tests/ucx/test_atomics.c). */
static int update_here(const struct ferry_op *op, union word operand)
{
    void *at = op->key->map + op->offset;
    union word old;

    switch (op->amo | (op->width == 8 ? 16 : 0)) {
    case FERRY_AMO_AND: old.narrow = __atomic_fetch_and((uint32_t *)at, operand.narrow, __ATOMIC_ACQ_REL); break;
    case FERRY_AMO_OR: old.narrow = __atomic_fetch_or((uint32_t *)at, operand.narrow, __ATOMIC_ACQ_REL); break;
    case FERRY_AMO_XOR: old.narrow = __atomic_fetch_xor((uint32_t *)at, operand.narrow, __ATOMIC_ACQ_REL); break;
    case FERRY_AMO_AND | 16: old.wide = __atomic_fetch_and((uint64_t *)at, operand.wide, __ATOMIC_ACQ_REL); break;
    case FERRY_AMO_OR | 16: old.wide = __atomic_fetch_or((uint64_t *)at, operand.wide, __ATOMIC_ACQ_REL); break;
    default: old.wide = __atomic_fetch_xor((uint64_t *)at, operand.wide, __ATOMIC_ACQ_REL); break;
    }
    __builtin_memcpy(op->local, &old, op->width);
    return FERRY_DONE;
}

static inline int bitwise(unsigned kind)
{
    return kind == FERRY_AMO_AND || kind == FERRY_AMO_OR || kind == FERRY_AMO_XOR;
}

/* UCX has no atomic that only stores; a put of a word is seen whole. */
static __attribute__((noinline)) int set(struct ferry_transport *t, uint32_t channel, const struct ferry_op *op)
{
    union word value = word(op->width == 8, op->operand);
    struct ferry_op put = *op;

    put.kind = FERRY_OP_PUT;
    put.flags = FERRY_OP_COPY;
    put.local = &value;
    put.region = NULL;
    put.length = op->width;
    return fy_ux_rma(t, channel, &put);
}

/* What a fetching one needs besides; `param` is the channel's. */
static inline void want(ucp_request_param_t *param, struct fy_ux_peer *p, const struct ferry_op *op, unsigned wide)
{
    param->reply_buffer = op->local;
    param->user_data = p;
    if (op->amo == FERRY_AMO_CSWAP)
        load_swap(op->local, wide, op->operand);
}

static __attribute__((noinline)) int amo_far(struct fy_ux_channel *c, const struct ferry_op *op, union word operand, int fetch)
{
    struct fy_ux_peer *p = &c->peers[op->peer];
    unsigned wide = op->width == 8;
    ucp_request_param_t *param = fetch ? &c->reply[wide] : &c->kept[wide];
    ucs_status_ptr_t answer;
    ucp_rkey_h rkey;
    int rc = fy_ux_far_ready(c, op, fetch, &rkey);

    if (rc)
        return rc;
    if (op->key->at[c->id].near) /* only now unpacked */
        return fy_ux_amo(c->t, c->id, op);
    param->user_data = p;
    if (fetch)
        want(param, p, op, wide);
    answer = ucp_atomic_op_nbx(p->ep, (ucp_atomic_op_t)codes[op->amo], &operand, 1, op->key->address + op->offset, rkey, param);
    if (UCS_PTR_IS_PTR(answer) && fetch)
        fy_ux_asked(c, p);
    else if (UCS_PTR_IS_PTR(answer))
        fy_ux_kept(c, p);
    return fy_ux_far_answer(p, answer);
}

int fy_ux_amo(struct ferry_transport *t, uint32_t channel, const struct ferry_op *op)
{
    struct fy_ux_channel *c = t->channels[channel];
    const struct ferry_rkey *key = op->key;
    struct fy_ux_peer *p = &c->peers[op->peer];
    unsigned wide = op->width == 8;
    int fetch = op->flags & FERRY_OP_FETCH || op->amo >= FERRY_AMO_SWAP;
    union word operand = word(wide, op->amo == FERRY_AMO_FETCH ? 0 : op->amo == FERRY_AMO_CSWAP ? op->compare : op->operand);
    ucp_request_param_t *param = fetch ? &c->reply[wide] : &c->no_reply[wide];
    ucp_rkey_h rkey = key->at[channel].near;
    ucs_status_ptr_t answer;

    if (unlikely(op->amo == FERRY_AMO_SET && !fetch))
        return set(t, channel, op);
    if (unlikely(!rkey))
        return amo_far(c, op, operand, fetch);
    if (fetch) {
        if (bitwise(op->amo))
            return update_here(op, operand);
        want(param, p, op, wide);
    }
    answer = ucp_atomic_op_nbx(p->ep, (ucp_atomic_op_t)codes[op->amo], &operand, 1, key->address + op->offset, rkey, param);
    if (likely(!answer))
        return FERRY_DONE;
    if (fetch && UCS_PTR_IS_PTR(answer))
        fy_ux_asked(c, p);
    return fy_ux_far_answer(p, answer);
}
