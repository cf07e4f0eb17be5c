/* SPDX-License-Identifier: Apache-2.0
 * ferry-perf: what its files share. Each PE runs all of it in its main thread, except that each further channel of a
 * rate or bandwidth has a thread of its own while that is measured. Only PE 0 prints. */
#ifndef FERRY_TOOLS_PERF_H
#define FERRY_TOOLS_PERF_H

#include "perf_shape.h"
#include <ferry/ferry.h>
#include <sched.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PERF_MAX_SIZES    64
#define PERF_MAX_CHANNELS PERF_RINGS
#define PERF_WINDOW       64                  /* operations between two quiets, at most */
#define PERF_WINDOW_BYTES ((size_t)64 << 20)  /* that they move, at most, if they are several */
#define PERF_COLD_BYTES   ((size_t)256 << 20) /* walked through with --reuse cold: more than caches hold */
#define PERF_SAMPLES      8192                /* of all PEs together */

enum perf_format { PERF_TABLE, PERF_CSV, PERF_JSON };

struct perf_options {
    const char *test; /* a name of the table, or "all" */
    size_t sizes[PERF_MAX_SIZES];
    size_t n_sizes;  /* 0: the test's own */
    uint64_t iters;  /* 0: the test's own */
    uint64_t warmup; /* UINT64_MAX: a tenth of the iterations */
    int channels;    /* 0: the test's own */
    enum perf_format format;
    bool cold, no_pin;
    int memory;     /* enum ferry_memory_kind: of the tests gpu_... */
    unsigned warps; /* of gpu_put_rate and gpu_put_bw */
    bool no_gpu;    /* the tests gpu_... cannot be run, which was said */
};

/* Symmetric words, far enough apart not to share a cache line, nor a pair of them. */
enum perf_word { PERF_FLAG, PERF_SIGNAL, PERF_COUNTER, PERF_WORDS };
#define PERF_WORD_STRIDE 32

struct perf;

/* One channel at work: a context and memory that no other channel uses. Belongs to one thread at a time. */
struct perf_channel {
    struct perf *perf;
    ferry_ctx_t *ctx;
    uint8_t *inbox;    /* symmetric: where puts arrive and gets read */
    uint8_t *outbox;   /* symmetric, so that it is registered: source of puts, destination of gets */
    uint64_t *words;   /* symmetric */
    size_t bytes;      /* of the running test */
    size_t stride;     /* from one operation to the next in both boxes; 0: the same place again */
    size_t span;       /* what the boxes hold */
    size_t place;      /* of the next operation */
    uint64_t window;   /* operations between two quiets */
    uint64_t sequence; /* of a ping-pong, equal on both sides */
    double own_ns;     /* what the last batch took by its own clock; 0: the sample is of this thread's clock */
    int number, peer;
    bool first; /* takes the first turn in a ping-pong */
} __attribute__((aligned(128)));

/* One PE at work. */
struct perf {
    struct perf_options options;
    ferry_job_t *job;
    int me, n_pes;
    struct perf_channel channels[PERF_MAX_CHANNELS];
    int n_contexts; /* of the channels, made so far */
    uint8_t *inbox, *outbox;
    uint64_t *words;
    double *samples;   /* symmetric, PERF_SAMPLES or one for each PE: what PE 0 is told */
    uint64_t *agreed;  /* symmetric: how many samples each PE told, and then what PE 0 decided */
    cpu_set_t allowed; /* cores of the process at its start */
    void *moe;         /* of the running test, if it has memory of its own */
    const struct perf_test *running;
    size_t running_bytes;
    char wrong[400]; /* what was found wrong with data that arrived, or what else the library does not know of a failure
                      */
};

/* The status of a test that found data wrong; no status of the library. */
#define PERF_WRONG 1

enum perf_unit { PERF_NS, PERF_US, PERF_MOPS, PERF_GBS };

enum perf_who {
    PERF_ONE,  /* the even PE of each pair acts on the odd one */
    PERF_PAIR, /* both take turns: an iteration is a round trip, half of it is reported */
    PERF_EVERY /* all PEs do the same */
};

#define PERF_SIZED   1u  /* has a payload of any size */
#define PERF_WINDOWS 2u  /* posts windows, over several channels if asked to */
#define PERF_REUSE   4u  /* minds --reuse */
#define PERF_GPU     8u  /* from kernels */
#define PERF_RINGS_8 16u /* of those: through several rings, 8 if the user does not say */

struct perf_test {
    const char *name, *summary;
    enum perf_unit unit;
    enum perf_who who;
    unsigned flags;
    size_t size;    /* of a message if the user gives none, or cannot; 0: there is no payload */
    uint64_t iters; /* if the user gives none, at most */
    /* n iterations, in one go; a status */
    int (*batch)(struct perf_channel *channel, uint64_t n);
    /* Collective, or NULL: memory of the test's own. */
    int (*begin)(struct perf *perf);
    void (*end)(struct perf *perf);
};

/* Ends with a name of NULL. */
extern const struct perf_test perf_tests[];

struct perf_result {
    const struct perf_test *test;
    size_t bytes;
    int pes, channels;
    uint64_t iterations;
    double min, median, p99; /* of the samples, in the test's unit */
};

