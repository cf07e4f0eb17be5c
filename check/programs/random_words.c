/* SPDX-License-Identifier: Apache-2.0
 * What words may hold and what atomics may fetch. A sum tells which additions it contains; for other words an order of
 * the operations is searched for that explains everything. PE 0. */
#include "random.h"

#include <inttypes.h>

struct uses {
    const struct random_program *program;
    const struct random_order *order;
    int pe, word, n, op[RANDOM_OPS];
};

static struct uses uses_of(const struct random_program *p, const struct random_order *order, int pe, int word)
{
    struct uses u = {.program = p, .order = order, .pe = pe, .word = word};

    for (int i = 0; i < p->n; i++)
        if (!p->op[i].off && random_updates(&p->op[i]) && p->op[i].target == pe && p->op[i].word == word)
            u.op[u.n++] = i;
    return u;
}

static uint64_t narrow(const struct uses *u, uint64_t value)
{
    return random_width(u->word) == 8 ? value : (uint32_t)value;
}

static uint64_t start(const struct uses *u)
{
    return random_value(u->program->before[u->pe], u->word);
}

static uint64_t end(const struct uses *u)
{
    return random_value(u->program->after[u->pe], u->word);
}

static uint64_t addend(const struct random_op *op)
{
    return op->amo.kind == AMO_FETCH ? 0 : op->amo.value;
}

static bool sum_order(const struct uses *u, struct random_order *order, int reader, char *why, size_t size)
{
    const struct random_op *read = &u->program->op[reader];
    uint64_t contains = narrow(u, read->fetched - start(u)), rest = contains;

    for (int i = 0; i < u->n; i++) {
        uint64_t bit = addend(&u->program->op[u->op[i]]);
        if (u->op[i] == reader || !bit)
            continue;
        if (contains & bit)
            random_order_add(order, u->op[i], EVENT_UPDATE, reader, EVENT_UPDATE);
        else
            random_order_add(order, reader, EVENT_UPDATE, u->op[i], EVENT_UPDATE);
        rest &= ~bit;
    }
    if (!rest)
        return true;
    snprintf(why, size, "operation %d fetched a sum with 0x%" PRIx64 " too much", reader, rest);
    return false;
}

/* Sums are exact, and what is fetched tells what came before. */
static bool sum_allowed(const struct uses *u, struct random_order *order, char *why, size_t size)
{
    uint64_t sum = start(u);

    for (int i = 0; i < u->n; i++) {
        const struct random_op *op = &u->program->op[u->op[i]];
        sum += addend(op);
        if (random_fetches(op) && !sum_order(u, order, u->op[i], why, size))
            return false;
    }
    if (narrow(u, sum) == end(u))
        return true;
    snprintf(why, size, "sum %d of pe %d is 0x%" PRIx64 " instead of 0x%" PRIx64, u->word, u->pe, end(u),
             narrow(u, sum));
    return false;
}

static bool sync_allowed(const struct uses *u, char *why, size_t size)
{
    uint64_t value = start(u);

    for (int i = 0; i < u->n; i++)
        value = amo_model(&u->program->op[u->op[i]].amo, value);
    if (value == end(u))
        return true;
    snprintf(why, size, "signals made word %d of pe %d 0x%" PRIx64 " instead of 0x%" PRIx64, u->word, u->pe, end(u),
             value);
    return false;
}

bool random_words_order(const struct random_program *program, struct random_order *order, char *why, size_t size)
{
    for (int pe = 0; pe < program->pes; pe++)
        for (int word = 0; word < WORD_ANY; word++) {
            struct uses u = uses_of(program, order, pe, word);
            if (word < WORD_SUM ? !sync_allowed(&u, why, size) : !sum_allowed(&u, order, why, size))
                return false;
        }
    return true;
}

/* Nothing that is not done yet has to come before operation i of the list. */
static bool may_be_next(const struct uses *u, unsigned done, int i)
{
    for (int k = 0; k < u->n; k++)
        if (k != i && !(done >> k & 1) && random_before(u->order, u->op[k], EVENT_UPDATE, u->op[i], EVENT_UPDATE))
            return false;
    return true;
}

static bool explain(const struct uses *u, unsigned done, uint64_t value)
{
    if (done == (1u << u->n) - 1)
        return value == end(u);
    for (int i = 0; i < u->n; i++) {
        const struct random_op *op = &u->program->op[u->op[i]];
        if (done >> i & 1 || (random_fetches(op) && op->fetched != value) || !may_be_next(u, done, i))
            continue;
        if (explain(u, done | 1u << i, amo_model(&op->amo, value)))
            return true;
    }
    return false;
}

bool random_words_allowed(const struct random_program *program, const struct random_order *order, char *why,
                          size_t size)
{
    for (int pe = 0; pe < program->pes; pe++)
        for (int word = WORD_ANY; word < WORDS; word++) {
            struct uses u = uses_of(program, order, pe, word);
            if (explain(&u, 0, start(&u)))
                continue;
            snprintf(why, size, "no order of its operations explains word %d of pe %d: 0x%" PRIx64 " was 0x%" PRIx64,
                     word, pe, end(&u), start(&u));
            return false;
        }
    return true;
}
