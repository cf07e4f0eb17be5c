/* SPDX-License-Identifier: Apache-2.0
 * A mixture-of-experts exchange over Ferry: dispatch the words of a text to experts, combine what they return, check
 * every byte. The order of the steps, and how failures end the job. Main thread, but for fail and fail_call. */
#include "moe.h"
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The first failure is the cause; what other threads meet after it is not worth a line. */
static int fail_line(struct moe *moe, int status, const char *line)
{
    if (__atomic_exchange_n(&moe->failed, 1, __ATOMIC_SEQ_CST) == 0) {
        if (status != FERRY_ERR_ABORTED) /* that was said where it was decided */
            fprintf(stderr, MOE_NAME ": pe %" PRIu32 ": %s\n", moe->me, line);
        /* When the peers know already, there is nobody to tell. */
        if (status != FERRY_ERR_ABORTED && status != FERRY_ERR_PEER)
            ferry_abort(moe->job, EXIT_FAILED);
    }
    return status;
}

int fail(struct moe *moe, int status, const char *format, ...)
{
    char line[1024];
    va_list list;
    va_start(list, format);
    vsnprintf(line, sizeof line, format, list);
    va_end(list);
    return fail_line(moe, status, line);
}

int fail_call(struct moe *moe, int status, const char *format, ...)
{
    char line[1024];
    va_list list;
    va_start(list, format);
    int n = vsnprintf(line, sizeof line, format, list);
    va_end(list);
    size_t used = n > 0 && (size_t)n < sizeof line ? (size_t)n : sizeof line - 1;
    struct ferry_error error = {.size = sizeof error};
    ferry_last_error(moe->job, &error);
    if (status == FERRY_OK)
        status = error.status < 0 ? error.status : FERRY_ERR_NOMEM;
    snprintf(line + used, sizeof line - used, ": %s: %s%s%s", ferry_status_string(status), error.message,
             error.hint[0] ? "; " : "", error.hint);
    return fail_line(moe, status, line);
}

static void print_setup(const struct moe *moe)
{
    const struct moe_args *a = moe->args;
    if (moe->me != 0)
        return;
    printf(MOE_NAME ": %" PRIu32 " PEs, %" PRIu32 " tokens of %s, hidden %" PRIu32 ", top %" PRIu32 " of %" PRIu32
           " experts, %" PRIu32 " channels%s, ring %" PRIu32 ", chunk %" PRIu32 ", at most %" PRIu32 " destinations\n",
           moe->n_pes, moe->n_tokens, a->path, a->hidden, a->topk, a->experts, a->channels,
           a->threads ? " with a thread each" : "", a->ring, a->chunk, moe->lanes);
    fflush(stdout);
}

static int run(struct moe *moe, uint64_t *bad)
{
    int rc = plan_create(moe);
    if (rc != FERRY_OK)
        return rc;
    print_setup(moe);
    rc = exchange_open(moe);
    if (rc == FERRY_OK)
        rc = dispatch_run(moe);
    if (rc == FERRY_OK)
        rc = experts_run(moe);
    if (rc == FERRY_OK)
        rc = combine_run(moe);
    uint64_t mismatched = 0, combine_sum = 0;
    if (rc == FERRY_OK)
        rc = verify_run(moe, &mismatched, &combine_sum);
    if (rc == FERRY_OK)
        rc = report_run(moe, mismatched, combine_sum, bad);
    return rc;
}

static int run_job(struct moe *moe, ferry_attr_t *attr)
{
    struct ferry_error error = {.size = sizeof error};
    attr->error = &error;
    int rc = ferry_init(attr, &moe->job);
    if (rc != FERRY_OK) {
        fprintf(stderr, MOE_NAME ": ferry_init: %s: %s\n", ferry_status_string(rc), error.message);
        return EXIT_FAILED;
    }
    moe->me = (uint32_t)ferry_my_pe(moe->job);
    moe->n_pes = (uint32_t)ferry_n_pes(moe->job);
    char why[256];
    if (plan_lanes(moe, why, sizeof why) != 0) {
        if (moe->me == 0) /* the others have found the same */
            fprintf(stderr, MOE_NAME ": %s\n", why);
        ferry_finalize(moe->job);
        return EXIT_USAGE;
    }
    uint64_t bad = 0;
    rc = run(moe, &bad);
    exchange_close(moe);
    plan_destroy(moe);
    int finalized = ferry_finalize(moe->job);
    if (rc != FERRY_OK)
        return EXIT_FAILED;
    if (finalized != FERRY_OK) {
        fprintf(stderr, MOE_NAME ": pe %" PRIu32 ": ferry_finalize: %s\n", moe->me, ferry_status_string(finalized));
        return EXIT_FAILED;
    }
    return bad == 0 ? 0 : EXIT_FAILED;
}

int run_pe(const struct moe_args *args, const struct model *model, uint32_t n_tokens, ferry_attr_t *attr)
{
    struct moe moe = {.args = args, .model = *model, .n_tokens = n_tokens};
    return run_job(&moe, attr);
}

int main(int argc, char **argv)
{
    struct moe_args args;
    args_parse(argc, argv, &args);
    struct text text = {0};
    const char *why = text_load(args.path, &text);
    if (why) {
        fprintf(stderr, MOE_NAME ": --text '%s': %s\n", args.path, why);
        return EXIT_USAGE;
    }
    struct model model = {0};
    uint64_t words = text.n_words < DEFAULT_TOKENS_MAX ? text.n_words : DEFAULT_TOKENS_MAX;
    uint32_t n_tokens = (uint32_t)(args.tokens ? args.tokens : words);
    ferry_attr_t attr = {.size = sizeof attr};
    int status = EXIT_FAILED, unfit = exchange_prepare(&args);
    if (unfit)
        status = unfit;
    else if (model_create(&model, &args, &text) != 0)
        fprintf(stderr, MOE_NAME ": no memory for the router of %" PRIu32 " experts\n", args.experts);
    else
        status = args.pes == 0 ? run_pe(&args, &model, n_tokens, &attr) : run_pes(&args, &model, n_tokens);
    free(model.projection);
    free(text.words);
    if (fflush(stdout) == 0 && !ferror(stdout))
        return status;
    fprintf(stderr, MOE_NAME ": cannot write the output\n");
    return EXIT_FAILED;
}
