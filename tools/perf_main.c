/* SPDX-License-Identifier: Apache-2.0
 * ferry-perf: measures latency, rate and bandwidth of Ferry's operations.
 * Each PE is a process; only PE 0 prints. Called by its main thread. */
#include "perf.h"
#include "standard.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sysexits.h>

static int complain(struct perf *perf, const char *what, int status)
{
    struct ferry_error error = {.size = sizeof error};
    if (status == PERF_WRONG || perf->wrong[0]) {
        fprintf(stderr, "ferry-perf: %s: %s\n", what, perf->wrong);
        return status;
    }
    ferry_last_error(perf->job, &error);
    fprintf(stderr, "ferry-perf: %s: %s%s%s%s%s\n", what, ferry_status_string(status), error.message[0] ? ": " : "",
            error.message, error.hint[0] ? "; " : "", error.hint);
    return status;
}

/* The nth core that the process may use. */
static int nth_core(const cpu_set_t *allowed, int nth)
{
    int core = -1;
    while (nth >= 0)
        nth -= CPU_ISSET((size_t)++core, allowed) ? 1 : 0;
    return core;
}

int perf_core(const struct perf *perf, int channel)
{
    int cores = CPU_COUNT(&perf->allowed), channels = perf->options.channels > 0 ? perf->options.channels : 1;
    if (perf->options.no_pin || cores < perf->n_pes)
        return -1;
    if (cores >= perf->n_pes * channels)
        return channel < channels ? nth_core(&perf->allowed, perf->me * channels + channel) : -1;
    return channel == 0 ? nth_core(&perf->allowed, perf->me) : -1;
}

/* Only this thread: the library's threads serve best from where the kernel puts them. */
static void pin(struct perf *perf)
{
    cpu_set_t one;
    if (sched_getaffinity(0, sizeof perf->allowed, &perf->allowed) != 0) {
        CPU_ZERO(&perf->allowed);
        perf->options.no_pin = true;
        return;
    }
    int core = perf_core(perf, 0);
    if (core < 0)
        return;
    CPU_ZERO(&one);
    CPU_SET((size_t)core, &one);
    pthread_setaffinity_np(pthread_self(), sizeof one, &one);
}

static void note_transport(void *arg, const ferry_info_row_t *row)
{
    char *names = arg; /* 128 bytes */
    size_t used = strlen(names);
    if (strcmp(row->what, "plugin") == 0 && strcmp(row->state, "chosen") == 0)
        snprintf(names + used, 128 - used, "%s%s", used ? "," : "", row->name);
}

/* Bytes of a box: the largest of what tests lay out in it. */
static size_t box_size(const struct perf *perf)
{
    const struct perf_options *options = &perf->options;
    size_t most = 64;
    for (const struct perf_test *test = perf_tests; test->name; test++) {
        if (!perf_selected(options, test) || test->begin)
            continue;
        size_t size = test->size, channels = (size_t)perf_channels(perf, test);
        for (size_t i = 0; i < options->n_sizes && (test->flags & PERF_SIZED); i++)
            size = options->sizes[i] > size ? options->sizes[i] : size;
        size_t need = channels * ((size + 63) / 64 * 64);
        if (options->cold && (test->flags & PERF_REUSE))
            need = 2 * need > PERF_COLD_BYTES ? 2 * need : PERF_COLD_BYTES;
        most = need > most ? need : most;
    }
    return most;
}

static int allocate(struct perf *perf)
{
    size_t box = box_size(perf), pes = (size_t)perf->n_pes;
    perf->inbox = ferry_malloc(perf->job, box);
    perf->outbox = perf->inbox ? ferry_malloc(perf->job, box) : NULL;
    perf->words =
        perf->outbox
            ? ferry_malloc(perf->job, (size_t)PERF_MAX_CHANNELS * PERF_WORDS * PERF_WORD_STRIDE * sizeof *perf->words)
            : NULL;
    perf->samples = perf->words ? ferry_malloc(perf->job, (PERF_SAMPLES + pes) * sizeof *perf->samples) : NULL;
    perf->agreed = perf->samples ? ferry_malloc(perf->job, (pes + 1) * sizeof *perf->agreed) : NULL;
    return perf->agreed ? FERRY_OK : complain(perf, "cannot allocate the buffers", FERRY_ERR_NOMEM);
}

static void release(struct perf *perf)
{
    for (int i = 0; i < perf->n_contexts; i++)
        ferry_ctx_destroy(perf->channels[i].ctx);
    ferry_free(perf->job, perf->agreed);
    ferry_free(perf->job, perf->samples);
    ferry_free(perf->job, perf->words);
    ferry_free(perf->job, perf->outbox);
    ferry_free(perf->job, perf->inbox);
}

