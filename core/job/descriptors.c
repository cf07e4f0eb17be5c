/* SPDX-License-Identifier: Apache-2.0
 * The size of the table of descriptors.
 * Called at init, before the job's first thread. */
#include "descriptors.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#define WANTED 1024 /* a table of 8 KiB */

void fy_descriptors_reserve(void)
{
    struct rlimit limit;
    int fd = open("/dev/null", O_RDONLY | O_CLOEXEC), high;

    if (fd < 0)
        return; /* whoever needs a descriptor says so */
    /* the table never shrinks: a number taken once is enough */
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
        high = fcntl(fd, F_DUPFD_CLOEXEC, limit.rlim_cur < WANTED ? (int)limit.rlim_cur - 1 : WANTED - 1);
        if (high >= 0)
            close(high);
    }
    close(fd);
}
