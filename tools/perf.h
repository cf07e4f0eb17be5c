/* SPDX-License-Identifier: Apache-2.0
 * ferry-perf: what its files share. Each PE runs all of it in one thread; only PE 0 measures and prints. */
#ifndef FERRY_TOOLS_PERF_H
#define FERRY_TOOLS_PERF_H

#include <ferry/ferry.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PERF_MAX_SIZES    32
#define PERF_MAX_CHANNELS 64
#define PERF_WINDOW       64 /* operations between two quiets, in rates and bandwidths */

enum perf_format { PERF_TABLE, PERF_CSV, PERF_JSON };

struct perf_options {
    const char *test; /* a name of the table, or "all" */
    size_t sizes[PERF_MAX_SIZES];
    size_t n_sizes;  /* 0: the test's own */
    uint64_t iters;  /* 0: the test's own */
    uint64_t warmup; /* UINT64_MAX: a tenth of the iterations */
    int channels;
    enum perf_format format;
    bool no_pin;
};

/* Symmetric words, far enough apart not to share a cache line. */
enum perf_word { PERF_FLAG, PERF_SIGNAL, PERF_COUNTER, PERF_WORDS };
#define PERF_WORD_STRIDE 32

/* One PE at work. */
struct perf {
    struct perf_options options;
    ferry_job_t *job;
    int me, n_pes;
    int peer; /* of PE 0: 1; of PE 1: 0 */
    ferry_ctx_t *ctx[PERF_MAX_CHANNELS];
    uint8_t *inbox;    /* symmetric: where puts arrive and gets read */
    uint8_t *outbox;   /* symmetric, so that it is registered: source of puts, destination of gets */
    uint64_t *words;   /* symmetric */
    size_t bytes;      /* of the running test */
    uint64_t sequence; /* of a ping-pong, equal on both sides */
};

enum perf_unit { PERF_NS, PERF_MOPS, PERF_GBS };

enum perf_who {
    PERF_ONE,  /* PE 0 acts on PE 1 */
    PERF_PAIR, /* PE 0 and 1 take turns: an iteration is a round trip, half of it is reported */
    PERF_EVERY /* all PEs do the same */
};

struct perf_test {
    const char *name, *summary;
    enum perf_unit unit;
    enum perf_who who;
    size_t size;    /* of the payload if the user gives none; 0: there is no payload */
    uint64_t iters; /* if the user gives none, fewer for large payloads */
    /* n iterations, in one go; a status */
    int (*batch)(struct perf *perf, uint64_t n);
};

/* Ends with a name of NULL. */
extern const struct perf_test perf_tests[];

struct perf_result {
    const struct perf_test *test;
    size_t bytes;
    int pes, channels;
    uint64_t iterations;
    double min, median, p99, max; /* of the samples, in the test's unit */
};

/* Exits with EX_USAGE on bad input. */
void perf_parse(int argc, char **argv, struct perf_options *options);
/* Runs one test with one size, on every PE; the result is PE 0's only. A status. */
int perf_measure(struct perf *perf, const struct perf_test *test, size_t bytes, struct perf_result *result);
/* Sorts the samples. n is 1 or more. */
void perf_summarise(double *samples, size_t n, struct perf_result *result);

/* Called by PE 0: once before, for each result, once after. -1: memory or standard output failed. */
struct perf_printer {
    enum perf_format format;
    char transport[128];
    int pes;
    void *array; /* json_t */
};
int perf_print_begin(struct perf_printer *printer, enum perf_format format, const char *transport, int pes);
int perf_print_result(struct perf_printer *printer, const struct perf_result *result);
int perf_print_end(struct perf_printer *printer);

/* ------------------------------------------------------------------ batches, in perf_lat.c and perf_rate.c */

int perf_put_lat(struct perf *perf, uint64_t n);
int perf_put_flag_lat(struct perf *perf, uint64_t n);
int perf_put_signal_lat(struct perf *perf, uint64_t n);
int perf_signal_lat(struct perf *perf, uint64_t n);
int perf_put_quiet_lat(struct perf *perf, uint64_t n);
int perf_get_lat(struct perf *perf, uint64_t n);
int perf_fetch_add_lat(struct perf *perf, uint64_t n);
int perf_cswap_lat(struct perf *perf, uint64_t n);
int perf_quiet_idle(struct perf *perf, uint64_t n);
int perf_barrier_lat(struct perf *perf, uint64_t n);
int perf_put_window(struct perf *perf, uint64_t n);
int perf_get_window(struct perf *perf, uint64_t n);
int perf_add_window(struct perf *perf, uint64_t n);

static inline uint64_t *perf_word(const struct perf *perf, enum perf_word which)
{
    return perf->words + (size_t)which * PERF_WORD_STRIDE;
}

#endif
