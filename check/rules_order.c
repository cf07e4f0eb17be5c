/* SPDX-License-Identifier: Apache-2.0
 * Items 10 to 15: what a fence orders, and what it leaves alone. On every PE; PE 0 sends, PE 1 looks. */
#include "crew.h"
#include "order.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LARGEST (8u << 20)

/* ------------------------------------------------------------------ 10: data, fence, flag */

enum data_by { DATA_PUT_NBI, DATA_PUT, DATA_PIECES, DATA_STRIDED, DATA_ATOMICS, DATA_WAYS };
enum flag_by { FLAG_PUT, FLAG_SET, FLAG_ADD, FLAG_FETCH_ADD, FLAG_SIGNAL, FLAG_WAYS };

struct box {
    uint8_t *data, *source;
    uint64_t *flag, *flag_put, *back; /* the flag that only puts write to is seen byte by byte */
};

static bool box_make(struct pe *pe, struct box *box, size_t bytes)
{
    uint64_t *words = rule_calloc(pe, 3 * 64);

    *box = (struct box){.data = rule_calloc(pe, bytes), .source = malloc(bytes)};
    if (!words || !box->data || !EXPECT(pe, box->source != NULL))
        return false;
    box->flag = words;
    box->flag_put = words + 8;
    box->back = words + 16;
    return true;
}

static void send_data(struct pe *pe, ferry_ctx_t *ctx, const struct box *box, size_t n, enum data_by how)
{
    size_t piece = n / 7 + 1;

    switch (how) {
    case DATA_PUT:
        EXPECT_OK(pe, ferry_put(ctx, box->data, box->source, n, 1));
        break;
    case DATA_PIECES:
        for (size_t at = 0; at < n; at += piece)
            EXPECT_OK(pe, ferry_put_nbi(ctx, box->data + at, box->source + at, n - at < piece ? n - at : piece, 1));
        break;
    case DATA_STRIDED:
        EXPECT_OK(pe, ferry_iput(ctx, box->data, box->source, 1, 1, n > 512 ? n : 1, n > 512 ? 1 : n, 1));
        break;
    case DATA_ATOMICS:
        for (size_t at = 0; at + 8 <= n && at < 256; at += 8) {
            uint64_t word;

            memcpy(&word, box->source + at, 8);
            EXPECT_OK(pe, ferry_atomic_set(ctx, (uint64_t *)(void *)(box->data + at), word, 1));
        }
        break;
    default:
        EXPECT_OK(pe, ferry_put_nbi(ctx, box->data, box->source, n, 1));
    }
}

static void send_flag(struct pe *pe, ferry_ctx_t *ctx, const struct box *box, uint64_t r, enum flag_by how)
{
    uint64_t old = r - 1;

    switch (how) {
    case FLAG_PUT:
        EXPECT_OK(pe, ferry_p(ctx, box->flag_put, order_value(r), 1));
        break;
    case FLAG_SET:
        EXPECT_OK(pe, ferry_atomic_set(ctx, box->flag, r, 1));
        break;
    case FLAG_ADD:
        EXPECT_OK(pe, ferry_atomic_add(ctx, box->flag, 1, 1));
        break;
    case FLAG_FETCH_ADD:
        EXPECT_OK(pe, ferry_atomic_fetch_add(ctx, box->flag, 1, &old, 1));
        break;
    default:
        EXPECT_OK(pe, ferry_signal(ctx, box->flag, r, FERRY_SIGNAL_SET | FERRY_SIGNAL_WEAK, 1));
    }
    EXPECT(pe, old == r - 1);
    if (how == FLAG_PUT) /* keeps the other flag in step; nobody looks at it in this round */
        EXPECT_OK(pe, ferry_atomic_add(ctx, box->flag, 1, 1));
    else if (ORDER_WATCHES_PUTS)
        EXPECT_OK(pe, ferry_p(ctx, box->flag_put, order_value(r), 1));
}

