/* SPDX-License-Identifier: Apache-2.0
 * Item 60: a floor for speed, in ratios of one run: what a call costs over what it costs where nothing is moved,
 * thresholds, late ones, many at once, and a stored file. Called once, without a job; the PEs of its jobs are threads,
 * of which PE 0 measures. The best of several rounds counts, so that other work of the machine does not. */
#include "jobs.h"

#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define ROUNDS      7
#define BATCH       16u /* operations between two looks at the clock */
#define LONGEST     (1u << 22)
#define LOOK        1e-6   /* seconds; what takes less is no cliff, and its ratio is none */
#define MOST_CALL   1000.0 /* times what a call costs that moves nothing */
#define MOST_STEP   8.0    /* from one length to the next one */
#define MOST_LATE   100.0  /* the slowest of a hundred over the median */
#define MOST_MANY   1.5    /* many before one quiet over one by one */
#define MOST_STORED 2.0    /* over what the file has */

enum { PUT_8, PUT_1K, ADD, SIGNAL, CALLS };
static const char *const call_names[CALLS] = {"put of 8 bytes", "put of 1 KiB", "add", "put_signal of 8 bytes"};

/* What a job measures. */
struct meter {
    void (*measure)(struct pe *pe, struct meter *meter);
    const char *transport; /* NULL: the one in question */
    struct rule_caps caps; /* of the one in question */
    double calls[CALLS];   /* seconds of one call, without its completion */
    double late;           /* the slowest of a hundred over the median */
    double many, one;      /* seconds of a put, of many before one quiet, and one by one */
    double worst;          /* from one length to the next */
    size_t worst_at;       /* the shorter one */
    uint8_t *data, *local; /* of LONGEST */
    uint64_t *words;
    ferry_buffer_t *buffer;
    int target;
};

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static double quantile(double *samples, size_t n, double which)
{
    qsort(samples, n, sizeof(*samples), by_value);
    return samples[(size_t)((double)(n - 1) * which)];
}

static double at_least(double value)
{
    return value > LOOK ? value : LOOK;
}

/* ------------------------------------------------------------------ what is measured, by PE 0 */

static int call(struct pe *pe, struct meter *m, int which)
{
    switch (which) {
    case PUT_8:
        return ferry_put_nbi(pe->ctx, m->data, m->local, 8, m->target);
    case PUT_1K:
        return ferry_put_nbi(pe->ctx, m->data, m->local, 1024, m->target);
    case ADD:
        return ferry_atomic_add(pe->ctx, m->words, 1, m->target);
    default:
        return ferry_put_signal_nbi(pe->ctx, m->data, m->local, 8, m->words + 1, 1, FERRY_SIGNAL_ADD, m->target);
    }
}

static void measure_calls(struct pe *pe, struct meter *m)
{
    enum { SAMPLES = 60 };
    double samples[SAMPLES], median;

    for (int round = 0; round < ROUNDS; round++)
        for (int which = 0; which < CALLS; which++) {
            for (int i = 0; i < SAMPLES; i++) {
                double begin = pes_now();

                for (unsigned k = 0; k < BATCH; k++)
                    EXPECT_OK(pe, call(pe, m, which));
                samples[i] = (pes_now() - begin) / BATCH;
                EXPECT_OK(pe, ferry_quiet(pe->ctx));
            }
            median = quantile(samples, SAMPLES, 0.5);
            if (round == 0 || median < m->calls[which])
                m->calls[which] = median;
        }
}

static double complete_one(struct pe *pe, struct meter *m, size_t n)
{
    double begin = pes_now();

    EXPECT_OK(pe, ferry_put(pe->ctx, m->data, m->local, n, m->target));
    EXPECT_OK(pe, ferry_quiet(pe->ctx));
    return pes_now() - begin;
}

static double median_of(struct pe *pe, struct meter *m, size_t n)
{
    enum { SAMPLES = 15 };
    double samples[SAMPLES];

    for (int i = 0; i < SAMPLES; i++)
        samples[i] = complete_one(pe, m, n);
    return quantile(samples, SAMPLES, 0.5);
}

/* Both by turns, so that what the machine does besides meets both. */
static void compare(struct pe *pe, struct meter *m, size_t n, size_t next)
{
    double best = 1e9;

    for (int round = 0; round < ROUNDS && best > MOST_STEP / 2; round++) {
        double first = median_of(pe, m, n), second = median_of(pe, m, next), ratio = at_least(second) / at_least(first);

        if (ratio < best)
            best = ratio;
    }
    if (best > m->worst) {
        m->worst = best;
        m->worst_at = n;
    }
}

static void measure_steps(struct pe *pe, struct meter *m)
{
    const size_t limits[] = {m->caps.inline_max, m->caps.copy_max, m->caps.message_max};

    m->worst = 0;
    for (size_t i = 0; i < sizeof(limits) / sizeof(*limits); i++)
        if (limits[i] >= 8 && limits[i] < LONGEST)
            compare(pe, m, limits[i], limits[i] + 1);
    for (size_t n = 8; n <= 1u << 18; n *= 2)
        compare(pe, m, n, 2 * n);
}

