/* SPDX-License-Identifier: Apache-2.0
 * Where this PE runs: the NUMA nodes of the cores that the calling thread may use, and its GPU.
 * Setup thread; reads the thread's affinity and /sys/devices/system/node. */
#include "job.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NODES 64

/* "0-3,8-11" and the cores that may be used: has it one of them? */
static bool meets(const char *list, const cpu_set_t *cores)
{
    while (*list) {
        char *end;
        unsigned long first = strtoul(list, &end, 10), last = first;
        if (end == list)
            return false;
        if (*end == '-')
            last = strtoul(end + 1, &end, 10);
        for (unsigned long cpu = first; cpu <= last && cpu < CPU_SETSIZE; cpu++)
            if (CPU_ISSET(cpu, cores))
                return true;
        list = end + (*end == ',');
        if (*end != ',')
            return false;
    }
    return false;
}

static bool node_meets(unsigned node, const cpu_set_t *cores)
{
    char path[64], list[1024] = "";
    snprintf(path, sizeof(path), "/sys/devices/system/node/node%u/cpulist", node);
    FILE *file = fopen(path, "re");
    if (!file)
        return false;
    if (!fgets(list, sizeof(list), file))
        list[0] = '\0';
    fclose(file);
    return meets(list, cores);
}

/* nvidia-smi writes 00000000:3B:00.0 where the kernel has 0000:3b:00.0. */
bool fy_job_gpu(const char *text, char *address, size_t size)
{
    unsigned domain, bus, device, function;
    int end = 0;
    address[0] = '\0';
    if (!*text)
        return true;
    if (sscanf(text, "%8x:%2x:%2x.%1x%n", &domain, &bus, &device, &function, &end) != 4 || text[end])
        return false;
    return snprintf(address, size, "%04x:%02x:%02x.%x", domain, bus, device, function) < (int)size;
}

void fy_job_here(struct ferry_place *place, const struct fy_options *options)
{
    cpu_set_t cores;
    *place = (struct ferry_place){.size = sizeof(*place)};
    if (!fy_job_gpu(fy_options_string(options, "gpu"), place->gpu, sizeof(place->gpu)))
        place->gpu[0] = '\0';
    if (sched_getaffinity(0, sizeof(cores), &cores) != 0)
        return; /* more cores than a cpu_set_t has: not known */
    for (unsigned node = 0; node < NODES; node++)
        if (node_meets(node, &cores))
            place->nodes |= UINT64_C(1) << node;
}
