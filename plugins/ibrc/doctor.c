/* SPDX-License-Identifier: Apache-2.0
 * ferry-info --doctor, the host's side: drivers against libraries, device files, cgroups, locked memory.
 * Setup thread; reads files below `root` and limits, opens device files for a moment, changes nothing. */
#include "doctor.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#define ABI_LEAST                                                                                                      \
    3 /* of the kernel's user interface, that libibverbs 34 and later speak (IB_USER_VERBS_MIN_ABI_VERSION) */
#define ABI_MOST         6                  /* IB_USER_VERBS_MAX_ABI_VERSION */
#define MEMLOCK_LEAST    ((rlim_t)32 << 20) /* a chunk of the heap, and queues */
#define OBJECTS_LEAST    1000               /* queue pairs, completion queues and registrations of a small job */
#define CAP_IPC_LOCK_BIT 14

/* Files only: a pipe below a root that is given would be waited for. */
static FILE *open_below(const struct fy_ib_doctor *d, const char *path)
{
    char whole[600];
    struct stat st;
    FILE *file;
    int fd;

    snprintf(whole, sizeof whole, "%s%s", d->root, path);
    fd = open(whole, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0)
        return NULL;
    file = fstat(fd, &st) == 0 && S_ISREG(st.st_mode) ? fdopen(fd, "r") : NULL;
    if (!file)
        close(fd);
    return file;
}

int fy_ib_read(const struct fy_ib_doctor *d, char *line, size_t size, const char *format, ...)
{
    char path[400];
    va_list args;
    FILE *file;
    int good;

    va_start(args, format);
    vsnprintf(path, sizeof path, format, args);
    va_end(args);
    line[0] = '\0';
    file = open_below(d, path);
    if (!file)
        return 0;
    good = fgets(line, (int)size, file) != NULL;
    fclose(file);
    line[strcspn(line, "\n")] = '\0';
    return good;
}

static DIR *open_folder(const struct fy_ib_doctor *d, const char *path)
{
    char whole[600];

    snprintf(whole, sizeof whole, "%s%s", d->root, path);
    return opendir(whole);
}

/* ------------------------------------------------------------------ driver and library */

static int library_has(const struct fy_ib_doctor *d, const char *name)
{
    for (int i = 0; d->s.list && i < d->s.n_devices; i++)
        if (strcmp(ibv_get_device_name(d->s.list[i]), name) == 0)
            return 1;
    return 0;
}

/* Devices that the kernel has; one that libibverbs lacks has no provider that fits. */
static int drivers(const struct fy_ib_doctor *d)
{
    DIR *folder = open_folder(d, "/sys/class/infiniband");
    const struct dirent *e;
    int n = 0;

    while (folder && (e = readdir(folder)) != NULL) {
        if (e->d_name[0] == '.')
            continue;
        n++;
        if (!library_has(d, e->d_name))
            fy_ib_tell(
                d, FERRY_FINDING_PROBLEM, e->d_name,
                "install ibverbs-providers (rdma-core) of the host's version; /etc/libibverbs.d names the providers, "
                "and "
                "in a container the device's uverbs file must be there",
                "the kernel has this device, libibverbs does not offer it: no provider for its driver, or for this "
                "version of it");
    }
    if (folder)
        closedir(folder);
    if (n)
        fy_ib_tell(d, FERRY_FINDING_OK, "driver", "", "the kernel has %d RDMA device%s", n, n == 1 ? "" : "s");
    else if (d->s.list && d->s.n_devices > 0)
        fy_ib_tell(d, FERRY_FINDING_WARNING, "driver", "mount /sys, so that distances and more can be read",
                   "/sys/class/infiniband shows nothing, though libibverbs has %d device%s", d->s.n_devices,
                   d->s.n_devices == 1 ? "" : "s");
    else
        fy_ib_tell(
            d, FERRY_FINDING_PROBLEM, "driver",
            "modprobe mlx5_ib, bnxt_re, irdma or what the NIC needs; without a NIC: modprobe rdma_rxe, then rdma link "
            "add rxe0 type rxe netdev eth0",
            "no RDMA device: /sys/class/infiniband is %s", folder ? "empty" : "not there");
    return n;
}

