/* SPDX-License-Identifier: Apache-2.0
 * What Ferry's own transports do alike: records of failures, options within bounds, the name nearest to a misspelt one. Compiled
 * into each of them; a plugin of somebody else needs none of it. Each function says who calls it. */
#ifndef FY_PLUGIN_COMMON_H
#define FY_PLUGIN_COMMON_H

#include <ferry/transport.h>

#include <pthread.h>
#include <stdarg.h>

/* record.c: any thread. Fills a record but for channel, operation, device and message; peer -1: none. */
void fy_plugin_record(struct ferry_error *e, int64_t peer, int status, int64_t library, const char *hint);
/* Notes under its lock the failure of a call, which query_error gives where a channel has none of its own. */
void fy_plugin_fail(pthread_mutex_t *lock, struct ferry_error *failure, int64_t peer, int status, int64_t library, const char *hint,
                    const char *format, va_list args) __attribute__((format(printf, 7, 0)));
/* What query_error about a peer gives, record->size being set: nothing if the failure was another peer's. Returns FERRY_OK. */
int fy_plugin_give(struct ferry_error *record, struct ferry_error e, uint32_t peer);

/* bounds.c: setup thread. Reads options that are numbers, up to a row without a name. FERRY_ERR_CONFIG: `why` says which one is out
 * of bounds; `prefix` is that of the variables, as FERRY_IBRC_. */
struct fy_plugin_bound {
    const char *name;
    int least, most;
    int *value;
};
int fy_plugin_bounds(const struct ferry_core *core, const char *prefix, const struct fy_plugin_bound *bounds, char *why,
                     size_t why_size);

/* edits.c: any thread. Letters to change, to add or to take away (Levenshtein), of the first FY_PLUGIN_NAME of each. */
#define FY_PLUGIN_NAME 63u
unsigned fy_plugin_edits(const char *a, const char *b);

#endif