/* Any byte of the flag is enough: what is ahead of the fence must be there. Then both flags come in full. */
static void see(struct pe *pe, const struct box *box, size_t n, uint64_t r, enum flag_by flag, enum data_by data)
{
    if (flag == FLAG_PUT)
        EXPECT_OK(pe, ferry_wait_until(pe->job, box->flag_put, FERRY_CMP_NE, order_value(r - 1)));
    else
        EXPECT_OK(pe, ferry_wait_until(pe->job, box->flag, FERRY_CMP_EQ, r));
    if (data == DATA_ATOMICS)
        n = n / 8 * 8 < 256 ? n / 8 * 8 : 256;
    if (!EXPECT(pe, rule_wrong(box->data, n, r) == 0))
        fprintf(stderr, "  data of kind %d, fence, flag of kind %d: %zu of %zu bytes were old in round %llu\n", data,
                flag, rule_wrong(box->data, n, r), n, (unsigned long long)r);
    if (ORDER_WATCHES_PUTS)
        EXPECT_OK(pe, ferry_wait_until(pe->job, box->flag_put, FERRY_CMP_EQ, order_value(r)));
    EXPECT_OK(pe, ferry_wait_until(pe->job, box->flag, FERRY_CMP_EQ, r));
}

static void message(struct pe *pe, ferry_ctx_t *ctx, const struct box *box, size_t n, uint64_t r, enum data_by data,
                    enum flag_by flag)
{
    if (flag == FLAG_PUT && !ORDER_WATCHES_PUTS)
        flag = FLAG_SET;
    if (pe->rank == 0) {
        rule_fill(box->source, n, r);
        send_data(pe, ctx, box, n, data);
        EXPECT_OK(pe, ferry_fence(ctx));
        if (r % 5 == 0)
            EXPECT_OK(pe, ferry_fence(ctx)); /* two in a row are one */
        send_flag(pe, ctx, box, r, flag);
        EXPECT_OK(pe, ferry_wait_until(pe->job, box->back, FERRY_CMP_GE, r));
        EXPECT_OK(pe, ferry_quiet(ctx)); /* the answer does not free the source */
    } else if (pe->rank == 1) {
        see(pe, box, n, r, flag, data);
        EXPECT_OK(pe, ferry_atomic_set(pe->ctx, box->back, r, 0));
    }
}

size_t order_lengths(struct pe *pe, size_t lengths[ORDER_LENGTHS])
{
    static const size_t usual[] = {1, 7, 8, 9, 64, 300, 1000, 4096, 4099, 16384, 70001};
    const struct rule_caps *caps = &rule_stage(pe)->caps;
    const size_t limits[] = {caps->inline_max, caps->copy_max, caps->message_max};
    size_t n = sizeof(usual) / sizeof(*usual);

    memcpy(lengths, usual, sizeof(usual));
    for (size_t i = 0; i < 3; i++)
        for (size_t less = 0; less < 3; less++)
            if (limits[i] > 1 && limits[i] < ORDER_LONGEST)
                lengths[n++] = limits[i] + 1 - less;
    return n;
}

static void play(struct pe *pe, bool usual, size_t (*length)(struct pe *pe, uint64_t r), unsigned long rounds)
{
    struct box box;
    ferry_ctx_t *ctx = NULL;
    size_t lengths[ORDER_LENGTHS], n = order_lengths(pe, lengths);

    if (!box_make(pe, &box, usual ? ORDER_LONGEST : LARGEST) || !EXPECT_OK(pe, ferry_ctx_create(pe->job, 0, &ctx)))
        return;
    if (pe->rank == 1) /* what the first flag differs from */
        EXPECT_OK(pe, ferry_p(pe->ctx, box.flag_put, order_value(0), 1));
    EXPECT_OK(pe, ferry_barrier(pe->job));
    for (uint64_t r = 1; r <= rounds; r++)
        message(pe, ctx, &box, usual ? lengths[r % n] : length(pe, r), r, usual ? r % DATA_WAYS : DATA_PUT_NBI,
                usual ? r / DATA_WAYS % FLAG_WAYS : r % FLAG_WAYS);
    EXPECT_OK(pe, ferry_ctx_destroy(ctx));
    EXPECT_OK(pe, ferry_barrier(pe->job));
    free(box.source);
}

