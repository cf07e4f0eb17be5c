/* SPDX-License-Identifier: Apache-2.0
 * Every PE greets its right neighbour: data, and a signal that covers it. README.md shows this program.
 * Run: ferry-run -n 4 hello */
#include <ferry/ferry.h>
#include <stdio.h>

static int failed(ferry_job_t *job)
{
    struct ferry_error why = {.size = sizeof why};
    ferry_last_error(job, &why);
    fprintf(stderr, "pe %d: %s\n", ferry_my_pe(job), why.message);
    return 1;
}

int main(void)
{
    ferry_job_t *job;
    if (ferry_init(NULL, &job) != FERRY_OK)
        return 1;
    int me = ferry_my_pe(job), right = (me + 1) % ferry_n_pes(job);
    ferry_ctx_t *ctx = ferry_ctx_default(job);
    char text[64], *greeting = ferry_calloc(job, 1, 64);
    uint64_t *arrived = ferry_calloc(job, 1, sizeof *arrived);
    if (!greeting || !arrived)
        return failed(job);
    snprintf(text, sizeof text, "hello from pe %d", me);
    int rc = ferry_put_signal(ctx, greeting, text, sizeof text, arrived, 1, FERRY_SIGNAL_ADD, right);
    if (rc == FERRY_OK)
        rc = ferry_wait_until(job, arrived, FERRY_CMP_GE, 1);
    if (rc != FERRY_OK)
        return failed(job);
    printf("pe %d got: %s\n", me, greeting);
    return ferry_finalize(job) == FERRY_OK ? 0 : 1;
}
