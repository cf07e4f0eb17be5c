/* SPDX-License-Identifier: Apache-2.0
 * What ferry-run starts to see jobs begin and end: COUNT times init and finalize; the PE with the number ABSENT exits
 * well instead, before job FROM. One thread. */
#include <ferry/ferry.h>
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv)
{
    const char *rank = getenv("FERRY_RANK");
    if (argc != 4 || !rank)
        return 64;
    int count = atoi(argv[1]), absent = atoi(argv[2]), from = atoi(argv[3]);
    for (int i = 0; i < count; i++) {
        ferry_attr_t attr = {.size = sizeof(attr)};
        struct ferry_error error = {.size = sizeof(error)};
        attr.error = &error;
        if (i == from && atoi(rank) == absent)
            return 0;
        int rc = ferry_init(&attr, NULL);
        if (rc != FERRY_OK) {
            printf("no job %d for %s: %s, peer %d\n", i, rank, ferry_status_string(rc), error.peer);
            return 3;
        }
        printf("job %d of %d\n", i, ferry_n_pes(NULL));
        if (ferry_barrier(NULL) != FERRY_OK) {
            ferry_last_error(NULL, &error);
            printf("no barrier %d for %s: %s\n", i, rank, error.message);
            return 4;
        }
        if (ferry_finalize(NULL) != FERRY_OK)
            return 5;
    }
    return 0;
}
