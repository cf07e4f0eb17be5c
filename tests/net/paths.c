/* SPDX-License-Identifier: Apache-2.0
 * Which way each pair takes, as the job says and as memory shows; then each PE puts to those of its host, or of the others, so
 * that whoever watches the cable can see where it went. One thread. usage: net_paths near|far MEBIBYTES
 * Prints for each peer: path ME PEER DATA 64-BIT-ATOMICS 32-BIT-ATOMICS mapped|apart near|far */
#include <ferry/ferry.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PIECE = 1 << 20 };

static int tell(ferry_job_t *job, const void *word, int pe, bool *near_pe)
{
    struct ferry_path path = {.size = sizeof path};
    int rc = ferry_path_get(job, pe, &path);
    *near_pe = path.same_host;
    for (char *c = path.atomic64; *c; c++)
        *c = *c == ' ' ? '_' : *c;
    for (char *c = path.atomic32; *c; c++)
        *c = *c == ' ' ? '_' : *c;
    printf("path %d %d %s %s %s %s %s\n", ferry_my_pe(job), pe, path.data, path.atomic64, path.atomic32,
           ferry_ptr(job, word, pe) ? "mapped" : "apart", *near_pe ? "near" : "far");
    return rc;
}

int main(int argc, char **argv)
{
    bool near_wanted = argc > 1 && strcmp(argv[1], "near") == 0, is_near;
    int pieces = argc > 2 ? atoi(argv[2]) : 1, failed = 0;
    ferry_job_t *job;
    if (ferry_init(NULL, &job) != FERRY_OK)
        return 1;
    ferry_ctx_t *ctx = ferry_ctx_default(job);
    int me = ferry_my_pe(job), n = ferry_n_pes(job);
    char *box = ferry_malloc(job, (size_t)n * PIECE), *source = malloc(PIECE);
    if (!box || !source)
        return 1;
    memset(source, me + 1, PIECE);
    memset(box, 0, (size_t)n * PIECE);
    failed |= ferry_barrier(job);
    for (int pe = 0; pe < n && !failed; pe++) {
        failed |= tell(job, box, pe, &is_near);
        for (int i = 0; i < pieces && is_near == near_wanted && pe != me; i++)
            failed |= ferry_put(ctx, box + (size_t)me * PIECE, source, PIECE, pe);
    }
    failed |= ferry_barrier(job);
    for (int pe = 0; pe < n && !failed; pe++) {
        struct ferry_path path = {.size = sizeof path};
        ferry_path_get(job, pe, &path);
        char expected = pe != me && path.same_host == near_wanted ? (char)(pe + 1) : 0;
        for (size_t i = 0; i < PIECE; i++)
            failed |= box[(size_t)pe * PIECE + i] != expected;
    }
    failed |= ferry_team_n_pes(ferry_team_shared(job)) < 1;
    printf("shared team %d\n", ferry_team_n_pes(ferry_team_shared(job)));
    free(source);
    return ferry_finalize(job) == FERRY_OK && !failed ? 0 : 1;
}
