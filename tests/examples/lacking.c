/* SPDX-License-Identifier: Apache-2.0
 * A job of one PE over the minimal transport: its heap must come from that transport, and what the transport lacks must
 * be made. Prints what it found; the test compares. */
#include <ferry/ferry.h>
#include <stdio.h>
#include <string.h>

static int mapped(const char *name)
{
    char line[512];
    int found = 0;
    FILE *maps = fopen("/proc/self/maps", "r");
    while (maps && fgets(line, sizeof line, maps))
        found |= strstr(line, name) != NULL;
    if (maps)
        fclose(maps);
    return found;
}

int main(void)
{
    ferry_job_t *job;
    if (ferry_init(NULL, &job) != FERRY_OK)
        return 1;
    uint64_t *word = ferry_calloc(job, 1, sizeof *word), old = 7;
    if (!word)
        return 1;
    printf("heap from %s\n", mapped("memfd:ferry-minimal") ? "minimal" : "elsewhere");
    ferry_ctx_t *ctx = ferry_ctx_default(job);
    int rc = ferry_atomic_swap(ctx, word, 5, &old, 0);
    printf("swap: %s %llu\n", ferry_status_string(rc), (unsigned long long)old);
    rc = ferry_get(ctx, &old, word, sizeof old, 0);
    printf("get: %s %llu\n", ferry_status_string(rc), (unsigned long long)old);
    rc = ferry_atomic_add(ctx, word, 40, 0);
    if (rc == FERRY_OK)
        rc = ferry_fence(ctx);
    if (rc == FERRY_OK)
        rc = ferry_atomic_add(ctx, word, 2, 0);
    if (rc == FERRY_OK)
        rc = ferry_quiet(ctx);
    printf("add: %s %llu\n", ferry_status_string(rc), (unsigned long long)*word);
    ferry_atomic_fetch(ctx, word, &old, 0);
    ferry_stats_t stats = {.size = sizeof stats};
    ferry_stats_get(job, &stats);
    printf("by mailbox: %llu\n", (unsigned long long)stats.mailed);
    return ferry_finalize(job) == FERRY_OK && old == 47 ? 0 : 1;
}