static void measure_late(struct pe *pe, struct meter *m)
{
    enum { SAMPLES = 500 };
    double samples[SAMPLES], ratio;

    m->late = 1e9;
    for (int round = 0; round < 2 * ROUNDS && m->late > MOST_LATE / 2; round++) {
        for (int i = 0; i < SAMPLES; i++)
            samples[i] = complete_one(pe, m, 8);
        ratio = at_least(quantile(samples, SAMPLES, 0.99)) / at_least(quantile(samples, SAMPLES, 0.5));
        if (ratio < m->late)
            m->late = ratio;
    }
}

static void measure_many(struct pe *pe, struct meter *m)
{
    enum { MANY = 64 };

    m->many = 1e9;
    m->one = 0;
    for (int round = 0; round < 3 * ROUNDS && m->many > m->one * MOST_MANY / 1.2; round++) {
        double begin = pes_now(), middle;

        for (int i = 0; i < MANY; i++)
            EXPECT_OK(pe, ferry_put_nbi(pe->ctx, m->data, m->local, 1024, m->target));
        EXPECT_OK(pe, ferry_quiet(pe->ctx));
        middle = pes_now();
        for (int i = 0; i < MANY; i++)
            complete_one(pe, m, 1024);
        if (m->one == 0 || (middle - begin) / (pes_now() - middle) < m->many / m->one) {
            m->many = (middle - begin) / MANY;
            m->one = (pes_now() - middle) / MANY;
        }
    }
}

/* ------------------------------------------------------------------ the jobs */

static void body(struct pe *pe)
{
    struct meter *m = pe->arg;
    uint8_t *data = ferry_calloc(pe->job, 1, LONGEST);
    uint64_t *words = ferry_calloc(pe->job, 2, 8);

    if (!EXPECT(pe, data && words))
        return;
    if (pe->rank == 0) {
        m->data = data;
        m->words = words;
        m->target = pe->n - 1;
        if (EXPECT_OK(pe, ferry_register(pe->job, m->local, LONGEST, &m->buffer))) {
            complete_one(pe, m, LONGEST); /* connects, and touches all pages */
            m->measure(pe, m);
            EXPECT_OK(pe, ferry_deregister(m->buffer));
        }
    }
    EXPECT_OK(pe, ferry_barrier(pe->job));
}

/* Over the transport that moves nothing, one PE is its own target. */
static bool run_meter(struct pe *pe, struct meter *m, void (*measure)(struct pe *, struct meter *),
                      const char *transport)
{
    const char *options[] = {transport, NULL};
    int before = atomic_load(&pe->run->failures);
    struct job *job = calloc(1, sizeof(*job));

    m->measure = measure;
    m->caps = rule_stage(pe)->caps;
    m->local = aligned_alloc(4096, LONGEST);
    if (EXPECT(pe, job && m->local)) {
        memset(m->local, 1, LONGEST);
        *job = (struct job){.n = transport ? 1 : pe->n, .body = body, .arg = m, .options = options};
        job_run(pe, job);
        for (int i = 0; i < job->n; i++)
            if (!EXPECT(pe, job->pes[i].began == FERRY_OK))
                fprintf(stderr, "  pe %d: %s\n", i, job->pes[i].error.message);
    }
    free(m->local);
    free(job);
    return atomic_load(&pe->run->failures) == before;
}

/* Seconds of each call, over the null transport's and over this one's: the ratio. */
static bool ratios(struct pe *pe, double out[CALLS])
{
    const char *null = getenv("CHECK_NULL");
    char transport[600];
    struct meter idle = {.late = 0}, m = {.late = 0};

    if (!null) {
        rule_not_applicable(pe, "there is no null transport to compare with: ferry-check has it");
        return false;
    }
    snprintf(transport, sizeof(transport), "FERRY_TRANSPORT=%s", null);
    if (!run_meter(pe, &idle, measure_calls, transport) || !run_meter(pe, &m, measure_calls, NULL))
        return false;
    for (int i = 0; i < CALLS; i++) {
        out[i] = m.calls[i] / idle.calls[i];
        printf("    %s: %.0f ns, where nothing is moved %.0f ns: %.1f times\n", call_names[i], m.calls[i] * 1e9,
               idle.calls[i] * 1e9, out[i]);
    }
    return true;
}

static void calls_cost(struct pe *pe)
{
    double ratio[CALLS];

    if (!ratios(pe, ratio))
        return;
    for (int i = 0; i < CALLS; i++)
        if (!EXPECT(pe, ratio[i] <= MOST_CALL))
            fprintf(stderr, "  a call of %s costs %.0f times what it costs where nothing is moved\n", call_names[i],
                    ratio[i]);
}

