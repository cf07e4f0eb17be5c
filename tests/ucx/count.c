/* SPDX-License-Identifier: Apache-2.0
 * Posts N small operations over shared memory, for instructions.sh to count the plugin's instructions. Arguments: put | add,
 * and N. Main thread. */
#include "pair.h"

#include "../base/cmocka_headers.h"

#include <stdlib.h>
#include <string.h>

static const char *what;
static long n;

static void post(void **state)
{
    static uint64_t word = 1;
    struct pair p;

    (void)state;
    pair_open(&p);
    pair_connect(&p, 0, 0, 1);
    struct ferry_op op = pair_put(&p, 0, 1, 0, &word, 8);
    op.flags = FERRY_OP_COPY;
    if (strcmp(what, "add") == 0)
        op = (struct ferry_op){.kind = FERRY_OP_AMO, .amo = FERRY_AMO_ADD, .width = 8, .peer = 1, .length = 8, .key = op.key, .operand = 1};
    for (long i = 0; i < n; i++)
        assert_int_equal(pair_post(&p, 0, 0, &op), FERRY_DONE);
    assert_int_equal(pair_quiet(&p, 0, 0, 1), FERRY_OK);
    pair_close(&p);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(post)};

    if (argc != 3)
        return 64;
    what = argv[1];
    n = strtol(argv[2], NULL, 10);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