/* Exits with EX_USAGE on bad input. */
void perf_parse(int argc, char **argv, struct perf_options *options);
bool perf_selected(const struct perf_options *options, const struct perf_test *test);
/* How many channels the test uses. */
int perf_channels(const struct perf *perf, const struct perf_test *test);
/* Core for a channel's thread, -1: any of perf->allowed. */
int perf_core(const struct perf *perf, int channel);
/* Runs one test with one size, on every PE; the result is PE 0's only. A status, or PERF_WRONG;
 * FERRY_ERR_UNSUPPORTED on all PEs if the transport lacks the operation: then other tests can follow. */
int perf_measure(struct perf *perf, const struct perf_test *test, size_t bytes, struct perf_result *result);

/* How a PE takes its samples. */
struct perf_plan {
    const struct perf_test *test;
    int channels;
    uint64_t warmup; /* iterations of each channel */
    uint64_t n;      /* iterations of each channel that are measured */
    uint64_t batch;  /* iterations of a sample; the last sample has the rest, too */
    uint64_t samples;
};
double perf_now_ns(void);
/* Warms up and fills `values` with ns per iteration, of all channels together. Each of several has a thread. */
int perf_take(struct perf *perf, const struct perf_plan *plan, double *values);
/* Sorts the samples. n is 1 or more. */
void perf_summarise(double *samples, size_t n, struct perf_result *result);
/* Takes the samples of all PEs that measured to PE 0, one after the other in perf->samples. Collective. `share`: the
 * most that a PE may have. PE 0 gets their number in *total. */
int perf_gather(struct perf *perf, const double *mine, uint64_t n, uint64_t share, size_t *total);

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

/* The line that says what is measured now, on the terminal if there is one. PE 0. */
struct perf_progress {
    int fd; /* -1: none */
    size_t done, all;
};
void perf_progress_begin(struct perf_progress *progress, size_t all);
void perf_progress_step(struct perf_progress *progress, const char *test, size_t bytes);
void perf_progress_end(struct perf_progress *progress);

/* ------------------------------------------------------------------ batches, in perf_lat.c, perf_rate.c and
 * perf_moe_*.c */

int perf_put_lat(struct perf_channel *channel, uint64_t n);
int perf_put_flag_lat(struct perf_channel *channel, uint64_t n);
int perf_put_signal_lat(struct perf_channel *channel, uint64_t n);
int perf_signal_lat(struct perf_channel *channel, uint64_t n);
int perf_put_quiet_lat(struct perf_channel *channel, uint64_t n);
int perf_get_lat(struct perf_channel *channel, uint64_t n);
int perf_fetch_add_lat(struct perf_channel *channel, uint64_t n);
int perf_cswap_lat(struct perf_channel *channel, uint64_t n);
int perf_quiet_idle(struct perf_channel *channel, uint64_t n);
int perf_barrier_lat(struct perf_channel *channel, uint64_t n);
int perf_put_rate(struct perf_channel *channel, uint64_t n);
int perf_iput_rate(struct perf_channel *channel, uint64_t n);
int perf_p_rate(struct perf_channel *channel, uint64_t n);
int perf_put_signal_rate(struct perf_channel *channel, uint64_t n);
int perf_add_rate(struct perf_channel *channel, uint64_t n);
int perf_put_bw(struct perf_channel *channel, uint64_t n);
int perf_get_bw(struct perf_channel *channel, uint64_t n);

/* Or-ed to the signals of moe_ht and moe_ll that cover data. A test builds them with weak ones, to see that this is
 * noticed. */
#ifndef PERF_COVER
#define PERF_COVER 0
#endif

/* perf_shape.h has their shapes. */
int perf_moe_ht_begin(struct perf *perf);
int perf_moe_ht(struct perf_channel *channel, uint64_t n);
void perf_moe_ht_end(struct perf *perf);
int perf_moe_ll_begin(struct perf *perf);
int perf_moe_ll(struct perf_channel *channel, uint64_t n);
void perf_moe_ll_end(struct perf *perf);
/* Experts of each PE. */
int perf_moe_ll_local(const struct perf *perf);

/* The tests gpu_..., in perf_gpu.c. Collective; `why`: empty if every PE that runs kernels can. */
int perf_gpu_unusable(struct perf *perf, char *why, size_t size);
int perf_gpu_begin(struct perf *perf);
void perf_gpu_end(struct perf *perf);
int perf_gpu_put_lat(struct perf_channel *channel, uint64_t n);
int perf_gpu_signal_lat(struct perf_channel *channel, uint64_t n);
int perf_gpu_fetch_add_lat(struct perf_channel *channel, uint64_t n);
int perf_gpu_put_rate(struct perf_channel *channel, uint64_t n);
int perf_gpu_put_bw(struct perf_channel *channel, uint64_t n);
int perf_gpu_command_rate(struct perf_channel *channel, uint64_t n);
int perf_gpu_moe_ht(struct perf_channel *channel, uint64_t n);
int perf_gpu_moe_ll(struct perf_channel *channel, uint64_t n);

/* A record's stamp: its first and last 8 bytes. Never 0. */
void perf_stamp(uint8_t *record, size_t bytes, uint64_t stamp);

static inline uint64_t *perf_word(const struct perf_channel *channel, enum perf_word which)
{
    return channel->words + (size_t)which * PERF_WORD_STRIDE;
}

#endif
