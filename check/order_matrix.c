/* SPDX-License-Identifier: Apache-2.0
 * Item 14: some operations, a fence, one operation more. Puts, atomics of every kind and both widths, put_signals and
 * signals, each behind each. PE 0 sends, PE 1 looks. */
#include "amo.h"
#include "order.h"

#include <stdio.h>
#include <stdlib.h>

enum family { BY_PUT, BY_ATOMIC, BY_PUT_SIGNAL, BY_SIGNAL, FAMILIES };
static const char *const names[FAMILIES] = {"put", "atomic", "put_signal", "signal"};

#define PIECES 3u
#define ROOM   5008u
static const size_t lengths[] = {1, 8, 64, 300, 1000, 5003};
static const enum amo_kind kinds[] = {AMO_ADD,   AMO_FETCH_ADD, AMO_SET,       AMO_SWAP, AMO_INC,
                                      AMO_CSWAP, AMO_XOR,       AMO_FETCH_INC, AMO_AND,  AMO_FETCH_AND,
                                      AMO_OR,    AMO_FETCH_OR,  AMO_FETCH_XOR};
#define KINDS (sizeof(kinds) / sizeof(*kinds))

/* What one operation is, drawn from its round: the same on both PEs. */
struct step {
    enum family family;
    struct amo amo; /* signals, too: SET or ADD of 8 bytes */
    int weak;
    size_t length;
    uint64_t seed;
};

/* Symmetric memory of one operation. */
struct place {
    uint8_t *data;
    uint64_t *wide, *narrow, *flag;
};

static struct step plan(enum family family, uint64_t draw, uint64_t round)
{
    struct step step = {.family = family, .weak = draw >> 8 & 1, .seed = round};
    int adds = draw >> 9 & 1;

    step.length = lengths[draw % (sizeof(lengths) / sizeof(*lengths))];
    step.amo = (struct amo){.kind = adds ? AMO_ADD : AMO_SET, .width = 8, .value = 2 * round + 1};
    if (family == BY_ATOMIC) {
        step.amo.kind = kinds[draw % KINDS];
        step.amo.width = draw >> 9 & 1 ? 8 : 4;
    }
    return step;
}

/* Of its word, before the operation. */
static uint64_t initial(const struct step *step)
{
    if (step->amo.kind != AMO_AND && step->amo.kind != AMO_FETCH_AND)
        return 0;
    return step->amo.width == 8 ? UINT64_MAX : UINT32_MAX;
}

static uint64_t *word_of(const struct step *step, const struct place *place)
{
    return step->amo.width == 8 ? place->wide : place->narrow;
}

/* PE 1 puts its own word back. */
static void reset(struct pe *pe, const struct step *step, const struct place *place)
{
    struct amo set = {.kind = AMO_SET, .width = step->amo.width, .value = initial(step)};
    uint64_t none;

    if (step->family != BY_PUT)
        EXPECT_OK(pe, amo_issue(pe->ctx, &set, word_of(step, place), &none, pe->rank));
}

static void issue(struct pe *pe, ferry_ctx_t *ctx, const struct step *step, const struct place *place,
                  const uint8_t *source)
{
    int how = (step->amo.kind == AMO_ADD ? FERRY_SIGNAL_ADD : FERRY_SIGNAL_SET) | (step->weak ? FERRY_SIGNAL_WEAK : 0);
    uint64_t old = 0;
    struct amo amo = step->amo;

    switch (step->family) {
    case BY_PUT:
        EXPECT_OK(pe, ferry_put_nbi(ctx, place->data, source, step->length, 1));
        break;
    case BY_ATOMIC:
        amo.compare = initial(step);
        EXPECT_OK(pe, amo_issue(ctx, &amo, word_of(step, place), &old, 1));
        EXPECT(pe, amo.kind < AMO_FETCH || old == initial(step));
        break;
    case BY_PUT_SIGNAL:
        EXPECT_OK(pe, ferry_put_signal_nbi(ctx, place->data, source, step->length, place->wide, amo.value, how, 1));
        break;
    default:
        EXPECT_OK(pe, ferry_signal(ctx, place->wide, amo.value, how, 1));
    }
}

/* The operation is there as a whole, now. */
static bool done(struct pe *pe, const struct step *step, const struct place *place)
{
    struct amo amo = step->amo;
    bool good = true;

    amo.compare = initial(step);
    if (step->family != BY_PUT) /* the other half of a narrow word's 8 bytes is 0 */
        good = ferry_test(pe->job, word_of(step, place), FERRY_CMP_EQ, amo_model(&amo, initial(step))) == 1;
    if (step->family == BY_PUT || step->family == BY_PUT_SIGNAL)
        good = good && rule_wrong(place->data, step->length, step->seed) == 0;
    return good;
}

