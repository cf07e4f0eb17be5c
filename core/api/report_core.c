/* SPDX-License-Identifier: Apache-2.0
 * What the library itself needs of the host: cores, open files, address space, huge pages, an interface to meet on; and
 * whether a job could start with the options. And what GPU memory needs.
 * Any thread; reads limits and /sys, changes nothing. */
#include "report.h"

#include "../gpu/gpu.h"
#include "../job/boot_wire.h"
#include "../job/job.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#define FILES_LEAST  64u   /* a PE's own, and those of a few peers */
#define FILES_ENOUGH 1024u /* a tree of connections, and one memory file per peer of the host */

static void cores(const struct fy_findings *to)
{
    cpu_set_t set;
    long online = sysconf(_SC_NPROCESSORS_ONLN);
    int mine = sched_getaffinity(0, sizeof(set), &set) == 0 ? CPU_COUNT(&set) : (int)online;
    if (mine > 1)
        fy_finding(to, FERRY_FINDING_OK, "cores", "", "%d of %ld may be used", mine, online);
    else
        fy_finding(to, FERRY_FINDING_WARNING, "cores", "bind each PE to two cores or more, or to none",
                   "one core for the program and for Ferry's threads, of %ld", online);
}

static void open_files(const struct fy_findings *to)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
        return;
    uint32_t level = limit.rlim_cur < FILES_LEAST    ? FERRY_FINDING_PROBLEM
                     : limit.rlim_cur < FILES_ENOUGH ? FERRY_FINDING_WARNING
                                                     : FERRY_FINDING_OK;
    fy_finding(to, level, "open files",
               level == FERRY_FINDING_OK ? "" : "ulimit -n 4096, or LimitNOFILE= of the service",
               "a process may have %llu", (unsigned long long)limit.rlim_cur);
}

static void address_space(const struct fy_findings *to, const struct fy_options *options)
{
    struct rlimit limit;
    uint64_t heap = (uint64_t)fy_options_number(options, "heap_size");
    if (getrlimit(RLIMIT_AS, &limit) != 0)
        return;
    if (limit.rlim_cur == RLIM_INFINITY)
        fy_finding(to, FERRY_FINDING_OK, "address space", "", "not limited");
    else if (limit.rlim_cur <= heap)
        fy_finding(to, FERRY_FINDING_PROBLEM, "address space", "ulimit -v unlimited, or a smaller FERRY_HEAP_SIZE",
                   "limited to %llu MiB, the heap reserves %llu MiB", (unsigned long long)limit.rlim_cur >> 20,
                   (unsigned long long)heap >> 20);
    else
        fy_finding(to, FERRY_FINDING_OK, "address space", "", "limited to %llu MiB, enough for the heap",
                   (unsigned long long)limit.rlim_cur >> 20);
}

static bool read_line(const char *path, char *line, size_t size)
{
    FILE *file = fopen(path, "re");
    bool good = file && fgets(line, (int)size, file);
    if (file)
        fclose(file);
    if (good)
        line[strcspn(line, "\n")] = '\0';
    return good;
}

static void huge_pages(const struct fy_findings *to)
{
    char pool[32] = "0", modes[64] = "";
    read_line("/sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages", pool, sizeof(pool));
    bool known = read_line("/sys/kernel/mm/transparent_hugepage/enabled", modes, sizeof(modes));
    bool transparent = known && !strstr(modes, "[never]");
    if (transparent || strtoul(pool, NULL, 10) > 0)
        fy_finding(to, FERRY_FINDING_OK, "huge pages", "", "%s free in the pool, transparent ones: %s", pool,
                   known ? modes : "no");
    else
        fy_finding(to, FERRY_FINDING_WARNING, "huge pages",
                   "echo madvise > /sys/kernel/mm/transparent_hugepage/enabled, or fill the pool (vm.nr_hugepages)",
                   "none: large heaps cost more page faults, and registrations more entries");
}

static void interface(const struct fy_findings *to, const struct fy_options *options)
{
    const char *name = fy_options_string(options, "interface");
    struct ferry_error error;
    uint32_t ip;
    if (fy_net_address(name, &ip, &error) != FERRY_OK)
        fy_finding(to, FERRY_FINDING_PROBLEM, "interface", "correct FERRY_INTERFACE", "%s", error.message);
    else
        fy_finding(to, FERRY_FINDING_OK, "interface", "", "PEs meet on %s%s", fy_net_auto(name) ? "lo" : name,
                   fy_net_is_loopback(ip) ? ", which keeps a job on this host (FERRY_INTERFACE)" : "");
}

static void gpu(const struct fy_findings *to, const struct fy_options *options)
{
    static const char advice[] = "nvidia-smi --query-gpu=pci.bus_id --format=csv prints them";
    const char *text = fy_options_string(options, "gpu");
    char address[sizeof(((struct ferry_place *)0)->gpu)], path[64];
    bool good = fy_job_gpu(text, address, sizeof(address));
    snprintf(path, sizeof(path), "/sys/bus/pci/devices/%s", address);
    if (!good)
        fy_finding(to, FERRY_FINDING_PROBLEM, "gpu", advice,
                   "FERRY_GPU is '%.40s', which is no PCI address like 0000:3b:00.0", text);
    else if (*address && access(path, F_OK) != 0)
        fy_finding(to, FERRY_FINDING_WARNING, "gpu", advice,
                   "FERRY_GPU is %s, and this host shows no such PCI device: transports cannot take what is near it",
                   address);
}

static void bounds(const struct fy_findings *to, const struct fy_options *options)
{
    struct ferry_error error = {0};
    if (fy_job_bounds(options, &error) != FERRY_OK)
        fy_finding(to, FERRY_FINDING_PROBLEM, "options", "docs/configuration.md has the bounds", "%s", error.message);
    if (fy_options_number(options, "heap_size") == 0)
        fy_finding(to, FERRY_FINDING_PROBLEM, "options", "give a size, such as 64G",
                   "FERRY_HEAP_SIZE is 0, and a heap needs address space");
}

static void gpu_found(void *arg, uint32_t level, const char *object, const char *advice, const char *text)
{
    fy_finding(arg, level, object, advice, "%s", text);
}

void fy_report_core(const struct fy_findings *to, const struct fy_options *options)
{
    struct fy_findings out = *to;
    struct fy_gpu_doctor gpus = {.tell = gpu_found, .arg = &out};
    gpus.wanted = fy_options_number(options, "gpu_memory") != 0 || fy_options_number(options, "heap_kind") != 0;
    cores(to);
    open_files(to);
    address_space(to, options);
    huge_pages(to);
    interface(to, options);
    gpu(to, options);
    bounds(to, options);
    fy_gpu_doctor(&gpus);
}
