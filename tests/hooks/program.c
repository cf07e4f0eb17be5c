/* SPDX-License-Identifier: Apache-2.0
 * Random operations with known effects, and what must hold of them below a hook. See program.h.
 * One thread. */
#include "program.h"

#include <stdlib.h>
#include <string.h>

#define PATIENCE 100000 /* calls that may answer AGAIN in a row */

static uint32_t draw(struct program *p, uint32_t below)
{
    p->random = p->random * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(p->random >> 33) % below;
}

static uint8_t content(uint32_t step, size_t at)
{
    return (uint8_t)(step * 7 + at * 31 + 1);
}

struct program *program_new(struct above *above, uint64_t seed)
{
    struct program *p = calloc(1, sizeof *p);

    assert_non_null(p);
    p->above = above;
    p->random = seed;
    p->with_fences = p->with_copies = true;
    for (uint32_t pe = 0; pe < STUB_PES; pe++)
        assert_int_equal(above->ops.import_key(above->handle, pe, "", 0, &p->keys[pe]), FERRY_OK);
    assert_int_equal(above->ops.open_channel(above->handle, 0), FERRY_OK);
    return p;
}

void program_free(struct program *p)
{
    assert_int_equal(p->above->ops.close_channel(p->above->handle, 0), FERRY_OK);
    for (uint32_t pe = 0; pe < STUB_PES; pe++)
        assert_int_equal(p->above->ops.release_key(p->above->handle, p->keys[pe]), FERRY_OK);
    free(p);
}

static void choose(struct program *p, struct step *s, struct ferry_op *op)
{
    uint32_t what = draw(p, 10);

    memset(s, 0, sizeof *s);
    s->peer = draw(p, STUB_PES);
    s->length = 1 + draw(p, PROGRAM_CELL);
    s->kind = what < 5 ? FERRY_OP_PUT : what < 7 ? FERRY_OP_GET : what < 9 ? FERRY_OP_AMO : FERRY_OP_PUT;
    if (what == 9)
        s->flags |= FERRY_OP_WORD;
    if (s->kind == FERRY_OP_AMO || what == 9)
        s->length = 8;
    if (what == 8)
        s->flags |= FERRY_OP_FETCH;
    if (s->kind == FERRY_OP_PUT && p->with_copies && draw(p, 2))
        s->flags |= FERRY_OP_COPY;
    if (s->kind != FERRY_OP_GET && p->with_fences && draw(p, 6) == 0)
        s->flags |= FERRY_OP_FENCED;
    *op = (struct ferry_op){.kind = s->kind,
                            .amo = FERRY_AMO_ADD,
                            .width = 8,
                            .flags = s->flags | (draw(p, 2) ? FERRY_OP_MORE : 0),
                            .peer = s->peer,
                            .key = p->keys[s->peer],
                            .offset = (uint64_t)p->n * PROGRAM_CELL,
                            .length = s->length,
                            .operand = p->n + 1};
}

int program_step(struct program *p)
{
    struct above *above = p->above;
    struct step *s = &p->steps[p->n];
    uint8_t *local = p->local[p->n], scratch[PROGRAM_CELL];
    struct ferry_op op;
    int rc, calls = 0;

    assert_true(p->n < PROGRAM_OPS);
    choose(p, s, &op);
    for (size_t i = 0; i < PROGRAM_CELL; i++)
        local[i] = s->kind == FERRY_OP_PUT ? content(p->n, i) : 0xee;
    memcpy(scratch, local, sizeof scratch);
    op.local = s->flags & FERRY_OP_COPY                                  ? scratch
               : s->kind == FERRY_OP_AMO && !(s->flags & FERRY_OP_FETCH) ? NULL
                                                                         : local;
    do {
        rc = (s->kind == FERRY_OP_AMO ? above->ops.amo : above->ops.rma)(above->handle, p->channel, &op);
        if (rc == FERRY_AGAIN)
            above->ops.progress(above->handle, p->channel);
    } while (rc == FERRY_AGAIN && ++calls < PATIENCE);
    memset(scratch, 0xdd, sizeof scratch); /* a copied source is free */
    if (rc != FERRY_OK && rc != FERRY_DONE)
        return rc;
    if (s->flags & FERRY_OP_FENCED)
        p->groups[s->peer]++;
    s->group = p->groups[s->peer];
    p->n++;
    return FERRY_OK;
}

int program_quiet(struct program *p, uint32_t peer)
{
    uint64_t ticket = 0;
    int rc, calls = 0;

    while ((rc = p->above->ops.quiet(p->above->handle, p->channel, peer, &ticket)) == FERRY_AGAIN && ++calls < PATIENCE)
        p->above->ops.progress(p->above->handle, p->channel);
    for (uint32_t i = 0; rc == FERRY_OK && i < p->n; i++)
        p->steps[i].done |= peer == FERRY_PEER_ALL || p->steps[i].peer == peer;
    return rc;
}

void program_run(struct program *p, uint32_t n)
{
    while (n-- > 0) {
        assert_int_equal(program_step(p), FERRY_OK);
        if (draw(p, 40) == 0)
            assert_int_equal(program_quiet(p, draw(p, STUB_PES)), FERRY_OK);
    }
    assert_int_equal(program_quiet(p, FERRY_PEER_ALL), FERRY_OK);
}

void program_check_memory(const struct program *p, const struct stub *stub)
{
    for (uint32_t i = 0; i < p->n; i++) {
        const struct step *s = &p->steps[i];
        const uint8_t *there = stub->memory[s->peer] + (size_t)i * PROGRAM_CELL;
        uint64_t word;

        memcpy(&word, there, sizeof word);
        for (size_t at = 0; s->kind == FERRY_OP_PUT && at < PROGRAM_CELL; at++)
            assert_int_equal(there[at], at < s->length ? content(i, at) : 0);
        if (s->kind == FERRY_OP_AMO)
            assert_int_equal(word, i + 1);
        for (size_t at = 0; (s->kind == FERRY_OP_GET || (s->flags & FERRY_OP_FETCH)) && at < PROGRAM_CELL; at++)
            assert_int_equal(p->local[i][at], at < s->length ? 0 : 0xee);
    }
}

static const struct step *step_of(const struct program *p, const struct stub_event *e)
{
    return &p->steps[e->op.offset / PROGRAM_CELL];
}

uint64_t program_check_borders(const struct program *p, const struct stub *stub)
{
    uint64_t pairs = 0;

    for (uint64_t i = 0; i < stub->n; i++)
        for (uint64_t j = 0; j < stub->n; j++) {
            const struct stub_event *a = &stub->events[i], *b = &stub->events[j];

            if (a->peer != b->peer || a->op.kind == FERRY_OP_GET || b->op.kind == FERRY_OP_GET ||
                step_of(p, a)->group >= step_of(p, b)->group)
                continue;
            pairs++;
            assert_true(a->posted < b->posted);
            if (stub->caps.order != FERRY_ORDER_ALL)
                assert_true(b->border > a->border || (a->complete && a->complete < b->posted));
        }
    return pairs;
}
