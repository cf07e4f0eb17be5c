/* SPDX-License-Identifier: Apache-2.0
 * Declarative options: one table per module parses, checks, prints and documents its values.
 * Used by the thread in init; a set is read-only afterwards, so any thread may read it. */
#ifndef FY_BASE_OPTION_H
#define FY_BASE_OPTION_H

#include "log.h"
#include <stddef.h>

/* Where values come from: `overrides` ("FERRY_X=v" strings, NULL-ended, or NULL) win over environ. Injected, so that
 * tests and several jobs do not share an environment. */
struct fy_source {
    const char *const *overrides;
    char **environ_; /* usually `environ` */
};

enum fy_origin { FY_ORIGIN_DEFAULT, FY_ORIGIN_ENVIRONMENT, FY_ORIGIN_ATTRIBUTE };

struct fy_option_value {
    const struct ferry_option *row;
    char variable[64]; /* FERRY_HEAP_SIZE */
    struct ferry_value value;
    char *text; /* as it was written */
    enum fy_origin origin;
};

/* A table with its values. */
struct fy_options {
    size_t n;
    struct fy_option_value *values;
};

/* Raw text of a variable, NULL if unset; *origin may be NULL. */
const char *fy_source_get(const struct fy_source *source, const char *variable, enum fy_origin *origin);
/* "core" rows: plugin NULL -> FERRY_X_Y; else FERRY_PLUGIN_X_Y. */
void fy_option_variable(const char *plugin, const char *name, char *out, size_t size);
/* Parses one value; on failure error->message names variable, value and the accepted form. FERRY_OK or
 * FERRY_ERR_CONFIG. */
int fy_option_parse(const struct ferry_option *row, const char *variable, const char *text, struct ferry_value *value,
                    struct ferry_error *error);
int fy_options_load(struct fy_options *options, const struct ferry_option *rows, const char *plugin,
                    const struct fy_source *source, struct ferry_error *error);
void fy_options_free(struct fy_options *options);
/* By row name; NULL if there is no such row. */
const struct fy_option_value *fy_options_find(const struct fy_options *options, const char *name);
/* Shorthands for rows known to exist. */
int64_t fy_options_number(const struct fy_options *options, const char *name);
double fy_options_seconds(const struct fy_options *options, const char *name);
const char *fy_options_string(const struct fy_options *options, const char *name);

/* Warns, once per name and source, about FERRY_… variables, and any overrides, that no table in `known` (NULL-ended)
 * has; suggests the nearest; never prints a value. Names that start with one of `foreign` ("FERRY_IBRC_", NULL-ended;
 * or NULL), the prefixes of plugins that were not loaded, are left alone. */
void fy_options_warn_unknown(const struct fy_source *source, const struct fy_options *const *known,
                             const char *const *foreign, const struct fy_log *log);
/* Nearest name by edit distance, case aside; NULL if none is near (distance <= 2, or <= a third of the length; names of
 * less than 4 letters: <= half of it). */
const char *fy_nearest(const char *name, const char *const *names, size_t n);

extern const struct ferry_option fy_core_options[]; /* core/base/core_options.c: every FERRY_… of the core */

#endif
