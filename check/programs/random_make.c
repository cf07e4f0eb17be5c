/* SPDX-License-Identifier: Apache-2.0
 * Makes a random program from a seed, and prints it. PE 0. */
#include "random.h"

#include <stddef.h>

/* How often each kind is drawn, in each flavour of program: a mix; messages; atomics; much of all on one place. */
static const uint8_t weights[4][RANDOM_KINDS] = {
    {[RANDOM_PUT] = 10,
     [RANDOM_PUT_NBI] = 12,
     [RANDOM_PUT_SIGNAL] = 5,
     [RANDOM_PUT_SIGNAL_NBI] = 5,
     [RANDOM_SIGNAL] = 4,
     [RANDOM_GET] = 8,
     [RANDOM_GET_NBI] = 8,
     [RANDOM_LOOK] = 4,
     [RANDOM_AMO] = 20,
     [RANDOM_FENCE] = 10,
     [RANDOM_QUIET] = 4,
     [RANDOM_QUIET_PE] = 4,
     [RANDOM_WAIT] = 6,
     [RANDOM_BARRIER] = 1,
     [RANDOM_SYNC] = 1},
    {[RANDOM_PUT] = 4,
     [RANDOM_PUT_NBI] = 16,
     [RANDOM_PUT_SIGNAL] = 6,
     [RANDOM_PUT_SIGNAL_NBI] = 10,
     [RANDOM_SIGNAL] = 10,
     [RANDOM_GET] = 4,
     [RANDOM_LOOK] = 14,
     [RANDOM_FENCE] = 4,
     [RANDOM_QUIET_PE] = 1,
     [RANDOM_WAIT] = 20},
    {[RANDOM_PUT_NBI] = 4,
     [RANDOM_GET] = 4,
     [RANDOM_SIGNAL] = 4,
     [RANDOM_AMO] = 60,
     [RANDOM_FENCE] = 10,
     [RANDOM_QUIET] = 3,
     [RANDOM_QUIET_PE] = 3},
    {[RANDOM_PUT] = 10,
     [RANDOM_PUT_NBI] = 30,
     [RANDOM_PUT_SIGNAL_NBI] = 4,
     [RANDOM_GET] = 14,
     [RANDOM_LOOK] = 6,
     [RANDOM_AMO] = 10,
     [RANDOM_FENCE] = 24,
     [RANDOM_QUIET_PE] = 2,
     [RANDOM_SYNC] = 1},
};

struct maker {
    struct random_program *program;
    uint64_t state;
    int flavour, groups;
    uint8_t used[RANDOM_PES][WORDS]; /* operations on it; of a sum: bits that were given out */
    uint8_t closed[RANDOM_PES][WORDS_SYNC], set[RANDOM_PES][WORDS_SYNC];
};

static uint64_t draw(struct maker *m, uint64_t below)
{
    return rule_draw(&m->state) % below;
}

int random_width(int word)
{
    return word < WORD_SUM + WORDS_SUM || (word >= WORD_ANY && word < WORD_ANY + WORDS_ANY) ? 8 : 4;
}

void *random_word(struct random_memory *memory, int word)
{
    if (word < WORD_SUM)
        return &memory->sync[word];
    if (word < WORD_SUM + WORDS_SUM)
        return &memory->sum[word - WORD_SUM];
    if (word < WORD_ANY)
        return &memory->sum32[word - WORD_SUM - WORDS_SUM];
    if (word < WORD_ANY + WORDS_ANY)
        return &memory->any[word - WORD_ANY];
    return &memory->any32[word - WORD_ANY - WORDS_ANY];
}

uint64_t random_value(const struct random_memory *memory, int word)
{
    void *at = random_word((struct random_memory *)(uintptr_t)memory, word);

    return random_width(word) == 8 ? *(uint64_t *)at : *(uint32_t *)at;
}

uint8_t random_byte(const struct random_program *program, int index, size_t offset)
{
    return (uint8_t)((uint64_t)index * 151 + offset * 167 + (offset >> 8) * 59 + program->seed * 37 +
                     (program->seed >> 8));
}

/* Sizes of all magnitudes; mostly at few places, so that they overlap. */
static void choose_bytes(struct maker *m, struct random_op *op)
{
    unsigned magnitude = (unsigned)draw(m, m->flavour == 3 ? 12 : 17);

    op->length = 1 + draw(m, (uint64_t)1 << magnitude);
    op->offset = draw(m, 4) ? draw(m, 8) * 1000 : draw(m, 8192);
    if (op->kind >= RANDOM_PUT_SIGNAL && op->kind <= RANDOM_PUT_SIGNAL_NBI && draw(m, 10) == 0)
        op->length = 0;
}

static bool choose_sum(struct maker *m, struct random_op *op, bool wide_only)
{
    op->word = WORD_SUM + (int)draw(m, wide_only ? WORDS_SUM : 2 * WORDS_SUM);
    op->amo.width = random_width(op->word);
    if (m->flavour == 2 && draw(m, 2))
        op->word = op->amo.width == 8 ? WORD_SUM : WORD_SUM + WORDS_SUM;
    uint8_t *used = &m->used[op->target][op->word];
    if (*used >= op->amo.width * 8)
        return false;
    op->amo.value = (uint64_t)1 << (*used)++;
    return true;
}

