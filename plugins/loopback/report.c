/* SPDX-License-Identifier: Apache-2.0
 * What ferry-info --doctor asks: can memory be shared through files, can descriptors be handed over, who can be
 * reached. Setup thread; each check makes what it looks at, and gives it back. */
#include "guise.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define PAGE ((size_t)4096)

static void tell(const struct ferry_report *ask, uint32_t level, const char *object, const char *text,
                 const char *advice)
{
    struct ferry_finding finding = {sizeof finding, level, object, text, advice};

    ask->tell(ask->arg, &finding);
}

/* As the core does for the heap, and a peer with what it was handed. NULL, or the step that failed, with errno. */
static const char *try_memory(int fd)
{
    char *memory;
    int good;

    if (ftruncate(fd, (off_t)PAGE))
        return "give it a size";
    memory = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (memory == MAP_FAILED)
        return "map it";
    memory[0] = 1;
    good = memory[0] == 1;
    munmap(memory, PAGE);
    return good ? NULL : "read what was written there";
}

static void memory_files(const struct ferry_report *ask)
{
    char text[160];
    int fd = memfd_create("ferry-doctor", MFD_CLOEXEC);
    const char *failed = fd < 0 ? "make one" : try_memory(fd);

    if (failed)
        snprintf(text, sizeof text, "cannot %s: %s", failed, strerror(errno));
    else
        snprintf(text, sizeof text, "memfd_create and mmap work");
    if (fd >= 0)
        close(fd);
    tell(ask, failed ? FERRY_FINDING_PROBLEM : FERRY_FINDING_OK, "memory files", text,
         failed ? "raise ulimit -n and the memory limit of the cgroup, and allow memfd_create in the sandbox" : "");
}

static void sockets(const struct ferry_report *ask)
{
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    char text[160] = "abstract sockets work: descriptors can be handed over";
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    int failed = fd < 0 || bind(fd, (struct sockaddr *)&name, sizeof name.sun_family) || listen(fd, 1); /* autobind */

    if (failed)
        snprintf(text, sizeof text, "an abstract socket cannot be opened: %s", strerror(errno));
    if (fd >= 0)
        close(fd);
    tell(ask, failed ? FERRY_FINDING_PROBLEM : FERRY_FINDING_OK, "sockets", text,
         failed ? "raise ulimit -n, and allow unix sockets in the sandbox" : "");
}

static void reachable(const struct ferry_report *ask)
{
    struct fy_lb_identity self;
    const char *unread = fy_lb_identify(&self);
    char text[160];

    if (unread)
        snprintf(text, sizeof text, "cannot read %s: %s", unread, strerror(errno));
    else
        snprintf(text, sizeof text, "PEs of user %u in this network namespace (%lu)", (unsigned)self.uid,
                 (unsigned long)self.net_inode);
    tell(ask, unread ? FERRY_FINDING_PROBLEM : FERRY_FINDING_OK, "reaches", text, unread ? "mount /proc" : "");
}

int fy_lb_report(const struct ferry_core *core, const struct ferry_report *ask)
{
    (void)core;
    if (ask->kind != FERRY_REPORT_HEALTH)
        return FERRY_ERR_UNSUPPORTED;
    memory_files(ask);
    sockets(ask);
    reachable(ask);
    return FERRY_OK;
}
