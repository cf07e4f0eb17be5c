/* SPDX-License-Identifier: Apache-2.0
 * Standard streams that the caller of a tool has closed.
 * Main thread, before anything is opened. */
#include "standard.h"

#include <err.h>
#include <fcntl.h>
#include <sysexits.h>
#include <unistd.h>

void tool_standard_streams(bool discard)
{
    int fd;
    do
        fd = open("/dev/null", discard ? O_RDWR : O_RDONLY);
    while (fd >= 0 && fd <= STDERR_FILENO);
    if (fd < 0)
        err(EX_OSERR, "cannot open /dev/null");
    close(fd);
}
