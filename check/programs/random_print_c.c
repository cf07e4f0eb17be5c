/* SPDX-License-Identifier: Apache-2.0
 * Prints what is left of a program as one in C, for a reader who has nothing but the library. Main thread. */
#include "random_shrink.h"

#include <inttypes.h>
#include <stdlib.h>

static const char *const calls[AMO_KINDS] = {
    "set",  "add",          "inc",       "and",       "or",        "xor",      "fetch",
    "swap", "compare_swap", "fetch_add", "fetch_inc", "fetch_and", "fetch_or", "fetch_xor",
};

static const char head[] =
    "#include <ferry/ferry.h>\n#include <inttypes.h>\n#include <stdio.h>\n#include <string.h>\n\n"
    "static struct memory {\n    uint64_t sync[%d], sum[%d], any[%d];\n    uint32_t sum32[%d], any32[%d];\n"
    "    uint8_t data[%u];\n} *m;\nstatic uint8_t b[%d][%u];\nstatic uint64_t old[%d];\nstatic uint32_t old32[%d];\nstatic size_t got[%d];\n\n"
    "static inline uint8_t *fill(int op, size_t n)\n{\n    for (size_t i = 0; i < n; i++)\n"
    "        b[op][i] = (uint8_t)(op * 41 + 1 + (int)(i %% 7));\n    return b[op];\n}\n\n"
    "static void ops(ferry_job_t *job, ferry_ctx_t **ctx)\n{\n    switch (ferry_my_pe(job)) {\n";

/* Each PE clears its memory and plays; a final state that differs from the one before is printed. */
static const char tail[] =
    "    }\n}\n\nint main(void)\n{\n    ferry_job_t *job;\n    ferry_ctx_t *ctx[%d];\n    uint64_t before = 0, after;\n\n"
    "    if (ferry_init(NULL, &job) != FERRY_OK || !(m = ferry_calloc(job, 1, sizeof *m)))\n        return 1;\n"
    "    ctx[0] = ferry_ctx_default(job);\n    for (int i = 1; i < %d; i++)\n        ferry_ctx_create(job, 0, &ctx[i]);\n"
    "    for (int round = 0; round < 400; round++) {\n        ferry_barrier(job);\n        memset(m, 0, sizeof *m);\n"
    "        memset(old, 0, sizeof old);\n        memset(old32, 0, sizeof old32);\n        memset(b, 0xee, sizeof b);\n"
    "        ferry_barrier(job);\n        ops(job, ctx);\n        for (int i = 0; i < %d; i++)\n            ferry_quiet(ctx[i]);\n"
    "        ferry_barrier(job);\n        after = 14695981039346656037u;\n"
    "        for (size_t i = 0; i < sizeof *m; i++)\n            after = (after ^ ((uint8_t *)m)[i]) * 1099511628211u;\n"
    "        for (size_t i = 0; i < sizeof old; i++)\n            after = (after ^ ((uint8_t *)old)[i]) * 1099511628211u;\n"
    "        for (int i = 0; i < %d; i++)\n            for (size_t k = 0; k < got[i]; k++)\n"
    "                after = (after ^ b[i][k]) * 1099511628211u;\n"
    "        if (after == before)\n            continue;\n        before = after;\n"
    "        for (int i = 0; i < %d; i++)\n            if (old[i] || old32[i])\n"
    "                printf(\"pe %%d round %%d: operation %%d fetched %%\" PRIx64 \"\\n\", ferry_my_pe(job), round, i, old[i] | old32[i]);\n"
    "        for (int i = 0; i < %d; i++)\n            if (got[i])\n"
    "                printf(\"pe %%d round %%d: operation %%d read %%zu bytes, first %%02x, last %%02x\\n\", ferry_my_pe(job), round, i, got[i],\n"
    "                       b[i][0], b[i][got[i] - 1]);\n"
    "        for (int i = 0; i < %d; i++)\n            if (m->sync[i])\n"
    "                printf(\"pe %%d round %%d: sync[%%d] is %%\" PRIx64 \"\\n\", ferry_my_pe(job), round, i, m->sync[i]);\n"
    "        printf(\"pe %%d round %%d: memory and results %%016\" PRIx64 \"\\n\", ferry_my_pe(job), round, after);\n"
    "        fflush(stdout);\n    }\n    for (int i = 1; i < %d; i++)\n        ferry_ctx_destroy(ctx[i]);\n    return ferry_finalize(job) == FERRY_OK ? 0 : 1;\n}\n";

static void print_word(int word, FILE *out)
{
    if (word < WORD_SUM)
        fprintf(out, "&m->sync[%d]", word);
    else if (word < WORD_SUM + WORDS_SUM)
        fprintf(out, "&m->sum[%d]", word - WORD_SUM);
    else if (word < WORD_ANY)
        fprintf(out, "&m->sum32[%d]", word - WORD_SUM - WORDS_SUM);
    else if (word < WORD_ANY + WORDS_ANY)
        fprintf(out, "&m->any[%d]", word - WORD_ANY);
    else
        fprintf(out, "&m->any32[%d]", word - WORD_ANY - WORDS_ANY);
}

static void print_amo(const struct random_op *op, int i, FILE *out)
{
    const char *narrow = random_width(op->word) == 4 ? "32" : "";

    fprintf(out, "ferry_atomic%s_%s(ctx[%d], ", narrow, calls[op->amo.kind], op->ctx);
    print_word(op->word, out);
    if (op->amo.kind == AMO_CSWAP)
        fprintf(out, ", 0x%" PRIx64, op->amo.compare);
    if (op->amo.kind != AMO_INC && op->amo.kind != AMO_FETCH && op->amo.kind != AMO_FETCH_INC)
        fprintf(out, ", 0x%" PRIx64, op->amo.value);
    if (random_fetches(op))
        fprintf(out, ", &old%s[%d]", narrow, i);
    fprintf(out, ", %d);\n", op->target);
}

