/* SPDX-License-Identifier: Apache-2.0
 * Pairs of instances that wear a guise. See guises.h.
 * Main thread of a test. */
#include "guises.h"

void duo_open(struct duo *d, const char *guise)
{
    struct pe_options options = {.guise = guise};

    pe_open(&d->a, 0, &options);
    pe_open(&d->b, 1, &options);
    d->key = pe_must_import(&d->a, 1, &d->b.key);
}

void duo_close(struct duo *d)
{
    assert_int_equal(ops()->release_key(d->a.t, d->key), FERRY_OK);
    pe_close(&d->a);
    pe_close(&d->b);
}

struct ferry_caps duo_caps(struct duo *d)
{
    struct ferry_caps caps = {.size = sizeof caps};

    assert_int_equal(ops()->query(d->a.t, FERRY_MEMORY_HOST, &caps), FERRY_OK);
    assert_int_equal(caps.size, sizeof caps);
    return caps;
}

struct ferry_op put_op(const struct duo *d, const void *from, uint64_t offset, size_t length, uint32_t flags)
{
    return (struct ferry_op){.kind = FERRY_OP_PUT,
                             .flags = flags,
                             .peer = 1,
                             .local = (void *)(uintptr_t)from,
                             .key = d->key,
                             .offset = offset,
                             .length = length};
}

struct ferry_op get_op(const struct duo *d, void *to, uint64_t offset, size_t length)
{
    return (struct ferry_op){
        .kind = FERRY_OP_GET, .peer = 1, .local = to, .key = d->key, .offset = offset, .length = length};
}

struct ferry_op add_op(const struct duo *d, uint64_t offset, uint64_t operand, uint64_t *old)
{
    struct ferry_op op = amo_op(d->key, offset, FERRY_AMO_ADD, 8, operand);

    op.peer = 1;
    op.local = old;
    op.flags = old ? FERRY_OP_FETCH : 0;
    return op;
}

struct ferry_op signal_op(const struct duo *d, const void *from, size_t length, uint64_t signal_offset, uint64_t value)
{
    struct ferry_op op = put_op(d, from, 0, length, 0);

    op.kind = FERRY_OP_PUT_SIGNAL;
    op.amo = FERRY_AMO_SET;
    op.width = 8;
    op.operand = value;
    op.signal_key = d->key;
    op.signal_offset = signal_offset;
    return op;
}

int post(struct duo *d, uint32_t channel, const struct ferry_op *op)
{
    if (op->kind == FERRY_OP_AMO)
        return ops()->amo(d->a.t, channel, op);
    if (op->kind == FERRY_OP_PUT_SIGNAL)
        return ops()->put_signal(d->a.t, channel, op);
    return ops()->rma(d->a.t, channel, op);
}

int try_quiet(struct duo *d, uint32_t channel, uint32_t peer, uint64_t *ticket)
{
    return ops()->quiet(d->a.t, channel, peer, ticket);
}

void refused(struct duo *d, const struct ferry_op *op, int status, const char *words)
{
    struct ferry_error e;

    assert_int_equal(post(d, 0, op), status);
    e = pe_error(&d->a, 1);
    if (e.status != status || !strstr(e.message, words))
        fail_msg("status %d, not %d, or no '%s' in: %s", e.status, status, words, e.message);
}

int serve(struct duo *d)
{
    return ops()->progress(d->b.t, FERRY_CHANNEL_SERVICE);
}
