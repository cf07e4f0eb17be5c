/* SPDX-License-Identifier: Apache-2.0
 * On which cores proxy threads run.
 * Setup thread, and threads that make rings, under the proxy's lock. */
#ifndef FY_PROXY_CORES_H
#define FY_PROXY_CORES_H

#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <unistd.h>

struct fy_cores {
    bool named;       /* by an option, which then is all there is */
    char gpu[32];     /* PCI address; empty: no GPU is known */
    cpu_set_t set;    /* those of the process's threads, as far as they were seen */
    cpu_set_t chosen; /* of those, the ones near the GPU, if there are any */
};

/* list: FERRY_PROXY_CORES: empty, "all", or as "0-3,8". False: it is none of these. */
bool fy_cores_create(const char *list, const char *gpu, struct fy_cores *cores);
/* Adds what the process's threads may use now: a thread that makes a ring late may be the first with cores of its own. */
void fy_cores_look(struct fy_cores *cores);
uint32_t fy_cores_count(const struct fy_cores *cores);
bool fy_cores_parse(const char *list, cpu_set_t *cores);

#endif
