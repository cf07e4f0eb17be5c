/* SPDX-License-Identifier: Apache-2.0
 * The options of the plugin. UCX has its own, in variables UCX_...: those are left to it.
 * Setup thread. */
#include "ucx.h"

const struct ferry_option fy_ux_option_rows[] = {
    {.name = "memory",
     .type = FERRY_OPTION_CHOICE,
     .initial = "auto",
     .choices = "auto|allocate|register",
     .doc = "Whether UCX allocates the heap, or registers Ferry's; auto: allocates where its lanes through shared memory "
            "cannot reach other memory."},
    {.name = "peer_errors",
     .type = FERRY_OPTION_CHOICE,
     .initial = "auto",
     .choices = "auto|no|yes",
     .doc = "Whether UCX watches connections for failures of the peer; auto: all but those of shared memory, which can then "
            "not be used."},
    {.name = "atomics",
     .type = FERRY_OPTION_CHOICE,
     .initial = "cpu",
     .choices = "cpu|device",
     .doc = "Who does atomics: the CPU of the target, or NICs, whose atomics those of CPUs do not see; in place of "
            "UCX_ATOMIC_MODE."},
    {.name = NULL},
};

int fy_ux_options(const struct ferry_core *core, struct fy_ux_options *o)
{
    struct ferry_value memory, watch, atomics;
    int rc = core->option(core, "memory", &memory);

    if (!rc)
        rc = core->option(core, "peer_errors", &watch);
    if (!rc)
        rc = core->option(core, "atomics", &atomics);
    if (rc)
        return rc;
    o->memory = (int)memory.number; /* the index is the enum */
    o->watch = (int)watch.number;
    o->device = (int)atomics.number;
    return FERRY_OK;
}