static void messages(struct pe *pe)
{
    play(pe, true, NULL, rule_times(pe, "messages", 10000));
}

static size_t large(struct pe *pe, uint64_t r)
{
    static const size_t lengths[] = {262145, 1u << 20, 300000, 2097153, 524287, LARGEST, 131072, 1048577};
    (void)pe;

    return lengths[r % (sizeof(lengths) / sizeof(*lengths))];
}

static void large_messages(struct pe *pe)
{
    play(pe, false, large, rule_times(pe, "messages up to 8 MiB", 200));
}

/* Words that are set one behind the other, with a fence between any two: whoever reads them from the last to the first
 * sees values that only grow. */
static void chain(struct pe *pe)
{
    enum { LINKS = 16 };
    unsigned long rounds = rule_times(pe, "rounds of 16 fences", 10000);
    uint64_t *words = rule_calloc(pe, LINKS * 64), looks = 0, bad = 0;

    if (!words)
        return;
    EXPECT_OK(pe, ferry_barrier(pe->job));
    for (uint64_t r = 1; pe->rank == 0 && r <= rounds; r++)
        for (int i = 0; i < LINKS; i++) {
            EXPECT_OK(pe, ferry_fence(pe->ctx));
            EXPECT_OK(pe, i & 1 ? ferry_signal(pe->ctx, &words[i * 8], r, FERRY_SIGNAL_SET | FERRY_SIGNAL_WEAK, 1)
                                : ferry_atomic_set(pe->ctx, &words[i * 8], r, 1));
        }
    while (pe->rank == 1 && ferry_test(pe->job, &words[(LINKS - 1) * 8], FERRY_CMP_EQ, rounds) == 0) {
        uint64_t before = 0;

        for (int i = LINKS - 1; i >= 0; i--) {
            uint64_t now = __atomic_load_n(&words[i * 8], __ATOMIC_ACQUIRE);

            bad += now < before;
            before = now;
        }
        looks++;
    }
    EXPECT(pe, bad == 0);
    EXPECT_OK(pe, ferry_barrier(pe->job));
}

/* No order for a get: it sees the old or the new value of each byte; but it is not lost, and the puts around it keep
 * theirs. */
static void gets_between(struct pe *pe)
{
    enum { BYTES = 3000 };
    unsigned long rounds = rule_times(pe, "rounds", 2000);
    uint8_t *data = rule_calloc(pe, BYTES), source[BYTES], into[BYTES];
    uint64_t *flag = rule_calloc(pe, 8), *back = rule_calloc(pe, 8);

    if (!data || !flag || !back)
        return;
    EXPECT_OK(pe, ferry_barrier(pe->job));
    for (uint64_t r = 1; r <= rounds; r++) {
        size_t strange = 0;

        if (pe->rank == 0) {
            memset(source, (int)(r & 0x7f), BYTES);
            memset(into, 0xee, BYTES);
            EXPECT_OK(pe, ferry_get_nbi(pe->ctx, into, data, BYTES, 1));
            EXPECT_OK(pe, ferry_fence(pe->ctx));
            EXPECT_OK(pe, ferry_put_nbi(pe->ctx, data, source, BYTES, 1));
            EXPECT_OK(pe, ferry_fence(pe->ctx));
            EXPECT_OK(pe, ferry_atomic_set(pe->ctx, flag, r, 1));
            EXPECT_OK(pe, ferry_quiet(pe->ctx));
            for (size_t i = 0; i < BYTES; i++)
                strange += into[i] != (r & 0x7f) && into[i] != ((r - 1) & 0x7f);
            EXPECT(pe, strange == 0);
            EXPECT_OK(pe, ferry_wait_until(pe->job, back, FERRY_CMP_GE, r));
        } else if (pe->rank == 1) {
            EXPECT_OK(pe, ferry_wait_until(pe->job, flag, FERRY_CMP_GE, r));
            EXPECT(pe, rule_all(data, BYTES, r & 0x7f));
            EXPECT_OK(pe, ferry_atomic_set(pe->ctx, back, r, 0));
        }
    }
    EXPECT_OK(pe, ferry_barrier(pe->job));
}