/* How many results there will be. */
static size_t sizes_of(const struct perf_options *options, const struct perf_test *test)
{
    return !perf_selected(options, test) ? 0 : test->flags & PERF_SIZED && options->n_sizes > 0 ? options->n_sizes : 1;
}

/* Where PE 0's results go. */
struct report {
    struct perf_printer printer;
    struct perf_progress progress;
};

static int run_one(struct perf *perf, const struct perf_test *test, size_t bytes, struct report *report)
{
    struct perf_result result;
    if (perf->me == 0)
        perf_progress_step(&report->progress, test->name, bytes);
    int status = perf_measure(perf, test, bytes, &result);
    if (status == FERRY_ERR_UNSUPPORTED && strcmp(perf->options.test, "all") == 0) {
        if (perf->me == 0)
            complain(perf, test->name, status);
        return FERRY_OK;
    }
    if (status != FERRY_OK)
        return complain(perf, test->name, status);
    if (perf->me != 0 || perf_print_result(&report->printer, &result) == 0)
        return FERRY_OK;
    fprintf(stderr, "ferry-perf: cannot write the output\n");
    return FERRY_ERR_SYSTEM;
}

static int run_tests(struct perf *perf, struct report *report)
{
    const struct perf_options *options = &perf->options;
    int status = FERRY_OK;
    for (const struct perf_test *test = perf_tests; test->name; test++) {
        bool given = test->flags & PERF_SIZED && options->n_sizes > 0;
        for (size_t i = 0; i < sizes_of(options, test) && status == FERRY_OK; i++)
            status = run_one(perf, test, given ? options->sizes[i] : test->size, report);
    }
    return status;
}

static int run_all(struct perf *perf)
{
    struct report report = {0};
    char transport[128] = "";
    size_t results = 0;
    if (perf->me != 0)
        return run_tests(perf, &report);
    for (const struct perf_test *test = perf_tests; test->name; test++)
        results += sizes_of(&perf->options, test);
    ferry_info(NULL, 0, note_transport, transport);
    if (perf_print_begin(&report.printer, perf->options.format, transport, perf->n_pes) != 0)
        return FERRY_ERR_SYSTEM;
    perf_progress_begin(&report.progress, results);
    int status = run_tests(perf, &report);
    perf_progress_end(&report.progress);
    if (perf_print_end(&report.printer) != 0 && status == FERRY_OK)
        status = FERRY_ERR_SYSTEM;
    return status;
}

/* The tests gpu_...: where a GPU is missing, `all` goes without them, and says why in a line. */
static int look_for_gpus(struct perf *perf)
{
    struct perf_options *options = &perf->options;
    bool wanted = false;
    char why[256];
    for (const struct perf_test *test = perf_tests; test->name; test++)
        wanted |= test->flags & PERF_GPU && perf_selected(options, test);
    int status = wanted ? perf_gpu_unusable(perf, why, sizeof why) : FERRY_OK;
    if (status != FERRY_OK)
        return complain(perf, "looking for GPUs", status);
    options->no_gpu = wanted && why[0];
    if (!options->no_gpu)
        return FERRY_OK;
    const bool all = strcmp(options->test, "all") == 0;
    if (perf->me == 0)
        fprintf(stderr, "ferry-perf: %s: %s%s\n", all ? "gpu_..." : options->test, why,
                all ? "; these tests are left out" : "");
    return all ? FERRY_OK : FERRY_ERR_UNSUPPORTED;
}

int main(int argc, char **argv)
{
    static struct perf perf; /* what a failed test leaves behind is still known at the end */
    tool_standard_streams(false);
    perf_parse(argc, argv, &perf.options);
    if (ferry_init(NULL, &perf.job) != FERRY_OK)
        return 1; /* the library said why */
    perf.me = ferry_my_pe(perf.job);
    perf.n_pes = ferry_n_pes(perf.job);
    if (perf.n_pes < 2) {
        fprintf(stderr, "ferry-perf: 2 PEs are needed, this job has 1; start it as: ferry-run -n 2 ferry-perf %s\n",
                perf.options.test);
        ferry_finalize(perf.job);
        return EX_USAGE;
    }
    pin(&perf);
    int status = look_for_gpus(&perf);
    if (status == FERRY_ERR_UNSUPPORTED) { /* on all PEs, and said */
        ferry_finalize(perf.job);
        return 1;
    }
    if (status == FERRY_OK)
        status = allocate(&perf);
    if (status == FERRY_OK)
        status = run_all(&perf);
    if (status == FERRY_OK)
        release(&perf);
    else
        ferry_abort(perf.job, 1);
    int ended = ferry_finalize(perf.job);
    return status == FERRY_OK && ended == FERRY_OK ? 0 : 1;
}