static void no_cliff(struct pe *pe)
{
    struct meter m = {.late = 0};

    if (!run_meter(pe, &m, measure_steps, NULL))
        return;
    printf("    the largest step: %.1f times, beyond %zu bytes\n", m.worst, m.worst_at);
    if (!EXPECT(pe, m.worst <= MOST_STEP))
        fprintf(stderr, "  beyond %zu bytes a put takes %.1f times as long\n", m.worst_at, m.worst);
}

static void few_late(struct pe *pe)
{
    struct meter m = {.late = 0};

    if (!run_meter(pe, &m, measure_late, NULL))
        return;
    printf("    the slowest of a hundred puts takes %.1f times the median\n", m.late);
    EXPECT(pe, m.late <= MOST_LATE);
}

static void many_at_once(struct pe *pe)
{
    struct meter m = {.late = 0};

    if (!run_meter(pe, &m, measure_many, NULL))
        return;
    printf("    a put of 1 KiB: %.0f ns of many before one quiet, %.0f ns one by one\n", m.many * 1e9, m.one * 1e9);
    EXPECT(pe, m.many <= m.one * MOST_MANY || m.many < LOOK);
}

/* ------------------------------------------------------------------ a stored file */

/* A new file: whatever is there under that name is somebody's, and stays. */
static bool write_stored(const char *file, const double ratio[CALLS])
{
    FILE *out = fopen(file, "wxe");
    json_t *root = out ? json_object() : NULL;
    bool good;

    if (!out)
        return false;
    for (int i = 0; i < CALLS; i++)
        json_object_set_new(root, call_names[i], json_real(ratio[i]));
    good = json_dumpf(root, out, JSON_INDENT(1) | JSON_REAL_PRECISION(4)) == 0;
    json_decref(root);
    return fclose(out) == 0 && good;
}

static void store(struct pe *pe, const char *file, const double ratio[CALLS])
{
    char what[400];

    if (write_stored(file, ratio)) {
        printf("    stored in %s\n", file);
        return;
    }
    snprintf(what, sizeof(what), "--baseline '%.250s' cannot be written: %s", file, strerror(errno));
    pes_expect(pe, false, what, __FILE__, __LINE__);
}

/* What the file says; NULL if there is none. False: it is something else. */
static bool read_stored(struct pe *pe, const char *file, json_t **stored)
{
    char what[600];
    json_error_t why;

    *stored = json_load_file(file, 0, &why);
    if (*stored || (access(file, F_OK) != 0 && errno == ENOENT))
        return true;
    snprintf(what, sizeof(what), "--baseline '%.250s' has no stored figures, and is left as it is: %s", file, why.text);
    return pes_expect(pe, false, what, __FILE__, __LINE__);
}

/* How many figures are worse than stored; -1: the file is none. */
static int worse(const json_t *stored, const double ratio[CALLS])
{
    int n = 0;

    for (int i = 0; i < CALLS; i++) {
        const json_t *figure = json_object_get(stored, call_names[i]);

        if (!json_is_number(figure))
            return -1;
        if (ratio[i] > MOST_STORED * json_number_value(figure)) {
            printf("    %s: %.1f times, stored %.1f times\n", call_names[i], ratio[i], json_number_value(figure));
            n++;
        }
    }
    return n;
}

/* What is worse is measured up to ten times: a change of the transport is worse each time. */
static void as_stored(struct pe *pe)
{
    const char *file = getenv("CHECK_BASELINE");
    json_t *stored = NULL;
    double ratio[CALLS];
    int bad = 1;

    if (!file)
        rule_not_applicable(pe, "no file was named by --baseline");
    else if (!read_stored(pe, file, &stored))
        return;
    for (int i = 0; file && i < 10 && bad > 0; i++) {
        if (!ratios(pe, ratio))
            break;
        bad = stored ? worse(stored, ratio) : 0;
    }
    if (file && !stored && !rule_stage(pe)->not_applicable) {
        if (bad == 0)
            store(pe, file, ratio);
    } else if (stored && !rule_stage(pe)->not_applicable) {
        EXPECT(pe, bad == 0);
    }
    json_decref(stored);
}

#define FLAGS (RULE_ALONE | RULE_PAIR | RULE_ASKED)

const struct rule fy_rules_speed[] = {
    {"R60.1", "a call costs at most 1000 times what it costs where nothing is moved", 2, FLAGS, calls_cost, NULL},
    {"R60.2", "no put takes 8 times as long as one that is a byte, or by half, shorter", 2, FLAGS, no_cliff, NULL},
    {"R60.3", "the slowest of a hundred puts takes at most 100 times the median", 2, FLAGS, few_late, NULL},
    {"R60.4", "many puts before one quiet take no longer than one by one", 2, FLAGS, many_at_once, NULL},
    {"R60.5", "calls cost at most twice what a stored file says", 2, FLAGS, as_stored, NULL},
    {NULL, NULL, 0, 0, NULL, NULL},
};