/* ------------------------------------------------------------------ 11: many PEs */

/* A fence with something on its way to everybody, on all PEs at once. */
static void fence_to_all(struct pe *pe)
{
    enum { BYTES = 700 };
    unsigned long rounds = rule_times(pe, "rounds", 5000);
    uint8_t *data = rule_calloc(pe, (size_t)pe->n * BYTES), source[BYTES];
    uint64_t *flags = rule_calloc(pe, (size_t)pe->n * 8);

    if (!data || !flags)
        return;
    EXPECT_OK(pe, ferry_barrier(pe->job));
    for (uint64_t r = 1; r <= rounds; r++) {
        rule_fill(source, BYTES, r * 64 + (uint64_t)pe->rank);
        for (int to = 0; to < pe->n; to++)
            EXPECT_OK(pe, ferry_put_nbi(pe->ctx, data + pe->rank * BYTES, source, BYTES, to));
        EXPECT_OK(pe, ferry_fence(pe->ctx));
        for (int to = pe->n - 1; to >= 0; to--)
            EXPECT_OK(pe, ferry_atomic_set(pe->ctx, &flags[pe->rank], r, to));
        for (int from = 0; from < pe->n; from++) {
            EXPECT_OK(pe, ferry_wait_until(pe->job, &flags[from], FERRY_CMP_EQ, r));
            EXPECT(pe, rule_wrong(data + from * BYTES, BYTES, r * 64 + (uint64_t)from) == 0);
        }
        EXPECT_OK(pe, ferry_barrier(pe->job));
    }
}

/* ------------------------------------------------------------------ 13: stores through ferry_ptr */

static void through_pointer(struct pe *pe)
{
    enum { BYTES = 3000 };
    unsigned long rounds = rule_times(pe, "rounds", 10000);
    uint8_t *data = rule_calloc(pe, BYTES), *there = pe->rank == 0 ? ferry_ptr(pe->job, data, 1) : NULL;
    uint64_t *flag = rule_calloc(pe, 8), *back = rule_calloc(pe, 8);

    if (!data || !flag || !back)
        return;
    if (pe->rank == 0)
        atomic_store(&rule_stage(pe)->words[1], there ? 1 : 2);
    if (!rule_meet(pe, 1, 1))
        return;
    if (atomic_load(&rule_stage(pe)->words[1]) == 2) {
        rule_not_applicable(pe, "the transport maps no memory of peers");
        return;
    }
    for (uint64_t r = 1; r <= rounds; r++) {
        if (pe->rank == 0) {
            rule_fill(there, BYTES, r);
            EXPECT_OK(pe, r & 1 ? ferry_fence(pe->ctx) : ferry_quiet(pe->ctx));
            EXPECT_OK(pe, ferry_atomic_set(pe->ctx, flag, r, 1));
            EXPECT_OK(pe, ferry_wait_until(pe->job, back, FERRY_CMP_GE, r));
        } else if (pe->rank == 1) {
            EXPECT_OK(pe, ferry_wait_until(pe->job, flag, FERRY_CMP_GE, r));
            EXPECT(pe, rule_wrong(data, BYTES, r) == 0);
            EXPECT_OK(pe, ferry_atomic_set(pe->ctx, back, r, 0));
        }
    }
    EXPECT_OK(pe, ferry_barrier(pe->job));
}

/* ------------------------------------------------------------------ 12, 15: several contexts */

#define LANES 4

