/* SPDX-License-Identifier: Apache-2.0
 * Posts N small puts, for instructions.sh to count the plugin's instructions, those of flushes and completions included.
 * Arguments: PROVIDER N. Main thread. */
#include "pair.h"

#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv)
{
    const char *const set[] = {"provider", argc > 1 ? argv[1] : "", NULL};
    struct pair p;
    int rc = 0;

    if (argc != 3) {
        fprintf(stderr, "usage: %s PROVIDER N\n", argv[0]);
        return 64;
    }
    pair_open(&p, set);
    for (long i = strtol(argv[2], NULL, 10); i && rc >= 0; i--) {
        struct ferry_op op = put_op(&p, 0, 4096, 8);
        rc = pair_post(&p, &op);
        if (i % 32 == 0)
            pair_serve(&p);
    }
    rc = rc < 0 ? rc : pair_quiet(&p);
    pair_close(&p);
    return rc != FERRY_OK;
}
