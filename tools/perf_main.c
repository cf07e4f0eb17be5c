/* SPDX-License-Identifier: Apache-2.0
 * ferry-perf: measures latency, rate and bandwidth of Ferry's operations between PE 0 and PE 1.
 * Each PE is a process with one thread of its own; only PE 0 prints. */
#include "perf.h"

#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sysexits.h>

static int complain(struct perf *perf, const char *what, int status)
{
    struct ferry_error error = {.size = sizeof error};
    ferry_last_error(perf->job, &error);
    fprintf(stderr, "ferry-perf: %s: %s%s%s%s%s\n", what, ferry_status_string(status), error.message[0] ? ": " : "",
            error.message, error.hint[0] ? "; " : "", error.hint);
    return status;
}

/* PE i on the i-th of the cores that it may use, if there is one for each. Only this thread: the library's threads
 * serve best from where the kernel puts them. */
static void pin(const struct perf *perf)
{
    cpu_set_t allowed, one;
    if (perf->options.no_pin || sched_getaffinity(0, sizeof allowed, &allowed) != 0 ||
        CPU_COUNT(&allowed) < perf->n_pes)
        return;
    int nth = perf->me, cpu = -1;
    while (nth >= 0)
        nth -= CPU_ISSET((size_t)++cpu, &allowed) ? 1 : 0;
    CPU_ZERO(&one);
    CPU_SET((size_t)cpu, &one);
    pthread_setaffinity_np(pthread_self(), sizeof one, &one);
}

static void note_transport(void *arg, const ferry_info_row_t *row)
{
    char *names = arg; /* 128 bytes */
    size_t used = strlen(names);
    if (strcmp(row->what, "plugin") == 0 && strcmp(row->state, "chosen") == 0)
        snprintf(names + used, 128 - used, "%s%s", used ? "," : "", row->name);
}

static size_t largest(const struct perf_options *options)
{
    size_t most = 1;
    for (const struct perf_test *test = perf_tests; test->name; test++)
        if (strcmp(options->test, "all") == 0 || strcmp(options->test, test->name) == 0)
            most = test->size > most ? test->size : most;
    for (size_t i = 0; i < options->n_sizes; i++)
        most = options->sizes[i] > most ? options->sizes[i] : most;
    return most;
}

static int allocate(struct perf *perf)
{
    size_t most = largest(&perf->options);
    perf->inbox = ferry_malloc(perf->job, most);
    perf->outbox = perf->inbox ? ferry_malloc(perf->job, most) : NULL;
    perf->words = perf->outbox ? ferry_malloc(perf->job, PERF_WORDS * PERF_WORD_STRIDE * sizeof *perf->words) : NULL;
    if (!perf->words)
        return complain(perf, "cannot allocate the buffers", FERRY_ERR_NOMEM);
    for (int i = 0; i < perf->options.channels; i++) {
        int status = ferry_ctx_create(perf->job, 0, &perf->ctx[i]);
        if (status != FERRY_OK)
            return complain(perf, "cannot create a context", status);
    }
    return FERRY_OK;
}

static void release(struct perf *perf)
{
    for (int i = 0; i < perf->options.channels; i++)
        ferry_ctx_destroy(perf->ctx[i]);
    ferry_free(perf->job, perf->words);
    ferry_free(perf->job, perf->outbox);
    ferry_free(perf->job, perf->inbox);
}

static int run_one(struct perf *perf, const struct perf_test *test, size_t bytes, struct perf_printer *printer)
{
    struct perf_result result;
    int status = perf_measure(perf, test, bytes, &result);
    if (status != FERRY_OK)
        return complain(perf, test->name, status);
    if (perf->me != 0 || perf_print_result(printer, &result) == 0)
        return FERRY_OK;
    fprintf(stderr, "ferry-perf: cannot write the output\n");
    return FERRY_ERR_SYSTEM;
}

static int run_test(struct perf *perf, const struct perf_test *test, struct perf_printer *printer)
{
    int status = FERRY_OK;
    if (test->size == 0 || perf->options.n_sizes == 0)
        return run_one(perf, test, test->size, printer);
    for (size_t i = 0; status == FERRY_OK && i < perf->options.n_sizes; i++)
        status = run_one(perf, test, perf->options.sizes[i], printer);
    return status;
}

static int run_all(struct perf *perf)
{
    struct perf_printer printer = {0};
    char transport[128] = "";
    if (perf->me == 0) {
        ferry_info(NULL, 0, note_transport, transport);
        if (perf_print_begin(&printer, perf->options.format, transport, perf->n_pes) != 0)
            return FERRY_ERR_SYSTEM;
    }
    int status = FERRY_OK;
    for (const struct perf_test *test = perf_tests; status == FERRY_OK && test->name; test++)
        if (strcmp(perf->options.test, "all") == 0 || strcmp(perf->options.test, test->name) == 0)
            status = run_test(perf, test, &printer);
    if (perf->me == 0 && perf_print_end(&printer) != 0 && status == FERRY_OK)
        status = FERRY_ERR_SYSTEM;
    return status;
}

int main(int argc, char **argv)
{
    struct perf perf = {0};
    perf_parse(argc, argv, &perf.options);
    if (ferry_init(NULL, &perf.job) != FERRY_OK)
        return 1; /* the library said why */
    perf.me = ferry_my_pe(perf.job);
    perf.n_pes = ferry_n_pes(perf.job);
    perf.peer = perf.me == 0 ? 1 : 0;
    if (perf.n_pes < 2) {
        fprintf(stderr, "ferry-perf: 2 PEs are needed, this job has 1; start it as: ferry-run -n 2 ferry-perf %s\n",
                perf.options.test);
        ferry_finalize(perf.job);
        return EX_USAGE;
    }
    pin(&perf);
    int status = allocate(&perf);
    if (status == FERRY_OK)
        status = run_all(&perf);
    if (status == FERRY_OK)
        release(&perf);
    else
        ferry_abort(perf.job, 1);
    int ended = ferry_finalize(perf.job);
    return status == FERRY_OK && ended == FERRY_OK ? 0 : 1;
}