static void print_signal(const struct random_op *op, FILE *out)
{
    fprintf(out, ", 0x%" PRIx64 ", FERRY_SIGNAL_%s%s, %d);\n", op->amo.value, op->amo.kind == AMO_SET ? "SET" : "ADD",
            op->weak ? " | FERRY_SIGNAL_WEAK" : "", op->target);
}

static void print_put(const struct random_op *op, int i, FILE *out)
{
    static const char *const names[] = {"put", "put_nbi", "put_signal", "put_signal_nbi"};

    fprintf(out, "ferry_%s(ctx[%d], m->data + %zu, fill(%d, %zu), %zu", names[op->kind], op->ctx, op->offset, i, op->length,
            op->length);
    if (op->kind < RANDOM_PUT_SIGNAL) {
        fprintf(out, ", %d);\n", op->target);
        return;
    }
    fprintf(out, ", ");
    print_word(op->word, out);
    print_signal(op, out);
}

/* What all signals to this word make of a zero; false: there are none. */
static bool awaited(const struct random_program *program, const struct random_op *wait, uint64_t *value)
{
    bool any = false;

    *value = 0;
    for (const struct random_op *op = program->op; op < wait; op++) {
        if (op->off || !random_signals(op) || op->target != wait->pe || op->word != wait->word)
            continue;
        *value = amo_model(&op->amo, *value);
        any = true;
    }
    return any;
}

static void print_read(const struct random_op *op, int i, FILE *out)
{
    if (op->kind == RANDOM_LOOK)
        fprintf(out, "memcpy(b[%d], m->data + %zu, %zu);\n", i, op->offset, op->length);
    else
        fprintf(out, "ferry_get%s(ctx[%d], b[%d], m->data + %zu, %zu, %d);\n", op->kind == RANDOM_GET ? "" : "_nbi", op->ctx, i,
                op->offset, op->length, op->target);
    fprintf(out, "        got[%d] = %zu;\n", i, op->length);
}

static void print_op(const struct random_program *program, int i, FILE *out)
{
    const struct random_op *op = &program->op[i];
    uint64_t value;

    fprintf(out, "        ");
    if (op->kind <= RANDOM_PUT_SIGNAL_NBI) {
        print_put(op, i, out);
    } else if (op->kind == RANDOM_SIGNAL) {
        fprintf(out, "ferry_signal(ctx[%d], ", op->ctx);
        print_word(op->word, out);
        print_signal(op, out);
    } else if (random_reads(op)) {
        print_read(op, i, out);
    } else if (op->kind == RANDOM_AMO) {
        print_amo(op, i, out);
    } else if (op->kind == RANDOM_FENCE || op->kind == RANDOM_QUIET) {
        fprintf(out, "ferry_%s(ctx[%d]);\n", op->kind == RANDOM_FENCE ? "fence" : "quiet", op->ctx);
    } else if (op->kind == RANDOM_QUIET_PE) {
        fprintf(out, "ferry_quiet_pe(ctx[%d], %d);\n", op->ctx, op->target);
    } else if (op->kind == RANDOM_WAIT && awaited(program, op, &value)) {
        fprintf(out, "ferry_wait_until(job, ");
        print_word(op->word, out);
        fprintf(out, ", FERRY_CMP_EQ, 0x%" PRIx64 ");\n", value);
    } else {
        fprintf(out, "%s;\n", op->kind == RANDOM_BARRIER ? "ferry_barrier(job)" : op->kind == RANDOM_SYNC ? "ferry_sync(job)" : "");
    }
}

static size_t longest(const struct random_program *program)
{
    size_t most = 1;

    for (int i = 0; i < program->n; i++)
        if (program->op[i].length > most)
            most = program->op[i].length;
    return most;
}

void random_print_c(const struct random_shrunk *shrunk, FILE *out)
{
    struct random_program *p = calloc(1, sizeof(*p));
    struct random_memory *zero = calloc(1, sizeof(*zero));

    if (!p || !zero) {
        free(p);
        free(zero);
        return;
    }
    for (int i = 0; i < RANDOM_PES; i++)
        p->before[i] = p->after[i] = zero;
    random_make(p, shrunk->seed);
    for (int i = 0; i < p->n; i++)
        p->op[i].off = shrunk->off[i];
    fprintf(out, "/* Program %" PRIu64 ", %d operations of %d. What was seen: %s\n * Run it with %d PEs. */\n", shrunk->seed,
            shrunk->left, p->n, shrunk->why, p->pes);
    fprintf(out, head, WORDS_SYNC, WORDS_SUM, WORDS_ANY, WORDS_SUM, WORDS_ANY, RANDOM_AREA, RANDOM_OPS, (unsigned)longest(p),
            RANDOM_OPS, RANDOM_OPS, RANDOM_OPS);
    for (int pe = 0; pe < p->pes; pe++) {
        fprintf(out, "    case %d:\n", pe);
        for (int i = 0; i < p->n; i++)
            if (!p->op[i].off && p->op[i].pe == pe)
                print_op(p, i, out);
        fprintf(out, "        break;\n");
    }
    fprintf(out, tail, RANDOM_CONTEXTS, RANDOM_CONTEXTS, RANDOM_CONTEXTS, RANDOM_OPS, RANDOM_OPS, RANDOM_OPS, WORDS_SYNC,
            RANDOM_CONTEXTS);
    free(p);
    free(zero);
}
