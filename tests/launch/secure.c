/* SPDX-License-Identifier: Apache-2.0
 * Begins a job, and says why it cannot; test_launch makes it a set-uid program. One thread. */
#include <ferry/ferry.h>
#include <stdio.h>
#include <unistd.h>

int main(void)
{
    struct ferry_error error = {.size = sizeof(error)};
    ferry_attr_t attr = {.size = sizeof(attr), .error = &error};
    int rc = ferry_init(&attr, NULL);
    printf("raised %d: %s %s\n", getuid() != geteuid(), ferry_status_string(rc), error.message);
    return 0;
}
