/* SPDX-License-Identifier: Apache-2.0
 * How much memory the machine, the control group and the process may still take, and the refusal in words.
 * Reads /proc and /sys at the moment of asking; keeps nothing. Any thread. */
#include "internal.h"
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#define PATH_LENGTH  1024
#define UNLIMITED_V1 ((uint64_t)1 << 62) /* version 1 writes "unlimited" as a number near 2^63 */

bool fy_limits_file(const char *path, char *text, size_t size)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    size_t n = 0;

    if (fd < 0)
        return false;
    while (n < size - 1) {
        ssize_t got = read(fd, text + n, size - 1 - n);

        if (got <= 0)
            break;
        n += (size_t)got;
    }
    close(fd);
    text[n] = '\0';
    return true;
}

/* The number behind `label` at the start of a line. */
static bool labelled(const char *text, const char *label, uint64_t *value)
{
    size_t n = strlen(label);

    for (const char *line = text; line; line = strchr(line, '\n')) {
        line += *line == '\n';
        if (strncmp(line, label, n) != 0)
            continue;
        *value = strtoull(line + n, NULL, 10);
        return true;
    }
    return false;
}

/* Where a version of cgroup keeps its folders, and how it calls things. */
struct scheme {
    const char *mount; /* below root */
    const char *limit, *usage;
    const char *inactive; /* row of memory.stat: file pages that would be dropped first */
};
static const struct scheme scheme_v2 = {"/sys/fs/cgroup", "memory.max", "memory.current", "inactive_file "};
static const struct scheme scheme_hybrid = {"/sys/fs/cgroup/unified", "memory.max", "memory.current", "inactive_file "};
static const struct scheme scheme_v1 = {"/sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes",
                                        "total_inactive_file "};

static bool group_number(const char *folder, const char *file, uint64_t *value)
{
    char path[PATH_LENGTH], text[64];
    char *end;

    if (snprintf(path, sizeof(path), "%s/%s", folder, file) >= (int)sizeof(path) ||
        !fy_limits_file(path, text, sizeof(text)))
        return false;
    *value = strtoull(text, &end, 10);
    return end != text; /* "max" is no number */
}

static uint64_t group_inactive(const char *folder, const char *label)
{
    char path[PATH_LENGTH], text[8192];
    uint64_t value = 0;

    if (snprintf(path, sizeof(path), "%s/memory.stat", folder) >= (int)sizeof(path))
        return 0;
    if (fy_limits_file(path, text, sizeof(text)))
        labelled(text, label, &value);
    return value;
}

static uint64_t left(uint64_t limit, uint64_t usage)
{
    if (limit == UINT64_MAX)
        return UINT64_MAX;
    return limit > usage ? limit - usage : 0;
}

static void look_at_group(const struct scheme *scheme, const char *folder, struct fy_limits *limits)
{
    uint64_t limit, usage, inactive;

    if (!group_number(folder, scheme->limit, &limit) || limit >= UNLIMITED_V1)
        return;
    if (!group_number(folder, scheme->usage, &usage))
        usage = 0;
    inactive = group_inactive(folder, scheme->inactive);
    usage -= inactive < usage ? inactive : usage;
    if (left(limit, usage) >= left(limits->cgroup_limit, limits->cgroup_usage) && limits->cgroup_limit != UINT64_MAX)
        return;
    limits->cgroup_limit = limit;
    limits->cgroup_usage = usage;
}

/* The group and all above it: each may limit. In a container the path is often one of the host that is not to be seen
 * here; the walk up then ends at the mount, which is the container's own group. */
static void look_at_groups(const char *root, const struct scheme *scheme, const char *path, struct fy_limits *limits)
{
    char folder[PATH_LENGTH];
    size_t mount = strlen(root) + strlen(scheme->mount);

    if (snprintf(folder, sizeof(folder), "%s%s%s", root, scheme->mount, path) >= (int)sizeof(folder))
        return;
    for (;;) {
        size_t n = strlen(folder);

        while (n > mount && folder[n - 1] == '/')
            folder[--n] = '\0';
        look_at_group(scheme, folder, limits);
        if (n <= mount)
            return;
        *strrchr(folder, '/') = '\0';
    }
}

