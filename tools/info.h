/* SPDX-License-Identifier: Apache-2.0
 * ferry-info: the rows that ferry_info gave, kept for printing. One thread. */
#ifndef FERRY_TOOLS_INFO_H
#define FERRY_TOOLS_INFO_H

#include <ferry/ferry.h>
#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* How ferry_info fills its rows:
 * search      name: folder
 * plugin      name, value: file, state: outcome, origin: version, doc: reason
 * capability  name: plugin, state: capability, value
 * option      name: variable, value, state: owner, origin, doc
 * choice      name: variable, value: one that is accepted
 * explain     name: plugin, value: feature, state: native or made, origin: kind of memory, doc: cost
 * finding     name: owner, value: object, state: ok, warning or problem, origin: what to do, doc: what was found
 * plan        name: plugin, value: pe, state: devices, doc: why */
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
/* The ways that the transports in `plain` have besides the one that was shown, one after another, each with its name while
 * the environment asks for it; `all`: the guises of loopback, too. Ends when fn does not return 0, with that. */
typedef int info_way_fn(void *arg, const char *transport, const char *way);
int info_ways(const struct info *plain, bool all, info_way_fn *fn, void *arg);
/* Asks for the transports of `spec`, then for their other ways; prints. 0, or an exit status. */
/* `n` above 0: also the devices that so many local PEs would use; `nodes`: where they run, NULL: where this process
 * may. */
int info_explain(const char *spec, bool json, int n, const char *nodes);

/* --doctor: 0, 1 if what was asked for cannot be used, or another exit status. */
int info_doctor(const char *spec, bool json);
/* "0,0,1,1" as the NUMA node of each of `n` PEs, to be freed; fewer: from the start again. NULL, and said: no such
 * list. */
uint64_t *info_nodes(const char *text, int n);
/* The plan, printed, or into `all`. 0, or an exit status. */
int info_plan(const char *spec, int n, const uint64_t *nodes, json_t *all);
/* Whether all that was printed is out; if not, that is said. */
bool info_written(void);

/* Words, broken into indented lines; the second: the first line's indentation was printed. */
void info_print_wrapped(const char *text, int indent);
void info_print_hanging(const char *text, int indent);
/* A text as JSON, whatever its bytes. */
json_t *info_text_value(const char *text);

#endif