/* An addition to a sum, or a look at it. */
static bool sum_atomic(struct maker *m, struct random_op *op)
{
    if (!choose_sum(m, op, false))
        return false;
    switch (draw(m, 5)) {
    case 0:
        m->used[op->target][op->word]--;
        op->amo.kind = AMO_FETCH;
        return true;
    case 1:
    case 2:
        op->amo.kind = op->amo.value == 1 ? AMO_INC : AMO_ADD;
        return true;
    default:
        op->amo.kind = op->amo.value == 1 ? AMO_FETCH_INC : AMO_FETCH_ADD;
        return true;
    }
}

static bool any_atomic(struct maker *m, struct random_op *op)
{
    op->word = WORD_ANY + (int)draw(m, 2 * WORDS_ANY);
    if (m->used[op->target][op->word] >= WORD_OPS)
        return false;
    m->used[op->target][op->word]++;
    op->amo.kind = (enum amo_kind)draw(m, AMO_KINDS);
    op->amo.width = random_width(op->word);
    op->amo.value = draw(m, 2) ? draw(m, 4) : rule_draw(&m->state);
    op->amo.compare = draw(m, 4);
    return true;
}

/* Signals count in sums, or tell somebody who waits: one SET, or ADDs, for each such word. */
static bool choose_signal(struct maker *m, struct random_op *op)
{
    op->weak = draw(m, 4) == 0;
    op->amo = (struct amo){.kind = AMO_ADD, .width = 8};
    if (draw(m, 4) == 0)
        return choose_sum(m, op, true);
    op->word = (int)draw(m, m->flavour == 1 ? WORDS_SYNC : 6);
    uint8_t *used = &m->used[op->target][op->word], *set = &m->set[op->target][op->word];
    if (m->closed[op->target][op->word] || *set)
        return false;
    if (!*used && draw(m, 2)) {
        *set = 1;
        op->amo.kind = AMO_SET;
    }
    op->amo.value = op->amo.kind == AMO_SET ? rule_draw(&m->state) | 1 : (uint64_t)1 << (*used % 60);
    (*used)++;
    return true;
}

/* Waits for the signals so far, if there are any; the word takes no more of them then. */
static bool choose_wait(struct maker *m, struct random_op *op)
{
    int first = (int)draw(m, WORDS_SYNC);

    for (int i = 0; i < WORDS_SYNC; i++) {
        op->word = (first + i) % WORDS_SYNC;
        if (m->used[op->pe][op->word] && !m->closed[op->pe][op->word])
            break;
        if (i == WORDS_SYNC - 1)
            return false;
    }
    m->closed[op->pe][op->word] = 1;
    op->target = op->pe;
    return true;
}

static enum random_kind choose_kind(struct maker *m)
{
    unsigned sum = 0, at;

    for (int k = 0; k < RANDOM_KINDS; k++)
        sum += weights[m->flavour][k];
    at = (unsigned)draw(m, sum);
    for (int k = 0; k < RANDOM_KINDS; k++) {
        if (at < weights[m->flavour][k])
            return (enum random_kind)k;
        at -= weights[m->flavour][k];
    }
    return RANDOM_PUT;
}

static bool choose(struct maker *m, struct random_op *op)
{
    if (random_puts(op) || random_reads(op))
        choose_bytes(m, op);
    if (op->kind == RANDOM_LOOK)
        op->target = op->pe;
    if (random_signals(op))
        return choose_signal(m, op);
    if (op->kind == RANDOM_AMO)
        return m->flavour == 2 && draw(m, 3) ? sum_atomic(m, op) : draw(m, 2) ? sum_atomic(m, op) : any_atomic(m, op);
    if (op->kind == RANDOM_WAIT)
        return choose_wait(m, op);
    return true;
}

static void add_for_all(struct maker *m, struct random_op op)
{
    struct random_program *p = m->program;

    op.group = ++m->groups;
    op.ctx = 0;
    for (op.pe = 0; op.pe < p->pes && p->n < RANDOM_OPS; op.pe++)
        p->op[p->n++] = op;
}

int random_pes_of(uint64_t seed)
{
    return 2 + (int)(seed / 32 % 3);
}

void random_make(struct random_program *program, uint64_t seed)
{
    struct maker m = {.program = program, .state = seed * 0x9e3779b97f4a7c15u + 1};
    int wanted;

    program->seed = seed;
    program->pes = random_pes_of(seed);
    program->contexts = 1 + (int)draw(&m, RANDOM_CONTEXTS);
    program->n = 0;
    m.flavour = (int)draw(&m, 4);
    wanted = 12 + (int)draw(&m, RANDOM_OPS - 12 - RANDOM_PES);
    while (program->n < wanted) {
        struct random_op op = {.kind = choose_kind(&m), .word = -1};
        op.pe = (int)draw(&m, (uint64_t)program->pes);
        op.ctx = (int)draw(&m, (uint64_t)program->contexts);
        op.target = (int)draw(&m, (uint64_t)program->pes);
        if (op.kind == RANDOM_BARRIER || op.kind == RANDOM_SYNC)
            add_for_all(&m, op);
        else if (choose(&m, &op))
            program->op[program->n++] = op;
    }
}