/* Each context orders its own, while all are in use. Looked at from the last to the first. */
static void interleaved(struct pe *pe)
{
    enum { BYTES = 2000 };
    unsigned long rounds = rule_times(pe, "rounds of 4 contexts", 3000);
    uint8_t *data = rule_calloc(pe, LANES * BYTES), source[LANES * BYTES];
    uint64_t *flags = rule_calloc(pe, LANES * 8), *back = rule_calloc(pe, 8);
    ferry_ctx_t *ctx[LANES] = {NULL};

    for (int c = 0; c < LANES; c++)
        if (!EXPECT_OK(pe, ferry_ctx_create(pe->job, 0, &ctx[c])))
            return;
    if (!data || !flags || !back)
        return;
    for (uint64_t r = 1; r <= rounds; r++) {
        for (int c = 0; pe->rank == 0 && c < LANES; c++) {
            rule_fill(source + c * BYTES, BYTES, r * LANES + (uint64_t)c);
            EXPECT_OK(pe, ferry_put_nbi(ctx[c], data + c * BYTES, source + c * BYTES, BYTES, 1));
        }
        for (int c = LANES - 1; pe->rank == 0 && c >= 0; c--)
            EXPECT_OK(pe, ferry_fence(ctx[c]));
        for (int c = 0; pe->rank == 0 && c < LANES; c++)
            EXPECT_OK(pe, c & 1 ? ferry_atomic_set(ctx[c], &flags[c], r, 1)
                                : ferry_signal(ctx[c], &flags[c], 1, FERRY_SIGNAL_ADD, 1));
        for (int c = LANES - 1; pe->rank == 1 && c >= 0; c--) {
            EXPECT_OK(pe, ferry_wait_until(pe->job, &flags[c], FERRY_CMP_EQ, r));
            EXPECT(pe, rule_wrong(data + c * BYTES, BYTES, r * LANES + (uint64_t)c) == 0);
        }
        if (pe->rank == 1)
            EXPECT_OK(pe, ferry_atomic_set(pe->ctx, back, r, 0));
        if (pe->rank == 0)
            EXPECT_OK(pe, ferry_wait_until(pe->job, back, FERRY_CMP_GE, r));
        for (int c = 0; pe->rank == 0 && c < LANES; c++)
            EXPECT_OK(pe, ferry_quiet(ctx[c]));
    }
    for (int c = 0; c < LANES; c++)
        EXPECT_OK(pe, ferry_ctx_destroy(ctx[c]));
    EXPECT_OK(pe, ferry_barrier(pe->job));
}

struct streams {
    uint64_t *words; /* per thread: flag, and the way back 8 words further */
    uint8_t *data;
    unsigned long rounds;
};
#define STREAM_BYTES 4500u

static void stream(struct crew *crew)
{
    const struct streams *all = crew->arg;
    uint64_t *flag = all->words + crew->index * 16, *back = flag + 8;
    uint8_t *data = all->data + (size_t)crew->index * STREAM_BYTES, source[STREAM_BYTES];
    struct pe *pe = crew->pe;

    for (uint64_t r = 1; r <= all->rounds; r++) {
        uint64_t seed = r * LANES + (uint64_t)crew->index;

        if (pe->rank == 0) {
            rule_fill(source, STREAM_BYTES, seed);
            EXPECT_OK(pe, ferry_put_nbi(crew->ctx, data, source, STREAM_BYTES, 1));
            EXPECT_OK(pe, ferry_fence(crew->ctx));
            EXPECT_OK(pe, ferry_atomic_add(crew->ctx, flag, 1, 1));
            EXPECT_OK(pe, ferry_wait_until(pe->job, back, FERRY_CMP_GE, r));
            EXPECT_OK(pe, ferry_quiet(crew->ctx));
        } else {
            EXPECT_OK(pe, ferry_wait_until(pe->job, flag, FERRY_CMP_GE, r));
            EXPECT(pe, rule_wrong(data, STREAM_BYTES, seed) == 0);
            EXPECT_OK(pe, ferry_signal(crew->ctx, back, 1, FERRY_SIGNAL_ADD | FERRY_SIGNAL_WEAK, 0));
        }
    }
}

