/* SPDX-License-Identifier: Apache-2.0
 * One PE of a job that does nothing but begin and end. Says when it did, and what memory it held in between, before it
 * spoke to any peer. One thread. */
#include <ferry/ferry.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

static uint64_t now_us(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000 + (uint64_t)t.tv_nsec / 1000;
}

/* Memory that is this job's own, in KiB: pages without a file behind them. Pages of programs and libraries come and go
 * with what the kernel maps around a fault, and have nothing to do with peers. */
static unsigned long resident_kib(void)
{
    char line[128];
    unsigned long sum = 0, value;
    FILE *status = fopen("/proc/self/status", "r");
    while (status && fgets(line, sizeof line, status))
        if (sscanf(line, "RssAnon: %lu", &value) == 1 || sscanf(line, "RssShmem: %lu", &value) == 1)
            sum += value;
    if (status)
        fclose(status);
    return sum;
}

int main(void)
{
    ferry_job_t *job;
    uint64_t begin = now_us();
    if (ferry_init(NULL, &job) != FERRY_OK)
        return 1; /* the library said why */
    uint64_t initialised = now_us();
    int me = ferry_my_pe(job);
    unsigned long kib = resident_kib();
    int status = ferry_finalize(job);
    uint64_t end = now_us();
    /* one write per line, so that lines of many PEs do not mix */
    char line[160];
    int length = snprintf(line, sizeof line, "pe %d %" PRIu64 " %" PRIu64 " %" PRIu64 " %lu\n", me, begin, initialised,
                          end, kib);
    fwrite(line, 1, (size_t)length, stdout);
    return fflush(stdout) == 0 && status == FERRY_OK ? 0 : 1;
}