static void kernel_interface(const struct fy_ib_doctor *d, int devices)
{
    char line[32];
    int abi;

    if (!fy_ib_read(d, line, sizeof line, "/sys/class/infiniband_verbs/abi_version")) {
        if (devices)
            fy_ib_tell(d, FERRY_FINDING_PROBLEM, "ib_uverbs", "modprobe ib_uverbs",
                       "the kernel offers no verbs to programs: /sys/class/infiniband_verbs/abi_version is not there");
        return;
    }
    abi = atoi(line);
    if (abi < ABI_LEAST || abi > ABI_MOST)
        fy_ib_tell(d, FERRY_FINDING_PROBLEM, "ib_uverbs", "install the rdma-core that belongs to this kernel",
                   "the kernel speaks verbs ABI %d, libibverbs %d to %d", abi, ABI_LEAST, ABI_MOST);
    else
        fy_ib_tell(d, FERRY_FINDING_OK, "ib_uverbs", "", "verbs ABI %d of the kernel, which libibverbs speaks", abi);
}

/* ------------------------------------------------------------------ device files, cgroups */

static const char *open_advice(int error)
{
    switch (error) {
    case ENOENT:
        return "pass /dev/infiniband into the container (docker: --device=/dev/infiniband), or let udev make it";
    case EPERM:
        return "the cgroup's list of devices forbids it: --device=/dev/infiniband, or DeviceAllow= of the service";
    case EACCES:
        return "chmod 666 by a udev rule of rdma-core, or add the user to the group of the file";
    default:
        return "look at the kernel log";
    }
}

static void device_file(const struct fy_ib_doctor *d, const char *uverbs)
{
    char path[600], name[64], abi[16];
    int fd;

    if (!fy_ib_read(d, name, sizeof name, "/sys/class/infiniband_verbs/%s/ibdev", uverbs))
        return;
    fy_ib_read(d, abi, sizeof abi, "/sys/class/infiniband_verbs/%s/abi_version", uverbs);
    snprintf(path, sizeof path, "%s/dev/infiniband/%s", d->root, uverbs);
    fd = open(path, O_RDWR | O_NONBLOCK | O_CLOEXEC);
    if (fd >= 0) {
        close(fd);
        fy_ib_tell(d, FERRY_FINDING_OK, name, "", "/dev/infiniband/%s can be opened; driver ABI %s", uverbs,
                   abi[0] ? abi : "?");
    } else {
        int error = errno;
        fy_ib_tell(d, FERRY_FINDING_PROBLEM, name, open_advice(error), "/dev/infiniband/%s cannot be opened: %s",
                   uverbs, strerror(error));
    }
}

static void device_files(const struct fy_ib_doctor *d)
{
    DIR *folder = open_folder(d, "/sys/class/infiniband_verbs");
    const struct dirent *e;

    while (folder && (e = readdir(folder)) != NULL)
        if (strncmp(e->d_name, "uverbs", 6) == 0)
            device_file(d, e->d_name);
    if (folder)
        closedir(folder);
}

/* "mlx5_0 hca_handle=2 hca_object=2000": what processes of the group may have. A number that is missing is no limit. */
static void group_line(const struct fy_ib_doctor *d, const char *line, int *limits)
{
    const char *handles = strstr(line, "hca_handle="), *objects = strstr(line, "hca_object=");
    long handle = handles && handles[11] >= '0' && handles[11] <= '9' ? atol(handles + 11) : LONG_MAX;
    long object = objects && objects[11] >= '0' && objects[11] <= '9' ? atol(objects + 11) : LONG_MAX;
    char name[64];

    snprintf(name, sizeof name, "%.*s", (int)strcspn(line, " "), line);
    if (handle == LONG_MAX && object == LONG_MAX)
        return;
    ++*limits;
    if (handle == 0 || object == 0)
        fy_ib_tell(d, FERRY_FINDING_PROBLEM, name, "raise rdma.max of the cgroup",
                   "the rdma cgroup allows none of its objects");
    else if (object < OBJECTS_LEAST)
        fy_ib_tell(d, FERRY_FINDING_WARNING, name, "raise rdma.max of the cgroup",
                   "the rdma cgroup allows %ld queues and registrations; each channel and peer takes 2", object);
    else
        fy_ib_tell(d, FERRY_FINDING_OK, name, "", "the rdma cgroup allows enough");
}

