/* SPDX-License-Identifier: Apache-2.0
 * Numbers by which PEs see whether they share a machine, and whether they share a host.
 * Any thread. */
#ifndef FY_JOB_HOST_H
#define FY_JOB_HOST_H

#include <stdint.h>

/* Equal for processes that share a kernel, so its memory and its cores. */
uint64_t fy_machine_number(void);
/* Equal for those that share a network namespace of it, too: what PEs of one host may use to reach each other (abstract
 * sockets, 127.0.0.1) ends there. */
uint64_t fy_host_number(void);
/* And that the launcher, if it knows (FERRY_BOOT_NO_NODE: it does not), counts as one host: it may tell apart what the kernel does
 * not, but not join what the kernel separates. */
uint64_t fy_host_number_of(uint32_t node);

#endif
