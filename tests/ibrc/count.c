/* SPDX-License-Identifier: Apache-2.0
 * Posts N small operations, for instructions.sh to count the plugin's instructions. Arguments: wr | list, put | add |
 * set | batch (puts, 32 behind a doorbell), and N. Main thread. */
#include "pair.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int run(struct pair *p, const char *what, long n)
{
    struct ferry_op op = put_op(p, 0, 4096, 8);
    int (*post)(struct ferry_transport *, uint32_t, const struct ferry_op *) = ops()->rma;
    struct ferry_transport *t = p->pe[0].t;

    if (strcmp(what, "batch") != 0 && strcmp(what, "put") != 0) {
        op.kind = FERRY_OP_PUT_SIGNAL;
        op.amo = strcmp(what, "add") == 0 ? FERRY_AMO_ADD : FERRY_AMO_SET;
        op.width = 8;
        op.signal_key = op.key;
        op.operand = 1;
        post = ops()->put_signal;
    }
    for (long i = 0; i < n; i++) {
        if (*what == 'b')
            op.flags = i % 32 == 31 ? FERRY_OP_COPY : FERRY_OP_COPY | FERRY_OP_MORE;
        if (post(t, 0, &op) < 0)
            return 1;
        if (i % 32 == 31)
            ops()->progress(t, 0);
    }
    return side_quiet(&p->pe[0], 0, 1) != FERRY_OK;
}

int main(int argc, char **argv)
{
    const char *const set[] = {"posting", argc > 1 ? argv[1] : "", NULL};
    struct pair p;
    int rc;

    if (argc != 4) {
        fprintf(stderr, "usage: %s wr|list put|batch|add|set N\n", argv[0]);
        return 64;
    }
    pair_open(&p, set);
    rc = run(&p, argv[2], strtol(argv[3], NULL, 10));
    pair_close(&p);
    return rc;
}