static void group_file(const struct fy_ib_doctor *d, const char *path, int *limits)
{
    FILE *file = open_below(d, path);
    char line[160];

    while (file && fgets(line, sizeof line, file))
        group_line(d, line, limits);
    if (file)
        fclose(file);
}

/* This process's group, and those above it: each of them limits. */
static void groups(const struct fy_ib_doctor *d)
{
    FILE *file = open_below(d, "/proc/self/cgroup");
    char line[300], path[400];
    int limits = 0;

    while (file && fgets(line, sizeof line, file)) {
        const char *old = strstr(line, ":rdma:");
        char *at = strchr(line, '/'), *slash;
        if (!at || (!old && strncmp(line, "0::", 3) != 0))
            continue;
        at[strcspn(at, "\n")] = '\0';
        for (;;) {
            snprintf(path, sizeof path, "/sys/fs/cgroup%s%s/rdma.max", old ? "/rdma" : "",
                     strcmp(at, "/") == 0 ? "" : at);
            group_file(d, path, &limits);
            slash = strrchr(at, '/');
            if (!slash || slash == at)
                break;
            *slash = '\0';
        }
    }
    if (file)
        fclose(file);
    if (!limits)
        fy_ib_tell(d, FERRY_FINDING_OK, "cgroup", "", "no limit on RDMA objects");
}

/* ------------------------------------------------------------------ memory */

/* The kernel asks for the capability of the host: one that a container's own user namespace gives does not count. */
static int in_namespace(const struct fy_ib_doctor *d)
{
    unsigned long inside, outside, count;
    char line[64];

    return fy_ib_read(d, line, sizeof line, "/proc/self/uid_map") &&
           sscanf(line, "%lu %lu %lu", &inside, &outside, &count) == 3 && (inside || outside || count != UINT32_MAX);
}

static int may_lock(const struct fy_ib_doctor *d)
{
    FILE *file = open_below(d, "/proc/self/status");
    unsigned long long effective = 0;
    char line[200];

    while (file && fgets(line, sizeof line, file))
        if (sscanf(line, "CapEff: %llx", &effective) == 1)
            break;
    if (file)
        fclose(file);
    return (effective >> CAP_IPC_LOCK_BIT & 1) != 0 && !in_namespace(d);
}

static void locked_memory(const struct fy_ib_doctor *d)
{
    static const char advice[] = "ulimit -l unlimited: '* - memlock unlimited' in /etc/security/limits.conf, "
                                 "LimitMEMLOCK=infinity for services, --ulimit memlock=-1 for containers";
    struct rlimit limit;

    if (getrlimit(RLIMIT_MEMLOCK, &limit))
        return;
    if (limit.rlim_cur == RLIM_INFINITY)
        fy_ib_tell(d, FERRY_FINDING_OK, "locked memory", "", "not limited");
    else if (may_lock(d))
        fy_ib_tell(d, FERRY_FINDING_OK, "locked memory", "",
                   "limited to %llu KiB, but not for this user (CAP_IPC_LOCK)",
                   (unsigned long long)limit.rlim_cur >> 10);
    else
        fy_ib_tell(d, limit.rlim_cur < MEMLOCK_LEAST ? FERRY_FINDING_PROBLEM : FERRY_FINDING_WARNING, "locked memory",
                   advice, "RLIMIT_MEMLOCK is %llu KiB; the whole symmetric heap is registered, which locks it",
                   (unsigned long long)limit.rlim_cur >> 10);
}

/* Below a folder that is not there all would look as on a host without devices. */
static void other_root(const struct fy_ib_doctor *d)
{
    DIR *folder = open_folder(d, "/sys");

    if (folder)
        closedir(folder);
    else if (d->root[0])
        fy_ib_tell(d, FERRY_FINDING_PROBLEM, "FERRY_IBRC_ROOT", "name a folder that has sys, proc and dev, or unset it",
                   "%.100s/sys cannot be opened: %s", d->root, strerror(errno));
}

void fy_ib_doctor_host(const struct fy_ib_doctor *d)
{
    char missing[256];
    int n;

    other_root(d);
    n = drivers(d);
    kernel_interface(d, n);
    device_files(d);
    groups(d);
    locked_memory(d);
    if (d->s.n && fy_ib_list_missing(&d->s, missing, sizeof missing))
        fy_ib_tell(d, FERRY_FINDING_WARNING, "FERRY_IBRC_DEVICES", "correct the name", "%s", missing);
}
