/* SPDX-License-Identifier: Apache-2.0
 * Marks for tracers (USDT, provider "ferry"): one instruction each that does nothing, and a note of where their arguments are.
 * Nothing at all without sys/sdt.h (meson option sdt). Whoever passes by. */
#ifndef FY_BASE_PROBE_H
#define FY_BASE_PROBE_H

#ifdef FY_SDT
#include <sys/sdt.h>
/* channel, peer, enum ferry_op_kind, bytes */
#define fy_probe_post(channel, pe, kind, length) DTRACE_PROBE4(ferry, post, channel, pe, kind, length)
/* channel, peer or -1: what was posted to it, and waited for, is complete */
#define fy_probe_completion(channel, pe) DTRACE_PROBE2(ferry, completion, channel, pe)
#define fy_probe_fence(channel, epoch)   DTRACE_PROBE2(ferry, fence, channel, epoch)
/* channel, peers with something outstanding; it then ends with a status */
#define fy_probe_quiet(channel, busy)      DTRACE_PROBE2(ferry, quiet, channel, busy)
#define fy_probe_quiet_end(channel, status) DTRACE_PROBE2(ferry, quiet_end, channel, status)
#else
#define fy_probe_post(channel, pe, kind, length)
#define fy_probe_completion(channel, pe)
#define fy_probe_fence(channel, epoch)
#define fy_probe_quiet(channel, busy)
#define fy_probe_quiet_end(channel, status)
#endif

#endif
