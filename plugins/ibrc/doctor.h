/* SPDX-License-Identifier: Apache-2.0
 * What the checks of ferry-info --doctor share. Setup thread. */
#ifndef FY_IBRC_DOCTOR_H
#define FY_IBRC_DOCTOR_H

#include "devices.h"

struct fy_ib_doctor {
    const struct ferry_core *core;
    const struct ferry_report *ask;
    const char *root; /* stands for / in paths */
    struct fy_ib_scan s;
};

/* report.c */
void fy_ib_tell(const struct fy_ib_doctor *d, uint32_t level, const char *object, const char *advice,
                const char *format, ...) __attribute__((format(printf, 5, 6)));
/* "RoCE v2, 10.0.0.1 (gid index 3)" */
void fy_ib_address_text(const struct fy_ib_rail *rail, char *out, size_t size);
/* Opens the device for a moment: the port's attributes and the address that would be used. FERRY_OK, else why there
 * is none: FERRY_ERR_SYSTEM where it cannot be opened or asked. */
int fy_ib_look(const struct fy_ib_scan *s, const struct fy_ib_port *p, struct fy_ib_rail *rail, char *why,
               size_t why_size);

/* doctor.c: drivers, libraries, device files, cgroups, locked memory. */
void fy_ib_doctor_host(const struct fy_ib_doctor *d);
/* First line of a file below the root, without its end. 0: there is none. */
int fy_ib_read(const struct fy_ib_doctor *d, char *line, size_t size, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* doctor_ports.c: ports, addresses, packet sizes, atomics; what GPU memory needs. */
void fy_ib_doctor_ports(const struct fy_ib_doctor *d);
void fy_ib_doctor_gpu(const struct fy_ib_doctor *d);

#endif