/* The same at once, a thread for each context. */
static void streams(struct pe *pe)
{
    struct streams all = {.rounds = rule_times(pe, "rounds of 4 threads", 3000)};

    all.words = rule_calloc(pe, LANES * 16 * 8);
    all.data = rule_calloc(pe, LANES * STREAM_BYTES);
    if (!all.words || !all.data)
        return;
    if (pe->rank < 2)
        crew_run(pe, LANES, CREW_PRIVATE, stream, &all);
    EXPECT_OK(pe, ferry_barrier(pe->job));
}

/* What is on its way on one context stays there, as far as chaos likes, while another is completed; and comes in
 * time. */
static void quiet_of_another(struct pe *pe)
{
    unsigned long rounds = rule_times(pe, "rounds", 5000), waiting = 0;
    const struct stage *stage = rule_stage(pe);
    /* chaos shows it, unless the transport copies nothing: then a put has to be complete before it returns */
    bool shows = stage->chaos && stage->caps.copy_max >= 8;
    uint64_t *words = rule_calloc(pe, 128), own = 0, others = 0;
    ferry_ctx_t *a = NULL, *b = NULL;

    if (!words || !EXPECT_OK(pe, ferry_ctx_create(pe->job, 0, &a)) || !EXPECT_OK(pe, ferry_ctx_create(pe->job, 0, &b)))
        return;
    EXPECT_OK(pe, ferry_barrier(pe->job));
    for (uint64_t r = 1; pe->rank == 0 && (r <= rounds || (shows && !waiting && r <= 100 * rounds)); r++) {
        for (int i = 1; i < 8; i++)
            EXPECT_OK(pe, ferry_p(b, &words[i], order_value(r), 1));
        EXPECT_OK(pe, ferry_p(a, &words[0], order_value(r), 1));
        EXPECT_OK(pe, ferry_quiet(a));
        for (int i = 1; i < 8; i++) {
            EXPECT_OK(pe, ferry_g(pe->ctx, &words[i], &others, 1));
            waiting += others != order_value(r);
        }
        EXPECT_OK(pe, ferry_g(pe->ctx, &words[0], &own, 1));
        EXPECT(pe, own == order_value(r));
        EXPECT_OK(pe, ferry_quiet(b));
        EXPECT_OK(pe, ferry_g(pe->ctx, &words[7], &others, 1));
        EXPECT(pe, others == order_value(r));
    }
    EXPECT(pe, pe->rank != 0 || !shows || waiting > 0);
    EXPECT_OK(pe, ferry_ctx_destroy(a));
    EXPECT_OK(pe, ferry_ctx_destroy(b));
    EXPECT_OK(pe, ferry_barrier(pe->job));
}

const struct rule fy_rules_order[] = {
    {"R10.1", "data of any kind, a fence, a flag of any kind", 2, 0, messages, NULL},
    {"R10.2", "up to 8 MiB, a fence, a flag of any kind", 2, 0, large_messages, NULL},
    {"R10.3", "a chain of fences is seen in its order", 2, 0, chain, NULL},
    {"R10.4", "a get beside fences is neither ordered nor lost", 2, RULE_RACES, gets_between, NULL},
    {"R11.1", "a fence with operations on their way to all PEs, by all at once", 1, 0, fence_to_all, NULL},
    {"R12.1", "quiet of one context neither completes nor awaits another", 2, RULE_RACES, quiet_of_another, NULL},
    {"R13.1", "stores through ferry_ptr are ordered by fence and quiet", 2, 0, through_pointer, NULL},
    {"R14.1", "puts, a fence, and any operation", 2, 0, order_after_put, NULL},
    {"R14.2", "atomics of any kind and width, a fence, and any operation", 2, 0, order_after_atomic, NULL},
    {"R14.3", "put_signals, a fence, and any operation", 2, 0, order_after_put_signal, NULL},
    {"R14.4", "signals, a fence, and any operation", 2, 0, order_after_signal, NULL},
    {"R15.1", "interleaved contexts each keep their order", 2, 0, interleaved, NULL},
    {"R15.2", "contexts of several threads each keep their order", 2, 0, streams, NULL},
    {NULL, NULL, 0, 0, NULL, NULL},
};
