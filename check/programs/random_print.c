/* SPDX-License-Identifier: Apache-2.0
 * Prints a program, with what its operations fetched. PE 0, or the main thread. */
#include "random.h"

#include <inttypes.h>

static const char *const kind_names[RANDOM_KINDS] = {
    "put",    "put_nbi", "put_signal", "put_signal_nbi", "signal", "get",     "get_nbi", "look",
    "atomic", "fence",   "quiet",      "quiet_pe",       "wait",   "barrier", "sync",
};
static const char *const amo_names[AMO_KINDS] = {
    "set",  "add",          "inc",       "and",       "or",        "xor",      "fetch",
    "swap", "compare_swap", "fetch_add", "fetch_inc", "fetch_and", "fetch_or", "fetch_xor",
};

static const char *word_class(int word)
{
    return word < WORD_SUM ? "sync" : word < WORD_ANY ? "sum" : "any";
}

static void print_op(const struct random_op *op, int index, FILE *out)
{
    fprintf(out, "%3d: pe %d ctx %d %s", index, op->pe, op->ctx, kind_names[op->kind]);
    if (op->kind != RANDOM_FENCE && op->kind != RANDOM_QUIET && op->kind < RANDOM_WAIT)
        fprintf(out, " pe %d", op->target);
    if (random_puts(op) || random_reads(op))
        fprintf(out, " bytes %zu+%zu", op->offset, op->length);
    if (op->word >= 0)
        fprintf(out, " %s word %d (%d bits)", word_class(op->word), op->word, random_width(op->word) * 8);
    if (random_updates(op))
        fprintf(out, " %s 0x%" PRIx64, amo_names[op->amo.kind], op->amo.value);
    if (op->kind == RANDOM_AMO && op->amo.kind == AMO_CSWAP)
        fprintf(out, " if 0x%" PRIx64, op->amo.compare);
    if (random_fetches(op))
        fprintf(out, " = 0x%" PRIx64, op->fetched);
    fprintf(out, "%s\n", op->weak ? " weak" : "");
}

void random_print(const struct random_program *program, FILE *out)
{
    fprintf(out, "program of seed %" PRIu64 ": %d PEs, %d contexts\n", program->seed, program->pes, program->contexts);
    for (int i = 0; i < program->n; i++)
        if (!program->op[i].off)
            print_op(&program->op[i], i, out);
}
