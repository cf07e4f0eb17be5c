/* SPDX-License-Identifier: Apache-2.0
 * What choosing a provider and explaining the choice share.
 * Setup thread. */
#ifndef FY_LIBFABRIC_SELECT_H
#define FY_LIBFABRIC_SELECT_H

#include "libfabric.h"

/* select.c */
struct fi_info *fy_lf_hints(const struct fy_lf_options *o, const char *provider, uint64_t caps);
int fy_lf_ask(const struct fy_lf_options *o, const char *provider, struct fi_info **list);
int fy_lf_named(const struct fi_info *info, const char *provider);
int fy_lf_in_domain(const struct fi_info *info, const char *domain);
int fy_lf_on_interface(const struct fi_info *info, const char *interface);

/* explain.c. `list`: what libfabric answered, of which nothing fits; NULL with rc, its error. The status to fail with. */
int fy_lf_why_none(const struct fy_lf_options *o, const struct fi_info *list, int rc, char *why, size_t why_size);

/* names.c: a list of names, each once, and the nearest of them. */
struct fy_lf_names {
    char text[512]; /* "a, b, c" */
    char nearest[64];
    size_t distance;
    const char *wanted;
};
void fy_lf_names_add(struct fy_lf_names *names, const char *name);
int fy_lf_names_has(const struct fy_lf_names *names, const char *name, size_t length);
/* " (did you mean NAME?)", or nothing; lives as long as *names. */
const char *fy_lf_names_hint(const struct fy_lf_names *names, char *place, size_t size);

#endif
