/* SPDX-License-Identifier: Apache-2.0
 * Makes a failing program smaller. Main thread. */
#include "random_shrink.h"

#include <string.h>

static bool still_fails(struct random_shrunk *s, const bool *off, struct random_batch *batch)
{
    *batch = (struct random_batch){.first = s->seed, .programs = s->times, .same = true, .off = off, .quiet = true};
    random_batch_run(batch);
    if (batch->failed)
        memcpy(s->why, batch->why, sizeof(s->why));
    return batch->failed;
}

void random_shrink(struct random_shrunk *s)
{
    struct random_batch batch;
    bool next[RANDOM_OPS];
    struct pes_limit limit = pes_limit(s->seconds);

    memset(s->off, 0, sizeof(s->off));
    s->failed = still_fails(s, s->off, &batch);
    s->left = batch.n;
    for (int i = batch.n - 1; s->failed && i >= 0 && (s->seconds == 0 || pes_in_time(&limit)); i--) {
        int dropped = 0;

        for (int k = 0; k < batch.n; k++) {
            bool drop = !s->off[k] && (k == i || (batch.groups[i] && batch.groups[k] == batch.groups[i]));

            next[k] = s->off[k] || drop;
            dropped += drop;
        }
        if (!dropped || !still_fails(s, next, &batch))
            continue;
        memcpy(s->off, next, sizeof(s->off));
        s->left -= dropped;
    }
}
