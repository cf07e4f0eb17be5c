/* SPDX-License-Identifier: Apache-2.0
 * Room for the descriptors that a PE is going to open.
 * Any thread. */
#ifndef FY_JOB_DESCRIPTORS_H
#define FY_JOB_DESCRIPTORS_H

/* Makes the kernel's table of this process's descriptors as large as most jobs need it, while that costs nothing. Linux doubles
 * the table when it is full, and in a process of several threads the one that does waits for all processors to pass a quiescent
 * state (expand_fdtable calls synchronize_rcu, fs/file.c): on a busy machine that took a minute, in which a transport that
 * accepted a connection served nobody, and the control thread, if it was that one, gave no sign of life. */
void fy_descriptors_reserve(void);

#endif
