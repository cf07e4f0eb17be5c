/* SPDX-License-Identifier: Apache-2.0
 * Makes a failing program smaller, and prints it as one in C. Main thread. */
#ifndef CHECK_RANDOM_SHRINK_H
#define CHECK_RANDOM_SHRINK_H

#include "random_batch.h"

struct random_shrunk {
    uint64_t seed;
    int times;      /* how often a program is played before it counts as right */
    double seconds; /* no further try after this time; 0: no bound */
    /* results */
    bool failed;          /* it failed again at all */
    bool off[RANDOM_OPS]; /* operations that are left out */
    int left;
    char why[400];
};

/* Leaves out one operation after the other; what fails without it, goes on without it. */
void random_shrink(struct random_shrunk *shrunk);
/* The rest of it, with what was wrong as a comment. */
void random_print_c(const struct random_shrunk *shrunk, FILE *out);

#endif
