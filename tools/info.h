/* SPDX-License-Identifier: Apache-2.0
 * ferry-info: the rows that ferry_info gave, kept for printing. One thread. */
#ifndef FERRY_TOOLS_INFO_H
#define FERRY_TOOLS_INFO_H

#include <ferry/ferry.h>
#include <stdbool.h>
#include <stddef.h>

/* How ferry_info fills its rows:
 * search      name: folder
 * plugin      name, value: file, state: outcome, origin: version, doc: reason
 * capability  name: plugin, state: capability, value
 * option      name: variable, value, state: owner, origin, doc
 * choice      name: variable, value: one that is accepted
 * explain     name: plugin, value: feature, state: native or made, origin: kind of memory, doc: cost */
struct info {
    ferry_info_row_t *rows; /* strings are ours */
    size_t n, capacity;
    bool failed; /* memory ran out */
};

void info_row(void *arg, const ferry_info_row_t *row); /* arg: struct info */
void info_free(struct info *info);
/* Next row of that kind from *at on, NULL at the end; `name` NULL: any. */
const ferry_info_row_t *info_next(const struct info *info, const char *what, const char *name, size_t *at);
/* Is there, among the plugins that `info` holds, what the user asked for: all that were named, or one of auto's? */
bool info_satisfied(const struct info *info, const char *spec);

/* 0, or -1 when standard output or memory failed. */
int info_print_text(const struct info *info);
int info_print_json(const struct info *info);

/* What is native and what is made. `guise`: what the transport pretends to be, NULL: itself. */
void info_print_explained(const struct info *info, const char *guise);
/* Asks for the transports of `spec` once, or, with none chosen, for every guise of loopback; prints. 0, or an exit status. */
int info_explain(const char *spec, bool json);

#endif