/* The later operation is seen, if only a byte of it; then the earlier ones must be there. */
static void look(struct pe *pe, const struct step *step, const struct place *places)
{
    const struct step *later = &step[PIECES];

    if (later->family == BY_PUT)
        EXPECT_OK(pe, ferry_wait_until(pe->job, places[PIECES].flag, FERRY_CMP_NE, order_value(later->seed - 1)));
    else
        EXPECT_OK(pe, ferry_wait_until(pe->job, word_of(later, &places[PIECES]), FERRY_CMP_NE, initial(later)));
    for (unsigned i = 0; i < PIECES; i++)
        if (!EXPECT(pe, done(pe, &step[i], &places[i])))
            fprintf(stderr, "  %s (kind %d, width %d, %zu bytes), fence, %s (kind %d, width %d): round %llu\n",
                    names[step->family], step->amo.kind, step->amo.width, step->length, names[later->family],
                    later->amo.kind, later->amo.width, (unsigned long long)later->seed);
    if (later->family == BY_PUT)
        EXPECT_OK(pe, ferry_wait_until(pe->job, places[PIECES].flag, FERRY_CMP_EQ, order_value(later->seed)));
    else
        EXPECT(pe, done(pe, later, &places[PIECES]));
}

static void send(struct pe *pe, ferry_ctx_t *ctx, const struct step *step, const struct place *places, uint8_t *source)
{
    const struct step *later = &step[PIECES];

    for (unsigned i = 0; i <= PIECES; i++)
        rule_fill(source + i * ROOM, step[i].length, step[i].seed);
    for (unsigned i = 0; i < PIECES; i++)
        issue(pe, ctx, &step[i], &places[i], source + i * ROOM);
    EXPECT_OK(pe, ferry_fence(ctx));
    if (later->family == BY_PUT)
        EXPECT_OK(pe, ferry_p(ctx, places[PIECES].flag, order_value(later->seed), 1));
    else
        issue(pe, ctx, later, &places[PIECES], source + PIECES * ROOM);
}

static bool take(struct pe *pe, struct place *places)
{
    for (unsigned i = 0; i <= PIECES; i++) {
        places[i] = (struct place){rule_calloc(pe, ROOM), rule_calloc(pe, 8), rule_calloc(pe, 8), rule_calloc(pe, 8)};
        if (!places[i].data || !places[i].wide || !places[i].narrow || !places[i].flag)
            return false;
    }
    return true;
}

static void draw_steps(enum family earlier, uint64_t r, struct step *step)
{
    uint64_t state = r * 0x9e3779b97f4a7c15u;

    for (unsigned i = 0; i < PIECES; i++)
        step[i] = plan(earlier, rule_draw(&state) >> 7, r * (PIECES + 1) + i);
    step[PIECES] =
        plan(r % FAMILIES == BY_PUT && !ORDER_WATCHES_PUTS ? BY_ATOMIC : r % FAMILIES, rule_draw(&state) >> 7, r);
}

static void rows(struct pe *pe, ferry_ctx_t *ctx, enum family earlier, struct place *places, uint64_t *ready)
{
    unsigned long rounds = rule_times(pe, "pairs", 10000);
    static __thread uint8_t source[(PIECES + 1) * ROOM];
    uint64_t flag = 0; /* of the latest put behind a fence */
    struct step step[PIECES + 1];

    for (uint64_t r = 1; r <= rounds; r++) {
        draw_steps(earlier, r, step);
        if (step[PIECES].family == BY_PUT)
            step[PIECES].seed = ++flag;
        if (pe->rank == 0) {
            EXPECT_OK(pe, ferry_wait_until(pe->job, ready, FERRY_CMP_GE, r));
            EXPECT_OK(pe, ferry_quiet(ctx)); /* sources of the round before */
            send(pe, ctx, step, places, source);
        } else if (pe->rank == 1) {
            for (unsigned i = 0; i <= PIECES; i++)
                reset(pe, &step[i], &places[i]);
            EXPECT_OK(pe, ferry_quiet(pe->ctx));
            EXPECT_OK(pe, ferry_atomic_set(pe->ctx, ready, r, 0));
            look(pe, step, places);
        }
    }
    EXPECT_OK(pe, ferry_quiet(ctx));
}

static void after(struct pe *pe, enum family earlier)
{
    struct place places[PIECES + 1];
    uint64_t *ready = rule_calloc(pe, 8);
    ferry_ctx_t *ctx = NULL;

    if (!ready || !take(pe, places) || !EXPECT_OK(pe, ferry_ctx_create(pe->job, 0, &ctx)))
        return;
    if (pe->rank == 1) /* what the first flag put differs from */
        EXPECT_OK(pe, ferry_p(pe->ctx, places[PIECES].flag, order_value(0), 1));
    EXPECT_OK(pe, ferry_barrier(pe->job));
    rows(pe, ctx, earlier, places, ready);
    EXPECT_OK(pe, ferry_ctx_destroy(ctx));
    EXPECT_OK(pe, ferry_barrier(pe->job));
}

void order_after_put(struct pe *pe)
{
    after(pe, BY_PUT);
}

void order_after_atomic(struct pe *pe)
{
    after(pe, BY_ATOMIC);
}

void order_after_put_signal(struct pe *pe)
{
    after(pe, BY_PUT_SIGNAL);
}

void order_after_signal(struct pe *pe)
{
    after(pe, BY_SIGNAL);
}
