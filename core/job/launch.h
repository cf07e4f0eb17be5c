/* SPDX-License-Identifier: Apache-2.0
 * How this process was started: which bootstrap says so, as which PE of how many, and how first bytes get to the others.
 * Setup thread, in init only. */
#ifndef FY_JOB_LAUNCH_H
#define FY_JOB_LAUNCH_H

#include "../base/log.h"
#include "../base/option.h"
#include <ferry/bootstrap.h>
#include <ferry/ferry.h>

/* One opened bootstrap, and what it is opened with. */
struct fy_launch {
    struct ferry_boot_core core; /* what the bootstrap is given: first, since the built-in ones find the rest by it */
    const struct fy_log *log;
    const struct fy_source *source;
    const struct fy_options *options;
    const ferry_attr_t *attr;
    double timeout;
    char why[192]; /* what speaks for it */
    const struct ferry_boot_plugin *plugin;
    struct ferry_boot *boot; /* NULL until opened */
    struct ferry_boot_place place;
    ferry_uniqueid_t id; /* of the built-in ones: what place.id is */
};

/* The built-in ones (launch_ways.c). */
extern const struct ferry_boot_plugin fy_launch_env, fy_launch_uid, fy_launch_functions;

/* With log, source, options, attr and timeout set: chooses by attr->bootstrap, FERRY_BOOTSTRAP and what the environment shows, and
 * opens. place says the rest. */
int fy_launch_open(struct fy_launch *launch, struct ferry_error *error);
/* With log, attr, timeout and plugin set. */
int fy_launch_begin(struct fy_launch *launch, struct ferry_error *error);
/* Allowed if nothing is open. */
void fy_launch_close(struct fy_launch *launch);

/* launch_load.c: a plugin by name or path; does not open it. */
int fy_launch_load(struct fy_launch *launch, const char *name, struct ferry_error *error);

/* launch_shown.c: warns when the launcher has started more processes than the job has PEs, so that each is a job of its own.
 * Once, by its first process. */
void fy_launch_compare(const struct fy_launch *launch);

#endif
