/* SPDX-License-Identifier: Apache-2.0
 * The short way, for small puts: everything else goes to post.c. Channel thread.
 */
#include "libfabric.h"

int fy_lf_rma(struct ferry_transport *t, uint32_t channel, const struct ferry_op *op)
{
    struct fy_lf_channel *c = t->channels[channel];
    struct fy_lf_peer *p = c->peers[op->peer];
    uint64_t at = p->posted;

    /* No flag that matters, at least one byte, nobody failed, and a slot before the next flush. */
    if (likely(op->kind == FERRY_OP_PUT && op->length - 1 < c->inject && at < p->quick &&
               !((op->flags & c->slow_flags) | __atomic_load_n(&c->careful, __ATOMIC_RELAXED)))) {
        const struct ferry_rkey *key = op->key;
        ssize_t rc = fi_inject_write(p->ep, op->local, op->length, p->address, key->base + op->offset, key->key);
        if (unlikely(rc))
            return fy_lf_post_failed(p, rc, "fi_inject_write");
        p->epoch[at & p->mask] = c->epoch;
        p->posted = at + 1;
        c->outstanding++;
        return FERRY_DONE;
    }
    return fy_lf_rma_slow(c, p, op);
}