/* Lines of /proc/self/cgroup: "0::/path" is version 2, "4:cpu,memory:/path" version 1. */
static void look_at_line(const char *root, char *line, struct fy_limits *limits)
{
    char *controllers = strchr(line, ':');
    char *path = controllers ? strchr(controllers + 1, ':') : NULL;
    char *rest, *name;

    if (!path)
        return;
    *path++ = '\0';
    controllers++;
    if (*controllers == '\0') {
        look_at_groups(root, &scheme_v2, path, limits);
        look_at_groups(root, &scheme_hybrid, path, limits);
    }
    for (name = strtok_r(controllers, ",", &rest); name; name = strtok_r(NULL, ",", &rest))
        if (strcmp(name, "memory") == 0)
            look_at_groups(root, &scheme_v1, path, limits);
}

static uint64_t process_limit(int resource)
{
    struct rlimit limit;

    if (getrlimit(resource, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY)
        return UINT64_MAX;
    return limit.rlim_cur;
}

void fy_limits_read(const char *root, struct fy_limits *limits)
{
    char path[PATH_LENGTH], text[8192];
    char *line, *rest;

    *limits = (struct fy_limits){.available = UINT64_MAX, .cgroup_limit = UINT64_MAX};
    limits->memlock = process_limit(RLIMIT_MEMLOCK);
    limits->file_size = process_limit(RLIMIT_FSIZE);
    limits->address_space = process_limit(RLIMIT_AS);
    snprintf(path, sizeof(path), "%s/proc/meminfo", root);
    if (fy_limits_file(path, text, sizeof(text)) && labelled(text, "MemAvailable:", &limits->available))
        limits->available *= 1024;
    snprintf(path, sizeof(path), "%s/proc/self/cgroup", root);
    if (!fy_limits_file(path, text, sizeof(text)))
        return;
    for (line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest))
        look_at_line(root, line, limits);
}

const char *fy_size_text(uint64_t bytes, char text[FY_SIZE_TEXT])
{
    static const char *const units[] = {"bytes", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    unsigned unit = 0;
    double value = (double)bytes;

    for (; value >= 1024 && unit < 6; unit++)
        value /= 1024;
    if (bytes == UINT64_MAX)
        snprintf(text, FY_SIZE_TEXT, "unlimited");
    else if (unit == 0)
        snprintf(text, FY_SIZE_TEXT, "%u bytes", (unsigned)bytes);
    else
        snprintf(text, FY_SIZE_TEXT, "%.1f %s", value, units[unit]);
    return text;
}

const char *fy_limits_text(const struct fy_limits *limits, char text[FY_LIMITS_TEXT])
{
    char available[FY_SIZE_TEXT], limit[FY_SIZE_TEXT], usage[FY_SIZE_TEXT], memlock[FY_SIZE_TEXT], space[FY_SIZE_TEXT];

    snprintf(text, FY_LIMITS_TEXT, "%s available, cgroup limit %s, %s of it in use, memlock %s, address space %s",
             fy_size_text(limits->available, available), fy_size_text(limits->cgroup_limit, limit),
             fy_size_text(limits->cgroup_usage, usage), fy_size_text(limits->memlock, memlock),
             fy_size_text(limits->address_space, space));
    return text;
}

int fy_limits_check(const struct fy_limits *limits, size_t length, uint32_t pes, struct ferry_error *error)
{
    uint64_t factor = pes ? pes : 1;
    uint64_t total = length > UINT64_MAX / factor ? UINT64_MAX - 1 : length * factor;
    char all[FY_SIZE_TEXT], text[FY_LIMITS_TEXT];

    if (length > limits->file_size) {
        fy_error_set(error, FERRY_ERR_NOMEM, "raise the limit (ulimit -f), or ask for less",
                     "a heap chunk of %zu bytes is over the file size limit of %llu bytes", length,
                     (unsigned long long)limits->file_size);
        return FERRY_ERR_NOMEM;
    }
    if (total <= limits->available && total <= left(limits->cgroup_limit, limits->cgroup_usage))
        return FERRY_OK;
    fy_error_set(
        error, FERRY_ERR_NOMEM,
        "ask for less, run fewer PEs on this host, raise the memory limit of the cgroup or container, or lower "
        "FERRY_HEAP_CHUNK",
        "no memory for %zu bytes more in each of %u PEs on this host (%s in all): %s", length, (unsigned)factor,
        fy_size_text(total, all), fy_limits_text(limits, text));
    return FERRY_ERR_NOMEM;
}
