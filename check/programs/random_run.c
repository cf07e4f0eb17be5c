/* SPDX-License-Identifier: Apache-2.0
 * Runs this PE's part of a random program: on its contexts, in its order. Each PE. */
#include "random.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>

bool random_open(struct random_place *place, struct pe *pe)
{
    *place = (struct random_place){.pe = pe, .memory = rule_calloc(pe, sizeof(struct random_memory))};
    if (!place->memory)
        return false;
    place->ctx[0] = pe->ctx;
    for (int i = 1; i < RANDOM_CONTEXTS; i++)
        if (!EXPECT_OK(pe, ferry_ctx_create(pe->job, 0, &place->ctx[i])))
            return false;
    return true;
}

void random_close(struct random_place *place)
{
    for (int i = 1; i < RANDOM_CONTEXTS; i++)
        EXPECT_OK(place->pe, ferry_ctx_destroy(place->ctx[i]));
}

static void fill(const struct random_program *program, int index)
{
    const struct random_op *op = &program->op[index];

    for (size_t i = 0; i < op->length; i++)
        op->buffer[i] = random_byte(program, index, op->offset + i);
}

/* What all signals to this word make of it. */
static uint64_t awaited(const struct random_program *program, const struct random_op *wait, bool *any)
{
    uint64_t value = random_value(program->before[wait->pe], wait->word);

    *any = false;
    for (const struct random_op *op = program->op; op < wait; op++) {
        if (op->off || !random_signals(op) || op->target != wait->pe || op->word != wait->word)
            continue;
        value = amo_model(&op->amo, value);
        *any = true;
    }
    return value;
}

static int run_signal(struct random_place *place, const struct random_op *op)
{
    ferry_ctx_t *ctx = place->ctx[op->ctx];
    uint64_t *word = random_word(place->memory, op->word);
    uint8_t *dest = place->memory->data + op->offset;
    int how = (op->amo.kind == AMO_SET ? FERRY_SIGNAL_SET : FERRY_SIGNAL_ADD) | (op->weak ? FERRY_SIGNAL_WEAK : 0), rc;

    if (op->kind == RANDOM_SIGNAL)
        return ferry_signal(ctx, word, op->amo.value, how, op->target);
    if (op->kind == RANDOM_PUT_SIGNAL_NBI)
        return ferry_put_signal_nbi(ctx, dest, op->buffer, op->length, word, op->amo.value, how, op->target);
    rc = ferry_put_signal(ctx, dest, op->buffer, op->length, word, op->amo.value, how, op->target);
    memset(op->buffer, 0xee, op->length); /* it is ours again */
    return rc;
}

static int run_bytes(struct random_place *place, const struct random_op *op)
{
    ferry_ctx_t *ctx = place->ctx[op->ctx];
    uint8_t *at = place->memory->data + op->offset;
    int rc;

    switch (op->kind) {
    case RANDOM_PUT:
        rc = ferry_put(ctx, at, op->buffer, op->length, op->target);
        memset(op->buffer, 0xee, op->length);
        return rc;
    case RANDOM_PUT_NBI:
        return ferry_put_nbi(ctx, at, op->buffer, op->length, op->target);
    case RANDOM_GET:
        return ferry_get(ctx, op->buffer, at, op->length, op->target);
    case RANDOM_GET_NBI:
        return ferry_get_nbi(ctx, op->buffer, at, op->length, op->target);
    default:
        memcpy(op->buffer, at, op->length);
        return FERRY_OK;
    }
}

static int run_wait(struct random_place *place, const struct random_program *program, const struct random_op *op)
{
    bool any;
    uint64_t value = awaited(program, op, &any);

    return any ? ferry_wait_until(place->pe->job, random_word(place->memory, op->word), FERRY_CMP_EQ, value) : FERRY_OK;
}

static int run_op(struct random_place *place, const struct random_program *program, struct random_op *op)
{
    ferry_ctx_t *ctx = place->ctx[op->ctx];

    if (random_signals(op))
        return run_signal(place, op);
    if (op->kind < RANDOM_AMO)
        return run_bytes(place, op);
    switch (op->kind) {
    case RANDOM_AMO:
        return amo_issue(ctx, &op->amo, random_word(place->memory, op->word), &op->fetched, op->target);
    case RANDOM_FENCE:
        return ferry_fence(ctx);
    case RANDOM_QUIET:
        return ferry_quiet(ctx);
    case RANDOM_QUIET_PE:
        return ferry_quiet_pe(ctx, op->target);
    case RANDOM_WAIT:
        return run_wait(place, program, op);
    case RANDOM_BARRIER:
        return ferry_barrier(place->pe->job);
    default:
        return ferry_sync(place->pe->job);
    }
}

/* Source or landing place; the latter holds what no operation wrote. */
static bool prepare(struct random_program *program, int rank)
{
    for (int i = 0; i < program->n; i++) {
        struct random_op *op = &program->op[i];
        if (op->pe != rank || op->off)
            continue;
        op->fetched = 0;
        op->buffer = malloc(op->length + 1);
        if (!op->buffer)
            return false;
        if (random_puts(op))
            fill(program, i);
        else
            memset(op->buffer, 0xee, op->length);
    }
    return true;
}

void random_gate(struct random_place *place, struct random_program *program)
{
    unsigned all = ++place->gates * (unsigned)place->pe->n;

    atomic_fetch_add(&program->gate, 1);
    while ((int)(atomic_load(&program->gate) - all) < 0)
        sched_yield();
}

void random_run(struct random_place *place, struct random_program *program)
{
    struct pe *pe = place->pe;
    uint64_t state = program->seed * 4 + (uint64_t)pe->rank;

    if (!EXPECT(pe, prepare(program, pe->rank)))
        return;
    random_gate(place, program);
    for (int i = 0; i < program->n; i++) {
        struct random_op *op = &program->op[i];
        if (op->pe != pe->rank || op->off)
            continue;
        op->status = run_op(place, program, op);
        EXPECT_OK(pe, op->status);
        if (rule_draw(&state) % 16 == 0)
            sched_yield();
    }
    for (int i = 0; i < RANDOM_CONTEXTS; i++)
        EXPECT_OK(pe, ferry_quiet(place->ctx[i]));
    EXPECT_OK(pe, ferry_barrier(pe->job));
    memcpy(program->after[pe->rank], place->memory, sizeof *place->memory);
}
