/* SPDX-License-Identifier: Apache-2.0
 * Keeps what the plugin reports and logs, for tests of choosing and of checks. Main thread. */
#ifndef TESTS_IBRC_TOLD_H
#define TESTS_IBRC_TOLD_H

#include "pair.h"

#define TOLD_MAX 64

struct told {
    struct stub stub;
    size_t n;
    struct {
        uint32_t level;
        char object[80], text[800], advice[400];
    } rows[TOLD_MAX];
};

struct host {
    const char *nodes; /* one digit per PE: its NUMA node; '-': not known */
    const char *gpu;   /* of every PE; NULL: none */
};

/* A report of that kind for PEs at these places; set: options as of stub. */
void told_ask(struct told *told, uint32_t kind, const struct host *host, const char *const *set);
/* The row of that object; fails the test where there is none. */
size_t told_find(const struct told *told, const char *object);
int told_has(const struct told *told, const char *object);
/* That row has this level, and these pieces in text and advice. */
void told_is(const struct told *told, const char *object, uint32_t level, const char *text, const char *advice);

/* Opens PE `me` of such a host; what is logged at level info, all lines, into `log`. Status of open. */
int told_open(struct told *told, const struct host *host, uint32_t me, const char *const *set, char *log, size_t size);

#endif
