/* SPDX-License-Identifier: Apache-2.0
 * Runs programs, one after the other, in one job. Main thread. */
#ifndef CHECK_RANDOM_BATCH_H
#define CHECK_RANDOM_BATCH_H

#include "random.h"

struct random_batch {
    uint64_t first;  /* seed; programs of one batch have the same number of PEs */
    int programs;    /* how many, or how often the same one */
    bool same;       /* replay: `first` again and again */
    const bool *off; /* of the same one: operations to leave out; or NULL */
    bool quiet;      /* print nothing */
    /* results */
    bool failed;
    uint64_t seed; /* that failed */
    int done;      /* programs that were right */
    unsigned long operations;
    int n;                  /* operations of the latest program */
    int groups[RANDOM_OPS]; /* of each of them: those that can only be dropped together; 0: alone */
    char why[400];
};

/* Stops at the first program with a wrong result. */
void random_batch_run(struct random_batch *batch);

#endif
