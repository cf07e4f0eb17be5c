/* SPDX-License-Identifier: Apache-2.0
 * A folder that stands for "/" with a /proc and /sys of the test's making.
 * Main thread. */
#ifndef FERRY_TESTS_MEMORY_ROOT_H
#define FERRY_TESTS_MEMORY_ROOT_H

struct root {
    char path[64];
};

int root_make(struct root *root);
int root_remove(struct root *root);
/* Writes a file, "proc/meminfo"; its folders come into being. */
void root_put(const struct root *root, const char *name, const char *text);

#endif
