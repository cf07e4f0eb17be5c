/* SPDX-License-Identifier: Apache-2.0
 * On which cores proxy threads run: those of the process, not of the thread that happens to make a ring.
 * Setup thread, and threads that make rings; reads the affinity of the process's threads and the place of its GPU. */
#include "cores.h"

#include <ctype.h>
#include <dirent.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* "0-3,8-11", as the kernel writes it, too. */
bool fy_cores_parse(const char *list, cpu_set_t *cores)
{
    CPU_ZERO(cores);
    while (isdigit((unsigned char)*list)) {
        char *end;
        unsigned long first = strtoul(list, &end, 10), last = first;
        if (*end == '-' && isdigit((unsigned char)end[1]))
            last = strtoul(end + 1, &end, 10);
        if (last < first || last >= CPU_SETSIZE)
            return false;
        for (unsigned long core = first; core <= last; core++)
            CPU_SET(core, cores);
        if (*end != ',')
            return *end == '\0' || *end == '\n';
        list = end + 1;
    }
    return false;
}

/* A thread that the program pinned says nothing about its others: all of them together do. Whoever started the process with
 * few cores (taskset, mpirun) has bound every one of them. */
static void of_process(cpu_set_t *cores)
{
    cpu_set_t one;
    DIR *tasks = opendir("/proc/self/task");
    if (sched_getaffinity(0, sizeof(one), &one) == 0)
        CPU_OR(cores, cores, &one);
    if (!tasks)
        return;
    for (const struct dirent *entry; (entry = readdir(tasks)) != NULL;)
        if (isdigit((unsigned char)entry->d_name[0]) && sched_getaffinity(atoi(entry->d_name), sizeof(one), &one) == 0)
            CPU_OR(cores, cores, &one);
    closedir(tasks);
}

static bool near_gpu(const char *gpu, cpu_set_t *cores)
{
    char path[96], list[1024] = "";
    snprintf(path, sizeof(path), "/sys/bus/pci/devices/%s/local_cpulist", gpu);
    FILE *file = *gpu ? fopen(path, "re") : NULL;
    if (!file)
        return false;
    if (!fgets(list, sizeof(list), file))
        list[0] = '\0';
    fclose(file);
    return fy_cores_parse(list, cores);
}

void fy_cores_look(struct fy_cores *cores)
{
    cpu_set_t local, both;
    if (cores->named)
        return;
    of_process(&cores->set);
    cores->chosen = cores->set;
    if (!near_gpu(cores->gpu, &local))
        return;
    CPU_AND(&both, &cores->set, &local);
    if (CPU_COUNT(&both) > 0)
        cores->chosen = both;
}

bool fy_cores_create(const char *list, const char *gpu, struct fy_cores *cores)
{
    *cores = (struct fy_cores){.named = *list != '\0'};
    snprintf(cores->gpu, sizeof(cores->gpu), "%s", gpu);
    if (strcmp(list, "all") == 0) /* the kernel leaves out what the cpuset has not */
        memset(&cores->chosen, 0xff, sizeof(cores->chosen));
    else if (cores->named && !fy_cores_parse(list, &cores->chosen))
        return false;
    fy_cores_look(cores);
    return true;
}

uint32_t fy_cores_count(const struct fy_cores *cores)
{
    int n = CPU_COUNT(&cores->chosen);
    long online = sysconf(_SC_NPROCESSORS_ONLN);
    if (online > 0 && n > online)
        n = (int)online;
    return n > 0 ? (uint32_t)n : 1;
}
